"""What the names of a kernel stand for outside of it: constants, functions, modules and dtypes."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from wyrm.ir.program import Number
from wyrm.ir.types import INT64, ScalarType, scalar_of
from wyrm.kernels.arithmetic import literal
from wyrm.kernels.errors import NotCompiled
from wyrm.kernels.values import Group, Num, Static, Value


def known(value: Any) -> Value:
    """What is known while compiling."""
    if isinstance(value, np.generic):
        type = scalar_of(value.dtype)
        if type is None:
            raise NotCompiled(f"a number of dtype {value.dtype}; kernels have bools, integers and floats")
        number = value.item()
        return Num(Number(number, type), natural=type == INT64 and number >= 0)
    if isinstance(value, bool | int | float | complex):
        return literal(value)
    if isinstance(value, tuple):
        return Group(tuple(map(known, value)))
    if isinstance(value, np.dtype):
        return Static(dtype_named(Static(value)))
    return Static(value)


def attribute_of_module(module: ModuleType, name: str) -> Value:
    """What a module has under a name."""
    found = getattr(module, name, module)
    if found is module:
        raise NotCompiled(f"{module.__name__} has no {name}")
    return known(found)


def dtype_or_none(value: Any) -> ScalarType | None:
    """The type of numbers that a dtype, a class of NumPy or `bool`, `int` or `float` stands for."""
    if isinstance(value, ScalarType):
        return value
    if value is bool or value is int or value is float:
        return scalar_of(value)
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        try:
            return scalar_of(value)
        except TypeError:  # an abstract one, such as np.integer
            return None
    return None


def dtype_named(value: Value) -> ScalarType:
    """The type of numbers that something stands for; `NotCompiled` where there is none."""
    found = dtype_or_none(value.value) if isinstance(value, Static) else None
    if found is None:
        raise NotCompiled(
            "a dtype that kernels do not have; they have bool, int8 to int64, uint8 to uint64, float32 and float64"
        )
    return found


def same(first: Any, second: Any) -> bool:
    """Whether two things that are known while compiling are equal; dtypes are by what they mean."""
    for one, other in ((first, second), (second, first)):
        if isinstance(one, ScalarType):
            return one.name == other if isinstance(other, str) else one == dtype_or_none(other)
    try:
        return bool(first is second or first == second)
    except Exception:  # what `==` does is up to them
        raise NotCompiled(f"a {type(first).__name__} compared with a {type(second).__name__}") from None
