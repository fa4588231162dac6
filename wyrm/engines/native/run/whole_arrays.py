"""Kernels on whole arrays, which native epochs call between their steps."""

from __future__ import annotations

import numpy as np


def count_up(order: np.ndarray, start: int) -> None:
    """Fill `order` with `start`, `start + 1` and so on."""
    for i in range(order.shape[0]):
        order[i] = start + i


def copy(source: np.ndarray, target: np.ndarray) -> None:
    """Copy one array to another of its length."""
    for i in range(source.shape[0]):
        target[i] = source[i]


def put_pair(target: np.ndarray, first: int, second: int) -> None:
    """Write two numbers."""
    target[0] = first
    target[1] = second


def is_finite(array: np.ndarray) -> int:
    """Return 1 if no number is a NaN or an infinity, else 0."""
    others = 0
    for i in range(array.shape[0]):
        others += int(not np.isfinite(array[i]))
    return 1 if others == 0 else 0
