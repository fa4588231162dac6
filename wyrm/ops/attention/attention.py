"""Fused scaled dot-product attention: scores, masks, softmax, dropout and the weighted sum of values.

The kernels never materialize the attention matrix: they work on a tile of queries of one head at a time.
`AttentionGradient` recomputes the attention weights, so the forward pass stores no residuals.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, Unpack

import numpy as np

from wyrm.errors import DTypeError, OptionError, ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size, product, unify
from wyrm.graph.base import ZERO, BaseNode, Gradient, format_dims, label
from wyrm.graph.jax_form import JAX
from wyrm.graph.leaves import as_constant
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import A, Array, BoolArray, D, FloatArray, K, M, N
from wyrm.ops.attention.jax_form import AttentionForm, AttentionGradientForm, AttentionMaskForm
from wyrm.ops.attention.kernels import attention_gradient_kernel, attention_kernel, attention_mask_kernel
from wyrm.ops.attention.weights import COLUMN, has_few
from wyrm.ops.batching import batch_axis
from wyrm.ops.composed import Composed
from wyrm.ops.elementwise.elementwise import Axes, common_dtype, constant_like, size_beside
from wyrm.ops.gradients.accumulation import composite_vjp, unbroadcast
from wyrm.ops.indexing.joining import concatenate, stack
from wyrm.ops.kernels.native import scratch
from wyrm.ops.random.dropout_mask import WORD, check_rate, drop_threshold, dropout_mask, kept_factor
from wyrm.ops.random.philox import STEP, stream_or_next
from wyrm.reach import zones as at
from wyrm.reach.rules import REACH, Reach, Reached
from wyrm.reach.ways import How, Places, Way, ways_by
from wyrm.reach.zones import Bound, Zone

if TYPE_CHECKING:
    from wyrm.reach.facts import Analysis

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
    biased: bool
    scale: float | None
    dropout_rate: float
    seed: int
    stream: int


class Sizes(NamedTuple):
    """The axes of an attention: those of the batch, of rows, of heads, and of features of keys and of values."""

    batch: Axis
    queries: Axis
    keys: Axis
    heads: Axis
    shared: Axis
    features: Axis
    columns: Axis


class _Attention(Node[tuple[Node, *tuple[Any, ...]], Axes], abstract=True):
    """Base class of the attention ops.

    The first parents are `qkv`, of the axes (batch, time, 3, heads, features), or queries, keys and values, (batch,
    time, heads, features). Heads of keys and values serve as many consecutive heads of the queries. The last are the
    optional mask and bias of the scores, which broadcast to (batch, heads, queries, keys), and the step.
    """

    __slots__ = ("alibi", "biased", "causal", "dropout_rate", "masked", "scale", "seed", "stream")
    alibi: bool
    biased: bool
    causal: bool
    dropout_rate: float
    masked: bool
    scale: float | None
    seed: int
    stream: int

    @property
    def extra_count(self) -> int:
        """Number of the optional parents: the mask, the bias, the step."""
        return self.masked + self.biased + (self.dropout_rate > 0.0)

    def _extra(self) -> tuple[BaseNode, ...]:
        """Return the optional parents."""
        return tuple(self.parents[len(self.parents) - self.extra_count :])

    @property
    def packed(self) -> bool:
        """Whether queries, keys and values are one operand."""
        return len(self.parents) - self.extra_count <= 2

    def parts(self, operands: Sequence[Any]) -> tuple[Any, Any, Any]:
        """Return queries, keys and values, (batch, time, heads, features), of the operands: nodes or arrays."""
        first = operands[0]
        if self.packed:
            return first[:, :, 0], first[:, :, 1], first[:, :, 2]
        return first, operands[1], operands[2]

    @property
    def layout(self) -> Literal["packed", "heads", "flat"] | None:
        """How the gradients of queries, keys and values are one array: None where their sizes are not known.

        "packed" is the layout of `qkv`, "heads" joins them along the heads, (batch, time, heads, features), and "flat"
        joins all their numbers, (batch, numbers).
        """
        if self.packed:
            return "packed"
        sizes = self.sizes()
        if None in map(axis_size, (sizes.heads, sizes.shared)):
            return None
        if sizes.queries == sizes.keys and sizes.features == sizes.columns:
            return "heads"
        return None if None in map(axis_size, sizes[1:]) else "flat"

    def divided(self, joined: Any, shapes: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the gradients in one array, a node or an array, as those of operands of these shapes."""
        if self.layout == "packed":
            return [joined[:, :, i] for i in range(3)]
        along = slice(1, None) if self.layout == "flat" else slice(2, 3)
        ends = np.cumsum([0, *(math.prod(map(int, shape[along])) for shape in shapes)]).tolist()
        if self.layout == "heads":
            return [joined[:, :, first:last] for first, last in itertools.pairwise(ends)]
        parts = [joined[:, first:last] for first, last in itertools.pairwise(ends)]
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def join(self, parts: Sequence[Any], concat: Callable[..., Any], stack: Callable[..., Any]) -> Any:
        """Return the gradients as one node or array: `divided` is its inverse."""
        if self.layout == "packed":
            return stack(parts, axis=2)
        if self.layout == "heads":
            return concat(parts, axis=2)
        return concat([part.reshape((part.shape[0], math.prod(part.shape[1:]))) for part in parts], axis=1)

    @property
    def few_queries(self) -> bool:
        """Whether native code computes the composition: queries of another sequence, so few that scores are small.

        The kernels work on whole columns of queries, and compute scores again for the gradient. Both computed whole,
        attention of 32 queries to 256 keys and its gradient take 0.7 times the time.
        """
        count = None if self.packed else axis_size(self.sizes().queries)
        return count is not None and count < _QUERIES and self.layout == "flat"

    def masks(self, operands: Sequence[Any]) -> tuple[Any, Any, Any]:
        """Return the mask, the bias and the step, None where there is none, of the operands."""
        extra = iter(operands[len(operands) - self.extra_count :])
        mask, bias = (next(extra) if has else None for has in (self.masked, self.biased))
        return mask, bias, next(extra, None)

    def dtype_rule(self) -> np.dtype:
        operands = [self.parents[0]] if self.packed else self.parents[:3]
        mask, bias, _ = self.masks(self.parents)
        for node in (*operands, *(() if bias is None else (bias,))):
            if node.dtype.kind != "f":
                raise DTypeError(f"{label(node)} is a mask; convert it with .astype(np.float32)")
        if mask is not None and mask.dtype.kind != "b":
            raise DTypeError(f"the mask must have dtype bool, like x > 0; {label(mask)} is {mask.dtype}")
        return common_dtype(operands)

    def sizes(self) -> Sizes:
        """Return the axes, or raise `ShapeError`."""
        if self.packed:
            qkv = self.parents[0].dims
            if len(qkv) != 5 or axis_size(qkv[2]) != 3:
                raise ShapeError(
                    f"{label(self.parents[0])} must have the axes (batch, time, 3, heads, features), with queries, "
                    f"keys and values along the third, not {format_dims(qkv)}"
                )
            batch, queries, _, heads, features = qkv
            keys, shared, columns = queries, heads, features
        else:
            query, key, value = (parent.dims for parent in self.parents[:3])
            for dims in (query, key, value):
                if len(dims) != 4:
                    raise ShapeError(
                        f"queries, keys and values must have the axes (batch, time, heads, features), not "
                        f"{format_dims(dims)}"
                    )
            batch = unify(unify(query[0], key[0]), value[0])
            queries, keys, features, columns = query[1], unify(key[1], value[1]), unify(query[3], key[3]), value[3]
            heads, shared = query[2], unify(key[2], value[2])
            group_of(heads, shared)
        for mask in self.masks(self.parents)[:2]:
            if mask is None:
                continue
            if len(mask.dims) != 4:
                axes = "(batch, queries, keys)" if self.packed else "(batch, heads, queries, keys)"
                raise ShapeError(f"the mask must have the axes {axes}, not {format_dims(mask.dims)}")
            batch, heads, queries = (
                axis if axis_size(other) == 1 else unify(axis, other)
                for axis, other in zip((batch, heads, queries), mask.dims[:3], strict=True)
            )
            keys = unify(keys, mask.dims[3])
        if self.packed:
            queries = keys = unify(queries, keys)
        if not 0.0 <= self.dropout_rate < 1.0:
            raise ShapeError(f"dropout_rate must be in [0, 1), not {self.dropout_rate}")
        if axis_size(features) == 0:
            raise ShapeError("the axis of features has size 0")
        return Sizes(batch, queries, keys, heads, shared, features, columns)

    def factor(self, features: int) -> np.generic:
        """Return the factor of the scores of so many features."""
        factor: np.generic = self.dtype.type(features**-0.5 if self.scale is None else self.scale)
        return factor

    def slopes(self, heads: int) -> FloatArray:
        """Return the ALiBi slope of each head (Press et al., 2021), or zeros without `alibi`."""
        steps = np.arange(1, heads + 1) / heads
        return (2.0 ** (-8.0 * steps) if self.alibi else np.zeros(heads)).astype(self.dtype)

    def bias_of(self, xp: ArrayNamespace, mask: BoolArray | None, axes: tuple[int, int, int, int]) -> FloatArray:
        """Return the bias of ALiBi and masks, for (batch, heads, queries, keys), to which it broadcasts."""
        _, heads, queries, keys = axes
        distance = xp.abs(xp.arange(queries)[:, None] - xp.arange(keys))
        bias = -xp.asarray(self.slopes(heads))[:, None, None] * xp.astype(distance, self.dtype)
        return xp.where(self.allowed(xp, mask, axes), bias, xp.asarray(MASKED_SCORE, dtype=self.dtype))

    def allowed(self, xp: ArrayNamespace, mask: BoolArray | None, axes: tuple[int, int, int, int]) -> BoolArray:
        """Return which keys each query may attend to; it broadcasts to (batch, heads, queries, keys)."""
        _, _, queries, keys = axes
        later = (xp.arange(queries)[:, None] >= xp.arange(keys)) if self.causal else None
        allowed = xp.ones((queries, keys), dtype=bool) if later is None else later
        return allowed if mask is None else allowed & mask

    def _weight_factors(
        self, xp: ArrayNamespace, mask: BoolArray | None, step: int, axes: tuple[int, int, int, int]
    ) -> FloatArray:
        """Return the factors of the attention weights: 0 where a key is masked or dropped; the shape is as above."""
        batch, heads, queries, keys = axes
        factors = xp.astype(self.allowed(xp, mask, axes), self.dtype)
        if self.dropout_rate > 0.0:
            keep = dropout_mask(
                batch * heads * queries, keys, drop_threshold(self.dropout_rate), step, self.seed, self.stream
            )
            scale = self.dtype.type(kept_factor(self.dropout_rate))
            factors = factors * xp.where(xp.reshape(keep, axes), scale, 0 * scale)
        return factors

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Any:
        """Return the op on a batch, whose axis and that of the op become one; None with random numbers."""
        if self.dropout_rate > 0.0:
            return None
        axis, batch = batch_axis(operands, mapped), self.sizes().batch
        folded: list[Node] = []
        for x, is_mapped in zip(operands, mapped, strict=True):
            dims = x.dims[is_mapped:]
            if is_mapped or axis_size(dims[0]) != 1:
                every = x if is_mapped else x.expand_dims(0)
                folded.append(every.broadcast_to((axis, batch, *dims[1:])).reshape((product((axis, batch)), *dims[1:])))
            else:
                folded.append(x)
        found: Any = self.rebuild(folded)
        return found.reshape((axis, batch, *found.dims[1:]))

    # --- the composition ----------------------------------------------------------------------------------------------

    @property
    def _group(self) -> int:
        sizes = self.sizes()
        return group_of(sizes.heads, sizes.shared)

    def _rows_by_key_head(self, x: Node, key: Node) -> Any:
        """Return `x`, (batch, heads, queries, ...), with the heads that share one of `key` as rows of one product."""
        if self._group == 1:
            return x
        batch, _, queries, last = x.dims
        return x.reshape((batch, key.dims[1], product((self._group, queries)), last))

    def _heads(self, rows: Node, query: Node) -> Any:
        """Return such rows with the heads of `query` again."""
        return rows if self._group == 1 else rows.reshape((*query.dims[:3], rows.dims[3]))

    def _weights(self, operands: Sequence[Node]) -> tuple[Any, Any, tuple[Any, Any, Any]]:
        """Return the weights before dropout, their factors, (batch, heads, queries, keys), and queries, keys, values.

        The axes of queries, keys and values are (batch, heads, time, features). The factors are 1 where nothing is
        hidden or dropped.
        """
        mask, bias, step = self.masks(operands)
        others = [each for each in (mask, step) if each is not None]
        options: Any = self.attribute_values() | {"biased": False}
        sources = operands[: 1 if self.packed else 3]
        hides = self.causal or self.masked
        query, key, value = (each.transpose(0, 2, 1, 3) for each in self.parts(operands))
        scores = self._heads(self._rows_by_key_head(query, key) @ key.matrix_transpose(), query) * self._factor_of(
            query
        )
        if hides or self.alibi:
            scores = scores + AttentionMask(*sources, *others, part="bias", **options)
        weights = (scores if bias is None else scores + bias).softmax()
        factors: Any = 1.0
        if hides or self.dropout_rate > 0.0:
            factors = AttentionMask(*sources, *others, part="factors", **options)
        return weights, factors, (query, key, value)

    def _factor_of(self, query: Node) -> Node:
        return feature_scale(query) if self.scale is None else constant_like(self.scale, query)

    def _differentiated(self, operands: Sequence[Node], gradient: Node) -> tuple[Any, Any, Any, tuple[Any, Any, Any]]:
        """Return the gradient of the scores, the dropped weights, the cotangent, and queries, keys, values."""
        weights, factors, parts = self._weights(operands)
        query, _, value = parts
        cotangent: Node = gradient.transpose(0, 2, 1, 3)
        of_weights = self._heads(self._rows_by_key_head(cotangent, value) @ value.matrix_transpose(), query) * factors
        of_scores = (of_weights - of_weights.vector_dot(weights).expand_dims(-1)) * weights
        return of_scores, weights * factors, cotangent, parts


def group_of(heads: Axis, shared: Axis) -> int:
    """Return how many heads of the queries share one of the keys; raise `ShapeError` unless those divide them."""
    if axis_size(heads) == axis_size(shared):
        if axis_size(heads) is None:
            unify(heads, shared)
        return 1
    for axis in (heads, shared):
        if not axis_size(axis):
            raise ShapeError(f"the axis of heads, {axis!r}, needs a size of at least 1")
    if int(heads) % int(shared):
        raise ShapeError(f"the heads of the queries, {heads!r}, are no multiple of those of the keys, {shared!r}")
    return int(heads) // int(shared)


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
    def decompose(self, node: Any) -> Node | None:
        composed: Node | None = node.compose(*node.parents) if node.few_queries else None
        return composed

    def numbers(self, node: _Attention, features: int, heads: int) -> tuple[KernelArgument, ...]:
        """Return the kernel arguments after the arrays that all kernels share."""
        keep_scale = node.dtype.type(kept_factor(node.dropout_rate))
        threshold, factor = drop_threshold(node.dropout_rate), node.factor(features)
        return node.causal, factor, node.slopes(heads), threshold, keep_scale, node.seed & WORD, node.stream & WORD

    def scratch(
        self, node: _Attention, shape: tuple[int, ...], keys: int, tile: int, transposed: int, scores: int
    ) -> tuple[Array, ...]:
        """Return scratch memory for a tile of queries: transposed, their scores, sums of scores, keys of masks."""
        memory = tile_memory(node.dtype, shape, keys, tile, transposed, scores)
        slots, _, columns = memory[2].shape
        return *memory, scratch((slots, 2, columns), np.uint32)

    def extra(self, node: _Attention, operands: Sequence[Array]) -> tuple[Array, Array, Array]:
        """Return the mask and the bias, empty where there is none, and the step as an array with one element."""
        mask, bias, step = node.masks(operands)
        return (
            np.zeros((1, 1, 1, 0), np.bool_) if mask is None else mask,
            np.zeros((1, 1, 1, 0), node.dtype) if bias is None else bias,
            np.zeros(1, np.int64) if step is None else step.reshape(-1),
        )


class Attention(_Attention[Axes], Composed[tuple[Node, *tuple[Any, ...]], Axes]):
    """`softmax(queries @ keys.T * scale) @ values` for each head, of the axes (batch, queries, heads, features).

    The first operands are `qkv`, of the axes (batch, time, 3, heads, features), or queries, (batch, queries, heads,
    features), keys, (batch, keys, shared, features), and values, (batch, keys, shared, columns). Each head of keys and
    values serves as many consecutive heads of the queries (Ainslie et al., "GQA", 2023); it is read where it is, and
    its gradient is the sum over these heads. The scale is `1 / sqrt(features)` for None.

    The optional mask and bias have the axes (batch, heads, queries, keys), the first three of which may have size 1.
    With `causal`, a query attends to keys at its own and earlier positions; with a mask, to keys where it is true. A
    query that may attend to no key gets zeros. The bias is added to the scores. `alibi` subtracts the distance of the
    key from each score, times a slope of `2 ** (-8 h / heads)` in head h = 1, 2, ... (Press et al., "Train short, test
    long", 2021). Dropout applies to the attention weights. Vaswani et al., "Attention is all you need" (2017).

    Raise `ShapeError` for other axes and for a `dropout_rate` outside [0, 1), `DTypeError` unless the mask is bool.
    """

    __slots__ = ()

    def __init__(self, *operands: BaseNode, **options: Unpack[AttentionOptions]) -> None:
        self._construct(operands, **options)

    def shape_rule(self) -> Dims:
        sizes = self.sizes()
        return sizes.batch, sizes.queries, sizes.heads, sizes.columns

    def compose(self, *operands: Any) -> Node:
        weights, factors, (query, _, value) = self._weights(operands)
        composed: Node = self._heads(self._rows_by_key_head(weights * factors, value) @ value, query).transpose(
            0, 2, 1, 3
        )
        return composed

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return self.vjp_by(gradient, [True] * len(self.parents))

    def vjp_by(self, gradient: Node, wanted: Sequence[bool]) -> tuple[Gradient, ...]:
        count = len(self.parents) - self.extra_count
        of_parts: tuple[Gradient, ...]
        if not any(wanted[:count]):
            of_parts = (ZERO,) * count
        elif self.layout is None:
            of_parts = composite_vjp(self.compose(*self.parents), gradient, self.parents[:count])
        else:
            operands = (*self.parents[:count], gradient, *self._extra())
            joined = AttentionGradient(*operands, **self.attribute_values())
            of_parts = (joined,) if self.packed else tuple(self.divided(joined, [x.dims for x in self.parents[:3]]))
        of_extra: list[Gradient] = [ZERO] * self.extra_count
        if self.biased and wanted[count + self.masked]:
            of_scores, _, _, _ = self._differentiated(self.parents, gradient)
            of_extra[self.masked] = unbroadcast(of_scores, self.parents[count + self.masked].dims)
        return (*of_parts, *of_extra)


@LOOPS.register(Attention)
class _ForwardLoops(_AttentionLoops):
    takes_views = True
    kernel = staticmethod(attention_kernel)

    def kernel_arguments(self, node: Attention, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        query, key, value = node.parts(operands)
        heads, features = query.shape[2:]
        rows = max(features, value.shape[3])
        scratch = self.scratch(node, (*out.shape[:3], rows), key.shape[1], forward_tile(features), 2, 1)
        numbers = self.numbers(node, features, heads)
        return query, key, value, *self.extra(node, operands), out, *numbers, *scratch


@REACH.register(Attention)
class _AttentionReach(Reach):
    """A query reads its own place, and the keys and values of the places that it may attend to."""

    def ways(self, node: Attention) -> list[Way]:
        mask, bias, step = node.masks(range(len(node.parents)))
        how: dict[Hashable, How] = {"key": How.REDUCED}
        if step is not None:
            how = {"row": How.DRAWN, **dict.fromkeys(("query", "key", "heads", "columns"), How.ANY)}
        elif node.causal or node.alibi:
            how = dict.fromkeys(("query", "key"), How.COUNTED if node.causal else How.ANY)
        parts = [0, 0] if node.packed else range(3)  # `qkv` is read in all roles
        places: list[Places] = [
            (k, ["row", "key" if i else "query", *[None] * (node.parents[k].ndim - 2)]) for i, k in enumerate(parts)
        ]
        places += [(k, ["row", None, "query", "key"]) for k in (mask, bias) if k is not None]
        return ways_by(node, places, how, {"row": 0, "query": 1, "heads": 2, "columns": 3})

    def help(self, node: Attention) -> str:
        return "" if node.causal else "causal=True keeps each position from later ones; a mask says more"

    def reached(self, node: Attention, operands: Sequence[Reached], analysis: Analysis) -> Reached | None:
        mask, bias, step = node.masks(operands)
        if step is not None and step.zones:
            return None
        sizes, part, temporary = node.sizes(), 0, list[int]()
        parts = [operands[0]] * 2 if node.packed else list(operands[:3])
        heads = 3 if node.packed else 2
        if node.packed:
            part = analysis.fresh(at.size_of(3))
            temporary.append(part)
        extra: list[list[Bound]] = [[(part, at.ZERO, 0)], [(at.ZERO, part, -1)]] if node.packed else [[], [], []]
        others = [each for each in (mask, bias) if each is not None]
        one_each = group_of(sizes.heads, sizes.shared) == 1
        lists = [[x.axes[0], x.axes[heads] if k == 0 or one_each else ()] for k, x in enumerate(parts)]
        lists += [[x.axes[0], x.axes[1]] for x in others]
        rows, names = analysis.joined([*parts, *others], lists, 2)
        query, key = analysis.fresh(at.size_of(sizes.queries)), analysis.fresh(at.size_of(sizes.keys))
        images = []
        for k, (x, own) in enumerate(zip([*parts, *others], names, strict=True)):
            places = [(x.axes[1], key if k else query)] if k < len(parts) else [(x.axes[2], query), (x.axes[3], key)]
            if k < len(parts) and node.packed:
                places.append((x.axes[2], part))
            placed = {entry[0]: place for entry, place in places if len(entry) == 1 and entry[0] > 0}
            bounds = extra[k] if k < len(parts) else []
            images.append(analysis.moved(node, x, {**own, **placed}, bounds, temporary))
        seen = [Zone({(key, query): 0})] if node.causal else at.EVERYWHERE
        read = [zone for x in images[1:] for zone in x.zones]
        attended = analysis.met(read, seen)
        if mask is not None:
            of_mask = images[len(parts)]
            open_to = of_mask.values.get(0.0, at.EVERYWHERE)
            attended = analysis.met(attended, open_to) + analysis.met(of_mask.zones, seen)
            seen = analysis.met(seen, open_to)
        weights = Reached((rows[0], (query,), rows[1], (key,)), attended, {0.0: seen})
        found = analysis.without(node, weights, [3], keepdims=False, neutral=0.0)
        return Reached((*found.axes, *analysis.axes((sizes.columns,))), images[0].zones + found.zones)


def feature_scale(qkv: Node) -> Node:
    """Return `1 / sqrt(features)`, 1 without features."""
    features = qkv.dims[-1]
    size = axis_size(features)
    if size is not None:
        return constant_like(size**-0.5 if size else 1.0, qkv)
    scale: Node = 1.0 / size_beside(features, qkv).maximum(1.0).sqrt()
    return scale


class AttentionGradient(_Attention[Axes], Composed[tuple[Node, *tuple[Any, ...]], Axes]):
    """The gradients of `Attention` with respect to queries, keys and values, as one array: see `layout`.

    The parents are those of `Attention`, with the cotangent after queries, keys and values.
    """

    __slots__ = ()

    def __init__(self, *operands: BaseNode, **options: Unpack[AttentionOptions]) -> None:
        self._construct(operands, **options)

    def shape_rule(self) -> Dims:
        sizes, count = self.sizes(), 1 if self.packed else 3
        result = sizes.batch, sizes.queries, sizes.heads, sizes.columns
        for axis, other in zip(result, self.parents[count].dims, strict=True):
            unify(axis, other)
        if self.packed:
            dims: Dims = self.parents[0].dims
            return dims
        shapes = [parent.dims for parent in self.parents[:3]]
        if self.layout == "heads":
            return (*result[:2], sum(int(shape[2]) for shape in shapes), sizes.features)
        return sizes.batch, sum(math.prod(map(int, shape[1:])) for shape in shapes)

    def compose(self, *operands: Any) -> Node:
        gradient = operands[1 if self.packed else 3]
        of_scores, dropped, cotangent, (query, key, value) = self._differentiated(operands, gradient)
        of_scores = of_scores * self._factor_of(query)
        rows = self._rows_by_key_head(of_scores, key).matrix_transpose()
        parts = (
            self._heads(self._rows_by_key_head(of_scores, key) @ key, query),
            rows @ self._rows_by_key_head(query, key),
            self._rows_by_key_head(dropped, value).matrix_transpose() @ self._rows_by_key_head(cotangent, value),
        )
        joined: Node = self.join([part.transpose(0, 2, 1, 3) for part in parts], concatenate, stack)
        return joined


@LOOPS.register(AttentionGradient)
class _GradientLoops(_AttentionLoops):
    takes_views = True
    kernel = staticmethod(attention_gradient_kernel)

    def kernel_arguments(
        self, node: AttentionGradient, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        parts = query, key, value = node.parts(operands)
        batch, time, heads, features = query.shape
        shape = batch, time, key.shape[2], max(features, value.shape[3])
        scratch = self.scratch(node, shape, key.shape[1], _QUERIES, 3, 2)
        gradients = node.divided(out, [part.shape for part in parts])
        cotangent, numbers = operands[1 if node.packed else 3], self.numbers(node, features, heads)
        return *parts, cotangent, *self.extra(node, operands), *gradients, *numbers, *scratch


class AttentionMask(_Attention[Axes]):
    """The bias of ALiBi and masks, or the factors of the attention weights: 0 where a key is masked or dropped.

    The axes are (batch, heads, queries, keys). The value depends only on the sizes, the mask and the step.
    """

    __slots__ = ("part",)
    part: Literal["bias", "factors"]

    def __init__(
        self, *operands: BaseNode, part: Literal["bias", "factors"], **options: Unpack[AttentionOptions]
    ) -> None:
        self._construct(operands, part=part, **options)

    def shape_rule(self) -> Dims:
        sizes = self.sizes()
        return sizes.batch, sizes.heads, sizes.queries, sizes.keys

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        mask, _, step = self.masks(operands)
        axes: Any = shape
        if self.part == "bias":
            return xp.broadcast_to(self.bias_of(xp, mask, axes), shape)
        return xp.broadcast_to(self._weight_factors(xp, mask, 0 if step is None else int(step), axes), shape)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return tuple(ZERO for _ in self.parents)


@LOOPS.register(AttentionMask)
class _MaskLoops(_AttentionLoops):
    def decompose(self, node: Any) -> None:
        return None

    kernel = staticmethod(attention_mask_kernel)

    def kernel_arguments(
        self, node: AttentionMask, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        _, heads, queries, keys = out.shape
        mask, _, step = self.extra(node, operands)
        half = (keys + 1) // 2
        row = scratch((2, queries), np.uint32), scratch(half, np.uint32), scratch(2 * half, node.dtype)
        return mask, step, out, *self.numbers(node, 1, heads), node.part == "bias", MASKED_SCORE, *row


JAX.register(Attention)(AttentionForm)
JAX.register(AttentionGradient)(AttentionGradientForm)
JAX.register(AttentionMask)(AttentionMaskForm)


def attend(
    caller: str,
    parts: Sequence[Node],
    mask: Node | None = None,
    bias: Node | None = None,
    *,
    causal: bool = False,
    alibi: bool = False,
    scale: float | None = None,
    dropout_rate: float = 0.0,
    seed: int = 0,
    stream: int | None = None,
) -> Attention[Any]:
    """Return the attention of `qkv`, or of queries, keys and values, of the axes that `Attention` takes.

    Raise an error in the name of the `caller` for a rate or a scale out of range.
    """
    check_rate(caller, parts[0], dropout_rate, "dropout_rate")
    if scale is not None and not np.isfinite(scale):
        raise OptionError(f"{caller}: scale must be finite, not {scale}")
    given = [node for node in (mask, bias) if node is not None]
    extra: tuple[BaseNode, ...] = (*given, *((STEP,) if dropout_rate > 0.0 else ()))
    return Attention(
        *parts, *extra, alibi=alibi, causal=causal, masked=mask is not None, biased=bias is not None,
        scale=None if scale is None else float(scale), dropout_rate=float(dropout_rate), seed=seed,
        stream=stream_or_next(stream) if dropout_rate > 0.0 else 0,
    )  # fmt: skip


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
    return attend(
        "attention", [qkv], None if mask is None else mask_of_heads(mask), causal=causal, alibi=alibi,
        dropout_rate=dropout_rate, seed=seed, stream=stream,
    )  # fmt: skip


def mask_of_heads(mask: Node | BoolArray) -> Node:
    """Return a mask of the axes (batch, queries, keys) as one of all heads, (batch, 1, queries, keys)."""
    node: Node = mask if isinstance(mask, Node) else as_constant(mask, np.asarray(mask).dtype)
    return node.expand_dims(1) if node.ndim == 3 else node
