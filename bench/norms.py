"""Norms over channels of images on one core: a step that moves the images, the weight and the bias by the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import wyrm as wy
from bench.harness import Case, Contender, Measurement, timed

SHAPES = ((64, 64, 32, 32), (128, 16, 28, 28), (64, 256, 7, 7))
GROUPS, RATE = 8, 1e-3
# Each layer as a function of a package `nn` and the number of channels; both packages have the same names.
LAYERS: dict[str, Callable[[Any, int], Any]] = {
    "batch norm": lambda nn, channels: nn.BatchNorm2d(channels),
    "group norm": lambda nn, channels: nn.GroupNorm(GROUPS, channels),
    "instance norm": lambda nn, channels: nn.InstanceNorm2d(channels, affine=True),
}


def _arrays(shape: tuple[int, ...]) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    return random.standard_normal(shape, np.float32), random.standard_normal(shape, np.float32)


def _wyrm(layer: str, shape: tuple[int, ...], relu: bool) -> Contender:
    def prepare() -> Callable[[], Measurement]:
        images, cotangent = _arrays(shape)
        x: Any = wy.Parameter(images)
        norm = LAYERS[layer](wy.nn, shape[1])
        result = norm(x).relu() if relu else norm(x)
        loss = (result * wy.Constant(cotangent)).sum()
        program: Any = wy.compile(loss, wy.optim.SGD(loss.parameters(), RATE))
        return timed(program)

    return prepare


def _torch(layer: str, shape: tuple[int, ...], relu: bool) -> Contender:
    def prepare() -> Callable[[], Measurement]:
        import torch

        x, cotangent = map(torch.from_numpy, _arrays(shape))
        x.requires_grad_()
        norm = LAYERS[layer](torch.nn, shape[1])
        optimizer = torch.optim.SGD([x, *norm.parameters()], RATE)

        def once() -> None:
            torch.set_num_threads(1)
            optimizer.zero_grad()
            result = norm(x).relu() if relu else norm(x)
            (result * cotangent).sum().backward()
            optimizer.step()

        return timed(once)

    return prepare


def cases() -> list[Case]:
    """Return each norm for each shape, batch norm also with the relu that follows it in networks."""
    return [
        Case(
            "norms",
            f"{layer}{' and relu' if relu else ''}, {' x '.join(map(str, shape))}",
            {"wyrm": _wyrm(layer, shape, relu), "torch": _torch(layer, shape, relu)},
            floors={"torch": 1.0},
            quick=shape == SHAPES[0],
        )
        for layer in LAYERS
        for relu in ((False, True) if layer == "batch norm" else (False,))
        for shape in SHAPES
    ]
