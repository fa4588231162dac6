from __future__ import annotations

import copy
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from scipy import stats

import wyrm as wy
from tests.pytorch import torch
from wyrm.engines.native.run import draws
from wyrm.errors import NotFinite
from wyrm.graph.storage import FirstValues, Storage, Undrawn, bound_array
from wyrm.nn import initializers as init
from wyrm.ops.random import standard_draws

RANDOM: list[Any] = [
    init.Uniform(-0.5, 1.5),
    init.Normal(0.2, mean=1.0),
    init.XavierUniform(),
    init.XavierNormal(),
    init.KaimingUniform(),
    init.KaimingNormal(),
]
SHAPE = (120, 80)
_NORMAL = init.Normal(0.1)


def drawn(initializer: Any, shape: tuple[int, ...] = SHAPE) -> Any:
    return initializer(shape, 0, np.float64)


@pytest.mark.parametrize("initializer", [*RANDOM, init.Zeros(), init.Constant(2.0)], ids=str)
@pytest.mark.parametrize("shape", [(), (5,), (0, 3), (4, 3), (2, 2, 4, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shape_and_dtype(initializer: Any, shape: tuple[int, ...], dtype: Any) -> None:
    array = initializer(shape, 0, dtype)
    assert isinstance(array, np.ndarray)
    assert array.shape == shape and array.dtype == dtype
    assert np.isfinite(array).all()


@pytest.mark.parametrize("initializer", RANDOM, ids=str)
def test_a_seed_repeats_and_another_differs(initializer: Any) -> None:
    np.testing.assert_array_equal(initializer(SHAPE, 3), initializer(SHAPE, 3))
    assert (initializer(SHAPE, 3) != initializer(SHAPE, 4)).any()


@pytest.mark.parametrize("initializer", RANDOM, ids=str)
def test_a_generator_moves_on(initializer: Any) -> None:
    generator = np.random.default_rng(3)
    first, second = initializer(SHAPE, generator), initializer(SHAPE, generator)
    np.testing.assert_array_equal(first, initializer(SHAPE, 3))
    assert (first != second).any()


@pytest.mark.parametrize("initializer", RANDOM, ids=str)
def test_float32_is_float64_rounded(initializer: Any) -> None:
    np.testing.assert_array_equal(initializer(SHAPE, 3), initializer(SHAPE, 3, np.float64).astype(np.float32))


# Larger arrays are drawn by native code.
LARGE = (1100, 1000)
LARGE_RANDOM: list[Any] = [init.Normal(0.2, mean=1.0), init.Uniform(-0.5, 1.5)]


@pytest.mark.parametrize("initializer", LARGE_RANDOM, ids=str)
def test_numbers_of_large_arrays(initializer: Any) -> None:
    generator = np.random.default_rng(3)
    first, second = initializer(LARGE, generator, np.float64), initializer(LARGE, generator, np.float64)
    np.testing.assert_array_equal(first, initializer(LARGE, 3, np.float64))
    np.testing.assert_array_equal(first.astype(np.float32), initializer(LARGE, 3))
    for drawn in (first, second):
        distribution = stats.norm(1.0, 0.2) if isinstance(initializer, init.Normal) else stats.uniform(-0.5, 2.0)
        assert stats.kstest(drawn.ravel(), distribution.cdf).pvalue > 0.01
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.01


def test_large_arrays_have_the_numbers_of_their_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    (first, second), count = np.random.default_rng(3).integers(0, 2**32, 2).tolist(), LARGE[0] * LARGE[1]
    position = np.arange(count, dtype=np.uint64)
    normal = 1.0 + 0.2 * standard_draws.normal_at(position, first, second, np.float32(0.0)).astype(np.float64)
    uniform = -0.5 + 2.0 * standard_draws.uniform_at(position, first, second, np.float64(0.0))
    for processors in (1, 3):
        monkeypatch.setattr(draws, "processors", lambda found=processors: found)
        for initializer, expected in zip(LARGE_RANDOM, (normal, uniform), strict=True):
            np.testing.assert_array_equal(initializer(LARGE, 3, np.float64).ravel(), expected)


def test_a_key_has_as_many_numbers_as_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "POSITIONS", 2**20)
    monkeypatch.setattr(draws, "_CHUNK", 2**18)
    drawn = init.Normal()(LARGE, 3).ravel()
    (first, second), other = np.random.default_rng(3).integers(0, 2**32, (2, 2)).tolist()
    numbers = np.concatenate([
        standard_draws.normal_at(np.arange(size, dtype=np.uint64), key[0], key[1], np.float32(0.0))
        for size, key in ((2**20, (first, second)), (drawn.size - 2**20, other))
    ])  # fmt: skip
    np.testing.assert_array_equal(drawn, numbers)


def test_a_layer_keeps_what_is_drawn_for_it_and_copies_what_others_have() -> None:
    first, second = (wy.nn.Linear(*LARGE, seed=3).weight.value for _ in range(2))
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(first, second)
    given = init.XavierUniform()(LARGE, 3)
    parameters = wy.Parameter(given), wy.Parameter(given)
    given[:] = 0.0
    for each in parameters:
        assert (each.value != 0.0).any()


def test_constants() -> None:
    assert (drawn(init.Constant(-1.5)) == -1.5).all()
    assert (drawn(init.Zeros()) == 0.0).all()


def bound_of(fill: Any, *arguments: Any, **keywords: Any) -> float:
    """The bound or deviation that PyTorch's own initializer uses, for the weight as PyTorch lays it out."""
    torch.manual_seed(0)
    weight = torch.empty(SHAPE[::-1], dtype=torch.float64)
    fill(weight, *arguments, **keywords)
    return float(weight.abs().max() if "uniform" in fill.__name__ else weight.std())


def _name(value: Any) -> str:
    """A name that is the same in every process."""
    kind = type(value)
    return str(value) if kind.__module__ == init.__name__ else getattr(value, "__name__", kind.__name__)


@pytest.mark.parametrize(
    ("initializer", "distribution"),
    [
        (init.Uniform(-0.5, 1.5), stats.uniform(-0.5, 2.0)),
        (init.Normal(0.2, mean=1.0), stats.norm(1.0, 0.2)),
        (init.XavierUniform(), stats.uniform(-np.sqrt(6 / 200), 2 * np.sqrt(6 / 200))),
        (init.XavierUniform(gain=2.0), stats.uniform(-2 * np.sqrt(6 / 200), 4 * np.sqrt(6 / 200))),
        (init.XavierNormal(), stats.norm(0.0, np.sqrt(2 / 200))),
        (init.XavierNormal(gain=0.5), stats.norm(0.0, 0.5 * np.sqrt(2 / 200))),
        (init.KaimingUniform(), stats.uniform(-np.sqrt(6 / 120), 2 * np.sqrt(6 / 120))),
        (init.KaimingUniform(gain=1.0), stats.uniform(-np.sqrt(3 / 120), 2 * np.sqrt(3 / 120))),
        (init.KaimingNormal(), stats.norm(0.0, np.sqrt(2 / 120))),
        (init.KaimingNormal(gain=1.0), stats.norm(0.0, np.sqrt(1 / 120))),
    ],
    ids=_name,
)
def test_numbers_are_drawn_from_the_distribution(initializer: Any, distribution: Any) -> None:
    assert stats.kstest(drawn(initializer).ravel(), distribution.cdf).pvalue > 0.01


@pytest.mark.parametrize(
    ("initializer", "fill", "options"),
    [
        (init.XavierUniform(), torch.nn.init.xavier_uniform_, {}),
        (init.XavierNormal(gain=2.0), torch.nn.init.xavier_normal_, {"gain": 2.0}),
        (init.KaimingUniform(), torch.nn.init.kaiming_uniform_, {"nonlinearity": "relu"}),
        (init.KaimingNormal(), torch.nn.init.kaiming_normal_, {"nonlinearity": "relu"}),
        (init.KaimingNormal(gain=1.0), torch.nn.init.kaiming_normal_, {"nonlinearity": "linear"}),
    ],
    ids=_name,
)
def test_the_spread_is_pytorchs(initializer: Any, fill: Any, options: dict[str, Any]) -> None:
    values, bound = drawn(initializer), bound_of(fill, **options)
    spread = np.abs(values).max() if "uniform" in fill.__name__ else values.std()
    assert abs(spread / bound - 1.0) < 0.03


def test_fans_of_weights_convolutions_vectors_and_scalars() -> None:
    assert init.fans((120, 80)) == (120, 80)
    assert init.fans((3, 5, 16, 32)) == (240, 480)
    assert init.fans((7,)) == (7, 7)
    assert init.fans(()) == (1, 1)


def test_fans_of_a_convolution_are_pytorchs() -> None:
    fan_in, fan_out = torch.nn.init._calculate_fan_in_and_fan_out(torch.empty(32, 16, 3, 5))
    assert init.fans((3, 5, 16, 32)) == (fan_in, fan_out)


def test_they_are_values() -> None:
    assert init.Normal(0.1) == init.Normal(0.1) != init.Normal(0.2)
    assert repr(init.KaimingNormal(gain=1.0)) == "KaimingNormal(gain=1.0)"
    alike: list[Any] = [init.KaimingNormal(), init.KaimingUniform()]
    assert alike[0] != alike[1]
    assert len({init.Zeros(), init.Zeros(), init.XavierUniform(2.0), init.XavierUniform(2.0)}) == 2


def test_they_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        init.Normal(0.1).mean = 2.0  # type: ignore[misc]  # the mistake that mypy finds
    with pytest.raises(FrozenInstanceError):
        init.XavierUniform().gain = 2.0  # type: ignore[misc]  # the mistake that mypy finds


@pytest.mark.parametrize("gain", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("kind", [init.XavierUniform, init.XavierNormal, init.KaimingUniform, init.KaimingNormal])
def test_a_gain_that_is_not_above_zero_is_an_error(kind: Any, gain: float) -> None:
    with pytest.raises(ValueError, match=r"gain must be a finite number above 0, not"):
        kind(gain=gain)


def test_a_negative_standard_deviation_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"standard_deviation must be a finite number of at least 0, not -1\.0"):
        init.Normal(-1.0)


def test_a_mean_that_is_not_finite_is_an_error() -> None:
    with pytest.raises(ValueError, match="mean must be a finite number, not nan"):
        init.Normal(1.0, mean=float("nan"))


def test_bounds_in_the_wrong_order_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"high must be a finite number of at least 1\.0, not 0\.0"):
        init.Uniform(1.0, 0.0)


def test_an_infinite_bound_is_an_error() -> None:
    with pytest.raises(ValueError, match="low must be a finite number, not -inf"):
        init.Uniform(float("-inf"), 0.0)


def test_a_constant_that_is_not_finite_is_an_error() -> None:
    with pytest.raises(ValueError, match="value must be a finite number, not inf"):
        init.Constant(float("inf"))


def test_a_function_is_an_initializer_too() -> None:
    def eye(shape: tuple[int, ...], seed: init.Seed, dtype: Any = np.float32) -> Any:
        return np.eye(*shape, dtype=dtype)

    np.testing.assert_array_equal(wy.nn.Linear(2, 2, initializer=eye).weight.value, np.eye(2))


# --- values that are drawn when they are read -------------------------------------------------------------------------

ROWS, COLUMNS = 2**14 + 1, 48


def large(initializer: Any = _NORMAL) -> Any:
    return wy.nn.Embedding(ROWS, COLUMNS, initializer=initializer, seed=3).weight


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list of the first values that have been drawn as a whole."""
    found: list[Any] = []
    draw = FirstValues.__call__

    def recorded(self: FirstValues) -> None:
        found.append(self)
        draw(self)

    monkeypatch.setattr(FirstValues, "__call__", recorded)
    return found


@pytest.mark.parametrize("initializer", RANDOM, ids=str)
def test_large_parameters_are_drawn_once_when_they_are_read(initializer: Any, read: list[Any]) -> None:
    weight = large(initializer)
    undrawn = weight._storage.newer.undrawn
    assert not read
    expected = initializer((ROWS, COLUMNS), np.random.default_rng(3))
    np.testing.assert_array_equal(undrawn.rows(9000, 9100), expected[9000:9100])
    np.testing.assert_array_equal(undrawn.rows(ROWS - 1, ROWS), expected[-1:])
    np.testing.assert_array_equal(weight.value, expected)
    np.testing.assert_array_equal(weight.value, expected)
    assert len(read) == 1 and type(weight._storage) is Storage


@pytest.mark.parametrize(
    "use",
    [
        lambda weight: copy.deepcopy(weight).value,
        lambda weight: pickle.loads(pickle.dumps(weight)).value,
        lambda weight: weight.forward(),
        lambda weight: wy.compile(weight * 1.0)(),
        lambda weight: wy.compile(weight * 1.0, engine="jax")(),
        lambda weight: wy.nn.Linear(ROWS, COLUMNS, initializer=_NORMAL, seed=3).weight.value,
    ],
    ids=["copy", "pickle", "forward", "native", "jax", "linear"],
)
def test_whatever_reads_them_has_the_numbers(use: Any) -> None:
    np.testing.assert_array_equal(use(large()), large().value)


def test_values_that_are_set_stay() -> None:
    weight = large()
    weight.set(np.ones((ROWS, COLUMNS)))
    assert (weight.value == 1.0).all()


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_a_training_begins_with_them(engine: Any) -> None:
    weight, indices = large(), wy.IndexInput(dims=(3,), name="indices")
    program: Any = wy.compile(weight.index(indices).sum(), wy.optim.SGD([weight], 0.5), engine=engine)
    expected = large().value.copy()
    program({indices: [5, 7, ROWS - 1]})
    expected[[5, 7, ROWS - 1]] -= 0.5
    np.testing.assert_allclose(weight.value, expected, rtol=1e-6)


def test_a_subclass_draws_its_own_numbers() -> None:
    class Twice(init.Normal):
        def __call__(self, shape: tuple[int, ...], seed: Any, dtype: Any = np.float32) -> np.ndarray:
            return 2.0 * super().__call__(shape, seed, dtype)

    np.testing.assert_array_equal(large(Twice(0.1)).value, 2.0 * large().value)


def test_numbers_that_overflow_are_refused() -> None:
    with pytest.raises(NotFinite, match="clean the data"):
        large(init.Normal(3e38))


def test_threads_that_read_a_large_parameter_first_draw_it_once() -> None:
    drawn: list[int] = []

    def fill(out: Any, start: int) -> None:
        drawn.append(start)
        time.sleep(0.05)  # the other threads read meanwhile
        out[:] = 1.0

    parameter = wy.Parameter(Undrawn((1000, 600), np.dtype(np.float32), fill))
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: bound_array(parameter).sum(), range(4)))
    assert (drawn, found) == ([0], [600_000.0] * 4)
