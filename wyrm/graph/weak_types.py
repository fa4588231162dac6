"""Weak float types: the types of nodes whose float type nobody chose.

Parameters, inputs, NumPy arrays, `.astype(...)` and `dtype=` choose a float type; such a node never changes it. Python
numbers choose none, and neither do masks, integers and random draws without `dtype=`; what is computed from these alone
is weak. A weak node has a default type, and takes the type of the floats that it meets in an operation: it is then
rebuilt in their type from its leaves up, so that 0.1 beside float64 is the 0.1 of float64, not that of float32. The
default type is that of the floats from which its masks or integers are computed, else that of the arguments of the
function that is traced, else float32. Two float types that were chosen do not mix.

The dtype of a weak node is `WEAK32` or `WEAK64`. They equal float32 and float64 in every comparison and computation,
and only their identity tells them apart. An op gives the dtype of its operands, and with it whether it is weak.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from wyrm.graph.source_location import built_beside

if TYPE_CHECKING:
    from wyrm.graph.base import BaseNode

FLOATS: Final = (np.dtype(np.float32), np.dtype(np.float64))
WEAK32, WEAK64 = (np.dtype(kind, copy=True) for kind in FLOATS)


def is_weak(dtype: np.dtype) -> bool:
    """Return whether this is the dtype of a weak node."""
    return dtype is WEAK32 or dtype is WEAK64


def weak(dtype: np.dtype) -> np.dtype:
    """Return the weak type of the same floats; other dtypes as they are."""
    return WEAK32 if dtype == FLOATS[0] else WEAK64 if dtype == FLOATS[1] else dtype


def chosen(dtype: np.dtype) -> np.dtype:
    """Return a dtype as one that was chosen."""
    return FLOATS[0] if dtype is WEAK32 else FLOATS[1] if dtype is WEAK64 else dtype


# The float type of the arguments of the innermost function that is traced.
TRACED: Final[ContextVar[np.dtype | None]] = ContextVar("TRACED", default=None)


def default_type(*sources: BaseNode) -> np.dtype:
    """Return the weak type of numbers that come from these masks and integers: that of the floats behind them.

    Without such floats it is the type of the function that is traced, else float32.
    """
    unvisited, seen = list(sources), set(sources)
    while unvisited:
        node = unvisited.pop()
        if node.dtype.kind == "f":
            return weak(node.dtype)
        new = [parent for parent in node.parents if parent not in seen]
        seen.update(new)
        unvisited += new
    return weak(TRACED.get() or FLOATS[0])


def joined(parents: Sequence[BaseNode]) -> tuple[BaseNode, ...] | None:
    """Return operands in one float type, the weak ones in that of the others; None if they have it or cannot.

    Weak operands alone take the wider type.
    """
    floats = [parent.dtype for parent in parents if parent.dtype.kind == "f"]
    strong = {dtype for dtype in floats if not is_weak(dtype)}
    if len(strong) > 1 or len(set(floats)) < 2:
        return None
    (target,) = strong or (WEAK64,)
    return tuple(in_type(parent, target) for parent in parents)


def forms_among(node: Any, reached: Collection[BaseNode]) -> list[Any]:
    """Return the node, and what a weak one was rebuilt as in the types of others, as far as they are in `reached`."""
    types = (*FLOATS, WEAK32, WEAK64) if is_weak(node.dtype) else ()
    rebuilt = [_rebuilt.get((id(node), id(dtype))) for dtype in types]
    return [form for form in (node, *(each[1] for each in rebuilt if each)) if form in reached]


def in_one_type(*nodes: Any) -> tuple[Any, ...]:
    """Return the nodes in one float type, if the weak ones of them can take that of the others."""
    return joined(nodes) or nodes


class Portable(NamedTuple):
    """A weak type as it is pickled."""

    name: str

    @property
    def dtype(self) -> np.dtype:
        """The weak type."""
        return weak(np.dtype(self.name))


# The rebuilt nodes by the identities of the weak node and the type, as long as the weak node lives.
_rebuilt: dict[tuple[int, int], tuple[weakref.ref[BaseNode], BaseNode]] = {}


def in_type(node: Any, dtype: np.dtype) -> Any:
    """Return a weak node in another float type; any other node, and one that has the type, as it is.

    The node is rebuilt from its leaves up, once for each type, so that what is shared stays shared. Masks and integers
    stay: a random mask is the same wherever it is used. A random draw has the number that its stream has in that type.
    """
    if not is_weak(node.dtype) or node.dtype == dtype:
        return node
    target = dtype if is_weak(dtype) else FLOATS[dtype == FLOATS[1]]
    kind = id(target)
    unvisited: list[BaseNode] = [node]
    while unvisited:
        top = unvisited[-1]
        if (id(top), kind) in _rebuilt:
            unvisited.pop()
            continue
        missing = [x for x in top.parents if is_weak(x.dtype) and (id(x), kind) not in _rebuilt]
        if missing:
            unvisited += missing
            continue
        unvisited.pop()
        parents = tuple(_rebuilt[id(x), kind][1] if is_weak(x.dtype) else x for x in top.parents)
        _remember(top, kind, built_beside(top, partial(top.in_float_type, target, parents)))
    return _rebuilt[id(node), kind][1]


def _remember(node: BaseNode, kind: int, made: BaseNode) -> None:
    key = (id(node), kind)

    def forget(_: object) -> None:
        _rebuilt.pop(key, None)

    _rebuilt[key] = weakref.ref(node, forget), made
