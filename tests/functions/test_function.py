"""`wyrm.function`: tracing, evaluation and error messages."""

from __future__ import annotations

import gc
import importlib
import tracemalloc
import weakref
from dataclasses import dataclass
from typing import Any, NamedTuple, assert_type

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, IndexOutOfRange, NotDifferentiable, NotSet, ShapeError, UnusedParameter

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.standard_normal((4, 3)), RANDOM.standard_normal(3)


@pytest.fixture(params=["reference", "native"])
def engine(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_values_and_gradients_are_jaxs_to_second_order(engine: Any) -> None:
    @wy.function(engine=engine)
    def mine(x: Any, y: Any) -> Any:
        return ((x * y).tanh().sum(axis=1) * (y * y).sum()).sum()

    def theirs(x: Any, y: Any) -> Any:
        return (jnp.tanh(x * y).sum(axis=1) * (y * y).sum()).sum()

    with jax.enable_x64(True):
        np.testing.assert_allclose(mine(X, Y), theirs(X, Y), rtol=1e-12)
        by_both = jax.grad(theirs, (0, 1))(X, Y)
        for found, expected in zip(mine.grad((0, "y"))(X, Y), by_both, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12)
        second = jax.grad(lambda x, y: (jax.grad(theirs, 1)(x, y) ** 2).sum())(X, Y)
    by_y = mine.grad(wrt="y")
    norm = wy.function(lambda x, y: (by_y(x, y) ** 2.0).sum(), engine=engine)
    np.testing.assert_allclose(norm.grad()(X, Y), second, rtol=1e-12)
    value, gradient = mine.value_and_grad()(X, Y)
    np.testing.assert_allclose(value, mine(X, Y), rtol=1e-12)
    np.testing.assert_allclose(gradient, mine.grad()(X, Y), rtol=1e-12)


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Weights:
    matrix: Any
    rest: dict[str, Any]


def test_containers_go_in_and_come_out(engine: Any) -> None:
    @wy.function(engine=engine)
    def function(weights: Weights, pair: Pair, nothing: None, numbers: list[Any]) -> Any:
        product = pair.first @ weights.matrix * weights.rest["scale"]
        return {"sum": product.sum() + numbers[0], "all": Pair(product, (numbers[1], nothing)), "plain": 2.0}

    weights = Weights(X, {"scale": 3.0})
    found = function(weights, Pair(X.T, 0.5), None, [1.0, 2.0])
    np.testing.assert_allclose(found["all"].first, X.T @ X * 3.0)
    np.testing.assert_allclose(found["sum"], (X.T @ X * 3.0).sum() + 1.0)
    assert found["all"].second == (2.0, None) and found["plain"] == 2.0
    total = wy.function(lambda *arguments: function.function(*arguments)["sum"], engine=engine)
    gradient = total.grad()(weights, Pair(X.T, 0.5), None, [1.0, 2.0])
    assert isinstance(gradient, Weights) and gradient.matrix.shape == (4, 3)
    np.testing.assert_allclose(gradient.rest["scale"], (X.T @ X).sum())
    by_pair = total.grad(1)(weights, Pair(X.T, 0.5), None, [1.0, 2.0])
    assert by_pair.second == 0.0 and by_pair.first.shape == (3, 4)


def test_it_is_traced_once_for_each_kind_of_arguments() -> None:
    traced: list[tuple[int, ...]] = []

    @wy.function
    def power(x: Any, *, exponent: int = 1) -> Any:
        traced.append((*x.shape, exponent))
        result = x
        for _ in range(exponent - 1):  # static, so it unrolls
            result = result * x
        return result

    assert power(2.0) == 2.0 and power(3.0) == 3.0 and power(np.float32(4.0)) == 4.0
    assert power(X[0]).tolist() == X[0].tolist()
    assert power(2.0, exponent=3) == 8.0 == power(2.0, exponent=3)
    assert traced == [(1,), (3, 1), (3,)]


def test_types_survive_the_decorator() -> None:
    @wy.function
    def double(x: float, name: str = "") -> float:
        return x * 2.0

    assert_type(double(2.0), float)
    value, _ = double.value_and_grad()(2.0, name="two")
    assert_type(value, float)
    assert double.__name__ == "double"


def test_dtypes_are_those_of_the_arrays() -> None:
    double = wy.function(lambda x, y: x * y)
    assert double(X.astype(np.float32), 2.0).dtype == np.float32
    assert double(X, 2.0).dtype == np.float64
    assert double(2.0, 3).dtype == np.float32
    chosen: Any = wy.function(lambda mask: wy.where(mask, 1.0, 0.0))(X > 0)
    assert chosen.tolist() == (X > 0).astype(float).tolist()


def test_integers_choose_and_are_checked_on_every_call(engine: Any) -> None:
    rows = wy.function(lambda x, indices: x.take(indices, axis=0), engine=engine)
    assert (rows(X, np.array([2, 0])) == X[[2, 0]]).all()
    with pytest.raises(IndexOutOfRange, match=r"indices.*holds 4 at position \(1,\)"):
        rows(X, np.array([2, 4]))
    with pytest.raises(NotDifferentiable, match=r"with dtype int64, which has no gradient"):
        wy.function(lambda x, indices: x.take(indices, axis=0).sum()).grad("indices")(X, np.array([2, 0]))


def test_integers_too_large_for_int64_do_not_become_negative(engine: Any) -> None:
    is_minus_one = wy.function(lambda i: wy.where(i == -1, 1.0, 0.0), engine=engine)
    with pytest.raises(DTypeError, match=r"takes integers up to 2\*\*63 - 1"):
        is_minus_one(np.array([2**64 - 1, 1], np.uint64))


def test_of_nodes_it_gives_nodes_and_parameters_are_read_anew(engine: Any) -> None:
    parameter = wy.Parameter(Y, name="weights")
    product = wy.function(lambda x: (x * parameter).sum(), engine=engine)
    assert isinstance(product(wy.Constant(X)), wy.Node)
    before = product(X)
    parameter.set(2.0 * Y)
    np.testing.assert_allclose(product(X), 2.0 * before)
    with pytest.raises(UnusedParameter):
        wy.function(lambda x, y: x * 2.0).grad(1, allow_unused=False)(1.0, 2.0)
    assert wy.function(lambda x, y: x * 2.0).grad(1)(1.0, 2.0) == 0.0
    assert wy.function(lambda x, y: x * 2.0).trace(1.0, 2.0).unused == ["y"]


def test_graph_and_source_are_those_of_the_last_call() -> None:
    function = wy.function(lambda x: (x * x).sum())
    with pytest.raises(NotSet, match="has not been called yet"):
        assert function.graph
    function(X)
    assert "multiply(x, x)" in function.graph and "(4, 3) float64" in function.graph
    assert "def run(" in function.source


def test_random_nodes_draw_anew_on_each_call(engine: Any) -> None:
    dropped = wy.function(lambda x: x.dropout(0.5), engine=engine)
    first, second = (dropped(np.ones(1000)) for _ in range(2))
    assert set(first.tolist()) == {0.0, 2.0} and (first != second).any()


def test_the_traces_and_arrays_that_are_kept_are_bounded(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("wyrm.functions.function")
    monkeypatch.setattr(module, "KEPT_BYTES", 2 * 2 * 4_000_000)
    monkeypatch.setattr(module, "_KEPT_TRACES", 4)
    traced = []

    @wy.function(engine=engine)
    def double(x: Any, *, by: float) -> Any:
        node = x * by
        traced.append(weakref.ref(node))
        return node

    one, kinds = np.ones(1_000_000), 6
    tracemalloc.start()
    for i in range(kinds):
        assert (double(one, by=float(i)) == i).all()
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    # Two traces keep arrays: one for the argument, and one for the result or the plan's copy of the argument.
    assert held < 3 * 2 * one.nbytes
    assert [node() is None for node in traced] == [True] * 2 + [False] * 4
    # A trace without arrays allocates them again; an evicted trace is traced again.
    assert (double(one, by=2.0) == 2.0).all() and len(traced) == kinds
    assert (double(one, by=0.0) == 0.0).all() and len(traced) == kinds + 1


def test_many_shapes_hold_few_bytes(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("wyrm.functions.function")
    monkeypatch.setattr(module, "KEPT_BYTES", 1_000_000)
    slope = wy.function(lambda x: (x.tanh() * x.exp()).sum(), engine=engine).grad()
    tracemalloc.start()
    for i in range(20):
        slope(np.ones(10_000 + i))  # each array takes 80 kB
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 1_500_000  # 7 MB were held, 16 times 5 arrays


def test_arrays_of_a_graph_that_a_function_shares_stay() -> None:
    """Only arrays that nothing else uses are freed."""
    shared = wy.Parameter(Y).exp()
    value = shared.forward()
    scaled = wy.function(lambda x: x * shared)
    for size in range(1, 40):
        scaled(np.ones((size, 3)))
    np.testing.assert_array_equal(shared.value, value)
    np.testing.assert_allclose(scaled(np.ones((1, 3))), value[None])


def test_a_function_calls_itself_while_it_is_traced() -> None:
    @wy.function
    def power(x: Any, *, exponent: int) -> Any:
        return x if exponent == 1 else x * float(power(2.0, exponent=exponent - 1))

    assert power(2.0, exponent=5) == 32.0


kept: list[Any] = []


def test_mistakes_are_told() -> None:
    plain = wy.function(lambda x: x * 2.0)
    with pytest.raises(DTypeError, match=r"argument 0 of .* is 'text', a str.*pass static arguments by keyword"):
        plain("text")
    with pytest.raises(DTypeError, match=r"x\[1\] has dtype complex128"):
        wy.function(lambda x: x[0])((1.0, np.array([1j])))
    with pytest.raises(DTypeError, match="must be hashable"):
        wy.function(lambda x, *, y: x)(1.0, y=[1.0])
    with pytest.raises(ShapeError, match=r"needs a scalar result, not .*wy\.vjp or wy\.jacobian"):
        plain.grad()(X)
    with pytest.raises(ValueError, match="has no argument 'z'; its arguments are x"):
        plain.grad("z")(1.0)
    with pytest.raises(ValueError, match="called with 1 arguments, so wrt=3 is out of range"):
        plain.grad(3)(1.0)
    with pytest.raises(TypeError, match="has no truth value"):
        wy.function(lambda x: x if x > 0 else -x)(1.0)
    with pytest.raises(ValueError, match="engine must be"):
        wy.function(abs, engine="fast")
    wy.function(lambda x: kept.append(x))(1.0)
    with pytest.raises(ShapeError, match=r"x .*is an argument of another call"):
        wy.function(lambda y: y * kept[0])(1.0)


def test_static_arguments_are_the_same_where_their_types_and_bits_are() -> None:
    @wy.function
    def quotient(x: Any, by: Any = 1.0) -> Any:
        return x / (1.0 * wy.Constant(by)) if by is not True else x + 10.0

    with np.errstate(divide="ignore"):
        assert [float(quotient(1.0, by=by)) for by in (0.0, -0.0, 1, True, 1.0)] == [np.inf, -np.inf, 1.0, 11.0, 1.0]
