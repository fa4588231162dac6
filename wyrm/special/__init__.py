"""Special functions with the names of `scipy.special`: of nodes, and of arrays and numbers as constants.

>>> wy.special.gammaln(wy.Constant([0.5, 1.0, 2.0])).forward().tolist()[1:]
[0.0, 0.0]

- Gamma and beta functions: `gammaln`, `digamma`, `polygamma`, `betaln`, and the incomplete `gammainc` and `betainc`.
- Error function and normal distribution: `erf`, `erfc`, `erfinv`, `ndtr`, `ndtri`, `log_ndtr`.
- Bessel functions: `i0e`, `i1e`, `j0`, `jv`, `iv`, `yv` and their kin; the order of the last three is a number.
- Logistic functions, softmax and entropies: `expit`, `logit`, `logsumexp`, `softmax`, `xlogy`, `entr`, `rel_entr`.
"""

from wyrm.functions.methods import erf
from wyrm.functions.methods import sigmoid as expit
from wyrm.special.composite import kl_div, log_softmax, logsumexp, multigammaln, polygamma, softmax
from wyrm.special.elementwise import (
    beta,
    betaln,
    digamma,
    entr,
    erfc,
    erfinv,
    gamma,
    gammainc,
    gammaincc,
    gammaln,
    i0,
    i0e,
    i1,
    i1e,
    log_expit,
    log_ndtr,
    logit,
    ndtr,
    ndtri,
    psi,
    rel_entr,
    xlog1py,
    xlogy,
)
from wyrm.special.of_order import betainc, erfcinv, gammasgn, iv, ive, j0, j1, jn, jv, rgamma, y0, y1, yn, yv

__all__ = [
    "beta",
    "betainc",
    "betaln",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcinv",
    "erfinv",
    "expit",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaln",
    "gammasgn",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "iv",
    "ive",
    "j0",
    "j1",
    "jn",
    "jv",
    "kl_div",
    "log_expit",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "rel_entr",
    "rgamma",
    "softmax",
    "xlog1py",
    "xlogy",
    "y0",
    "y1",
    "yn",
    "yv",
]
