"""`wy.recommend` beside a sort of all scores by NumPy: factor tables, scores, functions, exclusion, ties and errors."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import wyrm as wy
from wyrm.data import ItemRows, Recommendations, recommending
from wyrm.errors import DataError, DTypeError, IndexOutOfRange, NotFinite, OptionError, ShapeError

W: Any = wy


def tables(users: int = 7, items: int = 23, dims: int = 5, dtype: Any = np.float64) -> tuple[Any, Any, Any]:
    """Return factors of small integers, whose scores are exact and have ties."""
    random = np.random.default_rng(users + items)
    return (
        random.integers(-2, 3, (users, dims)).astype(dtype),
        random.integers(-2, 3, (items, dims)).astype(dtype),
        random.integers(-1, 2, items).astype(dtype),
    )


def seen_by(users: int, items: int, share: float = 0.3) -> Any:
    return np.random.default_rng(1).random((users, items)) < share


def sorted_scores(scores: Any, k: int, mask: Any = None) -> tuple[Any, Any]:
    """Return the first k items of a stable sort, -1 and -inf where none is left."""
    scores = np.array(scores)
    if mask is not None:
        scores[mask] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    values = np.take_along_axis(scores, order, axis=1)
    return np.where(values > -np.inf, order, -1), values


def assert_equal(found: Any, expected: tuple[Any, Any]) -> None:
    np.testing.assert_array_equal(found.items, expected[0])
    np.testing.assert_array_equal(found.scores, expected[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 4, 23])
@pytest.mark.parametrize("sizes", [(7, 23, 5), (1, 23, 1), (70, 23, 3), (3, 5000, 4)])
def test_the_best_items_are_those_of_a_stable_sort(dtype: Any, k: int, sizes: tuple[int, int, int]) -> None:
    users, items, biases = tables(*sizes, dtype=dtype)
    mask = seen_by(*sizes[:2])
    found = wy.recommend(users, items, k)
    assert_equal(found, sorted_scores(users @ items.T, k))
    assert (found.items.dtype, found.scores.dtype) == (np.dtype(np.int64), np.dtype(dtype))
    assert_equal(wy.recommend(users, items, k, biases=biases), sorted_scores(users @ items.T + biases, k))
    expected = sorted_scores(users @ items.T + biases, k, mask)
    assert_equal(wy.recommend(users, items, k, biases=biases, exclude=mask), expected)
    assert_equal(wy.recommend(users @ items.T + biases, k=k, exclude=mask), expected)


@settings(deadline=None, max_examples=60)
@given(
    scores=st.lists(st.lists(st.sampled_from([-np.inf, -1.0, 0.0, 2.0, np.inf]), min_size=6, max_size=6), min_size=1),
    k=st.integers(1, 6),
    seed=st.integers(0, 5),
)
def test_any_scores_are_ranked_as_by_a_stable_sort(scores: list[list[float]], k: int, seed: int) -> None:
    matrix = np.array(scores)
    mask = np.random.default_rng(seed).random(matrix.shape) < 0.4
    before = matrix.copy()
    assert_equal(wy.recommend(matrix, k=k, exclude=mask), sorted_scores(matrix, k, mask))
    np.testing.assert_array_equal(matrix, before)


def forms(mask: Any) -> dict[str, Any]:
    """Return all forms of the same excluded items."""
    rows = ItemRows.of_pairs(*np.nonzero(mask), user_count=mask.shape[0], item_count=mask.shape[1])
    return {
        "mask": mask,
        "list of masks": list(mask),
        "rows": rows,
        "csr": sparse.csr_matrix(mask),
        "coo": sparse.coo_array(mask),
        "pair": (rows.indptr, rows.indices),
        "rows of any length": wy.RaggedArray(rows.indices, rows.indptr),
        "unsorted pair": (rows.indptr, np.concatenate([rows.row(user)[::-1] for user in range(len(rows))])),
        "lists": [rows.row(user).tolist() for user in range(len(rows))],
        "sets": [set(rows.row(user).tolist()) for user in range(len(rows))],
        "padded": rows.padded(),
        "padded lists": rows.padded().tolist(),
    }


@pytest.mark.parametrize("form", forms(seen_by(7, 23)))
def test_excluded_items_have_many_forms(form: str) -> None:
    users, items, biases = tables()
    mask = seen_by(7, 23)
    given = forms(mask)[form]
    ids, scores = sorted_scores(users @ items.T + biases, 5, mask)
    assert_equal(wy.recommend(users, items, 5, biases=biases, exclude=given), (ids, scores))
    chosen = np.array([6, 0, 0, 3])
    assert_equal(
        wy.recommend(users, items, 5, biases=biases, exclude=given, rows=chosen), (ids[chosen], scores[chosen])
    )
    for row in (0, 3, np.int64(6)):
        assert_equal(wy.recommend(users, items, 5, biases=biases, exclude=given, rows=row), (ids[row], scores[row]))
    function = wy.recommend(lambda rows: (users @ items.T + biases)[rows], k=5, rows=chosen, exclude=given)
    assert_equal(function, (ids[chosen], scores[chosen]))


def test_one_user_has_one_row_of_results() -> None:
    users, items, _ = tables()
    mask = seen_by(7, 23)
    expected = sorted_scores(users @ items.T, 3, mask)
    for exclude in (mask[2], np.flatnonzero(mask[2]), np.flatnonzero(mask[2]).tolist(), sparse.csr_matrix(mask[2:3])):
        found = wy.recommend(users[2], items, 3, exclude=exclude)
        assert_equal(found, (expected[0][2], expected[1][2]))
        assert_equal(wy.recommend((users @ items.T)[2], k=3, exclude=exclude), (expected[0][2], expected[1][2]))
    ids, scores = wy.recommend(users[2], items, 3)
    assert ids.shape == scores.shape == (3,)
    assert wy.recommend(users, items, 3, rows=[]).items.shape == (0, 3)


def test_fewer_items_than_k_leave_places_without_an_item() -> None:
    found = wy.recommend(np.ones((2, 1)), np.arange(3.0)[:, None], 3, exclude=[[0, 2], []])
    assert found.items.tolist() == [[1, -1, -1], [2, 1, 0]]
    assert found.scores.tolist() == [[1.0, -np.inf, -np.inf], [2.0, 1.0, 0.0]]


def test_parameters_are_read_in_place_and_every_dtype_is_accepted() -> None:
    users, items, biases = tables(dtype=np.float32)
    leaves = [wy.Parameter(each) for each in (users, items, biases)]
    expected = sorted_scores(users @ items.T + biases, 4)
    assert_equal(wy.recommend(leaves[0], leaves[1], 4, biases=leaves[2]), expected)
    leaves[0].set(-users)
    assert_equal(wy.recommend(leaves[0], leaves[1], 4, biases=leaves[2]), sorted_scores(biases - users @ items.T, 4))
    for other in (np.float16, np.float64, np.int32):
        found = wy.recommend(users, items.astype(other), 4, biases=biases)
        np.testing.assert_array_equal(found.items, expected[0])
    assert_equal(wy.recommend(np.asfortranarray(users), items[::-1][::-1], 4, biases=biases.tolist()), expected)


def test_a_program_answers_by_its_scores() -> None:
    class Batch(wy.Dim): ...

    users, items = wy.nn.Embedding(7, 4, seed=1), wy.nn.Embedding(23, 4, seed=2)
    user = wy.IndexInput(dims=(Batch(),), name="user")
    program = wy.compile(users(user) @ items.weight.transpose())
    expected = wy.recommend(users.weight, items.weight, 5)
    scorers: list[Any] = [program, lambda rows: program({user: rows})]
    for scorer in scorers:
        found = wy.recommend(scorer, k=5, rows=np.arange(7), batch_size=2)
        np.testing.assert_array_equal(found.items, expected.items)
    two = wy.Input(dims=(Batch(),), name="two")
    with pytest.raises(ShapeError, match="2 inputs, so it is not known which takes the rows"):
        wy.recommend(wy.compile((users(user) * two.expand_dims(1)).sum(axis=-1)), rows=[0])


@pytest.mark.parametrize("batch_size", [1, 3, 22, 23, 100])
def test_a_catalog_is_read_in_parts(batch_size: int, tmp_path: Path) -> None:
    users, items, biases = tables()
    np.save(tmp_path / "items.npy", items)
    stored = np.load(tmp_path / "items.npy", mmap_mode="r")
    mask = seen_by(7, 23)
    expected = sorted_scores(users @ items.T + biases, 5, mask)
    for table in (stored, items, items.astype(np.float32)):
        assert_equal(wy.recommend(users, table, 5, biases=biases, exclude=mask, batch_size=batch_size), expected)
    assert_equal(wy.recommend(users @ items.T + biases, k=5, exclude=mask, batch_size=batch_size), expected)


def test_a_table_on_disk_is_read_by_slices() -> None:
    class OnDisk:
        """As h5py and zarr have them."""

        def __init__(self, array: Any) -> None:
            self.array, self.shape, self.ndim, self.dtype = array, array.shape, array.ndim, array.dtype
            self.read: list[int] = []

        def __getitem__(self, rows: slice) -> Any:
            self.read.append(len(self.array[rows]))
            return self.array[rows]

    users, items, _ = tables()
    table: Any = OnDisk(items)
    assert_equal(wy.recommend(users, table, 5, batch_size=10), sorted_scores(users @ items.T, 5))
    assert table.read == [10, 10, 3]


def test_tiles_of_users_and_items_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    users, items, biases = tables(10, 23)
    monkeypatch.setattr(recommending, "_USERS_AT_ONCE", 3)
    monkeypatch.setattr(recommending, "_SCORES_AT_ONCE", 12)
    mask = seen_by(10, 23)
    found = wy.recommend(users, items, 6, biases=biases, exclude=mask)
    assert_equal(found, sorted_scores(users @ items.T + biases, 6, mask))


@pytest.mark.parametrize("batch_size", [None, 7])
@pytest.mark.parametrize("storage", ["int8", "bfloat16", "int4"])
@pytest.mark.parametrize("shape", [(23, 32), (5, 64)])
def test_items_in_narrow_numbers(shape: tuple[int, int], storage: Any, batch_size: int | None) -> None:
    random = np.random.default_rng(1)
    users, table = random.normal(size=(10, shape[1])).astype(np.float32), random.normal(size=shape).astype(np.float32)
    biases, mask = random.normal(size=shape[0]).astype(np.float32), seen_by(10, shape[0])
    items = wy.NarrowWeight(table, storage=storage)
    wide = items.value
    for added, scores in ((biases, users @ wide.T + biases), (None, users @ wide.T)):
        found = wy.recommend(users, items, 4, biases=added, exclude=mask, batch_size=batch_size)
        wanted = wy.recommend(scores, k=4, exclude=mask)
        assert (found.items == wanted.items).all()
        np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-5, atol=1e-5)
    one = wy.recommend(users[3], items, 2)
    assert (one.items == wy.recommend(users @ wide.T, k=2, rows=3).items).all()
    cosines = wy.recommend(users, items, 3, normalize=True)
    assert (cosines.items == wy.recommend(users, wide, 3, normalize=True).items).all()


def test_the_kernels_are_python_functions_too() -> None:
    users, items, biases = tables(4, 9)
    mask = seen_by(4, 9)
    rows = ItemRows.of_pairs(*np.nonzero(mask), user_count=4, item_count=9)
    found, values, scratch = np.empty((4, 3), np.int64), np.empty((4, 3)), np.empty((2, 4))
    given = users, items, biases, rows.indptr, rows.indices, 0, 9, scratch, found, values, np.zeros(0)
    status = recommending.best_by_factors(*given)
    assert status == 0
    assert_equal(Recommendations(found, values), sorted_scores(users @ items.T + biases, 3, mask))


def test_threads_ask_at_the_same_time() -> None:
    users, items, biases = tables(50, 400, 8)
    mask = seen_by(50, 400)
    expected = sorted_scores(users @ items.T + biases, 5, mask)
    rows, wrong = ItemRows.of_pairs(*np.nonzero(mask), user_count=50, item_count=400), []

    def ask(first: int) -> None:
        for row in [*range(first, 50, 4)] * 20:
            found = wy.recommend(users, items, 5, biases=biases, exclude=rows, rows=row)
            if not np.array_equal(found.items, expected[0][row]):
                wrong.append(row)

    threads = [threading.Thread(target=ask, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_requests_of_one_user_share_their_memory_and_nothing_else(dtype: Any) -> None:
    tables_of = [tables(dtype=dtype), tuple(-each for each in tables(dtype=dtype))]
    mask = seen_by(7, 23)
    rows = ItemRows.of_pairs(*np.nonzero(mask), user_count=7, item_count=23)
    kept = []
    for row in range(7):
        for users, items, biases in tables_of:
            users.flags.writeable = row % 2 == 0
            for added, excluded in ((None, None), (biases, rows), (None, rows), (biases, None)):
                scores = users @ items.T + (0 if added is None else added)
                expected = sorted_scores(scores, 4, None if excluded is None else mask)
                found = wy.recommend(users, items, 4, rows=row, biases=added, exclude=excluded)
                kept.append((found, (expected[0][row], expected[1][row])))
    for found, wanted in kept:
        assert_equal(found, wanted)
    for k in range(1, 24):  # more kinds of requests than are kept
        wanted = sorted_scores(users @ items.T, k)
        assert_equal(wy.recommend(users[0], items, k), (wanted[0][0], wanted[1][0]))
    with pytest.raises(NotFinite, match="users holds nan"):
        wy.recommend(users * np.nan, items, 4, rows=0)
    wanted = sorted_scores(users @ items.T, 4)
    assert_equal(wy.recommend(users, items, 4, rows=0), (wanted[0][0], wanted[1][0]))


USERS, ITEMS, BIASES = tables()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: W.recommend(USERS, ITEMS, 24), OptionError, "k is 24, but there are 23 items"),
        (lambda: W.recommend(USERS, ITEMS, 0), OptionError, "k must be an integer of at least 1, not 0"),
        (lambda: W.recommend(USERS, ITEMS, 2.0), DTypeError, "k must be an integer"),
        (lambda: W.recommend(USERS, ITEMS[:, :4]), ShapeError, r"users has shape \(7, 5\) and items \(23, 4\)"),
        (lambda: W.recommend(USERS, 10), ShapeError, r"users has shape \(7, 5\) and items \(\)"),
        (lambda: W.recommend(USERS, ITEMS, biases=BIASES[1:]), ShapeError, r"biases has shape \(22,\)"),
        (lambda: W.recommend(USERS, biases=BIASES), ShapeError, "biases belong to items"),
        (lambda: W.recommend(USERS, ITEMS, rows=7), IndexOutOfRange, "rows is 7; expected 0 to 6"),
        (lambda: W.recommend(USERS, ITEMS, rows=-1), IndexOutOfRange, "rows is -1"),
        (lambda: W.recommend(USERS, ITEMS, rows=[0, 7]), IndexOutOfRange, "rows holds 7; expected numbers from 0 to 6"),
        (lambda: W.recommend(USERS, ITEMS, rows=[0.5]), DTypeError, "rows has dtype float64"),
        (lambda: W.recommend(USERS[0], ITEMS, rows=0), ShapeError, "the vector of one"),
        (lambda: W.recommend(USERS, np.array([["a"]])), DTypeError, "items has dtype <U1"),
        (lambda: W.recommend(lambda rows: rows, ITEMS), DTypeError, "users is a function"),
        (lambda: W.recommend(lambda rows: rows, k=1), ShapeError, "rows, the numbers of the users, must be given"),
        (lambda: W.recommend(lambda rows: rows, k=1, rows=[1]), ShapeError, r"scores of 1 users have shape \(1,\)"),
        (lambda: W.recommend(wy.Parameter(USERS) * 2.0, ITEMS), DTypeError, "users is .*multiply.*; give its value"),
        (lambda: W.recommend(USERS, ITEMS, exclude=[[0]] * 6), ShapeError, "exclude has the items of 6 users"),
        (lambda: W.recommend(USERS, ITEMS, exclude=[[23]] * 7), IndexOutOfRange, "exclude: user 0 has item 23"),
        (lambda: W.recommend(USERS, ITEMS, exclude=np.ones((7, 22), bool)), ShapeError, r"expected \(7, 23\)"),
        (lambda: W.recommend(USERS, ITEMS, exclude=USERS), DTypeError, "exclude: an array of float64"),
        (lambda: W.recommend(USERS * np.nan, ITEMS), NotFinite, r"users holds nan at \(0, 0\)"),
        (lambda: W.recommend(USERS @ ITEMS.T * np.nan), NotFinite, r"scores holds nan at \(0, 0\)"),
        (lambda: W.recommend(USERS, ITEMS, batch_size=0), OptionError, "batch_size must be"),
        (lambda: W.recommend(USERS, ITEMS, top_k=3), TypeError, "recommend takes no keyword 'top_k': use k="),
        (lambda: W.recommend(USERS, ITEMS, seen=[[0]] * 7), TypeError, "use exclude="),
        (lambda: W.recommend(USERS @ ITEMS.T, normalize=True), OptionError, "users are scores if there are no items"),
        (lambda: W.recommend(USERS, ITEMS, normalize=1), DTypeError, "normalize must be"),
        (
            lambda: W.recommend(USERS, ITEMS, exclude=(np.arange(500) % 7, np.arange(500) % 23)),
            DataError, r"indptr must ascend .* Of users and items of pairs make wy\.data\.ItemRows",
        ),
        (
            lambda: W.recommend(USERS[0], ITEMS, exclude=ItemRows.of_pairs([0], [1], user_count=7, item_count=23)),
            ShapeError, r"items of 7 users, but users is the vector of one.*rows=user, or exclude\.take\(\[user\]\)",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [None, 4])
def test_cosines(dtype: Any, batch_size: int | None) -> None:
    users, items, biases = tables(dtype=dtype)
    users[2], items[3] = 0.0, 0.0
    lengths = [np.maximum(np.linalg.norm(each, axis=1, keepdims=True), 1e-6) for each in (users, items)]
    scores = (users / lengths[0]) @ (items / lengths[1]).T
    mask = seen_by(*scores.shape)
    for options, wanted in (({}, scores), ({"biases": biases}, scores + biases)):
        kept = users.copy(), items.copy()
        found = wy.recommend(users, items, 5, exclude=mask, normalize=True, batch_size=batch_size, **options)
        assert found.scores.dtype == dtype
        np.testing.assert_allclose(found.scores, sorted_scores(wanted, 5, mask)[1], rtol=1e-5, atol=1e-6)
        assert (users == kept[0]).all() and (items == kept[1]).all()
    one = wy.recommend(users[0], items, 5, normalize=True)
    np.testing.assert_allclose(one.scores, sorted_scores(scores, 5)[1][0], rtol=1e-5, atol=1e-6)


def test_the_ranking_of_cosines_is_that_of_the_loss() -> None:
    wy.nn.seed(0)
    users, items = wy.nn.Embedding(7, 5), wy.nn.Embedding(23, 5)
    rows = wy.IndexConstant(np.arange(7))
    of_loss = wy.losses.info_nce(users(rows), items(rows), normalize=True, reduction="none").forward()
    scores = wy.recommend(users.weight, items.weight, 23, normalize=True)
    table = np.empty((7, 23), np.float32)
    np.put_along_axis(table, scores.items, scores.scores, axis=1)
    batch = table[:, :7]
    np.testing.assert_allclose(of_loss, np.log(np.exp(batch).sum(1)) - batch.diagonal(), rtol=1e-5)


def test_rows_that_change_later_never_reach_outside_of_an_array() -> None:
    rows = ItemRows(np.array([0, 1, 2]), np.array([1, 2]), 23)
    rows.indices[1] = 10**9
    with pytest.raises(IndexOutOfRange, match="it has changed since"):
        wy.recommend(USERS[:2], ITEMS, 2, exclude=rows)
    rows = ItemRows(np.array([0, 1, 2]), np.array([1, 2]), 23)
    rows.indptr[2] = 10**9
    with pytest.raises(IndexOutOfRange, match="it has changed since"):
        wy.recommend(USERS[:2], ITEMS, 2, exclude=rows)
