"""The NumPy reference engine, which `forward()` and `backward()` use and compiled code is tested against."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wyrm.engines.numpy.calls import Cell
from wyrm.engines.numpy.observe import observer
from wyrm.engines.numpy.plan import EvaluationPlan
from wyrm.errors import UnusedParameter
from wyrm.graph.axes import axis_size, ragged_axis
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Input
from wyrm.graph.modes import Mode, modes_of, warn_of_training
from wyrm.graph.node import Node
from wyrm.graph.op import cell_of, runs_nodes, set_cell
from wyrm.graph.parameters import Buffer, Parameter
from wyrm.graph.ragged import RaggedArray, flat_graph, rows_of_lengths
from wyrm.graph.rows import RowSparse
from wyrm.graph.schedule import Schedule, parts_of_residuals
from wyrm.graph.source_location import located_at
from wyrm.graph.storage import CHANGES, Storage, bound_array, frozen, store, stored
from wyrm.ops.control.updating import updates_among
from wyrm.ops.gradients.reverse import pull_back
from wyrm.ops.random.philox import STEP, advance_step, drawing_for, step_is_announced
from wyrm.support.interrupts import deferred
from wyrm.support.memory import KEPT_BYTES, with_collector_paused

if TYPE_CHECKING:
    from wyrm.ops.ragged import Flattened

# Plans are cached for so many data sizes, such as that of the smaller last batch of an epoch, up to `KEPT_BYTES`.
_PLAN_CACHE_SIZE = 4


class ReferenceRunner:
    """Runs outputs in stages, with one plan per combination of data sizes."""

    def __init__(self, outputs: Sequence[BaseNode]) -> None:
        self._plans: dict[tuple[Any, ...], EvaluationPlan] = {}
        self._last: EvaluationPlan | None = None
        # The graph of flat arrays that runs in place of one with rows of different lengths.
        self.flat: Flattened | None = flat_graph(outputs)
        self._outputs = outputs if self.flat is None else [self.flat.node[output] for output in outputs]
        schedule = Schedule(self._outputs)
        if parts := parts_of_residuals(schedule.position):
            schedule = Schedule(self._outputs, parts=parts)
        if self.flat is None:
            self._take(schedule)
            return
        schedule.position |= {output: schedule.position[self.flat.node[output]] for output in outputs}
        self._take(schedule)

    def _take(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.random: bool = any(leaf is STEP for leaf in schedule.leaves)
        self.dynamic: list[Storage] = [
            stored(leaf) for leaf in schedule.leaves if any(axis_size(axis) is None for axis in leaf.dims)
        ]

    def add_stage(self, outputs: Sequence[BaseNode]) -> None:
        """Add a stage with more outputs, which reuses the values of the earlier stages.

        Values that residuals of this stage hold as well are computed with these, once, from now on.
        """
        schedule = Schedule(outputs, after=self.schedule)
        parts = parts_of_residuals(schedule.position)
        begins_anew = any(map(schedule.computes, parts))
        if begins_anew:
            schedule = Schedule(outputs, after=Schedule(self._outputs, parts=parts), parts=parts)
        with deferred:
            if begins_anew:
                self._plans.clear()
                self._last = None
            self._take(schedule)

    def plan(self) -> EvaluationPlan:
        """Return the plan for the sizes of the current data."""
        dynamic = self.dynamic
        key = tuple([None if s.array is None else s.array.shape for s in dynamic]) if dynamic else ()
        plan = self._plans.get(key)
        if plan is None or plan is not self._last:
            plan = self._plans.pop(key, None) or with_collector_paused(EvaluationPlan, self.schedule)
            held = plan.bytes + sum(other.bytes for other in self._plans.values())
            while self._plans and (len(self._plans) >= _PLAN_CACHE_SIZE or held > KEPT_BYTES):
                held -= self._plans.pop(next(iter(self._plans))).bytes
            self._plans[key] = self._last = plan  # least recently used first
        if plan.schedule is not self.schedule:
            del self._plans[key]  # the plan is unusable if the next line raises
            with_collector_paused(plan.extend, self.schedule)
            self._plans[key] = plan
        plan.activate()
        return plan

    def run(self, stage: int = 0) -> EvaluationPlan:
        """Update one stage and return the plan that holds the values."""
        if self.flat is not None:
            self.flat.check_held()
        plan = self.plan()
        plan.run(stage, observer())
        return plan


class _Gradients(NamedTuple):
    """The backward stage of a `NodeRunner`: its outputs, and the parameters and buffers that they update."""

    parameters: list[Parameter]
    weight: Input
    outputs: list[Node]
    updates: dict[Buffer, BaseNode]


class _CurrentValue:
    """A value that is up to date until a leaf changes: its cell and plan, and the latest change before the plan ran."""

    __slots__ = ("cell", "latest", "number", "plan")

    def __init__(self, cell: Cell, plan: EvaluationPlan, latest: int) -> None:
        self.cell, self.plan, self.latest = cell, plan, latest
        # A copy of a scalar value, made when it is requested again; it is immutable, so it can be returned every time.
        self.number: np.ndarray | None = None


@runs_nodes
class NodeRunner:
    """Runs one node forward and, after `differentiate`, backward.

    It runs a copy of the node, because the node refers to its runner: a reference back would be a cycle, which only the
    garbage collector frees.
    """

    def __init__(self, node: BaseNode) -> None:
        self.twin: Any = _twin(node)
        # The rows of the value of a node with a `Ragged` axis, and the storages that say whose entries they are.
        self.rows: RaggedArray | None = None
        self._lengths: IndexInput | None = None
        self._flat: Flattened | None = flat_graph([self.twin])
        if self._flat is not None:
            self._flat.check_held()
            axis = ragged_axis(node.dims)
            self._lengths = None if axis is None else self._flat.parts(axis).lengths
            self.twin = self._flat.node[self.twin]
        self.runner: ReferenceRunner = ReferenceRunner([self.twin])
        self.modes: list[Mode] = modes_of([node])
        self.step: int | None = None  # the random step of the last forward pass
        self.gradients: _Gradients | None = None
        self._current: _CurrentValue | None = None
        self._plan(node)

    def _plan(self, node: BaseNode) -> EvaluationPlan:
        """Return the plan for the current data, which shares the values that another plan has computed for `node`.

        `__init__` and `differentiate` call it right after they build a schedule, so that the garbage collector scans
        the new objects once and not twice.
        """
        set_cell(self.twin, cell_of(node))
        return self.runner.plan()

    def current_value(self) -> Any:
        """Return the value if no leaf of any graph has changed since the last run, else None: the node must run."""
        known = self._current
        if (
            known is None
            or known.latest != CHANGES.latest
            or known.plan.turn != EvaluationPlan.taken
            or observer() is not None
        ):
            return None
        if known.number is None:
            value = known.cell.value
            if value.shape:
                return frozen(value)
            known.number = np.ndarray((), value.dtype, value.tobytes())
        return known.number

    def run(self, node: BaseNode, stage: int = 0) -> EvaluationPlan:
        """Update one stage, and direct `node.value` to it."""
        latest = CHANGES.latest  # read before the leaves are checked, so that a change during the run is not missed
        if self._flat is not None:
            self._flat.check_held()
        plan = self._plan(node)
        plan.run(stage, observer())
        plan.redirect_value(node, self.twin)
        # Random nodes change in each run, and nodes built in training mode may warn.
        if stage == 0 and not self.runner.random and not self.modes and self._lengths is None:
            self._current = _CurrentValue(plan.cell(self.twin), plan, latest)
        return plan

    def forward(self, node: BaseNode) -> Any:
        """Compute the value of the node, and return it (read-only)."""
        if self.modes:
            warn_of_training(self.modes)
        if self.runner.random:
            self.step = advance_step()
        value = frozen(self.run(node).value(self.twin))
        if self._lengths is not None:
            value = self.rows = rows_of_lengths(value, bound_array(self._lengths))
        return value

    def backward(self, loss: Node, given: Any) -> None:
        """Add the gradient of `(loss * given).sum()` to each parameter's gradient."""
        held = self.gradients or with_collector_paused(self.differentiate, loss, given)
        if self.runner.random and (self.step is None or step_is_announced()):
            self.step = advance_step()
        if given.ndim or stored(held.weight).array != given:
            held.weight.set(given)
        # Draw the numbers of the last forward(), even if another graph has advanced the step since.
        with nullcontext() if self.step is None else drawing_for(self.step):
            self.run(loss, 0)
            plan = self.run(loss, 1)
        becoming = [np.array(plan.value(becomes)) for becomes in held.updates.values()]
        with deferred:
            for parameter, gradient in zip(held.parameters, held.outputs, strict=True):
                accumulate(parameter, plan.value(gradient))
            for buffer, array in zip(held.updates, becoming, strict=True):
                store(stored(buffer), array)

    def parameters(self) -> Sequence[Parameter] | None:
        """Return the parameters that the node depends on, if a backward pass has found them."""
        return None if self.gradients is None else self.gradients.parameters

    def differentiate(self, loss: Node, given: np.ndarray) -> _Gradients:
        """Add the backward stage: the gradients of the loss, which is the node, with respect to all its parameters.

        `given` are the weights of the loss's elements. Raise `UnusedParameter` if it depends on no parameter.
        """
        parameters = [leaf for leaf in self.runner.schedule.leaves if isinstance(leaf, Parameter)]
        if not parameters:
            raise UnusedParameter(
                f"{describe(loss)} depends on no parameter, so backward() has no gradient to compute; make a leaf a "
                f"wy.Parameter, or differentiate with respect to other nodes with wy.grad(loss, wrt)"
            )
        name = "gradient" if given.ndim else "weight"
        weight = Input(given, dims=loss.dims, name=name, dtype=loss.dtype, finite=False)
        order = list(self.runner.schedule.position)
        found = pull_back([self.twin], [weight], parameters, order)
        outputs = [gradient for gradient in found if gradient is not None]
        updates = updates_among(order)
        self.runner.add_stage([*outputs, *updates.values()])
        self.gradients = _Gradients(parameters, weight, outputs, updates)
        self._plan(loss)
        return self.gradients


def _twin(node: BaseNode) -> Any:
    """Return a copy of a node with the same parents; a leaf itself."""
    if node.is_leaf:
        return node
    with located_at(node.origin):
        return node.rebuild(node.parents)


def accumulate(parameter: Parameter, gradient: np.ndarray | RowSparse) -> None:
    """Add to a parameter's gradient; it stays row-sparse as long as all summands are row-sparse."""
    storage = stored(parameter)
    held = storage.gradient
    if isinstance(gradient, RowSparse):
        if held is None:
            storage.gradient = RowSparse(gradient.rows.copy(), gradient.values.copy(), gradient.shape)
        elif isinstance(held, RowSparse):
            joined = held.joined(gradient)
            storage.gradient = joined if len(joined.rows) <= joined.shape[0] else joined.summed()
        else:
            gradient.add_to(held)
    elif held is None:
        storage.gradient = np.array(gradient)
    elif isinstance(held, RowSparse):
        storage.gradient = held.dense() + gradient
    else:
        held += gradient


def run(nodes: Sequence[BaseNode]) -> list[np.ndarray]:
    """Return the values of several nodes, computed together: shared subgraphs run once.

    >>> x = wy.Constant(2.0)
    >>> [value.item() for value in wy.run([x * x, x + x])]
    [4.0, 4.0]
    """
    runner = ReferenceRunner(nodes)
    warn_of_training(modes_of(nodes))
    if runner.random:
        advance_step()
    plan = runner.run()
    values = [frozen(plan.value(node)) for node in nodes]
    return values if runner.flat is None else runner.flat.as_rows(nodes, values)
