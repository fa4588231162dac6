"""Scaled dot-product attention of a sequence to itself, fused: no matrix of shares outlives a few queries of one head.

What is fused is the scores, masks, softmax, dropout and the sum of values. `AttentionGradient` computes the shares
again from the operands, so nothing is stored between the passes. Gradients of higher order are composed of ordinary
ops, with the masks as nodes: `AttentionMask`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypedDict, Unpack

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.node.base import ZERO, BaseNode, Gradient, format_dims, label
from wyrm.node.leaves import as_constant
from wyrm.node.loop_form import LOOPS, KernelArgument, LoopForm
from wyrm.node.node import Node
from wyrm.ops.attention_kernels import (
    attention_gradient_kernel,
    attention_kernel,
    attention_mask_kernel,
)
from wyrm.ops.composite_gradient import composite_vjp
from wyrm.ops.dropout_mask import WORD, check_rate, drop_threshold, dropout_mask
from wyrm.ops.elementwise import S
from wyrm.ops.philox import STEP, stream_or_next
from wyrm.ops.scratch import scratch
from wyrm.types.dims import Axis, Dims, axis_size, unify
from wyrm.types.namespace import ArrayNamespace
from wyrm.types.typing import A, Array, BoolArray, D, FloatArray, K, M, N

# How many queries of a head are worked on at a time: their scores stay in the cache.
_QUERIES = 64
# Where a key is not allowed, for a softmax of nodes: finite, so that gradients are.
FAR = -1e30


class _Options(TypedDict):
    alibi: bool
    causal: bool
    masked: bool
    rate: float
    seed: int
    stream: int


class _Attention(Node[tuple[Node, *tuple[Any, ...]], S], abstract=True):
    """What the ops of attention have in common; the parents are the packed operand, others, a mask, and the step."""

    __slots__ = ("alibi", "causal", "masked", "rate", "seed", "stream")
    alibi: bool
    causal: bool
    masked: bool
    rate: float
    seed: int
    stream: int

    def _options(self) -> _Options:
        return {
            "alibi": self.alibi, "causal": self.causal, "masked": self.masked, "rate": self.rate, "seed": self.seed,
            "stream": self.stream,
        }  # fmt: skip

    def _extra(self) -> tuple[BaseNode, ...]:
        """The mask and the step, of those that there are."""
        return tuple(self.parents[len(self.parents) - self.masked - (self.rate > 0.0) :])

    def dtype_rule(self) -> np.dtype:
        packed = self.parents[0]
        if packed.dtype.kind != "f":
            raise DTypeError(f"{label(packed)} is a mask; convert it with .astype(np.float32)")
        if self.masked and self._extra()[0].dtype.kind != "b":
            mask = self._extra()[0]
            raise DTypeError(f"what is allowed is a mask, such as x > 0; {label(mask)} is {mask.dtype}")
        dtype: np.dtype = packed.dtype
        return dtype

    def _axes(self) -> tuple[Axis, Axis, Axis, Axis]:
        """Batch, time, heads and features."""
        packed = self.parents[0]
        if len(packed.dims) != 5 or axis_size(packed.dims[2]) != 3:
            raise ShapeError(
                f"{label(packed)} has the axes (batch, time, 3, heads, features) here, queries, keys and values in the "
                f"third, not {format_dims(packed.dims)}"
            )
        batch, time, _, heads, features = packed.dims
        if self.masked:
            mask = self._extra()[0]
            if len(mask.dims) != 3:
                raise ShapeError(f"a mask has the axes (batch, queries, keys), not {format_dims(mask.dims)}")
            if axis_size(mask.dims[0]) != 1:
                batch = unify(batch, mask.dims[0])
            for axis in mask.dims[1 + (axis_size(mask.dims[1]) == 1) :]:
                time = unify(time, axis)
        if not 0.0 <= self.rate < 1.0:
            raise ShapeError(f"rate is at least 0 and below 1, not {self.rate}")
        if axis_size(features) == 0:
            raise ShapeError("there are no features to compare")
        return batch, time, heads, features

    def _slopes(self, heads: int) -> FloatArray:
        """How fast the scores of a head fall with the distance of the key (Press et al., 2021); zeros without."""
        steps = np.arange(1, heads + 1) / heads
        return (2.0 ** (-8.0 * steps) if self.alibi else np.zeros(heads)).astype(self.dtype)

    def _split(self, operands: Sequence[Any]) -> tuple[BoolArray | None, int]:
        """Of the mask and the step, what there is, else an empty mask and step 0."""
        extra = list(operands[len(operands) - self.masked - (self.rate > 0.0) :])
        mask = extra.pop(0) if self.masked else None
        return mask, int(extra[0]) if extra else 0

    def _bias(self, xp: ArrayNamespace, mask: BoolArray | None, time: int, heads: int) -> FloatArray:
        """What is added to the scaled scores, of axes that broadcast to (batch, heads, queries, keys)."""
        places = xp.arange(time)
        distance = xp.abs(places[:, None] - places)
        bias = -xp.asarray(self._slopes(heads))[:, None, None] * xp.astype(distance, self.dtype)
        return xp.where(self._allowed(xp, mask, time), bias, xp.asarray(FAR, dtype=self.dtype))

    def _allowed(self, xp: ArrayNamespace, mask: BoolArray | None, time: int) -> BoolArray:
        places = xp.arange(time)
        allowed = (places[:, None] >= places) if self.causal else xp.ones((time, time), dtype=bool)
        return (allowed if mask is None else allowed & mask[:, None])[..., :, :]

    def _factors(self, xp: ArrayNamespace, mask: BoolArray | None, step: int, axes: tuple[int, int, int]) -> FloatArray:
        """What shares are multiplied with: 0 where a key is not allowed or dropped, of axes as above."""
        batch, time, heads = axes
        factors = xp.astype(self._allowed(xp, mask, time), self.dtype)
        if self.rate > 0.0:
            keep = dropout_mask(batch * heads * time, time, drop_threshold(self.rate), step, self.seed, self.stream)
            scale = self.dtype.type(1.0 / (1.0 - self.rate))
            factors = factors * xp.where(xp.reshape(keep, (batch, heads, time, time)), scale, 0 * scale)
        return factors

    def _shares(
        self, xp: ArrayNamespace, packed: FloatArray, mask: BoolArray | None
    ) -> tuple[FloatArray, list[FloatArray]]:
        """The shares before dropout, (batch, heads, queries, keys), and queries, keys and values, heads before time."""
        parts = [xp.permute_dims(packed[:, :, i], (0, 2, 1, 3)) for i in range(3)]
        _, time, _, heads, features = packed.shape
        scores = parts[0] @ xp.permute_dims(parts[1], (0, 1, 3, 2)) * self.dtype.type(features**-0.5)
        powers = scores + self._bias(xp, mask, time, heads)
        powers = xp.exp(powers - xp.max(powers, axis=-1, keepdims=True))
        powers = powers * xp.astype(self._allowed(xp, mask, time), self.dtype)
        total = xp.sum(powers, axis=-1, keepdims=True)
        return powers / xp.where(total > 0.0, total, 1.0 + 0.0 * total), parts


class _AttentionLoops(LoopForm):
    def numbers(self, node: _Attention, features: int, heads: int) -> tuple[KernelArgument, ...]:
        """What all kernels take after the arrays."""
        keep_scale = node.dtype.type(1.0 / (1.0 - node.rate))
        threshold = drop_threshold(node.rate)
        scale = node.dtype.type(features**-0.5)
        return node.causal, scale, node._slopes(heads), threshold, keep_scale, node.seed & WORD, node.stream & WORD

    def scratch(self, node: _Attention, time: int, features: int, turned: int, scores: int) -> tuple[Array, ...]:
        """Their scratch arrays: features of queries, scores, sums of those, and what dropout needs."""
        tile = min(_QUERIES, max(1, time))
        return (
            scratch((turned, features, tile), node.dtype), scratch((scores, time + time % 2, tile), node.dtype),
            scratch((3, tile), node.dtype), scratch((2, tile), np.uint32),
        )  # fmt: skip

    def mask_and_step(self, node: _Attention, operands: Sequence[Array]) -> tuple[Array, Array]:
        """An empty mask where there is none, the step as an array of one number."""
        extra = list(operands[len(operands) - node.masked - (node.rate > 0.0) :])
        mask = extra.pop(0) if node.masked else np.zeros((1, 1, 0), np.bool_)
        return mask, extra[0].reshape(-1) if extra else np.zeros(1, np.int64)


class Attention(_Attention[S]):
    """`softmax(queries @ keys.T / sqrt(features)) @ values` for each head, of the axes (batch, time, heads, features).

    `packed` has the axes (batch, time, 3, heads, features). `causal` lets a query attend to keys up to its own place; a
    mask, of the axes (batch, queries, keys), the first two of which may have size 1, to those where it is true; a query
    that may attend to no key gets zeros. With `alibi`, scores fall linearly with the distance of the key, by a slope of
    `2 ** (-8 h / heads)` in head h = 1, 2, ... (Press et al., "Train short, test long", 2021). Dropout, with the
    probability `rate`, works on the shares. Vaswani et al., "Attention is all you need" (2017).

    Raises `ShapeError` for other axes and for a rate outside [0, 1), `DTypeError` for a mask that is none.
    """

    __slots__ = ()

    def __init__(self, packed: Node, *extra: BaseNode, **options: Unpack[_Options]) -> None:
        self._construct((packed, *extra), **options)

    def _own(self) -> Attention[S]:
        return self

    def shape_rule(self) -> Dims:
        return self._axes()

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        packed = operands[0]
        if 0 in shape:
            return xp.zeros(shape, dtype=self.dtype)
        mask, step = self._split(operands)
        shares, (_, _, values) = self._shares(xp, packed, mask)
        batch, time, heads, _ = shape
        dropped = shares * self._factors(xp, mask, step, (batch, time, heads))
        return xp.permute_dims(dropped @ values, (0, 2, 1, 3))

    def by_rows(self, rows: Sequence[int | None]) -> Literal["rows", "mean"] | None:
        return "rows" if all(row in (0, None) for row in rows) else None

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        extra = self._extra()
        by_packed = AttentionGradient(self.parents[0], gradient, *extra, **self._options())
        return (by_packed, *(ZERO for _ in extra))

    def decomposed(self, packed: Node) -> Node:
        """The same of ordinary nodes, for gradients of higher order."""
        features = packed.dims[-1]
        bias, factors = (
            AttentionMask(packed, *self._extra(), part=part, **self._options()) for part in ("bias", "factors")
        )
        queries, keys, values = (packed[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
        scores = (queries @ keys.matrix_transpose()) * _scale(features, packed.dtype) + bias
        composed: Node = ((scores.softmax() * factors) @ values).transpose(0, 2, 1, 3)
        return composed


@LOOPS.register(Attention)
class _ForwardLoops(_AttentionLoops):
    takes_views = True
    kernel = staticmethod(attention_kernel)

    def kernel_arguments(self, node: Attention, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        _, time, heads, features = out.shape
        mask, step = self.mask_and_step(node, operands)
        scratch = self.scratch(node, time, features, 2, 1)
        return operands[0], mask, step, out, *self.numbers(node, features, heads), *scratch


def _scale(features: Axis, dtype: np.dtype) -> np.floating:
    """`1 / sqrt(features)`, of an axis with a size."""
    size = axis_size(features)
    assert size is not None
    scale: np.floating = dtype.type(size**-0.5)
    return scale


class AttentionGradient(_Attention[S]):
    """The gradient of an attention by its packed operand, from that by its result; of the axes of the operand."""

    __slots__ = ()

    def __init__(self, packed: Node, gradient: Node, *extra: BaseNode, **options: Unpack[_Options]) -> None:
        self._construct((packed, gradient, *extra), **options)

    def _own(self) -> AttentionGradient[S]:
        return self

    def shape_rule(self) -> Dims:
        for axis, other in zip(self._axes(), self.parents[1].dims, strict=True):
            unify(axis, other)
        dims: Dims = self.parents[0].dims
        return dims

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        packed, gradient = operands[:2]
        if 0 in shape:
            return xp.zeros(shape, dtype=self.dtype)
        mask, step = self._split(operands)
        shares, (queries, keys, values) = self._shares(xp, packed, mask)
        batch, time, _, heads, features = shape
        factors = self._factors(xp, mask, step, (batch, time, heads))
        given = xp.permute_dims(gradient, (0, 2, 1, 3))
        by_shares = given @ xp.permute_dims(values, (0, 1, 3, 2)) * factors
        mean = xp.sum(by_shares * shares, axis=-1, keepdims=True)
        by_scores = (by_shares - mean) * shares * self.dtype.type(features**-0.5)
        turned = xp.permute_dims(by_scores, (0, 1, 3, 2))
        by_values = xp.permute_dims(shares * factors, (0, 1, 3, 2)) @ given
        parts = [xp.permute_dims(part, (0, 2, 1, 3)) for part in (by_scores @ keys, turned @ queries, by_values)]
        return xp.stack(parts, axis=2)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        packed, given = self.parents[:2]
        extra = self._extra()
        attention: Attention = Attention(packed, *extra, **self._options())
        (by_packed,) = composite_vjp(attention.decomposed(packed), given, (packed,))
        return (*composite_vjp(by_packed, gradient, (packed, given)), *(ZERO for _ in extra))


@LOOPS.register(AttentionGradient)
class _GradientLoops(_AttentionLoops):
    takes_views = True
    kernel = staticmethod(attention_gradient_kernel)

    def kernel_arguments(
        self, node: AttentionGradient, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        _, time, _, heads, features = out.shape
        mask, step = self.mask_and_step(node, operands)
        scratch = self.scratch(node, time, features, 3, 2)
        return operands[0], operands[1], mask, step, out, *self.numbers(node, features, heads), *scratch


class AttentionMask(_Attention[S]):
    """What an attention adds to its scores (`bias`) or multiplies its shares with (`factors`).

    Of the axes (batch, heads, queries, keys); a function of the sizes, the mask and the step alone.
    """

    __slots__ = ("part",)
    part: Literal["bias", "factors"]

    def __init__(
        self, packed: Node, *extra: BaseNode, part: Literal["bias", "factors"], **options: Unpack[_Options]
    ) -> None:
        self._construct((packed, *extra), part=part, **options)

    def _own(self) -> AttentionMask[S]:
        return self

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
        return mask, step, out, *self.numbers(node, 1, heads), node.part == "bias", FAR, *row


def attention(
    packed: Node[Any, tuple[A, M, N, K, D]],
    mask: Node[Any, tuple[A, M, M]] | BoolArray | None = None,
    *,
    causal: bool = False,
    alibi: bool = False,
    rate: float = 0.0,
    seed: int = 0,
    stream: int | None = None,
) -> Attention[tuple[A, M, K, D]]:
    """Attention of a sequence to itself, all heads at once; see `Attention` for the axes, the mask and the errors.

    >>> packed = wy.Constant(np.ones((1, 4, 3, 2, 5)))
    >>> wy.attention(packed, causal=True).forward().shape
    (1, 4, 2, 5)
    """
    check_rate("attention", packed, rate)
    masks = () if mask is None else (mask if isinstance(mask, Node) else as_constant(mask, np.asarray(mask).dtype),)
    extra: tuple[BaseNode, ...] = masks + ((STEP,) if rate > 0.0 else ())
    return Attention(
        packed, *extra, alibi=alibi, causal=causal, masked=mask is not None, rate=float(rate), seed=seed,
        stream=stream_or_next(stream) if rate > 0.0 else 0,
    )  # fmt: skip


__all__ = ["Attention", "AttentionGradient", "AttentionMask", "attention"]
