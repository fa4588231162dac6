"""Random graphs to compare the analysis with: programs of the fuzz, models along time, and stacks of layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import wyrm as wy
from tests.fuzz.generate import Generator
from tests.fuzz.productions import TABLES
from tests.fuzz.program import Rows
from tests.reach.views import Items, Views
from wyrm.graph.base import BaseNode
from wyrm.graph.traversal import topological_order


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


class Width(wy.Dim): ...


class Graph(NamedTuple):
    """The nodes of a random graph, the data of its leaves, and the sizes of its open axes."""

    nodes: list[BaseNode]
    leaves: dict[BaseNode, np.ndarray]
    sizes: Mapping[type[wy.Dim], int]


def _graph(outputs: list[Any], leaves: dict[Any, np.ndarray], sizes: Mapping[type[wy.Dim], int]) -> Graph:
    order = topological_order(outputs)
    used = {leaf: array for leaf, array in leaves.items() if leaf in set(order)}
    nodes = [node for node in order if not node.is_leaf and not node.gives_rows]
    return Graph(nodes, used, sizes)


# --- programs of the fuzz: all productions, and gradients -------------------------------------------------------------

_generator = Generator([each for table in TABLES for each in table], 6)


def of_program(seed: int) -> Graph | None:
    """Return a program of the fuzz in float64, mostly without its gradients."""
    program = replace(_generator.program((55, seed)), dtype=np.dtype(np.float64))
    rows = max(program.rows)
    graph = program.graph()
    graph.feed(rows)
    leaves = {node: np.asarray(node.value) for node in graph.leaves}
    outputs = graph.outputs if seed % 4 == 0 else [graph.nodes[i] for i in program.outputs]
    return _graph(outputs, leaves, {Rows: rows})


# --- models along an axis of time -------------------------------------------------------------------------------------


class _Sequences:
    """A graph that grows by ops along time, attention by hand, masks of all kinds, other axes and loops."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng((56, seed))
        open_axes = bool(self.random.random() < 0.4)
        self.sizes = {Batch: 2, Time: int(self.random.integers(2, 7)), Width: 3}
        self.batch: Any = Batch() if open_axes else Batch(2)
        self.time: Any = Time() if open_axes else Time(self.sizes[Time])
        self.leaves: dict[Any, np.ndarray] = {}
        self.nodes: list[Any] = [self.input(), self.input()]

    def normal(self, *shape: int) -> np.ndarray:
        found: np.ndarray = self.random.uniform(0.3, 1.7, shape) * self.random.choice([-1.0, 1.0], shape)
        return found

    def input(self) -> Any:
        leaf: Any = wy.Input(dims=(self.batch, self.time, Width(3)), dtype=np.float64, name=f"x{len(self.leaves)}")
        self.leaves[leaf] = self.normal(2, self.sizes[Time], 3)
        return leaf

    def pick(self) -> Any:
        return self.nodes[int(max(self.random.integers(0, len(self.nodes), 2)))]

    def choice(self, *options: Any) -> Any:
        return options[int(self.random.integers(len(options)))]

    def mask(self, depth: int = 2) -> Any:
        """Return a mask of the axes (time, time)."""
        random, positions = self.random, wy.arange(self.time)
        if depth and random.random() < 0.35:
            x, y = self.mask(depth - 1), self.mask(depth - 1)
            return self.choice(
                lambda: x & y, lambda: x | y, lambda: ~x, lambda: x ^ y, lambda: wy.where(x, y, x & ~y)
            )()
        shift = int(random.integers(-2, 3))
        if self.time.size is not None and random.random() < 0.3:
            size = self.sizes[Time]
            array = self.choice(np.tri(size, k=shift), np.triu(np.ones((size, size)), shift), np.eye(size))
            array = np.asarray(array, bool) if random.random() < 0.7 else random.random((size, size)) < 0.5
            return wy.Constant(array, dims=(self.time, self.time))
        rows, columns = positions[:, None], positions[None, :]
        if random.random() < 0.3:
            rows, columns = rows.astype(np.float64), columns.astype(np.float64)
            return self.choice(lambda: rows >= columns, lambda: rows > columns, lambda: rows <= columns)()
        return self.choice(
            lambda: rows >= columns + shift,
            lambda: rows > columns - shift,
            lambda: rows - columns <= shift,
            lambda: rows == columns + shift,
            lambda: rows != columns,
            lambda: columns < 2,
            lambda: (rows + shift >= columns) & (rows - 2 <= columns),
        )()

    def attention(self) -> Any:
        """Return scores with a mask, a softmax over the keys, and a sum of values."""
        q, k, v, mask = self.pick(), self.pick(), self.pick(), self.mask()
        scores = q @ k.swapaxes(-1, -2) * 0.3
        seen = mask | (wy.arange(self.time)[:, None] == wy.arange(self.time)[None, :])
        masked = self.choice(
            lambda: wy.where(seen, scores, -np.inf),
            lambda: wy.where(seen, scores, -1e9),
            lambda: scores + wy.where(seen, 0.0, -np.inf),
            lambda: scores + (1.0 - seen.astype(np.float64)) * -1e9,
            lambda: wy.where(~seen, -np.inf, scores),
            lambda: scores,
        )()
        weights = self.choice(
            lambda: masked.softmax(),
            lambda: wy.exp(wy.where(seen, scores, -np.inf)),
            lambda: scores * mask.astype(np.float64),
            lambda: wy.where(mask, scores, 0.0),
            lambda: wy.tril(scores),
            lambda: wy.triu(scores, 1),
            lambda: masked.log_softmax().exp(),
        )()
        return weights @ v

    def other_axes(self, x: Any) -> Any:
        """Return a node that divides, joins, turns or exchanges axes and restores them, with an op between."""
        time, size = self.time, self.sizes[Time]
        halves = (self.batch, size // 2, 2, 3)
        return self.choice(
            lambda: x.reshape((self.batch * time, 3)).cumsum(axis=1).reshape((self.batch, time, Width(3))),
            lambda: x.reshape((self.batch * time, 3)).cumsum(axis=0).reshape((self.batch, time, Width(3))),
            lambda: x.swapaxes(1, 2).cumsum(axis=2).swapaxes(1, 2),
            lambda: x.transpose(1, 0, 2).cumsum(axis=0).transpose(1, 0, 2),
            lambda: x.swapaxes(0, 1).reshape((time * self.batch, 3)).reshape((self.batch, time, 3)),
            lambda: x.reshape((self.batch, size // 2, 2, 3)).cumsum(axis=1).reshape((self.batch, time, 3)),
            lambda: (x.reshape(halves).sum(2, keepdims=True) + x.reshape(halves)).reshape((self.batch, time, 3)),
            lambda: x.reshape((self.batch, 2, size // 2, 3)).cumsum(axis=2).reshape((self.batch, time, 3)),
            lambda: x.reshape((self.batch, time, 3, 1)).squeeze(-1) * 2.0,
        )()  # fmt: skip

    def convolved(self, x: Any, size: int, padding: int) -> Any:
        weight = wy.Constant(self.normal(3, 3, size))
        return wy.nn.conv1d(x.swapaxes(1, 2), weight, padding=padding).swapaxes(1, 2)

    def step(self) -> Any:
        """Return a new node of the axes (batch, time, width)."""
        x, y, time = self.pick(), self.pick(), self.time
        ahead, size = int(self.random.integers(1, 3)), self.sizes[Time]
        where = wy.arange(time)[:, None]

        def earlier() -> Any:
            return wy.concatenate([wy.zeros_like(x[:, :ahead]), x], axis=1)[:, : -ahead or None]

        def scanned() -> Any:
            kind = int(self.random.integers(0, 4))

            def body(carry: Any, row: Any) -> Any:
                following = (carry * 0.5 + row).tanh()
                return following, (following, carry, carry * row, row)[kind]

            rows = x.swapaxes(0, 1)
            out = wy.scan(body, rows[0] * 0.0, rows, reverse=bool(self.random.random() < 0.3))[1]
            return out.swapaxes(0, 1)

        return self.choice(
            lambda: x + y, lambda: x * y, lambda: x.tanh(), lambda: x.square(), lambda: x / (y.square() + 1.0),
            lambda: x.cumsum(axis=1), lambda: wy.cummax(x, 1), lambda: wy.flip(wy.flip(x, 1).cumsum(axis=1), 1),
            lambda: wy.flip(x, 1), lambda: wy.flip(x, self.choice(0, 1, 2)), lambda: x[:, ::-1],
            lambda: wy.roll(x, ahead, 1), earlier, earlier, lambda: wy.flip(earlier(), 1),
            lambda: wy.concatenate([x[:, ahead:], x[:, :ahead]], axis=1),
            lambda: wy.pad(x, ((0, 0), (ahead, 0), (0, 0)))[:, :size],
            lambda: x[:, np.minimum(np.arange(size) + ahead, size - 1)],
            lambda: x[:, np.maximum(np.arange(size) - ahead, 0)],
            lambda: x[:, self.random.permutation(size)],
            lambda: x[:, (wy.arange(time) - ahead).maximum(0)],
            lambda: wy.take_along_axis(x, wy.argsort(y, 1), 1),
            lambda: x - x.mean(axis=1, keepdims=True), lambda: x * x.max(axis=self.choice(0, 1, 2), keepdims=True),
            lambda: x.softmax(self.choice(0, 1, 2)), lambda: x + x.sum(axis=0),
            lambda: x - x.mean(axis=2, keepdims=True),
            lambda: wy.where(where > ahead, x, y), lambda: x * (where <= ahead).astype(np.float64),
            lambda: wy.where(x > y, x, 0.0), lambda: wy.where(where == 0, 0.0, x),
            lambda: wy.sort(x, axis=self.choice(0, 1, 2)), lambda: wy.cumprod(x.tanh(), axis=1),
            lambda: self.convolved(wy.pad(x, ((0, 0), (ahead, 0), (0, 0))), ahead + 1, 0),
            lambda: self.convolved(x, 3, 1),
            lambda: wy.repeat(x[:, ::2], 2, 1)[:, :size],
            lambda: wy.einsum("btc,ts->bsc", x, self.mask().astype(np.float64)),
            lambda: wy.diff(x, axis=1, prepend=x[:, :1]), lambda: self.input() + x,
            lambda: x.at[:, 0].set(y[:, 0]), lambda: x.at[:, ahead:].add(y[:, :-ahead]),
            lambda: wy.stack([x, y], axis=2).sum(axis=2), lambda: wy.split(x, [ahead], 1)[0].sum(1, keepdims=True) + x,
            self.attention, self.attention, self.attention, self.attention, lambda: self.other_axes(x),
            lambda: self.other_axes(x), scanned, scanned, lambda: wy.vmap(lambda row: row.cumsum(axis=0))(x),
            lambda: wy.nn.LayerNorm(Width(3), dtype=np.float64)(x),
            lambda: wy.checkpoint(lambda z: z.cumsum(axis=1), x),
        )()  # fmt: skip

    def graph(self) -> Graph:
        wanted, tries = int(self.random.integers(2, 9)), 0
        while wanted and tries < 40:
            tries += 1
            try:
                node = self.step()
            except (wy.WyrmError, IndexError):  # a shift wider than the axis, or an axis without a size
                continue
            if node.ndim == 3 and self._fits(node):
                self.nodes.append(node)
                wanted -= 1
        return _graph(self.nodes[2:], self.leaves, self.sizes)

    def _fits(self, node: Any) -> bool:
        """Return whether a node has the axes of the input, as far as is known."""
        return [self._size(axis) for axis in node.dims] == [self._size(axis) for axis in self.nodes[0].dims]

    def _size(self, axis: Any) -> Any:
        return axis if isinstance(axis, int) or axis.size is None else axis.size


def of_sequences(seed: int) -> Graph:
    """Return a model along an axis of time."""
    return _Sequences(seed).graph()


# --- stacks of layers -------------------------------------------------------------------------------------------------


def of_layers(seed: int) -> Graph:
    """Return a stack of a few layers over sequences."""
    random = np.random.default_rng((57, seed))
    time_size = int(random.integers(3, 7))
    open_axes = bool(random.random() < 0.5)
    time: Any = Time() if open_axes else Time(time_size)
    batch: Any = Batch() if open_axes else Batch(2)
    tokens: Any = wy.IndexInput(dims=(batch, time), name="tokens")
    x: Any = wy.Input(dims=(batch, time, Width(4)), dtype=np.float64, name="x")
    leaves = {
        tokens: random.integers(0, 5, (2, time_size)),
        x: random.uniform(0.3, 1.7, (2, time_size, 4)) * random.choice([-1.0, 1.0], (2, time_size, 4)),
    }
    options: Any = {"dtype": np.float64}

    def cached(width: Any) -> Any:
        config = wy.nn.GPT2Config(vocab_size=5, n_positions=8, n_embd=4, n_head=2, n_layer=1)
        return wy.nn.GPT2(config, **options)(tokens) @ wy.Constant(np.ones((5, 4)))

    layers: list[Callable[[Any], Any]] = [
        lambda h: h + wy.nn.Embedding(5, 4, **options)(tokens),
        lambda h: wy.nn.Linear(4, 4, **options)(h).relu(),
        lambda h: wy.nn.LayerNorm(4, **options)(h),
        lambda h: wy.nn.RMSNorm(4, **options)(h),
        lambda h: wy.nn.LSTM(4, 4, **options)(h).sequence,
        lambda h: wy.nn.GRU(4, 4, **options)(h).sequence,
        lambda h: wy.nn.StackedLSTM(4, 2, 2, bidirectional=True, **options)(h).sequence,
        lambda h: wy.nn.MultiHeadAttention(4, 2, causal=bool(random.random() < 0.5), **options)(h),
        lambda h: wy.nn.TransformerBlock(4, 8, 2, causal=bool(random.random() < 0.5), **options)(h),
        lambda h: wy.nn.ewma(h, 0.3, axis=1),
        lambda h: wy.nn.Conv1d(4, 4, 3, **options)(wy.pad(h, ((0, 0), (2, 0), (0, 0))).swapaxes(1, 2)).swapaxes(1, 2),
        lambda h: wy.nn.Conv1d(4, 4, 3, padding=1, dilation=1, **options)(h.swapaxes(1, 2)).swapaxes(1, 2),
        lambda h: wy.nn.max_pool1d(h.swapaxes(1, 2), 3, 1, 1).swapaxes(1, 2),
        lambda h: wy.nn.avg_pool1d(h.swapaxes(1, 2), 3, 1, 1).swapaxes(1, 2),
        lambda h: wy.nn.group_norm(h.swapaxes(1, 2), 2, epsilon=0.1).swapaxes(1, 2),
        lambda h: wy.nn.rotary_embedding(h),
        lambda h: wy.nn.SinusoidalPositionalEncoding()(h),
        lambda h: wy.nn.BatchNorm1d(4, **options)(h.swapaxes(1, 2)).swapaxes(1, 2),
        lambda h: wy.scaled_dot_product_attention(h, h, h, is_causal=bool(random.random() < 0.7)),
        lambda h: h.dropout(0.3, seed=1, stream=2),
        lambda h: wy.nn.glu(wy.concatenate([h, h], axis=-1)),
        cached,
    ]
    h, outputs = x, []
    for _ in range(int(random.integers(1, 5))):
        try:
            made = layers[int(random.integers(len(layers)))](h)
        except wy.WyrmError:  # a window wider than the axis
            continue
        if made.ndim == 3:
            h = made
            outputs.append(h)
    parameters = {p: np.asarray(p.value) for p in h.parameters()[:2]} if outputs else {}
    return _graph(outputs or [x * 1.0], {**leaves, **parameters}, {Batch: 2, Time: time_size, Width: 4})


# --- ops made of others -----------------------------------------------------------------------------------------------


def of_cells(seed: int) -> Graph:
    """Return a loop of cells from a state that is data, and a layer with such a state: two operands are followed."""
    batch, time, random = Batch(2), Time(4), np.random.default_rng((58, seed))
    options: Any = {"dtype": np.float64}
    x: Any = wy.Input(dims=(batch, time, Width(4)), name="x", **options)
    y: Any = wy.Input(dims=(batch, time, Width(4)), name="y", **options)
    cell, lstm = wy.nn.GRUCell(4, 4, **options), wy.nn.LSTMCell(4, 4, **options)

    def row(of: Any) -> Any:
        return of[:, int(random.integers(4))]

    first = cell(row(x), row(y))
    second = cell(row(x), first)
    hidden, memory = lstm(row(x), wy.nn.LSTMState(second, row(y)))
    leaves = {leaf: random.uniform(0.3, 1.7, (2, 4, 4)) for leaf in (x, y)}
    states = wy.nn.GRU(4, 4, **options)(x, row(y)).sequence
    return _graph([hidden, memory, states], leaves, {Batch: 2, Time: 4, Width: 4})


# --- views of one axis ------------------------------------------------------------------------------------------------


def of_views(seed: int) -> Graph:
    """Return a graph of views of divided axes, which meet, and of positions of sized axes."""
    views = Views(seed)
    return _graph(views.outputs(), views.leaves, {Items: views.size})


GENERATORS: dict[str, Callable[[int], Graph | None]] = {
    "programs": of_program,
    "sequences": of_sequences,
    "layers": of_layers,
    "cells": of_cells,
    "views": of_views,
}


def graphs(name: str, first: int, count: int) -> Iterator[tuple[int, Graph]]:
    """Yield random graphs of a generator, with their seeds."""
    for seed in range(first, first + count):
        graph = GENERATORS[name](seed)
        if graph is not None and graph.nodes:
            yield seed, graph
