"""The state of one epoch, and the checks of its options."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.native.run.partition import Part
from wyrm.engines.progress import Bar, LossBar, NoBar, checked_bar
from wyrm.engines.totals import Totals
from wyrm.errors import OptionError, ShapeError
from wyrm.graph.axes import axis_size
from wyrm.graph.base import BaseNode, label
from wyrm.support.options import flag, whole

Leaf = BaseNode
_NO_TOTALS = Totals(())
Mode = Literal["hogwild", "synchronized"]


class EpochOptions(NamedTuple):
    """The options of an epoch, checked: its integers are Python's own, which arithmetic does not overflow."""

    batch_size: int
    shuffle: bool
    seed: int
    threads: int
    mode: Mode
    progress: bool | Bar | LossBar
    accumulate: int


def checked_options(
    *,
    batch_size: object,
    shuffle: object,
    seed: object,
    threads: object,
    mode: object,
    progress: Any,
    accumulate: object,
    in_batches: bool = False,
) -> EpochOptions:
    """Return the options of an epoch; raise `DTypeError` or `OptionError` for one that it cannot have.

    `in_batches`: the data is batches, which have their own size and order.
    """
    if mode not in ("hogwild", "synchronized"):
        raise OptionError(f"mode must be 'hogwild' or 'synchronized', not {mode!r}")
    options = EpochOptions(
        whole("batch_size", batch_size, 1), flag("shuffle", shuffle), whole("seed", seed, 0),
        whole("threads", threads, 1), "hogwild" if mode == "hogwild" else "synchronized", checked_bar(progress),
        whole("accumulate", accumulate, 1),
    )  # fmt: skip
    if options.accumulate > 1 and options.threads > 1 and options.mode == "hogwild":
        raise OptionError("threads in mode 'hogwild' do not accumulate gradients: use mode='synchronized' or threads=1")
    if in_batches and (options.batch_size != 1 or options.shuffle):
        raise OptionError("batches have their size and order already: set batch_size and shuffle there")
    return options


@dataclass(frozen=True)
class ThreadWork:
    """One thread's share of a phase: its parts, its first step, and the optimizer's numbers for each step."""

    parts: Sequence[Part]
    step: int
    hyperparameters: NDArray[np.float64]


def turns(counts: Sequence[int], thread: int) -> NDArray[np.int64]:
    """Return the positions of a thread's steps among all threads' steps, when threads with steps left take turns.

    >>> [turns([3, 1], thread).tolist() for thread in (0, 1)]
    [[0, 2, 3], [1]]
    """
    mine = np.arange(counts[thread], dtype=np.int64)
    positions = np.zeros_like(mine)
    for other, count in enumerate(counts):
        positions += np.minimum(mine + (other < thread), count)
    return positions


@dataclass
class EpochState:
    """The data and the progress of one epoch."""

    given: dict[Leaf, np.ndarray]
    columns: dict[Leaf, np.ndarray]
    rows: int
    batch: int
    singly: bool
    # The number of batches of the epoch before these rows.
    first: int = 0
    bar: LossBar = field(default_factory=NoBar)
    # The sums of the outputs' values for batches, each times its weight.
    sums: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))
    totals: Totals = _NO_TOTALS
    steps: int = 0
    # The number of batches in a step, and the program's first step of the epoch; the program counts batches.
    accumulate: int = 1
    first_step: int = 0
    # Tells the threads to stop at the end of their chunk.
    stop: threading.Event = field(default_factory=threading.Event)
    failed_at: int | None = None
    failing_rate: float = 0.0
    snapshot_steps: int = 0
    # The rows of each part that are left after its full batches.
    rest: dict[Part, NDArray[np.int64]] = field(default_factory=dict)


def check_batches(given: Mapping[Leaf, np.ndarray], rows: int, singly: bool, batch: int) -> None:
    """Raise `ShapeError` if a batch of this size does not fit the inputs."""
    if singly and batch != 1:
        raise ShapeError(
            f"the inputs take one row at a time, so batch_size must be 1, not {batch}; for larger batches declare a "
            f"batch axis, as in wy.Input(dims=(Batch(),))"
        )
    for leaf in given:
        size = None if singly else axis_size(leaf.dims[0])
        if size is not None and (size != batch or rows % batch):
            raise ShapeError(
                f"{label(leaf)} has a batch axis of size {size}, so batch_size must be {size} and divide the number of "
                f"rows; it is {batch}, for {rows:,} rows. A batch axis without a size takes any batch_size"
            )
