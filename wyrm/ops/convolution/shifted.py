"""Sums of shifted rows in kernels: what native code computes by tiles in registers."""

from __future__ import annotations

from wyrm.graph.typing import FloatArray, IntegerArray
from wyrm.ops.kernels.sums import natural

# The most offsets that are taken at a time.
OFFSETS = 640


def rows_of_tile() -> int:
    """Return how many rows a tile of `shifted_sums` has at most; engines differ."""
    return 8


def shifted_sums(
    weights: FloatArray, first: int, total: int, offsets: IntegerArray, box: FloatArray, start: int, out: FloatArray,
    adds: bool,
) -> None:  # fmt: skip
    """`out[i, k] = sum_j w[i, first + j] * box[start + offsets[j] + k]`, added to `out` if `adds`. The reference.

    `weights` are those that `pack` wrote, of `total` terms. `box` is row-major, and places in it are counted through
    its rows. The rows of `out` are contiguous. Whole vectors are read: the box has the elements of a vector more than
    are asked for.
    """
    rows = out.shape[0]
    tiles, at = (rows + rows_of_tile() - 1) // rows_of_tile(), 0
    for tile in range(tiles):
        top, end = rows_before(tile, tiles, rows), rows_before(tile + 1, tiles, rows)
        height = padded_rows(end - top)
        for i in range(end - top):
            for k in range(out.shape[1]):
                result = out[top + i, k] if adds else out.dtype.type(0)
                for j in range(offsets.size):
                    place = start + offsets[j] + k
                    weight = weights[at + (first + j) * height + i]
                    result += weight * box[place // box.shape[1], place % box.shape[1]]
                out[top + i, k] = result
        at += height * total


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
    """Write the weights for `shifted_sums`: `weight[i * row_step + positions[j]]`, then the bias, if there is any."""
    tiles, at, depth = (rows + rows_of_tile() - 1) // rows_of_tile(), 0, positions.size
    for tile in range(tiles):
        first, end = rows_before(tile, tiles, rows), rows_before(tile + 1, tiles, rows)
        height = padded_rows(end - first)
        for i in range(height):
            row = min(first + i, end - 1)
            own, target = weight[natural(row * row_step) :], packed[natural(at + i) :]
            for j in range(depth):
                target[natural(j * height)] = own[natural(positions[j])]
            if bias.size > 0:
                target[natural(depth * height)] = bias[natural(row)]
        at += height * (depth + (1 if bias.size > 0 else 0))


def sums_in_parts(packed: FloatArray, offsets: IntegerArray, box: FloatArray, start: int, out: FloatArray) -> None:
    """`out[i, k] = sum_j w[i, j] * box[start + offsets[j] + k]` with the weights that `pack` wrote.

    Few offsets are taken at a time, so that what a tile reads stays in the nearest cache.
    """
    depth = offsets.size
    parts = (depth + OFFSETS - 1) // OFFSETS
    if depth == 0:
        for i in range(out.shape[0]):
            for k in range(out.shape[1]):
                out[i, k] = 0
    for part in range(parts):
        low, high = natural(depth * part // parts), natural(depth * (part + 1) // parts)
        shifted_sums(packed, low, depth, offsets[low:high], box, start, out, part > 0)
