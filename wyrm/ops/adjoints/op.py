"""Ops whose value a kernel computes, and whose gradient the adjoint of the kernel does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from wyrm.errors import DTypeError, IndexOutOfRange, NotFinite, ShapeError
from wyrm.graph.axes import Dims
from wyrm.graph.base import ZERO, BaseNode, Gradient, explain, label
from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.loop_form import LOOPS, ByKernel
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array
from wyrm.ops.adjoints.derived import FULL
from wyrm.ops.adjoints.plans import GradientPlan, Plan, split
from wyrm.ops.control.loop_body import PackedPlace
from wyrm.ops.control.scan import ScanPart
from wyrm.ops.elementwise.elementwise import Axes


class KernelOp(Node[tuple[BaseNode, ...], Axes], abstract=True):
    """Base class of the ops of kernels; each kernel has a class of its own, with its `plan`.

    Several results are one after the other in the value, which `ScanPart` takes apart.
    """

    __slots__ = ()
    plan: ClassVar[Plan]

    def shape_rule(self) -> Dims:
        given = [parent.dims for parent in self.parents]
        for operand, dims in zip(self.plan.operands, given, strict=True):
            if len(dims) != operand.axes:
                raise ShapeError(f"{operand.name} of {self.plan.name} has {operand.axes} axes, not {len(dims)}")
        found = self.plan.shapes(given)
        return found[0] if len(found) == 1 else (self.plan.packed(given),)

    def dtype_rule(self) -> np.dtype:
        floats = {parent.dtype for parent in self.parents if parent.dtype.kind == "f"}
        if len(floats) > 1:
            names = ", ".join(f"{label(each)} {each.dtype}" for each in self.parents)
            raise DTypeError(f"{self.plan.name}: operands of two float types: {names}; convert one with .astype")
        return floats.pop() if floats else np.dtype(np.float64)

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        out = np.empty(shape, self.dtype)
        with np.errstate(all="ignore"):
            try:
                self.plan.run(list(operands), self.outputs_in(operands, out))
            except IndexError as error:
                raise IndexOutOfRange(explain(self, self._index_error(error))) from None
            except (ArithmeticError, ValueError) as error:  # Python refuses what native code makes infinite or NaN
                raise NotFinite(explain(self, f"the kernel {self.plan.name} in Python: {error}")) from error
        return out

    def _index_error(self, error: IndexError) -> str:
        text = str(error)
        if text == FULL:
            return (
                f"the adjoint of {self.plan.name} records more than {self.plan.room} numbers: give it more room, as in "
                f"@wy.kernel(room={4 * self.plan.room})"
            )
        return f"the kernel {self.plan.name}: {text}"

    def outputs_in(self, operands: Sequence[Array], out: Array) -> list[Array]:
        """Return the results as views of the value."""
        return split(out, self.plan.shapes([each.shape for each in operands]))

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        plan = gradient_of(self.plan)
        given = [parent.dims for parent in self.parents]
        cotangents = parts_of(gradient, self.plan.shapes(given))
        node: Any = op_of(plan)(*self.parents, *(cotangents[i] for i in plan.seeded))
        found = parts_of(node, plan.shapes([parent.dims for parent in node.parents]))
        out: list[Gradient] = [ZERO] * len(self.parents)
        for i, part in zip(plan.wanted, found, strict=True):
            out[i] = part
        return tuple(out)


@JAX.register(KernelOp)
class _KernelForm(JaxForm):
    def own_gradient(self, node: Any) -> bool:
        return True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        return lowering.by_kernel(node, operands, shape)


@cache
def op_of(plan: Plan) -> type[KernelOp]:
    """Return the op of a plan."""

    class Form(ByKernel):
        kernel = staticmethod(plan.function)

        def kernel_arguments(self, node: Any, operands: Sequence[Array], out: Array) -> tuple[Any, ...]:
            return tuple(node.plan.arguments(operands, node.outputs_in(operands, out)))

    name = "".join(word.capitalize() for word in plan.name.split("_"))
    # A user's op: what compares engines compares it.
    module = plan.function.__module__
    made: Any = type(f"Kernel{name}", (KernelOp,), {"__slots__": (), "plan": plan, "__module__": module})
    LOOPS.register(made)(Form)
    found: type[KernelOp] = made
    return found


@cache
def gradient_of(plan: Plan) -> GradientPlan:
    """Return the plan of the gradients of a plan."""
    return GradientPlan(plan)


def parts_of(packed: Node, shapes: Sequence[Dims]) -> list[Node]:
    """Return the results that a node has one after the other, with these axes; the node, where it has one alone."""
    if len(shapes) == 1:
        return [packed]
    starts = (PackedPlace(map(tuple, shapes[:i])) for i in range(len(shapes)))
    return [ScanPart(packed, start, tuple(dims)) for start, dims in zip(starts, shapes, strict=True)]
