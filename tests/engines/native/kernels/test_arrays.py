"""Indexing, slicing and copying of arrays in kernels, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.engines.native.kernels.running import check, compiled, copies, translated, written
from wyrm.engines.native.kernels.functions import KernelFunction
from wyrm.engines.native.kernels.values import NotCompiled


def layouts(dtype: str, *shape: int) -> list[np.ndarray[Any, Any]]:
    """Return an array in several layouts: contiguous, with contiguous rows, strided, transposed and reversed."""
    base = np.arange(1, 1 + np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
    wide = np.zeros(tuple(2 * n + 1 for n in shape), dtype)
    rows, steps = wide.copy(), wide.copy()
    interior = tuple(slice(1, n + 1) for n in shape)
    rows[interior] = base
    every = tuple(slice(0, 2 * n, 2) for n in shape)
    steps[every] = base
    transposed = np.ascontiguousarray(base.T).T
    backwards = base[::-1].copy()[::-1]
    return [base, rows[interior], steps[every], transposed, backwards]


@KernelFunction
def sum_of(shape: Any) -> Any:
    """Return the sum of a tuple of three."""
    total = 0
    for i in range(3):
        total += shape[i]
    return total


@pytest.mark.parametrize("dtype", ["float32", "int16", "bool"])
def test_elements_of_all_layouts(dtype: str) -> None:
    def fill(x: Any, out: Any) -> None:
        for i in range(x.shape[0]):
            for j in range(-x.shape[1], 0):
                out[i, j] = x[i, j]
            out[i, 0] = x[i][-1]

    for x in layouts(dtype, 3, 4):
        for out in layouts(dtype, 3, 4):
            check(fill, x, out)
    check(fill, np.zeros((0, 4), dtype), np.zeros((0, 4), dtype))
    check(fill, np.zeros((2, 0), dtype)[:0], np.zeros((0, 0), dtype))


def test_slices_are_clipped() -> None:
    def sizes(x: Any, a: int, b: int, out: Any) -> tuple[int, ...]:
        out[:] = 0
        n = 0
        for each in x[a:b]:
            out[n] = each
            n += 1  # noqa: SIM113
        return (
            x[a:b].size, x[a:].size, x[:b].size, x[a:b:3].size, x[2:][a:b].size, x[-2:].size, x[:-2].size, x[5:2].size,
            x[1:-1:2].size, len(x[a:b][:3]), x[::4].size,
        )  # fmt: skip

    def sums(x: Any, a: int, b: int) -> tuple[float, ...]:
        first = second = third = 0
        for each in x[a:b:2]:
            first = first * 2 + each
        for each in x[a:][:b]:
            second = second * 2 + each
        for each in x[::3][a:b]:
            third = third * 2 + each
        return first, second, third

    for x in [*layouts("int64", 7), np.zeros(0, np.int64)]:
        native = compiled(sizes, x, 0, 0, np.zeros(9, np.int64), checked=True)
        summed = compiled(sums, x, 0, 0, checked=True)
        for a in (-20, -7, -3, -1, 0, 1, 3, 6, 7, 30, 2**63 - 1, -(2**63)):
            for b in (-20, -8, -2, 0, 2, 5, 7, 8, 2**63 - 1):
                ours, theirs = np.zeros(9, np.int64), np.zeros(9, np.int64)
                assert native(x, a, b, ours) == sizes(x, a, b, theirs)
                np.testing.assert_array_equal(ours, theirs)
                assert summed(x, a, b) == sums(x, a, b)


def test_views_with_several_axes() -> None:
    def fill(x: Any, out: Any, k: int) -> None:
        out[0] = x[k, 1:, ::2][0, 1]
        out[1] = x[..., -1][1, k]
        out[2] = x[-1][k:, 1:3].T[1, 0]
        out[3] = x[:, k].shape[0] + x[1:, k, :2].size
        out[4] = x[(0, k, 2)]
        out[5] = x.T[0, k, 1] + x[k, ..., 0].size + x[...].ndim
        y = x[:, 1:]
        out[6] = y[1, k - 1, -2]
        z = y[1]
        out[7] = z[-1][k]
        out[8] = x.strides[0] + x.itemsize * x[0, 0, ::2].strides[0]
        index = (k, 0)
        out[9] = x[index][2] + x[index].size + x[0, 0, 0].size
        out[10] = len(x) + x.shape[-1] + x.shape[k] + x.shape[1:][0] + sum_of(x.shape)

    for x in [
        np.arange(24.0).reshape(2, 3, 4),
        np.arange(24.0).reshape(4, 3, 2).T,
        np.arange(96.0).reshape(4, 6, 4)[::2, ::2],
    ]:
        check(fill, x, np.zeros(11), 1, checked=True)
        check(fill, x.astype(np.int8), np.zeros(11), 1)


def test_arrays_without_axes() -> None:
    def fill(x: Any, y: Any, out: Any) -> None:
        x += 1
        x[()] = x * 2 + x[()]
        out[0] = x
        out[1] = max(x, y[0]) + np.sqrt(x)
        y[1:] = x
        if x > 3:
            y[0] = x.ndim

    check(fill, np.array(2.0), np.zeros(3), np.zeros(2), tolerance=1e-15)


def test_copies() -> None:
    def fill(x: Any, row: Any, one: Any, out: Any) -> None:
        out[0] = x
        out[1] = row
        out[2] = one
        out[3] = 7
        out[4, 1:, :3] = row[:-1]
        out[5] = x[0]
        out[5, :, 2:] = x[:, 1:3]

    row, one = np.arange(4.0), np.array([[5.0]])
    for x in layouts("float64", 3, 4):
        check(fill, x, row, one, np.zeros((6, 3, 4)), checked=True)
        check(fill, x.astype(np.int32), row, one, np.zeros((6, 3, 4)).transpose(0, 2, 1).copy().transpose(0, 2, 1))


def test_copies_of_wrong_shapes_raise_in_debug_mode() -> None:
    def fill(x: Any, out: Any) -> None:
        out[:] = x

    for x, out in ((np.ones(3), np.zeros(4)), (np.ones(5), np.zeros(4)), (np.ones((2, 3)), np.zeros((3, 2)))):
        with pytest.raises(IndexError, match="shape"):
            compiled(fill, x, out, checked=True)(x, out)
    check(fill, np.ones(1), np.zeros(4), checked=True)
    check(fill, np.ones(0), np.zeros(0), checked=True)


def test_copies_within_an_array() -> None:
    def moved(x: Any, a: int, b: int, n: int) -> None:
        x[a : a + n] = x[b : b + n]

    def rows(x: Any) -> None:
        x[1:] = x[:-1]
        x[:2] = x[1:3]

    for x in layouts("int32", 12):
        for a, b in ((0, 3), (3, 0), (5, 5), (0, 8)):
            check(moved, x, a, b, 4)
    check(rows, np.arange(12.0).reshape(4, 3))
    for text in ("x[:] = x.T", "x[::2] = x[:2]", "y = x.T; y[1:] = x[1:]"):
        with pytest.raises(NotCompiled, match="overlap"):
            translated(written(f"def fill(x):\n    {text}\n", "fill"), np.zeros((4, 4)))


ACCESSES = [
    "x[i]", "x[i:][0]", "x[:i][3]", "x[-i - 1]", "y[i, 0]", "y[0, i]", "y[i][0]", "y[0][-i]", "y[1:, 1:][i, 0]",
    "y.T[i, 0]", "y[0, 1:3][i]", "x[np.uint64(i)]", "x[np.int8(i)]", "x[::2][i]", "y[0, ::3][i]", "(1, 2, 3, 4)[i]",
]  # fmt: skip


@pytest.mark.parametrize("access", ACCESSES)
def test_every_access_out_of_range_raises_in_debug_mode(access: str) -> None:
    text = f"def read(x, y, i):\n    return {access}\n"
    if access[0] != "(":
        text += f"def write(x, y, i):\n    {access} = 5\n    return 0\n"
        text += f"def add(x, y, i):\n    {access} += 5\n    return 0\n"
    x, y = np.arange(4.0), np.arange(20.0).reshape(4, 5)[:, :4]
    for name in ("read", "write", "add")[: 3 if access[0] != "(" else 1]:
        function = written(text, name)
        native = compiled(function, x, y, 0, checked=True)
        for i in (0, 1, 2, 3, 4, -1, -3, -4, -5, 5, 100, -100, 2**62, -(2**62)):
            ours, theirs = copies((x, y)), copies((x, y))
            try:
                with np.errstate(all="ignore"):
                    expected = function(*theirs, np.int64(i) if "int" in access else i)
            except (IndexError, OverflowError):
                with pytest.raises(IndexError):
                    native(*ours, i)
            else:
                assert native(*ours, i) == expected
            np.testing.assert_array_equal(ours[0], theirs[0])
            np.testing.assert_array_equal(ours[1], theirs[1])


def test_accesses_in_loops_are_checked() -> None:
    def beyond(x: Any, n: int) -> float:
        total = 0.0
        for i in range(n):
            total += x[i]
        return total

    x = np.ones(4)
    native = compiled(beyond, x, 1, checked=True)
    assert native(x, 4) == 4
    with pytest.raises(IndexError, match="out of bounds"):
        native(x, 5)
    with pytest.raises(IndexError, match="out of bounds"):
        native(np.ones(0), 1)
