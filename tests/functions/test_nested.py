"""Nested derivatives: each is with respect to its own arguments. JAX in float64 is the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import NotDifferentiable, NotSet, ShapeError

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.uniform(0.5, 1.5, 3), RANDOM.uniform(0.5, 1.5, 3)


class Wyrm:
    """The operations that the programs below use."""

    vjp, jvp, linearize, hvp = wy.vjp, wy.jvp, wy.linearize, wy.hvp
    jacobian, hessian, vmap, scan = wy.jacobian, wy.hessian, wy.vmap, wy.scan
    custom_vjp, custom_jvp = wy.custom_vjp, wy.custom_jvp

    @staticmethod
    def grad(function: Any, wrt: Any = 0) -> Any:
        return wy.function(function).grad(wrt)

    @staticmethod
    def value_and_grad(function: Any, wrt: Any = 0) -> Any:
        return wy.function(function).value_and_grad(wrt)

    @staticmethod
    def sin(x: Any) -> Any:
        return x.sin() if isinstance(x, wy.Node) else np.sin(x)

    @staticmethod
    def tanh(x: Any) -> Any:
        return x.tanh() if isinstance(x, wy.Node) else np.tanh(x)

    @staticmethod
    def cond(x: Any, true: Any, false: Any, *operands: Any) -> Any:
        return wy.cond(x > 0.0, true, false, *operands)


class Jax:
    """The same operations in JAX."""

    vjp, jvp, linearize, value_and_grad = jax.vjp, jax.jvp, jax.linearize, jax.value_and_grad
    jacobian, hessian, vmap, scan, grad = jax.jacobian, jax.hessian, jax.vmap, jax.lax.scan, jax.grad
    sin, tanh = jnp.sin, jnp.tanh

    @staticmethod
    def hvp(function: Any, args: Any, tangents: Any) -> Any:
        return jax.jvp(jax.grad(function, tuple(range(len(args)))), args, tangents)[1]

    @staticmethod
    def cond(x: Any, true: Any, false: Any, *operands: Any) -> Any:
        return jax.lax.cond(x > 0.0, true, false, *operands)

    @staticmethod
    def custom_vjp(function: Any) -> Any:
        made = jax.custom_vjp(function)
        made.define = made.defvjp  # wyrm's name for it
        return made

    @staticmethod
    def custom_jvp(function: Any) -> Any:
        made = jax.custom_jvp(function)
        made.define = made.defjvp
        return made


PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    # Perturbation confusion: Siskind and Pearlmutter, "Confusion of tagged perturbations" (2005), and its relatives.
    "sum inside a product": lambda d, x, y: (x * d.grad(lambda z: (x + z).sum())(y)).sum(),
    "product inside a product": lambda d, x, y: (x * d.grad(lambda z: (x * z).sum())(y)).sum(),
    "by a closed-over node": lambda d, x, y: d.grad(lambda z: (x * z * z).sum())(x).sum(),
    "by what is computed from another": lambda d, x, y: d.grad(lambda z: (x * z).sum())(x * x).sum(),
    "by what others are computed from": lambda d, x, y: (lambda t: d.grad(lambda z: (t * z).sum())(x))(x * x).sum(),
    "three deep": lambda d, x, y: (
        d.grad(lambda a: (x * d.grad(lambda b: (a * x * d.grad(lambda c: (a * b * c * x).sum())(b)).sum())(a)).sum())(x)
    ).sum(),
    # One node as several arguments.
    "a target network": lambda d, x, y: d.grad(lambda p, q, z: ((p * z).sum() - (q * z * z).sum()) ** 2)(x, x, y).sum(),
    "one node as two arguments": lambda d, x, y: (
        lambda g: (g[0] * 2.0 + g[1] * g[1]).sum()
    )(d.grad(lambda p, q: (p * p * q).sum(), (0, 1))(x, x)),
    "one node twice in a container": lambda d, x, y: (
        lambda g: (g["a"] * 3.0 + g["b"][0]).sum()
    )(d.grad(lambda p: (p["a"] * p["b"][0] ** 2).sum())({"a": x, "b": [x]})),
    "value and gradient": lambda d, x, y: (
        lambda found: found[0] * found[1].sum()
    )(d.value_and_grad(lambda p, q: (p * q * x).sum())(x, x)),
    # Every transform.
    "vjp": lambda d, x, y: sum(part.sum() for part in d.vjp(lambda p, q: d.sin(p * q * x), x, x)[1](x)),
    "vjp of a value": lambda d, x, y: (d.vjp(lambda p: p * x, x)[0] * y).sum(),
    "jvp": lambda d, x, y: d.jvp(lambda p, q: d.sin(p * x) * q, (x, x), (y, x))[1].sum(),
    "linearize": lambda d, x, y: d.linearize(lambda p: d.sin(p * x), x)[1](x).sum(),
    "hvp": lambda d, x, y: d.hvp(lambda p: (d.sin(p) * p * x).sum(), (x,), (x,))[0].sum(),
    "jacobian": lambda d, x, y: (d.jacobian(lambda p: d.sin(p * x) * x.sum())(x) * y).sum(),
    "a wide jacobian": lambda d, x, y: (d.jacobian(lambda p: (p * x).sum() * x[:2])(x) * y).sum(),
    "a tall jacobian": lambda d, x, y: (d.jacobian(lambda p: p * x[0] * y)(x[0]) * y).sum(),
    "hessian": lambda d, x, y: (d.hessian(lambda p: (d.sin(p * x) * p).sum() ** 2)(x) * y).sum(),
    "vmap": lambda d, x, y: (d.vmap(lambda r: d.grad(lambda p: p * r)(r))(x) * y).sum(),
    "vmap of a gradient": lambda d, x, y: d.vmap(d.grad(lambda p, q: p * p * q), (0, 0))(x, x).sum(),
    "vmap of a hessian": lambda d, x, y: d.vmap(
        lambda s: d.hessian(lambda p: (p * s * x).sum() ** 2)(x).sum()
    )(y).sum(),
    # Inside control flow.
    "scan": lambda d, x, y: d.scan(lambda c, r: (c + d.grad(lambda p: p * r * x.sum())(r), c), x[0], x)[0],
    "scan by its carry": lambda d, x, y: d.scan(
        lambda c, r: (d.sin(c + d.grad(lambda p: p * c * r)(c)), c * d.grad(lambda p, q: p * q * q)(c, c)), x[0], y
    )[1].sum(),
    "hvp in scan": lambda d, x, y: d.scan(
        lambda c, r: (d.hvp(lambda p: (d.sin(p * r) * c).sum(), (c,), (c,))[0], r), x, y
    )[0].sum(),
    "scan in a gradient in scan": lambda d, x, y: d.scan(
        lambda c, r: (d.grad(lambda p: d.scan(lambda e, s: (d.sin(e * s * c), e), p, y)[0])(c) + c, r), x[0], x
    )[0],
    "cond": lambda d, x, y: d.cond(
        x.sum(),
        lambda p, q: d.grad(lambda r, s: (r * r * s * x).sum())(p, q),
        lambda p, q: d.grad(lambda r, s: (r * s).sum())(p, q) * 5.0,
        x, x,
    ).sum(),
    "a gradient through cond": lambda d, x, y: d.grad(
        lambda p: d.cond(-x.sum(), lambda q: (q * 2.0).sum(), lambda q: (q * q * x).sum(), p)
    )(x).sum(),
    # Transforms of arrays that close over a node.
    "of a number": lambda d, x, y: (d.grad(lambda z: (x * z * z).sum())(3.0) * x).sum(),
    "of arrays": lambda d, x, y: (d.grad(lambda z: (x * z * z).sum())(Y) * x).sum(),
    "vjp of an array": lambda d, x, y: (d.vjp(lambda z: x * z, Y)[1](np.ones(3))[0] * y).sum(),
    "a cotangent that is a node": lambda d, x, y: d.vjp(lambda z: d.sin(z), Y)[1](x)[0].sum(),
    "a tangent that is a node": lambda d, x, y: d.jvp(lambda z: d.sin(z) * x, (Y,), (x,))[1].sum(),
    "a jacobian of an array": lambda d, x, y: (d.jacobian(lambda z: d.sin(z * x))(Y) * y).sum(),
    "vmap of an array": lambda d, x, y: d.vmap(lambda z: d.grad(lambda p: (p * x).sum())(z))(Y).sum(),
    "a node and an array": lambda d, x, y: d.grad(lambda p, q: (p * d.sin(q)).sum(), 1)(x, Y).sum(),
    # The cookbook of JAX.
    "three derivatives": lambda d, x, y: d.grad(lambda p: d.grad(lambda q: d.tanh(q) * q)(p) * p)(x[0]),
    "reverse over reverse": lambda d, x, y: d.grad(
        lambda p: (d.grad(lambda q: (d.sin(q) * q).sum())(p) * y).sum()
    )(x).sum(),
    "forward over reverse": lambda d, x, y: d.jvp(d.grad(lambda q: (d.sin(q) * q).sum()), (x,), (y,))[1].sum(),
    "reverse over forward": lambda d, x, y: d.grad(
        lambda p: d.jvp(lambda q: (d.sin(q) * q).sum(), (p,), (y,))[1]
    )(x).sum(),
    "rows of a jacobian": lambda d, x, y: (
        lambda pull: d.vmap(lambda m: pull(m)[0])(np.eye(3)).sum()
    )(d.vjp(lambda q: d.sin(q) * x, x)[1]),
    "columns of a jacobian": lambda d, x, y: d.vmap(
        lambda m: d.jvp(lambda q: d.sin(q) * x, (x,), (m,))[1]
    )(np.eye(3)).sum(),
}  # fmt: skip


def fixed_point(d: Any, x: Any, y: Any) -> Any:
    """Square roots by iteration, differentiated at the fixed point, as in JAX's tutorial."""

    def step(a: Any, z: Any) -> Any:
        return 0.7 * z + 0.3 * a / z  # contracts by 0.4 near the fixed point

    def solve(a: Any) -> Any:
        z = a
        for _ in range(6):
            z = step(a, z)
        return z

    root = d.custom_vjp(solve)

    def forward(a: Any) -> Any:
        z = solve(a)
        return z, (a, z)

    def backward(kept: Any, cotangent: Any) -> Any:
        a, z = kept  # z depends on a, but is a constant to this derivative
        return (d.vjp(lambda b: step(b, z), a)[1](cotangent / 0.6)[0],)

    root.define(forward, backward)
    return (root(x) * y).sum()


def kept_of_two(d: Any, x: Any, y: Any) -> Any:
    """Higher-order derivatives see the residuals as functions of the arguments; forward calls the function itself."""
    made = d.custom_vjp(lambda p, q: p * q)
    made.define(
        lambda p, q: (made(p, q), (d.sin(p * q), p)),
        lambda kept, cotangent: (kept[0] * cotangent * 2.0, kept[1] * kept[0] * cotangent),
    )
    return made(x, x * y).sum() * d.grad(lambda z: made(z, z).sum() ** 2)(x).sum()


def in_scan(d: Any, x: Any, y: Any) -> Any:
    """The derivative is that of one step, by transforms that close over the residuals."""
    made = d.custom_vjp(lambda a: d.sin(a) * a)

    def backward(kept: Any, cotangent: Any) -> Any:
        a, s = kept
        by_number = d.vjp(lambda b: b * s * a, 2.0)[1](cotangent)[0]
        return (by_number * d.vjp(lambda b: b * s, a)[1](1.0)[0],)

    made.define(lambda a: (made(a), (a, d.sin(a))), backward)
    return d.scan(lambda c, r: (made(c) * 0.5 + r, made(r * c)), x[0], x * y)[0]


def jvp_of_two(d: Any, x: Any, y: Any) -> Any:
    made = d.custom_jvp(lambda p, q: d.sin(p) * q)
    made.define(lambda args, along: (made(*args), args[0] * along[1] * 2.0 + args[0] * args[1] * along[0]))
    return made(x, x).sum() + d.grad(lambda z: made(z, z * x).sum())(x).sum()


def jvp_of_a_container(d: Any, x: Any, y: Any) -> Any:
    """The change depends on one of the argument's two arrays."""
    made = d.custom_jvp(lambda p: p[0] * 2.0)
    made.define(lambda args, along: (made(*args), along[0][0] * 7.0 * args[0][0]))
    return made((x, y)).sum()


PROGRAMS |= {
    "custom_vjp, a fixed point": fixed_point,
    "custom_vjp of two": kept_of_two,
    "custom_vjp in scan": in_scan,
    "custom_jvp of two": jvp_of_two,
    "custom_jvp of a container": jvp_of_a_container,
}


def both(program: Any, d: Any) -> Any:
    """Return the result of a program and its gradients."""
    return lambda x, y: (program(d, x, y), d.grad(lambda p, q: program(d, p, q), (0, 1))(x, y))


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    with jax.enable_x64(True):
        every = jax.jit(lambda x, y: {name: both(program, Jax)(x, y) for name, program in PROGRAMS.items()})
        found: dict[str, Any] = every(X, Y)
        return found


def same(found: Any, wanted: Any, name: str) -> None:
    found, wanted = jax.tree.leaves(found), jax.tree.leaves(wanted)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_jaxs(name: str, expected: dict[str, Any]) -> None:
    same(wy.function(both(PROGRAMS[name], Wyrm))(X, Y), expected[name], name)


def test_values_are_jaxs_in_native_code(expected: dict[str, Any]) -> None:
    """Several programs in one graph, compiled once."""
    names = ["a target network", "three deep", "hvp", "jacobian", "vmap", "scan", "custom_vjp of two"]
    run = wy.function(lambda x, y: [PROGRAMS[name](Wyrm, x, y) for name in names], engine="native")
    for name, found in zip(names, run(X, Y), strict=True):
        same(found, expected[name][0], name)


def test_a_gradient_inside_a_loop_that_stops() -> None:
    grows = wy.function(
        lambda x: wy.while_loop(
            lambda c: c < 50.0, lambda c: c + wy.function(lambda y: y * y * x).grad()(c), x, max_steps=10
        )
    )
    # Each step multiplies by 1 + 2x; there are three steps.
    x = np.float64(1.3)
    np.testing.assert_allclose(grows(x), x * (1.0 + 2.0 * x) ** 3)
    np.testing.assert_allclose(grows.grad()(x), (1.0 + 2.0 * x) ** 3 + 6.0 * x * (1.0 + 2.0 * x) ** 2)


def test_a_target_network_has_no_gradient() -> None:
    """One module serves as the network that learns and as the one it is compared with."""
    model, x = wy.nn.Linear(3, 1, seed=0), X[None].astype(np.float32)

    @wy.function
    def loss(learning: Any, target: Any, x: Any) -> Any:
        return (learning(x).sum() * 2.0 - target(x * 3.0).sum()) ** 2.0

    error = 2.0 * float(model(wy.Constant(x)).forward()[0, 0]) - float(model(wy.Constant(3.0 * x)).forward()[0, 0])
    of_arrays = loss.grad()(model, model, x).weight.value
    np.testing.assert_allclose(of_arrays[:, 0], 4.0 * error * x[0], rtol=1e-5)
    # Called with nodes, where the parameters are nodes of the graph.
    of_nodes = loss.grad()(model, model, wy.Constant(x)).weight
    np.testing.assert_allclose(of_nodes.forward(), of_arrays, rtol=1e-6)
    assert loss.grad()(model, model, wy.Constant(x)).weight.parameters() != []
    traced = wy.function(lambda model, x: loss.grad()(model, model, x).weight.sum())
    np.testing.assert_allclose(traced(model, x), of_arrays.sum(), rtol=1e-5)


def test_a_module_among_nodes_is_the_module_itself() -> None:
    """So a function may read the parameters, and the graph trains them."""
    model, seen = wy.nn.Linear(3, 1, seed=0), []

    @wy.function
    def penalized(model: Any, x: Any) -> Any:
        seen.append(model)
        return model(x).sum() + sum(p.square().sum() for p in model.parameters())

    loss = penalized(model, wy.Constant(X[None].astype(np.float32)))
    loss.backward()
    assert seen[0] is model
    np.testing.assert_allclose(model.weight.gradient[:, 0], X + 2.0 * model.weight.value[:, 0], rtol=1e-5)


def test_numbers_and_arrays_beside_nodes_take_their_float_type() -> None:
    mixed = wy.function(lambda x, array, number, rows, mask: wy.where(mask, x.take(rows) * array * number, 0.0))
    x = wy.Parameter(X.astype(np.float32))
    found = mixed(x, Y, 2.0, np.array([2, 1, 0]), np.array([True, False, True]))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.forward(), np.where([True, False, True], X[::-1] * Y * 2.0, 0.0), rtol=1e-6)
    by_number = mixed.function(x, wy.Constant(Y, dtype=np.float32), 2.0, np.array([2, 1, 0]), wy.Constant(X > 0.0))
    assert by_number.dtype == np.float32
    scaled = wy.function(lambda x, number: (x * number).sum())
    np.testing.assert_allclose(scaled.grad(1)(wy.Constant(X), 2.0).forward(), X.sum())
    # Inside a scan a constant is shared by all steps; it is differentiated with respect to as well.
    looped = wy.function(lambda x, number: wy.scan(lambda c, r: (c * number + r, None), x[0], x)[0])
    expected = wy.function(lambda number: looped.function(wy.Constant(X), number)).grad()(np.float64(2.0))
    np.testing.assert_allclose(looped.grad(1)(wy.Constant(X), 2.0).forward(), expected)


def test_a_gradient_by_a_node_inside_is_by_the_argument_too() -> None:
    """`wy.grad` on the nodes of a function equals `wy.grad` on arrays, wherever the arguments come from."""
    inner = wy.function(lambda x, y: wy.grad((x * y).sum(), x))
    outer, node = wy.function(lambda x: inner(x, x)), wy.Constant(X)
    for found in (inner(X, X), outer(X), inner(node, node).forward()):
        np.testing.assert_allclose(np.asarray(found), X)


def test_tables_are_indexed_wherever_they_come_from() -> None:
    """As parameters, as arguments of nested functions, as vmapped arguments, and as a module's parameters."""
    table, rows = wy.Parameter(RANDOM.normal(size=(5, 2)), name="table"), np.array([0, 2, 2])
    total = wy.function(lambda table, rows: (table.index(rows) ** 2.0).sum())
    expected = 2.0 * table.value * np.array([1.0, 0.0, 2.0, 0.0, 0.0])[:, None]
    np.testing.assert_allclose(total.grad()(table.value, rows), expected)
    loss = total(table, rows)
    loss.backward()
    assert table.row_gradient is not None
    np.testing.assert_allclose(table.gradient, expected)
    squared = wy.function(lambda table, rows: (total.grad()(table, rows) ** 2.0).sum())
    np.testing.assert_allclose(squared.grad()(table.value, rows), 2.0 * expected * np.array([2, 0, 4, 0, 0])[:, None])
    both = wy.vmap(total.grad(), (0, None))(np.stack([table.value, table.value]), rows)
    np.testing.assert_allclose(both, [expected, expected])
    embedding = wy.nn.Embedding(5, 2, seed=0)
    gradient = wy.function(lambda layer, rows: layer(rows).sum()).grad()(embedding, rows)
    np.testing.assert_allclose(gradient.weight.value, np.array([1.0, 0.0, 2.0, 0.0, 0.0])[:, None] * np.ones(2))


def test_gradients_that_depend_on_nothing_have_native_code() -> None:
    line = wy.function(lambda x: 3.0 * x.sum(), engine="native")
    np.testing.assert_allclose(line.grad()(X), [3.0, 3.0, 3.0])
    assert wy.function(lambda x: x, engine="native").grad()(2.0) == 1.0
    assert wy.compile(wy.Parameter([1.0, 2.0]))({}).tolist() == [1.0, 2.0]


def test_other_identities_cost_nothing() -> None:
    """They are not computed and do not appear."""
    plain = wy.function(lambda x, y: (x * y).sin().sum(), engine="native")
    nested = wy.function(lambda x, y: wy.function(plain)(x, y), engine="native")
    np.testing.assert_allclose(plain(X, Y), nested(X, Y), rtol=0.0)
    assert plain.source == nested.source
    assert [line.split("#")[0] for line in plain.graph.splitlines()] == [
        line.split("#")[0] for line in nested.graph.splitlines()
    ]
    assert "alias" not in nested.graph + nested.source
    function = wy.function(lambda x: x.reshape(-1, 2))
    with pytest.raises(ShapeError, match=r"operand  weights \(3,\) float64 \(at test_nested.py"):
        function(wy.Parameter(X, name="weights"))


def test_a_loop_takes_each_value_once() -> None:
    """A value that functions inside a step close over is passed to the step once."""
    x = wy.Parameter(X)
    step = wy.function(lambda c, r: (c * r).sum())
    total, _ = wy.scan(lambda c, i: (step(c, x) + step(c, x) * wy.function(lambda z: z)(i), None), x[0], x)
    body = total.parents[0].steps.body
    assert len(body.inputs) == 3


def test_what_a_custom_derivative_closes_over_has_no_silent_zero() -> None:
    scale, x = wy.Parameter(2.0, name="scale"), wy.Parameter(3.0)
    by_vjp = wy.custom_vjp(lambda x: x * scale.exp())
    by_vjp.define(lambda x: (x * scale.exp(), x), lambda kept, cotangent: (cotangent * kept,))
    by_jvp = wy.custom_jvp(lambda x: x * scale.exp())
    by_jvp.define(lambda args, along: (by_jvp(*args), args[0] * along[0]))
    for function in (by_vjp, by_jvp):
        assert float(wy.grad(function(x), x).forward()) == 3.0
        with pytest.raises(
            NotDifferentiable, match=r"no gradient with respect to scale: a function with a custom derivative"
        ):
            function(x).backward()


def test_integers_in_a_custom_derivative_are_those_of_the_row() -> None:
    table = wy.custom_vjp(lambda x, i: x.take(i))
    table.define(lambda x, i: (x.take(i), None), lambda kept, cotangent: (wy.Constant(np.ones(3)) * cotangent, None))
    taken = wy.custom_jvp(lambda x, i: x.take(i))
    taken.define(lambda args, along: (taken(*args), 3.0 * along[0].take(args[1])))
    rows = np.array([2, 0])
    of_all = wy.function(lambda x, i: wy.vmap(lambda x, i: taken(x, i), (None, 0))(x, i).sum())
    np.testing.assert_allclose(of_all.grad()(X, rows), [3.0, 0.0, 3.0])
    of_all = wy.function(lambda x, i: wy.vmap(lambda x, i: table(x, i) * 2.0, (None, 0))(x, i).sum())
    np.testing.assert_allclose(of_all.grad()(X, rows), np.full(3, 4.0))


def test_mistakes_are_told() -> None:
    kept: list[Any] = []

    def keeps(x: Any) -> Any:
        kept.append(x)
        return wy.function(lambda y: x * y).trace(2.0)

    with pytest.raises(ShapeError, match="closes over an argument of another function that is being traced"):
        wy.function(keeps)(X)
    with pytest.raises(TypeError, match=r"trace takes arrays, not x \(3,\)"):
        wy.function(lambda x: wy.function(keeps).trace(x))(X)
    with pytest.raises(ShapeError, match="is an argument of another call"):
        wy.function(lambda z: wy.function(lambda y: kept[0] * y)(2.0))(X)

    def step(carry: Any, x: Any) -> Any:
        kept.append(carry)
        return carry, None

    wy.scan(step, wy.Constant(0.0), length=2)
    with pytest.raises(NotSet, match="an argument of a loop step"):
        wy.function(lambda y: kept[-1] * y)(2.0)
