"""The recurrent ops: kernels, axes with sizes from the data, higher-order gradients, and errors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.native import compiled
from tests.samples.lstm import lstm_states
from tests.values import ENGINES, computed
from wyrm.errors import DTypeError, ShapeError
from wyrm.ops.elementwise import fast_math
from wyrm.ops.recurrence.lstm import LSTM, LSTMGradient, LSTMResiduals
from wyrm.testing import check_grads


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


class Hidden(wy.Dim): ...


def operands(
    dtype: Any, coupled: bool, resets: bool, batch: int = 3, time: int = 5, hidden: int = 6
) -> tuple[Any, ...]:
    random = np.random.default_rng(1)
    gates = 3 if coupled else 4
    shapes = (batch, time, gates * hidden), (hidden, gates * hidden), (batch, hidden), (batch, hidden)
    arrays = [random.normal(size=shape).astype(dtype) for shape in shapes]
    return (*arrays, random.random((batch, time)) < 0.3) if resets else tuple(arrays)


def leaves(arrays: tuple[Any, ...]) -> list[Any]:
    return [wy.Input(array) if array.dtype.kind == "b" else wy.Parameter(array) for array in arrays]


def run_kernel(node: Any) -> Any:
    arrays = [np.ascontiguousarray(parent.forward()) for parent in node.parents]
    out = np.full(node.shape, np.nan, node.dtype)
    rule: Any = wy.LOOPS.of(node)
    rule.kernel(*rule.kernel_arguments(node, arrays, out))
    return out


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("hidden", [6, 16, 1])
def test_kernels_equal_evaluate(dtype: Any, coupled: bool, resets: bool, hidden: int) -> None:
    residuals = LSTMResiduals(*leaves(operands(dtype, coupled, resets, hidden=hidden)), coupled=coupled)
    states = LSTM(*residuals.parents, coupled=coupled)
    states_gradient = wy.Parameter(np.random.default_rng(2).normal(size=states.shape).astype(dtype))
    gradient = LSTMGradient(residuals, residuals.parents[1], states_gradient, *residuals.parents[4:])
    tolerance = 2e-6 if dtype == np.float32 else 1e-14
    for node in (residuals, gradient):
        np.testing.assert_allclose(run_kernel(node), node.forward(), rtol=tolerance * 10, atol=tolerance)


@pytest.mark.parametrize("coupled", [False, True])
def test_native_gradients_of_many_rows_equal_those_of_the_ops(coupled: bool) -> None:
    *arrays, resets = operands(np.float64, coupled, resets=True, batch=32, time=9)
    parameters = leaves(tuple(arrays))
    states: Any = LSTM(*parameters, wy.Input(resets), coupled=coupled)
    weights = wy.Constant(np.random.default_rng(3).normal(size=states.shape))
    gradients = wy.vjp(states, parameters, weights)
    for actual, gradient in zip(wy.compile(list(gradients))(), gradients, strict=True):
        np.testing.assert_allclose(actual, gradient.forward(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["float32_exp", "float32_exp_negative", "float32_exp2_negative", "float32_sigmoid", "float32_tanh"]
)
def test_fast_functions_are_within_three_units_of_the_last_place(name: str) -> None:
    fill = compiled(getattr(fast_math, name), elementwise=True)
    sizes = np.arange(0, 2**31 - 2**23, 4999, dtype=np.int64).astype(np.uint32).view(np.float32)
    x = np.concatenate([-sizes, sizes])
    x = x[x <= 0] if name.startswith("float32_exp") else x
    out = np.empty_like(x)
    fill(x, out)
    wide = x.astype(np.float64)
    power = (np.exp2 if "exp2" in name else np.exp)(-np.abs(wide))
    exact = np.tanh(wide) if name == "float32_tanh" else power
    if name == "float32_sigmoid":
        exact = np.where(wide < 0.0, power, 1.0) / (1.0 + power)
    errors = np.abs(out - exact) / np.spacing(np.abs(exact).astype(np.float32))
    inside = (x >= (-125.0 if "exp2" in name else -87.0)) | (name == "float32_tanh")
    assert errors[inside].max() < 3.0
    assert np.abs(out - exact)[~inside].max(initial=0.0) < 3e-38


def test_the_fast_exponential_of_wide_numbers_is_within_one_unit_of_the_last_place() -> None:
    x = np.concatenate([-np.geomspace(1e-20, 708.0, 100_001)[:-1], -np.arange(1022) * np.log(2.0), [-708.0]])
    out = np.empty_like(x)
    compiled(fast_math.float64_exp_negative, elementwise=True)(x, out)
    exact = np.exp(x.astype(np.longdouble))
    assert np.max(np.abs(out - exact) / np.spacing(exact.astype(np.float64))) < (
        1.0 if np.finfo(exact.dtype).nmant > 52 else 2.0
    )


def test_fast_functions_keep_nan_and_take_infinities() -> None:
    x, out = np.array([np.nan, np.inf, -np.inf], np.float32), np.zeros(3, np.float32)
    for function, expected in (
        (fast_math.float32_sigmoid, [np.nan, 1.0, 0.0]),
        (fast_math.float32_tanh, [np.nan, 1.0, -1.0]),
        (fast_math.float32_exp2_negative, [np.nan, np.nan, 0.0]),
    ):
        compiled(function, elementwise=True)(x, out)
        np.testing.assert_allclose(out, expected, atol=2e-38)


@pytest.mark.parametrize(("name", "exact"), [("float32_log", np.log), ("float32_log1p", np.log1p)])
def test_fast_logarithms_are_within_two_units_of_the_last_place_and_right_at_the_edges(name: str, exact: Any) -> None:
    sizes = np.arange(0, 2**31 - 2**23 + 4999, 4999, dtype=np.int64).astype(np.uint32).view(np.float32)
    edges = np.array([0.0, 1e-45, 1.17549435e-38, 1.0, 1.0 + 2.0**-23, 1.5, 3.4e38, np.inf, np.nan], np.float32)
    x = np.concatenate([sizes, -sizes, edges, -edges])
    out = np.empty_like(x)
    compiled(getattr(fast_math, name), elementwise=True)(x, out)
    with np.errstate(all="ignore"):
        wanted = exact(x.astype(np.float64))
    special = (out == 0.0) | ~np.isfinite(wanted)
    np.testing.assert_array_equal(out[special], wanted[special].astype(np.float32))
    zeros = wanted == 0.0
    np.testing.assert_array_equal(np.signbit(out[zeros]), np.signbit(wanted[zeros]))
    rest = ~special
    errors = np.abs(out[rest] - wanted[rest]) / np.spacing(np.abs(wanted[rest]).astype(np.float32))
    assert errors.max() < 1.5


def test_axes_may_get_their_sizes_from_the_data() -> None:
    arrays = operands(np.float64, False, True)
    dims = (Batch(), Time(), 24), (Hidden(6), 24), (Batch(), Hidden(6)), (Batch(), Hidden(6)), (Batch(), Time())
    inputs = [wy.Input(dims=axes, dtype=array.dtype) for axes, array in zip(dims, arrays, strict=True)]
    states = LSTM(*inputs)
    assert states.dims == (Batch(), Time(), 2, Hidden(6))
    gradients = wy.grad(states[:, -1, 0].square().sum(), inputs[:4])
    for batch, time in ((3, 5), (2, 4), (0, 3)):
        cut = [a[:batch, :time] for a in (arrays[0], arrays[4])], [a[:batch] for a in arrays[2:4]]
        for leaf, array in zip(inputs, (cut[0][0], arrays[1], *cut[1], cut[0][1]), strict=True):
            leaf.set(array)
        if batch:
            expected = lstm_states(*(leaf.value for leaf in inputs))
            np.testing.assert_allclose(states.forward(), expected, rtol=1e-12)
        assert [g.forward().shape for g in gradients] == [leaf.value.shape for leaf in inputs[:4]]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_second_order_gradient_of_a_time_that_data_decides(engine: Any) -> None:
    arrays = operands(np.float64, False, True)
    found = []
    for time in (Time(), 5):
        projected = wy.Input(dims=(3, time, 24), dtype=np.float64)
        resets = wy.Input(dims=(3, time), dtype=np.bool_)
        states = LSTM(projected, *leaves(arrays[1:4]), resets)
        gradients = wy.grad(states.square().sum(), [projected, states.parents[2]])
        total: Any = gradients[0].square().sum() + gradients[1].square().sum()
        second = wy.grad(total, states.parents[2])
        data = {projected: arrays[0], resets: arrays[4]}
        found.append(computed([second], data, engine)[0])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-10)


def test_one_node_as_hidden_and_cell_state_gets_the_gradients_of_both() -> None:
    projected, weights, state, _ = leaves(operands(np.float64, False, False, batch=2, time=2, hidden=2))
    check_grads(LSTM(projected, weights, state, state))


def test_the_third_order() -> None:
    projected, weights, hidden, cell = leaves(operands(np.float64, True, False, batch=1, time=2, hidden=1))
    check_grads(LSTM(projected, weights, hidden, cell, coupled=True), order=3)


def test_a_reset_forgets_even_a_state_that_is_not_finite() -> None:
    projected, weights, hidden, cell = operands(np.float32, False, False)
    hidden[:], cell[:] = np.inf, np.nan
    resets = np.zeros((3, 5), np.bool_)
    resets[:, 0] = True
    nodes = leaves((projected, weights, np.zeros_like(hidden), np.zeros_like(cell), resets))
    residuals = LSTMResiduals(*nodes)
    expected = residuals.forward()
    arrays = [projected, weights, hidden, cell, resets]
    np.testing.assert_array_equal(residuals.evaluate(np, *arrays, shape=residuals.shape), expected)
    out = np.empty(residuals.shape, np.float32)
    rule: Any = wy.LOOPS.of(residuals)
    rule.kernel(*rule.kernel_arguments(residuals, arrays, out))
    np.testing.assert_allclose(out, expected, rtol=2e-5, atol=2e-6)


def test_large_sums_stay_finite() -> None:
    projected, weights, hidden, cell = operands(np.float32, False, False)
    residuals = LSTMResiduals(*leaves((projected * 1e4, weights, hidden, cell)))
    assert np.isfinite(residuals.forward()).all()
    with np.errstate(over="ignore"):  # NumPy evaluates both branches of the sigmoid
        assert np.isfinite(run_kernel(residuals)).all()


@pytest.mark.parametrize(
    ("position", "shape", "reason"),
    [
        (0, (3, 5, 23), r"the last axis of the projected input must be 4 \* 6, not 23"),
        (1, (6, 18), r"the last axis of the recurrent weights must be 4 \* 6, not 18"),
        (2, (2, 6), r"3 against 2"),
        (3, (3, 7), r"6 against 7"),
        (3, (3, 5, 6), r"must have 2 axes, not \(3, 5, 6\)"),
        (4, (3, 4), r"5 against 4"),
        (0, (3, 0, 24), r"the time axis has size 0"),
    ],
)
def test_operands_of_wrong_axes_are_an_error_with_the_users_line(position: int, shape: Any, reason: str) -> None:
    arrays = list(operands(np.float32, False, shape != (3, 0, 24)))
    arrays[position] = np.zeros(shape, arrays[position].dtype)
    nodes = leaves(tuple(arrays))
    with pytest.raises(ShapeError, match=reason) as error:
        LSTM(*nodes)
    assert "LSTM(*nodes)" in str(error.value)


def test_masks_in_place_of_floats_and_floats_in_place_of_masks_are_errors() -> None:
    projected, weights, hidden, cell = leaves(operands(np.float32, False, False))
    with pytest.raises(DTypeError, match=r"resets must have dtype bool, like x > 0; times is float32"):
        LSTM(projected, weights, hidden, cell, wy.Input(dims=(3, 5), name="times"))
    with pytest.raises(DTypeError, match=r"is a mask; convert it"):
        LSTM(projected, weights, hidden, hidden > 0.0)


def test_two_float_types_do_not_mix() -> None:
    projected, weights, hidden, _ = leaves(operands(np.float32, False, False))
    with pytest.raises(DTypeError, match="do not mix"):
        LSTM(projected, weights, hidden, wy.Input(dims=(3, 6), dtype=np.float64))


@pytest.mark.parametrize(
    ("name", "exact", "most"), [("log", np.log, 0.8), ("log1p", np.log1p, 1.4), ("tanh", np.tanh, 2.7)]
)
def test_fast_functions_of_wide_numbers(name: str, exact: Any, most: float) -> None:
    random = np.random.default_rng(0)
    sizes = np.concatenate([
        random.integers(0, 0x7FF0000000000000, 100_000).view(np.float64), random.uniform(0, 4, 100_000),
        1.0 + random.normal(size=50_000) * 1e-3, 10.0 ** random.uniform(-20, 20, 50_000),
    ])  # fmt: skip
    edges = [0.0, 5e-324, 1e-310, 2.2250738585072014e-308, 2.0**-60, 1 - 2.0**-53, 1.0, 1 + 2.0**-52, 1.7e308, np.inf]
    x = np.concatenate([sizes, -sizes, edges, np.negative(edges), [np.nan]])
    out = np.empty_like(x)
    compiled(getattr(fast_math, f"float64_{name}"), elementwise=True)(x, out)
    with np.errstate(all="ignore"):
        wanted = exact(x.astype(np.longdouble))
    rounded = wanted.astype(np.float64)
    special = (rounded == 0.0) | ~np.isfinite(rounded)
    np.testing.assert_array_equal(out[special], rounded[special])
    zeros = rounded == 0.0
    np.testing.assert_array_equal(np.signbit(out[zeros]), np.signbit(rounded[zeros]))
    errors = np.abs(out[~special] - wanted[~special]) / np.spacing(np.abs(rounded[~special]))
    assert errors.max() < most + (0.0 if np.finfo(wanted.dtype).nmant > 52 else 1.0)


@pytest.mark.parametrize("name", ["exp", "log", "log1p", "tanh", "softplus"])
def test_programs_of_wide_numbers_call_no_exponential_of_the_c_library(name: str) -> None:
    program = wy.compile(getattr(wy.Input(np.ones(64)), name)())
    assert "double" in program.llvm
    assert not re.findall(r"double @(?:llvm\.)?(?:exp|log|log1p|tanh)\b", program.llvm)
