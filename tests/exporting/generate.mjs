// Called by a test: continues a prompt, read token by token and at once, and prints the most likely tokens as JSON.

import { pathToFileURL } from 'node:url';

const { load } = await import(new URL('model.mjs', pathToFileURL(`${process.argv[2]}/`)));
const model = await load(), tokens = JSON.parse(process.argv[3]), count = Number(process.argv[4]);
const prompt = tokens.length;
model.begin();
for (let i = 0; tokens.length < prompt + count; i++) {
  const { next } = model.next({ token: tokens[i], temperature: 0 });
  if (i >= prompt - 1) tokens.push(next);
}
model.begin();
model.read_tokens({ tokens: [] });
model.read_tokens({ tokens: tokens.slice(0, prompt - 1) });
const refused = [
  () => model.next({ token: 1 }),
  () => model.read_tokens({}),
  () => model.read_tokens({ tokens: [0.5] }),
  () => model.read_tokens({ tokens: [1, 999] }),
  () => model.read_tokens({ tokens: BigInt64Array.of(1n, -1n) }),
  () => model.read_tokens({ tokens: Array(999).fill(1) }),
].map(call => {
  try {
    call();
    return 'nothing';
  } catch (error) {
    return `${error.key}: ${error.message}`;
  }
});
const again = tokens.slice(0, prompt);
while (again.length < tokens.length) again.push(model.next({ token: again.at(-1), temperature: 0 }).next);
const options = { top_k: 20, top_p: 0.9, min_p: 0.05, repetition_penalty: 1.3, seed: 5 };
const drawn = tokens.slice(0, prompt), ended = tokens.slice(0, prompt);
for (const [list, stop] of [[drawn, []], [ended, undefined]]) {
  model.begin();
  model.read_tokens({ tokens: list.slice(0, -1) });
  while (list.length < tokens.length && list.at(-1) >= 0) {
    const given = stop ? options : { ...options, stop: [drawn.at(-1)] };
    list.push(model.next({ token: list.at(-1), temperature: 1.5 }, given).next);
  }
}
for (const wrong of [{ top_p: 2 }, { stop: 3 }, { stop: [0.5] }, { stop: [999] }, { min_p: '1' }]) {
  try {
    model.next({ token: 1, temperature: 1 }, wrong);
    refused.push('nothing');
  } catch (error) {
    refused.push(`${error.key}: ${error.message}`);
  }
}
console.log(JSON.stringify({ tokens, again, drawn, ended, refused }));
