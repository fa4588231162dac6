// A small map of the whole picture with the part that the window shows; a press on it moves there.

const MAP_WIDTH = 190;
const MAP_HEIGHT = 130;
const MAP_LEAST = 44;

class OverviewMap {
  constructor(node, picture, viewport) {
    this.node = node;
    this.picture = picture;
    this.viewport = viewport;
    this.boxes = svgElement("g");
    this.window = svgElement("rect", { class: "map-window" });
    this.svg = svgElement("svg", { "aria-hidden": "true", preserveAspectRatio: "none" }, this.boxes, this.window);
    node.append(this.svg);
    const move = (event) => {
      if (event.buttons !== 1) return;
      const { left, top } = this.svg.getBoundingClientRect();
      const { width, height } = this.scene;
      this.viewport.center(((event.clientX - left) / this.size[0]) * width, ((event.clientY - top) / this.size[1]) * height);
    };
    node.addEventListener("pointerdown", (event) => {
      node.setPointerCapture(event.pointerId);
      move(event);
    });
    node.addEventListener("pointermove", move);
  }

  // Follow the picture; called after each drawing of it.
  update() {
    const { scene, view, svg } = this.picture;
    const [w, h] = [svg.clientWidth / view.scale, svg.clientHeight / view.scale];
    const left = -view.x / view.scale;
    const top = -view.y / view.scale;
    const isWhole = left <= 0 && top <= 0 && left + w >= scene.width && top + h >= scene.height;
    this.node.hidden = isWhole || this.picture.printing || svg.clientWidth < 620;
    if (this.node.hidden) return;
    if (this.scene !== scene) this._draw(scene);
    const [x, y] = [Math.max(left, 0), Math.max(top, 0)];
    const corners = { x, y, width: Math.min(left + w, scene.width) - x, height: Math.min(top + h, scene.height) - y };
    for (const [name, value] of Object.entries(corners)) this.window.setAttribute(name, Math.max(value, 0));
  }

  _draw(scene) {
    this.scene = scene;
    const scale = Math.min(MAP_WIDTH / scene.width, MAP_HEIGHT / scene.height);
    // A long strip is widened, so that it can be seen and hit.
    this.size = [scene.width, scene.height].map((length) => Math.max(length * scale, MAP_LEAST));
    this.svg.setAttribute("viewBox", `0 0 ${scene.width} ${scene.height}`);
    ["width", "height"].forEach((name, i) => this.svg.setAttribute(name, this.size[i]));
    this.boxes.replaceChildren(...this.picture.farPaths(false));
  }
}
