from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, OptionError

SCRIPT = "import wyrm as wy; print([wy.nn.Linear(2, 3).weight.value.tolist() for _ in range(2)])"


@pytest.fixture(autouse=True)
def restore_the_seed() -> Iterator[None]:
    yield
    wy.nn.seed(0)


def weight(seed: int | None = None) -> list[float]:
    values: list[float] = wy.nn.Linear(2, 3, seed=seed).weight.value.ravel().tolist()
    return values


def test_layers_of_one_shape_differ() -> None:
    assert weight() != weight()


def test_a_seed_repeats_all_layers_after_it() -> None:
    wy.nn.seed(7)
    first = [weight() for _ in range(3)]
    wy.nn.seed(7)
    assert [weight() for _ in range(3)] == first
    wy.nn.seed(8)
    assert weight() not in first


def test_embeddings_take_from_the_same_sequence() -> None:
    wy.nn.seed(7)
    weight()
    first = wy.nn.Embedding(2, 3).weight.value
    wy.nn.seed(7)
    weight()
    np.testing.assert_array_equal(wy.nn.Embedding(2, 3).weight.value, first)


def test_a_layer_with_its_own_seed_repeats_and_disturbs_no_other() -> None:
    wy.nn.seed(7)
    second = [weight(), weight()][1]
    wy.nn.seed(7)
    weight()
    assert weight(seed=5) == weight(seed=5)
    assert weight() == second


def test_a_script_without_a_seed_is_reproducible() -> None:
    runs = [subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True).stdout for _ in range(2)]
    assert runs[0] == runs[1]
    wy.nn.seed(0)
    assert runs[0].decode().strip() == str([wy.nn.Linear(2, 3).weight.value.tolist() for _ in range(2)])


def test_a_numpy_integer_is_a_seed() -> None:
    wy.nn.seed(int(np.int64(7)))
    first = weight()
    wy.nn.seed(7)
    assert weight() == first


def test_a_seed_below_zero_is_an_error() -> None:
    with pytest.raises(ValueError, match="a seed must be an integer of at least 0, not -1"):
        wy.nn.seed(-1)


def test_a_seed_that_is_no_whole_number_is_an_error() -> None:
    with pytest.raises(DTypeError, match="a seed must be an integer of at least 0, not '7'"):
        wy.nn.seed("7")  # type: ignore[arg-type]  # the mistake that mypy finds


def test_a_layers_seed_below_zero_is_an_error() -> None:
    with pytest.raises(ValueError, match="a seed must be an integer of at least 0, not -1"):
        weight(seed=-1)


def test_a_layers_seed_that_is_no_whole_number_is_an_error() -> None:
    with pytest.raises(DTypeError, match=r"a seed must be an integer of at least 0, not 0\.5"):
        wy.nn.Embedding(2, 3, seed=0.5)  # type: ignore[arg-type]  # the mistake that mypy finds


def drawn() -> list[float]:
    """Return what a new random node draws in step 3."""
    with wy.random.at_step(3):
        values: list[float] = wy.random.normal((4,)).forward().tolist()
    return values


def test_a_context_seeds_layers_and_random_nodes_and_disturbs_no_other() -> None:
    wy.nn.seed(7)
    layers, draws = [weight(), weight()], [drawn(), drawn()]
    wy.nn.seed(7)
    assert (weight(), drawn()) == (layers[0], draws[0])
    with wy.nn.seeded(7):
        assert (weight(), drawn()) == (layers[0], draws[0])
        with wy.nn.seeded(8):
            other = weight(), drawn()
        assert (weight(), drawn()) == (layers[1], draws[1])
    assert (weight(), drawn()) == (layers[1], draws[1])
    wy.nn.seed(8)
    assert (weight(), drawn()) == other


def test_a_seed_inside_of_a_context_holds_until_its_end() -> None:
    wy.nn.seed(7)
    first, second = weight(), weight()
    wy.nn.seed(7)
    weight()
    with wy.nn.seeded(9), pytest.raises(RuntimeError):
        wy.nn.seed(7)
        assert weight() == first
        raise RuntimeError
    assert weight() == second


def test_a_context_holds_in_its_own_thread() -> None:
    wy.nn.seed(7)
    first = weight()
    wy.nn.seed(7)
    with wy.nn.seeded(9), ThreadPoolExecutor(1) as pool:
        assert pool.submit(weight).result() == first


@pytest.mark.parametrize(("number", "error"), [(-1, OptionError), (0.5, DTypeError), (None, DTypeError)])
def test_a_context_refuses_what_is_no_seed(number: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="a seed"), wy.nn.seeded(number):
        pass


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_a_model_of_a_package_trains_alike_whatever_its_user_builds(engine: Any) -> None:
    def trained() -> float:
        with wy.nn.seeded(5):
            x = wy.Input(dims=(wy.Dim(), 3), name="x")
            loss = wy.nn.Dropout(0.4)(wy.nn.Linear(3, 8)(x)).square().mean()
        train = wy.compile(loss, wy.optim.SGD(loss.parameters(), 0.1), engine=engine)
        mean: float = train.epoch({x: np.ones((20, 3))}, batch_size=4, shuffle=True, seed=5)
        return mean

    wy.nn.seed(1)
    first = trained()
    weight()
    drawn()
    assert trained() == first
