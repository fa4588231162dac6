"""The reference engine: it evaluates nodes with NumPy in topological order."""

from wyrm.backends.numpy.observe import Timing, time_ops, watch_nan
from wyrm.backends.numpy.reference import run

__all__ = ["Timing", "run", "time_ops", "watch_nan"]
