// Times epochs of an exported training in Node.js: `node exports.mjs FOLDER BATCH ROUNDS` prints the seconds of each.

import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const [folder, batch, rounds] = [pathToFileURL(`${process.argv[2]}/`), Number(process.argv[3]), Number(process.argv[4])];
const { columns, load } = await import(new URL('model.mjs', folder));
const model = await load(), data = columns(readFileSync(new URL('model_data.safetensors', folder)));
model.epoch(data, { batch, shuffle: true, seed: 0 });
for (let round = 0; round < rounds; round++) {
  const start = performance.now();
  model.epoch(data, { batch, shuffle: true, seed: round });
  console.log((performance.now() - start) / 1000);
}
