"""The words in which an op tells an engine that generates loops what one element of its result is.

An index is a tuple of entries, one for each axis: text for the code of an integer, such as a loop's variable; `At`, an
integer that itself has to be read from a parent; or `FromEnd`, a position counted from the end of an axis.
"""

from __future__ import annotations

from typing import NamedTuple

from wyrm.types.dims import Axis


class At(NamedTuple):
    """The integer that the parent at this number has at `position`."""

    parent: int
    position: Index


class FromEnd(NamedTuple):
    """The size of an axis, which only the data of a run may give, less `distance`."""

    axis: Axis
    distance: int


Entry = str | At | FromEnd
Index = tuple[Entry, ...]


class Place(NamedTuple):
    """Where an element goes, and whether it is added to what is there."""

    position: Index
    adds: bool = False


class Fold(NamedTuple):
    """A reduction: `total` starts from a number, `step` takes in an element, `finish` makes the result of it.

    The last two are formulas over the operands (`x`, `y`), `total`, and `count`, the number of elements taken in.
    """

    start: float
    step: str
    finish: str = ""
