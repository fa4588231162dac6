"""Sums of shifted rows in kernels: what native code computes by tiles in registers."""

from __future__ import annotations

from wyrm.graph.typing import FloatArray, IntegerArray
from wyrm.ops.kernels.sums import natural


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
