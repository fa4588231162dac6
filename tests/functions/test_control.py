"""Loops and branches inside the graph, against JAX to second order, on both engines; programs; and errors."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, NotDifferentiable, NotSet, ShapeError

RANDOM = np.random.default_rng(0)
W, U, B = 0.5 * RANDOM.normal(size=(4, 4)), 0.5 * RANDOM.normal(size=(3, 4)), 0.1 * RANDOM.normal(size=4)
START, XS = RANDOM.normal(size=4), RANDOM.normal(size=(7, 3))


@pytest.fixture(params=["reference", "native"])
def engine(request: pytest.FixtureRequest) -> Any:
    return request.param


def same(found: Any, expected: Any) -> None:
    found, expected = jax.tree.leaves(found), jax.tree.leaves(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def to_second_order(mine: Any, theirs: Any, args: tuple[Any, ...], engine: Any, second: bool = True) -> None:
    """Compare values, gradients with respect to all arguments, and Hessian-vector products."""
    function = wy.function(mine, engine=engine)
    every = tuple(range(len(args)))
    gradient = jax.grad(theirs, argnums=every)
    with jax.enable_x64(True):
        # One function of JAX compiles in less time than each of its operations.
        if second:
            along = tuple(np.random.default_rng(1).normal(size=np.shape(x)) for x in args)
            value, (slopes, changes) = jax.jit(lambda *x: (theirs(*x), jax.jvp(gradient, x, along)))(*args)
            same(wy.hvp(function, args, along), changes)
        else:
            value, slopes = jax.jit(lambda *x: (theirs(*x), gradient(*x)))(*args)
        same(function(*args), value)
        same(function.grad(wrt=every)(*args), slopes)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_recurrent_network(engine: Any, reverse: bool) -> None:
    def mine(w: Any, u: Any, b: Any, start: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = (h @ w + x @ u + b).tanh()
            return h, h * h

        last, made = wy.scan(step, start, xs, reverse=reverse)
        return (last * last * last).sum() + (made * made).sum()

    def theirs(w: Any, u: Any, b: Any, start: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = jnp.tanh(h @ w + x @ u + b)
            return h, h * h

        last, made = jax.lax.scan(step, start, xs, reverse=reverse)
        return (last**3).sum() + (made**2).sum()

    to_second_order(mine, theirs, (W, U, B, START, XS), engine)


def test_numbers_take_the_float_dtype_of_the_enclosing_function() -> None:
    def doubled(x: Any) -> Any:
        return wy.while_loop(lambda c: c < 10.0, lambda c: c * 2.0, 1.0) + x

    assert wy.function(doubled)(np.ones(2)).tolist() == [17.0, 17.0]


def test_a_carry_of_a_batch_with_structure(engine: Any) -> None:
    batch = RANDOM.normal(size=(2, 4))

    def mine(w: Any, x: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            h, (c,) = carry["h"], carry["c"]
            return {"h": (h @ w + c).tanh(), "c": [c * 0.9 + h]}, {"sum": (h.sum(), c)}

        carry, made = wy.scan(step, {"h": x, "c": [x * 0.0 + 1.0]}, length=5)
        return (carry["h"] * carry["c"][0]).sum() + (made["sum"][0] * made["sum"][1].sum(axis=(1, 2))).sum()

    def theirs(w: Any, x: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            h, (c,) = carry["h"], carry["c"]
            return {"h": jnp.tanh(h @ w + c), "c": [c * 0.9 + h]}, {"sum": (h.sum(), c)}

        carry, made = jax.lax.scan(step, {"h": x, "c": [x * 0.0 + 1.0]}, length=5)
        return (carry["h"] * carry["c"][0]).sum() + (made["sum"][0] * made["sum"][1].sum(axis=(1, 2))).sum()

    to_second_order(mine, theirs, (W, batch), engine)


def test_carries_that_change_places(engine: Any) -> None:
    swap = wy.function(lambda a, b: wy.scan(lambda c, _: ((c[1], c[0]), c[0]), (a, b), length=3), engine=engine)
    (first, second), made = swap(1.0, 2.0)
    assert (float(first), float(second), made.tolist()) == (2.0, 1.0, [1.0, 2.0, 1.0])


def test_newtons_method_through_a_scan(engine: Any) -> None:
    def mine(a: Any) -> Any:
        return wy.scan(lambda x, _: (0.5 * (x + a / x), None), a * 0.5, length=20)[0]

    def theirs(a: Any) -> Any:
        return jax.lax.scan(lambda x, _: (0.5 * (x + a / x), None), a * 0.5, length=20)[0]

    to_second_order(mine, theirs, (np.float64(7.0),), engine)


def test_a_scan_in_a_scan(engine: Any) -> None:
    def mine(x: Any, xs: Any) -> Any:
        def outer(c: Any, row: Any) -> Any:
            inner = wy.scan(lambda d, y: ((d * y + c).sin(), d), c, row)
            return inner[0] * 0.5, inner[1].sum()

        last, made = wy.scan(outer, x, xs)
        return last + (made * made).sum()

    def theirs(x: Any, xs: Any) -> Any:
        def outer(c: Any, row: Any) -> Any:
            inner = jax.lax.scan(lambda d, y: (jnp.sin(d * y + c), d), c, row)
            return inner[0] * 0.5, inner[1].sum()

        last, made = jax.lax.scan(outer, x, xs)
        return last + (made * made).sum()

    to_second_order(mine, theirs, (np.float64(0.3), RANDOM.normal(size=(3, 4))), engine)


def test_rows_of_a_table_by_integers_that_go_along(engine: Any) -> None:
    tokens, table = np.array([2, 0, 2, 1]), RANDOM.normal(size=(3, 4))

    def mine(table: Any) -> Any:
        last, _ = wy.scan(lambda h, token: ((h + table.take(token, axis=0)).tanh(), None), table[0] * 0.0, tokens)
        return (last * last).sum()

    def theirs(table: Any) -> Any:
        last, _ = jax.lax.scan(lambda h, token: (jnp.tanh(h + table[token]), None), table[0] * 0.0, tokens)
        return (last * last).sum()

    to_second_order(mine, theirs, (table,), engine)


def test_a_loop_that_stops_has_the_gradient_of_the_steps_that_were_done(engine: Any) -> None:
    def mine(x: Any, rate: Any) -> Any:
        last = wy.while_loop(lambda x: (x * x).sum() < 50.0, lambda x: x * rate + 0.1 * x.sin(), x, max_steps=30)
        return (last * last).sum()

    def theirs(x: Any, rate: Any) -> Any:
        for _ in range(30):
            if (x * x).sum() < 50.0:
                x = x * rate + 0.1 * jnp.sin(x)
        return (x * x).sum()

    with jax.enable_x64(True):
        args = np.array([0.5, -0.7]), np.float64(1.2)
        found = wy.function(mine, engine=engine)
        same(found(*args), theirs(*map(jnp.asarray, args)))
        steps = 0
        x = args[0]
        while (x * x).sum() < 50.0:
            x, steps = x * args[1] + 0.1 * np.sin(x), steps + 1

        def unrolled(x: Any, rate: Any) -> Any:
            for _ in range(steps):
                x = x * rate + 0.1 * jnp.sin(x)
            return (x * x).sum()

        along = np.array([0.2, 1.0]), np.float64(-0.4)
        slopes, changes = jax.jit(lambda *x: jax.jvp(jax.grad(unrolled, argnums=(0, 1)), x, along))(*args)
        same(found.grad(wrt=(0, 1))(*args), slopes)
        same(wy.hvp(found, args, along), changes)


def test_a_loop_without_a_bound_ends_and_has_no_gradient(engine: Any) -> None:
    collatz = wy.function(
        lambda x: wy.while_loop(lambda c: c[0] > 1.0, lambda c: (c[0] * 0.5, c[1] + 1.0), (x, 0.0)), engine=engine
    )
    assert [float(found) for found in collatz(2.0**40)] == [1.0, 40.0]
    assert [float(found) for found in collatz(0.5)] == [0.5, 0.0]
    x = wy.Parameter(3.0)
    with pytest.raises(NotDifferentiable, match="max_steps="):
        wy.grad(wy.while_loop(lambda c: c < 9.0, lambda c: c * 2.0, x), x)


def test_the_most_steps_are_the_most(engine: Any) -> None:
    bounded = wy.function(lambda x: wy.while_loop(lambda c: c < 1e6, lambda c: c * 2.0, x, max_steps=3), engine=engine)
    assert float(bounded(1.0)) == 8.0
    assert float(bounded.grad()(1.0)) == 8.0


def test_the_gradient_by_a_factor_that_goes_along_too(engine: Any) -> None:
    """The rows multiplied by a matrix have a gradient of their own."""
    rows, h, w = RANDOM.normal(size=(4, 2, 3)), RANDOM.normal(size=(2, 2)), RANDOM.normal(size=(3, 2))

    def mine(h: Any, rows: Any, w: Any) -> Any:
        return (wy.scan(lambda c, r: (c + r @ w, None), h, rows)[0] ** 3.0).sum()

    def theirs(h: Any, rows: Any, w: Any) -> Any:
        return (jax.lax.scan(lambda c, r: (c + r @ w, None), h, rows)[0] ** 3.0).sum()

    to_second_order(mine, theirs, (h, rows, w), engine)


def test_products_of_what_is_computed_inside(engine: Any) -> None:
    start = RANDOM.normal(size=(2, 4))

    def mine(h: Any, w: Any) -> Any:
        return (wy.scan(lambda c, _: (((c @ w).tanh() @ w.T).sin(), None), h, length=3)[0] ** 2.0).sum()

    def theirs(h: Any, w: Any) -> Any:
        return (jax.lax.scan(lambda c, _: (jnp.sin(jnp.tanh(c @ w) @ w.T), None), h, length=3)[0] ** 2.0).sum()

    to_second_order(mine, theirs, (start, W), engine)


def test_a_weight_without_columns(engine: Any) -> None:
    loss = wy.function(
        lambda c, w: wy.scan(lambda c, _: (c @ w @ w.T + 1.0, None), c, length=2)[0].sum(), engine=engine
    )
    assert loss.grad(wrt=1)(np.ones((2, 4)), np.ones((4, 0))).shape == (4, 0)


def test_the_last_of_what_was_made(engine: Any) -> None:
    """A negative index counts from the end of its own part, wherever the part lies among the residuals."""
    sums = wy.function(lambda x: wy.scan(lambda c, r: (c + r, c), 0.0, x)[1][-1] * 1.0, engine=engine)
    assert float(sums(np.arange(1.0, 6.0))) == 10.0
    assert sums.grad()(np.arange(1.0, 6.0)).tolist() == [1.0, 1.0, 1.0, 1.0, 0.0]


def test_the_third_derivative_of_a_loop_that_stops() -> None:
    loop: Any = wy.function(lambda x: wy.while_loop(lambda c: c > 0.5, lambda c: c.tanh(), x, max_steps=9))

    def unrolled(x: Any) -> Any:
        for _ in range(6):
            x = jnp.tanh(x)
        return x

    with jax.enable_x64(True):
        theirs: Any = unrolled
        for _ in range(4):
            np.testing.assert_allclose(loop(np.float64(2.0)), theirs(2.0), rtol=1e-9)
            loop, theirs = loop.grad(), jax.grad(theirs)


@pytest.mark.parametrize("value", [2.0, -2.0])
def test_a_branch_and_its_gradient(engine: Any, value: float) -> None:
    def mine(x: Any, y: Any) -> Any:
        return wy.cond(x > 0.0, lambda x, y: x.log() * y, lambda x, y: (x * x * y).exp(), x, y * y)

    def theirs(x: Any, y: Any) -> Any:
        return jax.lax.cond(x > 0.0, lambda x, y: jnp.log(x) * y, lambda x, y: jnp.exp(x * x * y), x, y * y)

    to_second_order(mine, theirs, (np.float64(value), np.float64(0.7)), engine)


def test_the_branch_that_is_not_taken_is_not_computed(engine: Any) -> None:
    """Its gradient would be NaN, even if the branch closes over its inputs instead of taking them as operands."""
    root = wy.function(lambda x: wy.cond(x > 0.0, lambda: x.sqrt(), lambda: x * 3.0), engine=engine)
    assert float(root.grad()(-1.0)) == 3.0
    assert float(root.grad()(0.0)) == 3.0
    assert float(root.grad()(4.0)) == 0.25


def test_a_branch_in_a_branch_in_a_loop(engine: Any) -> None:
    def mine(x: Any) -> Any:
        def step(c: Any, t: Any) -> Any:
            far = wy.cond(c > 2.0, lambda: c * 0.5, lambda: c * t + 1.0)
            return wy.cond(c < 0.0, lambda: c * c, lambda: far), None

        return wy.scan(step, x, np.linspace(-1.0, 1.0, 9))[0]

    def theirs(x: Any) -> Any:
        def step(c: Any, t: Any) -> Any:
            return jnp.where(c < 0.0, c * c, jnp.where(c > 2.0, c * 0.5, c * t + 1.0)), None

        return jax.lax.scan(step, x, np.linspace(-1.0, 1.0, 9))[0]

    to_second_order(mine, theirs, (np.float64(1.3),), engine)


def test_branches_that_are_numbers_have_the_float_type_of_the_condition() -> None:
    x = wy.Constant(np.float64(2.0))
    assert wy.cond(x > 0.0, lambda: 1.0, lambda: 2.0).dtype == np.float64


def test_a_condition_that_is_known_chooses_while_the_graph_is_built() -> None:
    x = wy.Parameter(2.0)
    assert wy.cond(True, lambda x: x, lambda x: 1 / 0, x) is x


class Batch(wy.Dim): ...


class Width(wy.Dim): ...


class Time(wy.Dim): ...


def test_axes_keep_their_names() -> None:
    xs = wy.Input(dims=(Time(6), Batch(2), Width(3)))
    last, made = wy.scan(lambda h, x: ((h + x).tanh(), h), wy.Constant(np.zeros((2, 3), "f"), (Batch, Width)), xs)
    assert last.dims == (Batch(2), Width(3))
    assert made.dims == (Time(6), Batch(2), Width(3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_program_trains_through_a_scan(dtype: Any) -> None:
    """Matches eager training over several epochs."""
    random = np.random.default_rng(3)
    columns = random.normal(size=(8, 6, 3)).astype(dtype), random.normal(size=8).astype(dtype)
    results = []
    for native in (False, True):
        x, y = wy.Input(dims=(6, 3), dtype=dtype, name="x"), wy.Input(name="y", dtype=dtype)
        weights = [
            wy.Parameter(0.3 * np.random.default_rng(i).normal(size=(n, 4)).astype(dtype)) for i, n in ((1, 3), (2, 4))
        ]

        def step(h: Any, row: Any, u: Any = weights[0], w: Any = weights[1]) -> Any:
            h = (row @ u + h @ w).tanh()
            return h, None

        last, _ = wy.scan(step, wy.Constant(np.zeros(4, dtype)), x)
        loss = (last.sum() - y).square()
        optimizer = wy.optim.Adam(loss.parameters(), 0.01)
        if native:
            program = wy.compile(loss, optimizer)
            for _ in range(3):
                program.epoch({x: columns[0], y: columns[1]})
        else:
            for _ in range(3):
                for row, target in zip(*columns, strict=True):
                    x.set(row)
                    y.set(target)
                    loss.forward()
                    loss.backward()
                    optimizer.step()
                    loss.zero_gradient()
        results.append([weight.value for weight in weights])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4 if dtype == np.float32 else 1e-10)


def test_the_code_does_not_grow_with_the_steps() -> None:
    sources = []
    for count in (1_000, 100_000):
        x = wy.Parameter(0.5)
        loss = wy.scan(lambda c, _, x=x: (c.sin() * x, c), x, length=count)[1].sum()
        sources.append(wy.compile([loss, wy.grad(loss, x)]).source)
    assert len(sources[0].splitlines()) == len(sources[1].splitlines())


def test_graphs_with_loops_are_pickled_and_copied() -> None:
    w = wy.Parameter(0.5, name="w")
    loss = wy.scan(lambda c, x: ((c * w + x).tanh(), c), wy.Constant(0.1), np.arange(4.0, dtype=np.float32))[1].sum()
    expected = wy.grad(loss, w).forward()
    for again in (pickle.loads(pickle.dumps(loss)), copy.deepcopy(loss)):
        (parameter,) = again.parameters()
        assert parameter is not w
        np.testing.assert_array_equal(wy.grad(again, parameter).forward(), expected)


def test_an_if_on_what_is_traced_says_what_to_do() -> None:
    @wy.function
    def branching(x: Any) -> Any:
        return x if x > 0.0 else -x

    with pytest.raises(TypeError, match=r"wy\.cond.*wy\.where|wy\.where.*wy\.cond"):
        branching(1.0)


def test_a_node_that_is_kept_from_a_step_says_what_it_is() -> None:
    kept = []

    def step(carry: Any, x: Any) -> Any:
        kept.append(carry * x)
        return carry + x, None

    wy.scan(step, wy.Constant(0.0), np.arange(3.0, dtype=np.float32))
    for use in (kept[0].forward, wy.compile(kept[0])):
        with pytest.raises(NotSet, match=r"carry .* an argument of a loop step"):
            use()


def test_counting_to_what_is_traced_says_what_to_do() -> None:
    with pytest.raises(TypeError, match=r"x \(\) float32 .* is not an integer while .* wy\.while_loop"):
        wy.function(lambda x: [x for _ in range(x)])(3)


MASK = wy.Constant(np.zeros(2)) > 0.0


def _in_other_axes(c: Any, x: Any) -> Any:
    return c.reshape(1, 2), None


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda: wy.scan(_in_other_axes, np.zeros(2), length=3), ShapeError, r"carry has the axes \(2,\) but becomes"),
        (lambda: wy.scan(lambda c, x: c, np.zeros(2), length=3), ShapeError, "a step returns a pair"),
        (lambda: wy.scan(lambda c, x: ((c, c), x), np.zeros(2), length=3), ShapeError, "changes the structure"),
        (lambda: wy.scan(lambda c, x: (c, x), 0.0, (np.zeros(3), np.zeros(4))), ShapeError, "lengths differ: 3, 4"),
        # The mistake that mypy finds.
        (
            lambda: wy.scan(lambda c, x: (c, x), 0.0, length=2.5),  # type: ignore[call-overload]
            DTypeError,
            "length must be an integer",
        ),
        (lambda: wy.scan(lambda c, x: (c, x), wy.nn.Linear(2, 2), length=2), DTypeError, "a module cannot be a carry"),
        (lambda: wy.scan(lambda c, x: (c, x), 0.0), ShapeError, "give the number of steps as length="),
        (lambda: wy.scan(lambda c, x: (c, x), 0.0, 1.0), ShapeError, "has no axis to scan over"),
        (lambda: wy.scan(lambda c, x: (c, x), (), np.zeros(3)), ShapeError, "init has no leaves"),
        (
            lambda: wy.scan(lambda c, x: (x, None), wy.IndexConstant(1), np.zeros(3)),
            DTypeError,
            "carry is int64 but becomes",
        ),
        (lambda: wy.scan(lambda c, x: (c, x), 0.0, wy.Input(dims=(Time(),)), 3), ShapeError, r"differ: 3, Time\(\)"),
        # The mistake that mypy finds.
        (lambda: wy.scan(1.0, 0.0, length=3), TypeError, "scan takes a function"),  # type: ignore[call-overload]
        (lambda: wy.while_loop(lambda c: c, lambda c: c, 0.0), DTypeError, "a scalar mask as condition"),
        (
            lambda: wy.while_loop(lambda c: c > 0.0, lambda c: c, 0.0, max_steps=0),
            ValueError,
            "max_steps must be",
        ),
        (lambda: wy.cond(wy.Constant(1.0), lambda: 1.0, lambda: 2.0), DTypeError, "a scalar mask as condition"),
        (
            lambda: wy.cond(wy.Constant(1.0) > 0.0, lambda: np.zeros(2), lambda: np.zeros(3)),
            ShapeError,
            r"\(2,\) but becomes",
        ),
    ],
)
def test_mistakes(build: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        build()


def test_axes_of_equal_sizes_and_other_names_are_refused() -> None:
    class Left(wy.Dim): ...

    class Right(wy.Dim): ...

    on = wy.Input(1.0) > 0.0
    x: Any = wy.Parameter.zeros((Left(3),))  # type checkers refuse these calls too
    y: Any = wy.Parameter.zeros((Right(3),))
    square: Any = wy.Parameter.zeros((Left(3), Right(3)))
    calls: list[tuple[str, Any]] = [
        (r"result of .* has the axes \(Left\(3\),\) but becomes", lambda: wy.cond(on, lambda: x, lambda: y)),
        (r"result of .* but becomes", lambda: wy.switch(wy.IndexConstant(0), [lambda: x, lambda: y])),
        (r"carry has the axes .* but becomes", lambda: wy.scan(lambda c, _: (y, c), x, length=2)),
        (r"carry has the axes .* but becomes", lambda: wy.while_loop(lambda c: c.sum() > 0.0, lambda c: c.T, square)),
    ]
    for message, call in calls:
        with pytest.raises(ShapeError, match=message):
            call()
    assert wy.cond(on, lambda: x, lambda: wy.zeros(3)).shape == (3,)
