"""Convolutions: an epoch of a small network on images like MNIST's, and a layer beside its matrix product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import wyrm as wy
from bench.harness import Case, Contender, Measurement, timed
from bench.models import THREADS
from wyrm.ops.convolution.convolution import ConvolutionInputGradient, ConvolutionWeightGradient

IMAGES, BATCH, RATE = 1_920, 64, 1e-3
# A layer of ResNet: 3 x 3 windows, as many channels in as out.
IMAGES_OF_LAYER, CHANNELS, SIDE, WINDOW = 8, 64, 56, 3


def _images() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    random = np.random.default_rng(0)
    return random.random((IMAGES, 1, 28, 28), np.float32), random.integers(0, 10, IMAGES)


def network() -> tuple[Any, dict[Any, Any]]:
    """Return the program that trains the network, and its columns."""

    class Batch(wy.Dim): ...

    wy.nn.seed(0)
    batch = Batch()
    images, labels = wy.Input(dims=(batch, 1, 28, 28), name="images"), wy.IndexInput(dims=(batch,), name="labels")
    model = wy.nn.Sequential(
        wy.nn.Conv2d(1, 16, 3, padding="same"), wy.nn.relu, wy.nn.MaxPool2d(2),
        wy.nn.Conv2d(16, 32, 3, padding="same"), wy.nn.relu, wy.nn.MaxPool2d(2),
        wy.nn.Flatten(), wy.nn.Linear(32 * 7 * 7, 10),
    )  # fmt: skip
    scores: Any = model(images)
    loss = scores.cross_entropy(labels)
    pictures, digits = _images()
    return wy.compile(loss, wy.optim.Adam(loss.parameters(), RATE)), {images: pictures, labels: digits}


def _wyrm_epoch() -> Callable[[], Measurement]:
    program, columns = network()
    return timed(
        lambda: program.epoch(columns, batch_size=BATCH, shuffle=True, threads=THREADS, mode="synchronized"),
        IMAGES // BATCH,
    )


def _torch_epoch(channels_last: bool) -> Contender:
    def prepare() -> Callable[[], Measurement]:
        import torch
        from torch import nn

        torch.manual_seed(0)
        layout: Any = torch.channels_last if channels_last else torch.contiguous_format
        model: Any = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding="same"), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding="same"), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32 * 7 * 7, 10),
        )  # fmt: skip
        model = model.to(memory_format=layout)
        optimizer = torch.optim.Adam(model.parameters(), RATE, fused=True)
        pictures, digits = (torch.from_numpy(column) for column in _images())

        def epoch() -> None:
            torch.set_num_threads(THREADS)
            order = torch.randperm(IMAGES)
            for start in range(0, IMAGES, BATCH):
                rows = order[start : start + BATCH]
                optimizer.zero_grad(set_to_none=True)
                images = pictures[rows].to(memory_format=layout)
                nn.functional.cross_entropy(model(images), digits[rows]).backward()
                optimizer.step()

        return timed(epoch, IMAGES // BATCH)

    return prepare


def _layer() -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Return the images, the weight and a gradient with respect to the result."""
    random = np.random.default_rng(0)
    shape = (IMAGES_OF_LAYER, CHANNELS, SIDE, SIDE)
    images, gradient = (random.standard_normal(shape, np.float32) for _ in range(2))
    return images, random.standard_normal((CHANNELS, CHANNELS, WINDOW, WINDOW), np.float32), gradient


def _wyrm_layer(part: str) -> Contender:
    def prepare() -> Callable[[], Measurement]:
        x, weight, gradient = map(wy.Input, _layer())
        options: Any = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
        parts: dict[str, Callable[[], wy.Node]] = {
            "forward": lambda: wy.nn.conv2d(x, weight, padding="same"),
            "input gradient": lambda: ConvolutionInputGradient(gradient, weight, sizes=(SIDE, SIDE), **options),
            "weight gradient": lambda: ConvolutionWeightGradient(x, gradient, sizes=(WINDOW, WINDOW), **options),
        }
        program = wy.compile(parts[part]())
        return timed(lambda: program())

    return prepare


def _torch_layer(part: str) -> Contender:
    def prepare() -> Callable[[], Measurement]:
        import torch

        images, weight, gradient = map(torch.from_numpy, _layer())
        wanted = [part == "input gradient", part == "weight gradient", False]

        def once() -> object:
            torch.set_num_threads(1)
            if part == "forward":
                return torch.nn.functional.conv2d(images, weight, padding=1)
            return torch.ops.aten.convolution_backward(
                gradient, images, weight, [0], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, wanted
            )

        return timed(once)

    return prepare


def _product() -> Callable[[], Measurement]:
    """NumPy's matrix products of the same sizes: one for each image, of a matrix of windows that exists already."""
    weight = np.ones((CHANNELS, CHANNELS * WINDOW**2), np.float32)
    windows = np.ones((CHANNELS * WINDOW**2, SIDE * SIDE), np.float32)

    def once() -> None:
        with threadpool_limits(1, "blas"):
            for _ in range(IMAGES_OF_LAYER):
                np.matmul(weight, windows)

    return timed(once)


def cases() -> list[Case]:
    """Return the network, then the layer: its result and both gradients, on one core."""
    network = Case(
        "convolutions", f"network of 16 and 32 channels, a step of {BATCH} images",
        {"wyrm": _wyrm_epoch, "torch": _torch_epoch(False), "torch, channels last": _torch_epoch(True)},
        floors={"torch": 1.3, "torch, channels last": 1.3},
    )  # fmt: skip
    layers = [
        Case(
            "convolutions", f"3 x 3, 64 channels, 56 x 56: {part}",
            {"wyrm": _wyrm_layer(part), "matrix product": _product, "torch": _torch_layer(part)},
            floors={"torch": 1.0, "matrix product": 0.6}, other_work=("matrix product",),
        )
        for part in ("forward", "input gradient", "weight gradient")
    ]  # fmt: skip
    return [network, *layers]
