"""Axes whose size follows from that of another axis by whole numbers: those of the windows that slide along it."""

from __future__ import annotations

import math
from collections.abc import Iterable

from wyrm.graph.axes import Axis, Derived, Dim, Plus, Times, axis_size


class Quotient(Derived):
    """The axis of the size `(times * size + plus) // over` of another axis, its only part; see `scaled`.

    >>> class Height(wy.Dim): ...
    >>> Quotient((Height(),), 1, 1, 2), Quotient((Height(9),), 1, 1, 2).size
    ((Height()+1)//2, 5)
    """

    __slots__ = ("over", "plus", "times")

    def __init__(self, parts: Iterable[Axis], times: int, plus: int, over: int) -> None:
        self.times: int = times
        self.plus: int = plus
        self.over: int = over
        super().__init__(parts)

    def _combine(self, sizes: list[int]) -> int:
        return (self.times * sizes[0] + self.plus) // self.over

    def like(self, other: Derived) -> bool:
        return isinstance(other, Quotient) and self._coefficients == other._coefficients

    def of(self, parts: Iterable[Axis]) -> Axis:
        (part,) = parts
        return scaled(part, *self._coefficients)

    @property
    def _coefficients(self) -> tuple[int, int, int]:
        return self.times, self.plus, self.over

    def __hash__(self) -> int:
        return hash((Quotient, self.parts, self._coefficients))

    def __repr__(self) -> str:
        (part,) = self.parts
        text = f"({part!r})" if isinstance(part, Quotient) else repr(part)
        if self.times != 1:
            text = f"{self.times}*{text}"
        if self.plus:
            text = f"{text}{self.plus:+d}"
        if self.over == 1:
            return text
        return f"({text})//{self.over}" if self.plus else f"{text}//{self.over}"

    def __reduce__(self) -> tuple[object, ...]:
        return Quotient, (self.parts, *self._coefficients)


class Least(Derived):
    """The axis of the least size of several axes.

    >>> class Height(wy.Dim): ...
    >>> Least((Height(3), 4)).size
    3
    """

    __slots__ = ()
    _combine = staticmethod(min)  # type: ignore[assignment]  # min is overloaded; on list[int] it gives int


def scaled(axis: Axis, times: int = 1, plus: int = 0, over: int = 1) -> Axis:
    """Return the axis of the size `(times * size + plus) // over`: a number, if the size of `axis` is known.

    Axes that such steps, `*` and `+` make from one axis, and that always have the same size, are equal, unless a size
    is multiplied after it was rounded. So two layers that each halve an axis give the axis of one that quarters it.

    >>> class Height(wy.Dim): ...
    >>> half = scaled(Height(), over=2)
    >>> half, scaled(half, over=2) == scaled(Height(), over=4), scaled(half * 2, over=2) == half
    (Height()//2, True, True)
    """
    size = axis_size(axis)
    if size is not None:
        return (times * size + plus) // over
    base, factor, addend, divisor = expression_of(axis)
    if times > 1 and divisor > 1:
        shared = math.gcd(times, over)
        times, plus, over = times // shared, plus // shared, over // shared
        if times > 1:
            base, factor, addend, divisor = _without_whole_part(axis)
    # Either `times` or `divisor` is 1, and there is one quotient of a sum.
    factor, addend, divisor = times * factor, times * addend + plus * divisor, divisor * over
    shared = math.gcd(factor, divisor)
    factor, addend, divisor = factor // shared, addend // shared, divisor // shared
    if factor == 1 and isinstance(base, Quotient) and (addend or divisor > 1):
        return scaled(base, 1, addend, divisor)
    if divisor == 1 and addend == 0:
        return base if factor == 1 else Times((base, factor))
    if divisor == factor == 1 and addend > 0:
        return Plus((base, addend))
    return Quotient((base,), factor, addend, divisor)


def expression_of(axis: Axis) -> tuple[Axis, int, int, int]:
    """Return (base, factor, addend, divisor) of an open axis, whose size is `(factor * base + addend) // divisor`."""
    if isinstance(axis, Quotient):
        return axis.parts[0], axis.times, axis.plus, axis.over
    if isinstance(axis, Times | Plus):
        unsized = [part for part in axis.parts if axis_size(part) is None]
        known = [size for part in axis.parts if (size := axis_size(part)) is not None]
        if len(unsized) == 1 and isinstance(axis, Plus):
            base, factor, addend, divisor = expression_of(unsized[0])
            return base, factor, addend + sum(known) * divisor, divisor
        if len(unsized) == 1 and 0 not in known:
            base, factor, addend, divisor = expression_of(unsized[0])
            times = math.prod(known)
            if divisor > 1:
                base, factor, addend, divisor = _without_whole_part(unsized[0])
            return base, factor * times, addend * times, 1
    return axis, 1, 0, 1


def named_multiple(axis: Axis) -> tuple[type[Dim], int, int] | None:
    """Return (name, factor, addend) of a derived axis whose size, `factor * size + addend`, gives that of a named axis.

    >>> class Half(wy.Dim): ...
    >>> named_multiple(Half() * 2) == (Half, 2, 0), named_multiple(Half())
    (True, None)
    """
    base, factor, addend, divisor = expression_of(axis)
    if base is axis or divisor > 1 or not isinstance(base, Dim) or base.derived or base.size is not None:
        return None
    return type(base), factor, addend


def _without_whole_part(axis: Axis) -> tuple[Axis, int, int, int]:
    """Return the expression, without a divisor, of a quotient: the whole part of its addend is taken out."""
    base, factor, addend, divisor = expression_of(axis)
    shift = addend // divisor
    return scaled(base, factor, addend - shift * divisor, divisor), 1, shift, 1
