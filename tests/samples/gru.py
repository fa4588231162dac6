"""Samples of the ops of the gated recurrent unit; the expected values and gradients are PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.pytorch import torch
from tests.samples.sample import Sample, mask, normal
from wyrm.ops.recurrence.gru import GRU, GRUGradient, GRUResiduals

BATCH, TIME, HIDDEN = 2, 3, 2


def _run(projected: Any, weights: Any, bias: Any, hidden: Any, *resets: Any) -> tuple[Any, list[Any]]:
    """Return the residuals, and for each step the tensors whose gradients `GRUGradient` computes."""
    residuals, steps = [], []
    for t in range(projected.shape[1]):
        for reset in resets:
            hidden = hidden * (1.0 - reset[:, t, None].to(hidden.dtype))
        direct = (hidden * 1.0).requires_grad_()
        inputs, sums = projected[:, t].chunk(3, dim=-1), (hidden @ weights).chunk(3, dim=-1)
        before = [(inputs[0] + sums[0]).requires_grad_(), (inputs[1] + sums[1]).requires_grad_()]
        recurrent = (sums[2] + bias).requires_grad_()
        reset_gate, update_gate = map(torch.sigmoid, before)
        summed = (inputs[2] + reset_gate * recurrent).requires_grad_()
        candidate = torch.tanh(summed)
        new_hidden = (1.0 - update_gate) * candidate + update_gate * direct
        keep = torch.ones_like(direct)
        for reset in resets:
            keep = keep * (1.0 - reset[:, t, None].to(keep.dtype))
        tensors = [*before, summed, recurrent, direct]
        for tensor in tensors:
            tensor.retain_grad()
        steps.append((tensors, keep))
        residuals.append(torch.stack([reset_gate, update_gate, recurrent, candidate, hidden, new_hidden], 1))
        hidden = new_hidden
    return torch.stack(residuals, 1), steps


def gru_residuals(*operands: Any) -> NDArray[Any]:
    """Return the value of `GRUResiduals`."""
    result: NDArray[Any] = _run(*map(torch.tensor, operands))[0].detach().numpy()
    return result


def gru_states(*operands: Any) -> NDArray[Any]:
    """Return the value of `GRU`."""
    return gru_residuals(*operands)[:, :, -1]


def gru_gradient(*operands: Any) -> NDArray[Any]:
    """Return the value of `GRUGradient`; the operands are those of `GRU`, with the cotangent before the mask."""
    projected, weights, bias, hidden, states_gradient, *resets = map(torch.tensor, operands)
    residuals, steps = _run(projected.requires_grad_(), weights, bias, hidden, *resets)
    (residuals[:, :, -1] * states_gradient).sum().backward()
    rows = []
    for (*gates, direct), keep in steps:
        rows.append(torch.stack([*(tensor.grad for tensor in gates), direct.grad * keep], 1))
    result: NDArray[Any] = torch.stack(rows, 1).numpy()
    return result


def _gradient(projected: Any, weights: Any, bias: Any, hidden: Any, states_gradient: Any, *resets: Any) -> Any:
    return GRUGradient(GRUResiduals(projected, weights, bias, hidden, *resets), weights, states_gradient, *resets)


def samples() -> list[Sample]:
    """Return samples of each op with and without resets."""
    samples = []
    for resets, kind in (((), ""), ((mask(BATCH, TIME),), "-reset")):
        operands = (
            normal(BATCH, TIME, 3 * HIDDEN),
            normal(HIDDEN, 3 * HIDDEN),
            normal(HIDDEN),
            normal(BATCH, HIDDEN),
        )
        states_gradient = normal(BATCH, TIME, HIDDEN)
        wrong = (operands[0], normal(HIDDEN + 1, 3 * HIDDEN), *operands[2:], *resets)
        for op, expected in ((GRUResiduals, gru_residuals), (GRU, gru_states)):
            samples.append(
                Sample(op, op, (*operands, *resets), expected, name=f"{op.__name__}{kind}", empty=False, misfit=wrong)
            )
        samples.append(
            Sample(
                GRUGradient,
                _gradient,
                (*operands, states_gradient, *resets),
                gru_gradient,
                name=f"GRUGradient{kind}",
                empty=False,
                misfit=(*operands, np.concatenate([states_gradient] * 2, axis=-1), *resets),
            )
        )
    return samples
