"""Functions composed of ops: values and gradients in float64, the same in all engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.engines.jax.parity import assert_parity
from tests.samples.linalg import positive_definite, regular
from tests.samples.sample import distinct, normal, positive


def leaf(array: Any) -> Any:
    return wy.Parameter(array, name="x")


def n(*shape: int) -> Any:
    return leaf(normal(*shape))


def d(*shape: int) -> Any:
    return leaf(distinct(*shape))


def p(*shape: int) -> Any:
    return leaf(positive(*shape))


def square(*shape: int) -> Any:
    return leaf(regular(*shape))


LINALG: dict[str, Callable[[], Any]] = {
    "cho_solve": lambda: wy.linalg.cho_solve((wy.linalg.cholesky(leaf(positive_definite(3, 3))), True), n(3)),
    "cond": lambda: wy.linalg.cond(square(3, 3)),
    "cross": lambda: wy.linalg.cross(n(2, 3), n(2, 3)),
    "det": lambda: wy.linalg.det(square(2, 3, 3)),
    "eigvalsh": lambda: wy.linalg.eigvalsh(leaf(positive_definite(3, 3))),
    "eigh": lambda: wy.linalg.eigh(leaf(positive_definite(2, 3, 3))).eigenvectors.square(),
    "expm": lambda: wy.linalg.expm(n(2, 3, 3)),
    "inv": lambda: wy.linalg.inv(square(3, 3)),
    "lstsq": lambda: wy.linalg.lstsq(square(4, 3), n(4))[0],
    "matrix_norm": lambda: wy.linalg.matrix_norm(square(3, 3), ord="nuc"),
    "matrix_power": lambda: wy.linalg.matrix_power(square(3, 3), -3),
    "multi_dot": lambda: wy.linalg.multi_dot([n(2, 3), n(3, 4), n(4, 2)]),
    "norm": lambda: wy.linalg.norm(n(3, 4), axis=-1),
    "pinv": lambda: wy.linalg.pinv(square(3, 5)),
    "qr": lambda: wy.linalg.qr(square(4, 3)).Q,
    "slogdet": lambda: wy.linalg.slogdet(square(2, 3, 3)).logabsdet,
    "solve": lambda: wy.linalg.solve(square(2, 3, 3), n(3, 2)),
    "solve_triangular": lambda: wy.linalg.solve_triangular(leaf(positive_definite(3, 3)), n(3)),
    "svdvals": lambda: wy.linalg.svdvals(square(2, 4, 3)),
    "tensordot": lambda: wy.linalg.tensordot(n(2, 3, 4), n(4, 3, 2), axes=([1, 2], [1, 0])),
    "trace": lambda: wy.linalg.trace(n(2, 3, 3)),
    "vector_norm": lambda: wy.linalg.vector_norm(n(3, 4), ord=3),
}


def of(name: str, *operands: Callable[[], Any]) -> Callable[[], Any]:
    """Return the function of `wyrm.special` applied to new leaves."""
    return lambda: getattr(wy.special, name)(*(operand() for operand in operands))


ONE = (
    "digamma", "entr", "erf", "erfc", "expit", "gamma", "gammaln", "i0", "i0e", "i1", "i1e", "j0", "j1", "y0", "y1",
    "log_expit", "log_ndtr", "ndtr", "rgamma",
)  # fmt: skip
SPECIAL: dict[str, Callable[[], Any]] = {
    **{name: of(name, lambda: p(4)) for name in ONE},
    **{name: of(name, lambda: p(4) / 2.5) for name in ("erfinv", "erfcinv", "logit", "ndtri")},
    **{
        name: of(name, lambda: p(3, 4), lambda: p(4))
        for name in ("beta", "betaln", "kl_div", "rel_entr", "xlogy", "xlog1py")
    },
    "beta, large": lambda: wy.special.betaln(leaf(np.array([10.0, 12.0, 300.0])), p(3)),
    "betainc": lambda: wy.special.betainc(1.5, 2.5, p(4) / 2.5),
    "gammainc": lambda: wy.special.gammainc(1.5, p(4)),
    "iv": lambda: wy.special.iv(2, p(4)),
    "jv": lambda: wy.special.jv(0.5, p(4)),
    "multigammaln": lambda: wy.special.multigammaln(p(4) + 1.0, 2),
    "polygamma": lambda: wy.special.polygamma(2, p(4)),
}
ARRAYS: dict[str, Callable[[], Any]] = {
    "average": lambda: wy.average(n(3, 4), axis=1, weights=p(3, 4)),
    "convolve": lambda: wy.convolve(n(7), n(3), mode="same"),
    "corrcoef": lambda: wy.corrcoef(n(3, 6)),
    "cov": lambda: wy.cov(n(3, 6)),
    "cumulative_prod": lambda: wy.cumprod(n(3, 4), axis=1),
    "diff": lambda: wy.diff(n(3, 5), n=2),
    "einsum": lambda: wy.einsum("ijk,kj,il->l", n(2, 3, 4), n(4, 3), n(2, 5)),
    "gather": lambda: n(4, 3)[[1, 0, 1], [0, -1, 2]],
    "gradient": lambda: wy.gradient(n(5)),
    "histogram": lambda: wy.bincount(np.array([0, 2, 2]), weights=n(3), minlength=4),
    "interp": lambda: wy.interp(d(4) / 4.0, np.linspace(-1.0, 1.0, 5), n(5)),
    "kron": lambda: wy.kron(n(2, 2), n(2, 3)),
    "median": lambda: wy.median(d(3, 4), axis=0),
    "nanmean": lambda: wy.nanmean(n(3, 4), axis=0),
    "pad": lambda: wy.pad(n(3, 4), 2, mode="reflect"),
    "percentile": lambda: wy.percentile(d(3, 5), [20.0, 50.0], axis=1),
    "ptp": lambda: wy.ptp(d(3, 4), axis=1),
    "roll": lambda: wy.roll(n(3, 4), 2, axis=1),
    "segment_softmax": lambda: wy.segment_softmax(n(5), np.array([0, 1, 1, 0, 2]), 3),
    "segment_mean": lambda: wy.segment_mean(n(5, 2), np.array([0, 1, 1, 0, 2]), 3),
    "segment_max": lambda: wy.segment_max(d(5, 2), np.array([0, 1, 1, 0, 2]), 3),
    "set": lambda: n(4, 3).at[[0, 2, 0], 1].set(n(3)),
    "sort": lambda: wy.sort(d(3, 4), axis=0),
    "tile": lambda: wy.tile(n(2, 3), (2, 1, 2)),
    "trapezoid": lambda: wy.trapezoid(n(3, 4)),
    "triu": lambda: wy.triu(n(3, 4), 1),
    "unit vectors": lambda: wy.one_hot(np.array([0, 2]), 3).astype(np.float64) * n(2, 3),
    "vander": lambda: wy.vander(n(3), 4),
    "vmap": lambda: wy.vmap(lambda x, y: (x * y).cumsum()[::-1])(n(3, 4), n(3, 4)),
}
FAMILIES = {"linalg": LINALG, "special": SPECIAL, "arrays": ARRAYS}


@pytest.mark.parametrize("family", FAMILIES)
def test_composites(family: str) -> None:
    assert_parity({name: build() for name, build in FAMILIES[family].items()}, 1e-8)
