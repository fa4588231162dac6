"""A small residual network with batch normalization on images that are shifted at random."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import wyrm as wy
from bench.pairs.data import Array, Labels, stripes


def shifted(columns: Any, generator: np.random.Generator) -> Any:
    """Return a batch with its images moved by up to two pixels."""
    return columns | {"images": wy.data.random_shift(columns["images"], generator, 2, axes=(2, 3))}


class Block(wy.nn.Module):
    def __init__(self, narrow: int, wide: int, stride: int) -> None:
        self.first = wy.nn.Conv2d(narrow, wide, 3, stride, padding=1, bias=False)
        self.first_norm = wy.nn.BatchNorm2d(wide)
        self.second = wy.nn.Conv2d(wide, wide, 3, padding=1, bias=False)
        self.second_norm = wy.nn.BatchNorm2d(wide)
        self.shortcut = wy.nn.Conv2d(narrow, wide, 1, stride, bias=False) if stride > 1 else wy.nn.Sequential()

    def __call__(self, x: wy.Node) -> wy.Node:
        inside = self.first_norm(self.first(x)).relu()
        return (self.second_norm(self.second(inside)) + self.shortcut(x)).relu()


class ResNet(wy.nn.Module):
    def __init__(self, classes: int) -> None:
        self.stem = wy.nn.Conv2d(1, 8, 3, padding=1, bias=False)
        self.norm = wy.nn.BatchNorm2d(8)
        self.blocks = Block(8, 8, 1), Block(8, 16, 2), Block(16, 32, 2)
        self.output = wy.nn.Linear(32, classes)

    def __call__(self, x: wy.Node) -> wy.Node:
        x = self.norm(self.stem(x)).relu()
        for block in self.blocks:
            x = block(x)
        return self.output(x.mean((2, 3)))


def fit(images: Array, labels: Labels, epochs: int, seed: int = 0) -> tuple[ResNet, float]:
    """Return the network after some epochs, and the mean loss of the last."""
    wy.nn.seed(seed)
    network = ResNet(int(labels.max()) + 1)
    batch = wy.Dim()
    x, y = wy.Input(dims=(batch, *images.shape[1:]), name="images"), wy.IndexInput(dims=(batch,), name="labels")
    loss = network(x).cross_entropy(y)
    data = wy.data.Dataset(images=images, labels=labels).map(shifted, seed=seed)
    loader = wy.data.DataLoader(data, batch_size=64, seed=seed)
    rate = wy.optim.Cosine(3e-3, steps=epochs * len(loader))
    program = wy.compile(loss, wy.optim.Adam(loss.parameters(), learning_rate=rate))
    history = wy.train.fit(program, loader, epochs=epochs)
    return network, history["loss"][-1]


def predicted(network: ResNet, images: Array) -> NDArray[Any]:
    """Return the classes that the network gives images, by the statistics of the training."""
    network.eval()
    x = wy.Input(dims=(wy.Dim(), *images.shape[1:]))
    return wy.compile(network(x).argmax(axis=-1))({x: images})


def train(epochs: int = 5) -> float:
    return fit(*stripes(), epochs)[1]
