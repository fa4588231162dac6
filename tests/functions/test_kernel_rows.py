"""`wyrm.kernel(batch=...)`: kernels of a batch whose rows threads share."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# Bodies of kernels have no types.

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.exporting.loaded import check_predictions, loaded
from tests.functions.test_kernels import Batch, Time, ops_of, products, random
from wyrm.engines.native.products import pool
from wyrm.errors import IndexOutOfRange, RegistrationError, ShapeError
from wyrm.testing import check_grads


@wy.kernel(batch=Batch)
def of_rows(x: wy.Tensor[Batch, Time], y: wy.Tensor[Time], factor, out: wy.Written[Batch], last: wy.Written[Batch]):
    table = np.zeros(x.shape[1] + 1)
    for b in range(x.shape[0]):
        table[0] = 1.0
        for t in range(x.shape[1]):
            table[t + 1] = table[t] * np.tanh(x[b, t]) * factor + y[t]
        out[b] = table[x.shape[1]]
        last[b] = factor * x[b, x.shape[1] - 1]


apart = wy.kernel(of_rows.kernel_function)


@wy.kernel(batch="Batch")
def until(x: wy.Tensor[Batch], out: wy.Written[Batch]):
    for b in range(x.size):
        v = x[b]
        while v < 3.0:
            v = v * 1.5 + 0.2
        out[b] = v


def outputs_of(kernel: Any, x: Any, y: Any, factor: Any) -> list[Any]:
    out, last = kernel(x, y, factor)
    loss = (out * out).sum() + (last * out).sum()
    gradients = [wy.grad(loss, each) for each in (x, y, factor)]
    return [out, last, *gradients, wy.grad((gradients[1] * gradients[1]).sum() + gradients[2], x)]


@pytest.mark.parametrize("rows", [0, 1, 3, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_compute_what_the_kernel_does(rows: int, dtype: Any) -> None:
    leaves = wy.Parameter(random(rows, 4).astype(dtype)), wy.Parameter(random(4).astype(dtype))
    factor = wy.Parameter(dtype(0.7))
    expected = [each.forward() for each in outputs_of(apart, *leaves, factor)]
    outputs = outputs_of(of_rows, *leaves, factor)
    found = {"reference": [each.forward() for each in outputs], "native": wy.compile(outputs)()}
    if rows == 3:
        found["jax"] = wy.compile(outputs, engine="jax")()
    for engine, values in found.items():
        for value, wanted in zip(values, expected, strict=True):
            tolerance = 3e-5 if dtype is np.float32 else 1e-12
            np.testing.assert_allclose(value, wanted, rtol=tolerance, atol=tolerance, err_msg=engine)


def test_gradients_of_both_orders() -> None:
    x, y, factor = wy.Parameter(random(3, 4)), wy.Parameter(random(4)), wy.Parameter(np.float64(0.7))
    out, last = of_rows(x, y, factor)
    check_grads((out * last).sum(), engines=["native"])
    check_grads(until(x[:, 0]), engines=["native"])


def test_numbers_do_not_depend_on_threads() -> None:
    batch = wy.Input(dims=(Batch(), Time()), dtype=np.float32)
    y, factor = wy.Parameter(random(300).astype(np.float32), name="y"), wy.Parameter(np.float32(0.7), name="factor")
    out, last = of_rows(batch, y, factor)
    loss = (out * out).sum() + last.sum()
    outputs = [out, wy.grad(loss, batch), wy.grad(loss, y), wy.grad(loss, factor)]
    found = []
    try:
        for threads in (1, 2, None):
            pool.limit(threads)
            program: Any = wy.compile(outputs)
            assert ops_of(program) == ["KernelOfRowsResiduals", "KernelOfRowsGradient"]
            assert program.source.count("in shared_turns(slots, work)") == 2
            found.append(program({batch: random(500, 300).astype(np.float32)}))
    finally:
        pool.limit(None)
    for others in found[1:]:
        for first, other in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(first, other)


def test_it_trains_on_batches_of_any_size() -> None:
    x = wy.Input(dims=(Batch(), Time()), dtype=np.float64)
    y, factor = wy.Parameter(random(4), name="y"), wy.Parameter(np.float64(0.7), name="factor")
    out, _ = of_rows(x, y, factor)
    train = wy.compile((out * out).mean(), wy.optim.SGD([y, factor], 0.01))
    first = train({x: random(20, 4)})
    for rows in (5, 17, 20) * 5:
        last = train({x: random(20, 4)[:rows]})
    assert last < first


def test_calls_in_python_take_rows_one_by_one() -> None:
    x, y = random(3, 4), random(4)
    out, last = np.zeros(3), np.zeros(3)
    of_rows(x, y, 0.7, out, last)
    wanted = of_rows(wy.Parameter(x), y, 0.7)
    np.testing.assert_allclose(out, wanted[0].forward(), rtol=1e-13)
    with pytest.raises(ShapeError, match="rows are not equally many"):
        of_rows(x, y, 0.7, out[:2], last)


def test_graphs_with_rows_are_pickled_and_exported() -> None:
    x, y = wy.Input(random(3, 4).astype(np.float32), name="x"), wy.Input(random(4).astype(np.float32), name="y")
    out, _ = of_rows(x, y, 0.7)
    outputs = [out, wy.grad(out.sum(), x), wy.grad(out.sum(), y)]
    program: Any = wy.compile(outputs)
    for found, wanted in zip(wy.compile(pickle.loads(pickle.dumps(outputs)))(), program(), strict=True):
        np.testing.assert_array_equal(found, wanted)
    check_predictions(loaded(predict=program), program, ["value", "of x", "of y"], rtol=1e-5, atol=1e-6)


@wy.kernel(batch=Batch)
def returns(x: wy.Tensor[Batch]):
    return x[0]


@wy.kernel(batch=Time)
def last_axis(x: wy.Tensor[Batch, Time], out: wy.Written[Time]):
    out[0] = x[0, 0]


@wy.kernel(batch=Batch)
def result_without(x: wy.Tensor[Batch, Time], y: wy.Tensor[Time], out: wy.Written[Time]):
    out[0] = x[0, 0]


@wy.kernel(batch=Batch)
def beyond(x: wy.Tensor[Batch], out: wy.Written[Batch]):
    out[0] = x[1]


def test_mistakes_say_what_to_write() -> None:
    x, y = wy.Parameter(random(3, 4)), wy.Parameter(random(4))
    for call, error, text in (
        (lambda: returns(y), RegistrationError, r"as in out: wy.Written\[Batch\]"),
        (lambda: last_axis(x), ShapeError, r"must be the first one of x, not one of \(Batch, Time\)"),
        (lambda: result_without(x, y), ShapeError, "annotate an operand and each result with it"),
        (lambda: beyond(y).forward(), IndexOutOfRange, "kernel beyond"),
        (wy.compile([beyond(y)]), IndexOutOfRange, "kernel beyond"),
    ):
        with pytest.raises(error, match=text):
            call()
    with pytest.raises(wy.errors.OptionError, match="batch must be an axis of the annotations"):
        wy.kernel(products.kernel_function, batch=0)  # type: ignore[call-overload]  # what is refused
