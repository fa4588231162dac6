// Histograms of one parameter and its gradient, which the server reads when they are asked for.

class HistogramPanel {
  constructor() {
    this.run = null;
    this.records = [];
    this.parameter = element("select", { "aria-label": "Parameter", change: () => this.load() });
    this.place = element("input", {
      type: "range", min: "0", max: "0", value: "0", "aria-label": "Time of the histograms", input: () => this.draw(),
    });
    this.when = element("span", { class: "muted number" });
    this.message = element("p", { class: "muted", role: "status" });
    this.pictures = element("div", { class: "grid" });
    this.node = element(
      "details", { class: "panel", toggle: () => this.node.open && this.load() },
      element("summary", {}, element("h2", {}, "Histograms")),
      element(
        "div", { class: "choices" },
        this.parameter, element("label", {}, "Earlier ", this.place, " later"), this.when,
        element("button", { click: () => this.load() }, "Load again"),
      ),
      this.message,
      this.pictures,
    );
  }

  show(run) {
    this.node.hidden = !run || (run.start?.parameters.length ?? 0) === 0;
    if (this.node.hidden) return;
    const names = JSON.stringify([run.id, run.start.parameters]);
    const changed = names !== this.names;
    this.run = run;
    if (!changed) return;
    this.names = names;
    this.parameter.replaceChildren(...run.start.parameters.map((name) => element("option", { value: name }, name)));
    if (this.node.open) this.load();
  }

  async load() {
    if (this.run === null) return;
    const query = new URLSearchParams({ run: this.run.id, name: this.parameter.value });
    this.message.textContent = "Loading …";
    try {
      const response = await fetch(`histograms?${query}`, { cache: "no-store" });
      if (!response.ok) throw new Error(await response.text());
      this.records = await response.json();
    } catch (error) {
      this.message.textContent = `The histograms did not load: ${error.message}`;
      return;
    }
    this.message.textContent = this.records.length === 0 ? "There is no histogram of this parameter yet." : "";
    this.place.max = String(Math.max(0, this.records.length - 1));
    this.place.value = this.place.max;
    this.draw();
  }

  draw() {
    const record = this.records[Number(this.place.value)];
    this.when.textContent = record
      ? `step ${wholeNumber(record.step)}, ${+this.place.value + 1} of ${this.records.length}` : "";
    this.pictures.replaceChildren();
    if (!record) return;
    for (const [key, title] of [["weights", "Weights"], ["gradients", "Gradients"]]) {
      if (record[key] !== null) this.pictures.append(this.picture(title, record[key], key));
    }
  }

  picture(title, [lowest, highest, counts, notFinite], key) {
    const [low, high] = [asNumber(lowest), asNumber(highest)];
    const [width, height, floor] = [420, 170, 148];
    const most = Math.max(...counts, 1);
    const total = counts.reduce((sum, count) => sum + count, 0);
    const step = width / counts.length;
    const svg = svgElement("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: `histogram ${key}` });
    svg.setAttribute(
      "aria-label", `${title} of ${this.parameter.value}: ${countText(total, "element")} from ${figure(low)} to ${figure(high)}`,
    );
    counts.forEach((count, i) => {
      const size = (count / most) * (floor - 8);
      const bar = svgElement("rect", { x: i * step + 0.5, y: floor - size, width: step - 1, height: size });
      const edge = (at) => figure(low + ((high - low) * at) / counts.length);
      bar.append(svgElement("title", {}, `${edge(i)} to ${edge(i + 1)}: ${wholeNumber(count)}`));
      svg.append(bar);
    });
    svg.append(svgElement("line", { x1: 0, x2: width, y1: floor, y2: floor, class: "axis" }));
    const label = (x, anchor, text) => svg.append(svgElement("text", { x, y: height - 6, "text-anchor": anchor }, text));
    label(1, "start", figure(low));
    label(width - 1, "end", figure(high));
    if (low < 0 && high > 0) {
      const zero = (-low / (high - low)) * width;
      svg.append(svgElement("line", { x1: zero, x2: zero, y1: 4, y2: floor, class: "zero" }));
      if (zero > 70 && zero < width - 70) label(zero, "middle", "0");
    }
    const text = notFinite > 0 ? ` ${countText(notFinite, "element")} not finite.` : "";
    return element("figure", {}, element("h3", {}, title), svg, element("figcaption", { class: "muted" }, `${countText(total, "element")}.${text}`));
  }
}
