"""Linear algebra: NumPy's functions on nodes, errors, named and open axes, `vmap`, `scan`, and compiled programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.samples.linalg import positive_definite, real_spectrum, regular
from tests.samples.sample import normal
from wyrm.errors import LinAlgError, OptionError, ShapeError

SQUARE, BATCH = regular(3, 3), regular(2, 4, 4)
DEFINITE = positive_definite(3, 3)
DEFINITE = (DEFINITE + DEFINITE.T) / 2


class Points(wy.Dim): ...


class Features(wy.Dim): ...


class Batch(wy.Dim): ...


@pytest.mark.parametrize(
    ("name", "arguments", "options"),
    [
        ("cholesky", (DEFINITE,), {}),
        ("cholesky", (DEFINITE,), {"upper": True}),
        ("eigh", (DEFINITE,), {}),
        ("eigvalsh", (DEFINITE,), {"UPLO": "U"}),
        ("eig", (real_spectrum(3, 3),), {}),
        ("eigvals", (real_spectrum(2, 4, 4),), {}),
        ("svd", (SQUARE,), {}),
        ("svd", (regular(4, 2),), {"full_matrices": False}),
        ("svd", (regular(4, 2),), {"compute_uv": False}),
        ("svdvals", (BATCH,), {}),
        ("qr", (regular(2, 5),), {}),
        ("qr", (regular(5, 2),), {"mode": "r"}),
        ("det", (BATCH,), {}),
        ("slogdet", (BATCH,), {}),
        ("inv", (BATCH,), {}),
        ("pinv", (regular(4, 2),), {}),
        ("solve", (BATCH, normal(2, 4, 1)), {}),
        ("solve", (SQUARE, normal(3)), {}),
        ("lstsq", (regular(5, 2), normal(5)), {}),
        ("lstsq", (regular(5, 2), normal(5, 3)), {}),
        ("lstsq", (regular(2, 5), normal(2)), {"rcond": None}),
        ("cond", (SQUARE,), {}),
        ("cond", (SQUARE, 1), {}),
        ("cond", (SQUARE, -2), {}),
        ("matrix_norm", (BATCH,), {"ord": 2, "keepdims": True}),
        ("vector_norm", (BATCH,), {"axis": (0, 2), "ord": 3}),
        ("vector_norm", (BATCH,), {"keepdims": True}),
        ("vector_norm", (np.zeros((0, 6)),), {"axis": 1, "ord": 3}),
        ("vector_norm", (np.zeros((3, 0, 2)),), {"axis": (0, 2), "ord": 1}),
        ("matrix_power", (SQUARE, 5), {}),
        ("matrix_power", (BATCH, 0), {}),
        ("matrix_power", (BATCH, -1), {}),
        ("multi_dot", ([normal(3), normal(3, 5), normal(5, 2), normal(2)],), {}),
        ("multi_dot", ([normal(2, 3), normal(3, 5), normal(5, 2)],), {}),
        ("matmul", (SQUARE, normal(3, 2)), {}),
        ("matrix_transpose", (BATCH,), {}),
        ("vecdot", (SQUARE, SQUARE), {}),
        ("outer", (normal(3), normal(2)), {}),
        ("cross", (normal(2, 3), normal(2, 3)), {}),
        ("tensordot", (SQUARE, SQUARE), {"axes": 1}),
        ("trace", (BATCH,), {"offset": 1}),
        ("diagonal", (BATCH,), {"offset": -1}),
    ],
)
def test_numpy_functions_take_nodes(name: str, arguments: Any, options: dict[str, Any]) -> None:
    function = getattr(np.linalg, name)

    def as_node(x: Any) -> Any:
        return [wy.Parameter(each) for each in x] if isinstance(x, list) else wy.Parameter(x)

    found = function(as_node(arguments[0]), *arguments[1:], **options)
    expected = function(*arguments, **options)
    for node, array in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True):
        value = node.forward()
        assert np.shape(value) == np.shape(array)
        np.testing.assert_allclose(value, array, rtol=1e-11, atol=1e-12)


def test_named_tuples_have_numpys_names() -> None:
    a = wy.Parameter(DEFINITE)
    assert wy.linalg.eig(a)._fields == type(np.linalg.eig(DEFINITE))._fields
    assert wy.linalg.eigh(a)._fields == type(np.linalg.eigh(DEFINITE))._fields
    assert wy.linalg.svd(a)._fields == type(np.linalg.svd(DEFINITE))._fields
    assert wy.linalg.qr(a)._fields == type(np.linalg.qr(DEFINITE))._fields
    assert wy.linalg.slogdet(a)._fields == type(np.linalg.slogdet(DEFINITE))._fields


def test_an_array_beside_a_node() -> None:
    b: Any = wy.Parameter(normal(3, 2))
    node: Any = np.linalg.solve(SQUARE, b)
    np.testing.assert_allclose(node.forward(), np.linalg.solve(SQUARE, b.value), rtol=1e-12)
    np.testing.assert_allclose(
        wy.linalg.solve(wy.Parameter(SQUARE), b.value).forward(), np.linalg.solve(SQUARE, b.value), rtol=1e-12
    )


# --- errors -----------------------------------------------------------------------------------------------------------

SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
INDEFINITE = np.array([[1.0, 2.0], [2.0, 1.0]])
WRONG: dict[str, tuple[Any, np.ndarray]] = {
    "solve": (lambda a: wy.linalg.solve(a, np.ones((2, 1))), SINGULAR),
    "inv": (wy.linalg.inv, SINGULAR),
    "solve_triangular": (lambda a: wy.linalg.solve_triangular(a, np.ones(2)), np.array([[1.0, 2.0], [0.0, 0.0]])),
    "cholesky": (wy.linalg.cholesky, INDEFINITE),
    "cholesky of a NaN": (wy.linalg.cholesky, np.array([[np.nan, 0.0], [0.0, 1.0]])),
    "eigh": (lambda a: wy.linalg.eigh(a).eigenvalues, np.array([[np.nan, 0.0], [0.0, 1.0]])),
    "eig": (lambda a: wy.linalg.eig(a).eigenvectors, np.array([[np.nan, 0.0], [0.0, 1.0]])),
    "eig of a rotation": (wy.linalg.eigvals, np.array([[0.0, -1.0], [1.0, 0.0]])),
    "svd": (wy.linalg.svdvals, np.array([[np.inf, 0.0], [0.0, 1.0]])),
    "pinv": (wy.linalg.pinv, np.array([[np.nan, 0.0], [0.0, 1.0]])),
    "expm": (wy.linalg.expm, np.array([[np.inf, 0.0], [0.0, 1.0]])),
    "lstsq": (lambda a: wy.linalg.lstsq(a, np.ones(2)).x, np.array([[np.inf, 0.0], [0.0, 1.0]])),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("name", WRONG)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_matrix_without_a_solution_is_an_error(name: str, engine: str, dtype: Any) -> None:
    build, wrong = WRONG[name]
    batch = np.stack([2.0 * np.eye(2), 3.0 * np.eye(2), wrong, wrong]).reshape(2, 2, 2, 2)
    for array, which in (
        (wrong, "the matrix"),
        (batch, r"matrix \(1, 0\) of the batch"),
        (batch[1], "matrix 0 of the"),
    ):
        finite = np.isfinite(array)
        given = wy.Input(np.where(finite, array, 0.0).astype(dtype), name="given")
        node: Any = build(given + np.where(finite, 0.0, array).astype(dtype))
        with pytest.raises(LinAlgError, match=which) as error:
            node.forward() if engine == "reference" else wy.compile(node)()
        assert isinstance(error.value, np.linalg.LinAlgError)
        message = str(error.value)
        assert "test_linalg.py" in message
        assert f"float{np.dtype(dtype).itemsize * 8}" in message


@pytest.mark.parametrize("name", ["svd", "eigh"])
def test_errors_name_the_function_that_the_user_called(name: str) -> None:
    unknown: Any = wy.Input(np.full((2, 2), np.nan), finite=False)
    with pytest.raises(LinAlgError, match=f"^{name}: the matrix holds a NaN"):
        getattr(wy.linalg, name)(unknown)[1].forward()


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_gradient_that_does_not_exist_is_an_error(engine: str) -> None:
    a = wy.Parameter(np.eye(3), name="a")
    singular = wy.Parameter(SINGULAR, name="singular")
    for loss, leaf, reason in (
        (wy.linalg.eigh(a).eigenvectors.sum(), a, "two equal eigenvalues"),
        (wy.linalg.svd(a).U.sum(), a, "two equal eigenvalues or singular values"),
        (wy.linalg.slogdet(singular).logabsdet, singular, "is singular"),
    ):
        gradient = wy.grad(loss, leaf)
        with pytest.raises(LinAlgError, match=reason):
            gradient.forward() if engine == "reference" else wy.compile(gradient)()
    values = wy.grad(wy.linalg.eigvalsh(a).sum(), a)  # exists for equal eigenvalues
    np.testing.assert_allclose(values.forward(), np.eye(3), atol=1e-15)


def test_the_determinant_of_a_singular_matrix_is_zero() -> None:
    a = wy.Parameter(SINGULAR)
    assert wy.linalg.det(a).forward() == 0.0
    assert [part.forward().item() for part in wy.linalg.slogdet(a)] == [0.0, -np.inf]


@pytest.mark.parametrize("name", ["cholesky", "inv", "det", "slogdet", "eig", "eigvals", "eigh", "eigvalsh", "expm"])
def test_a_matrix_that_is_not_square_is_refused(name: str) -> None:
    with pytest.raises(ShapeError, match=f"{name}: the matrix must be square") as error:
        getattr(wy.linalg, name)(wy.Input(dims=(3, 4), name="wide"))
    assert "wide (3, 4)" in str(error.value) and "test_linalg.py" in str(error.value)
    with pytest.raises(ShapeError, match=f"{name}: the operand must be a matrix"):
        getattr(wy.linalg, name)(wy.Input(dims=(3,)))


def test_operands_that_do_not_match_are_refused() -> None:
    a: Any = wy.Input(dims=(3, 3))
    for solve in (wy.linalg.solve, wy.linalg.solve_triangular):
        with pytest.raises(ShapeError, match="different numbers of rows"):
            solve(a, wy.Input(dims=(4, 2)))
    with pytest.raises(ShapeError, match="solve: the matrix must be square"):
        wy.linalg.solve(wy.Input(dims=(3, 4)), wy.Input(dims=(4,)))
    with pytest.raises(ShapeError, match="svd: the matrix is not square; pass full_matrices=False"):
        wy.linalg.svd(wy.Input(dims=(3, 4)))
    with pytest.raises(OptionError, match="ord"):
        wy.linalg.norm(a, 3, axis=(0, 1))
    with pytest.raises(OptionError, match="ord"):
        wy.linalg.norm(a, "fro", axis=0)
    with pytest.raises(TypeError, match=r"numpy\.linalg\.tensorinv takes no nodes"):
        np.linalg.tensorinv(a)


# --- axes -------------------------------------------------------------------------------------------------------------


def test_named_axes_are_kept() -> None:
    points, features = Points(3), Features(2)
    a, b = wy.Input(SQUARE, (points, points)), wy.Input(normal(3, 2), (points, features))
    assert wy.linalg.solve(a, b).dims == (points, features)
    assert wy.linalg.inv(a).dims == wy.linalg.cholesky(a).dims == (points, points)
    assert wy.linalg.eigvals(a).dims == wy.linalg.eigvalsh(a).dims == (points,)
    assert wy.linalg.eig(a).eigenvectors.dims == (points, points)
    assert wy.linalg.pinv(b).dims == (features, points)
    assert [x.dims for x in wy.linalg.svd(b, full_matrices=False)] == [(points, features), (features,), (features,) * 2]
    assert wy.linalg.qr(b.T).R.dims == (features, points)
    with pytest.raises(ShapeError, match="different names"):
        wy.linalg.inv(wy.Input(dims=(Points(3), Features(3))))  # type: ignore[arg-type]  # the checker sees it too


def test_sizes_from_data() -> None:
    """The matrices' axis and the batch's get their sizes from the data."""
    batch, points = Batch(), Points()
    x = wy.Input(dims=(batch, points, points), name="x", dtype=np.float64)
    y = wy.Input(dims=(points, 2), name="y", dtype=np.float64)
    loss = (
        wy.linalg.solve(x, y).square().sum()
        + wy.linalg.inv(x).sum()
        + wy.linalg.slogdet(wy.linalg.cholesky(x @ x.mT)).logabsdet.sum()
        + wy.linalg.eigvalsh(x).max()
        + wy.linalg.eigvals(x @ x.mT).max()
    )
    outputs: list[Any] = [loss, wy.grad(loss, x)]
    program = wy.compile(outputs)
    for count, size in ((2, 3), (3, 1), (1, 4)):
        data = {x: regular(count, size, size) + 2.0 * np.eye(size), y: normal(size, 2)}
        for leaf, value in data.items():
            leaf.set(value)
        for found, want in zip(program(data), wy.run(outputs), strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
def test_matrices_without_elements(shape: tuple[int, ...]) -> None:
    a, b = wy.Parameter(np.zeros(shape)), wy.Parameter(np.zeros((*shape[:-1], 2)))
    nodes: dict[str, Any] = {
        "cholesky": wy.linalg.cholesky(a),
        "solve": wy.linalg.solve(a, b),
        "inv": wy.linalg.inv(a),
        "det": wy.linalg.det(a),
        "eigvals": wy.linalg.eigvals(a),
        "eigvalsh": wy.linalg.eigvalsh(a),
        "svdvals": wy.linalg.svdvals(a),
        "pinv": wy.linalg.pinv(a),
    }
    expected = {name: getattr(np.linalg, name)(a.value) for name in nodes if name != "solve"}
    expected["solve"] = np.linalg.solve(a.value, b.value)
    more: list[Any] = [
        *wy.linalg.eig(a),
        *wy.linalg.eigh(a),
        *wy.linalg.qr(a),
        *wy.linalg.slogdet(a),
        wy.linalg.expm(a),
    ]
    more.append(wy.linalg.solve_triangular(a, b))
    outputs = [*nodes.values(), *more, wy.grad(sum(node.sum() for node in [*nodes.values(), *more]), a)]
    for values in (wy.run(outputs), wy.compile(outputs)()):
        assert [x.shape for x in values] == [x.shape for x in outputs]
        for name, value in zip(nodes, values, strict=False):
            np.testing.assert_array_equal(value, expected[name])


@pytest.mark.parametrize("norm", [0.0, 1e-3, 0.5, 5.0, 6.0, 80.0])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 3e-7), (np.float64, 1e-14)])
def test_the_exponential_of_a_matrix_in_native_code(dtype: Any, tolerance: float, norm: float) -> None:
    """Of symmetric matrices, whose exponential is that of the eigenvalues, and of one that is not diagonalizable."""
    a = normal(5, 4, 4)
    a += a.mT
    a *= norm / np.linalg.norm(a, 1, axis=(-2, -1), keepdims=True)
    values, vectors = np.linalg.eigh(a.astype(dtype).astype(np.float64))
    expected = (vectors * np.exp(values)[:, None, :]) @ vectors.mT
    x = wy.Input(dims=a.shape, name="x", dtype=dtype)
    found = wy.compile(wy.linalg.expm(x))({x: a.astype(dtype)})
    largest = np.abs(expected).max(axis=(-2, -1), keepdims=True)
    assert found.dtype == dtype
    assert np.abs((found - expected) / largest).max() < tolerance * max(1.0, norm)
    chain = wy.Constant(np.array([[norm, 1.0], [0.0, norm]], dtype))
    whole = np.exp(float(dtype(norm))) * np.array([[1.0, 1.0], [0.0, 1.0]])
    np.testing.assert_allclose(wy.compile(wy.linalg.expm(chain))(), whole, rtol=tolerance * max(1.0, norm), atol=0.0)


# --- transformations --------------------------------------------------------------------------------------------------

MAPPED: dict[str, Any] = {
    "cholesky": lambda a, b: wy.linalg.cholesky(a @ a.T),
    "solve": wy.linalg.solve,
    "solve_triangular": lambda a, b: wy.linalg.solve_triangular(a, b, lower=True),
    "inv": lambda a, b: wy.linalg.inv(a),
    "logdet": lambda a, b: wy.linalg.slogdet(a).logabsdet,
    "eigh": lambda a, b: wy.linalg.eigh(a).eigenvectors ** 2.0,
    "eig": lambda a, b: wy.linalg.eig((a @ a.T) @ (a.T @ a)).eigenvectors ** 2.0,
    "svd": lambda a, b: wy.linalg.svd(a).U ** 2.0,
    "qr": lambda a, b: wy.linalg.qr(a).Q,
    "pinv": lambda a, b: wy.linalg.pinv(a),
    "expm": lambda a, b: wy.linalg.expm(a * 0.3),
    "lstsq": lambda a, b: wy.linalg.lstsq(a, b).x,
}


@pytest.mark.parametrize("name", MAPPED)
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
def test_vmap(name: str, axes: tuple[int | None, int | None]) -> None:
    if axes[0] is None and name not in ("solve", "solve_triangular", "lstsq"):
        return
    function = MAPPED[name]
    a, b = regular(4, 3, 3) + 2.0 * np.eye(3), normal(4, 3)
    given = [x if axis == 0 else x[0] for x, axis in zip((a, b), axes, strict=True)]
    mapped: Any = wy.vmap(function, in_axes=axes)
    nodes = [wy.Parameter(x) for x in given]
    loss = mapped(*nodes)
    gradient = wy.grad(loss.square().sum(), nodes, allow_unused=True)
    rows, total = [], [np.zeros_like(x) for x in given]
    for i in range(4):
        row = [wy.Parameter(x[i] if axis == 0 else x) for x, axis in zip(given, axes, strict=True)]
        value = function(*row)
        rows.append(value.forward())
        for position, found in enumerate(wy.grad(value.square().sum(), row, allow_unused=True)):
            if axes[position] == 0:
                total[position][i] = found.forward()
            else:
                total[position] += found.forward()
    np.testing.assert_allclose(loss.forward(), np.stack(rows), rtol=1e-10, atol=1e-12)
    for found, want in zip(gradient, total, strict=True):
        np.testing.assert_allclose(found.forward(), want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", MAPPED)
def test_scan(name: str) -> None:
    """A loop whose body is a factorization gives the values and the gradient of the unrolled loop, in both engines."""
    function = MAPPED[name]
    a, b = wy.Parameter(regular(3, 3) + 2.0 * np.eye(3)), wy.Parameter(normal(4, 3))

    def step(carry: Any, row: Any) -> Any:
        found = function(carry, row)
        total = found.sum() if found.ndim < 2 else found.sum(axis=0).sum()
        return carry * 0.9 + total * 0.001, total

    last, totals = wy.scan(step, a, b)
    loss = last.sum() + totals.square().sum()
    carry: Any = a
    unrolled: Any = wy.Constant(np.zeros(()))
    for i in range(4):
        carry, total = step(carry, b[i])
        unrolled = unrolled + total.square()
    unrolled = unrolled + carry.sum()
    outputs = [loss, *wy.grad(loss, [a, b], allow_unused=True)]
    expected = wy.run([unrolled, *wy.grad(unrolled, [a, b], allow_unused=True)])
    for values in (wy.run(outputs), wy.compile(outputs)()):
        for found, want in zip(values, expected, strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["cholesky", "eigvalsh", "upper cholesky", "upper eigvalsh"])
def test_only_one_triangle_of_a_symmetric_matrix_is_read(name: str) -> None:
    matrix = np.array([[4.0, 9.0], [1.0, 3.0]])
    upper, _, function = name.rpartition(" ")
    options: Any = {} if not upper else {"upper": True} if function == "cholesky" else {"UPLO": "U"}
    matrix = matrix.T if upper else matrix
    x = wy.Parameter(matrix)
    result: Any = getattr(wy.linalg, function)(x, **options)
    np.testing.assert_allclose(result.forward(), getattr(np.linalg, function)(matrix, **options))
    unread = (1, 0) if upper else (0, 1)
    assert wy.grad(result.sum(), x).forward()[unread] == 0.0
