"""Calls of LAPACK in kernels."""

from __future__ import annotations

from wyrm.ops.kernels.scratch import NO_SOLUTION


def lapack(name: str, *arguments: object) -> None:
    """Call a function of BLAS or LAPACK, such as "potrf", for the float type of its arrays.

    Integers are passed with 32 bits, floats in the arrays' type, and texts as their only letter; an `np.uint8` is a
    letter too. LAPACK reads the memory of a row-major matrix as the transposed matrix. The caller answers for sizes
    that fit the arrays.
    """
    raise NotImplementedError("only compiled code calls LAPACK")


def refuse() -> None:
    """End the program; Python then finds the operation, and raises its `LinAlgError`."""
    raise IndexError(NO_SOLUTION)
