"""The data of the programs, drawn by NumPy."""

from __future__ import annotations

import datetime

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Labels = NDArray[np.int64]


def curve(count: int = 60) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return points of a noisy sine wave."""
    random = np.random.default_rng(0)
    x = np.sort(random.uniform(-4.0, 4.0, count))
    return x, np.sin(2.0 * x) + 0.1 * random.normal(size=count)


def stripes(count: int = 512) -> tuple[Array, Labels]:
    """Return 16 x 16 pictures of stripes in one of four directions, and the directions."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 4, count)
    rows, columns = np.mgrid[:16, :16]
    phases = [rows, columns, rows + columns, rows - columns]
    pictures = np.stack([np.sin(phases[label] + random.uniform(0.0, 6.0)) for label in labels])
    noisy = pictures + 0.5 * random.normal(size=pictures.shape)
    return noisy[:, None].astype(np.float32), labels


def graph(nodes: int = 200) -> tuple[Array, Labels, Labels, Labels]:
    """Return features, the two ends of edges within and between two communities, and the community of each node."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, nodes)
    same = labels[:, None] == labels[None, :]
    sources, targets = np.nonzero(random.random((nodes, nodes)) < np.where(same, 0.08, 0.01))
    features = labels[:, None] + 2.0 * random.normal(size=(nodes, 8))
    return features.astype(np.float32), sources, targets, labels


REWARDS = np.array([0.1, 0.5, 0.8, 0.3], np.float32)

FORMATS = ["%d %B %Y", "%B %d, %Y", "%d %b %Y", "%A, %d %B %Y", "%Y/%m/%d", "%d.%m.%Y"]
CHARACTERS = " abcdefghijklmnopqrstuvwxyz0123456789,./"


def dates(count: int = 2048, seed: int = 0) -> tuple[Labels, Labels]:
    """Return dates as people write them, 28 characters as numbers, and the 8 digits of year, month and day."""
    random = np.random.default_rng(seed)
    days = [datetime.date.fromordinal(int(day)) for day in random.integers(693_596, 766_645, count)]  # 1900 to 2099
    written = [
        day.strftime(FORMATS[i]).lower().ljust(28) for day, i in zip(days, random.integers(0, 6, count), strict=True)
    ]
    texts = [[CHARACTERS.index(letter) for letter in text] for text in written]
    return np.array(texts), np.array([[int(digit) for digit in day.strftime("%Y%m%d")] for day in days])


def visits(users: int = 400, items: int = 600, each: int = 20) -> tuple[NDArray[np.int64], ...]:
    """Return users and the items that each chose by hidden tastes, and for each user one more item, held out."""
    random = np.random.default_rng(0)
    tastes, kinds = random.normal(size=(users, 4)), random.normal(size=(items, 4))
    scores = 1.5 * tastes @ kinds.T + random.normal(size=items) + random.gumbel(size=(users, items))
    chosen = random.permuted(np.argsort(-scores, axis=1)[:, : each + 1], axis=1)
    return np.repeat(np.arange(users), each), chosen[:, :-1].reshape(-1), chosen[:, -1]
