"""The mode in which modules build graphs, and warnings of a graph that is used in the mode of another purpose.

Dropout and batch normalization build one graph in training and another one in evaluation. A graph that was built in
one mode keeps it, so that a forgotten `train()` or `eval()` gives no error, but worse numbers.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol, TypeVar

from wyrm.graph.base import BaseNode
from wyrm.graph.source_location import ModuleCall, location_of, running, user_level
from wyrm.graph.traversal import topological_order


class HasMode(Protocol):
    """A module, which is in training or in evaluation mode."""

    training: bool


class Mode(NamedTuple):
    """A layer in training mode that built a node, where that is, and the model around it, if there is one.

    `model_trained` is whether the model was in training when it built the node, which counts once it is deleted.
    """

    node: str
    module: weakref.ref[HasMode]
    model: weakref.ref[Any] | None
    model_trained: bool


class _Built(NamedTuple):
    node: weakref.ref[BaseNode]
    kind: str
    module: weakref.ref[HasMode]
    model: weakref.ref[Any] | None
    model_trained: bool


N = TypeVar("N", bound=BaseNode)

# By identity, as long as the node lives.
_built: dict[int, _Built] = {}
# Whether any layer of a model was built in evaluation.
_evaluated = False


def record_training_mode(node: N, module: HasMode) -> N:
    """Record that a module in training mode built a node that it builds differently, or not at all, in evaluation."""
    key = id(node)

    def forget(_: object) -> None:
        _built.pop(key, None)

    outermost = _outermost_call()
    model: Any = None if outermost is None or outermost.module is module else outermost.module
    called = None if outermost is None or model is None else outermost.called
    _built[key] = _Built(
        weakref.ref(node, forget),
        type(module).__name__,
        weakref.ref(module),
        called,
        model is not None and model.training,
    )
    return node


def record_evaluation_mode(module: HasMode) -> None:
    """Record that a module of a model in evaluation built a graph that it builds differently in training."""
    global _evaluated
    outermost = _outermost_call()
    model: Any = None if outermost is None else outermost.module
    if outermost is not None and model is not module and not model.training and outermost.evaluated is None:
        outermost.evaluated, _evaluated = weakref.ref(module), True


def _outermost_call() -> ModuleCall | None:
    """Return the running call of a module that no other module has called."""
    call = running()
    if not isinstance(call, ModuleCall):
        return None
    while call.outer is not None:
        call = call.outer
    return call


def modes_of(outputs: Iterable[BaseNode]) -> list[Mode]:
    """Return what modules built in training among the nodes that `outputs` depend on."""
    if not _built:
        return []
    found = ((node, _built[id(node)]) for node in topological_order(outputs) if id(node) in _built)
    return [
        Mode(f"the graph of {built.kind} ({location_of(node.origin)})", built.module, built.model, built.model_trained)
        for node, built in found
    ]


def warn_of_training(modes: Iterable[Mode], predicts: bool = False) -> None:
    """Issue a `RuntimeWarning` if a graph built in training runs for its value while its module is in evaluation.

    If it `predicts`, also for a model that is still in training: predictions then depend on the batch, or are random.
    """
    for node, reference, of_model, model_trained in modes:
        module, model = reference(), None if of_model is None else of_model()
        trains, text = model_trained if model is None else model.training, ""
        if module is not None and not module.training:
            text = (
                f"{node} was built in training, and the module is in evaluation now; a graph keeps the mode that it "
                f"was built in. For values without training behaviour, build it again after eval(); to continue "
                f"training, call train() on the model first"
            )
        elif predicts and trains:
            text = (
                f"{node} was built in training, so this program's outputs depend on the other rows of the batch or on "
                f"random numbers: build the graph after model.eval(), as in model.eval(); predict = "
                f"wy.compile(model(x)). If that is meant, set the mode of the layer alone: model.eval(); layer.train()"
            )
        if text:
            warnings.warn(text, RuntimeWarning, stacklevel=user_level())
            return


def warn_of_evaluation(outputs: Iterable[BaseNode], trained: Iterable[BaseNode]) -> None:
    """Issue a `RuntimeWarning` if a program trains all parameters of a model that was built in evaluation."""
    if not _evaluated:
        return
    calls = {id(node.origin[2]): node for node in topological_order(outputs) if node.origin[2] is not None}
    parameters = set(map(id, trained))
    for node in calls.values():
        call = node.origin[2]
        while call is not None and call.outer is not None:
            call = call.outer
        if call is None or call.evaluated is None or call.called is None:
            continue
        layer, model = call.evaluated(), call.called()
        if layer is None or model is None or not parameters.issuperset(map(id, model.parameters())):
            continue
        warnings.warn(
            f"the graph of {call.kind} ({location_of(node.origin)}) was built in evaluation, so {type(layer).__name__} "
            f"does in this training what it does in a prediction: build the graph after model.train(), as in "
            f"model.train(); loss = ... If that is meant, set the mode of the layer alone: model.train(); layer.eval()",
            RuntimeWarning,
            stacklevel=user_level(),
        )
        return
