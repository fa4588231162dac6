"""Special functions with the names of `scipy.special`: of nodes, and of arrays and numbers as constants.

>>> wy.special.gammaln(wy.Constant([0.5, 1.0, 2.0])).forward().tolist()[1:]
[0.0, 0.0]
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

__all__ = [
    "beta",
    "betaln",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfinv",
    "expit",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
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
    "softmax",
    "xlog1py",
    "xlogy",
]
