"""Random nodes: pure functions of (seed, step, stream, position), so every engine and both passes draw the same.

The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import DTypeError, ShapeError
from wyrm.node.base import ZERO, Site, label, made_at
from wyrm.node.index_leaves import IndexInput
from wyrm.node.node import Node
from wyrm.node.storage import bound_array, stored
from wyrm.ops.elementwise import L, S, method
from wyrm.types.dims import Dims
from wyrm.types.typing import Shaped

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox(counter: NDArray[np.uint64], step: int, seed: int, stream: int) -> NDArray[np.uint32]:
    """Four 32-bit words for each counter, shape (n, 4): the counter block is (counter, step), the key (seed, stream).

    >>> philox(np.zeros(1, np.uint64), 0, 0, 0).tolist()
    [[1713891541, 3781805453, 3159862348, 2600524760]]
    """
    words = [counter & _LOW, counter >> _HALF, np.full_like(counter, step & 0xFFFFFFFF), np.zeros_like(counter)]
    key = [seed & 0xFFFFFFFF, stream & 0xFFFFFFFF]
    for _ in range(10):
        products = words[0] * _MULTIPLIERS[0], words[2] * _MULTIPLIERS[1]
        words = [
            (products[1] >> _HALF) ^ words[1] ^ np.uint64(key[0]),
            products[1] & _LOW,
            (products[0] >> _HALF) ^ words[3] ^ np.uint64(key[1]),
            products[0] & _LOW,
        ]
        key = [(k + w) & 0xFFFFFFFF for k, w in zip(key, _WEYL, strict=True)]
    return np.stack(words, axis=-1).astype(np.uint32)


def random_bits(count: int, step: int, seed: int, stream: int) -> NDArray[np.uint32]:
    """`count` words: word i is number i % 4 of counter i // 4."""
    counter = np.arange(-(-count // 4), dtype=np.uint64)
    return philox(counter, step, seed, stream).reshape(-1)[:count]


class _Step(IndexInput[tuple[()]], abstract=True):
    """The number of the step that random nodes draw for; `forward()` moves it on, one for each call."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return _the_step, ()


with made_at(Site(__file__, 1)):
    STEP = _Step(-1, name="step")
_announced = 0  # the version of STEP that `set_step` made


def _the_step() -> _Step:
    return STEP


_streams = itertools.count()


def set_step(step: int) -> None:
    """The next `forward()` of a graph with random nodes draws for `step`, the one after it for `step + 1`.

    >>> wy.random.set_step(0)
    """
    global _announced
    STEP.set(step - 1)
    _announced = stored(STEP).version


def advance_step() -> int:
    """Move on to the next step, and return it."""
    step = int(bound_array(STEP)) + 1
    STEP.set(step)
    return step


@contextmanager
def at_step(step: int) -> Iterator[None]:
    """Within it, random nodes draw for `step` again."""
    now = int(bound_array(STEP))
    if now == step:
        yield
        return
    STEP.set(step)
    try:
        yield
    finally:
        STEP.set(now)


def step_is_announced() -> bool:
    """Whether `set_step` has been called and nothing has drawn for its step yet."""
    return stored(STEP).version == _announced


class Dropout(Node[tuple[L, Any], S], Generic[L, S]):
    """Elements set to zero with probability `rate`, the rest divided by `1 - rate`.

    Linear in its operand, and so its own transpose: the gradient draws the same mask again, nothing is stored.
    """

    __slots__ = ("rate", "seed", "stream")
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

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        x, step = operands
        bits = random_bits(int(np.prod(shape, dtype=np.int64)), int(step), self.seed, self.stream)
        kept = (bits >= np.uint32(min(round(self.rate * 2**32), 2**32 - 1))).reshape(shape)
        return xp.where(kept, x * x.dtype.type(1.0 / (1.0 - self.rate)), x.dtype.type(0.0))

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
    return Dropout(x, rate, seed, next(_streams) if stream is None else stream)
