"""The reference engine: it evaluates nodes with NumPy in topological order."""

from wyrm.engines.numpy.observe import Timing, time_ops, watch_nan
from wyrm.engines.numpy.reference import run

__all__ = ["Timing", "run", "time_ops", "watch_nan"]
