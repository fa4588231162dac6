// The timeline of one step, with a lane for each thread; and the arrays of a step in memory.

function showTimeline() {
  const events = profile.events;
  const svg = byId("timeline");
  if (!events.length) {
    byId("timeline-panel").hidden = true;
    return;
  }
  const threads = [...new Set(events.map((event) => event.thread))].sort((a, b) => a - b);
  const start = Math.min(...events.map((event) => event.start));
  const stop = Math.max(...events.map((event) => event.start + event.duration));
  const lane = 46, left = 74, axis = 24;
  let zoom = 1;
  const marks = new Map();

  function draw() {
    const width = Math.max(320, byId("timeline-scroll").clientWidth - 2) * zoom;
    const height = threads.length * lane + axis;
    svg.replaceChildren();
    marks.clear();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    const x = (time) => left + ((width - left - 10) * (time - start)) / (stop - start || 1);
    const ticks = Math.max(3, Math.floor(width / 160));
    for (let tick = 0; tick <= ticks; tick += 1) {
      const time = ((stop - start) * tick) / ticks;
      svg.append(
        svgElement("line", { class: "axis", x1: x(start + time), x2: x(start + time), y1: axis - 4, y2: height }),
        svgElement("text", { class: "muted", x: x(start + time), y: 13, "text-anchor": tick ? (tick < ticks ? "middle" : "end") : "start" }, tick ? timeText(time / 1e6) : "0"),
      );
    }
    threads.forEach((thread, row) => {
      svg.append(svgElement("text", { x: 0, y: axis + row * lane + lane / 2 + 2 }, `thread ${thread}`));
    });
    const drawn = events.map((event, position) => ({ event, position })).filter(({ event }) => x(event.start + event.duration) - x(event.start) > 0.15);
    const order = drawn.map(({ position }) => position);
    for (const { event, position } of drawn) {
      const stage = stages[event.stage];
      const text = `${stage ? stageTitle(stage) : event.name}: ${timeText(event.duration / 1e6)}, at ${timeText((event.start - start) / 1e6)}`;
      const from = x(event.start), wide = Math.max(0.5, x(event.start + event.duration) - from);
      const y = axis + threads.indexOf(event.thread) * lane + 5;
      const mark = svgElement("rect", {
        class: `bar-of-time part-${stage ? partOf(stage) : "outside"}${stage?.kind === "wait" ? " wait" : ""}`,
        x: from, y, width: wide, height: lane - 12, rx: 2, tabindex: "-1", role: "button", "aria-label": text,
        click: () => choose(event.stage),
        keydown: (pressed) => stepAmong(pressed, order, position, marks, () => choose(event.stage)),
      }, svgElement("title", {}, text));
      mark.stage = event.stage;
      marks.set(position, mark);
      svg.append(mark);
      const name = stage ? stageTitle(stage) : event.name;
      if (wide > 7 * Math.min(name.length, 12) + 10) {
        const fits = Math.floor((wide - 8) / 7);
        const label = svgElement("text", { x: from + 5, y: y + 22, "pointer-events": "none" }, name.length > fits ? `${name.slice(0, fits - 1)}…` : name);
        svg.append(label);
      }
    }
    marks.get(order[0])?.setAttribute("tabindex", "0");
    mark(chosenStage);
  }

  const mark = (index) => marks.forEach((each) => each.classList.toggle("chosen", index >= 0 && each.stage === index));
  const change = (factor) => {
    zoom = Math.min(64, Math.max(1, zoom * factor));
    draw();
    byId("timeline-zoom").textContent = `${zoom}×`;
  };
  byId("closer").addEventListener("click", () => change(2));
  byId("farther").addEventListener("click", () => change(0.5));
  window.addEventListener("resize", draw);
  whenChosen(mark);
  draw();
}

function showMemory() {
  const memory = profile.memory;
  if (!memory) {
    byId("memory-panel").hidden = true;
    return;
  }
  const width = 1000, height = 310, left = 70, bottom = 36;
  const svg = byId("memory");
  const calls = memory.calls.length + 1;
  const x = (position) => left + ((width - left) * position) / calls;
  const y = (offset) => (height - bottom) * (1 - offset / (memory.block_bytes || 1)) + 10;
  for (let tick = 0; tick <= 4; tick += 1) {
    const offset = (memory.block_bytes * tick) / 4;
    svg.append(
      svgElement("line", { class: "axis", x1: left, x2: width, y1: y(offset), y2: y(offset) }),
      svgElement("text", { class: "muted", x: left - 6, y: y(offset) + 4, "text-anchor": "end" }, bytesText(Math.round(offset))),
    );
  }
  svg.append(svgElement("text", { class: "muted", x: (left + width) / 2, y: height - 4, "text-anchor": "middle" }, `the ${countText(calls - 1, "call")} of a step, in order`));
  const marks = new Map();
  const order = memory.arrays.map((_, index) => index);
  const show = (index) => {
    const array = memory.arrays[index];
    byId("memory-chosen").textContent =
      `${array.name} (${array.shape.join(", ")}) ${array.dtype}: ${bytesText(array.bytes)}, from call ${array.first + 1} to ${array.last + 1}` +
      `${array.location ? `, ${array.location} ${array.module} ${array.source}` : ""}`;
    marks.forEach((mark, own) => mark.classList.toggle("chosen", own === index));
  };
  memory.arrays.forEach((array, index) => {
    const atPeak = array.first <= memory.peak && memory.peak <= array.last;
    const text = `${array.name}, ${bytesText(array.bytes)}${array.location ? `, ${array.location}` : ""}`;
    const mark = svgElement("rect", {
      class: `array part-${array.first < memory.backward ? "forward" : "backward"}${atPeak ? " at-peak" : ""}`,
      x: x(array.first), width: x(array.last + 1) - x(array.first), y: y(array.offset + array.bytes),
      height: Math.max(0.4, y(array.offset) - y(array.offset + array.bytes)), tabindex: index ? "-1" : "0",
      role: "button", "aria-label": text, click: () => show(index),
      keydown: (event) => stepAmong(event, order, index, marks, show), focus: () => show(index),
    }, svgElement("title", {}, text));
    marks.set(index, mark);
    svg.append(mark);
  });
  const peak = x(memory.peak + 0.5);
  svg.append(svgElement("line", { class: "peak", x1: peak, x2: peak, y1: 10, y2: height - bottom + 10 }));
  byId("memory-sums").textContent =
    `${bytesText(memory.block_bytes)} for ${countText(memory.arrays.length, "array")} that share one block, ` +
    `${bytesText(memory.peak_bytes)} of them alive at the peak, in ${memory.calls[memory.peak] ?? "the end"} (red line); ` +
    `${bytesText(memory.own_bytes)} for inputs, sums of rows and scratch; ${bytesText(memory.parameter_bytes)} of parameters, ` +
    `${bytesText(memory.optimizer_bytes)} of the optimizer's state`;
  byId("owners").append(...memory.owners.map(([location, source, modules, size]) => element("tr", {},
    element("td", { class: "number" }, bytesText(size)), element("td", {}, location || "(compiler)"),
    element("td", {}, modules), element("td", {}, element("code", {}, source)))));
}

themeButton(byId("theme"));
showSummary();
showDetails(-1);
startTable();
showFlame();
showRoofline();
showTimeline();
showMemory();
