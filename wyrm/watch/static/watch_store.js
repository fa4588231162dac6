// What the page knows of the runs: the records that the server has sent, as columns of points.

const _notFinite = { NaN, Infinity, "-Infinity": -Infinity };
const asNumber = (value) => (typeof value === "string" ? _notFinite[value] : value);
// Eight or nine digits, more than trainings write: an axis between floats that are neighbours would have endless ticks.
// Common sizes go without text, which would take ten times as long.
function rounded(value) {
  const size = Math.abs(value);
  const unit = size < 0.01 || size >= 1e5 ? 0 : size < 1 ? 1e9 : size < 100 ? 1e7 : 1e4;
  return unit > 0 ? Math.round(value * unit) / unit : Number(value.toPrecision(9));
}

// The axes that charts can have: a column of every series.
const AXES = ["step", "epoch", "elapsed"];

// Points of one quantity, in the order of their steps.
class Series {
  constructor() {
    this.step = [];
    this.epoch = [];
    this.elapsed = [];
    this.value = [];
    // The lowest and the highest value of the steps that a point joins.
    this.low = [];
    this.high = [];
    this.joins = false;
  }

  add(place, value, low = value, high = value) {
    this.step.push(place.step);
    this.epoch.push(rounded(place.epoch));
    this.elapsed.push(rounded(place.elapsed));
    this.value.push(rounded(asNumber(value)));
    this.low.push(rounded(asNumber(low)));
    this.high.push(rounded(asNumber(high)));
    this.joins = this.joins || low !== high;
  }

  // Forget the points after a step.
  cut(step) {
    let count = this.step.length;
    while (count > 0 && this.step[count - 1] > step) count -= 1;
    for (const column of [...AXES, "value", "low", "high"]) this[column].length = count;
  }

  get last() {
    return this.value[this.value.length - 1];
  }
}

const QUANTITIES = ["weights", "gradients", "updates"];

// The records of one run.
class RunData {
  constructor(id) {
    this.id = id;
    this.forget();
  }

  forget() {
    this.version = "";
    this.position = 0;
    this.damaged = 0;
    this.format = null;
    this.error = null;
    this.more = false;
    this.start = null;
    this.end = null;
    this.restarts = 0;
    this.last = null;
    this.values = new Map();
    // By quantity and module, and by activation.
    this.modules = new Map();
    this.dead = new Map();
    this.lastModules = null;
    this.lastDead = null;
    this.lastGradients = null;
    this.texts = [];
    this.notes = [];
  }

  // Take an answer of the server; return whether anything is new.
  take(part) {
    const before = this.error;
    this.error = part.error ?? null;
    if (this.error !== null) return before !== this.error;
    if (part.version !== this.version) {
      this.forget();
      this.version = part.version;
    }
    this.position = part.position;
    this.damaged += part.damaged;
    this.more = part.more;
    this.format = part.format;
    for (const record of part.records) this.add(record);
    return part.records.length > 0 || part.damaged > 0 || before !== null || part.format !== null;
  }

  add(record) {
    this.last = record;
    if (record.kind === "start") this.begin(record);
    else if (record.kind === "points") this.addPoints(record);
    else if (record.kind === "values") {
      for (const [name, value] of Object.entries(record.values)) seriesIn(this.values, name).add(record, value);
    } else if (record.kind === "modules") this.addModules(record);
    else if (record.kind === "text") this.texts.push(record);
    else if (record.kind === "note") this.notes.push(record);
    else if (record.kind === "end") this.end = record;
  }

  // A training that begins again at an earlier step makes the later records void.
  begin(record) {
    if (this.start !== null) {
      this.restarts += 1;
      for (const series of this.allSeries()) series.cut(record.step);
      for (const list of [this.texts, this.notes]) while (list.length > 0 && list.at(-1).step > record.step) list.pop();
    }
    this.start = record;
    this.end = null;
  }

  addPoints({ steps, epochs, seconds, means, low, high }) {
    for (const [name, column] of Object.entries(means)) {
      const series = seriesIn(this.values, name);
      column.forEach((mean, i) => {
        const place = { step: steps[i], epoch: epochs[i], elapsed: seconds[i] };
        series.add(place, mean, low?.[name][i], high?.[name][i]);
      });
    }
  }

  addModules(record) {
    QUANTITIES.forEach((quantity) => {
      (record[quantity] ?? []).forEach((value, position) => {
        const module = this.start?.modules[position];
        if (module !== undefined) seriesIn(this.modules, `${quantity}/${module}`).add(record, value);
      });
    });
    for (const [name, [dead, units]] of Object.entries(record.dead)) {
      seriesIn(this.dead, name).add(record, units > 0 ? dead / units : 0);
    }
    this.lastModules = record;
    if (record.gradients !== null) this.lastGradients = record;
    if (Object.keys(record.dead).length > 0) this.lastDead = record;
  }

  *allSeries() {
    yield* this.values.values();
    yield* this.modules.values();
    yield* this.dead.values();
  }

  // How far the training is, in words.
  progress() {
    if (this.last === null || this.start === null) return "";
    const { epochs, steps } = this.start;
    const parts = [];
    if (epochs !== null) parts.push(`epoch ${+this.last.epoch.toFixed(1)} of ${wholeNumber(epochs)}`);
    parts.push(`step ${wholeNumber(this.last.step)}${steps === null ? "" : ` of ${wholeNumber(steps)}`}`);
    parts.push(durationText(this.last.elapsed));
    return parts.join(" · ");
  }
}

// What a training does, in words: [state, sentence]. `data` is what the page has read of it, and may be undefined.
function stateOf(run, data, summary, now) {
  if (data && data.error !== null) return ["error", `cannot be read: ${data.error}`];
  if (data && data.format !== null) return ["error", `format ${data.format}, of a newer version of wyrm`];
  if (summary === undefined) return ["waiting", "no rows yet"];
  const reason = summary.stopped;
  if (reason === "completed") return ["done", "completed"];
  if (reason !== null) return reason === "early" ? ["done", "stopped early"] : ["stopped", reason];
  const silent = now - run.modified;
  // Nobody has the file open: the process was killed, or the machine stopped.
  if (run.written === false && silent > 1) return ["stopped", "killed: its process is gone and left no last record"];
  if (silent > 30) return ["silent", `no record for ${durationText(silent)}`];
  return Object.keys(summary.last).length > 0 ? ["live", "training"] : ["live", "started, no rows yet"];
}

function seriesIn(map, name) {
  let series = map.get(name);
  if (series === undefined) {
    series = new Series();
    map.set(name, series);
  }
  return series;
}

// 75 seconds as "1 min 15 s", in one line.
function durationText(seconds) {
  const whole = Math.round(seconds);
  const parts = seconds < 10 ? [+seconds.toPrecision(2), "s"]
    : whole < 60 ? [whole, "s"]
    : whole < 3600 ? [Math.floor(whole / 60), "min", whole % 60, "s"]
    : [Math.floor(whole / 3600), "h", Math.floor((whole % 3600) / 60), "min"];
  return parts.join("\u00a0");
}

// A number of a chart or a table.
function figure(value) {
  if (value === null || value === undefined) return "–";
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size >= 1e15 || (size < 1e-3 && size > 0)) return value.toExponential(2).replace(/\.?0+e/, "e");
  if (size >= 1e6) return shortNumber(value);
  if (Number.isInteger(value)) return wholeNumber(value);
  return size >= 1000 ? wholeNumber(Math.round(value)) : String(+value.toPrecision(4));
}

// The most runs of one question; the server answers no more.
const _mostAsked = 64;

// Asks the server for news, over and over; it goes on when the server is away.
class Poller {
  // `wanted` returns the ids of the runs whose records are asked for, `changed` takes what an answer changes, and
  // `connection` whether the server answers.
  constructor(runs, { wanted, changed, connection }) {
    this.runs = runs;
    this.wanted = wanted;
    this.changed = changed;
    this.connection = connection;
    this.timer = null;
    this.turn = 0;
    this.revision = 0; // of the summaries that are known
    this.asking = false;
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.soon(0);
    });
  }

  soon(milliseconds) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), milliseconds);
  }

  // The runs of the next question: those of which nothing is known first, then the others in turn.
  next() {
    const wanted = this.wanted();
    const unread = wanted.filter((id) => !this.runs.has(id) || this.runs.get(id).more);
    const rest = wanted.filter((id) => !unread.includes(id));
    const from = rest.length > 0 ? this.turn % rest.length : 0;
    const chosen = [...unread, ...rest.slice(from), ...rest.slice(0, from)].slice(0, _mostAsked);
    this.turn += Math.max(0, _mostAsked - unread.length);
    return chosen;
  }

  async ask() {
    if (this.asking) return;
    this.asking = true;
    let wait = 2000;
    try {
      const query = new URLSearchParams({ since: this.revision });
      for (const id of this.next()) {
        const run = this.runs.get(id);
        query.append("at", run ? `${id}:${run.position}:${run.version}` : `${id}:0:`);
      }
      const response = await fetch(`updates?${query}`, { cache: "no-store", signal: AbortSignal.timeout(15000) });
      if (!response.ok) {
        this.connection(response.status === 403 ? "refused" : "away");
      } else {
        wait = this.answered(await response.json());
      }
    } catch {
      this.connection("away");
    }
    this.asking = false;
    this.soon(document.hidden ? 10000 : wait);
  }

  // Take an answer; return the milliseconds to the next question.
  answered(answer) {
    this.connection("here");
    let news = false;
    let more = false;
    for (const [id, part] of Object.entries(answer.parts)) {
      if (!this.runs.has(id)) this.runs.set(id, new RunData(id));
      const run = this.runs.get(id);
      try {
        news = run.take(part) || news;
      } catch (error) {
        run.error = `its records do not fit together: ${error.message}`;
        news = true;
      }
      more = more || run.more;
    }
    this.revision = answer.revision;
    const asked = new Set(this.wanted());
    this.changed(answer, news);
    if (more || answer.more || this.wanted().some((id) => !asked.has(id) || !this.runs.has(id))) return 0;
    const live = answer.runs.some((run) => answer.now - run.modified < 60);
    return live ? 1000 : 3000;
  }
}
