"""Gather and scatter by integer indices, with row-sparse gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Dims, unify
from wyrm.graph.base import ZERO, BaseNode, Gradient, label
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.index_maps import IndexLoad, IndexMap
from wyrm.graph.index_operands import HasIndexOperands, IndexOperand
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, Decomposed, Gathered, Scattered, ScatterTarget
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.parameters import NarrowWeight, Parameter
from wyrm.graph.rows import RowSparse
from wyrm.graph.typing import AnyShape, Array, AtLeast1D, Bs, Indices, K, M, N, Number, OfShape, Shaped
from wyrm.ops.elementwise.elementwise import Axes, L, Left_co, Right_co, S, common_dtype, method, operand
from wyrm.ops.indexing.gather import IndexForm, ScatterAddForm
from wyrm.ops.indexing.narrow_rows import narrow_rows

# The class of the indices, as a parameter of a class of ops and of a function.
Rows_co = TypeVar("Rows_co", bound="IndexNode", covariant=True, default=Any)
I = TypeVar("I", bound="IndexNode")  # noqa: E741  # as L and R are the operands'


def as_indices(indices: Any) -> IndexNode:
    """Return an index node unchanged and integers as a constant; raise `DTypeError` for a float node."""
    if isinstance(indices, IndexNode):
        return indices
    if isinstance(indices, Node):
        raise DTypeError(f"{label(indices)} holds {indices.dtype}; indices must be integers, as in wy.IndexInput(...)")
    return IndexConstant(indices)


class Indexing(HasIndexOperands[tuple[Left_co, Rows_co], Axes], Node[tuple[Left_co, Rows_co], Axes], abstract=True):
    """An op whose second parent holds integer indices along an axis of the first."""

    __slots__ = ()

    def dtype_rule(self) -> np.dtype:
        x, indices = self.parents
        if indices.dtype.kind != "i":
            raise DTypeError(
                f"{label(indices)} holds {indices.dtype}; indices must be integers, as in wy.IndexInput(...)"
            )
        return common_dtype((x,))


class Index(Indexing[Left_co, Rows_co, Axes]):
    """Rows of a table gathered by indices; the gradient is row-sparse."""

    __slots__ = ()
    _own: Index[Any, Any, Axes]

    def __init__(self, table: Node | Indexable, indices: IndexNode | Indices) -> None:
        self._construct((table, as_indices(indices)))

    def shape_rule(self) -> Dims:
        table, indices = self.parents
        if not table.dims:
            raise ShapeError("a scalar has no rows")
        dims: Dims = indices.dims + table.dims[1:]
        return dims

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> Array:
        table, indices = operands
        return xp.take(table, indices, axis=0)

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(1, self.parents[0].dims[0]),)

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Node | None:
        if not mapped[0]:
            return Index(*operands)
        from wyrm.ops.indexing.gather import Gather

        gathered: Node | None = Gather(self.parents[0], self.parents[1:], (0,), 0).batched(operands, mapped)
        return gathered

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        table, indices = self.parents
        return RowGradient(gradient, indices, table.dims), ZERO


JAX.register(Index)(IndexForm)


@LOOPS.register(Index)
class _IndexLoops(Decomposed, Gathered):
    def decompose(self, node: Index) -> Node | None:
        table, indices = node.parents
        return narrow_rows(table, indices) if isinstance(table, NarrowWeight) else None

    def gather_index(self, node: Index, index: IndexMap) -> IndexMap:
        rank = node.parents[1].ndim
        return (IndexLoad(1, index[:rank]), *index[rank:])


@overload
def index(x: Shaped[L, AtLeast1D], indices: IndexNode | Indices) -> Index[L, IndexNode]: ...
@overload
def index(x: OfShape[L, tuple[N, *Bs]], indices: IndexNode[AnyShape]) -> Index[L, IndexNode]: ...
@overload
def index(
    x: Shaped[L, tuple[N, K]], indices: IndexNode[tuple[*Bs]]
) -> Index[L, IndexNode[tuple[*Bs]], tuple[*Bs, K]]: ...
@overload
def index(x: Shaped[L, tuple[N]], indices: IndexNode[tuple[*Bs]]) -> Index[L, IndexNode[tuple[*Bs]], tuple[*Bs]]: ...
@overload
def index(
    x: Shaped[L, tuple[N, K, M]], indices: IndexNode[tuple[*Bs]]
) -> Index[L, IndexNode[tuple[*Bs]], tuple[*Bs, K, M]]: ...
@overload
def index(x: OfShape[L, tuple[N, *Bs]], indices: Indices) -> Index[L, IndexNode]: ...
@method("index", NarrowWeight)
@method("index", Parameter)
def index(x: Any, indices: Any) -> Index:
    """Return the rows `x[indices]`, of shape `indices.shape + x.shape[1:]`; the gradient holds only those rows.

    Raise `IndexOutOfRange` for an index below 0 or beyond the last row; for an index input, when its data is set.

    >>> wy.Parameter([[1.0, 2.0], [3.0, 4.0]]).index([1, 1]).forward().tolist()
    [[3.0, 4.0], [3.0, 4.0]]
    """
    return Index(x, indices)


class Indexable:
    """The method `index` for the placeholders that replace parameters in a traced function."""

    __slots__ = ()

    def index(self, indices: IndexNode | Indices) -> Index:
        """Return the rows `self[indices]`; see `Parameter.index`."""
        return Index(self, indices)


class RowGradient(HasIndexOperands[tuple[Left_co, Rows_co], Axes], Node[tuple[Left_co, Rows_co], Axes]):
    """The gradient of `Index` with respect to its table, row-sparse: the transpose of gathering rows."""

    __slots__ = ("to",)
    written = "index"
    _own: RowGradient[Any, Any, Axes]
    gives_rows = True
    adds_rows = True
    to: Dims

    def __init__(self, gradient: Node, indices: IndexNode, to: Dims) -> None:
        self._construct((gradient, indices), to=to)

    def shape_rule(self) -> Dims:
        return self.to

    def dtype_rule(self) -> np.dtype:
        return self.parents[0].dtype

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> Any:
        gradient, indices = operands
        rows = xp.reshape(indices, (-1,))
        values = xp.reshape(gradient, (rows.shape[0], *shape[1:]))
        if xp is np:
            return RowSparse(rows, values, shape)
        zeros: Any = xp.zeros(shape, self.dtype)
        return zeros.at[rows].add(values)

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(1, self.to[0]),)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return Index(gradient, self.parents[1]), ZERO


@LOOPS.register(RowGradient)
class _RowGradientLoops(Scattered):
    def scatter_index(self, node: RowGradient, parent: int, index: IndexMap) -> ScatterTarget | None:
        rank = node.parents[1].ndim
        return ScatterTarget((IndexLoad(1, index[:rank]), *index[rank:]), adds=True) if parent == 0 else None


class JoinRows(Node[tuple[Left_co, Right_co], Axes]):
    """The sum of two row-sparse values, row-sparse itself."""

    __slots__ = ()
    _own: JoinRows[Any, Any, Axes]
    takes_rows = True
    gives_rows = True

    def __init__(self, x: Node, y: Node) -> None:
        self._construct((x, y))

    def shape_rule(self) -> Dims:
        x, y = self.parents
        return tuple(map(unify, x.dims, y.dims))

    def dtype_rule(self) -> np.dtype:
        return common_dtype(self.parents)

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> Any:
        x, y = operands
        return x.joined(y) if isinstance(x, RowSparse) else x + y

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return gradient, gradient


@LOOPS.register(JoinRows)
class _JoinRowsLoops(Decomposed):
    def decompose(self, node: JoinRows[Node, Node]) -> Node:
        x, y = node.parents
        return x + y


def row_parts(gradient: BaseNode) -> list[tuple[BaseNode, BaseNode]] | None:
    """Return the pairs (gradient, indices) that a row-sparse gradient sums; None for a dense gradient."""
    parts: list[tuple[BaseNode, BaseNode]] = []
    stack = [gradient]
    while stack:
        node = stack.pop()
        if isinstance(node, JoinRows):
            stack += reversed(node.parents)
        elif isinstance(node, RowGradient):
            parts.append((node.parents[0], node.parents[1]))
        else:
            return None
    return parts


def row_gradient(gradient: Any, indices: Any, to: Dims) -> RowGradient:
    """Return one such pair as a row-sparse gradient with axes `to`."""
    return RowGradient(gradient, indices, to)


class ScatterAdd(
    HasIndexOperands[tuple[Left_co, IndexNode, Right_co], Axes], Node[tuple[Left_co, IndexNode, Right_co], Axes]
):
    """The first operand with `values[i]` added to row `indices[i]`; values for the same row add up."""

    __slots__ = ()
    _own: ScatterAdd[Any, Any, Axes]

    def __init__(self, x: Any, indices: IndexNode | Indices, values: Node | Number | Array) -> None:
        self._construct((x, as_indices(indices), operand(values, x)))

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(1, self.parents[0].dims[0]),)

    def dtype_rule(self) -> np.dtype:
        x, _, values = self.parents
        return common_dtype((x, values))

    def shape_rule(self) -> Dims:
        x, indices, values = self.parents
        if not x.dims:
            raise ShapeError("a scalar has no rows")
        required: Dims = indices.dims + x.dims[1:]
        if len(values.dims) != len(required):
            raise ShapeError(f"the values have {len(values.dims)} axes; they need {len(required)}, those of x[indices]")
        for a, b in zip(values.dims, required, strict=True):
            unify(a, b)
        return tuple(x.dims)

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> Any:
        x, indices, values = operands
        if hasattr(x, "at"):
            return x.at[indices].add(values)
        result = np.array(x)
        np.add.at(result, indices, values)
        return result

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return gradient, ZERO, Index(gradient, self.parents[1])


JAX.register(ScatterAdd)(ScatterAddForm)


@LOOPS.register(ScatterAdd)
class _ScatterAddLoops(Scattered):
    starts_from_zero = False

    def scatter_index(self, node: ScatterAdd, parent: int, index: IndexMap) -> ScatterTarget | None:
        rank = node.parents[1].ndim
        if parent == 0:
            return ScatterTarget(index)
        return ScatterTarget((IndexLoad(1, index[:rank]), *index[rank:]), adds=True) if parent == 2 else None


@method("scatter_add", function=False)
def scatter_add(x: Shaped[L, S], indices: IndexNode | Indices, values: Node | Array) -> ScatterAdd[L, Node, S]:
    """Return this node with `values[i]` added to row `indices[i]`; values for the same row add up.

    `values` has the shape `indices.shape + x.shape[1:]`. Raise `ShapeError` for another shape, and `IndexOutOfRange`
    for an index below 0 or beyond the last row.

    >>> wy.Constant([0.0, 0.0]).scatter_add([1, 1], wy.Constant([2.0, 3.0])).forward().tolist()
    [0.0, 5.0]
    """
    return ScatterAdd(x, indices, values)
