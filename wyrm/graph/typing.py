"""Types for annotations: the protocol that operands match, and the names of array types."""

from __future__ import annotations

from typing import Any, Generic, Literal, Protocol, TypeAlias, Union

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray
from typing_extensions import TypeAliasType, TypeVar, TypeVarTuple

from wyrm.graph.axes import Dim

# The axes of a shape, and its leading axes.
A = TypeVar("A")
K = TypeVar("K")
M = TypeVar("M")
N = TypeVar("N")
Bs = TypeVarTuple("Bs")
# A shape other than the operand's.
S2 = TypeVar("S2")
# Axes that a caller names; an axis given as a number stays unknown.
D = TypeVar("D")
D1 = TypeVar("D1", bound=Dim, default=Any)
D2 = TypeVar("D2", bound=Dim, default=Any)
D3 = TypeVar("D3", bound=Dim, default=Any)
D4 = TypeVar("D4", bound=Dim, default=Any)
NewDims = TypeVar("NewDims", bound=tuple[Dim, ...])

# Hover texts show the names of these: editors write other aliases out.
DTypeLike = TypeAliasType("DTypeLike", npt.DTypeLike)
FloatArray = TypeAliasType("FloatArray", NDArray[np.floating])
IntegerArray = TypeAliasType("IntegerArray", NDArray[np.integer])
BoolArray = TypeAliasType("BoolArray", NDArray[np.bool_])
# A NumPy array used directly as an operand takes the node's float type, whatever number type it holds.
Array = TypeAliasType("Array", NDArray[np.floating | np.integer | np.bool_])
Number = TypeAliasType("Number", float | np.floating | np.integer)
Size = TypeAliasType("Size", int | np.integer)
# Sizes without names: three or more, or an unknown number of them, as in `array.shape`.
Sizes = TypeAliasType("Sizes", tuple[Size, Size, Size, *tuple[Size, ...]] | list[int])

Item_co = TypeVar("Item_co", covariant=True)


class HasArray(Protocol):
    """A NumPy array, or a value that converts to one. Nodes do not: their values are known only once computed."""

    def __array__(self) -> np.ndarray: ...


class Nested(Protocol[Item_co]):
    """A list or tuple; not a string, whose `__contains__` takes only strings, nor an array, without `__reversed__`."""

    def __contains__(self, value: object, /) -> bool: ...
    def __getitem__(self, position: int, /) -> Item_co: ...
    def __reversed__(self) -> Any: ...


# Recursive aliases: mypy's messages then name the alias. Tools that read annotations can evaluate `Union`.
Values: TypeAlias = Union[float, HasArray, Nested["Values"]]  # noqa: UP007  # what a leaf is filled with
Indices: TypeAlias = Union[int, IntegerArray, Nested["Indices"]]  # noqa: UP007  # row numbers, besides index nodes
DType: TypeAlias = "DTypeLike | list[DType] | None"


class Scalar(Protocol):
    """A node without axes."""

    dims: tuple[()]


Own_co = TypeVar("Own_co", covariant=True)
# The shape of the other operand of an operation.
Other_co = TypeVar("Other_co", covariant=True, default=Any)
ShapeOf = TypeVar("ShapeOf")


class Unnamed(Protocol[Own_co]):
    """An integer as the size of an axis: an argument of the type `M | Unnamed[M]` gives M the axis, or Any.

    For typeshed, this method of `int` returns Any, which M becomes. With `M | int`, nothing would say what M is, and
    with Any as its default, mypy would accept a value of any type.
    """

    def __rpow__(self, value: int, mod: int | None = None, /) -> Own_co: ...


# How an axis of a leaf is declared: with a size, or by its class if an array supplies the size.
AxisOf: TypeAlias = D | type[D] | Unnamed[D]
# The same where nothing supplies a size: a `Dim` that has one, or an integer.
AxisSize: TypeAlias = D | Unnamed[D]


# No node has one of these as its shape, so only a node of shape Any matches them. Overloads that mention them come
# first and keep an unknown shape unknown; mypy prints their names when a method rejects a shape.
class AnyShape:
    """The shape of any node."""


class AnyValue:
    """The value of a leaf of which no checker knows what it is: only a value of type Any is one."""


class FittingShape(Generic[Other_co]):
    """The shape of a node that fits the operation's other operand, of the shape `Other_co`."""


class AtLeast1D:
    """The shape of a node with one axis or more."""


class AtLeast2D:
    """The shape of a node with two axes or more."""


# The shape of a node of which no checker knows how many axes it has: Any, or one with a part like `*tuple[Any, ...]`.
AnyRank: TypeAlias = tuple[Any, *tuple[AtLeast1D, ...], Any]


class ShapedMask(Protocol[ShapeOf]):
    """A node seen as its shape, of a class whose nodes are always masks."""

    dims: ShapeOf

    def _is_mask(self) -> Literal[True]: ...


class Shaped(Protocol[Own_co, ShapeOf]):
    """A node seen as (its own exact type, its shape), so that one parameter binds both.

    `dims` is a mutable attribute here, which makes the shape invariant: two shapes never join to a wider one.
    """

    dims: ShapeOf

    @property
    def _own(self) -> Own_co: ...


Shape_co = TypeVar("Shape_co", covariant=True)


class OfShape(Protocol[Own_co, Shape_co]):
    """As `Shaped`, with a shape that is only read: ty infers leading axes `*Bs` from this and not from `Shaped`.

    Two shapes seen only like this join to a wider one. An axis that two operands share is therefore seen in one of
    them by `Shaped`.
    """

    @property
    def dims(self) -> Shape_co: ...
    @property
    def _own(self) -> Own_co: ...
