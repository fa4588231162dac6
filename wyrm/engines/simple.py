"""`SimpleEngine`: an engine that defines one method, which computes the values of nodes; the steps are done here."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.columns import Columns, check_ranges, completed
from wyrm.engines.engine import Engine
from wyrm.engines.epochs import Epoch, EpochOptions
from wyrm.engines.graph import ProgramGraph
from wyrm.engines.native.run.shuffle import Shuffle
from wyrm.engines.numpy.reference import accumulate
from wyrm.engines.optimizer import GradientArray, add, step_by
from wyrm.errors import Diverged, OptionError
from wyrm.graph.axes import resolve
from wyrm.graph.base import BaseNode
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.op import NUMPY
from wyrm.graph.rows import RowSparse
from wyrm.graph.storage import bound_array, check_shape, store, stored
from wyrm.ops.elementwise.formula import formula_value
from wyrm.ops.random.philox import ROWS_BEFORE, STEP
from wyrm.support.interrupts import deferred

# The array of a leaf, and the shape of a node for the data of a batch.
ValueOf: TypeAlias = Callable[[BaseNode], np.ndarray]
ShapeOf: TypeAlias = Callable[[BaseNode], tuple[int, ...]]


def by_numpy(node: BaseNode, operands: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Return the value of a node from those of its parents, by NumPy: for what an engine does not compute itself.

    A gradient of some rows of a table is a `RowSparse` array, which has `dense()`.
    """
    if node.formula:
        return np.asarray(formula_value(np, node, operands), node.dtype)
    return node.evaluate(NUMPY, *operands, shape=shape)


class SimpleEngine(Engine):
    """Does steps one at a time, in one thread, by the arrays that `compute` returns; a subclass defines that.

    Calls, epochs with `shuffle` and `accumulate`, `backward`, row-sparse gradients, buffers and random nodes work. A
    subclass with options takes them in its own `__init__`. An engine that computes node by node:

    >>> class ByNode(SimpleEngine):
    ...     def compute(self, value_of, shape_of):
    ...         schedule, found = self.graph.schedule, {}
    ...         for node in schedule.nodes:
    ...             operands = [found[parent] for parent in schedule.parents(node)]
    ...             found[node] = value_of(node) if node.is_leaf else by_numpy(node, operands, shape_of(node))
    ...         return [found[node] for node in self.graph.targets.nodes]
    >>> wy.engines.register("by_node", ByNode)  # doctest: +SKIP
    >>> x = wy.Input(dims=(2,), name="x")
    >>> wy.compile(x * 2.0, engine="by_node")({x: [1.0, 2.0]}).tolist()  # doctest: +SKIP
    [2.0, 4.0]
    """

    def __init__(self, outputs: Sequence[BaseNode], optimizer: Any, *, evaluates: bool = False) -> None:
        super().__init__(ProgramGraph(outputs, optimizer))
        self._shuffle = Shuffle()

    @classmethod
    def rule_name(cls, node: BaseNode) -> str | None:
        """Return the name of the op's `decompose` where it has one: the graph has the simpler nodes in its place."""
        form = LOOPS.of(node)
        return None if form.decompose(node) is None else f"{type(form).__name__}.decompose"

    @abstractmethod
    def compute(self, value_of: ValueOf, shape_of: ShapeOf) -> Sequence[Any]:
        """Return the values of `self.graph.targets.nodes`, in order; `self.graph.schedule` orders all nodes.

        `value_of(leaf)` is the array of a leaf, and `shape_of(node)` the shape of a node, for the data of this batch.
        """

    # --- values ---------------------------------------------------------------------------------------------------

    def _values(
        self, given: Mapping[BaseNode, np.ndarray], after: int = 0
    ) -> tuple[list[Any], dict[BaseNode, GradientArray], list[Any]]:
        """Return the outputs, the gradients and the new values of buffers for a batch, `after` others of its step."""
        data = completed(self.graph, given)
        for leaf, array in data.items():
            check_shape(leaf, array.shape)
        sizes = self.graph.schedule.bind({leaf: array.shape for leaf, array in data.items()})
        check_ranges(self.graph.ranges.limits, given, sizes)
        counters: dict[BaseNode, np.ndarray] = {STEP: np.asarray(self.steps + after), ROWS_BEFORE: np.asarray(0)}

        def value(leaf: BaseNode) -> np.ndarray:
            return counters[leaf] if leaf in counters else data[leaf] if leaf in data else bound_array(leaf)

        targets = self.graph.targets
        with np.errstate(all="ignore"):
            found = iter(self.compute(value, lambda node: resolve(node.dims, sizes)))
        values = [np.array(_dense(next(found)), node.dtype) for node in targets.outputs]
        gradients: dict[BaseNode, GradientArray] = {leaf: np.array(_dense(next(found))) for leaf in targets.gradients}
        for leaf, pairs in targets.rows.items():
            shape, lookups = bound_array(leaf).shape, list[RowSparse]()
            for _ in pairs:
                gradient, indices = np.asarray(next(found)), np.asarray(next(found))
                rows = indices.reshape(-1)
                lookups.append(RowSparse(rows, gradient.reshape(rows.size, *shape[1:]), shape))
            gradients[leaf] = RowSparse.total(lookups)
        return values, gradients, [np.array(each) for each in found]

    def _move(
        self, loss: Any, gradients: Mapping[BaseNode, GradientArray], buffers: Sequence[np.ndarray], where: str
    ) -> None:
        optimizer = self.graph.optimizer
        assert optimizer is not None
        if not np.isfinite(loss):
            rate = optimizer.learning_rate
            raise Diverged(f"the loss is {loss} in {where} at learning rate {rate:g}; no parameter has moved")
        step_by(optimizer, gradients)  # which raises for a gradient that is not finite
        self._keep(buffers)

    def _keep(self, buffers: Sequence[np.ndarray]) -> None:
        for buffer, array in zip(self.graph.buffers, buffers, strict=True):
            store(stored(buffer), array)

    # --- what an engine must define -------------------------------------------------------------------------------

    def run(self, given: dict[BaseNode, np.ndarray]) -> list[np.ndarray]:
        values, gradients, buffers = self._values(given)
        with deferred:
            if self.graph.optimizer is not None:
                self._move(values[0], gradients, buffers, f"step {self.graph.optimizer.steps + 1}")
            self.steps += 1
        return values

    def check_epoch(self, columns: Columns, options: EpochOptions, *, in_batches: bool) -> None:
        super().check_epoch(columns, options, in_batches=in_batches)
        self._refuse_threads(options.threads)

    def train(self, columns: Columns, epoch: Epoch) -> None:
        epoch.drive(epoch.order(columns.rows, self._shuffle), partial(self._train_on, columns, epoch))

    def _train_on(self, columns: Columns, epoch: Epoch, _first: int, _count: int, rows: NDArray[np.int64]) -> int:
        """Do one step with the mean gradient of the batches of these rows."""
        batch, total = epoch.options.batch_size, dict[BaseNode, GradientArray]()
        batches = [rows[start : start + batch] for start in range(0, len(rows), batch)]
        outputs, losses = list[list[float]](), 0.0
        for i, own in enumerate(batches):
            chosen = own[0] if columns.singly else own
            values, gradients, buffers = self._values({leaf: array[chosen] for leaf, array in columns.given.items()}, i)
            weight = len(own) / len(rows)
            add(total, {leaf: _times(gradient, weight) for leaf, gradient in gradients.items()})
            outputs.append([float(value) for value in values])
            losses += outputs[i][0] * len(own)
            if len(batches) > 1:
                self._keep(buffers)
        try:
            self._move(losses / len(rows), total, buffers, epoch.place(epoch.done.batches))
        except Diverged as error:
            raise epoch.with_rows(error, rows)  # noqa: B904  # the same error
        self.steps += len(batches)
        epoch.count(np.array([float(len(own)) for own in batches]), np.ones(len(batches)), np.array(outputs))
        return 1

    def backward(self, columns: Columns, threads: int, weight: float, blas_threads: int) -> float:
        self._refuse_threads(max(threads, blas_threads))
        given = {leaf: array[0] if columns.singly else array for leaf, array in columns.given.items()}
        values, gradients, buffers = self._values(given)
        if not np.isfinite(values[0]):
            raise Diverged(f"the loss is {values[0]}; no gradient was added to those of the parameters")
        for parameter in self.graph.parameters:
            accumulate(parameter, _times(gradients[parameter], weight))
        self._keep(buffers)
        self.steps += 1
        return float(values[0])

    def _refuse_threads(self, threads: int) -> None:
        if threads > 1:
            raise OptionError(f"{type(self).__name__} runs in one thread, so it takes no threads, not {threads}")


def _dense(value: Any) -> Any:
    return value.dense() if isinstance(value, RowSparse) else value


def _times(gradient: GradientArray, weight: float) -> Any:
    if isinstance(gradient, RowSparse):
        return RowSparse(gradient.rows, gradient.values * gradient.values.dtype.type(weight), gradient.shape)
    return gradient * gradient.dtype.type(weight)
