"""`scipy.stats`, of which wyrm has nothing: densities and distribution functions composed of its functions."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.stats

from wyrm.graph.base import BaseNode

from ... import numpy as anp
from .. import special

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def _standard(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    return (x - loc) / scale


def _norm_logpdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    return -0.5 * _standard(x, loc, scale) ** 2 - _HALF_LOG_2PI - anp.log(scale)


norm = SimpleNamespace(
    logpdf=_norm_logpdf,
    pdf=lambda x, loc=0.0, scale=1.0: anp.exp(_norm_logpdf(x, loc, scale)),
    cdf=lambda x, loc=0.0, scale=1.0: special.ndtr(_standard(x, loc, scale)),
    sf=lambda x, loc=0.0, scale=1.0: special.ndtr(-_standard(x, loc, scale)),
    logcdf=lambda x, loc=0.0, scale=1.0: special.log_ndtr(_standard(x, loc, scale)),
    logsf=lambda x, loc=0.0, scale=1.0: special.log_ndtr(-_standard(x, loc, scale)),
)


def _chi2_logpdf(x: Any, df: Any) -> Any:
    return special.xlogy(df / 2.0 - 1.0, x) - x / 2.0 - special.gammaln(df / 2.0) - math.log(2.0) * df / 2.0


chi2 = SimpleNamespace(
    logpdf=_chi2_logpdf,
    pdf=lambda x, df: anp.exp(_chi2_logpdf(x, df)),
    cdf=lambda x, df: special.gammainc(df / 2.0, x / 2.0),
)


def _beta_logpdf(x: Any, a: Any, b: Any) -> Any:
    return special.xlogy(a - 1.0, x) + special.xlog1py(b - 1.0, -x) - special.betaln(a, b)


beta = SimpleNamespace(
    logpdf=_beta_logpdf,
    pdf=lambda x, a, b: anp.exp(_beta_logpdf(x, a, b)),
    cdf=lambda x, a, b: special.betainc(a, b, x),
)


def _gamma_logpdf(x: Any, a: Any) -> Any:
    return special.xlogy(a - 1.0, x) - x - special.gammaln(a)


gamma = SimpleNamespace(
    logpdf=_gamma_logpdf,
    pdf=lambda x, a: anp.exp(_gamma_logpdf(x, a)),
    cdf=lambda x, a: special.gammainc(a, x),
)


def _poisson_logpmf(k: Any, mu: Any) -> Any:
    return special.xlogy(k, mu) - mu - special.gammaln(k + 1.0)


poisson = SimpleNamespace(
    logpmf=_poisson_logpmf,
    pmf=lambda k, mu: anp.exp(_poisson_logpmf(k, mu)),
    cdf=lambda k, mu: special.gammaincc(np.floor(k) + 1.0, mu),
)


def _t_logpdf(x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    power = -0.5 * (df + 1.0) * anp.log1p(_standard(x, loc, scale) ** 2 / df)
    return power - 0.5 * anp.log(df) - special.betaln(0.5, 0.5 * df) - anp.log(scale)


def _t_cdf(x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    z = _standard(x, loc, scale)
    tail = 0.5 * special.betainc(0.5 * df, 0.5, df / (df + z**2))
    return anp.where(z > 0.0, 1.0 - tail, tail)


t = SimpleNamespace(
    logpdf=_t_logpdf,
    pdf=lambda x, df, loc=0.0, scale=1.0: anp.exp(_t_logpdf(x, df, loc, scale)),
    cdf=_t_cdf,
    logcdf=lambda x, df, loc=0.0, scale=1.0: anp.log(_t_cdf(x, df, loc, scale)),
)


def _dirichlet_logpdf(x: Any, alpha: Any) -> Any:
    normalizer = special.gammaln(anp.sum(alpha)) - anp.sum(special.gammaln(alpha))
    return normalizer + anp.sum(special.xlogy(alpha - 1.0, x))


dirichlet = SimpleNamespace(
    logpdf=_dirichlet_logpdf,
    pdf=lambda x, alpha: anp.exp(_dirichlet_logpdf(x, alpha)),
    rvs=scipy.stats.dirichlet.rvs,
)


from . import multivariate_normal as multivariate_normal  # noqa: E402  # it needs nothing above
