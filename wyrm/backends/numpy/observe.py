"""Watching a run of the reference engine: the first node that makes a NaN, and the time that each op takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import numpy as np

from wyrm.errors import NotFinite
from wyrm.node.base import BaseNode, describe, explain
from wyrm.types.rows import RowSparse


class Timing:
    """Seconds and calls by op, filled while `time_ops()` is active; `print` shows a table, slowest first."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)

    def add(self, node: BaseNode, seconds: float) -> None:
        """Count one evaluation of a node."""
        self.seconds[node.op_name()] += seconds
        self.calls[node.op_name()] += 1

    def __str__(self) -> str:
        rows = sorted(self.seconds.items(), key=lambda row: -row[1])
        lines = [f"{'op':<24}{'calls':>8}{'total ms':>12}{'us/call':>10}"]
        lines += [f"{op:<24}{self.calls[op]:>8}{s * 1e3:>12.3f}{s / self.calls[op] * 1e6:>10.2f}" for op, s in rows]
        return "\n".join(lines)


_observer: ContextVar[Observer | None] = ContextVar("_observer", default=None)


# Who watches now. No function of Python's: it is asked for each run.
observer: Final = _observer.get


class Observer:
    """What the engine reports to, node by node, while somebody watches; one within another watches for both."""

    def __init__(self, timing: Timing | None, check_nan: bool, check_infinity: bool) -> None:
        within = observer()
        self.timings: list[Timing] = [] if within is None else list(within.timings)
        if timing is not None:
            self.timings.append(timing)
        self.check_nan: bool = check_nan or (within is not None and within.check_nan)
        self.check_infinity: bool = check_infinity or (within is not None and within.check_infinity)

    def time(self, node: BaseNode, seconds: float) -> None:
        """Count one evaluation of a node."""
        for timing in self.timings:
            timing.add(node, seconds)

    def check(self, node: BaseNode, value: Any, operands: list[Any]) -> None:
        """`NotFinite` where the value of `node` has what is watched for."""
        array = value.values if isinstance(value, RowSparse) else value
        if array.dtype.kind != "f" or not self.check_nan:
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
    return f"{describe(parent)} lies in {array.min()} to {array.max()}"


@contextmanager
def watch_nan(infinity: bool = False) -> Iterator[None]:
    """Within it, `forward()` and `backward()` compute everything anew and stop at the first node that makes a NaN.

    The error, `NotFinite`, names the node, its operands with their ranges, and the line that made it.
    `infinity=True` stops at infinities too.

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
    """Within it, `forward()` and `backward()` compute everything anew and add up the time by op.

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
