"""Warnings of evaluations: predictions that depend on their targets, and rows that depend on each other."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DependenceWarning
from wyrm.reach.evaluated import warn_of_targets
from wyrm.reach.facts import Analysis


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


class Width(wy.Dim): ...


def trained(*shape: int) -> Any:
    return wy.Parameter(np.full(shape, 0.1, np.float32), name="weight")


class Data:
    """Inputs for models of rows and of sequences."""

    def __init__(self) -> None:
        batch, time = Batch(), Time(6)
        self.x: Any = wy.Input(dims=(batch, Width(4)), name="x")
        self.other: Any = wy.Input(dims=(batch, Width(4)), name="other")
        self.y: Any = wy.Input(dims=(batch,), name="y")
        self.label: Any = wy.IndexInput(dims=(batch,), name="label")
        self.rows: Any = wy.Input(dims=(batch, time, Width(4)), name="rows")
        self.tokens: Any = wy.IndexInput(dims=(batch, time), name="tokens")
        self.source: Any = wy.IndexInput(dims=(batch, time), name="source")
        self.neighbours: Any = wy.Input(dims=(batch, batch), name="neighbours")
        self.hidden: Any = wy.Input(dims=(batch, time), dtype=bool, name="hidden")
        self.vectors: Any = wy.nn.Embedding(5, 4)

    def logits(self, states: Any) -> Any:
        return states @ trained(4, 5)

    def decoded(self, tokens: Any) -> Any:
        """Return logits of a decoder of tokens that reads a source too."""
        context = wy.nn.GRU(4, 4)(self.vectors(self.source)).sequence[:, -1:]
        return self.logits(wy.nn.GRU(4, 4)(self.vectors(tokens) + context).sequence)

    def language_model(self) -> Any:
        config = wy.nn.GPT2Config(vocab_size=5, n_positions=6, n_embd=4, n_head=2, n_layer=1)
        return wy.nn.GPT2(config)(self.tokens)


def issued(loss: Any) -> list[str]:
    """Return the warnings of a loss when it is compiled."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        wy.compile(loss, wy.optim.SGD(loss.parameters(), 0.1))
    return [str(each.message) for each in caught if each.category is DependenceWarning]


Build = Callable[[Data], Any]

# Each with the name of the target.
WRONG: dict[str, tuple[Build, str]] = {
    "a feature": (lambda d: wy.losses.mse(wy.concatenate([d.x, d.y[:, None]], 1) @ trained(5), d.y), "y"),
    "a feature by hand": (lambda d: (d.y - (d.x * d.y[:, None]) @ trained(4)).square().mean(), "y"),
    "a feature of a classifier of two": (
        lambda d: wy.losses.bce_with_logits((d.x + d.y[:, None]) @ trained(4), d.y), "y",
    ),
    "the vector of the label": (lambda d: d.logits(d.x + d.vectors(d.label)).cross_entropy(d.label), "label"),
    "labels that may be ignored": (
        lambda d: wy.losses.cross_entropy(d.logits(d.x + d.vectors(d.label)), d.label, ignore_index=4), "label",
    ),
    "no shift": (lambda d: d.language_model().cross_entropy(d.tokens), "tokens"),
    "a shift back": (lambda d: d.language_model()[:, 1:].cross_entropy(d.tokens[:, :-1]), "tokens"),
    "a decoder without a shift": (lambda d: d.decoded(d.tokens).cross_entropy(d.tokens), "tokens"),
    "a forecast of the same step": (
        lambda d: wy.losses.mse(wy.nn.LSTM(4, 4)(d.rows).sequence @ trained(4, 4), d.rows), "rows",
    ),
}  # fmt: skip


def own_scores(d: Data) -> Any:
    return (d.x @ trained(4, 5)).cross_entropy(d.label, reduction="none")


def poisson(rate: Any, count: Any) -> Any:
    return (rate - count * rate.log()).mean()


RIGHT: dict[str, Build] = {
    "a regression": lambda d: wy.losses.mse(d.x @ trained(4), d.y),
    "weights of rows": lambda d: ((d.x @ trained(4) - d.other[:, 0]).square() * d.y).sum() / d.y.sum(),
    "weights of classes": lambda d: (own_scores(d) * wy.Constant(np.ones(5, np.float32))[d.label]).mean(),
    "vectors of labels in the loss": lambda d: (
        d.logits(d.x).cross_entropy(d.label) + (d.x @ trained(4, 4) - d.vectors(d.label)).square().mean()
    ),
    "a language model": lambda d: d.language_model()[:, :-1].cross_entropy(d.tokens[:, 1:]),
    "a decoder": lambda d: d.decoded(d.tokens[:, :-1]).cross_entropy(d.tokens[:, 1:]),
    "a forecast": lambda d: wy.losses.mse(wy.nn.LSTM(4, 4)(d.rows[:, :-1]).sequence @ trained(4, 4), d.rows[:, 1:]),
    "a difference to the last value": lambda d: (d.y - (d.other[:, 0] - d.x @ trained(4))).square().mean(),
    "a weight that is a feature": lambda d: (
        (wy.concatenate([d.x, d.y[:, None]], 1) @ trained(5) - d.other[:, 0]).square() * d.y
    ).mean(),
    "an exposure that is a feature": lambda d: poisson(
        (wy.concatenate([d.x, d.y[:, None]], 1) @ trained(5)).exp() * d.y, d.other[:, 0]
    ),
    "a margin of the label": lambda d: (d.logits(d.x) - 0.5 * wy.one_hot(d.label, 5)).cross_entropy(d.label),
    "an autoencoder": lambda d: wy.losses.mse((d.x @ trained(4, 2)).tanh() @ trained(2, 4), d.x),
    "one with a condition": lambda d: wy.losses.mse(((d.x + d.other) @ trained(4, 2)).tanh() @ trained(2, 4), d.x),
    "one of each step": lambda d: wy.losses.mse(d.rows @ trained(4, 4), d.rows),
    "one of both directions": lambda d: wy.losses.mse(
        wy.nn.StackedLSTM(4, 4, 1, bidirectional=True)(d.rows).sequence @ trained(8, 4), d.rows
    ),
    "one of windows": lambda d: wy.losses.mse(
        wy.nn.Conv1d(4, 4, 3, padding=1)(d.rows.swapaxes(1, 2)).swapaxes(1, 2), d.rows
    ),
    "noise that is predicted": lambda d: wy.losses.mse(((d.x + d.other) @ trained(4, 4)).tanh(), d.other),
    "hidden tokens": lambda d: (
        d.logits(
            wy.nn.TransformerBlock(4, 8, 2, causal=False)(d.vectors(wy.where(d.hidden, 0, d.tokens)))
        ).cross_entropy(d.tokens, reduction="none")
        * d.hidden.astype(np.float32)
    ).sum(),
    "pairs in a batch": lambda d: wy.losses.info_nce(
        d.x @ trained(4, 4), d.vectors(d.label), items=d.label, log_frequency=np.zeros(5, np.float32)
    ),
    "a ranking": lambda d: wy.losses.bpr(
        (d.x * d.vectors(d.label)).sum(1), (d.x * d.vectors((d.label + 1) % 5)).sum(1)
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_prediction_that_depends_on_its_target_is_told(name: str) -> None:
    build, target = WRONG[name]
    (text,) = issued(build(Data()))
    assert text.startswith("the prediction ")
    assert f" depends on its target {target}\n" in text
    assert f"  path: {target} (test_evaluated.py:" in text
    assert "simplefilter" in text


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_told_of_right_losses(name: str) -> None:
    assert issued(RIGHT[name](Data())) == []


# --- rows -------------------------------------------------------------------------------------------------------------


def by_batch(x: Any) -> Any:
    centred = x - x.mean(0)
    return centred / (centred.square().mean(0) + 1e-5).sqrt()


def table(data: Data) -> dict[Any, Any]:
    random = np.random.default_rng(0)
    label, neighbours = random.integers(0, 3, 6), random.normal(size=(6, 6))
    return {
        data.x: random.normal(size=(6, 4)), data.y: random.normal(size=6), data.label: label,
        data.neighbours: neighbours,
    }  # fmt: skip


def rows(data: Data) -> dict[Any, Any]:
    found = table(data)
    return {leaf: found[leaf] for leaf in (data.x, data.y)}


def measured(loss: Any, data: Data) -> None:
    """Evaluate a loss with the inputs that it reads."""
    program = wy.compile(loss)
    program.evaluate({leaf: array for leaf, array in table(data).items() if leaf in set(program.inputs)}, batch_size=6)


def told(run: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(each.message) for each in caught if each.category is DependenceWarning]


def error_of(data: Data, states: Any) -> Any:
    """Return the error of a prediction, which applies parameters to the states."""
    return (states @ trained(4) - data.y).square().mean()


def test_rows_that_meet_in_the_model_are_told_in_a_validation() -> None:
    data = Data()
    loss = error_of(data, by_batch(data.x @ trained(4, 4)))
    train = wy.compile(loss, wy.optim.SGD(loss.parameters(), 0.1))
    (text,) = told(lambda: wy.train.fit(train, rows(data), epochs=3, batch_size=3, validation=rows(data)))
    assert text.startswith("the rows of subtract (Batch(), 4) float32 (at test_evaluated.py:")
    assert "depend on each other, so an evaluation depends on its batches: on x (position t on the first to" in text
    assert "lost by mean at test_evaluated.py:" in text
    assert "BatchNorm1d keeps those of the training" in text


def test_a_validation_in_training_mode_is_refused_with_what_to_do() -> None:
    data = Data()
    loss = error_of(data, wy.nn.BatchNorm1d(4)(data.x))
    train = wy.compile(loss, wy.optim.SGD(loss.parameters(), 0.1))
    with pytest.raises(wy.errors.OptionError, match="built in training mode"):
        wy.train.fit(train, rows(data), epochs=1, batch_size=3, validation=rows(data))


COMPARED: dict[str, Callable[[Data], Any]] = {
    "rows alone": lambda d: error_of(d, (d.x @ trained(4, 4)).tanh()),
    "statistics of the training": lambda d: error_of(d, wy.nn.BatchNorm1d(4).eval()(d.x)),
    "pairs of rows": lambda d: error_of(d, d.x) + (d.x @ trained(4, 4) @ d.x.T).logsumexp(1).mean(),
    "a correlation": lambda d: ((d.x @ trained(4) - (d.x @ trained(4)).mean()) * (d.y - d.y.mean())).mean(),
    "a decorrelation": lambda d: error_of(d, d.x) + (by_batch(d.x @ trained(4, 4)).T @ by_batch(d.x)).square().mean(),
    "neighbours of a graph": lambda d: error_of(d, (d.neighbours @ (d.x @ trained(4, 4))).tanh()),
    "rows that are looked up": lambda d: error_of(d, (d.x @ trained(4, 4))[d.label]),
    "the largest error": lambda d: (d.x @ trained(4) - d.y).square().max(),
}


@pytest.mark.parametrize("name", COMPARED)
def test_nothing_is_told_of_losses_that_compare_rows(name: str) -> None:
    data = Data()
    assert told(lambda: measured(COMPARED[name](data), data)) == []


@pytest.mark.parametrize(
    ("prediction", "start"),
    [
        (lambda d: by_batch(d.x @ trained(4, 4)).sum(1), "the rows of sum (Batch(),)"),
        (lambda d: (d.x * d.y[:, None]) @ trained(4), "the prediction matmul (Batch(),)"),
        (lambda d: d.x @ trained(4), None),
    ],
)
def test_what_a_metric_is_given_is_looked_at(prediction: Build, start: str | None) -> None:
    data = Data()
    program, predicted = wy.compile(error_of(data, data.x)), prediction(data)
    texts = told(lambda: program.evaluate(rows(data), metrics={"most": (wy.metrics.MaxError(), data.y, predicted)}))
    assert [text[: len(start or "")] for text in texts] == ([] if start is None else [start])


def test_a_filter_of_the_category_is_quiet() -> None:
    loss = WRONG["a feature"][0](Data())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DependenceWarning)
        wy.compile(loss, wy.optim.SGD(loss.parameters(), 0.1))


def test_integers_that_a_loop_looks_up_are_no_labels() -> None:
    data = Data()
    table = trained(9, 3)
    first = table.index(data.tokens[:, 0])
    last, _ = wy.scan(lambda h, i: (h + table.index(i + 2), None), first, data.tokens.T)
    assert issued(last.square().mean()) == []


def test_layers_that_are_alike_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, of_op = list[Any](), Analysis._of_op

    def counted(*arguments: Any) -> Any:
        looked.append(arguments[1])
        return of_op(*arguments)

    monkeypatch.setattr(Analysis, "_of_op", counted)
    counts, tokens = [], wy.IndexInput(dims=(wy.Dim(), wy.Dim(8)), name="tokens")
    for layers in (3, 9):
        config = wy.nn.GPT2Config(vocab_size=5, n_positions=8, n_embd=4, n_head=2, n_layer=layers)
        looked.clear()
        warn_of_targets(wy.nn.GPT2(config)(tokens)[:, :-1].cross_entropy(tokens[:, 1:]))
        counts.append(len(looked))
    assert 0 < counts[0] == counts[1]
