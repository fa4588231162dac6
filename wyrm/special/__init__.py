"""Special functions with the names of `scipy.special`: of nodes, and of arrays and numbers as constants.

>>> wy.special.gammaln(wy.Constant([0.5, 1.0, 2.0])).forward().tolist()[1:]
[0.0, 0.0]

- Gamma and beta functions: `gammaln`, `digamma`, `polygamma`, `betaln`, and the incomplete `gammainc` and `betainc`.
- Error function and normal distribution: `erf`, `erfc`, `erfinv`, `ndtr`, `ndtri`, `log_ndtr`.
- Bessel functions: `i0e`, `i1e`, `j0`, `jv`, `iv`, `yv` and their kin; the order of the last three is a number.
- Logistic functions, softmax and entropies: `expit`, `logit`, `logsumexp`, `softmax`, `xlogy`, `entr`, `rel_entr`.
"""

from wyrm import _names
from wyrm.support.imports import lazy_imports

# Imported on first use; `python -m wyrm.declare` writes the same names for type checkers.
__getattr__, __dir__, __all__ = lazy_imports(
    __name__,
    {
        "wyrm.functions.methods": (
            "erf",
            "sigmoid=expit",
            *(name.removeprefix("special.") for name in _names.FUNCTIONS if name.startswith("special.")),
        ),
        "composite": (
            "betainc erfcinv gammasgn iv ive j0 j1 jn jv kl_div log_softmax logsumexp multigammaln polygamma rgamma "
            "softmax y0 y1 yn yv"
        ),
    },
)
