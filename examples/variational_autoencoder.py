# %% [markdown]
"""# Train a variational autoencoder on images, such as MNIST's (Kingma and Welling, 2014); the graph draws its noise.

Four fifths of the images are for training, one fifth is held out. Without --data, small pictures of bars are generated.
"""

# %%
from __future__ import annotations

from pathlib import Path

import numpy as np
from command_line import Column, Progress, arguments, parser
from pictures import Pictures, show_images, square
from threadpoolctl import threadpool_limits

import wyrm as wy

# %% tags=["parameters"]
# In a notebook, the options of the command line go here, as in ["--data", "t10k-images-idx3-ubyte.gz"].
ARGUMENTS: list[str] = []

# %%
options = parser(__doc__ or "", epochs=20, data="an IDX file of images, gzip or plain").parse_args(arguments(ARGUMENTS))
pictures = Pictures(options.pictures)
wy.nn.seed(options.seed)
threadpool_limits(1, "blas")  # a second thread slows such small products down

# %% [markdown]
# ## The images
# Only the pixels count here: an autoencoder learns without labels.


# %%
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


everything = wy.data.Dataset(images=bars(options.seed) if options.data is None else read(options.data))
training, held_out = wy.data.train_test_split(everything, test_fraction=0.2, seed=options.seed)

# %% [markdown]
# ## The model
# The encoder maps an image to a normal distribution of codes: 16 numbers with a mean and a variance each. The decoder
# maps a code drawn from it to the probability of each pixel. The loss has two parts: the nats that the pixels take,
# given the code, and those that the code takes, given a standard normal distribution.


# %%
class Batch(wy.Dim): ...


class Pixels(wy.Dim): ...


class Hidden(wy.Dim): ...


class Latent(wy.Dim): ...


class Autoencoder(wy.nn.Module):
    """An encoder from pixels to the mean and the logarithm of the variance of a code, and a decoder."""

    def __init__(self, pixels: Pixels, latent: Latent) -> None:
        hidden = Hidden(256)
        self.encoder = wy.nn.Linear(pixels, hidden)
        self.mean = wy.nn.Linear(hidden, latent)
        self.log_variance = wy.nn.Linear(hidden, latent)
        self.decoder = wy.nn.Linear(latent, hidden)
        self.output = wy.nn.Linear(hidden, pixels)

    def encode(self, x: wy.Tensor[Batch, Pixels]) -> tuple[wy.Tensor[Batch, Latent], wy.Tensor[Batch, Latent]]:
        """Return the mean and the logarithm of the variance of each image's code."""
        hidden = self.encoder(x).relu()
        return self.mean(hidden), self.log_variance(hidden)

    def decode(self, code: wy.Tensor[Batch, Latent]) -> wy.Tensor[Batch, Pixels]:
        """Return the logits of the pixels for each code."""
        return self.output(self.decoder(code).relu())

    def __call__(self, x: wy.Tensor[Batch, Pixels]) -> wy.Tensor[()]:
        """Return the mean over images of the negative evidence lower bound, in nats."""
        mean, log_variance = self.encode(x)
        logits = self.decode(mean + (log_variance * 0.5).exp() * wy.random.normal_like(mean))
        reconstruction = (logits.softplus() - x * logits).sum(axis=-1)
        divergence = (mean.square() + log_variance.exp() - log_variance - 1.0).sum(axis=-1) * 0.5
        return (reconstruction + divergence).mean()


batch, pixels, latent = Batch(), Pixels(training["images"].shape[1]), Latent(16)
images = wy.Input(dims=(batch, pixels), name="images")
model = Autoencoder(pixels, latent)
loss = model(images)

# %% [markdown]
# ## Training
# For the picture, the loss on the held-out images is measured after each epoch.

# %%
train = wy.compile(loss, wy.optim.Adam(loss.parameters(), learning_rate=1e-3), engine=options.engine)
evaluation = wy.compile(loss)
progress = Progress(options.epochs)
for _ in progress:
    mean_loss = train.epoch({images: training["images"]}, batch_size=64, shuffle=True, seed=options.seed)
    found = {"validation_loss": evaluation.evaluate({images: held_out["images"]})} if pictures else {}
    progress.show(loss=mean_loss, **found)

images.set(held_out["images"])
wy.random.set_step(0)
print(f"at most {loss.forward():.1f} nats for each of {len(held_out)} held-out images")

# %% [markdown]
# ## What the codes hold
# The first picture shows held-out images above what the decoder makes of their codes, the second one images of random
# codes. In the third one, images that look alike lie side by side: it shows each image at the place of its code, along
# the two directions in which the codes vary most.


# %%
def apart(points: Column, distance: float) -> list[int]:
    """Return rows of points, chosen in order, that keep a distance from each other."""
    chosen: list[int] = []
    for row, point in enumerate(points):
        if not chosen or np.abs(points[chosen] - point).max(axis=1).min() >= distance:
            chosen.append(row)
    return chosen


if pictures:
    pictures.curves("Variational autoencoder", progress.history, {"loss": "bound on the nats of an image"})
    codes_input = wy.Input(dims=(batch, latent), name="codes")
    decode = wy.compile(model.decode(codes_input).sigmoid())
    codes = wy.compile(model.encode(images)[0])({images: held_out["images"]})

    with pictures.draw("reconstructions", width=10.0, height=2.3) as figure:
        axes = figure.subplots()
        show_images(axes, np.concatenate([held_out["images"][:12], decode({codes_input: codes[:12]})]), 12)
        axes.set_title("Held-out images (above) and their reconstructions (below)")

    with pictures.draw("samples", width=10.0, height=4.7) as figure:
        axes = figure.subplots()
        drawn = np.random.default_rng(options.seed).normal(size=(60, int(latent))).astype(np.float32)
        show_images(axes, decode({codes_input: drawn}), 12)
        axes.set_title("Images of codes from a standard normal distribution")

    with pictures.draw("codes", width=8.0, height=7.4) as figure:
        axes = figure.subplots()
        centred = codes - codes.mean(axis=0)
        places = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
        edge = float(np.ptp(places)) / 26.0
        for row in apart(places, edge):
            (x, y), half = places[row], edge / 2.0
            axes.imshow(
                square(held_out["images"][row]),
                cmap="gray_r",
                extent=(x - half, x + half, y - half, y + half),
                vmin=0.0,
                vmax=1.0,
            )
        axes.autoscale()
        axes.set(xlabel="first principal component of the codes", ylabel="second principal component of the codes")
        axes.set_title("Held-out images at the places of their codes")
        axes.grid(False)
