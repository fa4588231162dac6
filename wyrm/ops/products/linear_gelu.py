"""A linear layer with GELU as one op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, overload

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Dims, unify
from wyrm.graph.base import format_dims, label
from wyrm.graph.jax_form import JAX
from wyrm.graph.node import Node
from wyrm.graph.typing import Array, AtLeast1D, Bs, M, N, OfShape, Shaped
from wyrm.ops.batching import spread
from wyrm.ops.composed import Composed, ComposedForm
from wyrm.ops.elementwise.activation import Gelu, GeluTanh
from wyrm.ops.elementwise.elementwise import Axes, L, Left_co, common_dtype, method, operand
from wyrm.ops.products.product import MatMul


def _gelu(x: Node, approximate: bool) -> Gelu | GeluTanh:
    return GeluTanh(x) if approximate else Gelu(x)


class _Linear(Composed[tuple[Node, ...], Axes], abstract=True):
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

    def preactivation(self, operands: Sequence[Node]) -> Node:
        """Return the pre-activation, `x @ weight + bias`."""
        x, weight, *bias = operands[: 2 + self.biased]
        product: Node = MatMul(x, weight)
        return product + bias[0] if bias else product


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

    def compose(self, *operands: Node) -> Node:
        return _gelu(self.preactivation(operands), self.approximate)

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        return None if any(mapped[1:]) else self.rebuild(operands)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x, weight, *bias = self.parents
        preactivation_gradient: Node = LinearGeluGradient(
            x, weight, *bias, gradient, approximate=self.approximate, biased=self.biased
        )
        return *MatMul(x, weight).vjp(preactivation_gradient), *(preactivation_gradient for _ in bias)


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

    def compose(self, *operands: Node) -> Node:
        found: Any = _gelu(self.preactivation(operands), self.approximate).vjp(operands[-1])
        of_preactivation: Node = found[0]
        return of_preactivation

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        if any(mapped[1:-1]):
            return None
        x, gradient = spread((operands[0], operands[-1]), (mapped[0], mapped[-1]))
        return self.rebuild((x, *operands[1:-1], gradient))


@JAX.register(LinearGelu, LinearGeluGradient)
class LinearGeluForm(ComposedForm):
    """One `dot_general`; the activation, or its derivative, is computed of its wide sums."""

    narrow: bool | None = True
    sums_products = True


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
