"""Products that sum over an axis: matmul for operands of any rank, row-wise dot, and einsum of two operands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.node.leaves import Constant
from wyrm.node.loop_form import LOOPS, LoopForm, Reducer
from wyrm.node.node import Node
from wyrm.ops.batching import aligned, batch_axis
from wyrm.ops.elementwise import (
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
from wyrm.ops.reduction import Sum
from wyrm.ops.sums import summed
from wyrm.types.dims import Axis, Dims, broadcast, product, unify
from wyrm.types.namespace import ArrayNamespace
from wyrm.types.typing import S2, A, Array, AtLeast1D, Bs, D, FittingShape, FloatArray, K, M, N, Shaped

# The letters allowed in subscripts.
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"  # not from `string`, which takes 2 ms to import
# The maximum number of products that are summed sequentially in float32.
_CHAIN = 1024


class _Product(Node[tuple[Left_co, Right_co], Axes], abstract=True):
    __slots__ = ()

    def dtype_rule(self) -> np.dtype:
        dtype = common_dtype(self.parents)
        if dtype.kind != "f":
            raise DTypeError("a mask has no products; convert it with mask.astype(np.float32)")
        return dtype


def multiply_into(x: FloatArray, y: FloatArray, out: FloatArray, beta: float) -> None:
    """Write `beta * out + x @ y` into `out`, for matrices and `beta` 0 or 1. The reference: an engine may call BLAS."""
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[i, k] = out[i, k] if beta else 0.0
        for j in range(x.shape[1]):
            weight = x[i, j]
            for k in range(out.shape[1]):
                out[i, k] += weight * y[j, k]


class MatMul(_Product[Left_co, Right_co, Axes]):
    """Matrix product `x @ y` of operands with one axis or more; leading axes broadcast."""

    __slots__ = ()
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
def {method}(self: Shaped[L, tuple[*Bs, N, N]], other: Shaped[L, tuple[*Bs, N, N]]) -> {op}[L, L, tuple[*Bs, N, N]]: ...
@overload
def {method}(self: Shaped[L, tuple[*Bs, K]], other: Array) -> {op}[L, Constant]: ...
@overload
def {method}(self: Shaped[L, S], other: Shaped[Any, FittingShape]) -> {op}[L]: ...
@overload
def {method}(self: Shaped[L, tuple[*Bs, K]], other: Shaped[R, tuple[K, N]]) -> {op}[L, R, tuple[*Bs, N]]: ...
"""
    reflected = """
@overload
def {method}(self: Shaped[R, S], other: Array) -> {op}[Constant, R]: ...
@overload
def {method}(self: Shaped[R, S], other: Shaped[L, AtLeast1D]) -> {op}[L, R]: ...
@overload
def {method}(self: Shaped[R, FittingShape], other: Shaped[L, tuple[*Bs, K]]) -> {op}[L, R]: ...
@overload
def {method}(self: Shaped[R, tuple[K, N]], other: Shaped[L, tuple[*Bs, K]]) -> {op}[L, R, tuple[*Bs, N]]: ...
@overload
def {method}(self: Shaped[R, tuple[K]], other: Shaped[L, tuple[*Bs, K]]) -> {op}[L, R, tuple[*Bs]]: ...
@overload
def {method}(self: Shaped[R, tuple[*Bs, K, N]], other: Shaped[L, tuple[*Bs, M, K]]) -> {op}[L, R, tuple[*Bs, M, N]]: ...
@overload
def {method}(self: Shaped[R, tuple[*Bs, K, N]], other: Shaped[L, tuple[K]]) -> {op}[L, R, tuple[*Bs, N]]: ...
@overload
def {method}(self: Shaped[R, tuple[*Bs, K, N]], other: Shaped[L, tuple[M, K]]) -> {op}[L, R, tuple[*Bs, M, N]]: ...
@overload
def {method}(self: Shaped[R, tuple[*Bs, K, N]], other: Shaped[L, tuple[A, *Bs, M, K]]) -> {op}[L, R, tuple[A, *Bs, M, N]]: ...
@overload
def {method}(self: Shaped[R, tuple[A, *Bs, K, N]], other: Shaped[L, tuple[*Bs, M, K]]) -> {op}[L, R, tuple[A, *Bs, M, N]]: ...
"""  # noqa: E501  # one declaration a line

    @classmethod
    def op_name(cls) -> str:
        return "matmul"

    def __init__(self, x: Node, y: Node) -> None:
        self._construct((x, y))

    def _own(self) -> MatMul[Any, Any, Axes]:
        return self

    def shape_rule(self) -> Dims:
        x, y = (parent.dims for parent in self.parents)
        if not x or not y:
            raise ShapeError("operands must have at least one axis; multiply by a scalar with *")
        try:
            unify(x[-1], y[-2] if len(y) > 1 else y[-1])
        except ShapeError as error:
            raise ShapeError(f"last axis of left and {_which(y)} axis of right do not match: {error}") from None
        rows, columns = x[-2:-1], y[-1:] if len(y) > 1 else ()
        dims: Dims = broadcast(x[:-2], y[:-2]) + rows + columns
        return dims

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return xp.matmul(*operands)

    def by_rows(self, rows: Sequence[int | None]) -> Literal["rows", "mean"] | None:
        x, y = self.parents
        summed = rows[0] == len(x.dims) - 1 or rows[1] == max(len(y.dims) - 2, 0)
        return None if summed else "rows"

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


bind_operator(MatMul, "matmul")


class VectorDot(_Product[Left_co, Right_co, Axes]):
    """Dot products of corresponding rows, `sum(x * y, axis=-1)`; leading axes broadcast."""

    __slots__ = ()

    def __init__(self, x: Node, y: Node) -> None:
        self._construct((x, y))

    def _own(self) -> VectorDot[Any, Any, Axes]:
        return self

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


@LOOPS.register(VectorDot)
class _VectorDotLoops(LoopForm):
    reducer = Reducer(0.0, "total + x * y")

    def reduce_axes(self, node: VectorDot) -> tuple[int, ...]:
        return (node.ndim,)


@overload
def vector_dot(x: Shaped[L, AtLeast1D], other: Shaped[R, S]) -> VectorDot[L, R]: ...
@overload
def vector_dot(x: Shaped[L, tuple[*Bs, N]], other: Shaped[R, FittingShape]) -> VectorDot[L, R]: ...
@overload
def vector_dot(x: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[*Bs, N]]) -> VectorDot[L, R, tuple[*Bs]]: ...
@overload
def vector_dot(x: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[N]]) -> VectorDot[L, R, tuple[*Bs]]: ...
@overload
def vector_dot(x: Shaped[L, tuple[N]], other: Shaped[R, tuple[*Bs, N]]) -> VectorDot[L, R, tuple[*Bs]]: ...
@overload
def vector_dot(x: Shaped[L, tuple[*Bs, N]], other: Array) -> VectorDot[L, Constant]: ...
@method("vector_dot")
def vector_dot(x: Any, other: object) -> VectorDot:
    """Return the dot products of corresponding rows, `sum(x * other, axis=-1)`; leading axes broadcast.

    Raise `ShapeError` if the last axes differ.

    >>> wy.Constant([[1.0, 2.0], [3.0, 4.0]]).vector_dot(wy.Constant([[1.0, 1.0], [1.0, 1.0]])).forward().tolist()
    [3.0, 7.0]
    """
    return VectorDot(x, operand(other, x))


class Einsum(_Product[Left_co, Right_co, Axes]):
    """Einstein summation of two operands: the sum of products over the letters that the result lacks."""

    __slots__ = ("subscripts",)
    subscripts: str

    def __init__(self, x: Node, y: Node, subscripts: str) -> None:
        self._construct((x, y), subscripts=subscripts)

    def _own(self) -> Einsum[Any, Any, Axes]:
        return self

    def terms(self) -> tuple[str, str, str]:
        """Return the letters of the two operands and of the result."""
        operands, _, result = self.subscripts.partition("->")
        x, _, y = operands.partition(",")
        return x, y, result

    def shape_rule(self) -> Dims:
        terms = self.subscripts.replace(" ", "")
        if "->" not in terms:  # NumPy's rule: letters that occur once, in alphabetical order
            letters = terms.replace(",", "")
            terms += "->" + "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
        object.__setattr__(self, "subscripts", terms)
        x, y, result = self.terms()
        if terms.count(",") != 1 or not all(part.isalpha() or not part for part in (x, y, result)):
            raise ShapeError(f"subscripts {terms!r} are not of the form 'ij,jk->ik' (letters, two operands)")
        axes: dict[str, Axis] = {}
        for term, parent in zip((x, y), self.parents, strict=True):
            if len(term) != len(parent.dims):
                raise ShapeError(f"{term!r} names {len(term)} axes, but the operand has {len(parent.dims)}")
            if len(set(term)) != len(term):
                raise ShapeError(f"{term!r} names an axis twice; diagonals are not supported")
            for letter, axis in zip(term, parent.dims, strict=True):
                try:
                    axes[letter] = unify(axes[letter], axis) if letter in axes else axis
                except ShapeError as error:
                    raise ShapeError(f"axis {letter!r}: {error}") from None
        if len(set(result)) != len(result) or not set(result) <= set(axes):
            raise ShapeError(f"the result {result!r} must use letters of the operands, each at most once")
        return tuple(axes[letter] for letter in result)

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        x_term, y_term, result = self.terms()
        sizes = dict(zip(x_term + y_term, (axis for x in operands for axis in x.shape), strict=True))
        if (
            self.dtype == np.float32
            and math.prod(size for letter, size in sizes.items() if letter not in result) > _CHAIN
        ):
            wide = (xp.astype(x, xp.float64) for x in operands)
            return xp.asarray(xp.einsum(self.subscripts, *wide), dtype=self.dtype)
        return xp.einsum(self.subscripts, *operands)

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        free = next(letter for letter in LETTERS if letter not in self.subscripts)
        x, y, result = self.terms()
        terms = (free * many + term for term, many in zip((x, y), mapped, strict=True))
        return self.rebuild(tuple(operands), {"subscripts": f"{','.join(terms)}->{free}{result}"})

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x_term, y_term, result = self.terms()
        x, y = self.parents
        return _einsum_vjp(gradient, result, y, y_term, x, x_term), _einsum_vjp(gradient, result, x, x_term, y, y_term)


@LOOPS.register(Einsum)
class _EinsumLoops(LoopForm):
    def decompose(self, node: Einsum) -> Node:
        x, y = node.parents
        x_term, y_term, result = node.terms()
        x, x_term = _summed(x, x_term, y_term + result)
        y, y_term = _summed(y, y_term, x_term + result)
        batch = [letter for letter in x_term if letter in y_term and letter in result]
        inner = [letter for letter in x_term if letter in y_term and letter not in result]
        rows = [letter for letter in x_term if letter not in y_term]
        columns = [letter for letter in y_term if letter not in x_term]
        axes: dict[str, Any] = dict(zip(x_term + y_term, x.dims + y.dims, strict=True))
        left = x.transpose(*(x_term.index(letter) for letter in (*batch, *rows, *inner))) if x_term else x
        right = y.transpose(*(y_term.index(letter) for letter in (*batch, *inner, *columns))) if y_term else y
        batched, widths = [axes[letter] for letter in batch], [_joined(axes, group) for group in (rows, inner, columns)]
        left_dims: Any = (*batched, *widths[:2])
        right_dims: Any = (*batched, *widths[1:])
        products = left.reshape(left_dims) @ right.reshape(right_dims)
        order = [*batch, *rows, *columns]
        spread: Node = products.reshape(tuple(axes[letter] for letter in order))
        answer: Node = spread.transpose(*(order.index(letter) for letter in result)) if result else spread
        return answer


def _summed(x: Node, term: str, others: str) -> tuple[Node, str]:
    """Return the operand summed over its letters that are not in `others`, and its remaining letters."""
    alone = tuple(i for i, letter in enumerate(term) if letter not in others)
    return (x.sum(alone), "".join(letter for letter in term if letter in others)) if alone else (x, term)


def _joined(axes: dict[str, Axis], letters: Sequence[str]) -> Axis:
    """Return the axes of several letters flattened into one axis."""
    return product(tuple(axes[letter] for letter in letters)) if letters else 1


def _einsum_vjp(gradient: Node, result: str, other: Node, other_term: str, wanted: Node, term: str) -> Node:
    """Return the gradient of an einsum with respect to `wanted`: an einsum, repeated along the letters only it has."""
    present = "".join(letter for letter in term if letter in result or letter in other_term)
    partial = Einsum(gradient, other, f"{result},{other_term}->{present}")
    if present == term:
        return partial
    missing = tuple(i for i, letter in enumerate(term) if letter not in present)
    return partial.erase().expand_dims(missing).broadcast_to(wanted.dims)


@overload
def einsum(
    subscripts: Literal["ij,jk->ik", "ik,kj->ij", "mk,kn->mn", "bi,io->bo", "bi,ij->bj"],
    x: Shaped[L, tuple[M, K]],
    y: Shaped[R, tuple[K, N]],
) -> Einsum[L, R, tuple[M, N]]: ...
@overload
def einsum(
    subscripts: Literal["ij,kj->ik", "ik,jk->ij", "bi,oi->bo"], x: Shaped[L, tuple[M, K]], y: Shaped[R, tuple[N, K]]
) -> Einsum[L, R, tuple[M, N]]: ...
@overload
def einsum(
    subscripts: Literal["bij,bjk->bik", "bmk,bkn->bmn"], x: Shaped[L, tuple[A, M, K]], y: Shaped[R, tuple[A, K, N]]
) -> Einsum[L, R, tuple[A, M, N]]: ...
@overload
def einsum(
    subscripts: Literal["bij,bkj->bik", "bqd,bkd->bqk"], x: Shaped[L, tuple[A, M, K]], y: Shaped[R, tuple[A, N, K]]
) -> Einsum[L, R, tuple[A, M, N]]: ...
@overload
def einsum(
    subscripts: Literal["bti,io->bto", "bij,jk->bik"], x: Shaped[L, tuple[A, M, K]], y: Shaped[R, tuple[K, N]]
) -> Einsum[L, R, tuple[A, M, N]]: ...
@overload
def einsum(
    subscripts: Literal["bhqd,bhkd->bhqk", "bhid,bhjd->bhij"],
    x: Shaped[L, tuple[A, D, M, K]],
    y: Shaped[R, tuple[A, D, N, K]],
) -> Einsum[L, R, tuple[A, D, M, N]]: ...
@overload
def einsum(
    subscripts: Literal["bhqk,bhkd->bhqd", "bhij,bhjd->bhid"],
    x: Shaped[L, tuple[A, D, M, K]],
    y: Shaped[R, tuple[A, D, K, N]],
) -> Einsum[L, R, tuple[A, D, M, N]]: ...
@overload
def einsum(
    subscripts: Literal["i,j->ij"], x: Shaped[L, tuple[M]], y: Shaped[R, tuple[N]]
) -> Einsum[L, R, tuple[M, N]]: ...
@overload
def einsum(subscripts: Literal["i,i->"], x: Shaped[L, tuple[N]], y: Shaped[R, tuple[N]]) -> Einsum[L, R, tuple[()]]: ...
@overload
def einsum(
    subscripts: Literal["ij,ij->i", "bd,bd->b"], x: Shaped[L, tuple[M, N]], y: Shaped[R, tuple[M, N]]
) -> Einsum[L, R, tuple[M]]: ...
@overload
def einsum(subscripts: str, x: Shaped[L, S], y: Shaped[R, S2]) -> Einsum[L, R]: ...
@overload
def einsum(subscripts: str, x: Array, y: Shaped[R, S2]) -> Einsum[Constant, R]: ...
@overload
def einsum(subscripts: str, x: Shaped[L, S], y: Array) -> Einsum[L, Constant]: ...
def einsum(subscripts: str, x: Any, y: Any) -> Einsum:
    """Return the Einstein summation of two operands, as `numpy.einsum`. One operand may be an array.

    Raise `ShapeError` if the subscripts are invalid, name a diagonal such as `ii`, or do not match the operands' axes.

    >>> x, y = wy.Constant(np.ones((2, 3))), wy.Constant(np.ones((3, 4)))
    >>> wy.einsum("ij,jk->ik", x, y).shape
    (2, 4)
    """
    if not isinstance(subscripts, str):
        raise TypeError("einsum: the subscripts come first, as in wy.einsum('ij,jk->ik', x, y)")
    beside = x if isinstance(x, Node) else y
    if not isinstance(beside, Node):
        raise TypeError("einsum: takes at least one node; for two arrays use numpy.einsum")
    return Einsum(operand(x, beside), operand(y, beside), subscripts)
