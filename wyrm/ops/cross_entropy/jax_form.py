"""The lowering of the fused linear layer with cross-entropy to JAX: blocks of rows, whose logits stay in the caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wyrm.graph.jax_form import Lowering
from wyrm.ops.kernels.loops_jax import in_blocks
from wyrm.ops.products.jax_form import ProductForm, matmul, sum_dtype

if TYPE_CHECKING:
    from wyrm.ops.cross_entropy.linear_cross_entropy import LinearCrossEntropy, LinearCrossEntropyResiduals


class _CrossEntropyForm(ProductForm):
    def sums(self, node: Any, operands: Sequence[Any], lowering: Lowering, gradients: bool) -> tuple[Any, Any, Any]:
        """Return the gradient with respect to x and the weight, None without `gradients`, and the mean loss."""
        import jax.numpy as jnp

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
        x_gradient, sums = in_blocks(of_block, blocks, shards, [x, labels, is_counted, weights])
        weight_gradient, loss = sums if gradients else (None, sums)
        return x_gradient, weight_gradient, loss / count


class CrossEntropyForm(_CrossEntropyForm):
    """The lowering of `LinearCrossEntropy`."""

    def own_gradient(self, node: Any) -> bool:
        return True

    def lower(
        self, node: LinearCrossEntropy, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering
    ) -> Any:
        """Return the mean loss, a scalar."""
        return self.sums(node, operands, lowering, gradients=False)[2].astype(node.dtype)


class CrossEntropyResidualsForm(_CrossEntropyForm):
    """The lowering of `LinearCrossEntropyResiduals`."""

    exact = True  # the loss is among the residuals

    def lower(
        self, node: LinearCrossEntropyResiduals, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering
    ) -> Any:
        """Return the gradient with respect to the weight, a row that starts with the loss, and that of x."""
        import jax.numpy as jnp

        x_gradient, weight_gradient, loss = self.sums(node, operands, lowering, gradients=True)
        row = jnp.zeros((1, shape[1]), loss.dtype).at[0, :1].set(loss)
        return jnp.concatenate([weight_gradient, row, x_gradient]).astype(node.dtype)


__all__ = ["CrossEntropyForm", "CrossEntropyResidualsForm"]
