"""What a program leaves behind: optimizer state, counts and rates, row orders, and data of any size and kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.engines.native.test_training import OPTIMIZERS, eager_epoch, model


class Batch(wy.Dim): ...


def line(loop: Any = "python", learning_rate: Any = 0.5) -> tuple[Any, Any, Any, Any]:
    """Return an input, a scalar parameter pulled towards its mean, the optimizer, and the program."""
    x = wy.Input(dims=(Batch(),), name="x", dtype=np.float64)
    weight = wy.Parameter(np.float64(0.0), name="weight")
    errors: Any = (weight - x).square() * 0.5
    optimizer = wy.optim.SGD([weight], learning_rate)
    return x, weight, optimizer, wy.compile(errors.mean(), optimizer, loop=loop)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_state_is_that_of_the_reference(name: str, dtype: type) -> None:
    states = []
    for native in (True, False):
        loss, columns, parameters = model(dtype)
        optimizer = OPTIMIZERS[name](parameters)
        program = wy.compile(loss, optimizer, loop="compiled") if native else None
        if program is not None:
            program.epoch(columns, batch_size=5)
        else:
            eager_epoch(loss, columns, optimizer, 5)
        states.append(optimizer.state_dict())
    # Five steps; in float32 the rules divide by roots of small squares, and the state has their rounding errors.
    tolerance = 1e-10 if dtype is np.float64 else 5e-4
    assert states[0].keys() == states[1].keys()
    for key, want in states[1].items():
        np.testing.assert_allclose(states[0][key], want, rtol=tolerance, atol=tolerance, err_msg=key)


def test_a_loaded_state_is_the_one_that_goes_on() -> None:
    results = []
    for interrupted in (True, False):
        loss, columns, parameters = model(np.float64)
        optimizer = wy.optim.Adam(parameters, 0.1)
        program = wy.compile(loss, optimizer, loop="python")
        program.epoch(columns, batch_size=5)
        if interrupted:
            state, values = optimizer.state_dict(), [parameter.value for parameter in parameters]
            program.epoch(columns, batch_size=5)
            optimizer.load_state_dict(state)
            for parameter, value in zip(parameters, values, strict=True):
                parameter.set(value)
        program.epoch(columns, batch_size=5)
        results.append([parameter.value for parameter in parameters])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_schedule_goes_on_from_call_to_call() -> None:
    rates = [0.5, 0.25, 0.125, 0.0625, 0.5]
    x, weight, optimizer, train = line(learning_rate=lambda step: rates[step])
    expected = 0.0
    train({x: [1.0, 1.0]})
    train.epoch({x: np.array([2.0, 2.0, 3.0, 3.0, 4.0])}, batch_size=2)
    train({x: [5.0]})
    for rate, target in zip(rates, [1.0, 2.0, 3.0, 4.0, 5.0], strict=True):
        expected -= rate * (expected - target)
    assert float(weight) == pytest.approx(expected, rel=1e-15) and optimizer.steps == 5


def test_a_new_rate_counts_from_the_next_step() -> None:
    x, weight, optimizer, train = line(learning_rate=0.5)
    train.epoch({x: np.ones(2)}, batch_size=2)
    optimizer.learning_rate = 0.0
    train.epoch({x: np.ones(2)}, batch_size=1)
    assert float(weight) == 0.5
    optimizer.learning_rate = 1.0
    train({x: [3.0]})
    assert float(weight) == 3.0


def test_what_is_set_between_passes_is_what_the_next_one_starts_from() -> None:
    x, weight, _, train = line()
    for value in (7.0, -3.0):
        weight.set(value)
        assert train.epoch({x: np.array([value])}, batch_size=1) == 0.0
        assert float(weight) == value


def test_eager_and_native_passes_take_turns() -> None:
    x, weight, optimizer, train = line("compiled")
    loss: Any = (weight - x).square() * 0.5
    mean = loss.mean()
    expected = 0.0
    for start in range(3):
        data = np.arange(start, start + 4.0)
        train.epoch({x: data}, batch_size=4)
        assert eager_epoch(mean, {x: data}, optimizer, 4) == pytest.approx(float(mean.forward()) * 4 - 3 * 1.25 / 2)
        for _ in range(2):
            expected -= 0.5 * (expected - data.mean())
    assert float(weight) == pytest.approx(expected, rel=1e-12) and optimizer.steps == 6


@pytest.mark.parametrize("loop", ["compiled", "python"])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 8])
def test_the_loss_is_the_mean_over_the_rows(rows: int, loop: Any) -> None:
    x, _, optimizer, train = line(loop, learning_rate=0.0)
    data = np.arange(rows, dtype=np.float64)
    for size in (1, 3, 4, 100):
        assert train.epoch({x: data}, batch_size=size) == pytest.approx((data**2).mean() / 2, rel=1e-14)
    assert optimizer.steps == sum(-(-rows // size) for size in (1, 3, 4, 100))


@pytest.mark.parametrize("mode", ["hogwild", "synchronized"])
@pytest.mark.parametrize("rows", [1, 5, 12, 13])
def test_threads_go_through_every_row_once(rows: int, mode: Any) -> None:
    x = wy.Input(dims=(Batch(),), name="x", dtype=np.float64)
    weight = wy.Parameter(np.zeros(16), name="weight")
    loss: Any = (x.sum() * weight.sum()) * 0.0 + x.mean()
    train = wy.compile(loss, wy.optim.SGD([weight], 0.1))
    data = 2.0 ** np.arange(rows)
    for size in (1, 2, 5):
        for shuffle in (False, True):
            found = train.epoch({x: data}, batch_size=size, threads=3, mode=mode, shuffle=shuffle)
            assert found * rows == pytest.approx(data.sum(), rel=1e-12)


def test_data_of_any_kind_is_a_column() -> None:
    x, _, _, train = line(learning_rate=0.0)
    read_only = np.array([1.0, 2.0, 3.0])
    read_only.flags.writeable = False
    kinds: list[Any] = [
        [1.0, 2.0, 3.0], [1, 2, 3], range(1, 4), read_only, np.array([1, 2, 3], np.uint8),
        np.array([1.0, 9.0, 2.0, 9.0, 3.0])[::2], np.array([3.0, 2.0, 1.0])[::-1], np.array([1.0, 2.0, 3.0], ">f4"),
        np.array([1.0, 2.0, 3.0], np.float16),
    ]  # fmt: skip
    for column in kinds:
        assert train.epoch({x: column}, batch_size=2) == pytest.approx(14.0 / 6.0, rel=1e-15), column
    assert train.epoch({x: np.broadcast_to(np.float64(2.0), (5,))}, batch_size=2) == pytest.approx(2.0, rel=1e-15)


def test_masks_and_columns_of_any_rank() -> None:
    batch = Batch()
    keep = wy.Input(dims=(batch, 2), name="keep", dtype=np.bool_)
    cube = wy.Input(dims=(batch, 2, 3), name="cube")
    weight = wy.Parameter(1.0, name="weight")
    chosen: Any = wy.where(keep, cube.sum(axis=-1), 0.0)
    train = wy.compile((chosen * weight).sum(axis=-1).mean(), wy.optim.SGD([weight], 0.0), loop="python")
    random = np.random.default_rng(0)
    mask, data = random.random((7, 2)) < 0.5, random.standard_normal((7, 2, 3)).astype(np.float32)
    expected = (mask * data.sum(-1)).sum() / 7
    for strided in (data, np.asfortranarray(data), np.repeat(data, 2, axis=0)[::2]):
        assert train.epoch({keep: mask, cube: strided}, batch_size=3) == pytest.approx(expected, rel=1e-5)


def test_rows_come_in_another_order_in_every_pass_and_the_same_one_for_a_seed() -> None:
    def finals(seed: int) -> list[float]:
        # At learning rate one half the last rows weigh most, so the final weight reveals the order.
        x, weight, _, train = line(learning_rate=0.5)
        found = []
        for _ in range(3):
            weight.set(0.0)
            train.epoch({x: np.arange(40.0)}, batch_size=1, shuffle=True, seed=seed)
            found.append(float(weight))
        return found

    first = finals(1)
    assert first == finals(1)
    assert len(set(first)) == 3 and not set(first) & set(finals(2))


def test_a_shuffled_pass_is_a_permutation_with_a_smaller_last_batch() -> None:
    row, table = wy.IndexInput(dims=(Batch(),), name="row"), wy.Parameter.zeros((50, 1), name="table")
    sizes = wy.Parameter(0.0, name="sizes")
    count: Any = table.index(row).sum()
    ones: Any = (table.index(row) * 0.0 + 1.0).sum()
    train = wy.compile(-count - sizes * ones, wy.optim.SGD([table, sizes], 1.0), loop="python")
    train.epoch({row: np.arange(50)}, batch_size=8, shuffle=True)
    assert (table.value == 1.0).all() and float(sizes) == 50.0


def test_a_parameter_that_the_loss_does_not_use_stays() -> None:
    used, unused = wy.Parameter([1.0, 2.0], name="used"), wy.Parameter([1.0, 2.0], name="unused")
    optimizer = wy.optim.AdamW([used, unused], 0.1, weight_decay=0.1)
    wy.compile(used.square().sum(), optimizer, loop="python")({})
    assert unused.value.tolist() == [1.0, 2.0]
    assert (used.value != np.array([1.0, 2.0])).all()


def test_values_and_gradients_that_were_computed_before_are_computed_anew() -> None:
    x, weight, _, train = line()
    doubled: Any = weight * 2.0
    assert doubled.forward() == 0.0
    train.epoch({x: np.array([4.0])}, batch_size=1)
    assert doubled.forward() == 4.0
