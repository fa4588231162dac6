"""Mistakes raise errors early, with messages that say what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import (
    DTypeError,
    IndexOutOfRange,
    NotDifferentiable,
    NotFinite,
    NotSet,
    ShapeError,
    UnusedParameter,
    WyrmError,
)


class Batch(wy.Dim): ...


class Hidden(wy.Dim): ...


class Width(wy.Dim): ...


def images() -> Any:
    x: Any = wy.Input(np.ones((2, 3), np.float32), dims=(Batch(2), Hidden(3)), name="images")
    return x


def weights(*shape: int, dtype: Any = np.float32) -> Any:
    w: Any = wy.Parameter(np.ones(shape, dtype), name="weights")
    return w


MISFITS: dict[str, tuple[Callable[[], Any], str]] = {
    "add": (lambda: images() + weights(2, 4), "Hidden(3) against 4"),
    "named": (
        lambda: images() + wy.Parameter(np.ones(3, np.float32), dims=(Width,), name="weights"),
        "different names",
    ),
    "matmul": (lambda: images() @ weights(4, 5), "last axis of left and second-to-last axis of right do not match"),
    "vector_dot": (lambda: images().vector_dot(weights(2, 4)), "Hidden(3) against 4"),
    "concatenate": (lambda: wy.concatenate([images(), weights(3, 3)], axis=1), "Batch(2) against 3"),
    "stack": (lambda: wy.stack([images(), weights(2, 4)]), "Hidden(3) against 4"),
    "where": (lambda: wy.where(images() > 0.0, weights(5, 1), 0.0), "Batch(2) against 5"),
    "einsum": (lambda: wy.einsum("bh,hw->bw", images(), weights(4, 5)), "axis 'h'"),
    "cross_entropy": (lambda: images().cross_entropy(wy.IndexInput([0, 1, 2], name="weights")), "Batch(2) against 3"),
    "scatter_add": (lambda: images().scatter_add([0], weights(2, 3)), "2 against 1"),
    "take_along_axis": (lambda: images().take_along_axis(wy.IndexInput(np.zeros((3, 1), int), name="weights")), "3"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_shapes_that_do_not_fit_name_both_operands_their_shapes_and_the_line(name: str) -> None:
    build, reason = MISFITS[name]
    with pytest.raises(ShapeError) as error:
        build()
    message = str(error.value)
    first, *operands, last = message.splitlines()
    op = {"add": "add", "named": "add", "matmul": "matmul"}.get(name, name)
    assert first.startswith(op) and reason in first
    text = "\n".join(operands)
    assert "images (Batch(2), Hidden(3)) float32" in text or "greater (Batch(2), Hidden(3)) bool" in text
    assert "weights (" in text
    assert __file__ in last and "lambda: " in last
    assert isinstance(error.value, ValueError)


UNARY_MISFITS: dict[str, tuple[Callable[[], Any], str]] = {
    "reshape": (lambda: images().reshape(4, 2), "6 elements against 8"),
    "broadcast_to": (lambda: images().broadcast_to((2, 4)), "Hidden(3) against 4"),
    "transpose": (lambda: images().transpose(0, 0), "must name each of the 2 axes once"),
    "sum": (lambda: images().sum(axis=2), "axis 2 is out of range for 2 axes"),
    "softmax": (lambda: images().softmax(axis=-3), "axis -3 is out of range for 2 axes"),
    "mean": (lambda: images().mean(axis=(0, 0)), "names an axis twice"),
}


@pytest.mark.parametrize("name", UNARY_MISFITS)
def test_attributes_that_do_not_fit_the_operand(name: str) -> None:
    build, reason = UNARY_MISFITS[name]
    with pytest.raises(ShapeError) as error:
        build()
    message = str(error.value)
    assert message.startswith(name) and reason in message
    assert "operand  images (Batch(2), Hidden(3)) float32" in message
    assert __file__ in message and "lambda: images()" in message


@pytest.mark.parametrize(
    "build",
    [
        lambda x, w: x + w,
        lambda x, w: x @ w.T,
        lambda x, w: wy.where(x > 0.0, x, w),
        lambda x, w: wy.concatenate([x, w]),
        lambda x, w: x > w,
        lambda x, w: x.scatter_add([0, 1], w),
    ],
)
def test_mixed_float_types_say_how_to_convert(build: Callable[[Any, Any], Any]) -> None:
    wide = wy.Parameter(np.ones((2, 3)), name="wide")
    with pytest.raises(DTypeError, match=r"do not mix; convert one, as in \w+\.astype\(float(32|64)\)") as error:
        build(images(), wide)
    message = str(error.value)
    assert "images (Batch(2), Hidden(3)) float32" in message or "transpose" in message
    assert "wide (2, 3) float64" in message or "transpose (3, 2) float64" in message
    assert isinstance(error.value, TypeError)
    build(images(), wide.astype(np.float32)).forward()


def test_an_index_beyond_its_table_is_found_before_anything_changes() -> None:
    users = wy.IndexInput([0, 1], name="users")
    table = wy.Parameter(np.ones((3, 2)), name="table")
    loss = table.index(users).sum()
    loss.backward()
    before = table.gradient
    with pytest.raises(
        IndexOutOfRange, match=r"users .*holds 3 at position \(1,\), but index of table at .* takes 0 to 2"
    ) as error:
        users.set([0, 3])
    assert isinstance(error.value, IndexError)
    assert users.value.tolist() == [0, 1]
    np.testing.assert_array_equal(table.gradient, before)


def test_an_index_that_is_beyond_its_table_from_the_start() -> None:
    with pytest.raises(IndexOutOfRange, match="takes 0 to 2"):
        wy.Parameter(np.ones((3, 2))).index([3])
    with pytest.raises(IndexOutOfRange, match="holds -1"):
        wy.Parameter(np.ones((3, 2))).index([-1])


def test_an_axis_that_is_bound_twice_to_different_sizes() -> None:
    x: Any = wy.Input(dims=(Batch(), 2), name="x")
    y: Any = wy.Input(dims=(Batch(), 2), name="y")
    loss = (x * y).sum()
    x.set(np.ones((3, 2)))
    y.set(np.ones((4, 2)))
    with pytest.raises(ShapeError, match=r"axis Batch is 4 in the data of y .* and 3 in x"):
        loss.forward()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_data_that_is_not_finite_is_named(value: float) -> None:
    data = np.array([[1.0, 2.0], [3.0, value]])
    for make in (wy.Parameter, wy.Input):
        with pytest.raises(
            NotFinite, match=rf"data \(2, 2\) float64 .*was given {value} at position \(1, 1\)"
        ) as error:
            make(data, name="data")
        assert isinstance(error.value, FloatingPointError)
    x = wy.Input(np.ones((2, 2)), name="x")
    with pytest.raises(NotFinite, match=r"x .*declare the input with finite=False"):
        x.set(data)
    assert x.value.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_a_gradient_by_an_integer() -> None:
    users = wy.IndexInput([0, 1], name="users")
    loss = wy.Parameter(np.ones((3, 2))).index(users).sum()
    with pytest.raises(NotDifferentiable, match=r"users \(2,\) int64 .*only float32 and float64 nodes have gradients"):
        wy.grad(loss, users)  # type: ignore[call-overload]  # integers


def test_a_gradient_by_what_is_not_used() -> None:
    used, unused = wy.Parameter(1.0, name="used"), wy.Parameter(1.0, name="unused")
    with pytest.raises(UnusedParameter, match=r"square .*does not depend on unused .*leave it out of wrt"):
        wy.grad(used.square(), [used, unused])


def test_item_assignment_says_which_op_to_use() -> None:
    w = weights(2, 3)
    with pytest.raises(TypeError, match=r"weights .*node\.at\[key\]\.set\(values\) .*wy\.where\(mask, new, old\)"):
        w[0] = 1.0


def test_a_run_without_data_says_how_to_bind_it() -> None:
    x = wy.Input(name="x")
    with pytest.raises(NotSet, match=r"x .*bind some with x\.set\(value\)"):
        (x * 2.0).forward()


def test_every_error_is_a_wyrm_error() -> None:
    from wyrm import errors

    classes = [each for each in vars(errors).values() if isinstance(each, type) and not issubclass(each, Warning)]
    assert all(issubclass(error, WyrmError) for error in classes)
    assert all(len(error.__mro__) > len(WyrmError.__mro__) for error in classes if error is not WyrmError)
