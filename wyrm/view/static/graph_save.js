// The picture on paper and as a file.

// Of the looks of an element, what a program needs that does not know the page's styles.
const _LOOKS = [
  "fill", "fill-opacity", "stroke", "stroke-opacity", "stroke-width", "stroke-dasharray", "stroke-linejoin",
  "paint-order", "opacity", "font-family", "font-size", "font-weight", "text-anchor",
];
const _ROOM = 12; // around the picture
// What a sheet of paper shows at least, and at most if the picture fits on one.
const _SHEET = { width: 900, height: 1180 };
const _MOST_ON_ONE = 1.5;
const _MOST_SHEETS = 80;

// Save the whole picture, as it is open now, as an SVG file.
function saveSvg(picture, name) {
  picture.whole(() => {
    const { width, height } = picture.scene;
    const copy = picture.svg.cloneNode(true);
    const [from, to] = [picture.svg, copy].map((svg) => [...svg.querySelectorAll("*")]);
    from.forEach((node, i) => {
      const looks = getComputedStyle(node);
      for (const look of _LOOKS) to[i].setAttribute(look, looks.getPropertyValue(look));
      for (const attribute of ["class", "style", "role", "tabindex", "data-item"]) to[i].removeAttribute(attribute);
    });
    for (const reach of [...copy.querySelectorAll("path")].filter((path) => path.getAttribute("stroke-width") === "12px")) reach.remove();
    const ground = getComputedStyle(document.body).backgroundColor;
    copy.prepend(svgElement("rect", { x: -_ROOM, y: -_ROOM, width: "100%", height: "100%", fill: ground }));
    for (const attribute of [...copy.attributes]) copy.removeAttribute(attribute.name);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("viewBox", `${-_ROOM} ${-_ROOM} ${width + 2 * _ROOM} ${height + 2 * _ROOM}`);
    copy.setAttribute("width", width + 2 * _ROOM);
    copy.setAttribute("height", height + 2 * _ROOM);
    saveFile(`${name}.svg`, new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }));
  });
}

// The sheets of paper of a picture: one if it is legible there, else a grid of them, without empty ones.
function sheetsOf({ width, height, boxes }) {
  const [w, h] = [width + 2 * _ROOM, height + 2 * _ROOM];
  if (w <= _SHEET.width * _MOST_ON_ONE && h <= _SHEET.height * _MOST_ON_ONE) return [{ x: -_ROOM, y: -_ROOM, w, h, words: "" }];
  const few = Math.max(1, Math.sqrt((w * h) / (_SHEET.width * _SHEET.height * _MOST_SHEETS)));
  const columns = Math.ceil(w / (_SHEET.width * few * _MOST_ON_ONE));
  const wide = Math.max(w / columns, _SHEET.width);
  const high = (wide * _SHEET.height) / _SHEET.width;
  const rows = Math.ceil(h / high);
  const all = Array.from({ length: rows * columns }, (_, i) => {
    const [row, column] = [Math.floor(i / columns), i % columns];
    const words = `Row ${row + 1} of ${rows}${columns > 1 ? `, column ${column + 1} of ${columns}` : ""}`;
    return { x: column * wide - _ROOM, y: row * high - _ROOM, w: wide, h: high, words };
  });
  const isUsed = (sheet) => boxes.some((box) => !box.isOpen && _meets(box, { ...sheet, right: sheet.x + sheet.w, bottom: sheet.y + sheet.h }));
  return all.filter(isUsed);
}

// Put the sheets into a node, each a view of the picture's contents.
function printSheets(node, picture) {
  node.replaceChildren(
    ...sheetsOf(picture.scene).map(({ x, y, w, h, words }) =>
      element(
        "figure", { class: "sheet" },
        svgElement("svg", { viewBox: `${x} ${y} ${w} ${h}` }, svgElement("use", { href: "#world" })),
        words ? element("figcaption", {}, words) : null,
      )),
  );
}
