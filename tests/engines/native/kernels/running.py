"""Helpers that compile a single kernel and compare its results with those of Python."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np

from wyrm.engines.native.kernels.functions import KernelFunction
from wyrm.engines.native.kernels.translate import Specialization, Translation
from wyrm.engines.native.kernels.values import GroupKind, NumKind
from wyrm.engines.native.llvm import cache
from wyrm.engines.native.llvm.calling import LoadedFunction, kind_of_argument, table_of
from wyrm.engines.native.llvm.emit import emit
from wyrm.engines.native.llvm.library import entry_of
from wyrm.engines.native.llvm.optimize import machine_code


def translated(
    function: Callable[..., Any], *arguments: Any, checked: bool = False
) -> tuple[Translation, Specialization]:
    """Translate a function to a loop program for the kinds of these arguments."""
    kernel = function if isinstance(function, KernelFunction) else KernelFunction(function)
    translation = Translation(checked)
    return translation, translation.specialized(kernel, tuple(map(kind_of_argument, arguments)))


def compiled(function: Callable[..., Any], *arguments: Any, checked: bool = False) -> Callable[..., Any]:
    """Compile a function for the kinds of these arguments."""
    translation, found = translated(function, *arguments, checked=checked)
    program = translation.program(found.function.name)
    entry = entry_of(machine_code(emit(program.functions, {}, entry=True), cache.LEVEL))
    kinds = [] if found.result is None else [found.result]
    single = not isinstance(found.result, GroupKind)
    if isinstance(found.result, GroupKind):
        kinds = list(found.result.items)
    numbers = [each for each in kinds if isinstance(each, NumKind)]
    assert len(numbers) == len(kinds)
    machine = LoadedFunction(entry, (), tuple(numbers), single, translation.errors)

    kinds_of_arguments = tuple(map(kind_of_argument, arguments))

    def call(*given: Any) -> Any:
        assert tuple(map(kind_of_argument, given)) == kinds_of_arguments
        return machine.run(table_of(machine, given, kinds_of_arguments))

    return call


def written(text: str, name: str) -> Callable[..., Any]:
    """Return a function defined in the source of a module."""
    file = f"<{name} {hash(text)}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    module: dict[str, Any] = {"np": np, "__name__": "kernels_of_a_test"}
    exec(compile(text, file, "exec"), module)
    function: Callable[..., Any] = module[name]
    return function


def copies(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments with each array copied to new memory in the same layout."""
    return tuple(_copy(each) if isinstance(each, np.ndarray) else each for each in arguments)


def _copy(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    base = array.base
    if base is None or array.flags.c_contiguous:
        return array.copy(order="K")
    offset = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    memory = base.copy(order="A")
    return np.ndarray(array.shape, array.dtype, memory.data, offset, array.strides)


def check(function: Callable[..., Any], *arguments: Any, tolerance: float = 0.0, checked: bool = False) -> Any:
    """Run a function in Python and compiled, assert equal results and equal array arguments, and return the result."""
    ours, theirs = copies(arguments), copies(arguments)
    with np.errstate(all="ignore"):
        expected = function(*theirs)
    found = compiled(function, *arguments, checked=checked)(*ours)
    same(found, expected, tolerance)
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(one, np.ndarray):
            same(one, other, tolerance)
    return found


def same(found: Any, expected: Any, tolerance: float = 0.0) -> None:
    """Assert that scalars, arrays or tuples of them are equal; NaNs compare equal."""
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other, tolerance)
    elif expected is None:
        assert found is None
    else:
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
