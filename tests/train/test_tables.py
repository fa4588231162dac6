"""Columns of tables: data sets, dicts by name, and pandas, polars, Arrow and Hugging Face where they are installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.tables import column_array
from wyrm.errors import DataError, DTypeError, NotFinite, ShapeError


class Batch(wy.Dim): ...


ROWS = 23
X = np.random.default_rng(0).normal(size=ROWS).astype(np.float32)
Y = np.arange(ROWS) % 3
COLUMNS: dict[str, Any] = {"x": X, "y": Y, "city": [f"city {row}" for row in range(ROWS)]}


class Case:
    """A table of weights for classes, indexed by `y` and compared with `x`."""

    def __init__(self) -> None:
        batch = Batch()
        self.x, self.y = wy.Input(dims=(batch,), name="x"), wy.IndexInput(dims=(batch,), name="y")
        self.weights = wy.Parameter(np.zeros(3, np.float32))
        self.loss = (self.weights.index(self.y) - self.x).square().mean()
        self.train = wy.compile(self.loss, wy.optim.SGD([self.weights], learning_rate=0.1))


class SeriesLike:
    """A column of a library that is not installed, with nulls where `nulls` is true."""

    def __init__(self, values: np.ndarray, nulls: np.ndarray | None = None) -> None:
        self.values = values
        self.nulls = np.zeros(len(values), np.bool_) if nulls is None else nulls

    def isna(self) -> SeriesLike:
        return SeriesLike(self.nulls)

    def to_numpy(self) -> np.ndarray:
        return self.values

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.values


class TableLike:
    """A table of a library that is not installed."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self._columns = columns
        self.columns = list(columns)

    def __getitem__(self, name: str) -> SeriesLike:
        column = self._columns[name]
        return column if isinstance(column, SeriesLike) else SeriesLike(np.asarray(column))


def of_pandas(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns)


def of_polars(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("polars").DataFrame(columns)


def of_arrow(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("pyarrow").table(columns)


def of_hugging_face(columns: dict[str, Any]) -> Any:
    datasets = pytest.importorskip("datasets")
    return datasets.Dataset.from_dict(columns)


def of_wyrm(columns: dict[str, Any]) -> wy.data.Dataset:
    return wy.data.Dataset(columns)


TABLES = [dict, of_wyrm, TableLike, of_pandas, of_polars, of_arrow, of_hugging_face]


@pytest.mark.parametrize("table", TABLES)
def test_an_epoch_and_a_call_are_those_of_arrays_by_input(table: Callable[..., Any]) -> None:
    data, case, twin = table(COLUMNS), Case(), Case()
    expected = twin.train.epoch({twin.x: X, twin.y: Y}, batch_size=5)
    assert case.train.epoch(data, batch_size=5) == pytest.approx(expected, rel=1e-6)
    np.testing.assert_array_equal(case.weights.value, twin.weights.value)
    assert case.train.evaluate(data) == twin.train.evaluate({twin.x: X, twin.y: Y})
    assert case.train(data) == twin.train({twin.x: X, twin.y: Y})


@pytest.mark.parametrize("table", [of_pandas, of_polars, of_arrow])
def test_columns_by_input(table: Callable[..., Any]) -> None:
    data, case, twin = table(COLUMNS), Case(), Case()
    case.train.epoch({case.x: data["x"], case.y: data["y"]}, batch_size=5)
    twin.train.epoch({twin.x: X, twin.y: Y}, batch_size=5)
    np.testing.assert_array_equal(case.weights.value, twin.weights.value)


@pytest.mark.parametrize("table", [TableLike, of_pandas, of_polars, of_arrow])
def test_contiguous_columns_are_not_copied(table: Callable[..., Any]) -> None:
    column = table({"x": X})["x"]
    first, second = column_array("x", column), column_array("x", column)
    assert np.shares_memory(first, second) and first.dtype == np.float32


def test_a_data_set_of_hugging_face_is_not_copied_and_its_selection_is_kept() -> None:
    data, case = of_hugging_face(COLUMNS), Case()
    from wyrm.engines.tables import by_input

    first: Any = by_input(data, [case.x, case.y])
    second: Any = by_input(data, [case.x, case.y])
    assert np.shares_memory(first[case.x], second[case.x])
    chosen: Any = by_input(data.select([5, 2, 9]), [case.x, case.y])
    np.testing.assert_array_equal(chosen[case.x], X[[5, 2, 9]].astype(chosen[case.x].dtype))


@pytest.mark.parametrize("table", [TableLike, of_pandas, of_polars, of_arrow, of_hugging_face])
def test_a_missing_column_names_those_there_are(table: Callable[..., Any]) -> None:
    case = Case()
    with pytest.raises(DataError, match="no column 'y' for the input y; the columns are: 'x', 'city'"):
        case.train.epoch(table({"x": X, "city": COLUMNS["city"]}))
    assert not case.weights.value.any()


def nulls_of(table: Callable[..., Any]) -> Any:
    ages = [None if row == 4 else row for row in range(ROWS)]
    if table is TableLike:
        return TableLike({"x": X, "y": SeriesLike(np.zeros(ROWS), np.arange(ROWS) == 4)})
    if table is of_pandas:
        ages = pytest.importorskip("pandas").array(ages, dtype="Int64")
    return table({"x": X, "y": ages})


@pytest.mark.parametrize("table", [TableLike, of_pandas, of_polars, of_arrow, of_hugging_face])
def test_nulls_are_refused(table: Callable[..., Any]) -> None:
    case = Case()
    with pytest.raises(DataError, match="column 'y' has 1 nulls, the first in row 4"):
        case.train.epoch(nulls_of(table), batch_size=5)
    assert not case.weights.value.any()


@pytest.mark.parametrize("table", [of_pandas, of_polars, of_arrow, of_hugging_face])
def test_text_is_refused(table: Callable[..., Any]) -> None:
    case = Case()
    with pytest.raises(DTypeError, match="column 'x' holds text, 'city 0' in row 0"):
        case.train.epoch(table({"x": COLUMNS["city"], "y": Y}), batch_size=5)


@pytest.mark.parametrize("table", TABLES)
def test_a_wrong_dtype_is_refused(table: Callable[..., Any]) -> None:
    case = Case()
    with pytest.raises(DTypeError, match=r"y.* takes integers, the data is float32"):
        case.train.epoch(table({"x": X, "y": X}), batch_size=5)


@pytest.mark.parametrize("table", [dict, of_pandas, of_polars])
def test_nan_is_a_value_where_the_input_takes_it(table: Callable[..., Any]) -> None:
    x = wy.Input(dims=(Batch(),), name="x", finite=False)
    assert np.isnan(wy.compile(x.sum())(table({"x": np.array([1.0, np.nan])})))


def test_columns_of_one_name_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    twice = pandas.DataFrame(np.ones((3, 2)), columns=["x", "x"])
    x = wy.Input(dims=(Batch(),), name="x")
    with pytest.raises(DataError, match="several columns 'x'"):
        wy.compile(x.sum())(twice)


def test_nan_is_refused() -> None:
    case = Case()
    with pytest.raises(NotFinite, match="column x holds nan in row 3"):
        case.train.epoch(of_wyrm({"x": np.where(np.arange(ROWS) == 3, np.nan, X), "y": Y}), batch_size=5)


@pytest.mark.parametrize("table", [of_pandas, of_polars, of_arrow, of_hugging_face])
def test_lists_of_one_length_are_an_axis(table: Callable[..., Any]) -> None:
    x = wy.Input(dims=(Batch(), 2, 3), name="x")
    values = np.arange(24.0).reshape(4, 2, 3)
    program = wy.compile(x.sum(axis=(1, 2)))
    np.testing.assert_array_equal(program(table({"x": values.tolist()})), values.sum(axis=(1, 2)))
    ragged = [[[1.0]] * 2, [[1.0]] * 3]
    with pytest.raises(ShapeError, match="column 'x' holds 2 numbers in row 0 and 3 in row 1"):
        program(table({"x": ragged}))


def test_a_chunked_column() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    column = pyarrow.chunked_array([[1.0, 2.0], [3.0]])
    assert column_array("x", column).tolist() == [1.0, 2.0, 3.0]
    assert column_array("x", column.slice(1)).tolist() == [2.0, 3.0]
    assert column_array("x", pyarrow.array([True, False])).tolist() == [True, False]


def test_parts_of_a_data_set_are_not_columns() -> None:
    case = Case()
    with pytest.raises(DataError, match="the parts 'train', 'test', each a table of its own"):
        case.train.epoch({"train": of_wyrm(COLUMNS), "test": of_wyrm(COLUMNS)})


def test_names_must_be_unique_and_there() -> None:
    batch = Batch()
    first, second = wy.Input(dims=(batch,), name="x"), wy.Input(dims=(batch,), name="x")
    program = wy.compile((first + second).sum())
    with pytest.raises(DataError, match="have the same name"):
        program({"x": X})
    nameless = wy.Input(dims=(batch,))
    with pytest.raises(DataError, match="has no name"):
        wy.compile(nameless.sum())({"x": X})


def test_an_input_that_holds_data_needs_no_column() -> None:
    x, scale = wy.Input(dims=(Batch(),), name="x"), wy.Input(name="scale")
    scale.set(2.0)
    program = wy.compile((x * scale).sum())
    assert program({"x": [1.0, 2.0]}) == 6.0
    assert program(of_wyrm({"x": [1.0, 2.0], "other": [1.0, 2.0]})) == 6.0
    with pytest.raises(DataError, match="the columns 'scales' belong to no input, and scale, which holds data"):
        program({"x": [1.0, 2.0], "scales": 3.0})
