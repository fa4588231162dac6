from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import pytest
from numpy.typing import NDArray

import wyrm as wy
from wyrm.errors import DTypeError, ShapeError
from wyrm.testing import check_grads


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


class Features(wy.Dim): ...


FEATURES = Features(3)
TOLERANCE = {np.float32: 1e-5, np.float64: 1e-12}


def averages(x: NDArray[Any], decay: NDArray[Any]) -> NDArray[Any]:
    """Step by step."""
    keep = 1.0 / (1.0 + np.exp(-decay))
    result = [x[:, 0]]
    for t in range(1, x.shape[1]):
        result.append(keep * result[-1] + (1.0 - keep) * x[:, t])
    return np.stack(result, 1)


def layer_and_rows(steps: int, dtype: Any) -> tuple[wy.nn.EWMA[Features], NDArray[Any]]:
    random = np.random.default_rng(steps)
    layer = wy.nn.EWMA(FEATURES, dtype=dtype)
    layer.decay.set(random.normal(size=3).astype(dtype))
    return layer, random.normal(size=(2, steps, 3)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7, 33])
def test_values_are_those_of_the_steps_one_by_one(dtype: Any, steps: int) -> None:
    layer, rows = layer_and_rows(steps, dtype)
    result = layer(wy.Constant(rows, dims=(Batch(2), Time(steps), FEATURES)))
    assert result.dtype == dtype
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(result.forward(), averages(rows, layer.decay.value), rtol=tolerance, atol=tolerance)


def test_gradients_to_second_order() -> None:
    layer, rows = layer_and_rows(5, np.float64)
    x = wy.Parameter(rows, dims=(Batch(2), Time(5), FEATURES), dtype=np.float64)
    check_grads(layer(x).square().sum())


@pytest.mark.parametrize("decay", [-1000.0, -100.0, 100.0, 1000.0])
def test_decays_at_their_limits_give_the_last_or_the_first_row(decay: float) -> None:
    layer, rows = layer_and_rows(40, np.float32)
    layer.decay.set(np.full(3, decay, np.float32))
    expected = rows if decay < 0 else np.repeat(rows[:, :1], 40, axis=1)
    x = wy.Parameter(rows, dims=(Batch(2), Time(40), FEATURES))
    result = layer(x)
    np.testing.assert_allclose(result.forward(), expected, rtol=1e-6)
    result.square().sum().backward()
    assert np.isfinite(layer.decay.gradient).all() and np.isfinite(x.gradient).all()


def test_a_native_program_learns_the_decay_that_made_the_data() -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(64, 12, 3)).astype(np.float32)
    wanted = averages(rows, np.array([-2.0, 0.5, 2.0], np.float32))
    dims = (Batch(), Time(12), FEATURES)
    x, y = wy.Input(dims=dims, name="x"), wy.Input(dims=dims, name="y")
    layer = wy.nn.EWMA(FEATURES)
    program = wy.compile((layer(x) - y).square().mean(), wy.optim.Adam(layer.parameters(), learning_rate=0.05))
    for _ in range(60):
        program.epoch({x: rows, y: wanted}, batch_size=5)  # the last batch has four rows
    np.testing.assert_allclose(layer.decay.value, [-2.0, 0.5, 2.0], atol=0.02)
    np.testing.assert_allclose(wy.compile(layer(x))({x: rows}), wanted, atol=0.02)


def test_axes_are_typed_and_kept() -> None:
    layer = wy.nn.EWMA(FEATURES)
    assert_type(layer, wy.nn.EWMA[Features])
    assert_type(wy.nn.EWMA(3), wy.nn.EWMA[Any])
    result = layer(wy.Input(dims=(Batch(), Time(5), FEATURES)))
    assert_type(result, wy.Tensor[Batch, Time, Features])
    assert result.dims[1:] == (Time(5), FEATURES)
    assert repr(layer) == "EWMA(Features(3))"


def test_wrong_wiring_is_an_error() -> None:
    layer = wy.nn.EWMA(FEATURES)
    with pytest.raises(ShapeError, match=r"EWMA takes the axes \(batch, time, features\), not"):
        layer(wy.Input(dims=(Batch(2), FEATURES)))  # type: ignore[arg-type]  # the mistake that mypy finds
    with pytest.raises(ShapeError):
        wy.nn.EWMA(3)(wy.Input(dims=(2, 5, 4)))
    with pytest.raises(ShapeError, match=r"EWMA: features is Features\(\)"):
        wy.nn.EWMA(Features())
    with pytest.raises(DTypeError):
        layer(wy.Input(dims=(Batch(2), Time(5), FEATURES), dtype=np.float64))


def test_time_may_get_its_size_from_the_data() -> None:
    layer, _ = layer_and_rows(5, np.float32)
    x = wy.Input(dims=(Batch(), Time(), FEATURES))
    run = wy.compile([layer(x), wy.nn.ewma(x, 0.3, axis=1)])
    for steps in (4, 9):
        rows = np.random.default_rng(steps).normal(size=(2, steps, 3)).astype(np.float32)
        learned, fixed = run({x: rows})
        np.testing.assert_allclose(learned, averages(rows, layer.decay.value), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(fixed, weighted_means(rows, 0.3), rtol=1e-5, atol=1e-6)


def weighted_means(x: NDArray[Any], alpha: float) -> NDArray[Any]:
    """Return the averages along axis 1 by the definition that pandas documents for `adjust=True`."""
    steps = np.arange(x.shape[1])
    back = steps[:, None] - steps
    weights = np.where(back >= 0, (1.0 - alpha) ** np.maximum(back, 0), 0.0)
    means: NDArray[Any] = np.einsum("ts,bsf->btf", weights / weights.sum(1, keepdims=True), x)
    return means


@pytest.mark.parametrize("alpha", [0.01, 0.5, 1.0])
@pytest.mark.parametrize("steps", [1, 2, 33])
def test_the_function_is_its_definition(alpha: float, steps: int) -> None:
    x = np.random.default_rng(0).normal(size=(2, steps, 3))
    adjusted = wy.nn.ewma(wy.Constant(x), alpha, axis=1)
    np.testing.assert_allclose(adjusted.forward(), weighted_means(x, alpha), rtol=1e-10, atol=1e-12)
    plain = wy.nn.ewma(wy.Constant(x), alpha, axis=-2, adjust=False)
    decay = np.full(3, np.log((1.0 - alpha) / alpha)) if alpha < 1.0 else np.full(3, -np.inf)
    np.testing.assert_allclose(plain.forward(), averages(x, decay), rtol=1e-10, atol=1e-12)
    for node, native in zip((adjusted, plain), wy.compile([adjusted, plain])(), strict=True):
        np.testing.assert_allclose(native, node.forward(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("adjust", [True, False])
def test_the_function_has_gradients_to_second_order_and_a_learned_alpha(adjust: bool) -> None:
    x, alpha = wy.Parameter(np.random.default_rng(0).normal(size=(2, 4))), wy.Parameter(np.array(0.3))
    check_grads(wy.nn.ewma(x, alpha, axis=1, adjust=adjust).square().sum())
    mapped = wy.vmap(lambda row: wy.nn.ewma(row, 0.3, adjust=adjust))(x.value)
    np.testing.assert_allclose(mapped, wy.nn.ewma(x, 0.3, axis=1, adjust=adjust).forward(), rtol=1e-12)


def test_an_alpha_out_of_range_is_an_error() -> None:
    for alpha in (0.0, -0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="alpha must be above 0 and at most 1"):
            wy.nn.ewma(wy.Constant([1.0]), alpha)
