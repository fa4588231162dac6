"""Nodes know the module whose call builds them, and its path in the outermost module."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.graph.traversal import topological_order


class Gate(wy.nn.Module):
    """One operation, with a path of its own."""

    def __init__(self) -> None:
        self.bias = wy.Parameter([1.0, 2.0], name="bias")

    def __call__(self, x: Any) -> Any:
        return x * self.bias


class Block(wy.nn.Module):
    def __init__(self) -> None:
        self.inner = Gate()

    def __call__(self, x: Any) -> Any:
        return self.inner(x).tanh()


class Model(wy.nn.Module):
    def __init__(self) -> None:
        self.numbers = list(range(1000))
        self.blocks = [Block(), Block()]
        self.named: dict[str, Any] = {"a": Gate(), "b": (Gate(), [Gate()])}
        self.last = Gate()

    def __call__(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        for gate in (self.named["a"], self.named["b"][0], self.named["b"][1][0]):
            x = gate(x)
        return self.last(x).sum()


def paths(*outputs: Any) -> list[str]:
    """Return the paths of the operations, in order of computation."""
    return [node.module_path for node in topological_order(outputs) if not node.is_leaf]


PATHS = [
    "blocks[0].inner", "blocks[0]", "blocks[1].inner", "blocks[1]", "named['a']", "named['b'][0]", "named['b'][1][0]",
    "last", "",
]  # fmt: skip


def test_paths_lead_through_attributes_and_containers() -> None:
    assert paths(Model()(wy.Input(dims=(2,)))) == PATHS


def test_nodes_outside_of_modules_have_no_path() -> None:
    x = wy.Input(dims=(2,))
    node = Gate()(x + 1.0) * 2.0
    calls = [each.origin[2] for each in topological_order([node]) if not each.is_leaf]
    assert [None if call is None else call.kind for call in calls] == [None, "Gate", None]
    assert paths(node) == ["", "", ""]


def test_the_line_is_the_users_as_before() -> None:
    layer = wy.nn.Linear(2, 3)
    node: Any = layer(wy.Input(dims=(2,)))
    assert node.location.source == "node: Any = layer(wy.Input(dims=(2,)))"


def test_a_module_that_another_one_holds_or_none_does() -> None:
    class Inside(wy.nn.Module):
        def __init__(self, block: Block) -> None:
            self.block = block

        def __call__(self, x: Any, passed: Any) -> Any:
            return wy.nn.tanh(self.block.inner(passed(x)))

    class Outside(wy.nn.Module):
        def __init__(self) -> None:
            self.given, self.inside = Gate(), Inside(Block())

        def __call__(self, x: Any) -> Any:
            return self.inside(x, self.given)

    x = wy.Input(dims=(2,))
    node = Outside()(x)
    assert paths(node) == ["given", "inside.block.inner", "inside.Activation"]
    calls = [each.origin[2] for each in topological_order([node]) if not each.is_leaf]
    assert {call.outer.path for call in calls if call is not None and call.outer is not None} == {"inside"}


def test_each_call_is_an_object_of_its_own() -> None:
    gate, x = Gate(), wy.Input(dims=(2,))
    first, second = gate(x), gate(x)
    assert first.origin[2] is not second.origin[2]


def test_the_call_of_a_base_class_is_the_same_call() -> None:
    class Doubled(Block):
        def __call__(self, x: Any) -> Any:
            return super().__call__(x) * 2.0

    node = Doubled()(wy.Input(dims=(2,)))
    assert paths(node) == ["inner", "", ""]
    calls = {each.origin[2] for each in topological_order([node]) if each.module_path == "" and not each.is_leaf}
    assert len(calls) == 1


def test_gradients_belong_to_the_module_of_their_node() -> None:
    model = Model()
    loss = model(wy.Input(dims=(2,)))
    gradients = wy.grad(loss)
    built = [node for node in topological_order(gradients) if not node.is_leaf]
    assert {"blocks[0].inner", "blocks[1]", "last"} <= {node.module_path for node in built}
    assert [gradient.module_path for gradient in gradients][:2] == ["blocks[0].inner", "blocks[1].inner"]


@pytest.mark.parametrize("copied", [lambda node: pickle.loads(pickle.dumps(node)), copy.deepcopy])
def test_copies_keep_the_paths(copied: Any) -> None:
    loss = Model()(wy.Input(dims=(2,)))
    again = copied(loss)
    assert paths(again) == PATHS
    calls = {node.origin[2] for node in topological_order([again]) if node.module_path == "blocks[0]"}
    assert len(calls) == 1


def test_vmap_functions_loops_and_checkpoints_keep_the_paths() -> None:
    block = Block()

    class Outer(wy.nn.Module):
        def __init__(self) -> None:
            self.block = block

        def __call__(self, x: Any) -> Any:
            return self.block(x)

    outer = Outer()
    rows: Any = wy.vmap(outer)(wy.Input(dims=(3, 2)))
    assert {"block.inner", "block"} <= set(paths(rows))
    again: Any = wy.checkpoint(outer, wy.Input(dims=(2,)))
    assert {"block.inner", "block"} <= set(paths(again))
    gradient = wy.grad(again.sum(), block.inner.bias)
    assert {"block.inner", "block"} <= set(paths(gradient))
    traced = wy.function(outer)
    traced(np.ones(2, np.float32))
    assert {"block.inner", "block"} <= set(paths(*traced._last_call().trace.outputs))


def test_no_node_keeps_a_module_alive() -> None:
    model = Model()
    loss = model(wy.Input(dims=(2,)))
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None
    assert paths(loss) == PATHS


def test_an_error_in_a_call_ends_it() -> None:
    class Wrong(wy.nn.Module):
        def __init__(self) -> None:
            self.linear = wy.nn.Linear(3, 4)

        def __call__(self, x: Any) -> Any:
            return self.linear(x)

    x = wy.Input(dims=(2,))
    with pytest.raises(wy.errors.ShapeError):
        Wrong()(x)
    node = x + 1.0
    assert node.origin[2] is None


def test_threads_do_not_see_each_others_calls() -> None:
    entered, leave = threading.Event(), threading.Event()

    class Slow(wy.nn.Module):
        def __call__(self, x: Any) -> Any:
            entered.set()
            assert leave.wait(60)
            return x + 1.0

    x, built = wy.Input(dims=(2,)), list[Any]()
    thread = threading.Thread(target=lambda: built.append(Slow()(x)))
    thread.start()
    assert entered.wait(60)
    node = x * 2.0
    leave.set()
    thread.join()
    assert node.origin[2] is None
    assert built[0].origin[2].kind == "Slow"


def test_a_long_sequence_is_named_by_position() -> None:
    layers: Sequence[Any] = [Gate() for _ in range(300)]
    node = wy.nn.Sequential(*layers)(wy.Input(dims=(2,)))
    assert paths(node) == [f"layers[{position}]" for position in range(300)]


def test_an_activation_that_no_module_holds_is_looked_up_once_for_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    from wyrm import module as module_calls

    class Layer(wy.nn.Module):
        def __init__(self) -> None:
            self.gates = {"first": Gate()}

        def __call__(self, x: Any) -> Any:
            return wy.nn.tanh(wy.nn.relu(self.gates["first"](x)))

    read = list[object]()
    members = module_calls._members

    def counted(value: object) -> Any:
        read.append(value)
        return members(value)

    monkeypatch.setattr(module_calls, "_members", counted)
    layers = [Layer() for _ in range(20)]
    node = wy.nn.Sequential(*layers)(wy.Input(dims=(2,)))
    assert paths(node)[:3] == ["layers[0].gates['first']", "layers[0].Activation", "layers[0].Activation"]
    # Of the whole: itself, its list, and the layers with their dicts and gates. Of each layer, these once more.
    assert len(read) == 2 + 20 * 3 + 20 * 3
