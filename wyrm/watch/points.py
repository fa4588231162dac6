"""Values by step as points: each has the mean, the lowest and the highest of the values of some steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import mul
from typing import Any, TypeAlias

from wyrm.watch.records import Record

# A step, an epoch and seconds; the means of a point, its lowest and its highest values.
Place: TypeAlias = tuple[int, float, float]
Point: TypeAlias = tuple[Collection[float], Collection[float], Collection[float]]
# Points of steps, and of epochs, that are never joined with others.
STEPS, EPOCHS = 500, 10_000
# The points that a record has at least, if it has as many steps.
_LEAST = 50
# An estimate of the seconds to write a point, until it is known.
_SECONDS = 4e-6


class Points:
    """Points of values that are collected, and not written yet.

    The first `full` values of a set of names become points of their own; then a point joins two of them, four after
    `full` more points, and so on: the number of points grows with the logarithm of the steps. A point that the budget
    does not afford yet joins more.

    >>> points = Points(affords=lambda seconds: True)
    >>> for step in range(1, 8):
    ...     points.add((step, 0.0, 0.1 * step), {"loss": 1.0 / step}, full=3)
    >>> [record] = points.take()
    >>> record["steps"], record["means"]["loss"][-1] == (1 / 6 + 1 / 7) / 2, record["high"]["loss"][-1]
    ([1, 2, 3, 5, 7], True, 0.16666666666666666)
    """

    def __init__(self, affords: Callable[[float], bool]) -> None:
        self._affords = affords
        self._groups: dict[tuple[str, ...], _Group] = {}
        # The seconds to write a point, and the points beyond the free ones that are not written yet.
        self.seconds: float = _SECONDS
        self._unpaid = 0

    def add(self, place: Place, values: Mapping[str, float], weight: float = 1.0, full: int = STEPS) -> None:
        """Add values of a step, at a place (step, epoch, seconds), with a weight in the means."""
        names = tuple(values)
        group = self._groups.get(names)
        if group is None:
            group = self._groups[names] = _Group(names)
        group.added += 1
        if group.width == 1 and not group.joined and group.written < full:
            found = tuple(values.values())
            group.append(place, (found, found, found), full)  # most epochs, and the first steps
            return
        group.add(place, tuple(values.values()), weight)
        if group.joined < group.width:
            return
        if group.written < full or group.joined >= group.most or self._affords(self.seconds * (self._unpaid + 1)):
            self._unpaid += group.written >= full
            group.close(full)

    def take(self) -> Iterator[dict[str, Any]]:
        """Yield the fields of a record for each set of names, and forget the points."""
        self._unpaid = 0
        for group in self._groups.values():
            group.close()
            group.begin_record()
            if group.places:
                yield group.take()


class _Group:
    """Points with the same names."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        # The points so far, how many values a point joins, and how many the current one has.
        self.written = 0
        self.width = 1
        self.joined = 0
        # The values since the last record, and the most that a point joins, budget or not.
        self.added = 0
        self.most: float = math.inf
        self.places: list[Place] = []
        self._points: list[Point] = []
        # The values of the current point, their weights, and the place of the last.
        self._values: list[Collection[float]] = []
        self._weights: list[float] = []
        self._place: Place = (0, 0.0, 0.0)

    def append(self, place: Place, point: Point, full: int | None) -> None:
        """Append a point; after `full` more, points join twice as many values."""
        self.places.append(place)
        self._points.append(point)
        self.written += 1
        if full is not None and self.written % full == 0:
            self.width *= 2

    def add(self, place: Place, values: Collection[float], weight: float) -> None:
        """Add values to the current point."""
        self._place = place
        self._values.append(values)
        self._weights.append(weight)
        self.joined += 1

    def close(self, full: int | None = None) -> None:
        """End the current point."""
        if not self._values:
            return
        means = low = high = self._values[0]
        if self.joined > 1:
            columns, total = list(zip(*self._values, strict=True)), sum(self._weights)
            means = [sum(map(mul, column, self._weights)) / total for column in columns]
            low, high = [min(column) for column in columns], [max(column) for column in columns]
        self._values, self._weights, self.joined = [], [], 0
        self.append(self._place, (means, low, high), full)

    def begin_record(self) -> None:
        """Let each record have some points, if its steps are as many as those of the last one."""
        if self.added >= _LEAST:
            self.most = self.added / _LEAST
        self.added = 0

    def take(self) -> dict[str, Any]:
        """Return the fields of a record of the points, and forget them."""
        places, points = self.places, self._points
        self.places, self._points = [], []
        steps, epochs, seconds = map(list, zip(*places, strict=True))
        means, low, high = (self._by_name(rows) for rows in zip(*points, strict=True))
        joins = any(lowest is not mean for mean, lowest, _ in points)
        return {
            "steps": steps, "epochs": epochs, "seconds": seconds,
            "means": means, "low": low if joins else None, "high": high if joins else None,
        }  # fmt: skip

    def _by_name(self, rows: Sequence[Collection[float]]) -> dict[str, list[float]]:
        return {name: list(column) for name, column in zip(self._names, zip(*rows, strict=True), strict=True)}


def columns_of(record: Record) -> tuple[list[int], dict[str, list[Any]]]:
    """Return the steps and the values by name of a record; of points, the means. Other records have none.

    >>> columns_of({"kind": "values", "step": 3, "values": {"loss": 0.5}})
    ([3], {'loss': [0.5]})
    """
    if record["kind"] == "points":
        return record["steps"], record["means"]
    if record["kind"] == "values":
        return [record["step"]], {name: [value] for name, value in record["values"].items()}
    return [], {}
