"""One pass over the data: what it works on, how far it is, and whether its options make sense."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import OptionError, ShapeError
from wyrm.node.base import BaseNode, label
from wyrm.train.partition import Part
from wyrm.train.progress import Bar, NoBar
from wyrm.types.dims import axis_size
from wyrm.types.options import whole

Leaf = BaseNode


def check_options(batch_size: int, threads: int, mode: str, seed: int = 0) -> None:
    """`DTypeError` or `OptionError` for options out of their range."""
    whole("batch_size", batch_size, 1)
    whole("threads", threads, 1)
    whole("seed", seed, 0)
    if mode not in ("hogwild", "synchronized"):
        raise OptionError(f"mode is 'hogwild' or 'synchronized', not {mode!r}")


@dataclass(frozen=True)
class ThreadWork:
    """What one thread does in a phase: its parts, its first step, and the numbers of its steps."""

    parts: Sequence[Part]
    step: int
    hyper: NDArray[np.float64]


def turns(counts: Sequence[int], thread: int) -> NDArray[np.int64]:
    """Where the steps of a thread stand among those of all, when the threads that have steps left take turns.

    >>> [turns([3, 1], thread).tolist() for thread in (0, 1)]
    [[0, 2, 3], [1]]
    """
    mine = np.arange(counts[thread], dtype=np.int64)
    places = np.zeros_like(mine)
    for other, count in enumerate(counts):
        places += np.minimum(mine + (other < thread), count)
    return places


@dataclass
class EpochState:
    """One pass over the data, and how far it is."""

    given: dict[Leaf, np.ndarray]
    columns: dict[Leaf, np.ndarray]
    rows: int
    batch: int
    singly: bool
    bar: Bar = field(default_factory=NoBar)
    weighted_loss: float = 0.0
    steps: int = 0
    # Set where a thread is to stop at the end of its chunk.
    stop: threading.Event = field(default_factory=threading.Event)
    failed_at: int | None = None
    failing_rate: float = 0.0
    kept_steps: int = 0
    # The rows of each part that do not fill a batch.
    rest: dict[Part, NDArray[np.int64]] = field(default_factory=dict)


def check_batches(given: Mapping[Leaf, np.ndarray], rows: int, singly: bool, batch: int) -> None:
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
