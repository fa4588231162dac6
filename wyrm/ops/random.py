"""Random nodes, all pure functions of (seed, step, stream, position), and the step that they draw for."""

from __future__ import annotations

from wyrm.ops.dropout import AddDropout, Dropout, add_dropout, dropout
from wyrm.ops.philox import STEP, advance_step, at_step, philox, random_bits, set_step, step_is_announced
from wyrm.ops.sampling import RandomIndex, index

__all__ = [
    "STEP",
    "AddDropout",
    "Dropout",
    "RandomIndex",
    "add_dropout",
    "advance_step",
    "at_step",
    "dropout",
    "index",
    "philox",
    "random_bits",
    "set_step",
    "step_is_announced",
]
