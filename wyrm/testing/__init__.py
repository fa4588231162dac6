"""Checks of ops, wyrm's and your own: gradients against finite differences, and what each engine computes.

>>> x = wy.Parameter(np.array([0.5, -1.0]))
>>> wy.testing.check_grads((x * x.tanh()).sum())  # raises `GradientError` if a gradient is wrong
"""

from wyrm.testing.engines import EngineError
from wyrm.testing.gradients import GradientError, check_grads

__all__ = ["EngineError", "GradientError", "check_grads"]
