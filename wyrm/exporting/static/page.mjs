// The page of a model: it trains in a worker and draws the loss of each epoch, and continues texts.

import { description } from './MODEL.mjs';

const worker = new Worker(new URL('./WORKER_SCRIPT', import.meta.url), { type: 'module' });
const at = id => document.getElementById(id);
const { story, columns } = description;
const losses = [];
let seconds = 0;

const send = (action, rest = {}) => worker.postMessage({ action, ...rest });
const tell = text => { at('state').textContent = text; };

/** Enable these buttons alone. */
function allow(...names) {
  for (const each of document.querySelectorAll('button')) each.disabled = !names.includes(each.id);
}

/** What can be done between trainings and texts. */
const idle = () => allow('train', 'save', 'tell');

/** A round number near a value, for the ends of an axis. */
const short = value => Number(value.toPrecision(3)).toString();

function draw() {
  const left = 56, right = 704, top = 16, bottom = 288;
  const finite = losses.filter(Number.isFinite), low = Math.min(0, ...finite), high = Math.max(...finite) || 1;
  const x = i => left + (right - left) * (losses.length > 1 ? i / (losses.length - 1) : 0);
  const y = value => bottom - (bottom - top) * (value - low) / (high - low || 1);
  const path = losses.map((value, i) => `${i ? 'L' : 'M'}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join('');
  at('curve').innerHTML = `
    <line x1="${left}" x2="${right}" y1="${bottom}" y2="${bottom}"/><line x1="${left}" x2="${left}" y1="${top}" y2="${bottom}"/>
    <text x="${left - 6}" y="${y(high) + 4}" text-anchor="end">${short(high)}</text>
    <text x="${left - 6}" y="${y(low) + 4}" text-anchor="end">${short(low)}</text>
    <text x="${left}" y="${bottom + 18}">epoch 1</text>
    <text x="${right}" y="${bottom + 18}" text-anchor="end">${losses.length}</text>
    <path d="${path}"/>`;
}

const answers = {
  async ready() {
    tell('Ready');
    if (story) return idle();
    const response = await fetch(new URL('./' + description.files.data, import.meta.url));
    if (response.ok) return send('data', { file: await response.arrayBuffer() });
    tell(`Choose data: a .safetensors file with the columns ${description.columns.join(', ')}`);
    at('choose').hidden = false;
  },
  data({ sizes }) {
    tell(`Ready to train on ${Object.entries(sizes).map(([name, size]) => `${name} (${size} numbers)`).join(', ')}`);
    idle();
  },
  epoch({ losses: found, seconds: took }) {
    const [name] = description.losses;
    losses.push(found[name]);
    seconds += took;
    draw();
    const speed = short(1000 * seconds / losses.length);
    at('numbers').textContent = `epoch ${losses.length}: ${name} ${found[name].toPrecision(6)}, ${speed} ms an epoch`;
  },
  stopped() {
    tell('Trained; the weights can be saved, and go on in Python or C');
    idle();
    document.body.dataset.done = 'yes';
  },
  piece({ piece }) {
    at('told').lastChild.append(piece);
  },
  told({ count, seconds: took }) {
    tell('Ready');
    at('speed').textContent = `${count} tokens, ${short(count / took)} a second`;
    idle();
    document.body.dataset.told = 'yes';
  },
  saved({ file }) {
    const link = Object.assign(document.createElement('a'), {
      href: URL.createObjectURL(new Blob([file])), download: description.files.weights,
    });
    link.click();
    URL.revokeObjectURL(link.href);
  },
  error({ message }) {
    at('problem').textContent = message;
    tell('Ready');
    idle();
  },
};

worker.onmessage = ({ data }) => answers[data.kind]?.(data);
worker.onerror = error => answers.error({ message: error.message || 'the worker cannot start: open the page by a server' });

/** What a form's fields hold, by their ids. */
const numbers = (...ids) => Object.fromEntries(ids.map(id => [id, Number(at(id).value)]));

at('controls').addEventListener('submit', event => {
  event.preventDefault();
  at('problem').textContent = '';
  delete document.body.dataset.done;
  allow('stop');
  tell('Training');
  send('train', { ...numbers('epochs', 'batch', 'seed'), text: at('lesson').value });
});
at('asking').addEventListener('submit', event => {
  event.preventDefault();
  at('problem').textContent = '';
  delete document.body.dataset.told;
  at('told').replaceChildren(Object.assign(document.createElement('b'), { textContent: at('begin').value }), document.createElement('span'));
  allow('hush');
  tell('Writing');
  const { limit, temperature, draws, ...options } = numbers('limit', 'temperature', 'draws', 'top_k', 'top_p', 'repetition_penalty');
  send('tell', { text: at('begin').value, limit, temperature, options: { ...options, seed: draws } });
});
for (const id of ['stop', 'hush']) at(id).addEventListener('click', () => send('stop'));
at('save').addEventListener('click', () => send('save'));
at('file').addEventListener('change', async ({ target }) => send('data', { file: await target.files[0].arrayBuffer() }));
at('story').hidden = !story;
at('training').hidden = !columns.length;
at('pasting').hidden = !story;
send('start');
