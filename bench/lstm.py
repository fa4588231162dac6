"""An LSTM language model of the digits of pi: four digits predict the next, one window per step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import wyrm as wy
from bench.harness import Case, Measurement, timed

DIGITS, READ = 1_000, 4
SYMBOLS, EMBEDDED, HIDDEN = 10, 16, 32
RATE = 0.1


def digits_of_pi(count: int) -> NDArray[np.int64]:
    """Return the first digits of pi, by Machin's formula: pi / 4 = 4 arccot 5 - arccot 239.

    >>> digits_of_pi(10).tolist()
    [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]
    """
    unit = 10 ** (count + 10)

    def arccot(x: int) -> int:
        term, total, divisor = unit // x, 0, 1
        while term:
            total += term // divisor if divisor % 4 == 1 else -(term // divisor)
            term //= x * x
            divisor += 2
        return total

    return np.array([int(digit) for digit in str(4 * (4 * arccot(5) - arccot(239)))[:count]])


def _windows() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    windows = np.lib.stride_tricks.sliding_window_view(digits_of_pi(DIGITS), READ + 1)
    return windows[:, :READ].copy(), windows[:, READ].copy()


def _wyrm_scores(read: Any) -> Any:
    """Return scores of the next digit, (batch, symbols), given the digits read, (batch, steps)."""
    _, state = wy.nn.LSTM(EMBEDDED, HIDDEN)(wy.nn.Embedding(SYMBOLS, EMBEDDED)(read))
    return wy.nn.Linear(HIDDEN, SYMBOLS)(state.hidden)


def _wyrm() -> Callable[[], Measurement]:
    wy.nn.seed(0)
    batch = wy.Dim()
    read, following = wy.IndexInput(dims=(batch, READ), name="read"), wy.IndexInput(dims=(batch,), name="following")
    loss = _wyrm_scores(read).cross_entropy(following)
    program = wy.compile(loss, wy.optim.SGD(loss.parameters(), RATE))
    windows, targets = _windows()
    return timed(
        lambda: program.epoch({read: windows, following: targets}, batch_size=1, shuffle=True, seed=0), len(targets)
    )


def _torch_parameters(torch: Any) -> tuple[Any, Any, Any]:
    """Return the layers with PyTorch's initialization."""
    torch.set_num_threads(1)  # arrays this small do not profit from more
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Embedding(SYMBOLS, EMBEDDED), nn.LSTM(EMBEDDED, HIDDEN), nn.Linear(HIDDEN, SYMBOLS)


def _torch_epoch(torch: Any, step: Callable[[Any, Any], Any]) -> Callable[[], Measurement]:
    """Time `step` over all windows in a new order; the digits of a window have shape (steps, 1), its target (1,)."""
    windows, targets = map(torch.from_numpy, _windows())

    def epoch() -> float:
        order = torch.randperm(len(targets))
        total = torch.zeros(())
        for read, following in zip(windows[order, :, None].unbind(), targets[order, None].unbind(), strict=True):
            total += step(read, following)
        return float(total) / len(targets)

    return timed(epoch, len(windows))


def _torch() -> Callable[[], Measurement]:
    """`nn.LSTM`, with one call that updates all parameters, which is faster than PyTorch's optimizers."""
    import torch

    embedding, lstm, output = layers = _torch_parameters(torch)
    parameters = [parameter for layer in layers for parameter in layer.parameters()]
    values = [parameter.detach() for parameter in parameters]

    def step(read: Any, following: Any) -> Any:
        states, _ = lstm(embedding(read))
        loss = torch.nn.functional.cross_entropy(output(states[-1]), following)
        torch._foreach_add_(values, torch.autograd.grad(loss, parameters), alpha=-RATE)
        return loss.detach()

    return _torch_epoch(torch, step)


def _torch_compile() -> Callable[[], Measurement]:
    """A hand-written cell with the whole step in one graph, since `nn.LSTM` is not compiled."""
    import torch

    parameters = [p.detach() for layer in _torch_parameters(torch) for p in layer.parameters()]

    def window_loss(parameters: list[Any], read: Any, following: Any) -> Any:
        table, inputs, hidden, input_bias, hidden_bias, output, bias = parameters
        driven = table[read[:, 0]] @ inputs.T + (input_bias + hidden_bias)
        state = memory = torch.zeros(HIDDEN)
        for gates in driven.unbind():
            admit, keep, new, show = (gates + hidden @ state).chunk(4)
            memory = keep.sigmoid() * memory + admit.sigmoid() * new.tanh()
            state = show.sigmoid() * memory.tanh()
        return torch.nn.functional.cross_entropy((output @ state + bias)[None], following)

    gradient = torch.func.grad_and_value(window_loss)

    def step(read: Any, following: Any) -> Any:
        changes, loss = gradient(parameters, read, following)
        for parameter, change in zip(parameters, changes, strict=True):
            parameter.sub_(RATE * change)
        return loss

    # The C++ wrapper takes a quarter less time than the Python one.
    return _torch_epoch(torch, torch.compile(step, fullgraph=True, options={"cpp_wrapper": True}))


def cases() -> list[Case]:
    """One case: forward, backward and a step of gradient descent."""
    contenders = {"wyrm": _wyrm, "torch eager": _torch, "torch.compile": _torch_compile}
    return [
        Case(
            "lstm",
            "per window of digits of pi",
            contenders,
            most=25e-6,
            floors={"torch eager": 20.0},
            slow=("torch.compile",),
        )
    ]
