"""Sums of shifted rows equal NumPy's on every target, and write nothing outside of the result."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.engines.native.test_tiles import TARGETS
from wyrm.engines.native.ir.types import FLOAT32, FLOAT64
from wyrm.engines.native.llvm import library
from wyrm.engines.native.llvm.optimize import AS_WRITTEN, machine_code
from wyrm.engines.native.products import shifted
from wyrm.engines.native.products.target import Target, host
from wyrm.engines.native.products.writer import SHARED

INTEGER, POINTER = ctypes.c_int64, ctypes.c_void_p
SIGNATURE = ctypes.CFUNCTYPE(
    None, INTEGER, INTEGER, INTEGER, POINTER, INTEGER, INTEGER, POINTER, POINTER, POINTER, INTEGER, ctypes.c_bool
)
Sums = Callable[..., None]


def packed(weights: Any, target: Target) -> Any:
    """Return weights, (terms, rows), in the order of the tiles."""
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
                weights: Any, first: int, offsets: Any, box: Any, out: Any, adds: bool, _keep: object = loaded
            ) -> None:
                ordered = packed(weights, TARGETS[name])
                function(
                    *out.shape, offsets.size, ordered.ctypes.data, first, len(weights), offsets.ctypes.data,
                    box.ctypes.data, out.ctypes.data, out.strides[0] // out.itemsize, adds,
                )  # fmt: skip

            kept[name, dtype] = compute
        return kept[name, dtype]

    return of


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("target", TARGETS)
def test_sums_of_any_size(sums: Any, target: str, dtype: type) -> None:
    compute, random = sums(target, dtype), np.random.default_rng(0)
    for _ in range(150):
        rows, columns, total = random.integers(1, 40), random.integers(1, 200), random.integers(1, 300)
        first = int(random.integers(0, total))
        depth = int(random.integers(0, total - first + 1))
        weights: Any = random.normal(size=(total, rows)).astype(dtype)
        # What no sum needs is NaN, in the vector behind the last column too: its lanes are not written.
        weights[:first], weights[first + depth :] = np.nan, np.nan
        box: Any = np.full(1_000 + columns + 15, np.nan, dtype)
        box[: 1_000 + columns] = random.normal(size=1_000 + columns)
        offsets = random.integers(0, 1_000, depth)
        room: Any = random.normal(size=(rows + 2, columns + 40)).astype(dtype)
        expected, adds = room.astype(np.float64), bool(random.integers(2))
        inside = np.s_[1:-1, 7 : 7 + columns]
        windows: Any = box[offsets[:, None] + np.arange(columns)].astype(np.float64)
        found = weights[first : first + depth].T.astype(np.float64) @ windows
        if depth:
            expected[inside] = found + (expected[inside] if adds else 0.0)
        compute(weights, first, offsets, box, room[inside], adds)
        tolerance = 1e-4 if dtype is np.float32 else 1e-12
        np.testing.assert_allclose(room, expected, rtol=tolerance, atol=tolerance)


def test_infinities_and_nan_are_those_of_numpy(sums: Any) -> None:
    compute = sums("narrow", np.float64)
    box, offsets = np.ones(60), np.array([0, 20, 40])
    box[[1, 22, 43, 24]] = np.inf, np.nan, -np.inf, np.inf
    weights = np.ones((3, 5))
    weights[1, 2] = 0.0
    out: Any = np.empty((5, 8))
    compute(weights, 0, offsets, box, out, False)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(out, weights.T @ box[offsets[:, None] + np.arange(8)])


def test_errors_are_at_most_those_of_sums_of_four_terms_at_a_time(sums: Any) -> None:
    compute, random = sums("avx2" if host().bits >= 256 else "narrow", np.float32), np.random.default_rng(2)
    for depth in (144, 576, 2_304):
        weights: Any = random.normal(size=(depth, 14)).astype(np.float32)
        box: Any = random.normal(size=depth + 300).astype(np.float32)
        offsets = random.permutation(depth)
        windows: Any = box[offsets[:, None] + np.arange(200)]
        exact = weights.T.astype(np.float64) @ windows.astype(np.float64)
        out: Any = np.empty((14, 200), np.float32)
        compute(weights, 0, offsets, box, out, False)
        plain: Any = np.zeros_like(out)
        for term in range(0, depth, 4):
            four = [weights[term + i, :, None].astype(np.float64) * windows[term + i] for i in range(4)]
            plain += np.sum(four, axis=0).astype(np.float32)
        ours, theirs = (np.sqrt(np.mean((each - exact) ** 2)) for each in (out, plain))
        assert ours <= 1.2 * theirs, depth
