"""Exports: an epoch of a training in C and in WebAssembly (Node.js, Chromium) beside that in Python, on one thread."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import wyrm as wy
from bench.browser import chromium, launched, served
from bench.convolutions import BATCH, network
from bench.harness import Case, Contender, Measurement, timed
from bench.lstm import RATE as LSTM_RATE
from bench.lstm import READ, _windows, _wyrm_scores
from bench.models import BPR_BATCH, FIZZBUZZ_BATCH, MOVIELENS, FizzBuzz, Recommender, fizzbuzz, has_movielens
from wyrm.exporting.exported import Exported
from wyrm.exporting.interface import Role

_ROUNDS = 5


class Work(NamedTuple):
    """A training, its data, and its batch size."""

    program: Any
    columns: dict[Any, np.ndarray]
    batch: int


def _fizzbuzz() -> Work:
    model, (bits, words) = FizzBuzz(128), fizzbuzz()
    return Work(model.program, {model.bits: bits, model.words: words}, FIZZBUZZ_BATCH)


def _bpr() -> Work:
    data = wy.data.read_movielens(MOVIELENS)
    model = Recommender(data.user_count, data.item_count, 16)
    return Work(model.program, {model.users: data.users, model.items: data.items}, BPR_BATCH)


def _lstm() -> Work:
    wy.nn.seed(0)
    batch = wy.Dim()
    read, following = wy.IndexInput(dims=(batch, READ), name="read"), wy.IndexInput(dims=(batch,), name="following")
    loss = _wyrm_scores(read).cross_entropy(following)
    windows, targets = _windows()
    program = wy.compile(loss, wy.optim.SGD(loss.parameters(), LSTM_RATE))
    return Work(program, {read: windows, following: targets}, 1)


def _convolutions() -> Work:
    return Work(*network(), batch=BATCH)


WORKS: dict[str, Callable[[], Work]] = {
    "FizzBuzz": _fizzbuzz, "BPR of 16 dimensions": _bpr, "LSTM of digits": _lstm, "convolutions": _convolutions,
}  # fmt: skip


@cache
def folder() -> Path:
    """Return a folder that lasts as long as the process."""
    folder = tempfile.TemporaryDirectory()
    _kept.append(folder)
    return Path(folder.name)


_kept: list[Any] = []


def _exported(name: str, target: str) -> tuple[Work, Exported, Path]:
    work = WORKS[name]()
    place = folder() / f"{name} {target}"
    columns = work.columns if target == "wasm32" else None
    exported = work.program.export(place, target=target, batch_sizes=work.batch, columns=columns)
    return work, exported, place


def _in_python(name: str) -> Callable[[], Measurement]:
    program, columns, batch = WORKS[name]()
    seeds = itertools.count()
    return timed(lambda: program.epoch(columns, batch_size=batch, shuffle=True, seed=next(seeds)), least=0.2)


def linked(exported: Exported, place: Path) -> tuple[ctypes.CDLL, np.ndarray]:
    """Return the exported functions, linked by a C compiler, and a block of memory that is ready for them."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise ImportError("no C compiler", name="a C compiler")
    command = [compiler, "-shared", "-o", "model.so", "model.o", "-lm"]
    subprocess.run(command, cwd=place, check=True)
    library = ctypes.CDLL(str(place / "model.so"))
    raw = np.zeros(exported.memory_bytes + 64, np.uint8)
    block = raw[-raw.ctypes.data % 64 :]
    init = library[exported.interface.symbol("model_init")]
    assert init(ctypes.c_void_p(block.ctypes.data), ctypes.c_int64(exported.memory_bytes)) == 0
    for tensor in exported.interface.tensors:
        values = np.asarray(exported.built.initial[tensor.name]).reshape(-1).view(np.uint8)
        block[tensor.offset : tensor.offset + tensor.bytes] = values
    assert library.model_ready(ctypes.c_void_p(block.ctypes.data)) == 0
    return library, block


def _in_c(name: str) -> Callable[[], Measurement]:
    work, exported, place = _exported(name, "c")
    library, block = linked(exported, place)
    rows = len(next(iter(work.columns.values())))
    names = {each.name: each.leaf for each in exported.built.training.given}
    (epoch,) = [each for each in exported.interface.functions if each.name == "model_epoch"]
    kept: dict[Role, Any] = {
        Role.MEMORY: block, Role.ORDER: np.zeros(rows, np.int64), Role.RESULTS: np.zeros(8), Role.ROWS: rows,
        Role.BATCH: work.batch, Role.FLAG: 1,
    }  # fmt: skip
    arrays = {name: np.ascontiguousarray(work.columns[leaf], leaf.dtype) for name, leaf in names.items()}
    seeds = itertools.count()

    def argument(parameter: Any) -> Any:
        value: Any = (
            next(seeds) if parameter.role is Role.SEED else arrays.get(parameter.name, kept.get(parameter.role))
        )
        if isinstance(value, np.ndarray):
            return ctypes.c_void_p(value.ctypes.data)
        return ctypes.c_int32(value) if parameter.role is Role.FLAG else ctypes.c_int64(value)

    def run() -> None:
        assert library.model_epoch(*map(argument, epoch.parameters)) == 0

    return timed(run, least=0.2)


def in_node(script: str, place: Path, *arguments: object) -> Callable[[], Measurement]:
    """Return the best of the seconds that a script of this folder prints about an export, in Node.js."""
    node = shutil.which("node")
    if node is None:
        raise ImportError("no Node.js", name="Node.js")
    command = [node, str(Path(__file__).with_name(script)), str(place), *map(str, arguments)]

    def once() -> Measurement:
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return Measurement(min(map(float, printed.split())))

    return once


def in_chromium(script: str, place: Path, run: str) -> Callable[[], Measurement]:
    """Return the best of the seconds that a JavaScript function returns, on a page that has the export and a script."""
    from playwright.sync_api import sync_playwright

    if chromium() is None:
        raise ImportError("no Chromium", name="Chromium")
    shutil.copy(Path(__file__).with_name(script), place)
    (place / "empty.html").write_text("<!doctype html><title>benchmark</title>", encoding="utf-8")

    def once() -> Measurement:
        with served(place) as address, sync_playwright() as playwright:
            browser = launched(playwright)
            page = browser.new_page()
            page.goto(f"{address}empty.html")
            seconds = min(page.evaluate(run))
            browser.close()
        return Measurement(seconds)

    return once


def _epochs_in_node(name: str) -> Callable[[], Measurement]:
    work, _, place = _exported(name, "wasm32")
    return in_node("exports.mjs", place, work.batch, _ROUNDS)


def _epochs_in_chromium(name: str) -> Callable[[], Measurement]:
    work, _, place = _exported(name, "wasm32")
    run = f"""async () => {{
        const {{ columns, load }} = await import('/model.mjs'), {{ epochs }} = await import('/exports.mjs');
        const data = columns(await (await fetch('/model_data.safetensors')).arrayBuffer());
        return await epochs(await load(), data, {work.batch}, {_ROUNDS});
    }}"""
    return in_chromium("exports.mjs", place, run)


def cases() -> list[Case]:
    """An epoch of each training."""
    found = []
    for name in WORKS:
        if name.startswith("BPR") and not has_movielens("exports"):
            continue
        contenders: dict[str, Contender] = {
            "wyrm": partial(_in_python, name),
            "wyrm, in C": partial(_in_c, name),
            "wyrm, in Node.js": partial(_epochs_in_node, name),
            "wyrm, in Chromium": partial(_epochs_in_chromium, name),
        }
        found.append(Case("exports", f"epoch, {name}", contenders, "C at most 1.0 of Python's time, browsers 1.5"))
    return found
