"""Random nodes lowered to JAX draw what the other engines draw, with and without 64-bit types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from tests.engines.jax.test_every_op import lowered, whole
from wyrm.engines.jax.lower import Lowerer
from wyrm.errors import DTypeError
from wyrm.graph.schedule import Schedule
from wyrm.ops.random import draws
from wyrm.ops.random.draws import LoopSteps
from wyrm.ops.random.dropout import DropoutMask, RandomKey
from wyrm.ops.random.philox import ROWS_BEFORE, STEP
from wyrm.ops.random.philox_jax import step_words

STEPS = [0, 3, 2**32 + 1, 2**62 + 12345]
KNOWN = np.array([0, 2, 2, 5]), np.array([0, 1, 1, 2, 4])
USERS = np.random.default_rng(0).integers(0, 3, (50, 4))


RATES = wy.Constant(np.linspace(0.0, 60.0, 50, dtype=np.float32))


def key() -> RandomKey[Any]:
    return RandomKey(STEP, 123, 2**31 + 7)


def negatives(**options: Any) -> Any:
    return wy.random.index(
        5, (50, 4), exclude=KNOWN, rows=wy.IndexConstant(USERS), seed=-1, stream=2**32 + 1, **options
    )


EXACT: dict[str, Callable[[], Any]] = {
    "dropout": lambda: wy.Constant(np.ones((7, 30), np.float32)).dropout(0.3, 5, 6),
    "add_dropout": lambda: wy.Constant(np.ones((7, 30), np.float32)).add_dropout(np.ones((7, 30), np.float32), 0.25),
    "mask": lambda: DropoutMask(RandomKey(STEP, 1, 2, ROWS_BEFORE), 0.3, (7, 30)),
    "key": key,
    "loop steps": lambda: LoopSteps(STEP, (4, 3)),
    "integer": lambda: draws.RandomInteger(key(), (6, 50), -20, 2**31 - 5),
    "every word": lambda: draws.RandomInteger(key(), (300,), -(2**31), 2**32),
    "permutation": lambda: draws.RandomPermutation(key(), (3, 40)),
    "rows": lambda: wy.random.index(2**31, (7, 9), seed=4, stream=5),
    "weighted rows": lambda: wy.random.index(5, (7, 9), weights=[0.0, 1.0, 0.0, 3.0, 0.0], seed=4, stream=5),
    "rejected": negatives,
    "rejected and weighted": lambda: negatives(weights=[1.0, 5.0, 2.0, 0.5, 3.0]),
    "a single row left": lambda: wy.random.index(5, (50, 4), exclude=[[0, 1, 2, 4]], rows=wy.IndexConstant([0] * 50)),
    "counts": lambda: wy.random.poisson((40, 50), RATES, seed=2, stream=3),
    "rejected lists": lambda: wy.random.index(9, (50, 4), exclude=USERS * 2, weights=np.arange(9.0), seed=1, stream=9),
}


def drawn(nodes: Sequence[Any]) -> Iterator[tuple[int, list[Any], list[Any]]]:
    """Yield each step with what the reference draws for it, and what one function of the step draws by JAX."""
    schedule = Schedule(nodes)
    function = jax.jit(lambda step: Lowerer().run(schedule, {STEP: step}))
    for step in STEPS:
        wy.random.set_step(step)
        expected = wy.run(list(nodes))
        values = map(np.asarray, function(step_words(step)))
        found = [whole(each) if node.dtype.kind == "i" else each for node, each in zip(nodes, values, strict=True)]
        yield step, expected, found


@pytest.mark.parametrize("wide", [False, True])
def test_bits(wide: bool) -> None:
    nodes = {name: make() for name, make in EXACT.items()}
    with jax.enable_x64(wide):
        for step, expected, found in drawn(list(nodes.values())):
            for name, have, want in zip(nodes, found, expected, strict=True):
                np.testing.assert_array_equal(have, want, err_msg=f"{name}, step {step}")


def test_all_engines_draw_the_same_bits() -> None:
    nodes = [EXACT[name]() for name in ("add_dropout", "integer", "permutation", "rejected and weighted", "counts")]
    for engine in ("native", "jax"):
        program: Any = wy.compile(nodes, engine=engine)
        with wy.random.at_step(3):
            for node, found, expected in zip(nodes, program(), wy.run(nodes), strict=True):
                np.testing.assert_array_equal(found, expected, err_msg=f"{node}, {engine}")


def test_draws_by_rejection_have_the_gradient_of_the_graph() -> None:
    concentration = wy.Parameter(np.linspace(0.1, 9.0, 50, dtype=np.float32))
    total = (wy.random.gamma((50,), concentration, seed=1, stream=2) * np.arange(50.0)).sum()
    function, parameters = wy.jax.lower(total)
    with wy.random.at_step(7):
        value = total.forward()
        total.backward()
    found, slopes = jax.value_and_grad(function)(parameters, step=7)
    np.testing.assert_allclose(found, value, rtol=1e-5)
    (slope,) = slopes.values()
    np.testing.assert_allclose(slope, concentration.gradient, rtol=2e-4)


FLOATS = [draws.StandardNormal, draws.StandardUniform, draws.StandardExponential, draws.StandardGumbel,
          draws.StandardLaplace]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats(dtype: Any) -> None:
    nodes: list[Any] = [op(key(), (40, 500), np.dtype(dtype)) for op in FLOATS]
    tolerance = 2e-6 if dtype == np.float32 else 4e-15
    with jax.enable_x64(dtype == np.float64):
        for step, expected, found in drawn(nodes):
            for op, have, want in zip(FLOATS, found, expected, strict=True):
                message = f"{op.__name__}, step {step}"
                np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance, err_msg=message)


@pytest.mark.parametrize(
    "node", [lambda: draws.RandomInteger(key(), (5,), 0, 2**31 + 1), lambda: wy.random.index(2**32, (5,))]
)
def test_integers_beyond_int32_need_64_bit_types(node: Callable[[], Any]) -> None:
    with pytest.raises(DTypeError, match="jax_enable_x64"):
        lowered([node()])
    with jax.enable_x64(True):
        assert lowered([node()])[0].dtype == np.int64


def test_equal_layers_draw_with_their_own_weights() -> None:
    h: Any = wy.Constant(np.zeros(30, np.float32))
    for layer in range(14):
        weights = np.arange(7.0) ** layer
        h = (h * 0.5 + wy.random.index(7, (30,), weights=weights, seed=1, stream=layer).astype(np.float32)).tanh()
    expected = h.forward()
    np.testing.assert_allclose(lowered([h])[0], expected, rtol=1e-6)


def test_weights_of_rows_need_no_option_of_jax() -> None:
    x = wy.Parameter(np.ones(30, np.float32))

    def step(total: Any, _: Any) -> Any:
        return total + x * wy.random.index(7, (30,), weights=np.arange(7.0), stream=4).astype(np.float32), None

    rows = wy.random.index(7, (30,), weights=np.arange(7.0), stream=3).astype(np.float32)
    total = wy.scan(step, rows, length=3)[0]
    wy.random.set_step(0)
    expected = total.forward()
    function, parameters = wy.jax.lower(total)
    np.testing.assert_array_equal(jax.jit(function)(parameters), expected)
    program: Any = wy.compile(total, engine="jax")
    np.testing.assert_array_equal(program({}), expected)


def test_weights_that_are_also_numbers_need_64_bit_types() -> None:
    weights = wy.Constant(np.arange(7.0))
    with pytest.raises(DTypeError, match="jax_enable_x64"):
        wy.jax.lower((weights > 2.0).astype(np.float32))[0]({})
