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
# Costs of filling a box, in multiplications of vectors: of a plane and of a row, besides their elements; of a vector of
# contiguous elements, and of other ones; and of the zeros at the ends of a row. `_FAR` is the factor for boxes beyond
# `_BOX_BYTES`.
_PLANE, _ROW, _MOVED, _GATHERED, _END, _FAR = 60.0, 40.0, 4.0, 32.0, 6.0, 2.0
# Costs of starting a run and a product; the number of vectors that a processor multiplies at a time; and the cost of
# packing an element of a product.
_CALL, _PRODUCT, _FEWEST_SUMS, _PACKED = 80.0, 800.0, 8, 0.5
# The number of vectors in a tile of the result, and the cost of starting a step.
_VECTORS, _STEP = 24.0, 16.0
# Partial sums of about the square root of a sum's length lose least precision. They are read and written between, so
# they are not shorter than `_SHORTEST` terms; those of up to `_FEWEST * _SHORTEST` are that short.
_LONGEST, _SHORTEST, _FEWEST = 192, 24, 4
# The most bytes of the masks of a layer.
_MASK_BYTES = 2**17


@dataclass(frozen=True)
class Tiling:
    """The tiles of outputs and the boxes of inputs that they read, which follow from the geometry alone."""

    # The outputs of a tile along (depth, height, width), and those of an image and phase.
    tile: Triple
    span: Triple
    # For each axis, the number of inputs that a tile reads minus that of its outputs.
    halo: Triple
    source_step: Triple
    # Phase q of the box begins at the input `first * source_step + source_shifts[q]`.
    source_shifts: NDArray[np.int64]

    @property
    def volume(self) -> int:
        """The number of elements of the box per channel and phase."""
        return math.prod(n + more for n, more in zip(self.tile, self.halo, strict=True))

    @property
    def run(self) -> int:
        """The number of outputs of a run, which are computed at a time."""
        return _runs(self.tile, self.halo)[1]


def _runs(tile: Triple, halo: Triple) -> tuple[int, int]:
    """Return the number of runs of a plane of a tile, and their length; without a halo, one run has all rows."""
    return (1, tile[1] * tile[2]) if halo[2] == 0 else (tile[1], tile[2])


@dataclass(frozen=True)
class Tables(Tiling):
    """The arguments of `correlation_kernel` that follow from the geometry alone."""

    out_step: Triple
    out_shifts: NDArray[np.int64]
    # The first weight, step and partial sum of each output phase, and the ends of the last one.
    starts: NDArray[np.int64]
    # The positions of the weights of all terms among those of an output channel.
    positions: NDArray[np.int64]
    # The arguments of `shifted_sums`: for the box, and for the inputs themselves where that costs less.
    steps: NDArray[np.int64]
    ends: NDArray[np.int64]
    direct_steps: NDArray[np.int64]
    direct_ends: NDArray[np.int64]
    masks: NDArray[np.uint8]


@dataclass(frozen=True)
class WeightTables(Tiling):
    """The arguments of `weight_gradient_kernel` that follow from the geometry alone."""

    # The rows of the box and their offset for each product, and the weights of all rows of products.
    jobs: NDArray[np.int64]
    positions: NDArray[np.int64]


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
        runs, length = _runs(tile, box.halo)
        sums = sum(self._sums(length, len(taps), len(_jobs(taps))) for taps in box.taps)
        return _tile_count(tile, span) * (self._filled(box, tile) + tile[0] * runs * sums)

    def of_direct(self, taps: int, span: Triple) -> float:
        """Return what the sums over taps cost without a box."""
        return self._sums(math.prod(span), taps, taps)

    def _sums(self, length: int, taps: int, steps: int) -> float:
        """Return what the sums over taps cost for a run."""
        vectors = -(-length // self._vector)
        calls = max(1.0, self.rows * vectors / _VECTORS)
        return max(self.rows * vectors, _FEWEST_SUMS) * taps * self.channels + calls * (_CALL + steps * _STEP)

    def of_products(self, box: _Box, tile: Triple, span: Triple) -> float:
        """Return what the gradient with respect to the weight costs with these tiles."""
        runs, length = _runs(tile, box.halo)
        vectors = -(-self.rows // self._vector)
        packed = vectors * self._vector * -(-length // self._vector) * _PACKED
        products = 0.0
        for first, end, _ in _jobs(box.taps[0]):
            sums = vectors * (end - first) * self.channels
            products += max(sums, _FEWEST_SUMS) * length + sums * _MOVED + packed + _PRODUCT
        return _tile_count(tile, span) * (self._filled(box, tile) + tile[0] * runs * products)

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


def _tile_count(tile: Triple, span: Triple) -> int:
    """Return the number of tiles of an image."""
    return math.prod(-(-max(1, size) // own) for size, own in zip(span, tile, strict=True))


def _jobs(taps: Sequence[tuple[int, Triple]]) -> list[tuple[int, int, Triple]]:
    """Return the first phase, the end of the phases and the place of each group of taps that are neighbours."""
    jobs: list[tuple[int, int, Triple]] = []
    for place in dict.fromkeys(place for _, place in taps):
        for phase in sorted(q for q, other in taps if other == place):
            if jobs and jobs[-1][1:] == (phase, place):
                jobs[-1] = jobs[-1][0], phase + 1, place
            else:
                jobs.append((phase, phase + 1, place))
    return jobs


def _cheapest_tile(
    reads: Sequence[Sequence[Triple]], step: Triple, span: Triple, element: int, cost: Callable[..., float]
) -> tuple[_Box, Triple]:
    """Return the box and the tile that cost least; `element` is the size in bytes of an input's channels."""
    found: list[tuple[float, int, _Box, Triple]] = []
    for spread in ((False, False, False), (False, False, True), (False, True, True), (True, True, True)):
        box = _Box.of(reads, step, spread)
        for tile in _tiles(box, span, element * len(box.shifts)):
            found.append((cost(box, tile, span), len(found), box, tile))
    return min(found)[2:]


def _in_parts(steps: Sequence[Triple], stride: int) -> tuple[list[Triple], list[int]]:
    """Return the steps, (place, count, mask), cut where partial sums end, and the number of steps up to each end."""
    terms = sum(count for _, count, _ in steps)
    parts = max(1, -(-terms // _LONGEST), min(_FEWEST, terms // _SHORTEST))
    found: list[Triple] = []
    ends, length, done = [], max(1, -(-terms // parts)), 0
    for place, count, mask in steps:
        while count:
            taken = min(count, length - done % length)
            found.append((place, taken, mask))
            place, count, done = place + taken * stride, count - taken, done + taken
            if done % length == 0:
                ends.append(len(found))
    if not ends or ends[-1] < len(found):
        ends.append(len(found))
    return found, ends


def _direct(taps: Sequence[Triple], step: Triple, span: Triple, source: Triple) -> bool:
    """Return whether outputs that are neighbours read inputs that are neighbours, for all outputs and taps."""
    rows = span[2] == source[2] or span[0] == span[1] == 1
    return step == (1, 1, 1) and rows and (span[1] == source[1] or span[0] == 1) and 0 not in span


def _mask_of(tap: Triple, span: Triple, source: Triple) -> NDArray[np.uint8]:
    """Return a bit for each output, 1 where the tap has an input; zeros follow: kernels read two vectors more."""
    there = [
        (np.arange(n) + shift >= 0) & (np.arange(n) + shift < m) for n, shift, m in zip(span, tap, source, strict=True)
    ]
    every = there[0][:, None, None] & there[1][:, None] & there[2]
    return np.append(np.packbits(every.ravel(), bitorder="little"), np.zeros(4, np.uint8))


@dataclass(frozen=True)
class _Sums:
    """What `correlation_kernel` computes: outputs `u * out_step + out_shifts[p]` read `u * step + reads[p][tap]`.

    `weights` are the positions of the taps' weights for the first channel; those of the others are `apart`.
    """

    reads: Sequence[Sequence[Triple]]
    weights: Sequence[Sequence[int]]
    apart: int
    out_step: Triple
    out_shifts: Sequence[Triple]
    span: Triple

    def tables(self, costs: _Costs) -> Tables:
        """Return the tables that cost least."""
        step, source, channels, span = costs.step, costs.source, costs.channels, self.span
        box, tile = _cheapest_tile(self.reads, step, span, channels * costs.itemsize, costs.of_sums)
        sizes = [n + more for n, more in zip(tile, box.halo, strict=True)]
        volume, space = math.prod(sizes), math.prod(source)
        apart = np.arange(channels) * self.apart
        # Bits of columns that all count, for steps in the box; the masks of taps follow.
        masks = [np.full(-(-math.prod(tile) // 8) + 4, 255, np.uint8)]
        steps, ends, starts = list[Triple](), list[int](), [(0, 0, 0)]
        positions: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
        order: list[int] = []
        for taps, weights in zip(box.taps, self.weights, strict=True):
            jobs, number = _jobs(taps), {tap: at for at, tap in enumerate(taps)}
            order = [number[q, place] for first, end, place in jobs for q in range(first, end)]
            positions += [weights[tap] + apart for tap in order]
            own, own_ends = _in_parts(
                [(first * channels * volume + _row_major(place, sizes), (end - first) * channels, 0)
                 for first, end, place in jobs], volume,
            )  # fmt: skip
            steps, ends = [*steps, *own], [*ends, *own_ends]
            starts.append((starts[-1][0] + len(order) * channels, len(steps), len(ends)))
        direct, direct_ends = list[Triple](), list[int]()
        reads = self.reads[0]
        size = len(reads) * math.prod(span) // 8
        possible = self.out_step == (1, 1, 1) and _direct(reads, step, span, source) and size <= _MASK_BYTES
        if possible and costs.of_direct(len(reads), span) < costs.of_sums(box, tile, span):
            place = sum(map(len, masks))
            for tap in order:
                masks.append(_mask_of(reads[tap], span, source))
                direct.append((_row_major(reads[tap], source), channels, place))
                place += len(masks[-1])
            direct, direct_ends = _in_parts(direct, space)
        moved, shifts, firsts, all_steps, all_direct = (
            np.array(each, np.int64).reshape(-1, 3) for each in (box.shifts, self.out_shifts, starts, steps, direct)
        )
        return Tables(
            tile, span, box.halo, step, moved, self.out_step, shifts, firsts, np.concatenate(positions), all_steps,
            np.array(ends, np.int64), all_direct, np.array(direct_ends, np.int64), np.concatenate(masks),
        )  # fmt: skip


@lru_cache(maxsize=256)
def forward_tables(
    windows: tuple[Window, Window, Window], channels: int, rows: int, source: Triple, sizes: Triple, itemsize: int
) -> Tables:
    """Return the tables of a convolution of inputs of the sizes `source` to outputs of the sizes `sizes`.

    `channels` and `rows` are the channels and the output channels of a group.
    """
    step, taps = _triple([window.stride for window in windows]), _taps_of_first_window(windows)
    sums = _Sums([taps], [range(len(taps))], len(taps), (1, 1, 1), [(0, 0, 0)], sizes)
    return sums.tables(_Costs(source, step, rows, channels, itemsize))


def _taps_of_first_window(windows: tuple[Window, Window, Window]) -> list[Triple]:
    """Return the places of the taps of the first window."""
    ranges = [range(-w.before, w.extent - w.before, w.dilation) for w in windows]
    return [_triple(tap) for tap in itertools.product(*ranges)]


@lru_cache(maxsize=256)
def weight_gradient_tables(
    windows: tuple[Window, Window, Window], channels: int, rows: int, source: Triple, sizes: Triple, itemsize: int
) -> WeightTables:
    """Return the tables of the gradient with respect to the weight; the arguments are those of `forward_tables`."""
    step, taps = _triple([window.stride for window in windows]), _taps_of_first_window(windows)
    costs = _Costs(source, step, rows, channels, itemsize)
    box, tile = _cheapest_tile([taps], step, sizes, channels * itemsize, costs.of_products)
    pitches = [n + more for n, more in zip(tile, box.halo, strict=True)]
    jobs, positions, order = [], [], {tap: number for number, tap in enumerate(box.taps[0])}
    for first, end, place in _jobs(box.taps[0]):
        jobs.append((first * channels, (end - first) * channels, _row_major(place, pitches)))
        positions += [
            channel * len(taps) + order[phase, place] for phase in range(first, end) for channel in range(channels)
        ]
    shifts = np.array(box.shifts, np.int64)
    return WeightTables(tile, sizes, box.halo, step, shifts, np.array(jobs), np.array(positions))


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
        weights.append([_row_major(tap, [window.size for window in windows]) for tap in own])
        shifts.append(_triple([
            at - w.before + start * w.stride for at, w, start in zip(phase, windows, first, strict=True)
        ]))  # fmt: skip
    taps = math.prod(window.size for window in windows)
    sums = _Sums(reads, weights, rows * taps, step, shifts, span)
    return sums.tables(_Costs(source, (1, 1, 1), rows, channels, itemsize))


def _row_major(index: Sequence[int], sizes: Sequence[int]) -> int:
    """Return the row-major position of an index."""
    position = 0
    for each, size in zip(index, sizes, strict=True):
        position = position * size + each
    return position
