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
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.leaves import Constant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.parameters import Parameter

Draw = Callable[[int], NDArray[np.float32]]
# What fills up a row of tags, by the kind of its column.
_NONE: tuple[object, ...] = (-1, "")


class Side:
    """The arrays of users or of items, in a dictionary `state` under the names `user.own` and so on.

    `own` and `own_bias` have a row for each id, `tags` and `tag_bias` one for each tag, of which the first is of none;
    each has the sums of squared gradients beside it, as `own.total`. `places` and `values` are the tags of each id and
    how much each counts, `known` the tags in order.
    """

    def __init__(self, kind: str, state: dict[str, NDArray[Any]], draw: Draw) -> None:
        self.kind, self.state, self._draw = kind, state, draw
        self._tags: dict[tuple[str, Any], int] = {}
        if f"{kind}.known" in state:
            known = json.loads(state[f"{kind}.known"].tobytes())
            self._tags = {(name, value): number for number, (name, value) in enumerate(known, 1)}
        else:
            self._set("count", np.zeros((), np.int64))
            self._set("places", np.zeros((0, 0), np.int64))
            self._set("values", np.zeros((0, 0), np.float32))
            self._keep_tags()
            for table in ("own", "tags"):
                self._set(table, draw(0))
                self._set(f"{table}_bias", np.zeros(0, np.float32))
                self._set(f"{table}.total", np.ones_like(draw(0)))
                self._set(f"{table}_bias.total", np.ones(0, np.float32))
            self._add("tags", 0, 1)
            self["tags"][0] = 0.0

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.state[f"{self.kind}.{name}"]

    def _set(self, name: str, array: NDArray[Any]) -> None:
        self.state[f"{self.kind}.{name}"] = array

    def grow(self, count: int) -> None:
        """Make room for so many ids; those that are new get drawn vectors, all others keep theirs."""
        before = int(self["count"])
        if count > before:
            self._add("own", before, count)
            for name in ("places", "values"):
                self._set(name, with_room(self[name], count))
            self._set("count", np.array(count))

    def _add(self, table: str, before: int, count: int) -> None:
        for name in (table, f"{table}_bias", f"{table}.total", f"{table}_bias.total"):
            self._set(name, with_room(self[name], count))
        self[table][before:count] = self._draw(count - before)
        self[f"{table}.total"][before:count] = 1.0
        self[f"{table}_bias.total"][before:count] = 1.0

    def describe(self, numbers: Numbers, features: Dataset | None) -> None:
        """Note the tags of ids: a float is a tag that counts so much, any other value of a column a tag of its own."""
        if features is None:
            if self._tags and (numbers >= int(self["count"])).any():
                raise DataError(f"new {self.kind}s need features, as those before: with_features({self.kind}s=...)")
            return
        found: list[list[Any]] = []
        before = len(self._tags)
        for name, column in features.columns.items():
            if column.dtype.kind == "f":
                places = np.full(column.shape, self._tags.setdefault((name, None), len(self._tags) + 1))
                parts = places, column
            else:
                values, place = np.unique(column, return_inverse=True)
                tags = [
                    0
                    if value in _NONE and column.ndim > 1
                    else self._tags.setdefault((name, value), len(self._tags) + 1)
                    for value in values.tolist()
                ]
                places = np.array(tags, np.int64)[place.reshape(column.shape)]
                parts = places, places > 0
            found.append([np.reshape(part, (len(numbers), -1)) for part in parts])
        places, values = (np.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
        self.grow(max(int(self["count"]), int(numbers.max()) + 1))
        for name, rows in (("places", places), ("values", values)):
            wide = np.zeros((len(self[name]), max(self[name].shape[1], rows.shape[1])), self[name].dtype)
            wide[:, : self[name].shape[1]] = self[name]
            wide[numbers] = 0
            wide[numbers, : rows.shape[1]] = rows
            self._set(name, wide)
        self._add("tags", before + 1, len(self._tags) + 1)
        self._keep_tags()

    def _keep_tags(self) -> None:
        self._set("known", np.frombuffer(json.dumps(list(self._tags)).encode(), np.uint8))

    def parameters(self, biased: bool) -> dict[str, Parameter]:
        """Return the tables as parameters, by name; those of tags only if there are any."""
        tables = ["own", *(["tags"] if self._tags else [])]
        names = [name for table in tables for name in ([table, f"{table}_bias"] if biased else [table])]
        return {f"{self.kind}.{name}": Parameter(self[name], name=name) for name in names}

    def of(self, rows: IndexNode, parameters: dict[str, Parameter]) -> tuple[Node, Node | None]:
        """Return the vectors of rows, with the axis of factors at the end, and their biases, if they have any."""
        kind = self.kind
        bias = parameters.get(f"{kind}.own_bias")
        vectors: Node = parameters[f"{kind}.own"].index(rows)
        biases: Node | None = None if bias is None else bias.index(rows)
        if self._tags:
            places: Any = IndexConstant(self["places"])[rows]
            values: Any = Constant(self["values"])[rows]
            vectors = vectors + (parameters[f"{kind}.tags"].index(places) * values.expand_dims(-1)).sum(axis=-2)
            if biases is not None:
                biases = biases + (parameters[f"{kind}.tags_bias"].index(places) * values).sum(axis=-1)
        return vectors, biases

    def of_tags(self, rows: slice | Numbers) -> tuple[Any, Any]:
        """Return what the tags of some ids add to their vectors and biases."""
        places, values = self["places"][rows], self["values"][rows]
        if not values.size:
            return np.float32(0.0), np.float32(0.0)
        vectors = np.einsum("ijk,ij->ik", self["tags"][places], values)
        return vectors, (self["tags_bias"][places] * values).sum(axis=1)

    def sums(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the vectors and the biases of all ids."""
        everyone = slice(int(self["count"]))
        vectors, biases = self.of_tags(everyone)
        return self["own"][everyone] + vectors, self["own_bias"][everyone] + biases
