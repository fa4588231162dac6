"""Sums of shifted rows equal NumPy's on every target, and write nothing outside of the result."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.engines.native.test_tiles import TARGETS
from wyrm.engines.native.ir.types import FLOAT32, FLOAT64
from wyrm.engines.native.llvm import library
from wyrm.engines.native.llvm.optimize import AS_WRITTEN, machine_code
from wyrm.engines.native.products import shifted
from wyrm.engines.native.products.target import Target, host
from wyrm.engines.native.products.writer import SHARED

INTEGER, POINTER = ctypes.c_int64, ctypes.c_void_p
SIGNATURE = ctypes.CFUNCTYPE(
    None, INTEGER, INTEGER, INTEGER, POINTER, INTEGER, POINTER, POINTER, POINTER, INTEGER, POINTER, POINTER, INTEGER
)
Sums = Callable[..., None]
STRIDE = 30


def packed(weights: Any, target: Target) -> Any:
    """Return what sums begin with, and then weights, (1 + terms, rows), in the order of the tiles."""
    rows = weights.shape[1]
    if rows == 1:
        return np.ascontiguousarray(weights).ravel()
    pairs, most = -(-rows // 2), shifted.most_rows(target)
    tiles = -(-rows // most)
    ends = np.cumsum([0, *(pairs // tiles + (tile < pairs % tiles) for tile in range(tiles))]) * 2
    wide = np.concatenate([weights, weights[:, -1:]], axis=1)
    return np.concatenate([wide[:, first:end].ravel() for first, end in pairwise(ends)])


@pytest.fixture(scope="module")
def sums() -> Callable[[str, type], Sums]:
    """Return a function that gives the sums of a target and a dtype."""
    kept: dict[tuple[str, type], Sums] = {}

    def of(name: str, dtype: type) -> Sums:
        if (name, dtype) not in kept:
            if TARGETS[name].bits > host().bits:
                pytest.skip("this processor has no such vectors")
            text = shifted.text(TARGETS[name], FLOAT32 if dtype is np.float32 else FLOAT64)
            loaded = library.Loaded(machine_code(text, AS_WRITTEN), SHARED)
            function = SIGNATURE(loaded.address)

            def compute(
                weights: Any, steps: Any, ends: Any, box: Any, stride: int, masks: Any, out: Any, _keep: object = loaded
            ) -> None:
                ordered = packed(weights, TARGETS[name])
                function(
                    *out.shape, len(ends), ordered.ctypes.data, len(weights) - 1, steps.ctypes.data, ends.ctypes.data,
                    box, stride, masks.ctypes.data, out.ctypes.data, out.strides[0] // out.itemsize,
                )  # fmt: skip

            kept[name, dtype] = compute
        return kept[name, dtype]

    return of


def steps_of(random: np.random.Generator, reach: int) -> tuple[Any, Any, Any]:
    """Return random steps, (place, count, mask), the ends of partial sums, and the places of all terms."""
    steps = [[int(random.integers(0, reach)), int(random.integers(0, 40)), 0] for _ in range(random.integers(0, 9))]
    ends = np.sort(random.integers(0, len(steps) + 1, random.integers(0, 4)))
    places = [place + STRIDE * number for place, count, _ in steps for number in range(count)]
    return (
        np.array(steps, np.int64).reshape(-1, 3), np.array([*ends, len(steps)], np.int64), np.array(places, np.int64)
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("target", TARGETS)
def test_sums_of_any_size(sums: Any, target: str, dtype: type) -> None:
    compute, random = sums(target, dtype), np.random.default_rng(0)
    for _ in range(150):
        rows, columns = random.integers(1, 40), random.integers(1, 200)
        steps, ends, places = steps_of(random, 1_000)
        weights: Any = random.normal(size=(len(places) + 1, rows)).astype(dtype)
        # In the vector behind the last column are NaN: its lanes are not written.
        size = 1_000 + 40 * STRIDE + columns
        box: Any = np.append(random.normal(size=size), np.full(15, np.nan)).astype(dtype)
        room: Any = random.normal(size=(rows + 2, columns + 40)).astype(dtype)
        expected, inside = room.astype(np.float64), np.s_[1:-1, 7 : 7 + columns]
        windows: Any = box[places[:, None] + np.arange(columns)].astype(np.float64)
        expected[inside] = weights[1:].T.astype(np.float64) @ windows + weights[0, :, None]
        compute(weights, steps, ends, box.ctypes.data, STRIDE, np.full(40, 255, np.uint8), room[inside])
        tolerance = 1e-4 if dtype is np.float32 else 1e-12
        np.testing.assert_allclose(room, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_masks_exclude_what_is_outside_of_an_array(sums: Any, dtype: type) -> None:
    compute, random = sums("wide", dtype), np.random.default_rng(1)
    for _ in range(50):
        rows, columns, taps, channels = (int(random.integers(1, most)) for most in (40, 200, 9, 5))
        # Whatever is read beside the channels is NaN.
        room: Any = np.full((channels + 2, columns), np.nan, dtype)
        room[1:-1] = random.normal(size=(channels, columns))
        shifts = random.integers(-columns - 5, columns + 6, taps)
        there = (np.arange(columns) + shifts[:, None] >= 0) & (np.arange(columns) + shifts[:, None] < columns)
        bits = np.packbits(there, axis=1, bitorder="little")
        masks: Any = np.concatenate([bits, np.zeros((taps, 4), np.uint8)], axis=1)
        steps = np.array([[shift, channels, tap * masks.shape[1]] for tap, shift in enumerate(shifts)], np.int64)
        weights: Any = random.normal(size=(taps * channels + 1, rows)).astype(dtype)
        out: Any = np.full((rows, columns), np.nan, dtype)
        first = room[1:].ctypes.data
        compute(weights, steps, np.array([taps // 2, taps]), first, columns, masks, out)
        expected: Any = np.repeat(weights[0, :, None].astype(np.float64), columns, axis=1)
        for tap, shift in enumerate(shifts):
            for channel in range(channels):
                row = np.where(there[tap], np.take(room[1 + channel], np.arange(columns) + shift, mode="clip"), 0.0)
                expected += weights[1 + tap * channels + channel, :, None].astype(np.float64) * row
        tolerance = 1e-4 if dtype is np.float32 else 1e-12
        np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance)


def test_infinities_and_nan_are_those_of_numpy(sums: Any) -> None:
    compute = sums("narrow", np.float64)
    box, places = np.ones(80), np.array([0, 20, 40])
    box[[1, 22, 43, 24]] = np.inf, np.nan, -np.inf, np.inf
    weights = np.ones((4, 5))
    weights[0], weights[2, 2] = 0.0, 0.0
    steps = np.array([[place, 1, 0] for place in places])
    out: Any = np.empty((5, 8))
    compute(weights, steps, np.array([3]), box.ctypes.data, 1, np.full(8, 255, np.uint8), out)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(out, weights[1:].T @ box[places[:, None] + np.arange(8)])


@pytest.mark.parametrize("channels", [16, 64, 256])
def test_errors_are_about_those_of_sums_of_four_terms_at_a_time(channels: int) -> None:
    random = np.random.default_rng(2)
    x: Any = random.normal(size=(1, channels, 12, 12)).astype(np.float32)
    weight: Any = random.normal(size=(14, channels, 3, 3)).astype(np.float32)
    ours = wy.compile(wy.nn.conv2d(wy.Input(x), wy.Input(weight)))()
    windows: Any = np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), axis=(1, 2))
    flat = windows.transpose(0, 3, 4, 1, 2).reshape(channels * 9, -1)
    terms: Any = weight.reshape(14, -1)
    exact = terms.astype(np.float64) @ flat.astype(np.float64)
    plain: Any = np.zeros_like(exact, np.float32)
    for term in range(0, channels * 9, 4):
        plain += (terms[:, term : term + 4].astype(np.float64) @ flat[term : term + 4]).astype(np.float32)
    found, theirs = (np.sqrt(np.mean((each.reshape(14, -1) - exact) ** 2)) for each in (ours, plain))
    assert found <= 1.2 * theirs
