"""Ten steps of every optimizer equal PyTorch's; row-sparse steps equal dense ones for the optimizers that allow it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.pytorch import torch
from wyrm.errors import CheckpointError, Diverged, NotSet
from wyrm.optim import SGD, Adagrad, Adam, AdamW, Optimizer, RMSprop

Make = Callable[[Any], Any]

PAIRS: dict[str, tuple[Make, Make]] = {
    "sgd": (lambda p: SGD(p, 0.1), lambda p: torch.optim.SGD(p, 0.1)),
    "sgd-decay": (lambda p: SGD(p, 0.1, weight_decay=0.3), lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.3)),
    "momentum": (lambda p: SGD(p, 0.1, momentum=0.9), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
    "nesterov": (
        lambda p: SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    ),
    "adagrad": (lambda p: Adagrad(p, 0.1), lambda p: torch.optim.Adagrad(p, 0.1)),
    "adagrad-options": (
        lambda p: Adagrad(p, 0.1, initial_accumulator=0.2, epsilon=1e-3, weight_decay=0.1),
        lambda p: torch.optim.Adagrad(p, 0.1, initial_accumulator_value=0.2, eps=1e-3, weight_decay=0.1),
    ),
    "rmsprop": (lambda p: RMSprop(p, 0.1), lambda p: torch.optim.RMSprop(p, 0.1)),
    "rmsprop-options": (
        lambda p: RMSprop(p, 0.1, decay=0.8, momentum=0.5, centered=True, weight_decay=0.1),
        lambda p: torch.optim.RMSprop(p, 0.1, alpha=0.8, momentum=0.5, centered=True, weight_decay=0.1),
    ),
    "adam": (lambda p: Adam(p, 0.1), lambda p: torch.optim.Adam(p, 0.1)),
    "adam-options": (
        lambda p: Adam(p, 0.1, betas=(0.8, 0.95), epsilon=1e-3, weight_decay=0.1),
        lambda p: torch.optim.Adam(p, 0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1),
    ),
    "adamw": (lambda p: AdamW(p, 0.1), lambda p: torch.optim.AdamW(p, 0.1)),
    "adamw-options": (
        lambda p: AdamW(p, 0.1, betas=(0.8, 0.95), weight_decay=0.5),
        lambda p: torch.optim.AdamW(p, 0.1, betas=(0.8, 0.95), weight_decay=0.5),
    ),
}
_START = np.random.default_rng(0).standard_normal((4, 3))
_TARGET = np.random.default_rng(1).standard_normal((4, 3))


@pytest.fixture(params=PAIRS, ids=str)
def pair(request: pytest.FixtureRequest) -> tuple[Make, Make]:
    return PAIRS[request.param]


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-10), (np.float32, 2e-4)])
def test_ten_steps_equal_pytorch(pair: tuple[Make, Make], dtype: Any, rtol: float) -> None:
    mine = wy.Parameter(_START.astype(dtype))
    loss = ((mine - _TARGET).square() * mine.tanh()).sum()
    theirs = torch.tensor(_START.astype(dtype), requires_grad=True)
    target = torch.tensor(_TARGET.astype(dtype))
    optimizer, other = pair[0]([mine]), pair[1]([theirs])
    for _ in range(10):
        loss.backward()
        optimizer.step()
        loss.zero_gradient()
        other.zero_grad()
        ((theirs - target).square() * theirs.tanh()).sum().backward()
        other.step()
        np.testing.assert_allclose(mine.value, theirs.detach().numpy(), rtol=rtol, atol=rtol)


EXACT_ON_ROWS = {name: PAIRS[name][0] for name in ("sgd", "adagrad")}


@pytest.mark.parametrize("make", EXACT_ON_ROWS.values(), ids=EXACT_ON_ROWS)
def test_rows_move_as_in_a_dense_step(make: Make) -> None:
    rows = np.array([1, 3, 1])  # row 1 repeats
    sparse, dense = wy.Parameter(_START), wy.Parameter(_START)
    losses = [sparse.index(wy.IndexConstant(rows)).square().sum(), (np.eye(4)[rows] @ dense).square().sum()]
    optimizers = [make([sparse]), make([dense])]
    for _ in range(3):
        for loss, optimizer in zip(losses, optimizers, strict=True):
            loss.backward()
            optimizer.step()
            loss.zero_gradient()
    np.testing.assert_allclose(sparse.value, dense.value, rtol=1e-12)
    np.testing.assert_array_equal(sparse.value[[0, 2]], _START[[0, 2]])


def test_every_rule_is_lazy_on_untouched_rows(pair: tuple[Make, Make]) -> None:
    table = wy.Parameter(_START)
    indices = wy.IndexInput(np.array([0, 1]))
    loss = table.index(indices).square().sum()
    optimizer: Optimizer = pair[0]([table])
    for rows in ([0, 1], [2, 2], [0, 3]):
        indices.set(rows)
        before, state = table.value.copy(), optimizer.state_dict()
        loss.backward()
        assert table.row_gradient is not None
        optimizer.step()
        loss.zero_gradient()
        untouched = [row for row in range(4) if row not in rows]
        np.testing.assert_array_equal(table.value[untouched], before[untouched])
        assert (table.value[rows] != before[rows]).all()
        for name, array in optimizer.state_dict().items():
            if array.shape == (4, 3):
                np.testing.assert_array_equal(array[untouched], state[name][untouched])


def test_a_parameter_without_gradient_is_left_alone() -> None:
    used, unused = wy.Parameter(1.0), wy.Parameter(1.0)
    optimizer = Adam([used, unused], 0.1)
    (used * used).backward()
    optimizer.step()
    assert float(used) != 1.0
    assert float(unused) == 1.0


def test_averages_of_vanished_gradients_do_not_become_denormal() -> None:
    x = wy.Parameter(np.ones(4, np.float32))
    factor = wy.Input(1.0)
    loss = (x * factor).sum()
    optimizer = Adam([x], 1e-3)
    loss.backward()
    optimizer.step()
    factor.set(0.0)
    for _ in range(1000):
        loss.zero_gradient()
        loss.backward()
        optimizer.step()
    mean = optimizer.state_dict()["0.mean"]
    assert ((mean == 0.0) | (np.abs(mean) >= np.finfo(np.float32).tiny)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_native_code_keeps_denormal_averages_that_the_least_gradient_feeds(dtype: type[np.floating[Any]]) -> None:
    tiny, least = np.finfo(dtype).tiny, np.finfo(dtype).smallest_subnormal
    gradients = np.array([0.0, -0.0, least, -least, tiny, -1.0, 1e15], dtype)
    factors = wy.Input(np.full(len(gradients), 4 * tiny, dtype), dtype=dtype)
    x = wy.Parameter(np.zeros(len(gradients), dtype))
    loss = (x * factors).sum()
    optimizer = Adam([x], 1e-3)
    program = wy.compile(loss, optimizer)
    for given in (factors.value, gradients):
        factors.set(given)
        program()
    mean = optimizer.state_dict()["0.mean"]
    assert (mean[:2] == 0.0).all() and (mean[2:] != 0.0).all()
    np.testing.assert_array_equal(mean[2:4], np.full(2, 0.36 * tiny, dtype), strict=True)


@pytest.mark.parametrize("size", [1e-3, 1e-14, 1e-18, 1e-20])
def test_averages_of_small_gradients_are_pytorchs(size: float) -> None:
    factor, steps = wy.Input(np.float32(size), dtype=np.float32), 40
    ours: list[tuple[Any, Any, Any]] = []
    for build in (lambda p: Adam([p], 0.1, epsilon=1e-30), lambda p: RMSprop([p], 0.1, epsilon=1e-30)):
        for native in (False, True):
            x = wy.Parameter(np.zeros(4, np.float32))
            loss = (x * factor).sum()
            optimizer = build(x)
            program = wy.compile(loss, optimizer) if native else None
            for _ in range(steps):
                if program is not None:
                    program()
                else:
                    loss.backward()
                    optimizer.step()
                    loss.zero_gradient()
            ours.append((type(optimizer).__name__, x.value, optimizer.state_dict()["0.square"]))
    for name, value, square in ours:
        theirs = torch.zeros(4, requires_grad=True)
        twin = getattr(torch.optim, name)([theirs], 0.1, eps=1e-30)
        for _ in range(steps):
            twin.zero_grad()
            (theirs * size).sum().backward()
            twin.step()
        kept = next(array for key, array in twin.state[theirs].items() if key in ("exp_avg_sq", "square_avg"))
        np.testing.assert_allclose(value, theirs.detach().numpy(), rtol=1e-5, err_msg=name)
        np.testing.assert_allclose(square, kept.numpy(), rtol=1e-5, atol=1e-43, err_msg=name)


def test_a_gradient_that_is_not_finite_moves_nothing() -> None:
    good, bad = wy.Parameter(1.0, name="good"), wy.Parameter(0.0, name="bad")
    optimizer = SGD([good, bad], 0.1)
    (good + bad.log()).backward()
    with pytest.raises(Diverged, match=r"gradient of bad .* holds inf in step 1 at learning rate 0\.1"):
        optimizer.step()
    assert (float(good), float(bad), optimizer.steps) == (1.0, 0.0, 0)


def test_a_step_without_any_gradient_is_a_mistake() -> None:
    x = wy.Parameter(1.0)
    loss, optimizer = x * x, SGD([x], 0.1)
    loss.backward()
    loss.zero_gradient()  # too early
    with pytest.raises(NotSet, match=r"call loss\.backward\(\) before step\(\), and zero_gradient\(\) only after it"):
        optimizer.step()


def test_state_round_trips() -> None:
    def optimizer_of(x: Any) -> Adam:
        return Adam([x], 0.1)

    def train(x: Any, optimizer: Adam, steps: int) -> None:
        loss = (x - _TARGET).square().sum()
        for _ in range(steps):
            loss.zero_gradient()
            loss.backward()
            optimizer.step()

    whole, first = wy.Parameter(_START), wy.Parameter(_START)
    train(whole, optimizer_of(whole), 6)
    optimizer = optimizer_of(first)
    train(first, optimizer, 3)
    resumed = wy.Parameter(first.value)
    continued = optimizer_of(resumed)
    continued.load_state_dict(optimizer.state_dict())
    train(resumed, continued, 3)
    np.testing.assert_array_equal(resumed.value, whole.value)


def test_a_foreign_state_is_refused_whole() -> None:
    optimizer = Adam([wy.Parameter(np.ones(3))], 0.1)
    state = optimizer.state_dict()
    state["0.mean"] = np.ones(4)
    state["9.mean"] = state.pop("0.square")
    with pytest.raises(CheckpointError, match=r"missing: 0\.square; extra: 9\.mean; mismatched: 0\.mean \(has \(3,\)"):
        optimizer.load_state_dict(state)
    assert not optimizer.state_dict()["0.mean"].any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: SGD([], 0.1), "was given no parameters"),
        (lambda p: SGD([p, p], 0.1), "weight .* twice"),
        (lambda p: SGD([p], -0.1), "learning_rate must be finite and at least 0, not -0.1"),
        (lambda p: SGD([p], float("nan")), "learning_rate must be finite and at least 0, not nan"),
        (lambda p: SGD([p], 0.1, momentum=1.0), r"momentum must be in \[0, 1\), not 1.0"),
        (lambda p: SGD([p], 0.1, nesterov=True), "nesterov=True needs a momentum"),
        (lambda p: Adam([p], betas=(0.9, 1.0)), r"betas\[1\] must be in \[0, 1\)"),
        (lambda p: AdamW([p], weight_decay=-1.0), "weight_decay must be finite and at least 0"),
        (lambda p: Adagrad([p], epsilon=-1.0), "epsilon must be finite and at least 0"),
        (lambda p: RMSprop([p], decay=2.0), r"decay must be in \[0, 1\)"),
    ],
)
def test_bad_arguments(make: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(wy.Parameter(np.ones(3), name="weight"))


def test_only_parameters_are_optimized() -> None:
    node: Any = wy.Input(name="x")
    with pytest.raises(TypeError, match=r"SGD takes a list of parameters, .* element is Input"):
        SGD([node], 0.1)
