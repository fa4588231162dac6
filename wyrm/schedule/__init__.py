"""Schedules: which nodes to compute, in which order, for which sizes."""

from wyrm.schedule.schedule import Schedule

__all__ = ["Schedule"]
