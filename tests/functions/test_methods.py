"""The methods of nodes as functions of the top level, and the constants that are made by their axes."""

from __future__ import annotations

import builtins
from typing import Any, assert_type

import numpy as np
import pytest

import wyrm as wy
from wyrm.declare import functions as declared
from wyrm.graph.registration import FUNCTIONS
from wyrm.ops.elementwise.exponential import Exp
from wyrm.ops.reducing.reduction import Sum

X = np.random.default_rng(0).uniform(0.1, 0.9, (2, 3, 4)).astype(np.float32)
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "astype": (np.float64,),
    "broadcast_to": ((5, 2, 3, 4),),
    "clip": (0.2, 0.8),
    "expand_dims": (1,),
    "maximum": (0.5,),
    "minimum": (0.5,),
    "repeat": (2,),
    "reshape": (6, 4),
    "split": (2,),
    "swapaxes": (0, 1),
    "take": (np.array([1, 0]),),
    "take_along_axis": (np.zeros((2, 3, 1), np.int64),),
}


class Batch(wy.Dim): ...


class Hidden(wy.Dim): ...


@pytest.mark.parametrize("name", [name for name in declared.modules() if hasattr(wy.Node, name)])
def test_a_function_does_what_the_method_does(name: str) -> None:
    function, node, arguments = getattr(wy, name), wy.Constant(X), ARGUMENTS.get(name, ())
    expected = getattr(node, name)(*arguments)
    for x in (node, X):
        found = function(x, *arguments)
        pairs = zip(found, expected, strict=True) if isinstance(found, list) else [(found, expected)]
        for one, other in pairs:
            np.testing.assert_array_equal(one.forward(), other.forward())
    assert function.__name__ == name and function.__doc__ == getattr(wy.Node, name).__doc__


@pytest.mark.parametrize("name", [name for name in declared.modules() if name in FUNCTIONS])
def test_a_function_constructs_its_op(name: str) -> None:
    function: Any = getattr(wy.special if "." in name else wy, name.removeprefix("special."))
    operands = [X.astype(np.float64) + 1.0 / (2 + i) for i in range(function.__code__.co_argcount)]
    found, op = function(*map(wy.Constant, operands)), FUNCTIONS[name]
    assert found.op_name() == op.op_name() and found.dtype in (np.float64, np.bool_)
    np.testing.assert_array_equal(function(*operands).forward(), found.forward())
    np.testing.assert_array_equal(function(wy.Constant(operands[0]), *operands[1:]).forward(), found.forward())
    assert function.__name__ == name.removeprefix("special.") and function.__doc__ == op.__doc__


def test_numbers_take_the_dtype_beside_them() -> None:
    x = wy.Constant(np.array([-1.0, 2.0]))
    found = wy.maximum(0.0, x)
    assert found.dtype == np.float64 and found.forward().tolist() == [0.0, 2.0]
    assert wy.exp(0.0).forward() == 1.0


def test_functions_are_typed_as_the_methods_are() -> None:
    x = wy.Input(dims=(Batch(2), Hidden(3)))
    assert_type(wy.sum(x, axis=-1), Sum[wy.Input[tuple[Batch, Hidden]], tuple[Batch]])
    assert_type(wy.exp(x), Exp[wy.Input[tuple[Batch, Hidden]], tuple[Batch, Hidden]])
    assert_type(wy.exp(X), wy.Node[Any, Any])


def test_star_import_leaves_the_builtins_alone() -> None:
    assert not set(wy.__all__) & set(vars(builtins)) - {"compile"}


def test_constants_by_their_axes() -> None:
    named = wy.zeros((Batch(2), Hidden(3)))
    assert_type(named, wy.Node[Any, tuple[Batch, Hidden]])
    assert named.dims == (Batch(2), Hidden(3)) and not named.value.any()
    assert wy.ones(3).value.tolist() == [1.0, 1.0, 1.0]
    assert wy.ones((Batch(2), 2)).dims == (Batch(2), 2)
    assert wy.full((2,), 7.0, np.float64).value.tolist() == [7.0, 7.0]
    assert wy.zeros([2, 1], np.float64).dtype == np.float64


def test_a_shape_that_is_not_one_tuple_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"the shape must be one tuple, as in wy\.zeros\(\(2, 3\)\)"):
        wy.zeros(2, 3)  # type: ignore[call-overload]  # as in PyTorch


def test_likes_have_the_axes_of_data_that_comes_later() -> None:
    x = wy.Input(dims=(Batch(), 2), dtype=np.float64)
    likes = [wy.zeros_like(x), wy.ones_like(x), wy.full_like(x, 3.0), wy.ones_like(x, np.float32)]
    x.set(np.zeros((3, 2)))
    assert [float(like.forward().sum()) for like in likes] == [0.0, 6.0, 18.0, 6.0]
    assert [like.dtype for like in likes] == [np.float64, np.float64, np.float64, np.float32]
    assert wy.ones_like(np.zeros(2)).forward().tolist() == [1.0, 1.0]
    assert wy.zeros_like(x > 0.0).forward().dtype == np.bool_


def test_a_range_is_of_integers_or_of_numbers() -> None:
    assert_type(wy.arange(3), wy.IndexConstant[Any])
    assert wy.arange(1, 6, 2).value.tolist() == [1, 3, 5]
    assert wy.arange(0.0, 1.0, 0.5).value.tolist() == [0.0, 0.5]
    assert wy.arange(3.0).dtype == np.float32
