"""Graphs and programs with JAX: several processes, and checkpoints of arrays that are sharded over devices."""

from wyrm.errors import ProcessLost
from wyrm.jax.checkpoints import gather, latest_step, restore, save
from wyrm.jax.distributed import initialize

__all__ = ["ProcessLost", "gather", "initialize", "latest_step", "restore", "save"]
