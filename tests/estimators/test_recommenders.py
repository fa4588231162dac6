"""Recommenders: what they learn beside slow references, ids, new users and items, files, and bad input."""

from __future__ import annotations

import copy
import math
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.__main__ import main
from wyrm.engines.native.llvm import library
from wyrm.estimators.recommenders import ALS, EASE, Hybrid, Popular, Recommender, SASRec, compare, evaluate
from wyrm.estimators.recommenders.factors import FactorRecommender, Solver
from wyrm.estimators.recommenders.history import Rows

# A loss that there is not, as an argument of any type.
HINGE: Any = "hinge"
MODELS: list[Recommender] = [
    Popular(), EASE(10.0), ALS(4, iterations=2), Hybrid("warp", 4, epochs=2), Hybrid("bpr", 4, epochs=2),
    Hybrid("logistic", 4, epochs=2), SASRec(4, length=5, epochs=2, negatives=4),
]  # fmt: skip
each_model = pytest.mark.parametrize(
    "model", MODELS, ids=lambda model: type(model).__name__ + getattr(model, "loss", "")
)


def fresh(model: Recommender) -> Recommender:
    return copy.deepcopy(model)


def clicks(users: int = 30, items: int = 20, seed: int = 0) -> wy.data.Interactions:
    """Return interactions whose ids are texts."""
    data = wy.data.low_rank_preferences(users, items, rank=2, interactions_per_user=6, seed=seed)
    named = [f"u{user}" for user in data.users], [f"i{item}" for item in data.items]
    return wy.data.Interactions.of(*named, timestamps=data.timestamps)


def had(data: wy.data.Interactions, user: str) -> set[str]:
    return set(data.item_ids[data.items[data.users == data.user_index.index(user)]].tolist())


# --- protocol ---------------------------------------------------------------------------------------------------------


@each_model
def test_items_that_a_user_had_or_that_are_excluded_are_never_recommended(model: Recommender) -> None:
    data, model = clicks(), fresh(model)
    model.fit(data)
    for user in ("u0", "u7"):
        found = model.recommend(user, 100, exclude=["i3", "i4"])
        left = set(data.item_ids.tolist()) - had(data, user) - {"i3", "i4"}
        assert set(found.items.tolist()) == left
        assert len(found.items) == len(left) == len(found.scores)
        assert (np.diff(found.scores) <= 0.0).all()
    several = model.recommend(["u0", "u7"], 20, exclude=["i3"])
    for user, items, scores in zip(("u0", "u7"), several.items, several.scores, strict=True):
        named = [each for each in items.tolist() if each is not None]
        assert set(named) == set(data.item_ids.tolist()) - had(data, user) - {"i3"}
        assert items[len(named) :].tolist() == [None] * (20 - len(named))
        assert np.isneginf(scores[len(named) :]).all()
    assert set(model.recommend("u0", 100, seen=True).items.tolist()) == set(data.item_ids.tolist())
    assert model.recommend(["u0", "u7"], 3).items.dtype == data.item_ids.dtype


@each_model
def test_the_same_data_and_seed_give_the_same_bits(model: Recommender) -> None:
    first, second = (fresh(model).fit(clicks()).recommend(["u1", "u2"], 5) for _ in range(2))
    assert (first.items == second.items).all()
    assert (first.scores == second.scores).all()


@each_model
def test_a_file_and_a_pickle_have_ids_options_and_all_that_was_learned(model: Recommender, tmp_path: Path) -> None:
    model = fresh(model).fit(clicks())
    model.fold_in({"user_id": ["new"], "item_id": ["i1"]})
    path = tmp_path / "model.safetensors"
    model.save(path)
    for other in (Recommender.load(path), type(model).load(path), pickle.loads(pickle.dumps(model))):
        assert type(other) is type(model)
        assert repr(other) == repr(model)
        for user in ("u3", "new"):
            assert other.recommend(user, 5).items.tolist() == model.recommend(user, 5).items.tolist()
        assert other.similar_items("i2", 3).items.tolist() == model.similar_items("i2", 3).items.tolist()
        other.partial_fit(clicks(40, 25, seed=1)).recommend("u35", 2)


@each_model
def test_new_users_and_items_are_learned_and_old_ids_keep_their_numbers(model: Recommender) -> None:
    data, model = clicks(), fresh(model)
    model.fit(data)
    before = model.item_ids.tolist()
    model.partial_fit({"user_id": ["u0", "zoe", "zoe"], "item_id": ["lamp", "lamp", "i5"]})
    assert model.item_ids.tolist() == [*before, "lamp"]
    assert model.user_ids.tolist()[-1] == "zoe"
    assert "lamp" not in model.recommend("u0", 100).items
    assert "lamp" in model.recommend("u1", 100).items
    assert {"lamp", "i5"}.isdisjoint(model.recommend("zoe", 100).items.tolist())


@each_model
def test_a_user_is_folded_in_and_items_stay_as_they_are(model: Recommender) -> None:
    data, model = clicks(), fresh(model)
    model.fit(data)
    before = {name: array.copy() for name, array in model.state.items()}
    similar = model.similar_items("i1", 5).scores
    model.fold_in({"user_id": ["zoe", "zoe", "u0"], "item_id": ["i1", "i2", "i9"]})
    assert {"i1", "i2"}.isdisjoint(model.recommend("zoe", 100).items.tolist())
    assert "i9" not in model.recommend("u0", 100).items
    if not isinstance(model, Popular):  # whose likeness is that of users, with those folded in
        assert (model.similar_items("i1", 5).scores == similar).all()
    known = len(data.user_ids)
    others = np.flatnonzero(data.user_ids != "u0")
    for name, array in before.items():
        if name in ("users", "user.own"):
            assert (model.state[name][others] == array[:known][others]).all()
        elif not name.startswith("user."):
            assert (model.state[name] == array).all(), name


@each_model
def test_similar_items_leave_out_the_item_itself(model: Recommender) -> None:
    model = fresh(model).fit(clicks())
    found = model.similar_items("i1", 100)
    assert "i1" not in found.items
    assert len(found.items) == len(model.item_ids) - 1
    assert model.similar_items(["i1", "i2"], 3).items.shape == (2, 3)


# --- what is learned --------------------------------------------------------------------------------------------------


def test_ease_solves_the_ridge_regression_of_each_item_on_the_others() -> None:
    data = clicks()
    model = EASE(5.0).fit(data)
    matrix = np.zeros((data.user_count, data.item_count))
    matrix[data.users, data.items] = 1.0
    for item in range(data.item_count):
        others = np.delete(np.arange(data.item_count), item)
        x = matrix[:, others]
        expected = np.linalg.solve(x.T @ x + 5.0 * np.eye(len(others)), x.T @ matrix[:, item])
        np.testing.assert_allclose(model.state["weights"][others, item], expected, atol=1e-5)
    np.testing.assert_allclose(model._scores(np.arange(3)), matrix[:3] @ model.state["weights"], atol=1e-5)


def als_loss(users: Any, items: Any, matrix: Any, confidence: float, regularization: float) -> float:
    errors = (1.0 + confidence * matrix) * ((matrix > 0.0) - users @ items.T) ** 2
    return float(errors.sum() + regularization * ((users**2).sum() + (items**2).sum()))


def test_als_solves_for_users_exactly_and_its_loss_descends() -> None:
    data = clicks()
    matrix = np.zeros((data.user_count, data.item_count))
    matrix[data.users, data.items] = 1.0
    losses = []
    for iterations in (1, 2, 5):
        model = ALS(4, iterations=iterations, confidence=3.0, regularization=0.5).fit(data)
        users, items = (model.state[name].astype(np.float64) for name in ("users", "items"))
        losses.append(als_loss(users, items, matrix, 3.0, 0.5))
    assert losses[0] > losses[1] > losses[2]
    for user in range(data.user_count):
        weight = 1.0 + 3.0 * matrix[user]
        system = (items.T * weight) @ items + 0.5 * np.eye(4)
        expected = np.linalg.solve(system, items.T @ (weight * (matrix[user] > 0.0)))
        np.testing.assert_allclose(users[user], expected, atol=2e-4)


def test_the_solver_of_many_rows_and_that_of_few_agree_with_least_squares() -> None:
    random = np.random.default_rng(0)
    table, biases = random.standard_normal((12, 5)).astype(np.float32), random.standard_normal(12).astype(np.float32)
    offsets = np.array([0, 3, 3, 7, 8, 12, 14])
    items = np.concatenate([random.permutation(12)[:count] for count in np.diff(offsets)])
    weights = random.standard_normal(len(items)).astype(np.float32)
    rows, solver = Rows(offsets, items, weights), Solver(table, 2.0, 0.7, biases=biases, goal=3.0)
    many = solver.solve(rows)
    few = np.concatenate([solver.solve(rows.take(np.array([row]))) for row in range(6)])
    np.testing.assert_allclose(many, few, rtol=1e-4, atol=1e-5)
    for row in range(6):
        counts, wanted = np.ones(12), np.zeros(12)
        part = slice(offsets[row], offsets[row + 1])
        counts[items[part]] += 2.0 * np.abs(weights[part])
        wanted[items[part]] = 3.0 * (weights[part] > 0.0)
        root = np.sqrt(counts)[:, None]
        system = np.concatenate([root * table, np.sqrt(0.7) * np.eye(5)])
        right = np.concatenate([root[:, 0] * (wanted - biases), np.zeros(5)])
        np.testing.assert_allclose(many[row], np.linalg.lstsq(system, right, rcond=None)[0], rtol=1e-3, atol=1e-4)


def test_as_many_steps_of_conjugate_gradients_as_factors_are_exact() -> None:
    random = np.random.default_rng(1)
    table, offsets = random.standard_normal((12, 3)).astype(np.float32), np.arange(0, 49, 4)
    rows = Rows(offsets, random.integers(0, 12, 48), random.random(48).astype(np.float32))
    rows, solver = rows.distinct(12), Solver(table, 2.0, 0.7)
    start = random.standard_normal((12, 3)).astype(np.float32)
    exact = solver.solve(rows)
    np.testing.assert_allclose(solver.solve(rows, start), exact, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(solver.solve(rows, exact), exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "model", [ALS(8), Hybrid("warp", 8), Hybrid("bpr", 8), EASE(50.0)], ids=["als", "warp", "bpr", "ease"]
)
def test_ten_clicks_of_new_users_recall_almost_as_much_as_a_fit_of_all(model: Recommender) -> None:
    data = wy.data.low_rank_preferences(600, 100, rank=4, interactions_per_user=20, seed=0)
    new, late = data.users >= 500, data.timestamps >= 10

    def some(rows: Any) -> wy.data.Interactions:
        return wy.data.Interactions.of(data.users[rows], data.items[rows], timestamps=data.timestamps[rows])

    later = some(new & late)
    folded = fresh(model).fit(some(~new)).fold_in(some(new & ~late))
    whole = fresh(model).fit(some(~(new & late)))
    assert evaluate(folded, later)[0] > 0.95 * evaluate(whole, later)[0] > 0.25


def test_weights_of_an_item_that_a_user_has_several_times_are_added() -> None:
    once = wy.data.Interactions.of(["a", "a", "b", "b"], ["x", "y", "y", "z"], [3.0, 1.0, 1.0, 1.0])
    often = wy.data.Interactions.of(["a", "a", "a", "b", "b"], ["x", "x", "y", "y", "z"], [1.0, 2.0, 1.0, 1.0, 1.0])
    tables = []
    for data in (once, often):
        model = ALS(3, iterations=3)
        # Weights count beside their mean, which repeated rows change.
        model.confidence = 2.0 * float(data.ratings.mean())
        tables.append(model.fit(data).state["users"])
    np.testing.assert_allclose(tables[0], tables[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("loss", ["warp", "bpr", "logistic"])
def test_a_hybrid_learns_a_new_item_from_its_tags_alone(loss: Any) -> None:
    random = np.random.default_rng(0)
    users, items = np.repeat(np.arange(60), 8), random.integers(0, 20, 480)
    items = items // 2 * 2 + users % 2  # users with an odd number like items with an odd number
    features = {"item_id": np.arange(20), "kind": np.where(np.arange(20) % 2, "odd", "even"), "year": np.arange(20.0)}
    data = wy.data.Interactions.of(users, items).with_features(items=features)
    model = Hybrid(loss, 8, epochs=30).fit(data)
    new = wy.data.Interactions.of([0, 1], [0, 1], item_ids=np.array([0, 1, 100, 101]))
    table = {"item_id": [0, 1, 100, 101], "kind": ["even", "odd"] * 2, "year": [0.0, 1.0, 1.0, 1.0]}
    model.epochs = 1
    model.partial_fit(new.with_features(items=table))
    for user in (2, 3):
        found = model.recommend(user, 30, seen=True)
        scores = dict(zip(found.items.tolist(), found.scores.tolist(), strict=True))
        assert scores[100 + user % 2] > scores[101 - user % 2]


def test_the_logistic_loss_learns_dislikes_and_others_refuse_them() -> None:
    users, items = np.repeat(np.arange(40), 6), np.tile(np.arange(6), 40)
    weights = np.where(items < 3, 1.0, -1.0)
    kept = np.random.default_rng(0).random(240) < 0.6
    data = wy.data.Interactions.of(users[kept], items[kept], weights[kept])
    model = Hybrid("logistic", 4, epochs=40).fit(data)
    scores = model._scores(np.arange(data.user_count))
    assert scores[:, :3].min(axis=1).mean() > scores[:, 3:].max(axis=1).mean()
    for other in (Popular(), EASE(), ALS(), Hybrid("bpr"), SASRec()):
        with pytest.raises(wy.errors.DataError, match=r"the weight of row \d+ is -1; .* takes weights above 0"):
            other.fit(data)


def test_sasrec_learns_what_comes_next() -> None:
    items = (np.arange(12) + np.arange(60)[:, None]) % 20
    data = wy.data.Interactions.of(np.repeat(np.arange(60), 12), items.ravel())
    model = SASRec(16, length=6, epochs=60, negatives=16, dropout=0.0).fit(data)
    found = model.recommend(range(20), 1).items[:, 0]
    assert (found == (np.arange(20) + 12) % 20).mean() > 0.9


# --- tables grow ------------------------------------------------------------------------------------------------------


def test_tables_grow_with_the_state_of_the_optimizer_and_old_rows_keep_their_bits() -> None:
    data = clicks()
    model = Hybrid("bpr", 4, epochs=3).fit(data)
    before, count = dict(model.state), len(data.user_ids)
    history = model._known()
    history.users.add(np.array([f"new{number}" for number in range(1000)]))
    for side in model._sides():
        side.grow(len(history.users if side.kind == "user" else history.items))
    for name in ("own", "own.total", "own_bias", "own_bias.total"):
        old, new = before[f"user.{name}"], model.state[f"user.{name}"]
        assert len(new) >= count + 1000
        assert (old[:count] == new[:count]).all()
    drawn = model.state["user.own"][count : count + 1000]
    assert (np.abs(drawn) <= 0.5 / 4).all()
    assert len(np.unique(drawn)) > 3900
    assert (model.state["user.own.total"][count : count + 1000] == 1.0).all()
    assert (before["user.own.total"][:count] > 1.0).any()


@pytest.mark.parametrize("model", [Hybrid("warp", 4, epochs=1), Hybrid("logistic", 4), SASRec(4, length=5, epochs=1)])
def test_ten_thousand_new_ids_compile_nothing(model: Recommender, monkeypatch: pytest.MonkeyPatch) -> None:
    data, model = clicks(), fresh(model)
    model.fit(data).partial_fit({"user_id": ["a", "a"], "item_id": ["i1", "new"]})
    assert model.recommend("a", 3).scores.shape == (3,)
    made, prepare = list[object](), library.CompiledFunction.__init__

    def counted(function: Any, *arguments: Any, **options: Any) -> None:
        made.append(function)
        prepare(function, *arguments, **options)

    monkeypatch.setattr(library.CompiledFunction, "__init__", counted)
    monkeypatch.setattr(library, "_load", lambda *_: pytest.fail("code is loaded"))
    names = [f"new{number}" for number in range(10_000)]
    users = ["b"] * len(names) if isinstance(model, SASRec) else names
    other = fresh(model).partial_fit({"user_id": users, "item_id": names})
    assert len(other.item_ids) == len(model.item_ids) + len(names)
    assert other.recommend("a", 3).scores.shape == (3,)
    assert not made


def test_rows_that_partial_fit_does_not_meet_keep_their_bits() -> None:
    data = clicks()
    model = Hybrid("bpr", 4, epochs=3).fit(data)
    before = model.state["user.own"].copy()
    model.partial_fit({"user_id": ["u0", "zoe"], "item_id": ["lamp", "i1"]})
    others = np.flatnonzero(data.user_ids != "u0")
    assert (model.state["user.own"][others] == before[others]).all()
    met = np.flatnonzero(data.user_ids == "u0")
    assert (model.state["user.own"][met] != before[met]).any()


def test_als_learns_new_ids_almost_as_a_fit_of_all_does() -> None:
    data = wy.data.low_rank_preferences(200, 60, rank=3, interactions_per_user=12, seed=0)
    old = (data.users < 180) & (data.items < 55)
    first, rest = ((data.users[some], data.items[some]) for some in (old, ~old))
    model = ALS(8).fit(wy.data.Interactions.of(*first)).partial_fit(wy.data.Interactions.of(*rest))
    whole = ALS(8).fit(data)
    held_out = wy.data.low_rank_preferences(200, 60, rank=3, interactions_per_user=24, seed=0)
    later = wy.data.Interactions.of(held_out.users, held_out.items, user_ids=data.user_ids, item_ids=data.item_ids)
    assert evaluate(model, later)[0] > 0.93 * evaluate(whole, later)[0]


# --- measures ---------------------------------------------------------------------------------------------------------


def slow_measures(model: Recommender, held_out: dict[str, set[str]], k: int) -> tuple[float, float, float]:
    """Return recall, NDCG and coverage, from their definitions."""
    recalls, gains, recommended = [], [], set()
    for user, wanted in held_out.items():
        listed = model.recommend(user, k).items.tolist()
        recommended |= set(listed)
        wanted = wanted - had(clicks(), user)
        if wanted:
            recalls.append(len(wanted & set(listed)) / len(wanted))
            gain = sum(1.0 / math.log2(place + 2) for place, item in enumerate(listed) if item in wanted)
            gains.append(gain / sum(1.0 / math.log2(place + 2) for place in range(min(k, len(wanted)))))
    return float(np.mean(recalls)), float(np.mean(gains)), len(recommended) / len(model.item_ids)


@pytest.mark.parametrize("k", [1, 3, 10, 19])
@pytest.mark.parametrize("model", [Popular(), EASE(10.0)], ids=["ties", "no ties"])
def test_recall_ndcg_and_coverage_are_those_of_the_definitions(model: Recommender, k: int) -> None:
    model = fresh(model).fit(clicks())
    random = np.random.default_rng(k)
    held_out = {f"u{user}": {f"i{item}" for item in random.integers(0, 22, 4)} for user in range(0, 30, 2)}  # 2 unknown
    pairs = [(user, item) for user, items in held_out.items() for item in items]
    pairs += [("nobody", "i1"), pairs[0]]
    given = {"user_id": [user for user, _ in pairs], "item_id": [item for _, item in pairs]}
    np.testing.assert_allclose(evaluate(model, given, k), slow_measures(model, held_out, k), rtol=1e-12)


def test_compare_holds_out_the_latest_interactions_and_sorts_by_recall() -> None:
    data = clicks(60, 30)
    found = compare(data, [Popular(), EASE(10.0)], k=5, held_out=2)
    assert [each.recall for each in found] == sorted((each.recall for each in found), reverse=True)
    training, later = wy.data.leave_one_out(data, 2)
    for model, *measures, _ in found:
        assert len(model._known().rows.items) == len(training)
        assert tuple(measures) == evaluate(model, later, 5)


def test_the_command_prints_a_table_and_writes_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = clicks(60, 30)
    lines = [f"{data.user_ids[user]},{data.item_ids[item]},{time}" for user, item, time in zip(
        data.users, data.items, data.timestamps, strict=True
    )]  # fmt: skip
    path = tmp_path / "clicks.csv"
    path.write_text("\n".join(["userId,movieId,timestamp", *lines]))
    monkeypatch.setattr("wyrm.estimators.recommenders.comparing.default_models", lambda: [Popular(), EASE(10.0)])
    monkeypatch.setattr(sys, "argv", ["wyrm", "recommend", str(path), "--k", "5", "--held-out", "2"])
    main()
    said = capsys.readouterr().out
    assert repr(data) in said
    assert "recall@5" in said
    assert "EASE  " in said
    model = Recommender.load(tmp_path / "clicks.safetensors")
    assert len(model._known().rows.items) == 360
    assert model.recommend("u1", 3).items.shape == (3,)
    monkeypatch.setattr(sys, "argv", ["wyrm", "recommend", str(tmp_path / "none.csv")])
    with pytest.raises(SystemExit, match=r"cannot read .*none\.csv.*No such file"):
        main()


# --- interactions -----------------------------------------------------------------------------------------------------


def test_all_forms_of_interactions_are_the_same_model(tmp_path: Path) -> None:
    columns = {
        "user": ["b", "a", "b", "c"], "item": [30, 10, 20, 10], "rating": [1.0, 2.0, 4.0, 1.0], "time": [2, 1, 1, 3]
    }  # fmt: skip
    path = tmp_path / "ratings.csv"
    lines = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join([",".join(columns), *lines, ""]))
    forms: list[Any] = [columns, path, str(path)]
    for package in ("pandas", "polars"):
        if _has(package):
            forms += [sys.modules[package].DataFrame(columns)]
    if _has("pyarrow"):
        forms.append(sys.modules["pyarrow"].table(columns))
    first = Popular().fit(columns)
    for form in forms:
        model = Popular().fit(form)
        assert model.user_ids.tolist() == ["a", "b", "c"]
        assert model.item_ids.tolist() == [10, 20, 30]
        assert (model.state["sums"] == first.state["sums"]).all()
        assert model._known().row(1)[0].tolist() == [1, 2]  # in the order of time


def _has(package: str) -> bool:
    try:
        __import__(package)
    except ImportError:
        return False
    return True


def test_a_sparse_matrix_has_its_numbers_as_ids() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_matrix(([1.0, 2.0, 3.0], ([0, 0, 2], [1, 3, 1])), (4, 5))
    model = Popular().fit(matrix)
    assert model.user_ids.tolist() == [0, 1, 2, 3]
    assert model.recommend(3, 2).items.tolist() == [1, 3]
    with pytest.raises(wy.errors.DataError, match="the user 1 has no interactions, from which EASE scores items"):
        EASE().fit(matrix).recommend(1)


def test_texts_of_numbers_with_leading_zeros_stay_texts(tmp_path: Path) -> None:
    path = tmp_path / "zeros.csv"
    path.write_text("user_id,item_id\n007,1\n7,2\n")
    assert Popular().fit(path).user_ids.tolist() == ["007", "7"]


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("texts", [("1.5", "1.50"), ("1e4", "10e3"), ("1.0", "01.0")])
def test_ids_in_files_that_are_written_differently_are_different(texts: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "clicks.csv").write_text(
        "user_id,item_id,rating\n" + "".join(f"{text},{row},{row + 1}.50\n" for row, text in enumerate(texts))
    )
    model = Popular().fit(tmp_path / "clicks.csv")
    assert model.user_ids.tolist() == sorted(texts)
    (tmp_path / "clicks.csv").write_text("user_id,item_id\n1.5,0\n2.0,1\n")
    assert Popular().fit(tmp_path / "clicks.csv").user_ids.tolist() == [1.5, 2.0]


@pytest.mark.parametrize("dtype", [np.uint64, np.int64, object])
def test_large_and_small_integers_stay_distinct_ids(dtype: Any, tmp_path: Path) -> None:
    high = 2**63 if dtype is np.uint64 else 2**62 if dtype is np.int64 else 2**70
    many = high + np.arange(6, dtype=dtype)
    model = ALS(2).fit(wy.data.Interactions.of(many[[0, 1, 2, 3, 4, 5]], [0, 1, 0, 1, 0, 1]))
    model.fold_in({"user_id": np.array([5, high + 9], dtype), "item_id": [0, 1]})
    expected = [*many.tolist(), 5, high + 9]
    assert model.user_ids.tolist() == expected
    model.save(tmp_path / "model")
    loaded = ALS.load(tmp_path / "model")
    assert loaded.user_ids.tolist() == expected and loaded.user_ids.dtype == model.user_ids.dtype
    np.testing.assert_array_equal(loaded.recommend(expected, 2).scores, model.recommend(expected, 2).scores)
    model.fold_in({"user_id": [high + 7], "item_id": [1]})
    assert model.recommend(high + 7, 1).items.tolist() == [0]


@pytest.mark.parametrize("users", [1, 8])
def test_weights_of_another_scale_are_refused(users: int) -> None:
    model = ALS(4, iterations=2).fit(clicks())
    scores = model.recommend("u1", 20).scores
    heavy = {"user_id": [f"new{user}" for user in range(users)], "item_id": ["i1"] * users, "weight": [3e38] * users}
    with pytest.raises(wy.errors.DataError, match=r"the weight of row 0 is 3e\+38, 3e\+38 times the mean"):
        model.fold_in(heavy)
    assert not any(user.startswith("new") for user in model.user_ids.tolist())
    np.testing.assert_array_equal(model.recommend("u1", 20).scores, scores)
    # Large weights of one scale are as good as small ones.
    large = {"user_id": ["a", "a", "b"], "item_id": ["x", "y", "x"], "weight": [3e38, 3e38, 3e38]}
    assert np.isfinite(Popular().fit(large).recommend("b", 1).scores).all()


def test_files_refuse_ids_that_are_dates(tmp_path: Path) -> None:
    days = np.array(["2024-01-01", "2024-01-02"], "datetime64[ns]")
    with pytest.raises(wy.errors.DataError, match=r"2024-01-01.*integers, floats and texts"):
        Popular().fit(wy.data.Interactions.of(days, [0, 1])).save(tmp_path / "model")


def test_unknown_ids_are_named_with_what_to_do() -> None:
    model = Popular().fit({"user_id": [1, 2, 2], "item_id": ["a", "a", "b"]})
    with pytest.raises(wy.errors.DataError, match=r"the user '1' is not known; 2 users are, such as 1: fold_in"):
        model.recommend("1")
    with pytest.raises(wy.errors.DataError, match="the user 3 is not known"):
        model.recommend([1, 3])
    with pytest.raises(wy.errors.DataError, match="the item 'z' is not known; 2 items are, such as 'a': leave it out"):
        model.recommend(1, exclude=["z"])
    with pytest.raises(wy.errors.DataError, match=r"the item 'z' is not known.*partial_fit learns items that are new"):
        model.similar_items("z")
    with pytest.raises(wy.errors.DataError, match=r"the item 'z' is not known.*partial_fit learns items that are new"):
        model.fold_in({"user_id": [9], "item_id": ["z"]})
    with pytest.raises(wy.errors.DataError, match="the user 9 is not known"):
        model.recommend(9)
    with pytest.raises(wy.errors.DataError, match="users have ids of int64, such as 1, and now of <U1, such as '1'"):
        model.partial_fit({"user_id": ["1"], "item_id": ["a"]})
    with pytest.raises(wy.errors.NotSet, match="this EASE has learned nothing yet: call fit first"):
        EASE().recommend(1)


@pytest.mark.parametrize(
    ("table", "error", "words"),
    [
        ({"user_id": [1], "item_id": [1], "rating": [math.nan]}, wy.errors.DataError, "ratings has no value in row 0"),
        ({"user_id": [1], "item_id": [1], "rating": [0.0]}, wy.errors.DataError, "the weight of row 0 is 0"),
        ({"user_id": [1, None], "item_id": [1, 2]}, wy.errors.DataError, "users has no value in row 1"),
        ({"who": [1], "item_id": [1]}, wy.errors.DataError, r"no column of users among \['who', 'item_id'\]"),
        ({"user_id": [1], "what": [1]}, wy.errors.DataError, "no column of items among"),
        ({"user_id": [], "item_id": []}, wy.errors.DataError, "users is empty"),
        ({"user_id": [1, 2], "item_id": [1]}, wy.errors.ShapeError, "users"),
        (7, wy.errors.DTypeError, "interactions are int; expected wy.data.Interactions, a table"),
    ],
)
def test_bad_interactions_are_refused_and_leave_a_model_as_it_was(table: Any, error: type, words: str) -> None:
    model = ALS(2).fit({"user_id": [1, 2, 2], "item_id": [1, 1, 2]})
    before = model.recommend(1)
    for learn in (model.fit, model.partial_fit, model.fold_in):
        with pytest.raises(error, match=words):
            learn(table)
        assert model.user_ids.tolist() == [1, 2]
        assert (model.recommend(1).scores == before.scores).all()


@pytest.mark.parametrize("text", ["", "user_id,item_id\n", "user_id,item_id\n1\n"])
def test_bad_files_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(wy.errors.DataError, match=r"bad\.csv' (is empty|has no rows|has 1 values in row 1)"):
        Popular().fit(path)


@pytest.mark.parametrize("model", [ALS(2), Hybrid("bpr", 2, epochs=1), EASE(1.0)], ids=lambda each: type(each).__name__)
def test_a_training_that_fails_half_way_leaves_ids_and_tables(
    model: Recommender, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = fresh(model).fit(clicks())
    users, items, state = model.user_ids.tolist(), model.item_ids.tolist(), dict(model.state)
    rows = len(model._known().rows.items)
    scores = model.recommend("u1").scores

    def fail(*arguments: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(type(model), "_train" if isinstance(model, EASE) else "_continue", fail)
        with pytest.raises(MemoryError):
            model.partial_fit({"user_id": ["zoe"], "item_id": ["lamp"]})
    if isinstance(model, FactorRecommender):
        with monkeypatch.context() as patched:
            patched.setattr(Solver, "solve", fail)
            for one_or_several in (["zoe"], ["zoe", "u1"]):
                with pytest.raises(MemoryError):
                    model.fold_in({"user_id": one_or_several, "item_id": ["i1", "i2"][: len(one_or_several)]})
    assert (model.user_ids.tolist(), model.item_ids.tolist()) == (users, items)
    assert len(model._known().rows.items) == rows
    for name, array in state.items():
        now = model.state[name]
        assert now.shape == array.shape if array.ndim == 0 else (now[: len(array)] == array).all(), name
    assert (model.recommend("u1").scores == scores).all()
    model.partial_fit({"user_id": ["zoe"], "item_id": ["lamp"]}).recommend("zoe")


def test_files_of_something_else_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, path = Popular().fit(clicks()), tmp_path / "model.safetensors"
    model.save(path)
    with pytest.raises(wy.errors.CheckpointError, match=r"holds Popular, not EASE: call Popular\.load"):
        EASE.load(path)
    monkeypatch.setattr("wyrm.estimators.recommenders.saving._VERSION", 3)
    with pytest.raises(wy.errors.CheckpointError, match="has version 2 of the format, and this wyrm reads version 3"):
        Popular.load(path)
    wy.io.save_arrays(path, {"weights": np.zeros(2)})
    with pytest.raises(wy.errors.CheckpointError, match="holds no recommender: the arrays are weights"):
        Recommender.load(path)
    pairs = wy.data.Interactions.of([(1, 2), (3, 4)], ["a", "b"])
    with pytest.raises(wy.errors.DataError, match=r"users have ids such as \(1, 2\); a file takes integers"):
        Popular().fit(pairs).save(path)


@pytest.mark.parametrize(
    "make",
    [
        lambda: EASE(0.0), lambda: ALS(0), lambda: ALS(2, regularization=0.0), lambda: ALS(2, iterations=0),
        lambda: Hybrid(HINGE), lambda: Hybrid("bpr", epochs=0), lambda: SASRec(dropout=1.0), lambda: SASRec(length=0),
        lambda: Popular().fit(clicks()).recommend("u0", 0),
    ],
)  # fmt: skip
def test_options_out_of_range_are_refused(make: Any) -> None:
    with pytest.raises(wy.errors.OptionError):
        make()


def test_too_little_to_learn_from_is_refused() -> None:
    with pytest.raises(wy.errors.DataError, match="there is one item; expected two or more"):
        Hybrid().fit({"user_id": [1, 2], "item_id": [1, 1]})
    with pytest.raises(wy.errors.DataError, match="no user has two items"):
        SASRec().fit({"user_id": [1, 2], "item_id": [1, 2]})
    with pytest.raises(wy.errors.DataError, match="new items need features, as those before"):
        data = clicks().with_features(items={"item_id": [f"i{i}" for i in range(20)], "kind": ["a", "b"] * 10})
        Hybrid("bpr", epochs=1).fit(data).partial_fit({"user_id": ["u1"], "item_id": ["lamp"]})


@pytest.mark.parametrize("model", [ALS(4, iterations=2), EASE(10.0)], ids=["ALS", "EASE"])
def test_threads_fold_in_and_recommend_at_the_same_time(model: Recommender) -> None:
    before = sys.getswitchinterval()
    model.fit(clicks())
    alone = copy.deepcopy(model)
    more = {f"new{i}": clicks().item_ids[[i % 5, (i + 1) % 5, (i + 3) % 5]] for i in range(200)}
    parts = [list(more)[i::4] for i in range(4)]

    def serve(users: list[str]) -> None:
        for user in users:
            model.fold_in({"user_id": [user] * 3, "item_id": more[user]})
            model.recommend([user, "u0"], 2)

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(serve, parts))
    finally:
        sys.setswitchinterval(before)
    for user, items in more.items():
        alone.fold_in({"user_id": [user] * 3, "item_id": items})
    for user in more:
        mine, theirs = model.recommend(user, 3), alone.recommend(user, 3)
        assert mine.items.tolist() == theirs.items.tolist()
        np.testing.assert_array_equal(mine.scores, theirs.scores)
