"""A grid search over networks by scikit-learn, cold process included, and a trial of one epoch among others."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.harness import Case, Contender, Measurement, in_new_process, timed

# 24 candidates x 5 folds of 50 epochs; the time is that from the start of the process, with that of Python itself.
_SEARCH = """
import json, os, sys, time, warnings
warnings.filterwarnings("ignore")
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from threadpoolctl import threadpool_limits
{model}
x, y = load_digits(return_X_y=True)
x = (x / 16.0).astype(np.float32)
folds = StratifiedKFold(5, shuffle=True, random_state=0)
with threadpool_limits(1):
    search = GridSearchCV(model, grid, cv=folds, error_score="raise").fit(x, y)
print("accuracy", search.best_score_, search.cv_results_["mean_test_score"].mean(), file=sys.stderr)
print(json.dumps({{"seconds": time.monotonic() - float(os.environ["BENCH_STARTED"])}}))
"""
_GRID = """
grid = {"hidden_layer_sizes": [(32,), (64,), (100,), (64, 32)], "learning_rate_init": [0.001, 0.003, 0.01],
        "alpha": [1e-4, 1e-2]}
model = Model(max_iter=50, random_state=0, n_iter_no_change=50, tol=0.0)
"""
# Batches, epochs, rates and penalties are those of the others.
_SKORCH = """
import torch
from skorch import NeuralNetClassifier
torch.set_num_threads(1)
class Network(torch.nn.Module):
    def __init__(self, sizes=(32,)):
        super().__init__()
        torch.manual_seed(0)
        layers = []
        for before, after in zip((64, *sizes), sizes):
            layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
        self.layers = torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-1], 10))
    def forward(self, x):
        return self.layers(x)
model = NeuralNetClassifier(
    Network, criterion=torch.nn.CrossEntropyLoss, optimizer=torch.optim.Adam, max_epochs=50, batch_size=200,
    train_split=None, iterator_train__shuffle=True, verbose=0,
)
grid = {"module__sizes": [(32,), (64,), (100,), (64, 32)], "lr": [0.001, 0.003, 0.01],
        "optimizer__weight_decay": [1e-4 / 200, 1e-2 / 200]}
"""
_MODELS = {
    "wyrm": f"from wyrm.estimators import Classifier as Model\n{_GRID}",
    "scikit-learn": f"from sklearn.neural_network import MLPClassifier as Model\n{_GRID}",
    "skorch": _SKORCH,
}


def search(model: str) -> Callable[[], Measurement]:
    """Return a round of the grid search in a new process; an earlier one has filled the cache of compiled code."""
    code = _SEARCH.format(model=_MODELS[model])
    if model == "wyrm":
        in_new_process(code)
    return lambda: in_new_process(code)


def trial(*, wyrm: bool, alike: bool) -> Callable[[], Measurement]:
    """Return a round of a fit of one epoch: of a structure that was trained before, or of a size that is new."""
    import numpy as np

    model: Any
    if wyrm:
        from wyrm.estimators import Classifier

        model = Classifier
    else:
        from sklearn.neural_network import MLPClassifier

        model = MLPClassifier
    random = np.random.default_rng(0)
    x, y = random.normal(size=(1437, 64)).astype(np.float32), random.integers(0, 10, 1437)
    tried = 0

    def once() -> None:
        nonlocal tried
        tried += 1
        sizes = (64,) if alike else (64 + tried,)
        with warnings.catch_warnings(action="ignore"):  # one epoch is too few
            model(sizes, max_iter=1, learning_rate_init=1e-3 / tried, random_state=tried).fit(x, y)

    for _ in range(4):
        once()
    return timed(once)


def cases() -> list[Case]:
    """The grid search, and trials among many."""
    searches: dict[str, Contender] = {model: partial(search, model) for model in _MODELS}
    found = [
        Case(
            "searching", "24 networks x 5 folds on 8x8 digits, cold process", searches, rounds=3,
            floors={"scikit-learn": 10.0, "skorch": 20.0}, slow=("skorch",), quick=False,
        )
    ]  # fmt: skip
    for name, alike in (("another rate and seed", True), ("another hidden size", False)):
        trials: dict[str, Contender] = {
            contender: partial(trial, wyrm=contender == "wyrm", alike=alike) for contender in ("wyrm", "scikit-learn")
        }
        found.append(Case("searching", f"a trial of one epoch, {name}", trials))
    return found
