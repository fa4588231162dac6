// The graph: its nodes, groups and runs of equal groups as one tree of items, and the edges between them.
//
// An item is a number: first the nodes, then the groups, then the runs. A run is a group made here, which holds equal
// siblings, such as blocks[0] to blocks[11]. The forward and the backward part are two trees with a root each.

const FORWARD = 0;
const BACKWARD = 1;
const INPUT = 0;
const PARAMETER = 1;
const CONSTANT = 2;

class Graph {
  constructor(data) {
    this.data = data;
    this.nodeCount = data.nodes.op.length;
    this.groupCount = data.groups.name.length;
    this.parent = new Array(this.nodeCount + this.groupCount).fill(-1);
    this.children = new Map(); // of a group or run: its items, in the order of computation
    this.runs = []; // of each run: its groups
    this.shown = data.nodes.kind.map((kind, node) => !this._isHidden(kind, node));
    this.users = Array.from({ length: this.nodeCount }, () => []);
    data.nodes.parents.forEach((parents, node) => new Set(parents).forEach((p) => this.users[p].push(node)));
    this._plantTrees();
    this._findDepths();
    this._sortEdges();
    if (this._gatherRuns()) {
      this._findDepths();
      this._sortEdges();
    }
  }

  // Numbers have no box of their own: the label of the op that uses them has their value.
  _isHidden(kind, node) {
    const { nodes, shapes, outputs } = this.data;
    return kind === CONSTANT && shapes[nodes.shape[node]].length === 0 && !outputs.includes(node);
  }

  _plantTrees() {
    const { nodes, groups } = this.data;
    const isBackwardRoot = (group) => groups.part[group] === BACKWARD && groups.part[groups.parent[group]] !== BACKWARD;
    this.roots = [this.nodeCount];
    const backward = groups.parent.findIndex((_, group) => group > 0 && isBackwardRoot(group));
    if (backward > 0) this.roots.push(this.nodeCount + backward);
    for (let node = 0; node < this.nodeCount; node++) {
      if (!this.shown[node]) continue;
      let item = node;
      let group = nodes.group[node];
      while (this.parent[item] < 0 && group >= 0) {
        const above = this.nodeCount + group;
        this.parent[item] = above;
        const siblings = this.children.get(above);
        if (siblings) siblings.push(item);
        else this.children.set(above, [item]);
        if (this.roots.includes(above)) break;
        item = above;
        group = groups.parent[group];
      }
    }
    for (const root of this.roots) if (!this.children.has(root)) this.children.set(root, []);
    this._dissolveSingles();
  }

  // A group of one node is drawn as that node.
  _dissolveSingles() {
    for (const group of [...this.children.keys()].sort((a, b) => b - a)) {
      const [child, ...others] = this.children.get(group);
      if (others.length || child === undefined || child >= this.nodeCount || this.roots.includes(group)) continue;
      const above = this.parent[group];
      const siblings = this.children.get(above);
      siblings[siblings.indexOf(group)] = child;
      this.parent[child] = above;
      this.parent[group] = -1;
      this.children.delete(group);
    }
  }

  _gatherRuns() {
    const { groups } = this.data;
    for (const [above, siblings] of [...this.children]) {
      const members = new Map();
      for (const item of siblings) {
        const group = item - this.nodeCount;
        if (group < 0) continue;
        const first = groups.like[group] >= 0 ? groups.like[group] : groups.repeats[group] > 1 ? group : -1;
        if (first < 0) continue;
        if (members.has(first)) members.get(first).push(item);
        else members.set(first, [item]);
      }
      for (const run of members.values()) {
        if (run.length < 2 || !_runTitle(run.map((member) => this.title(member)))) continue;
        if (this._returns(above, new Set(run))) continue;
        const item = this.parent.length;
        this.parent.push(above);
        this.runs.push(run);
        this.children.set(item, run);
        for (const member of run) this.parent[member] = item;
        const inRun = new Set(run);
        const kept = [];
        for (const sibling of this.children.get(above)) {
          if (sibling === run[0]) kept.push(item);
          else if (!inRun.has(sibling)) kept.push(sibling);
        }
        this.children.set(above, kept);
      }
    }
    return this.runs.length > 0;
  }

  // Whether a path of edges leaves some children of a group and comes back: as one box, they would be in a circle.
  _returns(above, members) {
    const edges = this.edges.get(above) ?? [];
    const next = new Map();
    for (const [a, b] of edges) if (!members.has(a)) at(next, a).set(b, true);
    const stack = edges.filter(([a, b]) => members.has(a) && !members.has(b)).map(([, b]) => b);
    const seen = new Set(stack);
    while (stack.length) {
      for (const b of next.get(stack.pop())?.keys() ?? []) {
        if (members.has(b)) return true;
        if (!seen.has(b)) stack.push(b);
        seen.add(b);
      }
    }
    return false;
  }

  _findDepths() {
    this.depth = new Array(this.parent.length).fill(0);
    this.inside = new Map(); // of a group or run: the number of nodes at any depth
    const stack = [...this.roots];
    const order = [];
    while (stack.length) {
      const item = stack.pop();
      order.push(item);
      for (const child of this.children.get(item) ?? []) {
        this.depth[child] = this.depth[item] + 1;
        stack.push(child);
      }
    }
    for (const item of order.reverse()) {
      if (!this.children.has(item)) continue;
      this.inside.set(
        item,
        this.children.get(item).reduce((sum, child) => sum + (this.inside.get(child) ?? 1), 0),
      );
    }
  }

  // Give each edge to the innermost group around both of its ends, as an edge between two children of that group; and
  // note which values enter and leave the groups between. Edges from the forward to the backward part are apart.
  _sortEdges() {
    this.edges = new Map(); // of a group: [child, child, node, node]
    this.entering = new Map(); // of a group: for each node outside, the children that use it
    this.leaving = new Map(); // of a group: for each node inside that is used outside, its child
    this.crossing = []; // [forward node, backward node]
    for (let node = 0; node < this.nodeCount; node++) {
      if (!this.shown[node]) continue;
      for (const p of new Set(this.data.nodes.parents[node])) if (this.shown[p]) this._sortEdge(p, node);
    }
  }

  _sortEdge(source, target) {
    if (this.part(source) !== this.part(target)) {
      this.crossing.push([source, target]);
      return;
    }
    let [a, b] = [source, target];
    while (this.parent[a] !== this.parent[b]) {
      if (this.depth[a] >= this.depth[b]) {
        const above = this.parent[a];
        at(this.leaving, above).set(source, a);
        a = above;
      } else {
        const above = this.parent[b];
        const users = at(this.entering, above);
        if (users.has(source)) users.get(source).add(b);
        else users.set(source, new Set([b]));
        b = above;
      }
    }
    const scope = this.parent[a];
    if (!this.edges.has(scope)) this.edges.set(scope, []);
    this.edges.get(scope).push([a, b, source, target]);
  }

  isGroup(item) {
    return item >= this.nodeCount;
  }

  isRun(item) {
    return item >= this.nodeCount + this.groupCount;
  }

  part(item) {
    if (item < this.nodeCount) return this.data.nodes.part[item];
    if (this.isRun(item)) return this.part(this.runMembers(item)[0]);
    return this.data.groups.part[item - this.nodeCount];
  }

  runMembers(item) {
    return this.runs[item - this.nodeCount - this.groupCount];
  }

  text(index) {
    return index < 0 || index === undefined ? "" : this.data.strings[index];
  }

  // --- words of a node -------------------------------------------------------------------------------------------

  op(node) {
    return this.text(this.data.nodes.op[node]);
  }

  name(node) {
    return this.text(this.data.nodes.name[node]);
  }

  axes(node) {
    return this.data.shapes[this.data.nodes.shape[node]];
  }

  // "Batch × Time 64 × 768": the names and sizes of axes, as far as they are known.
  axesText(node) {
    const axes = this.axes(node);
    if (!axes.length) return "scalar";
    const words = ([name, size]) => [name, size].filter((word) => word !== "" && word !== null).join(" ") || "?";
    return axes.map(words).join(" × ");
  }

  // The values of the numbers among the operands.
  numbers(node) {
    const isNumber = (p) => !this.shown[p] && this.op(p) === "constant";
    return this.data.nodes.parents[node].filter(isNumber).map((p) => _shortDigits(this.name(p)));
  }

  title(item) {
    if (!this.isGroup(item)) {
      const name = this.name(item);
      if (this.data.nodes.kind[item] <= CONSTANT) return name || this.op(item);
      return name ? `${name} = ${this.op(item)}` : [this.op(item), ...this.numbers(item)].join(" ");
    }
    if (this.isRun(item)) return _runTitle(this.runMembers(item).map((member) => this.title(member)));
    return this.text(this.data.groups.name[item - this.nodeCount]) || "graph";
  }

  className(item) {
    const group = (this.isRun(item) ? this.runMembers(item)[0] : item) - this.nodeCount;
    return this.text(this.data.groups.class[group]);
  }

  // The path of a group's module, of a node's module, or of a named parameter in its module.
  path(item) {
    const { groups, nodes } = this.data;
    if (this.isRun(item)) return this.title(item);
    if (this.isGroup(item)) return this.text(groups.path[item - this.nodeCount]);
    if (nodes.path[item] >= 0) return this.text(nodes.path[item]);
    const own = nodes.kind[item] === PARAMETER ? this.name(item) : "";
    return [this.text(groups.path[nodes.group[item]]), own].filter(Boolean).join(".");
  }

  // Yield the nodes inside a group, at any depth.
  *nodesInside(item) {
    const stack = [item];
    while (stack.length) {
      const top = stack.pop();
      if (!this.isGroup(top)) yield top;
      else for (const child of this.children.get(top) ?? []) stack.push(child);
    }
  }

  parameterCount(item) {
    let sum = 0;
    for (const node of this.nodesInside(item)) sum += this.data.nodes.parameters[node];
    return sum;
  }

  // The groups around an item, outermost first, without the root.
  ancestors(item) {
    const path = [];
    for (let above = this.parent[item]; above >= 0 && this.parent[above] >= 0; above = this.parent[above])
      path.push(above);
    return path.reverse();
  }

  // The group of the other part with the same name: forward for backward, and backward for forward.
  twin(item) {
    const { mirror } = this.data.groups;
    if (this.isRun(item)) {
      const twin = this.twin(this.runMembers(item)[0]);
      return twin >= 0 && this.isRun(this.parent[twin]) ? this.parent[twin] : -1;
    }
    const group = item - this.nodeCount;
    const twin = group >= 0 && mirror ? mirror[group] : -1;
    return twin >= 0 && this.parent[this.nodeCount + twin] >= 0 ? this.nodeCount + twin : -1;
  }
}

function at(map, key) {
  let value = map.get(key);
  if (!value) {
    value = new Map();
    map.set(key, value);
  }
  return value;
}

// "blocks[0…11]" of "blocks[0]" to "blocks[11]", whatever their order; "" for names that differ in more than a number.
function _runTitle(titles) {
  const matches = titles.map((title) => /^(.*?)(\[?)(\d+)(\]?)$/.exec(title));
  if (titles.every((title) => title === titles[0])) return titles[0];
  if (matches.some((match) => !match || match[1] !== matches[0][1])) return "";
  const [, base, open, , close] = matches[0];
  const indices = matches.map((match) => Number(match[3]));
  return `${base}${open}${Math.min(...indices)}…${Math.max(...indices)}${close}`;
}

// 0.3 of the float32 number 0.30000001192092896.
function _shortDigits(text) {
  return /^-?\d+\.\d{7,}$/.test(text) ? String(Number(Number(text).toPrecision(7))) : text;
}
