"""The state that an engine keeps in a node: the cell of its value, and the runner of `forward` and `backward`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from wyrm.support.memory import with_collector_paused

if TYPE_CHECKING:
    from wyrm.graph.base import BaseNode


class Cell(Protocol):
    """The place of a value; the plans that compute it share it."""

    value: Any

    def plans(self) -> Any:
        """Return the live plans that compute the value."""
        ...


class Runner(Protocol):
    """What an engine makes for a node whose `forward` or `backward` is called.

    The NumPy engine registers its own (`NodeRunner`) with `runs_nodes`.
    """

    def current_value(self) -> Any:
        """Return the value if no leaf has changed since the last run; None if the node must run."""
        ...

    def forward(self, node: Any) -> Any:
        """Compute the value, and return it (read-only)."""
        ...

    def backward(self, node: Any, start: Any) -> None:
        """Add the gradient of `(node * start).sum()` to each parameter's gradient."""
        ...

    def parameters(self) -> Sequence[Any] | None:
        """Return the parameters that the node depends on, if a backward pass has found them."""
        ...


class Stateful:
    """The slots of that state, the only mutable part of a node; only engines write them."""

    __slots__ = ("_cell", "_runner")
    _cell: Cell | None
    _runner: Runner | None


N = TypeVar("N", bound=Stateful)
R = TypeVar("R", bound="type[Runner]")
# The slots' own accessors, for speed: every new node sets its slots to None, and every call of `forward` reads one.
_cell, _runner = Stateful.__dict__["_cell"], Stateful.__dict__["_runner"]
# Get and set the cell that holds the node's value, once a plan computes it.
cell_of: Final[Callable[[Stateful], Any]] = _cell.__get__
set_cell: Final[Callable[[Stateful, Any], None]] = _cell.__set__
# Get and set the runner of the node, once it has run.
runner_of: Final[Callable[[Stateful], Any]] = _runner.__get__
set_runner: Final[Callable[[Stateful, Runner | None], None]] = _runner.__set__

_kinds: list[type[Runner]] = []


def runs_nodes(kind: R) -> R:
    """Make this class, called with a node, the one whose instances run nodes."""
    _kinds[:] = [kind]
    return kind


def new_runner(node: BaseNode) -> Any:
    """Give a node its runner."""
    (kind,) = _kinds
    runner = with_collector_paused(kind, node)
    set_runner(node, runner)
    return runner


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
