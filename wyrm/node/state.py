"""What the engine keeps for a node, which is no part of its description; nothing else touches these slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from wyrm.backends.numpy.calls import Cell
    from wyrm.backends.numpy.reference import Way


class Stateful:
    """What holds it: nodes are immutable but for this."""

    __slots__ = ("_cell", "_way")
    _cell: Cell | None
    _way: Way | None


N = TypeVar("N", bound=Stateful)
# The slots' own setters, which are the quickest way past `__setattr__`.
_set_cell = Stateful.__dict__["_cell"].__set__
_set_way = Stateful.__dict__["_way"].__set__


def begin(node: Stateful) -> None:
    """Have nothing for a new node, so that nothing else has to ask whether a slot was ever set."""
    _set_cell(node, None)
    _set_way(node, None)


def cell_of(node: Stateful) -> Cell | None:
    """Where the node's value is, once a plan computes it."""
    return node._cell


def lend(node: Stateful, cell: Cell | None) -> None:
    """Let the node's value be read from this cell."""
    _set_cell(node, cell)


def lend_all(places: Mapping[N, int], cells: Sequence[Cell | None]) -> bool:
    """Let the values of nodes be read from the cells at their places; whether a living plan had lent one its own.

    A place without a cell leaves its nodes alone.
    """
    taken = False
    for node, place in places.items():
        cell = cells[place]
        held = node._cell
        if held is not cell and cell is not None:
            if held is not None and not taken:
                taken = bool(held.plans())
            _set_cell(node, cell)
    return taken


def way_of(node: Stateful) -> Way | None:
    """How the node is run, once it has been."""
    return node._way


def keep_way(node: Stateful, way: Way) -> None:
    """Remember how to run the node."""
    _set_way(node, way)
