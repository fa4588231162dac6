// The page of the runs: the list of them, the controls, and what is drawn when.

const _colorNames = Array.from({ length: 8 }, (_, i) => `--series-${i + 1}`);
const _colored = new Map();
const _firstShown = 4;
const _lastCharts = ["learning_rate", "rows_per_second"];
const _titles = { loss: "Loss", learning_rate: "Learning rate", rows_per_second: "Rows per second" };

const runs = new Map();
const charts = new Map();
let listed = [];
let now = 0;
let chosenRun = null;
const known = new Set();

const settings = { axis: "step", log: false, smoothing: 0, shown: new Set() };

function remember() {
  const { axis, log, smoothing } = settings;
  try {
    localStorage.setItem("wyrm-watch", JSON.stringify({ axis, log, smoothing }));
  } catch {
    // The settings last as long as the page.
  }
}

function recall() {
  try {
    const stored = JSON.parse(localStorage.getItem("wyrm-watch") ?? "{}");
    if (AXES.includes(stored.axis)) settings.axis = stored.axis;
    settings.log = stored.log === true;
    if (stored.smoothing >= 0 && stored.smoothing < 1) settings.smoothing = stored.smoothing;
  } catch {
    // Damaged settings are those of a first visit.
  }
}

const modulePanel = new ModulePanel(() => {});
const deadUnits = new DeadUnits();
const histogramPanel = new HistogramPanel();
const texts = new Texts();

const runDetails = element("select", { "aria-label": "Run of the tables", change: () => { chosenRun = runDetails.value; draw(); } });
const details = element(
  "div", { class: "stack" },
  element("div", { class: "choices" }, element("h2", {}, "Inside the model"), element("label", {}, "Run ", runDetails)),
  modulePanel.node, deadUnits.node, histogramPanel.node,
);
byId("panels").append(texts.node, details);

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
  themeButton(byId("theme"));
  byId("theme").addEventListener("click", redrawCharts);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawCharts);
}

// --- the list of runs ----------------------------------------------------------------------------------------------

const rows = new Map();

function rowOf(id) {
  if (!rows.has(id)) {
    const box = element("input", {
      type: "checkbox",
      change: () => {
        if (box.checked) settings.shown.add(id);
        else settings.shown.delete(id);
        poller.soon(0);
        draw();
      },
    });
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
  const list = byId("runs");
  const wanted = listed.map(({ id }) => rowOf(id).node).reverse();
  if (wanted.length !== list.children.length || wanted.some((node, i) => node !== list.children[i])) list.replaceChildren(...wanted);
  listed.forEach((run) => {
    const row = rowOf(run.id);
    const shown = settings.shown.has(run.id);
    row.box.checked = shown;
    row.swatch.style.setProperty("--swatch", shown ? `var(${colorOf(run.id)})` : "transparent");
    row.name.textContent = run.name;
    row.node.title = run.folder;
    const data = runs.get(run.id);
    const [state, words] = data && shown ? data.state(now, run.modified) : ["", ""];
    row.state.className = `state ${state}`;
    row.state.textContent = words;
    row.progress.textContent = data && shown ? data.progress() : "";
    row.remarks.textContent = data && shown ? remarks(data) : "";
  });
  byId("empty").hidden = listed.length > 0;
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
  const shown = shownRuns();
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
    const fresh = listed.filter((run) => !known.has(run.id));
    const first = known.size === 0;
    for (const run of first ? fresh.slice(-_firstShown) : fresh) settings.shown.add(run.id);
    for (const run of fresh) known.add(run.id);
    if (news || fresh.length > 0) draw();
    else drawRuns();
  },
});

recall();
controls();
poller.ask();
