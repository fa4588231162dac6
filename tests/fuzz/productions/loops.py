"""Loops and branches inside the graph."""

from __future__ import annotations

import numpy as np

import wyrm as wy
from tests.fuzz.production import P
from tests.fuzz.productions.needs import KEEP, MATRIX, SCALAR, VECTOR, X, choice, indices, like, shaped

S = "slow"
ROW = shaped(lambda c: c.x.dims[1:])


def regular(c: wy.Node, row: wy.Node) -> wy.Node:
    """Return a matrix that has an inverse."""
    return np.eye(2) * 3.0 + 0.1 * c[:, None] * row


TABLE = [
    P("scan", lambda x, h, r: wy.scan(lambda c, row: ((c * 0.5 + row).sin(), c * row), h, x, reverse=r)[1], S, x=MATRIX, h=ROW, r=KEEP),
    P("scan for its carry", lambda x, h: wy.scan(lambda c, row: ((c * row).tanh() + 0.5, None), h, x)[0], S, x=MATRIX, h=ROW),
    P("scan of a network", lambda x, h, w: wy.scan(lambda c, row: ((c @ w + row).tanh(), c.sum()), h, x)[1], S, x=shaped(lambda c: (3, 2)), h=ROW, w=shaped(lambda c: (2, 2))),
    P("scan by length", lambda x, n: wy.scan(lambda c, _: (c * 0.5 + x, c), x, length=n)[1], S, x=X, n=choice(0, 1, 3)),
    P("scan of two carries", lambda x, y: wy.scan(lambda c, row: ((c[1] * 0.5, c[0] + row), c[0].sum()), (y, y), x)[0][1], S, x=MATRIX, y=ROW),
    P("scan with a closed-over table", lambda x, i: wy.scan(lambda c, row: ((c + x[row]).sin(), None), x[0], i)[0], S, x=shaped(lambda c: (4, 2)), i=indices(lambda c: 4, (1, 1))),
    P("scan with a count", lambda x, h: wy.scan(lambda c, row: ((c[0] * row.cos(), c[1] + 1), c[1]), (h, wy.IndexConstant(0)), x)[0][0], S, x=MATRIX, h=ROW),
    P("scan that indexes by its count", lambda x: wy.scan(lambda c, _: (c + 1, x[c % 3] * 2.0), wy.IndexConstant(1), length=4)[1], S, x=shaped(lambda c: (3, 2))),
    P("scan in a scan", lambda x, h: wy.scan(lambda c, row: (wy.scan(lambda d, e: ((d * e + c).sin(), d), c, row)[0], c * 2.0), h, x)[0], S, x=MATRIX, h=SCALAR),
    P("while_loop", lambda x: wy.while_loop(lambda c: c.square().sum() > 0.5, lambda c: c * 0.6, x, max_steps=30), S, x=X),
    P("while_loop with a count", lambda x: wy.while_loop(lambda c: c[1] < 3, lambda c: ((c[0] + x).sin(), c[1] + 1), (x, wy.IndexConstant(0)), max_steps=5)[0], S, x=X),
    P("cond", lambda x, y: wy.cond(x.sum() > 0.0123, lambda a, b: a.sin() * b, lambda a, b: a - b * 2.0, x, y), S, x=X, y=like()),
    P("cond of a mask", lambda x, m: wy.cond(wy.any(m), lambda a: a * 2.0, lambda a: a.tanh(), x), S, x=X, m=like("x", "b")),
    P("switch", lambda x, i: wy.switch(i, [lambda a: a.sin(), lambda a: a * a, lambda a: -a], x), S, x=X, i=shaped(lambda c: (), "i", lambda c: 5)),
    P("switch by a computed index", lambda x: wy.switch(wy.argmax(x), [lambda a: a.sin(), lambda a: a * a], x), S, x=VECTOR),
    P("cond in a scan", lambda x, h: wy.scan(lambda c, row: (wy.cond(row.sum() > 0.0123, lambda a: a.sin(), lambda a: a * 0.5 + row, c), c), h, x)[1], S, x=MATRIX, h=ROW),
    P("scan in a cond", lambda x, h: wy.cond(x.sum() > 0.0123, lambda a: wy.scan(lambda c, row: (c * row.cos(), None), a, x)[0], lambda a: a * 2.0, h), S, x=MATRIX, h=ROW),
    P("solve in a scan", lambda x, h: wy.scan(lambda c, row: (wy.linalg.solve(regular(c, row), row), c), h, x)[0], S, x=shaped(lambda c: (3, 2)), h=ROW),
    P("sort in a scan", lambda x, h: wy.scan(lambda c, row: (wy.sort(c + row), wy.cumsum(c)), h, x)[1], S, x=shaped(lambda c: (3, 4)), h=ROW),
]
