// The table of stages, to sort and to search; equal layers share a row unless each is asked for.

const _columns = [
  ["share", (row) => row.seconds, (row) => percentText(row.seconds / (profile.thread_seconds || 1))],
  ["time a step", (row) => row.seconds, (row) => timeText(perStep(row.seconds))],
  ["calls", (row) => row.calls, (row) => (row.stage.part ? String(+(row.calls / Math.max(1, profile.steps)).toPrecision(3)) : "")],
  ["operations", (row) => stageTitle(row.stage), (row) => stageTitle(row.stage)],
  ["GB/s", (row) => row.rate("bytes"), (row) => gigaText(row.rate("bytes"), row.exact)],
  ["GFLOP/s", (row) => row.rate("flops"), (row) => gigaText(row.rate("flops"), row.exact)],
  ["roofline", (row) => row.rate("least_seconds"), (row) => (row.rate("least_seconds") === null ? "" : `${row.exact ? "" : "~"}${percentText(row.rate("least_seconds"))}`)],
  ["bound by", (row) => row.stage.bound, (row) => row.stage.bound],
  ["module", (row) => _module(row), (row) => _module(row)],
  ["line", (row) => row.stage.location, (row) => row.stage.location],
];
const _numbers = new Set([0, 1, 2, 4, 5, 6]);
let _sorted = 0;
let _descending = true;
let _together = true;
let _words = "";

function _row(members) {
  const typical = members.reduce((sum, index) => sum + stages[index].typical_seconds * stages[index].calls, 0);
  const amount = {
    bytes: (stage) => stage.bytes_read + stage.bytes_written, flops: (stage) => stage.flops,
    least_seconds: (stage) => stage.least_seconds,
  };
  return {
    members,
    stage: stages[members[0]],
    seconds: members.reduce((sum, index) => sum + stages[index].seconds, 0),
    calls: members.reduce((sum, index) => sum + stages[index].calls, 0),
    exact: members.every((index) => stages[index].exact),
    rate: (what) => {
      if (typical <= 0 || members.some((index) => amount[what](stages[index]) === null)) return null;
      return members.reduce((sum, index) => sum + amount[what](stages[index]) * stages[index].calls, 0) / typical || null;
    },
  };
}

function _module(row) {
  const [module = ""] = row.stage.modules;
  return row.members.length > 1 ? module.replace(/\[\d+\]/g, "[*]") : module;
}

function showTable(words = _words) {
  _words = words;
  const found = (_together ? profile.groups : stages.map((_, index) => [index])).map(_row).filter((row) => {
    const { stage } = row;
    const text = [stageTitle(stage), stage.name, stage.kind, stage.location, _module(row), ...stage.nodes].join(" ");
    return text.toLowerCase().includes(_words);
  });
  const key = _columns[_sorted][1];
  const compare = (one, other) => {
    const [a, b] = [key(one), key(other)];
    if (typeof a === "string") return a.localeCompare(b);
    return (a ?? -1) - (b ?? -1);
  };
  found.sort((one, other) => (_descending ? -1 : 1) * compare(one, other));
  byId("rows").replaceChildren(...found.map(_tableRow));
  byId("columns").replaceChildren(..._columns.map(([name], index) => element("th", {
    scope: "col", class: _numbers.has(index) ? "number" : null,
    "aria-sort": index === _sorted ? (_descending ? "descending" : "ascending") : "none",
  }, element("button", { click: () => _sort(index) }, index === _sorted ? `${name} ${_descending ? "▾" : "▴"}` : name))));
  byId("count").textContent = countText(found.length, "row");
  _markRows(chosenStage);
}

function _tableRow(row) {
  const take = () => choose(row.members[0]);
  const cells = _columns.map(([name, , text], index) => {
    const cell = element("td", { class: _numbers.has(index) ? "number" : name === "operations" ? "nodes" : null }, text(row));
    if (index === 0) {
      const width = Math.min(100, (100 * row.seconds) / (profile.thread_seconds || 1));
      cell.prepend(element("span", { class: `share part-${partOf(row.stage)}` }, element("span", { style: `width:${width}%` })));
    }
    if (name === "operations") cell.title = row.stage.nodes.join("\n");
    return cell;
  });
  const line = element("tr", {
    tabindex: "0", click: take,
    keydown: (event) => {
      const next = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
      if (event.key === "Enter") take();
      else if (next) line[next]?.focus();
      else return;
      event.preventDefault();
    },
  }, ...cells);
  line.members = row.members;
  return line;
}

function _sort(index) {
  _descending = index === _sorted ? !_descending : _numbers.has(index);
  _sorted = index;
  showTable();
  byId("columns").children[index].firstChild.focus();
}

function _markRows(index) {
  for (const line of byId("rows").children) line.setAttribute("aria-selected", String(line.members.includes(index)));
}

function startTable() {
  byId("together").addEventListener("click", (event) => {
    _together = !_together;
    event.target.setAttribute("aria-pressed", String(_together));
    showTable();
  });
  whenChosen(_markRows);
  showTable();
}
