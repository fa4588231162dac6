"""Interactions from what people have them in: tables of any library, CSV files and sparse matrices."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from wyrm.data.interactions import Interactions
from wyrm.engines.tables import Table, column_names
from wyrm.errors import DataError, DTypeError

# The names of columns that are found without being told, by what they hold.
_NAMES = {
    "users": (
        "user_id", "userid", "user", "users", "uid", "customer_id", "customerid", "customer", "visitor_id", "visitor",
        "session_id", "session",
    ),
    "items": (
        "item_id", "itemid", "item", "items", "iid", "movie_id", "movieid", "movie", "film_id", "film", "product_id",
        "productid", "product", "article_id", "article", "track_id", "track", "book_id", "book", "sku",
    ),
    "ratings": ("weight", "weights", "rating", "ratings", "count", "counts", "plays", "stars"),
    "timestamps": ("timestamp", "timestamps", "time", "date", "datetime", "ts"),
}  # fmt: skip


class SparseMatrix(Protocol):
    """A sparse matrix or array of SciPy."""

    @property
    def shape(self) -> Any: ...
    def tocoo(self) -> Any: ...


Data: TypeAlias = Interactions | Table | SparseMatrix | str | os.PathLike[str]


def as_interactions(interactions: Data) -> Interactions:
    """Return interactions as they are, or those of a table, the path of a CSV file, or a sparse matrix.

    A table has a column of users and one of items, and perhaps one of weights and one of times, by the usual names. The
    ids of a matrix of shape (users, items) are the numbers of its rows and columns, its entries the weights.

    Raise `DataError` for columns that are not there, and for a NaN or a missing id; `DTypeError` for anything else.
    """
    given: Any = interactions
    if isinstance(given, Interactions):
        return given
    if isinstance(given, str | os.PathLike):
        given = _csv(Path(given))
    elif hasattr(given, "tocoo") and len(getattr(given, "shape", ())) == 2:
        return _of_matrix(given.tocoo())
    names = column_names(given)
    if names is None:
        raise DTypeError(
            f"interactions are {type(given).__name__}; expected wy.data.Interactions, a table of pandas, polars or "
            f"Arrow, a dict of columns, the path of a CSV file, or a sparse matrix of users by items"
        )
    found = {
        kind: next((name for each in known for name in names if name.lower() == each), None)
        for kind, known in _NAMES.items()
    }
    for kind in ("users", "items"):
        if found[kind] is None:
            raise DataError(
                f"no column of {kind} among {names}: call it {_NAMES[kind][0]!r}, or name the columns by "
                f"wy.data.Interactions.of_table(table, users=..., items=..., ratings=..., timestamps=...)"
            )
    users, items = str(found["users"]), str(found["items"])
    return Interactions.of_table(given, users, items, found["ratings"], found["timestamps"])


def _of_matrix(matrix: Any) -> Interactions:
    rows, columns = np.asarray(matrix.row, np.int64), np.asarray(matrix.col, np.int64)
    users, items = map(np.arange, matrix.shape)
    return Interactions.of(rows, columns, np.asarray(matrix.data), user_ids=users, item_ids=items)


def _csv(path: Path) -> dict[str, np.ndarray]:
    """Return the columns of a CSV file with a header: numbers where all are, else texts."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header, *rows = csv.reader(file)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"cannot read {os.fspath(path)!r}: {getattr(error, 'strerror', None) or error}") from None
    except ValueError:
        raise DataError(f"{os.fspath(path)!r} is empty; expected a first line with the names of the columns") from None
    rows = [row for row in rows if row]
    bad = next((number for number, row in enumerate(rows) if len(row) != len(header)), None)
    if bad is not None or not rows:
        what = "no rows" if bad is None else f"{len(rows[bad])} values in row {bad + 1} for {len(header)} columns"
        raise DataError(f"{os.fspath(path)!r} has {what}; expected a value for each of {header}")
    return {name: _column(name, column) for name, column in zip(header, zip(*rows, strict=True), strict=True)}


def _column(name: str, texts: tuple[str, ...]) -> np.ndarray:
    """Return texts as integers if each is written as one is, as floats if all are numbers, else as they are."""
    has_ids = name.lower() in _NAMES["users"] + _NAMES["items"]
    for kind in (int, float):
        try:
            numbers = np.array([kind(each) for each in texts])
        except (ValueError, OverflowError):
            continue
        # A leading zero is part of an id, and so are digits that no number holds; "1.5" and "1.50" are two ids.
        is_written_so = (kind is float and not has_ids) or all(each == str(kind(each)) for each in texts)
        if is_written_so and numbers.dtype == (np.float64 if kind is float else np.int64):
            return numbers
        break
    return np.array(texts, object)
