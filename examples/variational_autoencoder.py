"""Train a variational autoencoder on images, such as MNIST's (Kingma and Welling, 2014); the graph draws its noise.

Four fifths of the images are for training, one fifth is held out. Without --data, small pictures of bars are generated.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from command_line import Column, parser, train
from threadpoolctl import threadpool_limits

import wyrm as wy


class Batch(wy.Dim): ...


class Pixels(wy.Dim): ...


class Hidden(wy.Dim): ...


class Latent(wy.Dim): ...


class Autoencoder(wy.nn.Module):
    """An encoder from pixels to the mean and the logarithm of the variance of a code, and a decoder."""

    def __init__(self, pixels: Pixels) -> None:
        hidden, latent = Hidden(256), Latent(16)
        self.encoder = wy.nn.Linear(pixels, hidden)
        self.mean = wy.nn.Linear(hidden, latent)
        self.log_variance = wy.nn.Linear(hidden, latent)
        self.decoder = wy.nn.Linear(latent, hidden)
        self.output = wy.nn.Linear(hidden, pixels)

    def __call__(self, x: wy.Tensor[Batch, Pixels]) -> wy.Tensor[()]:
        """Return the mean over images of the negative evidence lower bound, in nats."""
        hidden = self.encoder(x).relu()
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        code = mean + (log_variance * 0.5).exp() * wy.random.normal_like(mean)
        logits = self.output(self.decoder(code).relu())
        reconstruction = (logits.softplus() - x * logits).sum(axis=-1)
        divergence = (mean.square() + log_variance.exp() - log_variance - 1.0).sum(axis=-1) * 0.5
        return (reconstruction + divergence).mean()


def read(path: Path) -> Column:
    """Return the images of an IDX file, flattened and scaled to 0..1."""
    images = wy.data.read_idx(path)
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255.0)


def bars(seed: int, count: int = 2000) -> Column:
    """Return 8 x 8 pictures, each with a horizontal and a vertical bar."""
    random = np.random.default_rng(seed)
    images = np.zeros((count, 8, 8), np.float32)
    images[np.arange(count), random.integers(0, 8, count)] = 1.0
    images[np.arange(count), :, random.integers(0, 8, count)] = 1.0
    return images.reshape(count, 64)


def main() -> None:
    """Train, and print the negative evidence lower bound of the held-out images."""
    options = parser(__doc__ or "", epochs=20, data="an IDX file of images, gzip or plain").parse_args()
    wy.nn.seed(options.seed)
    everything = wy.data.Dataset(images=bars(options.seed) if options.data is None else read(options.data))
    training, held_out = wy.data.train_test_split(everything, test_fraction=0.2, seed=options.seed)

    images = wy.Input(dims=(Batch(), Pixels(training["images"].shape[1])), name="images")
    loss = Autoencoder(Pixels(training["images"].shape[1]))(images)
    optimizer = wy.optim.Adam(loss.parameters(), learning_rate=1e-3)
    train(loss, optimizer, {images: training["images"]}, options, batch_size=64)

    images.set(held_out["images"])
    wy.random.set_step(0)
    print(f"at most {loss.forward():.1f} nats for each of {len(held_out)} held-out images")


if __name__ == "__main__":
    with threadpool_limits(1, "blas"):  # a second thread slows such small products down
        main()
