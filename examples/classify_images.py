"""Classify images of digits or clothes with a three-layer network, from IDX files such as MNIST or Fashion-MNIST.

Pass the file of images; the file of labels is expected beside it. Four fifths are for training, one fifth is held out.
Without --data, small pictures of bars are generated.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from command_line import parser, train
from threadpoolctl import threadpool_limits

import wyrm as wy


class Batch(wy.Dim): ...


class Pixels(wy.Dim): ...


class Wide(wy.Dim): ...


class Narrow(wy.Dim): ...


class Classes(wy.Dim): ...


class Classifier(wy.nn.Module):
    """A network from pixels to class scores, with two hidden layers and dropout."""

    def __init__(self, pixels: Pixels, classes: Classes) -> None:
        wide, narrow = Wide(256), Narrow(128)
        self.first = wy.nn.Linear(pixels, wide)
        self.second = wy.nn.Linear(wide, narrow)
        self.output = wy.nn.Linear(narrow, classes)
        self.dropout = wy.nn.Dropout(0.2)

    def __call__(self, x: wy.Tensor[Batch, Pixels]) -> wy.Tensor[Batch, Classes]:
        wide = self.dropout(self.first(x).relu())
        narrow = self.dropout(self.second(wide).relu())
        return self.output(narrow)


def read(path: Path) -> wy.data.Dataset:
    """Return the images of an IDX file, flattened and scaled to 0..1, with the labels from the file beside it."""
    beside = path.with_name(path.name.replace("images", "labels").replace("idx3", "idx1"))
    if beside == path:
        sys.exit(f"{path}: the name of the labels' file has 'labels' for 'images', but this name has no 'images'")
    images, labels = wy.data.read_idx(path), wy.data.read_idx(beside)
    if labels.dtype.kind not in "iu" or labels.ndim != 1 or labels.min() < 0:
        sys.exit(f"{beside}: labels are non-negative integers in one axis, not {labels.dtype} of shape {labels.shape}")
    pixels = images.reshape(len(images), -1).astype(np.float32) / 255.0
    return wy.data.Dataset(images=pixels, labels=labels.astype(np.int64))


def bars(seed: int, count: int = 2000) -> wy.data.Dataset:
    """Return noisy 8 x 8 pictures with a bar in one of ten positions, which is the label."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count)
    images = random.normal(0.0, 0.5, (count, 8, 8)).astype(np.float32)
    for image, label in zip(images, labels, strict=True):
        line = (slice(None), label - 2) if label >= 5 else (label + 1, slice(None))
        image[line] += 1.0
    return wy.data.Dataset(images=images.reshape(count, 64), labels=labels)


def main() -> None:
    """Train, and print the accuracy on the held-out images."""
    options = parser(__doc__ or "", epochs=8, data="an IDX file of images, gzip or plain").parse_args()
    wy.nn.seed(options.seed)
    everything = bars(options.seed) if options.data is None else read(options.data)
    training, held_out = wy.data.train_test_split(everything, test_fraction=0.2, seed=options.seed)
    pixels, classes = Pixels(training["images"].shape[1]), Classes(int(everything["labels"].max()) + 1)

    batch = Batch()
    images = wy.Input(dims=(batch, pixels), name="images")
    labels = wy.IndexInput(dims=(batch,), name="labels")
    model = Classifier(pixels, classes)
    loss = model(images).cross_entropy(labels)
    model.eval()  # the model now builds graphs without dropout
    answers = model(images).argmax(axis=-1)
    optimizer = wy.optim.Adam(loss.parameters(), learning_rate=1e-3)
    train(loss, optimizer, {images: training["images"], labels: training["labels"]}, options, batch_size=64)

    images.set(held_out["images"])
    accuracy = wy.metrics.accuracy(held_out["labels"], answers.forward())
    print(f"accuracy {accuracy:.1%} on {len(held_out)} held-out images")


if __name__ == "__main__":
    with threadpool_limits(1, "blas"):  # a second thread slows such small products down
        main()
