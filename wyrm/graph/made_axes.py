"""Axes of rows of different lengths that are made of others: their lengths follow from those, and no data has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic
from weakref import WeakValueDictionary

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import ShapeError
from wyrm.graph.axes import Ragged
from wyrm.graph.typing import IntegerArray

A = TypeVar("A", bound=Ragged, default=Any)
B = TypeVar("B", bound=Ragged, default=Any)

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
    def offsets(cls, parts: Sequence[IntegerArray]) -> IntegerArray:
        """Return the offsets of rows, one integer more than there are rows, for those along the parts."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[object, ...]:
        base = next(kind for kind in type(self).__mro__ if not kind.__dict__.get("parts"))
        return made_axis, (base, *(part() for part in self.parts))


class Joined(MadeRagged, Generic[A, B], declares=False):
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
    def offsets(cls, parts: Sequence[IntegerArray]) -> IntegerArray:
        first, second = parts
        return first + second


class Pairs(MadeRagged, Generic[A], declares=False):
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
    def offsets(cls, parts: Sequence[IntegerArray]) -> IntegerArray:
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
