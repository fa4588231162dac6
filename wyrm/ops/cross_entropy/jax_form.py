"""The lowering of the fused linear layer with cross-entropy to JAX: blocks of rows, whose logits stay in the caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wyrm.graph.jax_form import JaxForm, Lowering, Unjoined
from wyrm.ops.kernels.loops_jax import in_blocks
from wyrm.ops.products.product import ProductForm, matmul, sum_dtype
from wyrm.support.imports import jnp

if TYPE_CHECKING:
    from wyrm.ops.cross_entropy.kernels import ResidualsPart
    from wyrm.ops.cross_entropy.linear_cross_entropy import LinearCrossEntropy, LinearCrossEntropyResiduals


class _CrossEntropyForm(ProductForm):
    def sums(self, node: Any, operands: Sequence[Any], lowering: Lowering, gradients: bool) -> tuple[Any, Any, Any]:
        """Return the gradient with respect to x and the weight, None without `gradients`, and the mean loss.

        On a mesh, those of the weight and the loss may be sums whose terms are apart.
        """
        x, weight, labels, *given = operands
        dtype = sum_dtype(x)
        is_counted = jnp.ones(labels.shape, bool) if node.ignore_index is None else labels != node.ignore_index
        weights = jnp.where(is_counted, given[0] if given else 1, 0).astype(dtype)
        count = weights.sum()
        count = jnp.where(count == 0, jnp.ones((), dtype), count)
        smoothing, classes = node.label_smoothing, weight.shape[0]

        def of_block(x: Any, labels: Any, is_counted: Any, weights: Any) -> tuple[Any, Any]:
            logits = matmul(x, weight.T)
            logits = logits - logits.max(axis=1, keepdims=True)
            exponentials = jnp.exp(logits)
            totals = exponentials.sum(axis=1)
            labels = jnp.where(is_counted, labels, 0)
            target = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0] * (1 - smoothing)
            if smoothing > 0.0:
                target = target + logits.mean(axis=1) * smoothing
            loss = jnp.where(is_counted, (jnp.log(totals) - target) * weights, 0).sum()
            if not gradients:
                return (), loss
            one_hot = labels[:, None] == jnp.arange(classes, dtype=labels.dtype)
            targets = jnp.where(one_hot, 1 - smoothing + smoothing / classes, smoothing / classes).astype(dtype)
            scale = (weights / count)[:, None]
            slopes = ((exponentials / totals[:, None] - targets) * scale).astype(x.dtype)
            weight_gradient = matmul(slopes.T, x)
            return matmul(slopes, weight), (weight_gradient, loss)

        rows = labels.shape[0]
        blocks, shards = lowering.blocks(rows, rows * classes * dtype.itemsize)
        apart = lowering.row_shards(node.parents[0], x)
        arrays = [x, labels, is_counted, weights]
        x_gradient, sums = in_blocks(of_block, blocks, apart if apart > 1 else shards, arrays, apart=apart > 1)
        weight_gradient, loss = sums if gradients else (None, sums)
        loss = loss / count
        if apart > 1:
            weight_gradient = None if weight_gradient is None else lowering.apart(node.parents[0], x, weight_gradient)
            loss = lowering.apart(node.parents[0], x, loss)
        return x_gradient, weight_gradient, loss


class CrossEntropyForm(_CrossEntropyForm):
    """The lowering of `LinearCrossEntropy`."""

    own_tangent = True

    def own_gradient(self, node: Any) -> bool:
        return True

    def lower(
        self, node: LinearCrossEntropy, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering
    ) -> Any:
        """Return the mean loss, a scalar."""
        return self.sums(node, operands, lowering, gradients=False)[2].astype(node.dtype)


@Unjoined.register
class ResidualParts(NamedTuple):
    """The parts of `LinearCrossEntropyResiduals`: the gradient with respect to the weight and x, and the loss."""

    weight: Any
    loss: Any
    x: Any

    @property
    def dtype(self) -> np.dtype:
        """The dtype of all parts."""
        dtype: np.dtype = self.x.dtype
        return dtype

    def flat(self) -> Any:
        """Return the gradient with respect to the weight, a row that starts with the loss, and that of x."""
        weight, loss = (jnp.asarray(each) for each in (self.weight, self.loss))
        row = jnp.zeros((1, weight.shape[1]), loss.dtype).at[0, 0].set(loss)
        return jnp.concatenate([weight, row, self.x])


class CrossEntropyResidualsForm(_CrossEntropyForm):
    """The lowering of `LinearCrossEntropyResiduals`."""

    exact = True  # the loss is among the residuals

    def lower(
        self, node: LinearCrossEntropyResiduals, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering
    ) -> ResidualParts:
        """Return the parts."""
        x_gradient, weight_gradient, loss = self.sums(node, operands, lowering, gradients=True)
        return ResidualParts(*(each.astype(node.dtype) for each in (weight_gradient, loss, x_gradient)))


class ResidualsPartForm(JaxForm):
    """The lowering of `ResidualsPart`: one of the parts."""

    takes_rows = True
    exact = True

    def lower(self, node: ResidualsPart, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        residuals = operands[0]
        if not isinstance(residuals, ResidualParts):
            return super().lower(node, operands, shape, lowering)
        part = getattr(residuals, node.part)
        return part.reshape(shape) if node.part == "loss" else part


__all__ = ["CrossEntropyForm", "CrossEntropyResidualsForm", "ResidualsPartForm"]
