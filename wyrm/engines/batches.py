"""An epoch over batches of a loader or another iterable, which are trained many at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from wyrm.engines.epoch_state import EpochOptions
from wyrm.engines.feeding import checked_columns, given_inputs
from wyrm.engines.native.run.training import Training
from wyrm.engines.progress import bar
from wyrm.engines.tables import row_count
from wyrm.errors import Diverged, IndexOutOfRange, NotFinite, ShapeError
from wyrm.graph.base import BaseNode
from wyrm.graph.ranges import Limit

if TYPE_CHECKING:
    from wyrm.engines.jax.epoch import JaxTraining

Leaf = BaseNode
# The bytes of the batches that are joined for one call of native code.
_BYTES = 1 << 26


@dataclass(frozen=True)
class Chunk:
    """Consecutive batches of one size, as columns; `first` is the number of batches before them."""

    columns: dict[Leaf, np.ndarray]
    batch_size: int
    first: int

    @contextmanager
    def naming_its_place(self) -> Iterator[None]:
        """Make errors that name a row say from where the rows are counted."""
        try:
            yield
        except Diverged:
            raise
        except (NotFinite, IndexOutOfRange) as error:
            text, first = str(error).removesuffix("; no parameter has moved"), self.first
            state = f"the parameters are as they were after batch {first}" if first else "no parameter has moved"
            raise type(error)(
                f"{text}; rows are counted in the order of the batches, from batch {first + 1} on; {state}"
            ) from None


def chunks(batches: Iterable[object], inputs: Sequence[Leaf], accumulate: int = 1) -> Iterator[Chunk]:
    """Join consecutive batches of equal sizes into chunks of about 64 MB, each of whole steps of `accumulate` batches.

    A smaller batch ends a step that it does not begin.
    """
    held: list[dict[Leaf, np.ndarray]] = []
    first = size = last = held_bytes = 0
    for batch in batches:
        given = given_inputs(batch, inputs)
        rows = _rows(given)
        inside = len(held) % accumulate > 0
        fits = last == size and (rows == size or (rows < size and inside)) and (inside or held_bytes <= _BYTES)
        if held and not (fits and given.keys() == held[0].keys()):
            yield _joined(held, size, first)
            first += len(held)
            held, held_bytes = [], 0
        size = size if held else rows
        held.append(given)
        last = rows
        held_bytes += sum(array.nbytes for array in given.values())
    if held:
        yield _joined(held, size, first)


def _rows(given: dict[Leaf, np.ndarray]) -> int:
    sizes = {len(array) if array.ndim else 0 for array in given.values()}
    if len(sizes) != 1 or 0 in sizes:
        raise ShapeError("each column of a batch must have the same number of rows, at least one")
    return sizes.pop()


def _joined(held: Sequence[dict[Leaf, np.ndarray]], size: int, first: int) -> Chunk:
    columns = {leaf: np.concatenate([batch[leaf] for batch in held]) for leaf in held[0]}
    return Chunk(columns, size, first)


def epoch_of_batches(
    training: Training | JaxTraining,
    limits: Sequence[Limit],
    batches: Any,
    options: EpochOptions,
) -> list[float]:
    """Train on all batches in order, as one epoch; return the loss and the metrics over all rows."""
    epochs, inputs, totals = training.epochs, training.graph.inputs, training.totals
    try:
        with bar(row_count(batches), options.progress) as shown, training.own_rows() as done:
            _, rows, sums = done
            for chunk in chunks(islice(batches, done.batches, None), inputs, options.accumulate):
                with chunk.naming_its_place():
                    given, count, singly = checked_columns(chunk.columns, inputs, limits)
                    training.epochs = epochs
                    of_chunk = options._replace(batch_size=chunk.batch_size, progress=shown)
                    values = training.epoch(given, count, singly, of_chunk, first=done.batches + chunk.first)
                totals = training.totals.for_columns(given, singly)
                sums = sums + np.asarray(values) * totals.weights(count)
                rows += count
    except BaseException:
        training.epochs = epochs
        raise
    if not rows:
        raise ShapeError("there are no batches, so there is nothing to train on; a generator yields its batches once")
    training.epochs = epochs + 1
    return totals.of_all_rows((sums / totals.weights(rows)).tolist())
