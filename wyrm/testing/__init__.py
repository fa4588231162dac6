"""Checks of ops, wyrm's and your own: gradients against finite differences, and what each engine computes.

>>> x = wy.Parameter(np.array([0.5, -1.0]))
>>> wy.testing.check_grads((x * x.tanh()).sum())  # raises `GradientError` if a gradient is wrong
"""

from wyrm.testing.engines import EngineError
from wyrm.testing.gradients import GradientError, check_grads
from wyrm.testing.ops import OpError, check_op
from wyrm.testing.rules import Finding

__all__ = ["EngineError", "Finding", "GradientError", "OpError", "check_grads", "check_op"]
