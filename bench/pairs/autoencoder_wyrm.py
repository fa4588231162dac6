"""A variational autoencoder of pictures of stripes."""

from __future__ import annotations

import wyrm as wy
from bench.pairs.data import stripes


class Autoencoder(wy.nn.Module):
    def __init__(self) -> None:
        self.encoder, self.mean, self.log_variance = wy.nn.Linear(256, 64), wy.nn.Linear(64, 8), wy.nn.Linear(64, 8)
        self.decoder, self.output = wy.nn.Linear(8, 64), wy.nn.Linear(64, 256)

    def __call__(self, x: wy.Node) -> wy.Node:
        hidden = self.encoder(x).relu()
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        code = mean + (0.5 * log_variance).exp() * wy.random.normal_like(mean)
        error = (self.output(self.decoder(code).relu()) - x).square().sum(-1)
        divergence = 0.5 * (mean.square() + log_variance.exp() - log_variance - 1.0).sum(-1)
        return (0.5 * error + divergence).mean()


def train(epochs: int = 5) -> float:
    pictures, _ = stripes()
    wy.nn.seed(0)
    images = wy.Input(dims=(wy.Dim(), 256))
    loss = Autoencoder()(images)
    program = wy.compile(loss, wy.optim.Adam(loss.parameters(), learning_rate=3e-3))
    for epoch in range(epochs):
        value = program.epoch({images: pictures.reshape(-1, 256)}, batch_size=32, shuffle=True, seed=epoch)
    return value
