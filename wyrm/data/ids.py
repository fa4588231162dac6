"""Ids of any type, such as names of users and numbers of items, as indices from 0 and back."""

from __future__ import annotations

import datetime
import re
from collections.abc import Hashable, Iterable
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wyrm.errors import DataError, DTypeError, ShapeError
from wyrm.graph.arrays import check_unmasked

# Values that are one id, although they can be iterated.
_SINGLE = (str, bytes, tuple, frozenset)


class Ids:
    """Distinct ids of any hashable type, numbered from 0: in ascending order, or as they appear if they have no order.

    `Ids(values)` takes a column of ids, each as often as it likes: an array, a list, any iterable, or a column of
    pandas, polars or Arrow. Ids are equal as Python says: 1 and 1.0 are one id, 1 and "1" are two. `ids.index(value)`
    is the number of an id, `ids[number]` the id, `len(ids)` how many there are; both take arrays too. Categories of a
    feature, such as genres, are numbered alike.

    Raises:
        DataError: there is no value, or one is missing: None, NaN or NaT.
        DTypeError: a value cannot be hashed, as a list.
        ShapeError: the array has more than one axis.

    >>> names = Ids(["eve", "ann", "eve", "bob"])
    >>> names.values.tolist(), names.index("eve"), names.index(["bob", "ann"])
    (['ann', 'bob', 'eve'], 2, array([1, 0]))
    >>> str(names[2]), "dan" in names, names.index(["dan", "ann"], unknown=-1)
    ('eve', False, array([-1,  0]))
    """

    def __init__(self, values: ArrayLike | Iterable[Hashable]) -> None:
        self.values: np.ndarray = numbered("ids", values)[0]

    @classmethod
    def of_distinct(cls, values: np.ndarray) -> Ids:
        """Return the ids of an array that has each once, in its order."""
        ids = cls.__new__(cls)
        ids.values = values
        return ids

    @cached_property
    def _numbers_by_id(self) -> dict[Hashable, int]:
        given = self.values.tolist()
        numbers = dict(zip(given, range(len(given)), strict=True))
        if len(numbers) < len(given):
            twice = next(each for number, each in enumerate(given) if numbers[each] != number)
            raise DataError(f"the ids hold {twice!r} more than once; expected each id once")
        return numbers

    def __len__(self) -> int:
        return len(self.values)

    def __contains__(self, value: object) -> bool:
        return isinstance(value, Hashable) and value in self._numbers_by_id

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.values[:3].tolist()))
        return f"Ids({len(self)}: {shown}{', ...' if len(self) > 3 else ''})"

    def __getitem__(self, numbers: Any) -> Any:
        """Return the id of a number, or the ids of an array of numbers."""
        return self.values[numbers]

    @overload
    def index(  # type: ignore[overload-overlap]  # a text is one id, and could be iterated
        self, values: str | bytes | int | float | tuple[Any, ...], unknown: int | None = None
    ) -> int: ...
    @overload
    def index(self, values: Iterable[Hashable] | np.ndarray, unknown: int | None = None) -> NDArray[np.int64]: ...
    def index(self, values: Any, unknown: int | None = None) -> Any:
        """Return the number of an id, or the numbers of several as int64; `unknown` is that of ids that are not there.

        Raises:
            DataError: an id is not there, and `unknown` is not given.
        """
        single = isinstance(values, _SINGLE) or not hasattr(values, "__iter__") or getattr(values, "ndim", 1) == 0
        given = [values] if single else column_of("ids", values).tolist()
        numbers = [self._numbers_by_id.get(each, -1) for each in given]
        if unknown is None and -1 in numbers:
            absent, numeric = given[numbers.index(-1)], self.values.dtype.kind in "iuf"
            kind = f", which are {self.values.dtype} and no texts" if numeric and isinstance(absent, str) else ""
            raise DataError(f"no id {absent!r} among {self!r}{kind}; unknown=-1 gives such ids a number")
        found = np.array(numbers, np.int64)
        found[found < 0] = -1 if unknown is None else unknown
        return int(found[0]) if single else found


def column_of(name: str, values: Any) -> np.ndarray:
    """Return a column of any library, or any iterable, as an array of one axis.

    What no other array holds exactly stays Python objects: mixed types, and large integers beside floats.
    """
    check_unmasked(values)
    if hasattr(values, "to_pylist"):  # of Arrow, whose texts are no array
        values = values.to_pylist()
    elif hasattr(values, "to_numpy"):
        values = values.to_list() if _has_missing_integers(values) else np.asarray(values.to_numpy())
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise DTypeError(f"{name} is {values!r}; expected a column: an array, a list, or another iterable")
    if not isinstance(values, np.ndarray):
        given = list(values)
        values = _array_of_numbers(given)
        if values is None:
            values = np.empty(len(given), object)
            values[:] = given
    if values.ndim != 1:
        raise ShapeError(f"{name} has shape {values.shape}; expected one axis, an entry for each row")
    return np.asarray(values)


def _has_missing_integers(values: Any) -> bool:
    """Whether a series of polars would become floats, in which large integers are no longer distinct."""
    if not callable(getattr(values, "null_count", None)):  # as NumPy's and pyarrow's
        return False
    return bool(values.null_count() > 0 and values.dtype.is_integer())


def _array_of_numbers(given: list[Any]) -> np.ndarray | None:
    """Return the array of a list of numbers or of NumPy's dates, if it holds them all exactly."""
    kinds = "".join({_kind_letter(each) for each in set(map(type, given))})
    if set(kinds) <= set("iuf") and kinds:
        array = np.asarray(given)
        if array.dtype.kind != "f" or kinds == "f":
            return array
        # Beyond 2**53, floats leave out integers.
        return array if "f" in kinds and not (np.abs(array) >= 2.0**53).any() else None
    is_one_type = kinds == "b" or (kinds in ("c", "M", "m") and len({each.dtype for each in given}) == 1)
    return np.asarray(given) if is_one_type else None


def _kind_letter(kind: type) -> str:
    """Return the letter of a type of numbers or dates, as in `numpy.dtype.kind`; "O" for others."""
    is_number = kind in (bool, int, float) or issubclass(kind, np.number | np.bool_ | np.datetime64)
    return np.dtype(kind).kind if is_number else "O"


def numbered(name: str, values: Any) -> tuple[np.ndarray, NDArray[np.int64]]:
    """Return the distinct values of a column, in ascending order if they have one, and the number of each entry."""
    column = column_of(name, values)
    if not column.size:
        raise DataError(f"{name} is empty; expected at least one id")
    if column.dtype.kind != "O":
        missing = (
            np.isnan(column) if column.dtype.kind in "fc" else np.isnat(column) if column.dtype.kind in "mM" else None
        )
        if missing is not None and missing.any():
            raise _missing(name, int(missing.argmax()))
        distinct, numbers = np.unique(column, return_inverse=True)
        return distinct, numbers.astype(np.int64)
    found: dict[Hashable, int] = {}
    try:
        numbers = np.fromiter((found.setdefault(each, len(found)) for each in column), np.int64, len(column))
    except TypeError:
        row = next(row for row, each in enumerate(column) if not isinstance(each, Hashable))
        raise DTypeError(f"{name} holds {column[row]!r} in row {row}, which cannot be hashed; use a tuple") from None
    for each, first in found.items():
        if _is_missing(each):
            raise _missing(name, int((numbers == first).argmax()))
    distinct_values: list[Any] = list(found)
    try:
        order = sorted(range(len(found)), key=lambda number: distinct_values[number])
    except TypeError:  # values of several types
        order = list(range(len(found)))
    ranks = np.empty(len(found), np.int64)
    ranks[order] = np.arange(len(found))
    return array_of([distinct_values[each] for each in order]), ranks[numbers]


def array_of(values: list[Any]) -> np.ndarray:
    """Return values as an array of their own type if it holds them all exactly, else of objects.

    Python integers are int64 if all fit, else uint64.
    """
    dtypes = {str: ("U",), int: ("i8", "u8"), float: ("f8",)}
    kinds = set(map(type, values))
    for dtype in dtypes.get(kinds.pop(), ()) if len(kinds) == 1 else ():
        try:
            array = np.array(values, dtype)
        except OverflowError:
            continue
        if array.tolist() == values:
            return array
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _is_missing(value: object) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(value != value)


def _missing(name: str, row: int, remedy: str = "give it an id of its own") -> DataError:
    return DataError(f"{name} has no value in row {row}; leave out the row, or {remedy}")


def numbers_of(name: str, values: Any) -> np.ndarray:
    """Return a column of numbers or dates as an array that holds them exactly, else one of objects or texts.

    Raise `DataError` for a missing value.
    """
    column = column_of(name, values)
    if column.dtype.kind == "O":
        given = column.tolist()
        for row, each in enumerate(given):
            if _is_missing(each):
                raise _missing(name, row, "fill in a value")
        array = _array_of_numbers(given)
        return column if array is None else array
    if column.dtype.kind in "fM":
        missing = np.isnat(column) if column.dtype.kind == "M" else np.isnan(column)
        if missing.any():
            raise _missing(name, int(missing.argmax()), "fill in a value")
    return column


def times_of(name: str, values: Any) -> np.ndarray:
    """Return times as int64, float64 or datetime64, as they are given; dates may be texts or Python's datetimes."""
    column = numbers_of(name, values)
    if column.dtype.kind in "OU":
        return _dates(name, column)
    if column.dtype.kind not in "iufM":
        raise DTypeError(f"{name} has dtype {column.dtype}; expected numbers or dates")
    if column.dtype.kind == "u" and column.size and column.max() >= 2**63:
        row = int(column.argmax())
        raise DataError(f"{name} holds {column[row]} in row {row}; expected numbers below 2**63")
    return column.astype(np.int64) if column.dtype.kind in "iu" else column


# NumPy takes 1700000000 and 20240531 for years, and reads fractions up to the unit that it is asked for.
_NUMBER, _NANOSECONDS = re.compile(r"\s*[+-]?[0-9]{5}"), re.compile(r"[.][0-9]{7}")


def _dates(name: str, column: np.ndarray) -> np.ndarray:
    """Return texts of dates and Python's datetimes as datetime64, of microseconds, or nanoseconds if one has them."""
    given = [_as_written(each) for each in column.tolist()]
    for row, each in enumerate(given):
        is_text = isinstance(each, str)
        if _NUMBER.match(each) if is_text else not isinstance(each, datetime.date | np.datetime64):
            advice = "; numbers that are texts become numbers by np.array(column, float)"
            raise DTypeError(
                f"{name} holds {each!r} in row {row}; expected numbers that int64 or float64 holds exactly, dates, or "
                f"texts such as '2024-05-31T12:00'{advice if is_text else ''}"
            )
    try:
        dates = np.array(given, "datetime64[us]")
    except (ValueError, TypeError):
        raise DTypeError(
            f"{name} has dtype {column.dtype}, such as {given[0]!r}; expected numbers, dates, or texts such as "
            f"'2024-05-31T12:00'"
        ) from None
    if np.isnat(dates).any():  # of an empty text
        raise _missing(name, int(np.isnat(dates).argmax()), "fill in a value")
    if not any(_NANOSECONDS.search(each) for each in given if isinstance(each, str)):
        return dates
    finer = np.array(given, "datetime64[ns]")
    if (finer.astype(dates.dtype) != dates).any():
        raise DataError(f"{name} holds nanoseconds, and dates that are too far from 1970 for them")
    return finer


def _as_written(value: Any) -> Any:
    """Return a datetime without its zone, at UTC, and one of pandas with nanoseconds as a text."""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return value.isoformat() if getattr(value, "nanosecond", 0) else value
