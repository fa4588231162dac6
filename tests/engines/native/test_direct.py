"""Calls that read large inputs where the caller has them, and write large outputs to memory that nobody holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy

RANDOM = np.random.default_rng(0)
SHAPE = (64, 64, 8)  # 128 KiB


class Batch(wy.Dim): ...


def normal(*shape: int) -> Any:
    return RANDOM.standard_normal(shape, np.float32)


def program(function: Any) -> Any:
    x = wy.Input(dims=(Batch(), *SHAPE[1:]), name="x")
    compiled: Any = wy.compile(function(x))
    return lambda data: compiled({x: data})


def test_results_that_are_held_are_never_overwritten() -> None:
    double = program(lambda x: [2.0 * x, 3.0 * x.transpose((1, 0, 2)), x.sum()])
    held = []
    for turn in range(12):
        data = normal(SHAPE[0] + turn % 2, *SHAPE[1:])
        results = double(data)
        if turn % 3:
            held.append((data, results[0], results[1][1:]))
        for each, twice, turned in held:
            np.testing.assert_array_equal(twice, 2.0 * each)
            np.testing.assert_array_equal(turned, 3.0 * each.transpose(1, 0, 2)[1:])


def test_a_result_is_a_plain_array_and_its_memory_is_used_again() -> None:
    double, data = program(lambda x: 2.0 * x), normal(*SHAPE)
    double(data)
    addresses = set()
    for _ in range(6):
        result = double(data)
        result += 1.0
        addresses.add(result.ctypes.data)
    assert len(addresses) <= 2 and result.flags.c_contiguous and result.flags.writeable
    np.testing.assert_array_equal(double(data), 2.0 * data)


def test_a_result_is_the_next_input() -> None:
    double, data = program(lambda x: 2.0 * x), normal(*SHAPE)
    result = data.copy()
    for _ in range(6):
        result = double(result)
    np.testing.assert_array_equal(result, 64.0 * data)


@pytest.mark.parametrize(
    "given",
    [
        lambda x: np.asfortranarray(x), lambda x: x[::-1], lambda x: np.broadcast_to(x[:1], x.shape),
        lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape),
        lambda x: x.astype(np.float64), lambda x: np.ma.asarray(x).data, lambda x: np.lib.stride_tricks.as_strided(x),
    ],
)  # fmt: skip
def test_inputs_in_any_memory(given: Any) -> None:
    double = program(lambda x: 2.0 * x.relu())
    for _ in range(3):
        data = given(normal(*SHAPE))
        np.testing.assert_array_equal(double(data), 2.0 * np.maximum(data, 0.0))
        plain = normal(*SHAPE)
        np.testing.assert_array_equal(double(plain), 2.0 * np.maximum(plain, 0.0))


def test_an_input_that_is_an_output_or_keeps_its_value() -> None:
    x, y = wy.Input(dims=SHAPE, name="x"), wy.Input(dims=SHAPE, name="y")
    both: Any = wy.compile([x, x + y])
    first = normal(*SHAPE)
    y.set(first)
    for _ in range(3):
        data = normal(*SHAPE)
        same, total = both({x: data})
        data[0] = 0.0
        np.testing.assert_array_equal(total, same + first)
        assert not np.shares_memory(same, data)
        np.testing.assert_array_equal(both({x: data, y: data})[1], 2.0 * data)


def test_functions_of_arrays() -> None:
    double = wy.function(lambda x, y: (2.0 * x, x + y), engine="native")
    x, held = normal(*SHAPE), []
    for _ in range(5):
        y = normal(*SHAPE)
        held.append((y, *double(x, y)))
        for each, twice, total in held:
            np.testing.assert_array_equal(twice, 2.0 * x)
            np.testing.assert_array_equal(total, x + each)


def test_what_is_refused_leaves_no_trace() -> None:
    double, data = program(lambda x: 2.0 * x), normal(*SHAPE)
    first = double(data)
    for _ in range(3):
        wrong = data.copy()
        wrong[3] = np.nan
        with pytest.raises(wy.errors.NotFinite):
            double(wrong)
        np.testing.assert_array_equal(double(data), first)
