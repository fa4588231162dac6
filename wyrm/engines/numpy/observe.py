"""Instrumentation of the reference engine: find the first NaN, and measure the time of each op."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import numpy as np

from wyrm.errors import NotFinite
from wyrm.graph.base import BaseNode, describe, explain
from wyrm.graph.rows import RowSparse


class Timing:
    """Seconds and calls by op, recorded while `time_ops()` is active. `print` shows a table, slowest first."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)

    def add(self, node: BaseNode, seconds: float) -> None:
        """Record one evaluation of a node."""
        self.seconds[node.op_name()] += seconds
        self.calls[node.op_name()] += 1

    def __str__(self) -> str:
        rows = sorted(self.seconds.items(), key=lambda row: -row[1])
        lines = [f"{'op':<24}{'calls':>8}{'total ms':>12}{'us/call':>10}"]
        lines += [f"{op:<24}{self.calls[op]:>8}{s * 1e3:>12.3f}{s / self.calls[op] * 1e6:>10.2f}" for op, s in rows]
        return "\n".join(lines)


_observer: ContextVar[Observer | None] = ContextVar("_observer", default=None)


# Returns the active observer. It is a bound C method for speed: each run calls it.
observer: Final = _observer.get


class Observer:
    """Receives each node that the engine evaluates. A nested observer also reports to the enclosing one."""

    def __init__(self, timing: Timing | None, check_nan: bool, check_infinity: bool) -> None:
        within = observer()
        self.timings: list[Timing] = [] if within is None else list(within.timings)
        if timing is not None:
            self.timings.append(timing)
        self.check_nan: bool = check_nan or (within is not None and within.check_nan)
        self.check_infinity: bool = check_infinity or (within is not None and within.check_infinity)

    def time(self, node: BaseNode, seconds: float) -> None:
        """Record one evaluation of a node."""
        for timing in self.timings:
            timing.add(node, seconds)

    def check(self, node: BaseNode, value: Any, operands: list[Any]) -> None:
        """Raise `NotFinite` if the value of `node` has a NaN, or with `check_infinity` an infinity."""
        array = value.values if isinstance(value, RowSparse) else value
        if array.dtype.kind != "f" or not self.check_nan or node.holds_bits:
            return
        bad = ~np.isfinite(array) if self.check_infinity else np.isnan(array)
        if not bad.any():
            return
        position = tuple(int(i) for i in np.argwhere(bad)[0])
        ranges = [_range(parent, operand) for parent, operand in zip(node.parents, operands, strict=True)]
        raise NotFinite(
            explain(node, f"the first {'NaN' if np.isnan(array[position]) else 'infinity'} is at position {position}")
            + "".join(f"\n  {line}" for line in ranges)
        )


def _range(parent: BaseNode, operand: Any) -> str:
    array = operand.values if isinstance(operand, RowSparse) else operand
    if not array.size:
        return f"{describe(parent)} is empty"
    return f"{describe(parent)} ranges from {array.min()} to {array.max()}"


@contextmanager
def watch_nan(infinity: bool = False) -> Iterator[None]:
    """Raise `NotFinite` at the first node whose value has a NaN, inside the `with` block.

    `forward()` and `backward()` recompute every node meanwhile. The error names the node, the ranges of its operands
    and the line that created it. With `infinity=True` an infinity raises too.

    >>> x = wy.Constant(-1.0, name="x")
    >>> with watch_nan():
    ...     x.log().forward()
    Traceback (most recent call last):
    wyrm.errors.NotFinite: log: the first NaN is at position ()
    ...
    """
    token = _observer.set(Observer(None, True, infinity))
    try:
        yield
    finally:
        _observer.reset(token)


@contextmanager
def time_ops() -> Iterator[Timing]:
    """Measure the time of each op inside the `with` block and yield the `Timing`.

    `forward()` and `backward()` recompute every node meanwhile.

    >>> with time_ops() as timing:
    ...     value = wy.Constant([1.0, 2.0]).exp().sum().forward()
    >>> timing.calls["exp"]
    1
    """
    timing = Timing()
    token = _observer.set(Observer(timing, False, False))
    try:
        yield timing
    finally:
        _observer.reset(token)
