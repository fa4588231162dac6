"""The sampling of tokens as a graph, which every engine computes."""

from __future__ import annotations

from typing import Any

import numpy as np

from wyrm.errors import OptionError, ShapeError
from wyrm.graph.axes import axis_size
from wyrm.graph.base import describe
from wyrm.graph.node import IndexNode, Node
from wyrm.nn.texts.sampling import SamplingOptions
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.indexing.taking import IndexTakeAlongAxis, TakeAlongAxis
from wyrm.ops.reducing.counting import CountTrue
from wyrm.ops.reducing.positions import TopIndices
from wyrm.ops.reducing.sorting import ArgSort, SearchSorted
from wyrm.ops.shaping.arange import positions

# More of the most likely tokens are found sooner in a sorted row.
_FEW = 128


def sampled_tokens(
    logits: Node,
    draws: Node,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float | None = None,
    seen: Node | None = None,
) -> IndexNode:
    """Return a token for each row of logits, (batch, vocab_size), as a graph; the result has the axis (batch,).

    `draws`, (batch,), has a number from [0, 1) for each row: the same draws give the same tokens in every engine, those
    of `sample_tokens`, which says what the options mean and raises for them. `repetition_penalty` is for the tokens
    that `seen`, a mask of (batch, vocab_size), has. Gradients do not pass. Logits are numbers or minus infinity, and of
    a row not all are: of others the result is some token.

    Raise `ShapeError` for other axes, `OptionError` for a penalty without `seen`.

    >>> logits = wy.Constant([[0.0, 3.0, 1.0], [2.0, -np.inf, 1.0]])
    >>> sampled_tokens(logits, wy.Constant([0.99, 0.99])).forward().tolist()
    [2, 2]
    >>> sampled_tokens(logits, wy.Constant([0.99, 0.99]), top_k=1).forward().tolist()
    [1, 0]
    """
    options = SamplingOptions(temperature, top_k, top_p, min_p, repetition_penalty)
    size = axis_size(logits.dims[-1]) if len(logits.dims) == 2 else None
    if not size:
        raise ShapeError(
            f"sampled_tokens takes logits of the axes (batch, vocab_size), with a size, not {describe(logits)}"
        )
    if len(draws.dims) != 1:
        raise ShapeError(f"sampled_tokens takes draws of the axis (batch,), not {describe(draws)}")
    scores: Any = logits
    if options.repetition_penalty is not None:
        if seen is None:
            raise OptionError("repetition_penalty needs seen, a mask of the earlier tokens of each row")
        factor = options.repetition_penalty
        scores = where(seen, where(scores < 0.0, scores * factor, scores / factor), scores)
    if options.temperature == 0.0:
        most_likely: IndexNode = scores.argmax(axis=-1)
        return most_likely
    order: Any = None
    ranked: Any = scores
    if options.top_k is not None or options.top_p is not None:
        count = min(options.top_k or size, size)
        order = TopIndices(scores, count, -1) if count <= _FEW else ArgSort(-scores, -1)[:, :count]
        ranked = TakeAlongAxis(scores, order, -1)
    # The maximum becomes 0 before the division, so that no temperature is too low.
    largest: Any = scores.max(axis=-1, keepdims=True).astype(np.float64)
    weights: Any = (ranked.astype(np.float64) - largest) / options.temperature
    weights = weights.exp()
    if options.top_p is not None and options.top_p != 1.0:  # a rounded sum may reach 1 early
        sums: Any = weights.cumsum(-1)
        last = CountTrue(sums / sums[:, -1:] < options.top_p, -1, keepdims=True)
        weights = where(positions(sums.dims[-1]) <= last, weights, 0.0)
    if options.min_p is not None:
        weights = where(weights < options.min_p, 0.0, weights)
    totals: Any = weights.cumsum(-1)
    scaled: Any = draws.astype(np.float64) * totals[:, -1]
    # Rounded, it may be the whole sum, which no token exceeds.
    target: Any = where(scaled < totals[:, -1], scaled, 0.0)
    place = SearchSorted(totals, target.expand_dims(1), "right", batch=1)
    found: Any = place if order is None else IndexTakeAlongAxis(order, place, -1)
    chosen: IndexNode = found[:, 0]
    return chosen
