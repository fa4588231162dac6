// The picture: SVG elements for the boxes and edges near the window, and a few long paths for all of them from afar.

const FAR_SCALE = 0.42; // below it, many boxes are drawn without words
const MOST_NEAR = 700; // boxes with words at once
const MOST_EDGES = 5000; // drawn edges stay until there are more
const LABEL_SCALE = 1.35; // from it on, edges carry their axes

class Picture {
  constructor(svg, graph, layout) {
    this.svg = svg;
    this.graph = graph;
    this.layout = layout;
    this.view = { x: 0, y: 0, scale: 1 };
    this.scene = { boxes: [], edges: [], width: 1, height: 1, at: new Map() };
    this.current = -1;
    this.found = new Set(); // boxes that hold what is searched for
    this.overlay = null; // colours, marks and dims boxes; see graph_program.js
    this.printing = false;
    this._drawn = new Map();
    const layer = (name) => svgElement("g", { class: name });
    // The titles of open groups are boxes over the edges, their frames are below them.
    this._layers = { frames: layer("frames"), edges: layer("edges"), boxes: layer("boxes"), labels: layer("labels") };
    this._world = svgElement("g", { id: "world" }, ...Object.values(this._layers));
    this.drawn = () => {}; // called after each drawing
    svg.append(this._world);
  }

  // Show a new arrangement.
  show(scene) {
    this.scene = scene;
    this._forget();
    this.draw();
  }

  // Draw all boxes anew, for example after they got marks.
  refresh() {
    this._forget();
    this.draw();
  }

  // Give boxes and edges the looks of their state. The elements stay, since a click that goes on needs them.
  restyle() {
    for (const [item, drawn] of this._drawn) {
      const box = this.scene.at.get(item);
      drawn.setAttribute("class", this._classes(box));
      drawn.frame?.setAttribute("class", `${this._classes(box)} frame`);
      drawn.setAttribute("tabindex", item === this.current ? "0" : "-1");
      drawn.toggleAttribute("aria-current", item === this.current);
    }
    this._layers.edges.replaceChildren();
    this._layers.labels.replaceChildren();
    this._edges = null;
    this._lit = this._litEdges();
    this.draw();
  }

  _forget() {
    for (const layer of Object.values(this._layers)) layer.replaceChildren();
    this._drawn.clear();
    this._edges = null;
    this._lit = this._litEdges();
  }

  select(item) {
    this.current = item;
    this.restyle();
  }

  elementOf(item) {
    return this._drawn.get(item) ?? null;
  }

  draw() {
    const { x, y, scale } = this.view;
    this._world.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
    const window = this._window();
    const near = this.scene.boxes.filter((box) => _meets(box, window));
    const isFar = !this.printing && (near.length > MOST_NEAR || (scale < FAR_SCALE && near.length > 250));
    this.svg.classList.toggle("far", isFar);
    if (isFar !== this._isFar) {
      this._isFar = isFar;
      this._forget();
    }
    if (isFar) this._drawFar();
    else this._drawNear(near, window);
    this.drawn();
  }

  // Act while all boxes and edges are drawn in their own size.
  whole(act) {
    const view = { ...this.view };
    this.printing = true;
    Object.assign(this.view, { x: 0, y: 0, scale: 1 });
    this.refresh();
    act();
    this.printing = false;
    Object.assign(this.view, view);
    this.refresh();
  }

  // What the window shows, in the coordinates of the scene, with some room around it.
  _window() {
    if (this.printing) return { x: -Infinity, y: -Infinity, right: Infinity, bottom: Infinity };
    const { x, y, scale } = this.view;
    const room = 200 / scale;
    const [w, h] = [this.svg.clientWidth / scale, this.svg.clientHeight / scale];
    return { x: -x / scale - room, y: -y / scale - room, right: -x / scale + w + room, bottom: -y / scale + h + room };
  }

  _drawNear(near, window) {
    const wanted = new Set();
    for (const box of near) {
      wanted.add(box.item);
      if (!this._drawn.has(box.item)) this._add(box);
    }
    for (const [item, drawn] of this._drawn) {
      if (wanted.has(item) || item === this.current) continue;
      drawn.frame?.remove();
      drawn.remove();
      this._drawn.delete(item);
    }
    const isLabelled = this.view.scale >= LABEL_SCALE && !this.printing;
    const key = isLabelled ? "labels" : "plain";
    if (this._edges?.key !== key || this._edges.drawn.size > MOST_EDGES) {
      this._layers.edges.replaceChildren();
      this._layers.labels.replaceChildren();
      this._edges = { key, drawn: new Set() };
      for (const { isCrossing, d } of this._lit) {
        if (isCrossing) this._layers.labels.append(svgElement("path", { class: "crossing", d }));
      }
    }
    for (const edge of this.scene.edges) {
      edge.extent ??= _extent(edge);
      if (this._edges.drawn.has(edge) || !_meets(edge.extent, window)) continue;
      this._edges.drawn.add(edge);
      this._addEdge(edge, isLabelled);
    }
  }

  _addEdge(edge, isLabelled) {
    const [source] = edge.links[0];
    const isLit = this._lit.has(edge);
    const isWeak = this.graph.data.nodes.kind[source] === PARAMETER || edge.isFar;
    const states = `edge part-${this.graph.part(source)}${isWeak ? " weak" : ""}${isLit ? " lit" : ""}`;
    const d = edge.isFar && !isLit ? _stub(edge) : edgePath(edge);
    const group = svgElement(
      "g",
      { class: states },
      svgElement("path", { d }),
      svgElement("path", { class: "reach", d }),
    );
    group.edge = edge;
    this._layers.edges.append(group);
    if (!isLabelled || edge.isFar) return;
    const [x, y] = edge.points[Math.floor(edge.points.length / 2)];
    const [beforeX, beforeY] = edge.points[Math.floor(edge.points.length / 2) - 1];
    const place = edge.points.length % 2 ? [x, y] : [(x + beforeX) / 2, (y + beforeY) / 2];
    const sources = new Set(edge.links.map((link) => link[0]));
    const text = sources.size > 1 ? `${sources.size} values` : this.graph.axesText(source);
    this._layers.labels.append(svgElement("text", { class: "axes", x: place[0] + 5, y: place[1] + 3 }, text));
  }

  _add(box) {
    const { item } = box;
    const words = this.layout.words(item);
    const drawn = svgElement("g", {
      class: this._classes(box),
      transform: `translate(${box.x} ${box.y})`,
      role: "button",
      tabindex: item === this.current ? "0" : "-1",
      "aria-label": this._label(box),
      "aria-expanded": this.graph.isGroup(item) ? String(box.isOpen) : null,
      "aria-current": item === this.current,
      "data-item": item,
    });
    if (box.isOpen) this._addFrame(drawn, box, words);
    else if (this.graph.isGroup(item)) this._fillGroup(drawn, box, words);
    else this._fillNode(drawn, box, words);
    this._mark(drawn, box);
    this._drawn.set(item, drawn);
    this._layers.boxes.append(drawn);
  }

  _mark(drawn, { item, w, isOpen }) {
    const mark = isOpen ? null : this.overlay?.mark(item);
    if (!mark) return;
    drawn.append(_markOf(mark, w));
    drawn.style.setProperty("--stage", mark.color);
  }

  // Give the boxes their marks anew, without touching anything else.
  remark() {
    for (const [item, drawn] of this._drawn) {
      drawn.querySelector(":scope > .mark")?.remove();
      this._mark(drawn, this.scene.at.get(item));
    }
  }

  // The space keeps the words of a box apart, as its name has them for a screen reader.
  _fillNode(drawn, { w, h }, words) {
    drawn.append(svgElement("rect", { width: w, height: h, rx: words.isLeaf ? h / 2 : 7 }));
    if (words.isLeaf) {
      drawn.append(
        svgElement("text", { class: "title", x: 12, y: h / 2 + 4.5 }, words.title),
        " ",
        svgElement("text", { class: "small", x: 20 + words.titleWidth, y: h / 2 + 4 }, words.small),
      );
      return;
    }
    drawn.append(
      svgElement("text", { class: "title", x: w / 2, y: 17, "text-anchor": "middle" }, words.title),
      " ",
      svgElement("text", { class: "small", x: w / 2, y: 32, "text-anchor": "middle" }, words.small),
    );
  }

  _fillGroup(drawn, { item, w, h }, words) {
    if (this.graph.isRun(item)) {
      drawn.append(
        svgElement("rect", { class: "behind", x: 8, y: 8, width: w - 8, height: h, rx: 9 }),
        svgElement("rect", { class: "behind", x: 4, y: 4, width: w - 4, height: h, rx: 9 }),
      );
    }
    drawn.append(
      svgElement("rect", { width: w, height: h, rx: 9 }),
      svgElement("text", { class: "title", x: 16, y: 20 }, words.title),
      " ",
      svgElement("text", { class: "small", x: 16, y: 36 }, words.small),
      svgElement("path", { class: "sign", d: `M ${w - 25} 23 h 10 m -5 -5 v 10` }),
    );
    if (words.badge) drawn.append(_badge(words, 20));
  }

  _addFrame(drawn, box, words) {
    const { x: left, y: top, w, h } = box;
    drawn.frame = svgElement("rect", {
      class: `${this._classes(box)} frame`,
      x: left,
      y: top,
      width: w,
      height: h,
      rx: 11,
    });
    // Outer groups are drawn first.
    const inner = [...this._layers.frames.children].find((other) => other.level > box.level);
    drawn.frame.level = box.level;
    this._layers.frames.insertBefore(drawn.frame, inner ?? null);
    const room = w - words.titleWidth - words.badgeWidth - 56;
    drawn.append(
      svgElement("rect", { class: "header", x: 1, y: 1, width: w - 2, height: HEADER - 2, rx: 10 }),
      svgElement("text", { class: "title", x: 14, y: 20 }, words.title),
      svgElement("path", { class: "sign", d: `M ${w - 25} 15 h 10` }),
    );
    if (words.badge) drawn.append(_badge(words, 20));
    if (textWidth(words.small, SMALL_FONT) > room) return;
    const x = 24 + words.titleWidth + words.badgeWidth;
    drawn.append(svgElement("text", { class: "small", x, y: 20 }, words.small));
  }

  _classes({ item, isOpen, level }) {
    const { graph } = this;
    const kind = isOpen ? "open" : graph.isGroup(item) ? "group" : `kind-${graph.data.nodes.kind[item]}`;
    const classes = ["box", kind, `part-${graph.part(item)}`];
    if (isOpen) classes.push(`level-${level % 2}`);
    if (item === this.current) classes.push("current");
    if (this.found.has(item)) classes.push("found");
    if (this.overlay?.isDim(item)) classes.push("dim");
    if (this.overlay?.isInLoop(item)) classes.push("in-loop");
    return classes.join(" ");
  }

  // What a screen reader says: the words in the box first, so that a voice can name them.
  _label({ item }) {
    const { graph } = this;
    const { badge, small } = this.layout.words(item);
    const words = [graph.title(item), badge, small].filter(Boolean).join(" ");
    const axes = graph.isGroup(item) ? [] : graph.axes(item).map(([name]) => name);
    const facts = [
      words,
      graph.isGroup(item) ? `group of ${countText(graph.inside.get(item), "node")}` : "",
      axes.some(Boolean) ? `axes ${axes.map((name) => name || "unnamed").join(", ")}` : "",
      graph.part(item) === BACKWARD ? "backward" : "",
    ];
    return facts.filter(Boolean).join(", ");
  }

  // The edges of the current box, with those between the forward and the backward part.
  _litEdges() {
    const { graph, current, scene } = this;
    const lit = new Set();
    if (!scene.at.has(current)) return lit;
    const isOpen = scene.at.get(current).isOpen;
    const inside = new Set(isOpen ? [] : graph.nodesInside(current));
    const operands = new Set([...inside].flatMap((node) => graph.data.nodes.parents[node]));
    const around = new Set([current, ...graph.ancestors(current)]);
    for (const edge of scene.edges) {
      const touches = ([source, target]) =>
        inside.has(source) || inside.has(target) || (target < 0 && around.has(edge.b) && operands.has(source));
      if (isOpen ? edge.a === current || edge.b === current : edge.links.some(touches)) lit.add(edge);
    }
    const between = new Map();
    for (const [source, target] of graph.crossing) {
      if (!inside.has(source) && !inside.has(target)) continue;
      const [a, b] = [source, target].map((node) => scene.at.get(this.layout.standIn(node)));
      if (a && b) between.set(`${a.item} ${b.item}`, [a, b]);
    }
    for (const [a, b] of [...between.values()].slice(0, 60)) lit.add(_crossing(a, b));
    return lit;
  }

  _drawFar() {
    if (this._edges) return;
    this._edges = { key: "far" };
    this._layers.edges.append(...this.farPaths(true));
  }

  // All boxes, and edges if wanted, as a few long paths.
  farPaths(withEdges) {
    const paths = new Map();
    const put = (name, text) => paths.set(name, (paths.get(name) ?? "") + text);
    for (const box of this.scene.boxes) {
      put(
        this._farClass(box),
        `M${_short(box.x)} ${_short(box.y)}h${_short(box.w)}v${_short(box.h)}h${_short(-box.w)}z`,
      );
    }
    for (const edge of withEdges ? this.scene.edges : []) {
      const [x, y] = edge.points[0];
      const [endX, endY] = edge.points[edge.points.length - 1];
      if (edge.isFar && !this._lit.has(edge)) continue;
      put("lines", `M${_short(x)} ${_short(y)}L${_short(endX)} ${_short(endY)}`);
    }
    return [...paths].sort(([a], [b]) => _rank(a) - _rank(b)).map(([name, d]) => {
      const color = name.startsWith("color:") ? name.slice(6) : null;
      const path = svgElement("path", { d, class: `far-${color ? "marked" : name}` });
      if (color) path.style.fill = color;
      return path;
    });
  }

  _farClass({ item, isOpen }) {
    if (item === this.current) return "current";
    if (this.found.has(item)) return "found";
    if (isOpen) return "open";
    const mark = this.overlay?.mark(item);
    if (mark?.color && !this.overlay.isDim(item)) return `color:${mark.color}`;
    if (this.graph.isGroup(item)) return `group-${this.graph.part(item)}`;
    return this.graph.data.nodes.kind[item] <= CONSTANT ? "leaf" : `op-${this.graph.part(item)}`;
  }
}
