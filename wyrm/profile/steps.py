"""The steps that a profile runs: their options, checked as the measured method does, and how many are enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from wyrm.engines.columns import checked_columns, checked_inputs
from wyrm.engines.epochs import checked_options, train_epoch
from wyrm.engines.tables import is_batches
from wyrm.engines.totals import Totals
from wyrm.errors import OptionError, ShapeError
from wyrm.profile.peaks import Peaks
from wyrm.support.options import choice, flag, whole

if TYPE_CHECKING:
    from wyrm.engines.engine import Engine
    from wyrm.engines.epochs import EpochOptions, ThreadMode
    from wyrm.engines.graph import ProgramGraph

Method = Literal["epoch", "call", "backward"]
# Unless their number is given, the measured steps take about a second. Limits of their number.
_SECONDS, _FEWEST, _FEW, _MOST = 1.0, 3, 100, 200_000


class Asked(NamedTuple):
    """The arguments of `Program.profile` beside the columns."""

    method: Method | None
    steps: int | None
    batch_size: int
    threads: int
    mode: ThreadMode
    accumulate: int
    memory: bool
    peaks: Peaks | None


def checked(graph: ProgramGraph, columns: Any, asked: Asked) -> tuple[Method, EpochOptions, int | None]:
    """Return the method, the options of its steps and their number; raise an error for what does not fit."""
    method, steps, batch_size, threads, mode, accumulate, memory, peaks = asked
    trains = graph.optimizer is not None
    method = method or ("epoch" if trains else "call")
    choice("method", method, ("epoch", "call", "backward"))
    if method != "call" and not trains:
        raise OptionError(f"this program has no optimizer, so it has no {method} to measure: use method='call'")
    options = checked_options(
        batch_size=batch_size, shuffle=False, seed=0, threads=threads, mode=mode, progress=False, accumulate=accumulate
    )
    if columns is None and (batch_size, threads, accumulate) != (1, 1, 1):
        raise OptionError(
            "batch_size, threads and accumulate divide the rows of data, and there is none: give its columns first, as "
            "in program.profile({x: X}, batch_size=4)"
        )
    steps = None if steps is None else whole("steps", steps, 1)
    if method == "call" and options.threads > 1:
        raise OptionError("a call runs in one thread: use method='epoch' or 'backward' for several")
    if peaks is not None and not isinstance(peaks, Peaks):
        raise OptionError(f"peaks must be a wy.profile.Peaks, not {peaks!r}")
    if is_batches(columns):
        raise OptionError("profile takes the columns of a data set: give one batch of the loader, next(iter(loader))")
    flag("memory", memory)
    return method, options, steps


def enough_steps(steps_a_second: float, most: int) -> int:
    """Return the number of steps to measure if none is given."""
    return int(min(max(_SECONDS * steps_a_second, _FEWEST), most))


def steps_of(engine: Engine, columns: Any, method: Method, options: EpochOptions) -> tuple[Callable[[int], None], int]:
    """Check the data; return a function that does a number of steps, and the most steps that it should do."""
    graph = engine.graph
    limits = graph.ranges.limits
    if method == "call":
        inputs = checked_inputs({} if columns is None else columns, graph.inputs)
        if any(array.size == 0 for array in inputs.values()):
            raise ShapeError("the data has no elements, so there is nothing to measure")

        def call(steps: int) -> None:
            for _ in range(steps):
                engine.run(inputs)

        return call, _MOST
    data = checked_columns(columns, graph.inputs, limits)
    rows = data.rows
    if method == "backward":
        data.check_batches(rows)

        def backward(steps: int) -> None:
            for _ in range(steps):
                engine.backward(data, options.threads, 1.0, 1)

        return backward, _MOST
    options = options._replace(batch_size=min(options.batch_size, rows))
    rows_of_step = options.batch_size * options.accumulate

    def epoch(steps: int) -> None:
        # At least a step for each thread; rows are repeated if there are too few.
        chosen = np.arange(rows_of_step * max(steps, options.threads)) % rows
        part = {leaf: _rows(array, chosen) for leaf, array in data.given.items()}
        train_epoch(engine, part, options, Totals(graph.outputs), in_batches=False)

    # Rows are repeated only where there are few.
    return epoch, min(_MOST, max(_FEW, rows // rows_of_step))


def _rows(array: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return rows of a column, as a view if they are its first ones."""
    return array[: len(chosen)] if len(chosen) <= len(array) else array[chosen]
