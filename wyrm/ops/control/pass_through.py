"""Ops whose value is that of their first parent, and their forms for JAX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import TypeVar

from wyrm.graph.axes import Dims
from wyrm.graph.base import ZERO, BaseNode, Gradient
from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.loop_form import LOOPS, Decomposed, SameIndex
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array
from wyrm.ops.elementwise.elementwise import Axes, Left_co, Unary
from wyrm.ops.indexing.index import Indexable
from wyrm.support.imports import jax

T = TypeVar("T")


class PassThrough(Node[tuple[Node, *tuple[BaseNode, ...]], Axes], abstract=True):
    """Base class of ops whose value is that of their first parent."""

    __slots__ = ()

    def dtype_rule(self) -> np.dtype:
        return self.parents[0].dtype

    def shape_rule(self) -> Dims:
        dims: Dims = self.parents[0].dims
        return dims

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return operands[0]


class Transparent(PassThrough[Axes], abstract=True):
    """Base class of ops that the native engine replaces by their first parent."""

    __slots__ = ()

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        return operands[0] if mapped[0] else None


@LOOPS.register(Transparent)
class _TransparentLoops(Decomposed):
    def decompose(self, node: Transparent) -> Node:
        return node.parents[0]


class Alias(Indexable, Transparent[Axes]):
    """A distinct node with the value of `x`: its gradient is separate from the gradient with respect to `x`."""

    __slots__ = ()
    same_value = True

    def __init__(self, x: Node) -> None:
        self._construct((x,))

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (gradient,)


class DenseGradient(Indexable, Transparent[Axes]):
    """The value of `x`, with a dense gradient also where only some rows of it are used."""

    __slots__ = ()
    named_as_parent = True

    def __init__(self, x: Node) -> None:
        self._construct((x,))

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (gradient + 0.0 if gradient.gives_rows else gradient,)


def alias(leaf: T) -> T | Alias:
    """Return an `Alias` of a float node, and anything else, which has no gradient, unchanged."""
    return Alias(leaf) if isinstance(leaf, Node) and leaf.dtype.kind == "f" else leaf


class StopGradient(Unary[Left_co, Axes]):
    """`x`, as a constant to differentiation: its gradient is zero.

    >>> x = wy.Parameter(3.0)
    >>> wy.grad(x * x.stop_gradient(), x).forward().item()
    3.0
    """

    __slots__ = ()
    _own: StopGradient[Any, Axes]
    is_view = True
    method = "stop_gradient"

    def dtype_rule(self) -> np.dtype:
        return self.parents[0].dtype

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return operands[0]

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return (ZERO,)


LOOPS.register(StopGradient)(SameIndex())


@JAX.register(StopGradient)
class _StopGradientForm(JaxForm):
    """The lowering of `StopGradient`."""

    narrow = True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        return jax.lax.stop_gradient(operands[0])


class OptimizationBarrierForm(JaxForm):
    """The lowering of `OptimizationBarrier`: XLA merges nothing across it either."""

    narrow: bool | None = True

    def own_gradient(self, node: Any) -> bool:
        return True  # JAX cannot differentiate the loop that stands for a barrier on CPUs

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        def barrier(x: Any, after: Any) -> Any:
            return jax.lax.optimization_barrier((x, after))[0]

        x, after = operands
        if after.size == 0:
            return x
        return jax.lax.platform_dependent(x, after, cpu=_unfolded, default=barrier)


def _unfolded(x: Any, after: Any) -> Any:
    """Return `x` after a loop that depends on `after` and runs no iteration.

    XLA for CPUs drops its barriers before it merges equal operations, and it cannot tell that this loop never runs.
    """
    iterations = (after[(0,) * after.ndim] > 0).astype(np.int32) - 1
    return jax.lax.while_loop(lambda state: state[0] > 0, lambda state: (state[0] - 1, -state[1]), (iterations, x))[1]
