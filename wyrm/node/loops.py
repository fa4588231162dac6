"""The words in which an op tells an engine that generates loops what one element of its result is."""

from __future__ import annotations

from typing import NamedTuple

from wyrm.node.entries import Index


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
