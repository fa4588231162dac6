"""A convolutional network that tells the direction of stripes."""

from __future__ import annotations

import wyrm as wy
from bench.pairs.data import stripes


class Network(wy.nn.Module):
    def __init__(self) -> None:
        self.first = wy.nn.Conv2d(1, 8, kernel_size=3, padding="same")
        self.second = wy.nn.Conv2d(8, 16, kernel_size=3, padding="same")
        self.output = wy.nn.Linear(16 * 4 * 4, 4)

    def __call__(self, x: wy.Node) -> wy.Node:
        x = wy.nn.max_pool2d(self.first(x).relu(), 2)
        x = wy.nn.max_pool2d(self.second(x).relu(), 2)
        return self.output(x.flatten(1))


def train(epochs: int = 5) -> float:
    pictures, directions = stripes()
    wy.nn.seed(0)
    batch = wy.Dim()
    images, labels = wy.Input(dims=(batch, 1, 16, 16)), wy.IndexInput(dims=(batch,))
    loss = Network()(images).cross_entropy(labels)
    program = wy.compile(loss, wy.optim.Adam(loss.parameters(), learning_rate=3e-3))
    for epoch in range(epochs):
        value = program.epoch({images: pictures, labels: directions}, batch_size=32, shuffle=True, seed=epoch)
    return value
