"""`x.at[key].set(values)` and `x.at[key].add(values)`: a copy of `x` with some elements replaced or added to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size
from wyrm.graph.base import ZERO, Gradient, describe, format_dims
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.index_operands import HasIndexOperands, IndexOperand
from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.loop_form import LOOPS, ByKernel
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.shapes import same_sizes
from wyrm.graph.typing import Array, FloatArray, IntegerArray, Number
from wyrm.ops.batching import spread
from wyrm.ops.elementwise.elementwise import Axes, Left_co, S, common_dtype, operand
from wyrm.ops.indexing.joining import Concatenate
from wyrm.ops.indexing.taking import PlaceAlongAxis, TakeAlongAxis
from wyrm.ops.shaping.shape import zeros_like
from wyrm.reach.rules import REACH, Reach, Reached
from wyrm.reach.ways import How, Way, aligned
from wyrm.support.imports import jnp

if TYPE_CHECKING:
    from wyrm.reach.facts import Analysis


class Replaced(HasIndexOperands[tuple[Left_co, Any, IndexNode], Axes], Node[tuple[Left_co, Any, IndexNode], Axes]):
    """`x` with `values` at `positions` along the last axis.

    `x` has the axes (..., n), `values` (..., m), and `positions`, integers, (m) or (..., m); they are distinct in each
    row, which is not checked.
    """

    __slots__ = ()
    written = "at[...].set"
    _own: Replaced[Any, Axes]

    def __init__(self, x: Node, values: Node, positions: IndexNode) -> None:
        self._construct((x, values, positions))

    def dtype_rule(self) -> np.dtype:
        return common_dtype(self.parents[:2])

    def shape_rule(self) -> Dims:
        x, values, positions = self.parents
        if (
            not x.dims
            or not same_sizes(x.dims[:-1], values.dims[:-1])
            or not same_sizes(values.dims[len(values.dims) - len(positions.dims) :], positions.dims)
            or len(positions.dims) not in (1, len(x.dims))
        ):
            raise ShapeError(f"{describe(values)} at {describe(positions)} does not fit into {describe(x)}")
        dims: Dims = x.dims
        return dims

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(2, self.parents[0].dims[-1]),)

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> Any:
        x, values, positions = operands
        result = np.array(x)
        np.put_along_axis(result, np.broadcast_to(positions, values.shape), values, -1)
        return result

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Node | None:
        x, values, positions = operands
        if mapped[2] and len(self.parents[0].dims) > len(self.parents[2].dims):
            return None
        if mapped[2]:
            x, values, positions = spread(operands, mapped)
            return Replaced(x, values, positions)
        if len(positions.dims) > 1:
            return None
        x, values = spread((x, values), mapped[:2])
        return Replaced(x, values, positions)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        _, values, positions = self.parents
        if len(positions.dims) < len(values.dims):
            chosen: Any = gradient.take(positions, axis=len(values.dims) - 1)
        else:
            chosen = TakeAlongAxis(gradient, positions, len(values.dims) - 1)
        return Replaced(gradient, zeros_like(values), positions), chosen, ZERO


@REACH.register(Replaced)
class _ReplacedReach(Reach):
    """Values may be anywhere along the last axis."""

    def ways(self, node: Replaced) -> list[Way]:
        return aligned(node, how={node.ndim - 1: How.ANY})

    def reached(self, node: Replaced, operands: Sequence[Reached], analysis: Analysis) -> Reached:
        x, values, positions = operands
        lists = [x.axes, (*values.axes[:-1], ()), (*positions.axes[:-1], ())]
        return analysis.pointwise(node, operands, "", lists)


@JAX.register(Replaced)
class _ReplacedForm(JaxForm):
    """A scatter; where a position is out of range, the row is NaN."""

    def lower(self, node: Replaced, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        x, values, positions = operands
        positions = jnp.broadcast_to(positions, values.shape)
        leading = [jnp.arange(size).reshape((-1, *[1] * (len(shape) - 1 - i))) for i, size in enumerate(shape[:-1])]
        wrong = ((positions < 0) | (positions >= shape[-1])).any(axis=-1, keepdims=True)
        replaced = x.at[(*leading, jnp.where(wrong, 0, positions))].set(values)
        return jnp.where(wrong, jnp.nan, replaced)


@LOOPS.register(Replaced)
class _ReplacedLoops(ByKernel):
    @staticmethod
    def kernel(x: FloatArray, values: FloatArray, positions: IntegerArray, out: FloatArray) -> None:
        for row in range(out.shape[0]):
            for i in range(out.shape[1]):
                out[row, i] = x[row, i]
        for row in range(out.shape[0]):
            for i in range(values.shape[1]):
                out[row, positions[row % positions.shape[0], i]] = values[row, i]

    def kernel_arguments(self, node: Replaced, operands: Sequence[Array], out: Array) -> tuple[Any, ...]:
        rows, count = math.prod(out.shape[:-1]), operands[1].shape[-1]
        own = math.prod(operands[2].shape[:-1])
        return (
            operands[0].reshape(rows, out.shape[-1]), operands[1].reshape(rows, count),
            operands[2].reshape(own, count), out.reshape(rows, out.shape[-1]),
        )  # fmt: skip


class LastWriter(HasIndexOperands[Any, Axes], IndexNode[Axes]):
    """For each of `count` elements, the number of the last value that is written to it.

    Value j is written to the position that the operand holds at j, along its last axis. Element i gets the number
    `values + i` if no value is written to it, as in the values followed by the elements.
    """

    __slots__ = ("count",)
    written = "at[...].set"
    count: int

    def __init__(self, positions: IndexNode, count: int) -> None:
        self._construct((positions,), count=count)

    @property
    def within(self) -> Axis:
        """The number of values and elements, which the result indexes."""
        return int(self.parents[0].dims[-1]) + self.count

    def shape_rule(self) -> Dims:
        return (*self.parents[0].dims[:-1], self.count)

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(0, self.count),)

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> Any:
        positions = np.asarray(operands[0])
        values = positions.shape[-1]
        source = np.broadcast_to(np.arange(values, values + self.count), shape).copy()
        for row in np.ndindex(*shape[:-1]):
            source[row][positions[row]] = np.arange(values)
        return source

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> IndexNode | None:
        return LastWriter(operands[0], self.count)


@JAX.register(LastWriter)
class _LastWriterForm(JaxForm):
    """The largest number of a value at each position, by a scatter that takes the maximum.

    Where a position is out of range, all results are -1: an index out of range, with which a gather gives NaN.
    """

    def lower(self, node: LastWriter, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        values = operands[0].shape[-1]
        positions = operands[0].reshape(math.prod(shape[:-1]), values)
        rows = positions.shape[0]
        nothing = jnp.full((rows, node.count), -1, positions.dtype)
        writer = nothing.at[jnp.arange(rows)[:, None], positions].max(jnp.arange(values))
        source = jnp.where(writer < 0, values + jnp.arange(node.count), writer)
        wrong = ((positions < 0) | (positions >= node.count)).any(axis=1, keepdims=True)
        return jnp.where(wrong, -1, source).reshape(shape)


@LOOPS.register(LastWriter)
class _LastWriterLoops(ByKernel):
    @staticmethod
    def kernel(positions: IntegerArray, out: IntegerArray) -> None:
        for row in range(out.shape[0]):
            for i in range(out.shape[1]):
                out[row, i] = positions.shape[1] + i
            for i in range(positions.shape[1]):
                out[row, positions[row, i]] = i

    def kernel_arguments(self, node: LastWriter, operands: Sequence[Array], out: Array) -> tuple[Any, ...]:
        rows = int(np.prod(out.shape[:-1]))
        return operands[0].reshape(rows, operands[0].shape[-1]), out.reshape(rows, node.count)


class Updates(Generic[S]):
    """The elements of a node at a key, to be replaced or added to; the node itself does not change."""

    __slots__ = ("key", "node")

    def __init__(self, node: Node[Any, S], key: object = ...) -> None:
        self.node: Node[Any, S] = node
        self.key: object = key

    def __getitem__(self, key: object) -> Updates[S]:
        return Updates(self.node, key)

    if not TYPE_CHECKING:  # a class with `__getattr__` has every name, as far as the type checker can tell

        def __getattr__(self, name: str) -> NoReturn:
            instead = "; x.at[key].set(f(x[key])) computes any other update" if not name.startswith("_") else ""
            raise AttributeError(f"x.at[key] has the methods set and add, not {name}{instead}")

    def set(self, values: Node | Array | Number | Sequence[Number]) -> Node[Any, S]:
        """Return the node with `values`, which broadcast, at the key; for a repeated index the last value counts.

        Raise the errors of indexing, and `ShapeError` if the values do not broadcast to the selected shape or if the
        data of each run decides a size.

        >>> wy.Constant([1.0, 2.0, 3.0]).at[[0, 2]].set(0.0).forward().tolist()
        [0.0, 2.0, 0.0]
        """
        positions, flat = self._flat_update(values)
        x: Any = self.node
        if all(map(_is_single, self.key if isinstance(self.key, tuple) else (self.key,))):
            return Replaced(x.ravel(), flat, positions).reshape(x.dims)
        values_and_elements = Concatenate((flat, x.ravel()), 0)
        result: Node = TakeAlongAxis(values_and_elements, LastWriter(positions, x.size), 0).reshape(x.dims)
        return result

    def add(self, values: Node | Array | Number | Sequence[Number]) -> Node[Any, S]:
        """Return the node with `values`, which broadcast, added at the key; values at a repeated index add up.

        The errors are those of `set`.

        >>> wy.Constant([1.0, 2.0, 3.0]).at[[0, 0]].add(1.0).forward().tolist()
        [3.0, 2.0, 3.0]
        """
        positions, flat = self._flat_update(values)
        x: Any = self.node
        placed: Any = PlaceAlongAxis(flat, positions, 0, (int(x.size),))
        result: Node = x + placed.reshape(x.dims)
        return result

    def _flat_update(self, values: Node | Array | Number | Sequence[Number]) -> tuple[IndexNode, Node]:
        """Return the selected positions among all elements, and a value for each, along one axis."""
        x: Any = self.node
        if isinstance(self.key, Node) and self.key.dtype.kind == "b":
            raise TypeError(
                f"{describe(x)}: at takes no mask, {describe(self.key)}, whose number of elements depends on the data: "
                f"use wy.where(mask, values, x)"
            )
        if None in map(axis_size, x.dims):
            raise ShapeError(f"at: {describe(x)}: the data of each run decides a size; give its axes sizes")
        numbers = IndexConstant(np.arange(x.size).reshape(x.shape))
        key: Any = self.key
        positions: Any = numbers[key]
        selected = operand(values, x)
        try:
            spread = selected.broadcast_to(positions.dims)
        except ShapeError:
            raise ShapeError(
                f"at: {describe(selected)} does not broadcast to the selected elements, {format_dims(positions.dims)}"
            ) from None
        return positions.reshape((-1,)), spread.ravel()


def _is_single(key: object) -> bool:
    """Return whether a part of a key selects each position of its axis at most once."""
    return key is None or key is ... or isinstance(key, int | np.integer | slice) or getattr(key, "dims", None) == ()


at = property(Updates)  # which `Node` declares with its type


__all__ = ["Replaced"]
