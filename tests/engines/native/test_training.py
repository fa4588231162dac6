"""Training in native code against the reference engine: optimizers, tables, sizes, and the loop over the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.native.llvm import cache

pytestmark = pytest.mark.optimized


class Batch(wy.Dim): ...


OPTIMIZERS: dict[str, Callable[[Any], wy.optim.Optimizer]] = {
    "SGD": lambda p: wy.optim.SGD(p, learning_rate=0.1),
    "momentum": lambda p: wy.optim.SGD(p, learning_rate=0.1, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: wy.optim.SGD(p, learning_rate=0.1, momentum=0.9, nesterov=True),
    "Adagrad": lambda p: wy.optim.Adagrad(p, learning_rate=0.1, learning_rate_decay=0.1),
    "Adam": lambda p: wy.optim.Adam(p, learning_rate=0.1),
    "amsgrad": lambda p: wy.optim.Adam(p, learning_rate=0.1, amsgrad=True),
    "AdamW": lambda p: wy.optim.AdamW(p, learning_rate=wy.optim.Cosine(0.1, 20)),
    "RMSprop": lambda p: wy.optim.RMSprop(p, learning_rate=0.05, centered=True, momentum=0.5),
}


def model(dtype: type) -> tuple[Any, dict[Any, Any], list[Any]]:
    """Return a loss, columns of 23 rows for its inputs, and its parameters."""
    random = np.random.default_rng(1)

    def parameter(name: str, *shape: int) -> Any:
        return wy.Parameter(random.standard_normal(shape).astype(dtype) * 0.5, name=name)

    table, bias, weight, blocks = (
        parameter("table", 7, 3),
        parameter("bias", 7),
        parameter("weight", 3, 2),
        parameter("blocks", 5, 2, 3),
    )
    both = parameter("both", 4, 3)
    batch = Batch()
    first, second = wy.IndexInput(dims=(batch,), name="first"), wy.IndexInput(dims=(batch, 2), name="second")
    target = wy.Input(dims=(batch,), name="target", dtype=dtype)
    near, far = table.index(first), table.index(second)
    score = near.vector_dot(far.mean(axis=1)) + bias.index(first)
    pressed = (near @ weight).tanh().sum(axis=-1) + blocks.index(second).sum(axis=(1, 2, 3)) * 0.1
    mixed = both.index(second).sum(axis=(1, 2)) + both.square().sum()
    loss = (score + pressed + 0.1 * mixed - target).square().mean()
    columns = {
        first: random.integers(0, 7, 23),
        second: random.integers(0, 4, (23, 2)),
        target: random.standard_normal(23).astype(dtype),
    }
    return loss, columns, [table, bias, weight, blocks, both]


def eager_epoch(loss: Any, columns: dict[Any, Any], optimizer: wy.optim.Optimizer, size: int) -> float:
    """Run the same epoch in the reference engine."""
    rows, total = len(next(iter(columns.values()))), 0.0
    for start in range(0, rows, size):
        for leaf, column in columns.items():
            leaf.set(column[start : start + size])
        total += float(loss.forward()) * len(column[start : start + size])
        loss.backward()
        optimizer.step()
        loss.zero_gradient()
    return total / rows


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_epochs_equal_those_of_the_reference(name: str, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    if dtype is np.float64:  # without optimizations, as what these do to a kernel does not depend on its type
        monkeypatch.setattr(cache, "LEVEL", 0)
    results = []
    for native in (True, False):
        loss, columns, parameters = model(dtype)
        optimizer = OPTIMIZERS[name](parameters)
        if native:
            program = wy.compile(loss, optimizer)
            losses = [program.epoch(columns, batch_size=5) for _ in range(2)]
        else:
            losses = [eager_epoch(loss, columns, optimizer, 5) for _ in range(2)]
        # Eager steps continue from native ones: state and counts are the optimizer's.
        losses.append(eager_epoch(loss, columns, optimizer, 4))
        results.append((losses, [parameter.value for parameter in parameters], optimizer.state_dict()))
    (native_losses, native_values, native_state), (losses, values, state) = results
    tolerance = 1e-9 if dtype is np.float64 else 2e-3  # in float32, ten steps of rules that divide by small roots
    np.testing.assert_allclose(native_losses, losses, rtol=tolerance)
    for have, want in zip(native_values, values, strict=True):
        np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance)
    assert native_state["steps"] == state["steps"] and (native_state["counts"] == state["counts"]).all()


def test_both_loops_agree() -> None:
    values = []
    for loop in ("compiled", "python"):
        loss, columns, parameters = model(np.float64)
        program = wy.compile(loss, wy.optim.Adagrad(parameters, 0.1), loop=loop)
        program.epoch(columns, batch_size=5)
        values.append([parameter.value for parameter in parameters])
    for one, other in zip(*values, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_one_step_of_any_batch_size() -> None:
    loss, columns, parameters = model(np.float64)
    program = wy.compile(loss, wy.optim.SGD(parameters, 0.1))
    twin, _, others = model(np.float64)
    optimizer = wy.optim.SGD(others, 0.1)
    leaves = dict(zip(columns, _inputs(twin), strict=True))
    for size in (1, 7, 3, 7):
        found = program({leaf: column[:size] for leaf, column in columns.items()})
        expected = eager_epoch(twin, {leaves[leaf]: column[:size] for leaf, column in columns.items()}, optimizer, size)
        assert float(found) == pytest.approx(expected, rel=1e-10)


def _inputs(loss: Any) -> list[Any]:
    from wyrm.graph.traversal import topological_order

    found = {node.name: node for node in topological_order([loss]) if isinstance(node, wy.Input | wy.IndexInput)}
    return [found[name] for name in ("first", "second", "target")]


def test_scalar_inputs_take_a_row_at_a_time() -> None:
    x, y = wy.Input(name="x"), wy.Input(name="y")
    slope, intercept = wy.Parameter(0.0, name="slope"), wy.Parameter(0.0, name="intercept")
    loss = (y - (slope * x + intercept)).square()
    train = wy.compile(loss, wy.optim.SGD(loss.parameters(), learning_rate=0.1))
    data = np.random.default_rng(0).uniform(-1.0, 1.0, 500)
    train.epoch({x: data, y: 3.0 * data + 5.0})
    assert float(slope) == pytest.approx(3.0, abs=1e-3) and float(intercept) == pytest.approx(5.0, abs=1e-3)


def test_an_input_that_holds_data_need_not_be_fed() -> None:
    batch = Batch()
    x, scale = wy.Input(dims=(batch,), name="x"), wy.Input(2.0, name="scale")
    weight = wy.Parameter(1.0)
    loss = (weight * scale * x).mean()
    train = wy.compile(loss, wy.optim.SGD([weight], learning_rate=0.5))
    assert train.epoch({x: np.ones(4, np.float32)}, batch_size=4) == 2.0
    scale.set(3.0)
    assert train.epoch({x: np.ones(4, np.float32)}, batch_size=4) == 0.0  # the weight is 0 now
    assert float(weight) == -1.5


def test_shuffling_goes_through_every_row_once() -> None:
    row, table = wy.IndexInput(dims=(Batch(),), name="row"), wy.Parameter.zeros((50, 1), name="table")
    train = wy.compile(-table.index(row).sum(), wy.optim.SGD([table], learning_rate=1.0))
    for epoch in (1.0, 2.0):
        train.epoch({row: np.arange(50)}, batch_size=7, shuffle=True, seed=3)
        assert (table.value == epoch).all()


def test_the_order_depends_on_the_seed() -> None:
    def trained(seed: int) -> Any:
        loss, columns, parameters = model(np.float64)
        wy.compile(loss, wy.optim.Adagrad(parameters, 0.1)).epoch(columns, batch_size=5, shuffle=True, seed=seed)
        return parameters[0].value

    assert (trained(1) == trained(1)).all() and (trained(1) != trained(2)).any()


def test_dropout_draws_as_in_the_reference() -> None:
    x, weight = wy.Input(dims=(Batch(), 4), name="x"), wy.Parameter(np.ones(4, np.float32), name="weight")
    loss = (x * weight).dropout(0.5, seed=2, stream=9).square().sum()
    data = np.random.default_rng(0).standard_normal((12, 4))
    program = wy.compile(loss, wy.optim.SGD([weight], 0.01))
    x64 = data.astype(np.float32)
    native = program.epoch({x: x64}, batch_size=4)
    after = weight.value
    weight.set(np.ones(4))
    wy.random.set_step(0)
    # The mean over the three batches of sums over their rows, whose total an epoch returns.
    assert 3 * eager_epoch(loss, {x: x64}, wy.optim.SGD([weight], 0.01), 4) == pytest.approx(native, rel=1e-5)
    np.testing.assert_allclose(weight.value, after, rtol=1e-5)


def test_nothing_from_users_is_code() -> None:
    parameter = wy.Parameter(1.0, name='x; import os\n"""lambda')
    x = wy.Input(name="class")
    program = wy.compile((parameter * x).square(), wy.optim.SGD([parameter], 0.1))
    assert "import os\n" not in program.source and '"""lambda' not in program.source
    program({x: 1.0})
    assert float(parameter) == pytest.approx(0.8)


def test_a_product_is_added_to_the_other_term_where_that_is() -> None:
    random = np.random.default_rng(0)
    x, y = (wy.Input(random.normal(size=(5, 4)), name=name) for name in "xy")
    first, second = (wy.Parameter(random.normal(size=(4, 3)), name=name) for name in ("first", "second"))
    hidden: Any = x @ first + y @ second
    shared: Any = x @ second
    loss: Any = (hidden.tanh() + shared.square() + x @ first * 2.0).square().sum() + shared.sum()
    gradients = wy.grad(loss, [first, second])
    for loop in ("compiled", "python"):
        program: Any = wy.compile([hidden, loss, *gradients], loop=loop)
        for found, node in zip(program({}), [hidden, loss, *gradients], strict=True):
            np.testing.assert_allclose(found, node.forward(), rtol=1e-12)
        assert "matmul_added_kernel(" in program.source


def test_the_plan_knows_its_bytes_before_a_run_where_the_inputs_hold_data() -> None:
    x = wy.Input(np.ones((1000, 10), np.float32), name="x")
    program = wy.compile((x @ np.ones((10, 4), np.float32)).exp().sum(axis=0))
    assert 16_000 <= program.plan.peak_bytes < 100_000
    batch = wy.Input(dims=(Batch(), 3), name="batch")
    unknown = wy.compile((batch * 2.0).sum(axis=1))
    assert unknown.plan.peak_bytes == 0 and "depends on the data" in str(unknown.plan)
    unknown({batch: np.ones((100, 3))})
    assert unknown.plan.peak_bytes >= 400


@pytest.mark.parametrize("loop", ["compiled", "python"])
@pytest.mark.parametrize("shape", [(), (6,), (6, 3)])
def test_rows_with_axes_of_their_own_are_taken_one_at_a_time(shape: Any, loop: Any) -> None:
    x, weight = wy.Input(dims=shape, name="x"), wy.Parameter(np.ones(shape, np.float32))
    rows = np.random.default_rng(0).normal(size=(8, *shape)).astype(np.float32)
    program = wy.compile((x * weight).sum().square(), wy.optim.SGD([weight], 0.0), loop=loop)
    expected = (rows.reshape(8, -1).sum(axis=1) ** 2).mean()
    np.testing.assert_allclose(program.epoch({x: rows}), expected, rtol=1e-5)
