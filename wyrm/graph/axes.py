"""Named axes: a class is the name of an axis, an instance its size, and a tuple of them the shape of a node."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, SupportsIndex, TypeGuard, overload
from weakref import WeakValueDictionary

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import ShapeError
from wyrm.support.imports import Late
from wyrm.support.options import is_integer

_NUMBERS = (int, float, np.integer, np.floating)
A = TypeVar("A", default=Any)
B = TypeVar("B", default=Any)
First = TypeVar("First", bound="Dim")
Second = TypeVar("Second", bound="Dim")
FirstRagged = TypeVar("FirstRagged", bound="Ragged", default=Any)
SecondRagged = TypeVar("SecondRagged", bound="Ragged", default=Any)


# One axis or several, by their numbers; None means all.
AxisLike = int | Sequence[int] | None


class Dim:
    """One axis. Its class is the axis' name, for type checkers and at run time; data may supply its size.

    Not an `int`, so that the type checker tells `(Batch(32), Pixels(784))` (checked) from `(32, 784)` (unchecked).

    >>> class Batch(Dim): ...
    >>> Batch(32)
    Batch(32)
    >>> Batch(32) == Batch(32), Batch(32) == Batch(16)
    (True, False)
    >>> list(range(Batch(2)))
    [0, 1]
    >>> Batch().size is None
    True

    `*` and `+` with sizes and other axes make the axes of flattened and of joined ones. An input with the axis
    `Half() * 2` takes data whose size is a multiple of 2:

    >>> Batch() * 2, 1 + Batch(3)
    (Times[Batch(), 2], Plus[1, Batch(3)])

    `Dim()` itself, without a class and a size, is an axis of its own: it equals no other one. Nodes that share it are
    given the same object.

    >>> rows, entries = Dim(), Dim()
    >>> rows == rows, rows == entries
    (True, False)

    Raise `ShapeError` for a negative size, and in `int(dim)` or `range(dim)` while the size is unknown.
    """

    __slots__ = ("_size",)
    __array_ufunc__: ClassVar[None] = None  # NumPy's integers leave `integer * dim` to the axis
    # Whether the axis is made of other axes and gets its size from theirs.
    derived: ClassVar[bool] = False

    def __init__(self, size: SupportsIndex | None = None) -> None:
        if size is None:
            self._size = None
            if type(self) is Dim:
                self.__class__ = _unnamed()
            return
        if not hasattr(type(size), "__index__"):
            raise TypeError(f"{type(self).__name__}: a size is a whole number, not {size!r}")
        self._size = operator.index(size)
        if self._size < 0:
            raise ShapeError(f"{type(self).__name__}: a size must be at least 0, not {self._size}")

    @property
    def size(self) -> int | Any:  # not `int | None`: a type does not say which axes have a size
        """The number of elements along the axis, or None if the data of each run decides it."""
        return self._size

    def __index__(self) -> int:
        if self._size is None:
            raise ShapeError(
                f"axis {type(self).__name__} has no size of its own: it is bound by the data of each run; "
                f"give it one, as in {type(self).__name__}(32), where a number is needed; x.dims are the axes"
            )
        return self._size

    @overload
    def __mul__(self, other: Second) -> Times[Self, Second]: ...
    @overload
    def __mul__(self, other: SupportsIndex) -> Times[Self, Any]: ...
    def __mul__(self, other: Dim | SupportsIndex) -> Times:
        return Times((self, _axis_part(other))) if _is_part(other) else NotImplemented

    def __rmul__(self, other: SupportsIndex) -> Times[Any, Self]:
        return Times((_axis_part(other), self)) if _is_part(other) else NotImplemented

    @overload
    def __add__(self, other: Second) -> Plus[Self, Second]: ...
    @overload
    def __add__(self, other: SupportsIndex) -> Plus[Self, Any]: ...
    def __add__(self, other: Dim | SupportsIndex) -> Plus:
        return Plus((self, _axis_part(other))) if _is_part(other) else NotImplemented

    def __radd__(self, other: SupportsIndex) -> Plus[Any, Self]:
        return Plus((_axis_part(other), self)) if _is_part(other) else NotImplemented

    # A size that is not known has no difference and no quotient, and is neither large nor small.

    def __sub__(self, other: SupportsIndex) -> int:
        return operator.index(self) - operator.index(other) if _is_part(other) else NotImplemented

    def __floordiv__(self, other: SupportsIndex) -> int:
        return operator.index(self) // operator.index(other) if _is_part(other) else NotImplemented

    def __truediv__(self, other: float) -> float:
        return operator.index(self) / other if isinstance(other, _NUMBERS) else NotImplemented

    def __rtruediv__(self, other: float) -> float:
        return other / operator.index(self) if isinstance(other, _NUMBERS) else NotImplemented

    def __lt__(self, other: SupportsIndex) -> bool:
        return operator.index(self) < operator.index(other) if _is_part(other) else NotImplemented

    def __le__(self, other: SupportsIndex) -> bool:
        return operator.index(self) <= operator.index(other) if _is_part(other) else NotImplemented

    def __gt__(self, other: SupportsIndex) -> bool:
        return operator.index(self) > operator.index(other) if _is_part(other) else NotImplemented

    def __ge__(self, other: SupportsIndex) -> bool:
        return operator.index(self) >= operator.index(other) if _is_part(other) else NotImplemented

    def resolve(self, sizes: Mapping[type[Dim], int]) -> int:
        """Return the size of this axis, given the sizes that a run has bound."""
        if self._size is not None:
            return self._size
        if type(self) in sizes:
            return sizes[type(self)]
        raise ShapeError(f"axis {type(self).__name__} has no size: no input of this graph binds it")

    _repr_mimebundle_ = Late("wyrm.view.notebook", "of_dim")  # what notebooks display

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self._size is None else self._size})"

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Dim) and type(self) is type(other) and self._size == other._size)

    def __hash__(self) -> int:
        return hash((type(self), self._size))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._size,)


def _is_part(value: object) -> bool:
    """Return whether a value is an axis or a size; a node is none, though it has a method that says so."""
    return isinstance(value, Dim | int | np.integer)


def _axis_part(axis: Dim | SupportsIndex) -> Axis:
    return axis if isinstance(axis, Dim) else operator.index(axis)


class UnnamedDim(Dim):
    """The base class of the classes that stand for the axes `Dim()`, one for each: a class tells axes apart.

    `number` is 0 until a message tells two such axes apart. Pickles find the class by its `token`.
    """

    __slots__ = ()
    token: ClassVar[str]
    number: ClassVar[int] = 0

    def __repr__(self) -> str:
        number = f"#{self.number}" if self.number else ""
        return f"Dim{number}({'' if self._size is None else self._size})"

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self.token, self._size)


_unnamed_classes: WeakValueDictionary[str, type[UnnamedDim]] = WeakValueDictionary()
_numbers = count(1)


def _unnamed(token: str | None = None) -> type[UnnamedDim]:
    """Return the class of a new axis without a name, or of the one that a pickle knows by this token."""
    found = None if token is None else _unnamed_classes.get(token)
    if found is None:
        token = token or os.urandom(16).hex()
        # Where the name of an axis becomes that of a variable or of a symbol, this is the name.
        found = type("Dim", (UnnamedDim,), {"__slots__": (), "__module__": __name__, "token": token})
        found = _unnamed_classes.setdefault(token, found)
    return found


def _restored(token: str, size: int | None) -> UnnamedDim:
    """Return an axis without a name from a pickle: the same one, in this process, for the same token."""
    return _unnamed(token)(size)


def _told_apart(axes: Iterable[Dim]) -> None:
    """Number the axes without a name, so that from here on messages tell them apart: `Dim#1()` and `Dim#2()`."""
    for axis in axes:
        if isinstance(axis, UnnamedDim) and not axis.number:
            type(axis).number = next(_numbers)


class One(Dim):
    """The axis of size 1 that `None` and `keepdims=True` make, so that it broadcasts against any axis.

    >>> One()
    One(1)
    """

    __slots__ = ()

    def __init__(self, size: SupportsIndex | None = 1) -> None:
        super().__init__(size)
        if self._size != 1:
            raise ShapeError(f"One must have size 1, not {self._size}")


class Ragged(Dim):
    """The base class of axes whose length differs from row to row, such as the words of a text.

    It stands behind the axis of its rows, and data decides its lengths. Inputs that have the same one have the same
    lengths.

    >>> class Batch(Dim): ...
    >>> class Words(Ragged): ...
    >>> Batch(), Words()
    (Batch(), Words())

    Raise `TypeError` for `Ragged()` itself, which has no name, and for a size.
    """

    __slots__ = ()
    # Whether there are such axes at all: graphs without them need not be searched for them.
    declared: ClassVar[bool] = False

    def __init_subclass__(cls, *, declares: bool = True, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        Ragged.declared |= declares

    if TYPE_CHECKING:

        def __init__(self) -> None: ...

    else:

        def __init__(self, *size: object) -> None:
            if type(self) is Ragged:
                raise TypeError("an axis of rows of different lengths needs a name: class Words(wy.Ragged): ...")
            if size:
                raise TypeError(f"{type(self).__name__}: each row has its own length, so the axis takes no size")
            super().__init__()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), ()


# --- axes of rows of different lengths that are made of others --------------------------------------------------------

# A row of more entries has more than two billion pairs.
MOST_PAIRED = 2**16


class MadeRagged(Ragged, declares=False):
    """The base class of the kinds of axes that are made of others; `parts` are the names of these.

    There is one class for each kind and parts, so that equal axes have the same name.
    """

    __slots__ = ()
    parts: ClassVar[tuple[type[Ragged], ...]] = ()
    # The number of parts of an axis of this kind.
    count: ClassVar[int]

    if not TYPE_CHECKING:

        def __init__(self, *size: object) -> None:
            if not self.parts:
                names = ", ".join(("Words", "Tags")[: self.count])
                kind = type(self).__name__
                raise TypeError(f"an axis {kind} is made of others: wy.{kind}[{names}](), of axes wy.Ragged")
            super().__init__(*size)

        def __class_getitem__(cls, parts: Any) -> Any:
            names = parts if isinstance(parts, tuple) else (parts,)
            if not cls.parts and all(isinstance(name, type) and issubclass(name, Ragged) for name in names):
                return made_name(cls, names)
            return super().__class_getitem__(parts)

    @classmethod
    def offsets(cls, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return the offsets of rows, one integer more than there are rows, for those along the parts."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[object, ...]:
        base = next(kind for kind in type(self).__mro__ if not kind.__dict__.get("parts"))
        return made_axis, (base, *(part() for part in self.parts))


class Joined(MadeRagged, Generic[FirstRagged, SecondRagged], declares=False):
    """The axis of the entries along two axes of the same rows: in each row those along the first, then the others.

    `wy.concatenate((x, y), axis=1)` has it.

    >>> class Words(wy.Ragged): ...
    >>> class Tags(wy.Ragged): ...
    >>> wy.Joined[Words, Tags]()
    Joined[Words, Tags]()

    Raise `TypeError` without the two axes.
    """

    __slots__ = ()
    count = 2

    @classmethod
    def offsets(cls, parts: Sequence[np.ndarray]) -> np.ndarray:
        found: np.ndarray = parts[0] + parts[1]
        return found


class Pairs(MadeRagged, Generic[FirstRagged], declares=False):
    """The axis of the unordered pairs of different entries of each row: n (n - 1) / 2 pairs of n entries.

    `wy.row_pairs(x)` has it.

    >>> class Words(wy.Ragged): ...
    >>> wy.Pairs[Words]()
    Pairs[Words]()

    Raise `TypeError` without the axis.
    """

    __slots__ = ()
    count = 1

    @classmethod
    def offsets(cls, parts: Sequence[np.ndarray]) -> np.ndarray:
        lengths = np.diff(parts[0])
        if lengths.size and lengths.max() > MOST_PAIRED:
            row = int(lengths.argmax())
            raise ShapeError(
                f"row {row:,} has {lengths[row]:,} entries along {cls.parts[0].__name__}, and pairs are made of rows "
                f"of at most {MOST_PAIRED:,}: n entries have n (n - 1) / 2 pairs; leave entries out, or draw some pairs"
            )
        return np.concatenate([[0], np.cumsum(lengths * (lengths - 1) // 2)])


_made: WeakValueDictionary[tuple[type[Any], ...], type[MadeRagged]] = WeakValueDictionary()


def made_name(kind: type[MadeRagged], parts: Sequence[type[Ragged]]) -> type[MadeRagged]:
    """Return the class of the axis of a kind that is made of these parts, the same one each time.

    Raise `TypeError` for another number of parts than the kind has.
    """
    if len(parts) != kind.count:
        raise TypeError(f"wy.{kind.__name__} is made of {kind.count} axes, not of {len(parts)}")
    found = _made.get((kind, *parts))
    if found is None:
        name = f"{kind.__name__}[{', '.join(part.__name__ for part in parts)}]"
        members = {"__slots__": (), "__module__": __name__, "parts": tuple(parts)}
        found = _made.setdefault((kind, *parts), type(name, (kind,), members))
    return found


def made_axis(kind: type[MadeRagged], *parts: Ragged) -> MadeRagged:
    """Return the axis of a kind that is made of these.

    >>> class Words(wy.Ragged): ...
    >>> made_axis(Pairs, Words())
    Pairs[Words]()
    """
    return made_name(kind, tuple(map(type, parts)))()


# --- the entries of all rows ------------------------------------------------------------------------------------------


class Entries(Dim):
    """The base class of the axes of the entries of all rows, one row after the other: one for each `Ragged` axis."""

    __slots__ = ()
    of: ClassVar[type[Ragged]]
    # The node that counts the entries before a part of a batch, once something is drawn for each entry.
    before: ClassVar[Any]

    def __reduce__(self) -> tuple[object, ...]:
        return _entries_along, (self.of(),)


def _entries_along(axis: Ragged) -> Entries:
    """Return the axis of the entries along an axis, which pickles find by that axis: it may have no class by name."""
    return axis_of_entries(type(axis))


def axis_of_entries(name: type[Ragged]) -> Entries:
    """Return the axis of the entries of all rows along a `Ragged` axis."""
    made = name.__dict__.get("_entries")
    if made is None:
        members = {"__slots__": (), "__module__": name.__module__, "of": name}
        made = type(name.__name__, (Entries,), members)
        name._entries = made  # type: ignore[attr-defined]  # found in `__dict__` alone, because subclasses have others
    axis: Entries = made()
    return axis


def ragged_axis(dims: Dims) -> Ragged | None:
    """Return the axis among these whose length differs from row to row, the second, if it does."""
    return dims[1] if Ragged.declared and len(dims) > 1 and isinstance(dims[1], Ragged) else None


def flat_dims(dims: Dims) -> Dims:
    """Return the axes of the array of all entries: the axis of rows and a `Ragged` one become one.

    >>> class Batch(Dim): ...
    >>> class Words(Ragged): ...
    >>> flat_dims((Batch(), Words(), 8)), flat_dims((Batch(), 8))
    ((Words(), 8), (Batch(), 8))

    Raise `ShapeError` for a `Ragged` axis in another place.
    """
    axis = ragged_axis(dims)
    if axis is not None:
        dims = (axis_of_entries(type(axis)), *dims[2:])
    return tuple([_flat_axis(each) if isinstance(each, Derived | Ragged) else each for each in dims])


def _flat_axis(axis: Axis) -> Axis:
    if isinstance(axis, Ragged):
        raise ShapeError(
            f"{axis!r} stands behind the axis of its rows, as the second axis, and has no size of its own: the number "
            f"of entries of each row is wy.row_lengths(x), and their places are wy.entry_positions(x)"
        )
    if not isinstance(axis, Derived):
        return axis
    if isinstance(axis, Times):
        parts = flat_dims(tuple(axis.parts))
        return parts[0] if len(parts) == 1 else Times(parts)
    return axis.of(map(_flat_axis, axis.parts))


class Derived(Dim):
    """An axis made of other axes by an operation; two are equal if their parts are."""

    __slots__ = ("parts",)
    derived = True

    def __init__(self, parts: Iterable[Axis]) -> None:
        self.parts: tuple[Axis, ...] = tuple(parts)
        known = [axis_size(part) for part in self.parts]
        super().__init__(None if None in known else self._combine([size for size in known if size is not None]))

    def _combine(self, sizes: list[int]) -> int:
        raise NotImplementedError

    def resolve(self, sizes: Mapping[type[Dim], int]) -> int:
        return self._combine([resolve_axis(part, sizes) for part in self.parts])

    def like(self, other: Derived) -> bool:
        """Return whether `other` is the same operation on the same number of parts."""
        return type(self) is type(other) and len(self.parts) == len(other.parts)

    def of(self, parts: Iterable[Axis]) -> Axis:
        """Return the same operation on other parts."""
        return type(self)(parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Derived) and self.like(other) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash((type(self), self.parts))

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{', '.join(map(repr, self.parts))}]"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.parts,)


class Plus(Derived, Generic[A, B]):
    """The axis of a concatenation along two axes.

    >>> class Hidden(Dim): ...
    >>> class Features(Dim): ...
    >>> Plus((Hidden(3), Features(4))).size
    7
    """

    __slots__ = ()
    if TYPE_CHECKING:

        @overload
        def __init__(self: Plus[First, Second], parts: tuple[First, Second]) -> None: ...
        @overload
        def __init__(self: Plus, parts: Iterable[Axis]) -> None: ...
        def __init__(self, parts: Iterable[Axis]) -> None: ...

    _combine = staticmethod(sum)  # type: ignore[assignment]  # sum is overloaded; on list[int] it gives int

    @property
    def _key(self) -> tuple[int, tuple[Axis, ...]]:
        """The sum of the parts that are numbers, wherever they stand, and the other parts in order."""
        numbers = sum(part for part in self.parts if not isinstance(part, Dim))
        return numbers, tuple([part for part in self.parts if isinstance(part, Dim)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plus) and (self.parts == other.parts or self._key == other._key)

    def __hash__(self) -> int:
        return hash((Plus, self._key))


class Times(Derived, Generic[A, B]):
    """The axis of several axes flattened into one.

    >>> class Batch(Dim): ...
    >>> class Time(Dim): ...
    >>> Times((Batch(3), Time(4))).size
    12
    """

    __slots__ = ()
    if TYPE_CHECKING:

        @overload
        def __init__(self: Times[First, Second], parts: tuple[First, Second]) -> None: ...
        @overload
        def __init__(self: Times, parts: Iterable[Axis]) -> None: ...
        def __init__(self, parts: Iterable[Axis]) -> None: ...

    _combine = staticmethod(math.prod)  # type: ignore[assignment]  # math.prod is overloaded; on list[int] it gives int


Axis = Dim | int
Dims = tuple[Axis, ...]


def any_dim(size: SupportsIndex) -> Any:
    """One unchecked axis among checked ones: `Input(dims=(Batch(32), any_dim(7)))` has the shape `(Batch, Any)`.

    >>> any_dim(7)
    7
    """
    return operator.index(size)


def is_name(axis: object) -> TypeGuard[type[Dim]]:
    """Whether this is the class of an axis, which is its name and has no size."""
    return isinstance(axis, type) and issubclass(axis, Dim)


def axis_size(axis: Axis) -> int | None:
    """Return the size of an axis, or None if it is not known yet."""
    return axis.size if isinstance(axis, Dim) else axis


def known_size(axes: Iterable[Axis]) -> int | None:
    """Return the number of elements over all of these axes, or None if the size of one is not known yet.

    >>> known_size((Dim(2), 3)), known_size((Dim(), 3))
    (6, None)
    """
    count = 1
    for axis in axes:
        size = axis_size(axis)
        if size is None:
            return None
        count *= size
    return count


def axis_name(axis: Axis) -> str:
    """Return the name of an axis; of a derived one, what it is made of; empty for a plain size."""
    if not isinstance(axis, Dim):
        return ""
    return repr(axis) if type(axis).derived else type(axis).__name__


def class_text(name: type[Dim]) -> str:
    """Return how code names the class of an axis: `Batch`, and `type(axis)` for that of an axis `Dim()`."""
    return "type(axis)" if issubclass(name, UnnamedDim) else name.__name__


def distinct_names(texts: Sequence[str]) -> list[str]:
    """Return the names of axes; one that several axes have gets a number.

    >>> distinct_names(["Dim", "Batch", "Dim"])
    ['Dim_0', 'Batch', 'Dim_2']
    """
    return [text if texts.count(text) == 1 else f"{text}_{i}" for i, text in enumerate(texts)]


def open_axes(dims: Iterable[Axis]) -> Iterator[type[Dim]]:
    """Yield the names of the axes that get their size from data, those inside derived axes too."""
    for axis in dims:
        if isinstance(axis, Derived):
            yield from open_axes(axis.parts)
        elif isinstance(axis, Dim) and axis.size is None:
            yield type(axis)


def resolve_axis(axis: Axis, sizes: Mapping[type[Dim], int]) -> int:
    return axis.resolve(sizes) if isinstance(axis, Dim) else axis


def resolve(dims: Dims, sizes: Mapping[type[Dim], int]) -> tuple[int, ...]:
    """Return the shape of `dims` in a run that has bound `sizes`."""
    return tuple([axis if type(axis) is int else resolve_axis(axis, sizes) for axis in dims])


def _has_own_name(axis: Axis) -> bool:
    """Return whether an axis has a name of its own; derived axes and `One` have none."""
    return isinstance(axis, Dim) and not isinstance(axis, Derived | One)


def unify(left: Axis, right: Axis) -> Axis:
    """Return the common axis of both; raise `ShapeError` with the reason if they differ."""
    if left is right:
        return left
    sizes = axis_size(left), axis_size(right)
    if isinstance(left, Dim) and isinstance(right, Dim):
        named = _has_own_name(left) and _has_own_name(right)
        if named and type(left) is not type(right):
            raise ShapeError(_two_names(left, right))
        if sizes[0] is not None and sizes[1] is not None:
            if sizes[0] != sizes[1]:
                raise ShapeError(f"{left!r} against {right!r}")
            return left
        if left == right or (named and type(left) is type(right)):
            return right if sizes[0] is None else left
        if isinstance(left, Derived) and isinstance(right, Derived) and left.like(right):
            return left.of(map(unify, left.parts, right.parts))
        raise ShapeError(f"{left!r} against {right!r}: their sizes are not known to be equal")
    if None in sizes:
        unbound = left if sizes[0] is None else right
        raise ShapeError(
            f"{left!r} against {right!r}: {unbound!r} gets its size from the data of each run; "
            f"give the other side the same axis"
        )
    if sizes[0] != sizes[1]:
        raise ShapeError(f"{left!r} against {right!r}")
    return left if isinstance(left, Dim) else right


def _two_names(left: Dim, right: Dim) -> str:
    """Return why two axes whose classes differ are not the same."""
    if isinstance(left, UnnamedDim) and isinstance(right, UnnamedDim):
        _told_apart((left, right))
        return (
            f"{left!r} against {right!r} (each Dim() is an axis of its own; give both inputs the same one, as in "
            f"rows = wy.Dim(), or name it: class Rows(wy.Dim): ...)"
        )
    if isinstance(left, UnnamedDim) or isinstance(right, UnnamedDim):
        reason = "different axes: each Dim() is one of its own; give both inputs the same axis"
    elif type(left).__name__ == type(right).__name__:
        reason = f"two classes are named {type(left).__name__}; was it defined again?"
    elif isinstance(left, Ragged) != isinstance(right, Ragged):
        reason = (
            "different axes; beside the entries of rows, a value of each row is value.expand_dims(1), and a number for "
            "each entry is number.expand_dims(-1)"
        )
    else:
        reason = "equal sizes, different names" if left.size == right.size is not None else "different axes"
    return f"{left!r} against {right!r} ({reason})"


def broadcast(left: Dims, right: Dims) -> Dims:
    """Broadcast axes by NumPy's rule: they are aligned at the right, and an axis of size 1 stretches.

    Two named axes must be the same, whatever their sizes: `Batch(1)` is a batch that happens to be small. Raise
    `ShapeError` where an axis of size 1 that is not `One` would stretch along an axis that its operand has already, and
    the other operand has nothing to face that: (batch, 1) against (batch,) is a column of predictions against targets,
    not all their pairs, which (batch, 1) against (1, batch) is.
    """
    if left is right or not right or left == right:
        return left
    if not left:
        return right
    if len(left) < len(right):
        left, right = right, left
    offset = len(left) - len(right)
    joined = left[:offset] + tuple(map(_stretch, left[offset:], right))
    if offset:
        kinds = [*map(type, joined)]
        if len(kinds) > len({*kinds}):  # few shapes have two axes of one class, besides numbers
            _refuse_pairs(left, right, joined)
    return joined


def _stretch(left: Axis, right: Axis) -> Axis:
    if isinstance(right, One):
        return left
    if isinstance(left, One):
        return right
    if _has_own_name(left) and _has_own_name(right):
        return unify(left, right)
    if axis_size(left) == 1 and not (isinstance(left, Dim) and axis_size(right) == 1):
        return right
    return left if axis_size(right) == 1 else unify(left, right)


def _refuse_pairs(left: Dims, right: Dims, joined: Dims) -> None:
    """Raise `ShapeError` if an axis of size 1 stretches along an axis that `left` has before those of `right`."""
    for position in range(-len(right), 0):
        one, axis = left[position], right[position]
        if axis_size(one) != 1 or isinstance(one, One) or axis_size(axis) == 1 or not isinstance(axis, Dim):
            continue
        if any(_is_same(axis, each) for each in left[: -len(right)]):
            raise ShapeError(
                f"the result would have the axes ({', '.join(map(repr, joined))}), {axis!r} twice: axis {position} of "
                f"({', '.join(map(repr, left))}) has size 1 and stretches. Remove it with .squeeze({position}); if all "
                f"pairs are meant, make it with None, as in x[:, None]"
            )


def _is_same(axis: Dim, other: Axis) -> bool:
    """Return whether two axes are one by their name; axes that have a size alone are none."""
    return type(axis) is type(other) is not Dim and (_has_own_name(axis) or axis == other)


def normalize_axis(axis: SupportsIndex, ndim: int) -> int:
    """Return `axis` counted from 0; raise `ShapeError` if there is no such axis."""
    if not hasattr(type(axis), "__index__"):
        raise TypeError(f"an axis is given by its number, not by {axis!r}")
    position = operator.index(axis)
    if ndim == 0:
        raise ShapeError(f"axis {position} of a scalar, which has none")
    if not -ndim <= position < ndim:
        raise ShapeError(f"axis {position} is out of range for {ndim} axes: it must be from {-ndim} to {ndim - 1}")
    return position % ndim


def reduced_dims(dims: Dims, axis: tuple[int, ...], keepdims: bool) -> Dims:
    """Return the axes that remain after a reduction over `axis`."""
    if not keepdims:
        return tuple(d for i, d in enumerate(dims) if i not in axis)
    one: Axis = One() if any(isinstance(d, Dim) for d in dims) else 1
    return tuple(one if i in axis else d for i, d in enumerate(dims))


def all_axes(axis: AxisLike, ndim: int) -> tuple[int, ...]:
    """Return `axis` as sorted positions from 0; None means all. Raise `ShapeError` for a missing or repeated axis."""
    if axis is None:
        return tuple(range(ndim))
    given: Any = [axis] if is_integer(axis) or not isinstance(axis, Iterable) else axis
    positions = [normalize_axis(a, ndim) for a in given]
    if len(set(positions)) != len(positions):
        raise ShapeError(f"axis {axis} names an axis twice")
    return tuple(sorted(positions))


def product(axes: Dims) -> Axis:
    """Return the axis of `axes` flattened into one: a number if all sizes are plain numbers, else `Times`."""
    if len(axes) == 1:
        return axes[0]
    return Times(axes) if any(isinstance(axis, Dim) for axis in axes) else math.prod(int(axis) for axis in axes)
