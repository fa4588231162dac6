"""Classify images of digits or clothes with a convolutional network, from IDX files such as MNIST or Fashion-MNIST.

Pass the file of images; the file of labels is expected beside it. Four fifths are for training, one fifth is held out.
Without --data, small pictures of bars are generated.
"""

from __future__ import annotations

import math

from classify_images import Batch, Classes, bars, read
from command_line import parser, train

import wyrm as wy


class Colours(wy.Dim): ...


class Height(wy.Dim): ...


class Width(wy.Dim): ...


class Narrow(wy.Dim): ...


class Wide(wy.Dim): ...


class Network(wy.nn.Module):
    """Two convolutions, each followed by pooling, and a linear layer."""

    def __init__(self, colours: Colours, height: Height, width: Width, classes: Classes) -> None:
        narrow, wide = Narrow(16), Wide(32)
        self.first = wy.nn.Conv2d(colours, narrow, kernel_size=3, padding="same")
        self.second = wy.nn.Conv2d(narrow, wide, kernel_size=3, padding="same")
        self.pool = wy.nn.MaxPool2d(2)
        self.flatten = wy.nn.Flatten()
        self.output = wy.nn.Linear(int(wide) * (int(height) // 4) * (int(width) // 4), classes)

    def __call__(self, x: wy.Tensor[Batch, Colours, Height, Width]) -> wy.Tensor[Batch, Classes]:
        half = self.pool(self.first(x).relu())
        quarter = self.pool(self.second(half).relu())
        return self.output(self.flatten(quarter))


def main() -> None:
    """Train, and print the accuracy on the held-out images."""
    options = parser(__doc__ or "", epochs=3, data="an IDX file of square images, gzip or plain").parse_args()
    wy.nn.seed(options.seed)
    everything = bars(options.seed) if options.data is None else read(options.data)
    training, held_out = wy.data.train_test_split(everything, test_fraction=0.2, seed=options.seed)
    side = math.isqrt(training["images"].shape[1])
    colours, height, width, classes = (
        Colours(1),
        Height(side),
        Width(side),
        Classes(int(everything["labels"].max()) + 1),
    )

    batch = Batch()
    images = wy.Input(dims=(batch, colours, height, width), name="images")
    labels = wy.IndexInput(dims=(batch,), name="labels")
    model = Network(colours, height, width, classes)
    scores = model(images)
    loss = scores.cross_entropy(labels)
    optimizer = wy.optim.Adam(loss.parameters(), learning_rate=1e-3)
    shape = (-1, 1, side, side)
    train(
        loss, optimizer, {images: training["images"].reshape(shape), labels: training["labels"]}, options, batch_size=64
    )

    answers = wy.compile(scores.argmax(axis=-1))({images: held_out["images"].reshape(shape)})
    accuracy = wy.metrics.accuracy(held_out["labels"], answers)
    print(f"accuracy {accuracy:.1%} on {len(held_out)} held-out images")


if __name__ == "__main__":
    main()
