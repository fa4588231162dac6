// Called by a test: continues a prompt with the most likely tokens, and prints them as JSON.

import { pathToFileURL } from 'node:url';

const { load } = await import(new URL('model.mjs', pathToFileURL(`${process.argv[2]}/`)));
const model = await load(), tokens = JSON.parse(process.argv[3]), count = Number(process.argv[4]);
const prompt = tokens.length;
model.begin();
for (let i = 0; tokens.length < prompt + count; i++) {
  const { next } = model.next({ token: tokens[i], temperature: 0 });
  if (i >= prompt - 1) tokens.push(next);
}
let refused;
try {
  model.next({ token: 1 });
} catch (error) {
  refused = error.message;
}
console.log(JSON.stringify({ tokens, refused }));
