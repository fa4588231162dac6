"""Exports: the next token of GPT-2 in C and in WebAssembly (Node.js, Chromium) beside that in Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import wyrm as wy
from bench.exports import folder, in_chromium, in_node, linked
from bench.harness import Case, Contender, Measurement, timed
from wyrm.exporting.exported import Exported

_PROMPT, _COUNT, _ROUNDS = [3, 4, 5], 40, 3
# The tokens that a continuation reads; of the last one that it draws nothing follows.
_READ = len(_PROMPT) + _COUNT - 1


@cache
def _model() -> wy.nn.GPT2:
    """Return GPT-2 of 124 million parameters, drawn at random."""
    wy.nn.seed(0)
    return wy.nn.GPT2(wy.nn.GPT2Config())


@cache
def _exported(target: str) -> tuple[Exported, Path]:
    place = folder() / f"GPT-2 {target}"
    return wy.export(place, generate=_model(), target=target), place


def _continued() -> list[int]:
    return [int(token) for token in wy.nn.generate(_model(), _PROMPT, _COUNT, temperature=0.0)]


def _in_python() -> Callable[[], Measurement]:
    return timed(_continued, units=_READ)


def _in_c() -> Callable[[], Measurement]:
    library, block = linked(*_exported("c"))
    following, expected = ctypes.c_int64(), _continued()
    library.model_next.argtypes = [
        ctypes.c_void_p, ctypes.c_int64, ctypes.c_double, ctypes.c_int64, *[ctypes.c_double] * 3, ctypes.c_int64,
        ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p,
    ]  # fmt: skip

    def run() -> None:
        tokens: list[Any] = list(_PROMPT)
        memory = ctypes.c_void_p(block.ctypes.data)  # the closure keeps the block
        assert library.model_begin(memory) == 0
        for position in range(_READ):
            given = (tokens[position], 0.0, 0, 0.0, 0.0, 0.0, 0, None, 0)
            assert library.model_next(memory, *given, ctypes.byref(following)) == 0
            if position >= len(_PROMPT) - 1:
                tokens.append(following.value)
        assert tokens[len(_PROMPT) :] == expected

    return timed(run, units=_READ)


def _in_node() -> Callable[[], Measurement]:
    return in_node("exported_text.mjs", _exported("wasm32")[1], _PROMPT, _COUNT, _ROUNDS)


def _in_chromium() -> Callable[[], Measurement]:
    run = f"""async () => {{
        const {{ load }} = await import('/model.mjs'), {{ continuations }} = await import('/exported_text.mjs');
        return continuations(await load(), {_PROMPT}, {_COUNT}, {_ROUNDS});
    }}"""
    return in_chromium("exported_text.mjs", _exported("wasm32")[1], run)


def cases() -> list[Case]:
    """The next token of one sequence, read by a program on one core that has 498 MB of weights."""
    contenders: dict[str, Contender] = {
        "wyrm": _in_python,
        "wyrm, in C": _in_c,
        "wyrm, in Node.js": _in_node,
        "wyrm, in Chromium": _in_chromium,
    }
    return [Case("exported_text", "token, GPT-2 124M", contenders, "C at most 1.0 of Python's time, browsers 2.5")]
