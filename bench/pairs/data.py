"""The data of the programs, drawn by NumPy."""

from __future__ import annotations

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
