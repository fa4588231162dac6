"""What all ops on matrices share: the rules for leading axes, the checks of shapes, errors, and triangular parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from wyrm.errors import DTypeError, LinAlgError, ShapeError
from wyrm.graph.axes import Axis, Dim, Dims, Plus, axis_size, unify
from wyrm.graph.base import BaseNode, Gradient, Undefined, explain, format_dims
from wyrm.graph.index_maps import AxisLength, IndexLiteral, IndexMap
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, ByKernel, Gathered
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, BoolArray, FloatArray, IntegerArray
from wyrm.ops.batching import aligned
from wyrm.ops.elementwise.elementwise import Axes, common_dtype
from wyrm.ops.kernels.native import refuse
from wyrm.ops.linalg.jax_form import ReciprocalGapsForm
from wyrm.reach.rules import REACH, Leading, Reach
from wyrm.reach.ways import Way

KernelArgument = Array | int | float


class MatrixOp(Node[tuple[Node, ...], Axes], abstract=True):
    """An op on the last `core` axes of its operands; the axes before them broadcast."""

    __slots__ = ()
    core: ClassVar[int] = 2

    @classmethod
    def op_name(cls) -> str:
        """Return the name of the function that users call, not that of its residuals."""
        return super().op_name().removesuffix("_residuals")

    def dtype_rule(self) -> np.dtype:
        dtype = common_dtype(self.parents)
        if dtype.kind != "f":
            raise DTypeError("a mask has no linear algebra; convert it with mask.astype(np.float32)")
        return dtype

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Any:
        rank = max(parent.ndim for parent in self.parents)
        return self.rebuild(aligned(x, is_mapped, rank) for x, is_mapped in zip(operands, mapped, strict=True))

    def refuse(self, wrong: BoolArray | np.bool_, reason: str) -> None:
        """Raise `LinAlgError` with the reason if a matrix is `wrong`; there is one element for each matrix."""
        if wrong.any():
            position = tuple(int(i) for i in np.argwhere(wrong)[0])
            number = position[0] if len(position) == 1 else position
            which = f"matrix {number} of the batch" if position else "the matrix"
            raise LinAlgError(explain(self, f"{which} {reason}"))


@REACH.register(MatrixOp)
class _MatrixReach(Reach):
    """Matrices of the leading axes stay apart."""

    def ways(self, node: MatrixOp) -> list[Way] | None:
        return Leading(node.core).ways(node)


NO_GRADIENT = Undefined("the residuals of a factorization have none; differentiate the ops that use them")


class Factorization(MatrixOp[Axes], abstract=True):
    """The results of a factorization of the only operand, packed in one array of residuals."""

    __slots__ = ()

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return (NO_GRADIENT,)


class FactorizationPart(MatrixOp[Axes], abstract=True):
    """Some rows of the residuals of a factorization, or one row; the parents are the residuals and the matrix."""

    __slots__ = ()
    residual_parents: ClassVar[frozenset[int]] = frozenset([0])
    # The first row of the part, counted from 0 or, if `is_below`, from the number of rows of the matrix.
    first: ClassVar[int] = 0
    is_below: ClassVar[bool] = False
    # Whether the part is one row.
    is_row: ClassVar[bool] = False

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Any:
        residuals, a = operands
        first = self.first + (a.shape[-2] if self.is_below else 0)
        return residuals[..., first, :] if self.is_row else residuals[..., first : first + shape[-2], :]


class EigenResiduals(Factorization[Axes], abstract=True):
    """Eigenvalues above the eigenvectors of square matrices, of the axes (..., n + 1, n)."""

    __slots__ = ()

    def shape_rule(self) -> Dims:
        batch, size = square(self.parents[0])
        return (*batch, joined(1, size), size)


class EigenvalueRow(FactorizationPart[Axes], abstract=True):
    """The eigenvalues among `EigenResiduals`."""

    __slots__ = ()
    is_row = True

    def shape_rule(self) -> Dims:
        batch, size = square(self.parents[1])
        return (*batch, size)


class EigenvectorRows(FactorizationPart[Axes], abstract=True):
    """The matrix among `EigenResiduals` whose columns are the eigenvectors."""

    __slots__ = ()
    first = 1

    def shape_rule(self) -> Dims:
        batch, size = square(self.parents[1])
        return (*batch, size, size)


@LOOPS.register(FactorizationPart)
class _PartLoops(Gathered):
    def gather_index(self, node: FactorizationPart, index: IndexMap) -> IndexMap:
        *batch, column = index
        row = IndexLiteral(node.first) if node.is_row else node.first + batch.pop()
        if node.is_below:
            below = AxisLength(node.parents[1].dims[-2])
            row = below if node.is_row and not node.first else row + below
        return *batch, row, column


def matrix(node: BaseNode) -> Dims:
    """Return the axes of an operand; raise `ShapeError` unless it has two axes or more."""
    dims: Dims = node.dims
    if len(dims) < 2:
        raise ShapeError(f"the operand must be a matrix, or a batch of matrices, not {format_dims(dims)}")
    return dims


def square(node: BaseNode) -> tuple[Dims, Axis]:
    """Return the leading axes and the last axis of square matrices; raise `ShapeError` for any other operand."""
    *batch, rows, columns = matrix(node)
    try:
        return tuple(batch), unify(rows, columns)
    except ShapeError as error:
        raise ShapeError(f"the matrix must be square; its axes are {format_dims((rows, columns))}: {error}") from None


def joined(*axes: Axis) -> Axis:
    """Return the axis of a concatenation along these axes."""
    return Plus(axes) if any(isinstance(axis, Dim) for axis in axes) else sum(axis_size(axis) or 0 for axis in axes)


def at_least_as_long(name: str, first: Axis, second: Axis) -> bool:
    """Return whether the first axis has at least as many elements; raise `ShapeError` if only data decides it."""
    sizes = axis_size(first), axis_size(second)
    if first == second:
        return True
    if sizes[0] is None or sizes[1] is None:
        raise ShapeError(
            f"{name}: the axes {format_dims((first, second))} get their sizes from the data of each run; give both a "
            f"size, because the shape of the result depends on which is longer"
        )
    return sizes[0] >= sizes[1]


def each_matrix(function: Callable[..., Any], shape: tuple[int, ...], *operands: FloatArray) -> FloatArray:
    """Return an array of `shape` that holds the results of a function of one matrix of each operand.

    The leading axes of the operands broadcast; the last two are those of the matrices.
    """
    batch = np.broadcast_shapes(*(x.shape[:-2] for x in operands))
    result: FloatArray = np.zeros(shape, operands[0].dtype)
    if result.size:
        spread = [np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in operands]
        for index in np.ndindex(batch):
            result[index] = function(*(x[index] for x in spread))
    return result


def transposed(x: FloatArray) -> FloatArray:
    """Return an array with its last two axes exchanged."""
    return np.swapaxes(x, -1, -2)


def symmetrized(x: FloatArray) -> FloatArray:
    """Return the mean of each matrix and its transpose."""
    array = np.asarray(x)
    mean: FloatArray = array.dtype.type(0.5) * (array + transposed(array))
    return mean


def matrices(x: Array) -> Array:
    """Return a view of an array with one leading axis before those of the matrices."""
    return x.reshape((math.prod(x.shape[:-2]), *x.shape[-2:]))


def numbered(x: Array, out: Array) -> tuple[Array, IntegerArray]:
    """Return an operand with one leading axis, and for each matrix of the result the number of the operand's matrix."""
    own = x.shape[:-2]
    numbers = np.arange(math.prod(own)).reshape(own)
    return matrices(x), np.broadcast_to(numbers, out.shape[:-2]).reshape(-1).copy()


class TriangularPart(MatrixOp[Axes]):
    """The lower or upper triangle of matrices, with its diagonal multiplied by a factor and zeros elsewhere."""

    __slots__ = ("factor", "lower")
    lower: bool
    factor: float

    def __init__(self, x: Node, lower: bool, factor: float = 1.0) -> None:
        self._construct((x,), lower=lower, factor=factor)

    def shape_rule(self) -> Dims:
        return matrix(self.parents[0])

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        (x,) = operands
        below = xp.arange(shape[-2])[:, None] - xp.arange(shape[-1])
        triangle = xp.where(below > 0 if self.lower else below < 0, x, xp.zeros_like(x))
        return xp.where(below == 0, self.factor * x, triangle)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (TriangularPart(gradient, self.lower, self.factor),)


@LOOPS.register(TriangularPart)
class _TriangularPartLoops(ByKernel):
    @staticmethod
    def kernel(x: FloatArray, lower: bool, factor: float, out: FloatArray) -> None:
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                for k in range(x.shape[2]):
                    if j == k:
                        out[i, j, k] = factor * x[i, j, k]
                    elif (j > k) == lower:
                        out[i, j, k] = x[i, j, k]
                    else:
                        out[i, j, k] = 0.0

    def kernel_arguments(
        self, node: TriangularPart, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        return matrices(operands[0]), node.lower, node.factor, matrices(out)


class ReciprocalGaps(MatrixOp[Axes]):
    """The matrix of `1 / (x[j] - x[i])`, with zeros on the diagonal, of the axes (..., n, n) for x of (..., n).

    The derivatives of eigenvectors contain it. Raise `LinAlgError` if two elements are equal.
    """

    __slots__ = ()
    core = 1

    def shape_rule(self) -> Dims:
        dims: Dims = self.parents[0].dims
        return (*dims, dims[-1])

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        x = np.asarray(operands[0])
        gaps = x[..., None, :] - x[..., :, None]
        diagonal = np.eye(shape[-1], dtype=bool)
        self.refuse(
            ((gaps == 0.0) & ~diagonal).any(axis=(-2, -1)),
            "has two equal eigenvalues or singular values (or one of a non-square matrix is zero), so its vectors have "
            "no derivative",
        )
        result: FloatArray = np.where(diagonal, x.dtype.type(0.0), 1.0 / np.where(diagonal, x.dtype.type(1.0), gaps))
        return result

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        weighted = gradient * self.square()
        return (weighted.sum(axis=-1) - weighted.sum(axis=-2),)


JAX.register(ReciprocalGaps)(ReciprocalGapsForm)


@LOOPS.register(ReciprocalGaps)
class _ReciprocalGapsLoops(ByKernel):
    @staticmethod
    def kernel(x: FloatArray, out: FloatArray) -> None:
        for m in range(x.shape[0]):
            for i in range(x.shape[1]):
                for j in range(x.shape[1]):
                    gap = x[m, j] - x[m, i]
                    if i == j:
                        out[m, i, j] = 0.0
                    elif gap == 0.0:
                        refuse()
                    else:
                        out[m, i, j] = 1.0 / gap

    def kernel_arguments(
        self, node: ReciprocalGaps, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        shape = math.prod(out.shape[:-2]), out.shape[-1]
        return operands[0].reshape(shape), matrices(out)
