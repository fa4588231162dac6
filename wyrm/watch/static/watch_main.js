// The page of the runs: the list of them, the controls, and what is drawn when.

const _colorNames = Array.from({ length: 8 }, (_, i) => `--series-${i + 1}`);
const _colored = new Map();
const _firstShown = 4;
const _mostListed = 60;
const _lastCharts = ["learning_rate", "rows_per_second"];
const _titles = { loss: "Loss", learning_rate: "Learning rate", rows_per_second: "Rows per second" };

const runs = new Map();
const charts = new Map();
let listed = [];
let now = 0;
let chosenRun = null;
const known = new Set();

const summaries = new Map();

const settings = { axis: "step", log: false, smoothing: 0, shown: new Set() };

function remember() {
  const { axis, log, smoothing } = settings;
  try {
    localStorage.setItem("wyrm-watch", JSON.stringify({ axis, log, smoothing }));
  } catch {
    // The settings last as long as the page.
  }
  relink();
}

// The address shows the selection, so that it can be sent or kept.
function relink() {
  if (known.size === 0) return;
  const all = listed.every(({ id }) => settings.shown.has(id));
  const { sort, filter } = table;
  writeLink({
    runs: all ? "all" : listed.map(({ id }) => id).filter((id) => settings.shown.has(id)).join(",") || "none",
    axis: settings.axis === "step" ? "" : settings.axis,
    log: settings.log ? "1" : "",
    smoothing: settings.smoothing || "",
    filter: filter.value,
    sort: sort.key === "" ? "" : `${sort.down ? "-" : ""}${sort.key}`,
    ...(scatter.node.open ? { value: scatter.value.value, option: scatter.option.value } : {}),
  });
}

const link = readLink();

function recall() {
  try {
    const stored = JSON.parse(localStorage.getItem("wyrm-watch") ?? "{}");
    if (AXES.includes(stored.axis)) settings.axis = stored.axis;
    settings.log = stored.log === true;
    if (stored.smoothing >= 0 && stored.smoothing < 1) settings.smoothing = stored.smoothing;
  } catch {
    // Damaged settings are those of a first visit.
  }
  if (!("runs" in link)) return;
  settings.axis = AXES.includes(link.axis) ? link.axis : "step";
  settings.log = link.log === "1";
  settings.smoothing = link.smoothing >= 0 && link.smoothing < 1 ? Number(link.smoothing) : 0;
  table.filter.value = link.filter ?? "";
  if (link.sort) table.sort = { key: link.sort.replace(/^-/, ""), down: link.sort.startsWith("-") };
  if (link.value && link.option) {
    scatter.wanted = { value: link.value, option: link.option };
    scatter.node.open = true;
  }
}

// Show runs, or hide them.
function choose(ids, shown) {
  for (const id of ids) {
    if (shown) settings.shown.add(id);
    else settings.shown.delete(id);
  }
  poller.soon(0);
  relink();
  draw();
}

const modulePanel = new ModulePanel(() => {});
const deadUnits = new DeadUnits();
const histogramPanel = new HistogramPanel();
const texts = new Texts();
const findings = new Findings();
const scatter = new Scatter({ chosen: choose, changed: relink });
const table = new RunTable({ chosen: choose, changed: () => { drawRuns(); drawScatter(); relink(); } });

const runDetails = element("select", { "aria-label": "Run of the tables", change: () => { chosenRun = runDetails.value; draw(); } });
const details = element(
  "div", { class: "stack" },
  element("div", { class: "choices" }, element("h2", {}, "Inside the model"), element("label", {}, "Run ", runDetails)),
  modulePanel.node, deadUnits.node, histogramPanel.node,
);
byId("panels").append(texts.node, details);
byId("overview").append(findings.node, table.node, scatter.node);

function controls() {
  for (const button of byId("axes").children) {
    const press = () => {
      settings.axis = button.dataset.axis;
      for (const other of byId("axes").children) other.setAttribute("aria-pressed", String(other === button));
      remember();
      draw();
    };
    button.addEventListener("click", press);
    button.setAttribute("aria-pressed", String(button.dataset.axis === settings.axis));
  }
  const log = byId("log");
  log.setAttribute("aria-pressed", String(settings.log));
  log.addEventListener("click", () => {
    settings.log = !settings.log;
    log.setAttribute("aria-pressed", String(settings.log));
    remember();
    draw();
  });
  const smoothing = byId("smoothing");
  const label = () => { byId("smoothing-value").textContent = settings.smoothing.toFixed(2); };
  smoothing.value = String(settings.smoothing);
  label();
  smoothing.addEventListener("input", () => {
    settings.smoothing = Number(smoothing.value);
    label();
    remember();
    draw();
  });
  byId("copy").addEventListener("click", async () => {
    relink();
    try {
      await navigator.clipboard.writeText(location.href);
      announce("Copied.");
      byId("copy").textContent = "Copied";
    } catch {
      byId("copy").textContent = "Copy the address above";
    }
    setTimeout(() => { byId("copy").textContent = "Copy link"; }, 2000);
  });
  themeButton(byId("theme"));
  byId("theme").addEventListener("click", redrawCharts);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawCharts);
}

// --- the list of runs ----------------------------------------------------------------------------------------------

const rows = new Map();

function rowOf(id) {
  if (!rows.has(id)) {
    const box = element("input", { type: "checkbox", change: () => choose([id], box.checked) });
    const parts = { box, swatch: element("span", { class: "swatch main" }), name: element("span", { class: "name" }) };
    parts.state = element("span", { class: "state" });
    parts.progress = element("span", { class: "progress muted number" });
    parts.remarks = element("span", { class: "remarks" });
    parts.node = element(
      "li", {}, element("label", {}, box, parts.swatch, parts.name), parts.state, parts.progress, parts.remarks,
    );
    rows.set(id, parts);
  }
  return rows.get(id);
}

function drawRuns() {
  table.show(listed.map((run) => ({
    id: run.id, name: run.name, color: colorOf(run.id), shown: settings.shown.has(run.id), summary: summaries.get(run.id),
    state: stateOf(run, runs.get(run.id), summaries.get(run.id), now),
  })));
  const passing = new Set(table.passing.map(({ id }) => id));
  const found = listed.filter(({ id }) => passing.has(id)).reverse();
  const list = byId("runs");
  const wanted = found.slice(0, _mostListed).map(({ id }) => rowOf(id).node);
  if (wanted.length !== list.children.length || wanted.some((node, i) => node !== list.children[i])) list.replaceChildren(...wanted);
  for (const run of found.slice(0, _mostListed)) drawRun(run);
  const hidden = found.length - _mostListed;
  const drawn = listed.filter(({ id }) => settings.shown.has(id)).length;
  const notes = drawn < listed.length ? [`${wholeNumber(drawn)} of ${countText(listed.length, "run")} are drawn: tick others.`] : [];
  if (hidden > 0) notes.push(`${countText(hidden, "older run")} in the table.`);
  byId("unlisted").textContent = notes.join(" ");
  byId("empty").hidden = listed.length > 0;
}

function drawRun(run) {
  const row = rowOf(run.id);
  const shown = settings.shown.has(run.id);
  row.box.checked = shown;
  row.swatch.style.setProperty("--swatch", shown ? `var(${colorOf(run.id)})` : "transparent");
  row.name.textContent = run.name;
  row.node.title = run.folder;
  const data = runs.get(run.id);
  const [state, words] = stateOf(run, data, summaries.get(run.id), now);
  row.state.className = `state ${state}`;
  row.state.textContent = words;
  row.progress.textContent = data && shown ? data.progress() : "";
  row.remarks.textContent = data && shown ? remarks(data) : "";
}

function drawScatter() {
  scatter.show(table.passing, table.options ?? [], table.metrics ?? []);
}

function remarks(data) {
  const texts = data.notes.slice(-3).map((note) => note.text);
  if (data.damaged > 0) texts.unshift(`${countText(data.damaged, "damaged line")} left out.`);
  if (data.restarts > 0) texts.push(`Continued ${data.restarts === 1 ? "once" : `${wholeNumber(data.restarts)} times`}.`);
  return texts.join(" ");
}

// A run keeps its colour when others come.
function colorOf(id) {
  if (!_colored.has(id)) _colored.set(id, _colorNames[_colored.size % _colorNames.length]);
  return _colored.get(id);
}

// --- the charts ----------------------------------------------------------------------------------------------------

function baseOf(name) {
  return name.replace(/^(validation|running)_/, "");
}

function kindOf(name) {
  if (name.startsWith("validation_")) return "validation";
  return name.startsWith("running_") ? "running" : "main";
}

function shownRuns() {
  return listed
    .map((run) => ({ run, data: runs.get(run.id), color: colorOf(run.id) }))
    .filter(({ run, data }) => data && settings.shown.has(run.id))
    .map(({ run, data, color: name }) => Object.assign(data, { name: run.name, color: name }));
}

function order(a, b) {
  const rank = (name) => (name === "loss" ? -1 : _lastCharts.indexOf(name) + 1);
  return rank(a) - rank(b) || a.localeCompare(b);
}

function drawCurves(shown) {
  const lines = new Map();
  for (const data of shown) {
    for (const [name, series] of data.values) {
      const base = baseOf(name);
      // Values within epochs tell something where epochs are long.
      if (kindOf(name) === "running" && series.value.length <= (data.values.get(base)?.value.length ?? 0)) continue;
      if (!lines.has(base)) lines.set(base, []);
      lines.get(base).push({ key: `${data.id} ${name}`, name: data.name, kind: kindOf(name), color: data.color, series });
    }
  }
  for (const [base, chart] of charts) {
    if (!lines.has(base)) {
      chart.remove();
      charts.delete(base);
    }
  }
  const kinds = ["running", "main", "validation"];
  const bases = [...lines.keys()].sort(order);
  bases.forEach((base, i) => {
    if (!charts.has(base)) charts.set(base, new Chart(_titles[base] ?? base));
    const { node } = charts.get(base);
    const curves = byId("curves");
    if (curves.children[i] !== node) curves.insertBefore(node, curves.children[i] ?? null);
    // Lines with fewer points are drawn last, on top of the others.
    const own = lines.get(base).sort((a, b) => kinds.indexOf(a.kind) - kinds.indexOf(b.kind) || a.name.localeCompare(b.name));
    charts.get(base).show(own, settings);
  });
  byId("no-rows").hidden = lines.size > 0 || listed.length === 0;
}

function draw() {
  drawRuns();
  drawScatter();
  const shown = shownRuns();
  findings.show(shown);
  drawCurves(shown);
  byId("panels").hidden = shown.length === 0;
  texts.show(shown);
  const withModules = shown.filter((data) => (data.start?.modules.length ?? 0) > 0);
  details.hidden = withModules.length === 0;
  const chosen = withModules.find((data) => data.id === chosenRun) ?? withModules[withModules.length - 1];
  const choices = JSON.stringify(withModules.map((data) => [data.id, data.name]));
  if (runDetails.dataset.choices !== choices) {
    runDetails.dataset.choices = choices;
    runDetails.replaceChildren(...withModules.map((data) => element("option", { value: data.id }, data.name)));
  }
  if (chosen) runDetails.value = chosen.id;
  modulePanel.show(chosen, shown, settings);
  deadUnits.show(chosen);
  histogramPanel.show(chosen);
}

// Draw what is new, for no more than a fourth of the time: many runs come in many answers.
let drawing = null;
let rest = 0;
function drawWhenAffordable() {
  drawing ??= setTimeout(() => {
    drawing = null;
    const start = performance.now();
    draw();
    rest = performance.now() + 3 * (performance.now() - start);
  }, Math.max(0, rest - performance.now()));
}

// --- the server ----------------------------------------------------------------------------------------------------

const _connections = {
  here: "Connected",
  away: "The server does not answer. This page asks it again every two seconds; start it with: python -m wyrm watch",
  refused: "The server was started anew with another token: open the address that it prints.",
};
let connection = "";

function connect(state) {
  if (state === connection) return;
  const before = connection;
  connection = state;
  byId("connection").textContent = { here: "Connected", away: "Not connected", refused: "Refused" }[state];
  byId("connection").className = `connection ${state}`;
  byId("trouble").hidden = state === "here";
  byId("trouble").textContent = state === "here" ? "" : _connections[state];
  if (before !== "" && state === "here") announce("Connected again.");
}

const poller = new Poller(runs, {
  wanted: () => listed.map((run) => run.id).filter((id) => settings.shown.has(id)),
  connection: connect,
  changed: (answer, news) => {
    listed = answer.runs;
    now = answer.now;
    for (const [id, summary] of Object.entries(answer.summaries)) summaries.set(id, summary);
    const fresh = listed.filter((run) => !known.has(run.id));
    const first = known.size === 0;
    for (const run of first ? firstShown(fresh) : fresh) settings.shown.add(run.id);
    for (const run of fresh) known.add(run.id);
    if (fresh.length > 0) relink();
    if (news || fresh.length > 0 || Object.keys(answer.summaries).length > 0) drawWhenAffordable();
    else if (drawing === null) drawRuns();
  },
});

// The runs that a new page shows: those of its address, else the last ones.
function firstShown(fresh) {
  if (link.runs === "all") return fresh;
  if (!("runs" in link)) return fresh.slice(-_firstShown);
  const wanted = new Set(link.runs.split(","));
  return fresh.filter(({ id }) => wanted.has(id));
}

recall();
controls();
poller.ask();
