"""`vmap`: ops against a loop over the rows, JAX as oracle, and errors; `check_op` maps every other op."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wyrm as wy
from tests.ops.test_ops_every import APART
from tests.samples import SAMPLES
from tests.samples.sample import Sample
from wyrm.errors import ShapeError

RANDOM = np.random.default_rng(0)
ROWS = 3


def leaf(array: Any) -> Any:
    return wy.IndexConstant(array) if array.dtype.kind == "i" else wy.Constant(array)


def mappable(sample: Sample) -> bool:
    """An op that `check_op` leaves out, as it cannot be made alone; and not one that updates a buffer."""
    return str(sample) in APART and sample.op.__name__ != "Updating"


@pytest.mark.parametrize("sample", [sample for sample in SAMPLES if mappable(sample)], ids=str)
def test_an_op_over_rows_is_a_loop_over_the_rows(sample: Sample) -> None:
    """Also if some operands are shared by all rows."""
    varied = [
        np.stack([x * (1.0 + 0.01 * i) for i in range(ROWS)]) if x.dtype.kind == "f" else np.stack([x] * ROWS)
        for x in sample.operands
    ]
    count = len(varied)
    for mapped in {(True,) * count, *((i == 0,) + (False,) * (count - 1) for i in range(1))}:
        operands = [x if many else x[0] for x, many in zip(varied, mapped, strict=True)]
        axes = tuple(0 if many else None for many in mapped)
        node = wy.vmap(sample.build, in_axes=axes)(*map(leaf, operands))
        one_by_one = []
        for i in range(ROWS):
            wy.random.set_step(0)
            row = sample.build(*(leaf(x[i] if many else x) for x, many in zip(operands, mapped, strict=True)))
            one_by_one.append(row.forward())
        wy.random.set_step(0)
        assert node.shape == (ROWS, *one_by_one[0].shape)
        np.testing.assert_allclose(node.forward(), np.stack(one_by_one), rtol=1e-10, atol=1e-12)


def same(found: Any, expected: Any) -> None:
    found, expected = jax.tree.leaves(found), jax.tree.leaves(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.fixture(params=["reference", "native"])
def engine(request: pytest.FixtureRequest) -> Any:
    return request.param


X, W, V = RANDOM.normal(size=(5, 3, 4)), RANDOM.normal(size=(4, 2)), RANDOM.normal(size=(5, 4))


def mine(x: Any, w: Any, v: Any) -> Any:
    return ((x @ w).tanh().sum(axis=0) * v[:2]).sum() + (x @ v).softmax().max()


def theirs(x: Any, w: Any, v: Any) -> Any:
    return (jnp.tanh(x @ w).sum(axis=0) * v[:2]).sum() + jax.nn.softmax(x @ v).max()


def test_values_and_gradients_of_each_row(engine: Any) -> None:
    function, axes = wy.function(mine, engine=engine), (0, None, 0)
    with jax.enable_x64(True):
        same(wy.vmap(function, axes)(X, W, V), jax.jit(jax.vmap(theirs, axes))(X, W, V))
        gradients = wy.vmap(function.grad(wrt=(0, 1, 2)), axes)(X, W, V)
        same(gradients, jax.jit(jax.vmap(jax.grad(theirs, argnums=(0, 1, 2)), axes))(X, W, V))


def test_the_gradient_of_what_is_mapped(engine: Any) -> None:
    many = wy.vmap(wy.function(mine, engine=engine), (0, None, 0))
    total = wy.function(lambda x, w, v: many(x, w, v).square().sum(), engine=engine)
    with jax.enable_x64(True):

        def expected(x: Any, w: Any, v: Any) -> Any:
            return (jax.vmap(theirs, (0, None, 0))(x, w, v) ** 2).sum()

        same(total.grad(wrt=(0, 1, 2))(X, W, V), jax.jit(jax.grad(expected, argnums=(0, 1, 2)))(X, W, V))


def test_axes_elsewhere_structure_and_two_at_once(engine: Any) -> None:
    def inner(a: Any, b: Any) -> Any:
        return {"dot": (a["x"] * b).sum(), "outer": a["x"].expand_dims(-1) * b, "same": b}

    def inner_jax(a: Any, b: Any) -> Any:
        return {"dot": (a["x"] * b).sum(), "outer": a["x"][:, None] * b, "same": b}

    a, b = {"x": RANDOM.normal(size=(4, 5))}, RANDOM.normal(size=(3, 4))
    both = wy.vmap(wy.vmap(wy.function(inner, engine=engine), in_axes=(1, None), out_axes=0), in_axes=(None, 0))
    with jax.enable_x64(True):
        same(both(a, b), jax.vmap(jax.vmap(inner_jax, (1, None)), (None, 0))(a, b))
        last = wy.vmap(wy.function(lambda x: x * 2.0, engine=engine), in_axes=1, out_axes=1)
        same(last(b), b * 2.0)


def test_jacobians_by_mapping_products(engine: Any) -> None:
    """All rows of a Jacobian from one batched pullback."""
    point = RANDOM.normal(size=4)
    rows = wy.vmap(
        wy.function(lambda c, x: wy.vjp(lambda x: (x * x).tanh(), x)[1](c)[0], engine=engine), in_axes=(0, None)
    )
    np.testing.assert_allclose(rows(np.eye(4), point), wy.jacobian(lambda x: (x * x).tanh())(point), rtol=1e-12)


def test_a_scan_over_many_starts(engine: Any) -> None:
    def run(start: Any, rate: Any) -> Any:
        return wy.scan(lambda c, _: ((c * rate).sin(), c), start, length=4)[1]

    def run_jax(start: Any, rate: Any) -> Any:
        return jax.lax.scan(lambda c, _: (jnp.sin(c * rate), c), start, length=4)[1]

    starts = RANDOM.normal(size=6)
    with jax.enable_x64(True):
        same(
            wy.vmap(wy.function(run, engine=engine), (0, None))(starts, np.float64(1.3)),
            jax.vmap(run_jax, (0, None))(starts, 1.3),
        )


def test_arrays_beside_nodes_keep_their_types() -> None:
    numbers, mask = np.array([1.5, 2.5, 3.5]), np.array([True, False, True])
    x = wy.Parameter(np.arange(3.0))
    both = wy.vmap(lambda x, y, m: wy.where(m, x * y, y))(x, numbers, mask)
    assert both.dtype == np.float64
    assert both.forward().tolist() == [0.0, 2.5, 7.0]
    table = wy.Parameter(np.arange(4.0))
    rows = wy.vmap(lambda i, t: t.take(i, axis=0) * 2.0, in_axes=(0, None))(np.array([3, 1]), table)
    assert rows.forward().tolist() == [6.0, 2.0]


def test_a_result_that_depends_on_no_row_is_the_same_for_all() -> None:
    both = wy.vmap(lambda x, y: (x, y * 2.0), in_axes=(0, None))(np.zeros(3), np.ones(2))
    assert both[1].tolist() == [[2.0, 2.0]] * 3


def test_axes_inside_arguments_and_results(engine: Any) -> None:
    def inner(given: Any, pair: Any, scale: Any) -> Any:
        total = given["x"].sum() * pair[0] + given["w"].sum()
        return {"total": total, "rest": (given["x"] * pair[1].sum(), scale * 2.0), "row": given["x"] + 0.0}

    def inner_jax(given: Any, pair: Any, scale: Any) -> Any:
        return inner({"x": jnp.asarray(given["x"]), "w": jnp.asarray(given["w"])}, pair, jnp.asarray(scale))

    given = {"x": RANDOM.normal(size=(2, 5)), "w": RANDOM.normal(size=3)}
    pair = (RANDOM.normal(size=5), RANDOM.normal(size=(3, 5)))
    scale = RANDOM.normal(size=4)
    into = ({"x": 1, "w": None}, (0, -1), None)
    with jax.enable_x64(True):
        for out in (0, {"total": 0, "rest": (1, None), "row": -1}, {"total": 0, "rest": 0, "row": 1}):
            function = wy.function(inner, engine=engine)
            found = wy.vmap(function, into, out)(given, pair, scale)
            expected = jax.vmap(inner_jax, into, out)(given, pair, scale)
            same(found, expected)
            assert [np.shape(x) for x in jax.tree.leaves(found)] == [x.shape for x in jax.tree.leaves(expected)]
            if engine == "native":
                break


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda: wy.vmap(lambda x, y: x + y)(np.zeros(2), np.zeros(3)), ShapeError, "sizes differ: 2 and 3, in x"),
        (lambda: wy.vmap(lambda x: x)(1.0), ShapeError, "x is .* and has no axis to map over; set in_axes"),
        (lambda: wy.vmap(lambda x: x, in_axes=None)(np.zeros(2)), ShapeError, "no argument is batched"),
        (lambda: wy.vmap(lambda x: x, in_axes=(0, 0))(np.zeros(2)), ShapeError, "2 entries for 1 arguments"),
        (lambda: wy.vmap(lambda x: x, in_axes=2)(np.zeros(2)), ShapeError, "axis"),
        (lambda: wy.vmap(lambda i: i, in_axes=1)(np.zeros((2, 3), int)), ShapeError, "cannot be transposed"),
        (lambda: wy.vmap(lambda x: x.argmax(0), out_axes=1)(np.zeros((2, 3, 4))), ShapeError, "cannot be transposed"),
        (
            lambda: wy.vmap(lambda x, i: i, (0, None))(np.zeros(2), np.array([1])),
            ShapeError,
            "vmap cannot broadcast integers",
        ),
        (lambda: wy.vmap(lambda x: x, {"x": 0})({"x": np.zeros(2)}), ShapeError, r"as in in_axes=\(\{'x': 0\},\)"),
        (
            lambda: wy.vmap(lambda x: x, ({"y": 0},))({"x": np.zeros(2)}),
            ShapeError,
            "in_axes of x is .* for a dict of 1",
        ),
        (lambda: wy.vmap(lambda x: x, ((0, 0),))(np.zeros(2)), ShapeError, "in_axes of x is .* for one array"),
        (lambda: wy.vmap(lambda x: (x, x), out_axes=(0,))(np.zeros(2)), ShapeError, "out_axes is .* for a tuple of 2"),
        (lambda: wy.vmap(lambda x: (x, x), out_axes=(0, None))(np.zeros(2)), ShapeError, r"the result\[1\] differs"),
        (lambda: wy.vmap(3.0), TypeError, "takes a function"),  # type: ignore[arg-type]  # the mistake
    ],
)
def test_mistakes(build: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        build()
