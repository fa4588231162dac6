"""Exports to ONNX with an open batch, run by a process without wyrm: sorting, cumulative functions, linear algebra."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import scipy.special

import wyrm as wy
from wyrm.ops.linalg import unrolled_jax

pytest.importorskip("jax2onnx")
pytest.importorskip("onnxruntime")


class Batch(wy.Dim): ...


def rows(random: np.random.Generator, count: int) -> Any:
    return random.normal(size=(count, 5)).astype(np.float32)


def positive_definite(random: np.random.Generator, count: int) -> Any:
    a = random.normal(size=(count, 4, 4))
    return (a @ a.swapaxes(1, 2) + np.eye(4)).astype(np.float32)


OF_ROWS: dict[str, Callable[[Any], Any]] = {
    "sort": lambda x: x.sort(axis=1),
    "argsort": lambda x: x.argsort(axis=1),
    "median": lambda x: wy.median(x, axis=1),
    "top_k": lambda x: wy.top_k(x, 3)[0],
    "top_k_indices": lambda x: wy.top_k(x, 3)[1],
    "cumsum": lambda x: x.cumsum(axis=1),
    "cumprod": lambda x: x.cumprod(axis=1),
    "prod": lambda x: x.prod(axis=1),
    "std": lambda x: x.std(axis=1),
    "std_over_the_batch": lambda x: x.std(axis=0),
    "mean_over_all": lambda x: x.mean(),
    "remainder": lambda x: x % 0.7,
    "floor_divide": lambda x: x // 0.3,
    "of_each_row": lambda x: wy.vmap(lambda row: row[::-1][1:].cumsum(0) * 2.0)(x),
    "steps_from_the_last": lambda x: wy.scan(lambda h, row: (h * 0.5 + row, h), x[:, 0], x.T, reverse=True)[1],
    "the_input_itself": lambda x: x.astype(np.float32),
}
OF_MATRICES: dict[str, Callable[[Any], Any]] = {
    "inv": wy.linalg.inv,
    "det": wy.linalg.det,
    "slogdet": lambda a: wy.linalg.slogdet(a)[1],
    "solve": lambda a: wy.linalg.solve(a, a[:, :, :2] * 2.0),
    "solve_transposed": lambda a: wy.linalg.solve(a.mT, a[:, :, 1:]),
    "cholesky": wy.linalg.cholesky,
    "qr": lambda a: wy.linalg.qr(a)[1],
    "eigenvalues": lambda a: wy.linalg.eigvalsh(a),
    "singular_values": lambda a: wy.linalg.svd(a)[1],
    "pseudo_inverse": wy.linalg.pinv,
}
# The functions that share a file, and the rows of their data.
FILES = {"rows": (OF_ROWS, rows), "matrices": (OF_MATRICES, positive_definite)}
# Reads names of files, and prints how far their outputs are from those expected, relative to the largest; infinitely
# far if they have another shape.
PROGRAM = """
import json, sys, warnings
import numpy as np, onnxruntime
found = {}
for name in sys.argv[1:]:
    session = onnxruntime.InferenceSession(name + ".onnx", providers=["CPUExecutionProvider"])
    data = np.load(name + ".npz")
    for count in (1, 3):
        outputs = session.run(None, {session.get_inputs()[0].name: data[f"x{count}"]})
        for i, output in enumerate(outputs):
            expected = data[f"y{count}-{i}"]
            same, largest = output.shape == expected.shape, max(np.abs(expected).max(), 1e-30)
            found[f"{name}-{count}-{i}"] = float(np.abs(output - expected).max() / largest) if same else np.inf
assert "wyrm" not in sys.modules and "jax" not in sys.modules
print(json.dumps(found))
"""


def test_any_batch_runs_without_wyrm(tmp_path: Path) -> None:
    for name, (functions, values) in FILES.items():
        random = np.random.default_rng(0)
        arrays = {f"x{count}": values(random, count) for count in (1, 3)}
        x = wy.Input(dims=(Batch(), *arrays["x1"].shape[1:]), name="x")
        nodes = [function(x) for function in functions.values()]
        wy.jax.to_onnx(nodes, tmp_path / f"{name}.onnx", inputs=[x])
        program = wy.compile(nodes)
        for count in (1, 3):
            arrays |= {f"y{count}-{i}": value for i, value in enumerate(program({x: arrays[f"x{count}"]}))}
        np.savez(tmp_path / f"{name}.npz", **arrays)
    done = subprocess.run([sys.executable, "-I", "-c", PROGRAM, *FILES], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    by_output = json.loads(done.stdout)
    found = {
        f"{each} of {count}": by_output[f"{name}-{count}-{i}"]
        for name, (functions, _) in FILES.items() for i, each in enumerate(functions) for count in (1, 3)
    }  # fmt: skip
    assert len(by_output) == len(found)
    assert {name: error for name, error in found.items() if not error <= 1e-4} == {}


@pytest.mark.parametrize("size", [1, 2, 7])
def test_unrolled_factorizations_are_those_of_lapack(size: int) -> None:
    random = np.random.default_rng(size)
    a = random.normal(size=(3, 2, size, size))
    a[0, 0, :, -1] = 0.0  # a singular matrix
    symmetric = a @ a.swapaxes(-1, -2) + np.eye(size)

    def factored(a: Any, symmetric: Any) -> Any:
        lu = unrolled_jax.lu(a), jax.lax.linalg.lu(a)[:2]
        return *lu, unrolled_jax.cholesky(symmetric), unrolled_jax.cholesky(-symmetric)

    with jax.enable_x64(True):
        (factors, pivots), (expected, expected_pivots), lower, undefined = jax.jit(factored)(a, symmetric)
    np.testing.assert_allclose(factors, expected, atol=1e-12)
    np.testing.assert_array_equal(pivots, expected_pivots)
    np.testing.assert_allclose(lower, np.linalg.cholesky(symmetric), atol=1e-12)
    assert np.isnan(np.asarray(undefined)).any()


ENDS = np.concatenate([np.linspace(-8.0, 8.0, 161), [1e-8, -1e-8, 1e-30, 0.0, 30.0, -30.0]]).astype(np.float32)
EXACT: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "erfc": (wy.special.erfc, scipy.special.erfc),
    "log1p": (lambda x: wy.log1p(abs(x)), lambda x: np.log1p(abs(x))),
    "expm1": (wy.expm1, np.expm1),
    "log_ndtr": (wy.special.log_ndtr, scipy.special.log_ndtr),
}


@pytest.mark.parametrize("name", EXACT)
def test_functions_are_exact_where_their_values_are_small(tmp_path: Path, name: str) -> None:
    import onnxruntime

    function, expected = EXACT[name]
    x = wy.Input(dims=(Batch(),), name="x")
    wy.jax.to_onnx(function(x), tmp_path / "model.onnx")
    (found,) = onnxruntime.InferenceSession(tmp_path / "model.onnx").run(None, {"x": ENDS})
    np.testing.assert_allclose(np.asarray(found), expected(ENDS.astype(np.float64)), rtol=1e-5, atol=1e-37)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_a_file_that_is_written_with_64_bit_types_leaves_jax_as_it_was(tmp_path: Path, dtype: Any) -> None:
    import onnxruntime

    x: Any = wy.Input(dims=(3,), name="x") if dtype is np.float32 else wy.IndexInput(dims=(3,), name="x")
    before = jax.config.jax_enable_x64
    try:
        with jax.enable_x64(True):
            wy.jax.to_onnx(x + 1, tmp_path / "model.onnx", [x])
        assert jax.config.jax_enable_x64 == before
    finally:
        jax.config.update("jax_enable_x64", before)
    (output,) = onnxruntime.InferenceSession(tmp_path / "model.onnx").run(None, {"x": np.arange(3, dtype=dtype)})
    assert output.dtype == dtype and output.tolist() == [1, 2, 3]


def test_a_package_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import jax2onnx

    def fail(*_: object, **__: object) -> None:
        raise ImportError("No module named 'onnx'")

    monkeypatch.setattr(jax2onnx, "to_onnx", fail)
    x = wy.Input(dims=(Batch(), 3), name="x")
    with pytest.raises(ImportError, match="No module named 'onnx'"):
        wy.jax.to_onnx(x.tanh(), tmp_path / "model.onnx")
