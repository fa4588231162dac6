"""Compile-time constants of a kernel: numbers, functions, modules and dtypes of its module."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from wyrm.engines.native.ir.program import Number
from wyrm.engines.native.ir.types import INT64, ScalarType, scalar_of
from wyrm.engines.native.kernels.arithmetic import literal
from wyrm.engines.native.kernels.errors import NotCompiled
from wyrm.engines.native.kernels.values import Group, Num, Static, Value


def known(value: object) -> Value:
    """Return the compile-time value of a Python object.

    Raise `NotCompiled` for a number whose dtype kernels do not support.
    """
    if isinstance(value, np.generic):
        type = scalar_of(value.dtype)
        if type is None:
            raise NotCompiled(
                f"unsupported dtype {value.dtype} of a constant; kernels support bools, integers and floats"
            )
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
    """Return the value of a module's attribute."""
    found = getattr(module, name, module)
    if found is module:
        raise NotCompiled(f"{module.__name__} has no {name}")
    return known(found)


def dtype_or_none(value: object) -> ScalarType | None:
    """Return the scalar type of a dtype, a NumPy scalar class, or `bool`, `int` or `float`; None for anything else."""
    if isinstance(value, ScalarType):
        return value
    if value is bool or value is int or value is float:
        return scalar_of(value)
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        try:
            return scalar_of(value)
        except TypeError:  # an abstract class such as np.integer
            return None
    return None


def dtype_named(value: Value) -> ScalarType:
    """Return the scalar type of a dtype-like value; raise `NotCompiled` for anything else."""
    found = dtype_or_none(value.value) if isinstance(value, Static) else None
    if found is None:
        raise NotCompiled(
            "unsupported dtype; kernels support bool, int8 to int64, uint8 to uint64, float32 and float64"
        )
    return found


def same(first: object, second: object) -> bool:
    """Return whether two compile-time values are equal; dtypes compare by the type they denote, as in NumPy."""
    for one, other in ((first, second), (second, first)):
        if isinstance(one, ScalarType):
            return one.name == other if isinstance(other, str) else one == dtype_or_none(other)
    try:
        return bool(first is second or first == second)
    except Exception:  # the user's `==` may raise anything
        raise NotCompiled(f"cannot compare a {type(first).__name__} with a {type(second).__name__}") from None
