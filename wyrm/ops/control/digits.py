"""Integers as floats: loops carry floats of one dtype, which hold an integer of 64 bits as three exact digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Dims, axis_size
from wyrm.graph.base import ZERO, Gradient, format_dims
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, FloatArray, IntegerArray
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.random.philox_jax import FromDigitsForm, ToDigitsForm
from wyrm.reach.rules import REACH, Reach
from wyrm.reach.ways import Way, ways_by

# A digit has 22 bits, and float32 is exact up to 24. The last digit has the sign.
_BITS = 22
_MASK = 2**_BITS - 1


def to_digits_kernel(x: IntegerArray, out: FloatArray) -> None:
    """Fill `out`, of shape (n, 3), with the digits of `x`, the lowest first."""
    for i in range(x.size):
        out[i, 0] = x[i] & _MASK
        out[i, 1] = (x[i] >> _BITS) & _MASK
        out[i, 2] = x[i] >> (2 * _BITS)


def from_digits_kernel(digits: FloatArray, out: IntegerArray) -> None:
    """Fill `out` with the integers that have these digits, of shape (n, 3)."""
    for i in range(out.size):
        low, middle, high = np.int64(digits[i, 0]), np.int64(digits[i, 1]), np.int64(digits[i, 2])
        out[i] = low + (middle << _BITS) + (high << (2 * _BITS))


class ToDigits(Node[tuple[IndexNode], Axes]):
    """Integers as three digits of `float_dtype`, along a new last axis."""

    __slots__ = ("float_dtype",)
    float_dtype: np.dtype

    def __init__(self, x: IndexNode, float_dtype: np.dtype) -> None:
        self._construct((x,), float_dtype=float_dtype)

    def dtype_rule(self) -> np.dtype:
        return self.float_dtype

    def shape_rule(self) -> Dims:
        return (*self.parents[0].dims, 3)

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        x: Any = operands[0]
        digits = [x & _MASK, (x >> _BITS) & _MASK, x >> (2 * _BITS)]
        return xp.stack([digit.astype(self.dtype) for digit in digits], axis=-1)

    def batched(self, operands: Sequence[IndexNode], mapped: Sequence[bool]) -> ToDigits:
        return ToDigits(operands[0], self.float_dtype)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return (ZERO,)


@LOOPS.register(ToDigits)
class _ToDigitsLoops(ByKernel):
    kernel = staticmethod(to_digits_kernel)

    def kernel_arguments(self, node: ToDigits, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        return operands[0].reshape(-1), out.reshape(-1, 3)


@REACH.register(ToDigits)
class _ToDigitsReach(Reach):
    """Each digit depends on its integer."""

    def ways(self, node: ToDigits) -> list[Way]:
        return ways_by(node, [(0, range(node.ndim - 1))], results={k: k for k in range(node.ndim - 1)})


JAX.register(ToDigits)(ToDigitsForm)


class FromDigits(IndexNode[Axes]):
    """The integers of `ToDigits`; `is_step` tells whether random nodes draw for them."""

    __slots__ = ("is_step",)
    is_step: bool

    def __init__(self, digits: Node, is_step: bool = False, name: str | None = None) -> None:
        self._construct((digits,), name, is_step=is_step)

    def shape_rule(self) -> Dims:
        dims: Dims = self.parents[0].dims
        if not dims or axis_size(dims[-1]) != 3:
            raise ShapeError(f"the last axis must hold three digits, unlike {format_dims(dims)}")
        return dims[:-1]

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        low, middle, high = (operands[0][..., i].astype(np.int64) for i in range(3))
        integers: Array = low + (middle << _BITS) + (high << (2 * _BITS))
        return integers

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> FromDigits:
        return FromDigits(operands[0], self.is_step)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return (ZERO,)


@REACH.register(FromDigits)
class _FromDigitsReach(Reach):
    """An integer depends on its digits."""

    def ways(self, node: FromDigits) -> list[Way]:
        return ways_by(node, [(0, [*range(node.ndim), None])])


@LOOPS.register(FromDigits)
class _FromDigitsLoops(ByKernel):
    kernel = staticmethod(from_digits_kernel)

    def kernel_arguments(self, node: FromDigits, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        return operands[0].reshape(-1, 3), out.reshape(-1)


JAX.register(FromDigits)(FromDigitsForm)


__all__ = ["FromDigits", "ToDigits"]
