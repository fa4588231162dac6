// The compiled program over the graph: which nodes became one loop, and which arrays are in memory when.

const _COLORS = Array.from({ length: 8 }, (_, index) => `var(--series-${index + 1})`);
const _PEAK_ROWS = 6;
const _beforeRun =
  "This program has not run yet, so data decides sizes, and all arrays are drawn alike. Call it once or train a step, then make the page: it shows bytes.";

class Program {
  constructor(graph, page) {
    this.graph = graph;
    this.page = page;
    this.drawer = byId("drawer");
    ({ stages: this.stages, buffers: this.buffers } = graph.data.program);
    this.stagesOf = new Map();
    this.stages.forEach((stage, index) => {
      for (const node of stage.nodes) {
        if (this.stagesOf.has(node)) this.stagesOf.get(node).push(index);
        else this.stagesOf.set(node, [index]);
      }
    });
    this._counts = new Map();
    this._chosen = null; // the boxes that stay bright
    this._build();
  }

  color(index) {
    return this.stages[index].nodes.length > 1 ? _COLORS[index % _COLORS.length] : "var(--neutral)";
  }

  // The colour and the words on a box.
  mark(item) {
    if (this.graph.isGroup(item)) {
      const count = this._stagesInside(item).size;
      return count ? { color: "var(--neutral)", text: countText(count, "stage") } : null;
    }
    const stages = this.stagesOf.get(item);
    if (!stages) return null;
    const largest = stages.reduce((best, index) =>
      this.stages[index].nodes.length > this.stages[best].nodes.length ? index : best,
    );
    return { color: this.color(largest), text: stages.map((index) => index + 1).join(", ") };
  }

  _stagesInside(item) {
    if (!this._counts.has(item)) {
      const stages = new Set();
      for (const node of this.graph.nodesInside(item))
        for (const stage of this.stagesOf.get(node) ?? []) stages.add(stage);
      this._counts.set(item, stages);
    }
    return this._counts.get(item);
  }

  // Whether a node became part of a stage with others.
  isInLoop(item) {
    return (this.stagesOf.get(item) ?? []).some((index) => this.stages[index].nodes.length > 1);
  }

  isDim(item) {
    return this._chosen !== null && !this._chosen.has(item);
  }

  // Keep only these nodes, and the groups around them, bright; all of them without nodes.
  choose(nodes) {
    this._chosen = null;
    this.page.picture.svg.classList.toggle("dimmed", nodes.length > 0);
    if (nodes.length) {
      this._chosen = new Set();
      for (const node of nodes) {
        this._chosen.add(this.page.layout.standIn(node));
        for (const group of this.graph.ancestors(node)) this._chosen.add(group);
      }
    }
    for (const line of this.list.querySelectorAll("[aria-pressed]")) line.setAttribute("aria-pressed", "false");
  }

  // The section of the details that names the stages of a node.
  detailsOf(node) {
    const stages = this.stagesOf.get(node);
    if (!stages) return null;
    const lines = stages.map((index) =>
      element(
        "li",
        {},
        this._swatch(index),
        element("button", { class: "link", click: () => this.show(index) }, `${index + 1}. ${this.stages[index].name}`),
        element("span", { class: "muted" }, countText(this.stages[index].nodes.length, "node")),
      ),
    );
    return _section("Program", element("ul", { class: "links" }, ...lines));
  }

  _swatch(index) {
    const swatch = element("span", { class: "swatch" });
    swatch.style.background = this.color(index);
    return swatch;
  }

  // Open the overlay at a stage.
  show(index) {
    this.page.showProgram(true);
    const { nodes } = this.stages[index];
    const drawn = nodes.filter((node) => this.graph.shown[node]);
    if (drawn.length) {
      this.page.reveal(drawn);
      this.page.viewport.reveal(drawn[0]);
    }
    this.choose(drawn);
    const line = this.list.children[index];
    line.firstChild.setAttribute("aria-pressed", "true");
    line.scrollIntoView({ block: "nearest" });
    this._point(index);
    this.page.picture.restyle();
    announce(`Stage ${index + 1}, ${this.stages[index].name}: ${countText(nodes.length, "node")}`);
  }

  _build() {
    this.list = element("ol", { class: "stages" });
    this.stages.forEach((stage, index) => {
      const facts = [
        countText(stage.nodes.length, "node"),
        stage.bytes > 0 ? bytesText(stage.bytes) : "",
        stage.flops > 0 ? `${shortNumber(stage.flops)} FLOPs` : "",
      ];
      const words = [
        this._swatch(index),
        element("span", { class: "number muted" }, String(index + 1)),
        element("span", { class: "stage-name" }, stage.name),
        element("span", { class: "muted" }, facts.filter(Boolean).join(" · ")),
      ];
      this.list.append(
        element("li", {}, element("button", { "aria-pressed": "false", click: () => this.show(index) }, ...words)),
      );
    });
    const loops = this.stages.filter((stage) => stage.nodes.length > 1).length;
    const { outside } = this.graph.data.program;
    this.drawer.replaceChildren(
      element(
        "div",
        { class: "drawer-part" },
        element("h2", {}, `${countText(this.stages.length, "stage")}, ${wholeNumber(loops)} of them of several nodes`),
        this.list,
        outside?.length ? element("p", { class: "muted" }, `Done elsewhere: ${outside.join(", ")}`) : "",
      ),
      element("div", { class: "drawer-part" }, ...this._memory()),
    );
  }

  // --- memory ----------------------------------------------------------------------------------------------------

  _memory() {
    if (!this.buffers.length)
      return [element("h2", {}, "Memory"), element("p", { class: "muted" }, "The program has no arrays of its own.")];
    const known = this.buffers.filter((buffer) => buffer.bytes >= 0);
    const isKnown = known.length === this.buffers.length;
    const sizes = this.buffers.map((buffer) => (isKnown ? Math.max(buffer.bytes, 1) : 1));
    const { places, height } = stacked(this.buffers, sizes);
    const peak = this._peak(sizes);
    const chart = svgElement("svg", {
      class: "memory",
      viewBox: `0 0 ${this.stages.length} 100`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `Arrays in memory over ${countText(this.stages.length, "stage")}; most in stage ${peak.stage + 1}`,
    });
    this.buffers.forEach((buffer, index) => {
      const rect = svgElement("rect", {
        x: buffer.first,
        width: buffer.last - buffer.first + 1,
        y: 100 - ((places[index] + sizes[index]) / height) * 100,
        height: (sizes[index] / height) * 100,
        class: `buffer part-${this._partOf(buffer)}`,
        click: () => this._chooseBuffer(buffer),
      });
      rect.append(svgElement("title", {}, this._bufferText(buffer)));
      chart.append(rect);
    });
    this.cursor = svgElement("line", { class: "cursor", y1: 0, y2: 100, "vector-effect": "non-scaling-stroke" });
    chart.append(this.cursor);
    const total = isKnown ? bytesText(peak.size) : countText(peak.owners.length, "array");
    const owners = peak.owners
      .slice(0, _PEAK_ROWS)
      .map((buffer) =>
        element(
          "li",
          {},
          element("span", { class: `dot part-${this._partOf(buffer)}` }),
          element("button", { class: "link", click: () => this._chooseBuffer(buffer) }, buffer.name),
          element("span", { class: "muted" }, bytesText(buffer.bytes)),
        ),
      );
    return [
      element("h2", {}, `Memory over the stages; at most ${total}, in stage ${peak.stage + 1}`),
      isKnown ? null : element("p", { class: "hint" }, _beforeRun),
      chart,
      element(
        "p",
        { class: "muted memory-axis" },
        element("span", {}, "stage 1"),
        element("span", {}, `stage ${this.stages.length}`),
      ),
      element("ul", { class: "links owners", "aria-label": "The largest arrays at the peak" }, ...owners),
    ];
  }

  _partOf(buffer) {
    return buffer.nodes.length ? this.graph.part(buffer.nodes[0]) : (this.stages[buffer.first]?.part ?? FORWARD);
  }

  _bufferText({ name, bytes, first, last }) {
    return `${name}: ${bytesText(bytes)}, stages ${first + 1} to ${last + 1}`;
  }

  // The stage at which the arrays are largest, with them, and their size.
  _peak(sizes) {
    const change = new Array(this.stages.length + 1).fill(0);
    this.buffers.forEach(({ first, last }, index) => {
      change[first] += sizes[index];
      change[last + 1] -= sizes[index];
    });
    let [stage, size, sum] = [0, 0, 0];
    change.forEach((difference, index) => {
      sum += difference;
      if (sum > size) [stage, size] = [index, sum];
    });
    const owners = this.buffers.filter(({ first, last }) => first <= stage && stage <= last);
    return { stage, size, owners: owners.sort((a, b) => b.bytes - a.bytes) };
  }

  _point(stage) {
    if (!this.cursor) return;
    this.cursor.setAttribute("x1", stage + 0.5);
    this.cursor.setAttribute("x2", stage + 0.5);
    this.cursor.classList.add("on");
  }

  _chooseBuffer(buffer) {
    const drawn = buffer.nodes.filter((node) => this.graph.shown[node]);
    if (drawn.length) this.page.go(drawn[0]);
    this.choose(drawn);
    this._point(buffer.first);
    this.page.picture.restyle();
    announce(this._bufferText(buffer));
  }
}

// Stack intervals without overlap, each at the lowest free place; return the places and the height of the whole.
function stacked(intervals, sizes) {
  const order = intervals
    .map((_, index) => index)
    .sort((a, b) => intervals[a].first - intervals[b].first || sizes[b] - sizes[a]);
  const places = new Array(intervals.length).fill(0);
  let height = 1;
  let alive = []; // of indices, from the lowest place
  for (const index of order) {
    alive = alive.filter((other) => intervals[other].last >= intervals[index].first);
    let place = 0;
    for (const other of alive) {
      if (places[other] - place >= sizes[index]) break;
      place = Math.max(place, places[other] + sizes[other]);
    }
    places[index] = place;
    height = Math.max(height, place + sizes[index]);
    const position = alive.findIndex((other) => places[other] > place);
    alive.splice(position < 0 ? alive.length : position, 0, index);
  }
  return { places, height };
}
