"""What a name in a kernel stands for while it is compiled, and the kinds of it that functions are compiled for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from wyrm.ir.program import Expression, Number, Operation, Variable
from wyrm.ir.types import FLOAT64, INT64, PointerType, ScalarType, Type, scalar_of
from wyrm.kernels.errors import NotCompiled

Layout = Literal["contiguous", "rows", "any"]


@dataclass(frozen=True, slots=True)
class Num:
    """A number. A `weak` one is a literal, which takes the type of what it meets, as in NumPy.

    `natural`: it is an int64 that is known to be at least 0.
    """

    expression: Expression
    weak: bool = False
    natural: bool = False

    @property
    def type(self) -> ScalarType:
        """Its type, if it meets no other."""
        assert isinstance(self.expression.type, ScalarType)
        return self.expression.type


@dataclass(frozen=True, slots=True)
class View:
    """An array, or a part of one: where it begins, sizes, and the steps from element to element along each axis."""

    pointer: Expression
    element: ScalarType
    shape: tuple[Expression, ...]
    strides: tuple[Expression, ...]
    layout: Layout


@dataclass(frozen=True, slots=True)
class Group:
    """A tuple."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Static:
    """What is known while compiling: a function, a module, a dtype, None, an ellipsis or a text."""

    value: Any


@dataclass(frozen=True, slots=True)
class Method:
    """A function that belongs to a number, such as `view`."""

    name: str
    of: Num


Value = Num | View | Group | Static


@dataclass(frozen=True, slots=True)
class NumKind:
    """A number of a type."""

    type: ScalarType
    natural: bool = False

    def __str__(self) -> str:
        return str(self.type)


@dataclass(frozen=True, slots=True)
class ViewKind:
    """An array of so many axes."""

    element: ScalarType
    axes: int
    layout: Layout

    def __str__(self) -> str:
        return f"an array of {self.element} with {self.axes} axes"


@dataclass(frozen=True, slots=True)
class GroupKind:
    """A tuple."""

    items: tuple[Kind, ...]

    def __str__(self) -> str:
        return f"a tuple ({', '.join(map(str, self.items))})"


@dataclass(frozen=True, slots=True)
class StaticKind:
    """A thing known while compiling."""

    value: Any

    def __str__(self) -> str:
        return repr(self.value)


Kind = NumKind | ViewKind | GroupKind | StaticKind

ZERO, ONE = Number(0, INT64), Number(1, INT64)


def plus(x: Expression, y: Expression) -> Expression:
    """The sum of two integers inside an array."""
    if isinstance(x, Number) and isinstance(y, Number):
        return Number(x.value + y.value, INT64)
    if x == ZERO or y == ZERO:
        return y if x == ZERO else x
    return Operation("step", (x, y), INT64)


def times(x: Expression, y: Expression) -> Expression:
    """The product of two integers inside an array."""
    if isinstance(x, Number) and isinstance(y, Number):
        return Number(x.value * y.value, INT64)
    if x == ONE or y == ONE:
        return y if x == ONE else x
    if x == ZERO or y == ZERO:
        return ZERO
    return Operation("stride", (x, y), INT64)


def contiguous_strides(shape: Sequence[Expression]) -> tuple[Expression, ...]:
    """The steps along the axes of an array in row-major order."""
    strides: list[Expression] = []
    step: Expression = ONE
    for size in reversed(shape):
        strides.append(step)
        step = times(size, step)
    return tuple(reversed(strides))


def kind_of(value: Value) -> Kind:
    """What kind of thing a value is."""
    match value:
        case Num(_, _, natural):
            return NumKind(value.type, natural and value.type == INT64)
        case View(_, element, shape, _, layout):
            return ViewKind(element, len(shape), layout)
        case Group(items):
            return GroupKind(tuple(map(kind_of, items)))
        case Static(known):
            try:
                hash(known)
            except TypeError:
                raise NotCompiled(f"a {type(known).__name__} is no value that kernels pass on or keep") from None
            return StaticKind(known)


@cache
def types_of(kind: Kind) -> tuple[tuple[str, Type], ...]:
    """The variables that hold a value of a kind: the end of the name of each, and its type."""
    match kind:
        case NumKind(type, _):
            return (("", type),)
        case ViewKind(element, axes, layout):
            sizes = [(f".n{axis}", INT64) for axis in range(axes)]
            steps = [(f".s{axis}", INT64) for axis in range(_own_strides(axes, layout))]
            return ("", PointerType(element)), *sizes, *steps
        case GroupKind(items):
            return tuple((f".{place}{end}", type) for place, item in enumerate(items) for end, type in types_of(item))
        case StaticKind():
            return ()


def variables_of(name: str, kind: Kind) -> list[Variable]:
    """The variables of a name of a kind."""
    return [Variable(name + end, type) for end, type in types_of(kind)]


def _own_strides(axes: int, layout: Layout) -> int:
    """How many steps of a view of this layout are not known from its sizes."""
    return {"contiguous": 0, "rows": axes - 1, "any": axes}[layout]


def parts_of(value: Value, kind: Kind) -> list[Expression]:
    """What goes into the variables of a kind; the value is of that kind, or a narrower one."""
    match value, kind:
        case Num(expression), NumKind():
            return [expression]
        case View(pointer, _, shape, strides), ViewKind(_, axes, layout):
            return [pointer, *shape, *strides[: _own_strides(axes, layout)]]
        case Group(items), GroupKind(kinds):
            return [part for item, each in zip(items, kinds, strict=True) for part in parts_of(item, each)]
        case Static(), StaticKind():
            return []
        case _:
            raise NotCompiled(f"a {kind_of(value)} is no {kind}")


def rebuilt(kind: Kind, parts: Sequence[Expression]) -> Value:
    """The value of a kind that these variables hold."""
    match kind:
        case NumKind(_, natural):
            return Num(parts[0], natural=natural)
        case ViewKind(element, axes, layout):
            pointer, shape, strides = parts[0], tuple(parts[1 : axes + 1]), tuple(parts[axes + 1 :])
            if layout == "contiguous":
                strides = contiguous_strides(shape)
            elif layout == "rows":
                strides = (*strides, ONE)
            return View(pointer, element, shape, strides, layout)
        case GroupKind(items):
            found, start = [], 0
            for item in items:
                count = len(types_of(item))
                found.append(rebuilt(item, parts[start : start + count]))
                start += count
            return Group(tuple(found))
        case StaticKind(value):
            return Static(value)


def joined(first: Kind, second: Kind) -> Kind:
    """A kind that holds values of both; `NotCompiled` where there is none."""
    if first == second:
        return first
    match first, second:
        case NumKind(a, natural), NumKind(b, also):
            return NumKind(promoted(a, b), natural and also)
        case ViewKind(a, axes, layout), ViewKind(b, as_many, other) if a == b and axes == as_many:
            return ViewKind(a, axes, "rows" if axes and "any" not in (layout, other) else "any")
        case GroupKind(items), GroupKind(others) if len(items) == len(others):
            return GroupKind(tuple(joined(a, b) for a, b in zip(items, others, strict=True)))
        case _:
            raise NotCompiled(
                f"a variable, or what is returned, is {first} in one place and {second} in another; use two variables"
            )


def promoted(first: ScalarType, second: ScalarType) -> ScalarType:
    """The type of a result of two numbers, as in NumPy; of two bools, an integer."""
    if first == second:
        return first
    found = scalar_of(np.promote_types(first.dtype, second.dtype))
    return FLOAT64 if found is None else found
