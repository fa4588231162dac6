"""Parts of a graph whose values are computed again when their gradients are, instead of being kept until then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wyrm.errors import DTypeError
from wyrm.node.base import ZERO, BaseNode, Gradient, S, describe, label
from wyrm.node.leaves import Constant
from wyrm.node.loop_form import LOOPS, LoopForm
from wyrm.node.node import Node
from wyrm.node.source_location import located_at
from wyrm.node.traversal import replaced, topological_order
from wyrm.ops.composite_gradient import composite_vjp
from wyrm.ops.pass_through import PassThrough, Transparent
from wyrm.types.typing import Array, FloatArray


def copy_kernel(x: FloatArray, after: FloatArray, out: FloatArray) -> None:
    """Fill `out` with `x`; `after` is there for the order alone."""
    for i in range(x.size):
        out[i] = x[i]


class OptimizationBarrier(PassThrough[S]):
    """`x`, for computing with it again once `after` is there; it has the name of `x` in messages."""

    __slots__ = ()

    def __init__(self, x: BaseNode, after: Node) -> None:
        self._construct((x, after), label(x))

    def _own(self) -> OptimizationBarrier[S]:
        return self

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return gradient, ZERO


@LOOPS.register(OptimizationBarrier)
class _OptimizationBarrierLoops(LoopForm):
    kernel = staticmethod(copy_kernel)

    def kernel_arguments(self, node: OptimizationBarrier, operands: Sequence[Array], out: Array) -> tuple[Array, ...]:
        x, after = operands
        return x.reshape(-1), after.reshape(-1), out.reshape(-1)


class Checkpoint(Transparent[S]):
    """A result whose gradient computes again what lies between it and the inputs, the first `inputs` other parents.

    The parents after those are what else the part depends on: parameters, and what is made of them alone.
    """

    __slots__ = ("inputs",)
    inputs: int

    def __init__(self, result: Node, *used: Node, inputs: int) -> None:
        self._construct((result, *used), inputs=inputs)

    def _own(self) -> Checkpoint[S]:
        return self

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return self.vjp_by(gradient, [True] * len(self.parents))

    def vjp_by(self, gradient: Node, wanted: Sequence[bool]) -> tuple[Gradient, ...]:
        result, *used = self.parents
        again: dict[BaseNode, BaseNode] = {}
        for x in used[: self.inputs]:
            with located_at(x.origin):
                again[x] = OptimizationBarrier(x, gradient)
        (composed,) = replaced([result], again)
        # What is not asked for may have no gradient, as outside of such a part.
        by = [again.get(node, node) for node, asked in zip(used, wanted[1:], strict=True) if asked]
        found = iter(composite_vjp(composed, gradient, by))
        return (ZERO, *(next(found) if asked else ZERO for asked in wanted[1:]))


def _between(result: BaseNode, inputs: Sequence[BaseNode]) -> list[BaseNode]:
    """The nodes that depend on the inputs and that the result depends on, parents first."""
    reached = set(inputs)
    between = []
    for node in topological_order([result]):
        if node not in reached and not reached.isdisjoint(node.parents):
            reached.add(node)
            between.append(node)
    return between


def checkpoint(function: Callable[..., Node[Any, S]], *inputs: Node[Any, Any]) -> Node[Any, S]:
    """`function(*inputs)`, the nodes of which are computed again for the gradient, instead of being kept until then.

    It takes the memory of one part at a time instead of that of all, and the time of the forward pass once more. The
    result and the gradients are the same: random nodes draw again what they drew. A node inside the part has no
    gradient of its own, only the inputs and what the part uses of outside. Chen et al., "Training deep nets with
    sublinear memory cost" (2016).

    Raises `DTypeError` where an input is no float node, and `ValueError` where the result depends on no input.

    >>> x = wy.Parameter([0.5, 1.0])
    >>> y = wy.checkpoint(lambda x: (x * x).tanh(), x)
    >>> y.sum().backward()
    >>> bool((x.gradient == wy.grad((x * x).tanh().sum(), [x])[0].forward()).all())
    True
    """
    for x in inputs:
        if not isinstance(x, Node) or x.dtype.kind != "f":
            what = describe(x) if isinstance(x, BaseNode) else repr(x)
            raise DTypeError(f"checkpoint takes float nodes that the function is called with, not {what}")
    result = function(*inputs)
    if not isinstance(result, Node):
        raise DTypeError(f"checkpoint takes a function that returns one float node, not {result!r}")
    between = _between(result, inputs)
    if not between:
        raise ValueError(f"{describe(result)} depends on none of the inputs of checkpoint, so nothing is to be saved")
    inside = {*between, *inputs}
    outside = dict.fromkeys(parent for node in between for parent in node.parents if parent not in inside)
    used = [node for node in outside if node.dtype.kind == "f" and not isinstance(node, Constant)]
    return Checkpoint(result, *inputs, *used, inputs=len(inputs))
