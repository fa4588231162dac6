"""Objects that hold modules, an optimizer, programs and functions are pickled as parameters and a recipe."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy

USERS, ITEMS, WIDTH = 300, 500, 16
RANDOM = np.random.default_rng(0)
COLUMNS = {"user": RANDOM.integers(0, USERS, 400), "item": RANDOM.integers(0, ITEMS, 400)}


def squared(x: Any) -> Any:
    return (x * x).sum()


@wy.function
def cubed(x: Any) -> Any:
    return (x * x * x).sum()


class Recommender:
    """What a package offers: it keeps all that it needs to go on."""

    def __init__(self) -> None:
        with wy.nn.seeded(3):
            batch = wy.Dim()
            self.user, self.item = (wy.IndexInput(dims=(batch,), name=name) for name in ("user", "item"))
            self.users, self.items = wy.nn.Embedding(USERS, WIDTH), wy.nn.Embedding(ITEMS, WIDTH)
            drawn = self.items(wy.random.index(ITEMS, (batch,)))
            loss = -self.users(self.user).vector_dot(self.items(self.item) - drawn).log_sigmoid().mean()
        self.optimizer = wy.optim.Adagrad(loss.parameters(), 0.1)
        self.train = wy.compile(loss, self.optimizer)
        self.predict = wy.compile(self.users(self.user) @ self.items.weight.T)
        self.norm, self.slope = wy.function(squared, engine="native"), cubed.grad()

    def fit(self) -> float:
        return self.train.epoch(COLUMNS, batch_size=20, shuffle=True, seed=3, progress=False)

    def scores(self) -> Any:
        return self.predict({self.user: [0, 7]})


def test_a_model_is_as_large_as_its_parameters_and_goes_on_from_where_it_was() -> None:
    model = Recommender()
    model.fit()
    saved = pickle.dumps(model)
    arrays = 2 * (USERS + ITEMS) * WIDTH * 4  # with the state of the optimizer
    assert arrays < len(saved) < arrays + 6000
    again = pickle.loads(saved)
    assert again.users.weight in again.train.trained and again.optimizer is again.train.optimizer
    np.testing.assert_array_equal(again.scores(), model.scores())
    assert again.fit() == model.fit()
    np.testing.assert_array_equal(again.scores(), model.scores())
    assert again.norm(np.arange(3.0)) == 5.0 and again.slope(2.0) == 12.0


def test_another_process_loads_a_model(tmp_path: Path) -> None:
    model = Recommender()
    model.fit()
    path = tmp_path / "model.pickle"
    path.write_bytes(pickle.dumps(model))
    program = f"import pickle; print(float(pickle.load(open({str(path)!r}, 'rb')).scores().sum()))"
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.stdout == f"{float(model.scores().sum())}\n", done.stderr


@pytest.mark.parametrize("way", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_functions_are_copied_by_their_names_and_derivatives(way: Any) -> None:
    assert way(cubed) is cubed
    assert way(wy.function(squared, engine="native")).engine == "native"
    assert way(cubed.grad().grad())(2.0) == 12.0
    value, gradient = way(cubed.value_and_grad(wrt="x"))(2.0)
    assert (value, gradient) == (8.0, 12.0)


def test_a_function_without_a_name_is_refused() -> None:
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(wy.function(lambda x: x))
