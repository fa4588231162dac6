// Norms of weights, gradients and updates by module, and dead units: tables of one run, charts of all that are shown.

const _words = {
  weights: ["Weight norm", "The Euclidean norm of the module's parameters."],
  gradients: ["Gradient norm", "The Euclidean norm of the gradients of one batch with respect to the module's parameters."],
  updates: ["Update / weight", "The norm of the change of the parameters over the steps named above, divided by their norm before it."],
};

class ModulePanel {
  constructor(onChoice) {
    this.chosen = null;
    this.onChoice = onChoice;
    this.filter = element("input", {
      type: "search", placeholder: "Filter modules", "aria-label": "Filter modules", input: () => this.draw(),
    });
    this.caption = element("p", { class: "muted" });
    this.body = element("tbody");
    this.table = element(
      "table", { class: "wide" },
      element("caption", { class: "only-read" }, "Norms by module"),
      element(
        "thead", {},
        element(
          "tr", {},
          ...["Module", "Parameters", ...Object.values(_words).map(([name]) => name), "Gradient norm over time"].map((name, i) =>
            element("th", { scope: "col", class: i > 0 && i < 5 ? "number" : null }, name)),
        ),
      ),
      this.body,
    );
    this.charts = element("div", { class: "grid" });
    this.drawn = new Map();
    this.node = element(
      "section", { class: "panel", "aria-labelledby": "modules-title" },
      element("header", {}, element("h2", { id: "modules-title" }, "Modules"), this.filter),
      this.caption,
      element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Norms by module" }, this.table),
      this.charts,
    );
  }

  // Show the modules of one run in the table, and of all `runs` in the charts of the chosen module.
  show(run, runs, settings) {
    [this.run, this.runs, this.settings] = [run, runs, settings];
    this.draw();
  }

  draw() {
    const { run } = this;
    this.node.hidden = !run || !run.lastModules;
    if (this.node.hidden) return;
    const { rows } = run.lastGradients ?? {};
    const last = run.lastModules;
    const texts = [`${run.name}, step ${wholeNumber(last.step)}.`];
    if (last.over !== null) texts.push(`Updates are over ${countText(last.over, "step")}.`);
    if (run.lastGradients === null) texts.push("Gradients are measured when there is time for them within the budget.");
    else texts.push(`Gradients are those ${rows === null ? "of a step" : `of ${countText(rows, "row")}`}, at step ${wholeNumber(run.lastGradients.step)}.`);
    this.caption.textContent = texts.join(" ");
    const words = this.filter.value.toLowerCase();
    const modules = run.start.modules.map((name, i) => [name, run.start.sizes[i]]);
    this.body.replaceChildren(
      ...modules.filter(([name]) => name.toLowerCase().includes(words)).map(([name, size]) => this.row(name, size)),
    );
    this.drawCharts();
  }

  row(name, size) {
    const series = (quantity) => this.run.modules.get(`${quantity}/${name}`);
    const chosen = this.chosen === name;
    const button = element(
      "button", { class: "link", "aria-expanded": String(chosen), click: () => this.choose(chosen ? null : name) }, name,
    );
    return element(
      "tr", { class: chosen ? "chosen" : null },
      element("th", { scope: "row" }, button),
      element("td", { class: "number" }, wholeNumber(size)),
      ...QUANTITIES.map((quantity) => element("td", { class: "number" }, figure(series(quantity)?.last))),
      element("td", {}, sparkline(series("gradients")?.value ?? [], this.run.color)),
    );
  }

  choose(name) {
    this.chosen = name;
    const focused = document.activeElement?.textContent;
    this.draw();
    [...this.body.querySelectorAll("button")].find((button) => button.textContent === focused)?.focus();
    this.onChoice();
  }

  drawCharts() {
    for (const [key, chart] of this.drawn) {
      if (!key.endsWith(`/${this.chosen}`)) {
        chart.remove();
        this.drawn.delete(key);
      }
    }
    if (this.chosen === null) return;
    for (const quantity of QUANTITIES) {
      const key = `${quantity}/${this.chosen}`;
      const lines = this.runs
        .filter((run) => run.modules.has(key))
        .map((run) => ({ key: run.id, name: run.name, kind: "main", color: run.color, series: run.modules.get(key) }));
      if (lines.length === 0) continue;
      if (!this.drawn.has(key)) {
        const [name, note] = _words[quantity];
        const chart = new Chart(`${name}: ${this.chosen}`, { note, height: 170 });
        this.drawn.set(key, chart);
        this.charts.append(chart.node);
      }
      this.drawn.get(key).show(lines, this.settings);
    }
  }
}

class DeadUnits {
  constructor() {
    this.body = element("tbody");
    this.caption = element("p", { class: "muted" });
    this.node = element(
      "section", { class: "panel", "aria-labelledby": "dead-title" },
      element("h2", { id: "dead-title" }, "Dead units"),
      this.caption,
      element(
        "div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Dead units" },
        element(
          "table", { class: "wide" },
          element("caption", { class: "only-read" }, "Dead units by activation"),
          element(
            "thead", {},
            element(
              "tr", {}, element("th", { scope: "col" }, "Activation"), element("th", { scope: "col", class: "number" }, "Dead"),
              element("th", { scope: "col", class: "number" }, "Units"), element("th", { scope: "col", class: "number" }, "Share"),
              element("th", { scope: "col" }, "Share over time"),
            ),
          ),
          this.body,
        ),
      ),
    );
  }

  show(run) {
    const record = run?.lastDead ?? null;
    this.node.hidden = record === null;
    if (record === null) return;
    this.caption.textContent =
      `${run.name}, step ${wholeNumber(record.step)}. A unit is an index along the last axis of a relu, or a channel after a ` +
      `convolution. It is dead if the relu is zero there for all ${countText(record.rows ?? 0, "row")} of the batch.`;
    this.body.replaceChildren(
      ...Object.entries(record.dead).map(([name, [dead, units]]) =>
        element(
          "tr", {},
          element("th", { scope: "row" }, name),
          element("td", { class: "number" }, wholeNumber(dead)),
          element("td", { class: "number" }, wholeNumber(units)),
          element("td", { class: "number" }, units > 0 ? `${((100 * dead) / units).toFixed(1)} %` : "–"),
          element("td", {}, sparkline(run.dead.get(name)?.value ?? [], run.color)),
        )),
    );
  }
}

// Text that the runs generated, the newest first.
class Texts {
  constructor() {
    this.list = element("ol", { class: "texts" });
    this.node = element(
      "section", { class: "panel", "aria-labelledby": "texts-title" },
      element("h2", { id: "texts-title" }, "Generated text"), this.list,
    );
    this.shape = "";
  }

  show(runs) {
    const all = runs.flatMap((run) => run.texts.map((text) => ({ run, text })));
    this.node.hidden = all.length === 0;
    const shape = JSON.stringify(all.map(({ run, text }) => [run.id, run.color, text.step, text.time]));
    if (shape === this.shape) return;
    this.shape = shape;
    all.sort((a, b) => b.text.time - a.text.time || b.text.step - a.text.step);
    this.list.replaceChildren(
      ...all.slice(0, 50).map(({ run, text }) => {
        const swatch = element("span", { class: "swatch main" });
        swatch.style.setProperty("--swatch", `var(${run.color})`);
        const prompt = text.prompt !== null && text.text.startsWith(text.prompt) ? text.prompt : "";
        return element(
          "li", {},
          element("p", { class: "muted" }, swatch, `${run.name}, step ${wholeNumber(text.step)}`),
          element("p", { class: "story" }, prompt ? element("b", {}, prompt) : null, text.text.slice(prompt.length)),
        );
      }),
    );
  }
}
