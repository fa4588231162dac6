"""Warns when a graph built in training mode is run for its value while its modules are in evaluation mode."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar

from wyrm.graph.base import BaseNode, describe
from wyrm.graph.traversal import topological_order


class HasMode(Protocol):
    """A module, which is in training or in evaluation mode."""

    training: bool


class Mode(NamedTuple):
    """The description of a node that depends on training mode, and the module that built it."""

    node: str
    module: weakref.ref[HasMode]


N = TypeVar("N", bound=BaseNode)

# By identity, as long as the node lives.
_built: dict[int, tuple[weakref.ref[BaseNode], weakref.ref[HasMode]]] = {}


def record_training_mode(node: N, module: HasMode) -> N:
    """Record that a module in training mode built a node that it builds differently, or not at all, in evaluation."""
    key = id(node)

    def forget(_: object) -> None:
        _built.pop(key, None)

    _built[key] = weakref.ref(node, forget), weakref.ref(module)
    return node


def modes_of(outputs: Iterable[BaseNode]) -> list[Mode]:
    """Return the nodes that modules built in training, among those that `outputs` depend on."""
    if not _built:
        return []
    nodes = (node for node in topological_order(outputs) if id(node) in _built)
    return [Mode(describe(node), _built[id(node)][1]) for node in nodes]


def warn_of_training(modes: Iterable[Mode]) -> None:
    """Issue a `RuntimeWarning` if a graph built in training runs for its value while its module is in evaluation."""
    for node, reference in modes:
        module = reference()
        if module is not None and not module.training:
            warnings.warn(
                f"{node} was built in training by {type(module).__name__}, which is in evaluation now; a graph keeps "
                f"the mode that it was built in. For values without training behaviour, build it again after "
                f"eval(); to continue training, call train() on the model first",
                RuntimeWarning,
                stacklevel=4,
            )
            return
