"""What random nodes draw from: the generator, the step that it draws for, and the streams that keep nodes apart.

The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.node.index_leaves import IndexInput
from wyrm.node.source_location import SourceLocation, located_at
from wyrm.node.storage import bound_array, stored

WORD = 0xFFFFFFFF  # the largest word; a seed or a stream counts by its lowest 32 bits


def philox_block(counter: Any, step: Any, seed: Any, stream: Any) -> tuple[Any, Any, Any, Any]:
    """Four 32-bit words: the counter block is (counter, step), the key (seed, stream).

    Of one counter or of an array of them; all numbers are at least 0, seed and stream below 2**32.
    """
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a, b = np.uint64(counter) & low, np.uint64(counter) >> half
    c, d = np.uint64(step) & low, np.uint64(0)
    first, second = np.uint64(seed), np.uint64(stream)
    for _ in range(10):
        left, right = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = (right >> half) ^ b ^ first, right & low, (left >> half) ^ d ^ second, left & low
        first, second = (first + np.uint64(0x9E3779B9)) & low, (second + np.uint64(0xBB67AE85)) & low
    return np.uint32(a), np.uint32(b), np.uint32(c), np.uint32(d)


def philox(counter: NDArray[np.uint64], step: int, seed: int, stream: int) -> NDArray[np.uint32]:
    """Four 32-bit words for each counter, shape (n, 4): the counter block is (counter, step), the key (seed, stream).

    >>> philox(np.zeros(1, np.uint64), 0, 0, 0).tolist()
    [[1713891541, 3781805453, 3159862348, 2600524760]]
    """
    return np.stack(philox_block(counter, step & WORD, seed & WORD, stream & WORD), axis=-1)


def random_bits(count: int, step: int, seed: int, stream: int) -> NDArray[np.uint32]:
    """`count` words: word i is number i % 4 of counter i // 4."""
    counter = np.arange(-(-count // 4), dtype=np.uint64)
    return philox(counter, step, seed, stream).reshape(-1)[:count]


class _StepCounter(IndexInput[tuple[()]], abstract=True):
    """The number of the step that random nodes draw for; `forward()` moves it on, one for each call."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return _the_step, ()


with located_at(SourceLocation(__file__, 1)):
    STEP = _StepCounter(-1, name="step")
_announced = 0  # the version of STEP that `set_step` made


def _the_step() -> _StepCounter:
    return STEP


_streams = itertools.count()


def stream_or_next(stream: int | None) -> int:
    """The stream that is given, else one that no other node has taken so."""
    return next(_streams) if stream is None else stream


def set_step(step: int) -> None:
    """The next `forward()` of a graph with random nodes draws for `step`, the one after it for `step + 1`.

    >>> wy.random.set_step(0)
    """
    global _announced
    STEP.set(step - 1)
    _announced = stored(STEP).version


def next_step() -> int:
    """Return the step that the next `forward()` draws for; a checkpoint keeps it, for `set_step` when training resumes.

    >>> wy.random.set_step(7)
    >>> wy.random.next_step()
    7
    """
    return int(bound_array(STEP)) + 1


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
