"""Checks of what cells of `Recurrent` get and return, and the words for them in messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wyrm.errors import ShapeError
from wyrm.functions.carries import dtype_of, leaf_nodes
from wyrm.functions.creation import arange
from wyrm.functions.pytree import flatten, unflatten
from wyrm.graph.axes import Axis
from wyrm.graph.base import BaseNode, describe, format_dims
from wyrm.graph.node import IndexNode
from wyrm.graph.shapes import same_sizes
from wyrm.nn.sequences import Sequences


def path_in_words(names: Mapping[str, str], path: str) -> str:
    """Return the name of a carry or row of a loop for messages, from its path; `names` has one for each prefix."""
    for start, name in names.items():
        if path.startswith(start):
            rest = path.removeprefix(start)
            return f"{name}, {rest}" if rest else name
    return path


def shown(tree: object) -> str:
    """Return the axes and dtypes of a state or row."""
    leaves, _ = flatten(tree, "a state or x of Recurrent")
    found = [
        f"{format_dims(leaf.dims)} {leaf.dtype}" if isinstance(leaf, BaseNode) else str(np.shape(leaf))
        for leaf in leaves
    ]
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]"


def _nodes(tree: object) -> tuple[list[Any], Any]:
    """Return the leaves of a tree as nodes, and its structure."""
    leaves, structure = flatten(tree, "a state or result of Recurrent")
    return leaf_nodes(leaves, dtype_of(leaves)), structure


def _alike(one: object, other: object) -> bool:
    """Return whether two trees have the same structure and axes."""
    (nodes, structure), (others, beside) = _nodes(one), _nodes(other)
    return structure == beside and all(same_sizes(x.dims, y.dims) for x, y in zip(nodes, others, strict=True))


def check_state(cell: str, state: object, rows: Sequences) -> None:
    """Raise `ShapeError` for a first state whose first axis is not the batch of `x`."""
    x = rows.leaves[0]
    for node in _nodes(state)[0]:
        if node.dims and not same_sizes(node.dims[:1], x.dims[:1]):
            raise ShapeError(
                f"Recurrent: the state of {cell} is {describe(node)} and x is {describe(x)}: a state has the axes "
                f"(batch, ...) and x (batch, time, ...), with the same batch"
            )


def check_next_state(cell: str, before: object, after: object, y: object) -> None:
    """Raise `ShapeError` if a cell returns a state of other axes or another structure than it got."""
    if _alike(before, after):
        return
    swapped = "; y is like the state: return (state, y), in this order" if _alike(before, y) else ""
    raise ShapeError(
        f"Recurrent: the state of {cell} changes from {shown(before)} to {_described(after)}: a cell returns "
        f"(state, y), whose state keeps its structure and axes from step to step{swapped}"
    )


def _described(tree: object) -> str:
    """Return the nodes of a state or result with the lines that made them."""
    found = [describe(node) for node in _nodes(tree)[0]]
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]"


def check_fed_back(again: object, fed: object, has_feedback: bool) -> None:
    """Raise `ShapeError` if what a step feeds back is not like the `x` of a step."""
    if _alike(again, fed):
        return
    what = "feedback(y)" if has_feedback else "y"
    remedy = "let feedback return what a step takes" if has_feedback else "give feedback="
    raise ShapeError(
        f"Recurrent: {what} is {_described(again)} and the x of a step is {shown(fed)}: {remedy}, such as "
        f"feedback=lambda y: y.argmax(axis=-1)"
    )


def first_row(first: Any, state: Any) -> Any:
    """Return the `x` of the first step with the axis of the batch, which a number takes from the `state`."""
    integers = isinstance(first, list) and all(isinstance(each, int) for each in first)
    if integers or (isinstance(first, int | np.integer) and not isinstance(first, bool)):
        first = np.asarray(first)  # else a list is a tree of its elements, and a number becomes a float
    batch: Axis | None = next((node.dims[0] for node in ([] if state is None else _nodes(state)[0]) if node.dims), None)
    leaves, structure = flatten(first, "first of Recurrent.run")
    made = []
    for leaf, node in zip(leaves, leaf_nodes(leaves, dtype_of(leaves)), strict=True):
        if not node.dims and batch is not None:
            made.append(_for_each(node, batch))
        elif not node.dims or (batch is not None and not same_sizes(node.dims[:1], (batch,))):
            of_state = "" if batch is None else f" with the batch of the state, {batch!r}"
            raise ShapeError(f"Recurrent.run: first must have the axes (batch, ...){of_state}, not {describe(node)}")
        else:
            made.append(leaf)
    return unflatten(structure, made)


def _for_each(number: Any, batch: Any) -> Any:
    """Return a scalar for each sequence of a batch."""
    if isinstance(number, IndexNode):
        positions: Any = arange(batch)
        return positions * 0 + number
    return number.broadcast_to((batch,))
