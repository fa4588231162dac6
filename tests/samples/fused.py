"""Samples of the fused ops and of dropout; the expected values are PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import wyrm as wy
from tests.pytorch import torch
from tests.samples.sample import Sample, integers, normal
from wyrm.ops.products.embed import Embed
from wyrm.ops.products.linear_gelu import LinearGelu, LinearGeluGradient
from wyrm.ops.random.dropout import AddDropout, Dropout, DropoutMask, RandomKey
from wyrm.ops.random.philox import STEP

SHAPES: list[tuple[int, ...]] = [(3,), (4, 3), (2, 4, 3)]


def linear_gelu(x: Any, weight: Any, *bias: Any, approximate: bool) -> NDArray[Any]:
    """Return the value of `LinearGelu`."""
    product = torch.tensor(x) @ torch.tensor(weight)
    preactivation = product + torch.tensor(bias[0]) if bias else product
    kind = "tanh" if approximate else "none"
    result: NDArray[Any] = torch.nn.functional.gelu(preactivation, approximate=kind).numpy()
    return result


def linear_gelu_gradient(x: Any, weight: Any, *rest: Any, approximate: bool) -> NDArray[Any]:
    """Return the value of `LinearGeluGradient`; the last operand is the cotangent."""
    *bias, cotangent = rest
    preactivation = torch.tensor(x @ weight + bias[0] if bias else x @ weight, requires_grad=True)
    result = torch.nn.functional.gelu(preactivation, approximate="tanh" if approximate else "none")
    (gradient,) = torch.autograd.grad(result, preactivation, torch.tensor(cotangent))
    expected: NDArray[Any] = gradient.numpy()
    return expected


def _linear_samples() -> list[Sample]:
    samples = []
    for shape in SHAPES:
        for approximate in (True, False):
            for biased in (True, False):
                operands = (0.4 * normal(*shape), normal(3, 5), 0.4 * normal(5))[: 2 + biased]
                wrong = (operands[0], normal(4, 5), normal(5))[: 2 + biased]
                kind = f"{len(shape)}d-{'tanh' if approximate else 'erf'}{'-bias' if biased else ''}"

                def build(*nodes: Any, approximate: bool = approximate) -> Any:
                    return LinearGelu(*nodes, approximate=approximate)

                def expected(*arrays: Any, approximate: bool = approximate) -> NDArray[Any]:
                    return linear_gelu(*arrays, approximate=approximate)

                def gradient(*nodes: Any, approximate: bool = approximate, biased: bool = biased) -> Any:
                    return LinearGeluGradient(*nodes, approximate=approximate, biased=biased)

                def expected_gradient(*arrays: Any, approximate: bool = approximate) -> NDArray[Any]:
                    return linear_gelu_gradient(*arrays, approximate=approximate)

                cotangent = normal(*shape[:-1], 5)
                samples += [
                    Sample(LinearGelu, build, operands, expected, name=f"LinearGelu-{kind}", empty=False, misfit=wrong),
                    Sample(
                        LinearGeluGradient,
                        gradient,
                        (*operands, cotangent),
                        expected_gradient,
                        name=f"LinearGeluGradient-{kind}",
                        empty=False,
                        misfit=(*operands, normal(*shape[:-1], 6)),
                    ),
                ]
    return samples


def _embed_samples() -> list[Sample]:
    return [
        Sample(
            Embed,
            Embed,
            (normal(7, 3), normal(context, 3), integers(7, *shape)),
            lambda table, positions, indices: table[indices] + positions[: indices.shape[-1]],
            name=f"Embed-{len(shape)}d-of-{context}",
            empty=False,
            misfit=(normal(7, 3), normal(context, 2), integers(7, *shape)),
        )
        for shape, context in [((4,), 4), ((2, 4), 4), ((2, 4), 6), ((2, 3, 4), 5)]
    ]


def _added(x: Any, residual: Any) -> Any:
    return residual + Dropout(wy.Constant(x), 0.4, 3, 5).forward()


def _kept(rate: float, *shape: int) -> Any:
    return DropoutMask(RandomKey(STEP, 3, 5), rate, shape)


def _dropout_samples() -> list[Sample]:
    def build(x: Any, residual: Any) -> Any:
        return AddDropout(x, residual, 0.4, 3, 5)

    def expected(x: Any, residual: Any) -> Any:
        wy.random.set_step(max(0, int(STEP.value)))  # nothing may have drawn yet
        return _added(x, residual)

    random = frozenset(["random"])
    return [
        Sample(
            AddDropout, build, (normal(3, 4), normal(3, 4)), expected, tags=random, misfit=(normal(3, 4), normal(3, 5))
        ),
        Sample(
            RandomKey,
            lambda: RandomKey(STEP, 3, 5),
            (),
            lambda: RandomKey(STEP, 3, 5).evaluate(np, STEP.value, shape=(2,)),
            differentiable=False,
            empty=False,
            tags=random,
        ),
        Sample(
            DropoutMask,
            lambda: _kept(0.4, 3, 4),
            (),
            lambda: (
                Dropout(wy.Constant(np.ones((3, 4))), 0.4, 3, 5).evaluate(np, np.ones((3, 4)), STEP.value, shape=(3, 4))
                > 0.0
            ),
            differentiable=False,
            empty=False,
            tags=random,
        ),
    ]


def samples() -> list[Sample]:
    """Return samples of the linear layer with GELU, of embeddings and of the ops of dropout."""
    return [*_linear_samples(), *_embed_samples(), *_dropout_samples()]
