"""Further options equal PyTorch's; row-sparse steps equal SparseAdam's; options and rates that change."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
import wyrm.optim
from tests.pytorch import torch
from wyrm.errors import Diverged, NotFinite
from wyrm.graph.rows import RowSparse
from wyrm.graph.storage import stored
from wyrm.optim import SGD, Adagrad, Adam, AdamW, Cosine, Optimizer, RMSprop, WarmupCosine, clip_by_global_norm
from wyrm.optim import clip_by_value as by_value


@pytest.mark.parametrize("name", [f"wyrm.optim.{module.name}" for module in pkgutil.iter_modules(wyrm.optim.__path__)])
def test_examples_in_docstrings_run(name: str) -> None:
    module = importlib.import_module(name)
    assert doctest.testmod(module, extraglobs={"wy": wy, "np": np}).failed == 0


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-10), (np.float32, 1e-5)])
@pytest.mark.parametrize(
    ("make", "other"),
    [
        (lambda p: Adam(p, 0.1, amsgrad=True), lambda p: torch.optim.Adam(p, 0.1, amsgrad=True)),
        (lambda p: AdamW(p, 0.1, amsgrad=True), lambda p: torch.optim.AdamW(p, 0.1, amsgrad=True)),
        (lambda p: Adagrad(p, 0.1, learning_rate_decay=0.3), lambda p: torch.optim.Adagrad(p, 0.1, lr_decay=0.3)),
        (lambda p: RMSprop(p, centered=True), lambda p: torch.optim.RMSprop(p, centered=True)),
        (lambda p: RMSprop(p, momentum=0.8), lambda p: torch.optim.RMSprop(p, momentum=0.8)),
        (lambda p: Adam(p), lambda p: torch.optim.Adam(p)),
        (lambda p: AdamW(p), lambda p: torch.optim.AdamW(p)),
        (lambda p: Adagrad(p), lambda p: torch.optim.Adagrad(p)),
        (lambda p: RMSprop(p), lambda p: torch.optim.RMSprop(p)),
    ],
)
def test_options_and_defaults_equal_pytorch(make: Any, other: Any, dtype: Any, rtol: float) -> None:
    """Compare on random gradients, large and small, which are sometimes missing for one parameter."""
    random = np.random.default_rng(3)
    start = [random.standard_normal((3, 4)).astype(dtype), random.standard_normal(5).astype(dtype)]
    mine = [wy.Parameter(values) for values in start]
    theirs = [torch.tensor(values, requires_grad=True) for values in start]
    optimizer, peer = make(mine), other(theirs)
    for step in range(10):
        for i, (one, two) in enumerate(zip(mine, theirs, strict=True)):
            one.clear_gradient()
            two.grad = None
            if i == 0 or step % 3:
                gradient = (random.standard_normal(one.shape) * 10.0 ** random.integers(-3, 3)).astype(dtype)
                stored(one).gradient = gradient.copy()
                two.grad = torch.tensor(gradient)
        optimizer.step()
        peer.step()
        for one, two in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(one.value, two.detach().numpy(), rtol=rtol, atol=rtol)


def test_adam_is_lazy_as_pytorch_sparse_adam_is() -> None:
    random = np.random.default_rng(4)
    start = random.standard_normal((6, 3))
    # With a large epsilon the two differ: SparseAdam adds it before the bias correction, Adam after it.
    mine, theirs = wy.Parameter(start), torch.tensor(start, requires_grad=True)
    optimizer, other = Adam([mine], 0.1, epsilon=1e-20), torch.optim.SparseAdam([theirs], 0.1, eps=1e-20)
    for _ in range(10):
        rows, values = random.integers(0, 6, 4), random.standard_normal((4, 3))
        stored(mine).gradient = RowSparse(rows, values, (6, 3))
        indices = torch.tensor(rows[np.newaxis])
        theirs.grad = torch.sparse_coo_tensor(indices, torch.tensor(values), (6, 3), check_invariants=True)
        optimizer.step()
        other.step()
        np.testing.assert_allclose(mine.value, theirs.detach().numpy(), rtol=1e-10)


def test_centered_rmsprop_stays_finite_where_the_gradient_does_not_vary() -> None:
    random = np.random.default_rng(0)
    x = wy.Parameter(np.zeros(500, np.float32))
    stored(x).gradient = random.standard_normal(500).astype(np.float32)
    optimizer = RMSprop([x], 1e-3, centered=True)
    for _ in range(3000):
        optimizer.step()
    assert np.isfinite(x.value).all()


def test_adagrad_keeps_small_sums_of_squares() -> None:
    x = wy.Parameter(np.zeros(1, np.float32))
    stored(x).gradient = np.full(1, 1e-17, np.float32)
    optimizer = Adagrad([x], 1.0, epsilon=0.0)
    for _ in range(20):
        optimizer.step()
    assert float(x.value[0]) == pytest.approx(-sum(1.0 / np.sqrt(n) for n in range(1, 21)), rel=1e-4)


# --- rates and options that change -----------------------------------------------------------------------------------


def test_the_learning_rate_can_be_set() -> None:
    x = wy.Parameter(np.array(0.0))
    optimizer = SGD([x], 1.0)
    stored(x).gradient = np.array(1.0)
    optimizer.step()
    optimizer.learning_rate = 0.25
    optimizer.step()
    assert float(x) == -1.25
    schedule: Any = Cosine(1.0, steps=4)
    optimizer.learning_rate = schedule
    assert optimizer.learning_rate == pytest.approx(0.5)  # after 2 of the 4 steps
    with pytest.raises(ValueError, match="learning_rate must be finite and at least 0"):
        optimizer.learning_rate = -1.0


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
def test_a_schedule_that_gives_no_rate_moves_nothing(rate: float) -> None:
    x = wy.Parameter(np.array(2.0))
    optimizer = SGD([x], lambda step: rate)
    stored(x).gradient = np.array(1.0)
    with pytest.raises(ValueError, match=r"learning rate that .* gives after 0 steps must be finite and at least 0"):
        optimizer.step()
    assert float(x) == 2.0


def test_an_option_is_fixed_once_the_rule_is_built() -> None:
    x = wy.Parameter(np.array(2.0))
    optimizer = SGD([x], 0.1, momentum=0.5)
    stored(x).gradient = np.array(1.0)
    optimizer.step()
    with pytest.raises(AttributeError, match=r"momentum of SGD cannot change after the rule was built with 0\.5"):
        optimizer.momentum = 0.9
    assert repr(optimizer) == "SGD(1 parameter, learning_rate=0.1, momentum=0.5, nesterov=False, weight_decay=0.0)"


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: SGD(p, 0.1), "SGD takes a list of parameters, not one node: weight"),
        (lambda p: SGD([p], "0.1"), r"learning_rate must be a number, not '0\.1'"),  # type: ignore[arg-type]
        (lambda p: SGD([p], True), "learning_rate must be a number, not True"),
        # The mistake that mypy finds.
        (
            lambda p: Adam([p], betas=0.9),  # type: ignore[arg-type]
            r"betas must be two numbers, as in betas=\(0.9, 0.999\), not 0.9",
        ),
        (lambda p: by_value(p, 1.0), "clip_by_value takes a list of parameters"),
        (lambda p: Cosine(0.1, steps=2.5), "steps must be an integer of at least 1, not 2.5"),  # type: ignore[arg-type]
        (lambda p: WarmupCosine(0.1, True, 10), "warmup must be an integer of at least 1, not True"),
    ],
)
def test_what_is_of_another_type_is_refused(make: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make(wy.Parameter(np.ones(3), name="weight"))


@pytest.mark.parametrize("clip", [by_value, clip_by_global_norm])
def test_clipping_refuses_what_is_not_finite_and_what_is_twice(clip: Any) -> None:
    good, bad = wy.Parameter(np.ones(2), name="good"), wy.Parameter(np.ones(2), name="bad")
    stored(good).gradient, stored(bad).gradient = np.full(2, 9.0), np.array([1.0, np.nan])
    with pytest.raises(NotFinite, match=r"gradient of bad .* holds nan; nothing was clipped"):
        clip([good, bad], 1.0)
    np.testing.assert_array_equal(good.gradient, 9.0)
    with pytest.raises(ValueError, match=r"good .* twice"):
        clip([good, good], 1.0)


def test_a_norm_whose_square_overflows_is_clipped() -> None:
    x = wy.Parameter(np.ones(2))
    stored(x).gradient = np.array([3e200, 4e200])
    assert clip_by_global_norm([x], 1.0) == pytest.approx(5e200)
    np.testing.assert_allclose(x.gradient, [0.6, 0.8])


@pytest.mark.parametrize("sparse", [False, True])
def test_an_infinity_far_inside_a_gradient_is_found(sparse: bool) -> None:
    shape = (70_000, 2)
    x = wy.Parameter(np.zeros(shape, np.float32), name="table")
    gradient = np.ones(shape, np.float32)
    gradient[-1, -1] = np.inf
    stored(x).gradient = RowSparse(np.arange(shape[0]), gradient, shape) if sparse else gradient
    optimizer: Optimizer = Adam([x])
    with pytest.raises(Diverged, match=r"gradient of table .* holds inf"):
        optimizer.step()
    assert not x.value.any()
