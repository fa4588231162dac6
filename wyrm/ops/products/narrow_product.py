"""Products with weights in narrow numbers, which are widened in registers and never in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.graph.axes import Axis, Dims
from wyrm.graph.base import ZERO, Gradient
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.parameters import NarrowNumbers, NarrowWeight
from wyrm.graph.typing import Array, FloatArray
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.indexing.narrow_rows import widened
from wyrm.ops.shaping.shape import with_axes
from wyrm.ops.shaping.transpose import Transpose


def multiply_widened(x: FloatArray, numbers: Array, out: FloatArray) -> None:
    """Write `x @ widened(numbers)` into `out`, for matrices; compiled code reads the numbers as they are."""
    np.matmul(x, widened(np, numbers), out=out)


def narrow_products(x: FloatArray, numbers: Array, out: FloatArray) -> None:
    """Write `x @ widened(numbers)` into `out`."""
    multiply_widened(x, numbers, out)


class NarrowProduct(Node[tuple[Node, NarrowNumbers], Axes], abstract=True):
    """`x @ numbers`, or `x @ numbers.T`, of numbers that are widened to float32, with sums of float32.

    The last axis of the result is `to`.
    """

    __slots__ = ("to", "transposed")
    to: Axis
    transposed: bool

    def __init__(self, x: Node, numbers: NarrowNumbers, transposed: bool, to: Axis) -> None:
        self._construct((x, numbers), transposed=transposed, to=to)

    def dtype_rule(self) -> np.dtype:
        return self.parents[0].dtype

    def shape_rule(self) -> Dims:
        return (*self.parents[0].dims[:-1], self.to)

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> Array:
        x, numbers = operands
        wide = widened(xp, numbers)
        return xp.matmul(x, xp.permute_dims(wide, (1, 0)) if self.transposed else wide)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        x, numbers = self.parents
        return NarrowProduct(gradient, numbers, not self.transposed, x.dims[-1]), ZERO


@LOOPS.register(NarrowProduct)
class _NarrowProductLoops(ByKernel):
    kernel = staticmethod(narrow_products)

    def kernel_arguments(
        self, node: NarrowProduct, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        x, numbers = operands
        rows = math.prod(x.shape[:-1])
        matrix = numbers.T if node.transposed else numbers
        return x.reshape(rows, x.shape[-1]), matrix, out.reshape(rows, out.shape[-1])


def product_with_narrow(x: Node, y: Node) -> Node | None:
    """Return `x @ y` for a narrow weight y, which may be transposed; None for another y.

    Factors of the columns of y multiply the result, and those of its rows multiply x. Blocks of int4 run along either
    axis of y.
    """
    transposed, weight = False, y
    while isinstance(weight, Transpose) and weight.axes == (1, 0):  # a gradient has two
        transposed, weight = not transposed, weight.parents[0]
    if not isinstance(weight, NarrowWeight):
        return None
    to = y.dims[-1]
    if weight.storage == "int4":
        return NarrowProduct(x, weight.numbers, weight.along == int(transposed), to)
    factors = weight.factors
    if factors is None:
        return NarrowProduct(x, weight.numbers, transposed, to)
    of_rows = int(factors.shape[1]) == 1
    flat: Node = with_axes(factors, weight.dims[:1] if of_rows else weight.dims[1:])
    factors_first = of_rows is not transposed
    made: Node = NarrowProduct(x * flat if factors_first else x, weight.numbers, transposed, to)
    return made if factors_first else made * flat
