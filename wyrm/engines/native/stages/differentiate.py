"""The targets of a program: the outputs and, with an optimizer, the loss's gradients and the buffers' new values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wyrm.engines.optimizer import OptimizerInterface
from wyrm.errors import NotDifferentiable, UnusedParameter
from wyrm.graph.base import BaseNode, describe, label
from wyrm.graph.buffer import Buffer
from wyrm.graph.leaves import Constant
from wyrm.graph.node import Node
from wyrm.ops.control.updating import updates_of
from wyrm.ops.gradients.reverse import pull_back
from wyrm.ops.indexing.index import row_parts

AnyNode = BaseNode


@dataclass(frozen=True)
class Targets:
    """The nodes that a program computes.

    `gradients` are the dense gradients of parameters. `rows` holds the (gradient, indices) pairs of the parameters with
    row-sparse gradients. `buffer_updates` holds the new values of buffers. With an optimizer, the first output is the
    loss, and the others are its metrics. `original` lists the nodes as users wrote them, before composite ops were
    replaced, and `simpler` has the node that computes each of them.
    """

    outputs: Sequence[AnyNode]
    optimizer: OptimizerInterface | None = None
    gradients: Mapping[AnyNode, AnyNode] = field(default_factory=dict)
    rows: Mapping[AnyNode, Sequence[tuple[AnyNode, AnyNode]]] = field(default_factory=dict)
    buffer_updates: Mapping[Buffer, AnyNode] = field(default_factory=dict)
    original: Sequence[AnyNode] = ()
    simpler: Mapping[AnyNode, AnyNode] = field(default_factory=dict)

    @property
    def nodes(self) -> list[AnyNode]:
        """All these nodes."""
        pairs = [node for touched in self.rows.values() for pair in touched for node in pair]
        return [*self.outputs, *self.gradients.values(), *pairs, *self.buffer_updates.values()]

    @property
    def loss(self) -> AnyNode | None:
        """The loss, if there is an optimizer."""
        return None if self.optimizer is None else self.outputs[0]

    def replaced(self, becomes: Callable[[AnyNode], AnyNode]) -> Targets:
        """Return a copy in which `becomes` maps every node; parameters and buffers stay."""
        return Targets(
            [becomes(node) for node in self.outputs],
            self.optimizer,
            {parameter: becomes(node) for parameter, node in self.gradients.items()},
            {
                parameter: [(becomes(gradient), becomes(indices)) for gradient, indices in pairs]
                for parameter, pairs in self.rows.items()
            },
            {buffer: becomes(node) for buffer, node in self.buffer_updates.items()},
            self.original,
            self.simpler,
        )


def differentiate(targets: Targets) -> Targets:
    """Add the gradients of the optimizer's parameters and the new values of buffers."""
    if targets.optimizer is None:
        return targets
    gradients, rows = gradients_of(targets.outputs[0], targets.optimizer)
    return Targets(targets.outputs, targets.optimizer, gradients, rows, updates_of(targets.outputs))


def gradients_of(
    loss: AnyNode, optimizer: OptimizerInterface
) -> tuple[dict[AnyNode, AnyNode], dict[AnyNode, list[tuple[Any, Any]]]]:
    """Return the optimizer's dense gradients, and the (gradient, indices) pairs of its row-sparse ones.

    A parameter with a rule over whole parameters has a dense gradient.
    """
    if not isinstance(loss, Node) or loss.dims != () or loss.dtype.kind != "f":
        raise NotDifferentiable(
            f"a program that trains takes one scalar float loss, not {describe(loss)}: reduce it with .sum() or .mean()"
        )
    gradients = pull_back([loss], [Constant(1.0, dtype=loss.dtype)], optimizer.parameters)
    dense: dict[AnyNode, AnyNode] = {}
    sparse: dict[AnyNode, list[tuple[Any, Any]]] = {}
    for parameter, gradient in zip(optimizer.parameters, gradients, strict=True):
        if gradient is None:
            continue
        pairs = row_parts(gradient) if optimizer.rule(parameter).elementwise else None
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
