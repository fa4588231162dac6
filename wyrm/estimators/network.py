"""The graph of a network of hidden layers on numbers, categories and sparse rows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

import wyrm.losses as losses
from wyrm.estimators.trials import Model
from wyrm.graph.axes import Dim, Ragged
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.node import Node
from wyrm.graph.parameters import Buffer
from wyrm.module import Module
from wyrm.nn import Activation, Dropout, Embedding, Linear
from wyrm.nn.initializers import Normal, XavierUniform, Zeros
from wyrm.ops.indexing.joining import concatenate

_ZEROS, _WEIGHT, _TABLE = Zeros(), XavierUniform(), Normal(0.0, 0.1)

Target = Literal["class", "labels", "numbers"]
FloatName = Literal["float32", "float64"]


class Batch(Dim):
    """The rows of a batch."""


class Entries(Ragged):
    """The entries of a sparse row."""


@dataclass(frozen=True)
class Structure:
    """What the code of a network depends on.

    `numbers`: how many columns of numbers; `categories`: for each column of categories, the rows and the length of its
    table; `hidden`: the sizes of the hidden layers; `outputs`: how many scores; `target`: one class of several, any of
    several labels, or numbers; `dtype`: that of all numbers.
    """

    numbers: int
    sparse: bool
    categories: tuple[tuple[str, int, int], ...]
    hidden: tuple[int, ...]
    activation: str
    dropout: float
    outputs: int
    target: Target
    dtype: FloatName = "float32"

    @property
    def sizes(self) -> list[int]:
        """The numbers of features, before and after each layer."""
        return [self.numbers + sum(length for _, _, length in self.categories), *self.hidden, self.outputs]

    def drawn(self, random: np.random.Generator) -> list[np.ndarray]:
        """Return the first values of the parameters, in the order of `Model.trained`."""
        found = [_TABLE((rows, length), random, self.dtype) for _, rows, length in self.categories]
        for before, after in pairwise(self.sizes):
            found += _WEIGHT((before, after), random, self.dtype), np.zeros(after, self.dtype)
        return found

    def build(self) -> Model:
        """Return the graph of the network."""
        network, batch = Network(self), Batch()
        axes = (batch, Entries()) if self.sparse else (batch, self.numbers)
        numbers = Input(dims=axes, name="numbers", dtype=self.dtype) if self.numbers else None
        places = IndexInput(dims=axes, name="places") if self.sparse else None
        categories = {name: IndexInput(dims=(batch,), name=f"category {name}") for name, _, _ in self.categories}
        weight = Input(dims=(batch,), name="weight", dtype=self.dtype)
        penalty = Buffer(0.0, name="penalty", dtype=self.dtype)
        # Losses of nodes with known axes and with unknown ones have different types.
        target: Any
        if self.target == "class":
            target = IndexInput(dims=(batch,), name="target")
        else:
            target = Input(dims=(batch, self.outputs), name="target", dtype=self.dtype)

        def loss(scores: Node) -> Node:
            each: Node
            if self.target == "class":
                each = losses.cross_entropy(scores, target, reduction="none")
            elif self.target == "labels":
                each = losses.bce_with_logits(scores, target, reduction="none").mean(axis=1)
            else:
                each = 0.5 * losses.mse(scores, target, reduction="none").mean(axis=1)
            return (each * weight).mean()

        decayed = network.layers[1:] if self.sparse else network.layers
        squares: Node = sum((layer.weight.square().sum() for layer in decayed), start=Constant(0.0))
        training = loss(network(numbers, places, categories)) + 0.5 * penalty * squares
        network.eval()
        output = network(numbers, places, categories)
        inputs = {f"category {name}": each for name, each in categories.items()} | {"target": target, "weight": weight}
        inputs |= {} if numbers is None else {"numbers": numbers}
        inputs |= {} if places is None else {"places": places}
        return Model(inputs, training, loss(output), output, network.parameters(), penalty)


class Network(Module):
    """Tables of categories, hidden layers and an output layer; the first layer of sparse rows adds rows of its weight.

    All parameters are zero: `Structure.drawn` has the values that a training begins with.
    """

    def __init__(self, structure: Structure) -> None:
        self.tables: dict[str, Embedding] = {
            name: Embedding(rows, length, initializer=_ZEROS, dtype=structure.dtype)
            for name, rows, length in structure.categories
        }
        # Each axis has a name of its own, so that the code is the same for all sizes, equal ones too.
        axes = [type(f"Features{i}", (Dim,), {})(size) for i, size in enumerate(structure.sizes)]
        self.layers: list[Linear] = [
            Linear(before, after, initializer=_ZEROS, dtype=structure.dtype) for before, after in pairwise(axes)
        ]
        self.activation: Activation | None = (
            None if structure.activation == "identity" else Activation(structure.activation)
        )
        self.dropout: Dropout | None = Dropout(structure.dropout) if structure.dropout else None

    def __call__(self, numbers: Node | None, places: IndexInput | None, categories: dict[str, IndexInput]) -> Node:
        """Return the scores, (batch, outputs)."""
        first, *others = self.layers
        x: Node
        if numbers is not None and places is not None:
            assert first.bias is not None
            x = (first.weight.index(places) * numbers.expand_dims(-1)).sum(axis=1) + first.bias
        else:
            parts: list[Node] = [] if numbers is None else [numbers]
            parts += [self.tables[name](each) for name, each in categories.items()]
            x = first(parts[0] if len(parts) == 1 else concatenate(parts, axis=1))
        for layer in others:
            x = x if self.activation is None else self.activation(x)
            x = layer(x if self.dropout is None else self.dropout(x))
        return x
