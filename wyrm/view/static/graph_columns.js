// The layout of groups with thousands of boxes: rows by the longest path, in the order of a newspaper's columns.
//
// Rows are filled from the left in the order that puts boxes below their operands. Columns keep the whole near the shape
// of a screen; a chain of thousands of rows would otherwise be a hair.

const ROW_GAP = 34;
const BOX_GAP = 18;
const COLUMN_GAP = 110;
const WIDE = 1.7; // width by height of the whole

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
    edge.points = [start, end];
    [edge.leaves, edge.arrives] = edge.isSideways ? [start[0], end[0]] : [end[0], start[0]];
  }
  return size;
}

// Rows of positions: each below all of its operands, and leaves right above their first use.
function _rows(parents, users) {
  const order = _topological(parents, users);
  const row = new Array(parents.length).fill(0);
  for (const node of order) for (const user of users[node]) row[user] = Math.max(row[user], row[node] + 1);
  for (const node of order) {
    if (!parents[node].length && users[node].length) row[node] = users[node].reduce((low, user) => Math.min(low, row[user]), Infinity) - 1;
  }
  const rows = [];
  for (const node of order) {
    while (rows.length <= row[node]) rows.push([]);
    rows[row[node]].push(node);
  }
  return rows.filter((members) => members.length);
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
  for (const row of rows) {
    let x = 0;
    for (const node of row) {
      boxes[node].x = x;
      x += boxes[node].w + BOX_GAP;
    }
    const middle = (x - BOX_GAP) / 2;
    for (const node of row) boxes[node].x -= middle;
  }
  for (const [neighbours, isUp] of [[parents, false], [users, true], [parents, false]]) {
    for (const row of isUp ? rows.slice().reverse() : rows) _pull(row, boxes, neighbours);
  }
}

// Move the boxes of a row towards their neighbours, in order and without overlap.
function _pull(row, boxes, neighbours) {
  const wanted = row.map((node) => {
    const others = neighbours[node];
    if (!others.length) return boxes[node].x;
    return others.reduce((sum, other) => sum + boxes[other].x + boxes[other].w / 2, 0) / others.length - boxes[node].w / 2;
  });
  let edge = -Infinity;
  row.forEach((node, position) => {
    boxes[node].x = Math.max(wanted[position], edge);
    edge = boxes[node].x + boxes[node].w + BOX_GAP;
  });
  const shift = row.reduce((sum, node, position) => sum + boxes[node].x - wanted[position], 0) / row.length;
  for (const node of row) boxes[node].x -= shift;
}

// Cut the rows into columns, set the final places, and return the size of the whole.
function _fold(rows, boxes) {
  const extents = rows.map((row) => {
    const left = Math.min(...row.map((node) => boxes[node].x));
    const right = Math.max(...row.map((node) => boxes[node].x + boxes[node].w));
    return { left, right, high: Math.max(...row.map((node) => boxes[node].h)) };
  });
  const widths = extents.map(({ left, right }) => right - left).sort((a, b) => a - b);
  const usual = widths[Math.floor(widths.length * 0.9)] + COLUMN_GAP;
  const total = extents.reduce((sum, { high }) => sum + high + ROW_GAP, 0);
  const columns = Math.max(1, Math.round(Math.sqrt((WIDE * total) / usual)));
  const most = total / columns;
  let [x, y, column, width, height] = [0, 0, 0, 0, 0];
  let first = 0;
  const close = (last) => {
    const left = Math.min(...extents.slice(first, last).map((extent) => extent.left));
    const right = Math.max(...extents.slice(first, last).map((extent) => extent.right));
    for (const row of rows.slice(first, last)) for (const node of row) boxes[node].x += x - left;
    width = Math.max(width, x + right - left);
    x += right - left + COLUMN_GAP;
    height = Math.max(height, y - ROW_GAP);
    [y, first] = [0, last];
    column++;
  };
  rows.forEach((row, position) => {
    for (const node of row) Object.assign(boxes[node], { y, column });
    y += extents[position].high + ROW_GAP;
    if (y >= most || position === rows.length - 1) close(position + 1);
  });
  return { w: width, h: height };
}
