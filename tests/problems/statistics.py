"""Problems of statistics and learning: each a scalar function of float64 arrays, written once for every library.

`xp` is NumPy, whose functions accept wyrm's nodes, or a library with NumPy's interface.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.problems.problem import Problem

_random = np.random.default_rng(0)


def _normal(*shape: int) -> Any:
    return _random.standard_normal(shape)


_X, _Y = _normal(12, 3), _normal(12)
_LABELS = np.where(_random.random(12) < 0.5, 1.0, -1.0)
_CLASSES = np.eye(4)[_random.integers(0, 4, 12)]
_COUNTS = _random.integers(0, 6, 12).astype(np.float64)


def linear_regression(xp: Any, weights: Any) -> Any:
    """Least squares."""
    return xp.mean((_X @ weights - _Y) ** 2.0)


def ridge_regression(xp: Any, weights: Any, strength: Any) -> Any:
    """Least squares with a penalty whose strength is a variable too."""
    return xp.sum((_X @ weights - _Y) ** 2.0) + xp.exp(strength) * xp.sum(weights * weights)


def huber_regression(xp: Any, weights: Any) -> Any:
    """Huber loss (1964): quadratic near zero, linear far from it."""
    far = xp.absolute(_X @ weights - _Y)
    return xp.sum(xp.where(far < 0.7, 0.5 * far * far, 0.7 * (far - 0.35)))


def logistic_regression(xp: Any, weights: Any, bias: Any) -> Any:
    """Log-likelihood of a logistic regression with labels 1 and -1."""
    return xp.mean(xp.logaddexp(0.0, -_LABELS * (_X @ weights + bias)))


def softmax_regression(xp: Any, weights: Any) -> Any:
    """Cross-entropy of four classes, after subtracting the largest logit."""
    logits = _X @ weights
    logits = logits - xp.max(logits, axis=1, keepdims=True)
    return -xp.mean(xp.sum(_CLASSES * logits, axis=1) - xp.log(xp.sum(xp.exp(logits), axis=1)))


def poisson_regression(xp: Any, weights: Any) -> Any:
    """Poisson regression: the logarithm of the expected count is linear."""
    logs = _X @ weights
    return xp.sum(xp.exp(logs) - _COUNTS * logs)


def student_t_likelihood(xp: Any, location: Any, scale: Any) -> Any:
    """Negative log-likelihood of Student's t distribution with three degrees of freedom, up to a constant."""
    return xp.sum(2.0 * xp.log1p(((_Y - location) / scale) ** 2.0 / 3.0) + xp.log(scale))


def mixture_likelihood(xp: Any, means: Any, log_scales: Any, logits: Any) -> Any:
    """A mixture of three normal distributions: `-sum log sum exp`."""
    shares = logits - xp.log(xp.sum(xp.exp(logits)))
    distance = (_Y.reshape(12, 1) - means) / xp.exp(log_scales)
    each = shares - log_scales - 0.5 * distance * distance
    top = xp.max(each, axis=1, keepdims=True)
    return -xp.sum(xp.log(xp.sum(xp.exp(each - top), axis=1)) + xp.squeeze(top, 1))


def kernel_ridge(xp: Any, alphas: Any, width: Any) -> Any:
    """Regression with a Gaussian kernel of variable width."""
    squares = np.sum((_X[:, None] - _X[None]) ** 2, axis=-1)
    kernel = xp.exp(-squares * width * width)
    fitted = kernel @ alphas
    return xp.sum((fitted - _Y) ** 2.0) + 0.1 * xp.sum(alphas * fitted)


def matrix_factorization(xp: Any, users: Any, items: Any) -> Any:
    """Factorization of a table of ratings into two matrices of low rank."""
    wanted = np.outer(_Y[:4], _Y[4:9])
    return xp.sum((users @ xp.transpose(items) - wanted) ** 2.0) + 0.1 * (xp.sum(users**2.0) + xp.sum(items**2.0))


def pairwise_ranking(xp: Any, user: Any, positive: Any, negative: Any) -> Any:
    """Bayesian personalized ranking (Rendle et al., 2009)."""
    return xp.sum(xp.logaddexp(0.0, -xp.sum(user * (positive - negative), axis=1)))


def elastic_net(xp: Any, weights: Any) -> Any:
    """Least squares with L1 and L2 penalties."""
    return xp.mean((_X @ weights - _Y) ** 2.0) + 0.1 * xp.sum(xp.absolute(weights)) + 0.05 * xp.sum(weights**2.0)


def divergence(xp: Any, mean: Any, log_scale: Any) -> Any:
    """Kullback-Leibler divergence (1951) of a normal distribution from the standard normal."""
    return 0.5 * xp.sum(xp.exp(2.0 * log_scale) + mean * mean - 1.0 - 2.0 * log_scale)


def principal_direction(xp: Any, direction: Any) -> Any:
    """The fraction of variance along a direction: Rayleigh's quotient."""
    return -xp.sum((_X @ direction) ** 2.0) / xp.sum(direction * direction)


PROBLEMS = [
    Problem(linear_regression, (_normal(3),)),
    Problem(ridge_regression, (_normal(3), np.array(-1.0))),
    Problem(huber_regression, (_normal(3),)),
    Problem(logistic_regression, (_normal(3), np.array(0.3))),
    Problem(softmax_regression, (_normal(3, 4),)),
    Problem(poisson_regression, (0.3 * _normal(3),)),
    Problem(student_t_likelihood, (np.array(0.2), np.array(1.3))),
    Problem(mixture_likelihood, (_normal(3), 0.3 * _normal(3), _normal(3))),
    Problem(kernel_ridge, (_normal(12), np.array(0.5))),
    Problem(matrix_factorization, (_normal(4, 2), _normal(5, 2))),
    Problem(pairwise_ranking, (_normal(5, 3), _normal(5, 3), _normal(5, 3))),
    Problem(elastic_net, (_normal(3),)),
    Problem(divergence, (_normal(4), 0.3 * _normal(4))),
    Problem(principal_direction, (_normal(3),)),
]
