"""Tokens that draws select by their logits, for each row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size, unify
from wyrm.graph.base import describe
from wyrm.graph.loop_form import LOOPS, ByKernel
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, FloatArray, IntegerArray
from wyrm.ops.batching import spread
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.kernels.native import scratch
from wyrm.ops.random.token_kernels import sample_rows
from wyrm.reach.rules import REACH, Reach
from wyrm.reach.ways import Way, ways_by


class SampledTokens(IndexNode[Axes]):
    """The token that a number from [0, 1) selects, for each row of logits along the last axis.

    The operands are logits, draws without the last axis, and with a penalty a mask of the tokens that it is for. The
    options are those of `wyrm.nn.sample_tokens`; 0 leaves one out. Of logits that are NaN, infinity, or all minus
    infinity, the result is some token.
    """

    __slots__ = ("min_p", "repetition_penalty", "temperature", "top_k", "top_p")
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float

    def __init__(
        self, logits: Node, draws: Node, seen: Node | None = None, *, temperature: float = 1.0, top_k: int = 0,
        top_p: float = 0.0, min_p: float = 0.0, repetition_penalty: float = 0.0,
    ) -> None:  # fmt: skip
        self._construct(
            (logits, draws) if seen is None else (logits, draws, seen), temperature=temperature, top_k=top_k,
            top_p=top_p, min_p=min_p, repetition_penalty=repetition_penalty,
        )  # fmt: skip

    @property
    def within(self) -> Axis:
        """The axis that the values index."""
        axis: Axis = self.parents[0].dims[-1]
        return axis

    def shape_rule(self) -> Dims:
        logits, draws, *masks = self.parents
        if not logits.dims or axis_size(logits.dims[-1]) == 0:
            raise ShapeError(f"logits need an axis of at least one token, not {describe(logits)}")
        if len(draws.dims) != len(logits.dims) - 1:
            raise ShapeError(f"draws are one for each row of {describe(logits)}, not {describe(draws)}")
        rows = tuple(map(unify, logits.dims[:-1], draws.dims))
        for mask in masks:
            if len(mask.dims) != len(logits.dims):
                raise ShapeError(f"seen has the axes of {describe(logits)}, not {describe(mask)}")
            tuple(map(unify, logits.dims, mask.dims))
        return rows

    def dtype_rule(self) -> np.dtype:
        logits, draws, *masks = self.parents
        if logits.dtype.kind != "f" or draws.dtype.kind != "f":
            raise DTypeError(f"takes logits and draws that are floats, not {describe(logits)}, {describe(draws)}")
        if len(masks) != (self.repetition_penalty != 0.0) or any(mask.dtype.kind != "b" for mask in masks):
            raise DTypeError("takes a mask of the tokens that a penalty is for, and with a penalty alone")
        return super().dtype_rule()

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Any:
        return self.rebuild(spread(operands, mapped))

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> IntegerArray:
        scores: Any = operands[0]
        draws: Any = xp.astype(operands[1], xp.float64)
        if self.repetition_penalty != 0.0:
            factor = np.asarray(self.repetition_penalty, scores.dtype)
            scores = xp.where(operands[2], xp.where(scores < 0, scores * factor, scores / factor), scores)
        if self.temperature == 0.0:
            return xp.argmax(scores, axis=-1)
        # Without either, tokens are in their own order.
        order: Any = None
        ranked = scores
        if self.top_k or self.top_p:
            order = xp.argsort(-scores, axis=-1, stable=True)[..., : self.top_k or None]
            ranked = xp.take_along_axis(scores, order, axis=-1)
        # The maximum becomes 0 before the division, so that no temperature is too low.
        largest = xp.astype(xp.max(scores, axis=-1, keepdims=True), xp.float64)
        weights: Any = xp.exp((xp.astype(ranked, xp.float64) - largest) / self.temperature)
        if 0.0 < self.top_p < 1.0:
            sums: Any = xp.cumsum(weights, axis=-1)
            last = xp.sum(sums / sums[..., -1:] < self.top_p, axis=-1, keepdims=True)
            weights = xp.where(xp.arange(weights.shape[-1]) <= last, weights, 0.0)
        weights = xp.where(weights < self.min_p, 0.0, weights)
        totals: Any = xp.cumsum(weights, axis=-1)
        # Rounded, a draw of the whole may be the whole sum, which no token exceeds.
        wanted = xp.where(draws * totals[..., -1] < totals[..., -1], draws * totals[..., -1], 0.0)
        place: Any = xp.argmax(totals > wanted[..., None], axis=-1)
        return place if order is None else xp.take_along_axis(order, place[..., None], axis=-1)[..., 0]


@REACH.register(SampledTokens)
class _SampledTokensReach(Reach):
    """A token depends on the scores, the draw and the mask of its row."""

    def ways(self, node: SampledTokens) -> list[Way]:
        return ways_by(node, [(k, [*range(node.ndim), None][: x.ndim]) for k, x in enumerate(node.parents)])


@LOOPS.register(SampledTokens)
class _SampledTokensLoops(ByKernel):
    @staticmethod
    def kernel(
        logits: FloatArray, draws: FloatArray, seen: IntegerArray, temperature: float, top_k: int, top_p: float,
        min_p: float, penalty: float, out: IntegerArray, scores: FloatArray, weights: FloatArray, heap: IntegerArray,
    ) -> None:  # fmt: skip
        sample_rows(
            logits, draws, seen, temperature, top_k, top_p, min_p, penalty, out, scores, weights, heap
        )  # fmt: skip
        for row in range(out.shape[0]):  # of logits that select none, the first
            out[row] = max(out[row], 0)

    def kernel_arguments(self, node: SampledTokens, operands: Sequence[Array], out: Array) -> tuple[Any, ...]:
        logits, draws, *masks = operands
        size = logits.shape[-1]
        rows = math.prod(logits.shape[:-1])
        seen = masks[0].reshape(rows, size) if masks else scratch((1, 1), np.bool_)
        return (
            logits.reshape(rows, size), draws.reshape(rows), seen, node.temperature, node.top_k, node.top_p, node.min_p,
            node.repetition_penalty, out.reshape(rows), scratch(size, logits.dtype), scratch(size, np.float64),
            scratch(size, np.int64),
        )  # fmt: skip


__all__ = ["SampledTokens"]
