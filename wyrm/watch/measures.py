"""What a run records of a model, and how often: norms by module, updates, histograms, gradients and dead units.

`Parameters` measures the parameters themselves, `Probe` computes gradients beside the training. `Budget` and `Pace`
limit the time and the number of records.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from wyrm.engines.numpy.reference import ReferenceRunner
from wyrm.errors import OptionError
from wyrm.graph.axes import axis_size
from wyrm.graph.base import BaseNode, label
from wyrm.graph.parameters import Buffer, Parameter
from wyrm.graph.rows import RowSparse
from wyrm.graph.storage import bound_array, store, stored
from wyrm.graph.traversal import copied, topological_order
from wyrm.ops.convolution.convolution import ConvolutionOp
from wyrm.ops.elementwise.activation import Relu
from wyrm.ops.elementwise.elementwise import Elementwise
from wyrm.ops.gradients import grad
from wyrm.optim.clipping import limited

# --- parameters -------------------------------------------------------------------------------------------------------

# The most elements of a parameter, evenly spaced, from which its updates and its histogram are computed.
_UPDATE_SAMPLE, _HISTOGRAM_SAMPLE = 1 << 20, 1 << 16
_BINS = 40


class Parameters:
    """The named parameters of a model, grouped by the modules that hold them.

    The module of `blocks.0.hidden.weight` is `blocks.0.hidden`; a parameter without a module stands alone.
    """

    def __init__(self, named: Mapping[str, Parameter]) -> None:
        self.named: dict[str, Parameter[Any]] = dict(named)
        self._groups: dict[str, list[Parameter]] = {}
        for name, parameter in self.named.items():
            self._groups.setdefault(name.rpartition(".")[0] or name, []).append(parameter)
        self.modules: list[str] = list(self._groups)
        self.sizes: list[int] = [sum(math.prod(p.shape) for p in group) for group in self._groups.values()]
        self._held: dict[Parameter, np.ndarray] = {}

    @property
    def elements(self) -> int:
        """The number of elements of all parameters."""
        return sum(self.sizes)

    def weights(self) -> list[float]:
        """Return the Euclidean norm of each module's parameters."""
        return [_norm([bound_array(parameter) for parameter in group]) for group in self._groups.values()]

    def gradients(self, found: Mapping[Parameter, np.ndarray | RowSparse]) -> list[float]:
        """Return the Euclidean norm of each module's gradients."""
        return [
            _norm([_own_elements(found[parameter]) for parameter in group if parameter in found])
            for group in self._groups.values()
        ]

    def hold(self) -> None:
        """Keep the parameters as they are, for `updates`."""
        self._held = {parameter: _sample(parameter, _UPDATE_SAMPLE).copy() for parameter in self.named.values()}

    @property
    def holds(self) -> bool:
        """Whether parameters are kept."""
        return bool(self._held)

    def updates(self) -> list[float]:
        """Return by module the norm of the change since `hold`, relative to the norm of the parameters then.

        A parameter with more than a million elements is sampled, evenly spaced.
        """
        held, self._held = self._held, {}
        ratios = []
        for group in self._groups.values():
            before = _norm([held[parameter] for parameter in group])
            after = [_sample(parameter, _UPDATE_SAMPLE) for parameter in group]
            change = _norm([now - held[parameter] for parameter, now in zip(group, after, strict=True)])
            ratios.append(change / before if before else math.nan if change else 0.0)
        return ratios

    def histograms(self, found: Mapping[Parameter, np.ndarray | RowSparse]) -> dict[str, dict[str, list[Any]]]:
        """Return the histograms of the parameters and of gradients, by the parameters' names."""
        return {
            "weights": {name: histogram(bound_array(parameter)) for name, parameter in self.named.items()},
            "gradients": {
                name: histogram(_own_elements(found[parameter]))
                for name, parameter in self.named.items()
                if parameter in found
            },
        }


def current_gradients(parameters: Sequence[Parameter]) -> dict[Parameter, np.ndarray | RowSparse]:
    """Return the gradients that parameters hold after a backward pass, without copies."""
    held = {parameter: parameter._storage.gradient for parameter in parameters}
    return {parameter: gradient for parameter, gradient in held.items() if gradient is not None}


def histogram(values: np.ndarray) -> list[Any]:
    """Return the lowest and the highest element, the counts of 40 equal bins between, and how many are not finite.

    An array with more than 65,536 elements is sampled, evenly spaced.

    >>> histogram(np.array([0.0, 1.0, 1.0, np.inf]))[:2], sum(histogram(np.array([0.0, 1.0]))[2])
    ([0.0, 1.0], 2)
    """
    flat = _spaced(values, _HISTOGRAM_SAMPLE)
    finite = flat[np.isfinite(flat)].astype(np.float64)
    if not finite.size:
        return [0.0, 0.0, [0] * _BINS, int(flat.size)]
    low, high = float(finite.min()), float(finite.max())
    # If all numbers are equal, the bins would have no width.
    counts = np.histogram(finite, _BINS, (low, high) if high > low else (low - 0.5, low + 0.5))[0]
    return [low, high, counts.tolist(), int(flat.size - finite.size)]


def _own_elements(gradient: np.ndarray | RowSparse) -> np.ndarray:
    """Return the elements of a gradient that can differ from zero."""
    return gradient.summed().values if isinstance(gradient, RowSparse) else gradient


def _sample(parameter: Parameter, most: int) -> np.ndarray:
    return _spaced(bound_array(parameter), most)


def _spaced(values: np.ndarray, most: int) -> np.ndarray:
    """Return the elements, or at most `most` of them, evenly spaced."""
    flat = values.reshape(-1)
    # An odd step, so that a matrix with an even number of columns is not sampled in a few of them.
    return flat if flat.size <= most else flat[:: -(-flat.size // most) | 1]


def _norm(arrays: Sequence[np.ndarray]) -> float:
    return limited(arrays, math.inf)[0]


# --- gradients --------------------------------------------------------------------------------------------------------

# Elements of all nodes of a probe: about a quarter of a second, and a few hundred megabytes.
_ELEMENTS = 1 << 24
_MOST_ELEMENTS = 1 << 27
# Estimates for the first probe, before its time is known.
_SECONDS_BY_NODE, _SECONDS_BY_ELEMENT = 1e-4, 1e-8


class Probed(NamedTuple):
    """The gradients, the numbers of dead units and of all units of each activation, and the rows of the batch."""

    gradients: dict[Parameter, np.ndarray | RowSparse]
    dead: dict[str, tuple[int, int]]
    rows: int


class Probe:
    """Computes the gradients of a loss and its dead units on batches, by the reference engine.

    It evaluates a copy of the graph, so it compiles nothing, counts no step, and leaves buffers, gradients and inputs
    as they are. A batch has at most `batch_size` rows, fewer if its nodes would have more than 16 million elements.

    A unit is an index along the last axis of a `relu`, or along the channels after a convolution. It is dead in a batch
    if the `relu` is zero there for all rows and positions.
    """

    def __init__(self, loss: BaseNode, parameters: Sequence[Parameter], inputs: Sequence[BaseNode], batch_size: int):
        self._loss, self._parameters, self._inputs = loss, list(parameters), list(inputs)
        nodes = topological_order([loss])
        elements = sum(math.prod(axis_size(axis) or 1 for axis in node.dims) for node in nodes if not node.is_leaf)
        if elements > _MOST_ELEMENTS:
            raise OptionError(f"the nodes of one row have {elements:,} elements, too many for the reference engine")
        fixed = {size for leaf in inputs if leaf.dims and (size := axis_size(leaf.dims[0])) is not None}
        self._rows = max(1, min(batch_size, _ELEMENTS // max(elements, 1)))
        if batch_size in fixed:
            self._rows = batch_size
        self._random = np.random.default_rng(0)
        self._runner: ReferenceRunner | None = None
        self._copies: dict[BaseNode, BaseNode] = {}
        self._activations: dict[str, tuple[BaseNode, int]] = {}
        # The seconds of the last probe, at first an estimate.
        self.seconds: float = 3 * len(nodes) * _SECONDS_BY_NODE + 3 * self._rows * elements * _SECONDS_BY_ELEMENT

    def _build(self) -> ReferenceRunner:
        """Return a runner of a copy of the graph and its gradients."""
        memo: dict[int, Any] = {}
        copies_of = {*self._inputs, *self._parameters}
        for node in topological_order([self._loss]):
            if node.is_leaf and node not in copies_of and not isinstance(node, Buffer | Parameter):
                memo[id(node)] = node
        loss: Any = copied(self._loss, memo)
        nodes = topological_order([self._loss])
        self._copies = {node: memo[id(node)] for node in nodes if node.is_leaf and memo[id(node)] is not node}
        for node in nodes:
            if isinstance(node, Relu):
                place = f"{node.module_path}, " if node.module_path else ""
                name = unused(f"{place}{label(node)} at {node.location}", self._activations)
                self._activations[name] = memo[id(node)], _unit_axis(node)
        # They are parameters.
        gradients = grad(loss, [self._copies[parameter] for parameter in self._parameters])  # type: ignore[misc]
        self._gradients = dict(zip(self._parameters, gradients, strict=True))
        return ReferenceRunner([*gradients, *(node for node, _ in self._activations.values())])

    def __call__(self, columns: Mapping[BaseNode, np.ndarray]) -> Probed:
        """Compute everything on some rows of these columns, drawn at random."""
        batch, rows = self._batch(columns)
        if self._runner is None:
            self._runner = self._build()
        for leaf, copy in self._copies.items():
            array = batch.get(leaf)
            store(stored(copy), bound_array(leaf) if array is None else array)
        with np.errstate(all="ignore"):
            plan = self._runner.run()
        dead = {}
        for name, (node, axis) in self._activations.items():
            alive = np.moveaxis(np.asarray(plan.value(node)) != 0.0, axis, 0)
            alive = alive.reshape(len(alive), -1).any(axis=1)
            dead[name] = int(alive.size - np.count_nonzero(alive)), int(alive.size)
        return Probed({leaf: plan.value(node) for leaf, node in self._gradients.items()}, dead, rows)

    def _batch(self, columns: Mapping[BaseNode, np.ndarray]) -> tuple[dict[BaseNode, np.ndarray], int]:
        """Return random rows of the columns, or one row if the inputs take one at a time."""
        leaf, column = next(iter(columns.items()))
        if column.ndim > len(leaf.dims):
            row = int(self._random.integers(len(column)))
            return {leaf: column[row] for leaf, column in columns.items()}, 1
        size = min(self._rows, len(column))
        start = int(self._random.integers(len(column) - size + 1))
        if len(column) < 1 << 20:
            rows: Any = np.sort(self._random.choice(len(column), size, replace=False))
        else:  # a choice without replacement would take time in proportion to all rows
            rows = slice(start, start + size)
        return {leaf: column[rows] for leaf, column in columns.items()}, size


def _unit_axis(node: BaseNode) -> int:
    """Return the axis of an activation's units, as a negative number: the channels after a convolution, else the last.

    >>> x = wy.Input(dims=(2, 3, 8, 8))
    >>> _unit_axis(wy.nn.Conv2d(3, 4, kernel_size=3)(x).relu()), _unit_axis(wy.nn.Linear(8, 4)(x).relu())
    (-3, -1)
    """
    operands = list(node.parents)
    for _ in range(8):
        for operand in operands:
            if isinstance(operand, ConvolutionOp):
                return 1 - len(operand.dims)
        operands = [
            parent
            for operand in operands
            if isinstance(operand, Elementwise)
            for parent in operand.parents
            if len(parent.dims) == len(node.dims)
        ]
    return -1


def unused(name: str, taken: Collection[str]) -> str:
    """Return the name, with a number if it is taken.

    >>> unused("weight", ["weight", "weight (2)"])
    'weight (3)'
    """
    numbered, count = name, 1
    while numbered in taken:
        count += 1
        numbered = f"{name} ({count})"
    return numbered


# --- time -------------------------------------------------------------------------------------------------------------

# The time between records: at least so many seconds, and so large a fraction of the elapsed time. A training of three
# days writes some 10,000 records of values, 3,000 of modules and 200 of histograms.
VALUES, MODULES, HISTOGRAMS_PACE = (0.2, 1 / 2000), (1.0, 1 / 500), (5.0, 1 / 30)
TENSORBOARD = (2.0, 1 / 300)


class Budget:
    """The share of a training's time that recording may take; `with budget:` measures time that it takes.

    >>> budget = Budget(0.5)
    >>> budget.affords(100.0)
    False
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self.spent: float = 0.0
        self.start: float = time.perf_counter()
        self._entered = 0.0
        self._depth = 0

    def __enter__(self) -> Budget:
        if not self._depth:
            self._entered = time.perf_counter()
        self._depth += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._depth -= 1
        if not self._depth:
            self.spent += time.perf_counter() - self._entered

    def affords(self, seconds: float) -> bool:
        """Return whether recording may take so many seconds more now."""
        return self.spent + seconds <= self.share * (time.perf_counter() - self.start)


class Pace:
    """When a record is due: at least `least` seconds after the last, and `fraction` of the elapsed time.

    So the number of records grows with the logarithm of a long training.

    >>> pace = Pace(least=1.0, fraction=0.01)
    >>> [pace.due(at) for at in (0.0, 0.5, 1.0, 500.0)], pace.take(500.0)
    ([True, True, True, True], None)
    >>> [pace.due(at) for at in (504.0, 506.0)]
    [False, True]
    """

    def __init__(self, least: float, fraction: float) -> None:
        self._least, self._fraction = least, fraction
        self.next: float = 0.0

    def due(self, elapsed: float) -> bool:
        """Return whether a record is due."""
        return elapsed >= self.next

    def take(self, elapsed: float) -> None:
        """Count a record that was written."""
        self.next = elapsed + max(self._least, self._fraction * elapsed)
