"""Threads that share parameters, and processes that share the cache."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.native.run.runner import NativeRunner
from wyrm.engines.native.run.shuffle import Shuffle, compiled, fingerprint
from wyrm.engines.native.run.threads import divide
from wyrm.engines.native.stages.pipeline import NativeGraph


class Batch(wy.Dim): ...


def recommender(seed: int = 0, weights: Any = None) -> tuple[Any, dict[Any, Any], list[Any]]:
    """Return pairwise ranking with drawn negatives: a loss, its columns, its parameters."""
    data = wy.data.low_rank_preferences(200, 300, rank=4, interactions_per_user=40, seed=0)
    random = np.random.default_rng(seed)
    users = wy.Parameter(random.normal(0, 0.1, (200, 8)).astype(np.float32), name="users")
    items = wy.Parameter(random.normal(0, 0.1, (300, 8)).astype(np.float32), name="items")
    bias = wy.Parameter.zeros((300,), name="bias")
    batch = Batch()
    user, item = wy.IndexInput(dims=(batch,), name="user"), wy.IndexInput(dims=(batch,), name="item")
    other = wy.random.index(300, (batch,), weights=weights, seed=1, stream=1)
    difference: Any = items.index(item) - items.index(other)
    advantage: Any = bias.index(item) - bias.index(other)
    liked: Any = users.index(user)
    score: Any = liked.vector_dot(difference) + advantage
    columns = {user: np.asarray(data.users), item: np.asarray(data.items)}
    return -score.sigmoid().mean(), columns, [users, items, bias]


def dense() -> tuple[Any, dict[Any, Any], list[Any]]:
    random = np.random.default_rng(0)
    x, weight = wy.Input(dims=(Batch(), 5), name="x"), wy.Parameter(np.ones((5, 3), np.float32), name="weight")
    return (x @ weight).tanh().square().mean(), {x: random.standard_normal((203, 5)).astype(np.float32)}, [weight]


@pytest.mark.parametrize("mode", ["hogwild", "synchronized"])
@pytest.mark.parametrize("make", [recommender, dense])
def test_two_threads_learn(make: Any, mode: Any) -> None:
    loss, columns, parameters = make()
    train = wy.compile(loss, wy.optim.Adagrad(parameters, 0.1))
    losses = [train.epoch(columns, batch_size=10, shuffle=True, threads=2, mode=mode) for _ in range(4)]
    assert losses[-1] < losses[0]
    assert all(np.isfinite(parameter.value).all() for parameter in parameters)


def test_more_threads_than_kept_bindings_each_keep_their_arrays() -> None:
    x = wy.Input(dims=(Batch(), 5), name="x")
    runner = NativeRunner(NativeGraph([x.tanh().sum()], None), "auto")
    first = [runner.binding({x: (10, 5)}, thread) for thread in range(40)]
    assert all(runner.binding({x: (10, 5)}, thread) is binding for thread, binding in enumerate(first))

    def alternate(thread: int) -> None:
        for size in range(60):
            assert runner.binding({x: (size % 7 + 1, 5)}, thread).sizes == {Batch: size % 7 + 1}

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(40) as pool:
            list(pool.map(alternate, range(40)))
    finally:
        sys.setswitchinterval(interval)
    runner.release()
    assert runner.allocated_bytes == 0


def weighted() -> tuple[Any, dict[Any, Any], list[Any]]:
    """Return pairwise ranking with negatives by weight, which each thread draws from its own rows."""
    return recommender(weights=np.random.default_rng(2).exponential(size=300))


@pytest.mark.parametrize("make", [recommender, weighted, dense])
def test_synchronized_threads_give_the_same_bits(make: Any) -> None:
    def trained() -> list[Any]:
        loss, columns, parameters = make()
        train = wy.compile(loss, wy.optim.Adagrad(parameters, 0.1))
        for _ in range(3):
            train.epoch(columns, batch_size=10, shuffle=True, seed=5, threads=2, mode="synchronized")
        return [parameter.value for parameter in parameters]

    for one, other in zip(trained(), trained(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_one_thread_gives_the_same_bits() -> None:
    def trained() -> list[Any]:
        loss, columns, parameters = recommender()
        wy.compile(loss, wy.optim.Adam(parameters, 0.01)).epoch(columns, batch_size=10, shuffle=True, seed=5)
        return [parameter.value for parameter in parameters]

    for one, other in zip(trained(), trained(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_division_has_every_row_once_and_keeps_threads_apart() -> None:
    random = np.random.default_rng(0)
    users, items = random.integers(0, 5000, 100_000), random.integers(0, 3000, 100_000)
    partition = divide(len(users), 2, [users, items], table_bytes=2**24)
    assert partition.disjoint
    seen: list[int] = []
    for phase in partition.phases:
        touched: list[tuple[set[int], set[int]]] = []
        for parts in phase:
            rows = np.concatenate([partition.rows_of(part) for part in parts])
            seen += rows.tolist()
            touched.append((set(users[rows].tolist()), set(items[rows].tolist())))
        assert not touched[0][0] & touched[1][0] and not touched[0][1] & touched[1][1]
    assert sorted(seen) == list(range(len(users)))


def test_columns_that_change_in_place_are_divided_anew() -> None:
    def trained(in_place: bool) -> list[Any]:
        loss, columns, parameters = recommender()
        train = wy.compile(loss, wy.optim.Adagrad(parameters, 0.1))
        changing = {leaf: column.copy() for leaf, column in columns.items()}
        for _ in range(3):
            data = changing if in_place else {leaf: column.copy() for leaf, column in changing.items()}
            train.epoch(data, batch_size=10, shuffle=True, seed=5, threads=2, mode="synchronized")
            for leaf, column in changing.items():
                changing[leaf][:] = (column + 7) % (200 if leaf.name == "user" else 300)
        return [parameter.value for parameter in parameters]

    for one, other in zip(trained(True), trained(False), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_column_that_comes_later_is_read_in_the_order_of_the_others() -> None:
    def trained(threads: int) -> list[Any]:
        loss, columns, parameters = recommender()
        scale = wy.Input(dims=(Batch(),), name="scale")
        scale.set(np.ones(10, np.float32))
        train = wy.compile((loss * scale).mean(), wy.optim.SGD(parameters, 0.0))
        rows = len(next(iter(columns.values()))) // 10 * 10
        columns = {leaf: column[:rows] for leaf, column in columns.items()}
        ones = {scale: np.ones(rows, np.float32)}
        given = columns, columns | ones, columns
        return [train.epoch(each, batch_size=10, shuffle=True, threads=threads) for each in given]

    np.testing.assert_allclose(trained(2), trained(1), rtol=0.05)


def test_a_fingerprint_tells_columns_apart() -> None:
    column = np.random.default_rng(0).integers(0, 50, 1000)
    seen = {compiled(fingerprint)(column)}
    for _ in range(100):
        i, j = np.random.default_rng(len(seen)).choice(1000, 2, replace=False)
        changed = column.copy()
        changed[i], changed[j] = column[j], column[i] + (column[i] == column[j])
        seen.add(compiled(fingerprint)(changed))
    assert len(seen) == 101
    assert compiled(fingerprint)(column.copy()) in seen


@pytest.mark.parametrize("count", [0, 1, 2, 511, 512, 513, 1025, 3000])
def test_a_shuffle_is_a_permutation_made_of_its_seed(count: int) -> None:
    shuffle = Shuffle()

    def shuffled(seed: int) -> list[int]:
        order = np.arange(count)
        shuffle(order, seed)
        return order.tolist()

    assert sorted(shuffled(3)) == list(range(count))
    assert shuffled(3) == shuffled(3)
    assert count < 10 or shuffled(3) != shuffled(4)


def test_programs_that_share_parameters_run_in_two_python_threads() -> None:
    loss, columns, parameters = recommender()
    programs = [wy.compile(loss, wy.optim.SGD(parameters, 0.1)) for _ in range(2)]
    errors: list[BaseException] = []

    def work(program: wy.Program) -> None:
        try:
            for _ in range(3):
                program.epoch(columns, batch_size=10)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(program,)) for program in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert all(np.isfinite(parameter.value).all() for parameter in parameters)


@pytest.mark.parametrize("mode", ["hogwild", "synchronized"])
def test_a_divergence_in_a_thread_names_the_rows_of_its_batch(mode: Any) -> None:
    x, weight = wy.Input(dims=(Batch(),), name="x"), wy.Parameter(1.0)
    program = wy.compile((weight * x).sqrt().mean(), wy.optim.SGD([weight], 1e-3))
    data = np.ones(400, np.float32)
    for seed in range(5):
        program.epoch({x: data}, batch_size=4, shuffle=True, seed=seed, threads=2, mode=mode)
    data[333] = -1.0
    with pytest.raises(wy.errors.Diverged) as caught:
        program.epoch({x: data}, batch_size=4, shuffle=True, threads=2, mode=mode)
    assert caught.value.rows is not None and 333 in caught.value.rows and len(caught.value.rows) == 4


def test_a_divergence_names_no_rows_of_columns_in_another_order() -> None:
    """Threads that divide a table have the columns in an order of their own."""
    table, row = wy.Parameter.zeros((64, 4)), wy.IndexInput(dims=(Batch(),), name="row")
    values = np.ones((64, 4), np.float32)
    values[40] = -1.0
    table.set(values)
    program = wy.compile(table.index(row).sqrt().mean(), wy.optim.SGD([table], 1e-3))
    with pytest.raises(wy.errors.Diverged) as caught:
        program.epoch({row: np.arange(6400) * 7 % 64}, batch_size=4, threads=2)
    assert caught.value.rows is None
