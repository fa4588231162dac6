"""Ids of any type and interactions of them: from lists, arrays, iterables and tables, mapped both ways."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wyrm as wy
from wyrm.data import Dataset, Ids, Interactions
from wyrm.errors import DataError, DTypeError, IndexOutOfRange, OptionError, ShapeError

W: Any = wy
KEYS = [uuid.UUID(int=number) for number in (3, 1, 2, 1)]
COLUMNS: dict[str, Any] = {
    "texts": ["eve", "ann", "bob", "ann"],
    "integers": [30, 10, 20, 10],
    "large integers": [2**70, 10, 20, 10],
    "floats": [0.5, 0.25, 0.75, 0.25],
    "tuples": [("a", 2), ("a", 1), ("b", 0), ("a", 1)],
    "keys": KEYS,
    "bytes": [b"c", b"a", b"b", b"a"],
    "several types": [1, "1", ("a",), "1"],
    "texts with zeros": ["a\0", "a", "a\0\0", "a"],
    "dates": [datetime.date(2024, 5, day) for day in (3, 1, 2, 1)],
}


@pytest.mark.parametrize("name", COLUMNS)
def test_ids_of_any_type_are_numbered_and_found_again(name: str) -> None:
    column = COLUMNS[name]
    distinct = list(dict.fromkeys(column))
    ordered = distinct if name == "several types" else sorted(distinct)
    for values in (column, tuple(column), iter(column), dict.fromkeys(column)):
        ids = Ids(values)
        assert ids.values.tolist() == ordered
        assert ids.index(column).tolist() == [ordered.index(each) for each in column]
        assert [ids.index(each) for each in column] == [ordered.index(each) for each in column]
        assert ids[ids.index(column)].tolist() == column
        assert all(each in ids for each in column)
        assert len(ids) == len(distinct)
    data = Interactions.of(column, column)
    assert data.user_ids[data.users].tolist() == data.item_ids[data.items].tolist() == column


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(st.text(), st.integers(), st.tuples(st.text())), min_size=1))
def test_any_ids_come_back(values: list[Any]) -> None:
    data = Interactions.of(values, range(len(values)))
    assert data.user_ids[data.users].tolist() == values
    assert len(data.user_ids) == len(set(values))


def test_columns_of_tables_and_numpy() -> None:
    pandas, polars, arrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    texts, numbers = COLUMNS["texts"], COLUMNS["integers"]
    for column in (
        pandas.Series(texts), pandas.Series(texts, dtype="string"), pandas.Series(texts, dtype="category"),
        polars.Series(texts), arrow.array(texts), arrow.chunked_array([texts[:1], texts[1:]]), np.array(texts),
        np.array(texts, object),
    ):  # fmt: skip
        assert Ids(column).values.tolist() == ["ann", "bob", "eve"]
        assert Ids(texts).index(column).tolist() == [2, 0, 1, 0]
    for column in (
        pandas.Series(numbers), pandas.Series(numbers, dtype="Int64"), polars.Series(numbers), arrow.array(numbers),
        np.array(numbers, np.uint8), (each for each in numbers),
    ):  # fmt: skip
        assert Ids(column).values.tolist() == [10, 20, 30]


def test_a_table_of_pandas_becomes_interactions() -> None:
    pandas = pytest.importorskip("pandas")
    times = pandas.to_datetime(["2024-05-03", "2024-05-01", "2024-05-02"])
    frame = pandas.DataFrame({"who": ["eve", "ann", "eve"], "film": [7, 9, 9], "stars": [5, 3, 4], "when": times})
    data = Interactions.of_table(frame, "who", "film", ratings="stars", timestamps="when")
    assert (data.users.tolist(), data.items.tolist(), data.ratings.tolist()) == ([1, 0, 1], [0, 1, 1], [5.0, 3.0, 4.0])
    assert data.ratings.dtype == np.float32
    assert data.timestamps.dtype.kind == "M"
    assert np.argsort(data.timestamps).tolist() == [1, 2, 0]
    train, test = wy.data.split_by_time(data, at="2024-05-02")
    assert (train.users.tolist(), test.users.tolist()) == ([0], [1, 1])
    zones = frame.assign(when=times.tz_localize("Europe/Berlin"))
    berlin = Interactions.of_table(zones, "who", "film", timestamps="when")
    np.testing.assert_array_equal(berlin.timestamps, data.timestamps - np.timedelta64(2, "h"))
    other: dict[str, Any] = {"polars": frame.to_dict("list"), "dict": frame.to_dict("list")}
    other["polars"] = pytest.importorskip("polars").DataFrame(other["polars"])
    other["arrow"] = pytest.importorskip("pyarrow").table(frame.to_dict("list"))
    for table in other.values():
        same = Interactions.of_table(table, "who", "film", ratings="stars", timestamps="when")
        for name in ("users", "items", "ratings", "user_ids", "item_ids"):
            np.testing.assert_array_equal(getattr(same, name), getattr(data, name))
        np.testing.assert_array_equal(same.timestamps, data.timestamps)


@pytest.mark.parametrize(
    ("times", "kind"),
    [
        ([5, 7], "i"), ([0.5, 0.7], "f"), (np.array([5, 7], np.uint8), "i"), (["2024-05-01", "2024-05-01T00:01"], "M"),
        ([datetime.datetime(2024, 5, 1), datetime.datetime(2024, 5, 2)], "M"),
        ([datetime.date(2024, 5, 1), datetime.date(2024, 5, 2)], "M"),
        (np.array(["2024-05-01", "2024-05-02"], "datetime64[D]"), "M"),
    ],
)  # fmt: skip
def test_times_are_numbers_or_dates(times: Any, kind: str) -> None:
    data = Interactions.of([0, 1], [0, 1], timestamps=times)
    assert data.timestamps.dtype.kind == kind and data.timestamps[0] < data.timestamps[1]
    _, test = wy.data.split_by_time(data, 0.5)
    assert test.users.tolist() == [1]


def test_data_of_the_same_ids_has_the_same_indices() -> None:
    train = Interactions.of(["eve", "ann"], ["x", "y"])
    known: Any = {"user_ids": train.user_ids, "item_ids": train.item_ids}
    later = Interactions.of(["ann", "new", "eve"], ["y", "y", "z"], ratings=[1, 2, 3], unknown="drop", **known)
    assert (later.users.tolist(), later.items.tolist(), later.ratings.tolist()) == ([0], [1], [1.0])
    assert later.user_ids is train.user_ids
    with pytest.raises(DataError, match="no id 'new' among Ids"):
        Interactions.of(["ann", "new"], ["y", "y"], **known)
    with pytest.raises(DataError, match="none of the 1 rows has a known user"):
        Interactions.of(["new"], ["y"], unknown="drop", **known)


def test_rows_keep_ids_and_features() -> None:
    data = Interactions.of(["eve", "ann", "eve"], [7, 5, 6]).with_features(
        items={"item_id": [5, 6, 7], "year": [1, 2, 3]}
    )
    some = data[data.items > 0]
    assert (len(some), some.user_count, some.item_count, some.item_features) == (2, 2, 3, data.item_features)
    assert data[[1]].items.tolist() == [0]
    assert (data.user_counts.tolist(), data.item_counts.tolist()) == ([1, 2], [1, 1, 1])
    assert data.user_index.index("eve") == 1 and data.item_index.index([6, 5]).tolist() == [1, 0]
    assert data.seen().mask().tolist() == [[True, False, False], [False, True, True]]
    with pytest.raises(DataError):
        data[:0]


def test_features_are_brought_into_the_order_of_ids() -> None:
    data = Interactions.of(["eve", "ann"], [10, 20])
    users = Dataset(user_id=np.array(["bob", "eve", "ann"]), age=[30, 40, 50], weight=[0.5, 0.25, 0.125])
    films = {"item_id": [20, 10], "genre": ["drama", "comedy"]}
    rich = data.with_features(users=users, items=films)
    columns = rich.dataset(features=True)
    assert columns["user_age"].tolist() == [40, 50] and columns["user_weight"].tolist() == [0.25, 0.125]
    assert columns["item_genre"].tolist() == ["comedy", "drama"]
    assert Ids(columns["item_genre"]).index(columns["item_genre"]).tolist() == [0, 1]
    fewer = {"item_id": [20], "genre": ["drama"], "year": [1990]}
    filled = data.with_features(items=fewer, missing={"genre": "none at all", "year": 0})
    assert filled.item_features is not None
    assert filled.item_features["genre"].tolist() == ["none at all", "drama"]
    assert filled.item_features["year"].tolist() == [0, 1990]
    pandas = pytest.importorskip("pandas")
    same = data.with_features(items=pandas.DataFrame(films))
    assert same.item_features is not None and same.item_features["genre"].tolist() == ["comedy", "drama"]


ADJACENT: dict[str, Any] = {
    "beyond int64": [2**63, 2**63 + 1, -1],
    "beyond uint64": [2**64, 2**64 + 1, -1],
    "beside a float": [2**53, 2**53 + 1, 0.5],
    "NumPy's": [np.int64(2**53), np.int64(2**53 + 1), np.float64(0.5)],
    "NumPy's unsigned": [np.uint64(2**63), np.uint64(2**63 + 1), np.int64(-1)],
    "a text and a number": ["1", 1, 2],
    "NumPy's text and number": [np.str_("1"), np.int64(1), np.int64(2)],
    "bytes and a text": [np.bytes_(b"1"), np.str_("1"), "2"],
    "zeros at the end": [np.bytes_(b"a\0"), np.bytes_(b"a"), b"b"],
    "objects": np.array([2**63, 2**63 + 1, -1], object),
}


@pytest.mark.parametrize("name", ADJACENT)
def test_ids_that_an_array_would_round_stay_distinct(name: str) -> None:
    column = ADJACENT[name]
    data = Interactions.of(column, range(3))
    assert data.user_count == 3
    assert data.user_ids[data.users].tolist() == list(column)
    assert data.user_index.index(column).tolist() == data.users.tolist()
    again = Interactions.of(column[:2], [0, 1], user_ids=data.user_ids)
    assert again.users.tolist() == data.users[:2].tolist()


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ([True, False], "b"), ([3, 1], "i"), ([np.int64(3), np.int32(1)], "i"), ([np.float32(0.5), 1.0], "f"),
        ([1, 0.5], "f"), ([np.datetime64("2024-05-01"), np.datetime64("2024-05-02")], "M"), ([2**63, 2**63 + 1], "u"),
    ],
)  # fmt: skip
def test_ids_of_one_kind_are_an_array_of_it(column: Any, kind: str) -> None:
    assert Ids(column).values.dtype.kind == kind


def test_large_integers_of_polars_stay_distinct_beside_nulls() -> None:
    polars = pytest.importorskip("polars")
    known = Ids([2**53, 2**53 + 1])
    assert known.index(polars.Series([2**53 + 1, None, 2**53]), unknown=-1).tolist() == [1, -1, 0]


def test_times_keep_nanoseconds_and_large_numbers() -> None:
    texts = ["2024-05-01T00:00:00.000000001", "2024-05-01"]
    times = Interactions.of([0, 1], [0, 1], timestamps=texts).timestamps
    assert times.astype("datetime64[ns]").tolist() == [1714521600000000001, 1714521600000000000]
    numbers = [2**60, 2**60 + 255, 2**60 + 256]
    for column in (numbers, np.array(numbers, object), np.array(numbers, np.uint64)):
        data = Interactions.of([0, 1, 2], [0, 1, 2], timestamps=column)
        assert data.timestamps.tolist() == numbers
    _, test = wy.data.split_by_time(data, at=2.0**60 + 256)  # a float, to which 2**60 + 255 would be rounded
    assert test.users.tolist() == [2]


def test_ratings_are_numbers_of_any_type() -> None:
    columns: list[Any] = [[True, 3], [np.float32(1), 3], np.array([1, 3.0], object), [True, np.int64(3)], [1, 3]]
    for ratings in columns:
        assert Interactions.of([0, 1], [0, 1], ratings=ratings).ratings.tolist() == [1.0, 3.0]


def times(column: Any) -> Interactions:
    """Return interactions at these two times."""
    return Interactions.of([0, 1], [0, 1], timestamps=column)


ONE = Interactions.of(["a"], [1])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Ids([]), DataError, "ids is empty"),
        (lambda: Ids(["a", None]), DataError, "ids has no value in row 1"),
        (lambda: Ids([1.0, float("nan")]), DataError, "ids has no value in row 1"),
        (lambda: Ids(np.array(["2024-05-01", "NaT"], "datetime64[D]")), DataError, "ids has no value in row 1"),
        (lambda: Ids([["a"], ["b"]]), DTypeError, r"ids holds \['a'\] in row 0, which cannot be hashed"),
        (lambda: Ids(np.zeros((2, 2))), ShapeError, r"ids has shape \(2, 2\); expected one axis"),
        (lambda: Ids("text"), DTypeError, "ids is 'text'; expected a column"),
        (lambda: Ids(["a"]).index("b"), DataError, r"no id 'b' among Ids\(1: 'a'\); unknown=-1 gives"),
        (lambda: Ids([196, 4]).index("196"), DataError, r"no id '196' among Ids.*, which are int64 and no texts; unkn"),
        (lambda: Interactions.of(["a"], [1, 2]), ShapeError, "'users' has 1, 'items' has 2"),
        (lambda: Interactions.of(["a"], [1], ["x"]), DTypeError, r"ratings hold 'x' in row 0; .* float\('x'\)"),
        (lambda: Interactions.of(["a"], [1], np.array(["x"])), DTypeError, "ratings have dtype <U1; expected numbers"),
        (lambda: Interactions.of(["a"], [1], np.array([None])), DataError, "ratings has no value in row 0; .* fill"),
        (lambda: Interactions.of(["a"], [1], [1e39]), DataError, "ratings hold 1e[+]39 in row 0; .* up to 3e38"),
        (lambda: Interactions.of(["a"], [1], [10**39]), DataError, "ratings hold 10+ in row 0"),
        (lambda: Interactions.of(["a"], [1], [10**400]), DataError, "ratings hold an integer beyond the range"),
        (lambda: times([2**63, 2**63]), DataError, "holds 9223372036854775808 in row 0; expected numbers below"),
        (lambda: times(np.array([1, 2**63], np.uint64)), DataError, "in row 1; expected numbers below"),
        (lambda: times([2**63, -1]), DTypeError, "holds 9223372036854775808 in row 0; .* holds exactly"),
        (lambda: times([2**53 + 1, 0.5]), DTypeError, "holds 9007199254740993 in row 0; .* holds exactly"),
        (lambda: times([True, False]), DTypeError, "timestamps has dtype bool"),
        (lambda: times(["2024-05-31", 5]), DTypeError, "timestamps holds 5 in row 1; .* dates"),
        (lambda: times(["1700000000", "1700000001"]), DTypeError, "holds '1700000000' in row 0; .* np.array.column"),
        (lambda: times(["2024-05-31", ""]), DataError, "timestamps has no value in row 1"),
        (lambda: times(["2024-05-01T00:00:00.000000001", "9999-01-01"]), DataError, "too far from 1970"),
        (lambda: Interactions.of([1], [1], user_ids=np.array([1, 2, 1])), DataError, "the ids hold 1 more than once"),
        (lambda: Interactions.of(["a"], [1], [np.inf]), DataError, "ratings hold inf"),
        (lambda: Interactions.of(["a"], [1], timestamps=["noon"]), DTypeError, "such as 'noon'"),
        (lambda: Interactions.of(["a"], [1], timestamps=[np.nan]), DataError, "timestamps has no value in row 0"),
        (lambda: W.data.Interactions.of(["a"], [1], unknown="skip"), OptionError, "unknown must be"),
        (lambda: Interactions.of_table({"user_id": [1]}), DataError, "no column 'item_id': it has the col"),
        (lambda: W.data.Interactions.of_table([1]), DataError, "a list has no columns"),
        (lambda: ONE.with_features(items={"item_id": [2], "x": [1]}), DataError, "no row"),
        (lambda: ONE.with_features(items={"item_id": [1, 1], "x": [1, 2]}), DataError, "id 1 twice"),
        (lambda: ONE.dataset(features=True), DataError, r"no features of users or items: add them by with_features\("),
        (
            lambda: ONE.with_features(items={"item_id": [1, 2], "tags": [["a"], ["b", "c"]]}),
            ShapeError, "column tags was given lists of different lengths, .* by padding",
        ),
        (lambda: ONE.with_features(items={"x": [1, 2]}), DataError, "no column 'item_id'"),
    ],
)  # fmt: skip
def test_mistakes_are_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_features_have_a_row_for_each_id() -> None:
    with pytest.raises(ShapeError, match="item_features has 2 rows for 1 items"):
        Interactions(
            np.array([0]), np.array([0]), np.ones(1, np.float32), np.array([1]), np.array([1]), np.array([1]),
            item_features=Dataset(x=[1, 2]),
        )  # fmt: skip
    with pytest.raises(IndexOutOfRange):
        Interactions(np.array([1]), np.array([0]), np.ones(1, np.float32), np.array([1]), np.array([1]), np.array([1]))


@pytest.mark.parametrize("as_given", [np.asarray, np.ndarray.tolist], ids=["array", "lists"])
def test_features_of_several_axes(as_given: Any) -> None:
    data = Interactions.of(["eve", "ann", "eve"], [10, 20, 30])
    tags = np.array([[1, 2], [3, 0], [5, 6], [7, 8]])
    found = data.with_features(items={"item_id": [30, 10, 20, 99], "tags": as_given(tags)})
    np.testing.assert_array_equal(found.dataset(features=True)["item_tags"], tags[[1, 2, 0]])
    filled = data.with_features(items={"item_id": [10, 20], "tags": as_given(tags[:2])}, missing={"tags": -1})
    np.testing.assert_array_equal(filled.dataset(features=True)["item_tags"], [[1, 2], [3, 0], [-1, -1]])
