"""Checkpointing: parts of a graph whose values the backward pass recomputes instead of storing them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wyrm.errors import DTypeError
from wyrm.graph.base import ZERO, BaseNode, Gradient, S, describe, label
from wyrm.graph.jax_form import JAX, JaxForm
from wyrm.graph.leaves import Constant
from wyrm.graph.loop_form import LOOPS, ByKernel, Gathered
from wyrm.graph.node import Node
from wyrm.graph.source_location import located_at
from wyrm.graph.traversal import replaced, topological_order
from wyrm.graph.typing import Array, FloatArray
from wyrm.graph.weak_types import forms_among
from wyrm.ops.composed import Composed
from wyrm.ops.control.pass_through import OptimizationBarrierForm, PassThrough, Transparent
from wyrm.ops.gradients.accumulation import Repeated, composite_vjp


def copy_kernel(x: FloatArray, after: FloatArray, out: FloatArray) -> None:
    """Copy `x` into `out`; `after` only orders the computation."""
    for i in range(x.size):
        out[i] = x[i]


class OptimizationBarrier(PassThrough[S]):
    """`x`, available only after `after`: no engine merges nodes recomputed from it with the originals."""

    __slots__ = ()

    def __init__(self, x: BaseNode, after: Node) -> None:
        self._construct((x, after), label(x))

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return gradient, ZERO


@LOOPS.register(OptimizationBarrier)
class _OptimizationBarrierLoops(ByKernel):
    kernel = staticmethod(copy_kernel)

    def kernel_arguments(self, node: OptimizationBarrier, operands: Sequence[Array], out: Array) -> tuple[Array, ...]:
        x, after = operands
        return x.reshape(-1), after.reshape(-1), out.reshape(-1)


JAX.register(OptimizationBarrier)(OptimizationBarrierForm)


def _takes_linear_time(node: BaseNode) -> bool:
    """Return whether the value takes few operations an element of it and of the operands."""
    if isinstance(node, Composed):
        return all(each.is_leaf or _takes_linear_time(each) for each in topological_order(node.composition().outputs))
    form = LOOPS.of(node)
    return bool(node.formula) or form.reducer is not None or isinstance(form, Gathered) or isinstance(node, PassThrough)


class Checkpoint(Repeated, Transparent[S]):
    """A result whose gradient recomputes the nodes between it and the inputs.

    If these take little time, what reads the result recomputes it for its gradient, too, and nothing keeps it.

    The parents are the result, the `inputs` inputs, and the other float nodes that the part depends on.
    """

    __slots__ = ("inputs",)
    inputs: int

    def __init__(self, result: Node, *used: Node, inputs: int) -> None:
        self._construct((result, *used), inputs=inputs)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return self.vjp_by(gradient, [True] * len(self.parents))

    def vjp_by(self, gradient: Node, wanted: Sequence[bool]) -> tuple[Gradient, ...]:
        result, *used = self.parents
        barriers = self._barriers(gradient)
        (recomputed,) = replaced([result], barriers)
        # A parent that is not wanted may have no gradient at all.
        parents = [barriers.get(node, node) for node, is_wanted in zip(used, wanted[1:], strict=True) if is_wanted]
        gradients = iter(composite_vjp(recomputed, gradient, parents))
        return (ZERO, *(next(gradients) if is_wanted else ZERO for is_wanted in wanted[1:]))

    def again(self, after: Node) -> Node | None:
        """Return the result, computed again when `after` is known; None if that takes too much time."""
        inputs = self.parents[1 : 1 + self.inputs]
        if not all(map(_takes_linear_time, _between(self.parents[0], inputs))):
            return None
        (recomputed,) = replaced(self.parents[:1], self._barriers(after))
        return recomputed  # type: ignore[return-value]  # the result is a node

    def _barriers(self, after: Node) -> dict[BaseNode, BaseNode]:
        """Return copies of the inputs that are available when `after` is known."""
        barriers: dict[BaseNode, BaseNode] = {}
        for x in self.parents[1 : 1 + self.inputs]:
            with located_at(x.origin):
                barriers[x] = OptimizationBarrier(x, after)
        return barriers


@JAX.register(Checkpoint)
class _CheckpointForm(JaxForm):
    narrow = True
    recomputes = True


def _between(result: BaseNode, inputs: Sequence[BaseNode]) -> list[BaseNode]:
    """Return the nodes on the paths from the inputs to the result."""
    inside, between = set(inputs), []
    for node in topological_order([result], inputs):
        if not inside.isdisjoint(node.parents):
            inside.add(node)
            between.append(node)
    return between


def checkpointed(result: Node, inputs: Sequence[BaseNode]) -> Checkpoint | None:
    """Return `result`, which gradients recompute from those inputs it depends on; None if there are none.

    The nodes on the paths from the inputs to the result are recomputed; the other float nodes that they read keep their
    values.
    """
    between = _between(result, inputs)
    if not between:
        return None
    inside = {*inputs, *between}
    read = dict.fromkeys(parent for node in between for parent in node.parents)
    given = [x for x in inputs if x in read]
    used = [x for x in read if x not in inside and x.dtype.kind == "f" and not isinstance(x, Constant)]
    return Checkpoint(result, *given, *used, inputs=len(given))  # type: ignore[arg-type]  # float leaves are nodes


def checkpoint(function: Callable[..., Node[Any, S]], *inputs: Node) -> Node[Any, S]:
    """Return `function(*inputs)`; the backward pass recomputes its nodes instead of storing their values.

    This saves memory and costs the time of a second forward pass. The result and the gradients are the same: random
    nodes draw the same numbers again. A result that takes few operations an element, such as an activation, is also
    recomputed for the gradients of the nodes that read it. Only the inputs and nodes outside of the function have
    gradients, not the nodes inside. Chen et al., "Training deep nets with sublinear memory cost" (2016).

    Raise `DTypeError` unless all inputs and the result are float nodes, and `ValueError` if the result depends on no
    input.

    >>> x = wy.Parameter([0.5, 1.0])
    >>> y = wy.checkpoint(lambda x: (x * x).tanh(), x)
    >>> y.sum().backward()
    >>> bool((x.gradient == wy.grad((x * x).tanh().sum(), [x])[0].forward()).all())
    True
    """
    for x in inputs:
        if not isinstance(x, Node) or x.dtype.kind != "f":
            description = describe(x) if isinstance(x, BaseNode) else repr(x)
            raise DTypeError(f"checkpoint: the inputs must be float nodes, not {description}")
    result = function(*inputs)
    if not isinstance(result, Node):
        raise DTypeError(f"checkpoint: the function must return one float node, not {result!r}")
    reached = set(topological_order([result]))
    inputs = tuple(form for x in inputs for form in forms_among(x, reached) or [x])
    found = checkpointed(result, inputs)
    if found is None:
        raise ValueError(f"checkpoint: {describe(result)} depends on none of the inputs, so it recomputes nothing")
    return found
