"""A third engine: it writes the nodes of a program as lines of Python on NumPy arrays, and runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypedDict

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
from wyrm.graph.rows import RowSparse
from wyrm.graph.storage import bound_array, check_shape, store, stored
from wyrm.ops.elementwise.formula import FormulaCall, array_function, interpret
from wyrm.ops.random.philox import ROWS_BEFORE, STEP
from wyrm.support.interrupts import deferred, deliver


class WrittenOptions(TypedDict, total=False):
    """The engine's own option."""

    comments: bool


class WrittenEngine(Engine):
    """Runs a program as Python source, of which each line computes a node."""

    Options: ClassVar[type] = WrittenOptions
    refusals: ClassVar[Mapping[str, str]] = {"profile": "engine='written' has no clocks: measure calls with timeit"}

    @classmethod
    def check_options(cls, options: Mapping[str, Any]) -> None:
        if options.get("comments") not in (None, True, False):
            raise OptionError(f"comments must be True or False, not {options['comments']!r}")

    def __init__(
        self, outputs: Sequence[BaseNode], optimizer: Any, *, evaluates: bool = False, comments: bool = False
    ) -> None:
        super().__init__(ProgramGraph(outputs, optimizer))
        self._names: dict[str, Any] = {"np": np}
        self._comments, self._shuffle = comments, Shuffle()
        self._source = self._written()
        exec(compile(self._source, "<written>", "exec"), self._names)

    # --- the source -----------------------------------------------------------------------------------------------

    @property
    def source(self) -> str:
        return self._source

    def _written(self) -> str:
        """Return the source of `compute(leaves, shape_of)`, which returns the values of `targets.nodes`."""
        schedule = self.graph.schedule
        position, lines = schedule.position, ["def compute(leaves, shape_of):"]
        for i, (node, parents) in enumerate(zip(schedule.nodes, schedule.parent_positions, strict=True)):
            self._names[f"n{i}"] = node
            operands = [f"v{parent}" for parent in parents]
            if node.is_leaf:
                value = f"leaves(n{i})"
            elif node.formula is not None:
                value = f"np.asarray({self._formula(node, i, operands)}, n{i}.dtype)"
            else:
                value = f"n{i}.evaluate(np, {', '.join(operands)}{',' * bool(operands)} shape=shape_of(n{i}))"
            comment = f"  # {node.op_name()}" if self._comments else ""
            lines.append(f"    v{i} = {value}{comment}")
        results = ", ".join(f"v{position[node]}" for node in self.graph.targets.nodes)
        return "\n".join([*lines, f"    return [{results}]", ""])

    def _formula(self, node: BaseNode, i: int, operands: list[str]) -> str:
        def attribute(name: str) -> str:
            self._names[f"a{i}_{name}"] = getattr(node, name)
            return f"a{i}_{name}"

        def call(_: int, each: FormulaCall, arguments: list[str]) -> str:
            self._names[f"f_{each.function}"] = array_function(np, each.function)
            return f"f_{each.function}({', '.join(arguments)})"

        assert node.formula is not None
        return interpret(node.formula, operands, attribute, repr, call)

    # --- values ---------------------------------------------------------------------------------------------------

    def _values(
        self, given: Mapping[BaseNode, np.ndarray]
    ) -> tuple[list[Any], dict[BaseNode, GradientArray], list[Any]]:
        """Return the outputs, the gradients and the new values of buffers for the data of a batch."""
        data = completed(self.graph.inputs, given)
        for leaf, array in data.items():
            check_shape(leaf, array.shape)
        sizes = self.graph.schedule.bind({leaf: array.shape for leaf, array in data.items()})
        check_ranges(self.graph.ranges.limits, given, sizes)
        counters: dict[BaseNode, np.ndarray] = {STEP: np.asarray(self.steps), ROWS_BEFORE: np.asarray(0)}

        def value(leaf: BaseNode) -> np.ndarray:
            return counters[leaf] if leaf in counters else data[leaf] if leaf in data else bound_array(leaf)

        targets = self.graph.targets
        with np.errstate(all="ignore"):
            found = iter(self._names["compute"](value, lambda node: resolve(node.dims, sizes)))
        values = [np.array(_dense(next(found)), node.dtype) for node in targets.outputs]
        gradients: dict[BaseNode, GradientArray] = {leaf: np.array(_dense(next(found))) for leaf in targets.gradients}
        for leaf, pairs in targets.rows.items():
            shape, rows, touched = bound_array(leaf).shape, [], []
            for _ in pairs:
                gradient, indices = np.asarray(next(found)), np.asarray(next(found))
                rows.append(indices.reshape(-1))
                touched.append(gradient.reshape(rows[-1].size, *shape[1:]))
            gradients[leaf] = RowSparse(np.concatenate(rows), np.concatenate(touched), shape)
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

    # --- what an engine owes --------------------------------------------------------------------------------------

    def run(self, given: dict[BaseNode, np.ndarray]) -> list[np.ndarray]:
        values, gradients, buffers = self._values(given)
        with deferred:
            if self.graph.optimizer is not None:
                self._move(values[0], gradients, buffers, f"step {self.graph.optimizer.steps + 1}")
            self.steps += 1
        return values

    def check_epoch(self, columns: Columns, options: EpochOptions, *, in_batches: bool) -> None:
        super().check_epoch(columns, options, in_batches=in_batches)
        _refuse_threads(options.threads)

    def train(self, columns: Columns, epoch: Epoch) -> None:
        batch = epoch.options.batch_size
        order = epoch.order(columns.rows, self._shuffle)
        for start in range(0, len(order), batch * epoch.options.accumulate):
            self._train_on(columns, epoch, order[start : start + batch * epoch.options.accumulate])
            deliver()

    def _train_on(self, columns: Columns, epoch: Epoch, rows: NDArray[np.int64]) -> None:
        """Do one step with the mean gradient of the batches of these rows."""
        batch, total = epoch.options.batch_size, dict[BaseNode, GradientArray]()
        batches = [rows[start : start + batch] for start in range(0, len(rows), batch)]
        sums, losses = np.zeros(len(self.graph.outputs)), 0.0
        for own in batches:
            chosen = own[0] if columns.singly else own
            values, gradients, buffers = self._values({leaf: array[chosen] for leaf, array in columns.given.items()})
            weight = len(own) / len(rows)
            add(total, {leaf: _times(gradient, weight) for leaf, gradient in gradients.items()})
            sums += np.array([float(value) for value in values]) * epoch.totals.weights(len(own))
            losses += float(values[0]) * len(own)
            if len(batches) > 1:
                self._keep(buffers)
            self.steps += 1
        self.steps -= len(batches)  # until the step is done
        self._move(losses / len(rows), total, buffers, f"epoch {epoch.number}, batch {epoch.done.batches + 1}")
        self.steps += len(batches)
        epoch.add(len(batches), len(rows), sums, losses)

    def backward(self, columns: Columns, threads: int, weight: float, blas_threads: int) -> float:
        _refuse_threads(max(threads, blas_threads))
        given = {leaf: array[0] if columns.singly else array for leaf, array in columns.given.items()}
        values, gradients, buffers = self._values(given)
        if not np.isfinite(values[0]):
            raise Diverged(f"the loss is {values[0]}; no gradient was added to those of the parameters")
        for parameter in self.graph.parameters:
            accumulate(parameter, _times(gradients[parameter], weight))
        self._keep(buffers)
        self.steps += 1
        return float(values[0])


def _refuse_threads(threads: int) -> None:
    if threads > 1:
        raise OptionError(f"engine='written' runs in one thread, so it takes no threads, not {threads}")


def _dense(value: Any) -> Any:
    return value.dense() if isinstance(value, RowSparse) else value


def _times(gradient: GradientArray, weight: float) -> Any:
    if isinstance(gradient, RowSparse):
        return RowSparse(gradient.rows, gradient.values * gradient.values.dtype.type(weight), gradient.shape)
    return gradient * gradient.dtype.type(weight)
