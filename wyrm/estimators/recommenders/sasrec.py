"""SASRec: the next item of a user, by attention over the items that the user had last."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import wyrm.losses as losses
import wyrm.random as random
from wyrm.data.interactions import Interactions
from wyrm.errors import DataError
from wyrm.estimators.recommenders.base import Recommender
from wyrm.estimators.recommenders.factors import cosines, with_room
from wyrm.estimators.recommenders.history import History, Numbers, Rows
from wyrm.graph.axes import Dim
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Input
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.parameters import Parameter
from wyrm.module import Module
from wyrm.nn import Dropout, LayerNorm, TransformerBlock
from wyrm.nn.seeding import seeded
from wyrm.optim import Adam
from wyrm.support.options import number, whole
from wyrm.train.compiling import compile


class _Batch(Dim): ...


class _Network(Module):
    """The states of a user after each item: attention over the items so far. Places behind the last item are unread."""

    def __init__(self, model: SASRec, items: NDArray[Any]) -> None:
        factors = model.factors
        self.items: Parameter = Parameter(items, name="items")
        self.places: Parameter = Parameter(np.zeros((model.length, factors), np.float32), name="places")
        self.dropout: Dropout = Dropout(model.dropout)
        self.blocks: list[TransformerBlock] = [
            TransformerBlock(factors, 4 * factors, model.heads, dropout=model.dropout) for _ in range(model.blocks)
        ]
        self.norm: LayerNorm = LayerNorm(factors)

    def __call__(self, items: IndexNode) -> Node:
        x: Any = self.dropout(self.items.index(items) * np.sqrt(self.items.shape[1]) + self.places)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


@dataclass(eq=False)
class SASRec(Recommender):
    """Score the item that comes next, from the order of the last `length` items of a user, whoever it is.

    Kang and McAuley, "Self-attentive sequential recommendation" (2018): `blocks` of causal attention with `heads` over
    vectors of `factors`. It is trained with Adam to tell the next item from `negatives` drawn ones by a softmax, and
    weights do not count. `partial_fit` goes on with the new interactions, and `fold_in` costs nothing: a user is known
    by the items alone.

    Raise `OptionError` for options out of range, and in `fit` `DataError` if no user has two items.

    >>> clicks = wy.data.low_rank_preferences(50, 30, rank=2, interactions_per_user=8)
    >>> SASRec(8, length=5, epochs=1).fit(clicks).recommend(3, k=2).items.shape
    (2,)
    """

    factors: int = 32
    _: KW_ONLY
    length: int = 50
    blocks: int = 1
    heads: int = 1
    dropout: float = 0.2
    epochs: int = 25
    learning_rate: float = 0.005
    batch_size: int = 32
    negatives: int = 256
    random_state: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("factors", "length", "blocks", "heads", "epochs", "batch_size", "negatives"):
            whole(name, getattr(self, name), 1)
        number("dropout", self.dropout, 0.0, 1.0)
        number("learning_rate", self.learning_rate, 0.0)

    def _train(self, history: History, data: Interactions) -> None:
        self._learn(history, history.rows)

    def _continue(self, history: History, new: Rows, data: Interactions) -> None:
        self.state = dict(self.state)
        # What comes next is learned from new items, with what a user had before them.
        users = np.unique(new.users)
        fresh = np.bincount(new.users, minlength=len(history.users))[users]
        rows = history.rows.take(users)
        ends, more = rows.offsets[1:], np.minimum(fresh + self.length, np.diff(rows.offsets))
        kept = [np.arange(end - count, end) for end, count in zip(ends, more, strict=True)]
        places = np.concatenate(kept)
        self._learn(history, Rows(np.append(0, np.cumsum(more)), rows.items[places], rows.weights[places]))

    def _learn(self, history: History, rows: Rows) -> None:
        seen, following, mask = self._windows(rows)
        first = int(self.state.get("epochs", 0))
        with seeded(self.random_state + first):
            network, total, inputs = self._graph(history)
        parameters = dict(network.named_parameters())
        optimizer = Adam(list(parameters.values()), self.learning_rate)
        if "adam.steps" in self.state:
            optimizer.load_state_dict({name: self.state[f"adam.{name}"] for name in optimizer.state_dict()})
        program = compile(total, optimizer)
        columns = dict(zip(inputs, (seen, following, mask), strict=True))
        for epoch in range(first, first + self.epochs):
            program.epoch(columns, batch_size=self.batch_size, shuffle=True, seed=self.random_state + epoch)
        self.state |= {name: np.array(parameter.value) for name, parameter in parameters.items()}
        self.state |= {f"adam.{name}": np.asarray(array) for name, array in optimizer.state_dict().items()}
        self.state["epochs"] = np.array(first + self.epochs)

    def _graph(self, history: History) -> tuple[_Network, Node, list[Any]]:
        """Return the network, the loss of a batch, and its inputs: items, those that follow, and where one does."""
        network = self._network(history)
        batch, size = _Batch(), len(history.items)
        dims: Any = (batch, self.length)
        before, after = IndexInput(dims=dims, name="before"), IndexInput(dims=dims, name="after")
        counted = Input(dims=dims, name="counted")
        states = network.train()(before)
        drawn = random.index(size, (self.negatives,), seed=self.random_state + int(self.state.get("epochs", 0)))
        liked = (states * network.items.index(after)).sum(axis=-1)
        others = states @ network.items.index(drawn).T
        each = losses.sampled_softmax(liked, others, items=(after, drawn), reduction="none")
        total = (each * counted).sum() / counted.sum().maximum(1.0)
        return network, total, [before, after, counted]

    def _windows(self, rows: Rows) -> tuple[Numbers, Numbers, NDArray[np.float32]]:
        """Return items, those that follow them, and where one follows: each item of a user follows once."""
        found = [
            rows.items[max(first, end - self.length - 1) : end]
            for first, last in zip(rows.offsets[:-1].tolist(), rows.offsets[1:].tolist(), strict=True)
            for end in range(last, first + 1, -self.length)
        ]
        if not found:
            raise DataError("no user has two items, so that nothing tells which comes next")
        counts = np.array([len(row) - 1 for row in found])
        mask = np.arange(self.length) < counts[:, np.newaxis]
        seen, following = (np.zeros(mask.shape, np.int64) for _ in range(2))
        seen[mask] = np.concatenate([row[:-1] for row in found])
        following[mask] = np.concatenate([row[1:] for row in found])
        return seen, following, mask.astype(np.float32)

    def _network(self, history: History) -> _Network:
        """Return the network with what was learned, and vectors for all items."""
        table = self.state.get("items", np.zeros((0, self.factors), np.float32))
        known, count = int(self.state.get("count", 0)), len(history.items)
        table = with_room(table, count)
        if count > known:
            table = table.copy()
            drawn = np.random.default_rng([self.random_state, known]).standard_normal((count - known, self.factors))
            table[known:count] = drawn / np.sqrt(self.factors)
            self.state |= {"items": table, "count": np.array(count)}
            for name in [name for name in self.state if name.startswith("adam.0.")]:
                self.state[name] = with_room(self.state[name], len(table))
        with seeded(self.random_state):
            network = _Network(self, table)
        for name, parameter in network.named_parameters():
            if name in self.state:
                parameter.set(self.state[name])
        return network

    def _scores(self, users: Numbers) -> NDArray[Any]:
        history = self._known()
        if "program" not in self._cache:
            items = IndexInput(dims=(_Batch(), self.length), name="items")
            self._cache["program"] = compile(self._network(history).eval()(items)), items
        program, items = self._cache["program"]
        last = [history.row(user)[0][-self.length :] for user in users.tolist()]
        read = np.zeros((len(users), self.length), np.int64)
        for row, each in zip(read, last, strict=True):
            row[: len(each)] = each
        ends = np.array([len(each) - 1 for each in last])
        states = program({items: read})[np.arange(len(users)), np.maximum(ends, 0)]
        return np.asarray(states @ self.state["items"][: len(history.items)].T)

    def _likeness(self, items: Numbers) -> NDArray[Any]:
        return cosines(self.state["items"][: len(self._known().items)], items)
