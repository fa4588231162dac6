// The panel with what is known of a node or a group.

class Details {
  // `page` goes to items, opens groups and closes the panel.
  constructor(graph, page) {
    this.graph = graph;
    this.page = page;
    this.panel = byId("details");
    this.gradientOf = new Map();
    graph.data.nodes.gradient.forEach((gradient, node) => {
      if (gradient >= 0 && !this.gradientOf.has(gradient)) this.gradientOf.set(gradient, node);
    });
  }

  show(item) {
    this.panel.hidden = item < 0;
    if (item < 0) return;
    this.panel.replaceChildren(
      element(
        "button",
        { class: "icon close", "aria-label": "Close the details", click: () => this.page.select(-1) },
        "×",
      ),
      ...(this.graph.isGroup(item) ? this._group(item) : this._node(item)),
    );
    this.panel.scrollTop = 0;
  }

  _node(node) {
    const { graph } = this;
    const { nodes } = graph.data;
    const kind = ["input", "parameter", "constant", "op"][nodes.kind[node]];
    const backward = nodes.part[node] === BACKWARD;
    const facts = [
      ["Op", graph.op(node)],
      ["Name", graph.name(node)],
      ["Path", graph.path(node)],
      ["Dtype", graph.text(nodes.dtype[node])],
      ["Size", bytesText(nodes.bytes[node])],
      ["Parameters", nodes.parameters[node] ? wholeNumber(nodes.parameters[node]) : ""],
    ];
    const formula = graph.text(nodes.formula[node]);
    return [
      element("h2", {}, graph.title(node)),
      _chips(kind === "op" ? [] : [kind], backward),
      formula ? element("pre", { class: "formula", tabindex: "0" }, formula) : null,
      _facts(facts),
      this.page.live?.detailsOf(node),
      this._axes(node),
      this._reach(node),
      this._line(node),
      this._gradient(node),
      this.page.program?.detailsOf(node),
      this._place(node),
      this._links("Operands", [...new Set(nodes.parents[node])]),
      this._links("Used by", graph.users[node]),
    ].filter(Boolean);
  }

  _axes(node) {
    const axes = this.graph.axes(node);
    if (!axes.length) return _section("Axes", element("p", { class: "muted" }, "none: a scalar"));
    const rows = axes.map(([name, size], index) =>
      element(
        "tr",
        {},
        element("td", { class: "muted number" }, String(index)),
        element("td", {}, name || "unnamed"),
        element("td", { class: "number" }, size === null ? "from the data" : wholeNumber(size)),
      ),
    );
    return _section("Axes", element("table", {}, element("tbody", {}, ...rows)));
  }

  // On which positions of the inputs a node depends.
  _reach(node) {
    const { graph } = this;
    const reach = graph.data.reaches[graph.data.nodes.reach[node]];
    if (!reach) return null;
    const rows = reach.map(([input, axis, positions]) =>
      element(
        "tr",
        {},
        element("td", {}, graph.title(input)),
        element("td", {}, graph.text(axis)),
        element("td", {}, graph.text(positions)),
      ),
    );
    return _section("Depends on positions", element("table", { class: "reach" }, element("tbody", {}, ...rows)));
  }

  _line(node) {
    const { nodes } = this.graph.data;
    const [line, source] = [this.graph.text(nodes.line[node]), this.graph.text(nodes.source[node])];
    if (!line) return null;
    return _section(
      "Your line",
      element("p", { class: "mono" }, line),
      source ? element("pre", { tabindex: "0" }, source) : null,
    );
  }

  _gradient(item) {
    const other = this.gradient(item);
    if (other < 0) return null;
    const words = this.graph.isGroup(item)
      ? ["Show its backward part", "Show its forward part"]
      : ["Show its gradient", "Go to what it is the gradient of"];
    const go = () => this.page.go(other, true);
    return _section("Gradient", element("button", { id: "gradient", click: go }, words[this.graph.part(item)]));
  }

  // The gradient of a forward node or group, what a backward one is the gradient of, or -1.
  gradient(item) {
    const { graph } = this;
    if (graph.isGroup(item)) return graph.twin(item);
    const other = graph.part(item) === BACKWARD ? (this.gradientOf.get(item) ?? -1) : graph.data.nodes.gradient[item];
    return other >= 0 && graph.shown[other] ? other : -1;
  }

  _place(item) {
    const groups = this.graph.ancestors(item);
    if (!groups.length) return null;
    return _section("Inside", element("ul", { class: "links" }, ...groups.map((group) => this._link(group))));
  }

  _links(title, items) {
    if (!items.length) return null;
    const shown = items.slice(0, 40);
    const rest = items.length - shown.length;
    const list = element("ul", { class: "links" }, ...shown.map((item) => this._link(item)));
    if (rest) list.append(element("li", { class: "muted" }, `and ${wholeNumber(rest)} more`));
    return _section(title, list);
  }

  _link(item) {
    const { graph } = this;
    const isHidden = !graph.isGroup(item) && !graph.shown[item];
    const words = graph.isGroup(item) ? graph.className(item) : graph.axesText(item);
    return element(
      "li",
      {},
      element("span", { class: `dot part-${graph.part(item)}` }),
      isHidden
        ? element("span", { class: "plain" }, graph.title(item))
        : element("button", { class: "link", click: () => this.page.go(item, true) }, graph.title(item)),
      element("span", { class: "muted" }, words),
    );
  }

  _group(item) {
    const { graph, page } = this;
    const { nodes } = graph.data;
    const counts = new Map();
    let [parameters, bytes, open] = [0, 0, false];
    for (const node of graph.nodesInside(item)) {
      const op = graph.op(node);
      counts.set(op, (counts.get(op) ?? 0) + 1);
      parameters += nodes.parameters[node];
      if (nodes.kind[node] !== PARAMETER) continue;
      bytes += Math.max(nodes.bytes[node], 0);
      open ||= nodes.bytes[node] < 0;
    }
    const isOpen = page.layout.open.has(item);
    const rows = [...counts]
      .sort((a, b) => b[1] - a[1])
      .map(([op, count]) =>
        element("tr", {}, element("td", {}, op), element("td", { class: "number" }, wholeNumber(count))),
      );
    return [
      element("h2", {}, graph.title(item)),
      _chips(
        graph.isRun(item) ? [`${graph.runMembers(item).length} times the same`] : ["group"],
        graph.part(item) === BACKWARD,
      ),
      element("p", {}, element("button", { click: () => page.use(item) }, isOpen ? "Close" : "Open")),
      _facts([
        ["Class", graph.className(item)],
        ["Path", graph.path(item)],
        ["Nodes", wholeNumber(graph.inside.get(item))],
        ["Parameters", parameters ? wholeNumber(parameters) : ""],
        ["Their size", parameters ? bytesText(open ? -1 : bytes) : ""],
      ]),
      this._gradient(item),
      graph.isRun(item) ? this._links("Groups", graph.runMembers(item)) : null,
      this._place(item),
      _section("Nodes by op", element("table", { class: "counts" }, element("tbody", {}, ...rows))),
    ].filter(Boolean);
  }
}

function _section(title, ...content) {
  return element("section", {}, element("h3", {}, title), ...content);
}

function _facts(facts) {
  const known = facts.filter(([, value]) => value);
  return element("dl", {}, ...known.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

function _chips(words, isBackward) {
  const part = element("span", { class: `chip part-${isBackward ? 1 : 0}` }, isBackward ? "backward" : "forward");
  return element("p", { class: "chips" }, part, ...words.map((word) => element("span", { class: "chip" }, word)));
}
