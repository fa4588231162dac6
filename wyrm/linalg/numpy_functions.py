"""The functions of `numpy.linalg` on nodes; their parameters have NumPy's names and defaults."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from wyrm.linalg import factorizations, norms, products, systems
from wyrm.node.node import Node

FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.linalg.cholesky: factorizations.cholesky,
    np.linalg.eigh: factorizations.eigh,
    np.linalg.eigvalsh: factorizations.eigvalsh,
    np.linalg.qr: factorizations.qr,
    np.linalg.svd: factorizations.svd,
    np.linalg.svdvals: factorizations.svdvals,
    np.linalg.det: systems.det,
    np.linalg.inv: systems.inv,
    np.linalg.lstsq: systems.lstsq,
    np.linalg.pinv: systems.pinv,
    np.linalg.slogdet: systems.slogdet,
    np.linalg.solve: systems.solve,
    np.linalg.cond: norms.cond,
    np.linalg.matrix_norm: norms.matrix_norm,
    np.linalg.norm: norms.norm,
    np.linalg.vector_norm: norms.vector_norm,
    np.linalg.matrix_power: products.matrix_power,
    np.linalg.multi_dot: products.multi_dot,
    np.linalg.matmul: lambda x1, x2: operator.matmul(x1, x2),
    np.linalg.matrix_transpose: lambda x: x.mT,
    np.linalg.vecdot: lambda x1, x2: x1.vector_dot(x2) if isinstance(x1, Node) else x2.vector_dot(x1),
}
