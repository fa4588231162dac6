"""The methods of an exported model in Node: what they are given is checked, and memory is used again."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.exporting.models import Batch, classifier

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")


def node(folder: Path, code: str) -> Any:
    """Return what a program prints as JSON; it has a model, and `told` for the message of an error."""
    begin = f"""
        import {{ load, columns, ModelError }} from '{(folder / "model.mjs").as_uri()}';
        import {{ readFileSync }} from 'node:fs';
        const model = await load(), print = value => console.log(JSON.stringify(value));
        const told = action => {{
          try {{ return [action(), 'nothing'][1]; }} catch (error) {{
            return error instanceof ModelError ? `${{error.key}}: ${{error.message}}` : `raw: ${{error.stack}}`;
          }}
        }};
    """
    done = subprocess.run(
        ["node", "--input-type=module", "-e", begin + code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an export of a training on the inputs x (float32) and y (int64)."""
    place = tmp_path_factory.mktemp("javascript")
    train, predict, data = classifier(learning_rate=0.01)
    wy.export(place, train=train, predict=predict, target="wasm32", columns=data)
    return place


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an export that gives its inputs of each type back."""
    place = tmp_path_factory.mktemp("typed")
    batch = Batch()
    programs: dict[str, Any] = {"as_int64": wy.compile(wy.IndexInput(dims=(batch,), name="x").astype(np.float64))}
    for kind in (np.float32, np.float64, np.bool_):
        x = wy.Input(dims=(batch,), name="x", dtype=kind)
        programs[f"as_{np.dtype(kind)}"] = wy.compile(x.astype(np.float64) * 1.0)
    wy.export(place, predict=programs, target="wasm32")
    return place


OPTIONS = {
    "model.epoch(data, { batchSize: 4 })": "epoch has no option batchSize; it has batch, shuffle, seed",
    "model.epoch({ ...data, seed: 1 })": "epoch has no input seed; it has y, x",
    "model.step(data, { batch: 4 })": "step has no option batch; it has none",
    "model.answer({ x: data.x }, { rows: 2 })": "answer has no option rows; it has none",
    "model.epoch(data, 8)": "epoch takes an object with each option by its name (batch, shuffle, seed), not 8",
    "model.epoch()": "epoch needs the input y",
    "model.epoch(null)": "epoch takes an object with each input by its name (y, x), not null",
    "model.epoch(data, { batch: 2.5 })": "batch must be a whole number of at least 1, of 63 bits, not 2.5",
    "model.epoch(data, { batch: 0 })": "batch must be a whole number of at least 1, of 63 bits, not 0",
    "model.epoch(data, { batch: -1 })": "batch must be a whole number of at least 1, of 63 bits, not -1",
    "model.epoch(data, { batch: 2n ** 64n + 8n })": "batch must be a whole number of at least 1",
    "model.epoch(data, { batch: '8' })": 'batch must be a whole number of at least 1, of 63 bits, not "8"',
    "model.epoch(data, { seed: 2n ** 64n })": "seed must be a whole number of at least 0",
    "model.epoch(data, { seed: NaN })": "seed must be a whole number of at least 0, of 63 bits, not NaN",
    "model.epoch(data, { seed: 2 ** 53 })": "seed must be a whole number of at least 0",
    "model.epoch(data, { shuffle: 'no' })": 'shuffle must be true or false, not "no"',
    "model.set_learning_rate({ rate: '0.1' })": 'rate must be a finite number, not "0.1"',
    "model.set_learning_rate({ rate: Infinity })": "rate must be a finite number, not Infinity",
    "model.set_learning_rate({ rates: 0.1 })": "set_learning_rate has no input rates; it has rate",
    "model.set_learning_rate({})": "set_learning_rate needs the number rate",
    "model.epoch({ ...data, x: 'abcdef' })": "x must be an array, or a typed array, of numbers",
    "model.epoch({ ...data, x: { length: -6 } })": "x must be an array, or a typed array, of numbers",
    "model.epoch({ ...data, x: { length: 6.5 } })": "x must be an array, or a typed array, of numbers",
    "model.epoch({ ...data, x: new DataView(new ArrayBuffer(8)) })": "x must be an array, or a typed array, of numbers",
    "model.epoch({ ...data, x: null })": "x must be an array, or a typed array, of numbers",
    "model.epoch({ ...data, y: [...data.y].fill(2n ** 64n) })": "y[0] must be of the type int64, and 184467",
    "model.epoch({ ...data, y: [...data.y].fill(1.5, 2) })": "y[2] must be a whole number, not 1.5",
    "model.epoch({ ...data, y: Float64Array.from(data.y, () => NaN) })": "y[0] must be a whole number, not NaN",
    "model.epoch({ ...data, x: [...data.x].fill('1', 3) })": 'x[3] must be a number, not "1"',
    "model.epoch({ ...data, x: new BigInt64Array(data.x.length) })": "x[0] must be a number, not 0n",
    "model.epoch({ ...data, x: { length: data.x.length } })": "x[0] must be a number, not undefined",
    "model.read('model.safetensors')": "a file must be given as an ArrayBuffer",
}  # fmt: skip


def test_what_a_method_does_not_have_or_would_round_is_refused(folder: Path) -> None:
    calls = ", ".join(f"told(() => {call})" for call in OPTIONS)
    found, changed = node(
        folder,
        "const data = columns(readFileSync('model_data.safetensors')), before = Buffer.from(model.write());"
        f"print([[{calls}], !before.equals(Buffer.from(model.write()))]);",
    )
    assert not changed
    for call, message, wanted in zip(OPTIONS, found, OPTIONS.values(), strict=True):
        key = "FILE_OPEN" if "read" in call else "ARGUMENT"
        assert message.startswith(f"{key}: {wanted}"), (call, message)


def test_numbers_of_every_type_arrive_as_they_are(typed: Path) -> None:
    kinds = {
        "int64": ("[1, -2n, 2 ** 53 - 1]", "[2 ** 53]", "[2n ** 63n]", "BigUint64Array.of(2n ** 63n)", "[true, 0.5]"),
        "float32": ("[1, 0.5, -3]", "['2']", "[1n]"),
        "float64": ("Float32Array.of(1, 0.5, -3)", "[undefined]", "BigInt64Array.of(1n)"),
        "bool": ("[1, false, true]", "[2]", "[0.5]"),
    }
    for kind, (good, *wrong) in kinds.items():
        given, mistakes = node(
            typed,
            f"const x = {good}, call = x => Object.values(model.as_{kind}({{ x }}))[0], found = call(x);"
            "if (Array.from(x).some((each, i) => Number(each) !== Number(found[i]))) throw new Error(`${found}`);"
            f"print([[...found].map(Number), [{', '.join(f'told(() => call({each}))' for each in wrong)}]]);",
        )
        assert len(given) == 3, kind
        assert all(each.startswith("ARGUMENT: ") for each in mistakes), (kind, mistakes)


def test_nothing_is_computed_after_tensors_were_refused(folder: Path) -> None:
    found = node(
        folder,
        """
        const x = new Float32Array(6), first = model.scores({ x }).scores, bad = Buffer.from(model.write());
        bad.writeFloatLE(NaN, 8 + Number(bad.readBigUInt64LE(0)));
        const read = told(() => model.read(bad)), after = model.scores({ x }).scores;
        const kept = Object.values(model.tensors).at(-1), name = Object.keys(model.tensors)[0];
        const own = model.tensors[name].slice();
        model.tensors[name].fill(NaN);
        const ready = told(() => model.ready()), refused = told(() => model.scores({ x }));
        model.tensors[name].set(own);
        model.ready();
        const again = model.scores({ x }).scores, fresh = await load(undefined, null);
        print([[read, ready, refused, told(() => fresh.read(bad)), told(() => fresh.scores({ x }))],
               [first, after, again].map(each => Array.from(each))]);
        """,
    )
    keys = [message.partition(":")[0] for message in found[0]]
    assert keys == ["TENSORS", "TENSORS", "NOT_READY", "TENSORS", "NOT_READY"]
    assert found[1][0] == found[1][1] == found[1][2]


def test_memory_is_that_of_the_largest_call(folder: Path) -> None:
    before, grown, after = node(
        folder,
        """
        const size = () => Object.values(model.tensors)[0].buffer.byteLength, before = size();
        const train = rows => model.epoch({ x: new Float32Array(6 * rows), y: new BigInt64Array(rows) }, { batch: 8 });
        for (let rows = 8; rows <= 3000; rows += 88) train(rows);
        const grown = size();
        for (let rows = 3000; rows >= 8; rows -= 88) train(rows);
        print([before, grown, size()]);
        """,
    )
    assert grown - before <= 3000 * (6 * 4 + 8 + 8) + 2 * 65536
    assert after == grown


def test_a_module_of_another_export_is_refused(folder: Path, tmp_path: Path) -> None:
    x = wy.Input(dims=(Batch(), 3), name="x")
    wy.compile(x * wy.Parameter(np.ones(3, np.float32), name="weight")).export(tmp_path, target="wasm32")
    shutil.copy(folder / "model.wasm", tmp_path / "other.wasm")
    message = node(
        tmp_path,
        "print(await load(new URL('file://' + process.cwd() + '/other.wasm')).then(String, error => error.message));",
    )
    assert message == "model.wasm is of another export than this file: take both from one folder"


def test_rows_in_parts_are_given_as_any_array(folder: Path) -> None:
    found = node(
        folder,
        """
        const x = Float32Array.from({ length: 6 * 70 }, (_, i) => i % 5), { scores } = model.scores({ x });
        const lists = [Array.from(x), { ...x, length: x.length }, x].map(x => model.scores({ x }).scores);
        print(lists.map(each => each.length === 280 && each.every((value, i) => value === scores[i])));
        """,
    )
    assert found == [True, True, True]
