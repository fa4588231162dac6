"""Einstein summation of two operands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dim, Dims, product, unify
from wyrm.graph.jax_form import JAX
from wyrm.graph.node import Node
from wyrm.graph.op import NUMPY, ArrayNamespace
from wyrm.graph.typing import Array
from wyrm.ops.composed import Composed
from wyrm.ops.elementwise.elementwise import Axes, Left_co, Right_co
from wyrm.ops.products.product import EinsumForm, Product
from wyrm.ops.subgraph import Subgraph

# The letters allowed in subscripts.
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
# The most products that NumPy sums in float32, which it does one after the other.
_CHAIN = 1024


def axes_by_letter(terms: Sequence[str], operands: Sequence[Dims]) -> dict[str, Axis]:
    """Return the axis that each letter names; raise `ShapeError` where a letter names axes that differ."""
    axes: dict[str, Axis] = {}
    for term, dims in zip(terms, operands, strict=True):
        if len(term) != len(dims):
            raise ShapeError(f"{term!r} names {len(term)} axes, but the operand has {len(dims)}")
        if len(set(term)) != len(term):
            raise ShapeError(f"{term!r} names an axis twice; diagonals are not supported")
        for letter, axis in zip(term, dims, strict=True):
            try:
                axes[letter] = unify(axes[letter], axis) if letter in axes else axis
            except ShapeError as error:
                raise ShapeError(f"axis {letter!r}: {error}") from None
    return axes


class Einsum(Product[Left_co, Right_co, Axes], Composed[tuple[Left_co, Right_co], Axes]):
    """Einstein summation of two operands: the sum of products over the letters that the result lacks."""

    __slots__ = ("subscripts",)
    _own: Einsum[Any, Any, Axes]
    adds_rows = True
    subscripts: str

    def __init__(self, x: Node, y: Node, subscripts: str) -> None:
        self._construct((x, y), subscripts=subscripts)

    def terms(self) -> tuple[str, str, str]:
        """Return the letters of the two operands and of the result."""
        operands, _, result = self.subscripts.partition("->")
        x, _, y = operands.partition(",")
        return x, y, result

    def shape_rule(self) -> Dims:
        x, y, result = self.terms()
        axes = axes_by_letter((x, y), [parent.dims for parent in self.parents])
        if len(set(result)) != len(result) or not set(result) <= set(axes):
            raise ShapeError(f"the result {result!r} must use letters of the operands, each at most once")
        return tuple(axes[letter] for letter in result)

    def compose(self, x: Node, y: Node) -> Node:
        x_term, y_term, result = self.terms()
        x, x_term = _summed_over_own_letters(x, x_term, y_term + result)
        y, y_term = _summed_over_own_letters(y, y_term, x_term + result)
        batch = [letter for letter in x_term if letter in y_term and letter in result]
        inner = [letter for letter in x_term if letter in y_term and letter not in result]
        rows = [letter for letter in x_term if letter not in y_term]
        columns = [letter for letter in y_term if letter not in x_term]
        axes: dict[str, Any] = dict(zip(x_term + y_term, x.dims + y.dims, strict=True))
        left = x.transpose(*(x_term.index(letter) for letter in (*batch, *rows, *inner))) if x_term else x
        right = y.transpose(*(y_term.index(letter) for letter in (*batch, *inner, *columns))) if y_term else y
        batched, widths = (
            [axes[letter] for letter in batch],
            [_flattened_axis(axes, group) for group in (rows, inner, columns)],
        )
        left_dims: Any = (*batched, *widths[:2])
        right_dims: Any = (*batched, *widths[1:])
        products = left.reshape(left_dims) @ right.reshape(right_dims)
        order = [*batch, *rows, *columns]
        spread: Node = products.reshape(tuple(axes[letter] for letter in order))
        answer: Node = spread.transpose(*(order.index(letter) for letter in result)) if result else spread
        return answer

    def evaluate_composition(
        self,
        composition: Subgraph,
        sizes: Mapping[type[Dim], int],
        xp: ArrayNamespace,
        *operands: Array,
        shape: tuple[int, ...],
    ) -> Array:
        if self.dtype == np.float32 and _terms(self.subscripts, operands) > _CHAIN and xp is NUMPY:
            wide = (xp.astype(x, xp.float64) for x in operands)
            return xp.astype(super().evaluate_composition(composition, sizes, xp, *wide, shape=shape), self.dtype)
        return super().evaluate_composition(composition, sizes, xp, *operands, shape=shape)

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        free = next(letter for letter in LETTERS if letter not in self.subscripts)
        x, y, result = self.terms()
        terms = (free * many + term for term, many in zip((x, y), mapped, strict=True))
        return self.rebuild(operands, subscripts=f"{','.join(terms)}->{free}{result}")

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x_term, y_term, result = self.terms()
        x, y = self.parents
        return _einsum_vjp(gradient, result, y, y_term, x, x_term), _einsum_vjp(gradient, result, x, x_term, y, y_term)


JAX.register(Einsum)(EinsumForm)


def _summed_over_own_letters(x: Node, term: str, others: str) -> tuple[Node, str]:
    """Return the operand summed over its letters that are not in `others`, and its remaining letters."""
    alone = tuple(i for i, letter in enumerate(term) if letter not in others)
    return (x.sum(alone), "".join(letter for letter in term if letter in others)) if alone else (x, term)


def _terms(subscripts: str, operands: Sequence[Array]) -> int:
    """Return the number of products that are summed to an element."""
    terms, _, result = subscripts.partition("->")
    sizes = dict(zip(terms.replace(",", ""), (size for x in operands for size in x.shape), strict=True))
    return math.prod(size for letter, size in sizes.items() if letter not in result)


def _flattened_axis(axes: dict[str, Axis], letters: Sequence[str]) -> Axis:
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
