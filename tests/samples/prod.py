"""Samples of the product along axes and of its derivative, with and without zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.samples.sample import Sample, normal, reducing
from wyrm.ops.products.prod import Prod, ProductOfOthers


def _with_zeros() -> Any:
    """Return rows with no zero, one zero, two zeros, and zeros only."""
    x = normal(4, 3)
    x[1, 1] = x[2, 0] = x[2, 2] = 0.0
    x[3] = 0.0
    return x


def _others(x: Any, axis: int) -> Any:
    parts = [np.prod(np.delete(x, place, axis), axis=axis) for place in range(x.shape[axis])]
    return np.stack(parts, axis)


def samples() -> list[Sample]:
    """Samples of both ops."""
    zeros = _with_zeros()
    return [
        *reducing(Prod, np.prod, empty=True),
        *(
            Sample(
                Prod,
                lambda x, a=axis: x.prod(a),
                (zeros,),
                lambda x, a=axis: np.prod(x, axis=a),
                name=f"Prod-zeros-{axis}",
            )
            for axis in (None, -1, 0)
        ),
        *(
            Sample(
                ProductOfOthers,
                lambda x, a=axis: ProductOfOthers(x, a),
                (zeros,),
                lambda x, a=axis: _others(x, a),
                name=f"ProductOfOthers-{axis}",
                empty=axis == 1,
            )
            for axis in (0, 1)
        ),
    ]
