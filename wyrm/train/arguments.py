"""The arguments of `compile` with their checks, and the options of wyrm's engines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wyrm.engines.dtypes import DTypeOptions
from wyrm.engines.jax import DeviceOptions
from wyrm.engines.native import LoopOptions
from wyrm.errors import CheckpointError, DTypeError, NotDifferentiable, OptionError, ShapeError
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.node import Node, Tensor
from wyrm.support.options import MOST_STEPS

if TYPE_CHECKING:
    from wyrm.engines.registry import EngineName

# Scalars of a batch, by name.
Metrics = Mapping[str, Tensor[()]]


def checked_outputs(outputs: object, who: str = "wyrm.compile") -> list[BaseNode]:
    """Return the outputs as a list; raise `DTypeError` unless it is a node or nodes, `ShapeError` if there is none."""
    if isinstance(outputs, BaseNode):
        return [outputs]
    if not isinstance(outputs, Sequence):
        if isinstance(outputs, Mapping):
            raise DTypeError(f"{who} takes a node or a list of nodes, not a dict: give list(outputs.values())")
        raise DTypeError(
            f"{who} takes a node or a list of nodes, not {type(outputs).__name__}: build the graph first, as in "
            f"{who.replace('wyrm.', 'wy.')}(model(x))"
        )
    nodes: list[BaseNode] = []
    for output in outputs:
        if not isinstance(output, BaseNode):
            raise DTypeError(f"{who} takes nodes, not {type(output).__name__}")
        nodes.append(output)
    if not nodes:
        raise ShapeError(f"{who} needs at least one output")
    return nodes


def check_metrics(metrics: Mapping[str, BaseNode], single: bool, several_losses: bool) -> None:
    """Raise `OptionError`, `TypeError` or `NotDifferentiable` unless these can be the metrics of a program."""
    if several_losses:
        raise NotDifferentiable(
            "a program trains one loss, not a list: pass the others as metrics={'accuracy': accuracy}, or add them up"
        )
    if not isinstance(metrics, Mapping):
        raise TypeError(
            f"metrics must be a dict of scalar nodes by name, not {type(metrics).__name__}: "
            f"metrics={{'accuracy': (logits.argmax(axis=-1) == labels).astype(np.float32).mean()}}"
        )
    if metrics and not single:
        raise TypeError("metrics stand beside a single loss; give all outputs in one list, or all but one as metrics")
    for name, node in metrics.items():
        if not isinstance(name, str) or name == "loss":
            raise OptionError(f"the name of a metric must be a string other than 'loss', not {name!r}")
        if not isinstance(node, Node) or node.dims != () or node.dtype.kind != "f":
            given = describe(node) if isinstance(node, BaseNode) else type(node).__name__
            raise OptionError(
                f"the metric {name!r} must be a scalar float node, not {given}; take the mean over the rows, as in "
                f"(labels == predicted).astype(np.float32).mean()"
            )


def apart(metrics: Metrics | None) -> Mapping[str, BaseNode] | None:
    """Return copies of metrics, so that a metric that is an element of a parameter has its value before the step."""
    if not isinstance(metrics, Mapping):
        return metrics
    return {name: node * 1.0 if isinstance(node, Node) and not node.dims else node for name, node in metrics.items()}


def check_optimizer(optimizer: object) -> None:
    """Raise `TypeError` unless this is an optimizer or None."""
    # A module has a method `parameters`.
    if optimizer is not None and not isinstance(getattr(optimizer, "parameters", None), Sequence):
        raise TypeError(
            f"wyrm.compile takes an optimizer, as in wy.optim.SGD(loss.parameters(), learning_rate=0.1), "
            f"not {optimizer!r}"
        )


def checked_counts(state: object) -> tuple[int, int]:
    """Return the steps and epochs of a program's state; raise `CheckpointError` unless it is one."""
    if not isinstance(state, Mapping) or set(state) != {"steps", "epochs"}:
        raise CheckpointError(f"the state of a program must be {{'steps': ..., 'epochs': ...}}, not {state!r}")
    for name, count in state.items():
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 0 <= count < MOST_STEPS:
            raise CheckpointError(
                f"{name} of a program must be an integer of at least 0 and below 2**62, not {count!r}"
            )
    return int(state["steps"]), int(state["epochs"])


class EngineOptions(LoopOptions, DeviceOptions, DTypeOptions, total=False):
    """The options of `wyrm.compile` that choose an engine, and those of wyrm's own engines.

    - `engine`: "native", machine code for this processor, "jax", which compiles for JAX's devices, or a name given to
      `wyrm.engines.register`.
    - `remat`: the names of modules whose values the backward pass recomputes; see `wyrm.compile`.
    """

    engine: EngineName | str  # the names that an editor completes
    remat: str | Collection[str]


def without_defaults(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options without those of wyrm's engines that are None or "auto", their defaults."""
    known = EngineOptions.__annotations__
    return {
        name: value
        for name, value in options.items()
        if name not in known or not (value is None or (isinstance(value, str) and value == "auto"))
    }
