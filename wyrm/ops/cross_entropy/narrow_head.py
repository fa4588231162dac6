"""A linear layer with cross-entropy whose weight is in narrow numbers, which compiled code reads as they are.

The weight has no gradient. These ops are what native code has in the place of `LinearCrossEntropy` and its residuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.graph.axes import Dims, Plus
from wyrm.graph.index_operands import HasIndexOperands, IndexOperand
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.parameters import NarrowWeight
from wyrm.graph.typing import Array
from wyrm.ops.cross_entropy.kernels import cross_entropy_kernel
from wyrm.ops.cross_entropy.labels import ignored_label
from wyrm.ops.cross_entropy.residuals_kernel import cross_entropy_slopes_kernel
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.indexing.narrow_rows import widened
from wyrm.ops.kernels.native import scratch

# The rows of a block, whose logits are the scratch memory: each block widens all of the weight, twice with slopes.
_ROWS = 128


class _NarrowHead(HasIndexOperands[tuple[Any, ...], Axes], Node[tuple[Any, ...], Axes], abstract=True):
    """Base class of both ops.

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
        logits = scratch((max(1, min(_ROWS, len(x))), len(numbers)), np.float32)
        smoothing, ignored = np.float32(node.label_smoothing), ignored_label(node.ignore_index)
        result = out.reshape(1) if out.ndim == 0 else out
        return x, numbers, labels, weights, result, smoothing, ignored, logits, factors


@LOOPS.register(NarrowHeadLoss)
class _NarrowHeadLossLoops(_NarrowHeadLoops):
    kernel = staticmethod(cross_entropy_kernel)


@LOOPS.register(NarrowHeadSlopes)
class _NarrowHeadSlopesLoops(_NarrowHeadLoops):
    kernel = staticmethod(cross_entropy_slopes_kernel)


def with_narrow_head(kind: type[_NarrowHead], node: Any) -> Any:
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
