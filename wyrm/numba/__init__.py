"""Compiled functions and programs inside of code that numba compiles.

`callable` returns a function that `@numba.njit` code calls with arrays, for example a gradient in a loop of a sampler:

>>> import numba
>>> square = wy.function(lambda x: (x * x).sum())
>>> energy = wy.numba.callable(square.value_and_grad(), np.zeros(2))
>>> @numba.njit
... def descend(energy, x, steps):
...     for _ in range(steps):
...         value, gradient = energy(x)
...         x = x - 0.1 * gradient
...     return value
>>> descend(energy, np.array([3.0, 4.0]), 50) < 1e-7
True

The other way round, a function that numba compiles may be the `kernel` of a `wyrm.LoopForm`, and kernels may call it.
Both need the package of `pip install "wyrm-autodiff[numba]"`.
"""

from __future__ import annotations

from wyrm.numba.compiled import NumbaFunction
from wyrm.numba.functions import callable

__all__ = ["NumbaFunction", "callable"]
