// The table of all runs: their options, their best values, sorted and filtered.

// Values that tell nothing about which run is better.
const _unranked = new Set(["learning_rate", "rows_per_second"]);
const _mostColumns = 12;

// Compare options or values: numbers before texts, and what is missing last.
function compare(a, b) {
  if (a === undefined || a === null) return b === undefined || b === null ? 0 : 1;
  if (b === undefined || b === null) return -1;
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a === "number") return -1;
  if (typeof b === "number") return 1;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

// A column reads one option or one best value of a run's summary: {key, title, kind, higher, of}.
function columnsOfRuns(runs) {
  const known = runs.map((run) => run.summary).filter(Boolean);
  const options = new Map();
  const values = new Map();
  for (const { config, best, scores } of known) {
    for (const [name, value] of Object.entries(config)) {
      if (!options.has(name)) options.set(name, new Set());
      options.get(name).add(value);
    }
    for (const name of Object.keys(best)) {
      if (!name.startsWith("running_")) values.set(name, scores.includes(name));
    }
  }
  // Options in which runs differ are what a table is read for.
  const differing = [...options].filter(([name, found]) => found.size > 1 || known.some((each) => !(name in each.config)));
  const chosen = (differing.length > 0 ? differing : [...options]).map(([name]) => name);
  const all = [...options.keys()].map((name) => ({ key: name, title: name, kind: "option", of: (run) => run.summary?.config[name] }));
  const ranked = [...values].sort(([a], [b]) => rankOf(a) - rankOf(b) || a.localeCompare(b));
  const metrics = ranked.map(([name, higher]) => ({
    key: name, title: name, kind: "value", higher, ranks: !_unranked.has(name), of: (run) => run.summary?.best[name],
  }));
  const differ = ({ key }) => chosen.includes(key);
  return { options: [...all.filter(differ), ...all.filter((each) => !differ(each))], metrics, shown: [...all.filter(({ key }) => chosen.includes(key)).slice(0, _mostColumns), ...metrics.filter(({ ranks }) => ranks).slice(0, _mostColumns)] };
}

function rankOf(name) {
  const place = ["validation_loss", "loss"].indexOf(name);
  return place >= 0 ? place : name.startsWith("validation_") ? 2 : 3;
}

// Return a function that tells whether a run passes a filter such as "optimizer=Adam loss<0.5 first", and the names in
// it that no run has.
function filterOf(text, columns) {
  const unknown = [];
  const checks = text.split(/\s+/).filter(Boolean).map((word) => {
    const found = /^([^<>=!]+)(<=|>=|!=|=|<|>)(.*)$/.exec(word);
    if (found === null) return (run) => run.name.toLowerCase().includes(word.toLowerCase());
    const [, key, operator, given] = found;
    const column = columns.find((each) => each.key === key);
    if (column === undefined) {
      unknown.push(key);
      return () => true;
    }
    const wanted = given !== "" && Number.isFinite(Number(given)) ? Number(given) : given;
    return (run) => {
      const value = column.of(run);
      const same = typeof value === "number" ? value === wanted : String(value ?? "").toLowerCase() === String(wanted).toLowerCase();
      if (operator === "=") return same;
      if (operator === "!=") return !same;
      if (value === undefined || value === null || typeof value !== typeof wanted) return false;
      return { "<": value < wanted, "<=": value <= wanted, ">": value > wanted, ">=": value >= wanted }[operator];
    };
  });
  return { passes: (run) => checks.every((check) => check(run)), unknown };
}

class RunTable {
  // `chosen` is called with the ids of runs and whether they are to be shown, `changed` after a new order or filter.
  constructor({ chosen, changed }) {
    this.chosen = chosen;
    this.changed = changed;
    this.sort = { key: "", down: false };
    this.rows = new Map();
    this.filter = element("input", {
      type: "search", placeholder: "name, option=value, loss<0.5", "aria-label": "Filter runs", input: () => { this.draw(); this.changed(); },
    });
    this.all = element("input", {
      type: "checkbox", "aria-label": "Show all runs of the table", change: () => this.chosen(this.passing.map(({ id }) => id), this.all.checked),
    });
    this.count = element("span", { class: "muted number" });
    this.hint = element("p", { class: "muted", role: "status" });
    this.head = element("tr");
    this.body = element("tbody");
    this.node = element(
      "details", { class: "panel", hidden: true, open: true },
      element("summary", {}, element("h2", {}, "Table of runs"), " ", this.count),
      element("div", { class: "choices" }, this.filter, this.hint),
      element(
        "div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of runs" },
        element("table", { class: "wide runs" }, element("caption", { class: "only-read" }, "Runs with their options and best values"), element("thead", {}, this.head), this.body),
      ),
    );
    this.passing = [];
  }

  // Show runs: {id, name, color, state, summary, shown}.
  show(runs) {
    this.runs = runs;
    this.draw();
  }

  draw() {
    const { options, metrics, shown } = columnsOfRuns(this.runs);
    [this.options, this.metrics] = [options, metrics];
    const { passes, unknown } = filterOf(this.filter.value, [...options, ...metrics]);
    this.hint.textContent = unknown.length > 0 ? `No run has ${unknown.map((name) => `"${name}"`).join(", ")}.` : "";
    const column = [...options, ...metrics].find(({ key }) => key === this.sort.key);
    const of = column?.of ?? ((run) => (this.sort.key === "name" ? run.name : undefined));
    this.passing = this.runs.filter(passes);
    if (this.sort.key !== "") {
      const sign = this.sort.down ? -1 : 1;
      const missing = (run) => of(run) === undefined || of(run) === null;
      this.passing.sort((a, b) => Number(missing(a)) - Number(missing(b)) || sign * compare(of(a), of(b)));
    }
    this.count.textContent = this.passing.length === this.runs.length ? wholeNumber(this.runs.length) : `${wholeNumber(this.passing.length)} of ${wholeNumber(this.runs.length)}`;
    this.node.hidden = this.runs.length < 2; // a single run has nothing to be compared with
    this.all.checked = this.passing.length > 0 && this.passing.every((run) => run.shown);
    this.all.indeterminate = !this.all.checked && this.passing.some((run) => run.shown);
    this.drawHead(shown);
    const best = new Map(shown.filter(({ ranks }) => ranks).map((each) => [each.key, this.bestOf(each)]));
    const wanted = this.passing.map((run) => this.row(run, shown, best));
    const rows = this.body.children;
    if (wanted.length !== rows.length || wanted.some((node, i) => node !== rows[i])) this.body.replaceChildren(...wanted);
  }

  bestOf({ of, higher }) {
    const values = this.passing.map(of).filter((value) => typeof value === "number");
    return higher ? Math.max(...values) : Math.min(...values);
  }

  drawHead(columns) {
    const shape = JSON.stringify([columns.map(({ key, kind, higher }) => [key, kind, higher]), this.sort]);
    if (shape === this.shape) return;
    this.shape = shape;
    const head = (key, title, kind, first, note) => {
      const sorted = this.sort.key === key;
      const press = () => {
        this.sort = { key, down: sorted ? !this.sort.down : first };
        this.draw();
        this.head.querySelector(`[data-key="${CSS.escape(key)}"]`).focus();
        this.changed();
      };
      const arrow = sorted ? (this.sort.down ? " ↓" : " ↑") : "";
      return element(
        "th", { scope: "col", class: kind === "value" ? "number" : null, "aria-sort": sorted ? (this.sort.down ? "descending" : "ascending") : null },
        element("button", { class: "link", "data-key": key, title: note, click: press }, `${title}${arrow}`),
      );
    };
    this.head.replaceChildren(
      element("th", { scope: "col" }, this.all),
      head("name", "Run", "option", false, "Sort by name"),
      element("th", { scope: "col" }, "State"),
      ...columns.map(({ key, title, kind, higher }) =>
        kind === "value"
          ? head(key, `${higher ? "highest" : "lowest"} ${title}`, kind, Boolean(higher), `The ${higher ? "highest" : "lowest"} value of the run`)
          : head(key, title, kind, false, `The option ${title}`)),
    );
  }

  row(run, columns, best) {
    if (!this.rows.has(run.id)) {
      const box = element("input", { type: "checkbox", "aria-label": run.name, change: () => this.chosen([run.id], box.checked) });
      this.rows.set(run.id, { node: element("tr"), box, shape: "" });
    }
    const known = this.rows.get(run.id);
    known.box.checked = run.shown;
    const cells = columns.map((column) => {
      const value = column.of(run);
      const marked = best.get(column.key) === value && this.passing.length > 1;
      return [optionText(value), column.kind, marked];
    });
    const shape = JSON.stringify([run.name, run.state, run.shown && run.color, cells]);
    if (shape === known.shape) return known.node;
    known.shape = shape;
    const swatch = element("span", { class: "swatch square" });
    swatch.style.setProperty("--swatch", run.shown ? `var(${run.color})` : "transparent");
    known.node.replaceChildren(
      element("td", {}, known.box), element("th", { scope: "row" }, swatch, run.name),
      element("td", { class: `state ${run.state[0]}` }, run.state[1]),
      ...cells.map(([text, kind, marked]) => element("td", { class: kind === "value" ? `number${marked ? " best" : ""}` : null, title: marked ? "The best of these runs" : null }, text)),
    );
    return known.node;
  }
}

function optionText(value) {
  if (value === undefined || value === null) return "–";
  return typeof value === "number" ? figure(value) : String(value);
}
