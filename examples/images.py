"""Shared by the examples that classify images: labelled images from IDX files, generated ones, and their pictures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pictures import Pictures, show_images

import wyrm as wy

Images = NDArray[np.float32]
Labels = NDArray[np.int64]


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


def draw_mistakes(pictures: Pictures, images: Images, labels: Labels, probabilities: Images) -> None:
    """Draw up to 40 images that a model gets wrong, those first of whose wrong class it is most certain."""
    predicted = probabilities.argmax(axis=1)
    wrong = np.flatnonzero(predicted != labels)
    certain = wrong[np.argsort(-probabilities[wrong, predicted[wrong]], kind="stable")][:40]
    with pictures.draw("mistakes", width=10.0, height=0.8 + 1.25 * max(1, -(-len(certain) // 8))) as figure:
        axes = figure.subplots()
        if not len(certain):
            axes.set_axis_off()
            axes.text(0.5, 0.5, f"All {len(labels):,} held-out images are right.", ha="center", va="center")
            return
        axes.set_title(
            f"{len(wrong):,} of {len(labels):,} held-out images are wrong; the most certain mistakes come first\n"
            "(true class, predicted class, probability of the predicted class)",
        )
        titles = [f"{labels[i]}, not {predicted[i]} ({probabilities[i, predicted[i]]:.0%})" for i in certain]
        show_images(axes, images[certain], 8, titles, limits=(float(images.min()), float(images.max())))


def draw_confusion(pictures: Pictures, labels: Labels, predicted: Any, classes: int) -> None:
    """Draw how many images of each class were taken for each other class."""
    counts = np.zeros((classes, classes), np.int64)
    np.add.at(counts, (labels, predicted), 1)
    mistakes = counts * (1 - np.eye(classes, dtype=np.int64))
    with pictures.draw("confusion", width=1.6 + 0.5 * classes, height=1.0 + 0.5 * classes) as figure:
        axes = figure.subplots()
        axes.imshow(mistakes, cmap="Oranges", vmax=max(1, int(mistakes.max())) * 1.4)
        for true, guess in zip(*np.nonzero(counts), strict=True):
            color, weight = ("#8a8a8a", "normal") if true == guess else ("black", "bold")
            axes.text(guess, true, str(counts[true, guess]), ha="center", va="center", color=color, weight=weight)
        axes.set(xlabel="predicted class", ylabel="true class", title="Held-out images by true and predicted class")
        axes.set(xticks=range(classes), yticks=range(classes))
        axes.grid(False)
