"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.stats

from wyrm.graph.base import BaseNode

from ... import numpy as anp

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def logpdf(x: Any, mean: Any, cov: Any, allow_singular: bool = False) -> Any:
    if not any(isinstance(each, BaseNode) for each in (x, mean, cov)):
        return scipy.stats.multivariate_normal.logpdf(x, mean, cov, allow_singular)
    if allow_singular:
        raise NotImplementedError("a singular covariance")
    centred = x - mean
    solved = anp.linalg.solve(cov, centred.T).T
    size = np.shape(cov)[-1]
    distance = anp.sum(centred * solved, axis=-1)
    return -0.5 * (distance + anp.linalg.slogdet(cov)[1]) - size * HALF_LOG_2PI


def entropy(mean: Any, cov: Any) -> Any:
    size = np.shape(cov)[-1]
    return size * (0.5 + HALF_LOG_2PI) + 0.5 * anp.linalg.slogdet(cov)[1]


def pdf(x: Any, mean: Any, cov: Any, allow_singular: bool = False) -> Any:
    return anp.exp(logpdf(x, mean, cov, allow_singular))
