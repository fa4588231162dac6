"""The base classes of reductions over one, several or all axes, and of ops that work along one axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import (
    Axis,
    AxisLike,
    Dims,
    all_axes,
    axis_size,
    known_size,
    normalize_axis,
    ragged_axis,
    reduced_dims,
    unify,
)
from wyrm.graph.base import ZERO, BaseNode, Gradient, P_co, explain, label
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument, Reduced, Reducer
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import FloatArray
from wyrm.ops.batching import spread
from wyrm.ops.elementwise.elementwise import Axes, Left_co, bind_class, common_dtype, constant_like, float_dtype
from wyrm.reach.rules import REACH, Along, Reached
from wyrm.reach.ways import How, Way, aligned
from wyrm.support.foreign_names import answers

if TYPE_CHECKING:
    from wyrm.reach.facts import Analysis


class OneAxis(BaseNode[P_co, Axes], abstract=True):
    """An op along `axis`, a position from 0 on, of operands that all have that axis; the result has their axes."""

    __slots__ = ("axis",)
    axis: int

    def shape_rule(self) -> Dims:
        dims: Dims = self.parents[0].dims
        object.__setattr__(self, "axis", normalize_axis(self.axis, len(dims)))
        for parent in self.parents[1:]:
            dims = tuple(map(unify, dims, parent.dims))
        return dims

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Any:
        return self.rebuild(spread(operands, mapped), axis=self.axis + 1)


@REACH.register(OneAxis)
class _OneAxisReach(Along):
    """An element depends on all along the axis, unless the loop form of the op says more."""

    def ways(self, node: Any) -> list[Way] | None:
        if LOOPS.of(node).reducer is not None or node.composition() is not None:
            return None
        if not isinstance(node, ReducedAxis):
            return super().ways(node)
        return aligned(node, node.parents[0].ndim, {node.axis: How.ANY})

    def reached(self, node: Any, operands: Sequence[Reached], analysis: Analysis) -> Reached | None:
        if LOOPS.of(node).reducer is not None or node.composition() is not None:
            return None
        if not isinstance(node, ReducedAxis):
            return super().reached(node, operands, analysis)
        found = analysis.without(node, operands[0], (node.axis,), node.keepdims)
        found.values = {}
        return found


class SortedReach(_OneAxisReach):
    """The rule of an op of the positions in the order of elements."""

    sorts = True


class AlongAxis(OneAxis[tuple[Node, ...], Axes], Node[tuple[Node, ...], Axes], abstract=True):
    """An op of floats along `axis`."""

    __slots__ = ()

    def dtype_rule(self) -> np.dtype:
        dtype = common_dtype(self.parents)
        if dtype.kind != "f":
            raise DTypeError(f"{label(self.parents[0])} is {dtype}; convert it with .astype(np.float32)")
        return dtype


class PositionsAlongAxis(OneAxis[Any, Axes], IndexNode[Axes], abstract=True):
    """An op of positions along `axis`, from 0 on."""

    __slots__ = ()

    @property
    def within(self) -> Axis:
        """The axis that the values index."""
        axis: Axis = self.parents[0].dims[self.axis]
        return axis


def split_at(axis: int, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return row-major arrays of one shape as views of three axes: those before `axis`, `axis`, and those after it."""
    shape = arrays[0].shape
    parts = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    return tuple(array.reshape(parts) for array in arrays)


class ReducedAxisLoops(ByKernel):
    """A kernel that reduces one axis: its operand has three axes and it reduces the middle one."""

    def kernel_arguments(
        self, node: Any, operands: Sequence[np.ndarray], out: np.ndarray
    ) -> tuple[KernelArgument, ...]:
        (x,) = split_at(node.axis, operands[0])
        return x, out.reshape(x.shape[0], x.shape[2])


class Reduction(Node[tuple[Left_co], Axes], abstract=True):
    """An op that reduces the axes `axis`, stored as sorted positions from 0."""

    declaration = """
@overload
def {method}(self: Shaped[L, S], axis: None = None, keepdims: Literal[False] = False{more}) -> {op}[L, tuple[()]]: ...
@overload
def {method}(self: Shaped[L, AtLeast1D], axis: AxisLike = None, keepdims: bool = False{more}) -> {op}[L]: ...
@overload
def {method}(self: OfShape[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[True]{more}) -> {op}[L, tuple[*Bs, One]]: ...
@overload
def {method}(self: OfShape[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[False] = False{more}) -> {op}[L, tuple[*Bs]]: ...
@overload
def {method}(self: OfShape[L, tuple[N, *Bs]], axis: Literal[0], keepdims: Literal[False] = False{more}) -> {op}[L, tuple[*Bs]]: ...
@overload
def {method}(self: OfShape[L, tuple[N, *Bs]], axis: Literal[0], keepdims: Literal[True]{more}) -> {op}[L, tuple[One, *Bs]]: ...
@overload
def {method}(self: OfShape[L, tuple[M, N, *Bs]], axis: Literal[1], keepdims: Literal[False] = False{more}) -> {op}[L, tuple[M, *Bs]]: ...
@overload
def {method}(self: OfShape[L, tuple[M, N, *Bs]], axis: Literal[1], keepdims: Literal[True]{more}) -> {op}[L, tuple[M, One, *Bs]]: ...
@overload
def {method}(self: OfShape[L, tuple[*Bs, M, N]], axis: Literal[-2], keepdims: Literal[False] = False{more}) -> {op}[L, tuple[*Bs, N]]: ...
@overload
def {method}(self: OfShape[L, tuple[M, N, *Bs]], axis: tuple[Literal[0], Literal[1]], keepdims: Literal[False] = False{more}) -> {op}[L, tuple[*Bs]]: ...
@overload
def {method}(self: OfShape[L, tuple[*Bs, M, N]], axis: tuple[Literal[-2], Literal[-1]], keepdims: Literal[False] = False{more}) -> {op}[L, tuple[*Bs]]: ...
@overload
def {method}(self: OfShape[L, tuple[N, *Bs]], axis: AxisLike = None, keepdims: bool = False{more}) -> {op}[L]: ...
"""  # noqa: E501

    __slots__ = ("axis", "keepdims")
    axis: tuple[int, ...]
    keepdims: bool
    # The result of reducing no elements; None if that is undefined.
    empty: float | None = None

    @classmethod
    def _bind_members(cls) -> None:
        if "method" in cls.__dict__:
            bind_class(cls, lambda _: cls.of_mask)

    @classmethod
    def of_mask(cls, x: Node, *arguments: Any, **keywords: Any) -> Any:
        """Return the reduction of a mask as a node; by default that of floats, which refuses it."""
        return cls(x, *arguments, **keywords)

    def __init__(self, x: Node, axis: AxisLike = None, keepdims: bool = False, **attributes: Any) -> None:
        if attributes.keys() - self.attributes:
            refuse_keywords(f"node.{self.op_name()}", attributes.keys() - self.attributes, self.attributes)
        self._construct((x,), axis=axis, keepdims=check_keepdims(self.op_name(), keepdims), **attributes)

    def shape_rule(self) -> Dims:
        (x,) = self.parents
        object.__setattr__(self, "axis", all_axes(self.axis, len(x.dims)))
        if self.empty is None and any(axis_size(x.dims[a]) == 0 for a in self.axis):
            raise ShapeError("has no value over an axis of size 0")
        return reduced_dims(x.dims, self.axis, self.keepdims)

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node:
        return self.rebuild(operands, axis=tuple(axis + 1 for axis in self.axis))

    def dtype_rule(self) -> np.dtype:
        return float_dtype(self.parents[0])

    def check_sizes(self, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> None:
        if self.empty is None and any(shapes[0][axis] == 0 for axis in self.axis):
            raise ShapeError(explain(self, "has no value over an axis of size 0, which the data of this run has"))

    def expand(self, reduced: Node) -> Node:
        """Return a node of this op's shape with the reduced axes restored at size 1."""
        return reduced if self.keepdims else reduced.expand_dims(self.axis)

    def spread(self, reduced: Node) -> Node:
        """Return a node of this op's shape broadcast to the operand's axes."""
        (x,) = self.parents
        return self.expand(reduced).broadcast_to(x.dims)

    def count(self, reduced: Node) -> Node:
        """Return the number of elements reduced to one, with the dtype of `reduced`: a scalar if all have the same."""
        (x,) = self.parents
        if ragged_axis(x.dims) is not None and 1 in self.axis:
            # No entries have the mean 0, so that they count as one.
            ones: Any = constant_like(1.0, reduced).broadcast_to(x.dims)
            every: Any = Count(x, self.axis) if 0 in self.axis else ones.sum(self.axis, self.keepdims)
            number: Node = every.maximum(1.0)
            return number
        return count_along(x, self.axis, reduced)


class ReductionLoops(Reduced):
    """A loop that reduces the axes of a `Reduction`."""

    def __init__(self, reducer: Reducer) -> None:
        self.reducer: Reducer = reducer

    def reduce_axes(self, node: Reduction) -> tuple[int, ...]:
        return node.axis


class Count(Reduction[Left_co, Axes]):
    """The number of elements along `axis`, as a scalar that depends only on the operand's shape."""

    __slots__ = ()
    _own: Count[Any, Axes]
    empty: float | None = 0.0
    shape_only = True

    def shape_rule(self) -> Dims:
        super().shape_rule()
        return ()

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node:
        return super().batched(operands, mapped).broadcast_to((operands[0].dims[0],))

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return xp.asarray(math.prod(operands[0].shape[a] for a in self.axis), dtype=self.dtype)

    def counted_dims(self) -> Dims:
        return tuple([self.parents[0].dims[axis] for axis in self.axis])

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return (ZERO,)


def count_along(x: Node, axes: tuple[int, ...], like: Node) -> Node:
    """Return the number of elements of `x` over these axes as a scalar of the dtype of `like`, or of `x` from data."""
    count = known_size(x.dims[axis] for axis in axes)
    return Count(x, axes) if count is None else constant_like(float(count), like)


class ReducedAxis(OneAxis[Any, Axes], IndexNode[Axes], abstract=True):
    """An op that reduces one axis to integers."""

    __slots__ = ("keepdims",)
    keepdims: bool
    # Whether the op has a value over an axis of size 0.
    takes_empty: ClassVar[bool] = False

    def __init__(self, x: BaseNode, axis: int, keepdims: bool = False) -> None:
        self._construct((x,), axis=axis, keepdims=keepdims)

    def shape_rule(self) -> Dims:
        dims = super().shape_rule()
        if not self.takes_empty and axis_size(dims[self.axis]) == 0:
            raise ShapeError("has no value over an axis of size 0")
        return reduced_dims(dims, (self.axis,), self.keepdims)

    def check_sizes(self, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> None:
        if not self.takes_empty and shapes[0][self.axis] == 0:
            raise ShapeError(explain(self, "has no value over an axis of size 0, which the data of this run has"))


def check_keepdims(name: str, keepdims: object) -> bool:
    """Return `keepdims` as a bool; raise `TypeError` for other values, such as NumPy's `dtype` at the same position."""
    if not isinstance(keepdims, bool | np.bool_) and not (
        isinstance(keepdims, int | np.integer) and keepdims in (0, 1)
    ):
        raise TypeError(
            f"{name}: keepdims must be True or False, not {keepdims!r}; pass keywords by name, convert with .astype"
        )
    return bool(keepdims)


def refuse_keywords(name: str, given: Iterable[str], taken: Iterable[str]) -> NoReturn:
    """Raise `TypeError` for the keywords `given`; the message lists those that are `taken` and what to use instead."""
    names, known = sorted(given), answers("keywords")
    instead = [known[keyword] for keyword in names if keyword in known]
    raise TypeError(
        f"{name} takes {', '.join(taken) or 'no keywords'}, not {', '.join(names)}"
        + (f"; {'; '.join(instead)}" if instead else "")
    )
