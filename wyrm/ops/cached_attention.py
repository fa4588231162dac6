"""Attention of one new place to a cache of those before it, for text that is made token by token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.node.base import ZERO, Gradient, format_dims, label
from wyrm.node.loop_form import LOOPS, KernelArgument, LoopForm
from wyrm.node.node import Node
from wyrm.ops.attention import FAR
from wyrm.ops.attention_kernels import cached_attention_kernel
from wyrm.ops.comparison import where
from wyrm.ops.composite_gradient import composite_vjp
from wyrm.ops.elementwise import Axes, common_dtype
from wyrm.ops.scratch import scratch
from wyrm.ops.slicing import concatenate
from wyrm.types.dims import Dims, axis_size, unify
from wyrm.types.namespace import ArrayNamespace
from wyrm.types.typing import Array


class CachedAttention(Node[tuple[Node, Node, Node], Axes]):
    """Attention of one new place to those before it, whose keys and values a cache has, and to itself.

    `packed` has the axes (batch, 3, heads, features), `cache` (batch, 2, heads, features, places), keys and values, and
    `allowed`, (places,), is true where the cache holds something; the result has the axes (batch, heads, features).
    For text that is made token by token: what it computes is the last row of a causal `Attention`.
    """

    __slots__ = ()

    def __init__(self, packed: Node, cache: Node, allowed: Node) -> None:
        self._construct((packed, cache, allowed))

    def _own(self) -> CachedAttention[Axes]:
        return self

    def dtype_rule(self) -> np.dtype:
        if self.parents[2].dtype.kind != "b":
            raise DTypeError(f"what is allowed is a mask, such as x > 0; {label(self.parents[2])} is not")
        return common_dtype(self.parents[:2])

    def shape_rule(self) -> Dims:
        packed, cache, allowed = (parent.dims for parent in self.parents)
        if len(packed) != 4 or axis_size(packed[1]) != 3:
            raise ShapeError(f"the new place has the axes (batch, 3, heads, features), not {format_dims(packed)}")
        if len(cache) != 5 or axis_size(cache[1]) != 2 or len(allowed) != 1:
            raise ShapeError(
                f"a cache has the axes (batch, 2, heads, features, places) and its mask (places,), "
                f"not {format_dims(cache)} and {format_dims(allowed)}"
            )
        unify(cache[4], allowed[0])
        return unify(packed[0], cache[0]), unify(packed[2], cache[2]), unify(packed[3], cache[3])

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        packed, cache, allowed = operands
        scale = self.dtype.type(shape[2] ** -0.5) if shape[2] else self.dtype.type(1)
        query, key, value = (packed[:, i, :, :, None] for i in range(3))
        own = xp.sum(query * key, axis=2)
        scores = xp.concat([xp.where(allowed, xp.sum(query * cache[:, 0], axis=2), -xp.inf), own], axis=2) * scale
        powers = xp.exp(scores - xp.max(scores, axis=2, keepdims=True))
        shares = xp.astype(powers / xp.sum(powers, axis=2, keepdims=True), self.dtype)[:, :, None]
        return xp.sum(shares * xp.concat([cache[:, 1], value], axis=3), axis=3)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        packed, cache, allowed = (parent.erase() for parent in self.parents)
        features = packed.dims[3]
        scale = self.dtype.type(int(features) ** -0.5)
        query, key, value = (packed[:, i].expand_dims(-1) for i in range(3))
        found = where(allowed, (query * cache[:, 0]).sum(axis=2), FAR)
        scores: Node = concatenate([found, (query * key).sum(axis=2)], axis=-1) * scale
        shares = scores.softmax().expand_dims(2)
        composed = (shares * concatenate([cache[:, 1], value], axis=-1)).sum(axis=-1)
        return (*composite_vjp(composed, gradient, (packed, cache)), ZERO)


@LOOPS.register(CachedAttention)
class _CachedAttentionLoops(LoopForm):
    takes_views = True
    kernel = staticmethod(cached_attention_kernel)

    def kernel_arguments(
        self, node: CachedAttention, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        packed, cache, allowed = operands
        scores = scratch(allowed.size + 1, node.dtype)
        return packed, cache, allowed, out, node.dtype.type(out.shape[2] ** -0.5), scores
