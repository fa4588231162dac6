"""What the table of array functions does not show: options, indices as results, constants, and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, IndexOutOfRange, ShapeError
from wyrm.testing import check_grads

X = np.random.default_rng(3).permutation((np.arange(60) - 29.75) * 0.07).reshape(3, 4, 5)
METHODS = [
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
    "interpolated_inverted_cdf",
    "hazen",
    "weibull",
    "linear",
    "median_unbiased",
    "normal_unbiased",
    "lower",
    "higher",
    "midpoint",
    "nearest",
]


WIDTHS: list[Any] = [((0, 0), (1, 0), (0, 2)), (1, 2)]
UNKNOWN: Any = "linear_ramp"


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


def check(pairs: list[tuple[Any, Any]]) -> None:
    """Compare the values of nodes, in both engines, with arrays."""
    nodes = [node for node, _ in pairs]
    for engine in (wy.run, lambda outputs: wy.compile(outputs)()):
        for have, (_, want) in zip(engine(nodes), pairs, strict=True):
            assert have.shape == np.shape(want)
            np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_of_quantile(method: Any) -> None:
    x = wy.Parameter(X)
    for q in np.linspace(0.0, 1.0, 14):
        found = wy.quantile(x, q, 1, method).forward()
        np.testing.assert_allclose(found, np.quantile(X, q, axis=1, method=method), rtol=1e-12, err_msg=str(q))


def test_quantiles_of_nan_and_of_many_axes() -> None:
    data = X.copy()
    data[0, 1, 2] = np.nan
    x, q = wy.Input(data, finite=False), [[0.3, 1.0, 0.0], [0.25, 0.5, 0.9]]
    check([
        (wy.median(x, -1), np.median(data, -1)),
        (wy.median(x), np.median(data)),
        (wy.quantile(x, q, (0, 2)), np.quantile(data, q, axis=(0, 2))),
        (wy.percentile(x, 40, keepdims=True), np.percentile(data, 40, keepdims=True)),
    ])  # fmt: skip


def test_the_median_of_infinities() -> None:
    for data in ([np.inf, np.inf], [1.0, np.inf], [-np.inf, -np.inf, 1.0, 2.0], [-np.inf, np.inf]):
        with np.errstate(invalid="ignore"):
            check([(wy.median(wy.Input(np.array(data), finite=False)), np.median(data))])


def test_the_weights_of_an_average_may_be_a_list() -> None:
    weights = [*range(1, X.shape[-1] + 1)]
    check([(wy.average(wy.Input(X), -1, weights=weights), np.average(X, -1, weights=weights))])


def test_sorting_puts_nan_last() -> None:
    data = np.array([[2.0, np.nan, 1.0, -np.inf, np.nan, np.inf, 1.0]])
    x = wy.Input(data, finite=False)
    check([
        (x.sort(), np.sort(data)), (x.argsort(), np.argsort(data, stable=True)),
        (wy.searchsorted(x[0].sort(), x), np.searchsorted(np.sort(data[0]), data)),
    ])  # fmt: skip


def test_sorting_of_many_sizes() -> None:
    random = np.random.default_rng(0)
    arrays = [random.integers(0, 9, size).astype(np.float64) for size in (1, 2, 3, 7, 8, 9, 31, 64, 100)]
    check([(wy.Input(array).argsort(), np.argsort(array, stable=True)) for array in arrays])


def test_partitions() -> None:
    x = wy.Parameter(X)
    for kth in (0, -1, [1, 2]):
        found = wy.partition(x, kth, 1).forward()
        np.testing.assert_array_equal(found[:, kth], np.partition(X, kth, 1)[:, kth])
        np.testing.assert_array_equal(np.take_along_axis(X, wy.argpartition(x, kth, 1).forward(), 1), found)
    with pytest.raises(IndexOutOfRange, match="kth=4 is out of range of 4 elements"):
        wy.partition(x, 4, 1)


def test_searching() -> None:
    values, unsorted = np.array([[-2.0, -1.0, 0.0], [0.2, 0.5, 9.0]]), np.array([3.0, 1.0, 2.0])
    pairs: list[tuple[Any, Any]] = [
        (wy.digitize(wy.Parameter(values), bins, right), np.digitize(values, bins, right))
        for right in (False, True)
        for bins in ([-1.0, 0.0, 0.0, 0.5], [0.5, 0.0, 0.0, -1.0], [0.0])
    ]
    order = np.argsort(unsorted)
    pairs.append((wy.searchsorted(unsorted, values, sorter=order), np.searchsorted(unsorted, values, sorter=order)))
    check(pairs)
    with pytest.raises(ValueError, match="bins must rise or fall"):
        wy.digitize(values, [0.0, 2.0, 1.0])


def test_counts() -> None:
    rows, weights = np.array([0, 2, 2, 5]), np.array([0.5, 1.0, 2.0, 4.0])
    i, w, x = wy.IndexInput(rows), wy.Parameter(weights), wy.Parameter(X)
    pairs = [
        (wy.bincount(i, w, 7), np.bincount(rows, weights, 7)),
        (wy.bincount(i, minlength=6), np.bincount(rows, minlength=6)),
    ]
    options: list[dict[str, Any]] = [
        {"bins": [-1.0, -0.5, 0.0, 2.0]}, {"bins": 5, "range": (-1.0, 1.0)},
        {"bins": [-1.0, 0.0, 2.0], "density": True},
        {"bins": 3, "range": (-1.0, 1.0), "weights": abs(X), "density": True}, {"bins": [-1.0, 1.0]},
    ]  # fmt: skip
    for chosen in options:
        (counts, edges), (expected, expected_edges) = wy.histogram(x, **chosen), np.histogram(X, **chosen)
        np.testing.assert_array_equal(edges, expected_edges)
        pairs.append((counts, expected))
    check(pairs)
    check_grads(wy.bincount(i, w, 7))
    check_grads(wy.histogram(x, [-1.0, 0.0, 2.0], weights=wy.Parameter(X))[0])


def test_bounds_that_the_data_decides_are_errors() -> None:
    with pytest.raises(IndexOutOfRange):
        wy.bincount(wy.IndexInput([0, 3]), minlength=3)
    with pytest.raises(ValueError, match=r"pass range=\(low, high\)"):
        wy.histogram(X, 5)


def test_one_hot_and_indices() -> None:
    rows = wy.IndexInput([[0, 2], [5, -1]])
    expected = np.array([[[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], [[0.0] * 3, [0.0] * 3]])
    check([(wy.one_hot(rows, 3, dtype=np.float64), expected)])
    assert wy.one_hot([1], 2).dtype == np.float32
    np.testing.assert_array_equal(wy.indices((2, 3)).value, np.indices((2, 3)))


def test_constants() -> None:
    for made, expected in [
        (wy.eye(3, 4, 1, np.float64), np.eye(3, 4, 1)), (wy.identity(2, np.float64), np.identity(2)),
        (wy.tri(3, 4, -1, np.float64), np.tri(3, 4, -1)),
        (wy.linspace(0, 3, 7, False, dtype=np.float64), np.linspace(0, 3, 7, False)),
        (wy.logspace(0, 3, 7, dtype=np.float64), np.logspace(0, 3, 7)),
        (wy.geomspace(-1, -8, 4, dtype=np.float64), np.geomspace(-1, -8, 4)),
    ]:  # fmt: skip
        assert isinstance(made, wy.Constant)
        np.testing.assert_array_equal(made.value, expected)


def test_products_at_zeros_have_their_gradient() -> None:
    zeros = np.array([[0.0, 2.0, -1.0], [3.0, 0.0, 0.0]])
    for node in (wy.Parameter(zeros).cumprod(1), wy.vander(wy.Parameter(zeros[0]), 4)):
        check_grads(node)


def test_shapes_at_their_limits() -> None:
    x, scalar = wy.Parameter(X), wy.Parameter(np.float64(3.0))
    check([
        *((wy.diag(x[0, 0], k), np.diag(X[0, 0], k)) for k in (-2, 0, 2)),
        *((wy.diagonal(x, k), np.diagonal(X, k)) for k in range(-4, 5)),
        *((wy.tril(x[0, 0], k), np.tril(X[0, 0], k)) for k in (-1, 0)),
        *((wy.vander(x[0, 0], n), np.vander(X[0, 0], n)) for n in (0, 1, 2)),
        *((wy.tile(scalar, reps), np.tile(3.0, reps)) for reps in (2, (2, 3))),
        *((wy.roll(x, shift, 1), np.roll(X, shift, 1)) for shift in (-9, -1, 3)),
        *((wy.diff(x, n), np.diff(X, n)) for n in (4, 5, 7)),
        (wy.compress([False, True], x, axis=1), np.compress([False, True], X, axis=1)),
        (wy.compress(X.ravel() > 0, x), np.compress(X.ravel() > 0, X)), (wy.extract(X > 1, x), np.extract(X > 1, X)),
        *((wy.pad(x, w), np.pad(X, w)) for w in WIDTHS),
        (wy.block([scalar, x[0, 0], 1.0]), np.block([3.0, X[0, 0], 1.0])),
        (wy.interp(x, [1.0], [2.0]), np.interp(X, [1.0], [2.0])),
        (wy.interp(x, [0.0, 1.0], [2.0, 3.0], -7.0, 7.0), np.interp(X, [0.0, 1.0], [2.0, 3.0], -7.0, 7.0)),
        (wy.gradient(x[:, :2], axis=1), np.gradient(X[:, :2], axis=1)),
        *zip(wy.gradient(x, 2.0, 0.5, axis=(2, 0), edge_order=2), np.gradient(X, 2.0, 0.5, axis=(2, 0), edge_order=2),
             strict=True),
        (wy.gradient(x, np.array([0.0, 1.0, 3.0, 3.5]), axis=1, edge_order=2),
         np.gradient(X, np.array([0.0, 1.0, 3.0, 3.5]), axis=1, edge_order=2)),
        *((wy.convolve(X[0, 0], wy.Parameter(X[0, :n, 0]), mode), np.convolve(X[0, 0], X[0, :n, 0], mode))
          for n in (1, 2, 3, 4) for mode in ("full", "same", "valid")),
        *((wy.correlate(wy.Parameter(X[0, :n, 0]), X[0, 0], mode), np.correlate(X[0, :n, 0], X[0, 0], mode))
          for n in (1, 2, 3, 4) for mode in ("full", "same", "valid")),
    ])  # fmt: skip


def test_names_of_axes_stay_where_the_shape_does() -> None:
    dims = (Batch(2), Time(3))
    x: Any = wy.Input(np.arange(6.0).reshape(2, 3), dims=dims)
    for node in (
        x.cumsum(1), x.cumprod(0), x.sort(), x.argsort(), wy.flip(x), wy.roll(x, 1, 1), wy.roll(x, 1), wy.tril(x),
        x.at[0].set(1.0), wy.diff(x, 0),
    ):  # fmt: skip
        assert node.dims == dims


def test_axes_whose_size_data_decides() -> None:
    x: Any = wy.Input(dims=(Batch(), 3), dtype=np.float64)
    nodes = [
        x.cumsum(0), x.cumprod(0), x.sort(0), wy.flip(x), wy.grad((x.cumprod(0) * wy.flip(x, 0)).sum(), x),
        wy.median(x, 1), wy.pad(x, ((0, 0), (1, 1)), "edge"),
    ]  # fmt: skip
    program = wy.compile(nodes)
    for size in (4, 2):
        data = X[0, :size, :3]
        x.set(data)
        found = program({x: data})
        for have, want in zip(found, wy.run(nodes), strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-12)
        np.testing.assert_allclose(found[1], np.cumprod(data, 0))
    for call in (lambda: wy.roll(x, 1, 0), lambda: wy.median(x, 0), lambda: x.repeat(2, 0), lambda: wy.tile(x, (2, 1))):
        with pytest.raises(ShapeError, match=r"decides the size of axis 0, Batch\(\); give it a size"):
            call()


@pytest.mark.parametrize(
    ("call", "error", "reason"),
    [
        (lambda x: wy.rot90(x, axes=(0, 3)), ShapeError, "axis 3"),
        (lambda x: wy.rot90(x, axes=(1, -2)), ShapeError, r"axes must name two axes, not \(1, -2\)"),
        (lambda x: wy.fliplr(x[0, 0]), ShapeError, "fliplr: .* has fewer than 2 axes"),
        (lambda x: wy.moveaxis(x, (0, 1), 0), ShapeError, "as many different axes"),
        (lambda x: wy.rollaxis(x, 0, 4), ShapeError, "start must be from -3 to 3, not 4"),
        (lambda x: wy.tile(x, -1), ShapeError, "reps must be at least 0"),
        (lambda x: x.repeat([1, 2], 1), ShapeError, "2 counts for an axis of 4 elements"),
        (lambda x: x.repeat(-1), ShapeError, "counts of at least 0, not -1"),
        (lambda x: x[0, 0].diagonal(), ShapeError, "has fewer than two axes"),
        (lambda x: x.diagonal(0, 1, 1), ShapeError, "axis1 and axis2 are both axis 1"),
        (lambda x: wy.diag(x), ShapeError, "must have one axis or two"),
        (lambda x: wy.vander(x), ShapeError, "must have one axis"),
        (lambda x: wy.tril(x[0, 0, 0]), ShapeError, "has no axes"),
        (lambda x: wy.hstack(wy.Constant(1.0)), TypeError, "is a scalar and has no rows to iterate over"),
        (lambda x: wy.vstack([]), ShapeError, "takes at least one array"),
        (lambda x: wy.block([[x], x]), ShapeError, "at the same depth of lists"),
        (lambda x: wy.block([]), ShapeError, "must not be empty"),
        (lambda x: wy.array_split(x, 0), ShapeError, "sections must be at least 1, not 0"),
        (lambda x: wy.vsplit(x[0, 0], 1), ShapeError, "vsplit: .* has fewer than 2 axes"),
        (lambda x: wy.pad(x, -1), ShapeError, "widths must be integers of at least 0"),
        (lambda x: wy.pad(x, ((1, 2), (3, 4))), ShapeError, r"widths of shape \(2, 2\) for 3 axes"),
        (lambda x: wy.pad(x, 1, UNKNOWN), TypeError, "mode must be 'constant'"),
        (lambda x: wy.pad(x[:0], 1, "edge"), ShapeError, "axis 0 has no elements to repeat"),
        (lambda x: wy.quantile(x, 1.5), ValueError, "range"),
        (lambda x: wy.quantile(x, 0.5, method="best"), ValueError, "best"),
        (lambda x: wy.median(x[:0], 0), ShapeError, "no value over an axis of size 0"),
        (lambda x: wy.searchsorted(x, 1.0), ShapeError, "must have one axis"),
        (lambda x: wy.meshgrid(x), ShapeError, "coordinates must have one axis, not 3"),
        (lambda x: wy.diff(x[0, 0, 0]), ShapeError, "has no axes"),
        (lambda x: wy.diff(x, -1), ValueError, "n must be at least 0"),
        (lambda x: wy.gradient(x, 1.0, 2.0), ShapeError, "2 spacings for 3 axes"),
        (lambda x: wy.gradient(x, np.ones(3), axis=1), ShapeError, r"\(3,\) coordinates for axis 1 of 4 elements"),
        (lambda x: wy.gradient(x, np.ones(4, bool), axis=1), DTypeError, "axis 1 must be numbers, not a mask"),
        (lambda x: wy.gradient(x[:1]), ShapeError, "axis 0 needs 2 elements or more, not 1"),
        (lambda x: wy.trapezoid(x[0, 0, 0]), ShapeError, "has no axes"),
        (lambda x: wy.interp(1.0, x[0, 0], x[0, :, 0]), ShapeError, "one axis of the same size"),
        (lambda x: wy.cov(x), ShapeError, "has more than two axes"),
        (lambda x: wy.cov(x[0, :, :1]), ShapeError, "too few to divide by 0"),
        (lambda x: wy.convolve(x, x), ShapeError, "must have one axis, with elements"),
        (lambda x: wy.convolve(x[0, 0], x[0, 0], UNKNOWN), ValueError, "mode must be"),
        (lambda x: wy.compress(x > 0, x), TypeError, "the shape would depend on the data"),
        (lambda x: wy.compress(np.ones(9, bool), x, 0), ShapeError, "a condition of 9 elements for 3 along axis 0"),
        (lambda x: wy.extract(np.ones(9, bool), x), ShapeError, r"a condition of shape \(9,\)"),
        (lambda x: wy.cumulative_sum(x), ShapeError, "has 3 axes: pass the axis"),
        (lambda x: (x > 0).cumsum(), wy.errors.DTypeError, "is bool; convert it"),
    ],
)
def test_errors(call: Callable[[Any], Any], error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        call(wy.Parameter(X))
