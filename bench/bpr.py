"""Bayesian personalised ranking: an epoch of MovieLens 100K, vs `implicit`'s Cython, PyTorch and JAX.

`python -m bench.bpr` prints how well wyrm and `implicit` rank held-out items after the same number of epochs.

All but `implicit` minimize the same loss by Adagrad in batches of 10 and sum duplicate rows of a batch. `implicit`
takes a plain gradient step per interaction and draws negatives among the interactions; by its default, it verifies
negatives and skips items that the user did interact with.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import wyrm as wy
from bench.harness import Case, Contender, Measurement, timed
from bench.models import BPR_BATCH, BPR_DEVIATION, BPR_RATE, MOVIELENS, THREADS, Recommender, has_movielens

EPSILON = 1e-10  # Adagrad
STEPS_A_CALL = 10  # compiled PyTorch: with one step per call it takes nearly twice as long; ten compile in 30 s
UNROLL = 4  # JAX
LEAST = 0.2  # seconds per round, so that threads left spinning by OpenMP do not matter

QUALITY_EPOCHS = 30
QUALITY_DIMENSIONS = 32
QUALITY_RATE = 0.02  # implicit: of 0.01, 0.02, 0.05, 0.1 and 0.2, the rate with the highest AUC on this split


def _wyrm(dimensions: int, threads: int) -> Callable[[], Measurement]:
    data = wy.data.read_movielens(MOVIELENS)
    model = Recommender(data.user_count, data.item_count, dimensions)
    return timed(lambda: model.epoch(data.users, data.items, threads), least=LEAST)


def _fitted_implicit(users: Any, items: Any, shape: tuple[int, int], **options: Any) -> tuple[Any, Any]:
    """Train a model of `implicit`; return it and its training matrix of users and items."""
    from implicit.cpu.bpr import BayesianPersonalizedRanking
    from scipy.sparse import csr_matrix

    matrix = csr_matrix((np.ones(len(users), np.float32), (users, items)), shape)
    model = BayesianPersonalizedRanking(num_threads=THREADS, random_state=0, **options)
    with threadpool_limits(1, "blas"):  # as implicit recommends
        model.fit(matrix, show_progress=False)
    return model, matrix


def implicit_epoch(users: Any, items: Any, shape: tuple[int, int], dimensions: int) -> tuple[Callable[[], None], int]:
    """Return an epoch of `implicit`, and the number of its interactions: equal ones are one."""
    from implicit.cpu.bpr import RNGVector, bpr_update

    model, matrix = _fitted_implicit(users, items, shape, factors=dimensions, iterations=2)
    # What `fit` calls for each iteration, without its setup.
    rows = np.repeat(np.arange(len(matrix.indptr) - 1), np.diff(matrix.indptr)).astype(matrix.indices.dtype)
    random = RNGVector(THREADS, len(rows) - 1, np.arange(THREADS))

    def epoch() -> None:
        bpr_update(
            random, rows, matrix.indices, matrix.indptr, model.user_factors, model.item_factors,
            model.learning_rate, model.regularization, THREADS, model.verify_negative_samples,
        )  # fmt: skip

    return epoch, matrix.nnz


def _implicit(dimensions: int) -> Callable[[], Measurement]:
    data = wy.data.read_movielens(MOVIELENS)
    epoch, _ = implicit_epoch(data.users, data.items, (data.user_count, data.item_count), dimensions)
    return timed(epoch, least=LEAST)


def _torch_tables(torch: Any, dimensions: int) -> tuple[Any, Any, Any, Any]:
    """Return the columns of users and items, and the tables; the last entry of an item's row is its bias."""
    data = wy.data.read_movielens(MOVIELENS)
    torch.manual_seed(0)
    users = torch.randn(data.user_count, dimensions) * BPR_DEVIATION
    items = torch.randn(data.item_count, dimensions + 1) * BPR_DEVIATION
    items[:, dimensions] = 0.0
    return torch.from_numpy(data.users), torch.from_numpy(data.items), users, items


def _torch(dimensions: int) -> Callable[[], Measurement]:
    """Dense gradients and fused Adagrad: for tables of this size, a little over half the time of sparse gradients."""
    import torch
    from torch.nn.functional import embedding

    torch.set_num_threads(1)  # arrays this small do not profit from more
    user_column, item_column, users, items = _torch_tables(torch, dimensions)
    tables = [users.requires_grad_(), items.requires_grad_()]
    optimizer = torch.optim.Adagrad(tables, BPR_RATE, fused=True)

    def epoch() -> float:
        order = torch.randperm(len(user_column))
        negatives = torch.randint(len(items), (len(order),))
        total = torch.zeros(())
        columns = (column.split(BPR_BATCH) for column in (user_column[order], item_column[order], negatives))
        for user, positive, negative in zip(*columns, strict=True):
            difference = embedding(positive, items) - embedding(negative, items)
            score = torch.linalg.vecdot(embedding(user, users), difference[:, :dimensions])
            loss = -(score + difference[:, dimensions]).sigmoid().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        return float(total) * BPR_BATCH / len(order)

    return timed(epoch)


def _torch_compile(dimensions: int) -> Callable[[], Measurement]:
    """Gradients of only the rows in a batch, hand-written Adagrad, ten steps per compiled call."""
    import torch

    torch.set_num_threads(1)
    user_column, item_column, users, items = _torch_tables(torch, dimensions)
    user_total, item_total = torch.zeros_like(users), torch.zeros_like(items)

    def batch_loss(user: Any, item: Any) -> Any:
        difference = item[:BPR_BATCH] - item[BPR_BATCH:]
        return -((user * difference[:, :dimensions]).sum(1) + difference[:, dimensions]).sigmoid().mean()

    gradient = torch.func.grad_and_value(batch_loss, argnums=(0, 1))

    def adagrad(table: Any, total: Any, rows: Any, change: Any) -> None:
        same = (rows[:, None] == rows)[:, :, None]
        change = (same * change).sum(1)  # duplicate rows get their summed gradient, so both writes are equal
        total[rows] = total[rows] + change * change
        table[rows] = table[rows] - BPR_RATE * change / (total[rows].sqrt() + EPSILON)

    def steps(user: Any, item: Any) -> Any:
        loss = 0.0
        for user_rows, item_rows in zip(user.unbind(), item.unbind(), strict=True):
            (user_change, item_change), one = gradient(users[user_rows], items[item_rows])
            adagrad(users, user_total, user_rows, user_change)
            adagrad(items, item_total, item_rows, item_change)
            loss = loss + one
        return loss

    compiled = torch.compile(steps, fullgraph=True)

    def epoch() -> float:
        order = torch.randperm(len(user_column)).view(-1, STEPS_A_CALL, BPR_BATCH)
        item = torch.cat((item_column[order], torch.randint(len(items), order.shape)), 2)
        total = torch.zeros(())
        for rows in zip(user_column[order].unbind(), item.unbind(), strict=True):
            total += compiled(*rows)
        return float(total) * BPR_BATCH / len(user_column)

    return timed(epoch)


def _jax(dimensions: int) -> Callable[[], Measurement]:
    """One jitted scan over all batches, with row updates in place in donated buffers."""
    import jax
    import jax.numpy as jnp

    data = wy.data.read_movielens(MOVIELENS)
    columns = jnp.asarray(data.users), jnp.asarray(data.items)
    steps = len(data) // BPR_BATCH

    def batch_loss(user: Any, item: Any) -> Any:
        difference = item[:BPR_BATCH] - item[BPR_BATCH:]
        return -jax.nn.sigmoid((user * difference[:, :dimensions]).sum(1) + difference[:, dimensions]).mean()

    def adagrad(table: Any, total: Any, rows: Any, change: Any) -> tuple[Any, Any]:
        same = rows[:, None] == rows
        change = same.astype(change.dtype) @ change  # duplicate rows get equal writes
        new = total[rows] + change * change
        step = BPR_RATE * change / (jnp.sqrt(new) + EPSILON)
        return table.at[rows].set(table[rows] - step), total.at[rows].set(new)

    def step(state: Any, rows: Any) -> tuple[Any, None]:
        users, items, user_total, item_total, loss = state
        user, item = rows
        one, (user_change, item_change) = jax.value_and_grad(batch_loss, argnums=(0, 1))(users[user], items[item])
        users, user_total = adagrad(users, user_total, user, user_change)
        items, item_total = adagrad(items, item_total, item, item_change)
        return (users, items, user_total, item_total, loss + one), None

    def whole(state: Any, key: Any, users: Any, items: Any) -> tuple[Any, Any]:
        shuffling, drawing = jax.random.split(key)
        order = jax.random.permutation(shuffling, len(users))[: steps * BPR_BATCH].reshape(steps, BPR_BATCH)
        negatives = jax.random.randint(drawing, order.shape, 0, data.item_count)
        rows = users[order], jnp.concatenate((items[order], negatives), 1)
        (*state, loss), _ = jax.lax.scan(step, (*state, 0.0), rows, unroll=UNROLL)
        return state, loss / steps

    jitted = jax.jit(whole, donate_argnums=0)
    keys = jax.random.split(jax.random.key(0), 2)
    users = BPR_DEVIATION * jax.random.normal(keys[0], (data.user_count, dimensions))
    items = BPR_DEVIATION * jax.random.normal(keys[1], (data.item_count, dimensions + 1)).at[:, dimensions].set(0.0)
    state = [users, items, jnp.zeros_like(users), jnp.zeros_like(items)]
    key = jax.random.key(1)

    def epoch() -> float:
        nonlocal state, key
        key, now = jax.random.split(key)
        state, loss = jitted(state, now, *columns)
        return float(loss)

    return timed(epoch, least=LEAST)


def cases() -> list[Case]:
    """An epoch over all interactions, for vectors of length 16, 32 and 64."""
    if not has_movielens("bpr"):
        return []
    peers: dict[str, Contender] = {
        "torch eager": partial(_torch, 16),
        "torch.compile": partial(_torch_compile, 16),
        "jax": partial(_jax, 16),
    }
    floors = {16: 1.8, 32: 1.8, 64: 1.6}
    return [
        Case(
            "bpr", f"epoch of MovieLens 100K, {dimensions} dimensions",
            {
                "wyrm": partial(_wyrm, dimensions, THREADS),
                "wyrm, 1 thread": partial(_wyrm, dimensions, 1),
                "implicit": partial(_implicit, dimensions),
                **(peers if dimensions == 16 else {}),
            },
            floors={"implicit": floor, "wyrm, 1 thread": 1.4},
            slow=("torch.compile",) if dimensions == 16 else (),
        )
        for dimensions, floor in floors.items()
    ]  # fmt: skip


def quality() -> None:
    """Print AUC and MRR on a fifth of the interactions, after equal numbers of epochs on the rest."""
    data = wy.data.read_movielens(MOVIELENS)
    train, test = wy.data.train_test_split(data.dataset(), test_fraction=0.2, seed=0)
    shape = data.user_count, data.item_count
    known, relevant = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    known[train["users"], train["items"]] = True
    relevant[test["users"], test["items"]] = True

    def show(name: str, scores: Any) -> None:
        auc = wy.metrics.mean_ranking_auc(scores, relevant, exclude=known)
        rows = test["users"]
        mrr = wy.metrics.mean_reciprocal_rank(scores[rows], test["items"], exclude=known[rows])
        print(f"{name:<10}AUC {auc:.4f}, MRR {mrr:.4f}")

    print(f"after {QUALITY_EPOCHS} epochs at {QUALITY_DIMENSIONS} dimensions, {len(test):,} held-out interactions")
    fitted, _ = _fitted_implicit(
        train["users"], train["items"], shape,
        factors=QUALITY_DIMENSIONS, iterations=QUALITY_EPOCHS, learning_rate=QUALITY_RATE,
    )  # fmt: skip
    show("implicit", fitted.user_factors @ fitted.item_factors.T)
    model = Recommender(*shape, QUALITY_DIMENSIONS)
    for _ in range(QUALITY_EPOCHS):
        model.epoch(train["users"], train["items"])
    show("wyrm", model.scores())


if __name__ == "__main__":
    quality()
