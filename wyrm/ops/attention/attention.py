"""Fused scaled dot-product self-attention: scores, masks, softmax, dropout and the weighted sum of values.

The kernels never materialize the attention matrix: they work on a tile of queries of one head at a time.
`AttentionGradient` recomputes the attention weights, so the forward pass stores no residuals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size, unify
from wyrm.graph.base import ZERO, BaseNode, Gradient, format_dims, label
from wyrm.graph.jax_form import JAX, Lowering
from wyrm.graph.leaves import as_constant
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import A, Array, BoolArray, D, FloatArray, K, M, N
from wyrm.ops.attention import cudnn_jax, tiles_jax
from wyrm.ops.attention.kernels import attention_gradient_kernel, attention_kernel, attention_mask_kernel
from wyrm.ops.attention.scores_jax import Scores
from wyrm.ops.attention.weights import COLUMN, has_few
from wyrm.ops.composed import Composed
from wyrm.ops.elementwise.elementwise import Axes, constant_like, size_beside
from wyrm.ops.indexing.joining import stack
from wyrm.ops.kernels.loops_jax import in_blocks
from wyrm.ops.kernels.native import scratch
from wyrm.ops.products.product import ProductForm
from wyrm.ops.random.dropout_mask import WORD, check_rate, drop_threshold, dropout_mask, kept_factor
from wyrm.ops.random.philox import STEP, stream_or_next
from wyrm.ops.random.philox_jax import Words, kept_by_rows, row_keys
from wyrm.reach import zones as at
from wyrm.reach.rules import REACH, Reach, Reached
from wyrm.reach.zones import Bound, Zone
from wyrm.support.imports import jnp

if TYPE_CHECKING:
    from wyrm.reach.facts import Analysis

# The longest sequence whose scores are computed at once. In tiles, forward and gradient take on a CPU 1.3 times the
# time for 512 rows (0.8 if causal), 0.87 (0.8) for 1024 and 0.89 (0.76) for 2048, and 0.5 to 0.1 times the memory.
LONGEST_WHOLE = 512
# The number of tiles of a causal sequence, and the fewest queries of a tile.
_TILES, _FEWEST_QUERIES = 2, 32


class _AttentionForm(ProductForm):
    def operands(self, node: Any, operands: Sequence[Any], lowering: Lowering) -> tuple[int, list[Any]]:
        """Return the number of float operands, and these, with the mask of each sequence and the keys of dropout."""
        qkv = operands[0]
        batch, time, _, heads, _ = qkv.shape
        floats = len(operands) - node.masked - (node.dropout_rate > 0.0)
        arrays = list(operands[:floats])
        if node.masked:
            mask = operands[floats]
            arrays.append(lowering.xp.broadcast_to(mask, (batch, *mask.shape[1:])))
        if node.dropout_rate > 0.0:
            seed, stream = (lowering.attribute(node, name) for name in ("seed", "stream"))
            keys = row_keys(batch * heads * time, operands[-1], seed, stream)
            arrays += [words.reshape(batch, heads, time) for words in keys]
        return floats, arrays

    def blocks(self, node: Any, operands: Sequence[Any], lowering: Lowering, compute: Any, in_tiles: Any) -> Any:
        """Return `compute(float operands, weights)` for all sequences, block by block.

        Long sequences are computed by `in_tiles`, which takes `Tiles` in place of the weights.
        """
        floats, arrays = self.operands(node, operands, lowering)
        batch, time, _, heads, _ = operands[0].shape
        # A size that is open in an export has no order among numbers.
        is_long = isinstance(time, int) and time > LONGEST_WHOLE and lowering.uses_tiles
        tile = tiles_jax.rows_of_tile() if is_long else 0

        def of_block(*block: Any) -> tuple[Any, tuple[()]]:
            extra = list(block[floats:])
            mask = extra.pop(0) if node.masked else None
            if tile:
                return in_tiles(block[:floats], tiles_jax.Tiles(node, block[0], mask, tuple(extra), tile)), ()
            return compute(block[:floats], _Weights(node, block[0], mask, tuple(extra))), ()

        blocks, shards = lowering.blocks(batch, 4 * batch * heads * (tile or time) ** 2)
        return in_blocks(of_block, blocks, shards, arrays)[0]


class AttentionForm(_AttentionForm):
    """The lowering of `Attention`."""

    own_tangent = True

    def own_gradient(self, node: Any) -> bool:
        return True

    def lower(self, node: Attention, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        """Return the sums of values, (batch, time, heads, features)."""
        if 0 in shape:
            return lowering.xp.zeros(shape, operands[0].dtype)
        if cudnn_jax.takes(node, operands[0]):
            return cudnn_jax.attended(node, operands[0])
        return self.blocks(node, operands, lowering, _attended, tiles_jax.attended)


class AttentionGradientForm(_AttentionForm):
    """The lowering of `AttentionGradient`."""

    def lower(
        self, node: AttentionGradient, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering
    ) -> Any:
        """Return the gradient with respect to `qkv`, of its shape."""
        if 0 in shape:
            return lowering.xp.zeros(shape, operands[0].dtype)
        if cudnn_jax.takes(node, operands[0]):
            return cudnn_jax.gradient(node, operands[0], operands[1])
        return self.blocks(node, operands, lowering, _gradient, tiles_jax.gradient)


class AttentionMaskForm(_AttentionForm):
    """The lowering of `AttentionMask`."""

    narrow: bool | None = False
    sums_products = False

    def lower(self, node: AttentionMask, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        """Return the bias or the factors, (batch, heads, queries, keys)."""
        xp = lowering.xp
        _, heads, time, _ = shape
        floats, arrays = self.operands(node, operands, lowering)
        mask = arrays[floats] if node.masked else None
        if node.part == "bias":
            return xp.broadcast_to(node._bias(xp, mask, time, heads), shape)
        factors = node._allowed(xp, mask, time).astype(node.dtype)
        if node.dropout_rate > 0.0:
            keep = kept_by_rows(arrays[-2], arrays[-1], time, drop_threshold(node.dropout_rate))
            factors = factors * xp.where(keep, node.dtype.type(kept_factor(node.dropout_rate)), 0)
        return xp.broadcast_to(factors, shape)


class _Weights(Scores):
    """The attention weights of a block of sequences, for a tile of queries at a time.

    `queries`, `keys` and `values` have the axes (batch, heads, time, features).
    """

    def __init__(
        self, node: Attention | AttentionGradient, qkv: Any, mask: Any, random_keys: Words | tuple[()]
    ) -> None:
        super().__init__(node, qkv)
        self._mask, self._random_keys = mask, random_keys
        self.queries, self.keys, self.values = (qkv[:, :, i].swapaxes(1, 2) for i in range(3))

    def tiles(self) -> Iterator[tuple[slice, slice]]:
        """Return the queries of each tile and the keys that any of them may see."""
        causal, time = self._node.causal, self._time
        step = max(_FEWEST_QUERIES, -(-time // _TILES)) if causal else time
        for first in range(0, time, step):
            last = min(first + step, time)
            yield slice(first, last), slice(0, last if causal else time)

    def unnormalized(self, queries: slice, keys: slice) -> tuple[Any, Any]:
        """Return the weights before normalization and dropout, and the inverses of their sums over keys."""
        mask = self._mask
        if mask is not None:
            mask = (mask if mask.shape[1] == 1 else mask[:, queries])[:, :, keys]
        rows, columns = np.arange(queries.start, queries.stop)[:, None], np.arange(keys.stop)
        parts = self.queries[:, :, queries], self.keys[:, :, keys]
        scores, allowed = self.scored(*parts, rows, columns, mask, allowed=True)
        if self._node.causal or self._mask is not None:
            scores = jnp.where(allowed, scores, np.finfo(self.dtype).min)
        exponentials = jnp.exp(scores - scores.max(axis=-1, keepdims=True))
        if self._mask is None:
            return exponentials, 1 / exponentials.sum(axis=-1, keepdims=True)
        exponentials = jnp.where(allowed, exponentials, 0)
        return exponentials, self.inverse(exponentials.sum(axis=-1, keepdims=True))

    def dropped(self, weights: Any, queries: slice) -> Any:
        """Return weights after dropout."""
        if self._node.dropout_rate == 0.0:
            return weights
        return self.dropped_by([words[:, :, queries] for words in self._random_keys], weights)


def _attended(operands: Sequence[Any], weights: _Weights) -> Any:
    tiles = []
    for queries, keys in weights.tiles():
        unnormalized, inverse = weights.unnormalized(queries, keys)
        dropped = weights.dropped(unnormalized, queries)
        tiles.append(weights.product("bhqk,bhkd->bqhd", dropped, weights.values[:, :, keys]) * inverse.swapaxes(1, 2))
    return jnp.concatenate(tiles, axis=1).astype(operands[0].dtype)


def _gradient(operands: Sequence[Any], weights: _Weights) -> Any:
    cotangent = operands[1].swapaxes(1, 2)
    query_tiles, key_gradient, value_gradient = [], 0, 0
    for queries, keys in weights.tiles():
        unnormalized, inverse = weights.unnormalized(queries, keys)
        shares, of_tile = unnormalized * inverse, cotangent[:, :, queries]
        gradient = weights.product("bhqd,bhkd->bhqk", of_tile, weights.values[:, :, keys])
        gradient = weights.dropped(gradient, queries)
        mean = (gradient * shares).sum(axis=-1, keepdims=True)
        scores = (gradient - mean) * shares * weights.scale
        unseen = ((0, 0), (0, weights.keys.shape[2] - keys.stop), (0, 0), (0, 0))
        query_tiles.append(weights.product("bhqk,bhkd->bqhd", scores, weights.keys[:, :, keys]))
        of_keys = weights.product("bhqk,bhqd->bkhd", scores, weights.queries[:, :, queries])
        of_values = weights.product("bhqk,bhqd->bkhd", weights.dropped(shares, queries), of_tile)
        key_gradient += jnp.pad(of_keys, unseen)
        value_gradient += jnp.pad(of_values, unseen)
    parts = [jnp.concatenate(query_tiles, axis=1), key_gradient, value_gradient]
    return jnp.stack(parts, axis=2).astype(operands[0].dtype)


# Queries in a tile: their scores fit into the cache. Rows of a multiple of 256 bytes would share a part of it.
_QUERIES, _APART = 64, 16
# Threads share slots of the work, each with its own scratch memory: the most slots, and the fewest scores of one.
_SLOTS, _SLOT_SCORES = 16, 1 << 16
# Score of a masked key in the composition: finite, so that gradients are finite.
MASKED_SCORE = -1e30


class AttentionOptions(TypedDict):
    """The static attributes of attention."""

    alibi: bool
    causal: bool
    masked: bool
    dropout_rate: float
    seed: int
    stream: int


class _Attention(Node[tuple[Node, *tuple[Any, ...]], Axes], abstract=True):
    """Base class of the attention ops; the parents are `qkv`, other operands, and optionally a mask and the step."""

    __slots__ = ("alibi", "causal", "dropout_rate", "masked", "seed", "stream")
    alibi: bool
    causal: bool
    dropout_rate: float
    masked: bool
    seed: int
    stream: int

    def _extra(self) -> tuple[BaseNode, ...]:
        """Return the optional parents: the mask, the step, both or none."""
        return tuple(self.parents[len(self.parents) - self.masked - (self.dropout_rate > 0.0) :])

    def dtype_rule(self) -> np.dtype:
        qkv = self.parents[0]
        if qkv.dtype.kind != "f":
            raise DTypeError(f"{label(qkv)} is a mask; convert it with .astype(np.float32)")
        if self.masked and self._extra()[0].dtype.kind != "b":
            mask = self._extra()[0]
            raise DTypeError(f"the mask must have dtype bool, like x > 0; {label(mask)} is {mask.dtype}")
        dtype: np.dtype = qkv.dtype
        return dtype

    def _axes(self) -> tuple[Axis, Axis, Axis, Axis]:
        """Return the axes (batch, time, heads, features), or raise `ShapeError`."""
        qkv = self.parents[0]
        if len(qkv.dims) != 5 or axis_size(qkv.dims[2]) != 3:
            raise ShapeError(
                f"{label(qkv)} must have the axes (batch, time, 3, heads, features), with queries, keys and values "
                f"along the third, not {format_dims(qkv.dims)}"
            )
        batch, time, _, heads, features = qkv.dims
        if self.masked:
            mask = self._extra()[0]
            if len(mask.dims) != 3:
                raise ShapeError(f"the mask must have the axes (batch, queries, keys), not {format_dims(mask.dims)}")
            if axis_size(mask.dims[0]) != 1:
                batch = unify(batch, mask.dims[0])
            for axis in mask.dims[1 + (axis_size(mask.dims[1]) == 1) :]:
                time = unify(time, axis)
        if not 0.0 <= self.dropout_rate < 1.0:
            raise ShapeError(f"dropout_rate must be in [0, 1), not {self.dropout_rate}")
        if axis_size(features) == 0:
            raise ShapeError("the axis of features has size 0")
        return batch, time, heads, features

    def _slopes(self, heads: int) -> FloatArray:
        """Return the ALiBi slope of each head (Press et al., 2021), or zeros without `alibi`."""
        steps = np.arange(1, heads + 1) / heads
        return (2.0 ** (-8.0 * steps) if self.alibi else np.zeros(heads)).astype(self.dtype)

    def _split(self, operands: Sequence[Any]) -> tuple[BoolArray | None, int]:
        """Return the mask, or None, and the step, or 0."""
        extra = list(operands[len(operands) - self.masked - (self.dropout_rate > 0.0) :])
        mask = extra.pop(0) if self.masked else None
        return mask, int(extra[0]) if extra else 0

    def _bias(self, xp: ArrayNamespace, mask: BoolArray | None, time: int, heads: int) -> FloatArray:
        """Return the bias added to the scaled scores; it broadcasts to (batch, heads, queries, keys)."""
        positions = xp.arange(time)
        distance = xp.abs(positions[:, None] - positions)
        bias = -xp.asarray(self._slopes(heads))[:, None, None] * xp.astype(distance, self.dtype)
        return xp.where(self._allowed(xp, mask, time), bias, xp.asarray(MASKED_SCORE, dtype=self.dtype))

    def _allowed(self, xp: ArrayNamespace, mask: BoolArray | None, time: int) -> BoolArray:
        """Return which keys each query may attend to; it broadcasts to (batch, heads, queries, keys)."""
        positions = xp.arange(time)
        allowed = (positions[:, None] >= positions) if self.causal else xp.ones((time, time), dtype=bool)
        return allowed if mask is None else allowed & mask[:, None]

    def _factors(self, xp: ArrayNamespace, mask: BoolArray | None, step: int, axes: tuple[int, int, int]) -> FloatArray:
        """Return the factors of the attention weights: 0 where a key is masked or dropped; the shape is as above."""
        batch, time, heads = axes
        factors = xp.astype(self._allowed(xp, mask, time), self.dtype)
        if self.dropout_rate > 0.0:
            keep = dropout_mask(
                batch * heads * time, time, drop_threshold(self.dropout_rate), step, self.seed, self.stream
            )
            scale = self.dtype.type(kept_factor(self.dropout_rate))
            factors = factors * xp.where(xp.reshape(keep, (batch, heads, time, time)), scale, 0 * scale)
        return factors

    def weights(self, qkv: Node, extra: Sequence[BaseNode]) -> tuple[Node, Node, list[Node]]:
        """Return the weights before dropout, their factors, (batch, heads, queries, keys), and queries, keys, values.

        The axes of queries, keys and values are (batch, heads, time, features).
        """
        options = self.attribute_values()
        bias, factors = (AttentionMask(qkv, *extra, part=part, **options) for part in ("bias", "factors"))
        parts: list[Node] = [qkv[:, :, i].transpose(0, 2, 1, 3) for i in range(3)]
        scores = (parts[0] @ parts[1].matrix_transpose()) * feature_scale(qkv) + bias
        return scores.softmax(), factors, parts


def tile_memory(
    dtype: np.dtype, shape: tuple[int, ...], keys: int, tile: int, transposed: int = 2, scores: int = 1
) -> tuple[Array, Array, Array]:
    """Return scratch memory for a tile of queries in each slot: transposed, their scores, and sums of scores.

    `shape` is that of the queries, (batch, time, heads, features), and `tile` the most queries of a tile.
    """
    batches, time, heads, features = shape
    tile, pairs = min(tile, -(-max(1, time) // COLUMN) * COLUMN), batches * heads
    slots = max(1, min(_SLOTS, pairs, pairs * time * keys // _SLOT_SCORES))
    return (
        scratch((slots, transposed, features, tile), dtype),
        scratch((slots, scores, keys + keys % 2, tile + _APART), dtype), scratch((slots, 3, tile), dtype),
    )  # fmt: skip


def forward_tile(features: int) -> int:
    """Return the most queries of a tile of a forward pass."""
    return COLUMN if has_few(features) else _QUERIES


class _AttentionLoops(ByKernel):
    def numbers(self, node: _Attention, features: int, heads: int) -> tuple[KernelArgument, ...]:
        """Return the kernel arguments after the arrays that all kernels share."""
        keep_scale = node.dtype.type(kept_factor(node.dropout_rate))
        threshold = drop_threshold(node.dropout_rate)
        scale = node.dtype.type(features**-0.5)
        return node.causal, scale, node._slopes(heads), threshold, keep_scale, node.seed & WORD, node.stream & WORD

    def scratch(
        self, node: _Attention, shape: tuple[int, ...], tile: int, transposed: int, scores: int
    ) -> tuple[Array, ...]:
        """Return scratch memory for a tile of queries: transposed, their scores, sums of scores, keys of masks."""
        memory = tile_memory(node.dtype, shape, shape[1], tile, transposed, scores)
        slots, _, columns = memory[2].shape
        return *memory, scratch((slots, 2, columns), np.uint32)

    def mask_and_step(self, node: _Attention, operands: Sequence[Array]) -> tuple[Array, Array]:
        """Return the mask, empty where there is none, and the step as an array with one element."""
        extra = list(operands[len(operands) - node.masked - (node.dropout_rate > 0.0) :])
        mask = extra.pop(0) if node.masked else np.zeros((1, 1, 0), np.bool_)
        return mask, extra[0].reshape(-1) if extra else np.zeros(1, np.int64)


class Attention(_Attention[Axes], Composed[tuple[Node, *tuple[Any, ...]], Axes]):
    """`softmax(queries @ keys.T / sqrt(features)) @ values` for each head, of the axes (batch, time, heads, features).

    `qkv` has the axes (batch, time, 3, heads, features). The optional mask has the axes (batch, queries, keys), the
    first two of which may have size 1. With `causal`, a query attends to keys at its own and earlier positions; with a
    mask, to keys where it is true. A query that may attend to no key gets zeros. `alibi` subtracts the distance of the
    key from each score, times a slope of `2 ** (-8 h / heads)` in head h = 1, 2, ... (Press et al., "Train short, test
    long", 2021). Dropout applies to the attention weights. Vaswani et al., "Attention is all you need" (2017).

    Raise `ShapeError` for other axes and for a `dropout_rate` outside [0, 1), `DTypeError` unless the mask is bool.
    """

    __slots__ = ()

    def __init__(self, qkv: Node, *extra: BaseNode, **options: Unpack[AttentionOptions]) -> None:
        self._construct((qkv, *extra), **options)

    def shape_rule(self) -> Dims:
        return self._axes()

    def compose(self, qkv: Node, *extra: BaseNode) -> Node:
        weights, factors, (_, _, values) = self.weights(qkv, extra)
        composed: Node = ((weights * factors) @ values).transpose(0, 2, 1, 3)
        return composed

    def by_rows(self, rows: Sequence[int | None]) -> Literal["rows", "mean"] | None:
        return "rows" if all(row in (0, None) for row in rows) else None

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        extra = self._extra()
        qkv_gradient = AttentionGradient(self.parents[0], gradient, *extra, **self.attribute_values())
        return (qkv_gradient, *(ZERO for _ in extra))


@LOOPS.register(Attention)
class _ForwardLoops(_AttentionLoops):
    takes_views = True
    kernel = staticmethod(attention_kernel)

    def kernel_arguments(self, node: Attention, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        _, _, heads, features = out.shape
        mask, step = self.mask_and_step(node, operands)
        scratch = self.scratch(node, out.shape, forward_tile(features), 2, 1)
        return operands[0], mask, step, out, *self.numbers(node, features, heads), *scratch


@REACH.register(Attention)
class _AttentionReach(Reach):
    """A query reads its own place, and the keys and values of the places that it may attend to."""

    def ignores_sizes(self, node: Attention, is_long: Callable[[Axis], bool]) -> bool:
        return node.causal

    def ignores_order(self, node: Attention, is_permuted: Callable[[Axis], bool]) -> bool:
        _, _, *rest = node.parents[0].dims
        alike = not (node.causal or node.alibi or node.masked or node.dropout_rate)
        return alike and not any(map(is_permuted, rest))

    def reached(self, node: Attention, operands: Sequence[Reached], analysis: Analysis) -> Reached | None:
        qkv = operands[0]
        batch, time, (three,), heads, _ = qkv.axes
        if len(time) != 1 or time[0] < 0 or any(each.zones for each in operands[2:]):
            return None
        rows, (query,) = {abs(a): abs(a) for a in (*batch, *heads)}, time
        key, part = analysis.fresh(at.size_of(node.dims[1])), analysis.fresh((at.ZERO, 3))
        is_query: list[Bound] = [(part, at.ZERO, 0)]
        is_other: list[Bound] = [(at.ZERO, part, -1)]
        zones = analysis.image(node, qkv.zones, {**rows, query: query, three: part}, is_query, [part])
        attended = analysis.image(node, qkv.zones, {**rows, query: key, three: part}, is_other, [part])
        earlier = [Zone({(key, query): 0})] if node.causal else at.EVERYWHERE
        attended = analysis.met(attended, earlier)
        if node.masked:
            mask, names = operands[1], dict[int, int]()
            for entry, own in zip(mask.axes, ([*batch], [query], [key]), strict=True):
                if len(entry) == len(own) and all(atom > 0 for atom in (*entry, *own)):
                    names.update(zip(entry, own, strict=True))
            placed = analysis.moved(node, mask, names)
            attended = analysis.met(attended, placed.values.get(0.0, at.EVERYWHERE))
            attended += analysis.met(placed.zones, earlier)
        visible = {atom: atom for atom in (*rows, query)}
        zones += analysis.image(node, attended, visible)
        return Reached((batch, time, heads, *analysis.axes(node.dims[3:])), zones)


def feature_scale(qkv: Node) -> Node:
    """Return `1 / sqrt(features)`, 1 without features."""
    features = qkv.dims[-1]
    size = axis_size(features)
    if size is not None:
        return constant_like(size**-0.5 if size else 1.0, qkv)
    scale: Node = 1.0 / size_beside(features, qkv).maximum(1.0).sqrt()
    return scale


class AttentionGradient(_Attention[Axes], Composed[tuple[Node, *tuple[Any, ...]], Axes]):
    """The gradient of `Attention` with respect to `qkv`, of the shape of `qkv`."""

    __slots__ = ()

    def __init__(self, qkv: Node, gradient: Node, *extra: BaseNode, **options: Unpack[AttentionOptions]) -> None:
        self._construct((qkv, gradient, *extra), **options)

    def shape_rule(self) -> Dims:
        for axis, other in zip(self._axes(), self.parents[1].dims, strict=True):
            unify(axis, other)
        dims: Dims = self.parents[0].dims
        return dims

    def compose(self, qkv: Node, gradient: Node, *extra: BaseNode) -> Node:
        weights, factors, (queries, keys, values) = self.weights(qkv, extra)
        cotangent = gradient.transpose(0, 2, 1, 3)
        of_weights = cotangent @ values.matrix_transpose() * factors
        of_scores = (of_weights - of_weights.vector_dot(weights).expand_dims(-1)) * weights * feature_scale(qkv)
        parts = (
            of_scores @ keys,
            of_scores.matrix_transpose() @ queries,
            (weights * factors).matrix_transpose() @ cotangent,
        )
        return stack([part.transpose(0, 2, 1, 3) for part in parts], axis=2)


@LOOPS.register(AttentionGradient)
class _GradientLoops(_AttentionLoops):
    takes_views = True
    kernel = staticmethod(attention_gradient_kernel)

    def kernel_arguments(
        self, node: AttentionGradient, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        heads, features = out.shape[3:]
        mask, step = self.mask_and_step(node, operands)
        scratch = self.scratch(node, operands[1].shape, _QUERIES, 3, 2)
        return operands[0], operands[1], mask, step, out, *self.numbers(node, features, heads), *scratch


class AttentionMask(_Attention[Axes]):
    """The bias of the scores, or the factors of the attention weights: 0 where a key is masked or dropped.

    The axes are (batch, heads, queries, keys). The value depends only on the sizes, the mask and the step.
    """

    __slots__ = ("part",)
    part: Literal["bias", "factors"]

    def __init__(
        self, qkv: Node, *extra: BaseNode, part: Literal["bias", "factors"], **options: Unpack[AttentionOptions]
    ) -> None:
        self._construct((qkv, *extra), part=part, **options)

    def shape_rule(self) -> Dims:
        batch, time, heads, _ = self._axes()
        return batch, heads, time, time

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        mask, step = self._split(operands)
        batch, heads, time, _ = shape
        part = (
            self._bias(xp, mask, time, heads)
            if self.part == "bias"
            else self._factors(xp, mask, step, (batch, time, heads))
        )
        return xp.broadcast_to(part, shape)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return tuple(ZERO for _ in self.parents)


@LOOPS.register(AttentionMask)
class _MaskLoops(_AttentionLoops):
    kernel = staticmethod(attention_mask_kernel)

    def kernel_arguments(
        self, node: AttentionMask, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        _, heads, time, _ = out.shape
        mask, step = self.mask_and_step(node, operands)
        half = (time + 1) // 2
        row = scratch((2, time), np.uint32), scratch(half, np.uint32), scratch(2 * half, node.dtype)
        return mask, step, out, *self.numbers(node, 1, heads), node.part == "bias", MASKED_SCORE, *row


JAX.register(Attention)(AttentionForm)
JAX.register(AttentionGradient)(AttentionGradientForm)
JAX.register(AttentionMask)(AttentionMaskForm)


def attention(
    qkv: Node[Any, tuple[A, M, N, K, D]],
    mask: Node[Any, tuple[A, M, M]] | BoolArray | None = None,
    *,
    causal: bool = False,
    alibi: bool = False,
    dropout_rate: float = 0.0,
    seed: int = 0,
    stream: int | None = None,
) -> Attention[tuple[A, M, K, D]]:
    """Return multi-head self-attention, `softmax(queries @ keys.T / sqrt(features)) @ values` for each head.

    `qkv` has the axes (batch, time, 3, heads, features), the result (batch, time, heads, features). `mask`, of the axes
    (batch, queries, keys), is true where a query may attend to a key; its first two axes may have size 1. `causal` also
    hides later keys. `alibi` subtracts a penalty from the scores that grows with the distance. `dropout_rate`,
    rounded to a multiple of 2**-16, is the probability of dropping an attention weight; the rest is divided by the
    probability of keeping it. `seed` and `stream` choose the random numbers, as in `dropout`. See `Attention` for the
    formulas.

    Raise `ShapeError` for other axes, `DTypeError` unless the mask is bool, `ValueError` for a `dropout_rate` outside
    [0, 1).

    >>> qkv = wy.Constant(np.ones((1, 4, 3, 2, 5)))
    >>> wy.attention(qkv, causal=True).forward().shape
    (1, 4, 2, 5)
    """
    check_rate("attention", qkv, dropout_rate, "dropout_rate")
    masks = () if mask is None else (mask if isinstance(mask, Node) else as_constant(mask, np.asarray(mask).dtype),)
    extra: tuple[BaseNode, ...] = masks + ((STEP,) if dropout_rate > 0.0 else ())
    return Attention(
        qkv, *extra, alibi=alibi, causal=causal, masked=mask is not None, dropout_rate=float(dropout_rate), seed=seed,
        stream=stream_or_next(stream) if dropout_rate > 0.0 else 0,
    )  # fmt: skip
