"""Sums of shifted rows in kernels: what native code computes by tiles in registers."""

from __future__ import annotations

from wyrm.graph.typing import FloatArray, IntegerArray
from wyrm.ops.kernels.sums import natural

# The most offsets that are taken at a time.
OFFSETS = 640


def rows_of_tile() -> int:
    """Return how many rows `shifted_sums` takes at most; an engine may take more."""
    return 8


def shifted_sums(
    weights: FloatArray, offsets: IntegerArray, box: FloatArray, start: int, out: FloatArray, adds: bool
) -> None:
    """`out[i, k] = sum_j weights[j * height + i] * box[start + offsets[j] + k]`, added to `out` if `adds`.

    This is the reference. `height` is the number of rows, rounded up to an even number if it is above 1; the weights of
    the last row are then there twice. `box` is row-major, and places in it are counted through its rows. The rows of
    `out` are contiguous. Whole vectors are read: the box has the elements of a vector more than are asked for.
    """
    height = padded_rows(out.shape[0])
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            total = out[i, k] if adds else out.dtype.type(0)
            for j in range(offsets.size):
                at = start + offsets[j] + k
                total += weights[j * height + i] * box[at // box.shape[1], at % box.shape[1]]
            out[i, k] = total


def padded_rows(rows: int) -> int:
    """Return the number of weights that `shifted_sums` reads for each offset."""
    return rows if rows == 1 else (rows + 1) // 2 * 2


def rows_before(tile: int, tiles: int, rows: int) -> int:
    """Return the first row of a tile, of tiles that have as many rows as each other, or one more."""
    fewest = rows // tiles
    return fewest * tile + min(tile, rows - fewest * tiles)


def pack(
    weight: FloatArray, positions: IntegerArray, row_step: int, bias: FloatArray, rows: int, packed: FloatArray
) -> None:
    """Write weights for `sums_of_all_rows`: `weight[i * row_step + positions[j]]` and then the bias, if there is any."""
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


def sums_of_all_rows(packed: FloatArray, offsets: IntegerArray, box: FloatArray, start: int, out: FloatArray) -> None:
    """`out[i, k] = sum_j w[i, j] * box[start + offsets[j] + k]` for any number of rows, with weights from `pack`.

    Few offsets are taken at a time, so that the weights of a tile stay in the nearest cache through all columns.
    """
    rows, depth = out.shape[0], offsets.size
    tiles, parts = (rows + rows_of_tile() - 1) // rows_of_tile(), (depth + OFFSETS - 1) // OFFSETS
    if depth == 0:
        for i in range(rows):
            for k in range(out.shape[1]):
                out[i, k] = 0
    for part in range(parts):
        low, high, at = depth * part // parts, depth * (part + 1) // parts, 0
        for tile in range(tiles):
            first, end = rows_before(tile, tiles, rows), rows_before(tile + 1, tiles, rows)
            height = padded_rows(end - first)
            weights = packed[natural(at + height * low) :]
            shifted_sums(weights, offsets[natural(low) : natural(high)], box, start, out[first:end], part > 0)
            at += height * depth
