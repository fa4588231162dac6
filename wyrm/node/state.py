"""The state that an engine keeps with a node besides its description; nothing else touches these slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from wyrm.backends.numpy.calls import Cell
    from wyrm.backends.numpy.reference import NodeRunner


class Stateful:
    """The slots of that state, the only mutable part of a node."""

    __slots__ = ("_cell", "_way")
    _cell: Cell | None
    _way: NodeRunner | None


N = TypeVar("N", bound=Stateful)
# The slots' own accessors, for speed: every new node sets its slots to None, and every call of `forward` reads one.
_cell, _way = Stateful.__dict__["_cell"], Stateful.__dict__["_way"]
# Get and set the cell that holds the node's value, once a plan computes it.
cell_of: Final[Callable[[Stateful], Cell | None]] = _cell.__get__
lend: Final[Callable[[Stateful, Cell | None], None]] = _cell.__set__
# Get and set the runner of the node, once it has run.
way_of: Final[Callable[[Stateful], NodeRunner | None]] = _way.__get__
keep_way: Final[Callable[[Stateful, NodeRunner | None], None]] = _way.__set__


def lend_all(nodes: Mapping[N, int], cells: Sequence[Cell | None]) -> bool:
    """Let nodes read their values from the cells at their positions; return whether one had a living plan's cell.

    A position without a cell leaves its nodes alone.
    """
    taken = False
    for node, place in nodes.items():
        cell = cells[place]
        held = node._cell
        if held is not cell and cell is not None:
            if held is not None and not taken:
                taken = bool(held.plans())
            lend(node, cell)
    return taken
