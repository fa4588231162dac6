"""A Gaussian process whose hyperparameters maximize the likelihood of a curve."""

from __future__ import annotations

import numpy as np

import wyrm as wy
from bench.pairs.data import curve


def train(steps: int = 100) -> float:
    x, y = curve()
    distances = (x[:, None] - x[None, :]) ** 2
    scale, length, noise = (wy.Parameter(np.zeros(()), name=name) for name in ("scale", "length", "noise"))
    kernel = (2.0 * scale).exp() * (-0.5 * distances * (-2.0 * length).exp()).exp()
    factor = wy.linalg.cholesky(kernel + (2.0 * noise).exp() * np.eye(len(x)))
    white = wy.linalg.solve_triangular(factor, y, lower=True)
    loss = 0.5 * white.square().sum() + wy.diagonal(factor).log().sum()
    program = wy.compile(loss, wy.optim.SGD(loss.parameters(), learning_rate=0.002))
    for _ in range(steps):
        value = program()
    return float(value)
