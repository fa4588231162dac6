"""Convolutions of arrays, one tap at a time: the reference that native code is tested against.

The axes of `x` are (batch, channels, *sizes), those of the weight (output channels, channels per group, *windows).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import FloatArray
from wyrm.ops.windows import Window


def padded(xp: ArrayNamespace, x: FloatArray, pads: Sequence[tuple[int, int]]) -> FloatArray:
    """Return `x` with zeros before and after its last axes; a negative number removes elements."""
    first = x.ndim - len(pads)
    for axis, (before, after) in enumerate(pads, first):
        ends = [
            xp.zeros((*x.shape[:axis], max(0, size), *x.shape[axis + 1 :]), dtype=x.dtype) for size in (before, after)
        ]
        x = xp.concat([ends[0], x, ends[1]], axis=axis)
        # Zeros of one end may be removed from the other end.
        keep = slice(max(0, -before), x.shape[axis] - max(0, -after))
        x = x[(*[slice(None)] * axis, keep)]
    return x


def spaced(xp: ArrayNamespace, x: FloatArray, steps: Sequence[int]) -> FloatArray:
    """Return `x` with `step - 1` zeros between the elements along each of its last axes."""
    first = x.ndim - len(steps)
    for axis, step in enumerate(steps, first):
        zeros = xp.zeros((*x.shape[: axis + 1], step - 1, *x.shape[axis + 1 :]), dtype=x.dtype)
        wide = xp.concat([xp.stack([x], axis=axis + 1), zeros], axis=axis + 1)
        wide = xp.reshape(wide, (*x.shape[:axis], x.shape[axis] * step, *x.shape[axis + 1 :]))
        x = wide[(*[slice(None)] * axis, slice(max(0, (x.shape[axis] - 1) * step + 1)))]
    return x


def _taps(
    xp: ArrayNamespace, x: FloatArray, windows: Sequence[Window], sizes: Sequence[int], groups: int
) -> Iterator[tuple[tuple[int, ...], FloatArray]]:
    """Yield each tap and the inputs that it reads, of the axes (batch, groups, channels per group, outputs)."""
    x = padded(xp, x, [(window.before, window.after) for window in windows])
    batch, channels = x.shape[:2]
    for tap in itertools.product(*(range(window.size) for window in windows)):
        places = tuple(
            slice(k * w.dilation, k * w.dilation + max(0, (size - 1) * w.stride + 1), w.stride)
            for k, w, size in zip(tap, windows, sizes, strict=True)
        )
        part = x[(slice(None), slice(None), *places)]
        yield tap, xp.reshape(part, (batch, groups, channels // groups, math.prod(sizes)))


def convolution(
    xp: ArrayNamespace, x: FloatArray, weight: FloatArray, windows: Sequence[Window], groups: int
) -> FloatArray:
    """Return the convolution."""
    sizes = [window.count(size) for window, size in zip(windows, x.shape[2:], strict=True)]
    rows = weight.shape[0] // groups
    grouped: Any = xp.reshape(weight, (groups, rows, *weight.shape[1:]))
    total: Any = xp.zeros((x.shape[0], groups, rows, math.prod(sizes)), dtype=x.dtype)
    for tap, part in _taps(xp, x, windows, sizes, groups):
        total = total + xp.matmul(grouped[(..., *tap)], part)
    return xp.reshape(total, (x.shape[0], weight.shape[0], *sizes))


def input_gradient(
    xp: ArrayNamespace, gradient: FloatArray, weight: FloatArray, windows: Sequence[Window], groups: int,
    sizes: Sequence[int],
) -> FloatArray:  # fmt: skip
    """Return the gradient with respect to an input of these sizes: a convolution of the gradient, spaced by stride."""
    rows, channels = weight.shape[0] // groups, weight.shape[1]
    pads, own = [], []
    for window, size, count in zip(windows, sizes, gradient.shape[2:], strict=True):
        before = window.extent - 1 - window.before
        width = max(0, (count - 1) * window.stride + 1)
        pads.append((before, size + window.extent - 1 - before - width))
        own.append(Window(window.size, dilation=window.dilation))
    grouped = xp.reshape(weight, (groups, rows, *weight.shape[1:]))
    turned = xp.reshape(xp.moveaxis(grouped, 2, 1), (groups * channels, rows, *weight.shape[2:]))
    for axis in range(2, weight.ndim):
        turned = xp.flip(turned, axis=axis)
    spread = padded(xp, spaced(xp, gradient, [window.stride for window in windows]), pads)
    return convolution(xp, spread, turned, own, groups)


def weight_gradient(
    xp: ArrayNamespace, x: FloatArray, gradient: FloatArray, windows: Sequence[Window], groups: int
) -> FloatArray:
    """Return the gradient with respect to the weight."""
    batch, outputs, *sizes = gradient.shape
    grouped = xp.reshape(gradient, (batch, groups, outputs // groups, math.prod(sizes)))
    taps = [
        xp.sum(xp.matmul(grouped, xp.permute_dims(part, (0, 1, 3, 2))), axis=0)
        for _, part in _taps(xp, x, windows, sizes, groups)
    ]
    return xp.reshape(xp.stack(taps, axis=-1), (outputs, x.shape[1] // groups, *(window.size for window in windows)))
