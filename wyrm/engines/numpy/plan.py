"""The evaluation plan of the reference engine: a schedule with sizes and arrays, which recomputes what has changed."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import numpy as np

from wyrm.engines.numpy.calls import (
    Call,
    Cell,
    CheckIndices,
    Evaluate,
    EvaluateInto,
    Owners,
    Scratch,
    bound_calls,
    single_call,
)
from wyrm.engines.numpy.observe import Observer
from wyrm.graph.axes import Dim
from wyrm.graph.base import BaseNode
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.index_operands import is_checked_when_set
from wyrm.graph.leaves import Constant
from wyrm.graph.op import NUMPY, cell_of, set_cell, set_cells
from wyrm.graph.schedule import Schedule
from wyrm.graph.storage import Leaf, Storage, bound_array, stored, tick

# A training loop changes the same few sets of leaves again and again: calls are cached for so many sets.
_CALL_CACHE_SIZE = 8


class _Traits(NamedTuple):
    """What a plan needs to know of a node's class."""

    leaf: bool
    # The NumPy function, and the positions of its operands, if a single call computes a node of the class; else None.
    function: Callable[..., Any] | None
    operands: tuple[int, ...]


_TRAITS: dict[type, _Traits] = {}
_BOTH = (0, 1)


def _traits(cls: type[BaseNode]) -> _Traits:
    chooses = cls.index_operands is not BaseNode.index_operands
    plain = not (cls.is_view or chooses or cls.gives_rows or cls.takes_rows)
    simple = single_call(cls.formula) if plain and cls.formula else None
    function, operands = (None, ()) if simple is None else simple
    traits = _TRAITS[cls] = _Traits(issubclass(cls, Leaf), function, _BOTH if operands == _BOTH else operands)
    return traits


class _PlanStage:
    """The nodes that some outputs need beyond those of earlier stages; they run together."""

    __slots__ = ("programs", "ran_at", "start", "stop")

    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop
        self.ran_at = 0
        self.programs: dict[tuple[int, ...], list[Call]] = {}


class EvaluationPlan:
    """Arrays for every node of a schedule, and the calls that fill them.

    Each schedule that extends the first one adds a stage. Running a stage computes its own nodes only. Plans with the
    same sizes share the cells of common nodes; such plans compare time stamps to find the nodes to recompute.
    """

    # How often a plan has redirected `node.value` from another live plan to itself.
    taken: ClassVar[int] = 0

    def __init__(self, schedule: Schedule) -> None:
        self.stages: list[_PlanStage] = []
        # The leaves whose data may change: position, storage, and the array that the plan reads.
        self.leaves: list[tuple[int, Storage, np.ndarray]] = []
        # The value of `taken` when this plan last became the one that `node.value` reads; later plans have larger ones.
        self.turn: int = -1
        self._partners: list[weakref.ref[EvaluationPlan]] = []
        self._scratch = Scratch()
        # The positions of row-sparse values, and their dense copies where a node needs one.
        self._sparse: set[int] = set()
        self._dense: dict[int, Cell] = {}
        self._reference: weakref.ref[EvaluationPlan] = weakref.ref(self)
        self._alone: Owners = (self._reference,)
        self._joint: dict[int, tuple[Owners, Owners]] = {}
        self.cells: list[Cell] = []
        # The cells that `node.value` reads from; None for leaves, which hold their own values.
        self._node_cells: list[Cell | None] = []
        # The calls of all nodes in order. Those of node i are `_calls[_begins[i] : _begins[i + 1]]`.
        self._calls: list[Call] = []
        self._begins = [0]
        self.extend(schedule)

    def extend(self, schedule: Schedule) -> None:
        """Add the nodes of a schedule that extends the plan's schedule.

        The plan is unusable after an error.
        """
        self.schedule = schedule
        sizes = schedule.bind()
        self.sizes: dict[type[Dim], int] = sizes
        self.turn = -1
        cells, lent, calls, begins = self.cells, self._node_cells, self._calls, self._begins
        # Most nodes share their dims tuple with another node. The schedule keeps these tuples alive, so ids are unique.
        shapes: dict[int, tuple[int, ...]] = {}
        alone, parent_positions, sparse = self._alone, schedule.parent_positions, self._sparse
        for i, node in enumerate(islice(schedule.nodes, len(cells), None), len(cells)):
            leaf, function, chosen = _TRAITS.get(type(node)) or _traits(type(node))
            if leaf:
                array = bound_array(node)
                cell = Cell(array, alone)
                if not isinstance(node, Constant | IndexConstant):
                    self.leaves.append((i, stored(node), array))
                lent.append(None)
            else:
                dims, parents = node.dims, parent_positions[i]
                shape = shapes.get(id(dims))
                if shape is None:
                    shape = shapes[id(dims)] = schedule.shape(node, sizes)
                if function is None:
                    cell = self._prepared_cell(node, i, shape, [cells[p] for p in parents])
                    if node.gives_rows:
                        sparse.add(i)
                else:
                    adopted = None if node._cell is None else self._adopt(node, shape)
                    cell = adopted or Cell(np.empty(shape, node.dtype), alone)
                    if sparse and not sparse.isdisjoint(parents):
                        operands = self._all_dense(i, [cells[p] for p in parents])
                        calls.append((function, (*[operands[p].value for p in chosen], cell.value)))
                    elif chosen is _BOTH:  # most nodes
                        first, second = parents
                        calls.append((function, (cells[first].value, cells[second].value, cell.value)))
                    else:
                        calls.append((function, (*[cells[parents[p]].value for p in chosen], cell.value)))
                lent.append(cell)
            cells.append(cell)
            begins.append(len(calls))
        self.stages += [_PlanStage(*bounds) for bounds in schedule.stages[len(self.stages) :]]

    @property
    def bytes(self) -> int:
        """The bytes of the values that nodes read from this plan; a view counts as an array of its own."""
        values = (None if cell is None else cell.value for cell in self._node_cells)
        return sum(value.nbytes for value in values if isinstance(value, np.ndarray))

    # --- sharing --------------------------------------------------------------------------------------------------

    def _adopt(self, node: BaseNode, shape: tuple[int, ...], view: np.ndarray | None = None) -> Cell | None:
        """Return the cell that another live plan has for the node and share it; None if it cannot be shared."""
        cell: Cell | None = cell_of(node)
        if cell is None or cell.value is None or tuple(cell.value.shape) != shape:
            return None
        if node.is_view and not _same_view(cell.value, view):
            return None
        # Most cells of a plan have the same owners tuple, so the joint tuple is cached by its id.
        if id(cell.owners) not in self._joint:
            self._joint[id(cell.owners)] = cell.owners, self._join(cell.plans())
        joint = self._joint[id(cell.owners)][1]
        if not joint:
            return None
        cell.owners = joint
        return cell

    def _join(self, others: list[EvaluationPlan]) -> Owners:
        """Return the owners tuple for cells that this plan shares with others; an empty one if it cannot share."""
        # Sizes matter even for equal shapes: a constant summed over the batch axis depends on the batch size.
        if not others or any(others[0].sizes.get(name, size) != size for name, size in self.sizes.items()):
            return ()
        for other in others:
            if self._reference not in other._partners:
                for plan, partner in ((self, other), (other, self)):
                    if not plan._has_partners():
                        plan._stamp()
                    plan._partners.append(partner._reference)
        return (*(other._reference for other in others), self._reference)

    def _has_partners(self) -> bool:
        """Return whether another live plan shares cells with this one."""
        if self._partners:
            self._partners = [partner for partner in self._partners if partner() is not None]
        return bool(self._partners)

    def _stamp(self) -> None:
        """Write the time stamps of the cells, which a plan without partners does not maintain."""
        for stage in self.stages:
            for cell in islice(self.cells, stage.start, stage.stop):
                cell.stamp = max(cell.stamp, stage.ran_at)

    def activate(self) -> None:
        """Direct `node.value` of all nodes to this plan."""
        if self.turn != EvaluationPlan.taken:
            if set_cells(self.schedule.position, self._node_cells):
                EvaluationPlan.taken += 1
            self.turn = EvaluationPlan.taken

    def redirect_value(self, node: BaseNode, twin: BaseNode) -> None:
        """Direct `node.value` to this plan's cell of `twin`."""
        cell = self.cells[self.schedule.position[twin]]
        held = cell_of(node)
        if held is not cell and not node.is_leaf:
            if held is not None and held.plans():
                EvaluationPlan.taken += 1
            set_cell(node, cell)
            self.turn = EvaluationPlan.taken

    # --- preparation ----------------------------------------------------------------------------------------------

    def _prepared_cell(self, node: BaseNode, i: int, shape: tuple[int, ...], operands: list[Cell]) -> Cell:
        """Return the cell of a node, shared with another plan or new, and append the calls that compute it."""
        calls = self._calls
        if not node.takes_rows:
            operands = self._all_dense(i, operands)
        if node.is_view:
            view = node.evaluate_for(self.sizes)(NUMPY, *(operand.value for operand in operands), shape=shape)
            if np.may_share_memory(view, operands[0].value):
                return self._adopt(node, shape, view) or Cell(view, self._alone)
        cell = self._adopt(node, shape) or Cell(None, self._alone)
        if not all(is_checked_when_set(node, choice) for choice in node.index_operands()):
            calls.append((CheckIndices(node, operands, self.sizes), ()))
        if node.gives_rows:
            calls.append((Evaluate(node, operands, shape, cell), ()))
            return cell
        if cell.value is None:
            cell.value = np.empty(shape, node.dtype)
        if node.formula:
            calls += bound_calls(node, [operand.value for operand in operands], cell.value, self._scratch)
        else:
            calls.append((EvaluateInto(node, operands, self.sizes, cell.value), ()))
        return cell

    def _all_dense(self, i: int, operands: list[Cell]) -> list[Cell]:
        """Return the operands with row-sparse ones replaced by dense copies."""
        return [
            self._as_dense(p, operand) if p in self._sparse else operand
            for p, operand in zip(self.schedule.parent_positions[i], operands, strict=True)
        ]

    def _as_dense(self, position: int, rows: Cell) -> Cell:
        """Return the cell of a dense copy of a row-sparse operand, and append the call that fills it."""
        if position not in self._dense:
            node = self.schedule.nodes[position]
            self._dense[position] = Cell(np.empty(self.schedule.shape(node, self.sizes), node.dtype), self._alone)
        dense = self._dense[position]

        def fill() -> None:
            dense.value[...] = 0.0
            rows.value.add_to(dense.value)

        self._calls.append((fill, ()))
        return dense

    # --- running --------------------------------------------------------------------------------------------------

    def run(self, index: int, observer: Observer | None) -> None:
        """Update the values of one stage. The earlier stages must be up to date."""
        stage = self.stages[index]
        ran_at = stage.ran_at
        changed = []
        for i, storage, array in self.leaves:
            if storage.version > ran_at:
                if storage.array is not array:
                    array[...] = storage.array
                self.cells[i].stamp = storage.version
                changed.append(i)
        if observer is None and not changed and ran_at:
            return  # shared cells depend on the same leaves, so they are up to date too
        now = tick()
        self._compute(stage, changed, observer, now)
        stage.ran_at = now

    @np.errstate(all="ignore")  # a decorator takes half the time of a `with` block
    def _compute(self, stage: _PlanStage, changed: list[int], observer: Observer | None, now: int) -> None:
        """Run the calls of a stage that are outdated, given the leaves that changed since its last run."""
        if observer is not None:
            self._run_observed(stage, observer)
        elif self._partners and self._has_partners():
            self._run_by_age(stage, now)
        elif stage.ran_at == 0:
            for function, arguments in islice(self._calls, self._begins[stage.start], self._begins[stage.stop]):
                function(*arguments)
        elif changed:
            for function, arguments in self._program(stage, tuple(changed)):
                function(*arguments)

    def _program(self, stage: _PlanStage, changed: tuple[int, ...]) -> list[Call]:
        """Return the calls of the stage that depend on the changed leaves."""
        program = stage.programs.get(changed)
        if program is None:
            stale = bytearray(len(self.cells))
            for i in changed:
                stale[i] = 1
            program = []
            calls, begins, parent_positions = self._calls, self._begins, self.schedule.parent_positions
            for i in range(stage.stop):
                if any(stale[p] for p in parent_positions[i]):
                    stale[i] = 1
                    if i >= stage.start:
                        program += calls[begins[i] : begins[i + 1]]
            if len(stage.programs) >= _CALL_CACHE_SIZE:
                stage.programs.pop(next(iter(stage.programs)))
            stage.programs[changed] = program
        return program

    def _run_by_age(self, stage: _PlanStage, now: int) -> None:
        cells, calls, begins, parent_positions = self.cells, self._calls, self._begins, self.schedule.parent_positions
        for i in range(stage.start, stage.stop):
            parents = parent_positions[i]
            if not parents:
                if stage.ran_at == 0:
                    for function, arguments in calls[begins[i] : begins[i + 1]]:
                        function(*arguments)
                continue
            cell = cells[i]
            newest = max([cells[p].stamp for p in parents])
            if cell.stamp < newest or cell.stamp == 0:
                for function, arguments in calls[begins[i] : begins[i + 1]]:
                    function(*arguments)
                cell.stamp = now

    def _run_observed(self, stage: _PlanStage, observer: Observer) -> None:
        """Recompute every node of the stage and report it to the observer."""
        now = tick()
        for i in range(stage.start, stage.stop):
            start = time.perf_counter()
            for function, arguments in self._calls[self._begins[i] : self._begins[i + 1]]:
                function(*arguments)
            seconds = time.perf_counter() - start
            self.cells[i].stamp = now
            node = self.schedule.nodes[i]
            if node.is_leaf:
                continue
            observer.time(node, seconds)
            observer.check(node, self.cells[i].value, [self.cells[p].value for p in self.schedule.parent_positions[i]])

    def cell(self, node: BaseNode) -> Cell:
        """Return the cell of a node."""
        return self.cells[self.schedule.position[node]]

    def value(self, node: BaseNode) -> Any:
        """Return the value of a node."""
        return self.cells[self.schedule.position[node]].value


def _same_view(value: Any, view: np.ndarray | None) -> bool:
    """Return whether `value` is the same view as `view`; with `view=None`, whether it owns its memory."""
    if view is None:
        return getattr(value, "base", None) is None
    same: bool = value.__array_interface__ == view.__array_interface__
    return same
