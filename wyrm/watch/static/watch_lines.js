// Lines of charts as columns of points: smoothed, thinned to what a screen shows, and as files.

// Lines with fewer points stay as they are: a mean over whole epochs would lag far behind.
const _sparse = 40;
// More points than these in one chart are thinned to so many places along the axis.
const _mostPoints = 20_000;
const _places = 400;
// More lines are drawn without the ranges of joined steps.
const _mostRanges = 16;

// The mean of a point and those before it, with weights that fall by `factor` from one to the next.
function smoothed(values, factor) {
  let mean = 0;
  let weight = 0;
  return values.map((value) => {
    if (value === null || !Number.isFinite(value)) return value;
    mean = factor * mean + (1 - factor) * value;
    weight = factor * weight + (1 - factor);
    return mean / weight;
  });
}

const isSmoothed = (line, { smoothing }) => smoothing > 0 && line.series.value.length >= _sparse;

// The names of a line's columns, in their order: the values, then the smoothed ones, and the range of joined steps,
// which many lines would only cover.
function columnsOf(line, settings, count) {
  const ranges = line.series.joins && count <= _mostRanges;
  return ["value", ...(isSmoothed(line, settings) ? ["smoothed"] : []), ...(ranges ? ["low", "high"] : [])];
}

// The columns of uPlot: x, then the columns of each line. `range` is the visible part of the axis, null for all of it.
function joinedLines(lines, settings, range) {
  if (lines.length === 0) return [[]];
  const shown = (values) =>
    values.map((value) => (Math.abs(value) < 1e300 && (!settings.log || value > 0) ? value : null));
  const names = lines.map((line) => columnsOf(line, settings, lines.length));
  const tables = lines.map(({ series }, position) => {
    const values = shown(series.value);
    const columns = names[position].map((name) => {
      if (name === "smoothed") return smoothed(values, settings.smoothing);
      return name === "value" ? values : shown(series[name]);
    });
    return ascending([series[settings.axis], ...columns]);
  });
  const points = tables.reduce((sum, table) => sum + table[0].length, 0);
  if (points <= _mostPoints) return uPlot.join(tables);
  return thinned(tables, names, range);
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

// Put tables on one grid of x. Each place of it has two points: the lowest and the highest value there, in their order.
function thinned(tables, names, range) {
  const filled = tables.filter(([x]) => x.length > 0);
  const [low, high] = range ?? [
    Math.min(...filled.map(([x]) => x[0])), Math.max(...filled.map(([x]) => x[x.length - 1])),
  ];
  const width = (high - low) / _places || 1;
  const grid = Array.from({ length: 2 * _places }, (_, i) => low + (i / 2 + 0.25) * width);
  const columns = tables.flatMap(([x, ...own], position) => {
    const places = own.map(() => new Array(grid.length).fill(null));
    let start = 0;
    while (start < x.length && x[start] < low) start += 1;
    for (let place = 0; place < _places && start < x.length; place += 1) {
      const edge = place === _places - 1 ? high : low + (place + 1) * width;
      let end = start;
      while (end < x.length && x[end] <= edge) end += 1;
      if (end > start) fillPlace(own, names[position], start, end, (column, half, value) => { places[column][2 * place + half] = value; });
      start = end;
    }
    return places;
  });
  return [grid, ...columns];
}

function fillPlace(columns, names, start, end, put) {
  const [values] = columns;
  let least = -1;
  let most = -1;
  for (let i = start; i < end; i += 1) {
    if (values[i] === null) continue;
    if (least < 0 || values[i] < values[least]) least = i;
    if (most < 0 || values[i] > values[most]) most = i;
  }
  if (least < 0) return;
  const order = least <= most ? [least, most] : [most, least];
  columns.forEach((column, position) => {
    if (names[position] === "value") order.forEach((at, half) => put(position, half, column[at]));
    else {
      let kept = null;
      for (let i = start; i < end; i += 1) {
        const value = column[i];
        if (value === null) continue;
        if (kept === null || names[position] === "smoothed" || (names[position] === "low" ? value < kept : value > kept)) kept = value;
      }
      put(position, 0, kept);
      put(position, 1, kept);
    }
  });
}

// The index of the point of a column that is nearest to an index, -1 if it has none.
function nearestPoint(column, index) {
  const has = (at) => column[at] !== null && column[at] !== undefined;
  for (let away = 0; away < column.length; away += 1) {
    if (index - away >= 0 && has(index - away)) return index - away;
    if (index + away < column.length && has(index + away)) return index + away;
  }
  return -1;
}

// --- files ---------------------------------------------------------------------------------------------------------

const _quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

// All points of lines as CSV.
function csvOf(lines) {
  const rows = ["run,kind,step,epoch,seconds,value,low,high"];
  for (const { name, kind, series } of lines) {
    series.value.forEach((value, i) => {
      const [low, high] = series.joins ? [series.low[i], series.high[i]] : [value, value];
      const numbers = [series.step[i], series.epoch[i], series.elapsed[i], value, low, high];
      rows.push([_quoted(name), kind === "main" ? "training" : kind, ...numbers].join(","));
    });
  }
  return new Blob([`${rows.join("\n")}\n`], { type: "text/csv" });
}

// A picture of a chart with its title and legend, as a promise of a PNG.
function pictureOf(title, canvas, legend) {
  const ratio = devicePixelRatio;
  const [row, margin] = [18 * ratio, 12 * ratio];
  const picture = element("canvas", {
    width: canvas.width + 2 * margin, height: canvas.height + 3 * margin + row * (1 + legend.length),
  });
  const context = picture.getContext("2d");
  context.fillStyle = color("--surface");
  context.fillRect(0, 0, picture.width, picture.height);
  context.fillStyle = color("--text");
  context.textBaseline = "middle";
  context.font = `600 ${14 * ratio}px system-ui, sans-serif`;
  context.fillText(title, margin, margin + row / 2);
  context.drawImage(canvas, margin, margin + row);
  context.font = `${12 * ratio}px system-ui, sans-serif`;
  legend.forEach(({ stroke, dashed, text }, i) => {
    const y = 2 * margin + row + canvas.height + i * row + row / 2;
    context.strokeStyle = stroke;
    context.lineWidth = 3 * ratio;
    context.setLineDash(dashed ? [5 * ratio, 3 * ratio] : []);
    context.beginPath();
    context.moveTo(margin, y);
    context.lineTo(margin + row, y);
    context.stroke();
    context.fillStyle = color("--text");
    context.fillText(text, 1.5 * margin + row, y);
  });
  return new Promise((done) => { picture.toBlob(done, "image/png"); });
}
