"""Attention of new positions to cached keys and values, for generating text and reading prompts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Dims, axis_size, unify
from wyrm.graph.base import format_dims, label
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.node import Node
from wyrm.graph.typing import Array
from wyrm.ops.attention.attention import MASKED_SCORE, AttentionMask, feature_scale, forward_tile, tile_memory
from wyrm.ops.attention.kernels import cached_attention_kernel, cached_step_kernel
from wyrm.ops.composed import Composed, ComposedForm
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes, common_dtype
from wyrm.ops.indexing.joining import concatenate
from wyrm.ops.kernels.native import scratch


class CachedAttention(Composed[tuple[Node, Node, Node], Axes]):
    """Attention of new positions to the cached earlier ones and, causally, to themselves: the last rows of `Attention`.

    `qkv` has the axes (batch, time, 3, heads, features), `cache`, which holds keys and values, (batch, 2, heads,
    features, positions), and the result (batch, time, heads, features). `allowed`, of the axis (positions,), is true
    where the cache is filled.
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
        if len(qkv) != 5 or axis_size(qkv[2]) != 3:
            raise ShapeError(f"qkv must have the axes (batch, time, 3, heads, features), not {format_dims(qkv)}")
        if len(cache) != 5 or axis_size(cache[1]) != 2 or len(allowed) != 1:
            raise ShapeError(
                f"the cache must have the axes (batch, 2, heads, features, positions) and its mask (positions,), "
                f"not {format_dims(cache)} and {format_dims(allowed)}"
            )
        unify(cache[4], allowed[0])
        return unify(qkv[0], cache[0]), qkv[1], unify(qkv[3], cache[2]), unify(qkv[4], cache[3])

    def compose(self, qkv: Node, cache: Node, allowed: Node) -> Node:
        query, key, value = (qkv[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
        scale = feature_scale(qkv)
        cached = where(allowed, (query @ cache[:, 0]) * scale, MASKED_SCORE)
        later: Node = AttentionMask(
            qkv, part="bias", alibi=False, causal=True, masked=False, dropout_rate=0.0, seed=0, stream=0
        )
        # Not their sum: what is not finite at a later position would reach earlier ones.
        own = where(later.equal(0.0), (query @ key.matrix_transpose()) * scale, MASKED_SCORE)
        scores: Node = concatenate([cached, own], axis=-1)
        values = concatenate([cache[:, 1].matrix_transpose(), value], axis=2)
        composed: Node = (scores.softmax() @ values).transpose(0, 2, 1, 3)
        return composed


@JAX.register(CachedAttention)
class _CachedAttentionForm(ComposedForm):
    narrow: bool | None = True
    sums_products = True


@LOOPS.register(CachedAttention)
class _CachedAttentionLoops(ByKernel):
    takes_views = True
    kernel = staticmethod(cached_attention_kernel)

    def kernel_arguments(
        self, node: CachedAttention, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        qkv, cache, allowed = operands
        _, time, _, features = out.shape
        memory = tile_memory(node.dtype, out.shape, allowed.size + time, forward_tile(features))
        return qkv, cache, allowed, out, node.dtype.type(features**-0.5), *memory


class CachedStep(CachedAttention[Axes]):
    """`CachedAttention` of one new position, the next of a text: its kernel has no products of matrices."""

    __slots__ = ()

    def shape_rule(self) -> Dims:
        dims = super().shape_rule()
        if axis_size(dims[1]) != 1:
            raise ShapeError(f"qkv must have one position, not {format_dims(self.parents[0].dims)}")
        return dims


@LOOPS.register(CachedStep)
class _CachedStepLoops(ByKernel):
    takes_views = True
    kernel = staticmethod(cached_step_kernel)

    def kernel_arguments(self, node: CachedStep, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        qkv, cache, allowed = operands
        scores = scratch(allowed.size + 1, node.dtype)
        return qkv, cache, allowed, out, node.dtype.type(out.shape[3] ** -0.5), scores
