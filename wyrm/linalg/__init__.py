"""Linear algebra as in `numpy.linalg`, with the triangular solves and the exponential of `scipy.linalg`.

The functions work on the last two axes and have gradients of any order. NumPy's functions on nodes, such as
`np.linalg.solve(a, b)`, call them.

>>> a = wy.Parameter([[2.0, 0.0], [0.0, 4.0]])
>>> wy.linalg.solve(a, np.array([2.0, 8.0])).forward().tolist()
[1.0, 2.0]
>>> np.linalg.inv(a).forward().tolist()
[[0.5, 0.0], [0.0, 0.25]]
"""

from wyrm.errors import LinAlgError
from wyrm.functions.products import cross, matmul, outer, tensordot, vecdot
from wyrm.linalg.factorizations import (
    EighResult,
    QRResult,
    SVDResult,
    cholesky,
    eigh,
    eigvalsh,
    expm,
    qr,
    svd,
    svdvals,
)
from wyrm.linalg.norms import cond, matrix_norm, norm, vector_norm
from wyrm.linalg.products import diagonal, matrix_power, matrix_transpose, multi_dot, trace
from wyrm.linalg.systems import (
    LstsqResult,
    SlogdetResult,
    cho_solve,
    det,
    inv,
    lstsq,
    pinv,
    slogdet,
    solve,
    solve_triangular,
)

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
