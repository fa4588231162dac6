"""What annotations are made of: the protocol that operands are matched by, and the names of array types."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

Number = float | np.floating[Any] | np.integer[Any]
FloatArray = NDArray[np.floating[Any]]
IntegerArray = NDArray[np.integer[Any]]
BoolArray = NDArray[np.bool_]
# A NumPy array used directly as an operand takes the node's float type, whatever number type it holds.
Array = NDArray[np.floating[Any] | np.integer[Any] | np.bool_]

Own_co = TypeVar("Own_co", covariant=True)
ShapeOf = TypeVar("ShapeOf")


# No node has one of these as its shape, so only a node of shape Any matches them. The overloads that mention them come
# first and keep an unknown shape unknown; their names are what mypy prints when a method's demand on a shape fails.
class Unknown:
    """The shape of a node whose axes the type checker does not know."""


class AtLeast1D:
    """The shape of a node with one axis or more."""


class AtLeast2D:
    """The shape of a node with two axes or more."""


class Shaped(Protocol[Own_co, ShapeOf]):
    """A node seen as (its own exact type, its shape), so that one parameter binds both.

    `dims` is a mutable attribute here, which makes the shape invariant: two shapes never join to a wider one.
    """

    dims: ShapeOf

    def _own(self) -> Own_co: ...
