// What is wrong in a run, as far as its records tell, and what to do about it.

// Bounds of what is usual: the norm of an update relative to that of the weights, by step, and how far a gradient's
// norm may be above its own median.
const _largestUpdate = 0.1;
const _smallestUpdate = 1e-7;
const _explosion = 1000;

const _median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

// Return the findings of a run, the worst first: [severity, what, what to do]. Severities are "error" and "warning".
function findingsOf(run) {
  const found = [
    ...notFinite(run), ...deadLayers(run), ...gradientFindings(run), ...updateFindings(run), ...divergingValidation(run),
  ];
  return found.sort(([a], [b]) => Number(a !== "error") - Number(b !== "error"));
}

function* notFinite(run) {
  for (const [name, series] of run.values) {
    if (!/(^|_)loss$/.test(name) || series.value.length === 0 || Number.isFinite(series.last)) continue;
    yield [
      "error", `${name} is ${figure(series.last)} at step ${wholeNumber(series.step.at(-1))}.`,
      "Lower the learning rate or clip gradients (max_norm=1.0 of the optimizer). loss.forward() outside the program names the first node with such a value.",
    ];
  }
}

function* deadLayers(run) {
  for (const [name, [dead, units]] of Object.entries(run.lastDead?.dead ?? {})) {
    if (units === 0 || dead < units / 2) continue;
    yield [
      dead === units ? "error" : "warning", `${wholeNumber(dead)} of ${wholeNumber(units)} units are dead: ${name}.`,
      "A dead unit learns no more. Lower the learning rate, look at the scale of inputs and biases, or use leaky_relu or gelu.",
    ];
  }
}

function* gradientFindings(run) {
  const record = run.lastGradients;
  for (const [position, module] of (run.start?.modules ?? []).entries()) {
    if (record === null) return;
    const norm = asNumber(record.gradients[position]);
    const earlier = (run.modules.get(`gradients/${module}`)?.value ?? []).slice(0, -1).filter((value) => value > 0);
    if (norm === 0) {
      yield [
        "error", `The gradient of ${module} is zero at step ${wholeNumber(record.step)}.`,
        "It does not learn. Look whether the loss depends on it: dead units, a mask, stop_gradient or a saturated activation may cut the way.",
      ];
    } else if (!Number.isFinite(norm) || (earlier.length >= 3 && norm > _explosion * _median(earlier))) {
      yield [
        "error", `The gradient of ${module} explodes: its norm is ${figure(norm)} at step ${wholeNumber(record.step)}, was ${figure(earlier.length ? _median(earlier) : null)}.`,
        "Clip gradients (max_norm=1.0 of the optimizer), lower the learning rate, or begin it with a warm-up.",
      ];
    }
  }
}

function* updateFindings(run) {
  const record = run.lastModules;
  if (!record?.updates || !record.over) return;
  for (const [position, module] of run.start.modules.entries()) {
    const change = asNumber(record.updates[position]);
    // Steps that all go one way add up to `over` times one, steps in random directions to its root.
    if (change / record.over > _largestUpdate) {
      yield [
        "warning", `${module} changes by ${figure(100 * change / record.over)} % of its norm in a step.`,
        "About 0.1 % is usual. Lower the learning rate, or that of this module in a ParameterGroup.",
      ];
    } else if (change / Math.sqrt(record.over) < _smallestUpdate && run.end === null) {
      yield [
        "warning", `${module} hardly moves: ${change === 0 ? "not at all" : `by ${figure(change)} of its norm`} in ${countText(record.over, "step")}.`,
        "Raise the learning rate. A change below the precision of float32 is lost.",
      ];
    }
  }
}

function* divergingValidation(run) {
  const series = run.values.get("validation_loss");
  const values = series?.value.filter(Number.isFinite) ?? [];
  if (values.length < 5) return;
  const best = Math.min(...values);
  const at = values.indexOf(best);
  const last = _median(values.slice(-3));
  if (values.length - at < 4 || last - best < 0.05 * Math.max(Math.abs(best), 1e-12)) return;
  const training = run.values.get("loss")?.value.filter(Number.isFinite) ?? [];
  const falls = training.length < 4 || _median(training.slice(-3)) < best;
  yield [
    "warning", `The validation loss was ${figure(best)} at epoch ${+series.epoch[series.value.indexOf(best)].toFixed(1)} and is ${figure(last)}.`,
    falls
      ? "The model overfits. Stop there: EarlyStopping(patience=5). Or use weight decay, dropout, more data or a smaller model."
      : "The training loss is no lower, so this is not overfitting. Lower the learning rate, or clip gradients.",
  ];
}

// The findings of the runs that are shown.
class Findings {
  constructor() {
    this.list = element("ul", { class: "findings" });
    this.rest = element("p", { class: "muted" });
    this.node = element(
      "section", { class: "panel", hidden: true, "aria-labelledby": "findings-title" },
      element("h2", { id: "findings-title" }, "Findings"), this.list, this.rest,
    );
    this.shape = "";
  }

  show(runs) {
    const most = 12;
    const all = runs.flatMap((run) => findingsOf(run).map((finding) => [run, ...finding]));
    this.node.hidden = all.length === 0;
    const shape = JSON.stringify(all.map(([run, ...finding]) => [run.id, ...finding]));
    if (shape === this.shape) return;
    this.shape = shape;
    this.list.replaceChildren(
      ...all.slice(0, most).map(([run, severity, what, advice]) => {
        const swatch = element("span", { class: "swatch main" });
        swatch.style.setProperty("--swatch", `var(${run.color})`);
        const mark = element("b", { class: severity }, severity === "error" ? "Fault" : "Look");
        return element(
          "li", {}, element("p", {}, mark, " ", swatch, element("span", { class: "muted" }, `${run.name}: `), what),
          element("p", { class: "muted advice" }, advice),
        );
      }),
    );
    this.rest.textContent = all.length > most ? `and ${wholeNumber(all.length - most)} more` : "";
    this.rest.hidden = all.length <= most;
  }
}
