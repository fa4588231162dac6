"""Transforms of functions, with loops inside and around them."""

from __future__ import annotations

import wyrm as wy
from tests.fuzz.production import P
from tests.fuzz.productions.needs import MATRIX, SCALAR, VECTOR, X, like, shaped

S = "slow"
ROW = shaped(lambda c: c.x.dims[1:])

TABLE = [
    P("grad", lambda x: wy.function(lambda a: (a.sin() * a).sum()).grad()(x), x=X),
    P("grad of a closure", lambda x, y: wy.function(lambda a: (a * y).tanh().sum()).grad()(x), x=X, y=like()),
    P("grad of grad", lambda x, y: wy.function(lambda a: (wy.function(lambda b: (b * b * y).sin().sum()).grad()(a) * y).sum()).grad()(x), x=X, y=like()),
    P("grad by an inner node", lambda x: wy.grad((x.tanh() * x).sum(), x), x=X),
    P("vjp", lambda x, y: wy.vjp(lambda a: (a * a).sin(), x)[1](y)[0], x=X, y=like()),
    P("jvp", lambda x, y: wy.jvp(lambda a: (a * a).sin() * y, (x,), (y,))[1], x=X, y=like()),
    P("hvp", lambda x, y: wy.hvp(lambda a: (a * a * a).tanh().sum(), (x,), (y,))[0], x=X, y=like()),
    P("jacobian", lambda x: wy.jacobian(lambda a: a.sin() * a.sum())(x), x=VECTOR),
    P("hessian", lambda x: wy.hessian(lambda a: (a * a).sum() ** 2 * 0.1)(x), x=shaped(lambda c: (3,))),
    P("vmap", lambda x, y: wy.vmap(lambda row: (row * y).tanh().sum() * row)(x), x=MATRIX, y=ROW),
    P("vmap over columns", lambda x: wy.vmap(lambda column: wy.cumsum(column), in_axes=1, out_axes=1)(x), x=MATRIX),
    P("vmap over two", lambda x, y: wy.vmap(lambda a, b: a.softmax() * b, in_axes=(0, 0))(x, y), x=shaped(lambda c: (3, 4)), y=like()),
    P("vmap of vmap", lambda x: wy.vmap(wy.vmap(lambda a: a.sin() * 2.0))(x), x=MATRIX),
    P("vmap of a grad", lambda x, y: wy.vmap(wy.function(lambda row, s: (row * row * s).sum()).grad(), in_axes=(0, None))(x, y), x=MATRIX, y=ROW),
    P("vmap of a solve", lambda x, b: wy.vmap(lambda a: wy.linalg.solve(a + 9.0 * wy.eye(3, dtype=a.dtype), b))(x), S, x=shaped(lambda c: (2, 3, 3)), b=shaped(lambda c: (3,))),
    P("vmap of rows by index", lambda x, i: wy.vmap(lambda row, k: row[k] * 2.0)(x, i), x=shaped(lambda c: (3, 4)), i=shaped(lambda c: (3,), "i", lambda c: 4)),
    P("vmap of a scan", lambda x, h: wy.vmap(lambda row: wy.scan(lambda c, e: ((c + e).sin(), c * e), h, row)[1])(x), S, x=MATRIX, h=SCALAR),
    P("scan of a vmap", lambda x, h: wy.scan(lambda c, row: (wy.vmap(lambda a, b: (a * b).sin())(c, row), c), h, x)[1], S, x=shaped(lambda c: (3, 2)), h=ROW),
    P("vmap of a cond", lambda x: wy.vmap(lambda row: wy.cond(row.sum() > 0.0123, lambda a: a.sin(), lambda a: a * 2.0, row))(x), S, x=MATRIX),
    P("vmap of a while_loop", lambda x: wy.vmap(lambda row: wy.while_loop(lambda c: c.square().sum() > 0.3, lambda c: c * 0.7, row, max_steps=30))(x), S, x=shaped(lambda c: (3, 2))),
    P("grad of a scan", lambda x, h: wy.function(lambda a: wy.scan(lambda c, row: ((c * row).sin(), c), a, x)[0].sum()).grad()(h), S, x=MATRIX, h=ROW),
    P("scan of a grad", lambda x, h: wy.scan(lambda c, row: (wy.function(lambda a: (a * row).sin().sum()).grad()(c), c), h, x)[0], S, x=MATRIX, h=ROW),
    P("hvp of a scan", lambda x, h: wy.hvp(lambda a: wy.scan(lambda c, row: ((c * row).sin(), None), a, x)[0].square().sum(), (h,), (h,))[0], S, x=shaped(lambda c: (3, 2)), h=ROW),
    P("grad of a cond", lambda x: wy.function(lambda a: wy.cond(x.sum() > 0.0123, lambda b: b.sin().sum(), lambda b: (b * b).sum(), a)).grad()(x), S, x=X),
    P("jacobian of a while_loop", lambda x: wy.jacobian(lambda a: wy.while_loop(lambda c: c.square().sum() > 0.5, lambda c: c * 0.6, a, max_steps=20), wrt=0)(x), S, x=shaped(lambda c: (2,))),
    P("checkpoint", lambda x, y: wy.checkpoint(lambda a: (a * y).tanh() * a, x), x=X, y=like()),
    P("checkpoint in a scan", lambda x, h: wy.scan(lambda c, row: (wy.checkpoint(lambda a: (a * row).sin() + a, c), None), h, x)[0], S, x=MATRIX, h=ROW),
    P("checkpoint of a scan", lambda x, h: wy.checkpoint(lambda a: wy.scan(lambda c, row: ((c * row).sin(), None), a, x)[0], h), S, x=MATRIX, h=ROW),
    P("linearize", lambda x, y: wy.linearize(lambda a: a.sin() * a, x)[1](y), x=X, y=like()),
]
