// Line charts of series of several runs, drawn by uPlot.

const _probe = element("span", { hidden: true });
const _colors = new Map();

// Return a colour of the style sheet as a canvas takes it; light and dark have their own.
function color(name) {
  if (!_probe.isConnected) document.body.append(_probe);
  if (!_colors.has(name)) {
    _probe.style.color = `var(${name})`;
    _colors.set(name, getComputedStyle(_probe).color);
  }
  return _colors.get(name);
}

const _charts = new Set();

function redrawCharts() {
  _colors.clear();
  for (const chart of _charts) chart.plot?.redraw(false, true);
}

const AXIS_NAMES = { step: "Step", epoch: "Epoch", elapsed: "Time" };

// The mean of a point and those before it, with weights that fall by `factor` from one to the next.
function smoothed(values, factor) {
  if (factor === 0) return values;
  let mean = 0;
  let weight = 0;
  return values.map((value) => {
    if (value === null || !Number.isFinite(value)) return value;
    mean = factor * mean + (1 - factor) * value;
    weight = factor * weight + (1 - factor);
    return mean / weight;
  });
}

// A chart with its title and a table of the values at the cursor, or the last ones.
class Chart {
  constructor(title, { note = "", height = 210 } = {}) {
    this.title = title;
    this.height = height;
    this.plot = null;
    this.lines = [];
    this.shape = "";
    this.zoomed = false;
    this.canvas = element("div", {
      class: "plot", tabindex: "0", role: "group", "aria-roledescription": "chart",
      keydown: (event) => this.key(event),
    });
    this.rows = element("tbody");
    this.at = element("span", { class: "muted number" });
    this.node = element(
      "section",
      { class: "panel chart" },
      element("header", {}, element("h3", {}, title), this.at),
      note ? element("p", { class: "muted note" }, note) : null,
      this.canvas,
      element("table", { class: "legend" }, element("caption", { class: "only-read" }, `Values of ${title}`), this.rows),
    );
    new ResizeObserver(() => this.resize()).observe(this.canvas);
    _charts.add(this);
  }

  remove() {
    this.plot?.destroy();
    this.node.remove();
    _charts.delete(this);
  }

  // Show lines {key, name, kind, color, series}: `kind` is "main", "validation" or "running".
  show(lines, settings) {
    const drawn = lines.filter((line) => line.series.value.length > 0);
    const shape = JSON.stringify([
      settings.axis, settings.log, settings.smoothing > 0, drawn.map((line) => [line.key, line.name, line.kind, line.color]),
    ]);
    this.settings = settings;
    this.lines = drawn;
    const data = this.data(drawn, settings);
    if (shape !== this.shape || this.plot === null) {
      this.plot?.destroy();
      this.shape = shape;
      this.zoomed = false;
      this.plot = new uPlot(this.options(drawn, settings), data, this.canvas);
      this.rows.replaceChildren(...drawn.map((line) => this.row(line)));
    } else {
      this.plot.setData(data, !this.zoomed);
    }
    this.values(null);
  }

  // The columns of uPlot: x, then for each line the smoothed values, and with smoothing the values themselves.
  data(lines, { axis, log, smoothing }) {
    const tables = lines.map(({ series }) => {
      const raw = series.value.map((value) => (Math.abs(value) < 1e300 && (!log || value > 0) ? value : null));
      return smoothing > 0 ? [series[axis], smoothed(raw, smoothing), raw] : [series[axis], raw];
    });
    return tables.length > 0 ? uPlot.join(tables.map(ascending)) : [[]];
  }

  options(lines, { axis, log, smoothing }) {
    const series = [{}];
    for (const { kind, color: name } of lines) {
      const stroke = () => color(name);
      const style = { main: { width: 2 }, validation: { width: 2, dash: [6, 4] }, running: { width: 1, alpha: 0.55 } }[kind];
      series.push({ ...style, stroke, spanGaps: true, points: { show: showPoints, size: 5 } });
      if (smoothing > 0) series.push({ stroke, width: 1, alpha: 0.22, spanGaps: true, points: { show: false } });
    }
    const line = { stroke: () => color("--line"), width: 1 };
    const common = { stroke: () => color("--muted"), font: "11px system-ui, sans-serif", grid: line, ticks: { ...line, size: 4 } };
    const time = (values) => values.map((value) => (value === null ? "" : durationText(value)));
    return {
      width: Math.max(this.canvas.clientWidth, 120),
      height: this.height,
      legend: { show: false },
      cursor: { sync: { key: "runs", setSeries: false }, points: { size: 7 }, drag: { x: true, y: false } },
      scales: { x: { time: false }, y: { distr: log ? 3 : 1 } },
      axes: [
        { ...common, space: 70, size: 30, values: (_, values) => (axis === "elapsed" ? time(values) : values.map(shortFigure)) },
        { ...common, size: 62, values: (_, values) => axisFigures(values, log) },
      ],
      series,
      hooks: {
        setCursor: [(plot) => this.values(plot.cursor.idx)],
        setSelect: [() => { this.zoomed = true; }],
        ready: [(plot) => plot.over.addEventListener("dblclick", () => { this.zoomed = false; })],
      },
    };
  }

  row(line) {
    line.cell = element("td", { class: "number" });
    const swatch = element("span", { class: `swatch ${line.kind}` });
    swatch.style.setProperty("--swatch", `var(${line.color})`);
    const kind = { main: "", validation: "validation", running: "within the epoch" }[line.kind];
    return element(
      "tr", {},
      element("td", {}, swatch, line.name, kind ? element("span", { class: "muted" }, ` ${kind}`) : null),
      line.cell,
    );
  }

  // Show the values at an index of the data, or the last ones.
  values(index) {
    if (this.plot === null) return;
    const width = this.settings.smoothing > 0 ? 2 : 1;
    const x = this.plot.data[0];
    const end = index ?? x.length - 1;
    const cells = this.rows.rows;
    const words = [];
    this.lines.forEach((line, position) => {
      const column = this.plot.data[1 + position * width];
      let at = end;
      while (at >= 0 && (column[at] === null || column[at] === undefined)) at -= 1;
      const value = index === null ? lastShown(line.series.value, column, at) : at >= 0 ? column[at] : null;
      cells[position].lastChild.textContent = figure(value);
      words.push(`${line.name} ${line.kind === "main" ? "" : line.kind} ${figure(value)}`);
    });
    const place = x.length === 0 ? "" : placeText(this.settings.axis, x[end]);
    const smooth = this.settings.smoothing > 0 ? "smoothed" : "";
    this.at.textContent = [index === null ? "" : place, smooth].filter(Boolean).join(", ");
    this.canvas.setAttribute(
      "aria-label", `${this.title}. ${place}: ${words.join(", ")}. Arrow keys move the cursor, Escape ends a zoom.`,
    );
    this.words = `${place}: ${words.join(", ")}`;
  }

  key(event) {
    const x = this.plot?.data[0] ?? [];
    if (event.key === "Escape") {
      this.zoomed = false;
      this.plot?.setData(this.plot.data, true);
      return;
    }
    if (x.length === 0 || !["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
    event.preventDefault();
    const now = this.plot.cursor.idx ?? x.length;
    const stride = event.shiftKey ? Math.max(1, Math.round(x.length / 20)) : 1;
    const next = { ArrowLeft: now - stride, ArrowRight: now + stride, Home: 0, End: x.length - 1 }[event.key];
    const at = Math.max(0, Math.min(x.length - 1, next));
    this.plot.setCursor({ left: this.plot.valToPos(x[at], "x"), top: 10 });
    this.values(at);
    announce(this.words);
  }

  resize() {
    const width = this.canvas.clientWidth;
    if (this.plot !== null && width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: this.height });
  }
}

// A number that is not finite is worth knowing, though no line can show it.
function lastShown(values, column, at) {
  const last = values[values.length - 1];
  return Number.isFinite(last) ? (at >= 0 ? column[at] : null) : last;
}

// Few points are shown as such.
function showPoints(plot, index) {
  return plot.data[index].reduce((count, value) => count + (value !== null && value !== undefined), 0) < 40;
}

function shortFigure(value) {
  return value === null ? "" : shortNumber(value).replace(/(\.\d*?)0+ /, "$1 ").replace(". ", " ");
}

// The numbers of a vertical axis, with as many digits as tell them apart.
function axisFigures(values, log) {
  const shown = values.filter((value) => value !== null);
  const most = Math.max(...shown.map(Math.abs));
  const step = log || shown.length < 2 ? most : Math.abs(shown[1] - shown[0]);
  const digits = Math.max(0, Math.min(6, Math.ceil(Math.log10(most / step) - 1e-9)));
  return values.map((value) => {
    if (value === null) return "";
    if (value === 0 || most >= 1e6) return shortFigure(value);
    if (most < 1e-3) return value.toExponential(digits);
    return digits > 3 ? value.toPrecision(digits + 1) : figure(value);
  });
}

function placeText(axis, value) {
  if (axis === "elapsed") return durationText(value);
  return `${AXIS_NAMES[axis].toLowerCase()} ${axis === "step" ? wholeNumber(value) : +value.toFixed(3)}`;
}

// uPlot joins tables whose x ascends; of equal ones it keeps the last.
function ascending(table) {
  const x = table[0];
  let sorted = true;
  for (let i = 1; i < x.length; i += 1) if (x[i] <= x[i - 1]) sorted = false;
  if (sorted) return table;
  const order = [...x.keys()].sort((a, b) => x[a] - x[b] || a - b).filter((at, i, all) => x[at] !== x[all[i + 1]]);
  return table.map((column) => order.map((at) => column[at]));
}

// A line as small as a word, as an SVG; the vertical axis is logarithmic if all values are positive.
function sparkline(values, name) {
  const finite = values.filter(Number.isFinite);
  const stride = Math.max(1, Math.ceil(finite.length / 60));
  const some = finite.filter((_, i) => i % stride === 0 || i === finite.length - 1);
  const [width, height] = [110, 22];
  const svg = svgElement("svg", { class: "spark", width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
  svg.setAttribute("aria-label", some.length > 0 ? `from ${figure(some[0])} to ${figure(some[some.length - 1])}` : "no values");
  if (some.length < 2) return svg;
  const scaled = some.every((value) => value > 0) ? some.map(Math.log) : some;
  const [low, high] = [Math.min(...scaled), Math.max(...scaled)];
  const points = scaled.map((value, i) => {
    const y = high > low ? height - 3 - ((value - low) / (high - low)) * (height - 6) : height / 2;
    return `${((i / (scaled.length - 1)) * (width - 2) + 1).toFixed(1)},${y.toFixed(1)}`;
  });
  const line = svgElement("polyline", { points: points.join(" "), fill: "none", "stroke-width": "1.5" });
  line.style.stroke = `var(${name})`;
  svg.append(line);
  return svg;
}
