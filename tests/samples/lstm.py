"""Samples of the recurrent ops; the expected values and gradients are PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.pytorch import torch
from tests.samples.sample import Sample, mask, normal
from wyrm.ops.recurrence.lstm import LSTM, LSTMGradient, LSTMResiduals

BATCH, TIME, HIDDEN = 2, 3, 2


def _run(
    projected: Any, weights: Any, hidden: Any, cell: Any, *resets: Any, coupled: bool = False
) -> tuple[Any, list[Any]]:
    """Return the residuals, and the cells before each step as tensors that retain their gradients."""
    residuals, before = [], []
    for t in range(projected.shape[1]):
        cell = cell.clone().requires_grad_()
        cell.retain_grad()
        before.append(cell)
        for reset in resets:
            keep = 1.0 - reset[:, t, None].to(cell.dtype)
            hidden, cell = hidden * keep, cell * keep
        preactivations = (projected[:, t] + hidden @ weights).chunk(3 if coupled else 4, dim=-1)
        gates = [
            *map(torch.sigmoid, preactivations[:-2]),
            torch.tanh(preactivations[-2]),
            torch.sigmoid(preactivations[-1]),
        ]
        forget = 1.0 - gates[0] if coupled else gates[1]
        new_cell = forget * cell + gates[0] * gates[-2]
        tanh_cell = torch.tanh(new_cell)
        residuals.append(torch.stack([*gates, tanh_cell, hidden, cell, gates[-1] * tanh_cell, new_cell], 1))
        hidden, cell = gates[-1] * tanh_cell, new_cell
    return torch.stack(residuals, 1), before


def lstm_residuals(*operands: Any, coupled: bool = False) -> NDArray[Any]:
    """Return the value of `LSTMResiduals`."""
    result: NDArray[Any] = _run(*map(torch.tensor, operands), coupled=coupled)[0].detach().numpy()
    return result


def lstm_states(*operands: Any, coupled: bool = False) -> NDArray[Any]:
    """Return the value of `LSTM`."""
    return lstm_residuals(*operands, coupled=coupled)[:, :, -2:]


def lstm_gradient(*operands: Any, coupled: bool = False) -> NDArray[Any]:
    """Return the value of `LSTMGradient`; the operands are those of `LSTM`, with the cotangent before the mask."""
    projected, weights, hidden, cell, states_gradient, *resets = map(torch.tensor, operands)
    projected.requires_grad_()
    residuals, before = _run(projected, weights, hidden, cell, *resets, coupled=coupled)
    (residuals[:, :, -2:] * states_gradient).sum().backward()
    batch, time, _ = projected.shape
    preactivations_gradient = projected.grad.reshape(batch, time, 3 if coupled else 4, -1)
    cells_gradient = torch.stack([step.grad for step in before], 1)
    result: NDArray[Any] = torch.cat([preactivations_gradient, cells_gradient[:, :, None]], 2).numpy()
    return result


def _operands(gates: int) -> tuple[NDArray[Any], ...]:
    state = normal(BATCH, HIDDEN), normal(BATCH, HIDDEN)
    return normal(BATCH, TIME, gates * HIDDEN), normal(HIDDEN, gates * HIDDEN), *state


def _gradient(*operands: Any, coupled: bool = False) -> LSTMGradient:
    projected, weights, hidden, cell, states_gradient, *resets = operands
    residuals = LSTMResiduals(projected, weights, hidden, cell, *resets, coupled=coupled)
    return LSTMGradient(residuals, weights, states_gradient, *resets)


def samples() -> list[Sample]:
    """Return samples of each op with and without a coupled forget gate and resets."""
    samples = []
    for gates, coupled, with_resets, kind in (
        (4, False, False, ""),
        (4, False, True, "-reset"),
        (3, True, False, "-coupled"),
        (3, True, True, "-coupled-reset"),
    ):
        operands = _operands(gates)
        resets = (mask(BATCH, TIME),) if with_resets else ()
        wrong = (operands[0], normal(HIDDEN + 1, gates * HIDDEN), *operands[2:], *resets)
        states_gradient = normal(BATCH, TIME, 2, HIDDEN)

        def residuals(*nodes: Any, coupled: bool = coupled) -> LSTMResiduals:
            return LSTMResiduals(*nodes, coupled=coupled)

        def states(*nodes: Any, coupled: bool = coupled) -> LSTM:
            return LSTM(*nodes, coupled=coupled)

        def gradient(*nodes: Any, coupled: bool = coupled) -> LSTMGradient:
            return _gradient(*nodes, coupled=coupled)

        def with_gates(expected: Any, coupled: bool = coupled) -> Any:
            return lambda *arrays: expected(*arrays, coupled=coupled)

        for op, build, expected in ((LSTMResiduals, residuals, lstm_residuals), (LSTM, states, lstm_states)):
            samples.append(
                Sample(
                    op,
                    build,
                    (*operands, *resets),
                    with_gates(expected),
                    name=f"{op.__name__}{kind}",
                    empty=False,
                    misfit=wrong,
                )
            )
        samples.append(
            Sample(
                LSTMGradient,
                gradient,
                (*operands, states_gradient, *resets),
                with_gates(lstm_gradient),
                name=f"LSTMGradient{kind}",
                empty=False,
                misfit=(*operands, np.concatenate([states_gradient] * 2, axis=-1), *resets),
            )
        )
    return samples
