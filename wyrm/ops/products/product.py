"""Products that sum over an axis: matmul for operands of any rank, and row-wise dot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Dims, broadcast, product, unify
from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.leaves import Constant
from wyrm.graph.loop_form import LOOPS, Reduced, Reducer
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, AtLeast1D, Bs, FittingShape, FloatArray, N, OfShape, Shaped
from wyrm.ops.batching import aligned, batch_axis
from wyrm.ops.elementwise.elementwise import (
    Axes,
    L,
    Left_co,
    R,
    Right_co,
    S,
    bind_operator,
    common_dtype,
    method,
    operand,
)
from wyrm.ops.kernels.sums import summed
from wyrm.ops.reducing.reduction import Sum
from wyrm.reach.rules import REACH, Reach, Reached
from wyrm.reach.ways import How, Places, Way, ways_by
from wyrm.support.imports import jnp

if TYPE_CHECKING:
    from wyrm.reach.facts import Analysis


def sum_dtype(*operands: Any) -> Any:
    """Return the dtype of the sums of products: float32, or float64 for float64 operands."""
    return jnp.promote_types(jnp.result_type(*operands), np.float32)


def matmul(x: Any, y: Any) -> Any:
    """Return `x @ y`, with sums of float32 or wider."""
    return jnp.matmul(x, y, preferred_element_type=sum_dtype(x, y))


class ProductForm(JaxForm):
    """Base class of the lowerings of ops that sum products; their results are the sums, which are wide."""

    narrow: bool | None = True
    sums_products = True


class MatMulForm(ProductForm):
    """One `dot_general`."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        return lowering.product(*operands)


class EinsumForm(ProductForm):
    """One `dot_general`, and transpositions around it that XLA merges with it."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        return jnp.einsum(node.subscripts, *operands, preferred_element_type=sum_dtype(*operands))


class VectorDotForm(JaxForm):
    """A sum of products: XLA fuses it with gathers of the operands, unlike a product of matrices of one row."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        x, y = operands
        return (x * y).sum(axis=-1)


# The maximum number of products that are summed sequentially in float32.
_CHAIN = 1024


class Product(Node[tuple[Left_co, Right_co], Axes], abstract=True):
    """Base class of the products of two operands."""

    __slots__ = ()

    def __init__(self, x: Node, y: Node) -> None:
        self._construct((x, y))

    def dtype_rule(self) -> np.dtype:
        dtype = common_dtype(self.parents)
        if dtype.kind != "f":
            raise DTypeError("a mask has no products; convert it with mask.astype(np.float32)")
        return dtype


def multiply_into(x: FloatArray, y: FloatArray, out: FloatArray, beta: float) -> None:
    """Write `beta * out + x @ y` into `out`, for matrices and `beta` 0 or 1. Engines have faster ones."""
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[i, k] = out[i, k] if beta else 0.0
        for j in range(x.shape[1]):
            weight = x[i, j]
            for k in range(out.shape[1]):
                out[i, k] += weight * y[j, k]


def multiply_exactly(x: FloatArray, y: FloatArray, out: FloatArray, beta: float) -> None:
    """Do what `multiply_into` does, without rounding the operands in a program with another `compute_dtype`."""
    multiply_into(x, y, out, beta)


class MatMul(Product[Left_co, Right_co, Axes]):
    """Matrix product `x @ y` of operands with one axis or more; leading axes broadcast.

    Each engine and each library adds the terms in its own order; see `sum` for terms near the largest number.
    """

    __slots__ = ()
    _own: MatMul[Any, Any, Axes]
    adds_rows = True
    operator = "matmul"
    # As in `Binary`: the left operand's method takes operands of its own type, the right operand's all others. Both
    # have the product with a matrix: mypy infers the leading axes of the right one's from the declared result, and
    # where that is wrong, it would reject the operands instead.
    operator_declaration = """
@overload
def {method}(self: Shaped[L, AtLeast1D], other: Shaped[L, Any]) -> {op}[L, L]: ...
@overload
def {method}(self: Shaped[L, tuple[N]], other: Shaped[L, tuple[N]]) -> {op}[L, L, tuple[()]]: ...
@overload
def {method}(self: OfShape[L, tuple[*Bs, N, N]], other: Shaped[L, tuple[*Bs, N, N]]) -> {op}[L, L, tuple[*Bs, N, N]]: ...
@overload
def {method}(self: OfShape[L, tuple[*Bs, K]], other: Array) -> {op}[L, Constant]: ...
@overload
def {method}(self: Shaped[L, S], other: Shaped[Any, AnyRank]) -> {op}[L]: ...
@overload
def {method}(self: OfShape[L, tuple[*Bs, K]], other: Shaped[R, tuple[K, N]]) -> {op}[L, R, tuple[*Bs, N]]: ...
"""  # noqa: E501  # one declaration a line
    reflected = """
@overload
def {method}(self: Shaped[R, S], other: Array) -> {op}[Constant, R]: ...
@overload
def {method}(self: Shaped[R, S], other: Shaped[L, AtLeast1D]) -> {op}[L, R]: ...
@overload
def {method}(self: Shaped[R, FittingShape], other: OfShape[L, tuple[*Bs, K]]) -> {op}[L, R]: ...
@overload
def {method}(self: Shaped[R, tuple[K, N]], other: OfShape[L, tuple[*Bs, K]]) -> {op}[L, R, tuple[*Bs, N]]: ...
@overload
def {method}(self: Shaped[R, tuple[K]], other: OfShape[L, tuple[*Bs, K]]) -> {op}[L, R, tuple[*Bs]]: ...
@overload
def {method}(self: Shaped[R, tuple[*Bs, K, N]], other: OfShape[L, tuple[*Bs, M, K]]) -> {op}[L, R, tuple[*Bs, M, N]]: ...
@overload
def {method}(self: OfShape[R, tuple[*Bs, K, N]], other: Shaped[L, tuple[K]]) -> {op}[L, R, tuple[*Bs, N]]: ...
@overload
def {method}(self: OfShape[R, tuple[*Bs, K, N]], other: Shaped[L, tuple[M, K]]) -> {op}[L, R, tuple[*Bs, M, N]]: ...
@overload
def {method}(self: OfShape[R, tuple[*Bs, K, N]], other: Shaped[L, tuple[A, *Bs, M, K]]) -> {op}[L, R, tuple[A, *Bs, M, N]]: ...
@overload
def {method}(self: Shaped[R, tuple[A, *Bs, K, N]], other: OfShape[L, tuple[*Bs, M, K]]) -> {op}[L, R, tuple[A, *Bs, M, N]]: ...
"""  # noqa: E501  # one declaration a line

    @classmethod
    def op_name(cls) -> str:
        return "matmul"

    def shape_rule(self) -> Dims:
        x, y = (parent.dims for parent in self.parents)
        if not x or not y:
            raise ShapeError("operands must have at least one axis; multiply by a scalar with *")
        try:
            unify(x[-1], y[-2] if len(y) > 1 else y[-1])
        except ShapeError as error:
            pairs = "; for products of each row with its row use x.vector_dot(y), of all rows with all rows x @ y.T"
            advice = pairs if x == y and len(x) > 1 else ""
            raise ShapeError(f"last axis of left and {_which(y)} axis of right do not match: {error}{advice}") from None
        rows, columns = x[-2:-1], y[-1:] if len(y) > 1 else ()
        dims: Dims = broadcast(x[:-2], y[:-2]) + rows + columns
        return dims

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return xp.matmul(*operands)

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        (x, y), (many_x, many_y) = operands, mapped
        if not many_y and y.ndim <= 2:
            return MatMul(x, y)
        left = x.expand_dims(-2) if x.ndim - many_x == 1 else x
        right = y.expand_dims(-1) if y.ndim - many_y == 1 else y
        rank = max(left.ndim - many_x, right.ndim - many_y)
        result: Node = MatMul(aligned(left, many_x, rank), aligned(right, many_y, rank))
        dims: Any = self.dims
        return result.reshape((batch_axis(operands, mapped), *dims))

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x, y = (parent.erase() for parent in self.parents)
        if x.ndim == 1 and y.ndim == 1:
            return gradient * y, gradient * x
        if x.ndim == 1:
            left, right = MatMul(x.expand_dims(0), y).vjp(gradient.expand_dims(-2))
            return Sum(left, tuple(range(left.ndim - 1))), right
        if y.ndim == 1:
            left, right = MatMul(x, y.expand_dims(1)).vjp(gradient.expand_dims(-1))
            return left, Sum(right, (*range(right.ndim - 2), right.ndim - 1))
        if y.ndim == 2 and x.ndim > 2:
            # One product over all leading axes, not a product for each and a sum.
            rows = product(x.dims[:-1])
            flat, flat_gradient = x.reshape((rows, x.dims[-1])), gradient.reshape((rows, gradient.dims[-1]))
            return gradient @ y.matrix_transpose(), flat.matrix_transpose() @ flat_gradient
        return gradient @ y.matrix_transpose(), x.matrix_transpose() @ gradient


def _which(dims: Dims) -> str:
    return "only" if len(dims) == 1 else "second-to-last"


@REACH.register(MatMul)
class _MatMulReach(Reach):
    """The sum over one axis of the products of rows and columns."""

    def ways(self, node: MatMul) -> list[Way]:
        x, y = (parent.ndim for parent in node.parents)
        own = [*(["rows"] if x > 1 else []), *(["columns"] if y > 1 else [])]
        rank = node.ndim - len(own)  # of the stacks of matrices
        places: list[Places] = [
            (0, [*range(rank - max(0, x - 2), rank), *["rows", "terms"][-x:]]),
            (1, [*range(rank - max(0, y - 2), rank), *["terms", "columns"][:y]]),
        ]
        return ways_by(node, places, {"terms": How.REDUCED}, {place: k for k, place in enumerate((*range(rank), *own))})

    def reached(self, node: MatMul, operands: Sequence[Reached], analysis: Analysis) -> Reached:
        x, y = (list(each.axes) for each in operands)
        of_rows, of_columns = len(x) > 1, len(y) > 1
        x, y = [*([] if of_rows else [()]), *x, ()], [*y, *([] if of_columns else [()])]
        y.insert(len(y) - 2, ())
        rank = max(len(x), len(y))
        terms = analysis.pointwise(node, operands, "x * y", [x, y], rank)  # (..., rows, terms, columns)
        gone = {rank - 2, *([] if of_rows else [rank - 3]), *([] if of_columns else [rank - 1])}
        return analysis.without(node, terms, gone, keepdims=False, neutral=0.0)


JAX.register(MatMul)(MatMulForm)
bind_operator(MatMul, "matmul")


class VectorDot(Product[Left_co, Right_co, Axes]):
    """Dot products of corresponding rows, `sum(x * y, axis=-1)`; leading axes broadcast."""

    __slots__ = ()
    _own: VectorDot[Any, Any, Axes]
    adds_rows = True

    def shape_rule(self) -> Dims:
        x, y = (parent.dims for parent in self.parents)
        if not x or not y:
            raise ShapeError("operands must have at least one axis")
        unify(x[-1], y[-1])
        return broadcast(x, y)[:-1]

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        x, y = operands
        if x.shape[-1] <= _CHAIN:
            return xp.einsum("...i,...i->...", x, y)
        products = x * y
        return summed(xp, products, (products.ndim - 1,))

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        rank = max(parent.ndim for parent in self.parents)
        return VectorDot(*(aligned(x, many, rank) for x, many in zip(operands, mapped, strict=True)))

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x, y = self.parents
        spread = gradient.expand_dims(-1)
        return spread * y, spread * x


JAX.register(VectorDot)(VectorDotForm)


@LOOPS.register(VectorDot)
class _VectorDotLoops(Reduced):
    reducer = Reducer(0.0, "total + x * y")

    def reduce_axes(self, node: VectorDot) -> tuple[int, ...]:
        return (node.ndim,)


@overload
def vector_dot(x: OfShape[L, tuple[*Bs, N]], other: Shaped[Any, FittingShape[tuple[*Bs, N]]]) -> VectorDot[L]: ...
@overload
def vector_dot(x: Shaped[L, AtLeast1D], other: Shaped[R, S]) -> VectorDot[L, R]: ...
@overload
def vector_dot(x: OfShape[L, tuple[*Bs, N]], other: Shaped[R, tuple[*Bs, N]]) -> VectorDot[L, R, tuple[*Bs]]: ...
@overload
def vector_dot(x: OfShape[L, tuple[*Bs, N]], other: Shaped[R, tuple[N]]) -> VectorDot[L, R, tuple[*Bs]]: ...
@overload
def vector_dot(x: Shaped[L, tuple[N]], other: OfShape[R, tuple[*Bs, N]]) -> VectorDot[L, R, tuple[*Bs]]: ...
@overload
def vector_dot(x: OfShape[L, tuple[*Bs, N]], other: Array) -> VectorDot[L, Constant]: ...
@method("vector_dot", function=False)
def vector_dot(x: Any, other: object) -> VectorDot:
    """Return the dot products of corresponding rows, `sum(x * other, axis=-1)`; leading axes broadcast.

    Raise `ShapeError` if the last axes differ.

    >>> wy.Constant([[1.0, 2.0], [3.0, 4.0]]).vector_dot(wy.Constant([[1.0, 1.0], [1.0, 1.0]])).forward().tolist()
    [3.0, 7.0]
    """
    return VectorDot(x, operand(other, x))
