"""Labels, operands and weights of losses: their checks, ignored labels, and the mean that divides by weights."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size, unify
from wyrm.graph.base import BaseNode, describe, format_dims
from wyrm.graph.index_operands import HasIndexOperands, IndexOperand
from wyrm.graph.leaves import Constant
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.source_location import user_level, user_location
from wyrm.graph.storage import stored
from wyrm.graph.typing import Array, Indices, IntegerArray
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes, as_operand
from wyrm.ops.indexing.index import as_indices
from wyrm.reach.rules import REACH, SamePlace

# The ignored label of kernels if `ignore_index` is None: no class has it.
_NO_LABEL = -(2**62)


def ignored_label(ignore_index: int | None) -> int:
    """Return `ignore_index` or, if it is None, a label that no row has."""
    return _NO_LABEL if ignore_index is None else ignore_index


class CountedLabels(HasIndexOperands[tuple[IndexNode], Axes], IndexNode[Axes]):
    """The labels, with `ignore_index` replaced by class 0, so that they select a class in every row.

    `classes` is the axis of classes, which has at least one. Labels are in 0..classes - 1 or `ignore_index`.
    """

    __slots__ = ("classes", "ignore_index")
    written = "cross_entropy"
    classes: Axis
    ignore_index: int

    def __init__(self, labels: IndexNode | Indices, classes: Axis, ignore_index: int) -> None:
        self._construct((as_indices(labels),), classes=classes, ignore_index=ignore_index)

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(0, self.classes, self.ignore_index),)

    @property
    def within(self) -> Axis | None:
        """The axis that the values index, or None if it may have size 0, which has no class 0."""
        return self.classes if axis_size(self.classes) else None

    def shape_rule(self) -> Dims:
        if axis_size(self.classes) == 0:
            raise ShapeError("the axis of classes has size 0")
        dims: Dims = self.parents[0].dims
        return dims

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> Array:
        labels = operands[0]
        return xp.where(labels == self.ignore_index, labels.dtype.type(0), labels)

    def batched(self, operands: Sequence[IndexNode], mapped: Sequence[bool]) -> IndexNode | None:
        return CountedLabels(operands[0], self.classes, self.ignore_index)


REACH.register(CountedLabels)(SamePlace())


@LOOPS.register(CountedLabels)
class _CountedLabelsLoops(ByKernel):
    @staticmethod
    def kernel(labels: IntegerArray, out: IntegerArray, ignored: int) -> None:
        for i in range(out.size):
            out[i] = 0 if labels[i] == ignored else labels[i]

    def kernel_arguments(
        self, node: CountedLabels, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        return operands[0].reshape(-1), out.reshape(-1), node.ignore_index


def as_node(loss: str, name: str, value: Node | IndexNode | Array | float, beside: Node | None = None) -> Node:
    """Return `value` as a float node; beside another node, an array or a mask takes the dtype of that node."""
    if isinstance(value, IndexNode):
        raise DTypeError(
            f"{loss}: {name} must be float, and {describe(value)} holds integer indices: look them up in a table, as "
            f"in wy.nn.Embedding(1000, 16)(indices), or for numbers use a wy.Input or .astype(np.float32)"
        )
    if isinstance(value, Node):
        if value.dtype.kind == "f":
            return value
        if beside is None:
            raise DTypeError(f"{loss}: {name} must be float, and {describe(value)} is a mask")
        return value.astype(beside.dtype)
    node = None if beside is None else as_operand(value, beside)
    if node is None:
        allowed = "a node" if beside is None else "a node or a NumPy array of numbers"
        raise DTypeError(f"{loss}: {name} must be {allowed}, not {type(value).__name__}")
    return node


def check_axes(rule: str, node: BaseNode, wanted: Dims, operands: Mapping[str, BaseNode]) -> None:
    """Raise `ShapeError`, with the rule and all operands, unless the node has the axes `wanted`."""
    dims: Dims = node.dims
    if dims == wanted:
        return
    try:
        if len(dims) != len(wanted):
            raise ShapeError(f"{format_dims(wanted)} against {format_dims(dims)}")
        for left, right in zip(wanted, dims, strict=True):
            unify(left, right)
    except ShapeError as error:
        width = max(map(len, operands))
        location = user_location()
        lines = [f"{rule}: {error}"]
        lines += [f"  {name:{width}}  {describe(operand)}" for name, operand in operands.items()]
        raise ShapeError("\n".join([*lines, f"  at {location.filename}:{location.line}: {location.source}"])) from None


def checked_weights(loss: str, name: str, weights: Node | Array | float, beside: Node) -> Node:
    """Return weights as a node; raise `ValueError` if an array of weights has negative ones."""
    node = as_node(loss, name, weights, beside)
    if isinstance(node, Constant):
        array = np.asarray(stored(node).array)
        if not (array >= 0.0).all():
            raise ValueError(f"{loss}: {name} must be at least 0, but holds {array[~(array >= 0.0)][0]}")
    return node


def sample_weights(loss: str, weights: Node | Array, scores: Node, dims: Any, name: str = "sample_weight") -> Node:
    """Return the weights of the losses, which have the axes `dims`; weights of the leading axes are repeated."""
    node = checked_weights(loss, name, weights, scores)
    rule = f"{loss}: {name} must have the axes of the losses, {format_dims(dims)}, or their leading axes"
    check_axes(rule, node, dims[: node.ndim], {"scores": scores, name: node})
    missing = len(dims) - node.ndim
    axes: Any = (*node.dims, *[1] * missing)
    return node.reshape(axes).broadcast_to(dims) if missing else node


def warn_of_probabilities(loss: str, scores: Node, made_by: str, needed: str) -> None:
    """Issue a `RuntimeWarning` if scores are the result of the method `made_by`, where the loss needs something else.

    The loss is then still a number that falls in training, so nothing else tells of the mistake.
    """
    if getattr(scores, "method", None) == made_by:
        warnings.warn(
            f"{loss} takes {needed}, but is given probabilities: {describe(scores)}", RuntimeWarning, user_level()
        )


def weighted_mean(total: Node, weights: Node) -> Node:
    """Return the sum of weighted losses divided by the sum of the weights, or 0 if all weights are 0."""
    count = weights.sum()
    return total.sum() / where(count.equal(0.0), 1.0, count)


__all__ = [
    "CountedLabels",
    "as_node",
    "check_axes",
    "checked_weights",
    "sample_weights",
    "warn_of_probabilities",
    "weighted_mean",
]
