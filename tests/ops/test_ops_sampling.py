"""Random row numbers: their distribution, rejection of excluded rows, and equality of kernel and reference."""

from __future__ import annotations

import pickle
from typing import Any, assert_type

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse, stats

import wyrm as wy
from tests.native import compiled
from wyrm.errors import DTypeError, IndexOutOfRange, ShapeError
from wyrm.graph.index_leaves import HeldIndices
from wyrm.graph.parameters import ResizableParameter
from wyrm.graph.schedule import Schedule
from wyrm.ops.random import sampling
from wyrm.ops.random.alias import alias_table, striped_table
from wyrm.ops.random.dropout import Dropout
from wyrm.ops.random.philox import STEP
from wyrm.ops.random.sampling import RandomIndex, sampling_kernel


class Batch(wy.Dim): ...


class Items(wy.Dim): ...


SAMPLE = compiled(sampling_kernel)


def run_kernel(kernel: Any, node: Any, stripes: tuple[int, int] | None = None) -> NDArray[Any]:
    """Return what the kernel computes from the values of the parents."""
    out = np.full(node.shape, -1, node.dtype)
    operands = [np.asarray(parent.value) for parent in node.parents]
    arguments = wy.LOOPS.of(node).kernel_arguments(node, operands, out)
    if stripes is not None:
        wy.LOOPS.of(node).prepare_stripes(arguments, stripes[1])
        arguments[-1][:2] = stripes
    kernel(*arguments)
    return out


def chi_square_p_value(rows: NDArray[Any], weights: NDArray[Any]) -> float:
    """Return the p-value of a chi-square test that `rows` follow the weights."""
    counts = np.bincount(rows.ravel(), minlength=len(weights))
    assert counts[weights == 0.0].sum() == 0
    expected = rows.size * weights / weights.sum()
    return float(stats.chisquare(counts[weights > 0.0], expected[weights > 0.0]).pvalue)


# User u knows all items but u, u + 1, ..., u + 5.
USERS, ITEMS = 5, 12
MATRIX = sparse.csr_array(np.array([[0 if u <= i < u + 6 else 1 for i in range(ITEMS)] for u in range(USERS)]))
WEIGHTS = np.array([3.0, 0.0, 1.0, 2.0, 0.5, 0.0, 4.0, 1.0, 1.0, 2.0, 7.0, 0.0])


def drawn(shape: tuple[int, ...] = (101, 7), size: int = ITEMS, reject: bool = False, **options: Any) -> Any:
    if reject:
        users = np.random.default_rng(0).integers(0, USERS, shape)
        options |= {"exclude": MATRIX, "rows": wy.IndexInput(users, name="users")}
    return wy.random.index(size, shape, **{"seed": 3, "stream": 5, **options})


OPTIONS: list[dict[str, Any]] = [
    {},
    {"weights": WEIGHTS},
    {"reject": True},
    {"reject": True, "weights": WEIGHTS},
]


@pytest.fixture(autouse=True)
def same_step() -> None:
    wy.random.set_step(11)


@pytest.mark.parametrize("size", [1, 2, 7, 1000, 2**32])
def test_draws_are_rows_of_the_table(size: int) -> None:
    rows = drawn(size=size).forward()
    assert rows.dtype == np.int64 and rows.shape == (101, 7)
    assert rows.min() >= 0 and rows.max() < size


@pytest.mark.parametrize("options", [{}, {"weights": WEIGHTS}, {"reject": True}])
def test_words_generated_ahead_are_right_in_any_order_of_steps(options: Any) -> None:
    """The kernel generates the words of later steps ahead; a call for any other step must still be right."""
    node = drawn((10,), **options)
    operands, out = [np.asarray(parent.value) for parent in node.parents], np.empty(10, np.int64)
    operands[0] = np.zeros((), np.int64)
    arguments = wy.LOOPS.of(node).kernel_arguments(node, operands, out)
    for step in [0, 1, 63, 64, 65, 5, 200, 201, 199, 0, 2**31]:
        operands[0][...] = step
        SAMPLE(*arguments)
        np.testing.assert_array_equal(out, node.evaluate(np, *operands, shape=(10,)), f"step {step}")


def test_rows_are_uniform() -> None:
    assert chi_square_p_value(drawn((200_000,), 37).forward(), np.ones(37)) > 0.01


def test_probabilities_are_proportional_to_weights() -> None:
    assert chi_square_p_value(drawn((200_000,), weights=WEIGHTS).forward(), WEIGHTS) > 0.01
    assert chi_square_p_value(drawn((200_000,), weights=(WEIGHTS * 1e307).tolist()).forward(), WEIGHTS) > 0.01


def test_many_rows_of_very_different_weights_are_drawn_alike() -> None:
    """The kernel and the reference look at one table, whose words are those that the weights say."""
    for size in (1, 2, 3, 1000, 5000):
        weights = np.exp(np.random.default_rng(size).normal(0.0, 4.0, size))
        weights[np.random.default_rng(size).random(size) < 0.3] = 0.0
        weights[0] = 1.0
        node = drawn((3000,), size, weights=weights)
        expected = node.forward()
        np.testing.assert_array_equal(run_kernel(SAMPLE, node), expected)


def words_of_rows(table: NDArray[Any]) -> NDArray[Any]:
    """Return how many of the 2**32 words draw each row, counted from the buckets of an alias table."""
    rows = len(table)
    bounds = [-(-row * 2**32 // rows) for row in range(rows + 1)]
    words = np.zeros(rows, np.int64)
    for row, (limit, other) in enumerate(table.tolist()):
        kept = limit + 2**31 - bounds[row]
        words[row] += max(kept, 0)
        words[other if other >= 0 else -1 - other] += bounds[row + 1] - bounds[row] - max(kept, 0)
    return words


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000, 4097])
@pytest.mark.parametrize("spread", [0.0, 1.0, 8.0])
def test_each_row_has_the_words_that_its_weight_says(size: int, spread: float) -> None:
    random = np.random.default_rng(size)
    weights = np.exp(random.normal(0.0, spread, size))
    weights[random.random(size) < 0.3] = 0.0
    weights[random.integers(size)] = 1.0
    table = alias_table(weights)
    words = words_of_rows(table)
    assert words.sum() == 2**32 and (words[weights == 0.0] == 0).all()
    # Up to one word is lost or won where cumulative weights are rounded, and the last one where a bucket is full.
    np.testing.assert_allclose(words, weights / weights.sum() * 2**32, rtol=1e-12, atol=2.0)
    assert ((table[:, 1] < 0) == (weights == 0.0)).all()


@pytest.mark.parametrize(("size", "stripes"), [(7, 2), (64, 3), (1000, 10), (40, 5)])
def test_each_stripe_has_a_table_of_the_weights_of_its_rows(size: int, stripes: int) -> None:
    weights = np.exp(np.random.default_rng(size).normal(0.0, 2.0, size))
    weights[::3] = 0.0
    table = striped_table(alias_table(weights), stripes)
    for stripe in range(stripes):
        rows = np.flatnonzero(np.arange(size) // 16 % stripes == stripe)
        if rows.size:
            part = table[rows]
            places = np.where(part[:, 1] < 0, -1 - part[:, 1], part[:, 1])
            assert np.isin(places, rows).all()
            part[:, 1] = np.where(part[:, 1] < 0, -1 - np.searchsorted(rows, places), np.searchsorted(rows, places))
            expected = weights[rows] / weights[rows].sum() * 2**32
            np.testing.assert_allclose(words_of_rows(part), expected, rtol=1e-6, atol=2.0 * 2**32 / size)


def test_one_row_with_all_the_weight_is_always_drawn() -> None:
    weights = np.zeros(9)
    weights[4] = 1e-300
    assert set(drawn(size=9, weights=weights).forward().ravel().tolist()) == {4}


def test_excluded_rows_are_not_drawn_and_the_rest_are_uniform() -> None:
    users = np.zeros(100_000, np.int64)
    few = np.zeros((1, ITEMS), np.int64)
    few[0, [2, 7]] = 1
    rows = wy.random.index(ITEMS, (100_000,), exclude=sparse.csr_matrix(few), rows=wy.IndexInput(users), stream=1)
    assert chi_square_p_value(rows.forward(), 1.0 - few[0]) > 0.01


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_no_excluded_row_is_drawn_however_many_there_are(weights: Any) -> None:
    """Each user excludes half of the rows, and all of the drawn ones are others, of a weight above 0."""
    node = drawn((20_000,), reject=True, weights=weights)
    rows = node.forward()
    assert not MATRIX.toarray()[node.parents[-1].value, rows].any()
    assert weights is None or weights[rows].all()


@pytest.mark.parametrize("weights", [None, np.arange(4.0)])
def test_a_single_row_that_is_left_is_found_and_who_excludes_all_gets_any(weights: Any) -> None:
    users = wy.IndexInput(np.arange(3).repeat(50))
    seen = [[1, 2, 3], [0, 1, 2], [0, 1, 2, 3]]
    rows = wy.random.index(4, (150,), exclude=seen, rows=users, weights=weights, stream=1)
    found = [set(part.tolist()) for part in rows.forward().reshape(3, 50)]
    # Row 0 has no weight, so who excludes the others gets one of them.
    assert found[0] == {0} if weights is None else found[0] <= {1, 2, 3}
    assert found[1] == {3} and len(found[2]) >= 3
    np.testing.assert_array_equal(run_kernel(SAMPLE, rows), rows.value)


class Users(wy.Dim): ...


class Excluded(wy.Dim): ...


@pytest.mark.parametrize("engine", ["native", "jax"])
@pytest.mark.parametrize("with_bits", [True, False])
def test_draws_from_tables_of_any_size_are_those_of_each_size(
    engine: Any, with_bits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_bits:
        monkeypatch.setattr(sampling, "_SMALL_BITS", 0)
        monkeypatch.setattr(sampling, "_BITS_BESIDE_COLUMNS", 0)
    users_of_draws, table = wy.IndexInput(dims=(Batch(),)), ResizableParameter(np.zeros(1, np.float32), (Items(),))
    spans, columns = HeldIndices(dims=(Users(), 2)), HeldIndices(dims=(Excluded(),))
    options: dict[str, Any] = {"rows": users_of_draws, "seed": 3, "stream": 1}
    open_draws = wy.random.index(Items(), (Batch(), 40), exclude=(spans, columns), **options)
    node = table.index(open_draws)
    program: Any = wy.compile(node, engine=engine)
    chosen = np.array([2, 0, 1, 2])
    # Rows are told by the numbers in them. The third case has other excluded rows, as many as the second.
    for size, ends, excluded in (
        (5, [0, 2, 3, 7], [0, 1, 4, 0, 1, 2, 3]),
        (900, [0, 1, 2, 3], [7, 8, 9]),
        (900, [0, 1, 2, 3], [1, 2, 3]),
        (3, [0, 3, 3, 4], [0, 1, 2, 0]),
    ):
        table.set(np.arange(size, dtype=np.float32))
        spans.set(np.stack([ends[:-1], ends[1:]], axis=1))
        columns.set(excluded)
        of_size = wy.random.index(size, (Batch(), 40), exclude=(ends, excluded), **options)
        users_of_draws.set(chosen)
        with wy.random.at_step(7):
            expected = of_size.forward()
            np.testing.assert_array_equal(node.forward(), expected)
        program.load_state_dict({"steps": 7, "epochs": 0})
        np.testing.assert_array_equal(program({users_of_draws: chosen}), expected)
        assert len(np.unique(expected)) > 2


@pytest.mark.parametrize("spans", [[[-9, 90]], [[2, 1]], [[0, 2**40]], [[-(2**40), 1]]])
@pytest.mark.parametrize("columns", [[0, 1, 2], [-5, 3, 99]])
@pytest.mark.parametrize("with_bits", [True, False])
def test_excluded_rows_that_there_are_not_reach_no_other_memory(
    spans: Any, columns: Any, with_bits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_bits:
        monkeypatch.setattr(sampling, "_SMALL_BITS", 0)
        monkeypatch.setattr(sampling, "_BITS_BESIDE_COLUMNS", 0)
    table = ResizableParameter(np.arange(4, dtype=np.float32), (Items(),))
    held = HeldIndices(spans, dims=(Users(), 2)), HeldIndices(columns, dims=(Excluded(),))
    rows = wy.random.index(Items(), (2, 30), exclude=held, rows=users(0, 0))
    node = table.index(rows)
    found: Any = wy.compile(node)({})
    with wy.random.at_step(0):
        expected = node.forward()
    np.testing.assert_array_equal(found, expected)
    assert set(np.unique(found)) <= {0.0, 1.0, 2.0, 3.0}


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("engine", ["native", "jax"])
def test_rows_excluded_by_lists_of_each_draw(weights: Any, engine: Any) -> None:
    """The lists come with the data of each batch, are filled up with -1, and serve several draws."""
    batch, length = Batch(), 9
    history = wy.IndexInput(dims=(batch, length), name="history")
    node = wy.random.index(ITEMS, (batch, 5), exclude=history, weights=weights, seed=3, stream=5)
    program = wy.compile(node, engine=engine)
    for size in (40, 1, 7):
        lists = np.random.default_rng(size).integers(-1, ITEMS, (size, length))
        history.set(lists)
        wy.random.set_step(2)
        rows = node.forward()
        assert rows.shape == (size, 5)
        assert not (rows[:, :, None] == lists[:, None]).any()
        program.load_state_dict({"steps": 2, "epochs": 0})
        np.testing.assert_array_equal(program({history: lists}), rows)


def test_users_exclude_the_same_rows_in_every_form() -> None:
    lists = [[3, 7], [], [0, 1, 2, 11]]
    offsets, columns = np.array([0, 2, 2, 6]), np.array([7, 3, 0, 1, 2, 11])
    mask = np.zeros((3, ITEMS), bool)
    for user, row in enumerate(lists):
        mask[user, row] = True
    padded = np.array([[3, 7, -1, -1], [-1] * 4, [11, 0, 2, 1]])
    forms: list[Any] = [lists, (offsets, columns), mask, padded, sparse.csr_array(mask), sparse.coo_array(mask)]
    forms.append(wy.data.ItemRows(offsets, columns, ITEMS))
    users = wy.IndexInput(np.arange(3))
    nodes = [wy.random.index(ITEMS, (3, 200), exclude=form, rows=users, stream=1) for form in forms]
    nodes.append(wy.random.index(ITEMS, (3, 200), exclude=padded, stream=1))  # the same lists for each draw
    rows = np.stack(wy.run(nodes))
    assert not mask[np.arange(3)[:, None], rows[0]].any()
    for other in rows[1:]:
        np.testing.assert_array_equal(other, rows[0])


def test_excluded_rows_in_any_order_and_users_who_exclude_nothing() -> None:
    columns = np.array([7, 0, 3, 9, 1])
    pair = np.array([0, 0, 3, 3, 5, 5]), columns
    ordered = np.array([0, 0, 3, 3, 5, 5]), np.array([0, 3, 7, 1, 9])
    users = wy.IndexInput(np.arange(5).repeat(400))
    one, other = (wy.random.index(10, (2000,), exclude=form, rows=users, stream=1) for form in (pair, ordered))
    wy.run([one, other])
    np.testing.assert_array_equal(one.value, other.value)
    for user in range(5):
        excluded = columns[pair[0][user] : pair[0][user + 1]]
        assert not np.isin(one.value[user * 400 : user * 400 + 400], excluded).any()


def test_the_same_draws_for_the_same_seed_step_and_stream() -> None:
    first, again = drawn().forward(), drawn()
    assert (again.forward() != first).any()
    wy.random.set_step(11)
    np.testing.assert_array_equal(again.forward(), first)
    others: list[dict[str, Any]] = [{"seed": 4}, {"stream": 6}]
    for other in others:
        wy.random.set_step(11)
        assert (drawn(**other).forward() != first).mean() > 0.8
    nodes = wy.random.index(1000, (50,)), wy.random.index(1000, (50,))
    wy.run(nodes)
    assert (nodes[0].value != nodes[1].value).any()


@pytest.mark.parametrize("options", OPTIONS)
def test_a_position_draws_the_same_whatever_the_others_are(options: dict[str, Any]) -> None:
    many = drawn((60,), **options).forward()
    wy.random.set_step(11)
    np.testing.assert_array_equal(drawn((10,), **options).forward(), many[:10])


@pytest.mark.parametrize("shape", [(101, 7), (1,), (), (0, 3)])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("with_bits", [True, False])
def test_the_kernel_draws_the_same(
    options: dict[str, Any], shape: tuple[int, ...], with_bits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_bits:  # the kernel searches the columns
        monkeypatch.setattr(sampling, "_SMALL_BITS", 0)
        monkeypatch.setattr(sampling, "_BITS_BESIDE_COLUMNS", 0)
    node = drawn(shape, **options)
    assert sampling._bits(node, node.table_size).size == (USERS * 2 if with_bits and options.get("reject") else 0)
    for step in (0, 2**31, 2**33 + 1):
        wy.random.set_step(step)
        expected = node.forward()
        np.testing.assert_array_equal(run_kernel(SAMPLE, node), expected)
        np.testing.assert_array_equal(run_kernel(wy.LOOPS.of_op(RandomIndex).kernel, node), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(33, 7), (2,), (), (0, 3)])
@pytest.mark.parametrize("rate", [0.0, 0.3, 0.999])
def test_generated_loops_draw_the_same_dropout_mask(dtype: Any, shape: tuple[int, ...], rate: float) -> None:
    values = np.random.default_rng(0).normal(size=shape).astype(dtype)
    node = Dropout(wy.Constant(values), rate, -3, 5)
    program = wy.compile(node)
    for step in (0, 2**31, 2**33 + 1):
        wy.random.set_step(step)
        program.load_state_dict({"steps": step, "epochs": 0})
        np.testing.assert_array_equal(program(), node.forward())


@pytest.mark.parametrize("size", [7, 16, 37, 64, 100, 1000])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_stripe_draws_only_its_own_rows(size: int, count: int, weighted: bool) -> None:
    weights = np.random.default_rng(1).uniform(0.1, 3.0, size)
    node = drawn((50_000,), size, weights=weights if weighted else None)
    node.forward()
    rows = np.arange(size)
    for which in range(count):
        inside = rows // 16 % count == which
        if not inside.any():
            inside[:] = True  # an empty stripe draws from the whole table
        probabilities = np.where(inside, weights if weighted else 1.0, 0.0)
        assert chi_square_p_value(run_kernel(SAMPLE, node, (which, count)), probabilities) > 1e-3


def test_a_stripe_without_weight_draws_its_rows_alike() -> None:
    weights = np.zeros(60)
    weights[[3, 40]] = 1.0
    node = drawn((1000,), 60, weights=weights)
    node.forward()
    inside = np.arange(60) // 16 % 2 == 1
    assert chi_square_p_value(run_kernel(SAMPLE, node, (1, 2)), inside.astype(float)) > 1e-3
    assert set(run_kernel(SAMPLE, node, (0, 2)).tolist()) == {3, 40}


def test_stripes_that_were_not_prepared_draw_from_all_rows() -> None:
    node = drawn((1000,), 60, weights=np.arange(60.0))
    expected = node.forward()
    out = np.full(node.shape, -1, node.dtype)
    arguments: Any = wy.LOOPS.of(node).kernel_arguments(
        node, [np.asarray(parent.value) for parent in node.parents], out
    )
    arguments[-1][:2] = 1, 2
    SAMPLE(*arguments)
    np.testing.assert_array_equal(out, expected)


def test_a_stripe_rejects_excluded_rows() -> None:
    fourth = sparse.csr_array(np.tile(np.arange(64) % 4 == 0, (USERS, 1)).astype(np.int64))
    users = wy.IndexInput(np.arange(5000) % USERS)
    for weights in (None, np.ones(64)):
        node = wy.random.index(64, (5000,), exclude=fourth, rows=users, weights=weights, stream=1)
        node.forward()
        rows = run_kernel(SAMPLE, node, (1, 2))
        assert (rows // 16 % 2 == 1).all()
        assert not (rows % 4 == 0).any()


def test_negative_samples_of_a_model_over_batches_of_any_size() -> None:
    batch, items = Batch(), Items(ITEMS)
    users = wy.IndexInput(dims=(batch,), name="users")
    negatives = wy.random.index(items, (batch,), exclude=MATRIX, rows=users, weights=np.ones(ITEMS))
    assert_type(negatives, RandomIndex[tuple[Batch]])
    typed: wy.IndexNode[tuple[Batch]] = negatives
    table = wy.Parameter(np.arange(2.0 * ITEMS).reshape(ITEMS, 2), dims=(items, 2), name="table")
    loss = table.index(typed).sum()
    for size in (3, 8, 3):
        users.set(np.arange(size) % USERS)
        loss.zero_gradient()
        value = loss.forward()
        loss.backward()
        rows = negatives.value
        assert rows.shape == (size,) and value == table.value[rows].sum()
        gradient = table.row_gradient
        assert gradient is not None and sorted(gradient.rows) == sorted(rows)
        np.testing.assert_array_equal(table.gradient[:, 0], np.bincount(rows, minlength=ITEMS))
    gradient_node = wy.grad(wy.Parameter(np.ones((ITEMS, 2))).index(wy.random.index(ITEMS, (4,))).sum())
    assert gradient_node[0].forward().sum() == 8.0


def test_axes_are_typed() -> None:
    assert_type(wy.random.index(10, (Batch(3), Items(2))), RandomIndex[tuple[Batch, Items]])
    assert_type(wy.random.index(Items(10), (2, 2)), RandomIndex[tuple[Any, Any]])
    assert wy.random.index(Items(10), (Batch,)).dims == (Batch(),)


def test_equal_draws_are_computed_once() -> None:
    one, other = (drawn(weights=WEIGHTS) for _ in range(2))
    schedule = Schedule([one, other])
    assert schedule.representative[one] is schedule.representative[other]
    assert schedule.representative[one] is one and STEP in set(schedule.leaves)


def test_draws_are_the_same_after_pickling() -> None:
    node = drawn(reject=True, weights=WEIGHTS)
    value = node.forward()
    again = pickle.loads(pickle.dumps(node))
    wy.random.set_step(11)
    np.testing.assert_array_equal(again.forward(), value)


def users(*values: int) -> Any:
    return wy.IndexInput(np.array(values), name="users")


PAIR = np.array([0, 1, 2]), np.array([0, 4])


@pytest.mark.parametrize(
    ("error", "message", "arguments", "options"),
    [
        (ShapeError, r"table_size must be in \[1, 2\*\*32\], not 0", (0, (3,)), {}),
        (ShapeError, r"table_size must be in", (2**32 + 1, (3,)), {}),
        (ShapeError, "weights need a table_size that is a number", (Items(), (3,)), {"weights": [1.0]}),
        (
            ShapeError,
            "exclude needs a table_size that is a number",
            (Items(), (2,)),
            {"exclude": PAIR, "rows": users(0)},
        ),
        (ShapeError, "an axis must have at least 0 elements, not -3", (5, (-3,)), {}),
        (ValueError, r"weights\[1\] is -1", (2, (3,)), {"weights": [1, -1]}),
        (ValueError, r"weights\[0\] is nan", (2, (3,)), {"weights": [np.nan, 1.0]}),
        (ValueError, "all weights are 0", (2, (3,)), {"weights": [0.0, 0.0]}),
        (ShapeError, r"weights has the shape \(3,\), .*\(2,\)", (2, (3,)), {"weights": np.ones(3)}),
        (DTypeError, "weights must be numbers", (2, (3,)), {"weights": ["a", "b"]}),
        (ValueError, "exclude has the rows of each user and needs rows", (12, (2,)), {"exclude": MATRIX}),
        (ValueError, "rows needs exclude", (5, (2,)), {"rows": users(0, 1)}),
        (ValueError, "needs no rows", (5, (2,)), {"exclude": users(0, 1), "rows": users(0, 1)}),
        (ShapeError, "exclude must have an axis of rows at its end", (5, (2,)), {"exclude": 3}),
        (ShapeError, "random_index.*: 2 against 3", (5, (2,)), {"exclude": np.zeros((3, 1), np.int64)}),
        (
            DTypeError,
            "rows must be an index node, like wy.IndexInput, not list",
            (5, (2,)),
            {"exclude": PAIR, "rows": [0, 1]},
        ),
        (ShapeError, "expected 2 users and 5 items", (5, (2,)), {"exclude": MATRIX[:2], "rows": users(0, 1)}),
        (DTypeError, "expected a mask of booleans", (5, (2,)), {"exclude": np.ones((2, 2)), "rows": users(0, 1)}),
        (ValueError, "indptr must ascend", (5, (2,)), {"exclude": ([0, 2, 1], [1]), "rows": users(0, 1)}),
        (ValueError, "number of entries, 2", (5, (2,)), {"exclude": ([0, 1], [1, 2]), "rows": users(0)}),
        (IndexOutOfRange, "user 0 has item 5", (5, (2,)), {"exclude": ([0, 2], [1, 5]), "rows": users(0, 0)}),
        (
            IndexOutOfRange,
            r"users \(2,\).* holds 2 at position \(1,\)",
            (5, (2,)),
            {"exclude": PAIR, "rows": users(0, 2)},
        ),
        (ShapeError, "random_index.*: 3 against 2", (5, (3,)), {"exclude": PAIR, "rows": users(0, 1)}),
        (
            ShapeError,
            "rows has axes for 2 axes of draws, but dims has 1",
            (5, (2,)),
            {"exclude": PAIR, "rows": users(0, 1).reshape(2, 1)},
        ),
    ],
)
def test_mistakes(error: Any, message: str, arguments: Any, options: dict[str, Any]) -> None:
    with pytest.raises(error, match=message):
        wy.random.index(*arguments, **options)


def test_a_user_beyond_the_excluded_rows_is_an_error_in_leaves_and_in_computed_nodes() -> None:
    leaf = users(0, 1)
    node = wy.random.index(5, (2,), exclude=PAIR, rows=leaf)
    with pytest.raises(IndexOutOfRange):
        leaf.set([0, 2])
    assert node.forward().shape == (2,)
    computed = wy.Constant([[0.0, 0.0, 1.0]] * 2).argmax(axis=-1)
    with pytest.raises(IndexOutOfRange, match=r"argmax.* holds 2"):
        wy.random.index(5, (2,), exclude=PAIR, rows=computed).forward()


def test_a_table_of_fewer_rows_is_an_error_when_the_graph_is_built() -> None:
    rows = wy.random.index(10, (4,))
    table = wy.Parameter(np.ones((9, 2)), name="table")
    for use in (
        lambda: table.index(rows),
        lambda: table.index(rows.reshape(2, 2)),
        lambda: table.scatter_add(rows, np.ones((4, 2))),
        lambda: wy.random.index(5, (4,), exclude=PAIR, rows=rows),
    ):
        with pytest.raises(IndexOutOfRange, match="holds values of 0 to 9, but"):
            use()
    assert wy.Parameter(np.ones((10, 2))).index(rows).forward().shape == (4, 2)
