"""The graph of a network of hidden layers on numbers, categories and sparse rows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

import wyrm.losses as losses
from wyrm.estimators.trials import Model
from wyrm.graph.axes import Axis, Dim, Ragged, axis_size
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.node import Node
from wyrm.graph.parameters import Buffer, ResizableParameter
from wyrm.nn import Activation, Dropout
from wyrm.nn.initializers import Normal, XavierUniform
from wyrm.ops.indexing.joining import concatenate

_WEIGHT, _TABLE = XavierUniform(), Normal(0.0, 0.1)

Target = Literal["class", "labels", "numbers"]
FloatName = Literal["float32", "float64"]


class Batch(Dim):
    """The rows of a batch."""


class Entries(Ragged):
    """The entries of a sparse row."""


class Features(Dim):
    """The columns of numbers."""


class Outputs(Dim):
    """The scores of a row."""


@dataclass(frozen=True)
class Form:
    """What the code of a network depends on: all but the sizes of its hidden layers, and the rows of its tables.

    `numbers`: how many columns of numbers; `categories`: for each column of categories, the length of its vectors;
    `layers`: how many layers; `outputs`: how many scores; `target`: one class of several, any of several labels, or
    numbers; `dtype`: that of all numbers.
    """

    numbers: int
    sparse: bool
    categories: tuple[tuple[str, int], ...]
    layers: int
    activation: str
    dropout: float
    outputs: int
    target: Target
    dtype: FloatName = "float32"

    @property
    def features(self) -> int:
        """How many numbers the first layer reads."""
        return self.numbers + sum(length for _, length in self.categories)

    def build(self) -> Model:
        """Return the graph of the network."""
        batch = Batch()
        axes = (batch, Entries()) if self.sparse else (batch, self.numbers)
        numbers = Input(dims=axes, name="numbers", dtype=self.dtype) if self.numbers else None
        places = IndexInput(dims=axes, name="places") if self.sparse else None
        categories = {name: IndexInput(dims=(batch,), name=f"category {name}") for name, _ in self.categories}
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

        # Axes of other names, so that the code is the same for all sizes, equal ones too.
        tables = [self._parameter(_open(f"Values{i}"), length) for i, (_, length) in enumerate(self.categories)]
        hidden: list[Axis] = [_open(f"Hidden{i}") for i in range(1, self.layers)]
        parts: list[Node] = [] if numbers is None or self.sparse else [numbers]
        parts += [table.index(each) for table, each in zip(tables, categories.values(), strict=True)]
        x = parts[0] if len(parts) == 1 else concatenate(parts, axis=1) if parts else None
        pairs = list(pairwise([Features(self.features), *hidden, Outputs(self.outputs)]))
        weights = [self._parameter(*pair) for pair in pairs]
        biases = [self._parameter(after) for _, after in pairs]
        activation = None if self.activation == "identity" else Activation(self.activation)

        def network(dropout: Dropout | None) -> Node:
            each: Any
            if numbers is not None and places is not None:
                each = (weights[0].index(places) * numbers.expand_dims(-1)).sum(axis=1) + biases[0]
            else:
                each = x @ weights[0] + biases[0]
            for matrix, bias in zip(weights[1:], biases[1:], strict=True):
                each = each if activation is None else activation(each)
                if dropout is not None:
                    each = dropout(each)
                each = each @ matrix + bias
            found: Node = each
            return found

        squares: Node = sum((matrix.square().sum() for matrix in weights[self.sparse :]), start=Constant(0.0))
        training = loss(network(Dropout(self.dropout) if self.dropout else None)) + 0.5 * penalty * squares
        output = network(None)
        inputs = {f"category {name}": each for name, each in categories.items()} | {"target": target, "weight": weight}
        inputs |= {} if numbers is None else {"numbers": numbers}
        inputs |= {} if places is None else {"places": places}
        layers = [each for pair in zip(weights, biases, strict=True) for each in pair]
        return Model(inputs, training, loss(output), output, [*tables, *layers], {"penalty": penalty})

    def _parameter(self, *axes: Any) -> Any:
        """Return a parameter of zeros: `Structure.drawn` has the sizes and values that a training begins with."""
        return ResizableParameter(np.zeros([axis_size(axis) or 1 for axis in axes], self.dtype), axes)


def _open(name: str) -> Dim:
    """Return an axis that has the size of the arrays of parameters."""
    found: Dim = type(name, (Dim,), {})()
    return found


@dataclass(frozen=True)
class Structure:
    """A network: its form, for each column of categories the rows of its table, and the sizes of hidden layers."""

    form: Form
    rows: tuple[int, ...]
    hidden: tuple[int, ...]

    def drawn(self, random: np.random.Generator) -> list[np.ndarray]:
        """Return the first values of the parameters, in the order of `Model.trained`."""
        form = self.form
        lengths = [length for _, length in form.categories]
        found = [_TABLE(shape, random, form.dtype) for shape in zip(self.rows, lengths, strict=True)]
        for before, after in pairwise([form.features, *self.hidden, form.outputs]):
            found += _WEIGHT((before, after), random, form.dtype), np.zeros(after, form.dtype)
        return found
