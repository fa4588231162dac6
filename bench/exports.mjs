// Times epochs of an exported training: `node exports.mjs FOLDER BATCH ROUNDS` prints the seconds of each.

export async function epochs(model, data, batch, rounds) {
  const seconds = [];
  model.epoch(data, { batch, shuffle: true, seed: 0 });
  for (let round = 0; round < rounds; round++) {
    const start = performance.now();
    model.epoch(data, { batch, shuffle: true, seed: round });
    seconds.push((performance.now() - start) / 1000);
  }
  return seconds;
}

if (globalThis.process?.argv[2]) {
  const { readFileSync } = await import('node:fs'), { pathToFileURL } = await import('node:url');
  const folder = pathToFileURL(`${process.argv[2]}/`);
  const { columns, load } = await import(new URL('model.mjs', folder));
  const data = columns(readFileSync(new URL('model_data.safetensors', folder)));
  console.log((await epochs(await load(), data, Number(process.argv[3]), Number(process.argv[4]))).join('\n'));
}
