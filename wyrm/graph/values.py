"""`value` and `forward` of nodes, and the gradient that `backward` starts from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from wyrm.errors import MissingValue, OptionError, ShapeError
from wyrm.graph.axes import axis_size, ragged_axis
from wyrm.graph.base import BaseNode, describe, label
from wyrm.graph.op import Runner, cell_of, new_runner, runner_of
from wyrm.graph.ragged import held_rows
from wyrm.graph.storage import LARGEST, float_array, frozen, not_set, stored
from wyrm.graph.traversal import topological_order
from wyrm.support.options import number

Value = TypeVar("Value")


class Node(Generic[Value]):
    """The value of a node; Python's errors about arguments name this class as the one that inherits it."""

    __slots__ = ()

    @property
    def value(self: Any) -> Value:
        """The value that the last `forward()` cached (read-only); raise `MissingValue` if there is none."""
        array: Any
        if ragged_axis(self.dims) is not None:
            found: Any = held_rows(self) if self.is_leaf else None if (known := runner_of(self)) is None else known.rows
            if found is None:
                raise _no_value(self)
            return found  # type: ignore[no-any-return]  # a `RaggedArray`
        if self.is_leaf:
            array = stored(self).array
            if array is None:
                raise _no_value(self)
        else:
            cell = cell_of(self)
            array = None if cell is None else cell.value
            if array is None:
                raise _no_value(self)
        value: Value = frozen(array)
        return value

    if TYPE_CHECKING:

        def forward(self) -> Value:
            """Compute the value, recomputing only what changed, and return it (read-only)."""
            raise NotImplementedError

    else:  # hidden from type checkers, so that they reject arguments too

        def forward(self: Any, *given: object) -> Any:
            """Compute the value, recomputing only what changed, and return it (read-only).

            It takes no arguments, and nodes are not called: `input.set(array)` gives data, or
            `wy.compile(x)({input: array})`.
            """
            if given:
                raise TypeError(
                    f"forward() of {describe(self)} takes no arguments: bind data with input.set(array), or use "
                    f"wy.compile(x)({{input: array}})"
                )
            runner = runner_of(self)
            if runner is None:
                if self.is_leaf:
                    value = self.value
                    return value
                runner = new_runner(self)
            else:
                value = runner.current_value()
                if value is not None:
                    return value
            value = runner.forward(self)
            return value


def _no_value(node: BaseNode) -> MissingValue:
    """Return the error for a node without a value: in a traced function, nothing is computed yet."""
    argument = next((leaf for leaf in topological_order([node]) if leaf.is_argument), None)
    if argument is not None:
        return MissingValue(
            f"{describe(node)} has no value while a function of {label(argument)} is traced: return the node from the "
            f"function, or pass a number known before by keyword"
        )
    if node.is_leaf:
        return MissingValue(str(not_set(node, "bind some with .set(value)")))
    return MissingValue(f"{describe(node)} has no value yet: call .forward() on it, or on a node that depends on it")


def runner_for(node: BaseNode) -> Runner:
    """Return the runner of a node, which is made on first use."""
    runner: Runner = runner_of(node) or new_runner(node)
    return runner


def start_of_gradient(node: BaseNode, weight: float, gradient: object) -> Any:
    """Return the array that `backward` starts from: the weight, times a number for each element where they are given.

    Raise `ShapeError` for a node that is not a scalar without `gradient`, and for a `gradient` of another shape.
    """
    given = checked_weight(weight, node.dtype)
    dims: Any = node.dims
    if gradient is not None:
        return given * _gradient_of_elements(node, gradient)
    if len(dims) != 0:
        raise ShapeError(
            f"backward() takes a scalar, not {describe(node)}: reduce it with .sum() or .mean() first, or give a "
            f"number for each element, as in node.backward(gradient=np.ones(node.value.shape)); wy.vjp(output, "
            f"wrt, cotangent) returns such a gradient as a node"
        )
    return given


def _gradient_of_elements(node: BaseNode, gradient: object) -> Any:
    """Return a number for each element of a node as an array of its dtype; raise `ShapeError` for another shape."""
    if isinstance(gradient, BaseNode):
        raise TypeError(
            f"backward() of {describe(node)}: gradient must hold numbers, not {describe(gradient)}; for a gradient as "
            f"a node use wy.vjp(output, wrt, cotangent)"
        )
    array = float_array(gradient, node.dtype, lambda: f"gradient of backward() of {describe(node)}")
    dims: Any = node.dims
    if len(dims) != array.ndim or any(
        axis_size(axis) not in (None, size) for axis, size in zip(dims, array.shape, strict=True)
    ):
        raise ShapeError(
            f"backward() of {describe(node)}: gradient must have one number for each element, not the shape "
            f"{array.shape}"
        )
    return array


def checked_weight(weight: float, dtype: np.dtype) -> Any:
    """Return the weight of a gradient as a scalar of a dtype; raise `OptionError` unless it is finite there."""
    found = number("weight", weight)
    if abs(found) > LARGEST[dtype]:
        raise OptionError(f"weight must be finite in {dtype}, not {weight}")
    return dtype.type(found)
