"""Integer options take NumPy's integers and arrays of one number, and do what Python's integers do; bools are none."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
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
