// The profile page: what its views share. A stage is chosen in any of them, and all show it.

const profile = readData("profile");
const stages = profile.stages;
const partNames = profile.part_names;
const parts = Object.keys(partNames);
const partOf = (stage) => stage.part || "outside";
const perStep = (seconds) => seconds / Math.max(1, profile.steps);

function timeText(seconds) {
  const units = [["s", 1], ["ms", 1e-3], ["µs", 1e-6], ["ns", 1e-9]];
  const [unit, size] = units.find(([, least]) => seconds >= least) ?? units[3];
  const value = seconds / size;
  return `${value >= 100 ? Math.round(value) : +value.toPrecision(3)} ${unit}`;
}

const percentText = (part) => `${(100 * part).toFixed(part < 0.0995 ? 1 : 0)} %`;
const gigaText = (rate, exact) => (rate === null ? "" : `${exact ? "" : "~"}${(rate / 1e9).toPrecision(3)}`);
const operations = (stage) => stage.nodes.map((node) => node.split(" (")[0]);

// A short name: the operations, a parameter's name, or the function.
function stageTitle(stage) {
  if (!stage.nodes.length) return stage.name;
  if (stage.kind === "update") return `update ${operations(stage)[0]}`;
  if (stage.kind === "load") return stage.name;
  return [...new Set(operations(stage))].join(", ");
}

const _watchers = [];
let chosenStage = -1;

// Call a function whenever another stage is chosen.
const whenChosen = (show) => _watchers.push(show);

function choose(index) {
  chosenStage = index;
  for (const show of _watchers) show(index);
  announce(index < 0 ? "Nothing chosen" : `Chosen: ${stageTitle(stages[index])}`);
}

// --- the summary -----------------------------------------------------------------------------------------------------

function showSummary() {
  byId("title").textContent = profile.title;
  byId("what").textContent = profile.what;
  byId("peaks").textContent = profile.peaks_text;
  const total = profile.thread_seconds || 1;
  const sums = [
    ["time of a step", timeText(total / Math.max(1, profile.threads * profile.steps))],
    ["steps measured", wholeNumber(profile.steps)],
    ["threads", wholeNumber(profile.threads)],
    ["stages", wholeNumber(stages.length)],
    ["measuring took", percentText(profile.clock_share)],
  ];
  byId("sums").append(...sums.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
  const seconds = new Map(parts.map((part) => [part, 0]));
  for (const stage of stages) seconds.set(partOf(stage), seconds.get(partOf(stage)) + stage.seconds);
  for (const part of parts) {
    const share = seconds.get(part) / total;
    if (share <= 0) continue;
    const text = `${partNames[part]} ${percentText(share)}`;
    byId("stack").append(element("span", { class: `part-${part}`, style: `width:${100 * share}%`, title: text }));
    byId("keys").append(element("li", { class: `part-${part}` }, element("span", { class: "key" }), text));
  }
}

// --- the chosen stage ------------------------------------------------------------------------------------------------

function showDetails(index) {
  const panel = byId("details");
  panel.replaceChildren();
  if (index < 0) {
    panel.append(element("p", { class: "muted" }, "Choose a stage in the flame chart, the plot, the table or the timeline."));
    return;
  }
  const stage = stages[index];
  const facts = [
    ["part", partNames[partOf(stage)]],
    ["kind", stage.kind],
    ["function", stage.name],
    ["share", percentText(stage.seconds / (profile.thread_seconds || 1))],
    ["time a step", timeText(perStep(stage.seconds))],
    ["a call", stage.typical_seconds ? `${timeText(stage.typical_seconds)} (of ${wholeNumber(stage.calls)})` : ""],
    ["FLOPs a call", stage.flops === null ? "" : shortNumber(stage.flops)],
    ["read", stage.bytes_read ? bytesText(Math.round(stage.bytes_read)) : ""],
    ["written", stage.bytes_written ? bytesText(Math.round(stage.bytes_written)) : ""],
    ["GFLOP/s", gigaText(stage.flops ? stage.flops_per_second : null, stage.exact)],
    ["GB/s", gigaText(stage.bytes_per_second, stage.exact)],
    ["least time", stage.least_seconds === null ? "" : timeText(stage.least_seconds)],
    ["of the roofline", stage.roofline === null ? "" : percentText(stage.roofline)],
    ["bound by", stage.bound],
    ["module", stage.modules.join(", ")],
    ["line", stage.location],
  ];
  panel.append(
    element("h3", {}, stageTitle(stage)),
    element("dl", { class: "facts" }, ...facts.filter(([, value]) => value !== "").flatMap(([name, value]) => [
      element("dt", {}, name), element("dd", {}, value),
    ])),
  );
  if (stage.source) panel.append(element("p", { class: "note" }, element("code", {}, stage.source)));
  if (stage.nodes.length > 1) {
    panel.append(element("p", { class: "note" }, `${countText(stage.nodes.length, "operation")}:`));
    panel.append(element("ul", { class: "note" }, ...stage.nodes.map((node) => element("li", {}, node))));
  }
}

whenChosen(showDetails);
