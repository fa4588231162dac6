"""The random number generator of random nodes, with its step counter and its streams.

The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import OptionError
from wyrm.graph.axes import Axis, Entries, Ragged, axis_of_entries
from wyrm.graph.base import BaseNode, _set
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.source_location import located_at
from wyrm.graph.storage import bound_array, stored
from wyrm.support.options import integer, whole

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


def words_of_block(low: Any, high: Any, step_low: Any, step_high: Any, seed: Any, stream: Any) -> tuple[Any, ...]:
    """Return `philox_block` of a counter and a step that are given as two words each."""
    half = np.uint64(32)
    counter = np.uint64(low) | np.uint64(high) << half
    return philox_block(counter, np.uint64(step_low) | np.uint64(step_high) << half, seed, stream)


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


class Counter(IndexInput[tuple[()]], abstract=True):
    """A number that programs set at each step, so that it is not among the inputs that users give."""

    __slots__ = ()


class _StepCounter(Counter, abstract=True):
    """The step that random nodes draw for; each call of `forward()` increments it."""

    __slots__ = ()

    def __reduce__(self) -> tuple[object, ...]:
        return _the_step, ()


class PlacesBefore(Counter, abstract=True):
    """The number of rows of a batch before the part of it that compiled code computes; 0 unless threads divide it.

    With `entries`, it is the number of entries of these rows along such an axis.
    """

    __slots__ = ("_entries",)
    _entries: type[Entries] | None

    @property
    def entries(self) -> type[Entries] | None:
        """The axis of entries that are counted; None if rows are."""
        return self._entries

    def __reduce__(self) -> tuple[object, ...]:
        return _places_before, (self._entries and self._entries.of,)


with located_at((__file__, 1, None)):
    STEP = _StepCounter(-1, name="step")
    ROWS_BEFORE = PlacesBefore(0, name="rows_before")
    _set(ROWS_BEFORE, "_entries", None)
_announced = 0  # the version of STEP after the last `set_step`


def _the_step() -> _StepCounter:
    return STEP


def places_before(axis: Axis) -> PlacesBefore:
    """Return the number of places along an axis of rows, or of the entries of rows, before a part of a batch."""
    return _places_before(axis.of if isinstance(axis, Entries) else None)


def _places_before(name: type[Ragged] | None) -> PlacesBefore:
    if name is None:
        return ROWS_BEFORE
    entries = type(axis_of_entries(name))
    if "before" not in entries.__dict__:
        with located_at((__file__, 1, None)):
            made = PlacesBefore(0, name=f"entries_before_of_{name.__name__}")
        _set(made, "_entries", entries)
        entries.before = made
    found: PlacesBefore = entries.before
    return found


_pinned: int | None = None  # the step of the innermost `at_step`, for which everything draws


class Seeds:
    """The streams of the random nodes, and the seeds of the layers, that are given none where they are built."""

    def __init__(self, number: int = 0) -> None:
        self.restart(number)

    def restart(self, number: int) -> None:
        """Begin as after this seed. Graphs built after different seeds have different streams, and can be joined."""
        self._number = number
        # None until it is needed: it imports numpy.random.
        self._sequence: np.random.SeedSequence | None = None
        self.streams = itertools.count(int(self.sequence.generate_state(1)[0]) if number else 0)

    @property
    def sequence(self) -> np.random.SeedSequence:
        """The sequence whose children are the seeds of layers."""
        if self._sequence is None:
            self._sequence = np.random.SeedSequence(self._number)
        return self._sequence


_everywhere = Seeds()
_within: ContextVar[Seeds | None] = ContextVar("_within", default=None)


def seeds() -> Seeds:
    """Return the seeds of what is built here: those of the innermost `seeds_from`, else those of the process."""
    return _within.get() or _everywhere


@contextmanager
def seeds_from(number: int) -> Iterator[None]:
    """Return a context in which what this thread builds has seeds of its own."""
    token = _within.set(Seeds(number))
    try:
        yield
    finally:
        _within.reset(token)


def stream_or_next(stream: int | None) -> int:
    """Return `stream`, or the next unused one for None."""
    return next(seeds().streams) if stream is None else integer("stream", stream)


def set_step(step: int) -> None:
    """Make the next `forward()` of a graph with random nodes draw for `step`, the one after it for `step + 1`.

    Raise `OptionError` for a step below 0 and inside `at_step`, `DTypeError` for one that is no integer.

    >>> wy.random.set_step(0)
    """
    global _announced
    if _pinned is not None:
        raise OptionError(
            f"set_step({step!r}) inside at_step({_pinned}), where everything draws for step {_pinned}: leave that "
            f"context first, or use at_step({step!r}) inside it"
        )
    STEP.set(whole("set_step: step", step, 0) - 1)
    _announced = stored(STEP).version


def next_step() -> int:
    """Return the step that the next `forward()` draws for; a checkpoint keeps it, for `set_step` when training resumes.

    >>> wy.random.set_step(7)
    >>> wy.random.next_step()
    7
    """
    return int(bound_array(STEP)) + 1 if _pinned is None else _pinned


def advance_step() -> int:
    """Increment the step and return it; inside `at_step`, return its step."""
    if _pinned is not None:
        return _pinned
    step = int(bound_array(STEP)) + 1
    STEP.set(step)
    return step


def pinned_step() -> int | None:
    """Return the step of the `at_step` that is open, for which everything draws; else None."""
    return _pinned


@contextmanager
def at_step(step: int) -> Iterator[None]:
    """Return a context in which all random nodes draw for `step`, each time the same.

    It holds for `forward()`, `backward()` and functions, and for calls of programs, whose step 5 draws what
    `at_step(5)` draws. At its end the step is what it was before, and programs go on with their own. Contexts can be
    nested. An epoch of a program with random nodes raises `OptionError` inside it, because each of its steps draws
    anew.

    Raise `OptionError` for a step below 0, `DTypeError` for one that is no integer.

    >>> noise = wy.random.normal((3,))
    >>> with wy.random.at_step(5):
    ...     first, second, compiled = noise.forward(), noise.forward(), wy.compile(noise)()
    >>> bool((first == second).all()), bool((first == compiled).all())
    (True, True)
    """
    global _pinned
    before, number = _pinned, whole("at_step: step", step, 0)
    with drawing_for(number):
        _pinned = number
        try:
            yield
        finally:
            _pinned = before


@contextmanager
def drawing_for(step: int) -> Iterator[None]:
    """Return a context in which a graph that runs draws for `step`, although `forward()` would move on."""
    global _announced
    current, announced = int(bound_array(STEP)), stored(STEP).version == _announced
    if current == step:
        yield
        return
    STEP.set(step)
    try:
        yield
    finally:
        STEP.set(current)
        if announced:
            _announced = stored(STEP).version


def step_is_announced() -> bool:
    """Return whether a `backward()` draws for another step than the last `forward()`.

    It does inside `at_step`, and if nothing has drawn since the last `set_step`.
    """
    return _pinned is not None or stored(STEP).version == _announced
