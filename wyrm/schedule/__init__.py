"""Schedules: what to compute, in which order, under which sizes."""

from wyrm.schedule.schedule import Schedule

__all__ = ["Schedule"]
