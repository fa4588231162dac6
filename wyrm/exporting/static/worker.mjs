// Trains the model and continues texts in a thread of its own, so that the page stays quick. It answers each message
// with others.

import { columns, description, load } from './MODEL.mjs';

const { story } = description;
let model, tokenizer, data, stopped = true;

const answer = (kind, rest = {}, moved = []) => postMessage({ kind, ...rest }, moved);

/** A pause in which messages arrive; timers would wait for milliseconds. */
const pause = () => new Promise(resume => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => { port1.close(); resume(); };
  port2.postMessage(null);
});

/** One epoch after the other, with a pause in which messages arrive. */
async function train({ epochs, batch, seed, text }) {
  if (story) data = blocksOf(tokenizer.encode(text, { begins: true }));
  const rows = story ? data[story.tokens].length / story.length : Infinity;
  stopped = false;
  for (let epoch = 0; epoch < epochs && !stopped; epoch++) {
    const begin = performance.now();
    const losses = model.epoch(data, { batch: Math.min(batch, rows), shuffle: true, seed });
    answer('epoch', { losses, seconds: (performance.now() - begin) / 1000 });
    await pause();
  }
  stopped = true;
  answer('stopped');
}

/** The rows of a text: tokens, and at each place the one behind it. */
function blocksOf(tokens) {
  const all = [...tokens, ...tokenizer.stop.slice(0, 1)], rows = Math.floor((all.length - 1) / story.length);
  if (rows < 1) throw new Error(`the text has ${tokens.length} tokens; to learn from it takes ${story.length} or more`);
  return { [story.tokens]: all.slice(0, rows * story.length), [story.targets]: all.slice(1, rows * story.length + 1) };
}

/** Continue a text, token by token, until it ends, or the model has no room for more. */
async function tell({ text, limit, temperature, options }) {
  const tokens = tokenizer.encode(text, { begins: true }), next = tokenizer.decoder();
  if (!tokens.length) throw new Error('the text needs a beginning');
  stopped = false;
  model.begin();
  model.read_tokens({ tokens: tokens.slice(0, -1) });
  const begin = performance.now();
  let token = tokens.at(-1), count = 0, last = begin, piece = '';
  while (count < limit && !stopped) {
    try {
      token = model.next({ token, temperature }, { ...options, stop: tokenizer.stop }).next;
    } catch (error) {
      if (error.key !== 'FULL') throw error;
      break;
    }
    if (token < 0) break;
    count++;
    piece += next(token);
    if (performance.now() - last > 20) {
      answer('piece', { piece });
      piece = '';
      await pause();
      last = performance.now();
    }
  }
  answer('piece', { piece: piece + next() });
  stopped = true;
  answer('told', { count, seconds: (performance.now() - begin) / 1000 });
}

const actions = {
  async start() {
    model = await load();
    if (story) {
      const [{ Tokenizer }, response] = await Promise.all(
        [import('./MODEL_tokenizer.mjs'), fetch(new URL('./MODEL_tokenizer.json', import.meta.url))],
      );
      tokenizer = new Tokenizer(await response.json());
    }
    answer('ready');
  },
  data({ file }) {
    data = columns(file);
    answer('data', { sizes: Object.fromEntries(Object.entries(data).map(([name, array]) => [name, array.length])) });
  },
  train,
  tell,
  stop() {
    stopped = true;
  },
  save() {
    const file = model.write();
    answer('saved', { file }, [file]);
  },
  read({ file }) {
    model.read(file);
    answer('read');
  },
};

onmessage = async ({ data: message }) => {
  try {
    await actions[message.action](message);
  } catch (error) {
    stopped = true;
    answer('error', { message: error.message });
  }
};
