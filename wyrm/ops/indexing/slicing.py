"""Slicing, concatenating, stacking and splitting."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, overload

from wyrm.graph.axes import Dims, One
from wyrm.graph.base import BaseNode, P_co
from wyrm.graph.index_maps import IndexMap
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, Gathered, Scattered, ScatterTarget
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, AtLeast1D, Bs, K, M, N, OfShape, Shaped
from wyrm.ops.elementwise.elementwise import Axes, L, Left_co, S, method
from wyrm.ops.indexing.keys import (
    ALL,
    Advanced,
    All,
    Key,
    Key_,
    as_key,
    check_key,
    has_arrays,
    numpy_key,
    sliced_dims,
    sliced_index,
)
from wyrm.ops.shaping.shape import PlaceSliceForm, Rearrangement, Reshape, Unchanged


class _Sliced(Unchanged[P_co, Axes], abstract=True):
    """What `Slice` and `IndexSlice` share."""

    __slots__ = ("key",)
    key: Key

    def __init__(self, x: BaseNode, key: Key) -> None:
        self._construct((x,), key=key)

    def shape_rule(self) -> Dims:
        return sliced_dims(self.parents[0].dims, self.key)

    def check_sizes(self, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> None:
        check_key(self, self.parents[0].dims, shapes[0])

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        part: Array = operands[0][numpy_key(self.key)]
        return part

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Any:
        return self.rebuild(operands, key=(ALL, *self.key))


class Slice(_Sliced[tuple[Left_co], Axes], Rearrangement[Left_co, Axes]):
    """A part of the operand selected by ints and ranges."""

    __slots__ = ()
    _own: Slice[Any, Axes]

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        dims = self.parents[0].dims
        takes_all = all(entry in (ALL, None) for entry in self.key)
        return (Reshape(gradient, dims) if takes_all else PlaceSlice(gradient, self.key, dims),)


class PlaceSlice(Rearrangement[Left_co, Axes]):
    """Zeros with the axes `to` and the operand at `key`: the transpose of `Slice`."""

    __slots__ = ("key", "to")
    _own: PlaceSlice[Any, Axes]
    key: Key
    to: Dims

    def __init__(self, x: Node, key: Key, to: Dims) -> None:
        self._construct((x,), key=key, to=to)

    def shape_rule(self) -> Dims:
        return self.to

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Any:
        result: Any = xp.zeros(shape, self.dtype)
        if hasattr(result, "at"):
            return result.at[numpy_key(self.key)].set(operands[0])
        result[numpy_key(self.key)] = operands[0]
        return result

    def check_sizes(self, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> None:
        check_key(self, self.to, shape)

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        (x,) = operands
        to: Any = (x.dims[0], *self.to)
        return PlaceSlice(x, (ALL, *self.key), to)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (Slice(gradient, self.key),)


JAX.register(PlaceSlice)(PlaceSliceForm)


@LOOPS.register(PlaceSlice)
class _PlaceSliceLoops(Scattered):
    def scatter_index(self, node: PlaceSlice, parent: int, index: IndexMap) -> ScatterTarget:
        return ScatterTarget(sliced_index(node.key, node.to, index))


class IndexSlice(_Sliced[Any, Axes], IndexNode[Axes]):
    """A part of an index node selected by ints and ranges."""

    __slots__ = ()


@LOOPS.register(Slice, IndexSlice)
class _SliceLoops(Gathered):
    def gather_index(self, node: Slice | IndexSlice, index: IndexMap) -> IndexMap:
        return sliced_index(node.key, node.parents[0].dims, index)


@overload
def getitem(x: Shaped[L, AtLeast1D], key: Key_) -> Slice[L]: ...
@overload
def getitem(x: OfShape[L, tuple[N, *Bs]], key: int) -> Slice[L, tuple[*Bs]]: ...
@overload
def getitem(x: OfShape[L, tuple[N, *Bs]], key: slice) -> Slice[L, tuple[Any, *Bs]]: ...
@overload
def getitem(x: OfShape[L, tuple[*Bs]], key: None) -> Slice[L, tuple[One, *Bs]]: ...
@overload
def getitem(x: OfShape[L, tuple[M, *Bs]], key: tuple[All, None]) -> Slice[L, tuple[M, One, *Bs]]: ...
@overload
def getitem(x: OfShape[L, tuple[M, *Bs]], key: tuple[None, All]) -> Slice[L, tuple[One, M, *Bs]]: ...
@overload
def getitem(x: OfShape[L, tuple[*Bs]], key: tuple[EllipsisType, None]) -> Slice[L, tuple[*Bs, One]]: ...
@overload
def getitem(x: OfShape[L, tuple[M, N, *Bs]], key: tuple[int, All]) -> Slice[L, tuple[N, *Bs]]: ...
@overload
def getitem(x: OfShape[L, tuple[M, N, *Bs]], key: tuple[All, slice]) -> Slice[L, tuple[M, Any, *Bs]]: ...
@overload
def getitem(x: OfShape[L, tuple[M, N, K, *Bs]], key: tuple[All, All, int]) -> Slice[L, tuple[M, N, *Bs]]: ...
@overload
def getitem(x: OfShape[L, tuple[M, N, *Bs]], key: tuple[int, int]) -> Slice[L, tuple[*Bs]]: ...
@overload
def getitem(x: OfShape[L, tuple[M, N, *Bs]], key: tuple[All, int]) -> Slice[L, tuple[M, *Bs]]: ...
@overload
def getitem(x: OfShape[L, tuple[*Bs, N]], key: tuple[EllipsisType, int]) -> Slice[L, tuple[*Bs]]: ...
@overload
def getitem(x: OfShape[L, tuple[*Bs, N]], key: tuple[EllipsisType, slice]) -> Slice[L, tuple[*Bs, Any]]: ...
@overload
def getitem(x: OfShape[L, tuple[N, *Bs]], key: Key_) -> Slice[L]: ...
@overload
def getitem(x: Shaped[L, tuple[()]], key: EllipsisType) -> Slice[L]: ...
@overload
def getitem(x: OfShape[L, tuple[N, *Bs]], key: IndexNode[tuple[M]]) -> Node[Any, tuple[M, *Bs]]: ...
@overload
def getitem(x: Shaped[L, S], key: Advanced) -> Node: ...
@method("__getitem__", integers=IndexSlice)
def getitem(x: Any, key: object) -> Any:
    """Return the part of `x` that ints, slices, `None`, `...`, index nodes, lists and arrays select, as in NumPy.

    Arrays of bools are masks. Negative indices count from the end. The gradient adds up at indices that occur twice.
    A part of an axis that gets its size from the data of each run has all elements that the slice names: `x[:, :-1]`
    and `x[:, 1:]` have the same axis, `Time()-1`, and `x[:, :5]` has 5.

    Raise `IndexOutOfRange` for an index beyond its axis, `ShapeError` for too many entries, for a mask of another
    shape, and in a run for an axis with fewer elements than its slice names, and `TypeError` for a mask that is
    computed: the data would decide the shape.

    >>> x = wy.Constant([[1.0, 2.0], [3.0, 4.0]])
    >>> x[:, 0].forward().tolist(), x[[1, 0, 1], [0, 0, -1]].forward().tolist()
    ([1.0, 3.0], [3.0, 1.0, 4.0])
    """
    if has_arrays(key):
        from wyrm.ops.indexing.advanced_indexing import advanced_getitem

        return advanced_getitem(x, key)
    return (IndexSlice if isinstance(x, IndexNode) else Slice)(x, as_key(key, x))
