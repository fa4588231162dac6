"""The values that names in a kernel have at compile time, and their kinds, for which functions are specialized.

Code outside the kernel language raises `NotCompiled`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any, Literal

import numpy as np

from wyrm.engines.native.ir.program import (
    Expression,
    Number,
    Operation,
    Variable,
)
from wyrm.engines.native.ir.types import BOOL, FLOAT64, INT64, UINT64, PointerType, ScalarType, Type, scalar_of
from wyrm.support.frozen import frozen

Layout = Literal["contiguous", "rows", "any"]


@frozen
class Num:
    """A scalar. `weak`: weakly typed, like a literal in NumPy. `natural`: an int64 known to be at least 0."""

    expression: Expression
    weak: bool = False
    natural: bool = False

    @property
    def type(self) -> ScalarType:
        """The type of its expression; a weak scalar may still take another."""
        assert isinstance(self.expression.type, ScalarType)
        return self.expression.type


@frozen
class View:
    """An array or a view of one: a pointer to its first element, and a size and a stride in elements per axis.

    `layout`: "contiguous" (row-major), "rows" (the last axis is contiguous) or "any".
    """

    pointer: Expression
    element: ScalarType
    shape: tuple[Expression, ...]
    strides: tuple[Expression, ...]
    layout: Layout


@frozen
class TupleValue:
    """A tuple."""

    items: tuple[KernelValue, ...]


@frozen
class Static:
    """A compile-time constant: a function, a module, a dtype, None, an ellipsis or a string."""

    value: Any


@frozen
class Method:
    """A bound method of a scalar, such as `view`."""

    name: str
    of: Num


KernelValue = Num | View | TupleValue | Static


@frozen
class NumKind:
    """The kind of a scalar."""

    type: ScalarType
    natural: bool = False

    def __str__(self) -> str:
        return str(self.type)


@frozen
class ViewKind:
    """The kind of an array: its element type, number of axes and layout."""

    element: ScalarType
    axes: int
    layout: Layout

    def __str__(self) -> str:
        return f"an array of {self.element} with {self.axes} axes"


@frozen
class GroupKind:
    """The kind of a tuple."""

    items: tuple[Kind, ...]

    def __str__(self) -> str:
        return f"a tuple ({', '.join(map(str, self.items))})"


@frozen
class StaticKind:
    """The kind of a compile-time constant."""

    value: Any

    def __str__(self) -> str:
        return repr(self.value)


Kind = NumKind | ViewKind | GroupKind | StaticKind

ZERO, ONE = Number(0, INT64), Number(1, INT64)


def plus(x: Expression, y: Expression) -> Expression:
    """Return the sum of two array offsets, which cannot overflow."""
    if isinstance(x, Number) and isinstance(y, Number):
        return Number(x.value + y.value, INT64)
    if x == ZERO or y == ZERO:
        return y if x == ZERO else x
    return Operation("step", (x, y), INT64)


def times(x: Expression, y: Expression) -> Expression:
    """Return the product of two array offsets, which cannot overflow."""
    if isinstance(x, Number) and isinstance(y, Number):
        return Number(x.value * y.value, INT64)
    if x == ONE or y == ONE:
        return y if x == ONE else x
    if x == ZERO or y == ZERO:
        return ZERO
    return Operation("stride", (x, y), INT64)


def contiguous_strides(shape: Sequence[Expression]) -> tuple[Expression, ...]:
    """Return the strides, in elements, of a row-major array of this shape."""
    strides: list[Expression] = []
    step: Expression = ONE
    for size in reversed(shape):
        strides.append(step)
        step = times(size, step)
    return tuple(reversed(strides))


def kind_of(value: KernelValue) -> Kind:
    """Return the kind of a value; raise `NotCompiled` for one that cannot be stored or passed on."""
    match value:
        case Num(_, _, natural):
            return NumKind(value.type, natural and value.type == INT64)
        case View(_, element, shape, _, layout):
            return ViewKind(element, len(shape), layout)
        case TupleValue(items):
            return GroupKind(tuple(map(kind_of, items)))
        case Static(known):
            try:
                hash(known)
            except TypeError:
                raise NotCompiled(
                    f"kernels cannot store a {type(known).__name__} in a variable or pass it on"
                ) from None
            return StaticKind(known)


@cache
def types_of(kind: Kind) -> tuple[tuple[str, Type], ...]:
    """Return the variables that hold a value of a kind, each as a name suffix and a type."""
    match kind:
        case NumKind(type, _):
            return (("", type),)
        case ViewKind(element, axes, layout):
            sizes = [(f".n{axis}", INT64) for axis in range(axes)]
            steps = [(f".s{axis}", INT64) for axis in range(_own_strides(axes, layout))]
            return ("", PointerType(element)), *sizes, *steps
        case GroupKind(items):
            return tuple(
                (f".{position}{end}", type) for position, item in enumerate(items) for end, type in types_of(item)
            )
        case StaticKind():
            return ()


def variables_of(name: str, kind: Kind) -> list[Variable]:
    """Return the variables that hold the named value of a kind."""
    return [Variable(name + end, type) for end, type in types_of(kind)]


def _own_strides(axes: int, layout: Layout) -> int:
    """Return how many strides of a view must be stored because its layout does not imply them."""
    return {"contiguous": 0, "rows": axes - 1, "any": axes}[layout]


def fields_of(value: KernelValue, kind: Kind) -> list[Expression]:
    """Return the expressions for the variables of a kind; the value is of that kind or a narrower one."""
    match value, kind:
        case Num(expression), NumKind():
            return [expression]
        case View(pointer, _, shape, strides), ViewKind(_, axes, layout):
            return [pointer, *shape, *strides[: _own_strides(axes, layout)]]
        case TupleValue(items), GroupKind(kinds):
            return [field for item, each in zip(items, kinds, strict=True) for field in fields_of(item, each)]
        case Static(), StaticKind():
            return []
        case _:
            raise NotCompiled(f"expected {kind}, got {kind_of(value)}")


def rebuilt(kind: Kind, fields: Sequence[Expression]) -> KernelValue:
    """Return the value of a kind that these variables hold."""
    match kind:
        case NumKind(_, natural):
            return Num(fields[0], natural=natural)
        case ViewKind(element, axes, layout):
            pointer, shape, strides = fields[0], tuple(fields[1 : axes + 1]), tuple(fields[axes + 1 :])
            if layout == "contiguous":
                strides = contiguous_strides(shape)
            elif layout == "rows":
                strides = (*strides, ONE)
            return View(pointer, element, shape, strides, layout)
        case GroupKind(items):
            found, start = [], 0
            for item in items:
                count = len(types_of(item))
                found.append(rebuilt(item, fields[start : start + count]))
                start += count
            return TupleValue(tuple(found))
        case StaticKind(value):
            return Static(value)


def joined(first: Kind, second: Kind) -> Kind:
    """Return the narrowest kind that holds values of both kinds; raise `NotCompiled` if none exists."""
    if first == second:
        return first
    match first, second:
        case NumKind(a, natural), NumKind(b, also):
            return NumKind(promoted(a, b), natural and also)
        case ViewKind(a, axes, layout), ViewKind(b, other_axes, other) if a == b and axes == other_axes:
            return ViewKind(a, axes, "rows" if axes and "any" not in (layout, other) else "any")
        case GroupKind(items), GroupKind(others) if len(items) == len(others):
            return GroupKind(tuple(joined(a, b) for a, b in zip(items, others, strict=True)))
        case _:
            raise NotCompiled(
                f"a variable or return value is {first} in one place and {second} in another; use two variables"
            )


def promoted(first: ScalarType, second: ScalarType) -> ScalarType:
    """Return the result type of two scalar types, as NumPy promotes them."""
    if first == second:
        return first
    found = scalar_of(np.promote_types(first.dtype, second.dtype))
    return FLOAT64 if found is None else found


def literal(value: complex) -> Num:
    """Return the weakly typed scalar of a literal; raise `NotCompiled` if it is complex or exceeds 64 bits."""
    if isinstance(value, bool):
        return Num(Number(value, BOOL), weak=True)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise NotCompiled(f"{value} does not fit an integer of 64 bits; write it as a float")
        return Num(Number(value, INT64 if value < 2**63 else UINT64), weak=True, natural=0 <= value < 2**63)
    if not isinstance(value, float):
        raise NotCompiled(f"{value} is a {type(value).__name__}; kernels support bools, integers and floats")
    return Num(Number(value, FLOAT64), weak=True)


class NotCompiled(Exception):
    """Code outside the kernel language; `where` names the function, file and line."""

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(f"{message} ({where})" if where else message)
        self.message = message
        self.where = where


class UnknownKind(NotCompiled):
    """A read of a variable whose kind type inference does not know yet; a later pass may know it."""


def known(value: object) -> KernelValue:
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
        return TupleValue(tuple(map(known, value)))
    if isinstance(value, np.dtype):
        return Static(dtype_named(Static(value)))
    return Static(value)


def attribute_of_module(module: ModuleType, name: str) -> KernelValue:
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


def dtype_named(value: KernelValue) -> ScalarType:
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


@dataclass
class InferenceState:
    """The state of type inference for one function. Passes over the function repeat until it no longer changes.

    It holds the kinds of the variables and of the result. `origins` maps each array variable to the parameters that it
    may be a view of; an empty name means any memory.
    """

    kinds: dict[str, Kind]
    result: Kind | None = None
    origins: dict[str, frozenset[str]] = field(default_factory=dict)

    def copy(self) -> InferenceState:
        """Return a copy to compare with after the next pass."""
        return InferenceState(dict(self.kinds), self.result, dict(self.origins))
