// The roofline: how many operations a second each stage does, beside the most that the machine can do.

function showRoofline() {
  const width = 860, height = 430, left = 62, right = 20, top = 14, bottom = 46;
  const points = stages
    .map((stage, index) => ({ stage, index }))
    .filter(({ stage }) => stage.flops > 0 && stage.bytes_read + stage.bytes_written > 0 && stage.flops_per_second > 0)
    .sort((one, other) => other.stage.seconds - one.stage.seconds);
  const svg = byId("roofline");
  if (!points.length) {
    svg.replaceWith(element("p", { class: "muted" }, "No stage with floating-point operations."));
    return;
  }
  const intensity = (stage) => stage.flops / (stage.bytes_read + stage.bytes_written);
  const tens = (value, round) => 10 ** round(Math.log10(value));
  const { peaks } = profile;
  const xs = points.map(({ stage }) => intensity(stage));
  const ys = points.map(({ stage }) => stage.flops_per_second);
  const xLow = tens(Math.min(0.1, ...xs), Math.floor), xHigh = tens(Math.max(100, ...xs), Math.ceil);
  const yLow = tens(Math.max(1e6, Math.min(1e9, ...ys)), Math.floor), yHigh = tens(Math.max(peaks.float32[1], ...ys), Math.ceil);
  const scale = (low, high, start, stop) => (value) =>
    start + ((stop - start) * (Math.log10(value) - Math.log10(low))) / (Math.log10(high) - Math.log10(low));
  const x = scale(xLow, xHigh, left, width - right);
  const y = scale(yLow, yHigh, height - bottom, top);

  for (let value = xLow; value <= xHigh * 1.001; value *= 10) {
    svg.append(
      svgElement("line", { class: "axis", x1: x(value), x2: x(value), y1: top, y2: height - bottom }),
      svgElement("text", { class: "muted", x: x(value), y: height - bottom + 17, "text-anchor": "middle" }, String(+value.toPrecision(1))),
    );
  }
  for (let value = yLow; value <= yHigh * 1.001; value *= 10) {
    svg.append(
      svgElement("line", { class: "axis", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
      svgElement("text", { class: "muted", x: left - 8, y: y(value) + 4, "text-anchor": "end" }, String(+(value / 1e9).toPrecision(1))),
    );
  }
  svg.append(
    svgElement("text", { class: "muted", x: (left + width) / 2, y: height - 8, "text-anchor": "middle" }, "FLOPs for each byte"),
    svgElement("text", { class: "muted", x: 14, y: height / 2, transform: `rotate(-90 14 ${height / 2})`, "text-anchor": "middle" }, "GFLOP/s"),
  );

  const labels = [];
  const labelled = []; // the rates of the roofs that have a label
  // Each roof rises with the bytes a second, and is flat at the operations a second.
  const roof = (rate, peak, name, all) => {
    const knee = peak / rate;
    const from = Math.max(xLow, yLow / rate);
    if (from >= xHigh) return;
    const path = knee > from ? `M${x(from)} ${y(from * rate)}L${x(Math.min(knee, xHigh))} ${y(Math.min(knee, xHigh) * rate)}` : "";
    const flat = knee < xHigh ? `${path ? "L" : "M"}${x(Math.max(knee, from))} ${y(peak)}L${x(xHigh)} ${y(peak)}` : "";
    svg.append(svgElement("path", { class: all ? "roof all" : "roof", d: path + flat }));
    // The label of a roof that is close to others stands to the right of theirs.
    const close = labelled.filter((other) => Math.abs(y(rate) - y(other)) < 16).length;
    const at = Math.max(from, xLow) * 1.3 * 10 ** close;
    if (name && knee > at) {
      labelled.push(rate);
      const slope = (-180 / Math.PI) * Math.atan2(y(at) - y(at * 10), x(at * 10) - x(at));
      labels.push(svgElement("text", {
        class: "muted over", "pointer-events": "none", x: x(at), y: y(at * rate) - 6, transform: `rotate(${slope} ${x(at)} ${y(at * rate) - 6})`,
      }, `${name}, ${(rate / 1e9).toPrecision(3)} GB/s`));
    }
  };
  roof(peaks.bandwidth[0], peaks.float32[0], "memory", false);
  for (const [size, rate] of peaks.cached) roof(rate, peaks.float32[0], `within ${bytesText(size)}`, false);
  if (peaks.threads > 1) roof(peaks.bandwidth[1], peaks.float32[1], "", true);
  svg.append(...labels);
  const taken = labels.map((label) => boxOf(label, 0)); // where labels stand
  const flat = (value, name, below) => {
    const text = `${name}: ${(value / 1e9).toPrecision(3)} GFLOP/s in float32`;
    placeLabel(svg, taken, text, "muted", [[width - right - 4, y(value) + (below ? 15 : -6), "end"]]);
  };
  const apart = peaks.threads > 1 && y(peaks.float32[0]) - y(peaks.float32[1]) > 22;
  if (apart) flat(peaks.float32[1], countText(peaks.threads, "thread"), false);
  flat(peaks.float32[0], "one thread", false);
  // The whole step: its time, and the rate at which all of its stages together compute.
  const steps = Math.max(profile.steps, 1);
  const stepSeconds = profile.thread_seconds / steps / profile.threads;
  const rate = stages.reduce((sum, stage) => sum + (stage.flops ?? 0) * stage.calls, 0) / steps / Math.max(stepSeconds, 1e-12);
  if (rate > yLow) {
    svg.append(svgElement("line", { class: "step", x1: left, x2: width - right, y1: y(rate), y2: y(rate) }));
    const words = `the step: ${timeText(stepSeconds)}, ${gigaText(rate, stages.every((stage) => stage.exact))} GFLOP/s`;
    placeLabel(svg, taken, words, "over", [[left + 6, y(rate) - 6, "start"], [left + 6, y(rate) + 15, "start"], [width - right - 4, y(rate) - 6, "end"]]);
  }

  const marks = new Map();
  for (const { stage, index } of points) {
    const share = stage.seconds / (profile.thread_seconds || 1);
    const text = `${stageTitle(stage)}: ${gigaText(stage.flops_per_second, stage.exact)} GFLOP/s, ${percentText(stage.roofline ?? 0)} of the roofline, ${percentText(share)} of the time`;
    const mark = svgElement("circle", {
      class: `mark part-${partOf(stage)}`, cx: x(intensity(stage)), cy: y(Math.max(stage.flops_per_second, yLow)),
      r: 3.5 + 26 * Math.sqrt(share), tabindex: "-1", role: "button", "aria-label": text, click: () => choose(index),
      keydown: (event) => stepAmong(event, points.map((point) => point.index), index, marks),
    }, svgElement("title", {}, text));
    marks.set(index, mark);
    svg.append(mark);
  }
  marks.get(points[0].index).setAttribute("tabindex", "0");
  svg.append(...labels); // above the marks
  // The stages that take longest are named, each name once, where nothing else is named.
  const longest = new Map(points.filter(({ stage }) => stage.seconds > 0.03 * profile.thread_seconds).reverse().map((point) => [stageTitle(point.stage), point]));
  for (const [name, { stage }] of [...longest].slice(-5).reverse()) {
    const radius = 3.5 + 26 * Math.sqrt(stage.seconds / (profile.thread_seconds || 1));
    const [across, up] = [x(intensity(stage)), y(Math.max(stage.flops_per_second, yLow))];
    const places = [0, 17, -17, 34, -34, 51, -51, 68].flatMap((lower) => [
      [across + radius + 4, up + 4 + lower, "start"], [across - radius - 4, up + 4 + lower, "end"],
    ]);
    placeLabel(svg, taken, name.length > 30 ? `${name.slice(0, 29)}…` : name, "over", places);
  }
  whenChosen((index) => marks.forEach((mark, own) => mark.classList.toggle("chosen", own === index)));
}

// Where the box of a label is, with some room.
function boxOf(node, room) {
  const { left, top, right, bottom } = node.getBoundingClientRect();
  return { left: left - room, top: top - room, right: right + room, bottom: bottom + room };
}

// Write a label at the first of some places [x, y, anchor] where it covers no other label; at none, leave it out.
function placeLabel(svg, taken, text, kind, places) {
  const label = svgElement("text", { class: kind, "pointer-events": "none" }, text);
  svg.append(label);
  const frame = boxOf(svg, 0);
  for (const [x, y, anchor] of places) {
    for (const [name, value] of Object.entries({ x, y, "text-anchor": anchor })) label.setAttribute(name, value);
    const box = boxOf(label, 1);
    const meets = (other) => box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom;
    const inside = box.left >= frame.left && box.right <= frame.right && box.top >= frame.top && box.bottom <= frame.bottom;
    if (inside && !taken.some(meets)) {
      taken.push(box);
      return;
    }
  }
  label.remove();
}

// Move with the arrow keys from one element of a picture to the next, and choose with Enter or space.
function stepAmong(event, order, index, marks, take = choose) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key] ?? 0;
  if (event.key === "Enter" || event.key === " ") take(index);
  else if (step) {
    const next = order[order.indexOf(index) + step];
    if (next === undefined) return;
    marks.get(index).setAttribute("tabindex", "-1");
    marks.get(next).setAttribute("tabindex", "0");
    marks.get(next).focus();
  } else return;
  event.preventDefault();
}
