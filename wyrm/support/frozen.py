"""`frozen`: dataclasses that are cheap to define, for modules that define many."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

C = TypeVar("C")


@dataclass_transform(frozen_default=True)
def frozen(cls: type[C]) -> type[C]:
    """Make a dataclass with slots that type checkers take as frozen; at run time nothing keeps code from changing it.

    It is as fast in use as a frozen dataclass, and made in a third of the time: `dataclasses` generates and compiles
    six functions for each frozen class, and here one.

    >>> @frozen
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(1) == Point(1, 0), hash(Point(1)) == hash(Point(1))
    (Point(x=1, y=0), True, True)
    """
    made: Any = dataclass(repr=False, eq=False, slots=True)(cls)
    names = [field.name for field in fields(made)]
    # `attrgetter` of one name returns the value alone.
    values = attrgetter(*names, *names[:1]) if names else type

    def equals(self: C, other: object) -> bool:
        return bool(values(self) == values(other)) if type(other) is made else NotImplemented

    def hashed(self: C) -> int:
        return hash(values(self))

    def text(self: C) -> str:
        return f"{made.__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in names])})"

    made.__eq__, made.__hash__, made.__repr__ = equals, hashed, text
    found: type[C] = made
    return found
