// The graph page: what its parts do to each other.

class GraphPage {
  constructor(data, carried) {
    this.graph = new Graph(data);
    this.layout = new Layout(this.graph);
    this.picture = new Picture(byId("picture"), this.graph, this.layout);
    this.viewport = new Viewport(this.picture);
    const map = new OverviewMap(byId("map"), this.picture, this.viewport);
    this.picture.drawn = () => map.update();
    this.withBackward = false;
    this.found = [];
    this.program = data.program ? new Program(this.graph, this) : null;
    this.live = carried ? new Live(this.graph, this, carried) : null;
    this.picture.overlay = this.live;
    this.details = new Details(this.graph, this);
    this.search = new Search(
      this.graph,
      (item) => this.go(item, true),
      (items) => this._find(items),
    );
    this._write(data);
    this._openOnly();
    this._arrange();
    this.viewport.begin();
    this._buttons();
    this._pointer();
    document.addEventListener("keydown", (event) => this._key(event));
    addEventListener("beforeprint", () => this._print(true));
    addEventListener("afterprint", () => this._print(false));
  }

  _write(data) {
    const { graph } = this;
    byId("title").textContent = byId("title").title = data.title;
    const forward = data.nodes.part.filter((part) => part === FORWARD).length;
    const parameters = data.nodes.parameters.reduce((sum, count) => sum + count, 0);
    byId("subtitle").textContent = `${countText(forward, "node")}, ${shortNumber(parameters)} parameters`;
    byId("backward").hidden = graph.roots.length < 2;
    byId("program").hidden = !this.program;
    this._legend();
  }

  _legend() {
    const entries = [
      ["op forward", "forward"],
      this.withBackward ? ["op backward", "backward"] : null,
      ["leaf", "parameter"],
      ["leaf input", "input"],
      this.withProgram ? ["number", "stage of the program", "1"] : null,
    ];
    const items = entries.filter(Boolean).map(([kind, text, inside = ""]) => {
      return element("li", {}, element("span", { class: `sample ${kind}` }, inside), text);
    });
    byId("legend").replaceChildren(...items);
  }

  // Groups that hold everything start open: a picture of one box says nothing.
  _openOnly() {
    for (const root of this.graph.roots) {
      let group = root;
      for (;;) {
        const groups = this.graph.children.get(group).filter((child) => this.graph.isGroup(child));
        if (groups.length !== 1 || this.graph.isRun(groups[0])) break;
        [group] = groups;
        this.layout.toggle(group, true);
      }
    }
  }

  _arrange() {
    this.picture.found = new Set(this.found.map((item) => this.layout.standIn(item)));
    this.picture.show(this.layout.arrange(this.withBackward));
  }

  _find(items) {
    this.found = items;
    this.picture.found = new Set(items.map((item) => this.layout.standIn(item)));
    this.picture.restyle();
  }

  // Make an item the current one and show its details; -1 for none.
  select(item, focus = false) {
    const hadFocus = this.picture.svg.contains(document.activeElement);
    const width = this.picture.svg.clientWidth;
    if (item < 0) this.program?.choose([]);
    this.picture.select(item);
    this.details.show(item);
    this._makeRoom(item, width - this.picture.svg.clientWidth);
    this.picture.draw();
    if (item >= 0 && (focus || hadFocus)) this._focus(item);
  }

  // Move the picture if the details, which have just opened, would cover the box.
  _makeRoom(item, covered) {
    const box = this.picture.scene.at.get(item);
    if (!box || covered <= 0) return;
    this.viewport.hold();
    const { x, scale } = this.picture.view;
    const beyond = x + Math.min((box.x + box.w) * scale, box.x * scale + 300) + 16 - this.picture.svg.clientWidth;
    if (beyond > 0) this.viewport.pan(-Math.min(beyond, covered), 0);
  }

  _focus(item) {
    this.picture.draw();
    (this.picture.elementOf(item) ?? this.picture.svg).focus({ preventScroll: true });
  }

  // Open the groups around an item, show it and select it.
  go(item, focus = false) {
    this.reveal([item]);
    this.select(item, focus);
    this.viewport.reveal(item);
    if (focus) this._focus(item);
    announce(`${this.graph.title(item)} selected`);
  }

  // Open the groups around items, and the backward part if they are in it.
  reveal(items) {
    let isChanged = false;
    for (const item of items) {
      for (const group of this.graph.ancestors(item)) {
        if (this.layout.open.has(group)) continue;
        this.layout.toggle(group, true);
        isChanged = true;
      }
    }
    if (!this.withBackward && items.some((item) => this.graph.part(item) === BACKWARD)) this.showBackward(true);
    else if (isChanged) this._arrange();
  }

  // Open or close a group, which stays where it is in the window.
  toggle(item) {
    const open = !this.layout.open.has(item);
    const place = this.viewport.placeOf(item);
    this._toggleOnly(item, open);
    this._arrange();
    if (place) this.viewport.pin(item, ...place);
    this.select(item);
    const count = countText(this.graph.children.get(item).length, "box", "boxes");
    announce(`${this.graph.title(item)} ${open ? `opened, ${count}` : "closed"}`);
  }

  _toggleOnly(item, open) {
    this.layout.toggle(item, open);
    const children = this.graph.children.get(item);
    if (open && children.length === 1 && this.graph.isGroup(children[0])) this._toggleOnly(children[0], true);
  }

  showBackward(on) {
    if (this.graph.roots.length < 2) return;
    this.withBackward = on;
    byId("backward").setAttribute("aria-pressed", String(on));
    if (!on && this.picture.current >= 0 && this.graph.part(this.picture.current) === BACKWARD) this.select(-1);
    this._arrange();
    this._legend();
    announce(on ? "The backward part is shown" : "The backward part is hidden");
  }

  get withProgram() {
    return this.program !== null && this.picture.overlay === this.program;
  }

  showProgram(on) {
    if (!this.program || on === this.withProgram) return;
    this.picture.overlay = on ? this.program : this.live;
    byId("program").setAttribute("aria-pressed", String(on));
    byId("drawer").hidden = !on;
    this.program.choose([]);
    this.picture.refresh();
    this._legend();
    announce(on ? "The program is shown" : "The program is hidden");
  }

  // Open all groups, outer ones first, as far as the picture stays quick.
  expandAll() {
    const most = 2500;
    const waiting = this.graph.roots.filter((root) => this.withBackward || this.graph.part(root) === FORWARD);
    let [boxes, isWhole] = [0, true];
    while (waiting.length) {
      const group = waiting.shift();
      const children = this.graph.children.get(group);
      if (boxes + children.length > most && boxes > 0) {
        isWhole = false;
        continue;
      }
      boxes += children.length;
      this.layout.toggle(group, true);
      for (const child of children) if (this.graph.isGroup(child)) waiting.push(child);
    }
    this._arrange();
    this.viewport.begin();
    const words = isWhole
      ? "All groups are open"
      : `Open up to ${countText(most, "box", "boxes")}: open further groups one by one`;
    announce(words);
    this._notice(isWhole ? "" : words);
  }

  collapseAll() {
    for (const item of [...this.layout.open]) if (!this.graph.roots.includes(item)) this.layout.toggle(item, false);
    this._openOnly();
    this._arrange();
    const { current } = this.picture;
    if (current >= 0 && !this.picture.scene.at.has(current)) this.select(-1);
    this.viewport.begin();
    announce("All groups are closed");
  }

  _notice(text) {
    const tip = byId("tip");
    tip.replaceChildren(text);
    tip.hidden = !text;
    Object.assign(tip.style, { left: "14px", top: "14px" });
  }

  _print(on) {
    this.picture.printing = on;
    if (on) {
      this._view = { ...this.picture.view };
      Object.assign(this.picture.view, { x: 0, y: 0, scale: 1 });
      printSheets(byId("sheets"), this.picture);
    } else {
      Object.assign(this.picture.view, this._view);
      byId("sheets").replaceChildren();
    }
    this.picture.refresh();
  }

  // --- buttons, pointer and keys ---------------------------------------------------------------------------------

  _buttons() {
    const actions = {
      backward: () => this._toggleBackward(),
      program: () => this._toggleProgram(),
      expand: () => this.expandAll(),
      collapse: () => this.collapseAll(),
      "zoom-in": () => this.viewport.zoom(1.3),
      "zoom-out": () => this.viewport.zoom(1 / 1.3),
      fit: () => this.viewport.fit(),
      svg: () => saveSvg(this.picture, this.graph.data.title),
      help: () => byId("keys-dialog").showModal(),
      "keys-close": () => byId("keys-dialog").close(),
    };
    for (const [id, action] of Object.entries(actions)) byId(id).addEventListener("click", action);
    themeButton(byId("theme"));
  }

  // Where the whole is too large, show the end of the forward part and the start of the backward part beside it.
  _toggleBackward() {
    this.showBackward(!this.withBackward);
    this.viewport.begin();
    const { scene } = this.picture;
    const backward = scene.boxes.filter(({ item }) => this.graph.part(item) === BACKWARD);
    if (backward.length > 0 && !this.viewport.isWhole) {
      this.viewport.showCorner(Math.min(...backward.map(({ x }) => x)) - 45, scene.height);
    }
  }

  _toggleProgram() {
    if (!this.program) return;
    this.showProgram(!this.withProgram);
    if (this.picture.current < 0) this.viewport.begin();
    else this.viewport.reveal(this.picture.current);
  }

  _pointer() {
    const { svg } = this.picture;
    // A press focuses a box, but only a whole click selects it: the details must not open under the pointer.
    let isPressed = false;
    svg.addEventListener("pointerdown", () => (isPressed = true));
    for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => (isPressed = false));
    svg.addEventListener("click", (event) => {
      if (this.viewport.moved > 4) return;
      const box = event.target.closest(".box");
      if (box?.dataset.item) this.use(Number(box.dataset.item));
      else if (svg.classList.contains("far")) this.viewport.enlarge(event);
      else if (this.picture.current >= 0) this.select(-1);
    });
    svg.addEventListener("focusin", (event) => {
      const item = Number(event.target.dataset?.item ?? -1);
      if (item >= 0 && !isPressed && item !== this.picture.current) this.select(item);
    });
    const tip = byId("tip");
    svg.addEventListener("pointermove", (event) => {
      const edge = event.target.closest?.(".edge")?.edge;
      tip.hidden = !edge;
      if (!edge) return;
      const { left, top } = byId("stage").getBoundingClientRect();
      tip.replaceChildren(...this._edgeLines(edge));
      Object.assign(tip.style, { left: `${event.clientX - left + 12}px`, top: `${event.clientY - top + 12}px` });
    });
    svg.addEventListener("pointerleave", () => (tip.hidden = true));
  }

  _edgeLines({ links }) {
    const sources = [...new Set(links.map((link) => link[0]))];
    const lines = sources.slice(0, 6).map((source) => {
      const dtype = this.graph.text(this.graph.data.nodes.dtype[source]);
      return element(
        "div",
        {},
        element("b", {}, this.graph.title(source)),
        ` ${this.graph.axesText(source)} · ${dtype}`,
      );
    });
    if (sources.length > 6)
      lines.push(element("div", { class: "muted" }, `and ${wholeNumber(sources.length - 6)} more values`));
    return lines;
  }

  // Open or close a group, or select a node, and move the focus to its box.
  use(item) {
    if (this.graph.isGroup(item)) this.toggle(item);
    else this.select(item);
    this._focus(item);
  }

  _key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("keys-dialog").open) return;
    if (event.target.matches("input, select, textarea")) return;
    const { svg, current } = this.picture;
    const inPicture = svg.contains(event.target) || event.target === document.body;
    const actions = {
      "/": () => this.search.input.focus(),
      "?": () => byId("keys-dialog").showModal(),
      "+": () => this.viewport.zoom(1.3),
      "=": () => this.viewport.zoom(1.3),
      "-": () => this.viewport.zoom(1 / 1.3),
      0: () => this.viewport.fit(),
      b: () => this._toggleBackward(),
      s: () => saveSvg(this.picture, this.graph.data.title),
      p: () => this._toggleProgram(),
      e: () => this.expandAll(),
      c: () => this.collapseAll(),
      g: () => this._goToGradient(),
      Escape: () => (byId("details").contains(event.target) && current >= 0 ? this._focus(current) : this.select(-1)),
    };
    let action = actions[event.key] ?? actions[event.key.toLowerCase()];
    if (inPicture && event.key.startsWith("Arrow")) action = () => this._arrow(event);
    if (inPicture && (event.key === "Enter" || event.key === " ") && current >= 0) action = () => this._enter(current);
    if (!action) return;
    event.preventDefault();
    action();
  }

  _goToGradient() {
    const gradient = this.picture.current < 0 ? -1 : this.details.gradient(this.picture.current);
    if (gradient >= 0) this.go(gradient, true);
    else announce("No gradient");
  }

  _arrow(event) {
    const step = 60;
    const moves = { ArrowUp: [0, step], ArrowDown: [0, -step], ArrowLeft: [step, 0], ArrowRight: [-step, 0] };
    if (event.shiftKey) {
      this.viewport.pan(...moves[event.key]);
      return;
    }
    const next = neighbour(event.key, this.picture.current, this.picture);
    if (next < 0) return;
    this.select(next, true);
    this.viewport.reveal(next);
    this._focus(next);
  }

  // Open or close a group; of a node, go to its details.
  _enter(item) {
    if (this.graph.isGroup(item)) this.use(item);
    else byId("details").focus();
  }
}

new GraphPage(readData("graph"), readData("carried"));
