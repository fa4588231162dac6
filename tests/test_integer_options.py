"""Integer options take NumPy's integers and arrays of one number, and do what Python's integers do; bools are none."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.integer_calls import FUNCTIONS, OPTIONS, Call

KINDS: dict[str, Any] = {
    **{dtype.__name__: dtype for dtype in (np.int8, np.int16, np.int32, np.int64)},
    **{dtype.__name__: dtype for dtype in (np.uint8, np.uint16, np.uint32, np.uint64)},
    "0-d array": np.array,
}


_INTEGER = re.compile(r"^(int|Size|PerAxis|Padding|Dim \| int)( \||$)")
_NUMBERS = (int, float, np.generic, np.ndarray)


def shown(result: Any) -> Any:
    """Return what a result is, for comparisons: its types, and its numbers."""
    if isinstance(result, wy.nn.Module):
        return repr(result), shown(result.state_dict())
    if isinstance(result, wy.Node | wy.IndexNode):
        return repr(result.dims), shown(result.forward())
    if isinstance(result, np.ndarray):
        return result.dtype.str, result.shape, result.tolist()
    if isinstance(result, Mapping):
        return {name: shown(value) for name, value in result.items()}
    if isinstance(result, Sequence) and not isinstance(result, str):
        return [shown(each) for each in result]
    if dataclasses.is_dataclass(result) or isinstance(result, float | int | str | None):
        return repr(result)
    if isinstance(result, wy.data.Dataset):
        return shown(result.take(np.arange(len(result))))
    return {name: shown(value) for name, value in vars(result).items() if isinstance(value, _NUMBERS)}


def _begin() -> None:
    """Make random numbers those of the first call."""
    wy.nn.seed(0)
    wy.random.set_step(0)


@pytest.mark.parametrize("name", [*OPTIONS, *FUNCTIONS])
def test_integers_of_numpy_are_integers(name: str) -> None:
    call: Call = OPTIONS.get(name) or FUNCTIONS[name]
    _begin()
    expected = shown(call(int))
    for kind, make in KINDS.items():
        _begin()
        assert shown(call(make)) == expected, kind


@pytest.mark.parametrize("name", OPTIONS)
def test_bools_and_other_numbers_are_no_integers(name: str) -> None:
    numbers: list[int] = []

    def counted(number: int) -> int:
        numbers.append(number)
        return number

    def replacing(position: int, value: object) -> Callable[[int], Any]:
        count = iter(range(len(numbers)))
        return lambda number: value if next(count) == position else number

    OPTIONS[name](counted)
    for position in range(len(numbers)):
        for value in (True, np.True_, 1.5, "1"):
            with pytest.raises((TypeError, ValueError)):
                OPTIONS[name](replacing(position, value))


def _public() -> Iterator[Callable[..., object]]:
    """Yield the functions and classes that modules export, the methods of programs and nodes, and `fit`."""
    for module in (
        wy,
        wy.nn,
        wy.losses,
        wy.optim,
        wy.train,
        wy.data,
        wy.metrics,
        wy.io,
        wy.random,
        wy.linalg,
        wy.special,
    ):
        for name in module.__all__:
            found = getattr(module, name)
            if callable(found) and not (isinstance(found, type) and issubclass(found, BaseException)):
                yield found
    for owner in (wy.Program, wy.Node, wy.data.TokenBlocks, wy.io.Checkpoints):
        yield from (method for name, method in vars(owner).items() if not name.startswith("_") and callable(method))


def _named(code: CodeType) -> Iterator[str]:
    """Yield the strings among the constants of a function, such as the names of its keyword arguments."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _named(constant)
        else:
            yield from (
                each for each in (constant if isinstance(constant, tuple) else (constant,)) if isinstance(each, str)
            )


def test_every_integer_option_is_called() -> None:
    found = set[str]()
    for function in _public():
        try:
            parameters = inspect.signature(function).parameters.values()
        except ValueError:
            continue
        found |= {each.name for each in parameters if _INTEGER.search(str(each.annotation))}
    called = {name for call in (*OPTIONS.values(), *FUNCTIONS.values()) for name in _named(call.__code__)}
    assert found <= called
