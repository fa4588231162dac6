"""Ops whose value a kernel computes, and whose gradient two kernels do: one that records, and one that runs back.

The first of these fills the residuals: the results of the op, which a program reads there if it needs the gradient too,
and what the second one needs.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from wyrm.errors import DTypeError, IndexOutOfRange, NotFinite, ShapeError
from wyrm.graph.axes import Axis, Derived, Dims, axis_size
from wyrm.graph.base import ZERO, BaseNode, Gradient, explain, label
from wyrm.graph.jax_form import JAX, JaxForm, Lowering, Unjoined
from wyrm.graph.loop_form import LOOPS, ByKernel
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array
from wyrm.ops.adjoints.plans import GradientPlan, Plan, split
from wyrm.ops.adjoints.writing import FULL
from wyrm.ops.control.loop_body import PackedPlace
from wyrm.ops.control.scan import ScanPart
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.support.imports import jnp


class _OfPlan(type(Node)):  # type: ignore[misc]  # the class of classes of nodes
    """The class of the ops of kernels, which pickles find by their plan."""

    # The function that returns the op, and the plan that it takes.
    made_from: tuple[Callable[[Any], Any], Plan]


def _reduced(op: Any) -> Any:
    """Return how pickles make a class: by its plan, or by its name for a base class."""
    by, plan = vars(op).get("made_from", (None, None))
    return op.__qualname__ if by is None else (by, (plan,))


copyreg.pickle(_OfPlan, _reduced)


class KernelOp(Node[tuple[BaseNode, ...], Axes], abstract=True, metaclass=_OfPlan):
    """Base class of the ops of kernels; each kernel has a class of its own, with its `plan`.

    Several results are one after the other in the value, which `ScanPart` takes apart.
    """

    __slots__ = ()
    plan: ClassVar[Plan]

    @property
    def operands(self) -> tuple[BaseNode, ...]:
        """The parents that are operands of the plan."""
        return self.parents

    def shape_rule(self) -> Dims:
        given = self._checked_dims()
        found = self.plan.in_value(given)
        return found[0] if len(found) == 1 else (self.plan.packed(given),)

    def _checked_dims(self) -> list[Dims]:
        given = [parent.dims for parent in self.operands]
        for operand, dims in zip(self.plan.operands, given, strict=True):
            if len(dims) != operand.axes:
                raise ShapeError(f"{operand.name} of {self.plan.name} has {operand.axes} axes, not {len(dims)}")
        return given

    def dtype_rule(self) -> np.dtype:
        floats = {parent.dtype for parent in self.parents if parent.dtype.kind == "f"}
        if len(floats) > 1:
            names = ", ".join(f"{label(each)} {each.dtype}" for each in self.parents)
            raise DTypeError(f"{self.plan.name}: operands of two float types: {names}; convert one with .astype")
        return floats.pop() if floats else np.dtype(np.float64)

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        out = np.zeros(shape, self.dtype)
        form = LOOPS.of(self)
        kernel: Any = form.kernel
        with np.errstate(all="ignore"):
            try:
                kernel(*form.kernel_arguments(self, operands, out))
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

    def parts(self, packed: Node) -> list[Node]:
        """Return the results in the value of a node."""
        return [each.sum(0) if i in self.plan.summed else each for i, each in enumerate(self._in_value(packed))]

    def _in_value(self, packed: Node) -> list[Node]:
        """Return the parts of an array like the value; the array, where it has one alone."""
        shapes = self.plan.in_value([parent.dims for parent in self.operands])
        return [packed] if len(shapes) == 1 else _parts_of(packed, shapes)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        # The terms of a sum have the same cotangent.
        cotangents = enumerate(self._in_value(gradient))
        return self._gradients([each[0] if i in self.plan.summed else each for i, each in cotangents])

    def _gradients(self, cotangents: Sequence[Node]) -> tuple[Gradient, ...]:
        """Return the gradients for the cotangents of the results."""
        operands = self.operands
        plan = self.plan.gradient_for([parent.dims for parent in operands])
        residuals: Any = residuals_of(plan)(*operands)
        node: Any = op_of(plan)(*operands, *(cotangents[i] for i in plan.seeded), residuals)
        out: list[Gradient] = [ZERO] * len(self.parents)
        for i, part in zip(plan.wanted, node.parts(node), strict=True):
            out[i] = part
        return tuple(out)


class KernelGradient(KernelOp[Axes], abstract=True):
    """The gradients of a kernel; the last parent holds the residuals, which depend on the others."""

    __slots__ = ()
    plan: ClassVar[GradientPlan]

    @property
    def operands(self) -> tuple[BaseNode, ...]:
        return self.parents[:-1]


class KernelResiduals(KernelOp[Axes], abstract=True):
    """The results of a kernel, and then what its gradient needs: arrays of its own, and tapes.

    These have types of their own: their elements in the value are parts of numbers.
    """

    __slots__ = ()
    holds_bits = True
    of: ClassVar[GradientPlan]

    def shape_rule(self) -> Dims:
        axis = SizeOfResiduals([axis for dims in self._checked_dims() for axis in dims], self.of)
        size = axis_size(axis)
        return (axis if size is None else size,)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return self._gradients(_parts_of(gradient, self.plan.shapes([parent.dims for parent in self.parents])))


class SizeOfResiduals(Derived):
    """The axis of the residuals of a kernel; its parts are the axes of the operands, one after the other."""

    __slots__ = ("of_plan",)

    def __init__(self, parts: Iterable[Axis], of_plan: GradientPlan) -> None:
        self.of_plan: GradientPlan = of_plan
        super().__init__(parts)

    def _combine(self, sizes: list[int]) -> int:
        given = iter(sizes)
        return self.of_plan.elements([[next(given) for _ in range(each.axes)] for each in self.of_plan.plan.operands])

    def like(self, other: Derived) -> bool:
        return isinstance(other, SizeOfResiduals) and self.of_plan is other.of_plan

    def of(self, parts: Iterable[Axis]) -> Axis:
        return SizeOfResiduals(parts, self.of_plan)

    def __hash__(self) -> int:
        return hash((SizeOfResiduals, self.parts))

    def __repr__(self) -> str:
        return f"residuals of {self.of_plan.plan.name}[{', '.join(map(repr, self.parts))}]"

    def __reduce__(self) -> tuple[object, ...]:
        return SizeOfResiduals, (self.parts, self.of_plan)


# --- loops and JAX ----------------------------------------------------------------------------------------------------


@Unjoined.register
class KernelParts(NamedTuple):
    """Residuals in JAX: the results one after the other, and the memory by its names, each in an array of its type."""

    results: Any
    memory: dict[str, Any]

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the results."""
        found: np.dtype = self.results.dtype
        return found

    def flat(self) -> Any:
        """Return the results: memory is read by the gradient alone, and has no cotangent."""
        return self.results


class _KernelForm(JaxForm):
    # The residuals of kernels are several arrays, which equal layers do not share.
    takes_rows = reads_constants = exact = True

    def own_gradient(self, node: Any) -> bool:
        return True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        return lowering.by_kernel(node, operands, shape)


class _ResidualsForm(_KernelForm):
    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        plan: GradientPlan = node.of
        shapes = [x.shape for x in operands]
        found = dict(zip(plan.forward_names, lowering.arrays_of_kernel(node, operands, shape), strict=True))
        results = jnp.concatenate([found[each].reshape(-1) for each in node.plan.names_of_outputs])
        return KernelParts(results, {each.name: found[each.name] for each in plan.residuals(shapes)})


class ResultsPart(ScanPart[Node, Axes]):
    """A part of the results in the residuals of a kernel."""

    __slots__ = ()


class _ResultsPartForm(JaxForm):
    takes_rows = exact = True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        (residuals,) = operands
        results = residuals.results if isinstance(residuals, KernelParts) else residuals
        return super().lower(node, [results], shape, lowering)


JAX.register(ResultsPart)(_ResultsPartForm)
JAX.register(KernelOp)(_KernelForm)
JAX.register(KernelResiduals)(_ResidualsForm)


class _Form(ByKernel):
    def part_of_residuals(self, node: KernelOp) -> Node | None:
        return _in_residuals(node)


@cache
def op_of(plan: Plan) -> type[KernelOp]:
    """Return the op of a plan."""
    if isinstance(plan, GradientPlan):
        return _gradient_op(plan)

    class Value(_Form):
        kernel = staticmethod(plan.kernel)

        def kernel_arguments(self, node: KernelOp, operands: Sequence[Array], out: Array) -> tuple[Any, ...]:
            return tuple(plan.kernel_arguments(operands, split(out, plan.shapes([x.shape for x in operands]))))

    return _made("", KernelOp, (op_of, plan), Value(), plan=plan)


def _gradient_op(plan: GradientPlan) -> type[KernelOp]:
    class Backward(_Form):
        kernel = staticmethod(plan.backward)

        def kernel_arguments(self, node: KernelOp, operands: Sequence[Any], out: Array) -> tuple[Any, ...]:
            *given, packed = operands
            shapes = [x.shape for x in given]
            inner = shapes[: len(plan.plan.operands)]
            if isinstance(packed, KernelParts):
                types = {each.name: each.dtype for each in plan.residuals(inner)}
                memory = {key: array.astype(types[key]) for key, array in packed.memory.items()}
                residuals = split(packed.results, plan.plan.shapes(inner)), memory
            else:
                residuals = plan.taken_apart(packed, inner)
            return tuple(plan.backward_arguments(given, residuals, split(out, plan.in_value(shapes))))

    return _made(
        "", KernelGradient, (op_of, plan), Backward(), plan=plan, residual_parents=frozenset([len(plan.operands)])
    )


@cache
def residuals_of(plan: GradientPlan) -> type[KernelOp]:
    """Return the op of the residuals for a plan of gradients."""

    class Forward(ByKernel):
        kernel = staticmethod(plan.forward)

        def kernel_arguments(self, node: KernelOp, operands: Sequence[Array], out: Array) -> tuple[Any, ...]:
            results, memory = plan.taken_apart(out, [x.shape for x in operands])
            return tuple(plan.forward_arguments(operands, results, memory))

    return _made("Residuals", KernelResiduals, (residuals_of, plan), Forward(), plan=plan.plan, of=plan)


def _made(
    word: str, kind: type[KernelOp], made_from: tuple[Any, Plan], form: ByKernel, **members: Any
) -> type[KernelOp]:
    plan = members["plan"]
    name = "".join(part.capitalize() for part in plan.name.split("_"))
    # A user's op: what compares engines compares it.
    members |= {"__slots__": (), "__module__": plan.module, "made_from": made_from}
    made: Any = _OfPlan(f"Kernel{name}{word}", (kind,), members)
    LOOPS.register(made)(form)
    found: type[KernelOp] = made
    return found


def _in_residuals(node: KernelOp) -> Node | None:
    """Return the value of a kernel as a part of the residuals, None where no gradient of it was made."""
    if not node.plan.has_gradient:
        return None
    plan = node.plan.gradient_for([parent.dims for parent in node.operands])
    residuals: Any = residuals_of(plan)(*node.operands)
    return ResultsPart(residuals, PackedPlace(()), node.dims)


def _parts_of(packed: Node, shapes: Sequence[Dims]) -> list[Node]:
    starts = (PackedPlace(map(tuple, shapes[:i])) for i in range(len(shapes)))
    return [ScanPart(packed, start, tuple(dims)) for start, dims in zip(starts, shapes, strict=True)]
