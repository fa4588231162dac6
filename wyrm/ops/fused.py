"""Ops that stand for a few in a row, so that graphs stay shallow: a linear layer with its GELU, tokens with positions.

Each is one node with a gradient node of its own. The native engine takes them apart by their loop forms, to fuse them
with what is around them, and so does the gradient of higher order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, overload

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.node.base import ZERO, Gradient, format_dims, label
from wyrm.node.index_operands import HasIndexOperands, IndexOperand
from wyrm.node.loop_form import LOOPS, LoopForm
from wyrm.node.node import IndexNode, Node
from wyrm.ops.accumulation import unbroadcast
from wyrm.ops.activation import Gelu, GeluTanh
from wyrm.ops.batching import spread
from wyrm.ops.composite_gradient import composite_vjp
from wyrm.ops.elementwise import Axes, L, Left_co, common_dtype, method, operand
from wyrm.ops.formula import array_function
from wyrm.ops.index import Index, RowGradient, as_indices
from wyrm.ops.product import MatMul
from wyrm.types.dims import Dims, axis_size, unify
from wyrm.types.namespace import ArrayNamespace
from wyrm.types.typing import Array, AtLeast1D, Bs, FloatArray, Indices, K, M, N, Shaped

# --- a linear layer with its activation -------------------------------------------------------------------------------


def _normal_distribution(xp: ArrayNamespace, x: FloatArray) -> FloatArray:
    """The distribution function, without the factor 1/2."""
    erf: Callable[[FloatArray], FloatArray] = array_function(xp, "erf")
    return 1.0 + erf(x * x.dtype.type(math.sqrt(0.5)))


def _bend(xp: ArrayNamespace, x: FloatArray) -> FloatArray:
    """What stands for the distribution function of the approximate form, up to `0.5 * (1 + bend)`."""
    return xp.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x))


def _gelu(x: Node, approximate: bool) -> Gelu | GeluTanh:
    return GeluTanh(x) if approximate else Gelu(x)


class _Linear(Node[tuple[Node, ...], Axes], abstract=True):
    """What the two ops have in common: the operand, the weight and perhaps the bias are the first parents."""

    __slots__ = ("approximate", "biased")
    approximate: bool
    biased: bool

    def dtype_rule(self) -> np.dtype:
        dtype = common_dtype(self.parents)
        if dtype.kind != "f":
            raise DTypeError("a mask has no products; convert it with mask.astype(np.float32)")
        return dtype

    def _axes(self) -> Dims:
        x, weight, *bias = self.parents[: 2 + self.biased]
        if not x.dims or len(weight.dims) != 2:
            raise ShapeError(
                f"takes an operand with an axis or more and a weight of the axes (inputs, outputs), not "
                f"{format_dims(x.dims)} and {format_dims(weight.dims)}"
            )
        try:
            unify(x.dims[-1], weight.dims[0])
        except ShapeError as error:
            raise ShapeError(f"the last axis of {label(x)} meets the first of {label(weight)}: {error}") from None
        outputs = weight.dims[1]
        if bias:
            if len(bias[0].dims) != 1:
                raise ShapeError(f"{label(bias[0])} has one axis here, the outputs, not {format_dims(bias[0].dims)}")
            outputs = unify(outputs, bias[0].dims[0])
        return (*x.dims[:-1], outputs)

    def _inner(self) -> Node:
        """What the activation is taken of, as nodes."""
        x, weight, *bias = self.parents[: 2 + self.biased]
        product: Node = MatMul(x, weight)
        return product + bias[0] if bias else product

    def _inner_value(self, xp: ArrayNamespace, x: FloatArray, weight: FloatArray, *bias: FloatArray) -> FloatArray:
        product = xp.matmul(x, weight)
        return product + bias[0] if bias else product


class LinearGelu(_Linear[Axes], Generic[Left_co, Axes]):
    """`gelu(x @ weight + bias)`: a linear layer with its activation.

    `x` has any number of leading axes, `weight` the axes (inputs, outputs), `bias`, which may be left out, the axis
    (outputs,). `approximate` takes the tanh form of GPT-2; see `Gelu` and `GeluTanh` for the formulas.

    Raises `ShapeError` for axes that do not fit, `DTypeError` for masks and for two float types.
    """

    __slots__ = ()
    parents: tuple[Left_co, Node, *tuple[Node, ...]]

    def __init__(self, x: Node, weight: Node, bias: Node | None = None, *, approximate: bool = False) -> None:
        parents = (x, weight) if bias is None else (x, weight, bias)
        self._construct(parents, approximate=approximate, biased=bias is not None)

    def _own(self) -> LinearGelu[Any, Axes]:
        return self

    def shape_rule(self) -> Dims:
        return self._axes()

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        x = self._inner_value(xp, *operands)
        return 0.5 * x * (1.0 + _bend(xp, x) if self.approximate else _normal_distribution(xp, x))

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        return None if any(mapped[1:]) else self.rebuild(tuple(operands), self.attribute_values())

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x, weight, *bias = self.parents
        by_inner: Node = LinearGeluGradient(
            x, weight, *bias, gradient, approximate=self.approximate, biased=self.biased
        )
        return *MatMul(x, weight).vjp(by_inner), *(by_inner for _ in bias)


@LOOPS.register(LinearGelu)
class _LinearGeluLoops(LoopForm):
    def decompose(self, node: LinearGelu) -> Node:
        return _gelu(node._inner(), node.approximate)


class LinearGeluGradient(_Linear[Axes]):
    """The gradient of `LinearGelu` by what the activation is taken of, from the gradient by the result.

    The parents are those of `LinearGelu` and that gradient; the axes are the result's. The product is computed again
    by an engine that does not keep it.
    """

    __slots__ = ()

    def __init__(self, *parents: Node, approximate: bool, biased: bool) -> None:
        self._construct(parents, approximate=approximate, biased=biased)

    def _own(self) -> LinearGeluGradient[Axes]:
        return self

    def shape_rule(self) -> Dims:
        dims, gradient = self._axes(), self.parents[-1].dims
        if len(dims) != len(gradient):
            raise ShapeError(f"{format_dims(dims)} against {format_dims(gradient)}")
        return tuple(map(unify, dims, gradient))

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        x = self._inner_value(xp, *operands[:-1])
        if self.approximate:
            bend = _bend(xp, x)
            inner_slope = math.sqrt(2.0 / math.pi) * (1.0 + 3.0 * 0.044715 * x * x)
            return operands[-1] * (0.5 * (1.0 + bend) + 0.5 * x * (1.0 - bend * bend) * inner_slope)
        density = xp.exp(-0.5 * x * x) * (1.0 / math.sqrt(2.0 * math.pi))
        return operands[-1] * (0.5 * _normal_distribution(xp, x) + x * density)

    def _of_nodes(self) -> Node:
        """The same of ordinary nodes."""
        inner = self._inner()
        (by_inner,) = _gelu(inner, self.approximate).vjp(self.parents[-1])
        return by_inner

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        if any(mapped[1:-1]):
            return None
        x, gradient = spread((operands[0], operands[-1]), (mapped[0], mapped[-1]))
        return self.rebuild((x, *operands[1:-1], gradient), self.attribute_values())

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return composite_vjp(self._of_nodes(), gradient, self.parents)


@LOOPS.register(LinearGeluGradient)
class _LinearGeluGradientLoops(LoopForm):
    def decompose(self, node: LinearGeluGradient) -> Node:
        return node._of_nodes()


@overload
def linear_gelu(
    x: Shaped[L, AtLeast1D], weight: Shaped[Any, Any] | Array, bias: Any = None, approximate: bool = False
) -> LinearGelu[L, Any]: ...
@overload
def linear_gelu(
    x: Shaped[L, tuple[*Bs, M]],
    weight: Shaped[Any, tuple[M, N]],
    bias: Shaped[Any, tuple[N]] | Array | None = None,
    approximate: bool = False,
) -> LinearGelu[L, tuple[*Bs, N]]: ...
@method("linear_gelu")
def linear_gelu(x: Any, weight: Any, bias: Any = None, approximate: bool = False) -> Any:
    """`(x @ weight + bias).gelu(approximate)` as one node; see `LinearGelu` for the axes and the errors.

    >>> wy.Constant([1.0, 2.0]).linear_gelu(np.array([[-3.0], [1.5]])).forward().tolist()
    [0.0]
    """
    return LinearGelu(x, operand(weight, x), None if bias is None else operand(bias, x), approximate=approximate)


# --- tokens with positions --------------------------------------------------------------------------------------------


class Embed(
    HasIndexOperands[tuple[Left_co, Node, IndexNode], Axes],
    Node[tuple[Left_co, Node, IndexNode], Axes],
    Generic[Left_co, Axes],
):
    """`table[indices] + positions[:time]`: the vectors of tokens and of their places along the last axis, time.

    `table` has the axes (tokens, width), `positions` the axes (context, width) with a context of at least the time,
    which needs a size unless it is the context's axis. The gradient of the table holds only the rows used.

    Raises `ShapeError` for axes that do not fit, `DTypeError` for float indices and for two float types,
    `IndexOutOfRange` for an index beyond the table.
    """

    __slots__ = ()

    def __init__(self, table: Node, positions: Node, indices: IndexNode | Indices) -> None:
        self._construct((table, positions, as_indices(indices)))

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(2, self.parents[0].dims[0]),)

    def _own(self) -> Embed[Any, Axes]:
        return self

    def dtype_rule(self) -> np.dtype:
        return common_dtype(self.parents[:2])

    def shape_rule(self) -> Dims:
        table, positions, indices = self.parents
        if len(table.dims) != 2 or len(positions.dims) != 2 or not indices.dims:
            raise ShapeError(
                f"takes tables of two axes and indices with an axis or more, not {format_dims(table.dims)}, "
                f"{format_dims(positions.dims)} and {format_dims(indices.dims)}"
            )
        time, context = indices.dims[-1], positions.dims[0]
        if time != context:
            steps, most = axis_size(time), axis_size(context)
            if steps is None or most is None:
                raise ShapeError(f"the time axis, {time!r}, needs a size, as does that of the positions, {context!r}")
            if steps > most:
                raise ShapeError(f"a sequence of {steps} is longer than the {most} positions of {label(positions)}")
        return (*indices.dims, unify(table.dims[1], positions.dims[1]))

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> Array:
        table, positions, indices = operands
        vectors: FloatArray = xp.take(table, indices, axis=0) + positions[: shape[-2]]
        return vectors

    def _places(self) -> Node:
        _, positions, indices = self.parents
        time, context = axis_size(indices.dims[-1]), axis_size(positions.dims[0])
        return positions if time == context else positions[:time]

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Node | None:
        return None if any(mapped[:2]) else Embed(*operands)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        table, positions, indices = self.parents
        places = self._places()
        by_places = unbroadcast(gradient, places.dims)
        (by_positions,) = (by_places,) if places is positions else places.vjp(by_places)
        return RowGradient(gradient, indices, table.dims), by_positions, ZERO


@LOOPS.register(Embed)
class _EmbedLoops(LoopForm):
    def decompose(self, node: Embed) -> Node:
        table, _positions, indices = node.parents
        rows: Node = Index(table, indices)
        return rows + node._places()


@overload
def embed(
    table: Shaped[L, AtLeast1D], indices: IndexNode[Any] | Indices, positions: Shaped[Any, Any] | Array
) -> Embed[L, Any]: ...
@overload
def embed(
    table: Shaped[L, tuple[M, N]], indices: IndexNode[tuple[*Bs]], positions: Shaped[Any, tuple[K, N]]
) -> Embed[L, tuple[*Bs, N]]: ...
@method("embed")
def embed(table: Any, indices: Any, positions: Any) -> Any:
    """The rows that `indices`, (..., time), name, plus the first rows of `positions`, (context, width); see `Embed`.

    >>> table, positions = wy.Constant([[1.0], [2.0]]), wy.Constant([[10.0], [20.0], [30.0]])
    >>> table.embed(wy.IndexConstant([1, 0]), positions).forward().tolist()
    [[12.0], [21.0]]
    """
    return Embed(table, operand(positions, table), indices)
