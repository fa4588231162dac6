"""Kernels for JAX: the loop program of a kernel, which becomes machine code elsewhere, becomes calls of JAX here.

>>> import numpy as np
>>> from wyrm.engines.jax.kernels.forms import jax_form
>>> from wyrm.ops.pooling.pooling import clear
>>> (cleared,) = jax_form(clear)(np.ones(3, np.float32))
>>> cleared.tolist()
[0.0, 0.0, 0.0]

What becomes of a kernel
    Arrays are values: a write gives a new array, and the form returns the last one. Sizes are known when JAX traces the
    form. A number that is given as a number is known too; branches and loops that depend on known numbers alone are
    decided while the form is traced.
    A branch runs both ways; a write in it is kept where its condition holds. Behind a `break`, `continue` or `return`
    the rest of the statements is such a branch.
    The turns of a loop are computed at once, as one operation of JAX each, if there are as many for all data, and if
    each turn has an index of its own along an axis of all arrays that the loop writes to, as `out[i, j]` has for `i`.
    Sums by `accumulated` of `wyrm.ops.kernels.sums` are then one reduction. Other loops are `fori_loop` and
    `while_loop`.
    Integers and floats have the types that they have in Python, also those of 64 bits where JAX has none enabled. The
    results then have 32 bits, as all arrays of JAX.
    Programs of JAX raise no errors: a kernel that meets a `raise` gives NaN, or the largest integer, for all that it
    returns and writes.
What has no form
    Functions of LAPACK and of numba, products by tiles, and memory that threads share.
Indices out of range
    are read from inside of the array, and not written. A kernel must have none.
"""
