"""The kernels of a linear layer with cross-entropy, and the parts of its residuals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Dims, Plus, axis_size
from wyrm.graph.base import ZERO, Gradient, format_dims, label
from wyrm.graph.index_maps import IndexLiteral, IndexMap
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, ByKernel, Decomposed, Gathered, KernelArgument
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, FloatArray, IntegerArray
from wyrm.ops.cross_entropy.jax_form import ResidualsPartForm
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.elementwise.fast_math import LOG2_E, exp2_negative, largest
from wyrm.ops.kernels.sums import accumulated
from wyrm.ops.products.narrow_product import multiply_widened


class _PartOfResiduals(Node[tuple[Node, Node, Node], Axes], abstract=True):
    """Base class of ops on one part of the residuals; the parents are the residuals or the part, x and the weight."""

    __slots__ = ("of_weight", "part")
    part: Literal["loss", "weight", "x"]
    # Whether the gradient with respect to the weight is among the residuals.
    of_weight: bool

    def __init__(
        self, operand: Node, x: Node, weight: Any, part: Literal["loss", "weight", "x"], of_weight: bool = True
    ) -> None:
        self._construct((operand, x, weight), part=part, of_weight=of_weight)

    def dtype_rule(self) -> np.dtype:
        return self.parents[0].dtype

    def _dims(self) -> tuple[Dims, Dims]:
        """Return the axes of the residuals and of the part."""
        x, weight = self.parents[1:]
        parts: dict[str, Dims] = {"loss": (1,), "weight": weight.dims, "x": x.dims}
        above = (weight.dims[0], 1) if self.of_weight else (1,)
        return (Plus((*above, x.dims[0])), x.dims[1]), parts[self.part]

    def _first(self) -> int:
        """Return the first row of the part in the residuals."""
        classes = axis_size(self.parents[2].dims[0]) if self.of_weight else 0
        assert classes is not None
        return {"weight": 0, "loss": classes, "x": classes + 1}[self.part]

    def _check_dims(self, expected: Dims) -> None:
        """Raise `ShapeError` unless the first parent has the expected sizes."""
        dims: Dims = self.parents[0].dims
        if list(map(axis_size, dims)) != list(map(axis_size, expected)):
            raise ShapeError(
                f"{label(self.parents[0])} must have the axes {format_dims(expected)}, not {format_dims(dims)}"
            )


class ResidualsPart(_PartOfResiduals[Axes]):
    """A view of the loss, (1,), or of one gradient in the residuals."""

    __slots__ = ()
    is_view = True

    def shape_rule(self) -> Dims:
        residuals, part = self._dims()
        self._check_dims(residuals)
        return part

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        residuals, first = operands[0], self._first()
        return residuals[first, :1] if self.part == "loss" else residuals[first : first + shape[0]]

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return PlaceInResiduals(gradient, *self.parents[1:], self.part, self.of_weight), ZERO, ZERO


JAX.register(ResidualsPart)(ResidualsPartForm)


class CrossEntropyLoops(ByKernel):
    """The form of residuals, parts of which may be computed in another way."""

    def part_alone(self, node: Any, part: Literal["loss", "weight", "x"]) -> Node | None:
        """Return a part of the residuals without the others; None where it is a part of the array of all."""
        return None


@LOOPS.register(ResidualsPart)
class _ResidualsPartLoops(Decomposed, Gathered):
    preserves_layout = True

    def decompose(self, node: ResidualsPart) -> Node | None:
        form = LOOPS.of(node.parents[0])
        return form.part_alone(node.parents[0], node.part) if isinstance(form, CrossEntropyLoops) else None

    def gather_index(self, node: ResidualsPart, index: IndexMap) -> IndexMap:
        first = node._first()
        if node.part == "loss":
            return IndexLiteral(first), index[0]
        row, column = index
        return first + row, column


class PlaceInResiduals(_PartOfResiduals[Axes]):
    """Residuals that are zero outside of one part: the transpose of `ResidualsPart`."""

    __slots__ = ()

    def shape_rule(self) -> Dims:
        residuals, part = self._dims()
        self._check_dims(part)
        return residuals

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        part, first = operands[0], self._first()
        if self.part == "loss":
            part = xp.where(xp.arange(shape[1]) == 0, part, part.dtype.type(0))[None]
        before, after = (
            xp.zeros((count, shape[1]), dtype=self.dtype) for count in (first, shape[0] - first - part.shape[0])
        )
        return xp.concat([before, part, after])

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return ResidualsPart(gradient, *self.parents[1:], self.part, self.of_weight), ZERO, ZERO


@LOOPS.register(PlaceInResiduals)
class _PlaceInResidualsLoops(ByKernel):
    @staticmethod
    def kernel(part: FloatArray, out: FloatArray, first: int) -> None:
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                inside = 0 <= i - first < part.shape[0] and j < part.shape[1]
                out[i, j] = part[i - first, j] if inside else 0

    def kernel_arguments(
        self, node: PlaceInResiduals, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        part = operands[0]
        return part.reshape(-1, part.shape[-1]), out, node._first()


# Terms of a partial sum in float32; partial sums are added in float64.
PARTIAL_SUM = 1024


def weight_of(i: int, labels: IntegerArray, sample_weights: FloatArray, ignore_index: int) -> float:
    """Return the weight of row i: 0 if its label is ignored, and 1 if `sample_weights` is empty."""
    if labels[i] == ignore_index:
        return 0.0
    return 1.0 if sample_weights.size == 0 else float(sample_weights[i])


def sum_of_weights(labels: IntegerArray, sample_weights: FloatArray, ignore_index: int) -> float:
    """Return the sum of the weights of all rows; 1 in place of 0, to divide by."""
    total = 0.0
    for i in range(labels.size):
        total += weight_of(i, labels, sample_weights, ignore_index)
    return total if total != 0.0 else 1.0


def exponentiate_part(logits: FloatArray, maximum: np.floating) -> Any:
    """`logits = exp(logits - maximum)` in place; return the sum."""
    total = logits.dtype.type(0)
    for j in range(logits.size):
        logits[j] = exp2_negative((logits[j] - maximum) * logits.dtype.type(LOG2_E))
        total = accumulated(total, logits[j])
    return total


def exponentiate(logits: FloatArray, maximum: np.floating) -> np.floating:
    """`logits = exp(logits - maximum)` in place; return the sum, computed in parts to keep its digits."""
    total = 0.0
    for first in range(0, logits.size, PARTIAL_SUM):
        total += exponentiate_part(logits[first : first + PARTIAL_SUM], maximum)
    return logits.dtype.type(total)


def mean_distance(x: FloatArray, maximum: np.floating) -> np.floating:
    """Return the mean of `x - maximum`."""
    total = 0.0
    for j in range(x.size):
        total = accumulated(total, x[j] - maximum)
    return x.dtype.type(total / x.size)


def scale(x: FloatArray, factors: FloatArray) -> None:
    """`x *= factors` in place, if there are factors."""
    for i in range(factors.size):
        x[i] *= factors[i]


def loss_row(logits: FloatArray, label: int, label_smoothing: np.floating) -> tuple[Any, np.floating]:
    """Return the cross-entropy of one row and the sum of its exponentials, which replace the logits in place."""
    maximum = largest(logits)
    # Relative to the maximum: large logits that are close lose no digits.
    target_logit = (1 - label_smoothing) * (logits[label] - maximum)
    if label_smoothing > 0:
        target_logit += label_smoothing * mean_distance(logits, maximum)
    total = exponentiate(logits, maximum)
    return np.log(total) - target_logit, total


def cross_entropy_kernel(
    x: FloatArray,
    weight: FloatArray,
    labels: IntegerArray,
    sample_weights: FloatArray,
    out: FloatArray,
    label_smoothing: np.floating,
    ignore_index: int,
    logits: FloatArray,
    factors: FloatArray,
) -> None:
    """Fill `out`, of shape (1,), with the mean loss of rows whose label is not ignored.

    `sample_weights` are the weights of rows, none if it is empty. `logits` is scratch memory of shape (rows of a block,
    classes). The weight may have narrow numbers, with `factors` of the classes, none if it is empty.
    """
    weights, total = sum_of_weights(labels, sample_weights, ignore_index), 0.0
    for first in range(0, x.shape[0], logits.shape[0]):
        last = min(first + logits.shape[0], x.shape[0])
        multiply_widened(x[first:last], weight.T, logits[: last - first])
        for i in range(first, last):
            if labels[i] != ignore_index:
                scale(logits[i - first], factors)
                loss, _ = loss_row(logits[i - first], labels[i], label_smoothing)
                total += loss * weight_of(i, labels, sample_weights, ignore_index)
    out[0] = total / weights


def targets_kernel(labels: IntegerArray, out: FloatArray, label_smoothing: np.floating, ignore_index: int) -> None:
    """Fill `out`, of shape (rows, classes), with the target probabilities; zeros where a label is ignored."""
    for i in range(out.shape[0]):
        is_counted = labels[i] != ignore_index
        for j in range(out.shape[1]):
            out[i, j] = label_smoothing / out.shape[1] if is_counted else 0
        if is_counted:
            out[i, labels[i]] += 1 - label_smoothing
