"""Memory planning: buffers that are not live at the same time share memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wyrm.engines.native.stages.loops import ArrayBuffer
from wyrm.engines.native.stages.source import Source
from wyrm.graph.axes import Dim, resolve
from wyrm.support.memory import ALIGNMENT


@dataclass(frozen=True)
class Interval:
    """A buffer's size in bytes, and the first and last call that uses it."""

    size: int
    first: int
    last: int


def assign(intervals: Sequence[Interval]) -> tuple[list[int], int]:
    """Return an offset for each buffer, and the total size.

    Largest first, each at the lowest offset where no buffer with an overlapping lifetime lies (Pisarchyk and Lee, 2020,
    "greedy by size").
    >>> assign([Interval(64, 0, 1), Interval(64, 1, 2), Interval(64, 2, 3)])
    ([0, 64, 0], 128)
    """
    offsets = [0] * len(intervals)
    placed: list[int] = []
    for i in sorted(range(len(intervals)), key=lambda i: -intervals[i].size):
        interval, place = intervals[i], 0
        for j in sorted(placed, key=offsets.__getitem__):
            other = intervals[j]
            if other.first > interval.last or other.last < interval.first:
                continue
            if offsets[j] - place >= interval.size:
                break
            place = max(place, offsets[j] + _rounded(other.size))
        offsets[i] = place
        placed.append(i)
    return offsets, max((offsets[i] + _rounded(interval.size) for i, interval in enumerate(intervals)), default=0)


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class MemoryPlan:
    """The offset of each buffer in one block of memory, and its shape; the size of the block in bytes."""

    places: Mapping[ArrayBuffer, tuple[int, tuple[int, ...]]]
    size: int

    def __str__(self) -> str:
        lines = [
            f"{start:>12,}  {buffer.name}: {shape} {buffer.dtype}" for buffer, (start, shape) in self.places.items()
        ]  # fmt: skip
        return "\n".join([*lines, f"{self.size:,} bytes in all"])


def plan_memory(source: Source, sizes: Mapping[type[Dim], int]) -> MemoryPlan:
    """Return the offsets of all arrays that only a step needs, for these sizes of the named axes."""
    uses = lifetimes(source)
    shapes = {buffer: resolve(buffer.dims, sizes) for buffer in uses}
    lengths = {buffer: math.prod(shape) * buffer.dtype.itemsize for buffer, shape in shapes.items()}
    starts, size = assign([Interval(lengths[buffer], *use) for buffer, use in uses.items()])
    return MemoryPlan({buffer: (start, shapes[buffer]) for buffer, start in zip(uses, starts, strict=True)}, size)


def lifetimes(source: Source) -> dict[ArrayBuffer, tuple[int, int]]:
    """Return the first and last invocation that uses each array that only a step needs.

    One after the last stands for what follows all invocations.
    """
    uses: dict[ArrayBuffer, tuple[int, int]] = {}
    held = {buffer for rows in source.lowering.rows for buffer in (rows.positions, rows.rows, rows.sums, rows.count)}
    for position, invocation in enumerate(source.invocations):
        for buffer in sorted(invocation.buffers, key=lambda each: each.name):  # the same plan in every process
            root = buffer.root
            if root.leaf is None and root.fixed is None and root not in held:
                uses[root] = (uses.get(root, (position, 0))[0], position)
    for buffer in [*source.lowering.outputs, *source.live_at_end]:
        if buffer.root in uses:
            uses[buffer.root] = (uses[buffer.root][0], len(source.invocations))
    return uses
