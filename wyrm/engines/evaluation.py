"""Means and running metrics of nodes over a data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from wyrm.engines.columns import Columns, given_inputs, rows_of
from wyrm.engines.engine import Engine
from wyrm.engines.epochs import drawing
from wyrm.engines.graph import simplified
from wyrm.engines.totals import Totals
from wyrm.errors import OptionError, ShapeError
from wyrm.graph.axes import axis_size
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Input
from wyrm.graph.modes import modes_of
from wyrm.graph.ragged import RaggedArray
from wyrm.graph.traversal import topological_order
from wyrm.reach.evaluated import warn_of_measured, warn_of_rows
from wyrm.support.options import whole

# Rows of a batch of an evaluation, enough for fast matrix products.
_BATCH = 256


class RunningMetric(Protocol):
    """A metric that takes its data in batches, as those of `wy.metrics` do."""

    @property
    def update(self) -> Callable[..., object]:
        """Take the arrays of a batch into account."""
        ...

    def compute(self) -> float:
        """Return the metric of all batches since the last reset."""
        ...

    def reset(self) -> None:
        """Forget all batches."""
        ...


# Running metrics and the nodes of their arguments, by name.
RunningMetrics = Mapping[str, tuple[RunningMetric, *tuple[BaseNode, ...]]]
# The same, for metrics with other results than floats, such as a confusion matrix.
AnyRunningMetrics = Mapping[str, tuple[object, *tuple[BaseNode, ...]]]


class _Prepared(NamedTuple):
    """The engine of an evaluation, the nodes that it computes, and the checked data."""

    engine: Engine
    nodes: list[BaseNode]
    columns: Columns
    batch_size: int
    totals: Totals


class Evaluator:
    """Computes nodes over data sets in batches. `made` returns an engine, which serves later calls with equal nodes."""

    def __init__(self, made: Callable[[Sequence[BaseNode]], Engine]) -> None:
        self._made = made
        self._nodes: tuple[int, ...] = ()
        self._engine: Engine | None = None
        self._inputs: tuple[list[int], list[BaseNode]] | None = None
        self._totals: tuple[object, Totals] | None = None

    def __call__(
        self, outputs: Sequence[BaseNode], columns: object, batch_size: int | None, metrics: Mapping[str, Any]
    ) -> tuple[list[float], dict[str, Any]]:
        """Return the outputs for all rows, and the results of the metrics."""
        engine, nodes, (given, rows, singly), size, totals = self.prepare(outputs, columns, batch_size, metrics)
        by_row = [_has_rows(output, given, singly) for output in outputs]
        for metric, *_ in metrics.values():
            metric.reset()
        sums: list[Any] = [0.0] * len(totals.nodes)
        # Random nodes draw the same numbers in every evaluation.
        engine.steps = 0
        for start in range(0, rows, size):
            batch = {leaf: array[start] if singly else array[start : start + size] for leaf, array in given.items()}
            feed = {leaf: batch[leaf] for leaf in engine.graph.inputs if leaf in batch}
            with drawing(engine):
                values = dict(zip(nodes, engine.call(feed, checked=True), strict=True))
            weights = totals.weights(1 if singly else min(size, rows - start))
            for position, node in enumerate(totals.nodes):
                value = values[node].astype(np.float64)
                has_rows = position < len(by_row) and by_row[position]
                sums[position] = sums[position] + (value.sum() if has_rows else value * weights[position])
            for metric, *operands in metrics.values():
                arrays = [batch[node] if node in batch else values[node] for node in operands]
                metric.update(*(array[np.newaxis] if singly else array for array in arrays))
        found = totals.of_all_rows([total / weight for total, weight in zip(sums, totals.weights(rows), strict=True)])
        return [float(value) for value in found], {name: metric.compute() for name, (metric, *_) in metrics.items()}

    def prepare(
        self, outputs: Sequence[BaseNode], data: object, batch_size: int | None, metrics: Mapping[str, Any]
    ) -> _Prepared:
        """Check the arguments, and return what the evaluation needs."""
        arguments = _arguments_of_metrics(metrics)
        fed = [node for node in arguments if isinstance(node, Input | IndexInput)]
        computed = [node for node in arguments if node not in set(fed)]
        inputs = list(dict.fromkeys([*self._inputs_of([*outputs, *computed]), *fed]))
        given = given_inputs(data, inputs)
        totals = self._totals_of(outputs, given)
        nodes = list(dict.fromkeys([*totals.nodes, *computed]))
        is_new = self._nodes != tuple(map(id, nodes))
        engine = self._engine_of(nodes)
        if is_new:
            _warn(totals, [entry[1:] for entry in metrics.values()])
        with engine.checking():
            columns = rows_of(given, engine.graph.ranges.limits)
            if missing := [node for node in fed if node not in columns.given]:
                raise ShapeError(f"{describe(missing[0])} is an argument of a metric, so it needs a column of the data")
            size = _batch_size(columns, batch_size)
            engine.check_sizes(columns, columns.batch_sizes(size), in_batches=False)
        return _Prepared(engine, nodes, columns, size, totals)

    def _inputs_of(self, nodes: list[BaseNode]) -> list[BaseNode]:
        """Return the inputs that the compiled nodes read."""
        key = list(map(id, nodes))
        if self._inputs is None or self._inputs[0] != key:
            simpler = simplified(nodes)
            leaves = topological_order(simpler[node] for node in nodes)
            self._inputs = key, [leaf for leaf in leaves if isinstance(leaf, Input | IndexInput)]
        return self._inputs[1]

    def _totals_of(self, outputs: Sequence[BaseNode], given: Mapping[BaseNode, Any]) -> Totals:
        """Return how to compute the outputs for all rows from their values for batches of these columns."""
        columns = frozenset(
            leaf for leaf, array in given.items() if isinstance(array, RaggedArray) or array.ndim == len(leaf.dims)
        )
        key = tuple(map(id, outputs)), columns
        if self._totals is None or self._totals[0] != key:
            self._totals = key, Totals(outputs, columns, simplified)
        return self._totals[1]

    def _engine_of(self, nodes: Sequence[BaseNode]) -> Engine:
        key = tuple(map(id, nodes))
        if self._engine is None or key != self._nodes:
            _refuse_training(nodes)
            self._nodes, self._engine = key, self._made(nodes)
        return self._engine


def _refuse_training(nodes: Sequence[BaseNode]) -> None:
    for mode in modes_of(nodes):
        raise OptionError(
            f"{mode.node} was built in training mode, so a mean over data would be that of training. Build the "
            f"graph again after model.eval(), and evaluate a program of it: wy.compile(model(x)...); "
            f"fit takes that program as evaluation="
        )


def _warn(totals: Totals, measured: Sequence[Sequence[BaseNode]]) -> None:
    """Issue warnings of outputs and arguments of metrics that depend on what they should not."""
    if totals.mixed:
        warn_of_rows(totals.mixed, totals.columns)
    for arguments in measured:
        warn_of_measured(arguments, totals.columns)


def _arguments_of_metrics(metrics: Mapping[str, Any]) -> list[BaseNode]:
    if not isinstance(metrics, Mapping):
        raise TypeError(f"metrics must be a dict {{name: (metric, targets, predictions)}}, not {metrics!r}")
    for name, entry in metrics.items():
        nodes = entry[1:] if isinstance(entry, tuple) else ()
        running = nodes and all(callable(getattr(entry[0], name, None)) for name in ("update", "compute", "reset"))
        if not running or not all(isinstance(node, BaseNode) for node in nodes):
            raise TypeError(
                f"the metric {name!r} must be a running metric and the nodes that it is updated with, as in "
                f"(wy.metrics.Accuracy(), labels, predicted), not {entry!r}"
            )
    return [node for _, *nodes in metrics.values() for node in nodes]


def _batch_size(columns: Columns, batch_size: int | None) -> int:
    given, rows, singly = columns
    fixed = [size for leaf in given if not singly and (size := axis_size(leaf.dims[0])) is not None]
    if batch_size is None:
        batch_size = 1 if singly else fixed[0] if fixed else min(rows, _BATCH)
    size = whole("batch_size", batch_size, 1)
    columns.check_batches(size)
    return size


def _has_rows(output: BaseNode, given: Mapping[BaseNode, Any], singly: bool) -> bool:
    """Return whether the output has a number for each row; raise if it is neither that nor a scalar."""
    if not output.dims:
        return False
    if not singly and len(output.dims) == 1 and any(output.dims[0] == leaf.dims[0] for leaf in given):
        return True
    raise ShapeError(
        f"{describe(output)} has several numbers for a row, so it has no mean over the rows: reduce it, as with "
        f".mean(axis=-1), or call the program for its values"
    )


def merged(names: Sequence[str], means: Sequence[float], measured: dict[str, Any]) -> dict[str, Any]:
    """Return the means by name and the results of metrics in one dict; raise `OptionError` if a name is repeated."""
    repeated = [name for i, name in enumerate([*names, *measured]) if name in [*names, *measured][:i]]
    if repeated:
        raise OptionError(f"several results are called {repeated[0]!r}: give the nodes names, or the metrics others")
    return dict(zip(names, means, strict=True)) | measured
