"""What the engine keeps for a node, which is no part of its description; nothing else touches these slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from wyrm.backends.numpy.calls import Cell
    from wyrm.backends.numpy.reference import NodeRunner


class Stateful:
    """What holds it: nodes are immutable but for this."""

    __slots__ = ("_cell", "_way")
    _cell: Cell | None
    _way: NodeRunner | None


N = TypeVar("N", bound=Stateful)
# The slots' own functions, for each new node has its slots set to None, and each call of `forward` asks for one.
_cell, _way = Stateful.__dict__["_cell"], Stateful.__dict__["_way"]
# Where the node's value is, once a plan computes it; and to let it be read from a cell.
cell_of: Final[Callable[[Stateful], Cell | None]] = _cell.__get__
lend: Final[Callable[[Stateful, Cell | None], None]] = _cell.__set__
# How the node is run, once it has been; and to remember that.
way_of: Final[Callable[[Stateful], NodeRunner | None]] = _way.__get__
keep_way: Final[Callable[[Stateful, NodeRunner | None], None]] = _way.__set__


def lend_all(nodes: Mapping[N, int], cells: Sequence[Cell | None]) -> bool:
    """Let the values of nodes be read from the cells at their places; whether a living plan had lent one its own.

    A place without a cell leaves its nodes alone.
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
