"""Sequences as trees of nodes, and masks of their steps, for layers over sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wyrm.errors import DTypeError, OptionError, ShapeError
from wyrm.functions.carries import dtype_of, leaf_nodes
from wyrm.functions.creation import arange
from wyrm.functions.pytree import PyTreeDef, flatten, unflatten
from wyrm.graph.axes import axis_size
from wyrm.graph.base import BaseNode, describe, format_dims
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.leaves import Constant
from wyrm.graph.node import IndexNode
from wyrm.graph.shapes import same_sizes
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.indexing.joining import concatenate


class Sequences:
    """Nodes of the axes (batch, time, ...), in the structure of `x` or of the results."""

    def __init__(self, leaves: Sequence[Any], structure: PyTreeDef) -> None:
        self.leaves: list[Any] = list(leaves)
        self.structure = structure

    @classmethod
    def of(cls, x: Any) -> Sequences:
        """Return `x` as sequences; raise `ShapeError` unless all of it have the same first two axes."""
        leaves, structure = flatten(x, "x of Recurrent")
        nodes = leaf_nodes(leaves, dtype_of(leaves))
        if not nodes:
            raise ShapeError("Recurrent: x has no arrays")
        for node in nodes:
            if node.ndim < 2 or not same_sizes(node.dims[:2], nodes[0].dims[:2]):
                raise ShapeError(
                    f"Recurrent takes the axes (batch, time, ...), not {describe(node)}"
                    + (f" beside {describe(nodes[0])}" if node is not nodes[0] else "")
                )
        return cls(nodes, structure)

    @classmethod
    def from_time(cls, made: Any) -> Sequences:
        """Return results that have the axis of time first."""
        leaves, structure = flatten(made, "the results of Recurrent")
        return cls(list(map(_swapped, leaves)), structure)

    @property
    def origin(self) -> str:
        """What messages say after a step of it: the name of the only node, if it has one."""
        name = self.leaves[0].name if len(self.leaves) == 1 else None
        return f" of {name}" if name else ""

    @property
    def tree(self) -> Any:
        """The nodes in their structure."""
        return unflatten(self.structure, self.leaves)

    @property
    def by_time(self) -> Any:
        """The same with the axis of time first."""
        return mapped(_swapped, self.tree)

    def at_step(self, position: int) -> Any:
        """Return the rows of one step."""
        return unflatten(self.structure, [leaf[:, position] for leaf in self.leaves])

    def joined(self, other: Sequences) -> Sequences:
        """Return the nodes concatenated with those of `other` along the last axis."""
        pairs = zip(self.leaves, other.leaves, strict=True)
        return Sequences([concatenate(list(pair), axis=-1) for pair in pairs], self.structure)


def _swapped(node: Any) -> Any:
    """Return a node with its first two axes exchanged."""
    return node.transpose(1, 0, *range(2, node.ndim))


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return a tree of what `function` makes of the leaves."""
    leaves, structure = flatten(tree, "a result of a cell of Recurrent")
    return unflatten(structure, list(map(function, leaves)))


def chosen(mask: Any, new: Any, old: Any) -> Any:
    """Return the leaves of `new` where a mask of (batch,) or () is true, elsewhere those of `old`; None means zeros."""
    leaves, structure = flatten(new, "a state or result of Recurrent")
    others: Sequence[Any] = [None] * len(leaves)
    if old is not None:
        others, before = flatten(old, "a state or result of Recurrent")
        if before != structure:
            raise ShapeError(f"Recurrent: a cell changes the structure of {old!r} to {new!r}")
    return unflatten(structure, [_where(mask, x, y) for x, y in zip(leaves, others, strict=True)])


def _where(mask: Any, new: Any, old: Any) -> Any:
    if mask.ndim and not (new.ndim and same_sizes(new.dims[:1], mask.dims)):
        raise ShapeError(
            f"Recurrent: a mask chooses for each sequence, so states and results need the batch as their first axis, "
            f"unlike {describe(new)}"
        )
    zero = {"i": 0, "b": False}.get(new.dtype.kind, 0.0)
    wide = mask.reshape(*mask.dims, *[1] * (new.ndim - 1)) if mask.ndim else mask
    return where(wide, new, zero if old is None else old)


def counted_steps(rows: Sequences, mask: Any, lengths: Any) -> Any:
    """Return the mask of the steps that count, time first; None if all do."""
    if mask is not None and lengths is not None:
        raise OptionError("Recurrent takes a mask or lengths, not both")
    if mask is not None:
        return mask_by_time("mask", mask, rows)
    if lengths is None:
        return None
    batch, time = rows.leaves[0].dims[:2]
    counts = lengths if isinstance(lengths, IndexNode) else IndexConstant(np.asarray(lengths))
    if not same_sizes(counts.dims, (batch,)):
        as_input = f"; give a wy.IndexInput(dims=({batch!r},))" if axis_size(batch) is None else ""
        raise ShapeError(
            f"Recurrent: lengths must have the axes ({batch!r},), those of the batch, not {describe(counts)}{as_input}"
        )
    positions: Any = arange(time)
    return positions.expand_dims(1) < counts


def mask_by_time(name: str, mask: Any, rows: Sequences, per_row: bool = True) -> Any:
    """Return a mask of (batch, time) with time first; unless `per_row`, one of (time,) is fine too."""
    batch, time = rows.leaves[0].dims[:2]
    node: Any = mask if isinstance(mask, BaseNode) else Constant(np.asarray(mask))
    if node.dtype.kind != "b":
        such = "lengths > positions" if per_row else f"wy.random.uniform({format_dims((batch, time))}) < 0.75"
        raise DTypeError(f"Recurrent: {name} must be a mask, such as {such}, not {describe(node)}")
    if not per_row and len(node.dims) < 2 and same_sizes(node.dims, (time,)[: len(node.dims)]):
        return node.broadcast_to((time,))
    if not same_sizes(node.dims, (batch, time)):
        axes = format_dims((batch, time)) if per_row else f"(), {format_dims((time,))} or {format_dims((batch, time))}"
        raise ShapeError(f"Recurrent: {name} must have the axes {axes}, not {describe(node)}")
    return _swapped(node)
