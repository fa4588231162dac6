"""`callable`: functions and programs of this library for code that numba compiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from wyrm.errors import OptionError, ShapeError
from wyrm.functions.function import Function
from wyrm.graph.base import label
from wyrm.numba.compiled import NumbaFunction
from wyrm.support.imports import missing_package
from wyrm.train.program import Program


@overload
def callable(f: Program[Any], examples: Mapping[Any, ArrayLike], /) -> NumbaFunction: ...
@overload
def callable(f: Callable[..., Any], /, *examples: ArrayLike) -> NumbaFunction: ...
def callable(f: Any, /, *examples: Any) -> NumbaFunction:
    """Return a function that `@numba.njit` code calls with arrays of the examples' dtypes and shapes.

    `f` is a `wyrm.function`, one of its derivatives such as `f.grad()` or `f.value_and_grad()`, or a Python function of
    nodes. It may also be a program of `wyrm.compile` without an optimizer; the examples are then `{input: array}`, and
    calls take the inputs in that order. The type of the result in numba depends only on the dtypes and numbers of
    axes, so functions that take it are compiled once, and numba's cache serves them. Parameters that `f` uses are read
    where they are, so it sees every step of a training.

    Raise `MissingPackage` without numba, `OptionError` for a program that trains, `ShapeError` for examples that are
    not those of its inputs, and `CompileError` for an op without a native form.

    >>> double = wy.numba.callable(lambda x: 2.0 * x, np.zeros(3))
    >>> double(np.array([1.0, 2.0, 3.0]))
    array([2., 4., 6.])
    """
    if find_spec("numba") is None:
        raise missing_package("wyrm.numba", "the package numba", "numba", name="numba")
    from wyrm.numba import types as _types  # noqa: F401  # numba learns the type of these functions

    if isinstance(f, Program):
        return _of_program(f, examples)
    trace = (f if isinstance(f, Function) else Function(f)).trace(*map(np.asarray, examples))
    name = getattr(f, "__name__", "the function")
    return NumbaFunction(name, trace.outputs, trace.inputs, [leaf.shape for leaf in trace.inputs])


def _of_program(program: Program[Any], examples: Sequence[Any]) -> NumbaFunction:
    if program.optimizer is not None:
        raise OptionError("wyrm.numba.callable takes a program without an optimizer; compile its outputs alone")
    given: Any = examples[0] if len(examples) == 1 else None
    if not isinstance(given, Mapping) or given.keys() != set(program.inputs):
        names = ", ".join(f"{label(leaf)}: array" for leaf in program.inputs)
        raise ShapeError(f"wyrm.numba.callable takes the examples of a program as {{{names}}}")
    shapes = [np.asarray(array).shape for array in given.values()]
    return NumbaFunction("the program", program._outputs, list(given), shapes)
