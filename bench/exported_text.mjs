// Times an exported language model: `node exported_text.mjs FOLDER PROMPT COUNT ROUNDS` prints seconds a token.

export function continuations(model, prompt, count, rounds) {
  const seconds = [], read = prompt.length + count - 1;
  for (let round = 0; round <= rounds; round++) {
    const start = performance.now(), tokens = [...prompt];
    model.begin();
    for (let i = 0; i < read; i++) {
      const { next } = model.next({ token: tokens[i], temperature: 0 });
      if (i >= prompt.length - 1) tokens.push(next);
    }
    if (round > 0) seconds.push((performance.now() - start) / 1000 / read);
  }
  return seconds;
}

if (globalThis.process?.argv[2]) {
  const { pathToFileURL } = await import('node:url');
  const [folder, prompt, count, rounds] = process.argv.slice(2);
  const { load } = await import(new URL('model.mjs', pathToFileURL(`${folder}/`)));
  console.log(continuations(await load(), JSON.parse(prompt), Number(count), Number(rounds)).join('\n'));
}
