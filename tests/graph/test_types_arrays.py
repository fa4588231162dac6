"""Nested lists of different lengths are refused wherever users give numbers, with the name of what took them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import ShapeError
from wyrm.graph.arrays import as_array

ROWS: Any = [[1.0, 2.0], [3.0]]
INDICES: Any = [[1, 2], [0]]
MASKS: Any = [[True, False], [True]]


class Batch(wy.Dim): ...


def named(**options: Any) -> Any:
    return wy.Input(dims=(2, 2), name="x", **options)


def _program(call: Callable[[Any, Any], Any], **options: Any) -> Any:
    x, w = wy.Input(dims=(Batch(), 2), name="x"), wy.Parameter([1.0, 2.0])
    return call(wy.compile((x * w).sum(), wy.optim.SGD([w], 0.1), **options), x)


# What takes the lists, and how its error begins.
TAKERS: dict[str, tuple[Callable[[], Any], str]] = {
    "input": (lambda: wy.Input(ROWS, name="x"), "x "),
    "input without a name": (lambda: wy.Input(ROWS), "an input "),
    "input.set": (lambda: named().set(ROWS), r"x \(2, 2\) float32"),
    "parameter": (lambda: wy.Parameter(ROWS, name="w"), "w "),
    "parameter without a name": (lambda: wy.Parameter(ROWS), "a parameter "),
    "parameter.set": (lambda: wy.Parameter(np.ones((2, 2)), name="w").set(ROWS), "w "),
    "buffer.set": (lambda: wy.Buffer(np.ones((2, 2)), name="b").set(ROWS), "b "),
    "constant": (lambda: wy.Constant(ROWS), "a constant"),
    "index input": (lambda: wy.IndexInput(INDICES, name="i"), "i "),
    "index input.set": (lambda: wy.IndexInput(dims=(2, 2), name="i").set(INDICES), "i "),
    "operator": (lambda: named() + ROWS, "the operand beside x"),
    "reflected operator": (lambda: ROWS * named(), "the operand beside x"),
    "operator of integers": (lambda: wy.IndexInput(dims=(2, 2), name="i") + INDICES, "the operand beside i"),
    "method": (lambda: named().maximum(ROWS), "the operand beside x"),
    "clip": (lambda: named().clip(ROWS), "clip: a bound"),
    "key": (lambda: named()[INDICES], "x .*its key"),
    "condition": (lambda: wy.where(MASKS, 1.0, 2.0), "where: the condition"),
    "choice": (lambda: wy.where(named() > 0.0, ROWS, named()), "the operand beside x"),
    "function": (lambda: wy.dot(named(), ROWS), "operand 1"),
    "function of lists": (lambda: wy.median(ROWS), "operand 0"),
    "numpy": (lambda: np.add(named(), ROWS), "the operand beside x"),
    "joined": (lambda: wy.concatenate([named(), ROWS]), "the operand beside x"),
    "repeats": (lambda: named().repeat(INDICES), "repeat: repeats"),
    "weights": (lambda: wy.vjp(named(), [named()], ROWS), "cotangent|weight"),
    "program": (lambda: _program(lambda program, x: program({x: ROWS})), "column x"),
    "epoch": (lambda: _program(lambda program, x: program.epoch({x: ROWS})), "column x"),
    "evaluate": (lambda: _program(lambda program, x: program.evaluate({"x": ROWS})), "column x"),
    "program of JAX": (lambda: _program(lambda program, x: program({x: ROWS}), engine="jax"), "column x"),
    "dataset": (lambda: wy.data.Dataset(x=ROWS), "column 'x'"),
    "metric": (lambda: wy.metrics.accuracy([0, 1], ROWS), "predictions"),
}


@pytest.mark.parametrize("name", TAKERS)
def test_lists_of_different_lengths_are_refused_by_name(name: str) -> None:
    call, start = TAKERS[name]
    with pytest.raises(ShapeError, match=rf"^({start}).*was given lists of different lengths.*\[1\] \(1,\)"):
        call()


def test_the_error_says_where() -> None:
    with pytest.raises(ShapeError, match=r"element \[1\]\[0\] has the shape \(2,\), and \[1\]\[1\] \(\)"):
        as_array([[[1, 2], [3, 4]], [[5, 6], 7]])
    with pytest.raises(ShapeError, match=r"^rows was given .*element \[0\] has the shape \(2,\), and \[1\] \(3,\)"):
        as_array([np.ones(2), np.ones(3)], "rows")
