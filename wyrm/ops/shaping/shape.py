"""Ops that rearrange or repeat elements; the reference engine returns views where NumPy can."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, Generic, overload

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dim, Dims, Times, axis_size, broadcast, known_size, product
from wyrm.graph.base import ZERO, BaseNode, Gradient, P_co, format_dims
from wyrm.graph.index_maps import IndexLiteral, IndexMap
from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.leaves import as_constant
from wyrm.graph.loop_form import LOOPS, Gathered, SameIndex
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import D1, D2, D3, D4, Array, AxisSize, Shaped, Size, Sizes
from wyrm.ops.batching import aligned
from wyrm.ops.elementwise.elementwise import Axes, L, Left_co, S, method
from wyrm.support.imports import lax

Integers = NDArray[np.int64]


class MovingForm(JaxForm):
    """`evaluate`, also in bfloat16: no element changes."""

    narrow: bool | None = True


class PlaceSliceForm(JaxForm):
    """Padding with zeros, also between elements, which XLA fuses; the assignment of `evaluate` would be a scatter."""

    narrow: bool | None = True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        (x,) = operands
        counts, backwards, padding = [], [], []
        entries = [entry for entry in node.key if entry is not None]
        for axis, (entry, size) in enumerate(zip(entries, shape, strict=True)):
            if entry == (None, None, None) or entry == (0, None, 1):  # the whole axis, whose size may be open
                counts.append(size)
                padding.append((0, 0, 0))
                continue
            places = range(size)[entry : entry + 1 or None] if isinstance(entry, int) else range(size)[slice(*entry)]
            if places.step < 0:
                backwards.append(axis)
                places = places[::-1]
            last = places[-1] + 1 if places else 0
            counts.append(len(places))
            padding.append((places[0] if places else 0, size - last, places.step - 1))
        value = lax.rev(x.reshape(counts), backwards)
        return lax.pad(value, np.zeros((), value.dtype), padding)


def taken(xp: ArrayNamespace, x: Any, places: Integers, axis: int) -> Any:
    """Return the elements of `x` at constant places along an axis, by a slice where they are at equal distances."""
    steps = set(np.diff(places).tolist()) or {1}
    step = steps.pop()
    if steps or step < 1 or not len(places):
        return xp.take(x, places.astype(np.int32), axis=axis)
    return x[(*(slice(None),) * axis, slice(int(places[0]), int(places[-1]) + 1, step))]


class Unchanged(BaseNode[P_co, Axes], abstract=True):
    """An op, of floats or of integers, whose result holds elements of its first operand, unchanged."""

    __slots__ = ()
    is_view = True

    def dtype_rule(self) -> np.dtype:
        return self.parents[0].dtype


class Rearrangement(Unchanged[tuple[Left_co], Axes], Node[tuple[Left_co], Axes], Generic[Left_co, Axes], abstract=True):
    """An op of floats or masks that is `Unchanged`."""

    __slots__ = ()


JAX.register(Rearrangement)(MovingForm)


def _reshaped(dims: Dims, target: Dims) -> Dims:
    """Return `target` with -1 replaced; axes without a size must cancel out between `dims` and `target`."""
    if sum(type(axis) is int and axis == -1 for axis in target) > 1:
        raise ShapeError(f"the shape {target} has -1 for more than one axis")
    for axis in target:
        if not isinstance(axis, Dim) and operator.index(axis) < -1:
            raise ShapeError(f"the shape {target} has a negative axis; one axis may be -1")
    inferred = [i for i, axis in enumerate(target) if type(axis) is int and axis == -1]
    explicit = tuple(axis for axis in target if not (type(axis) is int and axis == -1))
    old, new = _factors(dims), _factors(explicit)
    for axis in list(new):
        # Cancel axes of the same name if one has no size yet: the data gives both the same. The rest must have sizes.
        for other in old if isinstance(axis, Dim) else ():
            if type(other) is type(axis) and None in (axis_size(axis), axis_size(other)):
                old.remove(other)
                new.remove(axis)
                break
    have, want = known_size(old), known_size(new)
    reason = f"cannot reshape {format_dims(dims)} to {format_dims(target)}"
    if not inferred:
        if have is None or want is None or have != want:
            raise ShapeError(f"{reason}: {have} elements against {want}" if None not in (have, want) else reason)
        return target
    if want is None:
        raise ShapeError(f"{reason}: the new shape has an axis without a size that the operand does not have")
    filled: Axis
    if have is not None:
        if want == 0 or have % want:
            raise ShapeError(f"{reason}: {have} elements are not divisible by {want}")
        filled = have // want
    else:
        unsized = [axis for axis in old if axis_size(axis) is None]
        rest = math.prod(size for axis in old if (size := axis_size(axis)) is not None)
        if want == 0 or rest % want:
            raise ShapeError(f"{reason}: {rest} elements are not divisible by {want}")
        filled = product((*unsized, rest // want) if rest != want else tuple(unsized))
    return target[: inferred[0]] + (filled,) + target[inferred[0] + 1 :]


def _factors(dims: Dims) -> list[Axis]:
    """Return the axes with each `Times` replaced by its factors."""
    factors: list[Axis] = []
    for axis in dims:
        factors += _factors(axis.parts) if isinstance(axis, Times) else [axis]
    return factors


def _reshaped_index(dims: Dims, reshaped: Dims, index: IndexMap) -> IndexMap | None:
    """Return the operand's index if reshaping only adds or removes axes of size 1, else None."""
    wide = [(axis, entry) for axis, entry in zip(reshaped, index, strict=True) if axis_size(axis) != 1]
    if [axis for axis, _ in wide] != [axis for axis in dims if axis_size(axis) != 1]:
        return None
    entries = iter(wide)
    return tuple(IndexLiteral(0) if axis_size(axis) == 1 else next(entries)[1] for axis in dims)


class _Reshaped(Unchanged[P_co, Axes], abstract=True):
    """What `Reshape` and `IndexReshape` share."""

    __slots__ = ("to",)
    same_elements = True
    to: Dims

    def shape_rule(self) -> Dims:
        return _reshaped(self.parents[0].dims, self.to)

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return xp.reshape(operands[0], shape)

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Any:
        (x,) = operands
        dims: Any = self.dims
        return self.rebuild((x,), to=(x.dims[0], *dims))


class Reshape(_Reshaped[tuple[Left_co], Axes], Rearrangement[Left_co, Axes]):
    """The operand's elements, in row-major order, with the axes `to`."""

    __slots__ = ()
    _own: Reshape[Any, Axes]

    def __init__(self, x: Shaped[Left_co, Any], to: Dims) -> None:
        self._construct((x,), to=to)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (Reshape(gradient, self.parents[0].dims),)


class IndexReshape(_Reshaped[Any, Axes], IndexNode[Axes]):
    """The operand's integers, in row-major order, with the axes `to`."""

    __slots__ = ()

    def __init__(self, x: IndexNode, to: Dims) -> None:
        self._construct((x,), to=to)


@LOOPS.register(Reshape, IndexReshape)
class _ReshapeLoops(Gathered):
    preserves_layout = True

    def gather_index(self, node: Reshape | IndexReshape, index: IndexMap) -> IndexMap | None:
        return _reshaped_index(node.parents[0].dims, node.dims, index)


def with_axes(x: Any, to: Dims) -> Any:
    """Return the elements of a node of floats or of integers, in row-major order, with the axes `to`."""
    return IndexReshape(x, to) if isinstance(x, IndexNode) else Reshape(x, to)


def target_axes(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the axes that a method was called with, one by one or as one sequence."""
    if len(shape) == 1 and isinstance(shape[0], Sequence | np.ndarray):
        shape = tuple(shape[0])
    return tuple(axis if isinstance(axis, Dim) else operator.index(axis) for axis in shape)


@overload
def reshape(x: Shaped[L, S], shape: Sizes, /) -> Reshape[L]: ...
@overload
def reshape(x: Shaped[L, S], shape: tuple[AxisSize[D1]], /) -> Reshape[L, tuple[D1]]: ...
@overload
def reshape(x: Shaped[L, S], shape: tuple[AxisSize[D1], AxisSize[D2]], /) -> Reshape[L, tuple[D1, D2]]: ...
@overload
def reshape(
    x: Shaped[L, S], shape: tuple[AxisSize[D1], AxisSize[D2], AxisSize[D3]], /
) -> Reshape[L, tuple[D1, D2, D3]]: ...
@overload
def reshape(
    x: Shaped[L, S], shape: tuple[AxisSize[D1], AxisSize[D2], AxisSize[D3], AxisSize[D4]], /
) -> Reshape[L, tuple[D1, D2, D3, D4]]: ...
@overload
def reshape(x: Shaped[L, S], shape: tuple[Axis, Axis, Axis, Axis, Axis, *tuple[Axis, ...]], /) -> Reshape[L]: ...
@overload
def reshape(x: Shaped[L, S], shape: tuple[Size, ...], /) -> Reshape[L]: ...
@overload
def reshape(x: Shaped[L, S], a: Size, b: Size, c: Size, /, *more: Size) -> Reshape[L]: ...
@overload
def reshape(x: Shaped[L, S], a: AxisSize[D1], /) -> Reshape[L, tuple[D1]]: ...
@overload
def reshape(x: Shaped[L, S], a: AxisSize[D1], b: AxisSize[D2], /) -> Reshape[L, tuple[D1, D2]]: ...
@overload
def reshape(x: Shaped[L, S], a: AxisSize[D1], b: AxisSize[D2], c: AxisSize[D3], /) -> Reshape[L, tuple[D1, D2, D3]]: ...
@overload
def reshape(
    x: Shaped[L, S], a: AxisSize[D1], b: AxisSize[D2], c: AxisSize[D3], d: AxisSize[D4], /
) -> Reshape[L, tuple[D1, D2, D3, D4]]: ...
@overload
def reshape(x: Shaped[L, S], a: Axis, b: Axis, c: Axis, d: Axis, e: Axis, /, *more: Axis) -> Reshape[L]: ...
@method("reshape", integers=IndexReshape)
def reshape(x: Any, *shape: Any) -> Any:
    """Return `x` with another shape and the same elements in row-major order; one axis may be -1, to be inferred.

    An axis may be an instance of a `Dim` subclass, which the type checker then knows. Raise `ShapeError` if the
    numbers of elements differ.

    >>> wy.Constant([1.0, 2.0, 3.0, 4.0]).reshape(2, -1).shape
    (2, 2)
    """
    return with_axes(x, target_axes(shape))


def aligned_index(dims: Dims, index: IndexMap) -> IndexMap:
    """Return the index into an operand with axes `dims` that broadcasts to the axes of `index`."""
    kept = index[len(index) - len(dims) :]
    return tuple(IndexLiteral(0) if axis_size(axis) == 1 else entry for axis, entry in zip(dims, kept, strict=True))


class BroadcastTo(Rearrangement[Left_co, Axes]):
    """The operand broadcast to the axes `to`."""

    __slots__ = ("to",)
    _own: BroadcastTo[Any, Axes]
    to: Dims

    def __init__(self, x: Node, to: Dims) -> None:
        self._construct((x,), to=to)

    def shape_rule(self) -> Dims:
        dims = self.parents[0].dims
        if any(isinstance(axis, int) and axis < 0 for axis in self.to):
            raise ShapeError(f"the shape {self.to} has a negative axis")
        result = broadcast(dims, self.to)
        if len(result) != len(self.to) or any(
            axis_size(b) not in (None, axis_size(a)) for a, b in zip(result, self.to, strict=True)
        ):
            raise ShapeError(f"{format_dims(dims)} does not broadcast to {format_dims(self.to)}")
        return self.to

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return xp.broadcast_to(operands[0], shape)

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        (x,) = operands
        return BroadcastTo(aligned(x, True, self.ndim), (x.dims[0], *self.to))

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (gradient,)


@LOOPS.register(BroadcastTo)
class _BroadcastToLoops(Gathered):
    def gather_index(self, node: BroadcastTo, index: IndexMap) -> IndexMap:
        return aligned_index(node.parents[0].dims, index)


@overload
def broadcast_to(x: Shaped[L, S], shape: Sizes) -> BroadcastTo[L]: ...
@overload
def broadcast_to(x: Shaped[L, S], shape: tuple[AxisSize[D1]]) -> BroadcastTo[L, tuple[D1]]: ...
@overload
def broadcast_to(x: Shaped[L, S], shape: tuple[AxisSize[D1], AxisSize[D2]]) -> BroadcastTo[L, tuple[D1, D2]]: ...
@overload
def broadcast_to(
    x: Shaped[L, S], shape: tuple[AxisSize[D1], AxisSize[D2], AxisSize[D3]]
) -> BroadcastTo[L, tuple[D1, D2, D3]]: ...
@overload
def broadcast_to(
    x: Shaped[L, S], shape: tuple[AxisSize[D1], AxisSize[D2], AxisSize[D3], AxisSize[D4]]
) -> BroadcastTo[L, tuple[D1, D2, D3, D4]]: ...
@overload
def broadcast_to(x: Shaped[L, S], shape: tuple[Axis, Axis, Axis, Axis, Axis, *tuple[Axis, ...]]) -> BroadcastTo[L]: ...
@overload
def broadcast_to(x: Shaped[L, S], shape: tuple[Size, ...]) -> BroadcastTo[L]: ...
@method("broadcast_to")
def broadcast_to(x: Any, shape: Any) -> BroadcastTo:
    """Return `x` broadcast to `shape`, as `numpy.broadcast_to`. Raise `ShapeError` if the shapes do not match.

    >>> wy.Constant([1.0, 2.0]).broadcast_to((3, 2)).shape
    (3, 2)
    """
    return BroadcastTo(x, target_axes((shape,)))


class WithSizes(Rearrangement[Left_co, Axes]):
    """The operand, with `leaves` as further parents whose data gives its axes their sizes."""

    __slots__ = ()
    _own: WithSizes[Any, Axes]

    def __init__(self, x: Node, leaves: Iterable[BaseNode]) -> None:
        self._construct((x, *leaves))

    def shape_rule(self) -> Dims:
        dims: Dims = self.parents[0].dims
        return dims

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return operands[0]

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return (gradient, *(ZERO for _ in self.parents[1:]))


LOOPS.register(WithSizes)(SameIndex())


def zeros_like(node: BaseNode) -> Node:
    """Return zeros with the axes and the dtype of `node`."""
    return BroadcastTo(as_constant(0.0, node.dtype), node.dims)
