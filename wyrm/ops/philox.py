"""The random number generator of random nodes, with its step counter and its streams.

The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.node.base import BaseNode
from wyrm.node.index_leaves import IndexInput
from wyrm.node.source_location import located_at
from wyrm.node.storage import bound_array, stored
from wyrm.types.dims import Axis
from wyrm.types.options import integer

WORD = 0xFFFFFFFF  # mask of a 32-bit word; only the low 32 bits of a seed or a stream count


def philox_block(counter: Any, step: Any, seed: Any, stream: Any) -> tuple[Any, Any, Any, Any]:
    """Return four 32-bit words for the counter block (counter, step) and the key (seed, stream).

    `counter` is a number or an array. All arguments are at least 0 and below 2**64, `seed` and `stream` below 2**32.
    """
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a, b = np.uint64(counter) & low, np.uint64(counter) >> half
    c, d = np.uint64(step) & low, np.uint64(step) >> half
    first, second = np.uint64(seed), np.uint64(stream)
    for _ in range(10):
        left, right = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = (right >> half) ^ b ^ first, right & low, (left >> half) ^ d ^ second, left & low
        first, second = (first + np.uint64(0x9E3779B9)) & low, (second + np.uint64(0xBB67AE85)) & low
    return np.uint32(a), np.uint32(b), np.uint32(c), np.uint32(d)


def philox(counter: NDArray[np.uint64], step: int, seed: int, stream: int) -> NDArray[np.uint32]:
    """Return four 32-bit words for each counter, of shape (n, 4): `philox_block` for an array of counters.

    >>> philox(np.zeros(1, np.uint64), 0, 0, 0).tolist()
    [[1713891541, 3781805453, 3159862348, 2600524760]]
    """
    return np.stack(philox_block(counter, step % 2**64, seed & WORD, stream & WORD), axis=-1)


def random_bits(count: int, step: int, seed: int, stream: int) -> NDArray[np.uint32]:
    """Return `count` words; word i is word i % 4 of counter i // 4."""
    counter = np.arange(-(-count // 4), dtype=np.uint64)
    return philox(counter, step, seed, stream).reshape(-1)[:count]


class Draws(BaseNode, abstract=True):
    """Base class of the ops that draw and can draw for all rows of `vmap` at once."""

    __slots__ = ()

    def drawn_by_rows(self, operands: Sequence[Any], mapped: Sequence[bool], axis: Axis) -> BaseNode:
        """Return this op with a new first axis, whose rows draw their own numbers; see `BaseNode.batched`."""
        raise NotImplementedError


class _StepCounter(IndexInput[tuple[()]], abstract=True):
    """The step that random nodes draw for; each call of `forward()` increments it."""

    __slots__ = ()

    def __reduce__(self) -> tuple[object, ...]:
        return _the_step, ()


class _RowsBefore(IndexInput[tuple[()]], abstract=True):
    """The number of rows of a batch before the part of it that compiled code computes; 0 unless threads divide it."""

    __slots__ = ()

    def __reduce__(self) -> tuple[object, ...]:
        return _the_rows_before, ()


with located_at((__file__, 1, None)):
    STEP = _StepCounter(-1, name="step")
    ROWS_BEFORE = _RowsBefore(0, name="rows_before")
# The leaves that programs set themselves, and that are no inputs of theirs.
COUNTERS: frozenset[BaseNode] = frozenset([STEP, ROWS_BEFORE])
_announced = 0  # the version of STEP after the last `set_step`


def _the_step() -> _StepCounter:
    return STEP


def _the_rows_before() -> _RowsBefore:
    return ROWS_BEFORE


_streams = itertools.count()


def stream_or_next(stream: int | None) -> int:
    """Return `stream`, or the next unused one for None."""
    return next(_streams) if stream is None else integer("stream", stream)


def set_step(step: int) -> None:
    """Make the next `forward()` of a graph with random nodes draw for `step`, the one after it for `step + 1`.

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
    """Increment the step and return it."""
    step = int(bound_array(STEP)) + 1
    STEP.set(step)
    return step


@contextmanager
def at_step(step: int) -> Iterator[None]:
    """Return a context in which random nodes draw for `step`; it restores the current step at its end."""
    current = int(bound_array(STEP))
    if current == step:
        yield
        return
    STEP.set(step)
    try:
        yield
    finally:
        STEP.set(current)


def step_is_announced() -> bool:
    """Return whether nothing has drawn since the last `set_step`."""
    return stored(STEP).version == _announced
