"""Engines run schedules."""

from wyrm.engine.observe import Timing, time_ops, watch_nan
from wyrm.engine.reference import run

__all__ = ["Timing", "run", "time_ops", "watch_nan"]
