"""Max pooling kernels: they find the maxima of one row of outputs at a time, with loops along the row.

`x` has the axes (images, depth, height, width). Windows are tables: `depths`, `heights` and `columns`, of the axes
(taps, outputs), have the place of each tap along an axis. A tap outside of the input repeats the last tap inside, which
changes no maximum.
"""

from __future__ import annotations

from wyrm.graph.typing import FloatArray, IntegerArray


def find_maxima(
    image: FloatArray, depths: IntegerArray, heights: IntegerArray, columns: IntegerArray, d: int, h: int,
    best: FloatArray, places: IntegerArray,
) -> None:  # fmt: skip
    """Write the maxima of one row of outputs into `best`, their flat positions in the image into `places`.

    The first of equal maxima counts, and a NaN is larger than any number.
    """
    height, width = image.shape[1], image.shape[2]
    z, y = depths[0, d], heights[0, h]
    for i in range(best.size):
        best[i] = image[z, y, columns[0, i]]
        places[i] = (z * height + y) * width + columns[0, i]
    for a in range(depths.shape[0]):
        for b in range(heights.shape[0]):
            row = image[depths[a, d], heights[b, h]]
            start = (depths[a, d] * height + heights[b, h]) * width
            for c in range(columns.shape[0]):
                take_larger(row, columns[c], start, best, places)


def take_larger(row: FloatArray, columns: IntegerArray, start: int, best: FloatArray, places: IntegerArray) -> None:
    """Replace the elements of `best` that are smaller than those of the row at `columns`."""
    for i in range(best.size):
        value, before = row[columns[i]], best[i]
        larger = value > before or (value != value and before == before)
        best[i] = value if larger else before
        places[i] = start + columns[i] if larger else places[i]


def pair_maxima(upper: FloatArray, lower: FloatArray, out: FloatArray) -> None:
    """Write the maxima of windows of 2 x 2 elements, side by side in two rows, into `out`."""
    for i in range(out.size):
        a, b, c, d = upper[2 * i], upper[2 * i + 1], lower[2 * i], lower[2 * i + 1]
        first = a if a >= b or a != a else b
        second = c if c >= d or c != c else d
        out[i] = first if first >= second or first != first else second


def pair_gradients(
    upper: FloatArray, lower: FloatArray, gradient: FloatArray, to_upper: FloatArray, to_lower: FloatArray
) -> None:
    """Write the gradients of windows of 2 x 2 elements, side by side in two rows, to the first maximum of each."""
    for i in range(gradient.size):
        a, b, c, d = upper[2 * i], upper[2 * i + 1], lower[2 * i], lower[2 * i + 1]
        left, under = a >= b or a != a, c >= d or c != c
        first = a if left else b
        second = c if under else d
        above = first >= second or first != first
        g, zero = gradient[i], gradient.dtype.type(0)
        high = g if above else zero
        low = zero if above else g
        to_upper[2 * i] = high if left else zero
        to_upper[2 * i + 1] = zero if left else high
        to_lower[2 * i] = low if under else zero
        to_lower[2 * i + 1] = zero if under else low


def clear(out: FloatArray) -> None:
    """`out[:] = 0`."""
    for i in range(out.size):
        out[i] = 0


def max_pool_kernel(
    x: FloatArray, out: FloatArray, pairs: bool, depths: IntegerArray, heights: IntegerArray, columns: IntegerArray,
    best: FloatArray, places: IntegerArray,
) -> None:  # fmt: skip
    """Fill `out` with the maxima; `pairs` tells that all windows are 2 x 2 elements, side by side."""
    for n in range(out.shape[0]):
        for d in range(out.shape[1]):
            for h in range(out.shape[2]):
                if pairs:
                    pair_maxima(x[n, d, 2 * h], x[n, d, 2 * h + 1], out[n, d, h])
                else:
                    find_maxima(x[n], depths, heights, columns, d, h, out[n, d, h], places)


def max_pool_take_kernel(
    x: FloatArray, values: FloatArray, out: FloatArray, pairs: bool, depths: IntegerArray, heights: IntegerArray,
    columns: IntegerArray, best: FloatArray, places: IntegerArray,
) -> None:  # fmt: skip
    """Fill `out` with the elements of `values`, (images, elements), at the maxima of `x`."""
    for n in range(out.shape[0]):
        for d in range(out.shape[1]):
            for h in range(out.shape[2]):
                find_maxima(x[n], depths, heights, columns, d, h, best, places)
                for i in range(places.size):
                    out[n, d, h, i] = values[n, places[i]]


def max_pool_gradient_kernel(
    x: FloatArray, gradient: FloatArray, out: FloatArray, pairs: bool, depths: IntegerArray, heights: IntegerArray,
    columns: IntegerArray, best: FloatArray, places: IntegerArray,
) -> None:  # fmt: skip
    """Fill `out`, (images, elements), with the gradients, added up at the maxima of `x`."""
    height, width = x.shape[2], x.shape[3]
    for n in range(gradient.shape[0]):
        if pairs:
            for d in range(gradient.shape[1]):
                for h in range(gradient.shape[2]):
                    start = (d * height + 2 * h) * width
                    upper, lower = out[n, start : start + width], out[n, start + width : start + 2 * width]
                    pair_gradients(x[n, d, 2 * h], x[n, d, 2 * h + 1], gradient[n, d, h], upper, lower)
                    clear(upper[2 * gradient.shape[3] :])
                    clear(lower[2 * gradient.shape[3] :])
                clear(out[n, (d * height + 2 * gradient.shape[2]) * width : (d + 1) * height * width])
            clear(out[n, gradient.shape[1] * height * width :])
        else:
            clear(out[n])
            for d in range(gradient.shape[1]):
                for h in range(gradient.shape[2]):
                    find_maxima(x[n], depths, heights, columns, d, h, best, places)
                    for i in range(places.size):
                        out[n, places[i]] += gradient[n, d, h, i]
