"""The boxes of convolution kernels: the part of an array that a tile reads or writes, with zeros around it."""

from __future__ import annotations

import numpy as np

from wyrm.graph.typing import FloatArray, IntegerArray
from wyrm.ops.kernels.sums import natural

# Elements of a vector register; a run of outputs is computed in multiples of it.
VECTOR, HALF = 16, 8
Triple = tuple[int, int, int]


def lanes(x: FloatArray, start: int, out: FloatArray, first: int, addend: np.floating, count: int) -> None:
    """`out[first + i] = x[start + i] + addend` for i < `count`, a constant after inlining."""
    for i in range(count):
        out[natural(first + i)] = x[natural(start + i)] + addend


def copy(x: FloatArray, start: int, out: FloatArray, first: int, addend: np.floating, count: int) -> None:
    """`out[first + i] = x[start + i] + addend` for i < `count`, in whole vectors that overlap at the end."""
    if count >= VECTOR:
        for i in range(0, count - VECTOR, VECTOR):
            lanes(x, start + i, out, first + i, addend, VECTOR)
        lanes(x, start + count - VECTOR, out, first + count - VECTOR, addend, VECTOR)
    elif count >= HALF:
        lanes(x, start, out, first, addend, HALF)
        lanes(x, start + count - HALF, out, first + count - HALF, addend, HALF)
    else:
        lanes(x, start, out, first, addend, count)


def fill_zeros(out: FloatArray) -> None:
    """`out[:] = 0`."""
    for i in range(out.size):
        out[i] = 0


def low_end(first: int, step: int) -> int:
    """Return the least i from 0 on with `first + i * step >= 0`."""
    return max(0, (step - 1 - first) // step)


def high_end(first: int, step: int, count: int, size: int, low: int) -> int:
    """Return the end of the i from `low` to `count` with `first + i * step < size`."""
    return max(low, min(count, (size - first + step - 1) // step))


def fill_box(volume: FloatArray, out: FloatArray, first: Triple, size: Triple, pitch: Triple, step: Triple) -> None:
    """Fill `size` elements of a box: element i is `volume[first + i * step]`, or 0 outside of `volume`."""
    low = min(size[2], low_end(first[2], step[2]))
    high = high_end(first[2], step[2], size[2], volume.shape[2], low)
    start, count, zero = natural(first[2] + low * step[2]), natural(high - low), out.dtype.type(0)
    for d in range(size[0]):
        z = first[0] + d * step[0]
        for h in range(size[1]):
            y = first[1] + h * step[1]
            at = natural((d * pitch[1] + h) * pitch[2])
            if 0 <= z < volume.shape[0] and 0 <= y < volume.shape[1]:
                row = volume[natural(z), natural(y)]
                for i in range(low):
                    out[natural(at + i)] = 0
                if step[2] == 1:
                    copy(row, start, out, natural(at + low), zero, count)
                else:
                    for i in range(count):
                        out[natural(at + low + i)] = row[natural(start + i * step[2])]
                for i in range(high, size[2]):
                    out[natural(at + i)] = 0
            else:
                for i in range(size[2]):
                    out[natural(at + i)] = 0


def fill_boxes(
    source: FloatArray, box: FloatArray, first: Triple, size: Triple, halo: Triple, pitch: Triple, step: Triple,
    shifts: IntegerArray, images: int,
) -> None:  # fmt: skip
    """Fill the box, of the axes (channels, phases, `images`, depth, height, width), for the outputs from `first` on."""
    volume, filled = pitch[0] * pitch[1] * pitch[2], (size[0] + halo[0], size[1] + halo[1], size[2] + halo[2])
    for c in range(source.shape[1]):
        for q in range(shifts.shape[0]):
            corner = (
                first[0] * step[0] + shifts[q, 0],
                first[1] * step[1] + shifts[q, 1],
                first[2] * step[2] + shifts[q, 2],
            )
            for b in range(source.shape[0]):
                start = ((c * shifts.shape[0] + q) * images + b) * volume
                fill_box(source[b, c], box[start : start + volume], corner, filled, pitch, step)


def copy_box(
    x: FloatArray, volume: FloatArray, addend: np.floating, first: Triple, size: Triple, pitch: Triple, step: Triple
) -> None:
    """`volume[first + i * step] = x[i] + addend` for `size` elements of a box, where that is inside of `volume`."""
    low = min(size[2], low_end(first[2], step[2]))
    high = high_end(first[2], step[2], size[2], volume.shape[2], low)
    start, count = natural(first[2] + low * step[2]), natural(high - low)
    for d in range(size[0]):
        z = first[0] + d * step[0]
        for h in range(size[1]):
            y = first[1] + h * step[1]
            if 0 <= z < volume.shape[0] and 0 <= y < volume.shape[1]:
                at = natural((d * pitch[1] + h) * pitch[2] + low)
                row = volume[natural(z), natural(y)]
                if step[2] == 1:
                    copy(x, at, row, start, addend, count)
                else:
                    for i in range(count):
                        row[natural(start + i * step[2])] = x[natural(at + i)] + addend
