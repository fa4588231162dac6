"""Convolution kernels: direct sums over shifted rows of a zero-padded tile; no matrix of all windows exists.

`source` and `out` have the axes (batch, channels, depth, height, width). A kernel copies the part of `source` that a
tile of outputs reads into a box with zeros around it. With a step of s, the box is split into s phases along each axis,
so that neighbouring outputs always read neighbouring elements. Then every tap of a convolution is an offset into the
box, and a whole tile is a matrix product whose second operand has the box, shifted by `offsets[j]`, as row j. Tile and
box have the same pitch; the elements between the rows of a tile are computed as well and ignored.
"""

from __future__ import annotations

import numpy as np

from wyrm.graph.typing import FloatArray, IntegerArray
from wyrm.ops.convolution.boxes import (
    VECTOR,
    Triple,
    copy_box,
    fill_box,
    fill_boxes,
    fill_zeros,
)
from wyrm.ops.kernels.sums import accumulated, natural

# --- sums over taps ---------------------------------------------------------------------------------------------------


def four_rows(
    weights: FloatArray, offsets: IntegerArray, box: FloatArray, out: FloatArray, row: int, columns: int
) -> None:
    """`out[row + r, k] = sum_j weights[(row + r) * taps + j] * box[offsets[j] + k]` for r = 0 to 3.

    It sums four taps at a time: the 16 weights fit the AVX-512 registers together with elements of the box and of
    `out`. `columns` is a multiple of `VECTOR`.
    """
    taps = offsets.size
    fours, vectors = taps - taps % 4, columns // VECTOR
    first, second, third, fourth = (
        natural(row * taps),
        natural((row + 1) * taps),
        natural((row + 2) * taps),
        natural((row + 3) * taps),
    )
    for j in range(0, fours, 4):
        adds = j > 0
        o0, o1, o2, o3 = natural(offsets[j]), natural(offsets[j + 1]), natural(offsets[j + 2]), natural(offsets[j + 3])
        a0, a1, a2, a3 = weights[first + j], weights[first + j + 1], weights[first + j + 2], weights[first + j + 3]
        b0, b1, b2, b3 = weights[second + j], weights[second + j + 1], weights[second + j + 2], weights[second + j + 3]
        c0, c1, c2, c3 = weights[third + j], weights[third + j + 1], weights[third + j + 2], weights[third + j + 3]
        d0, d1, d2, d3 = weights[fourth + j], weights[fourth + j + 1], weights[fourth + j + 2], weights[fourth + j + 3]
        for k in range(VECTOR * vectors):
            s, t, u, v = box[o0 + k], box[o1 + k], box[o2 + k], box[o3 + k]
            one, two = a0 * s + a1 * t + a2 * u + a3 * v, b0 * s + b1 * t + b2 * u + b3 * v
            three, four = c0 * s + c1 * t + c2 * u + c3 * v, d0 * s + d1 * t + d2 * u + d3 * v
            out[row, k] = out[row, k] + one if adds else one
            out[row + 1, k] = out[row + 1, k] + two if adds else two
            out[row + 2, k] = out[row + 2, k] + three if adds else three
            out[row + 3, k] = out[row + 3, k] + four if adds else four
    for j in range(fours, taps):
        adds = j > 0
        o0 = natural(offsets[j])
        a0, b0, c0, d0 = weights[first + j], weights[second + j], weights[third + j], weights[fourth + j]
        for k in range(VECTOR * vectors):
            s = box[o0 + k]
            out[row, k] = out[row, k] + a0 * s if adds else a0 * s
            out[row + 1, k] = out[row + 1, k] + b0 * s if adds else b0 * s
            out[row + 2, k] = out[row + 2, k] + c0 * s if adds else c0 * s
            out[row + 3, k] = out[row + 3, k] + d0 * s if adds else d0 * s


def one_row(weights: FloatArray, offsets: IntegerArray, box: FloatArray, out: FloatArray, columns: int) -> None:
    """`out[k] = sum_j weights[j] * box[offsets[j] + k]`."""
    taps, vectors = offsets.size, columns // VECTOR
    fours = taps - taps % 4
    for j in range(0, fours, 4):
        adds = j > 0
        o0, o1, o2, o3 = natural(offsets[j]), natural(offsets[j + 1]), natural(offsets[j + 2]), natural(offsets[j + 3])
        a, b, c, d = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        for k in range(VECTOR * vectors):
            sums = a * box[o0 + k] + b * box[o1 + k] + c * box[o2 + k] + d * box[o3 + k]
            out[k] = out[k] + sums if adds else sums
    for j in range(fours, taps):
        adds = j > 0
        o0, a = natural(offsets[j]), weights[j]
        for k in range(VECTOR * vectors):
            out[k] = out[k] + a * box[o0 + k] if adds else a * box[o0 + k]


def all_rows(weights: FloatArray, offsets: IntegerArray, box: FloatArray, out: FloatArray, columns: int) -> None:
    """`out[i, k] = sum_j weights[i * taps + j] * box[offsets[j] + k]` for all rows of `out`."""
    rows, taps = out.shape[0], offsets.size
    fours = rows - rows % 4
    if taps == 0:
        for i in range(rows):
            fill_zeros(out[i, :columns])
    for i in range(0, fours, 4):
        four_rows(weights, offsets, box, out, i, columns)
    for i in range(fours, rows):
        one_row(weights[i * taps : (i + 1) * taps], offsets, box, out[i], columns)


def pack(weight: FloatArray, positions: IntegerArray, row_step: int, rows: int, out: FloatArray) -> None:
    """`out[i * positions.size + j] = weight[i * row_step + positions[j]]` for `rows` rows."""
    for i in range(rows):
        row, packed = weight[i * row_step :], out[i * positions.size :]
        for j in range(positions.size):
            packed[j] = row[natural(positions[j])]


def run_length(merged: bool, images: int, size: Triple, pitch: Triple) -> int:
    """Return the length of a run, from the first output of a plane, or if `merged` of the tile, to its last output."""
    length = (size[1] - 1) * pitch[2] + size[2]
    if merged:
        length += (images * pitch[0] - pitch[0] + size[0] - 1) * pitch[1] * pitch[2]
    return length


def correlate_tile(
    weights: FloatArray, offsets: IntegerArray, box: FloatArray, result: FloatArray, merged: bool, images: int,
    size: Triple, pitch: Triple,
) -> None:  # fmt: skip
    """Fill `result` with the sums over taps of one tile, in one run if `merged`, else in a run for each plane."""
    length = run_length(merged, images, size, pitch)
    columns = (length + VECTOR - 1) // VECTOR * VECTOR
    for plane in range(1 if merged else images * pitch[0]):
        if plane % pitch[0] < size[0]:
            start = plane * pitch[1] * pitch[2]
            all_rows(weights, offsets, box[start:], result[:, start : start + columns], columns)


def copy_tile(
    result: FloatArray, out: FloatArray, bias: FloatArray, first: Triple, size: Triple, pitch: Triple, step: Triple,
    shifts: IntegerArray,
) -> None:  # fmt: skip
    """Write `result`, plus the bias unless that is empty, to `out`, of the axes (images, channels, ...)."""
    volume = pitch[0] * pitch[1] * pitch[2]
    corner = first[0] * step[0] + shifts[0], first[1] * step[1] + shifts[1], first[2] * step[2] + shifts[2]
    for b in range(out.shape[0]):
        for i in range(out.shape[1]):
            addend = bias[i] if bias.size > 0 else out.dtype.type(0)
            copy_box(result[i, b * volume : (b + 1) * volume], out[b, i], addend, corner, size, pitch, step)


def correlation_kernel(
    source: FloatArray,
    weight: FloatArray,
    bias: FloatArray,
    out: FloatArray,
    groups: int,
    merged: bool,
    tile: tuple[int, int, int, int],
    span: Triple,
    halo: Triple,
    source_step: Triple,
    out_step: Triple,
    weight_steps: tuple[int, int],
    source_shifts: IntegerArray,
    out_shifts: IntegerArray,
    starts: IntegerArray,
    offsets: IntegerArray,
    positions: IntegerArray,
    packed: FloatArray,
    box: FloatArray,
    result: FloatArray,
) -> None:
    """Fill `out` with sums over taps of `source`: a convolution, or its gradient with respect to the input.

    The outputs of phase p at u = 0, 1, ... along each axis of `span` are written at `u * out_step + out_shifts[p]`, if
    that is inside of `out`. They sum over the taps `starts[p]` to `starts[p + 1]`. Phase q of the box starts at
    `source_shifts[q]`. `tile` has the outputs per tile along (batch, depth, height, width), `halo` the further elements
    that they read. `weight_steps` are the distances of groups and of output channels in the flat `weight`; `bias`, one
    number per output channel, may be empty.

    Scratch memory: `packed` for the weights of a group; `box` for (channels, phases, batch, depth, height, width) and a
    vector; `result` (output channels of a group, elements of a box without channels and phases, and a vector).
    """
    channels, rows = source.shape[1] // groups, out.shape[1] // groups
    pitch = tile[1] + halo[0], tile[2] + halo[1], tile[3] + halo[2]
    for g in range(groups):
        top = g * rows
        own_bias = bias[top : top + rows] if bias.size > 0 else bias[:0]
        for p in range(out_shifts.shape[0]):
            j, end = natural(starts[p]), natural(starts[p + 1])
            pack(weight[g * weight_steps[0] :], positions[j:end], weight_steps[1], rows, packed[j * rows :])
        for b in range(0, source.shape[0], tile[0]):
            images = min(tile[0], source.shape[0] - b)
            inputs = source[b : b + images, g * channels : (g + 1) * channels]
            for d in range(0, span[0], tile[1]):
                for h in range(0, span[1], tile[2]):
                    for w in range(0, span[2], tile[3]):
                        first = d, h, w
                        size = min(tile[1], span[0] - d), min(tile[2], span[1] - h), min(tile[3], span[2] - w)
                        fill_boxes(inputs, box, first, size, halo, pitch, source_step, source_shifts, tile[0])
                        for p in range(out_shifts.shape[0]):
                            j, end = natural(starts[p]), natural(starts[p + 1])
                            weights = packed[j * rows : end * rows]
                            correlate_tile(weights, offsets[j:end], box, result, merged, images, size, pitch)
                            to = out[b : b + images, top : top + rows]
                            copy_tile(result, to, own_bias, first, size, pitch, out_step, out_shifts[p])


# --- the gradient with respect to the weight --------------------------------------------------------------------------


def four_dots(
    x: FloatArray, box: FloatArray, offsets: IntegerArray, out: FloatArray, i: int, j: int, columns: int
) -> None:
    """Add the dot products of rows i to i + 3 of `x` with the box, shifted by `offsets[j]` to `offsets[j + 3]`."""
    o0, o1, o2, o3 = natural(offsets[j]), natural(offsets[j + 1]), natural(offsets[j + 2]), natural(offsets[j + 3])
    zero = x.dtype.type(0)
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = c0 = c1 = c2 = c3 = d0 = d1 = d2 = d3 = zero
    for k in range(columns):
        s, t, u, v = box[o0 + k], box[o1 + k], box[o2 + k], box[o3 + k]
        p, q, r, w = x[i, k], x[i + 1, k], x[i + 2, k], x[i + 3, k]
        a0, a1, a2, a3 = accumulated(a0, p * s), accumulated(a1, p * t), accumulated(a2, p * u), accumulated(a3, p * v)
        b0, b1, b2, b3 = accumulated(b0, q * s), accumulated(b1, q * t), accumulated(b2, q * u), accumulated(b3, q * v)
        c0, c1, c2, c3 = accumulated(c0, r * s), accumulated(c1, r * t), accumulated(c2, r * u), accumulated(c3, r * v)
        d0, d1, d2, d3 = accumulated(d0, w * s), accumulated(d1, w * t), accumulated(d2, w * u), accumulated(d3, w * v)
    add_four(out[i], j, a0, a1, a2, a3)
    add_four(out[i + 1], j, b0, b1, b2, b3)
    add_four(out[i + 2], j, c0, c1, c2, c3)
    add_four(out[i + 3], j, d0, d1, d2, d3)


def add_four(out: FloatArray, j: int, a: np.floating, b: np.floating, c: np.floating, d: np.floating) -> None:
    """Add four numbers to `out[j]` to `out[j + 3]`."""
    out[j] += a
    out[j + 1] += b
    out[j + 2] += c
    out[j + 3] += d


def add_tile(
    gradients: FloatArray, box: FloatArray, offsets: IntegerArray, totals: FloatArray, merged: bool, images: int,
    size: Triple, pitch: Triple,
) -> None:  # fmt: skip
    """Add the products of one tile to `totals`, in one run if `merged`, else in a run for each plane."""
    length = run_length(merged, images, size, pitch)
    for plane in range(1 if merged else images * pitch[0]):
        if plane % pitch[0] < size[0]:
            start = plane * pitch[1] * pitch[2]
            for j in range(0, offsets.size, 4):
                for i in range(0, totals.shape[0], 4):
                    four_dots(gradients[:, start:], box[start:], offsets, totals, i, j, length)


def fill_gradients(
    gradient: FloatArray, out: FloatArray, first: Triple, size: Triple, pitch: Triple, width: int
) -> None:
    """Write a tile of `gradient`, (images, channels, ...), to `out`, with zeros up to `width` after each row."""
    volume, end = pitch[0] * pitch[1] * pitch[2], first[2] + size[2]
    for b in range(gradient.shape[0]):
        for i in range(gradient.shape[1]):
            own = gradient[b, i, :, :, :end]
            fill_box(own, out[i, b * volume : (b + 1) * volume], first, (size[0], size[1], width), pitch, (1, 1, 1))


def weight_gradient_kernel(
    source: FloatArray,
    gradient: FloatArray,
    out: FloatArray,
    groups: int,
    merged: bool,
    tile: tuple[int, int, int, int],
    halo: Triple,
    source_step: Triple,
    source_shifts: IntegerArray,
    offsets: IntegerArray,
    taps: int,
    box: FloatArray,
    gradients: FloatArray,
    totals: FloatArray,
) -> None:
    """Fill `out`, (output channels, taps), with sums over batch and outputs of `gradient` times the input of each tap.

    The arguments are those of `correlation_kernel`. The rows of `gradients` and `totals` are the output channels of a
    group, and the columns of `totals` the taps, both rounded up to a multiple of 4, as the length of `offsets` is;
    `gradients` has zeros between the rows of a tile, which hide what the box has there.
    """
    channels, rows = source.shape[1] // groups, gradient.shape[1] // groups
    span = gradient.shape[2], gradient.shape[3], gradient.shape[4]
    pitch = tile[1] + halo[0], tile[2] + halo[1], tile[3] + halo[2]
    fill_zeros(box)
    for i in range(gradients.shape[0]):
        fill_zeros(gradients[i])
    for g in range(groups):
        top = g * rows
        for i in range(totals.shape[0]):
            fill_zeros(totals[i])
        for b in range(0, source.shape[0], tile[0]):
            images = min(tile[0], source.shape[0] - b)
            inputs = source[b : b + images, g * channels : (g + 1) * channels]
            outputs = gradient[b : b + images, top : top + rows]
            for d in range(0, span[0], tile[1]):
                for h in range(0, span[1], tile[2]):
                    for w in range(0, span[2], tile[3]):
                        first = d, h, w
                        size = min(tile[1], span[0] - d), min(tile[2], span[1] - h), min(tile[3], span[2] - w)
                        fill_boxes(inputs, box, first, size, halo, pitch, source_step, source_shifts, tile[0])
                        fill_gradients(outputs, gradients, first, size, pitch, tile[3])
                        add_tile(gradients, box, offsets, totals, merged, images, size, pitch)
        for i in range(rows):
            for j in range(taps):
                out[top + i, j] = totals[i, j]
