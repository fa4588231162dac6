// Small parts of the picture: lines, arrows, marks, and what lies in the window.

const _FAR_ORDER = ["open", "lines"];

function _rank(name) {
  const rank = _FAR_ORDER.indexOf(name);
  return rank < 0 ? (name === "current" || name === "found" ? 9 : 5) : rank;
}

function _short(value) {
  return Math.round(value * 10) / 10;
}

function _meets(box, window) {
  const [right, bottom] = [box.x + box.w, box.y + box.h];
  return box.x < window.right && right > window.x && box.y < window.bottom && bottom > window.y;
}

function _extent({ points }) {
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const [x, y] = [Math.min(...xs) - 1, Math.min(...ys) - 1];
  return { x, y, w: Math.max(...xs) - x + 1, h: Math.max(...ys) - y + 1 };
}

// A smooth line that leaves and enters boxes vertically, with an arrow at its end.
function edgePath({ points, isSideways, isUpwards, hasArrow }) {
  const [first, last] = [points[0], points[points.length - 1]];
  const down = isUpwards ? -1 : 1;
  let path = `M ${_short(first[0])} ${_short(first[1])}`;
  const curve = ([x0, y0], [x1, y1], bend) =>
    ` C ${_short(x0)} ${_short(y0 + bend)} ${_short(x1)} ${_short(y1 - bend)} ${_short(x1)} ${_short(y1)}`;
  if (isSideways) path += curve(first, last, 60 * down);
  else
    for (let index = 1; index < points.length; index++)
      path += curve(points[index - 1], points[index], (points[index][1] - points[index - 1][1]) / 2);
  if (!hasArrow) return path;
  return `${path} m -3.5 ${-5 * down} l 3.5 ${5 * down} l 3.5 ${-5 * down}`;
}

// The last bit of an edge that comes from far away.
function _stub({ points, isUpwards }) {
  const [x, y] = points[points.length - 1];
  const back = isUpwards ? 1 : -1;
  const start = `M ${_short(x)} ${_short(y + 13 * back)}`;
  return `${start} V ${_short(y)} m -3.5 ${5 * back} l 3.5 ${-5 * back} l 3.5 ${5 * back}`;
}

// A dashed line from a forward box to a backward box, from side to side.
function _crossing(a, b) {
  const [x, y] = [a.x + a.w, a.y + a.h / 2];
  const [endX, endY] = [b.x, b.y + b.h / 2];
  const bend = Math.max(40, (endX - x) / 2);
  const places = [x + bend, y, endX - bend, endY, endX, endY].map(_short).join(" ");
  return { isCrossing: true, d: `M ${_short(x)} ${_short(y)} C ${places} m -5 -3.5 l 5 3.5 l -5 3.5` };
}

function _badge(words, y) {
  const x = 24 + words.titleWidth;
  return svgElement(
    "g",
    { class: "badge" },
    svgElement("rect", { x, y: y - 14, width: words.badgeWidth - 4, height: 19, rx: 9.5 }),
    svgElement("text", { x: x + (words.badgeWidth - 4) / 2, y, "text-anchor": "middle" }, words.badge),
  );
}

function _markOf({ color, text }, width) {
  const w = textWidth(text, SMALL_FONT) + 12;
  const x = w > width ? (width - w) / 2 : width - w + 12;
  const mark = svgElement(
    "g",
    { class: "mark", "aria-hidden": "true", transform: `translate(${x} -11)` },
    svgElement("rect", { width: w, height: 16, rx: 4 }),
    svgElement("text", { x: w / 2, y: 12, "text-anchor": "middle" }, text),
  );
  mark.firstChild.style.fill = color ?? "var(--text)";
  return mark;
}
