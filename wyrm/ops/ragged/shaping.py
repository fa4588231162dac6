"""The flat forms of ops that move, select and look up elements, along the axes of each entry."""

from __future__ import annotations

from typing import Any

from wyrm.errors import ShapeError
from wyrm.graph.axes import Ragged, flat_dims, ragged_axis
from wyrm.ops.indexing.advanced_indexing import FromEnd
from wyrm.ops.indexing.gather import Gather, IndexGather, Place, common_axes
from wyrm.ops.indexing.joining import Concatenate, Stack
from wyrm.ops.indexing.keys import ALL
from wyrm.ops.indexing.slicing import IndexSlice, PlaceSlice, Slice
from wyrm.ops.ragged.forms import PartsOf, aligned, axis_of, flat_attributes, flat_form, repeated
from wyrm.ops.random.draws import RandomPermutation
from wyrm.ops.random.dropout import DropoutMask
from wyrm.ops.random.philox import Draws
from wyrm.ops.random.sampling import RandomIndex
from wyrm.ops.reducing.base import OneAxis
from wyrm.ops.shaping.shape import BroadcastTo, IndexReshape, Reshape, WithSizes
from wyrm.ops.shaping.transpose import IndexTranspose, Transpose


@flat_form(Reshape, IndexReshape, PlaceSlice, DropoutMask, Draws)
def _with_flat_axes(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    if isinstance(node, PlaceSlice):
        return node.rebuild(operands, key=_flat_key(node), to=flat_dims(node.to))
    if isinstance(node, Reshape | IndexReshape):
        return node.rebuild(operands, to=flat_dims(node.dims))
    return node.rebuild(operands, **flat_attributes(node))


@flat_form(RandomIndex)
def _random_index(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    (*others, excluded), given, axis = operands, node.parents[-1], ragged_axis(node.dims)
    if node.rejects and not node.compressed and isinstance(given.dims[-1], Ragged):
        raise ShapeError(
            f"excludes lists of different lengths, along {given.dims[-1]!r}: fill them up with -1 to one length, or "
            f"give those of all users in exclude, and the users of the draws in rows"
        )
    if axis is not None and node.rejects and ragged_axis(given.dims) is None and len(given.dims) > 1 - node.compressed:
        excluded = repeated(parts(axis), excluded)
    return node.rebuild([*others, excluded], to=flat_dims(node.to))


@flat_form(RandomPermutation)
def _permutation(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    if isinstance(node.dims[-1], Ragged):
        raise ShapeError(f"is not defined along {node.dims[-1]!r}, whose rows have different lengths")
    return node.rebuild(operands, to=flat_dims(node.to))


@flat_form(FromEnd, WithSizes)
def _unchanged(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    return node.rebuild(operands)


@flat_form(BroadcastTo)
def _broadcast_to(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    (x,) = node.parents
    return node.rebuild((aligned(x, operands[0], node.dims, parts),), to=flat_dims(node.dims))


@flat_form(Transpose, IndexTranspose)
def _transpose(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    axes = tuple(axis % node.ndim for axis in node.axes)
    if axes[:2] != (0, 1):
        raise ShapeError(f"moves {axis_of(node)!r}, which stands behind the axis of its rows")
    return node.rebuild(operands, axes=(0, *(axis - 1 for axis in axes[2:])))


@flat_form(Slice, IndexSlice)
def _slice(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    return node.rebuild(operands, key=_flat_key(node))


def _flat_key(node: Any) -> Any:
    if node.key[:2] != (ALL, ALL):
        raise ShapeError(
            f"selects along {axis_of(node)!r} or its rows, where rows have different lengths: wy.first_entry(x) and "
            f"wy.last_entry(x) are entries of each row, and wy.where selects by a mask"
        )
    return node.key[1:]


@flat_form(Gather, IndexGather, Place)
def _gather(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    (_, *indices), (x, *flat) = node.parents, operands
    source = node.to if isinstance(node, Place) else node.parents[0].dims
    by_entry = [ragged_axis(each.dims) is not None for each in indices]
    axis: Any = axis_of(node)
    if ragged_axis(source) is None and node.after == 0:
        dims = common_axes(indices)
        found = [aligned(given, each, dims, parts) for given, each in zip(indices, flat, strict=True)]
        if not isinstance(node, Place):
            return node.rebuild((x, *found))
        own = parts(axis)
        return WithSizes(node.rebuild((parts.counted(own, x, 0.0), *found)), (own.lengths,))
    if ragged_axis(source) is not None and min(*node.axes, node.after) > 1 and not any(by_entry):
        changes = {"to": flat_dims(node.to)} if isinstance(node, Place) else {}
        return node.rebuild((x, *flat), axes=tuple(each - 1 for each in node.axes), after=node.after - 1, **changes)
    raise ShapeError(f"looks up elements along {axis!r} or its rows, where rows have different lengths")


@flat_form(OneAxis, Concatenate, Stack)
def one_axis(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    """Return the flat form of an op along one axis of each entry; other axes are refused."""
    count = len(node.parents[0].dims) + isinstance(node, Stack)
    axis = node.axis % count
    if axis < 2:
        raise ShapeError(f"is not defined along {axis_of(node)!r}, whose rows have different lengths, nor across rows")
    if any(ragged_axis(parent.dims) is None for parent in node.parents):
        raise ShapeError(f"takes operands that all have the axis {axis_of(node)!r}")
    return node.rebuild(operands, axis=axis - 1, **flat_attributes(node))


def is_along(node: Any) -> bool:
    """Return whether a reduction or an op along an axis is one along the ragged axis or along its rows."""
    (x, *_) = node.parents
    axes = node.axis if isinstance(node.axis, tuple) else (node.axis,)
    return ragged_axis(x.dims) is not None and min((axis % x.ndim for axis in axes), default=2) < 2
