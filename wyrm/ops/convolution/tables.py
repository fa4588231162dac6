"""The geometry of convolutions: the tables of tiles and taps that the kernels work by."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from wyrm.ops.windows import Window

Triple = tuple[int, int, int]

# The number of outputs of a channel in a tile: a tile of one channel fits the nearest cache, and the loop over it is
# long enough to pay for its start. Dot products end with a sum over vector lanes, so theirs are longer.
_TILE_OUTPUTS, _TILE_OUTPUTS_OF_DOTS = 512, 1536
# Planes of fewer outputs share a run; what lies between the planes is computed too, and ignored.
_SHORT_RUN = 48
# A tile of at least `_FEWEST_OUTPUTS` outputs is halved while the inputs that it reads take more than `_BOX_BYTES`.
_FEWEST_OUTPUTS, _BOX_BYTES = 256, 2**19


@dataclass(frozen=True)
class Tables:
    """The arguments of `correlation_kernel` and `weight_gradient_kernel` that follow from the geometry alone."""

    merged: bool
    tile: tuple[int, int, int, int]
    span: Triple
    halo: Triple
    source_step: Triple
    out_step: Triple
    source_shifts: NDArray[np.int64]
    out_shifts: NDArray[np.int64]
    starts: NDArray[np.int64]
    offsets: NDArray[np.int64]
    # For each tap of each channel its distance from the first weight of an output channel.
    positions: NDArray[np.int64]

    @property
    def volume(self) -> int:
        """The number of elements of the box per channel and phase."""
        return self.tile[0] * math.prod(n + more for n, more in zip(self.tile[1:], self.halo, strict=True))


def _triple(values: Sequence[int]) -> Triple:
    first, second, third = values
    return first, second, third


def _tile(
    batch: int, span: Triple, halo: Triple, planes: int, itemsize: int, outputs: int
) -> tuple[int, int, int, int]:
    """Return the outputs of a tile along (batch, depth, height, width), about `outputs` in all.

    `planes` boxes of elements of `itemsize` bytes are filled for each tile.
    """
    tile, pitch = [1, 1, 1, 1], 1
    for axis in (2, 1, 0):
        size, most = max(1, span[axis]), max(1, outputs // pitch)
        parts = -(-size // most)
        tile[axis + 1] = -(-size // parts)
        pitch *= tile[axis + 1] + halo[axis]
        if parts > 1:
            break
    else:
        tile[0] = max(1, min(batch, outputs // pitch))

    def size_of_box() -> int:
        return planes * itemsize * tile[0] * math.prod(n + more for n, more in zip(tile[1:], halo, strict=True))

    while math.prod(tile) >= 2 * _FEWEST_OUTPUTS and size_of_box() > _BOX_BYTES:
        axis = next(axis for axis in range(4) if tile[axis] > 1)
        tile[axis] = -(-tile[axis] // 2)
    return tile[0], tile[1], tile[2], tile[3]


def _merges(tile: tuple[int, int, int, int], span: Triple, dots: bool) -> bool:
    """Return whether all planes of a tile share a run."""
    return tile[1:] == span and (dots or tile[2] * tile[3] < _SHORT_RUN)


@lru_cache(maxsize=256)
def forward_tables(
    windows: tuple[Window, Window, Window], batch: int, channels: int, sizes: Triple, itemsize: int, dots: bool
) -> Tables:
    """Return the tables of a convolution of `channels` channels per group to outputs of these sizes.

    `dots`: they are for the gradient with respect to the weight, which consists of dot products.
    """
    halo = _triple([(window.extent - 1) // window.stride for window in windows])
    taps = list(itertools.product(*(range(window.size) for window in windows)))
    places = [[k * window.dilation for k, window in zip(tap, windows, strict=True)] for tap in taps]
    phases = [tuple(at % w.stride for at, w in zip(place, windows, strict=True)) for place in places]
    used = sorted(set(phases))
    outputs = _TILE_OUTPUTS_OF_DOTS if dots else _TILE_OUTPUTS
    tile = _tile(batch, sizes, halo, channels * len(used), itemsize, outputs)
    pitch = [n + more for n, more in zip(tile[1:], halo, strict=True)]
    volume = tile[0] * math.prod(pitch)
    offsets = [
        used.index(phase) * volume + _flat([at // w.stride for at, w in zip(place, windows, strict=True)], pitch)
        for phase, place in zip(phases, places, strict=True)
    ]
    per_channel = np.arange(channels, dtype=np.int64)[:, None] * (len(used) * volume)
    shifts = [[q - w.before for q, w in zip(phase, windows, strict=True)] for phase in used]
    count = channels * len(taps)
    return Tables(
        _merges(tile, sizes, dots),
        tile,
        sizes,
        halo,
        _triple([w.stride for w in windows]),
        (1, 1, 1),
        np.array(shifts, np.int64).reshape(-1, 3),
        np.zeros((1, 3), np.int64),
        np.array([0, count]),
        (per_channel + np.array(offsets, np.int64)).ravel(),
        np.arange(count),
    )


@lru_cache(maxsize=256)
def input_gradient_tables(
    windows: tuple[Window, Window, Window], batch: int, channels: int, inputs: int, sizes: Triple, itemsize: int
) -> Tables:
    """Return the tables of the gradient with respect to an input of these sizes.

    `channels` is the number of output channels per group, from which the gradient comes, `inputs` that of the input.
    The input element i receives from outputs o with `o * stride + k * dilation = i + before`: elements of one phase
    `(i + before) % stride` use the same taps k, at distances that `o` has from `u = (i + before) // stride`.
    """
    halo = _triple([(window.extent - 1) // window.stride for window in windows])
    span = _triple([(size - 1 + w.before) // w.stride + 1 for size, w in zip(sizes, windows, strict=True)])
    tile = _tile(batch, span, halo, channels, itemsize, _TILE_OUTPUTS)
    pitch = [n + more for n, more in zip(tile[1:], halo, strict=True)]
    volume, taps = tile[0] * math.prod(pitch), math.prod(window.size for window in windows)
    channel = np.arange(channels, dtype=np.int64)[:, None]
    shifts, starts, offsets, positions = [], [0], [], []
    for phase in itertools.product(*(range(window.stride) for window in windows)):
        lists = [
            [k for k in range(w.size) if (k * w.dilation - at) % w.stride == 0]
            for at, w in zip(phase, windows, strict=True)
        ]
        own = list(itertools.product(*lists))
        back = [
            [more - (k * w.dilation - at) // w.stride for k, at, w, more in zip(tap, phase, windows, halo, strict=True)]
            for tap in own
        ]
        flat = np.array([_flat(each, pitch) for each in back], np.int64)
        weights = np.array([_flat(tap, [window.size for window in windows]) for tap in own], np.int64)
        offsets.append((channel * volume + flat).ravel())
        positions.append((channel * (inputs * taps) + weights).ravel())
        starts.append(starts[-1] + channels * len(own))
        shifts.append([at - w.before for at, w in zip(phase, windows, strict=True)])
    return Tables(
        _merges(tile, span, False),
        tile,
        span,
        halo,
        (1, 1, 1),
        _triple([w.stride for w in windows]),
        -np.array([halo], np.int64),
        np.array(shifts, np.int64).reshape(-1, 3),
        np.array(starts),
        np.concatenate(offsets),
        np.concatenate(positions),
    )


def _flat(index: Sequence[int], sizes: Sequence[int]) -> int:
    """Return the row-major position of an index."""
    position = 0
    for each, size in zip(index, sizes, strict=True):
        position = position * size + each
    return position
