"""Linear algebra of matrices that are far from singular."""

from __future__ import annotations

import numpy as np

import wyrm as wy
from tests.fuzz.production import Operand, P
from tests.fuzz.productions.needs import choice, drawn, shaped


def _square(batch: tuple[int | str, ...]) -> Operand:
    return shaped(lambda c: (*batch, 3, 3))


A, BATCH, OPEN = _square(()), _square((2,)), _square(("rows",))
DIAGONAL = drawn(lambda random, c: np.diag([7.0, 8.5, 10.0]))

TABLE = [
    P("solve", lambda x, d, b: wy.linalg.solve(x + d, b), x=A, d=DIAGONAL, b=shaped(lambda c: (3, 2))),
    P("solve of a vector", lambda x, d, b: wy.linalg.solve(x + d, b), x=A, d=DIAGONAL, b=shaped(lambda c: (3,))),
    P("solve of a batch", lambda x, d, b: wy.linalg.solve(x + d, b), x=BATCH, d=DIAGONAL, b=shaped(lambda c: (2, 3, 1))),
    P("inv", lambda x, d: 10.0 * wy.linalg.inv(x + d), x=A, d=DIAGONAL),
    P("inv of open rows", lambda x, d: 10.0 * wy.linalg.inv(x + d), x=OPEN, d=DIAGONAL),
    P("det", lambda x, d: 0.01 * wy.linalg.det(x + d), x=A, d=DIAGONAL),
    P("det of a batch", lambda x, d: 0.01 * wy.linalg.det(x + d), x=BATCH, d=DIAGONAL),
    P("det of a singular matrix", lambda x: wy.linalg.det(x @ x.T), x=shaped(lambda c: (3, 2))),
    P("slogdet", lambda x, d: wy.linalg.slogdet(x + d).logabsdet, x=A, d=DIAGONAL),
    P("cholesky", lambda x, d: wy.linalg.cholesky(x @ x.T + d), x=A, d=DIAGONAL),
    P("cholesky of open rows", lambda x, d: wy.linalg.cholesky(x @ wy.matrix_transpose(x) + d), x=OPEN, d=DIAGONAL),
    P("solve_triangular", lambda x, d, b, lower: wy.linalg.solve_triangular(x + d, b, lower=lower), x=A, d=DIAGONAL, b=shaped(lambda c: (3, 2)), lower=choice(False, True)),
    P("eigh", lambda x, d: wy.linalg.eigvalsh(0.1 * (x + x.T) + d), x=A, d=DIAGONAL),
    P("eigh and back", lambda x, d: (wy.linalg.eigh(x + x.T + 4.0 * d)[1] * (0.1 * wy.linalg.eigh(x + x.T + 4.0 * d)[0]).tanh()) @ wy.linalg.eigh(x + x.T + 4.0 * d)[1].T, x=A, d=DIAGONAL),
    P("qr and back", lambda x, d: abs(wy.linalg.qr(x + d)[0]) @ abs(wy.linalg.qr(x + d)[1]), x=A, d=DIAGONAL),
    P("svdvals", lambda x, d: wy.linalg.svdvals(0.2 * x + d), x=A, d=DIAGONAL),
    P("svd and back", lambda x, d: (wy.linalg.svd(0.3 * x + d)[0] * (0.1 * wy.linalg.svd(0.3 * x + d)[1]).tanh()) @ wy.linalg.svd(0.3 * x + d)[2], x=A, d=DIAGONAL),
    P("pinv", lambda x, d: 5.0 * wy.linalg.pinv((x + d)[:, :2]), x=A, d=DIAGONAL),
    P("lstsq", lambda x, d, b: wy.linalg.lstsq((x + d)[:, :2], b)[0], x=A, d=DIAGONAL, b=shaped(lambda c: (3,))),
    P("matrix_power", lambda x, n: wy.linalg.matrix_power(0.4 * x, n), x=A, n=choice(0, 1, 2, 3)),
    P("expm", lambda x: wy.linalg.expm(0.3 * x), x=A),
    P("multi_dot", lambda x, b: wy.linalg.multi_dot([0.5 * x, x, b]), x=A, b=shaped(lambda c: (3, 2))),
    P("matrix norms", lambda x, d, p: wy.linalg.matrix_norm(x + d, ord=p), x=A, d=DIAGONAL, p=choice("fro", "nuc", 2, 1, np.inf)),
    P("cho_solve", lambda x, d, b: wy.linalg.cho_solve((wy.linalg.cholesky(x @ x.T + d), True), b), x=A, d=DIAGONAL, b=shaped(lambda c: (3, 2))),
]
