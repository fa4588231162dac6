"""Tables of features: numbers, categories and sparse rows, as columns of a model's inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, validate_data

from wyrm.data.ids import Ids
from wyrm.errors import DataError
from wyrm.estimators.bases import BaseEstimator
from wyrm.graph.ragged import RaggedArray

# scikit-learn has no types, and those that type checkers infer from its defaults are too narrow.
checked_array: Any = check_array


@dataclass(frozen=True)
class Features:
    """What the features of a fitted estimator are: how many numbers, whether in sparse rows, and categories by column.

    The number of a category is its place here and 1 more; 0 stands for one that is missing or was not seen.
    """

    numbers: int
    sparse: bool = False
    categories: tuple[tuple[str, Ids], ...] = ()


def read_features(estimator: BaseEstimator, x: Any, known: Features | None) -> tuple[Features, dict[str, Any]]:
    """Return the features of a table, and its columns by the names of a model's inputs.

    `known` are those of an earlier fit, which the table must have. Columns of a data frame that hold texts, booleans,
    or a categorical type are categories, all others numbers.

    Raise `ValueError` for what scikit-learn refuses, such as a NaN among the numbers, other columns or another number
    of them than before.
    """
    frame = hasattr(x, "columns") and hasattr(x, "dtypes")
    names = [str(name) for name in x.columns if _is_category(x[name])] if frame else []
    if known is not None and not names and known.categories:
        listed = ", ".join(repr(name) for name, _ in known.categories)
        raise DataError(f"{type(estimator).__name__} was fitted on categories, {listed}: give a data frame with them")
    if not (names or (known is not None and known.categories)):
        x = validate_data(
            estimator, x, reset=known is None, accept_sparse="csr", dtype=[np.float64, np.float32], order="C"
        )
        sparse = hasattr(x, "indptr") if known is None else known.sparse
        return Features(x.shape[1], sparse), _sparse(x) if sparse else {"numbers": _dense(x)}
    validate_data(estimator, x, reset=known is None, skip_check_array=True)
    if known is None:
        read = {name: _values(x[name]) for name in names}
        known = Features(
            x.shape[1] - len(names), categories=tuple((name, _ids(name, values)) for name, values in read.items())
        )
    columns: dict[str, Any] = {}
    for name, ids in known.categories:
        columns[f"category {name}"] = _numbers_of(ids, _values(x[name]))
    chosen = dict(known.categories)
    others = [name for name in x.columns if str(name) not in chosen]
    if others:
        numbers = np.stack([np.asarray(x[name].to_numpy(), np.float64) for name in others], axis=1)
        columns["numbers"] = _dense(checked_array(numbers, estimator=estimator, input_name="X"))
    return known, columns


def _sparse(x: Any) -> dict[str, Any]:
    """Return the entries of rows that are sparse, or of an array without its zeros."""
    if hasattr(x, "indptr"):
        x.sum_duplicates()
        values, places, offsets = x.data, x.indices, x.indptr
    else:
        rows, places = np.nonzero(x)
        values, offsets = x[rows, places], np.searchsorted(rows, np.arange(len(x) + 1))
    offsets = np.asarray(offsets, np.int64)
    return {"numbers": RaggedArray(values, offsets), "places": RaggedArray(np.asarray(places, np.int64), offsets)}


def _dense(x: Any) -> NDArray[Any]:
    return np.ascontiguousarray(x.toarray() if hasattr(x, "toarray") else x)


def _is_category(column: Any) -> bool:
    name = str(column.dtype)
    return name.startswith(("category", "Categorical", "Enum", "object", "str", "String", "Utf8", "bool", "Boolean"))


def _values(column: Any) -> list[Any]:
    """Return the values of a column as Python's; what is missing is None."""
    values = column.to_list()
    return [None if value is None or value != value else value for value in values]  # a NaN differs


def _ids(name: str, values: list[Any]) -> Ids:
    seen = [value for value in values if value is not None]
    if not seen:
        raise DataError(f"the column {name!r} of categories holds no value: leave it out")
    return Ids(seen)


def _numbers_of(ids: Ids, values: list[Any]) -> NDArray[np.int64]:
    number = {value: place for place, value in enumerate(ids.values.tolist(), 1)}
    return np.array([0 if value is None else number.get(value, 0) for value in values], np.int64)
