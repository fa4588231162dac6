"""Numbers of native code: arithmetic in the written order, accurate sums, errors for reductions over nothing."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wyrm as wy
from tests.pytorch import torch
from wyrm.errors import ShapeError
from wyrm.ops.kernels.sums import summed
from wyrm.ops.products.einsum import Einsum
from wyrm.ops.products.product import MatMul

pytestmark = pytest.mark.optimized

LARGE = 12582912.0  # 1.5 * 2**23: adding and subtracting it rounds a float32 number to an integer


class Rows(wy.Dim): ...


class Columns(wy.Dim): ...


def error(found: Any, exact: Any) -> float:
    """Return the largest relative error."""
    return float(np.max(np.abs(np.asarray(found, np.float64) / exact - 1.0)))


# --- arithmetic in the written order ----------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", ["compiled", "python"])
def test_arithmetic_has_the_bits_of_numpy(loop: Any) -> None:
    random = np.random.default_rng(0)
    a, b = (random.normal(size=(7, 50)).astype(np.float32) * 100.0 for _ in range(2))
    x, y = wy.Input(a), wy.Input(b)
    nodes = {
        "rounded": (x + LARGE) - LARGE,
        "what rounding takes": x - ((x + LARGE) - LARGE),
        "distance of squares": x * x - y * y,
        "one product less itself": x * y - (x * y + x * 0.0),
        "a chain of sums": ((x + y) + 1e6) - (x + 1e6) - y,
        "a split number": (x * 4097.0) - ((x * 4097.0) - x),
        "a quotient": x / 3.0 * 3.0 - x,
        "the sign of zero": -(x * 0.0) + 0.0 * y,
        "the function sign of both zeros": (x * 0.0).sign(),
        "in a sum": ((x + LARGE) - LARGE).sum(),
    }
    found = wy.compile(list(nodes.values()), loop=loop)()
    for (name, node), have in zip(nodes.items(), found, strict=True):
        expected = node.forward()
        np.testing.assert_array_equal(have, expected, err_msg=name)
        np.testing.assert_array_equal(np.signbit(have), np.signbit(expected), err_msg=name)
    np.testing.assert_array_equal(nodes["rounded"].forward(), np.round(a))


class Compensated(wy.Node[Any, Any]):
    """The sum of a vector by Kahan's algorithm, which depends on the order of its additions."""

    __slots__ = ()

    def __init__(self, x: Any) -> None:
        super().__init__(x)

    def shape_rule(self) -> Any:
        return ()

    def dtype_rule(self) -> np.dtype[Any]:
        return np.dtype(np.float32)

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        return xp.asarray(xp.sum(operands[0], dtype=xp.float64), dtype=xp.float32)

    def vjp(self, gradient: Any) -> Any:
        return (gradient.broadcast_to(self.parents[0].dims),)


@wy.LOOPS.register(Compensated)
class CompensatedLoops(wy.LoopForm):
    @staticmethod
    def kernel(x: Any, out: Any) -> None:
        total = lost = np.float32(0.0)
        for j in range(x.size):
            term = x[j] - lost
            larger = total + term
            lost = (larger - total) - term
            total = larger
        out[0] = total

    def kernel_arguments(self, node: Any, operands: Any, out: Any) -> Any:
        return operands[0], out.reshape(1)


def test_a_kernel_of_ones_own_keeps_the_order_that_it_is_written_in() -> None:
    numbers = np.full(100_000, 0.1, np.float32)
    found = wy.compile(Compensated(wy.Constant(numbers)))()
    assert error(found, np.sum(numbers, dtype=np.float64)) < 1e-7


# --- sums -------------------------------------------------------------------------------------------------------------

TALL = np.full((300_000, 3), 0.1, np.float32)
WIDE = np.ascontiguousarray(TALL.T)
TENTH = float(np.float32(0.1))


def test_long_sums_keep_their_digits_in_both_engines() -> None:
    count = len(TALL)
    tall = wy.Input(dims=(Rows(), Columns()), name="tall")
    wide = wy.Input(dims=(Columns(), Rows()), name="wide")
    one = wy.Parameter(np.ones(3, np.float32), dims=(Columns(3),))
    nodes: dict[str, tuple[Any, Any]] = {
        "leading axis": (tall.sum(0), TENTH * count),
        "last axis": (wide.sum(-1), TENTH * count),
        "all": (tall.sum(), TENTH * count * 3),
        "mean of the leading axis": (tall.mean(0), TENTH),
        "mean of the last axis": (wide.mean(-1), TENTH),
        "exponentials": (wide.exp().sum(-1), np.exp(TENTH) * count),
        "exponentials of the leading axis": (tall.exp().sum(0), np.exp(TENTH) * count),
        "sum of exponentials": (wide.logsumexp(-1), TENTH + np.log(count)),
        "squares": (tall.square().sum(0).sqrt(), TENTH * np.sqrt(count)),
        "dots of rows": (wide.vector_dot(wide), TENTH**2 * count),
        "a matrix and a vector": (wide @ tall[:, 0], TENTH**2 * count),
        "two vectors": (wide[0] @ tall[:, 0], TENTH**2 * count),
        "two strided vectors": (tall[:, 1] @ tall[:, 0], TENTH**2 * count),
        "letters": (wy.einsum("ij,kj->ik", wide, wide), TENTH**2 * count),
        "a gradient": (wy.grad((tall * one).sum(), one), TENTH * count),
    }
    tall.set(TALL)
    wide.set(WIDE)
    native = wy.compile([node for node, _ in nodes.values()])({tall: TALL, wide: WIDE})
    for (name, (node, exact)), found in zip(nodes.items(), native, strict=True):
        # BLAS sums in its own way: error 1.3e-5 where one thread adds up a whole row.
        most = 2e-5 if isinstance(node, MatMul | Einsum) else 6e-6
        assert error(found, exact) < most, name
        assert error(node.forward(), exact) < most, name


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [2, 4, 5, 7])
def test_sums_of_a_few_large_numbers_are_finite_where_numpys_are(dtype: Any, count: int) -> None:
    """In NumPy's order, which is sequential for fewer than eight numbers; any other may leave the range."""
    random, largest = np.random.default_rng(count), np.finfo(dtype).max
    rows = np.stack([largest * random.choice([0.9, -0.9, 0.3, -0.3, 0.6, -0.6], count) for _ in range(200)])
    rows[0, : min(count, 4)] = [1e38, -1e38, 3e38, 1.0][:count]
    rows = rows.astype(dtype)
    x, y = wy.Input(rows[:, None]), wy.Input(np.ascontiguousarray(rows.T))
    ones = np.ones((1, count), dtype)
    nodes: list[Any] = [x.sum(axis=-1), x.mean(axis=-1), x.vector_dot(ones), x.sum(axis=(1, 2)), y.sum(axis=0)]
    with np.errstate(over="ignore", invalid="ignore"):
        expected = np.array([[np.add.reduce(row)] for row in rows])
    finite = np.isfinite(expected).ravel()
    assert finite.sum() > 10
    for node, found in zip(nodes, wy.compile(nodes)(), strict=True):
        assert np.isfinite(found.reshape(-1)[finite]).all(), node.op_name()
        factor = count if node.op_name() == "mean" else 1
        wanted, rounding = expected[finite, 0] / factor, 1e-6 * largest  # of the largest partial sum
        np.testing.assert_allclose(found.reshape(-1)[finite], wanted, rtol=1e-5, atol=rounding)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_many_numbers_are_finite_within_the_bound_of_their_docstring(dtype: Any) -> None:
    """The sum of the absolute values is in range; all numbers but one are at its edge."""
    x = np.full(700, np.finfo(dtype).max / 701.0, dtype) * np.where(np.arange(700) % 3, -1.0, 1.0).astype(dtype)
    nodes: list[Any] = [wy.Input(x[:count]).sum() for count in (8, 9, 33, 512, 700)]
    for node, found in zip(nodes, wy.compile(nodes)(), strict=True):
        np.testing.assert_allclose(found, node.forward(), rtol=1e-5)


def test_the_spread_of_many_numbers() -> None:
    random = np.random.default_rng(1)
    data = (random.random((200_000, 2)) + 1.0).astype(np.float32)
    exact = data.astype(np.float64).var(0)
    x = wy.Input(data)
    for node, wanted in ((x.var(0), exact), (x.T.var(-1), exact), (x.var(), data.astype(np.float64).var())):
        assert error(node.forward(), wanted) < 2e-6
        assert error(wy.compile(node)(), wanted) < 2e-6


def test_parts_of_sums_in_every_layout() -> None:
    random = np.random.default_rng(2)
    data = (random.random((300, 5, 260)) + 1.0).astype(np.float32)
    for array in (data, data.transpose(2, 0, 1), data[::-1, :, ::2], data[:0], data[:1]):
        for axis in [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]:
            for keepdims in (False, True):
                found = summed(np, array, axis, keepdims)
                exact = np.sum(array, axis=axis, keepdims=keepdims, dtype=np.float64)
                assert found.dtype == np.float32
                np.testing.assert_allclose(found, exact, rtol=5e-7)


def test_native_sums_over_any_axes() -> None:
    random = np.random.default_rng(3)
    data = (random.random((600, 5, 70)) + 1.0).astype(np.float32)

    class Inner(wy.Dim): ...

    x = wy.Input(dims=(Rows(), Columns(), Inner()), name="x")
    axes = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    kept = [True, False] * 4
    nodes = [f(axis, keep) for axis, keep in zip(axes, kept, strict=False) for f in (x.sum, x.mean)]
    for rows in (600, 1, 0):
        found = wy.compile([node for node in nodes if rows or "sum" in node.op_name()])({x: data[:rows]})
        wanted = [
            f(data[:rows], axis=axis, keepdims=keep, dtype=np.float64)
            for axis, keep in zip(axes, kept, strict=False)
            for f in ((np.sum, np.mean) if rows else (np.sum,))
        ]
        for have, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(have, want, rtol=5e-7)


# --- large logits -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e4, 1e6, 1e8])
def test_shares_of_large_logits(size: float) -> None:
    step = float(np.spacing(np.float32(size)))
    logits = (size + step * np.arange(-3.0, 3.0) / max(1.0, step / 2)).astype(np.float32)
    x, labels = wy.Parameter(logits.reshape(2, 3)), np.array([0, 2])
    weights = np.array([[1.0, 2.0, 3.0], [0.5, 0.0, -1.0]], np.float32)

    def by_jax(f: Any) -> Any:
        return jax.jit(jax.value_and_grad(f))(jnp.asarray(logits.reshape(2, 3)))

    identity = wy.Constant(np.eye(3, dtype=np.float32))
    losses: list[tuple[Any, Any]] = [
        (x.logsumexp(-1).sum(), by_jax(lambda z: jax.nn.logsumexp(z, axis=-1).sum())),
        (x.logsumexp(), by_jax(jax.nn.logsumexp)),
        ((x.softmax() * weights).sum(), by_jax(lambda z: (jax.nn.softmax(z) * weights).sum())),
        ((x.log_softmax() * weights).sum(), by_jax(lambda z: (jax.nn.log_softmax(z) * weights).sum())),
        (x.cross_entropy(labels), by_jax(lambda z: -jax.nn.log_softmax(z)[np.arange(2), labels].mean())),
        (
            wy.linear_cross_entropy(x, identity, labels),
            by_jax(lambda z: -jax.nn.log_softmax(z)[np.arange(2), labels].mean()),
        ),
        (
            wy.linear_cross_entropy(x, identity, labels, label_smoothing=0.1),
            by_jax(lambda z: -(jax.nn.log_softmax(z) * (0.9 * jax.nn.one_hot(labels, 3) + 0.1 / 3)).sum(-1).mean()),
        ),
    ]
    gradients = [wy.grad(loss, x) for loss, _ in losses]
    native = wy.compile([loss for loss, _ in losses] + gradients)()
    for (loss, (value, slope)), gradient, have, have_slope in zip(
        losses, gradients, native[: len(losses)], native[len(losses) :], strict=True
    ):
        for found in (have, loss.forward()):
            np.testing.assert_allclose(found, value, rtol=2e-6, atol=1e-6)
        for found in (have_slope, gradient.forward()):
            np.testing.assert_allclose(found, slope, atol=2e-6)


def test_the_loss_of_many_equal_logits() -> None:
    x, weight = wy.Parameter(np.ones((1, 1), np.float32)), wy.Parameter(np.full((100_003, 1), 1e5, np.float32))
    loss = wy.linear_cross_entropy(x, weight, np.array([7]))
    assert error(wy.compile(loss)(), np.log(100_003)) < 2e-7
    assert error(loss.forward(), np.log(100_003)) < 2e-7


def test_a_class_that_cannot_be_costs_nothing_where_it_is_not_meant() -> None:
    logits = np.array([[0.0, 1.0, -np.inf]], np.float32)
    x = wy.Input(np.array([[1.0]], np.float32))
    weight = wy.Input(logits.T.copy(), finite=False)
    loss = wy.linear_cross_entropy(x, weight, np.array([1]))
    expected = torch.nn.functional.cross_entropy(torch.tensor(logits), torch.tensor([1])).item()
    assert error(loss.forward(), expected) < 1e-6
    assert error(wy.compile(loss)(), expected) < 1e-6


# --- empty operands ---------------------------------------------------------------------------------------------------


def test_reductions_over_nothing_are_refused_before_anything_moves() -> None:
    x, labels = wy.Input(dims=(Rows(), 3), name="x"), wy.IndexInput(dims=(Rows(),), name="labels")
    nothing = {x: np.zeros((0, 3), np.float32)}
    slope = wy.Parameter(np.ones(3, np.float32))
    refused: list[Any] = [x.max(0), x.min(), x.mean(0), x.argmax(0), x.logsumexp(0), x.var(0), wy.grad(x.max(), x)]
    for node in refused:
        program = wy.compile(node)
        with pytest.raises(ShapeError, match=r"no value over an axis of size 0, which the data of this run has"):
            program(nothing)
        x.set(nothing[x])
        with pytest.raises(ShapeError, match=r"no value over an axis of size 0, which the data of this run has"):
            node.forward()
    with pytest.raises(ShapeError, match=r"divides by n - ddof, which must be above 0 but is 1 - 1"):
        wy.compile(x.var(0, ddof=1))({x: np.ones((1, 3), np.float32)})
    with pytest.raises(ShapeError, match="no mean over an axis of size 0"):
        wy.compile((x * slope).cross_entropy(labels))({**nothing, labels: np.zeros(0, np.int64)})
    train = wy.compile((x * slope).mean(), wy.optim.SGD([slope], 1.0))
    with pytest.raises(ShapeError, match="no value over an axis of size 0"):
        train(nothing)
    assert slope.value.tolist() == [1.0, 1.0, 1.0]
    softmax, total = wy.compile([x.softmax(0), x.sum(0)])(nothing)
    assert softmax.shape == (0, 3) and total.tolist() == [0.0, 0.0, 0.0]
