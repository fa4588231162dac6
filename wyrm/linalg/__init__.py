"""Linear algebra as in `numpy.linalg`, with the triangular solves and the exponential of `scipy.linalg`.

>>> a = wy.Parameter([[2.0, 0.0], [0.0, 4.0]])
>>> wy.linalg.solve(a, np.array([2.0, 8.0])).forward().tolist()
[1.0, 2.0]
>>> np.linalg.inv(a).forward().tolist()
[[0.5, 0.0], [0.0, 0.25]]

The functions work on the last two axes and have gradients of any order. NumPy's functions on nodes, such as
`np.linalg.solve(a, b)`, call them. LAPACK computes in both engines; a singular matrix raises `LinAlgError`.

- Factorizations: `cholesky`, `qr`, `svd`, `eigh` (of symmetric matrices), `eig` (of others, if their eigenvalues are
  real), `expm`.
- Systems: `solve`, `solve_triangular`, `cho_solve`, `lstsq`, `inv`, `pinv`, `det`, `slogdet`.
- Products and norms: `matrix_power`, `multi_dot`, `trace`, `diagonal`, `norm` with every order of NumPy, `cond`.
"""

from wyrm.support.imports import lazy_imports

# Imported on first use; `python -m wyrm.declare` writes the same names for type checkers.
__getattr__, __dir__, __all__ = lazy_imports(
    __name__,
    {
        "wyrm.errors": "LinAlgError",
        "wyrm.functions.matrices": "matmul outer tensordot vecdot",
        "factorizations": "cholesky eig eigh eigvals eigvalsh expm qr svd svdvals",
        "products": ("cond cross diagonal matrix_norm matrix_power matrix_transpose multi_dot norm trace vector_norm"),
        "results": "EigResult EighResult LstsqResult QRResult SlogdetResult SVDResult",
        "systems": "cho_solve det inv lstsq pinv slogdet solve solve_triangular",
    },
)
