"""Where in a sequence something stands: added to its vector, or turned into queries and keys."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from wyrm.errors import ShapeError
from wyrm.nn.axes import Axes, sized_axis
from wyrm.nn.embedding import Embedding
from wyrm.nn.initializers import Initializer, Normal
from wyrm.nn.module import Module
from wyrm.node.base import describe
from wyrm.node.leaves import Constant
from wyrm.node.node import Node, Tensor
from wyrm.ops.slicing import concatenate
from wyrm.types.dims import Dim, axis_size
from wyrm.types.typing import A, D, K, M, N

# Wavelengths grow up to this times 2 pi (Vaswani et al., 2017).
_LONGEST = 10_000.0
_TABLE = Normal(0.02)


def _time(what: str, x: Node, axis: int, most: int | None = None) -> int:
    """The size of the time axis of `x`."""
    size = axis_size(x.dims[axis])
    if size is None:
        raise ShapeError(f"{what}: the time axis of {describe(x)} needs a size; give it one, as in Time(128)")
    if most is not None and size > most:
        raise ShapeError(f"{what}: a sequence of {size} is longer than the context, {most}")
    return size


class LearnedPositions(Module):
    """Adds to each place of a sequence, (..., time, width), a vector that is learned.

    `context` is the longest sequence; `ShapeError` for a longer one.

    >>> LearnedPositions(10, 4)(wy.Input(dims=(2, 3, 4))).shape
    (2, 3, 4)
    """

    def __init__(
        self, context: int, width: Dim | int, *, initializer: Initializer = _TABLE, dtype: DTypeLike = np.float32
    ) -> None:
        self.context = int(sized_axis("LearnedPositions", "context", context))
        self.table = Embedding(self.context, width, initializer=initializer, dtype=dtype).table

    def __call__(self, x: Tensor[*Axes]) -> Tensor[*Axes]:
        """`x` with the vectors of its places added."""
        time = _time("LearnedPositions", x, -2, self.context)
        places: Node = self.table if time == self.context else self.table[:time]
        result: Tensor[*Axes] = x + places
        return result


def _angles(time: int, pairs: int) -> NDArray[np.float64]:
    """The angle of each place for each wavelength, (time, pairs)."""
    speeds = _LONGEST ** (-np.arange(pairs) / max(pairs, 1))
    return np.arange(time)[:, None] * speeds


class SinusoidalPositions(Module):
    """Adds sines and cosines of each place, of wavelengths from 2 pi to 20,000 pi, to (..., time, width).

    The first half of the width has the sines, the rest the cosines (Vaswani et al., "Attention is all you need", 2017,
    up to the order). Nothing is learned, and there is no longest sequence.

    >>> SinusoidalPositions()(wy.Constant(np.zeros((1, 2, 4)))).forward().round(2).tolist()
    [[[0.0, 0.0, 1.0, 1.0], [0.84, 0.01, 0.54, 1.0]]]
    """

    def __call__(self, x: Tensor[*Axes]) -> Tensor[*Axes]:
        """`x` with the waves of its places added; `ShapeError` for an axis without a size or an odd width."""
        dims: Any = x.dims
        time, width = _time("SinusoidalPositions", x, -2), axis_size(dims[-1])
        if width is None or width % 2:
            raise ShapeError(f"SinusoidalPositions: the width of {describe(x)} is no even number")
        angles = _angles(time, width // 2)
        waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(x.dtype)
        result: Tensor[*Axes] = x + Constant(waves, dims=dims[-2:])
        return result


def rotated(packed: Tensor[A, K, M, N, D]) -> Tensor[A, K, M, N, D]:
    """Queries and keys of the axes (batch, time, 3, heads, features) turned by angles in proportion to their places.

    Feature i of the first half and feature i of the second are the coordinates that are turned, so that the product of
    a query and a key depends on their distance (Su et al., "RoFormer", 2021). Values stay as they are. `ShapeError` for
    a time axis without a size or an odd number of features.

    >>> rotated(wy.Constant(np.ones((1, 2, 3, 1, 2)))).forward()[0, 1, 0, 0].round(2).tolist()
    [-0.3, 1.38]
    """
    dims: Any = packed.dims
    time, features = _time("rotated", packed, 1), axis_size(dims[4])
    if features is None or features % 2:
        raise ShapeError(f"rotated: the features of {describe(packed)} are no even number")
    half = features // 2
    angles = np.zeros((time, 3, 1, half))
    angles[:, :2] = _angles(time, half)[:, None, None]
    cosine, sine = Constant(np.cos(angles), dtype=packed.dtype), Constant(np.sin(angles), dtype=packed.dtype)
    first, second = packed.erase()[..., :half], packed.erase()[..., half:]
    turned: Node = concatenate([first * cosine - second * sine, first * sine + second * cosine], axis=-1)
    result: Tensor[A, K, M, N, D] = turned.reshape(dims)
    return result
