// The layout of groups with thousands of boxes: rows by the longest path, in the order of a newspaper's columns.
//
// In a row, boxes stand near their operands. Columns keep the whole near the shape of a screen; a chain of thousands of
// rows would otherwise be a hair.

const ROW_GAP = 34;
const BOX_GAP = 18;
const COLUMN_GAP = 110;
const WIDE = 1.7; // width by height of the whole
const MOST_IN_ROW = 24;
const MOST_ROWS_APART = 6; // longer edges are drawn where they end, and whole for the current box only

function arrangeInColumns(boxes, edges) {
  const keys = [...boxes.keys()];
  const index = new Map(keys.map((key, position) => [key, position]));
  const all = keys.map((key) => boxes.get(key));
  const parents = keys.map(() => []);
  const users = keys.map(() => []);
  for (const { a, b } of edges) {
    parents[index.get(b)].push(index.get(a));
    users[index.get(a)].push(index.get(b));
  }
  const rows = _rows(parents, users);
  for (let sweep = 0; sweep < 4; sweep++) _order(rows, sweep % 2 ? users : parents, sweep % 2 === 1);
  _placeInRows(rows, all, parents, users);
  const size = _fold(rows, all);
  for (const edge of edges) {
    const [a, b] = [boxes.get(edge.a), boxes.get(edge.b)];
    const start = [a.x + a.w / 2, a.y + a.h];
    const end = [b.x + b.w / 2, b.y];
    edge.isSideways = a.column !== b.column;
    edge.isFar = edge.isSideways || Math.abs(b.row - a.row) > MOST_ROWS_APART;
    edge.points = [start, end];
    [edge.leaves, edge.arrives] = edge.isSideways ? [start[0], end[0]] : [end[0], start[0]];
  }
  return size;
}

// Rows of positions: each below all of its operands, leaves right above their first use, and wide rows cut in several.
function _rows(parents, users) {
  const order = _topological(parents, users);
  const row = new Array(parents.length).fill(0);
  for (const node of order) for (const user of users[node]) row[user] = Math.max(row[user], row[node] + 1);
  for (const node of order) {
    if (!parents[node].length && users[node].length)
      row[node] = users[node].reduce((low, user) => Math.min(low, row[user]), Infinity) - 1;
  }
  const rows = [];
  for (const node of order) {
    while (rows.length <= row[node]) rows.push([]);
    rows[row[node]].push(node);
  }
  const cut = [];
  for (const members of rows) {
    for (let start = 0; start < members.length; start += MOST_IN_ROW)
      cut.push(members.slice(start, start + MOST_IN_ROW));
  }
  return cut;
}

function _topological(parents, users) {
  const left = parents.map((list) => list.length);
  const order = [];
  left.forEach((count, node) => count === 0 && order.push(node));
  for (let done = 0; done < order.length; done++) {
    for (const user of users[order[done]]) if (--left[user] === 0) order.push(user);
  }
  return order;
}

// Sort each row by the mean place of the neighbours in the rows before it, or after it from the last row up.
function _order(rows, neighbours, isUp) {
  const place = new Map();
  const sorted = isUp ? rows.slice().reverse() : rows;
  for (const row of sorted) {
    const wanted = new Map();
    row.forEach((node, position) => {
      let [sum, count] = [0, 0];
      for (const other of neighbours[node]) {
        if (!place.has(other)) continue;
        sum += place.get(other);
        count++;
      }
      wanted.set(node, count ? sum / count : position / Math.max(row.length - 1, 1));
    });
    row.sort((a, b) => wanted.get(a) - wanted.get(b));
    row.forEach((node, position) => place.set(node, row.length > 1 ? position / (row.length - 1) : wanted.get(node)));
  }
}

function _placeInRows(rows, boxes, parents, users) {
  rows.forEach((row, position) => {
    let x = 0;
    for (const node of row) {
      Object.assign(boxes[node], { x, row: position });
      x += boxes[node].w + BOX_GAP;
    }
    for (const node of row) boxes[node].x -= (x - BOX_GAP) / 2;
  });
  for (const [neighbours, isUp] of [
    [parents, false],
    [users, true],
    [parents, false],
  ]) {
    for (const row of isUp ? rows.slice().reverse() : rows) _pull(row, boxes, neighbours);
  }
}

// Move the boxes of a row towards their neighbours in the rows nearby, in order, without overlap or wide gaps.
function _pull(row, boxes, neighbours) {
  const middle = (node) => boxes[node].x + boxes[node].w / 2;
  const wanted = row.map((node) => {
    const others = neighbours[node].filter((other) => Math.abs(boxes[other].row - boxes[node].row) <= MOST_ROWS_APART);
    if (!others.length) return boxes[node].x;
    return others.reduce((sum, other) => sum + middle(other), 0) / others.length - boxes[node].w / 2;
  });
  let edge = wanted[0];
  let shift = 0;
  row.forEach((node, position) => {
    boxes[node].x = Math.min(Math.max(wanted[position], edge), edge + 3 * BOX_GAP);
    edge = boxes[node].x + boxes[node].w + BOX_GAP;
    shift += boxes[node].x - wanted[position];
  });
  const [first, last] = [boxes[row[0]].x, edge - BOX_GAP];
  // A row stays near the middle of its column.
  const most = Math.max(last - first, 240) / 2;
  const centre = Math.min(Math.max((first + last) / 2 - shift / row.length, -most), most);
  for (const node of row) boxes[node].x += centre - (first + last) / 2;
}

// Cut the rows into columns, set the final places, and return the size of the whole.
function _fold(rows, boxes) {
  const extents = rows.map((row) => {
    const left = Math.min(...row.map((node) => boxes[node].x));
    const right = Math.max(...row.map((node) => boxes[node].x + boxes[node].w));
    return { left, right, high: Math.max(...row.map((node) => boxes[node].h)) };
  });
  let count = Math.max(1, Math.ceil(Math.sqrt(rows.length / 6)));
  let columns = _columns(extents, count);
  // More columns are wider and lower: look for the count that gives the shape of a screen.
  for (let tries = 0; tries < 8; tries++) {
    const next = Math.max(1, Math.round(count * Math.sqrt(WIDE / (columns.w / columns.h))));
    if (next === count) break;
    count = next;
    columns = _columns(extents, count);
  }
  columns.parts.forEach(({ first, last, x }, column) => {
    let y = 0;
    for (let row = first; row < last; row++) {
      for (const node of rows[row]) Object.assign(boxes[node], { x: boxes[node].x + x, y, column });
      y += extents[row].high + ROW_GAP;
    }
  });
  return { w: columns.w, h: columns.h };
}

// Cut rows into columns of about the same height: first and last row of each, and how far its boxes move to the right.
function _columns(extents, count) {
  const most = extents.reduce((sum, { high }) => sum + high + ROW_GAP, 0) / count;
  const parts = [];
  let [x, y, h, first] = [0, 0, 0, 0];
  extents.forEach(({ high }, row) => {
    y += high + ROW_GAP;
    if (y < most && row < extents.length - 1) return;
    const [left, right] = [_least(extents, first, row, "left", 1), _least(extents, first, row, "right", -1)];
    parts.push({ first, last: row + 1, x: x - left });
    x += right - left + COLUMN_GAP;
    h = Math.max(h, y - ROW_GAP);
    [y, first] = [0, row + 1];
  });
  return { parts, w: x - COLUMN_GAP, h };
}

function _least(extents, first, last, side, sign) {
  let least = Infinity;
  for (let row = first; row <= last; row++) least = Math.min(least, sign * extents[row][side]);
  return sign * least;
}
