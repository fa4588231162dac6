// The search by name, op, axis, class and path, with a list of hits.

const MOST_HITS = 60;

class Search {
  // `go` is called with an item, `found` with the items of all hits whenever they change.
  constructor(graph, go, found) {
    this.graph = graph;
    this.go = go;
    this.found = found;
    this.input = byId("search");
    this.list = byId("hits");
    this.hits = [];
    this.active = -1;
    this.input.addEventListener("input", () => this._update());
    this.input.addEventListener("focus", () => this._update());
    this.input.addEventListener("keydown", (event) => this._key(event));
    this.input.addEventListener("blur", () => setTimeout(() => this._hide(), 150));
  }

  _index() {
    if (this.entries) return this.entries;
    const { graph } = this;
    const entries = [];
    const backward = (item) => (graph.part(item) === BACKWARD ? "backward" : "");
    for (let item = graph.nodeCount; item < graph.nodeCount + graph.groupCount; item++) {
      if (graph.parent[item] < 0) continue;
      const fields = { name: graph.title(item), class: graph.className(item), path: graph.path(item) };
      entries.push(_entry(item, { ...fields, part: backward(item) }));
    }
    for (let node = 0; node < graph.nodeCount; node++) {
      if (!graph.shown[node]) continue;
      const axis = graph
        .axes(node)
        .map(([name]) => name)
        .filter(Boolean)
        .join(" ");
      const path = graph.path(node);
      entries.push(_entry(node, { name: graph.name(node), op: graph.op(node), axis, path, part: backward(node) }));
    }
    this.entries = entries;
    return entries;
  }

  _update() {
    const words = this.input.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) {
      this.hits = [];
      this._hide();
      this.found([]);
      return;
    }
    const ranked = [];
    for (const entry of this._index()) {
      const rank = _match(entry, words);
      if (rank > 0) ranked.push([rank, entry]);
    }
    ranked.sort((a, b) => b[0] - a[0]);
    this.hits = ranked.map(([, entry]) => entry);
    this.active = this.hits.length ? 0 : -1;
    this.found(this.hits.map((entry) => entry.item));
    this._show();
    announce(countText(this.hits.length, "hit"));
  }

  _show() {
    const shown = this.hits.slice(0, MOST_HITS);
    const lines = shown.map((entry, index) =>
      element(
        "div",
        {
          role: "option",
          id: `hit-${index}`,
          class: "hit",
          "aria-selected": String(index === this.active),
          pointerdown: (event) => event.preventDefault(),
          click: () => this._choose(index),
        },
        element("span", { class: `dot part-${this.graph.part(entry.item)}` }),
        element("span", { class: "hit-title" }, this.graph.title(entry.item)),
        element("span", { class: "muted hit-place" }, this._place(entry.item)),
      ),
    );
    const count = this.hits.length;
    const rest = count > MOST_HITS ? `${MOST_HITS} of ${wholeNumber(count)} hits` : countText(count, "hit");
    this.list.replaceChildren(...lines, element("div", { class: "hit-count muted" }, rest));
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this._point();
  }

  _place(item) {
    const { graph } = this;
    if (graph.isGroup(item)) return [graph.className(item), graph.path(item)].filter(Boolean).join(" · ");
    return [graph.axesText(item), graph.path(item)].filter(Boolean).join(" · ");
  }

  _point() {
    for (const [index, line] of [...this.list.children].entries()) {
      if (index === this.active) line.scrollIntoView({ block: "nearest" });
      if (line.role === "option") line.setAttribute("aria-selected", String(index === this.active));
    }
    if (this.active >= 0) this.input.setAttribute("aria-activedescendant", `hit-${this.active}`);
    else this.input.removeAttribute("aria-activedescendant");
  }

  _key(event) {
    const last = Math.min(this.hits.length, MOST_HITS) - 1;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (this.list.hidden) this._update();
      this.active = Math.min(Math.max(this.active + (event.key === "ArrowDown" ? 1 : -1), 0), last);
      this._point();
    } else if (event.key === "Enter" && this.active >= 0) {
      event.preventDefault();
      this._choose(this.active);
    } else if (event.key === "Escape") {
      event.stopPropagation();
      if (this.input.value) {
        this.input.value = "";
        this._update();
      } else byId("picture").focus();
    }
  }

  _choose(index) {
    const { item } = this.hits[index];
    this._hide();
    this.go(item);
  }

  _hide() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }
}

function _entry(item, fields) {
  const lower = Object.fromEntries(Object.entries(fields).map(([name, text]) => [name, text.toLowerCase()]));
  return { item, fields: lower };
}

// 0 unless every word is in a field, or in the field that it names, as in "axis:time"; else higher for better hits.
function _match({ fields }, words) {
  let rank = 0;
  for (const word of words) {
    const [, field, text] = /^(name|op|axis|class|path):(.*)$/.exec(word) ?? [null, null, word];
    let best = 0;
    for (const [name, value] of Object.entries(fields)) {
      if ((field && field !== name) || !value) continue;
      if (value === text) best = Math.max(best, 5);
      else if (value.startsWith(text)) best = Math.max(best, name === "path" ? 2 : 4);
      else if (value.includes(text)) best = Math.max(best, name === "path" ? 1 : 3);
    }
    if (!best) return 0;
    rank += best;
  }
  return rank + (fields.part ? 0 : 0.5);
}
