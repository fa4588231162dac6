"""Optimizers against PyTorch's, or against the algorithm of their paper in NumPy, in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.pytorch import torch
from wyrm.graph.rows import RowSparse
from wyrm.graph.storage import stored
from wyrm.optim import FTRL, LAMB, LARS, Adadelta, Adafactor, Adamax, Lion, Muon, NAdam, Optimizer, RAdam

SHAPES: list[tuple[int, ...]] = [(3, 4), (5,), (2, 3, 5), (), (7, 1), (1, 1)]


def gradients(shapes: list[tuple[int, ...]], steps: int = 40) -> list[list[np.ndarray]]:
    """Return random gradients of all sizes for each step; every fifth is zero."""
    random = np.random.default_rng(3)
    sizes = 10.0 ** random.integers(-3, 3, steps)
    return [
        [random.standard_normal(shape) * size * (step % 5 != 4) for shape in shapes] for step, size in enumerate(sizes)
    ]


def starts(shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    random = np.random.default_rng(4)
    return [np.asarray(random.standard_normal(shape)) for shape in shapes]


def moved(make: Callable[[Any], Optimizer], shapes: list[tuple[int, ...]]) -> list[list[np.ndarray]]:
    """Return the parameters after each step."""
    parameters = [wy.Parameter(start) for start in starts(shapes)]
    optimizer = make(parameters)
    found = []
    for each in gradients(shapes):
        for parameter, gradient in zip(parameters, each, strict=True):
            stored(parameter).gradient = gradient.copy()
        optimizer.step()
        found.append([parameter.value for parameter in parameters])
    return found


@pytest.mark.parametrize(
    ("make", "other"),
    [
        (lambda p: Adadelta(p), lambda p: torch.optim.Adadelta(p)),
        (
            lambda p: Adadelta(p, 0.5, decay=0.8, epsilon=1e-3, weight_decay=0.1),
            lambda p: torch.optim.Adadelta(p, 0.5, rho=0.8, eps=1e-3, weight_decay=0.1),
        ),
        (lambda p: Adamax(p), lambda p: torch.optim.Adamax(p)),
        (
            lambda p: Adamax(p, 0.1, (0.8, 0.9), 1e-3, 0.1),
            lambda p: torch.optim.Adamax(p, 0.1, (0.8, 0.9), 1e-3, 0.1),
        ),
        (lambda p: NAdam(p), lambda p: torch.optim.NAdam(p)),
        (
            lambda p: NAdam(p, 0.1, (0.8, 0.9), 1e-3, 0.1, 0.05),
            lambda p: torch.optim.NAdam(p, 0.1, (0.8, 0.9), 1e-3, 0.1, 0.05),
        ),
        (lambda p: RAdam(p), lambda p: torch.optim.RAdam(p)),
        (lambda p: RAdam(p, 0.1, (0.8, 0.9), 1e-3, 0.1), lambda p: torch.optim.RAdam(p, 0.1, (0.8, 0.9), 1e-3, 0.1)),
        (lambda p: RAdam(p, 0.1, (0.8, 0.5)), lambda p: torch.optim.RAdam(p, 0.1, (0.8, 0.5))),
        (lambda p: RAdam(p, 0.1, (0.8, 0.6)), lambda p: torch.optim.RAdam(p, 0.1, (0.8, 0.6))),
        (lambda p: Adafactor(p), lambda p: torch.optim.Adafactor(p)),
        (
            lambda p: Adafactor(p, 0.1, -0.5, 1e-6, 1e-2, 1.5, 0.1),
            lambda p: torch.optim.Adafactor(p, 0.1, -0.5, (1e-6, 1e-2), 1.5, 0.1),
        ),
    ],
)
def test_fifty_steps_equal_pytorch(make: Any, other: Any) -> None:
    peers = [torch.tensor(start, requires_grad=True) for start in starts(SHAPES)]
    optimizer = other(peers)
    for each, found in zip(gradients(SHAPES), moved(make, SHAPES), strict=True):
        for peer, gradient in zip(peers, each, strict=True):
            peer.grad = torch.tensor(gradient)
        optimizer.step()
        for have, peer in zip(found, peers, strict=True):
            # PyTorch keeps the product of NAdam's momenta in single precision.
            tolerance = 1e-6 if isinstance(optimizer, torch.optim.NAdam) else 1e-10
            np.testing.assert_allclose(have, peer.detach().numpy(), rtol=tolerance, atol=tolerance * 1e-2)


# --- from the papers --------------------------------------------------------------------------------------------------


def lion(x: Any, g: Any, state: Any, step: int) -> Any:
    c = 0.9 * state.setdefault("m", 0.0) + 0.1 * g
    state["m"] = 0.99 * state["m"] + 0.01 * g
    return x - 0.1 * (np.sign(c) + 0.2 * x)


def lamb(x: Any, g: Any, state: Any, step: int) -> Any:
    state["m"] = 0.9 * state.get("m", 0.0) + 0.1 * g
    state["v"] = 0.999 * state.get("v", 0.0) + 0.001 * g * g
    r = state["m"] / (1 - 0.9**step) / (np.sqrt(state["v"] / (1 - 0.999**step)) + 1e-6)
    r = r + 0.2 * x
    size, length = np.linalg.norm(x), np.linalg.norm(r)
    return x - 0.1 * (size / length if size > 0 and length > 0 else 1.0) * r


def lars(x: Any, g: Any, state: Any, step: int) -> Any:
    size, slope = np.linalg.norm(x), np.linalg.norm(g)
    rate = 0.01 * size / (slope + 0.2 * size) if size > 0 and slope > 0 else 1.0
    state["v"] = 0.8 * state.get("v", 0.0) + 0.1 * rate * (g + 0.2 * x)
    return x - state["v"]


def muon(x: Any, g: Any, state: Any, step: int, nesterov: bool = True) -> Any:
    m = state["m"] = 0.95 * state.get("m", 0.0) + 0.05 * g
    u = 0.95 * m + 0.05 * g if nesterov else m
    transposed = u.shape[0] > u.shape[1]
    u = u.T if transposed else u
    u = u / max(np.linalg.norm(u), 1e-7)
    for _ in range(5):
        a = u @ u.T
        u = 3.4445 * u + (-4.7750 * a + 2.0315 * a @ a) @ u
    u = u.T if transposed else u
    return x * (1 - 0.1 * 0.2) - 0.1 * math.sqrt(max(1, x.shape[0] / x.shape[1])) * u


def plain_muon(x: Any, g: Any, state: Any, step: int) -> Any:
    return muon(x, g, state, step, nesterov=False)


def ftrl(x: Any, g: Any, state: Any, step: int) -> Any:
    """Algorithm 1 of the paper, one coordinate after the other, from weights of 0."""
    alpha, beta, l1, l2 = 0.3, 0.7, 0.8, 0.2
    z, n, w = (state.setdefault(name, np.zeros(np.size(x))) for name in "znw")
    for i, slope in enumerate(np.ravel(g)):
        sigma = (math.sqrt(n[i] + slope**2) - math.sqrt(n[i])) / alpha
        z[i] += slope - sigma * w[i]
        n[i] += slope**2
        w[i] = 0.0
        if abs(z[i]) > l1:
            w[i] = -(((beta + math.sqrt(n[i])) / alpha + l2) ** -1) * (z[i] - math.copysign(l1, z[i]))
    return w.reshape(np.shape(x))


def zeroed(parameters: Any) -> Any:
    for parameter in parameters:
        parameter.set(np.zeros(parameter.shape))
    return parameters


MATRICES = [(3, 4), (7, 1), (6, 4), (1, 1)]


@pytest.mark.parametrize(
    ("make", "step", "shapes"),
    [
        (lambda p: Lion(p, 0.1, weight_decay=0.2), lion, SHAPES),
        (lambda p: LAMB(p, 0.1, weight_decay=0.2), lamb, SHAPES),
        (lambda p: LARS(p, 0.1, 0.8, 0.2, 0.01), lars, SHAPES),
        (lambda p: FTRL(zeroed(p), 0.3, 0.7, 0.8, 0.2), ftrl, SHAPES),
        (lambda p: Muon(p, 0.1, weight_decay=0.2), muon, MATRICES),
        (lambda p: Muon(p, 0.1, nesterov=False, weight_decay=0.2), plain_muon, MATRICES),
    ],
)
def test_fifty_steps_are_those_of_the_paper(make: Any, step: Any, shapes: Any) -> None:
    expected, states = starts(shapes), [dict[str, Any]() for _ in shapes]
    for count, (each, found) in enumerate(zip(gradients(shapes), moved(make, shapes), strict=True), 1):
        expected = [step(x, g, state, count) for x, g, state in zip(expected, each, states, strict=True)]
        for have, want in zip(found, expected, strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("beta", "l1", "l2"), [(1.0, 0.8, 0.1), (0.0, 0.0, 0.0), (0.0, 0.3, 0.0), (0.5, 0.0, 0.2)])
def test_a_step_of_ftrl_is_the_minimum_over_all_gradients_so_far(beta: float, l1: float, l2: float) -> None:
    # Of their sum times x, l1 * |x|, and squares around 0 and all weights so far; `start` is that of a first gradient.
    rate, (start,) = 0.3, starts([(9,)])
    start[::3] = 0.0
    first = -(beta / rate + l2) * start - l1 * np.sign(start)
    parameter = wy.Parameter(start.copy())
    optimizer = FTRL([parameter], rate, beta, l1, l2)
    total: Any = np.zeros(9)
    slopes, weights, strengths, zeros = [first], [total.copy()], [beta / rate + l2 + total], 0
    for (gradient,) in gradients([(9,)]):
        strengths.append((np.sqrt(total + gradient**2) - np.sqrt(total)) / rate)
        slopes.append(gradient)
        weights.append(parameter.value)
        total += gradient**2
        stored(parameter).gradient = gradient.copy()
        optimizer.step()
        x = parameter.value
        slope = sum(slopes) + sum(s * (x - w) for s, w in zip(strengths, weights, strict=True))
        at_zero = x == 0.0
        zeros += int(at_zero.sum())
        np.testing.assert_allclose((slope + l1 * np.sign(x))[~at_zero], 0.0, atol=1e-9)
        assert (np.abs(slope[at_zero]) <= l1 + 1e-9).all()
    assert (zeros > 0) == (l1 > 0.0)


def test_ftrl_leaves_what_had_no_gradient_and_a_rate_of_zero_moves_nothing() -> None:
    for beta in (0.0, 1.0):
        parameter = wy.Parameter(np.array([0.0, 2.0, -3.0]))
        optimizer = FTRL([parameter], 0.0, beta=beta, l1=0.5)
        for rate, moves in ((0.0, False), (0.1, True)):
            optimizer.learning_rate = rate
            stored(parameter).gradient = np.array([0.0, 0.0, 4.0])
            optimizer.step()
            assert parameter.value[:2].tolist() == [0.0, 2.0] and (parameter.value[2] != -3.0) == moves


@pytest.mark.parametrize("scale", ["spectral", "rms"])
def test_muon_is_near_pytorch_which_rounds_to_bfloat16(scale: Any) -> None:
    start, slope = starts([(6, 4)])[0], gradients([(6, 4)])[0][0]
    parameter, peer = wy.Parameter(start), torch.tensor(start, requires_grad=True)
    stored(parameter).gradient, peer.grad = slope.copy(), torch.tensor(slope)
    Muon([parameter], 0.1, scale=scale).step()
    adjust = {"spectral": "original", "rms": "match_rms_adamw"}[scale]
    torch.optim.Muon([peer], 0.1, adjust_lr_fn=adjust).step()
    np.testing.assert_allclose(parameter.value, peer.detach().numpy(), atol=5e-3)


def test_muon_takes_matrices_alone() -> None:
    with pytest.raises(wy.errors.ShapeError, match=r"two axes; bias .* has 1.*Combined"):
        Muon([wy.Parameter(np.zeros((2, 3))), wy.Parameter(np.zeros(3), name="bias")])


def test_the_state_of_adafactor_is_factored() -> None:
    parameters = [wy.Parameter(np.zeros(shape)) for shape in [(3, 4), (2, 3, 5), (6,)]]
    optimizer = Adafactor(parameters)
    shapes = [{name: array.shape for name, array in optimizer.state_of(each).items()} for each in parameters]
    assert shapes == [
        {"row": (3, 1), "column": (1, 4)},
        {"row": (2, 3, 1), "column": (2, 1, 5)},
        {"square": (6,)},
    ]


def test_a_row_sparse_gradient_of_a_whole_rule_becomes_dense() -> None:
    values = []
    for sparse in (True, False):
        parameter = wy.Parameter(np.arange(12.0).reshape(4, 3))
        rows = RowSparse(np.array([2, 0, 2]), np.arange(9.0).reshape(3, 3), (4, 3))
        stored(parameter).gradient = rows if sparse else rows.dense()
        LAMB([parameter], 0.1).step()
        values.append(parameter.value)
    np.testing.assert_array_equal(values[0], values[1])
    assert (values[0][1] != [3.0, 4.0, 5.0]).all()  # weight decay moves a row without gradient


def test_a_whole_rule_of_ones_own() -> None:
    class Centered(Optimizer):
        elementwise = False

        def update(self, parameter: Any, gradient: Any, state: Any, hyperparameters: Any) -> Any:
            return parameter - hyperparameters["learning_rate"] * (gradient - gradient.mean()), {}

    parameter = wy.Parameter([1.0, 2.0])
    stored(parameter).gradient = np.array([1.0, 3.0], np.float32)
    Centered([parameter], 0.5).step()
    assert parameter.value.tolist() == [1.5, 1.5]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda p, g: (p.sum(), {}), r"keep the shape of parameter, \(2,\)"),
        (lambda p, g: (p + wy.Input(name="stray", dtype=np.float64), {}), "only its arguments and constants.* stray"),
        (lambda p, g: (p, {"mean": p}), "declares, none; it returned mean"),
        (lambda p, g: (p.astype(np.float32), {}), "keep the dtype float64"),
    ],
)
def test_a_whole_rule_without_meaning_is_refused(function: Any, message: str) -> None:
    class Wrong(Optimizer):
        elementwise = False

        def update(self, parameter: Any, gradient: Any, state: Any, hyperparameters: Any) -> Any:
            return function(parameter, gradient)

    parameter = wy.Parameter(np.array([1.0, 2.0]))
    stored(parameter).gradient = np.array([1.0, 3.0])
    with pytest.raises(wy.errors.RegistrationError, match=message):
        Wrong([parameter], 0.5).step()
