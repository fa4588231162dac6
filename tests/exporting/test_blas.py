"""Exports that are linked with a CBLAS: it gets the products, with sizes that fit the memory of its operands."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import wyrm as wy
from tests.exporting.loaded import check_predictions, loaded
from wyrm.errors import OptionError

INT, POINTER = ctypes.c_int32, ctypes.c_void_p


def _matrix(address: int, stride: int, rows: int, columns: int, dtype: Any) -> np.ndarray:
    assert stride >= max(1, columns)
    memory = (ctypes.c_char * (dtype.itemsize * ((rows - 1) * stride + columns))).from_address(address)
    flat = np.frombuffer(memory, dtype)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (stride * dtype.itemsize, dtype.itemsize))


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int, int]]]:
    """The sizes of the products that a CBLAS of this process has computed."""
    found: list[tuple[int, int, int]] = []
    kept: list[Any] = []
    for name, number, dtype in (
        ("cblas_sgemm", ctypes.c_float, np.dtype(np.float32)),
        ("cblas_dgemm", ctypes.c_double, np.dtype(np.float64)),
    ):

        def gemm(
            order: int, of_x: int, of_y: int, rows: int, columns: int, inner: int, alpha: float, x: int, x_stride: int,
            y: int, y_stride: int, beta: float, out: int, out_stride: int, dtype: Any = dtype,
        ) -> None:  # fmt: skip
            assert order == 101 and alpha == 1.0 and beta in (0.0, 1.0)
            shape_of_x = (rows, inner) if of_x == 111 else (inner, rows)
            shape_of_y = (inner, columns) if of_y == 111 else (columns, inner)
            left, right = _matrix(x, x_stride, *shape_of_x, dtype), _matrix(y, y_stride, *shape_of_y, dtype)
            result = _matrix(out, out_stride, rows, columns, dtype)
            product = (left if of_x == 111 else left.T) @ (right if of_y == 111 else right.T)
            result[...] = product if beta == 0.0 else result + product
            found.append((rows, columns, inner))

        kinds = INT, INT, INT, INT, INT, INT, number, POINTER, INT, POINTER, INT, number, POINTER, INT
        kept.append(ctypes.CFUNCTYPE(None, *kinds)(gemm))
        llvm.add_symbol(name, ctypes.cast(kept[-1], ctypes.c_void_p).value)
    yield found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_products_call_the_library(sizes: list[tuple[int, int, int]], dtype: Any) -> None:
    random = np.random.default_rng(0)
    a, b = (wy.Parameter(random.normal(size=(40, 40)).astype(dtype), name=name) for name in "ab")
    small = wy.Parameter(random.normal(size=(3, 2)).astype(dtype), name="small")
    program: Any = wy.compile([a @ b, a.T @ b, a @ b.T, a[:, 3:20] @ b[2:19], a[::2] @ b, small @ small.T])
    export = loaded(predict=program, cblas=True)
    assert export.externals == ["cblas_sgemm" if dtype == np.float32 else "cblas_dgemm"]
    tolerance = 1e-4 if dtype == np.float32 else 1e-11
    check_predictions(export, program, rtol=tolerance, atol=tolerance)
    assert sizes == [(40, 40, 40)] * 3 + [(40, 40, 17), (20, 40, 40)]


def test_a_training_by_the_library_is_that_of_python(sizes: list[tuple[int, int, int]]) -> None:
    random = np.random.default_rng(0)
    batch = wy.Dim()
    x, y = wy.Input(dims=(batch, 24), name="x"), wy.Input(dims=(batch, 8), name="y")
    wy.nn.seed(0)
    model: Any = wy.nn.Sequential(wy.nn.Linear(24, 32), wy.nn.relu, wy.nn.Linear(32, 8))
    loss = (model(x) - y).square().mean()
    train: Any = wy.compile(loss, wy.optim.Adam(loss.parameters()))
    data = {x: random.normal(size=(40, 24)).astype(np.float32), y: random.normal(size=(40, 8)).astype(np.float32)}
    export = loaded(train, cblas=True)
    assert export.start() == 0
    for epoch in range(3):
        wanted = train.epoch(data, batch_size=32, shuffle=True, seed=3)
        code, found = export.call("epoch", 40, x=data[x], y=data[y], batch=32, shuffle=1, seed=3)
        assert code == 0
        np.testing.assert_allclose(found["results"][0], wanted, rtol=1e-5, err_msg=f"epoch {epoch}")
    assert {(32, 32, 24), (32, 8, 32)} <= set(sizes)


def test_what_the_library_cannot_do_is_refused(tmp_path: Path) -> None:
    program = wy.compile(wy.Input(dims=(3,), name="x").tanh())
    with pytest.raises(OptionError, match="links no library"):
        program.export(tmp_path, target="wasm32", blas="cblas")
    with pytest.raises(OptionError, match="blas must be 'cblas', not 'openblas'"):
        program.export(tmp_path, blas="openblas")  # type: ignore[arg-type]  # what is wrong
    exported = program.export(tmp_path, blas="cblas")
    assert exported.externals == []
    assert "-lm -lcblas" in (tmp_path / "example.c").read_text(encoding="utf-8")
