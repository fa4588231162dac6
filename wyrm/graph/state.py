"""The state that an engine stores in a node; only engines read or write these slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from wyrm.engines.numpy.calls import Cell
    from wyrm.engines.numpy.reference import NodeRunner


class Stateful:
    """The slots of that state, the only mutable part of a node."""

    __slots__ = ("_cell", "_runner")
    _cell: Cell | None
    _runner: NodeRunner | None


N = TypeVar("N", bound=Stateful)
# The slots' own accessors, for speed: every new node sets its slots to None, and every call of `forward` reads one.
_cell, _runner = Stateful.__dict__["_cell"], Stateful.__dict__["_runner"]
# Get and set the cell that holds the node's value, once a plan computes it.
cell_of: Final[Callable[[Stateful], Cell | None]] = _cell.__get__
set_cell: Final[Callable[[Stateful, Cell | None], None]] = _cell.__set__
# Get and set the runner of the node, once it has run.
runner_of: Final[Callable[[Stateful], NodeRunner | None]] = _runner.__get__
set_runner: Final[Callable[[Stateful, NodeRunner | None], None]] = _runner.__set__


def set_cells(nodes: Mapping[N, int], cells: Sequence[Cell | None]) -> bool:
    """Set the cells of nodes, given the nodes' positions; return whether one replaces the cell of a live plan.

    Nodes at a position without a cell keep theirs.
    """
    taken = False
    for node, position in nodes.items():
        cell = cells[position]
        held = node._cell
        if held is not cell and cell is not None:
            if held is not None and not taken:
                taken = bool(held.plans())
            set_cell(node, cell)
    return taken
