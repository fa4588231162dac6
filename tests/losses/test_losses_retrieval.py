"""Losses of items among many against PyTorch and dense formulas: values, gradients, open batches, every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.against_torch import check_against_torch
from tests.pytorch import functional, torch
from wyrm import losses
from wyrm.errors import DTypeError, IndexOutOfRange, OptionError, ShapeError
from wyrm.testing import check_grads

RANDOM = np.random.default_rng(5)
QUERY: Any = RANDOM.normal(size=(6, 4))
POSITIVE: Any = RANDOM.normal(size=(6, 4))
ITEMS: Any = np.array([3, 0, 3, 5, 0, 1])
LOG_Q = np.log(RANDOM.dirichlet(np.ones(8)))
REDUCTIONS: Any = ["mean", "sum", "none"]


class Batch(wy.Dim): ...


class Features(wy.Dim): ...


def parameter(array: Any, *dims: wy.Dim, name: str | None = None) -> Any:
    return wy.Parameter(array, dims or None, name=name)


def torch_info_nce(
    query: Any, positive: Any, reduction: str, temperature: float = 1.0, symmetric: bool = False,
    normalize: bool = False, items: Any = None, log_frequency: Any = None,
) -> Any:  # fmt: skip
    if normalize:
        query, positive = functional.normalize(query), functional.normalize(positive)
    scores = query @ positive.T / temperature
    if items is not None:
        same = torch.tensor(items[:, None] == items) & ~torch.eye(len(items), dtype=torch.bool)
        scores = scores.masked_fill(same, -torch.inf)
    frequency = 0.0 if log_frequency is None else torch.tensor(log_frequency if items is None else log_frequency[items])
    labels = torch.arange(len(query))
    found = functional.cross_entropy(scores - frequency, labels, reduction=reduction)
    return (found + functional.cross_entropy(scores.T, labels, reduction=reduction)) / 2 if symmetric else found


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    "options",
    [
        {}, {"temperature": 0.07}, {"symmetric": True}, {"normalize": True, "temperature": 0.5},
        {"log_frequency": LOG_Q[:6]}, {"items": ITEMS}, {"items": ITEMS, "log_frequency": LOG_Q, "symmetric": True},
    ],
    ids=lambda options: "-".join(options),
)  # fmt: skip
def test_info_nce_is_pytorchs(options: dict[str, Any], reduction: Any) -> None:
    check_against_torch(
        lambda x, y: losses.info_nce(x, y, **options, reduction=reduction),
        lambda x, y: torch_info_nce(x, y, reduction, **options),
        [QUERY, POSITIVE],
        second_order=False,
    )


def test_a_temperature_that_is_learned() -> None:
    scale = parameter(np.log(np.array(0.2)), name="scale")
    loss = losses.info_nce(parameter(QUERY), parameter(POSITIVE), temperature=scale.exp(), symmetric=True)
    wanted = torch_info_nce(torch.tensor(QUERY), torch.tensor(POSITIVE), "mean", 0.2, True)
    np.testing.assert_allclose(loss.forward(), wanted.numpy(), rtol=1e-12)
    check_grads(loss)


def both_engines(node: Any, data: dict[Any, Any], rtol: float = 2e-5) -> np.ndarray:
    """Return the value of a node; native code and JAX give the same."""
    for leaf, array in data.items():
        leaf.set(array)
    value: np.ndarray = node.forward()
    for engine in ("native", "jax"):
        np.testing.assert_allclose(wy.compile(node, engine=engine)(data), value, rtol=rtol, atol=1e-5)
    return value


@pytest.mark.parametrize("rows", [6, 1, 3])
def test_the_batch_may_have_any_size(rows: int) -> None:
    batch = Batch()
    query, positive = (wy.Input(dims=(batch, 4), name=name) for name in ("query", "positive"))
    items = wy.IndexInput(dims=(batch,), name="items")
    losses_of_rows = losses.info_nce(
        query, positive, temperature=0.5, symmetric=True, items=items, log_frequency=LOG_Q, reduction="none"
    )
    assert losses_of_rows.dims == (batch,)
    found = both_engines(losses_of_rows, {query: QUERY[:rows], positive: POSITIVE[:rows], items: ITEMS[:rows]})
    first, second = torch.tensor(QUERY[:rows]), torch.tensor(POSITIVE[:rows])
    wanted = torch_info_nce(first, second, "none", 0.5, True, items=ITEMS[:rows], log_frequency=LOG_Q)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["info_nce", "sampled_softmax", "warp", "implicit_squares"])
def test_weights_of_samples(name: str) -> None:
    operands: dict[str, tuple[Any, ...]] = {
        "info_nce": (parameter(QUERY), parameter(POSITIVE)),
        "sampled_softmax": (parameter(QUERY[:, 0]), parameter(POSITIVE)),
        "warp": (parameter(QUERY[:, 0]), parameter(POSITIVE)),
        "implicit_squares": (parameter(QUERY), parameter(POSITIVE), ITEMS[:, None]),
    }
    options: dict[str, Any] = {"num_items": 50} if name == "warp" else {}
    loss, weights = getattr(losses, name), RANDOM.uniform(0.5, 2.0, 6)
    each = loss(*operands[name], **options, reduction="none").forward()
    assert each.shape == (6,)
    for reduction, wanted in (("sum", (each * weights).sum()), ("mean", (each * weights).sum() / weights.sum())):
        found = loss(*operands[name], **options, sample_weight=weights, reduction=reduction)
        np.testing.assert_allclose(found.forward(), wanted, rtol=1e-12)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shared", [False, True])
def test_sampled_softmax_is_pytorchs(reduction: Any, shared: bool) -> None:
    drawn = np.array([3, 1, 7]) if shared else RANDOM.integers(0, 8, (6, 3))

    def wanted(positive: Any, negative: Any) -> Any:
        scores = torch.cat([positive[:, None] - torch.tensor(LOG_Q[ITEMS])[:, None],
                            negative - torch.tensor(LOG_Q[drawn])], 1)  # fmt: skip
        hits = np.concatenate([np.zeros((6, 1), bool), np.broadcast_to(drawn == ITEMS[:, None], (6, 3))], 1)
        masked = scores.masked_fill(torch.tensor(hits), -torch.inf)
        return functional.cross_entropy(masked, torch.zeros(6, dtype=torch.long), reduction=reduction)

    items: Any = wy.IndexInput(ITEMS), wy.IndexInput(drawn)
    check_against_torch(
        lambda x, y: losses.sampled_softmax(x, y, items=items, log_frequency=LOG_Q, reduction=reduction),
        wanted,
        [QUERY[:, 0], POSITIVE[:, :3]],
        second_order=False,
    )


def test_without_items_it_is_the_softmax_of_the_scores_alone() -> None:
    positive, negative = parameter(QUERY[:, 0]), parameter(POSITIVE)
    scores = wy.concatenate([positive.expand_dims(-1), negative], axis=-1)
    wanted = scores.cross_entropy(np.zeros(6, np.int64))
    found = losses.sampled_softmax(positive, negative)
    np.testing.assert_allclose(found.forward(), wanted.forward(), rtol=1e-12)
    check_grads(found)
    huge = losses.sampled_softmax(wy.Constant([1e4, -1e4]), wy.Constant([[-1e4], [1e4]]), reduction="none")
    assert huge.forward().tolist() == [0.0, 20000.0]


def test_the_correction_finds_the_probabilities_whatever_is_drawn() -> None:
    """At the minimum, the softmax of the scores is the distribution of the chosen items; without it, far from it."""
    truth = np.array([0.3, 0.05, 0.2, 0.15, 0.1, 0.2])
    popularity = np.array([8.0, 1.0, 1.0, 4.0, 2.0, 4.0])
    chosen, batch = wy.IndexInput(dims=(Batch(),)), Batch()
    drawn = wy.random.index(6, (batch, 3), weights=popularity, stream=0)
    far = []
    for options in ({"log_frequency": np.log(popularity)}, {}):
        scores = parameter(np.zeros(6))
        loss = losses.sampled_softmax(scores.index(chosen), scores.index(drawn), items=(chosen, drawn), **options)
        train = wy.compile(loss, wy.optim.SGD([scores], wy.optim.Exponential(2.0, factor=0.998)))
        column = np.random.default_rng(0).permutation(np.repeat(np.arange(6), (truth * 6000).astype(int)))
        for _ in range(30):
            train.epoch({chosen: column}, batch_size=100)
        found = np.exp(scores.value - scores.value.max())
        far.append(np.abs(found / found.sum() - truth).max())
    assert far[0] < 0.05 < 0.15 < far[1]


def warp_by_hand(positive: Any, negative: Any, items: int, margin: float) -> tuple[Any, Any, Any]:
    """Return the losses and their gradients, one row and one drawn item after the other."""
    each, down, up = np.zeros(len(positive)), np.zeros(len(positive)), np.zeros(negative.shape)
    for row, score in enumerate(positive):
        for trial, other in enumerate(negative[row]):
            if other > score - margin:
                weight = sum(1.0 / rank for rank in range(1, (items - 1) // (trial + 1) + 1))
                each[row], down[row], up[row, trial] = weight * (margin - score + other), -weight, weight
                break
    return each, down, up


@pytest.mark.parametrize("margin", [0.0, 1.0])
def test_warp_is_what_a_loop_over_draws_gives(margin: float) -> None:
    scores = RANDOM.normal(size=40) + 1.0
    positive, negative = parameter(scores), parameter(RANDOM.normal(size=(40, 5)))
    found = losses.warp(positive, negative, num_items=7, margin=margin, reduction="none")
    each, down, up = warp_by_hand(positive.value, negative.value, 7, margin)
    assert (each == 0.0).any() and len(set(np.round(-down, 6))) > 3
    np.testing.assert_allclose(found.forward(), each, rtol=1e-12)
    gradients = wy.grad(found.sum(), (positive, negative))
    for gradient, wanted in zip(gradients, (down, up), strict=True):
        np.testing.assert_allclose(gradient.forward(), wanted, rtol=1e-12)
    both_engines(found, {}, 1e-12)
    check_grads(found)


@pytest.mark.parametrize("items", [2, 4, 50])
def test_warp_takes_a_number_of_draws_that_data_decides(items: int) -> None:
    """Also more draws than there are items."""
    batch, draws = wy.Dim(), wy.Dim()
    positive, negative = wy.Input(dims=(batch,), name="positive"), wy.Input(dims=(batch, draws), name="negative")
    loss = losses.warp(positive, negative, num_items=items, reduction="none")
    for count in (1, 9):
        scores = RANDOM.normal(size=30).astype(np.float32) + 2.0, RANDOM.normal(size=(30, count)).astype(np.float32)
        found = both_engines(loss, {positive: scores[0], negative: scores[1]}, 1e-5)
        np.testing.assert_allclose(found, warp_by_hand(*scores, items, 1.0)[0], rtol=1e-5, atol=1e-6)


def warp_of_tables(of_items: bool) -> tuple[Any, list[Any], list[Any]]:
    """Return the loss by WARP of users and items with biases, its tables, and its inputs."""
    batch, random = Batch(), np.random.default_rng(3)
    users, items = (
        parameter(random.normal(size=(7, 4)), name="users"),
        parameter(random.normal(size=(50, 4)), name="items"),
    )
    biases = parameter(random.normal(size=50), name="biases")
    user, item = wy.IndexInput(dims=(batch,), name="user"), wy.IndexInput(dims=(batch,), name="item")
    drawn = wy.random.index(50, (batch, 6), exclude=[[0, 3]] * 7, rows=user, stream=1)
    vectors = users.index(user)

    def score(of: Any) -> Any:
        return (vectors.expand_dims(1) * items.index(of)).sum(-1) + biases.index(of)

    positive = score(item.expand_dims(1)).squeeze(-1)
    if of_items:
        loss = losses.warp(positive, score, items=drawn, num_items=50)
    else:
        loss = losses.warp(positive, score(drawn), num_items=50)
    return loss, [users, items, biases], [user, item]


def test_warp_of_a_function_of_items_is_that_of_their_scores() -> None:
    data = RANDOM.integers(0, 7, 30), RANDOM.integers(0, 50, 30)
    found, touched = list[list[Any]](), list[int]()
    for of_items in (False, True):
        loss, tables, inputs = warp_of_tables(of_items)
        for leaf, values in zip(inputs, data, strict=True):
            leaf.set(values)
        wy.random.set_step(4)
        loss.forward()
        loss.backward()
        found.append([loss.value, *(table.gradient for table in tables)])
        touched.append(len(tables[1].row_gradient.rows))
    assert np.count_nonzero(found[1][2].any(-1)) > 5 and touched[1] < touched[0]
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_warp_of_a_function_of_items_trains_alike_in_every_engine(engine: Any) -> None:
    data = np.random.default_rng(0).integers(0, 7, 64), np.random.default_rng(1).integers(0, 50, 64)
    after: list[list[Any]] = []
    for of_items, kind in ((False, "native"), (True, engine)):
        loss, tables, inputs = warp_of_tables(of_items)
        program = wy.compile(loss, wy.optim.Adagrad(tables, 0.1), engine=kind)
        wy.random.set_step(0)
        program.epoch(dict(zip(inputs, data, strict=True)), batch_size=10)
        after.append([table.value for table in tables])
    for one, other in zip(*after, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-11)


def test_native_code_scores_items_until_one_counts() -> None:
    loss, tables, _ = warp_of_tables(True)
    assert "break" in wy.compile(loss, wy.optim.SGD(tables, 0.1)).source


def squares_by_hand(users: Any, items: Any, chosen: Any, confidence: Any, unobserved: float) -> Any:
    shape = len(users), len(items)
    target, weight = torch.zeros(shape, dtype=torch.float64), torch.full(shape, unobserved, dtype=torch.float64)
    for row, rated in enumerate(chosen):
        for place, item in enumerate(rated):
            if item >= 0:
                target[row, item], weight[row, item] = 1.0, float(np.broadcast_to(confidence, chosen.shape)[row, place])
    return (weight * (target - users @ items.T) ** 2).sum(1)


CHOSEN = np.array([[0, 3, -1], [5, -1, -1], [1, 2, 4], [-1, -1, -1]])


@pytest.mark.parametrize("confidence", [3.0, RANDOM.uniform(1.0, 5.0, (4, 3))])
@pytest.mark.parametrize("unobserved", [0.0, 0.3])
def test_implicit_squares_are_the_dense_sum(confidence: Any, unobserved: float) -> None:
    check_against_torch(
        lambda x, y: losses.implicit_squares(
            x, y, CHOSEN, confidence=confidence, unobserved=unobserved, ignore_index=-1, reduction="none"
        ),
        lambda x, y: squares_by_hand(x, y, CHOSEN, confidence, unobserved),
        [QUERY[:4], POSITIVE],
    )


def test_its_minimum_over_users_is_that_of_alternating_least_squares() -> None:
    """Gradient descent on the users alone ends where a step of ALS, a linear system for each user, does."""
    batch = Batch()
    users, items = parameter(np.zeros((4, 4))), wy.Constant(POSITIVE)
    rows, chosen = wy.IndexInput(dims=(batch,)), wy.IndexInput(dims=(batch, 3))
    ridge = 0.1
    loss = losses.implicit_squares(
        users.index(rows), items, chosen, confidence=5.0, unobserved=0.5, ignore_index=-1, reduction="sum"
    )
    loss = loss + ridge * users.index(rows).square().sum()
    train = wy.compile(loss, wy.optim.SGD([users], learning_rate=0.02))
    for _ in range(2000):
        train.epoch({rows: np.arange(4), chosen: CHOSEN}, batch_size=2)
    for row, rated in enumerate(CHOSEN):
        weight = np.full(6, 0.5)
        weight[rated[rated >= 0]] = 5.0
        target = np.isin(np.arange(6), rated)
        system = POSITIVE.T @ (weight[:, None] * POSITIVE) + ridge * np.eye(4)
        np.testing.assert_allclose(users.value[row], np.linalg.solve(system, POSITIVE.T @ (weight * target)), atol=1e-6)


def test_each_recommender_loss_learns_natively() -> None:
    """From 40 users of four tastes, each loss learns to score a user's own taste above the others."""
    batch, count, catalog = Batch(), 40, 60
    user, liked = wy.IndexInput(dims=(batch,), name="user"), wy.IndexInput(dims=(batch,), name="liked")
    random = np.random.default_rng(0)
    pairs = np.array([(u, i) for u in range(count) for i in random.choice(catalog // 4, 6, False) * 4 + u % 4])
    for name in ("info_nce", "sampled_softmax", "warp"):
        users, items = wy.nn.Embedding(count, 8, seed=0), wy.nn.Embedding(catalog, 8, seed=1)
        vectors, positive = users(user), items(liked)
        drawn = wy.random.index(catalog, (10,), stream=0)
        scores = vectors.vector_dot(positive), vectors @ items(drawn).T
        loss: Any
        if name == "info_nce":
            loss = losses.info_nce(vectors, positive, items=liked)
        elif name == "sampled_softmax":
            loss = losses.sampled_softmax(*scores, items=(liked, drawn))
        else:
            loss = losses.warp(*scores, num_items=catalog)
        train = wy.compile(loss, wy.optim.Adagrad([users.weight, items.weight], 0.3))
        for epoch in range(40):
            train.epoch({user: pairs[:, 0], liked: pairs[:, 1]}, batch_size=30, shuffle=True, seed=epoch)
        ranked = (users.weight.value @ items.weight.value.T).argsort(1)[:, -5:]
        assert (ranked % 4 == np.arange(count)[:, None] % 4).mean() > 0.9, name


def test_errors() -> None:
    query, positive = parameter(QUERY, name="query"), parameter(POSITIVE, name="positive")
    scores, wrong = parameter(QUERY[:, 0], name="scores"), parameter(POSITIVE[:4], name="wrong")
    anything: Any = losses
    with pytest.raises(ShapeError, match=r"info_nce takes vectors of the axes \(batch, features\)"):
        anything.info_nce(scores, scores)
    with pytest.raises(ValueError, match="info_nce: temperature must be above 0, not 0"):
        losses.info_nce(query, positive, temperature=0.0)
    with pytest.raises(ShapeError, match="info_nce: temperature must be one number"):
        anything.info_nce(query, positive, temperature=scores)
    with pytest.raises(ShapeError, match="info_nce: items must have the batch"):
        losses.info_nce(query, positive, items=np.array([1, 2]))
    with pytest.raises(ShapeError, match="log_frequency must have the batch, or one number for each item with items="):
        losses.info_nce(query, positive, log_frequency=LOG_Q)
    with pytest.raises(ShapeError, match="log_frequency must have one number for each item"):
        losses.info_nce(query, positive, items=ITEMS, log_frequency=QUERY)
    with pytest.raises(IndexOutOfRange):
        losses.info_nce(query, positive, items=ITEMS + 4, log_frequency=LOG_Q).forward()
    with pytest.raises(ShapeError, match="sampled_softmax: positive must have the axes of negative but the last"):
        losses.sampled_softmax(scores, wrong)
    with pytest.raises(ValueError, match=r"log_frequency needs items=\(chosen, drawn\)"):
        losses.sampled_softmax(scores, positive, log_frequency=LOG_Q)
    with pytest.raises(ShapeError, match="the drawn items must have the axes of their scores, or the last of them"):
        losses.sampled_softmax(scores, positive, items=(wy.IndexConstant(ITEMS), wy.IndexConstant([1, 2])))
    with pytest.raises(ShapeError, match="warp: num_items must be a size of at least 2, not 1"):
        losses.warp(scores, positive, num_items=1)
    with pytest.raises(ShapeError, match="warp: num_items must be a size of at least 2"):
        losses.warp(scores, positive, num_items=Batch())
    with pytest.raises(ShapeError, match="implicit_squares: users and items must have the same features"):
        losses.implicit_squares(query, parameter(np.ones((5, 3))), ITEMS[:, None])
    with pytest.raises(ShapeError, match=r"takes users \(batch, features\), items \(items, features\)"):
        losses.implicit_squares(query, positive, ITEMS)
    with pytest.raises(ValueError, match="implicit_squares: unobserved must be at least 0"):
        losses.implicit_squares(query, positive, ITEMS[:, None], unobserved=-1.0)
    with pytest.raises(ValueError, match="implicit_squares: confidence must be at least 0"):
        losses.implicit_squares(query, positive, ITEMS[:, None], confidence=-np.ones((6, 1)))
    with pytest.raises(IndexOutOfRange):
        losses.implicit_squares(query, positive, ITEMS[:, None] + 1).forward()
    with pytest.raises(DTypeError):
        anything.warp(wy.IndexConstant([1]), positive, num_items=5)
    drawn = wy.IndexConstant(np.zeros((6, 3), np.int64))
    for negative, more in ((positive, {"items": drawn}), (lambda of: positive, {})):
        with pytest.raises(ValueError, match="warp: a function from items to scores needs items"):
            anything.warp(scores, negative, num_items=5, **more)
    three = parameter(np.zeros((6, 3)))
    for always in (positive, three):  # the second has the axes of the drawn items, not of those that count
        with pytest.raises(ShapeError, match=r"warp: negative\(items\) must have the axes of items"):
            anything.warp(scores, lambda of, found=always: found, num_items=5, items=drawn)
    with pytest.raises(ShapeError, match=r"warp: positive must have the axes of negative\(items\) but the last"):
        anything.warp(scores, lambda of: wrong, num_items=5, items=drawn)


def towers(batch: wy.Dim | None = None) -> tuple[Any, Any, Any, Any]:
    """Return vectors of users and of items, and the indices of both."""
    size = Batch() if batch is None else batch
    user, item = (wy.IndexInput(dims=(size,), name=name) for name in ("user", "item"))
    users, items = wy.nn.Embedding(8, 4), wy.nn.Embedding(8, 4)
    return users(user), items(item), user, item


def in_batch_softmax(users: Any, items: Any) -> Any:
    """The same loss by hand, as many write it."""
    return (users @ items.T).cross_entropy(wy.arange(users.dims[0]))


@pytest.mark.parametrize("make", [losses.info_nce, in_batch_softmax], ids=["info_nce", "by hand"])
@pytest.mark.parametrize("engine", ["native", "jax"])
def test_batches_of_one_row_have_no_negatives(make: Any, engine: str) -> None:
    users, items, user, item = towers()
    loss = make(users, items)
    program = wy.compile(loss, wy.optim.SGD(loss.parameters(), 0.1), engine=engine)
    columns = {user: ITEMS, item: ITEMS}
    before = [parameter.value.copy() for parameter in loss.parameters()]
    message = r"compares each row of a batch with the other rows, .* give batch_size="
    for wrong in (
        lambda: program.epoch(columns),
        lambda: wy.train.fit(program, columns, epochs=1),
        lambda: program.epoch(wy.data.DataLoader(wy.data.Dataset(user=ITEMS, item=ITEMS), 1)),
    ):
        with pytest.raises(OptionError, match=message):
            wrong()
    assert all((old == new.value).all() for old, new in zip(before, loss.parameters(), strict=True))
    # The last batch may have one row.
    assert program.epoch(columns, batch_size=5) > 0.0
    assert program.epoch(wy.data.DataLoader(wy.data.Dataset(user=ITEMS, item=ITEMS), 5)) > 0.0
    assert program.evaluate(columns) > 0.0


def test_classes_that_are_no_rows_take_batches_of_one() -> None:
    users, items, user, item = towers()
    loss = (users @ items.T).square().mean() + users.cross_entropy(user % 4)
    program = wy.compile(loss, wy.optim.SGD(loss.parameters(), 0.1))
    assert program.epoch({user: ITEMS, item: ITEMS}) > 0.0


def test_towers_in_the_wrong_place() -> None:
    users, items, user, item = towers()
    with pytest.raises(ShapeError, match=r"seems to be transposed, because data decides its last axis"):
        losses.info_nce(users.T, items.T)
    for first, second, numbers in ((items, users, item), (users, items, user)):
        with pytest.raises(ShapeError, match="does not: give the vectors of users first, then those of items"):
            losses.info_nce(first, second, items=numbers)
    with pytest.raises(DTypeError, match=r"look them up in a table, as in wy\.nn\.Embedding\(1000, 16\)\(indices\)"):
        losses.info_nce(users, item)
    alone = towers(Batch(1))
    with pytest.raises(ShapeError, match="has one row, whose item has no negatives; give it a batch axis"):
        losses.info_nce(alone[0], alone[1])
    # A history of the same items may be a part of the query.
    assert losses.info_nce(users + items, items, items=item).dims == ()
    assert losses.info_nce(items, users, items=user).dims == ()


def test_axes_keep_their_names() -> None:
    batch, width = Batch(6), Features(4)
    x, y = parameter(QUERY, batch, width), parameter(POSITIVE, batch, width)
    assert losses.info_nce(x, y, reduction="none").dims == (batch,)
    assert losses.sampled_softmax(x.sum(-1), x @ y.T, reduction="none").dims == (batch,)
    assert losses.warp(x.sum(-1), y, num_items=9, reduction="none").dims == (batch,)
    assert losses.implicit_squares(x, y, ITEMS[:, None], reduction="none").dims == (batch,)
