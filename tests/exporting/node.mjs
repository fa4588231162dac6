// Called by a test: trains the model of a folder, makes mistakes on purpose, and prints what came of it as JSON.

import { readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const folder = pathToFileURL(`${process.argv[2]}/`);
const { columns, load } = await import(new URL('model.mjs', folder));
const model = await load(), data = columns(readFileSync(new URL('model_data.safetensors', folder)));
const losses = [];
for (let epoch = 0; epoch < 3; epoch++) losses.push(model.epoch(data, { batch: 8, seed: 1 }).loss);
const { answer } = model.answer({ x: data.x });
const saved = model.write();
writeFileSync(new URL('home.safetensors', folder), Buffer.from(saved));

function refused(action) {
  const before = JSON.stringify(Array.from(Object.values(model.tensors)[0]));
  try {
    action();
    return 'nothing';
  } catch (error) {
    return before === JSON.stringify(Array.from(Object.values(model.tensors)[0])) ? error.key : 'it moved';
  }
}

const mistakes = [
  () => model.epoch({ x: data.x }),
  () => model.epoch({ ...data, z: data.x }),
  () => model.epoch({ ...data, x: data.x.slice(1) }),
  () => model.epoch({ ...data, x: data.x.slice(6) }),
  () => model.epoch({ ...data, y: Array.from(data.y, () => 9) }, { batch: 8 }),
  () => model.epoch({ ...data, x: data.x.map(() => NaN) }, { batch: 8 }),
  () => model.epoch(data, { batch: 999 }),
  () => model.read(new Uint8Array(4)),
  () => model.read(saved.slice(0, saved.byteLength - 5)),
].map(refused);
console.log(JSON.stringify({ losses, answer: Array.from(answer, Number), mistakes }));
