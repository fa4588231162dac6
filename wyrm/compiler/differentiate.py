"""What a program computes: the outputs, and where it trains, the gradients of a loss and what buffers become."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wyrm.compiler.updates import OptimizerInterface
from wyrm.errors import NotDifferentiable, UnusedParameter
from wyrm.grad.reverse import pull_back
from wyrm.node.base import BaseNode, describe, label
from wyrm.node.buffer import Buffer
from wyrm.node.leaves import Constant
from wyrm.node.node import Node
from wyrm.ops.index import row_parts
from wyrm.ops.updating import updates_of

AnyNode = BaseNode


@dataclass(frozen=True)
class Wanted:
    """The nodes that a program computes.

    `gradients` are those of parameters as a whole; `rows` are, for each parameter of which a step touches rows, the
    pairs of gradient and index nodes of these; `moving` are what buffers become. With an optimizer, the only output is
    the loss. `written` are the nodes as users wrote them, where these are made of simpler ops.
    """

    outputs: Sequence[AnyNode]
    optimizer: OptimizerInterface | None = None
    gradients: Mapping[AnyNode, AnyNode] = field(default_factory=dict)
    rows: Mapping[AnyNode, Sequence[tuple[AnyNode, AnyNode]]] = field(default_factory=dict)
    moving: Mapping[Buffer, AnyNode] = field(default_factory=dict)
    written: Sequence[AnyNode] = ()

    @property
    def nodes(self) -> list[AnyNode]:
        """All of them."""
        pairs = [node for touched in self.rows.values() for pair in touched for node in pair]
        return [*self.outputs, *self.gradients.values(), *pairs, *self.moving.values()]

    @property
    def loss(self) -> AnyNode | None:
        """The loss of a program that trains."""
        return None if self.optimizer is None else self.outputs[0]

    def replaced(self, becomes: Callable[[AnyNode], AnyNode]) -> Wanted:
        """The same of what the nodes become; parameters and buffers stay."""
        return Wanted(
            [becomes(node) for node in self.outputs],
            self.optimizer,
            {parameter: becomes(node) for parameter, node in self.gradients.items()},
            {
                parameter: [(becomes(gradient), becomes(indices)) for gradient, indices in pairs]
                for parameter, pairs in self.rows.items()
            },
            {buffer: becomes(node) for buffer, node in self.moving.items()},
            self.written,
        )


def differentiate(wanted: Wanted) -> Wanted:
    """The outputs with the gradients of the optimizer's parameters, and what buffers become."""
    if wanted.optimizer is None:
        return wanted
    gradients, rows = gradients_of(wanted.outputs[0], wanted.optimizer)
    return Wanted(wanted.outputs, wanted.optimizer, gradients, rows, updates_of(wanted.outputs))


def gradients_of(
    loss: AnyNode, optimizer: OptimizerInterface
) -> tuple[dict[AnyNode, AnyNode], dict[AnyNode, list[tuple[Any, Any]]]]:
    """The dense gradients of the optimizer's parameters, and the pairs of gradient and indices of the row-sparse."""
    if not isinstance(loss, Node) or loss.dims != () or loss.dtype.kind != "f":
        raise NotDifferentiable(
            f"a program that trains takes one scalar float loss, not {describe(loss)}: reduce it with .sum() or .mean()"
        )
    found = pull_back([loss], [Constant(1.0, dtype=loss.dtype)], optimizer.parameters)
    dense: dict[AnyNode, AnyNode] = {}
    sparse: dict[AnyNode, list[tuple[Any, Any]]] = {}
    for parameter, gradient in zip(optimizer.parameters, found, strict=True):
        if gradient is None:
            continue
        pairs = row_parts(gradient)
        if pairs is None:
            dense[parameter] = gradient
        else:
            sparse[parameter] = pairs
    if not dense and not sparse:
        raise UnusedParameter(
            f"{describe(loss)} depends on none of the optimizer's parameters "
            f"({', '.join(map(label, optimizer.parameters))}); give the optimizer loss.parameters()"
        )
    return dense, sparse
