"""Convolution kernels: direct sums over shifted rows of a zero-padded tile; no matrix of all windows exists.

A kernel copies the part of `source` that a tile of outputs reads into a box with zeros around it. With a step of s, the
box is split into s phases along each axis, so that neighbouring outputs always read neighbouring elements; or each tap
along an axis has a phase of its own, so that the rows of the box are as long as those of the tile. Then every tap of a
convolution is an offset into the box, and a run of outputs, the rows of a plane or one of them, is a matrix product
whose second operand has the box, shifted by `offsets[j]`, as row j.
"""

from __future__ import annotations

from wyrm.graph.typing import FloatArray, IntegerArray
from wyrm.ops.convolution.boxes import Triple, fill_boxes, spread_run
from wyrm.ops.kernels.sums import natural
from wyrm.ops.products.product import multiply_into


def rows_of_tile() -> int:
    """Return how many rows a tile of `shifted_sums` has at most; engines differ."""
    return 8


def masks_rows() -> bool:
    """Return whether `shifted_sums` reads masks; engines differ."""
    return True


def shifted_sums(
    weights: FloatArray, terms: int, steps: IntegerArray, ends: IntegerArray, box: FloatArray, start: int, stride: int,
    masks: IntegerArray, out: FloatArray,
) -> None:  # fmt: skip
    """`out[i, k] = bias[i] + sum_j w[i, j] * box[start + places[j] + k]`. This is the reference.

    `weights` are those that `pack` wrote, of so many terms. A row of `steps` has the place of its first term, the
    number of its terms, each of which is a stride after the one before, and the place of its mask in bytes: bit k tells
    whether column k counts, if `masks_rows()`. `ends` has the ends of the steps of partial sums. `box` is row-major,
    and places in it are counted through its rows. The rows of `out` are contiguous. Whole vectors are read, unless
    masks exclude that: the box has the elements of a vector more than are asked for.
    """
    rows, flat = out.shape[0], box.reshape(-1)
    tiles, at = (rows + rows_of_tile() - 1) // rows_of_tile(), 0
    for tile in range(tiles):
        top, end = rows_before(tile, tiles, rows), rows_before(tile + 1, tiles, rows)
        height = padded_rows(end - top)
        for i in range(end - top):
            for k in range(out.shape[1]):
                total, j = weights[at + i], at + height + i
                for place, count, mark in steps[: ends[-1]]:
                    counts = not masks_rows() or masks[mark + k // 8] >> (k % 8) & 1
                    for number in range(count):
                        if counts:
                            total += weights[j] * flat[start + place + number * stride + k]
                        j += height
                out[top + i, k] = total
        at += height * (terms + 1)


def padded_rows(rows: int) -> int:
    """Return the number of weights of a tile's rows that are side by side."""
    return rows if rows == 1 else (rows + 1) // 2 * 2


def rows_before(tile: int, tiles: int, rows: int) -> int:
    """Return the first row of a tile, of tiles that have as many pairs of rows as each other, or one more."""
    pairs = (rows + 1) // 2
    fewest = pairs // tiles
    return min(rows, 2 * (fewest * tile + min(tile, pairs - fewest * tiles)))


def pack(
    weight: FloatArray, positions: IntegerArray, row_step: int, bias: FloatArray, rows: int, packed: FloatArray
) -> None:
    """Write the weights for `shifted_sums`: the bias, 0 if it is empty, and `weight[i * row_step + positions[j]]`."""
    tiles, at, terms = (rows + rows_of_tile() - 1) // rows_of_tile(), 0, positions.size
    for tile in range(tiles):
        first, end = rows_before(tile, tiles, rows), rows_before(tile + 1, tiles, rows)
        height = padded_rows(end - first)
        for i in range(height):
            row = min(first + i, end - 1)
            own, target = weight[natural(row * row_step) :], packed[natural(at + i) :]
            target[0] = bias[natural(row)] if bias.size > 0 else packed.dtype.type(0)
            for j in range(terms):
                target[natural((j + 1) * height)] = own[natural(positions[j])]
        at += height * (terms + 1)


def correlation_kernel(
    source: FloatArray,
    weight: FloatArray,
    bias: FloatArray,
    out: FloatArray,
    groups: int,
    extent: Triple,
    own_extent: Triple,
    tile: Triple,
    span: Triple,
    halo: Triple,
    source_step: Triple,
    out_step: Triple,
    weight_steps: tuple[int, int],
    source_shifts: IntegerArray,
    out_shifts: IntegerArray,
    starts: IntegerArray,
    positions: IntegerArray,
    steps: IntegerArray,
    ends: IntegerArray,
    direct_steps: IntegerArray,
    direct_ends: IntegerArray,
    masks: IntegerArray,
    packed: FloatArray,
    box: FloatArray,
    result: FloatArray,
) -> None:
    """Fill `out` with sums over taps of `source`: a convolution, or its gradient with respect to the input.

    `source` has the axes (batch, channels, depth, height and width in one), and `extent` its sizes of space; `out` is
    (batch, channels, all of space in one), and `own_extent` its sizes of space. The outputs of phase p at u = 0, 1, ...
    along each axis of `span` are written at `u * out_step + out_shifts[p]`, if that is inside of `out`. They sum over
    taps with the weights `positions`. Phase q of the box starts at `source_shifts[q]`. `tile` has the outputs per tile
    along (depth, height, width), `halo` the further elements that they read. `weight_steps` are the distances of groups
    and of output channels in the flat `weight`; `bias`, one number per output channel, may be empty. `steps` and `ends`
    are those of `shifted_sums`; `starts[p]` has the first position, step and end of phase p. The `direct_steps` read
    `source` without a box, with `masks` for what is outside of it; they may be empty.

    Scratch memory: `packed` for the weights of a group; `box`, (phases and channels in one, depth, height and width in
    one), with rows behind it; `result` (output channels of a group, outputs of a run), empty if runs are written where
    they belong.
    """
    channels, rows = source.shape[1] // groups, out.shape[1] // groups
    pitch = tile[1] + halo[1], tile[2] + halo[2]
    volume, space = (tile[0] + halo[0]) * pitch[0] * pitch[1], extent[0] * extent[1] * extent[2]
    for g in range(groups):
        top = g * rows
        own_bias = bias[top : top + rows] if bias.size > 0 else bias[:0]
        for p in range(out_shifts.shape[0]):
            own, at = positions[natural(starts[p, 0]) : natural(starts[p + 1, 0])], starts[p, 0] + p
            pack(weight[g * weight_steps[0] :], own, weight_steps[1], own_bias, rows, packed[natural(at * 2 * rows) :])
        for b in range(source.shape[0]):
            inputs = source[b, g * channels : (g + 1) * channels]
            if masks_rows() and direct_ends.size > 0:
                to = out[b, top : top + rows]
                shifted_sums(packed, positions.size, direct_steps, direct_ends, inputs, 0, space, masks, to)
                continue
            for d in range(0, span[0], tile[0]):
                for h in range(0, span[1], tile[1]):
                    for w in range(0, span[2], tile[2]):
                        size = min(tile[0], span[0] - d), min(tile[1], span[1] - h), min(tile[2], span[2] - w)
                        fill_boxes(inputs, extent, box, (d, h, w), size, halo, pitch, source_step, source_shifts)
                        # The rows of a plane are a run if they are side by side in the box.
                        tall = size[1] if halo[2] == 0 else 1
                        for z in range(size[0]):
                            for y in range(0, size[1], tall):
                                start, run = (z * pitch[0] + y) * pitch[1], tall * size[2]
                                for p in range(out_shifts.shape[0]):
                                    first, last = starts[p], starts[p + 1]
                                    weights = packed[natural((first[0] + p) * 2 * rows) :]
                                    own_steps = steps[natural(first[1]) : natural(last[1])]
                                    own_ends, terms = ends[natural(first[2]) : natural(last[2])], last[0] - first[0]
                                    if result.size == 0:
                                        at = natural(((d + z) * span[1] + h + y) * span[2] + w)
                                        to = out[b, top : top + rows, at : at + run]
                                        shifted_sums(weights, terms, own_steps, own_ends, box, start, volume, masks, to)
                                    else:
                                        to = result[:, :run]
                                        shifted_sums(weights, terms, own_steps, own_ends, box, start, volume, masks, to)
                                        corner = (
                                            (d + z) * out_step[0] + out_shifts[p, 0],
                                            (h + y) * out_step[1] + out_shifts[p, 1],
                                            w * out_step[2] + out_shifts[p, 2],
                                        )
                                        for i in range(rows):
                                            spread_run(
                                                result[i], out[b, top + i], own_extent, corner, (1, tall, size[2]),
                                                out_step,
                                            )  # fmt: skip


def weight_gradient_kernel(
    source: FloatArray,
    gradient: FloatArray,
    out: FloatArray,
    groups: int,
    extent: Triple,
    tile: Triple,
    span: Triple,
    halo: Triple,
    source_step: Triple,
    source_shifts: IntegerArray,
    jobs: IntegerArray,
    positions: IntegerArray,
    box: FloatArray,
    totals: FloatArray,
) -> None:
    """Fill `out`, (output channels, taps), with sums over batch and outputs of `gradient` times the input of each tap.

    The arguments are those of `correlation_kernel`, except that `gradient` is (batch, output channels, all outputs in
    one). A row of `jobs` is a product: the first row of the box, the number of rows, and the offset in each; its rows
    of `totals`, whose columns are the output channels of a group, follow those of the job before. Row i of `totals`
    belongs to the weight `positions[i]` of an output channel.

    Unlike a kernel derived from `correlation_kernel`, which would add each product to an element of its own, it knows
    that these sums are matrix products.
    """
    channels, rows = source.shape[1] // groups, gradient.shape[1] // groups
    pitch = tile[1] + halo[1], tile[2] + halo[2]
    for g in range(groups):
        top = g * rows
        for i in range(totals.shape[0]):
            for j in range(rows):
                totals[i, j] = 0
        for b in range(source.shape[0]):
            inputs = source[b, g * channels : (g + 1) * channels]
            for d in range(0, span[0], tile[0]):
                for h in range(0, span[1], tile[1]):
                    for w in range(0, span[2], tile[2]):
                        size = min(tile[0], span[0] - d), min(tile[1], span[1] - h), min(tile[2], span[2] - w)
                        fill_boxes(inputs, extent, box, (d, h, w), size, halo, pitch, source_step, source_shifts)
                        tall = size[1] if halo[2] == 0 else 1
                        for z in range(size[0]):
                            for y in range(0, size[1], tall):
                                start, run = (z * pitch[0] + y) * pitch[1], tall * size[2]
                                at, row = natural(((d + z) * span[1] + h + y) * span[2] + w), 0
                                outputs = gradient[b, top : top + rows, at : at + run]
                                for job in range(jobs.shape[0]):
                                    first, count = natural(jobs[job, 0]), natural(jobs[job, 1])
                                    begin = natural(start + jobs[job, 2])
                                    own = box[first : first + count, begin : begin + run]
                                    multiply_into(own, outputs.T, totals[row : row + count], 1)
                                    row += count
        for i in range(totals.shape[0]):
            for j in range(rows):
                out[top + j, natural(positions[i])] = totals[i, j]
