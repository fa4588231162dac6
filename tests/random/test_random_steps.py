"""The steps that random nodes draw for, and what `wy.nn.seed` repeats."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, OptionError


class Batch(wy.Dim): ...


@pytest.fixture(autouse=True)
def restore_the_seed() -> Iterator[None]:
    yield
    wy.nn.seed(0)


@wy.function
def shaken(x: Any) -> Any:
    return x + wy.random.normal((4,), stream=1)


def of_program(engine: Any, steps: int = 0) -> Callable[[Any], Any]:
    def runs(node: Any) -> Any:
        program = wy.compile(node, engine=engine)
        program.load_state_dict({"steps": steps, "epochs": 0})
        return program

    return runs


# How a node is run: what returns its values once more for each call.
RUNS: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "forward": lambda node: node.forward,
    "run": lambda node: lambda: wy.run([node])[0],
    "native": of_program("native", steps=2),
    "jax": of_program("jax", steps=2),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_at_step_draws_for_that_step_each_time(run: Any) -> None:
    node = wy.random.uniform((4,), stream=1)
    expected = of_program("native", steps=5)(node)()
    again = run(node)
    wy.random.set_step(2)
    with wy.random.at_step(5):
        for _ in range(3):
            np.testing.assert_allclose(again(), expected, rtol=1e-6)
    np.testing.assert_allclose(again(), of_program("native", steps=2)(node)(), rtol=1e-6)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_functions_draw_for_the_step(engine: Any) -> None:
    noisy = wy.function(shaken.function, engine=engine)
    zeros = np.zeros(4, np.float32)
    wy.random.set_step(5)
    expected = noisy(zeros)
    with wy.random.at_step(5):
        np.testing.assert_array_equal(noisy(zeros), expected)
        np.testing.assert_array_equal(noisy(zeros), expected)
    assert wy.random.next_step() == 6


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_gradients_are_those_of_the_step(engine: Any) -> None:
    p = wy.Parameter(np.ones(64, np.float32))
    dropped, ones = p.dropout(0.5, stream=1), wy.Input(dims=(Batch(),), name="ones")
    ones.set([1.0])
    loss = dropped.sum() * ones.mean()
    with wy.random.at_step(5):
        mask = dropped.forward()
    program = wy.compile(loss, wy.optim.SGD([p], 0.1), engine=engine)
    loss.forward()
    with wy.random.at_step(5):
        loss.backward()
        np.testing.assert_array_equal(p.gradient, mask)
        program.backward({ones: [1.0]})
        np.testing.assert_array_equal(p.gradient, 2.0 * mask)
        program({ones: [1.0]})
        np.testing.assert_allclose(p.value, 1.0 - 0.1 * mask, rtol=1e-6)
    assert program.state_dict()["steps"] == 0
    assert program.optimizer is not None and program.optimizer.steps == 1


def test_a_backward_after_the_context_takes_the_masks_of_the_last_forward() -> None:
    p = wy.Parameter(np.ones(64, np.float32))
    dropped = p.dropout(0.5)
    with wy.random.at_step(5):
        mask = dropped.forward()
    dropped.sum().forward()
    dropped.backward(gradient=np.ones(64))
    np.testing.assert_array_equal(p.gradient, mask)


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_an_evaluation_draws_for_the_step_in_each_batch(engine: Any) -> None:
    x = wy.Input(dims=(Batch(),), name="x")
    noise = wy.random.normal((), stream=1)
    program = wy.compile(x.mean() + noise, engine=engine)
    with wy.random.at_step(5):
        expected = float(noise.forward())
        assert program.evaluate({x: np.zeros(6)}, batch_size=2) == pytest.approx(expected)


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_an_epoch_inside_at_step_is_refused(engine: Any) -> None:
    x, p = wy.Input(dims=(Batch(),), name="x"), wy.Parameter(1.0)
    program = wy.compile((p * x).dropout(0.5).mean(), wy.optim.SGD([p], 0.1), engine=engine)
    with wy.random.at_step(5), pytest.raises(OptionError, match=r"each step of an epoch draws anew.*at_step\(5\)"):
        program.epoch({x: np.ones(4)}, batch_size=2)
    assert p.value == 1.0
    certain = wy.compile((p * x).mean(), wy.optim.SGD([p], 0.1), engine=engine)
    with wy.random.at_step(5):
        certain.epoch({x: np.ones(4)}, batch_size=2)


def test_contexts_are_nested_and_leave_the_step_as_it_was() -> None:
    node = wy.random.normal((4,))
    wy.random.set_step(7)
    expected = {step: of_program("native", steps=step)(node)() for step in (1, 2, 7)}
    with wy.random.at_step(1):
        assert wy.random.next_step() == 1
        with wy.random.at_step(2):
            np.testing.assert_allclose(node.forward(), expected[2], rtol=1e-6)
        np.testing.assert_allclose(node.forward(), expected[1], rtol=1e-6)
    assert wy.random.next_step() == 7
    with pytest.raises(ZeroDivisionError), wy.random.at_step(1):
        1 / 0  # noqa: B018  # any error
    np.testing.assert_allclose(node.forward(), expected[7], rtol=1e-6)


def test_an_announced_step_is_still_announced_after_the_context() -> None:
    p = wy.Parameter(np.ones(64, np.float32))
    loss = p.dropout(0.5, stream=1).sum()
    loss.forward()
    mask = of_program("native", steps=9)(p.dropout(0.5, stream=1))()
    wy.random.set_step(9)
    with wy.random.at_step(3):
        wy.random.normal((2,)).forward()
    loss.backward()
    np.testing.assert_array_equal(p.gradient, mask)


def test_steps_are_whole_numbers_and_none_is_set_inside_at_step() -> None:
    for function in (wy.random.set_step, wy.random.at_step):
        # Only `at_step` returns a context.
        negative = pytest.raises(OptionError, match="step must be an integer of at least 0, not -1")
        with negative, function(-1):  # type: ignore[union-attr]
            pass
        # Only `at_step` returns a context.
        fraction = pytest.raises(DTypeError, match=r"integer of at least 0, not 0\.5")
        with fraction, function(0.5):  # type: ignore[arg-type, union-attr]
            pass
    with wy.random.at_step(5):
        with pytest.raises(OptionError, match=r"set_step\(9\) inside at_step\(5\)"):
            wy.random.set_step(9)
        with pytest.raises(OptionError, match=r"wy\.nn\.seed\(1\) inside at_step\(5\): seed before"):
            wy.nn.seed(1)


# --- wy.nn.seed ------------------------------------------------------------------------------------------------------


def dropped(seed: int) -> tuple[Any, Any]:
    """Build a small model after `seed`; return its loss and a node of noise."""
    wy.nn.seed(seed)
    layer, dropout = wy.nn.Linear(3, 16), wy.nn.Dropout(0.5)
    return dropout(layer(wy.Constant(np.ones((2, 3), np.float32)))).sum(), wy.random.normal((5,))


@pytest.mark.parametrize("seed", [0, 7])
def test_a_seed_repeats_what_a_model_draws(seed: int) -> None:
    values = []
    for _ in range(2):
        loss, noise = dropped(seed)
        values.append([loss.forward(), *noise.forward(), *noise.forward(), wy.compile(loss)(), *wy.compile(noise)()])
    np.testing.assert_array_equal(values[0], values[1])
    by_jax: Any = wy.compile(noise, engine="jax")
    np.testing.assert_allclose(by_jax({}), values[0][-5:], rtol=1e-6)
    assert dropped(seed + 1)[1].forward()[0] != values[0][1]


def test_a_seed_repeats_a_training() -> None:
    losses = []
    for _ in range(2):
        loss, _ = dropped(3)
        program = wy.compile(loss, wy.optim.SGD(loss.parameters(), 0.1))
        losses.append([float(program({})) for _ in range(3)])
    assert losses[0] == losses[1]


def test_nodes_of_one_graph_and_graphs_of_different_seeds_are_independent() -> None:
    first, second = dropped(1), dropped(2)
    wy.nn.seed(3)
    nodes = [wy.random.normal((50,)) for _ in range(3)]
    values = [*wy.run(nodes), *(np.resize(value, 50) for value in wy.run([first[1], second[1]]))]
    assert np.unique([value[0] for value in values]).size == 5


def test_a_pickled_model_draws_as_before() -> None:
    _, noise = dropped(4)
    text, expected = pickle.dumps(noise), noise.forward()
    wy.nn.seed(5)
    np.testing.assert_array_equal(pickle.loads(text).forward(), expected)


def test_a_node_with_its_own_seed_and_stream_is_the_same_wherever_it_is_built() -> None:
    values = []
    for seed in (0, 1):
        wy.nn.seed(seed)
        wy.random.normal((2,))
        values.append(wy.random.normal((5,), seed=3, stream=4).forward())
    np.testing.assert_array_equal(values[0], values[1])
