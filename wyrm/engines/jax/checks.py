"""Checks inside the steps of the JAX engine that indices are in range.

The other engines check an index that the graph computes before they use it. A computation on a device cannot raise an
error, so a step returns what it found, and changes nothing if an index was out of range. Indices computed inside loops
(`wy.scan` and others) are not checked: a gather there gives NaN, which makes the loss NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wyrm.engines.jax.lower import Sizes
from wyrm.engines.jax.namespace import namespace
from wyrm.errors import IndexOutOfRange
from wyrm.graph.axes import resolve, resolve_axis
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.index_operands import IndexOperand
from wyrm.graph.ranges import Ranges
from wyrm.graph.storage import accepted_indices


class IndexCheck(NamedTuple):
    """The values of `indices` must be in range, because `user` indexes with them as `operand` says."""

    indices: BaseNode
    user: BaseNode
    operand: IndexOperand


def index_checks(
    nodes: Sequence[BaseNode], ranges: Ranges, computed_by: Mapping[BaseNode, BaseNode]
) -> list[IndexCheck]:
    """Return the checks of the index operands of `nodes` that are not known to be in range, each once."""
    found: dict[tuple[object, ...], IndexCheck] = {}
    for user in nodes:
        for operand in user.index_operands():
            indices = computed_by[user.parents[operand.operand]]
            if not ranges.is_known(indices, *operand[1:]):
                found.setdefault((indices, *operand[1:]), IndexCheck(indices, user, operand))
    return list(found.values())


def beyond(checks: Sequence[IndexCheck], values: Mapping[BaseNode, Any], sizes: Sizes) -> Any:
    """Return a row for each check: whether an index is out of range, the flat position of the first one, its value."""
    xp: Any = namespace()
    found = xp.zeros((len(checks), 3), dtype=np.int64)
    for row, check in enumerate(checks):
        indices = values[check.indices].reshape(-1)
        if indices.shape[0]:
            _, axis, ignore_index, from_end = check.operand
            size = resolve_axis(axis, dict(sizes))
            outside = (indices < (-size if from_end else 0)) | (indices >= size)
            if ignore_index is not None:
                outside = outside & (indices != ignore_index)
            position = xp.argmax(outside)
            found = found.at[row].set(xp.stack([xp.any(outside), position, indices[position]]))
    return found


def index_error(
    checks: Sequence[IndexCheck], found: np.ndarray, sizes: Sizes, where: str, state: str
) -> IndexOutOfRange | None:
    """Return the error for the first index out of range in a result of `beyond`, None if there is none."""
    for check, (outside, position, value) in zip(checks, found, strict=True):
        if outside:
            _, axis, _, from_end = check.operand
            shape = resolve(check.indices.dims, sizes)
            place = tuple(map(int, np.unravel_index(position, shape)))
            at = f" at position {place}" if place else ""
            takes = accepted_indices(check.user, resolve_axis(axis, dict(sizes)), from_end)
            return IndexOutOfRange(f"{describe(check.indices)} holds {value}{at}{where}, but {takes}{state}")
    return None
