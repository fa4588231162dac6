"""Attention of one new position to cached keys and values, for generating text token by token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Dims, axis_size, unify
from wyrm.graph.base import ZERO, Gradient, format_dims, label
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array
from wyrm.ops.attention.attention import MASKED_SCORE
from wyrm.ops.attention.kernels import cached_attention_kernel
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes, common_dtype
from wyrm.ops.gradients.accumulation import composite_vjp
from wyrm.ops.indexing.joining import concatenate
from wyrm.ops.kernels.native import scratch


class CachedAttention(Node[tuple[Node, Node, Node], Axes]):
    """Attention of one new position to itself and to the cached earlier ones: the last row of a causal `Attention`.

    `qkv` has the axes (batch, 3, heads, features), `cache`, which holds keys and values, (batch, 2, heads, features,
    positions), and the result (batch, heads, features). `allowed`, of the axis (positions,), is true where the cache is
    filled.
    """

    __slots__ = ()

    def __init__(self, qkv: Node, cache: Node, allowed: Node) -> None:
        self._construct((qkv, cache, allowed))

    def dtype_rule(self) -> np.dtype:
        if self.parents[2].dtype.kind != "b":
            raise DTypeError(
                f"the mask must have dtype bool, like x > 0; {label(self.parents[2])} is {self.parents[2].dtype}"
            )
        return common_dtype(self.parents[:2])

    def shape_rule(self) -> Dims:
        qkv, cache, allowed = (parent.dims for parent in self.parents)
        if len(qkv) != 4 or axis_size(qkv[1]) != 3:
            raise ShapeError(f"qkv must have the axes (batch, 3, heads, features), not {format_dims(qkv)}")
        if len(cache) != 5 or axis_size(cache[1]) != 2 or len(allowed) != 1:
            raise ShapeError(
                f"the cache must have the axes (batch, 2, heads, features, positions) and its mask (positions,), "
                f"not {format_dims(cache)} and {format_dims(allowed)}"
            )
        unify(cache[4], allowed[0])
        return unify(qkv[0], cache[0]), unify(qkv[2], cache[2]), unify(qkv[3], cache[3])

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        qkv, cache, allowed = operands
        scale = self.dtype.type(shape[2] ** -0.5) if shape[2] else self.dtype.type(1)
        query, key, value = (qkv[:, i, :, :, None] for i in range(3))
        own = xp.sum(query * key, axis=2)
        scores = xp.concat([xp.where(allowed, xp.sum(query * cache[:, 0], axis=2), -xp.inf), own], axis=2) * scale
        exponentials = xp.exp(scores - xp.max(scores, axis=2, keepdims=True))
        weights = xp.astype(exponentials / xp.sum(exponentials, axis=2, keepdims=True), self.dtype)[:, :, None]
        return xp.sum(weights * xp.concat([cache[:, 1], value], axis=3), axis=3)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        qkv, cache, allowed = (parent.erase() for parent in self.parents)
        features = qkv.dims[3]
        scale = self.dtype.type(int(features) ** -0.5)
        query, key, value = (qkv[:, i].expand_dims(-1) for i in range(3))
        cached = where(allowed, (query * cache[:, 0]).sum(axis=2), MASKED_SCORE)
        scores: Node = concatenate([cached, (query * key).sum(axis=2)], axis=-1) * scale
        weights = scores.softmax().expand_dims(2)
        composed = (weights * concatenate([cache[:, 1], value], axis=-1)).sum(axis=-1)
        return (*composite_vjp(composed, gradient, (qkv, cache)), ZERO)


@LOOPS.register(CachedAttention)
class _CachedAttentionLoops(ByKernel):
    takes_views = True
    kernel = staticmethod(cached_attention_kernel)

    def kernel_arguments(
        self, node: CachedAttention, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        qkv, cache, allowed = operands
        scores = scratch(allowed.size + 1, node.dtype)
        return qkv, cache, allowed, out, node.dtype.type(out.shape[2] ** -0.5), scores
