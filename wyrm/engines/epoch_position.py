"""The position in an epoch, with which a checkpoint that was written inside it goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.totals import Totals
from wyrm.errors import OptionError


class Done(NamedTuple):
    """Batches and rows of an epoch that are done, with the sums of the outputs' values times their weights."""

    batches: int
    rows: int
    sums: NDArray[np.float64]

    @classmethod
    def nothing(cls, outputs: int) -> Done:
        """Return the beginning of an epoch of a program with a number of outputs."""
        return cls(0, 0, np.zeros(outputs))

    def values(self, before: Done, totals: Totals) -> list[float]:
        """Return the totals of the outputs for the rows that came after `before`."""
        values: list[float] = ((self.sums - before.sums) / totals.weights(self.rows - before.rows)).tolist()
        return values


class EpochPosition:
    """What is done of the current epoch."""

    def __init__(self) -> None:
        self.done = Done.nothing(0)
        # The options of the current epoch that decide which rows a batch has; None between epochs.
        self._options: Mapping[str, Any] | None = None
        # A position that was loaded, for the next epoch.
        self._loaded: Mapping[str, Any] | None = None

    @contextmanager
    def epoch(self, options: Mapping[str, Any], outputs: int) -> Iterator[Done]:
        """Count the batches of an epoch from here to the end of the context; give what was done of it before.

        Raise `OptionError` for other options than those of the epoch of a loaded position.
        """
        loaded = self._loaded
        self.done = Done.nothing(outputs)
        if loaded is not None:
            _check(loaded, options)
            self.done = Done(loaded["batches"], loaded["rows"], np.array(loaded["sums"]))
        self._options, self._loaded = dict(options), None
        try:
            yield self.done
        finally:
            self._options = None

    def add(self, batches: int, rows: int, sums: NDArray[np.float64]) -> None:
        """Count batches, whose outputs times their weights have these sums."""
        done = self.done
        self.done = Done(done.batches + batches, done.rows + rows, done.sums + sums)

    def state(self) -> dict[str, Any] | None:
        """Return the position as JSON values, None between epochs."""
        if self._options is None:
            return None
        batches, rows, sums = self.done
        return {"batches": batches, "rows": rows, "sums": sums.tolist(), "options": dict(self._options)}

    def load(self, state: Mapping[str, Any] | None) -> None:
        """Go on from a result of `state` in the next epoch."""
        self._loaded = state


def _check(loaded: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    saved: Mapping[str, Any] = loaded["options"]
    names = sorted(saved.keys() | options.keys())
    different = [name for name in names if saved.get(name) != options.get(name)]
    differences = [f"{name}={saved.get(name)!r}, not {options.get(name)!r}" for name in different]
    if differences:
        raise OptionError(
            f"the checkpoint was written after batch {loaded['batches']} of an epoch with {' and '.join(differences)}: "
            f"go on with the options and the data of that epoch"
        )
