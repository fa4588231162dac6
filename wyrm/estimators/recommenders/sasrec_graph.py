"""The graph of `SASRec`: the states of a user after each item, and the loss of what comes next."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import wyrm.losses as losses
import wyrm.random as random
from wyrm.estimators.trials import Model
from wyrm.graph.axes import Dim
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Input
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.parameters import Parameter, ResizableParameter
from wyrm.module import Module
from wyrm.nn import Dropout, LayerNorm, TransformerBlock
from wyrm.nn.seeding import seeded


class _Batch(Dim): ...


class _Items(Dim): ...


class _Network(Module):
    """The states of a user after each item: attention over the items so far. Places behind the last item are unread."""

    def __init__(self, form: SASRecForm) -> None:
        factors, dropout = form.factors, form.dropout
        self.items: Parameter = ResizableParameter(np.zeros((1, factors), np.float32), (_Items(), factors))
        self.places: Parameter = Parameter(np.zeros((form.length, factors), np.float32))
        self.dropout: Dropout = Dropout(dropout)
        self.blocks: list[TransformerBlock] = [
            TransformerBlock(factors, 4 * factors, form.heads, dropout=dropout) for _ in range(form.blocks)
        ]
        self.norm: LayerNorm = LayerNorm(factors)

    def __call__(self, items: IndexNode) -> Node:
        x: Any = self.dropout(self.items.index(items) * np.sqrt(self.items.shape[1]) + self.places)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


@dataclass(frozen=True)
class SASRecForm:
    """What the code of a model depends on."""

    factors: int
    length: int
    blocks: int
    heads: int
    dropout: float
    negatives: int

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the trained arrays; the first is the table of items."""
        return _names(self)

    def drawn(self, seed: int) -> dict[str, np.ndarray]:
        """Return the first values of the trained arrays, of one item."""
        with seeded(seed):
            return {name: np.array(leaf.value) for name, leaf in _Network(self).named_parameters()}

    def build(self) -> Model:
        """Return the graph of the loss, whose inputs are items, those that follow, and where one does."""
        network, dims = _Network(self), (_Batch(), self.length)
        before, after = IndexInput(dims=dims, name="before"), IndexInput(dims=dims, name="after")
        counted = Input(dims=dims, name="counted")
        drawn = random.index(_Items(), (self.negatives,))

        def loss(states: Node) -> Node:
            liked = (states * network.items.index(after)).sum(axis=-1)
            others = states @ network.items.index(drawn).T
            each = losses.sampled_softmax(liked, others, items=(after, drawn), reduction="none")
            return (each * counted).sum() / counted.sum().maximum(1.0)

        inputs: Any = {"before": before, "after": after, "counted": counted}
        training, output = loss(network.train()(before)), network.eval()(before)
        return Model(inputs, training, loss(output), output, list(network.parameters()))


@lru_cache
def _names(form: SASRecForm) -> tuple[str, ...]:
    return tuple(form.drawn(0))
