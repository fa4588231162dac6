"""Linear algebra as in `numpy.linalg`, with the triangular solves and the exponential of `scipy.linalg`.

>>> a = wy.Parameter([[2.0, 0.0], [0.0, 4.0]])
>>> wy.linalg.solve(a, np.array([2.0, 8.0])).forward().tolist()
[1.0, 2.0]
>>> np.linalg.inv(a).forward().tolist()
[[0.5, 0.0], [0.0, 0.25]]

The functions work on the last two axes and have gradients of any order. NumPy's functions on nodes, such as
`np.linalg.solve(a, b)`, call them. LAPACK computes in both engines; a singular matrix raises `LinAlgError`.

- Factorizations: `cholesky`, `qr`, `svd` and `eigh` (of symmetric matrices), `expm`.
- Systems: `solve`, `solve_triangular`, `cho_solve`, `lstsq`, `inv`, `pinv`, `det`, `slogdet`.
- Products and norms: `matrix_power`, `multi_dot`, `trace`, `diagonal`, `norm` with every order of NumPy, `cond`.
"""

from typing import TYPE_CHECKING

from wyrm.errors import LinAlgError
from wyrm.functions.matrices import matmul, outer, tensordot, vecdot
from wyrm.linalg.factorizations import (
    cholesky,
    eigh,
    eigvalsh,
    expm,
    qr,
    svd,
    svdvals,
)
from wyrm.linalg.products import (
    cond,
    cross,
    diagonal,
    matrix_norm,
    matrix_power,
    matrix_transpose,
    multi_dot,
    norm,
    trace,
    vector_norm,
)
from wyrm.linalg.results import EighResult, LstsqResult, QRResult, SlogdetResult, SVDResult
from wyrm.linalg.systems import (
    cho_solve,
    det,
    inv,
    lstsq,
    pinv,
    slogdet,
    solve,
    solve_triangular,
)
from wyrm.support import late_imports as _lazy_imports

if not TYPE_CHECKING:  # to a type checker, a module with `__getattr__` has every name
    __getattr__, __dir__ = _lazy_imports.lazy_imports(__name__, {})

__all__ = [
    "EighResult",
    "LinAlgError",
    "LstsqResult",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cho_solve",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "expm",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
