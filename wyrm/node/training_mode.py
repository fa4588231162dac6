"""What modules built in training: a word where that is run for its values when they are not in training any more."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar

from wyrm.node.base import BaseNode, describe
from wyrm.node.traversal import topological_order


class HasMode(Protocol):
    """A module."""

    training: bool


class Mode(NamedTuple):
    """A node that does what a module does in training, as text, and that module."""

    node: str
    module: weakref.ref[HasMode]


N = TypeVar("N", bound=BaseNode)

# By identity, for as long as the node is there.
_built: dict[int, tuple[weakref.ref[BaseNode], weakref.ref[HasMode]]] = {}


def record_training_mode(node: N, module: HasMode) -> N:
    """Remember that a module in training built a node that it builds otherwise, or not at all, in evaluation."""
    key = id(node)

    def forget(_: object) -> None:
        _built.pop(key, None)

    _built[key] = weakref.ref(node, forget), weakref.ref(module)
    return node


def modes_of(outputs: Iterable[BaseNode]) -> list[Mode]:
    """What `outputs` depend on that modules built in training."""
    if not _built:
        return []
    nodes = (node for node in topological_order(outputs) if id(node) in _built)
    return [Mode(describe(node), _built[id(node)][1]) for node in nodes]


def warn_of_training(modes: Iterable[Mode]) -> None:
    """A `RuntimeWarning` where what was built in training is run for its value while the module is in evaluation."""
    for node, reference in modes:
        module = reference()
        if module is not None and not module.training:
            warnings.warn(
                f"{node} was built in training, by {type(module).__name__}, which is in evaluation now; a graph keeps "
                f"the mode that it was built in. Build it again after evaluate() for values without what training "
                f"does; or, where training goes on, call train() on the model first",
                RuntimeWarning,
                stacklevel=4,
            )
            return
