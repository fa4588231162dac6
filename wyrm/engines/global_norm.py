"""The global norm of gradients, and the factor that limits it: graphs from which every engine computes."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from wyrm.engines.optimizer import Elements
from wyrm.graph.leaves import Input
from wyrm.graph.node import Node
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.subgraph import Subgraph


class GlobalNorm:
    """The Euclidean norm of all elements of all gradients, in numbers of a dtype, as two graphs.

    `squares` is the sum of the squares of one gradient, whose elements are numbers of the dtype. `limited` gives the
    norm and the factor of the gradients that limits it, from the `total` of these sums and the `limit`: the factor is 1
    within the limit, and a NaN where the total is not finite. Squares `in_units` are those of the elements divided by a
    power of two, the total of which is finite where the norm is.
    """

    def __init__(self, dtype: np.dtype, in_units: bool) -> None:
        # Between the root of the largest number, above which squares overflow, and the largest number.
        unit = math.ldexp(1.0, np.finfo(dtype).maxexp * 3 // 4)
        gradient = Input(name="gradient", dims=(Elements(),), dtype=dtype)
        total, limit = (Input(name=name, dtype=dtype) for name in ("total", "limit"))
        element: Node = gradient * (1.0 / unit) if in_units else gradient
        root, largest = total.sqrt(), limit * (1.0 / unit) if in_units else limit
        factor = where(root < math.inf, (largest / root).minimum(1.0), math.nan)
        self.squares: Subgraph = Subgraph([gradient], [element.square().sum()])
        self.limited: Subgraph = Subgraph([total, limit], [root * unit if in_units else root, factor])


@cache
def global_norm(dtype: np.dtype, in_units: bool = False) -> GlobalNorm:
    """Return the graphs of the norm in numbers of a dtype."""
    return GlobalNorm(dtype, in_units)
