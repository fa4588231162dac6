"""Images of digits or clothes by a network of three layers, on IDX files such as MNIST or Fashion-MNIST.

Give the file of images; the file of labels is looked for beside it. Four fifths train, one fifth is held out.
Without --data small pictures of bars are generated, so that the example runs anywhere.
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
    """Pixels to a score for each class, through two hidden layers with dropout."""

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
    """The images of an IDX file, flat and scaled to 0..1, with the labels that stand beside it."""
    beside = path.with_name(path.name.replace("images", "labels").replace("idx3", "idx1"))
    if beside == path:
        sys.exit(f"{path}: the labels are looked for by this name with 'labels' for 'images', and it has no 'images'")
    images, labels = wy.data.read_idx(path), wy.data.read_idx(beside)
    if labels.dtype.kind not in "iu" or labels.ndim != 1 or labels.min() < 0:
        sys.exit(f"{beside}: labels are whole numbers from 0 in one axis, not {labels.dtype} of shape {labels.shape}")
    pixels = images.reshape(len(images), -1).astype(np.float32) / 255.0
    return wy.data.Dataset(images=pixels, labels=labels.astype(np.int64))


def bars(seed: int, count: int = 2000) -> wy.data.Dataset:
    """Noisy pictures of 8 x 8 pixels with one bar, in one of ten places."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count)
    images = random.normal(0.0, 0.5, (count, 8, 8)).astype(np.float32)
    for image, label in zip(images, labels, strict=True):
        line = (slice(None), label - 2) if label >= 5 else (label + 1, slice(None))
        image[line] += 1.0
    return wy.data.Dataset(images=images.reshape(count, 64), labels=labels)


def main() -> None:
    """Train, and print the accuracy on the part that was held out."""
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
    model.eval()  # from here on the model builds graphs without dropout
    answers = model(images).argmax(axis=-1)
    optimizer = wy.optim.Adam(loss.parameters(), learning_rate=1e-3)
    train(loss, optimizer, {images: training["images"], labels: training["labels"]}, options, batch_size=64)

    images.set(held_out["images"])
    accuracy = wy.metrics.accuracy(held_out["labels"], answers.forward())
    print(f"accuracy {accuracy:.1%} on {len(held_out)} images that were held out")


if __name__ == "__main__":
    with threadpool_limits(1, "blas"):  # products this small lose more to a second thread than they gain
        main()
