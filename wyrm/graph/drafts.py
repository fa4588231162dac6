"""Nodes made in one pass, from the axes and dtype that their rules would find: most nodes of a graph are made here.

A constructor makes a node of its class, whose attributes cannot be assigned: it asks the rules and calls a setter for
each slot. `drafted` assigns the attributes of a `Draft`, as those of any Python object, and gives it the class at last,
which takes a third of the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wyrm.graph.axes import Dims
from wyrm.graph.base import BaseNode
from wyrm.graph.source_location import built_nodes, user_origin
from wyrm.graph.weak_types import FLOATS

_FLOAT32, _FLOAT64 = FLOATS


class Draft(BaseNode[Any, Any], abstract=True):
    """A node while it is made. It has the slots of leaves too, but no static attributes."""

    __slots__ = ()
    _own: BaseNode
    if not TYPE_CHECKING:
        # CPython takes the fast path of `object` only if a class has both of these as `object` has them.
        __setattr__, __delattr__ = object.__setattr__, object.__delattr__


def can_be_drafted(cls: type[Any]) -> bool:
    """Return whether `Draft` has the slots of a class: `class Cube(Unary)` without `__slots__` has a `__dict__` too."""
    try:
        object.__new__(Draft).__class__ = cls
    except TypeError:
        return False
    return True


def drafted(cls: type[Any], parents: tuple[BaseNode, ...], dtype: np.dtype, dims: Dims, depth: int = 4) -> Any:
    """Return a node; the class can be drafted, and its rules would give this dtype and these axes.

    `depth` counts the running functions up to the first that may be the user's, with `user_origin`, which is 0.
    """
    node: Any = object.__new__(Draft)
    node.parents = parents
    node.name = None
    node.origin = user_origin(depth)
    node.dtype = dtype
    node.dims = dims
    node._cell = None
    node._runner = None
    node.__class__ = cls
    built = built_nodes()
    if built is not None:
        built.append(node)
    return node


# These two make nodes without calling the rules of the op, where the op is `plain`: its class overrides none of them.
# Only wyrm calls them.


def unary(cls: Any, x: Any) -> Any:
    """Return `cls(x)`."""
    dtype = x.dtype
    if cls.plain and (dtype is _FLOAT32 or dtype is _FLOAT64):
        return drafted(cls, (x,), dtype, x.dims)
    return cls(x)


def binary(cls: Any, x: Any, y: Any) -> Any:
    """Return `cls(x, y)`."""
    dtype = x.dtype
    if y.dtype is dtype and cls.plain and (dtype is _FLOAT32 or dtype is _FLOAT64):
        left: Dims = x.dims
        right: Dims = y.dims
        if left is right or not right or left == right:
            return drafted(cls, (x, y), dtype, left)
        if not left:
            return drafted(cls, (x, y), dtype, right)
    return cls(x, y)
