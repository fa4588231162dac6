// Trains the model in a thread of its own, so that the page stays quick. It answers each message with others.

import { columns, load } from './MODEL.mjs';

let model, data, stopped = true;

const answer = (kind, rest = {}, moved = []) => postMessage({ kind, ...rest }, moved);

/** One epoch after the other, with a pause in which messages arrive. */
async function train({ epochs, batch, seed }) {
  stopped = false;
  for (let epoch = 0; epoch < epochs && !stopped; epoch++) {
    const begin = performance.now();
    const losses = model.epoch(data, { batch, shuffle: true, seed });
    answer('epoch', { losses, seconds: (performance.now() - begin) / 1000 });
    await new Promise(resume => setTimeout(resume));
  }
  stopped = true;
  answer('stopped');
}

const actions = {
  async start() {
    model = await load();
    answer('ready');
  },
  data({ file }) {
    data = columns(file);
    answer('data', { sizes: Object.fromEntries(Object.entries(data).map(([name, array]) => [name, array.length])) });
  },
  train,
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
