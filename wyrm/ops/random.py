"""Random nodes: pure functions of (seed, step, stream, position), so every engine and both passes draw the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import DTypeError, ShapeError
from wyrm.node.base import ZERO, label
from wyrm.node.node import Node
from wyrm.ops.elementwise import L, S, method
from wyrm.ops.philox import (
    STEP,
    WORD,
    advance_step,
    at_step,
    philox,
    philox_block,
    random_bits,
    set_step,
    step_is_announced,
    stream_or_next,
)
from wyrm.ops.sampling import RandomIndex, index
from wyrm.types.dims import Dims
from wyrm.types.typing import Shaped


def dropout_kernel(x: Any, step: Any, out: Any, threshold: int, scale: Any, seed: int, stream: int) -> None:
    """Fill `out` with the elements of `x` whose word is `threshold` or more, times `scale`, and zeros."""
    for start in range(0, out.size, 4):
        words = philox_block(start >> 2, step[0], seed, stream)
        for i in range(start, min(start + 4, out.size)):
            out[i] = x[i] * scale if words[i - start] >= threshold else 0.0


class Dropout(Node[tuple[L, Any], S], Generic[L, S]):
    """Elements set to zero with probability `rate`, the rest divided by `1 - rate`.

    Linear in its operand, and so its own transpose: the gradient draws the same mask again, nothing is stored.
    """

    __slots__ = ("rate", "seed", "stream")
    kernel = staticmethod(dropout_kernel)
    rate: float
    seed: int
    stream: int

    def __init__(self, x: Any, rate: float, seed: int, stream: int) -> None:
        self._construct((x, STEP), rate=float(rate), seed=seed, stream=stream)

    def _own(self) -> Dropout[Any, S]:
        return self

    def dtype_rule(self) -> np.dtype[Any]:
        dtype = self.parents[0].dtype
        if dtype.kind != "f":
            raise DTypeError("a mask is not scaled; convert it with mask.astype(np.float32)")
        return dtype

    def shape_rule(self) -> Dims:
        if not 0.0 <= self.rate < 1.0:
            raise ShapeError(f"rate is at least 0 and below 1, not {self.rate}")
        dims: Dims = self.parents[0].dims
        return dims

    @property
    def _threshold(self) -> int:
        """An element is kept whose word is this or more."""
        return min(round(self.rate * 2**32), WORD)

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        x, step = operands
        bits = random_bits(int(np.prod(shape, dtype=np.int64)), int(step), self.seed, self.stream)
        kept = (bits >= np.uint32(self._threshold)).reshape(shape)
        return xp.where(kept, x * x.dtype.type(1.0 / (1.0 - self.rate)), x.dtype.type(0.0))

    def kernel_arguments(self, operands: Sequence[NDArray[Any]], out: NDArray[Any]) -> tuple[Any, ...]:
        x, step = operands
        scale = x.dtype.type(1.0 / (1.0 - self.rate))
        flat = x.reshape(-1), step.reshape(-1), out.reshape(-1)
        return (*flat, self._threshold, scale, self.seed & WORD, self.stream & WORD)

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return Dropout(gradient, self.rate, self.seed, self.stream), ZERO


@method("dropout")
def dropout(x: Shaped[L, S], rate: float, seed: int = 0, stream: int | None = None) -> Dropout[L, S]:
    """Elements set to zero with probability `rate` (0 <= rate < 1), the rest divided by `1 - rate`.

    Each `forward()` draws a new mask, the same one for the same `seed`, step (see `wy.random.set_step`) and `stream`;
    every dropout of a graph has a stream of its own unless one is given. `ValueError` for a rate outside [0, 1).

    >>> wy.random.set_step(0)
    >>> sorted(set(wy.Constant(np.ones(100)).dropout(0.5).forward().tolist()))
    [0.0, 2.0]
    """
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"dropout of {label(x)}: rate is at least 0 and below 1, not {rate}")  # type: ignore[arg-type]  # any node
    return Dropout(x, rate, seed, stream_or_next(stream))


__all__ = [
    "STEP",
    "Dropout",
    "RandomIndex",
    "advance_step",
    "at_step",
    "dropout",
    "index",
    "philox",
    "random_bits",
    "set_step",
    "step_is_announced",
]
