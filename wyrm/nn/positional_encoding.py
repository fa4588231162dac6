"""Positional encodings: vectors added to a sequence, and rotations of queries and keys."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from wyrm.errors import ShapeError
from wyrm.graph.axes import Dim, axis_size
from wyrm.graph.base import describe
from wyrm.graph.leaves import constant_beside
from wyrm.graph.node import Node, Tensor
from wyrm.graph.typing import A, D, K, M, N
from wyrm.nn.axes import Axes, sized_axis
from wyrm.nn.embedding import Embedding
from wyrm.nn.initializers import Initializer, Normal
from wyrm.nn.module import Module
from wyrm.ops.indexing.slicing import concatenate

# The longest wavelength, divided by 2 pi (Vaswani et al., 2017).
_MAX_WAVELENGTH = 10_000.0
_WEIGHT = Normal(0.02)


def _time(caller: str, x: Node, axis: int, maximum: int | None = None) -> int:
    """Return the size of the time axis of `x`."""
    size = axis_size(x.dims[axis])
    if size is None:
        raise ShapeError(f"{caller}: the time axis of {describe(x)} needs a size; give it one, as in Time(128)")
    if maximum is not None and size > maximum:
        raise ShapeError(f"{caller}: the sequence has {size} positions, more than num_positions, {maximum}")
    return size


class LearnedPositionalEncoding(Module):
    """Adds a learned vector to each position of a sequence, (..., time, embed_dim).

    `weight` has the axes (num_positions, embed_dim). Raise `ShapeError` for a sequence longer than `num_positions`.

    >>> LearnedPositionalEncoding(10, 4)(wy.Input(dims=(2, 3, 4))).shape
    (2, 3, 4)
    """

    def __init__(
        self,
        num_positions: int,
        embed_dim: Dim | int,
        *,
        initializer: Initializer = _WEIGHT,
        dtype: DTypeLike = np.float32,
    ) -> None:
        self.num_positions = int(sized_axis("LearnedPositionalEncoding", "num_positions", num_positions))
        self.weight = Embedding(self.num_positions, embed_dim, initializer=initializer, dtype=dtype).weight

    def __call__(self, x: Tensor[*Axes]) -> Tensor[*Axes]:
        """Return `x` plus the vectors of its positions, of the axes of `x`."""
        time = _time("LearnedPositionalEncoding", x, -2, self.num_positions)
        vectors: Any = self.weight if time == self.num_positions else self.weight[:time]
        result: Tensor[*Axes] = x + vectors
        return result


def _angles(time: int, pairs: int) -> NDArray[np.float64]:
    """Return the angle of each position at each frequency, (time, pairs)."""
    frequencies = _MAX_WAVELENGTH ** (-np.arange(pairs) / max(pairs, 1))
    return np.arange(time)[:, None] * frequencies


class SinusoidalPositionalEncoding(Module):
    """Adds sines and cosines of each position, of wavelengths from 2 pi to 20,000 pi, to (..., time, features).

    The first half of the features takes the sines, the second half the cosines; Vaswani et al., "Attention is all you
    need" (2017), interleave them. The module has no parameters and no longest sequence.

    >>> SinusoidalPositionalEncoding()(wy.Constant(np.zeros((1, 2, 4)))).forward().round(2).tolist()
    [[[0.0, 0.0, 1.0, 1.0], [0.84, 0.01, 0.54, 1.0]]]
    """

    def __call__(self, x: Tensor[*Axes]) -> Tensor[*Axes]:
        """Return `x` plus its encoding; raise `ShapeError` for an axis without a size or an odd number of features."""
        dims: Any = x.dims
        time, features = _time("SinusoidalPositionalEncoding", x, -2), axis_size(dims[-1])
        if features is None or features % 2:
            raise ShapeError(f"SinusoidalPositionalEncoding: the last axis of {describe(x)} needs an even size")
        angles = _angles(time, features // 2)
        encoding = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        result: Tensor[*Axes] = x + constant_beside(encoding, x.dtype, dims[-2:])
        return result


def rotary_embedding(qkv: Tensor[A, K, M, N, D]) -> Tensor[A, K, M, N, D]:
    """Return queries, keys and values, (batch, time, 3, heads, features), with queries and keys rotated.

    Features i and i + features / 2 form a plane, which turns by an angle proportional to the position, so that the dot
    product of a query and a key depends on their distance (Su et al., "RoFormer", 2021). Values are unchanged. Raises
    `ShapeError` for a time axis without a size or an odd number of features.

    >>> rotary_embedding(wy.Constant(np.ones((1, 2, 3, 1, 2)))).forward()[0, 1, 0, 0].round(2).tolist()
    [-0.3, 1.38]
    """
    dims: Any = qkv.dims
    time, features = _time("rotary_embedding", qkv, 1), axis_size(dims[4])
    if features is None or features % 2:
        raise ShapeError(f"rotary_embedding: the last axis of {describe(qkv)} needs an even size")
    half = features // 2
    angles = np.zeros((time, 3, 1, half))
    angles[:, :2] = _angles(time, half)[:, None, None]
    cosine, sine = constant_beside(np.cos(angles), qkv.dtype), constant_beside(np.sin(angles), qkv.dtype)
    first, second = qkv.erase()[..., :half], qkv.erase()[..., half:]
    rotated: Node = concatenate([first * cosine - second * sine, first * sine + second * cosine], axis=-1)
    result: Tensor[A, K, M, N, D] = rotated.reshape(dims)
    return result
