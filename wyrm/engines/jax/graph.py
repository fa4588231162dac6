"""The graph of a program for the JAX engine, the checks of computed indices, and whether int32 is enough.

A step returns what is out of range: see `beyond`. Inside of loops, branches and their gradients, a callback of JAX
tells it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, ClassVar, NamedTuple

import numpy as np

from wyrm.engines.graph import DEDUPLICATE, DIFFERENTIATE, CompilerStage, ProgramGraph, Targets, share_residuals
from wyrm.engines.jax.lower import Sizes, float64_node
from wyrm.engines.jax.namespace import namespace
from wyrm.engines.optimizer import OptimizerInterface
from wyrm.errors import IndexOutOfRange
from wyrm.graph.axes import Dim, axis_size, resolve, resolve_axis
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.index_operands import IndexOperand, accepted_indices
from wyrm.graph.leaves import Constant
from wyrm.graph.loop_form import LOOPS, LoopForm
from wyrm.graph.ragged import Padding
from wyrm.graph.schedule import Ranges
from wyrm.graph.storage import bound_array
from wyrm.graph.traversal import topological_order
from wyrm.ops.elementwise.formula import FormulaCall, interpret
from wyrm.ops.random.philox import Counter
from wyrm.support.imports import jax, jnp


class LoopChecks:
    """The checks of the nodes inside of loops, and what the last step reported."""

    def __init__(self, nodes: Iterable[BaseNode], ranges: Ranges) -> None:
        self._checks: dict[BaseNode, list[IndexCheck]] = {}
        self._error: IndexOutOfRange | None = None
        self._collect(nodes, ranges)

    def _collect(self, nodes: Iterable[BaseNode], ranges: Ranges) -> None:
        for node in nodes:
            steps = LOOPS.of(node).steps(node)
            if steps is not None:
                inside, body = ranges.inside(node), topological_order(steps.body.outputs)
                if not steps.body.checked:
                    for check in index_checks(body, inside, {each: each for each in body}):
                        self._checks.setdefault(check.user, []).append(check)
                self._collect(body, inside)

    def __bool__(self) -> bool:
        return bool(self._checks)

    def report(self, node: BaseNode, operands: list[Any], sizes: Mapping[type[Dim], int]) -> None:
        """Tell the host, from a step, if an operand of a node inside of a loop is out of range."""
        for check in self._checks.get(node, ()):
            indices = operands[check.operand.operand].reshape(-1)
            size = resolve_axis(check.operand.axis, dict(sizes))
            outside = is_outside(indices, check.operand, size)
            first = jnp.argmax(outside) if indices.shape[0] else 0
            if indices.shape[0]:
                jax.debug.callback(partial(self._record, check, size), outside.any(), indices[first])

    def _record(self, check: IndexCheck, size: int, wrong: Any, value: Any) -> None:
        if bool(wrong) and self._error is None:
            takes = accepted_indices(check.user, size, check.operand.from_end)
            self._error = IndexOutOfRange(f"{describe(check.indices)} holds {int(value)} in a loop, but {takes}")

    def raise_reported(self, state: str) -> None:
        """Raise `IndexOutOfRange` if steps since the last call reported an index; `state` says what they changed."""
        jax.effects_barrier()
        error, self._error = self._error, None
        if error is not None:
            raise IndexOutOfRange(f"{error}{state}")


def _shared(targets: Targets) -> Targets:
    return replace(share_residuals(targets), original=targets.nodes)


class JaxGraph(ProgramGraph):
    """A program's graph, with the leaves that it reads.

    `held` are the leaves that are neither trained nor inputs, without scalar constants, which the code contains.
    """

    STAGES: ClassVar[Sequence[CompilerStage]] = (
        DIFFERENTIATE,
        CompilerStage("share residuals", _shared, None),
        DEDUPLICATE,
    )

    def __init__(
        self, outputs: Sequence[BaseNode], optimizer: OptimizerInterface | None, padding: Padding = Padding.LAST
    ) -> None:
        self.padding = padding
        super().__init__(outputs, optimizer)
        # Indices that a step must check as it computes them; the schedule returns them too.
        self.checks: list[IndexCheck] = index_checks(self.schedule.nodes, self.ranges, self.schedule.representative)
        self.schedule.outputs += [check.indices for check in self.checks]
        known = {*self.trained, *self.fed}
        self.held: list[BaseNode] = [
            leaf
            for leaf in self.schedule.leaves
            if leaf not in known
            and not isinstance(leaf, Counter)
            and not (isinstance(leaf, Constant) and not leaf.dims)
        ]
        # Whether the graph needs JAX's 64-bit types: for float64, or for integers beyond int32.
        self.wide: bool = float64_node([*self.schedule.nodes, *self.trained]) is not None or need_int64(
            self.schedule.nodes, self.ranges
        )


class IndexCheck(NamedTuple):
    """`user` indexes with `indices`, which must be in the range that `operand` describes."""

    indices: BaseNode
    user: BaseNode
    operand: IndexOperand


def index_checks(
    nodes: Sequence[BaseNode], ranges: Ranges, computed_by: Mapping[BaseNode, BaseNode]
) -> list[IndexCheck]:
    """Return a check for each index operand of `nodes` that is not known to be in range, without duplicates."""
    found: dict[tuple[object, ...], IndexCheck] = {}
    for user in nodes:
        for operand in user.index_operands():
            indices = computed_by[user.parents[operand.operand]]
            if not ranges.is_known(indices, *operand[1:]):
                found.setdefault((indices, *operand[1:]), IndexCheck(indices, user, operand))
    return list(found.values())


def beyond(checks: Sequence[IndexCheck], values: Mapping[BaseNode, Any], sizes: Sizes) -> Any:
    """Return a row for each check: whether an index is out of range, and the flat position and value of the first."""
    xp: Any = namespace()
    found = xp.zeros((len(checks), 3), dtype=np.int64)
    for row, check in enumerate(checks):
        indices = values[check.indices].reshape(-1)
        if indices.shape[0]:
            outside = is_outside(indices, check.operand, resolve_axis(check.operand.axis, dict(sizes)))
            position = xp.argmax(outside)
            found = found.at[row].set(xp.stack([xp.any(outside), position, indices[position]]))
    return found


def is_outside(indices: Any, operand: IndexOperand, size: int) -> Any:
    """Return which indices are out of range of an axis of this size."""
    outside = (indices < (-size if operand.from_end else 0)) | (indices >= size)
    return outside if operand.ignore_index is None else outside & (indices != operand.ignore_index)


def index_error(
    checks: Sequence[IndexCheck], found: np.ndarray, sizes: Sizes, where: str, state: str
) -> IndexOutOfRange | None:
    """Return the error for the first index out of range in a result of `beyond`, or None."""
    for check, (outside, position, value) in zip(checks, found, strict=True):
        if outside:
            _, axis, _, from_end = check.operand
            shape = resolve(check.indices.dims, sizes)
            place = tuple(map(int, np.unravel_index(position, shape)))
            at = f" at position {place}" if place else ""
            takes = accepted_indices(check.user, resolve_axis(axis, dict(sizes)), from_end)
            return IndexOutOfRange(f"{describe(check.indices)} holds {value}{at}{where}, but {takes}{state}")
    return None


# The least and the greatest value.
Interval = tuple[int, int]
INT32: Interval = (-(2**31), 2**31 - 1)


def need_int64(nodes: Iterable[BaseNode], ranges: Ranges) -> bool:
    """Return whether a result of integer arithmetic may not fit in int32; `nodes` are in the order of computation."""
    return _need_int64(nodes, _of_data(ranges))


def _need_int64(nodes: Iterable[BaseNode], data: Mapping[BaseNode, Interval]) -> bool:
    # Random steps are computed as two words, so they have no interval.
    known: dict[BaseNode, Interval | None] = {}
    for node in nodes:
        steps = LOOPS.of(node).steps(node)
        if steps is not None and _need_int64(topological_order(steps.body.outputs), {}):
            return True
        if node.dtype.kind == "i":
            known[node] = interval = data[node] if node in data else _interval(node, known)
            if interval is not None and not (INT32[0] <= interval[0] and interval[1] <= INT32[1]):
                return True
    return False


def _of_data(ranges: Ranges) -> dict[BaseNode, Interval]:
    """Return the intervals of the data of leaves that are used as indices."""
    found: dict[BaseNode, Interval] = {}
    for leaf, _, (_, axis, ignore_index, from_end), part in ranges.limits:
        size = axis_size(axis)
        if size is not None and part is None:
            ends = [-size if from_end else 0, size - 1, *([] if ignore_index is None else [ignore_index])]
            found[leaf] = min(ends), max(ends)
    return found


def _interval(node: BaseNode, known: Mapping[BaseNode, Interval | None]) -> Interval | None:
    """Return an interval that contains all values of a node; an unknown operand may be any int32."""
    if isinstance(node, Counter) or getattr(node, "is_step", False):  # a random step, also one that a loop carries
        return None
    if isinstance(node, IndexConstant):
        array = bound_array(node)
        return (int(array.min()), int(array.max())) if array.size else (0, 0)
    within: Any = getattr(node, "within", None)
    if within is not None:
        size = axis_size(within)
        return 0, INT32[1] if size is None else size - 1
    operands = [known.get(parent, INT32) for parent in node.parents if parent.dtype.kind == "i"]
    if type(LOOPS.of(node)).gather_index is not LoopForm.gather_index:  # the elements are those of the first operand
        return operands[0]
    integers = [operand for operand in operands if operand is not None]
    bounds: Any = getattr(node, "bounds", None)
    if bounds is not None and len(integers) == len(operands):
        found: Interval = bounds(integers)
        return found
    if not node.formula or len(integers) < len(node.parents):
        return INT32 if None not in operands else None
    return interpret(node.formula, integers, lambda _: INT32, lambda value: (int(value), int(value)), _of_call)


def _of_call(_: int, call: FormulaCall, operands: list[Interval]) -> Interval:
    """Return an interval that contains all values of a call in a formula."""
    if call.function not in ("add", "subtract", "multiply", "floor_divide", "remainder", "maximum", "minimum"):
        return INT32
    x, y = operands
    if call.function in ("maximum", "minimum"):
        extreme = max if call.function == "maximum" else min
        return extreme(x[0], y[0]), extreme(x[1], y[1])
    if call.function == "floor_divide":
        largest = max(map(abs, x))
        return (min(0, x[0]), max(0, x[1])) if y[0] >= 0 else (-largest, largest)
    if call.function == "remainder":
        return min(0, y[0] + 1), max(0, y[1] - 1)
    arithmetic = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul}[call.function]
    results = [arithmetic(a, b) for a, b in product(x, y)]
    return min(results), max(results)
