from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wyrm.data import Dataset
from wyrm.errors import DataError, DTypeError, IndexOutOfRange, NotFinite, ShapeError


@pytest.fixture
def dataset() -> Dataset:
    return Dataset(users=np.array([4, 4, 7, 9]), pixels=np.arange(8.0).reshape(4, 2))


def test_columns_are_the_arrays_given_without_a_copy() -> None:
    users = np.array([1, 2], dtype=np.int32)
    dataset = Dataset(users=users)
    assert dataset["users"] is users
    assert dataset.columns["users"] is users
    assert list(dataset.columns) == ["users"]
    assert "users" in dataset and "items" not in dataset


def test_columns_come_from_a_mapping_by_keyword_or_both() -> None:
    dataset = Dataset({"first name": [1]}, second=[2])
    assert list(dataset.columns) == ["first name", "second"]
    with pytest.raises(DataError, match=r"\['x'\] are given twice"):
        Dataset({"x": [1]}, x=[1])


def test_python_floats_become_float32_and_arrays_keep_their_dtype() -> None:
    dataset = Dataset(a=[1.0, 2.0], b=np.array([1.0, 2.0]), c=[1, 2], d=[True, False], e=["x", "y"])
    assert [column.dtype.kind + str(column.dtype.itemsize) for column in dataset.columns.values()][:4] == [
        "f4",
        "f8",
        "i8",
        "b1",
    ]
    assert dataset["e"].tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["1", 1], "column 'x' holds 1 beside texts"), ((b"1", "1"), "column 'x' holds b'1' beside texts"),
        ([2**63, 2**63 + 1, -1], "column 'x' holds integers that no array holds exactly; wy.data.Ids"),
    ],
)  # fmt: skip
def test_a_list_that_numpy_would_make_equal_is_refused(column: Any, message: str) -> None:
    with pytest.raises(DTypeError, match=message):
        Dataset(x=column)
    assert Dataset(x=[2**63, 2**63 + 1], y=[b"1", b"2"])["x"].tolist() == [2**63, 2**63 + 1]


def test_columns_cannot_be_replaced(dataset: Dataset) -> None:
    with pytest.raises(TypeError):
        dataset.columns["users"] = np.zeros(4)  # type: ignore[index]


def test_a_data_set_survives_pickling(dataset: Dataset) -> None:
    copy = pickle.loads(pickle.dumps(dataset))
    assert np.array_equal(copy["pixels"], dataset["pixels"]) and len(copy) == 4


def test_repr_names_length_columns_and_shapes(dataset: Dataset) -> None:
    assert repr(dataset) == "Dataset(4 rows: users int64, pixels float64 (2,))"
    assert repr(dataset[:1]) == "Dataset(1 row: users int64, pixels float64 (2,))"


@pytest.mark.parametrize(
    "rows",
    [
        slice(1, 3),
        slice(None, None, -1),
        [2, 0, 2],
        np.array([-1, 1], dtype=np.int8),
        np.array([True, False, False, True]),
        [False, True, False, False],
    ],
)
def test_rows_are_selected_as_numpy_does(dataset: Dataset, rows: Any) -> None:
    selected = dataset[rows]
    assert isinstance(selected, Dataset)
    for name, column in dataset.columns.items():
        assert np.array_equal(selected[name], column[rows])


@settings(deadline=None)
@given(st.lists(st.integers(-5, 4), min_size=1, max_size=20))
def test_any_valid_indices_select_the_same_rows_of_each_column(rows: list[int]) -> None:
    dataset = Dataset(a=np.arange(5), b=np.arange(5) * 10)
    selected = dataset[rows]
    assert len(selected) == len(rows)
    assert np.array_equal(selected["b"], selected["a"] * 10)
    assert selected["a"].tolist() == [row % 5 for row in rows]


def test_columns_of_different_lengths_are_named_with_their_lengths() -> None:
    with pytest.raises(ShapeError, match="'users' has 3, 'items' has 2 rows") as caught:
        Dataset(users=[1, 2, 3], items=[1, 2])
    assert isinstance(caught.value, ValueError)


def test_an_empty_data_set_is_refused(dataset: Dataset) -> None:
    with pytest.raises(DataError, match="at least one column"):
        Dataset()
    with pytest.raises(DataError, match=r"\['users', 'items'\] have no rows"):
        Dataset(users=[], items=[])
    with pytest.raises(DataError, match="none of the 4 rows"):
        dataset[2:2]
    with pytest.raises(DataError, match="none of the 4 rows"):
        dataset[[]]
    with pytest.raises(DataError, match="none of the 4 rows"):
        dataset[dataset["users"] > 100]


def test_columns_that_are_no_arrays_are_refused() -> None:
    with pytest.raises(ShapeError, match="column 'x' is a single value, 3"):
        Dataset(x=3)
    with pytest.raises(ShapeError, match=r"column 'x' was given lists of different lengths.*padding"):
        Dataset(x=[[1, 2], [3]])
    with pytest.raises(DTypeError, match="column 'x' holds Python objects"):
        Dataset(x=np.array([None, 1], dtype=object))


def test_an_unknown_column_is_named_beside_those_there_are(dataset: Dataset) -> None:
    with pytest.raises(DataError, match=r"no column 'user'; this dataset has \['users', 'pixels'\]"):
        dataset["user"]


def test_bad_rows_are_refused(dataset: Dataset) -> None:
    with pytest.raises(IndexOutOfRange, match=r"row 4 \(at position 1\) of a dataset of 4 rows; expected -4 to 3"):
        dataset[[0, 4]]
    with pytest.raises(IndexOutOfRange, match=r"row -5"):
        dataset[[-5]]
    with pytest.raises(ShapeError, match="a mask of 3 entries over 4 rows"):
        dataset[np.array([True, False, True])]
    with pytest.raises(DTypeError, match="dtype float64"):
        dataset[np.array([0.0, 1.0])]
    with pytest.raises(DTypeError, match=r"shape \(1, 2\)"):
        dataset[np.array([[0, 1]])]
    with pytest.raises(DTypeError, match=r"dataset\[3:4\]"):
        dataset[0]  # type: ignore[call-overload]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_check_finite_names_column_and_first_row(value: float) -> None:
    dataset = Dataset(users=[1, 2, 3], ratings=np.array([1.0, value, value]), names=["a", "b", "c"])
    dataset.check_finite("users", "names")
    with pytest.raises(NotFinite, match=rf"column 'ratings' holds {value} in row 1;") as caught:
        dataset.check_finite()
    assert isinstance(caught.value, FloatingPointError)


def test_check_finite_finds_a_place_within_a_row(dataset: Dataset) -> None:
    dataset.check_finite()
    dataset["pixels"][2, 1] = np.nan
    with pytest.raises(NotFinite, match=r"column 'pixels' holds nan in row 2 \(at \(2, 1\)\)"):
        dataset.check_finite()
    with pytest.raises(DataError, match="no column 'labels'"):
        dataset.check_finite("labels")


@pytest.mark.parametrize(("items", "row", "value"), [([0, 5, 6], 1, 5), ([0, 1, -1], 2, -1)])
def test_check_index_names_column_row_value_and_range(items: list[int], row: int, value: int) -> None:
    with pytest.raises(IndexOutOfRange, match=rf"column 'items' holds {value} in row {row}; expected 0 to 4") as caught:
        Dataset(items=items).check_index("items", 5)
    assert isinstance(caught.value, IndexError)


def test_check_index_takes_any_integers_within_the_range() -> None:
    dataset = Dataset(small=np.array([0, 4], dtype=np.uint8), table=np.array([[0, 1], [2, 9]]), real=[0.0, 1.0])
    dataset.check_index("small", 5)
    dataset.check_index("table", 10)
    with pytest.raises(IndexOutOfRange, match="holds 9 in row 1"):
        dataset.check_index("table", 9)
    with pytest.raises(DTypeError, match=r"column 'real' has dtype float32.*astype"):
        dataset.check_index("real", 5)
    with pytest.raises(DataError, match="size must be an integer of at least 1, not 0"):
        dataset.check_index("small", 0)
    with pytest.raises(DTypeError, match=r"size must be an integer of at least 1, not 2\.5"):
        dataset.check_index("small", 2.5)  # type: ignore[arg-type]
