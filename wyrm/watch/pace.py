"""How much of the time of a training its recording may take, and how often it writes."""

from __future__ import annotations

import time
from types import TracebackType

# The time between records: at least so many seconds, and so large a fraction of the elapsed time. A training of three
# days writes some 10,000 records of values, 3,000 of modules and 200 of histograms.
VALUES, EPOCHS, MODULES, HISTOGRAMS = (0.2, 1 / 2000), (0.05, 1 / 2000), (1.0, 1 / 500), (5.0, 1 / 30)
TENSORBOARD = (2.0, 1 / 300)


class Budget:
    """The share of a training's time that recording may take; `with budget:` measures time that it takes.

    >>> budget = Budget(0.5)
    >>> budget.affords(100.0)
    False
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self.spent = 0.0
        self.start = time.perf_counter()
        self._entered = 0.0
        self._depth = 0

    def __enter__(self) -> Budget:
        if not self._depth:
            self._entered = time.perf_counter()
        self._depth += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._depth -= 1
        if not self._depth:
            self.spent += time.perf_counter() - self._entered

    def affords(self, seconds: float) -> bool:
        """Return whether recording may take so many seconds more now."""
        return self.spent + seconds <= self.share * (time.perf_counter() - self.start)


class Pace:
    """When a record is due: at least `least` seconds after the last, and `fraction` of the elapsed time.

    So the number of records grows with the logarithm of a long training.

    >>> pace = Pace(least=1.0, fraction=0.01)
    >>> [pace.due(at) for at in (0.0, 0.5, 1.0, 500.0)], pace.take(500.0)
    ([True, True, True, True], None)
    >>> [pace.due(at) for at in (504.0, 506.0)]
    [False, True]
    """

    def __init__(self, least: float, fraction: float) -> None:
        self._least, self._fraction = least, fraction
        self.next = 0.0

    def due(self, elapsed: float) -> bool:
        """Return whether a record is due."""
        return elapsed >= self.next

    def take(self, elapsed: float) -> None:
        """Count a record that was written."""
        self.next = elapsed + max(self._least, self._fraction * elapsed)
