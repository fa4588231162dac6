"""The parts that the recurrent ops share."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Axis, axis_size, product, unify
from wyrm.graph.base import ZERO, Gradient, Undefined, format_dims, label
from wyrm.graph.namespace import ArrayNamespace
from wyrm.graph.node import Node
from wyrm.graph.typing import Array, FloatArray
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes, common_dtype
from wyrm.ops.indexing.slicing import stack

# Least batch * time for which the backward pass copies the transposed weights.
TRANSPOSE_FROM = 256

Value = TypeVar("Value", FloatArray, Node)


class Functions(NamedTuple, Generic[Value]):
    """The functions that the formulas call, for an array namespace or for nodes."""

    sigmoid: Callable[[Value], Value]
    tanh: Callable[[Value], Value]
    where: Callable[[Value, float, Value], Value]
    stack: Callable[[list[Value], int], Value]
    matmul: Callable[[Value, Value], Value]


OF_NODES: Functions[Node] = Functions(lambda x: x.sigmoid(), lambda x: x.tanh(), where, stack, operator.matmul)


def of_arrays(xp: ArrayNamespace) -> Functions[FloatArray]:
    """Return the functions of an array namespace."""

    def sigmoid(x: FloatArray) -> FloatArray:
        power = xp.exp(-xp.abs(x))
        return xp.where(x < 0.0, power, 1.0) / (1.0 + power)

    return Functions(sigmoid, xp.tanh, xp.where, xp.stack, xp.matmul)


class Recurrent(Node[tuple[Node, ...], Axes], abstract=True):
    """Base class of the recurrent ops."""

    __slots__ = ()
    # The layer, for messages.
    layer: ClassVar[str]

    def dtype_rule(self) -> np.dtype:
        return common_dtype(self.parents)


class Residuals(Recurrent[Axes], abstract=True):
    """Base class of the residuals; the parents are the projected inputs, the weights, two others, optional resets."""

    __slots__ = ()

    def dtype_rule(self) -> np.dtype:
        for mask in self.parents[4:]:
            if mask.dtype.kind != "b":
                raise DTypeError(f"resets must have dtype bool, like x > 0; {label(mask)} is {mask.dtype}")
        for parent in self.parents[:4]:
            if parent.dtype.kind == "b":
                raise DTypeError(f"{label(parent)} is a mask; convert it with .astype(np.float32)")
        return super().dtype_rule()

    def common_axes(self, gates: int, states: Sequence[int]) -> tuple[Axis, Axis, Axis]:
        """Return the axes (batch, time, hidden), or raise `ShapeError`; `states` are the positions of the states."""
        projected, weights, *others = self.parents
        resets = others[2:]
        ranks = (projected, 3), (weights, 2), *((self.parents[i], 2) for i in states), *((mask, 2) for mask in resets)
        for parent, rank in ranks:
            if len(parent.dims) != rank:
                raise ShapeError(f"{label(parent)} must have {rank} axes, not {format_dims(parent.dims)}")
        batch, time, projected_width = projected.dims
        width = weights.dims[0]
        expected = product((gates, width))
        for operand, axis in (("projected input", projected_width), ("recurrent weights", weights.dims[1])):
            if axis_size(axis) != axis_size(expected):
                raise ShapeError(f"the last axis of the {operand} must be {gates} * {width!r}, not {axis!r}")
        for i in states:
            batch, width = unify(batch, self.parents[i].dims[0]), unify(width, self.parents[i].dims[1])
        for mask in resets:
            batch, time = unify(batch, mask.dims[0]), unify(time, mask.dims[1])
        if axis_size(time) == 0:
            raise ShapeError(f"the time axis has size 0; {self.layer} needs at least one step")
        return batch, time, width


def mask_rows(resets: Sequence[Array]) -> Array:
    """Return the mask of resets, empty where there is none."""
    return resets[0] if resets else np.zeros((0, 0), np.bool_)


def unsized_time(node: Recurrent, time: Axis) -> tuple[Gradient, ...]:
    """Return undefined gradients: the decomposition has nodes for each step, so it needs the number of steps."""
    reason = (
        f"the second-order gradient of {node.layer} needs a time axis with a size, but {time!r} gets its size from the "
        f"data of each run; give it one, as in {type(time).__name__}(20)"
    )
    return tuple(Undefined(reason) if parent.dtype.kind == "f" else ZERO for parent in node.parents)
