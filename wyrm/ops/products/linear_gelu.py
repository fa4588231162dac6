"""A linear layer with GELU as one op, which the native engine decomposes to fuse its parts with neighbouring ops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, overload

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Dims, unify
from wyrm.graph.base import format_dims, label
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, Decomposed
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, AtLeast1D, Bs, FloatArray, M, N, OfShape, Shaped
from wyrm.ops.batching import spread
from wyrm.ops.elementwise.activation import Gelu, GeluTanh
from wyrm.ops.elementwise.elementwise import Axes, L, Left_co, common_dtype, method, operand
from wyrm.ops.elementwise.formula import array_function
from wyrm.ops.gradients.accumulation import composite_vjp
from wyrm.ops.products.jax_form import LinearGeluForm
from wyrm.ops.products.product import MatMul


def _twice_normal_cdf(xp: ArrayNamespace, x: FloatArray) -> FloatArray:
    """Return twice the cumulative distribution function of the standard normal distribution."""
    erf: Callable[[FloatArray], FloatArray] = array_function(xp, "erf")
    return 1.0 + erf(x * x.dtype.type(math.sqrt(0.5)))


def _tanh_term(xp: ArrayNamespace, x: FloatArray) -> FloatArray:
    """Return t such that `1 + t` approximates `_twice_normal_cdf`."""
    return xp.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x))


def _gelu(x: Node, approximate: bool) -> Gelu | GeluTanh:
    return GeluTanh(x) if approximate else Gelu(x)


class _Linear(Node[tuple[Node, ...], Axes], abstract=True):
    """Base class of the two ops; the first parents are the operand, the weight and optionally the bias."""

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
                f"the operand must have at least one axis and the weight the axes (inputs, outputs), not "
                f"{format_dims(x.dims)} and {format_dims(weight.dims)}"
            )
        try:
            unify(x.dims[-1], weight.dims[0])
        except ShapeError as error:
            raise ShapeError(f"the last axis of {label(x)} must match the first of {label(weight)}: {error}") from None
        outputs = weight.dims[1]
        if bias:
            if len(bias[0].dims) != 1:
                raise ShapeError(f"{label(bias[0])} must have one axis, the outputs, not {format_dims(bias[0].dims)}")
            outputs = unify(outputs, bias[0].dims[0])
        return (*x.dims[:-1], outputs)

    def _preactivation(self) -> Node:
        """Return the pre-activation, `x @ weight + bias`, as a node."""
        x, weight, *bias = self.parents[: 2 + self.biased]
        product: Node = MatMul(x, weight)
        return product + bias[0] if bias else product

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        x, weight, *others = operands
        return self.of_product(xp, xp.matmul(x, weight), others)

    def of_product(self, xp: ArrayNamespace, product: FloatArray, others: Sequence[FloatArray]) -> FloatArray:
        """Return the value, given `x @ weight` and the operands after these two."""
        raise NotImplementedError


class LinearGelu(_Linear[Axes], Generic[Left_co, Axes]):
    """`gelu(x @ weight + bias)`: a linear layer with its activation.

    `x` has the axes (..., inputs), `weight` (inputs, outputs), the optional `bias` (outputs,). `approximate` selects
    the tanh form of GPT-2; see `Gelu` and `GeluTanh` for the formulas.

    Raise `ShapeError` for axes that do not match, `DTypeError` for masks and for operands of two float dtypes.
    """

    __slots__ = ()
    _own: LinearGelu[Any, Axes]
    parents: tuple[Left_co, Node, *tuple[Node, ...]]

    def __init__(self, x: Node, weight: Node, bias: Node | None = None, *, approximate: bool = False) -> None:
        parents = (x, weight) if bias is None else (x, weight, bias)
        self._construct(parents, approximate=approximate, biased=bias is not None)

    def shape_rule(self) -> Dims:
        return self._axes()

    def of_product(self, xp: ArrayNamespace, product: FloatArray, others: Sequence[FloatArray]) -> FloatArray:
        """Return the value, given `x @ weight` and the bias."""
        x = product + others[0] if self.biased else product
        return 0.5 * x * (1.0 + _tanh_term(xp, x) if self.approximate else _twice_normal_cdf(xp, x))

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        return None if any(mapped[1:]) else self.rebuild(tuple(operands), self.attribute_values())

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x, weight, *bias = self.parents
        preactivation_gradient: Node = LinearGeluGradient(
            x, weight, *bias, gradient, approximate=self.approximate, biased=self.biased
        )
        return *MatMul(x, weight).vjp(preactivation_gradient), *(preactivation_gradient for _ in bias)


@LOOPS.register(LinearGelu)
class _LinearGeluLoops(Decomposed):
    def decompose(self, node: LinearGelu) -> Node:
        return _gelu(node._preactivation(), node.approximate)


class LinearGeluGradient(_Linear[Axes]):
    """The gradient of `LinearGelu` with respect to its pre-activation, `x @ weight + bias`.

    The parents are those of `LinearGelu` and the cotangent.
    """

    __slots__ = ()

    def __init__(self, *parents: Node, approximate: bool, biased: bool) -> None:
        self._construct(parents, approximate=approximate, biased=biased)

    def shape_rule(self) -> Dims:
        dims, gradient = self._axes(), self.parents[-1].dims
        if len(dims) != len(gradient):
            raise ShapeError(f"{format_dims(dims)} against {format_dims(gradient)}")
        return tuple(map(unify, dims, gradient))

    def of_product(self, xp: ArrayNamespace, product: FloatArray, others: Sequence[FloatArray]) -> FloatArray:
        """Return the value, given `x @ weight`, and the bias and the cotangent."""
        x = product + others[0] if self.biased else product
        if self.approximate:
            tanh_term = _tanh_term(xp, x)
            argument_derivative = math.sqrt(2.0 / math.pi) * (1.0 + 3.0 * 0.044715 * x * x)
            tanh_derivative = (1.0 - tanh_term * tanh_term) * argument_derivative
            return others[-1] * (0.5 * (1.0 + tanh_term) + 0.5 * x * tanh_derivative)
        density = xp.exp(-0.5 * x * x) * (1.0 / math.sqrt(2.0 * math.pi))
        return others[-1] * (0.5 * _twice_normal_cdf(xp, x) + x * density)

    def _decomposed(self) -> Node:
        """Return the same value composed of ordinary ops."""
        found: Any = _gelu(self._preactivation(), self.approximate).vjp(self.parents[-1])
        preactivation_gradient: Node = found[0]
        return preactivation_gradient

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        if any(mapped[1:-1]):
            return None
        x, gradient = spread((operands[0], operands[-1]), (mapped[0], mapped[-1]))
        return self.rebuild((x, *operands[1:-1], gradient), self.attribute_values())

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return composite_vjp(self._decomposed(), gradient, self.parents)


JAX.register(LinearGelu, LinearGeluGradient)(LinearGeluForm)


@LOOPS.register(LinearGeluGradient)
class _LinearGeluGradientLoops(Decomposed):
    def decompose(self, node: LinearGeluGradient) -> Node:
        return node._decomposed()


@overload
def linear_gelu(
    x: Shaped[L, AtLeast1D], weight: Node | Array, bias: Node | Array | None = None, approximate: bool = False
) -> LinearGelu[L]: ...
@overload
def linear_gelu(
    x: OfShape[L, tuple[*Bs, M]],
    weight: Shaped[Any, tuple[M, N]],
    bias: Shaped[Any, tuple[N]] | Array | None = None,
    approximate: bool = False,
) -> LinearGelu[L, tuple[*Bs, N]]: ...
@method("linear_gelu", function=False)
def linear_gelu(x: Any, weight: object, bias: object = None, approximate: bool = False) -> LinearGelu:
    """Return `(x @ weight + bias).gelu(approximate)` as one node.

    `x` has the axes (..., inputs), `weight` (inputs, outputs), `bias` (outputs,). See `LinearGelu` for the errors.

    >>> wy.Constant([1.0, 2.0]).linear_gelu(np.array([[-3.0], [1.5]])).forward().tolist()
    [0.0]
    """
    return LinearGelu(x, operand(weight, x), None if bias is None else operand(bias, x), approximate=approximate)
