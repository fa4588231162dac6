"""`scipy.signal.convolve` over chosen axes, with sums of products over others."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import numpy as anp

Pairs = tuple[list[int], list[int]]


def convolve(A: Any, B: Any, axes: Pairs | None = None, dot_axes: Pairs = ([], []), mode: str = "full") -> Any:
    """Return the convolution over pairs of axes, summed over `dot_axes`; other axes of both make an outer product."""
    ranks = np.ndim(A), np.ndim(B)
    chosen = (list(range(ranks[0])), list(range(ranks[1]))) if axes is None else axes
    kept = [
        [i for i in range(rank) if i not in chosen[side] and i not in dot_axes[side]] for side, rank in enumerate(ranks)
    ]
    a = np.transpose(A, (*kept[0], *dot_axes[0], *chosen[0]))
    b = np.transpose(B, (*dot_axes[1], *kept[1], *chosen[1]))
    count = len(chosen[0])
    long, short = np.shape(a)[np.ndim(a) - count :], np.shape(b)[np.ndim(b) - count :]
    padding = [(0, 0)] * (np.ndim(a) - count) + [(s - 1, s - 1) for s in short]
    padded: Any = np.pad(a, padding)
    total: Any = None
    for offset in np.ndindex(*short):
        window = tuple(slice(s - 1 - o, s - 1 - o + n + s - 1) for o, n, s in zip(offset, long, short, strict=True))
        inside: Any = (..., *window)
        part = padded[inside]
        weight = b[(..., *offset)]
        summed = len(dot_axes[0])
        front = list(range(len(kept[0]), len(kept[0]) + summed))
        product = anp.tensordot(part, weight, (front, list(range(summed))))
        # The outer axes of the second operand come last; move them before the convolved ones.
        outer = len(kept[1])
        ndim = np.ndim(product)
        order = [*range(len(kept[0])), *range(ndim - outer, ndim), *range(len(kept[0]), ndim - outer)]
        term = np.transpose(product, order)
        total = term if total is None else total + term
    lead = (slice(None),) * (np.ndim(total) - count)
    if mode == "full":
        return total
    if mode == "valid":
        ends = [(min(n, s) - 1, max(n, s)) for n, s in zip(long, short, strict=True)]
    else:
        ends = [((s - 1) // 2, (s - 1) // 2 + n) for n, s in zip(long, short, strict=True)]
    return total[(*lead, *(slice(*end) for end in ends))]
