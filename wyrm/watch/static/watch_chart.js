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

// The lines of a legend, and their kinds in words.
const _mostRows = 16;
const _kinds = { main: "", validation: "validation", running: "within the epoch" };

const AXIS_NAMES = { step: "Step", epoch: "Epoch", elapsed: "Time" };

// A chart with its title and a table of the values at the cursor, or the last ones.
class Chart {
  constructor(title, { note = "", height = 210 } = {}) {
    this.title = title;
    this.height = height;
    this.plot = null;
    this.lines = [];
    this.shape = "";
    this.range = null; // the part of the axis that a zoom shows
    this.canvas = element("div", {
      class: "plot", tabindex: "0", role: "group", "aria-roledescription": "chart",
      keydown: (event) => this.key(event),
    });
    this.head = element("thead");
    this.rows = element("tbody");
    this.rest = element("p", { class: "muted note" });
    this.at = element("p", { class: "muted number at" });
    const file = (words, save) => element("button", { class: "small", "aria-label": `${title} as ${words}`, click: save }, words);
    this.node = element(
      "section",
      { class: "panel chart" },
      element(
        "header", {}, element("h3", {}, title),
        element("span", { class: "files" }, file("CSV", () => saveFile(`${title}.csv`, csvOf(this.lines))), file("PNG", () => this.savePicture())),
      ),
      note ? element("p", { class: "muted note" }, note) : null,
      this.at,
      this.canvas,
      element("table", { class: "legend" }, element("caption", { class: "only-read" }, `Values of ${title}`), this.head, this.rows),
      this.rest,
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
      settings.axis, settings.log, drawn.map((line) => [line.key, line.name, line.kind, line.color, columnsOf(line, settings, drawn.length)]),
    ]);
    this.settings = settings;
    this.lines = drawn;
    if (shape !== this.shape || this.plot === null) {
      this.plot?.destroy();
      this.shape = shape;
      this.range = null;
      this.plot = new uPlot(this.options(drawn, settings), joinedLines(drawn, settings, null), this.canvas);
      this.drawLegend();
    } else {
      this.plot.setData(joinedLines(drawn, settings, this.range), this.range === null);
    }
    this.values(null);
  }

  options(lines, settings) {
    const { axis, log } = settings;
    const series = [{}];
    const bands = [];
    // The first column of each line.
    this.columns = [];
    for (const line of lines) {
      const stroke = () => color(line.color);
      const names = columnsOf(line, settings, lines.length);
      const style = { main: { width: 2 }, validation: { width: 2, dash: [6, 4] }, running: { width: 1, alpha: 0.55 } }[line.kind];
      const looks = {
        value: names.includes("smoothed") ? { width: 1, alpha: 0.3, points: { show: false } } : { ...style, points: { show: showPoints, size: 5 } },
        smoothed: { ...style, alpha: 1, points: { show: false } },
        low: { width: 1, alpha: 0.35, points: { show: false } },
        high: { width: 1, alpha: 0.35, points: { show: false } },
      };
      this.columns.push(series.length);
      if (names.includes("high")) {
        const high = series.length + names.indexOf("high");
        bands.push({ series: [high, high - 1], fill: () => color(line.color).replace(/^rgb\((.*)\)$/, "rgba($1, 0.18)") });
      }
      series.push(...names.map((name) => ({ stroke, spanGaps: true, ...looks[name] })));
    }
    const line = { stroke: () => color("--line"), width: 1 };
    const common = { stroke: () => color("--muted"), font: "11px system-ui, sans-serif", grid: line, ticks: { ...line, size: 4 } };
    const time = (values) => values.map((value) => (value === null ? "" : durationText(value)));
    const hasPoint = (at) => this.columns.includes(at) || series[at].alpha === 1;
    return {
      width: Math.max(this.canvas.clientWidth, 120),
      height: this.height,
      legend: { show: false },
      cursor: {
        sync: { key: "runs", setSeries: false }, drag: { x: true, y: false },
        // The dot of a line is at the point whose value the legend shows.
        dataIdx: (plot, at, index) => nearestPoint(plot.data[at], index),
        points: { size: (_, at) => (hasPoint(at) ? 7 : 0), ...(lines.length > _mostRows ? { show: () => null } : {}) },
      },
      scales: { x: { time: false }, y: { distr: log ? 3 : 1 } },
      axes: [
        { ...common, space: 70, size: 30, values: (_, values) => (axis === "elapsed" ? time(values) : values.map(shortFigure)) },
        { ...common, size: 62, values: (_, values) => axisFigures(values, log) },
      ],
      series,
      bands,
      hooks: {
        setCursor: [(plot) => this.values(plot.cursor.idx)],
        setSelect: [(plot) => this.zoom([plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x")])],
        ready: [(plot) => plot.over.addEventListener("dblclick", () => this.zoom(null))],
      },
    };
  }

  // Show a part of the axis, with as many points as fit into it; null for all of it.
  zoom(range) {
    this.range = range;
    setTimeout(() => {
      this.plot?.setData(joinedLines(this.lines, this.settings, range), range === null);
      if (range !== null) this.plot?.setScale("x", { min: range[0], max: range[1] });
    });
  }

  drawLegend() {
    const both = this.lines.some((line) => isSmoothed(line, this.settings));
    const heads = both ? ["Line", "Value", "Smoothed", ""] : [];
    this.head.replaceChildren(
      element("tr", {}, ...heads.map((text, i) => element("th", { scope: "col", class: i === 1 || i === 2 ? "number" : null }, text))),
    );
    this.head.hidden = !both;
    this.rows.replaceChildren(...this.lines.slice(0, _mostRows).map((line) => this.row(line, both)));
    const more = this.lines.length - _mostRows;
    this.rest.textContent = more > 0 ? `and ${countText(more, "more line")}` : "";
    this.rest.hidden = more <= 0;
  }

  row(line, both) {
    const swatch = element("span", { class: `swatch ${line.kind}` });
    swatch.style.setProperty("--swatch", `var(${line.color})`);
    const kind = _kinds[line.kind];
    return element(
      "tr", {},
      element("td", {}, swatch, line.name, kind ? element("span", { class: "muted" }, ` ${kind}`) : null),
      element("td", { class: "number value" }),
      both ? element("td", { class: "number value" }) : null,
      element("td", { class: "number muted place" }),
    );
  }

  // Show the point of each line that is nearest to an index of the data, or the last ones.
  values(index) {
    if (this.plot === null) return;
    const x = this.plot.data[0];
    const end = index ?? x.length - 1;
    const words = [];
    this.lines.slice(0, _mostRows).forEach((line, position) => {
      const column = this.columns[position];
      const at = nearestPoint(this.plot.data[column], end);
      const value = index === null ? line.series.last : at < 0 ? null : this.plot.data[column][at];
      const { cells } = this.rows.rows[position];
      cells[1].textContent = figure(value);
      const smooth = isSmoothed(line, this.settings) && at >= 0 ? figure(this.plot.data[column + 1][at]) : "";
      if (cells.length > 3) cells[2].textContent = smooth || "–";
      const place = index !== null && at >= 0 && at !== end ? `at ${placeText(this.settings.axis, x[at])}` : "";
      cells[cells.length - 1].textContent = place;
      words.push([line.name, _kinds[line.kind], figure(value), smooth && `smoothed ${smooth}`, place].filter(Boolean).join(" "));
    });
    const place = x.length === 0 ? "" : placeText(this.settings.axis, x[end]);
    this.at.textContent = place;
    this.canvas.setAttribute(
      "aria-label", `${this.title}. ${place}: ${words.join(", ")}. Arrow keys move the cursor, Escape ends a zoom.`,
    );
    this.words = `${place}: ${words.join(", ")}`;
  }

  async savePicture() {
    const legend = this.lines.slice(0, _mostRows).map((line) => ({
      stroke: color(line.color), dashed: line.kind === "validation",
      text: [line.name, _kinds[line.kind], figure(line.series.last)].filter(Boolean).join(" "),
    }));
    saveFile(`${this.title}.png`, await pictureOf(this.title, this.plot.ctx.canvas, legend));
  }

  key(event) {
    const x = this.plot?.data[0] ?? [];
    if (event.key === "Escape") {
      this.zoom(null);
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
  return `${AXIS_NAMES[axis].toLowerCase()} ${axis === "step" ? wholeNumber(Math.round(value)) : +value.toFixed(3)}`;
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
