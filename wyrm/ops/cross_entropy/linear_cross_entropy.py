"""A fused linear layer with cross-entropy, which never materializes the logits of all rows.

`LinearCrossEntropyResiduals` computes the loss and both gradients block by block, while the logits of the block are in
the cache. `LinearCrossEntropy` computes only the loss; a program that also computes the gradients reads the loss from
the residuals. Native code has ops of their own for a weight in narrow numbers, which has no gradient: it reads them as
they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Axis, Dims, Plus, axis_size, product, unify
from wyrm.graph.base import ZERO, Gradient, format_dims, label
from wyrm.graph.index_operands import HasIndexOperands, IndexOperand
from wyrm.graph.jax_form import JAX
from wyrm.graph.leaves import Constant, as_constant
from wyrm.graph.loop_form import LOOPS, ByKernel, Decomposed, KernelArgument
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.parameters import NarrowWeight
from wyrm.graph.typing import Array, Bs, FloatArray, Indices, IntegerArray, M, N
from wyrm.ops.composed import Composed
from wyrm.ops.cross_entropy.jax_form import CrossEntropyForm, CrossEntropyResidualsForm
from wyrm.ops.cross_entropy.kernels import (
    CrossEntropyLoops,
    ResidualsPart,
    cross_entropy_kernel,
    targets_kernel,
)
from wyrm.ops.cross_entropy.labels import ignored_label, sample_weights
from wyrm.ops.cross_entropy.residuals_kernel import cross_entropy_residuals_kernel, cross_entropy_slopes_kernel
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes, common_dtype
from wyrm.ops.indexing.index import as_indices
from wyrm.ops.indexing.joining import concatenate
from wyrm.ops.indexing.narrow_rows import widened
from wyrm.ops.kernels.native import scratch
from wyrm.ops.shaping.arange import positions
from wyrm.reach.rules import REACH, Reach
from wyrm.reach.ways import How, Places, Way, ways_by

# Bytes of logits in a block of rows, or those of the weight if these are more: each block packs the weight twice, and
# reads and writes its gradient.
_LOGITS_BYTES = 2**21
# Least number of rows in a block: matrix products of fewer rows are slow.
_FEWEST_ROWS = 64
# Gradients of fewer rows or classes, or of wider rows, are computed by rows: by classes, their products and loops are
# not faster, and products of a few columns are less accurate.
_FEWEST_BY_CLASSES, _WIDEST_BY_CLASSES = 32, 256
# By classes, rows are divided into equal blocks of whole vectors, or two.
_BYTES_BY_CLASSES, _MOST_BY_CLASSES, _ROWS_TOGETHER = 6 * 2**20, 256, 32
# The classes of a chunk: products of fewer leave threads waiting for each other, and the logits of more the cache.
_CLASSES_OF_CHUNK = 1024


class _LinearCrossEntropy(HasIndexOperands[Any, Axes], Composed[Any, Axes], abstract=True):
    """Base class of the fused ops.

    The parents are x, (rows, width), the weight, (classes, width), labels, and perhaps weights of the rows.
    """

    __slots__ = ("ignore_index", "label_smoothing")
    ignore_index: int | None
    label_smoothing: float

    def __init__(
        self,
        x: Node,
        weight: Node,
        labels: IndexNode | Indices,
        *sample_weights: Node,
        label_smoothing: float = 0.0,
        ignore_index: int | None = None,
    ) -> None:
        parents = (x, weight, as_indices(labels), *sample_weights)
        self._construct(parents, label_smoothing=label_smoothing, ignore_index=ignore_index)

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(2, self.parents[1].dims[0], self.ignore_index),)

    def dtype_rule(self) -> np.dtype:
        dtype = common_dtype([parent for parent in self.parents if parent is not self.parents[2]])
        if dtype.kind != "f":
            raise DTypeError("a mask has no logits; convert it with mask.astype(np.float32)")
        return dtype

    def _axes(self) -> tuple[Axis, Axis, Axis]:
        """Return the axes (rows, classes, width), or raise `ShapeError`."""
        x, weight, labels = self.parents[:3]
        for node, count in ((x, 2), (weight, 2), *((each, 1) for each in self.parents[2:])):
            if len(node.dims) != count:
                axes = "one axis" if count == 1 else f"{count} axes"
                raise ShapeError(f"{label(node)} must have {axes}, not {format_dims(node.dims)}")
        if axis_size(weight.dims[0]) in (None, 0):
            raise ShapeError(f"the axis of classes, the first of {label(weight)}, must have a size of at least 1")
        if not 0.0 <= self.label_smoothing < 1.0:
            raise ShapeError(f"label_smoothing must be in [0, 1), not {self.label_smoothing}")
        rows = unify(x.dims[0], labels.dims[0])
        for each in self.parents[3:]:
            rows = unify(rows, each.dims[0])
        return rows, weight.dims[0], unify(x.dims[1], weight.dims[1])

    def loss_and_slopes(self, x: Node, weight: Node, labels: IndexNode, *given: Node) -> tuple[Node, Node]:
        """Return the mean loss and the gradient with respect to the logits."""
        smoothing, counted = self.label_smoothing, None
        known: Any = labels
        weights: Node = given[0] if given else as_constant(1.0, self.dtype).broadcast_to(labels.dims)
        if self.ignore_index is not None:
            counted = labels != self.ignore_index
            known, weights = where(counted, labels, 0), where(counted, weights, 0.0)
        total = weights.sum()
        count = where(total.equal(0.0), 1.0, total)
        logits: Node = x @ weight.matrix_transpose()
        logits = logits - logits.max(1, keepdims=True).stop_gradient()
        exponentials = logits.exp()
        totals = exponentials.sum(1, keepdims=True)
        # Not a product of targets and logits: 0 * -inf would be NaN.
        of_labels: Node = logits.take_along_axis(known.reshape((*labels.dims, 1)), axis=1).squeeze(1)
        target_logits: Node = of_labels * (1.0 - smoothing)
        if smoothing > 0.0:
            target_logits = target_logits + logits.mean(1) * smoothing
        losses: Node = (totals.squeeze(1).log() - target_logits) * weights
        if counted is not None:
            losses = where(counted, losses, 0.0)
        targets: Node = LabelTargets(labels, weight, **self.attribute_values())
        slopes: Node = (exponentials / totals - targets) * weights.expand_dims(1) / count
        return losses.sum() / count, slopes


class _LinearCrossEntropyLoops(CrossEntropyLoops):
    def kernel_arguments(
        self, node: _LinearCrossEntropy, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        x, weight, labels, *given = operands
        weights = given[0] if given else np.empty(0, node.dtype)
        result = out.reshape(1) if out.ndim == 0 else out
        smoothing, ignored = node.dtype.type(node.label_smoothing), ignored_label(node.ignore_index)
        return x, weight, labels, weights, result, smoothing, ignored, *self.scratch(node.dtype, len(x), *weight.shape)

    @staticmethod
    def scratch(dtype: np.dtype, rows: int, classes: int, width: int) -> tuple[Array, ...]:
        """Return the kernel's scratch memory."""
        rows_in_cache = _LOGITS_BYTES // (classes * dtype.itemsize)
        block = max(_FEWEST_ROWS, rows_in_cache, width)
        return (scratch((max(1, min(block, rows)), classes), dtype),)


class LinearCrossEntropy(_LinearCrossEntropy[Axes]):
    """The mean over rows of `-log softmax(x @ weight.T)[label]`, a scalar.

    `x` has the axes (rows, width), `weight` (classes, width), `labels` (rows,). With `label_smoothing` s the target is
    `1 - s` at the label plus `s / classes` at every class (Szegedy et al., 2016). The mean excludes rows whose label is
    `ignore_index`; it is 0 if all are excluded. With weights of the rows it is the sum of the weighted losses divided
    by the sum of the weights.
    """

    __slots__ = ()

    def shape_rule(self) -> Dims:
        self._axes()
        return ()

    def compose(self, *operands: Any) -> Node:
        return self.loss_and_slopes(*operands)[0]

    def weight_of_rows(self) -> Node | None:
        labels, *given = self.parents[2:]
        if self.ignore_index is None:
            return given[0].sum() if given else None
        counted: Any = labels != self.ignore_index
        weight: Node = where(counted, given[0] if given else as_constant(1.0, self.dtype), 0.0).sum()
        return weight

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        residuals: LinearCrossEntropyResiduals = LinearCrossEntropyResiduals(*self.parents, **self.attribute_values())
        parts: list[Node] = [
            ResidualsPart(residuals, self.parents[0], self.parents[1], part) for part in ("x", "weight")
        ]
        if not (isinstance(gradient, Constant) and float(gradient.value) == 1.0):
            parts = [part * gradient for part in parts]
        return (*parts, ZERO, *(self._of_weights() * gradient for _ in self.parents[3:]))

    def _of_weights(self) -> Node:
        """Return the gradient with respect to the weights of the rows, which needs all logits."""
        x, weight, labels, weights = self.parents
        targets: Node = LabelTargets(labels, weight, **self.attribute_values())
        losses = -(targets * (x @ weight.matrix_transpose()).log_softmax()).sum(axis=-1)
        counted = targets.sum(axis=-1)
        total = (weights * counted).sum()
        gradient: Node = (losses - counted * self.erase()) / where(total.equal(0.0), 1.0, total)
        return gradient


@REACH.register(LinearCrossEntropy)
class _LinearCrossEntropyReach(Reach):
    """The mean over the rows, unless some count more than others."""

    composes = True

    def ways(self, node: LinearCrossEntropy) -> list[Way] | None:
        if node.ignore_index is not None or len(node.parents) > 3:
            return None
        places: list[Places] = [(0, ["row", "term"]), (1, ["class", "term"]), (2, ["row"])]
        return ways_by(node, places, {"row": How.AVERAGED, "term": How.ANY, "class": How.ANY})


@LOOPS.register(LinearCrossEntropy)
class _LinearCrossEntropyForwardLoops(Decomposed, _LinearCrossEntropyLoops):
    kernel = staticmethod(cross_entropy_kernel)

    def decompose(self, node: LinearCrossEntropy) -> Node | None:
        narrow: Node | None = _with_narrow_head(NarrowHeadLoss, node)
        return narrow

    @staticmethod
    def scratch(dtype: np.dtype, rows: int, classes: int, width: int) -> tuple[Array, ...]:
        logits = _LinearCrossEntropyLoops.scratch(dtype, rows, classes, width)
        return *logits, np.empty(0, dtype)  # without factors

    def part_of_residuals(self, node: LinearCrossEntropy) -> Node:
        x, weight, *_ = node.parents
        residuals: LinearCrossEntropyResiduals = LinearCrossEntropyResiduals(*node.parents, **node.attribute_values())
        return ResidualsPart(residuals, x, weight, "loss").reshape(())


class LinearCrossEntropyResiduals(_LinearCrossEntropy[Axes]):
    """One array of the loss and its gradients, of the axes (classes + 1 + rows, width).

    The rows are the gradient with respect to the weight, one row that starts with the loss, and the gradient with
    respect to x.
    """

    __slots__ = ()
    written = "linear_cross_entropy"

    def shape_rule(self) -> Dims:
        rows, classes, width = self._axes()
        return Plus((classes, 1, rows)), width

    def compose(self, x: Node, weight: Node, *others: Any) -> Node:
        loss, slopes = self.loss_and_slopes(x, weight, *others)
        places: Any = positions(x.dims[1])
        first: Node = where(places == 0, loss, 0.0).expand_dims(0)
        parts = concatenate([slopes.matrix_transpose() @ x, first, slopes @ weight])
        return parts.reshape(self.dims)


@LOOPS.register(LinearCrossEntropyResiduals)
class _LinearCrossEntropyResidualsLoops(_LinearCrossEntropyLoops):
    kernel = staticmethod(cross_entropy_residuals_kernel)

    def part_alone(
        self, node: LinearCrossEntropyResiduals, part: Literal["loss", "weight", "x"]
    ) -> ResidualsPart | None:
        slopes = _with_narrow_head(NarrowHeadSlopes, node)
        if slopes is None or part == "weight":
            return None
        return ResidualsPart(slopes, slopes.parents[0], slopes.parents[1], part, of_weight=False)

    @staticmethod
    def scratch(dtype: np.dtype, rows: int, classes: int, width: int) -> tuple[Array, ...]:
        if min(rows, classes) < _FEWEST_BY_CLASSES or width > _WIDEST_BY_CLASSES:
            by_rows = _LinearCrossEntropyLoops.scratch(dtype, rows, classes, width)
            return *by_rows, scratch((0, 0), dtype), *(scratch((0, 0, 0), each) for each in (dtype, np.float64, dtype))
        rows_in_cache = _BYTES_BY_CLASSES // (classes * dtype.itemsize * _ROWS_TOGETHER) * _ROWS_TOGETHER
        blocks = -(-rows // max(_FEWEST_ROWS, min(_MOST_BY_CLASSES, rows_in_cache)))
        block = -(-rows // (blocks * _ROWS_TOGETHER)) * _ROWS_TOGETHER
        chunks = -(-classes // _CLASSES_OF_CHUNK)
        shapes = (
            ((classes, block), dtype), ((5, block), dtype), ((chunks, 2, block), dtype),
            ((chunks + 1, 2, block), np.float64), ((chunks, block, width), dtype),
        )  # fmt: skip
        return tuple(scratch(*each) for each in shapes)


JAX.register(LinearCrossEntropy)(CrossEntropyForm)
JAX.register(LinearCrossEntropyResiduals)(CrossEntropyResidualsForm)


class LabelTargets(HasIndexOperands[tuple[IndexNode, Node], Axes], Node[tuple[IndexNode, Node], Axes]):
    """The target probabilities of the classes, (rows, classes); zeros where the label is ignored."""

    __slots__ = ("ignore_index", "label_smoothing")
    written = "linear_cross_entropy"
    ignore_index: int | None
    label_smoothing: float

    def __init__(self, labels: IndexNode, weight: Node, label_smoothing: float, ignore_index: int | None) -> None:
        self._construct((labels, weight), label_smoothing=label_smoothing, ignore_index=ignore_index)

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(0, self.parents[1].dims[0], self.ignore_index),)

    def dtype_rule(self) -> np.dtype:
        return self.parents[1].dtype

    def shape_rule(self) -> Dims:
        labels, weight = self.parents
        if len(labels.dims) != 1:
            raise ShapeError(f"{label(labels)} must have one axis, not {format_dims(labels.dims)}")
        return labels.dims[0], weight.dims[0]

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        labels = operands[0]
        one_hot = xp.astype(labels[:, None] == xp.arange(shape[1]), self.dtype)
        smoothing = self.dtype.type(self.label_smoothing)
        targets: FloatArray = one_hot * (1 - smoothing) + smoothing / self.dtype.type(max(shape[1], 1))
        if self.ignore_index is None:  # every row counts
            return targets
        return targets * xp.astype(labels != self.ignore_index, self.dtype)[:, None]

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return ZERO, ZERO


@LOOPS.register(LabelTargets)
class _LabelTargetsLoops(ByKernel):
    kernel = staticmethod(targets_kernel)

    def kernel_arguments(self, node: LabelTargets, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        return operands[0], out, node.dtype.type(node.label_smoothing), ignored_label(node.ignore_index)


def linear_cross_entropy(
    x: Node[Any, tuple[*Bs, N]],
    weight: Node[Any, tuple[M, N]],
    labels: IndexNode[tuple[*Bs]] | IntegerArray,
    *,
    sample_weight: Node | Array | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
) -> LinearCrossEntropy[tuple[()]]:
    """Return the mean cross-entropy of the logits `x @ weight.T`, a scalar, without materializing all logits.

    `x` has the axes (..., width), `weight` (classes, width), `labels` (...,). With `label_smoothing` s, in [0, 1), the
    target is `1 - s` at the label plus `s / classes` at every class. The mean excludes labels equal to `ignore_index`;
    it is 0 if all are excluded. `sample_weight`, a node or an array of the axes of the labels or their leading axes,
    multiplies the loss of each label; the mean divides by the sum of the weights of those that count.
    `wy.losses.cross_entropy` takes logits instead.

    Raise `ShapeError` where axes do not match, `IndexOutOfRange` for a label that is neither a class nor
    `ignore_index`, and `ValueError` for a `label_smoothing` out of range or an array with negative weights.

    >>> x, weight = wy.Constant(np.zeros((2, 3))), wy.Constant(np.ones((4, 3)))
    >>> wy.linear_cross_entropy(x, weight, np.array([1, 3])).forward().round(4).item()
    1.3863
    """
    if not 0.0 <= label_smoothing < 1.0:
        raise ValueError(f"linear_cross_entropy: label_smoothing must be in [0, 1), not {label_smoothing}")
    rows: Node = x
    wanted: IndexNode = as_indices(labels)
    weights: list[Node] = []
    if sample_weight is not None:
        weights = [sample_weights("linear_cross_entropy", sample_weight, rows, wanted.dims)]
    if len(rows.dims) != 2:
        count = product(rows.dims[:-1])
        rows, wanted = rows.reshape((count, rows.dims[-1])), wanted.reshape((count,))
        weights = [each.reshape((count,)) for each in weights]
    ignored = None if ignore_index is None else int(ignore_index)
    return LinearCrossEntropy(
        rows, weight, wanted, *weights, label_smoothing=float(label_smoothing), ignore_index=ignored
    )


# The rows of a block with a narrow weight, whose logits are the scratch memory: each block widens all of the weight,
# twice with slopes.
_NARROW_ROWS = 128


class _NarrowHead(HasIndexOperands[tuple[Any, ...], Axes], Node[tuple[Any, ...], Axes], abstract=True):
    """Base class of the ops with a weight in narrow numbers.

    The parents are x, (rows, width), the narrow numbers of the weight, labels, the factors of the classes if `scaled`,
    and perhaps weights of the rows.
    """

    __slots__ = ("ignore_index", "label_smoothing", "scaled")
    written = "linear_cross_entropy"
    scaled: bool
    ignore_index: int | None
    label_smoothing: float

    def __init__(
        self, x: Node, numbers: Any, labels: IndexNode, *others: Node, scaled: bool, label_smoothing: float,
        ignore_index: int | None,
    ) -> None:  # fmt: skip
        self._construct(
            (x, numbers, labels, *others), scaled=scaled, label_smoothing=label_smoothing, ignore_index=ignore_index
        )

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(2, self.parents[1].dims[0], self.ignore_index),)

    def dtype_rule(self) -> np.dtype:
        return np.dtype(np.float32)

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> Array:
        x, numbers, labels, *others = operands
        wide, form = widened(xp, numbers), LOOPS.of(self)
        out: Array = np.empty(shape, np.float32)
        _, _, *rest = form.kernel_arguments(self, (x, numbers, labels, *others), out)
        if self.scaled:
            wide, rest[-1] = wide * others[0], rest[-1][:0]
        assert form.kernel is not None
        form.kernel(x, wide, *rest)
        return out


class NarrowHeadLoss(_NarrowHead[Axes], abstract=True):
    """The mean loss, a scalar."""

    __slots__ = ()

    def shape_rule(self) -> Dims:
        return ()


class NarrowHeadSlopes(_NarrowHead[Axes], abstract=True):
    """One array of a row that starts with the mean loss, and of the gradient with respect to x: (1 + rows, width)."""

    __slots__ = ()

    def shape_rule(self) -> Dims:
        rows, width = self.parents[0].dims
        return Plus((1, rows)), width


class _NarrowHeadLoops(ByKernel):
    def kernel_arguments(self, node: _NarrowHead, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        x, numbers, labels, *others = operands
        factors = others.pop(0).reshape(-1) if node.scaled else np.empty(0, np.float32)
        weights = others[0] if others else np.empty(0, np.float32)
        logits = scratch((max(1, min(_NARROW_ROWS, len(x))), len(numbers)), np.float32)
        smoothing, ignored = np.float32(node.label_smoothing), ignored_label(node.ignore_index)
        result = out.reshape(1) if out.ndim == 0 else out
        return x, numbers, labels, weights, result, smoothing, ignored, logits, factors


@LOOPS.register(NarrowHeadLoss)
class _NarrowHeadLossLoops(_NarrowHeadLoops):
    kernel = staticmethod(cross_entropy_kernel)


@LOOPS.register(NarrowHeadSlopes)
class _NarrowHeadSlopesLoops(_NarrowHeadLoops):
    kernel = staticmethod(cross_entropy_slopes_kernel)


def _with_narrow_head(kind: type[_NarrowHead], node: Any) -> Any:
    """Return the op of this kind in the place of a `LinearCrossEntropy` or its residuals; None for other weights.

    The kernels read no weight in float32, in blocks of int4 along the classes, or with factors of the columns, as int8
    has for few classes.
    """
    x, weight, labels, *given = node.parents
    if not isinstance(weight, NarrowWeight) or (weight.storage == "int4" and weight.along == 0):
        return None
    factors: list[Node] = [] if weight.factors is None else [weight.factors]
    if factors and int(weight.factors.shape[1]) != 1:  # type: ignore[union-attr]  # there are factors
        return None
    return kind(x, weight.numbers, labels, *factors, *given, scaled=bool(factors), **node.attribute_values())
