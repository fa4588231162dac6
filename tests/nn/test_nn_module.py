from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import wyrm as wy


class Block(wy.nn.Module):
    def __init__(self) -> None:
        self.scale = wy.Parameter.zeros((2,), name="scale")
        self.shift = wy.Parameter.zeros((2,), name="shift")


class Model(wy.nn.Module):
    def __init__(self) -> None:
        self.table = wy.Parameter.zeros((3, 2))
        self.blocks = [Block(), Block()]
        self.heads = {"left": Block(), "right": (wy.Parameter.zeros((1,)), Block())}
        self.name = "a model"
        self.last = wy.Parameter.zeros(())


class Deep(wy.nn.Module):
    def __init__(self, inner: Any) -> None:
        self.inner = inner


def test_parameters_are_named_by_path_in_the_order_of_definition() -> None:
    assert [name for name, _ in Model().named_parameters()] == [
        "table",
        "blocks.0.scale",
        "blocks.0.shift",
        "blocks.1.scale",
        "blocks.1.shift",
        "heads.left.scale",
        "heads.left.shift",
        "heads.right.0",
        "heads.right.1.scale",
        "heads.right.1.shift",
        "last",
    ]


def test_parameters_are_those_that_are_named() -> None:
    model = Model()
    assert [*map(id, model.parameters())] == [id(parameter) for _, parameter in model.named_parameters()]
    assert dict(model.named_parameters())["blocks.1.scale"] is model.blocks[1].scale


def test_modules_begin_with_the_module_itself() -> None:
    model = Model()
    modules = model.modules()
    assert modules[0] is model
    assert [type(module) for module in modules[1:]] == [Block] * 4
    assert modules[1] is model.blocks[0]


def test_a_shared_parameter_is_found_once_under_its_first_path() -> None:
    class Tied(wy.nn.Module):
        def __init__(self) -> None:
            self.first = Block()
            self.second = Block()
            self.second.scale = self.first.scale

    tied = Tied()
    assert list(dict(tied.named_parameters())) == ["first.scale", "first.shift", "second.shift"]
    assert len(tied.parameters()) == 3


def test_a_shared_module_is_found_once() -> None:
    block = Block()
    assert list(dict(Deep([block, block]).named_parameters())) == ["inner.0.scale", "inner.0.shift"]
    assert len(Deep([block, block]).modules()) == 2


def test_repr_says_what_is_shared() -> None:
    block = Block()
    assert repr(Deep([block, wy.nn.relu, block, wy.nn.relu, block.scale])).splitlines() == [
        "Deep",
        "  inner.0: Block",
        "  inner.0.scale: Parameter (2,) float32",
        "  inner.0.shift: Parameter (2,) float32",
        "  inner.1: relu()",
        "  inner.2: Block, the same as inner.0",
        "  inner.3: relu()",
        "  inner.4: Parameter (2,) float32, the same as inner.0.scale",
    ]


def test_modules_that_hold_each_other_are_walked_once() -> None:
    block, owner = Block(), Deep(None)
    owner.inner = [block, owner]
    owner.inner.append(owner.inner)
    assert list(dict(owner.named_parameters())) == ["inner.0.scale", "inner.0.shift"]
    assert repr(owner).splitlines()[0] == "Deep"
    assert repr(owner).splitlines()[-1] == "  inner.1: Deep, the same as the whole"


def test_depth_is_no_limit() -> None:
    module: wy.nn.Module = Block()
    for _ in range(1500):
        module = Deep(module)
    assert len(module.parameters()) == 2
    assert len(module.modules()) == 1501
    assert module.eval().modules()[-1].training is False
    assert "scale: Parameter (2,) float32" in repr(module)


def test_setting_and_deleting_an_attribute_is_plain() -> None:
    model = Model()
    model.blocks.append(Block())
    model.table = wy.Parameter.zeros((5, 2))
    del model.last
    names = dict(model.named_parameters())
    assert names["table"].shape == (5, 2)
    assert "blocks.2.shift" in names and "last" not in names


def test_a_node_made_of_parameters_is_no_parameter() -> None:
    block = Block()
    assert Deep(block.scale + block.shift).parameters() == []


def test_a_module_needs_no_call_of_the_base_init() -> None:
    class Plain(wy.nn.Module):
        def __init__(self) -> None:
            self.weight = wy.Parameter.zeros((1,))

    assert Plain().training is True
    assert list(dict(Plain().named_parameters())) == ["weight"]


def test_a_module_without_parameters_has_none() -> None:
    assert wy.nn.Module().named_parameters() == []
    assert repr(wy.nn.Module()) == "Module"


def test_attributes_may_have_the_names_of_methods_of_other_libraries() -> None:
    class Named(wy.nn.Module):
        def __init__(self) -> None:
            self.items = Block()
            self.keys = [Block()]

    assert list(dict(Named().named_parameters())) == ["items.scale", "items.shift", "keys.0.scale", "keys.0.shift"]


def test_two_parameters_of_one_path_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"Deep has two parameters of the path 'inner\.1\.scale'"):
        Deep({1: Block(), "1": Block()}).named_parameters()


def test_a_key_with_a_dot_that_meets_a_path_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"the path 'inner\.a\.scale'"):
        Deep({"a.scale": wy.Parameter(1.0), "a": Block()}).named_parameters()


def test_parameters_in_a_set_are_an_error() -> None:
    with pytest.raises(TypeError, match="inner is a set, so its members have no order"):
        Deep({wy.Parameter(1.0)}).parameters()


def test_a_set_of_other_things_is_no_error() -> None:
    assert Deep({"relu", "tanh"}).parameters() == []


def test_train_and_evaluate_reach_every_module_and_return_the_module() -> None:
    model = Model()
    assert model.eval() is model
    assert [module.training for module in model.modules()] == [False] * 5
    assert model.train() is model
    assert [module.training for module in model.modules()] == [True] * 5


def test_the_mode_of_one_module_is_its_own() -> None:
    first, second = Model(), Model()
    first.eval()
    assert second.training and second.blocks[0].training


def test_repr_is_an_outline_by_path() -> None:
    assert repr(Model()).splitlines() == [
        "Model",
        "  table: Parameter (3, 2) float32",
        "  blocks.0: Block",
        "  blocks.0.scale: Parameter (2,) float32",
        "  blocks.0.shift: Parameter (2,) float32",
        "  blocks.1: Block",
        "  blocks.1.scale: Parameter (2,) float32",
        "  blocks.1.shift: Parameter (2,) float32",
        "  heads.left: Block",
        "  heads.left.scale: Parameter (2,) float32",
        "  heads.left.shift: Parameter (2,) float32",
        "  heads.right.0: Parameter (1,) float32",
        "  heads.right.1: Block",
        "  heads.right.1.scale: Parameter (2,) float32",
        "  heads.right.1.shift: Parameter (2,) float32",
        "  last: Parameter () float32",
    ]


def test_repr_shows_a_module_as_that_shows_itself() -> None:
    class Quiet(Block):
        def __repr__(self) -> str:
            return "Quiet(2,\n  3)"

    assert repr(Deep([Quiet(), wy.nn.Linear(2, 3)])) == "Deep\n  inner.0: Quiet(2,\n    3)\n  inner.1: Linear(2, 3)"


def test_pickle_keeps_names_values_mode_and_sharing() -> None:
    model = Model().eval()
    model.blocks[1].scale = model.blocks[0].scale
    model.table.set(np.arange(6.0).reshape(3, 2))
    again = pickle.loads(pickle.dumps(model))
    assert list(dict(again.named_parameters())) == list(dict(model.named_parameters()))
    assert again.training is False
    assert again.blocks[1].scale is again.blocks[0].scale
    np.testing.assert_array_equal(again.table.value, model.table.value)


def test_a_deep_copy_has_parameters_of_its_own() -> None:
    model = Model()
    other = copy.deepcopy(model)
    other.table.set(np.ones((3, 2)))
    assert not model.table.value.any()


def test_a_state_is_a_copy_that_is_set_again() -> None:
    model = wy.nn.Linear(2, 3) >> wy.nn.BatchNorm(3)
    state = model.state_dict()
    assert list(state) == [name for name, _ in (*model.named_parameters(), *model.named_buffers())]
    weight = model.parameters()[0]
    before = weight.value.copy()
    weight.set(2.0 * before)
    np.testing.assert_array_equal(state["layers.0.weight"], before)
    model.load_state_dict(state)
    np.testing.assert_array_equal(weight.value, before)
    state["layers.0.weight"][:] = 7.0
    np.testing.assert_array_equal(weight.value, before)


def test_a_state_that_does_not_fit_sets_nothing() -> None:
    model = wy.nn.Linear(2, 3)
    before = model.state_dict()
    state = {"weight": np.ones((3, 2), np.float32), "bais": np.ones(3, np.float32)}
    with pytest.raises(wy.errors.CheckpointError) as error:
        model.load_state_dict(state)
    assert str(error.value).splitlines() == [
        "the state does not match the parameters of Linear:",
        "  missing in the state: bias",
        "  extra in the state: bais",
        "  weight: (3, 2) float32 in the state, (2, 3) float32 here",
    ]
    with pytest.raises(wy.errors.CheckpointError, match="bias: a NaN or an infinity in the state"):
        model.load_state_dict(before | {"bias": np.full(3, np.nan, np.float32)})
    np.testing.assert_array_equal(model.weight.value, before["weight"])
