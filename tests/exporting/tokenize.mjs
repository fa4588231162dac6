// Called by a test: encodes texts, decodes their tokens, and streams them, and prints all as JSON.

import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const { Tokenizer } = await import(pathToFileURL(process.argv[2]));
const { table, texts } = JSON.parse(readFileSync(process.argv[3], 'utf-8'));
const tokenizer = new Tokenizer(table);
console.log(JSON.stringify(texts.map(text => {
  const tokens = tokenizer.encode(text), next = tokenizer.decoder();
  return [tokens, tokenizer.encode(text, { begins: true }), tokenizer.decode(tokens),
    tokens.map(token => next(token)).concat(next())];
})));
