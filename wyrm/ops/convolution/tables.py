"""The geometry of convolutions: the tables of tiles and taps that the kernels work by."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from wyrm.ops.convolution.boxes import VECTOR
from wyrm.ops.windows import Window

Triple = tuple[int, int, int]

# The inputs of a tile take at most so many bytes, if a tile of `_FEWEST_OUTPUTS` allows it.
_BOX_BYTES, _FEWEST_OUTPUTS = 2**19, 64
# What it costs to fill a part of a box, in vectors that are multiplied: to begin with a plane, and with a row of it; a
# vector of contiguous elements, and of others; and the ends of a row that are outside. Boxes beyond `_BOX_BYTES` cost
# more by `_FAR`.
_PLANE, _ROW, _MOVED, _GATHERED, _END, _FAR = 60.0, 40.0, 4.0, 32.0, 6.0, 2.0
# What it costs to begin with a run and with a product; the fewest vectors that a processor multiplies at a time; and
# what it costs to pack an element of a product.
_CALL, _PRODUCT, _FEWEST_SUMS, _PACKED = 80.0, 800.0, 8, 0.5


@dataclass(frozen=True)
class Tables:
    """The arguments of `correlation_kernel` and `weight_gradient_kernel` that follow from the geometry alone."""

    # The outputs of a tile along (depth, height, width), and those of an image and phase.
    tile: Triple
    span: Triple
    # How many more inputs than outputs a tile has.
    halo: Triple
    source_step: Triple
    out_step: Triple
    # Phase q of the box begins at the input `first * source_step + source_shifts[q]`.
    source_shifts: NDArray[np.int64]
    out_shifts: NDArray[np.int64]
    # The taps of output phase p are `starts[p]` to `starts[p + 1]`: their offsets in the box, and their positions in
    # the weights of an output channel.
    starts: NDArray[np.int64]
    offsets: NDArray[np.int64]
    positions: NDArray[np.int64]

    @property
    def volume(self) -> int:
        """The number of elements of the box per channel and phase."""
        return math.prod(n + more for n, more in zip(self.tile, self.halo, strict=True))

    @property
    def run(self) -> int:
        """The number of outputs of a run, which are computed at a time: the rows of a plane, or a row."""
        return self.tile[2] * (self.tile[1] if self.halo[2] == 0 else 1)


@dataclass(frozen=True)
class _Box:
    """The inputs that a tile reads, with a copy ("phase") for each of `shifts`; each tap has a phase and a place there.

    `spread`: the axes along which each tap has a phase of its own, so that no more inputs than outputs are needed.
    """

    shifts: tuple[Triple, ...]
    halo: Triple
    taps: tuple[tuple[tuple[int, Triple], ...], ...]
    spread: tuple[bool, bool, bool]

    @staticmethod
    def of(reads: Sequence[Sequence[Triple]], step: Triple, spread: tuple[bool, bool, bool]) -> _Box:
        """Return the box for taps that read the inputs `u * step + reads[p][tap]` for output u of phase p."""
        every = [tap for taps in reads for tap in taps]
        least = _triple([min(each) for each in zip(*every, strict=True)] if every else [0, 0, 0])
        shifts: dict[Triple, int] = {}
        found, halo = [], [0, 0, 0]
        for taps in reads:
            places = []
            for tap in taps:
                shift, place = list(tap), [0, 0, 0]
                for axis in range(3):
                    if not spread[axis]:
                        place[axis], phase = divmod(tap[axis] - least[axis], step[axis])
                        shift[axis] = least[axis] + phase
                        halo[axis] = max(halo[axis], place[axis])
                places.append((shifts.setdefault(_triple(shift), len(shifts)), _triple(place)))
            found.append(tuple(places))
        return _Box(tuple(shifts), _triple(halo), tuple(found), spread)


def _triple(values: Sequence[int]) -> Triple:
    first, second, third = values
    return first, second, third


def _tiles(box: _Box, span: Triple, element: int) -> Iterator[Triple]:
    """Yield the sizes that tiles may have; `element` is the size in bytes of all channels and phases of an input."""
    depth, height, width = (max(1, size) for size in span)
    for tall in dict.fromkeys(-(-height // parts) for parts in range(1, height + 1)):
        plane = (tall + box.halo[1]) * (width + box.halo[2]) * element
        deep = max(1, min(depth, _BOX_BYTES // plane - box.halo[0])) if tall == height else 1
        yield deep, tall, width
    most = max(_FEWEST_OUTPUTS, _BOX_BYTES // ((1 + box.halo[1]) * element))
    if most < width:
        parts = -(-width // most)
        yield 1, 1, -(-width // (parts * VECTOR)) * VECTOR


@dataclass(frozen=True)
class _Costs:
    """What an image costs, in vectors that are multiplied."""

    source: Triple
    step: Triple
    rows: int
    channels: int
    itemsize: int

    def of_sums(self, box: _Box, tile: Triple, span: Triple) -> float:
        """Return what the sums over taps cost with these tiles."""
        runs, length = (1, tile[1] * tile[2]) if box.halo[2] == 0 else (tile[1], tile[2])
        taps = sum(map(len, box.taps)) * self.channels
        sums = max(self.rows * -(-length // self._vector), _FEWEST_SUMS) * taps + _CALL
        return _count(tile, span) * (self._filled(box, tile) + tile[0] * runs * sums)

    def of_products(self, box: _Box, tile: Triple, span: Triple) -> float:
        """Return what the gradient with respect to the weight costs with these tiles."""
        runs, length = (1, tile[1] * tile[2]) if box.halo[2] == 0 else (tile[1], tile[2])
        vectors = -(-self.rows // self._vector)
        packed = vectors * self._vector * -(-length // self._vector) * _PACKED
        products = 0.0
        for first, end, _ in _jobs(box):
            sums = vectors * (end - first) * self.channels
            products += max(sums, _FEWEST_SUMS) * length + sums * _MOVED + packed + _PRODUCT
        return _count(tile, span) * (self._filled(box, tile) + tile[0] * runs * products)

    @property
    def _vector(self) -> int:
        return VECTOR * 4 // self.itemsize

    def _filled(self, box: _Box, tile: Triple) -> float:
        sizes = [n + more for n, more in zip(tile, box.halo, strict=True)]
        lines = sizes[0] * sizes[1]
        if self.step[1] == self.step[2] == 1 and sizes[2] == self.source[2]:
            filled = sizes[0] * (_PLANE + -(-sizes[1] * sizes[2] // self._vector) * _MOVED) + lines * _END
        else:
            moved = _MOVED if self.step[2] == 1 else _GATHERED
            filled = _PLANE + lines * (_ROW + -(-sizes[2] // self._vector) * moved)
        planes = len(box.shifts) * self.channels
        return planes * filled * (_FAR if planes * math.prod(sizes) * self.itemsize > _BOX_BYTES else 1.0)


def _count(tile: Triple, span: Triple) -> int:
    """Return the number of tiles of an image."""
    return math.prod(-(-max(1, size) // own) for size, own in zip(span, tile, strict=True))


def _jobs(box: _Box) -> list[tuple[int, int, Triple]]:
    """Return the first phase, the end of the phases and the place of each group of taps that are neighbours."""
    jobs: list[tuple[int, int, Triple]] = []
    (taps,) = box.taps
    for place in dict.fromkeys(place for _, place in taps):
        for phase in sorted(q for q, other in taps if other == place):
            if jobs and jobs[-1][1:] == (phase, place):
                jobs[-1] = jobs[-1][0], phase + 1, place
            else:
                jobs.append((phase, phase + 1, place))
    return jobs


def _chosen(
    reads: Sequence[Sequence[Triple]], step: Triple, span: Triple, element: int, cost: Callable[..., float]
) -> tuple[_Box, Triple]:
    """Return the box and the tile that cost least; `element` is the size in bytes of an input's channels."""
    found = []
    for spread in ((False, False, False), (False, False, True), (False, True, True), (True, True, True)):
        box = _Box.of(reads, step, spread)
        for tile in _tiles(box, span, element * len(box.shifts)):
            found.append((cost(box, tile, span), len(found), box, tile))
    return min(found)[2:]


def _offsets(box: _Box, tile: Triple, channels: int, phase: int) -> NDArray[np.int64]:
    """Return the offsets of the taps of an output phase for all channels: the box is (phases, channels, *volume)."""
    sizes = [n + more for n, more in zip(tile, box.halo, strict=True)]
    volume = math.prod(sizes)
    taps = np.array([q * channels * volume + _flat(place, sizes) for q, place in box.taps[phase]], np.int64)
    return (taps[:, None] + np.arange(channels, dtype=np.int64) * volume).ravel()


@lru_cache(maxsize=256)
def forward_tables(
    windows: tuple[Window, Window, Window], channels: int, rows: int, source: Triple, sizes: Triple, itemsize: int
) -> Tables:
    """Return the tables of a convolution of inputs of the sizes `source` to outputs of the sizes `sizes`.

    `channels` and `rows` are the channels and the output channels of a group.
    """
    step, taps = _triple([window.stride for window in windows]), _taps(windows)
    costs = _Costs(source, step, rows, channels, itemsize)
    box, tile = _chosen([taps], step, sizes, channels * itemsize, costs.of_sums)
    count = channels * len(taps)
    return Tables(
        tile, sizes, box.halo, step, (1, 1, 1), np.array(box.shifts, np.int64), np.zeros((1, 3), np.int64),
        np.array([0, count]), _offsets(box, tile, channels, 0), np.arange(count).reshape(channels, -1).T.ravel(),
    )  # fmt: skip


def _taps(windows: tuple[Window, Window, Window]) -> list[Triple]:
    """Return the places of the taps of the first window."""
    ranges = [range(-w.before, w.extent - w.before, w.dilation) for w in windows]
    return [_triple(tap) for tap in itertools.product(*ranges)]


@lru_cache(maxsize=256)
def weight_gradient_tables(
    windows: tuple[Window, Window, Window], channels: int, rows: int, source: Triple, sizes: Triple, itemsize: int
) -> tuple[Tables, NDArray[np.int64]]:
    """Return the tables of the gradient with respect to the weight; the arguments are those of `forward_tables`.

    The offsets are those of jobs, the positions those of rows of `weight_gradient_kernel`; beside them are the jobs.
    """
    step, taps = _triple([window.stride for window in windows]), _taps(windows)
    costs = _Costs(source, step, rows, channels, itemsize)
    box, tile = _chosen([taps], step, sizes, channels * itemsize, costs.of_products)
    pitches = [n + more for n, more in zip(tile, box.halo, strict=True)]
    jobs, positions, order = [], [], {tap: number for number, tap in enumerate(box.taps[0])}
    for first, end, place in _jobs(box):
        jobs.append((first * channels, (end - first) * channels, _flat(place, pitches)))
        positions += [
            channel * len(taps) + order[phase, place] for phase in range(first, end) for channel in range(channels)
        ]
    tables = Tables(
        tile, sizes, box.halo, step, (1, 1, 1), np.array(box.shifts, np.int64), np.zeros((1, 3), np.int64),
        np.zeros(1, np.int64), np.zeros(0, np.int64), np.array(positions, np.int64),
    )  # fmt: skip
    return tables, np.array(jobs, np.int64)


@lru_cache(maxsize=256)
def input_gradient_tables(
    windows: tuple[Window, Window, Window], channels: int, rows: int, source: Triple, sizes: Triple, itemsize: int
) -> Tables:
    """Return the tables of the gradient with respect to an input of the sizes `sizes`.

    `source` are the sizes of the outputs, from which the gradient comes, `channels` their channels per group, and
    `rows` those of the input. The input element i receives from outputs o with `o * stride + k * dilation = i +
    before`: elements of one phase `(i + before) % stride` use the same taps k.
    """
    first = [window.before // window.stride for window in windows]
    span = _triple([
        (size - 1 + w.before) // w.stride - start + 1 for size, w, start in zip(sizes, windows, first, strict=True)
    ])  # fmt: skip
    step = _triple([window.stride for window in windows])
    shifts, reads, weights = [], [], []
    for phase in itertools.product(*(range(window.stride) for window in windows)):
        lists = [
            [k for k in range(w.size) if (k * w.dilation - at) % w.stride == 0]
            for at, w in zip(phase, windows, strict=True)
        ]
        own = list(itertools.product(*lists))
        reads.append([
            _triple([
                start - (k * w.dilation - at) // w.stride
                for k, at, w, start in zip(tap, phase, windows, first, strict=True)
            ])
            for tap in own
        ])  # fmt: skip
        weights.append([_flat(tap, [window.size for window in windows]) for tap in own])
        shifts.append([
            at - w.before + start * w.stride for at, w, start in zip(phase, windows, first, strict=True)
        ])  # fmt: skip
    costs = _Costs(source, (1, 1, 1), rows, channels, itemsize)
    box, tile = _chosen(reads, (1, 1, 1), span, channels * itemsize, costs.of_sums)
    taps = math.prod(window.size for window in windows)
    channel = np.arange(channels, dtype=np.int64) * (rows * taps)
    offsets = [_offsets(box, tile, channels, phase) for phase in range(len(reads))]
    positions = [(np.array(each, np.int64)[:, None] + channel).ravel() for each in weights]
    return Tables(
        tile, span, box.halo, (1, 1, 1), step, np.array(box.shifts, np.int64).reshape(-1, 3),
        np.array(shifts, np.int64).reshape(-1, 3), np.array([0, *np.cumsum([len(each) for each in offsets])]),
        np.concatenate(offsets), np.concatenate(positions),
    )  # fmt: skip


def _flat(index: Sequence[int], sizes: Sequence[int]) -> int:
    """Return the row-major position of an index."""
    position = 0
    for each, size in zip(index, sizes, strict=True):
        position = position * size + each
    return position
