"""The exponential of square matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Dims, axis_size
from wyrm.graph.base import format_dims
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, ByKernel
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, FloatArray
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.indexing.joining import concatenate
from wyrm.ops.kernels.native import scratch
from wyrm.ops.linalg.jax_form import MatrixExponentialForm
from wyrm.ops.linalg.kernels import expm_kernel
from wyrm.ops.linalg.matrices import KernelArgument, MatrixOp, each_matrix, matrices, square
from wyrm.ops.linalg.without_scipy import exponential
from wyrm.ops.shaping.shape import zeros_like
from wyrm.support.imports import scipy_is_installed


class MatrixExponential(MatrixOp[Axes]):
    """The exponential `1 + a + a @ a / 2 + ...` of square matrices."""

    __slots__ = ()

    @classmethod
    def op_name(cls) -> str:
        return "expm"

    def shape_rule(self) -> Dims:
        batch, size = square(self.parents[0])
        return (*batch, size, size)

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        a = np.asarray(operands[0])
        self.refuse(~np.isfinite(a).all(axis=(-2, -1)), "holds a NaN or an infinity")
        if not scipy_is_installed():
            return each_matrix(exponential, shape, a)
        from scipy.linalg import expm

        result: FloatArray = expm(a) if a.size else a
        return result

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        # The exponential of a block triangular matrix holds the directional derivative: Higham, "Functions of
        # matrices", 2008, equation 10.43.
        transposed = self.parents[0].mT
        size = axis_size(transposed.dims[-1])
        if size is None:
            raise ShapeError(f"the gradient of expm needs a matrix with sizes, not {format_dims(transposed.dims)}")
        above = concatenate([transposed, gradient], axis=-1)
        below = concatenate([zeros_like(transposed), transposed], axis=-1)
        whole = MatrixExponential(concatenate([above, below], axis=-2)).erase()
        return (whole[..., :size, size:].reshape(gradient.dims),)


JAX.register(MatrixExponential)(MatrixExponentialForm)


@LOOPS.register(MatrixExponential)
class _MatrixExponentialLoops(ByKernel):
    kernel = staticmethod(expm_kernel)

    def kernel_arguments(
        self, node: MatrixExponential, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        size = out.shape[-1]
        # In float64, because squaring doubles the relative error.
        parts = scratch((7, size, size), np.float64)
        return matrices(operands[0]), matrices(out), parts, scratch(size, np.int32), scratch(1, np.int32)
