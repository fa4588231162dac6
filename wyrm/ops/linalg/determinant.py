"""Determinants and their derivatives, the cofactors, which exist for singular matrices too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from wyrm.graph.axes import Dims
from wyrm.graph.base import ZERO, Gradient
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, ByKernel
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, FloatArray
from wyrm.ops.control.pass_through import Transparent
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.gradients.accumulation import composite_vjp
from wyrm.ops.kernels.native import scratch
from wyrm.ops.linalg.jax_form import CofactorsForm, DeterminantForm
from wyrm.ops.linalg.kernels import cofactors_kernel, determinant_kernel
from wyrm.ops.linalg.matrices import KernelArgument, MatrixOp, matrices, square
from wyrm.ops.linalg.svd import LeftSingularVectors, RightSingularVectors, SingularValues, SVDResiduals, svd_scratch
from wyrm.ops.linalg.systems import LUResiduals, Solve, identity, inverse
from wyrm.ops.products.prod import ProductOfOthers


class Determinant(MatrixOp[Axes]):
    """The determinant, its sign, or the logarithm of its absolute value, from the LU factorization."""

    __slots__ = ("part",)
    part: Literal["value", "sign", "logarithm"]
    residual_parents: ClassVar[frozenset[int]] = frozenset([0])

    def __init__(self, factors: Node, a: Node, part: Literal["value", "sign", "logarithm"]) -> None:
        self._construct((factors, a), part=part)

    def shape_rule(self) -> Dims:
        batch, _ = square(self.parents[1])
        return batch

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        factors = np.asarray(operands[0])
        diagonal = np.diagonal(factors[..., :-1, :], axis1=-2, axis2=-1)
        interchanges = (factors[..., -1, :] != np.arange(factors.shape[-1])).sum(axis=-1)
        sign = np.where(interchanges % 2, factors.dtype.type(-1.0), factors.dtype.type(1.0))
        result: FloatArray
        if self.part == "value":
            result = sign * diagonal.prod(axis=-1)
        elif self.part == "sign":
            result = sign * np.sign(diagonal).prod(axis=-1)
        else:
            with np.errstate(divide="ignore"):
                result = np.log(np.abs(diagonal)).sum(axis=-1)
        return result

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        if self.part == "sign":
            return ZERO, ZERO
        factors, a = self.parents
        slope: Node
        if self.part == "value":
            slope = Cofactors(factors, a)
        else:
            _, size = square(a)
            slope = LogDeterminantSlope(factors, a, identity(size, a.dtype), True)
        weight: Node = gradient[..., None, None]
        return ZERO, weight * slope


JAX.register(Determinant)(DeterminantForm)


@LOOPS.register(Determinant)
class _DeterminantLoops(ByKernel):
    kernel = staticmethod(determinant_kernel)

    def kernel_arguments(self, node: Determinant, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        return matrices(operands[0]), ("value", "sign", "logarithm").index(node.part), out.reshape(-1)


class LogDeterminantSlope(Solve[Axes]):
    """The transposed inverse, as the derivative of the logarithm of the determinant."""

    __slots__ = ()
    reason: ClassVar[str] = "is singular: the logarithm of its determinant is -inf and has no gradient (det has one)"

    @classmethod
    def op_name(cls) -> str:
        return "slogdet"


class Cofactors(MatrixOp[Axes]):
    """The matrix of cofactors, the derivative of the determinant: the determinant times the transposed inverse.

    For a singular matrix, or where that product leaves the range of the dtype, it comes from the singular value
    decomposition `u @ diag(s) @ v.T`: the cofactors of a diagonal matrix are the products of its other elements, and
    those of an orthogonal matrix the matrix times its determinant, 1 or -1.
    """

    __slots__ = ()
    residual_parents: ClassVar[frozenset[int]] = frozenset([0])

    @classmethod
    def op_name(cls) -> str:
        return "det"

    def shape_rule(self) -> Dims:
        batch, size = square(self.parents[1])
        return (*batch, size, size)

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        a = np.asarray(operands[1])
        determinants = np.linalg.det(a)
        usual = np.isfinite(determinants) & (determinants != 0.0)
        result: FloatArray = np.full(shape, np.nan, a.dtype)
        with np.errstate(all="ignore"):
            result[usual] = determinants[usual][:, None, None] * np.linalg.inv(a[usual]).swapaxes(-1, -2)
        others = ~np.isfinite(result).all(axis=(-2, -1)) & np.isfinite(a).all(axis=(-2, -1))
        left, values, right = np.linalg.svd(a[others])
        sign = np.sign(np.linalg.det(left) * np.linalg.det(right))
        own = np.eye(shape[-1], dtype=bool)
        products = np.where(own, a.dtype.type(1.0), values[..., None, :]).prod(axis=-1)
        result[others] = (left * (sign[:, None] * products)[:, None, :]) @ right
        return result

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        a: Node = self.parents[1]
        slope: Node = CofactorsSlope(cofactors_gradient(a, gradient), a, gradient)
        return ZERO, slope


JAX.register(Cofactors)(CofactorsForm)


@LOOPS.register(Cofactors)
class _CofactorsLoops(ByKernel):
    kernel = staticmethod(cofactors_kernel)

    def kernel_arguments(self, node: Cofactors, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        size, dtype = out.shape[-1], out.dtype
        parts, factors = scratch((1, 2 * size + 1, size), dtype), scratch((1, size + 1, size), dtype)
        more = factors, scratch(1, dtype), scratch(size, np.int32)
        return *map(matrices, (*operands, out)), parts, *more, *svd_scratch(size, size, dtype)


class CofactorsSlope(Transparent[Axes]):
    """The gradient of `Cofactors`, which is the first parent; the others are the matrix and the cotangent.

    It is a second derivative of the determinant, so it is symmetric: its gradient with respect to the cotangent is the
    same function of another cotangent. Its gradient with respect to the matrix needs the inverse of the matrix.
    """

    __slots__ = ()
    parents: tuple[Node, Node, Node]

    def __init__(self, value: Node, a: Node, gradient: Node) -> None:
        self._construct((value, a, gradient))

    @classmethod
    def op_name(cls) -> str:
        return "det"

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        _, a, cotangent = self.parents
        factors: Node = LUResiduals(a)
        determinant: Node = Determinant(factors, a, "value")
        slope: Node = inverse(factors, a, transposed=True)
        share: Node = (cotangent * slope).sum((-2, -1), keepdims=True)
        composed: Node = determinant[..., None, None] * (share * slope - slope @ cotangent.mT @ slope)
        (of_a,) = composite_vjp(composed, gradient, (a,))
        of_cotangent: Node = CofactorsSlope(cofactors_gradient(a, gradient), a, gradient)
        return ZERO, of_a, of_cotangent


def cofactors_gradient(a: Node, cotangent: Node) -> Node:
    """Return the gradient of the cofactors of any matrix, from its singular value decomposition.

    Between the orthogonal factors, it is that of a diagonal matrix. There, element i of the diagonal changes cofactor j
    by the product of the elements other than i and j, and element (i, j) beside the diagonal changes cofactor (j, i) by
    minus that product.
    """
    parts = SVDResiduals(a), a
    left, values, right = LeftSingularVectors(*parts), SingularValues(*parts), RightSingularVectors(*parts)
    sign: Node = Determinant(LUResiduals(left), left, "sign") * Determinant(LUResiduals(right), right, "sign")
    _, size = square(a)
    unit = identity(size, a.dtype)
    rows: Node = where(unit > 0.0, 1.0, values[..., None, :])
    without_two: Node = where(unit > 0.0, 0.0, ProductOfOthers(rows, -1))
    turned: Node = left.mT @ cotangent @ right
    on_diagonal: Node = without_two @ (turned * unit).sum(-1, keepdims=True)
    inner: Node = on_diagonal * unit - (without_two * turned).mT
    result: Node = sign[..., None, None] * (left @ inner @ right.mT)
    return result


__all__ = ["Cofactors", "CofactorsSlope", "Determinant", "LogDeterminantSlope", "cofactors_gradient"]
