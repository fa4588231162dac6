// Called by a test: reads files as damaged.c does, and prints the key of each error as JSON.

import { readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const [state, good, cases, written] = process.argv.slice(2);
const { load, ModelError } = await import(new URL('model.mjs', pathToFileURL(`${process.cwd()}/`)));
const model = await load(undefined, readFileSync(good)), whole = Buffer.from(model.write());
model.read(readFileSync(state));
const before = Buffer.from(model.write()), all = readFileSync(cases), found = [];
for (let place = 0; place < all.length;) {
  const size = all.readUInt32LE(place), file = all.subarray(place + 4, place + 4 + size);
  place += 4 + size;
  let key = 'OK';
  try {
    model.read(file);
  } catch (error) {
    key = error instanceof ModelError ? error.key : `raw: ${error.stack}`;
  }
  if (!Buffer.from(model.write()).equals(key === 'OK' ? whole : before)) key = `${key}, and the tensors are others`;
  found.push(key);
  model.read(before);
}
model.read(whole);
writeFileSync(written, Buffer.from(model.write()));
console.log(JSON.stringify(found));
