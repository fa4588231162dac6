"""One pass over the data: what it works on, how far it is, and whether its options make sense."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.engine.native.partition import Part
from wyrm.errors import ShapeError
from wyrm.node.base import BaseNode, label
from wyrm.types.dims import axis_size

Leaf = BaseNode[Any, Any]


def check_options(batch_size: int, threads: int, mode: str) -> None:
    """`TypeError` or `ValueError` for options out of their range."""
    for name, value in (("batch_size", batch_size), ("threads", threads)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise TypeError(f"{name} is a whole number, not {value!r}")
        if value < 1:
            raise ValueError(f"{name} is at least 1, not {value}")
    if mode not in ("hogwild", "synchronized"):
        raise ValueError(f"mode is 'hogwild' or 'synchronized', not {mode!r}")


@dataclass(frozen=True)
class Share:
    """What one thread does in a phase: its parts, its first step, and the numbers of its steps."""

    parts: Sequence[Part]
    step: int
    hyper: NDArray[np.float64]


@dataclass
class Pass:
    """One pass over the data, and how far it is."""

    given: dict[Leaf, NDArray[Any]]
    columns: dict[Leaf, NDArray[Any]]
    rows: int
    batch: int
    singly: bool
    bar: Any
    weighted_loss: float = 0.0
    steps: int = 0
    # Set where a thread is to stop at the end of its chunk.
    stop: threading.Event = field(default_factory=threading.Event)
    failed_at: int | None = None
    kept_steps: int = 0
    # Whether the optimizer has counted the steps itself.
    counted: bool = False


def check_batches(given: Mapping[Leaf, NDArray[Any]], rows: int, singly: bool, batch: int) -> None:
    """`ShapeError` where a batch of this size does not fit the inputs."""
    if singly and batch != 1:
        raise ShapeError(
            f"the inputs take one row at a time, so batch_size is 1, not {batch}; for batches give them an axis, "
            f"as in wy.Input(dims=(Batch(),))"
        )
    for leaf in given:
        size = None if singly else axis_size(leaf.dims[0])
        if size is not None and (size != batch or rows % batch):
            raise ShapeError(
                f"{label(leaf)} has {size} rows in every batch, so batch_size is {size} and divides the number of "
                f"rows; it is {batch}, of {rows:,} rows. An axis without a size takes any batch"
            )
