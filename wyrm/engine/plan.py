"""A plan of the reference engine: a schedule bound to sizes and arrays, run in stages, only what changed."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from itertools import accumulate, islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.engine.numpy_functions import Scratch, formula_steps
from wyrm.engine.observe import Observer
from wyrm.node.base import BaseNode
from wyrm.node.storage import Storage, bound_array, is_leaf, stored, tick
from wyrm.ops.comparison import StopGradient
from wyrm.ops.shape import IndexReshape, Rearrangement
from wyrm.ops.slicing import IndexSlice
from wyrm.schedule.schedule import Schedule

_Call = Callable[[], Any]
_VIEWS = (Rearrangement, IndexReshape, IndexSlice, StopGradient)
# Programs for other sets of changed leaves are kept too, for a loop changes the same few sets over and over.
_KEPT_PROGRAMS = 8


class Cell:
    """The value of one node, and when it last may have changed."""

    __slots__ = ("owner", "stamp", "value")

    def __init__(self, value: Any, owner: weakref.ref[Plan]) -> None:
        self.value: Any = value
        self.stamp = 0
        self.owner = owner


class _Stage:
    """A part of a plan that runs as one: the nodes that its outputs need beyond the stages before it."""

    __slots__ = ("programs", "ran_at", "start", "stop")

    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop
        self.ran_at = 0
        self.programs: dict[tuple[int, ...], list[_Call]] = {}


class Plan:
    """Arrays for every node of a schedule and the calls that fill them.

    `stages` are groups of outputs; running a stage computes what its outputs need and no earlier stage has. Values of
    nodes that another live plan computes too are shared with it, and then checked one by one for their age.
    """

    def __init__(self, schedule: Schedule, stages: Sequence[Sequence[BaseNode[Any, Any]]]) -> None:
        self.schedule = schedule
        sizes = schedule.bind()
        self._order, self.stages = _by_stage(schedule, stages)
        self.position = {node: i for i, node in enumerate(self._order)}
        self.parents = [[self.position[parent] for parent in schedule.parents(node)] for node in self._order]
        self.leaves: list[tuple[int, Storage, NDArray[Any]]] = [
            (i, stored(node), bound_array(node)) for i, node in enumerate(self._order) if is_leaf(node)
        ]
        self._shared = False
        self._scratch = Scratch()
        self._dense: dict[int, Cell] = {}
        owner = weakref.ref(self)
        self.cells: list[Cell] = []
        self.calls: list[list[_Call]] = []
        for i, node in enumerate(self._order):
            shape = schedule.shape(node, sizes)
            if is_leaf(node):
                cell, calls = Cell(bound_array(node), owner), []
            else:
                cell = self._adopt(node, shape) or Cell(None, owner)
                calls = self._calls(node, i, shape, cell)
            self.cells.append(cell)
            self.calls.append(calls)

    def _adopt(self, node: BaseNode[Any, Any], shape: tuple[int, ...]) -> Cell | None:
        """The cell that another live plan has for this node, which from now on both mind the age of."""
        cell: Cell | None = node._cell
        if cell is None or isinstance(node, _VIEWS):
            return None
        other = cell.owner()
        if other is None or cell.value is None or tuple(cell.value.shape) != shape:
            return None
        other._share()
        self._share()
        return cell

    def _share(self) -> None:
        if not self._shared:
            self._shared = True
            for stage in self.stages:
                for i in range(stage.start, stage.stop):
                    if i < len(self.cells):
                        self.cells[i].stamp = max(self.cells[i].stamp, stage.ran_at)

    def _calls(self, node: BaseNode[Any, Any], i: int, shape: tuple[int, ...], cell: Cell) -> list[_Call]:
        """The calls that compute a node into its cell, whose array is made here where it has none."""
        calls: list[_Call] = []
        operands = [self.cells[p] for p in self.parents[i]]
        if not node.takes_rows:
            operands = [
                self._as_dense(p, operand, calls) if self._order[p].gives_rows else operand
                for p, operand in zip(self.parents[i], operands, strict=True)
            ]
        if node.gives_rows:
            return [*calls, _Evaluate(node, operands, shape, cell)]
        if isinstance(node, _VIEWS):
            view = node.evaluate(np, *(operand.value for operand in operands), shape=shape)
            if np.may_share_memory(view, operands[0].value):
                cell.value = view
                return calls
        if cell.value is None:
            cell.value = np.empty(shape, node.dtype)
        if node.formula is not None:
            return calls + formula_steps(node, [operand.value for operand in operands], cell.value, self._scratch)
        return [*calls, _EvaluateInto(node, operands, shape, cell.value)]

    def _as_dense(self, position: int, rows: Cell, calls: list[_Call]) -> Cell:
        """The dense form of a row-sparse operand."""
        if position not in self._dense:
            node = self._order[position]
            shape = tuple(int(axis) for axis in node.dims)
            self._dense[position] = Cell(np.empty(shape, node.dtype), rows.owner)
        dense = self._dense[position]

        def fill() -> None:
            dense.value[...] = 0.0
            rows.value.add_to(dense.value)

        calls.append(fill)
        return dense

    # --- running --------------------------------------------------------------------------------------------------

    def run(self, index: int, observer: Observer | None) -> None:
        """Bring the values of one stage up to date, the stages before it being so already."""
        stage = self.stages[index]
        ran_at = stage.ran_at
        changed = []
        for i, storage, array in self.leaves:
            if storage.version > ran_at:
                if storage.array is not array:
                    array[...] = storage.array
                self.cells[i].stamp = storage.version
                changed.append(i)
        now = tick()
        with np.errstate(all="ignore"):
            if observer is not None:
                self._run_observed(stage, observer)
            elif self._shared:
                self._run_by_age(stage, now)
            elif ran_at == 0:
                for calls in islice(self.calls, stage.start, stage.stop):
                    for call in calls:
                        call()
            elif changed:
                for call in self._program(stage, tuple(changed)):
                    call()
        stage.ran_at = now

    def _program(self, stage: _Stage, changed: tuple[int, ...]) -> list[_Call]:
        """The calls of the stage that depend on the changed leaves."""
        program = stage.programs.get(changed)
        if program is None:
            stale = bytearray(len(self.calls))
            for i in changed:
                stale[i] = 1
            program = []
            for i in range(stage.stop):
                if any(stale[p] for p in self.parents[i]):
                    stale[i] = 1
                    if i >= stage.start:
                        program += self.calls[i]
            if len(stage.programs) >= _KEPT_PROGRAMS:
                stage.programs.pop(next(iter(stage.programs)))
            stage.programs[changed] = program
        return program

    def _run_by_age(self, stage: _Stage, now: int) -> None:
        cells = self.cells
        for i in range(stage.start, stage.stop):
            parents = self.parents[i]
            if not parents:
                if stage.ran_at == 0:
                    for call in self.calls[i]:
                        call()
                continue
            cell = cells[i]
            newest = max([cells[p].stamp for p in parents])
            if cell.stamp < newest or cell.stamp == 0:
                for call in self.calls[i]:
                    call()
                cell.stamp = now

    def _run_observed(self, stage: _Stage, observer: Observer) -> None:
        """Everything anew, node by node."""
        now = tick()
        for i in range(stage.start, stage.stop):
            start = time.perf_counter()
            for call in self.calls[i]:
                call()
            seconds = time.perf_counter() - start
            self.cells[i].stamp = now
            if is_leaf(self._order[i]):
                continue
            if observer.timing is not None:
                observer.timing.add(self._order[i], seconds)
            observer.check(self._order[i], self.cells[i].value, [self.cells[p].value for p in self.parents[i]])

    def activate(self) -> None:
        """Let `node.value` read from this plan."""
        for node, representative in self.schedule.representative.items():
            object.__setattr__(node, "_cell", self.cells[self.position[representative]])

    def value(self, node: BaseNode[Any, Any]) -> Any:
        """The value of a node of the schedule."""
        return self.cells[self.position[self.schedule.representative[node]]].value


class _Evaluate:
    """A call that puts the row-sparse result of an op into its cell."""

    __slots__ = ("cell", "node", "operands", "shape")

    def __init__(self, node: BaseNode[Any, Any], operands: list[Cell], shape: tuple[int, ...], cell: Cell) -> None:
        self.node, self.operands, self.shape, self.cell = node, operands, shape, cell

    def __call__(self) -> None:
        self.cell.value = self.node.evaluate(np, *[operand.value for operand in self.operands], shape=self.shape)


class _EvaluateInto:
    """A call that copies the result of an op into its array."""

    __slots__ = ("node", "operands", "out", "shape")

    def __init__(
        self, node: BaseNode[Any, Any], operands: list[Cell], shape: tuple[int, ...], out: NDArray[Any]
    ) -> None:
        self.node, self.operands, self.shape, self.out = node, operands, shape, out

    def __call__(self) -> None:
        result = self.node.evaluate(np, *[operand.value for operand in self.operands], shape=self.shape)
        np.copyto(self.out, result)


def _by_stage(
    schedule: Schedule, stages: Sequence[Sequence[BaseNode[Any, Any]]]
) -> tuple[list[BaseNode[Any, Any]], list[_Stage]]:
    """The nodes of the schedule, those that an earlier stage needs before the rest, and the bounds of the stages."""
    stage_of: dict[BaseNode[Any, Any], int] = {}
    counts = [0] * len(stages)
    for number, outputs in enumerate(stages):
        stack = [schedule.representative[output] for output in outputs]
        while stack:
            node = stack.pop()
            if node not in stage_of:
                stage_of[node] = number
                counts[number] += 1
                stack += schedule.parents(node)
    bounds = [0, *accumulate(counts)]
    order = sorted(schedule.nodes, key=stage_of.__getitem__)  # stable: parents stay before children
    return order, [_Stage(start, stop) for start, stop in pairwise(bounds)]
