"""The boxes of convolution kernels: the part of an array that a tile reads or writes, with zeros around it."""

from __future__ import annotations

from wyrm.graph.typing import FloatArray, IntegerArray
from wyrm.ops.kernels.sums import natural

# Elements of the widest vector register. A box has so many more than are asked for.
VECTOR, HALF = 16, 8
Pair = tuple[int, int]
Triple = tuple[int, int, int]


def lanes(x: FloatArray, start: int, out: FloatArray, first: int, count: int) -> None:
    """`out[first + i] = x[start + i]` for i < `count`, a constant after inlining."""
    for i in range(count):
        out[natural(first + i)] = x[natural(start + i)]


def copy(x: FloatArray, start: int, out: FloatArray, first: int, count: int) -> None:
    """`out[first + i] = x[start + i]` for i < `count`, in whole vectors that overlap at the end."""
    if count >= VECTOR:
        for i in range(0, count - VECTOR, VECTOR):
            lanes(x, start + i, out, first + i, VECTOR)
        lanes(x, start + count - VECTOR, out, first + count - VECTOR, VECTOR)
    elif count >= HALF:
        lanes(x, start, out, first, HALF)
        lanes(x, start + count - HALF, out, first + count - HALF, HALF)
    else:
        lanes(x, start, out, first, count)


def zeros(out: FloatArray, first: int, end: int) -> None:
    """`out[first:end] = 0`."""
    for i in range(natural(end - first)):
        out[natural(first + i)] = 0


def clear_columns(out: FloatArray, begin: int, width: int, first: int, end: int, rows: int) -> None:
    """Fill the columns `first` to `end` of rows of this width with zeros."""
    for i in range(natural(first), end):
        for h in range(natural(rows)):
            out[natural(begin + i + h * width)] = 0


def low_end(first: int, step: int) -> int:
    """Return the least i from 0 on with `first + i * step >= 0`."""
    return max(0, (step - 1 - first) // step)


def high_end(first: int, step: int, count: int, size: int, low: int) -> int:
    """Return the end of the i from `low` to `count` with `first + i * step < size`."""
    return max(low, min(count, (size - first + step - 1) // step))


def fill_row(
    plane: FloatArray, start: int, step: int, out: FloatArray, at: int, low: int, high: int, width: int
) -> None:
    """Fill `width` elements of a row that begins at `at`: elements `low` to `high` from `plane`, zeros around them."""
    zeros(out, at, at + low)
    if step == 1:
        copy(plane, start, out, at + low, high - low)
    else:
        for i in range(natural(high - low)):
            out[natural(at + low + i)] = plane[natural(start + i * step)]
    zeros(out, at + high, at + width)


def fill_box(
    volume: FloatArray,
    extent: Triple,
    out: FloatArray,
    first: Triple,
    size: Triple,
    pitch: tuple[int, int],
    step: Triple,
) -> None:
    """Fill `size` elements of a box: element i is `volume[first + i * step]`, or 0 outside of `extent`.

    `volume` has the axes (depth, height and width in one). Where rows follow each other in both arrays, all rows of a
    plane are copied at once, and then the ends that belong to the rows beside them are cleared.
    """
    width = size[2]
    low = min(width, low_end(first[2], step[2]))
    high = high_end(first[2], step[2], width, extent[2], low)
    top = min(size[1], low_end(first[1], step[1]))
    bottom = high_end(first[1], step[1], size[1], extent[1], top)
    start = first[2] + low * step[2]
    flat = step[1] == 1 and step[2] == 1 and width == extent[2] and width == pitch[1] and low < high and top < bottom
    for d in range(size[0]):
        z, at = first[0] + d * step[0], d * pitch[0] * pitch[1]
        if z < 0 or z >= extent[0]:
            zeros(out, at, at + size[1] * pitch[1])
        else:
            plane = volume[natural(z)]
            zeros(out, at, at + top * pitch[1])
            if flat:
                begin = at + top * width
                copy(plane, (first[1] + top) * width + start, out, begin + low, (bottom - top - 1) * width + high - low)
                clear_columns(out, begin, width, 0, low, bottom - top)
                clear_columns(out, begin, width, high, width, bottom - top)
            else:
                for h in range(top, bottom):
                    source = (first[1] + h * step[1]) * extent[2] + start
                    fill_row(plane, source, step[2], out, at + h * pitch[1], low, high, width)
            zeros(out, at + bottom * pitch[1], at + size[1] * pitch[1])


def fill_boxes(
    source: FloatArray, extent: Triple, box: FloatArray, first: Triple, outputs: Triple, halo: Triple, pitch: Pair,
    step: Triple, shifts: IntegerArray,
) -> None:  # fmt: skip
    """Fill the box, of the axes (phases and channels in one, elements), for so many outputs from `first` on.

    They read as many inputs and those of `halo`.
    """
    size = outputs[0] + halo[0], outputs[1] + halo[1], outputs[2] + halo[2]
    for q in range(shifts.shape[0]):
        corner = (
            first[0] * step[0] + shifts[q, 0],
            first[1] * step[1] + shifts[q, 1],
            first[2] * step[2] + shifts[q, 2],
        )
        for c in range(source.shape[0]):
            fill_box(source[c], extent, box[q * source.shape[0] + c], corner, size, pitch, step)


def spread_run(x: FloatArray, out: FloatArray, extent: Triple, first: Triple, size: Triple, step: Triple) -> None:
    """`out[z, first + i * step] = x[i]` for the i of `size`, where that is inside of `extent`.

    `out` has the depth, the height and the width in one axis, `x` the rows of a plane, one after another: z is
    `first[0]`, and `size[0]` and `step[0]` are ignored.
    """
    low = min(size[2], low_end(first[2], step[2]))
    high = high_end(first[2], step[2], size[2], extent[2], low)
    for h in range(size[1]):
        y = first[1] + h * step[1]
        if 0 <= first[0] < extent[0] and 0 <= y < extent[1]:
            start = natural((first[0] * extent[1] + y) * extent[2] + first[2] + low * step[2])
            at = natural(h * size[2] + low)
            for i in range(natural(high - low)):
                out[start + i * step[2]] = x[at + i]
