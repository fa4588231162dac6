// Values of nodes: the page's program computes them from the inputs, which the reader types, drags or draws.

const _MOST_FIELDS = 16; // inputs of more numbers are drawn, or pasted as text
const _WIDEST = 3; // how far sliders of floats go beyond the largest number, or 1
const _MOST_LISTED = 8; // rows and columns of numbers in the details
const _MOST_DRAWN = 512;

// A number in few digits, for a box or a table.
function _digits(value, count = 4) {
  const number = Number(value);
  if (Number.isInteger(number) && Math.abs(number) < 1e6) return String(number);
  return Number.isFinite(number) ? String(+number.toPrecision(count)) : String(number);
}

// How an array is drawn: its rows are those of the last axis, and a long single row of a square number is a square.
function _grid(shape, size) {
  const columns = shape.length ? shape[shape.length - 1] : 1;
  const side = Math.round(Math.sqrt(size));
  if (columns === size && size >= 49 && side * side === size) return [side, side];
  return [columns ? size / columns : 0, columns];
}

// Draw numbers as cells, red above zero and blue below, the stronger the farther from it.
function _paint(canvas, [rows, columns], values) {
  const [height, width] = [Math.min(rows, _MOST_DRAWN), Math.min(columns, _MOST_DRAWN)];
  if (!height || !width) return;
  Object.assign(canvas, { width, height });
  const largest = values.reduce((most, value) => Math.max(most, Math.abs(Number(value)) || 0), 0) || 1;
  const image = new ImageData(width, height);
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width; column++) {
      const value = Number(values[row * columns + column]);
      const color = value < 0 ? [31, 110, 200] : [214, 72, 20];
      image.data.set([...color, 255 * Math.min(1, Math.abs(value) / largest) || 0], 4 * (row * width + column));
    }
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

class Live {
  constructor(graph, page, { wasm, inputs, outputs }) {
    this.graph = graph;
    this.page = page;
    this.inputs = inputs.map((input) => ({ ...input, values: [...input.values], first: input.values }));
    this.outputs = outputs;
    this.values = new Map(); // of each node: its shape and its numbers
    this._section = null;
    this._shownNode = -1;
    this._build();
    this._load(wasm);
  }

  async _load(wasm) {
    try {
      const bytes = Uint8Array.from(atob(wasm), (letter) => letter.charCodeAt(0));
      this.model = await globalThis.carriedProgram.load(bytes);
    } catch (error) {
      this._tell(`The program of this page cannot run here: ${error.message}`);
      return;
    }
    this.compute();
  }

  // Compute all values before the next frame is drawn.
  change() {
    if (this._waits) return;
    this._waits = true;
    requestAnimationFrame(() => {
      this._waits = false;
      this.compute();
    });
  }

  compute() {
    if (!this.model) return;
    let found;
    try {
      found = this.model.values(Object.fromEntries(this.inputs.map(({ name, values }) => [name, values])));
    } catch (error) {
      this._tell(`${error.message}; the values are those before`);
      return;
    }
    for (const { name, node, shape } of this.outputs) {
      const numbers = ArrayBuffer.isView(found[name]) ? found[name] : [found[name]];
      this.values.set(node, { shape, numbers });
    }
    for (const { node, shape, values } of this.inputs) this.values.set(node, { shape, numbers: [...values] });
    this._tell("");
    this.page.picture.remark();
    this._showValue();
  }

  _tell(text) {
    this.problem.textContent = text;
    this.problem.hidden = !text;
  }

  // --- what the picture and the details ask for -------------------------------------------------------------------

  // The words on a box: the numbers, or the least and the largest of them. Parameters do not change.
  mark(item) {
    const value = this.graph.isGroup(item) ? null : this.values.get(item);
    if (!value || this.graph.data.nodes.kind[item] === PARAMETER) return null;
    const { numbers } = value;
    const short = (number) => _digits(number, 3);
    if (numbers.length <= 3) return { color: null, text: [...numbers].map(short).join(", ") || "empty" };
    const { low, high } = _summary(numbers);
    return { color: null, text: `${short(low)} … ${short(high)}` };
  }

  isDim() {
    return false;
  }

  isInLoop() {
    return false;
  }

  detailsOf(node) {
    this._shownNode = node;
    this._section = element("section", { id: "value" });
    this._showValue();
    return this._section;
  }

  _showValue() {
    if (!this._section) return;
    const value = this.values.get(this._shownNode);
    const content = value ? _valueParts(value) : [element("p", { class: "muted" }, this._reason(this._shownNode))];
    this._section.replaceChildren(element("h3", {}, "Value"), ...content);
  }

  _reason(node) {
    if (!this.model) return "not computed yet";
    const isConstant = this.graph.data.nodes.kind[node] === CONSTANT;
    return isConstant ? "a constant, or a state that does not change here" : "differs in each step of a loop";
  }

  // --- the panel of inputs ------------------------------------------------------------------------------------------

  _build() {
    const panel = byId("inputs");
    this.problem = element("p", { class: "failure", role: "alert", hidden: true });
    const words = this.inputs.length ? null : element("p", { class: "muted" }, "The graph has no inputs.");
    panel.replaceChildren(
      element("h2", {}, "Inputs"),
      this.problem,
      ...[words].filter(Boolean),
      ...this.inputs.map((input) => this._editor(input)),
    );
    panel.hidden = false;
  }

  _editor(input) {
    const size = input.values.length;
    const own = size <= _MOST_FIELDS ? this._fields(input) : this._canvas(input);
    const set = (values) => {
      input.values = values;
      own.show();
      this.change();
    };
    const button = (text, values) =>
      element("button", { click: () => set(values()), "aria-label": `${text}: ${input.label}` }, text);
    return element(
      "section",
      {},
      element("h3", {}, `${input.label} (${input.shape.join(", ")})`),
      ...own.parts,
      element(
        "p",
        { class: "together" },
        button("As at first", () => [...input.first]),
        button("Zeros", () => input.values.map(() => Math.max(0, input.low ?? 0))),
        button("Random", () => input.values.map(() => _drawn(input))),
      ),
    );
  }

  // A slider and a field for each number.
  _fields(input) {
    const [low, high, step] = _range(input);
    const rows = input.values.map((_, index) => {
      const name = input.shape.length ? `${input.label}[${_place(index, input.shape).join(", ")}]` : input.label;
      const take = (text, field) => {
        const value = Number(text);
        const wrong = text === "" ? `${name} needs a number` : _problem(value, input, name);
        field.setAttribute("aria-invalid", String(Boolean(wrong)));
        if (wrong) {
          this._tell(wrong);
          return;
        }
        input.values[index] = value;
        if (field === slider) number.value = value;
        else slider.value = value;
        number.setAttribute("aria-invalid", "false");
        this.change();
      };
      const slider = element("input", {
        type: "range", min: low, max: high, step, "aria-label": `${name}, slider`, input: () => take(slider.value, slider),
      });
      const number = element("input", {
        type: "number", step: "any", "aria-label": name, input: () => take(number.value, number),
      });
      return { slider, number, row: element("div", { class: "field" }, slider, number) };
    });
    const show = () =>
      rows.forEach(({ slider, number }, index) => {
        slider.value = input.values[index];
        number.value = _digits(input.values[index], 6);
      });
    show();
    return { parts: rows.map(({ row }) => row), show };
  }

  // A picture that is drawn on with a brush of one value, and all numbers as text.
  _canvas(input) {
    const grid = _grid(input.shape, input.values.length);
    const [low, high, step] = _range(input);
    const canvas = element("canvas", { class: "cells", role: "img", "aria-label": `${input.label}, to draw on` });
    canvas.style.aspectRatio = `${Math.max(grid[1], 1)} / ${Math.min(Math.max(grid[0], 1, grid[1] / 8), 4 * grid[1])}`;
    const brush = element("input", { type: "range", min: low, max: high, step, "aria-label": `brush: ${input.label}` });
    const shownBrush = element("output", { class: "number" });
    const showBrush = () => (shownBrush.textContent = _digits(brush.value));
    brush.value = input.low === null ? Math.min(1, high) : high;
    brush.addEventListener("input", showBrush);
    const text = element("input", { type: "text", "aria-label": `numbers: ${input.label}`, spellcheck: "false" });
    const show = () => {
      _paint(canvas, grid, input.values);
      text.value = input.values.map((value) => _digits(value)).join(" ");
      showBrush();
    };
    const draw = (event) => {
      const { left, top, width, height } = canvas.getBoundingClientRect();
      const row = Math.floor(((event.clientY - top) / height) * canvas.height);
      const column = Math.floor(((event.clientX - left) / width) * canvas.width);
      if (row < 0 || column < 0 || row >= canvas.height || column >= canvas.width) return;
      input.values[row * grid[1] + column] = Number(brush.value);
      show();
      this.change();
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      draw(event);
    });
    canvas.addEventListener("pointermove", (event) => event.buttons && draw(event));
    text.addEventListener("change", () => {
      const found = text.value.split(/[\s,;]+/).filter(Boolean).map(Number);
      const wrong =
        found.length === input.values.length
          ? found.map((value) => _problem(value, input, input.label)).find(Boolean)
          : `${input.label} has ${input.values.length} numbers, not ${found.length}`;
      text.setAttribute("aria-invalid", String(Boolean(wrong)));
      if (wrong) {
        this._tell(wrong);
        return;
      }
      input.values = found;
      show();
      this.change();
    });
    show();
    return { parts: [canvas, element("div", { class: "field" }, brush, shownBrush), text], show };
  }
}

// The least, the largest and the number of a slider's steps.
function _range({ low, high, first }) {
  if (low !== null) return [Math.max(low, high > 1000 ? -10 : 0), Math.min(high, low < -1000 ? 10 : high), 1];
  const most = _WIDEST * first.reduce((most, value) => Math.max(most, Math.abs(value)), 1);
  return [-most, most, most / 150]; // 1 is a step of it
}

// What is wrong with a number of an input, or nothing.
function _problem(value, { low, high }, name) {
  if (!Number.isFinite(value)) return `${name} needs a number`;
  if (low === null) return "";
  if (!Number.isInteger(value)) return `${name} takes whole numbers, not ${value}`;
  return value < low || value > high ? `${name} takes ${low} to ${high}, not ${value}` : "";
}

// A random number for an input: of a normal distribution, or one of the whole numbers of its slider.
function _drawn(input) {
  if (input.low === null) {
    return Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
  }
  const [low, high] = _range(input);
  return low + Math.floor(Math.random() * (high - low + 1));
}

// The position of an element in an array, one index for each axis.
function _place(index, shape) {
  const found = [];
  let rest = index;
  for (const size of [...shape].reverse()) {
    found.unshift(rest % size);
    rest = Math.floor(rest / size);
  }
  return found;
}

function _summary(numbers) {
  let [low, high, sum] = [Infinity, -Infinity, 0];
  for (const each of numbers) {
    const value = Number(each);
    if (Number.isNaN(value)) return { low: NaN, high: NaN, mean: NaN };
    low = Math.min(low, value);
    high = Math.max(high, value);
    sum += value;
  }
  return { low, high, mean: sum / numbers.length };
}

// The value of a node: a number, or a picture, a summary and the first numbers.
function _valueParts({ shape, numbers }) {
  if (!numbers.length) return [element("p", { class: "muted" }, "empty")];
  if (numbers.length === 1) return [element("p", { class: "mono" }, String(numbers[0]))];
  const { low, high, mean } = _summary(numbers);
  const columns = shape[shape.length - 1];
  const rows = numbers.length / columns;
  const canvas = element("canvas", { class: "cells", role: "img", "aria-label": "The numbers as colours" });
  const grid = _grid(shape, numbers.length);
  canvas.style.aspectRatio = `${grid[1]} / ${Math.min(Math.max(grid[0], grid[1] / 8), 2 * grid[1])}`;
  _paint(canvas, grid, numbers);
  const lines = [];
  for (let row = 0; row < Math.min(rows, _MOST_LISTED); row++) {
    const cells = [...numbers.slice(row * columns, row * columns + Math.min(columns, _MOST_LISTED))];
    lines.push(cells.map((value) => _digits(value)).join("  ") + (columns > _MOST_LISTED ? "  …" : ""));
  }
  if (rows > _MOST_LISTED) lines.push("…");
  return [
    canvas,
    element("p", { class: "number" }, `${_digits(low)} to ${_digits(high)}, mean ${_digits(mean)}`),
    element("pre", { tabindex: "0" }, lines.join("\n")),
  ];
}
