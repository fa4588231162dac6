"""Masked arrays are refused wherever arrays enter, since they would lose their mask."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError
from wyrm.io.files import save_arrays

FLOATS: Any = np.ma.array([1.0, 2.0, 3.0], mask=[True, False, False])
INTEGERS: Any = np.ma.array([0, 1, 2], mask=[True, False, False])
MASK: Any = np.ma.array([True, False, True], mask=[True, False, False])


class Rows(wy.Dim): ...


def x() -> Any:
    return wy.Parameter(np.array([1.0, 2.0, 3.0]))


ENTRANCES: dict[str, Callable[[Path], Any]] = {
    "parameter": lambda _: wy.Parameter(FLOATS),
    "parameter of a list": lambda _: wy.Parameter([[FLOATS], [FLOATS]]),
    "a single masked number": lambda _: wy.Constant(np.ma.masked),
    "input": lambda _: wy.Input(FLOATS),
    "mask": lambda _: wy.Input(MASK),
    "index input": lambda _: wy.IndexInput(INTEGERS),
    "buffer": lambda _: wy.Buffer(FLOATS),
    "parameter.set": lambda _: x().set(FLOATS),
    "input.set": lambda _: wy.Input(dims=(3,)).set(FLOATS),
    "index input.set": lambda _: wy.IndexInput(dims=(3,)).set(INTEGERS),
    "buffer.set": lambda _: wy.Buffer(np.zeros(3)).set(FLOATS),
    "operand": lambda _: x() + FLOATS,
    "comparison": lambda _: x() == FLOATS,
    "comparison of indices": lambda _: wy.IndexInput([0, 1, 2]) != INTEGERS,
    "numpy's function": lambda _: np.add.__call__(FLOATS.data, x()) + FLOATS,
    "condition": lambda _: wy.where(MASK, x(), 0.0),
    "choice": lambda _: wy.where(x() > 0.0, FLOATS, 0.0),
    "indices": lambda _: x().take(INTEGERS),
    "labels": lambda _: wy.Parameter(np.ones((3, 3))).cross_entropy(INTEGERS),
    "concatenate": lambda _: wy.concatenate([x(), FLOATS]),
    "cotangent": lambda _: wy.vjp(x() * 2.0, x(), FLOATS),
    "function": lambda _: wy.function(lambda x: x * 2.0)(FLOATS),
    "function of a dict": lambda _: wy.function(lambda d: d["x"] * 2.0)({"x": FLOATS}),
    "vmap": lambda _: wy.vmap(lambda x: x * 2.0)(FLOATS),
    "scan": lambda _: wy.scan(lambda c, x: (c + x, None), 0.0, FLOATS),
    "jacobian": lambda _: wy.jacobian(lambda x: x * 2.0)(FLOATS),
    "weights of draws": lambda _: wy.random.index(3, (2,), weights=FLOATS),
    "dataset": lambda _: wy.data.Dataset({"x": FLOATS}),
    "rows of a dataset": lambda _: wy.data.Dataset({"x": FLOATS.data})[INTEGERS],
    "tokens": lambda _: wy.data.TokenBlocks(INTEGERS, 2),
    "metric": lambda _: wy.metrics.mean_squared_error(FLOATS, FLOATS.data),
    "ranking": lambda _: wy.metrics.reciprocal_rank(FLOATS.data, MASK),
    "file": lambda folder: save_arrays(folder / "arrays.safetensors", {"x": FLOATS}),
}


@pytest.mark.parametrize("name", ENTRANCES)
def test_masked_arrays_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DTypeError, match=r"a masked array of shape .* would lose its mask: fill it with array\.filled"):
        ENTRANCES[name](tmp_path)


def test_programs_refuse_masked_arrays() -> None:
    inputs = wy.Input(dims=(Rows(),), name="inputs")
    program = wy.compile((inputs * 2.0).sum(), loop="python")
    with pytest.raises(DTypeError, match="would lose its mask"):
        program({inputs: FLOATS})
    assert program({inputs: FLOATS.filled(0.0)}) == 10.0


def test_an_array_with_a_masked_array_on_its_left() -> None:
    with pytest.raises(TypeError, match=r"would lose its mask|is not an array"):
        FLOATS + x()
