"""The product over axes, with a gradient that is correct at zeros too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.loop_form import LOOPS, ByKernel, Reducer
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import FloatArray
from wyrm.ops.elementwise.elementwise import Axes, Left_co
from wyrm.ops.reducing.base import AlongAxis, Reduction, ReductionLoops, split_at
from wyrm.support.imports import jnp, lax


class Prod(Reduction[Left_co, Axes]):
    """Product over `axis`: an axis, several, or all by default; `keepdims=True` keeps them at size 1.

    The gradient is correct at zeros too. Raise `ShapeError` for an axis that the operand lacks.

    >>> wy.Constant([[1.0, 2.0], [3.0, 4.0]]).prod(axis=-1).forward().tolist()
    [2.0, 12.0]
    """

    __slots__ = ()
    _own: Prod[Any, Axes]
    method = "prod"
    empty: float | None = 1.0

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return xp.prod(operands[0], axis=self.axis, keepdims=self.keepdims)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        # One axis after another: the product of the other elements along it, times the products of the other rows.
        x: Node = self.parents[0]
        result = self.spread(gradient)
        for axis in reversed(self.axis):
            result = result * ProductOfOthers(x, axis)
            x = Prod(x, axis, keepdims=True)
        return (result,)


LOOPS.register(Prod)(ReductionLoops(Reducer(1.0, "total * x")))


class ProductOfOthers(AlongAxis[Axes]):
    """For each element, the product of the others along `axis`: the derivative of the product with respect to it."""

    __slots__ = ()

    def __init__(self, x: Node, axis: int) -> None:
        self._construct((x,), axis=axis)

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        x = xp.moveaxis(operands[0], self.axis, 0)
        one = xp.ones_like(x[:1])
        before = xp.cumprod(xp.concat([one, x[:-1]]), axis=0)[: len(x)]
        after = xp.flip(xp.cumprod(xp.concat([one, xp.flip(x[1:], 0)]), axis=0)[: len(x)], 0)
        return xp.moveaxis(before * after, 0, self.axis)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        (x,) = self.parents
        return (ProductOfOthersAlong((x, gradient), self.axis),)


@LOOPS.register(ProductOfOthers)
class _ProductOfOthersLoops(ByKernel):
    @staticmethod
    def kernel(x: FloatArray, out: FloatArray) -> None:
        last = x.shape[1] - 1
        for i in range(x.shape[0]):
            for k in range(x.shape[2]):
                if last >= 0:
                    out[i, 0, k] = 1.0
                for j in range(last):
                    out[i, j + 1, k] = out[i, j, k] * x[i, j, k]
                if last > 0:
                    after = x[i, last, k]
                    for j in range(last):
                        out[i, last - 1 - j, k] *= after
                        after *= x[i, last - 1 - j, k]

    def kernel_arguments(
        self, node: ProductOfOthers, operands: Sequence[np.ndarray], out: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        return split_at(node.axis, operands[0], out)


class ProductOfOthersAlong(AlongAxis[Axes]):
    """The directional derivative of `ProductOfOthers`, of any order; the parents are the point and the directions.

    For element i and directions a, b, ..., it is the sum over positions j, k, ..., distinct from each other and from i,
    of a[j] * b[k] * ... times the product of all other elements. It is symmetric in i, j, k, ..., so its gradients are
    the same op with other directions.
    """

    __slots__ = ()

    def __init__(self, parents: tuple[Node, ...], axis: int) -> None:
        self._construct(parents, axis=axis)

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        x, *directions = (xp.moveaxis(operand, self.axis, 0) for operand in operands)
        count = len(x)
        if not count:
            return operands[0]
        # Multiply dual numbers with one infinitesimal per direction; product[s] is the coefficient of the directions
        # whose bits are set in s.
        sets = range(2 ** len(directions))

        def products(positions: Sequence[int]) -> list[list[FloatArray]]:
            """Return, for each of the positions in order, the product of the elements at the positions before it."""
            product = [xp.ones_like(x[0]), *(xp.zeros_like(x[0]) for _ in sets[1:])]
            products_before = []
            for position in positions:
                products_before.append(product)
                product = [
                    sum(
                        (product[s ^ (1 << i)] * along[position] for i, along in enumerate(directions) if s >> i & 1),
                        start=product[s] * x[position],
                    )
                    for s in sets
                ]
            return products_before

        before, after = products(range(count)), products(range(count)[::-1])[::-1]
        rows: list[Any] = [
            sum(left[s] * right[sets[-1] ^ s] for s in sets) for left, right in zip(before, after, strict=True)
        ]
        return xp.moveaxis(xp.stack(rows), 0, self.axis)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x, *directions = self.parents
        others = (directions[:i] + directions[i + 1 :] for i in range(len(directions)))
        return (
            ProductOfOthersAlong((x, *directions, gradient), self.axis),
            *(ProductOfOthersAlong((x, *rest, gradient), self.axis) for rest in others),
        )


@JAX.register(ProductOfOthersAlong)
class _ProductOfOthersAlongForm(JaxForm):
    """Two loops over the axis, for the products of the elements before and after each one.

    The numbers have one infinitesimal for each direction: coefficient s of a number is that of the directions whose
    bits are set in s.
    """

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        x, *directions = (jnp.moveaxis(operand, node.axis, 0) for operand in operands)
        if not len(x):
            return operands[0]
        sets = range(2 ** len(directions))

        def step(product: list[Any], row: tuple[Any, list[Any]]) -> tuple[list[Any], list[Any]]:
            element, along = row
            following = [
                sum((product[s ^ (1 << i)] * each for i, each in enumerate(along) if s >> i & 1), product[s] * element)
                for s in sets
            ]
            return following, product

        one = [jnp.ones_like(x[0]), *(jnp.zeros_like(x[0]) for _ in sets[1:])]
        before, after = (lax.scan(step, one, (x, directions), reverse=reverse)[1] for reverse in (False, True))
        rows = sum((before[s] * after[sets[-1] ^ s] for s in sets[1:]), before[0] * after[sets[-1]])
        return jnp.moveaxis(rows, 0, node.axis)
