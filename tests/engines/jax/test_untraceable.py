"""Ops whose code JAX cannot trace: calls of NumPy with a warning, and errors that name the op and what to register."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import RegistrationError, WyrmError
from wyrm.graph import REGISTRY


class _User(wy.Unary, abstract=True):
    __slots__ = ()

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient,)


def op(name: str, evaluate: Any) -> Any:
    return type(name, (_User,), {"__slots__": (), "__module__": __name__, "evaluate": evaluate})


def converts(self: Any, xp: Any, x: Any, *, shape: Any) -> Any:
    return np.sort(np.asarray(x))


def writes(self: Any, xp: Any, x: Any, *, shape: Any) -> Any:
    x[0] = 1.0
    return x


def branches(self: Any, xp: Any, x: Any, *, shape: Any) -> Any:
    return x if x.sum() > 0.0 else -x


def selects(self: Any, xp: Any, x: Any, *, shape: Any) -> Any:
    return xp.sum(x[x > 0.0]) + x


def refuses(self: Any, xp: Any, x: Any, *, shape: Any) -> Any:
    raise wy.errors.DTypeError("an error of its own")


@pytest.fixture(autouse=True)
def unchanged_registry() -> Any:
    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


def finds(self: Any, xp: Any, x: Any, *, shape: Any) -> Any:
    if not isinstance(x, np.ndarray):
        raise ValueError("a library that takes arrays of NumPy alone")
    return np.sort(x)


X = np.array([3.0, 1.0, 2.0])
CASES: dict[str, tuple[Any, list[float]]] = {
    "converts": (converts, [1.0, 2.0, 3.0]), "writes": (writes, [1.0, 1.0, 2.0]),
    "branches": (branches, [3.0, 1.0, 2.0]), "selects": (selects, [9.0, 7.0, 8.0]), "finds": (finds, [1.0, 2.0, 3.0]),
}  # fmt: skip
WARNING = r"(?s)JAX cannot trace op Untraceable: its `evaluate`.*@wy\.JAX\.register\(Untraceable\)"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES)
def test_an_evaluate_that_needs_arrays_is_called_with_one_warning(case: str, dtype: Any) -> None:
    evaluate, expected = CASES[case]
    x = wy.Parameter(X.astype(dtype), name="x")
    node = op("Untraceable", evaluate)(x)
    with pytest.warns(RuntimeWarning, match=WARNING) as warned:
        (value,) = wy.compile([node * 2.0], engine="jax")()
        (again,) = wy.compile([node + 1.0], engine="jax")()
    assert len(warned) == 1
    assert value.dtype == dtype and value.tolist() == [2.0 * each for each in expected]
    assert again.tolist() == [each + 1.0 for each in expected]
    wy.compile(node.sum(), wy.optim.SGD([x], 1.0), engine="jax")()
    assert x.value.tolist() == [2.0, 0.0, 1.0]


def test_functions_of_jax_have_the_gradient_of_the_vjp() -> None:
    import jax

    class Cubed(_User):
        def evaluate(self, xp: Any, *operands: Any, shape: Any) -> Any:
            return np.power(np.asarray(operands[0]), 3)

        def vjp(self, gradient: Any) -> tuple[Any, ...]:
            (x,) = self.parents
            return (gradient * 3.0 * Squared(x),)

    class Squared(_User):
        def evaluate(self, xp: Any, *operands: Any, shape: Any) -> Any:
            return np.square(np.asarray(operands[0]))

        def vjp(self, gradient: Any) -> tuple[Any, ...]:
            return (gradient * 2.0 * self.parents[0],)

    x = wy.Parameter(np.array([1.0, 2.0], np.float32), name="x")
    function, parameters = wy.jax.lower(Cubed(x).sum())
    with pytest.warns(RuntimeWarning, match="JAX cannot trace op"):
        value, gradients = jax.jit(jax.value_and_grad(function))(parameters)
        second = jax.grad(lambda p: jax.grad(function)(p)["x"].sum())(parameters)
        many = jax.jit(jax.vmap(function))({"x": np.array([[1.0, 2.0], [3.0, 0.0]], np.float32)})
    assert float(value) == 9.0 and gradients["x"].tolist() == [3.0, 12.0]
    assert second["x"].tolist() == [6.0, 12.0] and many.tolist() == [9.0, 27.0]


def test_open_axes_and_integers() -> None:
    class Batch(wy.Dim): ...

    class Chosen(wy.Node[Any, Any]):
        def __init__(self, x: Any, rows: Any) -> None:
            super().__init__(x, rows)

        def shape_rule(self) -> Any:
            return self.parents[1].dims

        def dtype_rule(self) -> Any:
            return self.parents[0].dtype

        def evaluate(self, xp: Any, *operands: Any, shape: Any) -> Any:
            x, rows = map(np.asarray, operands)
            assert rows.dtype == np.int64
            return x[rows]

        def vjp(self, gradient: Any) -> tuple[Any, ...]:
            return wy.ZERO, wy.ZERO

    rows = wy.IndexInput(dims=(Batch(),), name="rows")
    program = wy.compile([Chosen(wy.Constant(X), rows)], engine="jax")
    with pytest.warns(RuntimeWarning, match="op Chosen"):
        assert program({rows: [2, 0, 0]})[0].tolist() == [2.0, 3.0, 3.0]
    assert program({rows: [1]})[0].tolist() == [1.0]


def test_a_file_has_no_numpy_to_call() -> None:
    node = op("Untraceable", converts)(wy.Input(dims=(3,), name="x"))
    with pytest.raises(RegistrationError, match=WARNING):
        wy.jax.export(node)


def test_a_form_that_needs_arrays() -> None:
    cls = op("WithForm", converts)

    @wy.JAX.register(cls)
    class WithFormForm(wy.JaxForm):
        def lower(self, node: Any, operands: Any, shape: Any, lowering: Any) -> Any:
            return np.sort(np.asarray(operands[0]))

    with pytest.raises(RegistrationError, match="JAX cannot trace op WithForm: `lower` of WithFormForm needs arrays"):
        wy.compile(cls(wy.Parameter(np.ones(3, np.float32))), engine="jax")()
    assert WithFormForm.__name__ == "WithFormForm"


def test_errors_of_an_op_itself_are_its_own() -> None:
    node = op("Refusing", refuses)(wy.Parameter(np.ones(3, np.float32)))
    with pytest.raises(WyrmError, match="an error of its own"):
        wy.compile(node, engine="jax")()


def reversed_sums(x: Any, scratch: Any, out: Any) -> None:
    """Write the sums of all elements from each one on."""
    total = x.dtype.type(0)
    for i in range(x.size - 1, -1, -1):
        total += x[i]
        scratch[0] = total
        out[i] = scratch[0]


def with_kernel(name: str, arguments: Any) -> Any:
    """An op that only NumPy evaluates, with a kernel."""

    def evaluate(self: Any, xp: Any, x: Any, *, shape: Any) -> Any:
        return np.cumsum(np.asarray(x).reshape(-1)[::-1])[::-1].reshape(shape)

    made = op(name, evaluate)
    members = {"kernel": staticmethod(reversed_sums), "kernel_arguments": arguments}
    wy.LOOPS.register(made)(type(f"_{name}Loops", (wy.LoopForm,), members))
    return made


def test_an_op_is_computed_by_its_kernel() -> None:
    def arguments(self: Any, node: Any, operands: Any, out: Any) -> Any:
        return operands[0].reshape(-1), np.empty(1, out.dtype), out.reshape(-1)

    made = with_kernel("ReversedSums", arguments)
    x = wy.Parameter(np.arange(6.0, dtype=np.float32).reshape(2, 3))
    node = made(x)
    expected = node.forward()
    function, parameters = wy.jax.lower(node.sum() * 2.0)
    np.testing.assert_array_equal(jax.jit(function)(parameters), 2.0 * expected.sum())
    assert "callback" not in str(jax.make_jaxpr(function)(parameters))
    (slope,) = jax.grad(lambda given: function(given))(parameters).values()
    np.testing.assert_array_equal(slope, np.full((2, 3), 2.0))  # that of its `vjp`


def test_an_op_whose_kernel_takes_arrays_of_numpy_alone_is_called_on_the_host() -> None:
    def arguments(self: Any, node: Any, operands: Any, out: Any) -> Any:
        return np.asarray(operands[0]).reshape(-1), np.empty(1, out.dtype), out.reshape(-1)

    node = with_kernel("OtherSums", arguments)(wy.Parameter(np.ones(3, np.float32)))
    function, parameters = wy.jax.lower(node)
    with pytest.warns(RuntimeWarning, match="on the host"):
        np.testing.assert_array_equal(jax.jit(function)(parameters), node.forward())
