"""Indexing by slices, integers, masks and computed indices, tables of rows, and updates."""

from __future__ import annotations

import numpy as np

import wyrm as wy
from tests.fuzz.production import P
from tests.fuzz.productions.needs import (
    CUBE,
    INTEGERS,
    KEY,
    MATRIX,
    ROWED,
    VECTOR,
    X,
    choice,
    indices,
    like,
    shaped,
)

N = "numpy"

TABLE = [
    P("basic index", lambda x, key: x[key], N, x=ROWED, key=KEY),
    P("index of a leaf of integers", lambda i, key: i[key], N, i=INTEGERS, key=choice((), ..., (None,))),
    P("rows by an array", lambda x, i: x[i], N, x=shaped(lambda c: (4, 3)), i=choice(np.array([3, 0, 3]), np.array([[1, -1], [2, 0]]), np.zeros(0, np.int64))),
    P("rows by a list", lambda x, i: x[i], N, x=shaped(lambda c: (4, 3)), i=choice([0], [2, 2, -4])),
    P("rows", lambda x, i: x[i], N, x=ROWED, i=indices(lambda c: c.x.size(0))),
    P("columns", lambda x, i: x[:, i], N, x=MATRIX, i=indices(lambda c: c.x.size(1))),
    P("elements", lambda x, i, j: x[i, j], N, x=MATRIX, i=indices(lambda c: c.x.size(0), (1, 1)), j=shaped(lambda c: c.i.dims, "i", lambda c: c.x.size(1))),
    P("indices apart", lambda x, i, j: x[i, :, j], N, x=CUBE, i=indices(lambda c: c.x.size(0), (1, 1)), j=shaped(lambda c: c.i.dims, "i", lambda c: c.x.size(2))),
    P("index and slice", lambda x, i: x[1:, i], N, x=MATRIX, i=indices(lambda c: c.x.size(1), (1, 2))),
    P("index on the right", lambda x, i: x[..., i], N, x=CUBE, i=indices(lambda c: c.x.size(2), (0, 1))),
    P("outer index", lambda x, i, j: x[i[:, None], j], N, x=MATRIX, i=indices(lambda c: c.x.size(0), (1, 1)), j=indices(lambda c: c.x.size(1), (1, 1))),
    P("index from the end", lambda x, i: x[i - 3], N, x=shaped(lambda c: (3, 2)), i=indices(lambda c: 3)),
    P("mask of constants", lambda x: x[np.array([True, False, True])], N, x=shaped(lambda c: (3, 2))),
    P("mask of two axes", lambda x: x[np.array([[True, False], [False, True], [True, True]])], N, x=shaped(lambda c: (3, 2))),
    P("computed index", lambda x, y: x[np.argmax(y, axis=-1)], N, x=shaped(lambda c: (4, 2)), y=shaped(lambda c: (3, 4))),
    P("computed index of one", lambda x, y: x[np.argmax(y) % 3], N, x=shaped(lambda c: (3, 2)), y=X),
    P("computed index in bounds", lambda x, i: x[i % 4], N, x=shaped(lambda c: (4, 2)), i=INTEGERS),
    P("computed column", lambda x, i: x[:, (i * 2 + 1) % 3], x=shaped(lambda c: (2, 3)), i=INTEGERS),
    P("index by a bin", lambda x, y: x[wy.digitize(y, np.array([-1.0, 0.05, 1.0]))], x=shaped(lambda c: (4,)), y=X),
    P("take by axis", lambda x, i, a: np.take(x, i, axis=a), N, x=shaped(lambda c: (4, 4)), i=indices(lambda c: 4), a=choice(0, 1, -1)),
    P("take of all", lambda x, i: np.take(x, i), N, x=shaped(lambda c: (2, 3)), i=indices(lambda c: 6)),
    P("take by a sum", lambda x, i: np.take(x, i + 1, axis=0), N, x=shaped(lambda c: (4, 2)), i=indices(lambda c: 3)),
    P("greedy decoding", lambda x, y: np.take(x, np.argmax(y) % 2 + 1, axis=0) * np.take(x, [0, 1], axis=0), N, x=shaped(lambda c: (3, 2)), y=X),
    P("computed indices of one", lambda x, i: x[i[None] + 1], N, x=shaped(lambda c: (4, 2)), i=shaped(lambda c: (), "i", lambda c: 3)),
    P("take_along_axis", lambda x, i: np.take_along_axis(x, i, axis=1), N, x=MATRIX, i=shaped(lambda c: (c.x.dims[0], 2), "i", lambda c: c.x.size(1))),
    P("sorted by another", lambda x, y: np.take_along_axis(x, np.argsort(y, axis=-1), axis=-1), x=MATRIX, y=like()),
    P("table used twice", lambda x, i: x[i] * x[3 - i] + x.mean(), x=shaped(lambda c: (4, 3)), i=indices(lambda c: 4)),
    P("row by row", lambda x, i: x[i].vector_dot(x[i]), x=shaped(lambda c: (4, 3)), i=indices(lambda c: 4, (1, 1))),
    P("scatter_add", lambda x, i, y: x.scatter_add(i, y), x=shaped(lambda c: (4, 3)), i=indices(lambda c: 4, (1, 1)), y=shaped(lambda c: (*c.i.dims, 3))),
    P("at add", lambda x, i, y: x.at[i].add(y), x=shaped(lambda c: (4, 3)), i=indices(lambda c: 4, (1, 1)), y=shaped(lambda c: (*c.i.dims, 3))),
    P("at set", lambda x, y: x.at[np.array([2, 0])].set(y), x=shaped(lambda c: (4, 3)), y=shaped(lambda c: (2, 3))),
    P("at set of a slice", lambda x, y: x.at[1:3].set(y), x=shaped(lambda c: (4, 3)), y=shaped(lambda c: (2, 3))),
    P("cross_entropy", lambda x, i: x.cross_entropy(i), x=MATRIX, i=shaped(lambda c: c.x.dims[:1], "i", lambda c: c.x.size(1))),
    P("cross_entropy with smoothing", lambda x, i: wy.losses.cross_entropy(x, i, label_smoothing=0.2, reduction="sum"), x=MATRIX, i=shaped(lambda c: c.x.dims[:1], "i", lambda c: c.x.size(1))),
    P("embedding of rows", lambda i, x: wy.nn.Embedding(5, 2, seed=3, dtype=x.dtype)(i).sum(axis=-1) * x, i=indices(lambda c: 5, (1, 2)), x=shaped(lambda c: c.i.dims)),
    P("index by a number", lambda x, i: x * i.astype(x.dtype), N, x=VECTOR, i=shaped(lambda c: (), "i", lambda c: 5)),
]
