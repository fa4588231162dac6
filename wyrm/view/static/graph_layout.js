// Where boxes stand and edges run. Each open group is laid out by itself, from the inside out, so that opening a group
// moves only what is in the groups around it. Forward groups run downwards, backward groups upwards.

const HEADER = 30; // the title line of an open group
const MARGIN = 16; // between the frame of an open group and its boxes
const BEND = 12; // more room for lines that bend on their way through the frame
const LEAF_HEIGHT = 26;
const NODE_HEIGHT = 40;
const GROUP_HEIGHT = 46;
const MOST_PORTS = 8; // values that enter or leave an open group by lines of their own
const MOST_FOR_DAGRE = 220; // boxes of one group; more take dagre seconds

const TITLE_FONT = "600 13px system-ui, sans-serif";
const SMALL_FONT = "11.5px system-ui, sans-serif";
const _ruler = document.createElement("canvas").getContext("2d");
const _widths = new Map();

function textWidth(text, font) {
  const key = font + text;
  let width = _widths.get(key);
  if (width === undefined) {
    _ruler.font = font;
    width = _ruler.measureText(text).width;
    _widths.set(key, width);
  }
  return width;
}

function shortened(text, most) {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

class Layout {
  constructor(graph) {
    this.graph = graph;
    this.open = new Set(graph.roots);
    this._scopes = new Map();
    this._words = new Map();
    this._known = new Map(); // of the sizes and edges of boxes: where dagre puts them
  }

  // Open or close a group.
  toggle(item, open) {
    if (open) this.open.add(item);
    else this.open.delete(item);
    for (let above = item; above >= 0; above = this.graph.parent[above]) this._scopes.delete(above);
  }

  // The box that stands for an item: itself, or the outermost closed group around it; -1 if it has no box.
  standIn(item) {
    let visible = item;
    let above = this.graph.parent[item];
    if (above < 0) return this.graph.roots.includes(item) ? item : -1;
    for (; above >= 0; above = this.graph.parent[above]) if (!this.open.has(above)) visible = above;
    return visible;
  }

  // The two lines of a box, and its size.
  words(item) {
    let words = this._words.get(item);
    if (!words) {
      words = this._wordsOf(item);
      this._words.set(item, words);
    }
    return words;
  }

  _wordsOf(item) {
    const { graph } = this;
    if (!graph.isGroup(item)) {
      const title = shortened(graph.title(item), 34);
      const small = shortened(graph.axesText(item), 34);
      const isLeaf = graph.data.nodes.kind[item] <= CONSTANT;
      const [left, right] = [textWidth(title, TITLE_FONT), textWidth(small, SMALL_FONT)];
      if (isLeaf) return { title, small, isLeaf, titleWidth: left, w: Math.ceil(left + right + 32), h: LEAF_HEIGHT };
      return { title, small, isLeaf, titleWidth: left, w: Math.ceil(Math.max(left, right, 40) + 28), h: NODE_HEIGHT };
    }
    const title = shortened(graph.title(item), 34);
    const badge = graph.isRun(item) ? `× ${graph.runMembers(item).length}` : "";
    const count = graph.parameterCount(item);
    const facts = [graph.className(item), count ? `${shortNumber(count)} parameters` : ""];
    const small = shortened(facts.filter(Boolean).join(" · ") || countText(graph.inside.get(item), "node"), 44);
    const titleWidth = textWidth(title, TITLE_FONT);
    const badgeWidth = badge ? textWidth(badge, TITLE_FONT) + 18 : 0;
    const w = Math.ceil(Math.max(titleWidth + badgeWidth, textWidth(small, SMALL_FONT)) + 58);
    return { title, small, badge, titleWidth, badgeWidth, w, h: GROUP_HEIGHT };
  }

  // Lay out all that is visible: boxes and edges in the coordinates of the page, and the size of the whole.
  arrange(withBackward) {
    const scene = { boxes: [], edges: [], width: 0, height: 0, at: new Map() };
    const roots = this.graph.roots.filter((root) => withBackward || this.graph.part(root) === FORWARD);
    const scopes = roots.map((root) => this._scope(root));
    scene.height = Math.max(...scopes.map((scope) => scope.h));
    scopes.forEach((scope, index) => {
      // The forward part stands on the same line as the backward part, which starts from it.
      this._place(scope, scene.width + (index ? 90 : 0), scene.height - scope.h, 0, scene);
      scene.width += scope.w + (index ? 90 : 0);
    });
    return scene;
  }

  _place(scope, x, y, level, scene) {
    for (const child of scope.children) {
      const box = {
        item: child.item,
        x: x + child.x,
        y: y + child.y,
        w: child.w,
        h: child.h,
        level,
        isOpen: !!child.scope,
      };
      scene.boxes.push(box);
      scene.at.set(box.item, box);
      if (child.scope) this._place(child.scope, box.x, box.y, level + 1, scene);
    }
    for (const edge of scope.edges) {
      scene.edges.push({ ...edge, points: edge.points.map((point) => [x + point[0], y + point[1]]) });
    }
  }

  _scope(item) {
    let scope = this._scopes.get(item);
    if (!scope) {
      scope = this._arranged(item);
      this._scopes.set(item, scope);
    }
    return scope;
  }

  _arranged(item) {
    const { graph } = this;
    const boxes = new Map();
    for (const child of graph.children.get(item)) {
      const scope = this.open.has(child) ? this._scope(child) : null;
      const { w, h } = scope ?? this.words(child);
      boxes.set(child, { item: child, scope, w, h });
    }
    const isRoot = graph.parent[item] < 0;
    const entering = _ports(isRoot ? null : graph.entering.get(item), "in");
    const leaving = _ports(isRoot ? null : graph.leaving.get(item), "out");
    for (const key of [...new Set([...entering.values(), ...leaving.values()])]) boxes.set(key, { w: 8, h: 4 });
    const joined = new Map();
    const join = (a, b, source, target) => {
      const key = `${a} ${b}`;
      if (!joined.has(key)) joined.set(key, { a, b, links: [] });
      joined.get(key).links.push([source, target]);
    };
    for (const [a, b, source, target] of graph.edges.get(item) ?? []) join(a, b, source, target);
    for (const [source, key] of entering) {
      for (const child of graph.entering.get(item).get(source)) join(key, child, source, -1);
    }
    for (const [source, key] of leaving) join(graph.leaving.get(item).get(source), key, source, -1);
    const edges = [...joined.values()];
    const size = boxes.size <= MOST_FOR_DAGRE ? this._byDagre(boxes, edges) : arrangeInColumns(boxes, edges);
    return this._framed(item, boxes, edges, entering, leaving, size);
  }

  // Repeated layers are arranged once.
  _byDagre(boxes, edges) {
    const index = new Map([...boxes.keys()].map((key, position) => [key, position]));
    const shapes = [...boxes].map(([key, { w, h }]) => `${typeof key === "string" ? key.slice(0, 2) : ""}${w},${h}`);
    const lines = edges.map(({ a, b, links }) => `${index.get(a)},${index.get(b)},${Math.min(links.length, 4)}`);
    const key = `${shapes.join(" ")}|${lines.join(" ")}`;
    const known = this._known.get(key);
    if (known) {
      [...boxes.values()].forEach((box, position) => Object.assign(box, known.places[position]));
      edges.forEach((edge, position) => Object.assign(edge, known.paths[position]));
      return known.size;
    }
    const size = arrangeByDagre(boxes, edges);
    const places = [...boxes.values()].map(({ x, y }) => ({ x, y }));
    const paths = edges.map(({ points, leaves, arrives }) => ({ points, leaves, arrives }));
    this._known.set(key, { places, paths, size });
    return size;
  }

  // Add the frame around boxes that stand, and cut the edges at the frames of open groups.
  _framed(item, boxes, edges, entering, leaving, { w, h }) {
    const isRoot = this.graph.parent[item] < 0;
    const isUpwards = this.graph.part(item) === BACKWARD;
    const words = isRoot ? { w: 0 } : this.words(item);
    const width = Math.max(w + 2 * MARGIN, words.w + 20);
    const [first, last] = [MARGIN + (entering.size ? BEND : 0), MARGIN + (leaving.size ? BEND : 0)];
    const left = (width - w) / 2;
    // The header is above the boxes in both directions.
    const above = isRoot ? 0 : isUpwards ? first : Math.max(first, HEADER) + (entering.size ? 4 : 0);
    const below = isRoot ? 0 : isUpwards ? Math.max(last, HEADER) + (leaving.size ? 4 : 0) : last;
    const height = h + above + below;
    for (const box of boxes.values()) {
      box.x += left;
      box.y += above;
    }
    const drawn = [];
    for (const edge of edges) {
      const [a, b] = [boxes.get(edge.a), boxes.get(edge.b)];
      const points = edge.points.map(([x, y]) => [x + left, y + above]);
      for (const { links, from, to } of _byPorts(edge.links, a.scope, b.scope)) {
        const path = points.slice();
        path[0] = _start(edge.a, a, from, edge.leaves + left);
        path[path.length - 1] = _end(edge.b, b, to, edge.arrives + left, height);
        const hasArrow = typeof edge.b !== "string" && !b.scope;
        const { isFar, isSideways } = edge;
        drawn.push({ a: edge.a, b: edge.b, links, points: path, hasArrow, isFar, isSideways, isUpwards });
      }
    }
    if (isUpwards) {
      for (const box of boxes.values()) box.y = height - box.y - box.h;
      for (const edge of drawn) edge.points = edge.points.map(([x, y]) => [x, height - y]);
    }
    const middle = (key) => boxes.get(key).x + boxes.get(key).w / 2;
    return {
      w: width,
      h: height,
      children: [...boxes.values()].filter((box) => box.item !== undefined),
      edges: drawn,
      entering: new Map([...entering].map(([source, key]) => [source, middle(key)])),
      leaving: new Map([...leaving].map(([source, key]) => [source, middle(key)])),
    };
  }
}

// A key of a line through the frame for each value; many values share one.
function _ports(values, side) {
  if (!values) return new Map();
  const own = values.size <= MOST_PORTS;
  return new Map([...values.keys()].map((source) => [source, own ? `${side} ${source}` : side]));
}

// Split the links of an edge by the lines through the frames at its ends.
function _byPorts(links, a, b) {
  if (!a && !b) return [{ links }];
  const parts = new Map();
  for (const link of links) {
    const from = a?.leaving.get(link[0]);
    const to = b?.entering.get(link[0]);
    const key = `${from} ${to}`;
    if (!parts.has(key)) parts.set(key, { links: [], from, to });
    parts.get(key).links.push(link);
  }
  return parts.values();
}

function _start(key, box, from, x) {
  if (typeof key === "string") return [box.x + box.w / 2, 0];
  if (from !== undefined) return [box.x + from, box.y + box.h];
  return [_between(x, box.x + 10, box.x + box.w - 10), box.y + box.h];
}

function _end(key, box, to, x, height) {
  if (typeof key === "string") return [box.x + box.w / 2, height];
  if (to !== undefined) return [box.x + to, box.y];
  return [_between(x, box.x + 10, box.x + box.w - 10), box.y];
}

function _between(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

// Keep lines that come through the frame in a row of their own before all boxes, and those that leave it in one after.
function _alignPorts(graph, keys) {
  const isPort = (key, side) => typeof key === "string" && key.startsWith(side);
  const [ins, outs] = ["in", "out"].map((side) => keys.filter((key) => isPort(key, side)));
  const others = keys.filter((key) => typeof key !== "string").map(String);
  if (ins.length) {
    const sources = others.filter((key) => !graph.predecessors(key).length);
    graph.setNode("first", { width: 1, height: 1 });
    for (const key of ins) graph.setEdge("first", key, { weight: 100 });
    for (const key of sources) graph.setEdge("first", key, { weight: 0, minlen: 2 });
  }
  if (outs.length) {
    const sinks = others.filter((key) => !graph.successors(key).length);
    graph.setNode("last", { width: 1, height: 1 });
    for (const key of outs) graph.setEdge(key, "last", { weight: 100 });
    for (const key of sinks) graph.setEdge(key, "last", { weight: 0, minlen: 2 });
  }
}

// Set `x` and `y` of boxes and `points` of edges by dagre; return the size of the whole.
function arrangeByDagre(boxes, edges) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ nodesep: 22, ranksep: 34, edgesep: 12 });
  for (const [key, { w, h }] of boxes) graph.setNode(String(key), { width: w, height: h });
  for (const { a, b, links } of edges) graph.setEdge(String(a), String(b), { weight: Math.min(links.length, 4) });
  _alignPorts(graph, [...boxes.keys()]);
  dagre.layout(graph);
  const rows = new Map(); // of the middle of a row: half its height
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  const within = (x0, y0, x1, y1) => {
    [left, top] = [Math.min(left, x0), Math.min(top, y0)];
    [right, bottom] = [Math.max(right, x1), Math.max(bottom, y1)];
  };
  for (const [key, box] of boxes) {
    const { x, y } = graph.node(String(key));
    box.x = x - box.w / 2;
    box.y = y - box.h / 2;
    rows.set(Math.round(y), Math.max(rows.get(Math.round(y)) ?? 0, box.h / 2));
    if (box.item !== undefined) within(box.x, box.y, box.x + box.w, box.y + box.h);
  }
  for (const edge of edges) {
    const { points } = graph.edge(String(edge.a), String(edge.b));
    const last = points.length - 1;
    [edge.leaves, edge.arrives] = [points[1].x, points[last - 1].x];
    // An edge passes a row of boxes straight, and bends between rows.
    edge.points = points.flatMap(({ x, y }, index) => {
      if (index === 0 || index === last) return [[x, y]];
      const half = rows.get(Math.round(y));
      return half
        ? [
            [x, y - half],
            [x, y + half],
          ]
        : [];
    });
    for (const [x, y] of edge.points) within(x, Math.max(y, top), x, Math.min(y, bottom));
  }
  if (left === Infinity) return { w: 0, h: 0 };
  for (const box of boxes.values()) [box.x, box.y] = [box.x - left, box.y - top];
  for (const edge of edges) {
    edge.points = edge.points.map(([x, y]) => [x - left, y - top]);
    [edge.leaves, edge.arrives] = [edge.leaves - left, edge.arrives - left];
  }
  return { w: right - left, h: bottom - top };
}
