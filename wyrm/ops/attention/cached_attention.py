"""Attention of new positions to cached keys and values, for generating text and reading prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.errors import DTypeError, OptionError, ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size, product, unify
from wyrm.graph.base import format_dims, label
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.node import Node
from wyrm.graph.typing import Array
from wyrm.ops.attention.attention import MASKED_SCORE, feature_scale, forward_tile, tile_memory
from wyrm.ops.attention.kernels import cached_attention_kernel, cached_step_kernel
from wyrm.ops.composed import Composed, ComposedForm
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes, common_dtype, constant_like
from wyrm.ops.indexing.joining import concatenate
from wyrm.ops.kernels.native import scratch
from wyrm.ops.shaping.arange import positions


class CachedAttention(Composed[tuple[Node, Node, Node, Node, Node], Axes]):
    """Attention of new positions to the cached earlier ones and, causally, to themselves: the last rows of `Attention`.

    `query` has the axes (batch, time, heads, features), `key` and `value` (batch, time, shared, features): each of
    their heads serves as many consecutive heads of the queries. `cache`, which holds keys and values, has the axes
    (batch, 2, positions, shared, features), and the result those of `query`. `allowed`, (batch, positions), is true
    where the cache of a sequence is filled; its new positions follow the last of these. Scores are multiplied by
    `scale`, `1 / sqrt(features)` for None. With a `window`, a position attends to so many, up to its own.

    Raise `ShapeError` for axes that do not match, `DTypeError` for a mask of another dtype, `OptionError` for a scale
    that is not above 0 or a window below 1.
    """

    __slots__ = ("scale", "window")
    scale: float | None
    window: int | None

    def __init__(
        self, query: Node, key: Node, value: Node, cache: Node, allowed: Node, *, scale: float | None = None,
        window: int | None = None,
    ) -> None:  # fmt: skip
        if scale is not None and not 0.0 < scale < np.inf:
            raise OptionError(f"the scale of attention must be above 0 and finite, not {scale}")
        if window is not None and window < 1:
            raise OptionError(f"the window of attention must be at least 1, not {window}")
        self._construct((query, key, value, cache, allowed), scale=scale, window=window)

    def dtype_rule(self) -> np.dtype:
        if self.parents[4].dtype.kind != "b":
            raise DTypeError(
                f"the mask must have dtype bool, like x > 0; {label(self.parents[4])} is {self.parents[4].dtype}"
            )
        return common_dtype(self.parents[:4])

    def shape_rule(self) -> Dims:
        query, key, value, cache, allowed = (parent.dims for parent in self.parents)
        for name, dims in (("query", query), ("key", key), ("value", value)):
            if len(dims) != 4:
                raise ShapeError(f"{name} must have the axes (batch, time, heads, features), not {format_dims(dims)}")
        if len(cache) != 5 or axis_size(cache[1]) != 2 or len(allowed) != 2:
            raise ShapeError(
                f"the cache must have the axes (batch, 2, positions, heads, features) and its mask (batch, positions), "
                f"not {format_dims(cache)} and {format_dims(allowed)}"
            )
        unify(cache[2], allowed[1])
        batch, time, features = unify(unify(query[0], cache[0]), allowed[0]), query[1], unify(query[3], cache[4])
        for dims in (key, value):
            batch, time, features = unify(batch, dims[0]), unify(time, dims[1]), unify(features, dims[3])
            unify(dims[2], cache[3])
        return batch, time, _heads(query[2], cache[3]), features

    def compose(self, query: Node, key: Node, value: Node, cache: Node, allowed: Node) -> Node:
        queries, keys, values = (each.transpose(0, 2, 1, 3) for each in (query, key, value))
        scale = feature_scale(query) if self.scale is None else constant_like(self.scale, query)
        batch, time, heads, _ = query.dims
        shared, place = key.dims[2], positions(time)
        # The heads that share keys and values become rows of one product.
        groups = _number_of_heads(heads) // _number_of_heads(shared) if axis_size(heads) != axis_size(shared) else 1
        rows: Any = queries if groups == 1 else queries.reshape((batch, shared, product((groups, time)), query.dims[3]))

        def scored(columns: Node, count: Axis) -> Any:
            found: Any = (rows @ columns) * scale
            return found if groups == 1 else found.reshape((batch, heads, time, count))

        # Of the axes of scores: (batch, heads, time, positions).
        seen: Any = allowed.expand_dims(1).expand_dims(1)
        distance: Any = place.expand_dims(1) - place
        causal: Any = distance >= 0
        if self.window is not None:
            cached = positions(allowed.dims[1]).astype(query.dtype)
            first: Any = where(allowed, cached + 1.0, 0.0).max(axis=1)
            # How far a cached key is behind each query.
            behind: Any = (first.expand_dims(1) + place.astype(query.dtype)).expand_dims(2) - cached
            seen = seen & (behind < float(self.window)).expand_dims(1)
            causal = causal & (distance < self.window)
        earlier = where(seen, scored(cache[:, 0].transpose(0, 2, 3, 1), allowed.dims[1]), MASKED_SCORE)
        # Not their sum: what is not finite at a later position would reach earlier ones.
        own = where(causal, scored(keys.matrix_transpose(), time), MASKED_SCORE)
        scores: Node = concatenate([earlier, own], axis=-1)
        found: Any = scores.softmax()
        if groups > 1:
            found = found.reshape((batch, shared, product((groups, time)), found.dims[3]))
        found = found @ concatenate([cache[:, 1].transpose(0, 2, 1, 3), values], axis=2)
        if groups > 1:
            found = found.reshape((batch, heads, time, query.dims[3]))
        composed: Node = found.transpose(0, 2, 1, 3)
        return composed


def _number_of_heads(axis: Axis) -> int:
    size = axis_size(axis)
    if not size:
        raise ShapeError(f"the axis of heads, {axis!r}, needs a size of at least 1")
    return size


def _heads(queries: Axis, shared: Axis) -> Axis:
    """Return the axis of the heads of the result; raise `ShapeError` unless those of the keys divide them."""
    if axis_size(queries) == axis_size(shared):
        return unify(queries, shared)
    if _number_of_heads(queries) % _number_of_heads(shared):
        raise ShapeError(f"the heads of the queries, {queries!r}, are no multiple of those of the keys, {shared!r}")
    return queries


@JAX.register(CachedAttention)
class _CachedAttentionForm(ComposedForm):
    narrow: bool | None = True
    sums_products = True


class _CachedLoops(ByKernel):
    """The arguments that both kernels share."""

    takes_views = True

    def shared_arguments(
        self, node: CachedAttention, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        scale = out.shape[3] ** -0.5 if node.scale is None else node.scale
        return *operands, out, node.dtype.type(scale), node.window or 0


@LOOPS.register(CachedAttention)
class _CachedAttentionLoops(_CachedLoops):
    kernel = staticmethod(cached_attention_kernel)

    def kernel_arguments(
        self, node: CachedAttention, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        _, time, _, features = out.shape
        memory = tile_memory(node.dtype, out.shape, operands[4].shape[1] + time, forward_tile(features))
        return *self.shared_arguments(node, operands, out), *memory


class CachedStep(CachedAttention[Axes]):
    """`CachedAttention` of one new position, the next of a text: its kernel has no tiles of queries."""

    __slots__ = ()

    def shape_rule(self) -> Dims:
        dims = super().shape_rule()
        if axis_size(dims[1]) != 1:
            raise ShapeError(f"query must have one position, not {format_dims(self.parents[0].dims)}")
        return dims


@LOOPS.register(CachedStep)
class _CachedStepLoops(_CachedLoops):
    kernel = staticmethod(cached_step_kernel)

    def kernel_arguments(self, node: CachedStep, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        allowed, heads, shared = operands[4], operands[0].shape[2], operands[3].shape[3]
        return *self.shared_arguments(node, operands, out), scratch((heads // shared, allowed.shape[1] + 1), node.dtype)
