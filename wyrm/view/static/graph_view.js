// The window on the picture: zoom, pan, and the way from box to box by keys.

const READABLE_SCALE = 0.7; // words are still legible
const NARROW = 600; // a telephone, whose pixels are small and which is held near
const NARROW_SCALE = 0.45;
const LARGEST_FIT = 1.15;
const BELOW = 44; // for the legend
const SMALLEST_SCALE = 0.005;
const LARGEST_SCALE = 4;

class Viewport {
  constructor(picture) {
    this.picture = picture;
    this.svg = picture.svg;
    this._pointers = new Map();
    this._frame = 0;
    this.svg.addEventListener("wheel", (event) => this._wheel(event), { passive: false });
    this.svg.addEventListener("pointerdown", (event) => this._press(event));
    this.svg.addEventListener("pointermove", (event) => this._move(event));
    for (const name of ["pointerup", "pointercancel"]) {
      this.svg.addEventListener(name, (event) => this._pointers.delete(event.pointerId));
    }
    this._untouched = false; // since `begin`
    new ResizeObserver(() => (this._untouched ? this.begin() : this.redraw())).observe(this.svg);
  }

  redraw() {
    if (this._frame) return;
    this._frame = requestAnimationFrame(() => {
      this._frame = 0;
      this.picture.draw();
    });
  }

  _set(x, y, scale) {
    this._untouched = false;
    Object.assign(this.picture.view, { x, y, scale });
    this.redraw();
  }

  // Zoom so that the point of the window stays where it is; the middle by default.
  zoom(factor, left = this.svg.clientWidth / 2, top = this.svg.clientHeight / 2) {
    const { x, y, scale } = this.picture.view;
    const next = Math.min(Math.max(scale * factor, SMALLEST_SCALE), LARGEST_SCALE);
    this._set(left - ((left - x) * next) / scale, top - ((top - y) * next) / scale, next);
  }

  // Zoom to a legible size at a click.
  enlarge({ clientX, clientY }) {
    const { left, top } = this.svg.getBoundingClientRect();
    this.zoom(READABLE_SCALE / this.picture.view.scale, clientX - left, clientY - top);
  }

  pan(dx, dy) {
    const { x, y, scale } = this.picture.view;
    this._set(x + dx, y + dy, scale);
  }

  // Keep the picture as it is when the size of the window changes.
  hold() {
    this._untouched = false;
  }

  _fitScale() {
    const { width, height } = this.picture.scene;
    return Math.min((this.svg.clientWidth - 48) / width, (this.svg.clientHeight - 24 - BELOW) / height, LARGEST_FIT);
  }

  // Whether the window shows the whole picture.
  get isWhole() {
    return this.picture.view.scale <= this._fitScale() + 1e-9;
  }

  // Move a point of the picture to the middle of the window.
  center(x, y) {
    const { scale } = this.picture.view;
    this._set(this.svg.clientWidth / 2 - x * scale, this.svg.clientHeight / 2 - y * scale, scale);
  }

  // Move a point of the picture to the middle of the window's lower edge.
  showCorner(x, y) {
    const { scale } = this.picture.view;
    this._set(this.svg.clientWidth / 2 - x * scale, this.svg.clientHeight - BELOW - y * scale, scale);
  }

  // Show the whole picture.
  fit() {
    const { width, height } = this.picture.scene;
    const scale = this._fitScale();
    const [room, roomBelow] = [
      this.svg.clientWidth - width * scale,
      this.svg.clientHeight - BELOW + 24 - height * scale,
    ];
    this._set(room / 2, roomBelow / 2, scale);
  }

  // Show the whole picture if it is legible then, else its start; again when the size of the window changes, such as
  // that of a frame which a notebook shows later.
  begin() {
    if (this._fitScale() >= (this.svg.clientWidth < NARROW ? NARROW_SCALE : READABLE_SCALE)) {
      this.fit();
      this._untouched = true;
      return;
    }
    const { width } = this.picture.scene;
    const start = this.picture.scene.boxes.reduce((top, box) => (!top || box.y < top.y ? box : top), null);
    const scale = READABLE_SCALE + 0.1;
    const fits = width * scale <= this.svg.clientWidth;
    const middle = fits || !start ? width / 2 : start.x + start.w / 2;
    this._set(this.svg.clientWidth / 2 - middle * scale, 24, scale);
    this._untouched = true;
  }

  // Keep the middle of a box's upper edge at a point of the window.
  pin(item, left, top) {
    const box = this.picture.scene.at.get(item);
    if (!box) return;
    const { scale } = this.picture.view;
    this._set(left - (box.x + box.w / 2) * scale, top - box.y * scale, scale);
  }

  // Where `pin` would have to keep a box.
  placeOf(item) {
    const box = this.picture.scene.at.get(item);
    if (!box) return null;
    const { x, y, scale } = this.picture.view;
    return [x + (box.x + box.w / 2) * scale, y + box.y * scale];
  }

  // Move the picture, and enlarge it to a legible size, unless the box is in the window.
  reveal(item) {
    const box = this.picture.scene.at.get(item);
    if (!box) return;
    const { x, y, scale } = this.picture.view;
    const next = Math.max(scale, READABLE_SCALE);
    const [w, h] = [this.svg.clientWidth, this.svg.clientHeight];
    const [left, top] = [x + box.x * scale, y + box.y * scale];
    const [wide, high] = [Math.min(box.w * scale, w - 40), Math.min(box.h * scale, h - 40)];
    if (next === scale && left >= 8 && top >= 8 && left + wide <= w - 8 && top + high <= h - 8) return;
    const middle = Math.min(box.h / 2, (h / 2 - 40) / next);
    this._set(w / 2 - (box.x + box.w / 2) * next, h / 2 - (box.y + middle) * next, next);
  }

  _wheel(event) {
    // In a notebook, the wheel scrolls the notebook until a click into the picture.
    if (window.self !== window.top && !event.ctrlKey && !document.hasFocus()) return;
    event.preventDefault();
    if (event.shiftKey || event.altKey) {
      this.pan(event.shiftKey ? -(event.deltaX || event.deltaY) : 0, event.shiftKey ? 0 : -event.deltaY);
      return;
    }
    const { left, top } = this.svg.getBoundingClientRect();
    const lines = event.deltaMode === 1 ? 16 : 1;
    const factor = Math.exp(-Math.max(-240, Math.min(240, event.deltaY * lines)) * (event.ctrlKey ? 0.01 : 0.0016));
    this.zoom(factor, event.clientX - left, event.clientY - top);
  }

  _press(event) {
    if (event.button !== 0) return;
    this._pointers.set(event.pointerId, [event.clientX, event.clientY]);
    this.moved = 0;
  }

  _move(event) {
    const before = this._pointers.get(event.pointerId);
    if (!before) return;
    const now = [event.clientX, event.clientY];
    const [dx, dy] = [now[0] - before[0], now[1] - before[1]];
    this.moved += Math.abs(dx) + Math.abs(dy);
    if (this.moved > 4) this.svg.setPointerCapture(event.pointerId);
    const other = [...this._pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const apart = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]);
      const { left, top } = this.svg.getBoundingClientRect();
      this.zoom(apart(now) / Math.max(apart(before), 1), other[0] - left, other[1] - top);
    } else this.pan(dx, dy);
    this._pointers.set(event.pointerId, now);
  }
}

const _DIRECTIONS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

// Return the box to move to from an item by an arrow key: along an edge if one leads there, else to the nearest box.
function neighbour(key, item, picture) {
  const { scene, graph, layout } = picture;
  const from = scene.at.get(item);
  if (!from) return scene.boxes[0]?.item ?? -1;
  const [dx, dy] = _DIRECTIONS[key];
  if (from.isOpen && dy > 0) return _first(scene, graph, item);
  const linked = new Set();
  for (const node of from.isOpen ? [] : graph.nodesInside(item)) {
    for (const other of [...graph.users[node], ...graph.data.nodes.parents[node]]) linked.add(layout.standIn(other));
  }
  const middle = ({ x, y, w, h }) => [x + w / 2, y + h / 2];
  const [x, y] = middle(from);
  const around = new Set(graph.ancestors(item));
  let [best, least] = [-1, Infinity];
  for (const box of scene.boxes) {
    if (box.item === item || box.isOpen) continue;
    const [along, across] = dy
      ? [(middle(box)[1] - y) * dy, Math.abs(middle(box)[0] - x)]
      : [(middle(box)[0] - x) * dx, Math.abs(middle(box)[1] - y)];
    const isBeyond = dy ? along > from.h / 4 : along > 1;
    if (!isBeyond || (dx && across > from.h)) continue;
    const cost = along + 2 * across - (dy && linked.has(box.item) ? 1e6 : 0);
    if (cost < least) [best, least] = [box.item, cost];
  }
  const leaves = best < 0 || (dy < 0 && around.size && !linked.has(best) && !around.has(graph.parent[best]));
  return leaves && around.size && dy < 0 ? graph.parent[item] : best;
}

function _first(scene, graph, item) {
  const boxes = graph.children
    .get(item)
    .map((child) => scene.at.get(child))
    .filter(Boolean);
  return boxes.reduce((top, box) => (box.y < top.y || (box.y === top.y && box.x < top.x) ? box : top)).item;
}
