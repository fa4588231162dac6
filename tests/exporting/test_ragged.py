"""Exports with rows of different lengths: values and offsets are arguments, checked before anything changes.

All memory that exported code is given lies between pages that must not be touched.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import wyrm as wy
from tests.each import check_each
from tests.exporting.in_wasm import InWasm
from tests.exporting.loaded import loaded
from tests.exporting.models import Batch
from wyrm.errors import OptionError, ShapeError
from wyrm.exporting.building import build
from wyrm.exporting.errors import ERRORS
from wyrm.exporting.exported import tensors_of
from wyrm.exporting.targets import target_named


class Words(wy.Ragged): ...


class Tags(wy.Ragged): ...


class Users(wy.Dim): ...


CODES = {name: code for name, (code, _) in ERRORS.items()}
COMPILER = shutil.which("cc") or shutil.which("gcc")
TOKENS, MOST, BATCH = 40, 64, 8
SIZES: dict[type[wy.Dim], int] = {Words: MOST, Tags: MOST}


class Texts(NamedTuple):
    """A classifier of weighted bags of words with a metric, its predictions, and data for it."""

    train: Any
    predict: dict[str, Any]
    data: dict[Any, Any]


def texts() -> Texts:
    random = np.random.default_rng(0)
    batch, words = Batch(), Words()
    ids = wy.IndexInput(dims=(batch, words), name="ids")
    weights = wy.Input(dims=(batch, words), name="weights")
    label = wy.IndexInput(dims=(batch,), name="label")
    table, output = wy.nn.Embedding(TOKENS, 6, seed=0), wy.nn.Linear(6, 3, seed=1)
    entries = table(ids) * weights.softmax(axis=1).expand_dims(-1)
    logits = output(entries.sum(axis=1))
    loss = logits.cross_entropy(label) + weights.square().mean() * table(ids).square().mean()
    optimizer = wy.optim.Adam(loss.parameters(), learning_rate=0.05)
    train = wy.compile(loss, optimizer, metrics={"size": entries.square().mean()})
    lengths = random.integers(0, 9, 45)
    data: dict[Any, Any] = {
        ids: wy.RaggedArray.of_rows([random.integers(0, TOKENS, length) for length in lengths]),
        weights: wy.RaggedArray.of_rows([random.normal(size=length).astype(np.float32) for length in lengths]),
        label: random.integers(0, 3, 45),
    }
    predict = {"probabilities": wy.compile(logits.softmax()), "entries": wy.compile([entries, weights.softmax(axis=1)])}
    return Texts(train, predict, data)


def given_by_name(data: dict[Any, Any]) -> dict[str, Any]:
    """Return what an exported function takes: values by the names of inputs, and offsets by that of the axis."""
    found: dict[str, Any] = {}
    for leaf, column in data.items():
        if isinstance(column, wy.RaggedArray):
            axis = type(leaf.dims[1]).__name__.lower()
            found |= {leaf.name: column.values, f"{axis}_offsets": column.offsets}
            found[f"{axis}_entries"] = len(column.values)
        else:
            found[leaf.name] = column
    return found


def in_wasm(train: Any = None, predict: Any = None) -> InWasm:
    return InWasm(build("model", target_named("wasm32", None, None), train, predict or {}, BATCH, SIZES), train)


MACHINES: dict[str, Callable[..., Any]] = {
    "in this process": lambda train=None, predict=None: loaded(train, predict, batch_sizes=BATCH, sizes=SIZES),
    "at the start of its pages": lambda train=None, predict=None: loaded(
        train, predict, batch_sizes=BATCH, sizes=SIZES, at_end=False
    ),
    "as WebAssembly": in_wasm,
}


def check_prediction(export: Any, name: str, program: Any, data: dict[Any, Any], rows: int) -> None:
    code, found = export.call(name, rows, **given_by_name(data))
    assert code == 0
    wanted = program(data)
    for have, want in zip(found.values(), wanted if isinstance(wanted, list | tuple) else [wanted], strict=True):
        values = want.values if isinstance(want, wy.RaggedArray) else want
        np.testing.assert_allclose(have, values, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("machine", MACHINES)
def test_predictions_are_those_of_python_for_rows_of_any_length(machine: str) -> None:
    random = np.random.default_rng(1)
    model = texts()
    export = MACHINES[machine](None, model.predict)
    assert export.start() == 0
    ids, weights, _ = model.data
    for lengths in ([0, 1, 17], [17, 17, 0, 17, 13, 0], [0, 0], [0], [MOST], [1] * BATCH):
        offsets, count = np.cumsum([0, *lengths]), sum(lengths)
        data: dict[Any, Any] = {ids: wy.RaggedArray(random.integers(0, TOKENS, count), offsets)}
        data[weights] = wy.RaggedArray(random.normal(size=count).astype(np.float32), offsets)
        for name, program in model.predict.items():
            check_prediction(export, name, program, data, len(lengths))


@pytest.mark.parametrize("machine", MACHINES)
def test_epochs_and_steps_are_those_of_python(machine: str) -> None:
    model = texts()
    export = MACHINES[machine](model.train)
    assert export.start() == 0

    def same() -> None:
        for name, wanted in tensors_of(export.built, model.train).items():
            np.testing.assert_allclose(export.tensor(name), wanted, rtol=2e-4, atol=2e-6, err_msg=name)

    for number in range(2):
        found, results = export.call("epoch", 45, batch=BATCH, shuffle=1, seed=7, **given_by_name(model.data))
        assert found == 0
        wanted = model.train.epoch(model.data, batch_size=BATCH, shuffle=True, seed=7)
        np.testing.assert_allclose(results["results"], list(wanted.values()), rtol=1e-5, err_msg=f"epoch {number}")
        same()
    for rows in (1, 5):
        part = {leaf: column[:rows] for leaf, column in model.data.items()}
        found, results = export.call("step", rows, batch=rows, **given_by_name(part))
        assert found == 0
        np.testing.assert_allclose(results["results"], [float(each) for each in model.train(part).values()], rtol=1e-5)
        same()


def wrong_offsets(offsets: Sequence[int], entries: int) -> list[tuple[dict[str, Any], str]]:
    """Return lengths of rows that are wrong, and the error of each."""
    low, rows = 2**63 - 1, len(offsets) - 1
    last = [*offsets[:-1], entries + 1]
    found: list[tuple[dict[str, Any], str]] = [
        ({"words_offsets": [*offsets[:place], value, *offsets[place + 1 :]]}, "OFFSETS")
        for place, values in {0: (1, -1, low, -low), 2: (-1, entries + 1, low, -low), rows: (0, low, -low)}.items()
        for value in values
    ]
    found += [({"words_offsets": last}, "OFFSETS"), ({"words_entries": entries - 1}, "OFFSETS")]
    found += [({"words_entries": -1}, "ARGUMENT"), ({"words_offsets": None}, "ARGUMENT")]
    return found


def test_wrong_offsets_are_refused_and_nothing_is_written() -> None:
    model = texts()
    export = loaded(model.train, model.predict, batch_sizes=BATCH, sizes=SIZES)
    assert export.start() == 0
    good = given_by_name({leaf: column[:5] for leaf, column in model.data.items()})
    entries, before = good["words_entries"], bytes(export.block.view(np.uint8, (export.interface.memory_bytes,)))
    assert entries > 8

    def refused(changed: dict[str, Any], error: str) -> None:
        for function in ("epoch", "step", "probabilities", "entries"):
            code, found = export.call(function, 5, batch=5, room=entries, **good | changed)
            assert code == CODES[error], (function, changed, code)
            assert not any(array.view(np.uint8).any() for array in found.values()), (function, changed)

    for changed, error in wrong_offsets(good["words_offsets"].tolist(), entries):
        refused(changed, error)
    for key, value, error in (("ids", TOKENS, "INDEX"), ("ids", -1, "INDEX"), ("weights", np.nan, "NOT_FINITE")):
        for place in (0, entries - 1):
            wrong = good[key].copy()
            wrong[place] = value
            refused({key: wrong}, error)
    refused({"ids": None}, "ARGUMENT")
    assert bytes(export.block.view(np.uint8, (export.interface.memory_bytes,))) == before
    assert export.call("step", 5, batch=5, **good)[0] == 0


def test_rows_without_entries_need_no_memory() -> None:
    model = texts()
    export = loaded(predict=model.predict, batch_sizes=BATCH, sizes=SIZES)
    assert export.start() == 0
    nothing = {"ids": None, "weights": None, "words_offsets": [0, 0, 0], "words_entries": 0}
    code, found = export.call("probabilities", 2, **nothing)
    assert code == 0
    np.testing.assert_allclose(found["probabilities"].sum(axis=1), 1.0, rtol=1e-6)
    predict = export.function("model_entries")
    offsets = np.zeros(3, np.int64)
    parameters = [each.name for each in export.functions["model_entries"].parameters]
    given = {"memory": export.block.address, "words_offsets": offsets.ctypes.data, "words_entries": 0, "rows": 2}
    assert predict(*(given.get(name) for name in parameters)) == 0


def test_a_batch_of_too_many_entries_is_refused_before_the_first_step() -> None:
    model = texts()
    export = loaded(model.train, model.predict, batch_sizes=BATCH, sizes={Words: 24})
    assert export.start() == 0
    ids, weights, label = model.data
    lengths = [3] * 20 + [10, 10, 5] + [3] * 5
    random = np.random.default_rng(3)
    data: dict[Any, Any] = {
        ids: wy.RaggedArray.of_rows([random.integers(0, TOKENS, length) for length in lengths]),
        weights: wy.RaggedArray.of_rows([np.ones(length, np.float32) for length in lengths]),
        label: random.integers(0, 3, len(lengths)),
    }
    before = bytes(export.block.bytes)  # type: ignore[arg-type]  # an array of bytes
    given = given_by_name(data)
    assert export.call("epoch", 28, batch=8, shuffle=0, seed=0, **given)[0] == CODES["ENTRIES"]
    part = given_by_name({leaf: column[20:23] for leaf, column in data.items()})
    assert export.call("step", 3, batch=3, **part)[0] == CODES["ENTRIES"]
    part.pop("label")
    assert export.call("probabilities", 3, **part)[0] == CODES["ENTRIES"]
    assert bytes(export.block.bytes) == before  # type: ignore[arg-type]  # an array of bytes
    assert data[ids].most_entries(8) == 40
    assert export.call("epoch", 28, batch=2, shuffle=0, seed=0, **given)[0] == 0


def test_what_works_along_the_axis_leaves_python() -> None:
    random = np.random.default_rng(4)
    batch, words = Batch(), Words()
    x, w = wy.Input(dims=(batch, words, 4), name="x"), wy.Input(dims=(batch, words), name="w")
    of_row, mix = wy.Input(dims=(batch,), name="of_row"), wy.Parameter(random.normal(size=(4, 4)), name="mix")
    mixed = (x @ mix.astype(np.float32)).tanh()

    def step(carry: Any, entry: Any) -> tuple[Any, Any]:
        following = (carry * 0.5 + entry).tanh()
        return following, following

    start = wy.Constant(np.zeros((1, 4), np.float32))
    outputs: dict[str, Any] = {
        "products": mixed, "of the row": w * of_row.expand_dims(1), "means": mixed.mean(axis=1), "max": w.max(axis=1),
        "logsumexp": w.logsumexp(axis=1), "log_softmax": w.log_softmax(axis=1), "cumsum": w.cumsum(axis=1),
        "all": mixed.mean(), "deviation": w.std(), "of all": x.sum(axis=(0, 1)),
        "lengths": wy.row_lengths(w).astype(np.float32), "places": wy.entry_positions(w).astype(np.float32),
        "first": wy.first_entry(mixed), "last": wy.last_entry(w), "loop": wy.row_scan(step, start, mixed)[0],
        "made": wy.row_scan(step, start, mixed, reverse=True)[1], "any": (w > 1.0).any(axis=1).astype(np.float32),
        "norm": wy.nn.LayerNorm(4)(x), "large": wy.where(w > 0.0, w, 0.0).sum(axis=1), "sorted": wy.sort(x, axis=-1),
        "sorted entries": w.sort(axis=1), "order": x.argsort(axis=1).astype(np.float32), "prod": mixed.prod(axis=1),
        "cumprod": w.cumprod(axis=1), "cummax": mixed.cummax(axis=1), "argmax": x.argmax(axis=1).astype(np.float32),
        "taken": x.take_along_axis(mixed.argsort(axis=1), axis=1),
        "numbers": wy.entry_positions(w).sum(axis=1).astype(np.float32),
    }  # fmt: skip
    batches = [[2, 0, 17, 1, 6], [1, 0, 2], [0, 0], [30, 34]]  # what one leaves in memory is nothing to the next

    def check(name: str) -> None:
        program: Any = wy.compile(outputs[name])
        export = loaded(predict=program, batch_sizes=BATCH, sizes=SIZES)
        assert export.start() == 0
        for lengths in batches:
            data: dict[Any, Any] = {of_row: random.normal(size=len(lengths)).astype(np.float32)}
            for leaf in (x, w):
                rows = [random.normal(size=(length, *leaf.shape[2:])).astype(np.float32) for length in lengths]
                data[leaf] = wy.RaggedArray.of_rows(rows)
            given = {leaf: column for leaf, column in data.items() if leaf in set(program.inputs)}
            check_prediction(export, "predict", program, given, len(lengths))

    check_each(list(outputs), check)


def test_trainings_along_the_axis_leave_python() -> None:
    random = np.random.default_rng(6)
    lengths = [*random.integers(0, 12, 30), 0]
    rows = wy.RaggedArray.of_rows([random.normal(size=(length, 4)).astype(np.float32) for length in lengths])
    start = wy.Constant(np.zeros((1, 4), np.float32))

    def check(name: str) -> None:
        x = wy.Input(dims=(Batch(), Words(), 4), name="x")
        mix = wy.Parameter((np.arange(16.0) % 5 - 2).reshape(4, 4).astype(np.float32) / 4, name="mix")
        mixed = (x @ mix).tanh()

        def step(carry: Any, entry: Any) -> tuple[Any, Any]:
            following = (carry @ mix + entry).tanh()
            return following, following

        results: dict[str, Callable[[], Any]] = {
            "all": lambda: mixed.square().mean(), "sums": lambda: mixed.sum(axis=1).square().mean(),
            "loop": lambda: wy.row_scan(step, start, x)[0].square().mean(),
            "backwards": lambda: wy.row_scan(step, start, mixed, reverse=True)[1].square().sum() * 0.01,
            "cumsum": lambda: mixed.cumsum(axis=1).tanh().mean(axis=1).square().mean(),
            "sorted": lambda: mixed.sort(axis=1).cumprod(axis=1).mean(axis=1).square().mean(),
            "prod": lambda: (mixed + 1.0).prod(axis=1).tanh().square().mean(),
            "attention": lambda: (mixed * mixed.sum(axis=-1).softmax(axis=1).expand_dims(-1)).sum(axis=1).mean(),
            "norm": lambda: (wy.nn.LayerNorm(4)(mixed) * mixed).mean(axis=1).square().mean(),
        }  # fmt: skip
        train: Any = wy.compile(results[name](), wy.optim.SGD([mix], learning_rate=0.05))
        export = loaded(train, batch_sizes=BATCH, sizes={Words: rows.most_entries(BATCH)})
        assert export.start() == 0
        for _ in range(2):
            code, found = export.call("epoch", len(rows), batch=BATCH, shuffle=1, seed=1, **given_by_name({x: rows}))
            assert code == 0
            wanted = train.epoch({x: rows}, batch_size=BATCH, shuffle=True, seed=1)
            np.testing.assert_allclose(found["results"], [wanted], rtol=1e-5)
            np.testing.assert_allclose(export.tensor("mix"), mix.value, rtol=1e-4, atol=1e-6)

    check_each(["all", "sums", "loop", "backwards", "cumsum", "sorted", "prod", "attention", "norm"], check)


def test_two_axes_have_lengths_of_their_own() -> None:
    batch = Batch()
    words, tags = wy.Input(dims=(batch, Words()), name="words"), wy.Input(dims=(batch, Tags()), name="tags")
    program: Any = wy.compile(words.sum(axis=1) - tags.max(axis=1).maximum(0.0))
    export = loaded(predict=program, batch_sizes=BATCH, sizes=SIZES)
    assert export.start() == 0
    names = [each.name for each in export.functions["model_predict"].parameters]
    assert names == [
        "memory", "words", "tags", "words_offsets", "words_entries", "tags_offsets", "tags_entries", "rows", "predict",
    ]  # fmt: skip
    data = {
        words: wy.RaggedArray.of_rows([[1.0, 2.0], [], [3.0]]), tags: wy.RaggedArray.of_rows([[], [5.0, 1.0], [2.0]]),
    }  # fmt: skip
    check_prediction(export, "predict", program, data, 3)


def test_rows_whose_number_is_known_are_no_batch() -> None:
    x = wy.Input(dims=(3, Words(), 2), name="x")
    program: Any = wy.compile([x.sum(axis=1), x * 2.0])
    export = loaded(predict=program, sizes=SIZES)
    assert export.start() == 0
    assert "rows" not in [each.name for each in export.functions["model_predict"].parameters]
    data = {x: wy.RaggedArray.of_rows([np.ones((2, 2)), np.ones((0, 2)), np.ones((17, 2))])}
    check_prediction(export, "predict", program, data, 1)
    given = given_by_name(data)
    assert export.call("predict", **given | {"words_offsets": [0, 2, 1, 19]})[0] == CODES["OFFSETS"]


def test_what_cannot_leave_is_refused_in_words(tmp_path: Path) -> None:
    batch, words = Batch(), Words()
    x = wy.Input(dims=(batch, words), name="x")
    program: Any = wy.compile(x.sum(axis=1))
    with pytest.raises(ShapeError, match=r"how many entries a batch has at most, as in sizes={Words: 512}"):
        program.export(tmp_path)
    with pytest.raises(OptionError, match=r"sizes\[Words\] must be an integer of at least 1"):
        program.export(tmp_path, sizes={Words: 0})
    user = wy.Input(dims=(Users(), Tags()), name="user")
    with pytest.raises(ShapeError, match="the rows along Words and Tags are not the same ones"):
        wy.compile([x.sum(axis=1), user.sum(axis=1)]).export(tmp_path, sizes=SIZES | {Users: 3})
    slope, fixed = wy.Parameter(1.0, name="slope"), wy.Input(dims=(3, words), name="fixed")
    with pytest.raises(ShapeError, match="which a training takes in batches: declare the axis of its rows"):
        wy.compile((fixed * slope).square().mean(), wy.optim.SGD([slope], 0.1)).export(tmp_path, sizes=SIZES)
    with pytest.raises(OptionError, match=r"bessel_j .*has no native form"):
        wy.compile(wy.special.jv(0.5, x).sum(axis=1)).export(tmp_path, sizes=SIZES)
    joined: Any = wy.concatenate((x, x * 2.0), axis=1)
    for made in (joined.sum(axis=1), wy.row_pairs(x)[0].sum(axis=1), wy.row_lengths(joined)):
        with pytest.raises(OptionError, match=r"\((Joined|Pairs|Batch).*which is made of others as a program runs"):
            wy.compile(made).export(tmp_path, sizes=SIZES)
    with pytest.raises(OptionError, match=r"axis Joined\[Words, Words\]\(\), which is made of others"):
        wy.compile((joined * slope).square().mean(), wy.optim.SGD([slope], 0.1)).export(tmp_path, sizes=SIZES)
    with pytest.raises(OptionError, match="a live page takes no rows of different lengths, and x "):
        wy.view.page(x.sum(axis=1), tmp_path / "page.html", live=True, sizes=SIZES)
    assert not list(tmp_path.iterdir())


# --- C ----------------------------------------------------------------------------------------------------------------

WRONG = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "model_file.h"

#define ROWS 3
#define ENTRIES 18

int main(int count, char **paths) {
    /* Arrays of exactly their sizes, so that AddressSanitizer sees what is read or written beyond them. */
    void *memory = aligned_alloc(MODEL_ALIGNMENT, MODEL_MEMORY_BYTES), *before = malloc(MODEL_MEMORY_BYTES);
    int64_t *ids = calloc(ENTRIES, sizeof *ids), *offsets = malloc((ROWS + 1) * sizeof *offsets);
    float *weights = calloc(ENTRIES, sizeof *weights), *scores = calloc(3 * ROWS, sizeof *scores);
    static const int64_t cases[][ROWS + 2] = {
        {0, 0, 1, 18, 18}, {1, 1, 1, 18, 18}, {0, 2, 1, 18, 18}, {0, 0, 1, 17, 18}, {0, 0, 1, 19, 18},
        {0, -1, 1, 18, 18}, {0, 9223372036854775807, 1, 18, 18}, {0, 0, 1, 18, -1}, {0, 0, 1, 65, 65},
    };
    if (count < 2 || !memory || model_init(memory, MODEL_MEMORY_BYTES) || model_load(memory, paths[1])) return 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(offsets, cases[i], (ROWS + 1) * sizeof *offsets);
        memcpy(before, memory, MODEL_MEMORY_BYTES);
        memset(scores, 0, 3 * ROWS * sizeof *scores);
        int32_t code = model_probabilities(memory, ids, weights, offsets, cases[i][ROWS + 1], ROWS, scores);
        printf("%d ", (int)code);
        if (code && (memcmp(memory, before, MODEL_MEMORY_BYTES) || scores[0] != 0 || scores[8] != 0)) return 2;
        if (!code && (scores[0] == 0 || scores[8] == 0)) return 3;
    }
    free(memory); free(before); free(ids); free(offsets); free(weights); free(scores);
    return 0;
}
"""


@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
def test_c_programs_link_and_wrong_offsets_are_codes(tmp_path: Path) -> None:
    assert COMPILER is not None
    model = texts()
    wy.export(tmp_path, train=model.train, predict=model.predict, batch_sizes=BATCH, sizes=SIZES)
    strict = [COMPILER, "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I."]
    (tmp_path / "wrong.c").write_text(WRONG)

    def ran(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    ran(*strict, "-o", "example", "example.c", "model.o", "-lm")
    printed = ran("./example")
    assert "model_epoch: loss" in printed and "probabilities: " in printed
    sanitized = [*strict, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    files = ["-o", "wrong", "wrong.c", "model.o", "-lm"]
    if subprocess.run([*sanitized, *files], cwd=tmp_path, capture_output=True, check=False).returncode:
        ran(*strict, *files)
    wanted = ["OK", *["OFFSETS"] * 6, "ARGUMENT", "ENTRIES"]
    assert ran("./wrong", "model.safetensors").split() == [str(CODES[name]) for name in wanted]
    header = " ".join((tmp_path / "model.h").read_text(encoding="utf-8").split())
    assert "ids: (words_entries)" in header
    assert "words_offsets: (rows + 1): the entries of row i are those from offset i on" in header
    assert f"words_entries: the number of entries of all rows, at most {MOST} in a batch" in header
    assert re.search(r"const int64_t \*words_offsets, int64_t words_entries, int64_t rows,", header)


# --- JavaScript -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_methods_of_javascript_count_the_entries(tmp_path: Path) -> None:
    model = texts()
    wy.export(
        tmp_path, train=model.train, predict=model.predict, batch_sizes=BATCH, sizes=SIZES, target="wasm32",
        columns=model.data,
    )  # fmt: skip
    code = """
        import { load, columns, ModelError } from './model.mjs';
        import { readFileSync } from 'node:fs';
        const model = await load(), told = action => {
          try { return [action(), 'nothing'][1]; } catch (error) {
            return error instanceof ModelError ? `${error.key}: ${error.message}` : `raw: ${error.stack}`;
          }
        };
        const given = { ids: [3, 1, 4], weights: [0.5, 1, 2], words_offsets: [0, 2, 2, 3] };
        const { probabilities } = model.probabilities(given);
        const { entries, entries_2 } = model.entries(given);
        const wrong = [
          { ...given, words_offsets: [0, 2, 1, 3] }, { ...given, words_offsets: [] }, { ...given, weights: [1] },
          { ...given, words_offsets: [0, 1] }, { ids: given.ids, weights: given.weights },
        ].map(each => told(() => model.probabilities(each)));
        const epoch = model.epoch(columns(readFileSync('model_data.safetensors')), { batch: 8, seed: 7 });
        console.log(JSON.stringify([[probabilities, entries, entries_2].map(each => Array.from(each)), wrong, epoch]));
    """
    done = subprocess.run(
        ["node", "--input-type=module", "-e", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found, wrong, epoch = json.loads(done.stdout)
    ids, weights, _ = model.data
    data = {ids: [[3, 1], [], [4]], weights: [[0.5, 1.0], [], [2.0]]}
    entries, shares = model.predict["entries"](data)
    wanted = [model.predict["probabilities"](data), entries.values, shares.values]
    for have, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(have, np.ravel(want), rtol=1e-5, atol=1e-6)
    assert wrong == [
        "OFFSETS: offsets of rows do not begin at 0, decrease, or do not end at the number of entries",
        "ARGUMENT: words_offsets has 0 numbers, not one more than there are rows",
        "ARGUMENT: weights has 1 entries, and other inputs 3",
        "OFFSETS: offsets of rows do not begin at 0, decrease, or do not end at the number of entries",
        "ARGUMENT: probabilities needs the input words_offsets",
    ]
    wanted_epoch = model.train.epoch(model.data, batch_size=8, shuffle=True, seed=7)
    assert epoch["loss"] == pytest.approx(wanted_epoch["loss"], rel=1e-5)
    types = (tmp_path / "model.d.ts").read_text(encoding="utf-8")
    assert "words_offsets: ArrayLike<number> | ArrayLike<bigint>" in types
    assert "ids: (entries), row after row" in types
