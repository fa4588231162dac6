"""Transforms and loops of any of these bodies, which hold loops, branches and transforms themselves."""

from __future__ import annotations

import numpy as np

import wyrm as wy
from tests.fuzz.production import Body, Operand, P
from tests.fuzz.productions.needs import choice, like, shaped

S = "slow"
# Functions of an array with at least one axis. Names end with "body", to differ from those of productions.
BODIES = [
    Body("sine body", lambda a: a.sin()),
    Body("square body", lambda a: a * a * 0.5),
    Body("tanh body", lambda a: a.tanh() + 0.5 * a),
    Body("product body", lambda a: a * a.mean()),
    Body("softmax body", lambda a: a.softmax() * a),
    Body("cumsum body", lambda a: wy.cumsum(a, axis=-1) * 0.5),
    Body("cumprod body", lambda a: wy.cumprod(a.tanh(), axis=0)),
    Body("sort body", lambda a: wy.sort(a, axis=-1) * 0.9),
    Body("reversed body", lambda a: a[::-1] - 0.3 * a),
    Body("roll body", lambda a: wy.roll(a, 1, axis=0) * a),
    Body("where body", lambda a: wy.where(a > 0.0123, a.sin(), 0.5 * a)),
    Body("mask body", lambda a: a * (a > 0.0123).mean()),
    Body("maximum body", lambda a: np.maximum(a, 0.7 - a)),
    Body("centered body", lambda a: a - a.max(axis=-1, keepdims=True) * 0.5),
    Body("normalized body", lambda a: a / (1.0 + (a * a).sum(axis=0, keepdims=True))),
    Body("halves body", lambda a: wy.concatenate([a[1:], a[:1]], axis=0)),
    Body("row body", lambda a: a * a[wy.argmax(a.reshape((-1,))) % a.shape[0]]),
    Body("order body", lambda a: wy.take_along_axis(a, wy.argsort(a, axis=-1), axis=-1) * a),
    Body("update body", lambda a: a.at[0].set(a[-1] * 0.5)),
    Body("add body", lambda a: a.at[np.array([0, 0])].add(a[:1] * 0.5)),
    Body("outer body", lambda a: wy.einsum("i...,j...->i...", a, a) * 0.3),
    Body("error body", lambda a: a.sin() + wy.special.erf(a)),
    Body("cond body", lambda a: wy.cond(a.sum() > 0.0123, lambda b: b.sin(), lambda b: b * 0.5, a)),
    Body("switch body", lambda a: wy.switch(wy.argmax(a.reshape((-1,))) % 2, [lambda b: b.cos(), lambda b: -b], a)),
    Body("scan body", lambda a: wy.scan(lambda c, e: (c * 0.5 + e, c.sin()), a[0] * 0.5, a)[1]),
    Body("reversed scan body", lambda a: wy.scan(lambda c, e: ((c * e).tanh(), c + e), a[0], a, reverse=True)[1]),
    Body("while body", lambda a: wy.while_loop(lambda c: c.square().sum() > 0.3, lambda c: c * 0.6, a, max_steps=25)),
    Body("counted body", lambda a: wy.while_loop(lambda c: c[1] < 2, lambda c: (c[0].sin(), c[1] + 1), (a, wy.IndexConstant(0)), max_steps=4)[0]),
    Body("vmap body", lambda a: wy.vmap(lambda row: row * row.sum() * 0.5)(a)),
    Body("grad body", lambda a: wy.function(lambda b: (b.sin() * b).sum()).grad()(a)),
    Body("vjp body", lambda a: wy.vjp(lambda b: b.tanh() * b, a)[1](a)[0]),
    Body("jvp body", lambda a: wy.jvp(lambda b: b.sin(), (a,), (a * 0.5,))[1]),
    Body("hvp body", lambda a: wy.hvp(lambda b: (b * b).sin().sum(), (a,), (a,))[0] * 0.3),
    Body("checkpoint body", lambda a: wy.checkpoint(lambda b: (b * b).tanh(), a)),
]
F = choice(*BODIES)
X = Operand(ranks=(1, 2))
MATRIX, CUBE = Operand(ranks=(2, 2)), Operand(ranks=(3, 3))
ROW = shaped(lambda c: c.x.dims[1:])

TABLE = [
    P("body", lambda x, f, g: g(f(x)), S, x=X, f=F, g=F),
    P("grad of a body", lambda x, f: wy.function(lambda a: (f(a) * a).sum()).grad()(x), S, x=X, f=F),
    P("grad of two bodies", lambda x, f, g: wy.function(lambda a: (f(a) * wy.function(lambda b: g(b).sum()).grad()(a)).sum()).grad()(x), S, x=X, f=F, g=F),
    P("vjp of a body", lambda x, y, f: wy.vjp(f, x)[1](y)[0], S, x=X, y=like(), f=F),
    P("jvp of a body", lambda x, y, f: wy.jvp(f, (x,), (y,))[1], S, x=X, y=like(), f=F),
    P("hvp of a body", lambda x, y, f: wy.hvp(lambda a: (f(a) * a).sum(), (x,), (y,))[0], S, x=X, y=like(), f=F),
    P("jacobian of a body", lambda x, f: wy.jacobian(f)(x), S, x=shaped(lambda c: (3,)), f=F),
    P("vmap of a body", lambda x, f: wy.vmap(f)(x), S, x=MATRIX, f=F),
    P("vmap of a body over columns", lambda x, f: wy.vmap(f, in_axes=1, out_axes=1)(x), S, x=MATRIX, f=F),
    P("vmap of vmap of a body", lambda x, f: wy.vmap(wy.vmap(f))(x), S, x=CUBE, f=F),
    P("vmap of grad of a body", lambda x, f: wy.vmap(wy.function(lambda row: (f(row) * row).sum()).grad())(x), S, x=MATRIX, f=F),
    P("scan of a body", lambda x, h, f, g: wy.scan(lambda c, row: (f(c * 0.5 + row).tanh(), g(c)), h, x)[1], S, x=MATRIX, h=ROW, f=F, g=F),
    P("scan of grad of a body", lambda x, h, f: wy.scan(lambda c, row: (wy.function(lambda a: (f(a) * row).sum()).grad()(c).tanh(), c), h, x)[1], S, x=MATRIX, h=ROW, f=F),
    P("grad of scan of a body", lambda x, h, f: wy.function(lambda a: wy.scan(lambda c, row: (f(c * row).tanh(), c), a, x)[1].sum()).grad()(h), S, x=MATRIX, h=ROW, f=F),
    P("vmap of scan of a body", lambda x, h, f: wy.vmap(lambda rows: wy.scan(lambda c, row: (f(c + row).tanh(), c), h, rows)[0])(x), S, x=CUBE, h=shaped(lambda c: c.x.dims[2:]), f=F),
    P("cond of bodies", lambda x, f, g: wy.cond(x.sum() > 0.0123, f, g, x), S, x=X, f=F, g=F),
    P("vmap of cond of bodies", lambda x, f, g: wy.vmap(lambda row: wy.cond(row.sum() > 0.0123, f, g, row))(x), S, x=MATRIX, f=F, g=F),
    P("while_loop of a body", lambda x, f: wy.while_loop(lambda c: c[1] < 3, lambda c: (f(c[0]).tanh(), c[1] + 1), (x, wy.IndexConstant(0)), max_steps=4)[0], S, x=X, f=F),
    P("checkpoint of bodies", lambda x, f, g: wy.checkpoint(lambda a: g(f(a)) * a, x), S, x=X, f=F, g=F),
]
