"""The features of users or of items: a vector of its own for each, and the sum of those of the tags that it has."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.data.dataset import Dataset
from wyrm.errors import DataError
from wyrm.estimators.recommenders.factors import with_room
from wyrm.estimators.recommenders.history import Numbers
from wyrm.estimators.recommenders.trained import TrainedRecommender

Draw = Callable[[int], NDArray[np.float32]]
# What fills up a row of tags, by the kind of its column.
_NONE: tuple[object, ...] = (-1, "")


class Side:
    """The arrays of users or of items, in the state of a model under the names `user.own` and so on.

    `own` and `own_bias` have a row for each id, `tags` and `tags_bias` one for each tag, of which the first is of none.
    `places` and `values` are the tags of each id and how much each counts, `known` the tags in order.
    """

    def __init__(self, kind: str, model: TrainedRecommender, draw: Draw) -> None:
        self.kind, self._model, self._draw = kind, model, draw
        if f"{kind}.known" not in model.state:
            self._keep_tags({})
            self["count"] = np.zeros((), np.int64)
            self["places"], self["values"] = np.zeros((0, 0), np.int64), np.zeros((0, 0), np.float32)
            self._add("own", draw(0), 0)
            self._add("tags", np.zeros_like(draw(1)), 0)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._model.state[f"{self.kind}.{name}"]

    def __setitem__(self, name: str, array: NDArray[Any]) -> None:
        self._model.state[f"{self.kind}.{name}"] = array

    @property
    def count(self) -> int:
        """The number of ids."""
        return int(self["count"])

    @property
    def tags(self) -> dict[tuple[str, Any], int]:
        """The number of each tag, by the name of its column and its value."""
        return {(name, value): number for number, (name, value) in enumerate(json.loads(self["known"].tobytes()), 1)}

    def _keep_tags(self, tags: dict[tuple[str, Any], int]) -> None:
        self["known"] = np.frombuffer(json.dumps(list(tags)).encode(), np.uint8)

    def grow(self, count: int) -> None:
        """Make room for so many ids; those that are new get drawn vectors, all others keep theirs."""
        if count > self.count:
            self._add("own", self._draw(count - self.count), self.count)
            for name in ("places", "values"):
                self[name] = with_room(self[name], count)
            self["count"] = np.array(count)

    def _add(self, table: str, rows: NDArray[Any], before: int) -> None:
        self._model._add_rows(f"{self.kind}.{table}", rows, before)
        self._model._add_rows(f"{self.kind}.{table}_bias", np.zeros(len(rows), np.float32), before)

    def describe(self, numbers: Numbers, features: Dataset | None) -> None:
        """Note the tags of ids: a float is a tag that counts so much, any other value of a column a tag of its own."""
        tags = self.tags
        before = len(tags)
        if features is None:
            if tags and (numbers >= self.count).any():
                raise DataError(f"new {self.kind}s need features, as those before: with_features({self.kind}s=...)")
            return
        found: list[list[Any]] = []
        for name, column in features.columns.items():
            if column.dtype.kind == "f":
                places = np.full(column.shape, tags.setdefault((name, None), len(tags) + 1))
                parts = places, column
            else:
                values, place = np.unique(column, return_inverse=True)
                several = column.ndim > 1
                numbered = [
                    0 if several and value in _NONE else tags.setdefault((name, value), len(tags) + 1)
                    for value in values.tolist()
                ]
                places = np.array(numbered, np.int64)[place.reshape(column.shape)]
                parts = places, places > 0
            found.append([np.reshape(part, (len(numbers), -1)) for part in parts])
        self.grow(max(self.count, int(numbers.max()) + 1))
        for name, each in zip(("places", "values"), zip(*found, strict=True), strict=True):
            rows, old = np.concatenate(each, axis=1), self[name]
            wide = np.zeros((len(old), max(old.shape[1], rows.shape[1])), old.dtype)
            wide[:, : old.shape[1]] = old
            wide[numbers] = 0
            wide[numbers, : rows.shape[1]] = rows
            self[name] = wide
        self._add("tags", self._draw(len(tags) - before), before + 1)
        self._keep_tags(tags)

    def of_tags(self, rows: slice | Numbers) -> tuple[Any, Any]:
        """Return what the tags of some ids add to their vectors and biases."""
        places, values = self["places"][rows], self["values"][rows]
        if not values.size:
            return np.float32(0.0), np.float32(0.0)
        vectors = np.einsum("ijk,ij->ik", self["tags"][places], values)
        return vectors, (self["tags_bias"][places] * values).sum(axis=1)

    def sums(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the vectors and the biases of all ids."""
        everyone = slice(self.count)
        vectors, biases = self.of_tags(everyone)
        return self["own"][everyone] + vectors, self["own_bias"][everyone] + biases
