"""The steps that random nodes draw for inside loops and under `vmap`."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims
from wyrm.graph.base import BaseNode, label
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.namespace import ArrayNamespace
from wyrm.graph.node import IndexNode
from wyrm.graph.source_location import located_at
from wyrm.graph.traversal import topological_order
from wyrm.graph.typing import Array, IntegerArray
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.elementwise.integers import IndexAdd
from wyrm.ops.random.philox import STEP, Draws, philox_block
from wyrm.ops.random.steps_jax import LoopStepsForm, SumOfStepsForm

# Other ops use smaller counters.
_FIRST_COUNTER = 2**62


def loop_step(step: Any, position: Any) -> Any:
    """Return a number in [0, 2**62), a hash of the step and a position."""
    first, second, _, _ = philox_block(_FIRST_COUNTER + position, step, 0, 0)
    return np.int64((np.uint64(first) << np.uint64(30)) ^ np.uint64(second))


def loop_steps_kernel(step: IntegerArray, out: IntegerArray) -> None:
    """Fill `out` with `loop_step` of all positions."""
    for i in range(out.size):
        out[i] = loop_step(step[0], i)


class LoopSteps(Draws, IndexNode[Axes]):
    """The step that the first iteration of a loop draws for, or those of the rows of `vmap`.

    They are hashes of the step outside, far from it and from each other. Each further iteration adds 1.
    """

    __slots__ = ("to",)
    to: Dims

    def __init__(self, step: IndexNode, to: Dims = ()) -> None:
        self._construct((step,), to=to)

    def shape_rule(self) -> Dims:
        (step,) = self.parents
        if step.dims:
            raise ShapeError(f"the step must be a scalar, not {label(step)}")
        return self.to

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        positions = np.arange(math.prod(shape), dtype=np.int64)
        return xp.asarray(loop_step(int(operands[0]) % 2**64, positions).reshape(shape))

    def drawn_by_rows(self, operands: Sequence[Any], mapped: Sequence[bool], axis: Axis) -> BaseNode:
        return LoopSteps(operands[0], (axis, *self.to))


@LOOPS.register(LoopSteps)
class _LoopStepsLoops(ByKernel):
    kernel = staticmethod(loop_steps_kernel)

    def kernel_arguments(self, node: LoopSteps, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        return operands[0].reshape(-1), out.reshape(-1)


JAX.register(LoopSteps)(LoopStepsForm)
JAX.register(IndexAdd)(SumOfStepsForm)


def draws_now(node: BaseNode) -> bool:
    """Return whether a node draws for the current step, which it has as a parent."""
    return any(parent is STEP for parent in node.parents)


def draws_among(outputs: Sequence[BaseNode], built: Collection[BaseNode]) -> bool:
    """Return whether a node of `built` that the outputs depend on draws for the current step."""
    drawing = {node for node in built if draws_now(node)}
    return bool(drawing) and not drawing.isdisjoint(topological_order(outputs))


def drawn_for(outputs: Sequence[BaseNode], built: Collection[BaseNode], step: BaseNode) -> list[Any]:
    """Return the outputs with the nodes of `built` rebuilt to draw for `step`; other nodes draw as before."""
    own = set(built)
    replacements: dict[BaseNode, BaseNode] = {STEP: step}
    for node in topological_order(outputs):
        if node in own and not replacements.keys().isdisjoint(node.parents):
            parents = tuple(replacements[x] if x in replacements else x for x in node.parents)  # noqa: SIM401  # pyright: `get` may be None
            with located_at(node.origin):
                replacements[node] = type(node).rebuild(parents, node.attribute_values(), node.name)
    return [replacements.get(output, output) for output in outputs]


__all__ = ["LoopSteps", "drawn_for", "draws_among"]
