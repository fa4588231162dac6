"""Compares a graph with the same computation in PyTorch: values, gradients of first and second order, native code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import wyrm as wy
from tests.pytorch import torch


def check_against_torch(
    build: Callable[..., Any],
    expected: Callable[..., Any],
    arrays: Sequence[Any],
    *,
    rtol: float = 1e-9,
    atol: float = 1e-12,
    native: bool = True,
    second_order: bool = True,
) -> None:
    """Check that `build` of parameters and `expected` of tensors, both of the float64 `arrays`, agree.

    Compare the value, its gradients along a random direction, and their gradients along another one. Native code must
    give the numbers of the reference engine.
    """
    random = np.random.default_rng(0)
    parameters = [wy.Parameter(np.asarray(array, np.float64)) for array in arrays]
    tensors = [torch.tensor(np.asarray(array, np.float64), requires_grad=True) for array in arrays]
    node, tensor = build(*parameters), expected(*tensors)
    assert node.shape == tuple(tensor.shape)
    weights = random.uniform(0.5, 1.5, node.shape)
    gradients = wy.grad((node * weights).sum(), parameters)
    theirs = torch.autograd.grad((tensor * torch.tensor(weights)).sum(), tensors, create_graph=second_order)
    nodes, values = [node, *gradients], [tensor, *theirs]
    if second_order:
        directions = [random.uniform(0.5, 1.5, array.shape) for array in map(np.asarray, arrays)]
        along: Any = sum((g * d).sum() for g, d in zip(gradients, directions, strict=True))
        theirs_along: Any = sum((g * torch.tensor(d)).sum() for g, d in zip(theirs, directions, strict=True))
        if isinstance(theirs_along, torch.Tensor) and theirs_along.requires_grad:
            curvatures = torch.autograd.grad(theirs_along, tensors, allow_unused=True)
            nodes += wy.grad(along, parameters)
            values += [torch.zeros_like(t) if c is None else c for c, t in zip(curvatures, tensors, strict=True)]
    for one, other in zip(nodes, values, strict=True):
        np.testing.assert_allclose(one.forward(), other.detach().numpy(), rtol=rtol, atol=atol)
    if native:
        for one, compiled in zip(nodes, wy.compile(nodes)(), strict=True):
            np.testing.assert_allclose(compiled, one.forward(), rtol=1e-9, atol=1e-12)
