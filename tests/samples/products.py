"""Samples of products of matrices."""

from __future__ import annotations

import numpy as np

import wyrm as wy
from tests.samples.sample import Sample, normal
from wyrm.ops.products import einsum, product


def _matmul(*shapes: tuple[int, ...]) -> Sample:
    left, right = shapes
    wrong = normal(*right[:-2], right[-2] + 1, right[-1]) if len(right) > 1 else normal(right[0] + 1)
    return Sample(
        product.MatMul,
        product.MatMul,
        (normal(*left), normal(*right)),
        np.matmul,
        name=f"MatMul-{left}-{right}",
        empty=False,
        misfit=(normal(*left), wrong),
    )


def _einsum(subscripts: str, left: tuple[int, ...], right: tuple[int, ...]) -> Sample:
    return Sample(
        einsum.Einsum,
        lambda x, y: wy.einsum(subscripts, x, y),
        (normal(*left), normal(*right)),
        lambda x, y: np.einsum(subscripts, x, y),
        name=f"Einsum-{subscripts}",
        empty=False,
        misfit=(normal(*left), normal(*right[:-1], right[-1] + 1, 2)),
    )


def samples() -> list[Sample]:
    return [
        *(
            _matmul(a, b)
            for a, b in [
                ((3,), (3,)),
                ((3,), (3, 2)),
                ((2, 3), (3,)),
                ((2, 3), (3, 4)),
                ((5, 2, 3), (3, 4)),
                ((5, 2, 3), (3,)),
                ((3,), (5, 3, 4)),
                ((5, 2, 3), (5, 3, 4)),
                ((1, 2, 3), (5, 3, 4)),
                ((2, 3), (5, 3, 4)),
                ((2, 5, 2, 3), (2, 5, 3, 4)),
                ((2, 1, 2, 3), (5, 3, 4)),
            ]
        ),
        Sample(
            product.VectorDot,
            product.VectorDot,
            (normal(5, 3), normal(5, 3)),
            lambda x, y: (x * y).sum(-1),
            misfit=(normal(5, 3), normal(5, 2)),
        ),
        Sample(
            product.VectorDot,
            product.VectorDot,
            (normal(3), normal(5, 3)),
            lambda x, y: (x * y).sum(-1),
            name="VectorDot-broadcast",
            empty=False,
        ),
        _einsum("ij,jk->ik", (2, 3), (3, 4)),
        _einsum("bij,bkj->bik", (2, 3, 4), (2, 5, 4)),
        _einsum("ij,k->j", (2, 3), (4,)),
        _einsum("ij,jk", (2, 3), (3, 4)),
        _einsum("i,j->ij", (2,), (3,)),
    ]
