// One value of all runs of the table against one option.

const _margin = { left: 62, right: 12, top: 10, bottom: 34 };

class Scatter {
  constructor({ chosen, changed }) {
    this.chosen = chosen;
    const select = (label) => element("select", { "aria-label": label, change: () => { this.draw(); changed(); } });
    this.value = select("Value");
    this.option = select("Option");
    this.picture = element("div");
    this.node = element(
      "details", { class: "panel", hidden: true, toggle: () => { this.draw(); changed(); } },
      element("summary", {}, element("h2", {}, "A value against an option")),
      element("div", { class: "choices" }, element("label", {}, "Value ", this.value), element("label", {}, "Option ", this.option)),
      this.picture,
    );
    this.wanted = {};
    this.columns = [];
  }

  // Show runs of the table with its columns; `wanted` are choices of a link, until they exist.
  show(runs, options, metrics) {
    this.runs = runs;
    this.columns = [...options, ...metrics];
    this.fill(this.value, metrics, "value");
    this.fill(this.option, options, "option");
    this.node.hidden = runs.length < 2 || metrics.length === 0 || options.length === 0;
    this.draw();
  }

  fill(select, columns, which) {
    const names = JSON.stringify(columns.map(({ key }) => key));
    if (select.dataset.names !== names) {
      const before = select.value;
      select.dataset.names = names;
      select.replaceChildren(...columns.map(({ key }) => element("option", { value: key }, key)));
      if (columns.some(({ key }) => key === before)) select.value = before;
    }
    if (columns.some(({ key }) => key === this.wanted[which])) {
      select.value = this.wanted[which];
      delete this.wanted[which];
    }
  }

  draw() {
    if (!this.node.open || this.node.hidden || this.columns.length === 0) return;
    const [value, option] = [this.value, this.option].map((select) => this.columns.find(({ key }) => key === select.value));
    if (value === undefined || option === undefined) return;
    const points = this.runs
      .map((run) => ({ run, x: option.of(run), y: value.of(run) }))
      .filter(({ x, y }) => x !== undefined && x !== null && typeof y === "number")
      .sort((a, b) => Number(a.run.shown) - Number(b.run.shown));
    const shape = JSON.stringify([value.key, option.key, points.map(({ run, x, y }) => [run.id, run.shown && run.color, x, y])]);
    if (shape === this.shape) return;
    this.shape = shape;
    this.picture.replaceChildren(points.length === 0 ? element("p", { class: "muted" }, "No run has both.") : this.svg(points, value, option));
  }

  svg(points, value, option) {
    const [width, height] = [640, 300];
    const { left, right, top, bottom } = _margin;
    const across = placesOf(points.map(({ x }) => x), left + 10, width - right - 10);
    const up = placesOf(points.map(({ y }) => y), height - bottom - 6, top + 6);
    const svg = svgElement("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", class: "scatter" });
    svg.setAttribute("aria-label", `${value.title} against ${option.title}, ${countText(points.length, "run")}`);
    svg.append(
      svgElement("line", { x1: left, x2: width - right, y1: height - bottom, y2: height - bottom, class: "axis" }),
      svgElement("line", { x1: left, x2: left, y1: top, y2: height - bottom, class: "axis" }),
    );
    for (const [at, text] of across.ticks) svg.append(svgElement("text", { x: at, y: height - bottom + 14, "text-anchor": "middle" }, text));
    for (const [at, text] of up.ticks) svg.append(svgElement("text", { x: left - 6, y: at + 4, "text-anchor": "end" }, text));
    svg.append(svgElement("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, option.title));
    for (const { run, x, y } of points) {
      const words = `${run.name}: ${option.title} ${optionText(x)}, ${value.title} ${figure(y)}`;
      const press = () => this.chosen([run.id], !run.shown);
      const dot = svgElement(
        "circle",
        {
          cx: across.place(x), cy: up.place(y), r: run.shown ? 6 : 4.5, tabindex: "0", role: "button", "aria-pressed": String(run.shown),
          class: run.shown ? "shown" : null, click: press,
          keydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); press(); } },
        },
        svgElement("title", {}, words),
      );
      dot.setAttribute("aria-label", words);
      dot.style.setProperty("--swatch", run.shown ? `var(${run.color})` : "var(--neutral)");
      svg.append(dot);
    }
    return svg;
  }
}

// Where values lie between two pixels: numbers on a line, logarithmic if they are positive and far apart, texts in order.
function placesOf(values, from, to) {
  const distinct = [...new Set(values)].sort(compare);
  const between = (share) => from + share * (to - from);
  if (distinct.some((value) => typeof value !== "number") || distinct.length === 1) {
    const place = (value) => between((distinct.indexOf(value) + 0.5) / distinct.length);
    return { place, ticks: distinct.length <= 12 ? distinct.map((value) => [place(value), optionText(value)]) : [] };
  }
  const [low, high] = [distinct[0], distinct.at(-1)];
  const scale = low > 0 && high / low > 30 ? Math.log : (value) => value;
  const place = (value) => between((scale(value) - scale(low)) / (scale(high) - scale(low)));
  const middle = scale === Math.log ? Math.sqrt(low * high) : (low + high) / 2;
  const marks = distinct.length <= 6 && scale === Math.log ? distinct : [low, middle, high];
  return { place, ticks: marks.map((value) => [place(value), figure(+value.toPrecision(3))]) };
}
