"""What files of ONNX cannot hold is an error that names the op; what they hold keeps its digits and types."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import scipy.special

import wyrm as wy
from tests.each import check_each
from wyrm.errors import OptionError

jax2onnx = pytest.importorskip("jax2onnx")
onnxruntime = pytest.importorskip("onnxruntime")


class Batch(wy.Dim): ...


X = wy.Input(dims=(Batch(), 3), name="x")
MATRICES = wy.Input(dims=(Batch(), 3, 3), name="a")
OF_FILMS: Any = (Batch(), 1, 3, 4, 4)
FILMS = wy.Input(dims=OF_FILMS, name="films")


def last_to_first(x: Any) -> Any:
    return wy.scan(lambda h, row: (h * 0.5 + row, h), x[:, 0], x.T, reverse=True)[1]


# Graphs, the op that the error names, and what it says that ONNX lacks.
REFUSED: dict[str, tuple[Callable[[], Any], str, str]] = {
    "inverse": (lambda: wy.linalg.inv(MATRICES), "lu", "factorizations of a batch of matrices"),
    "determinant": (lambda: wy.linalg.det(MATRICES), "lu", "factorizations of a batch of matrices"),
    "cholesky": (lambda: wy.linalg.cholesky(MATRICES), "cholesky", "factorizations of a batch of matrices"),
    "qr": (lambda: wy.linalg.qr(MATRICES)[1], "qr", "factorizations of a batch of matrices"),
    "eigvalsh": (lambda: wy.linalg.eigvalsh(MATRICES), "eigh", "eigenvalues"),
    "eigvals": (lambda: wy.linalg.eigvals(MATRICES), "eig", "eigenvalues"),
    "svd": (lambda: wy.linalg.svd(MATRICES)[1], "svd", "singular values"),
    "pinv": (lambda: wy.linalg.pinv(MATRICES), "pinv", "singular values"),
    "expm": (lambda: wy.linalg.expm(MATRICES), "expm", "the operation 'lt_to' of JAX"),
    "cumprod": (lambda: X.cumprod(axis=1), "cum_prod", "running products"),
    "copysign": (lambda: wy.copysign(X, X), "copysign", "the bits of a float"),
    "gamma": (lambda: wy.special.gamma(X), "gamma", "the bits of a float"),
    "searchsorted": (lambda: wy.searchsorted([0.0, 1.0], X), "search_sorted", "the operation 'le_to' of JAX"),
    "last_to_first": (lambda: last_to_first(X), "scan", "loops from the last step to the first"),
    "outer": (lambda: wy.einsum("bi,bj->bij", X, X), "einsum", "products that sum over no axis"),
    "conv3d": (lambda: wy.nn.Conv3d(1, 2, 2)(FILMS), "convolution", "convolutions in three dimensions"),
}


def test_an_op_that_onnx_lacks_is_named_before_a_file_is_written(tmp_path: Path, monkeypatch: Any) -> None:
    def write(*_: object, **__: object) -> None:
        pytest.fail("jax2onnx is called")

    def check(name: str) -> None:
        build, op, what = REFUSED[name]
        with pytest.raises(OptionError) as caught:
            wy.jax.to_onnx(build(), tmp_path / "model.onnx", check=False)
        first, remedy = str(caught.value).split("\n")
        assert first.startswith(f"wy.jax.to_onnx cannot write {op} ") and "(at test_jax_onnx.py:" in first
        assert f": files of ONNX have no {what}" in first
        assert remedy.startswith("wy.jax.export writes StableHLO, and wy.export C or WebAssembly")

    monkeypatch.setattr(jax2onnx, "to_onnx", write)
    check_each(REFUSED, check)
    assert list(tmp_path.iterdir()) == []


def test_an_op_inside_of_a_loop_is_named_by_its_line(tmp_path: Path) -> None:
    def step(h: Any, row: Any) -> Any:
        return h + wy.copysign(row, h), h

    with pytest.raises(OptionError, match=r"cannot write copysign .*\(at test_jax_onnx.py:"):
        wy.jax.to_onnx(wy.scan(step, X[:, 0], X.T)[1], tmp_path / "model.onnx")


def run(nodes: Any, path: Path, data: dict[str, np.ndarray]) -> list[Any]:
    wy.jax.to_onnx(nodes, path)
    found: list[Any] = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, data)
    return found


def test_one_matrix_is_factorized(tmp_path: Path) -> None:
    square = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, -0.2], [0.5, -0.2, 2.0]], np.float32)
    covariance = wy.Parameter(square, name="covariance")
    distances = (X @ wy.linalg.inv(covariance) * X).sum(axis=1)
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    nodes = [distances, wy.linalg.cholesky(covariance), wy.linalg.det(covariance), X]
    wanted = [(x @ np.linalg.inv(square) * x).sum(1), np.linalg.cholesky(square), np.linalg.det(square), x]
    for found, expected in zip(run(nodes, tmp_path / "model.onnx", {"x": x}), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_sequences_that_are_longer_than_a_tile(tmp_path: Path) -> None:
    x = wy.Input(dims=(Batch(), 520, 4), name="x")
    wy.nn.seed(0)
    node = wy.nn.MultiHeadAttention(4, 2)(x)
    data = np.random.default_rng(0).normal(size=(2, 520, 4)).astype(np.float32)
    (found,) = run(node, tmp_path / "model.onnx", {"x": data})
    x.set(data)
    np.testing.assert_allclose(found, wy.run([node])[0], atol=1e-5)


ENDS = np.concatenate([np.linspace(-8.0, 8.0, 161), [1e-8, -1e-8, 1e-30, 0.0, 30.0, -30.0]]).astype(np.float32)
EXACT: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (wy.special.erfc, scipy.special.erfc),
    (lambda x: wy.log1p(abs(x)), lambda x: np.log1p(abs(x))),
    (wy.expm1, np.expm1),
    (wy.special.log_ndtr, scipy.special.log_ndtr),
]


def test_functions_are_exact_where_their_values_are_small(tmp_path: Path) -> None:
    x = wy.Input(dims=(Batch(),), name="x")
    values = run([function(x) for function, _ in EXACT], tmp_path / "model.onnx", {"x": ENDS})
    for found, (_, expected) in zip(values, EXACT, strict=True):
        np.testing.assert_allclose(found, expected(ENDS.astype(np.float64)), rtol=1e-5, atol=1e-37)


def test_outputs_that_are_inputs_or_equal_have_names_of_their_own(tmp_path: Path) -> None:
    x = np.ones((2, 3), np.float32)
    found = run([X, X * 2.0, X * 2.0, X.astype(np.float32)], tmp_path / "model.onnx", {"x": x})
    for each, expected in zip(found, [x, 2.0 * x, 2.0 * x, x], strict=True):
        np.testing.assert_array_equal(each, expected)


def write_two_rows(*_: object, output_path: Path, input_names: list[str], **__: object) -> None:
    """Write a file whose output always has two rows, in place of jax2onnx."""
    import onnx
    from onnx import TensorProto, helper

    shape: list[str | int | None] = ["batch", 3]
    (name,) = input_names
    graph = helper.make_graph(
        [helper.make_node("Expand", [name, "shape"], ["output_0"])], "wrong",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("output_0", TensorProto.FLOAT, shape)],
        [helper.make_tensor("shape", TensorProto.INT64, [2], [2, 3])],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), output_path)


def test_a_file_with_wrong_shapes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax2onnx, "to_onnx", write_two_rows)
    with pytest.raises(OptionError) as caught:
        wy.jax.to_onnx(X.tanh(), tmp_path / "model.onnx")
    first, remedy = str(caught.value).split("\n")
    assert first.startswith("wy.jax.to_onnx cannot write tanh (Batch(), 3) float32 (at test_jax_onnx.py:")
    assert "computes the shape (2, 3), JAX (1, 3)" in first and "sizes={Batch: 32}" in remedy
    assert list(tmp_path.iterdir()) == []
    wy.jax.to_onnx(X.tanh(), tmp_path / "model.onnx", check=False)
    assert (tmp_path / "model.onnx").exists()


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_a_file_that_is_written_with_64_bit_types_leaves_jax_as_it_was(tmp_path: Path, dtype: Any) -> None:
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
    def fail(*_: object, **__: object) -> None:
        raise ImportError("No module named 'onnx'")

    monkeypatch.setattr(jax2onnx, "to_onnx", fail)
    with pytest.raises(ImportError, match="No module named 'onnx'"):
        wy.jax.to_onnx(X.tanh(), tmp_path / "model.onnx")
