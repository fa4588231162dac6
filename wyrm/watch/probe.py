"""Gradients and dead units of a loss on one batch, computed without effect on the training."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
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
from wyrm.ops.convolution.base import ConvolutionOp
from wyrm.ops.elementwise.activation import Relu
from wyrm.ops.elementwise.elementwise import Elementwise
from wyrm.ops.gradients import grad

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
        self.seconds = 3 * len(nodes) * _SECONDS_BY_NODE + 3 * self._rows * elements * _SECONDS_BY_ELEMENT

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
        gradients = grad(loss, [self._copies[parameter] for parameter in self._parameters])  # type: ignore[misc]  # parameters
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
