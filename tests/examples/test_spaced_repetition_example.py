"""The example of FSRS: its formulas are those of fsrs-rs in both versions, and its fit leaves as C."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.examples.test_examples import ROOT, figure, run
from tests.exporting.loaded import loaded

EXAMPLE = ROOT / "examples" / "spaced_repetition.py"
Card = tuple[tuple[int, int], ...]
# The default numbers of FSRS-5.
FIVE = [
    0.40255, 1.18385, 3.173, 15.69105, 7.1949, 0.5345, 1.4604, 0.0046, 1.54575, 0.1192, 1.01925, 1.9395, 0.11, 0.29605,
    2.2698, 0.2315, 2.9898, 0.51655, 0.6621,
]  # fmt: skip
# What fsrs-rs-python 0.9.3 says of cards by the default numbers of each version: stability and difficulty after each
# (rating, days), and the loss of each answer that comes a day or more after the one before.
KNOWN: dict[Card, dict[int, tuple[list[tuple[float, float]], list[float]]]] = {
    ((3, 0), (3, 0), (1, 5), (4, 2)): {
        6: ([(2.3065, 2.1181040), (2.3065, 2.1112142), (0.68273485, 7.3922377), (5.8547931, 6.5060735)],
            [1.8254905, 0.2087445]),
        5: ([(3.173, 5.2824345), (4.4668584, 5.2729678), (1.3551425, 6.7905679), (13.0203819, 6.2557755)],
            [2.2069612, 0.1486389]),
    },
    ((1, 0), (1, 0), (2, 0), (3, 3), (4, 5), (1, 9), (2, 4), (3, 7)): {
        6: ([(0.212, 6.4133), (0.083356723, 8.8063040), (0.083356723, 9.1927977), (0.68027252, 9.1788330),
             (4.6515694, 8.8896656), (0.95994925, 9.6202688), (1.9669526, 9.7331448), (4.5558767, 9.7186403)],
            [0.5537843, 0.3245617, 1.8887211, 0.2507745, 0.2315466]),
        5: ([(0.40255, 7.1949), (0.20168905, 8.0827971), (0.20168905, 8.3701162), (2.3487167, 8.3464460),
             (18.5714283, 8.0558033), (2.4520459, 8.6616335), (3.3735278, 8.8527966), (9.2887001, 8.8269062)],
            [0.750821, 0.202517, 2.948668, 0.1620005, 0.1982874]),
    },
    ((4, 0), (2, 0), (2, 9), (1, 15), (2, 0), (3, 30)): {
        6: ([(8.2956, 1.0), (8.2956, 4.0106087), (22.2858944, 6.0091910), (1.9368883, 8.6734772),
             (1.9368883, 9.1046209), (8.7848911, 9.0907450)],
            [0.1117098, 2.5881088, 0.4292998]),
        5: ([(15.69105, 3.2245016), (15.69105, 4.3188820), (20.9661064, 5.2314634), (2.8649435, 6.7626619),
             (2.8649435, 7.2692819), (29.4744415, 7.2506757)],
            [0.0631147, 2.5951197, 0.6200932]),
    },
}  # fmt: skip


def names_of(path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the names of an example after it has run."""
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    monkeypatch.setattr(sys, "argv", [str(path), "--cards", "200", "--epochs", "2"])
    return runpy.run_path(str(path))


def states(names: dict[str, Any], cards: list[Card], numbers: list[float]) -> list[Any]:
    """Return the chances of recall, stabilities and difficulties of cards in float64, (cards, reviews) each."""
    chosen = zip(names["NUMBERS"], numbers, strict=True)
    # The functions of the example look their numbers up in its globals.
    names["answer"].__globals__["w"] = {name: wy.Parameter(value, dtype=np.float64) for name, value in chosen}
    table = np.zeros((2, len(cards), max(map(len, cards))))
    for row, card in enumerate(cards):
        table[:, row, : len(card)] = np.transpose(card)
    rating, days = (wy.Input(dims=table.shape[1:], dtype=np.float64) for _ in range(2))

    def step(memory: Any, review: Any) -> Any:
        after, (recall, _) = names["answer"](memory, review)
        return after, (recall, *after)

    nothing = rating[:, 0] * 0.0
    _, made = wy.scan(step, (nothing, nothing), (rating.T, days.T))
    return [each.T for each in wy.compile(list(made))({rating: table[0], days: table[1]})]


def losses(card: Card, recall: Any) -> Any:
    """Return the loss of each answer that comes a day or more after the one before."""
    each = zip(card, recall, strict=False)
    return np.array([-np.log(chance if rating > 1 else 1.0 - chance) for (rating, days), chance in each if days])


def as_known(names: dict[str, Any], version: int, numbers: list[float]) -> None:
    for i, found in enumerate(zip(*states(names, list(KNOWN), numbers), strict=True)):
        card = list(KNOWN)[i]
        recall, stability, difficulty = found
        after, loss = KNOWN[card][version]
        # The package computes in float32.
        np.testing.assert_allclose(np.transpose([stability, difficulty])[: len(card)], after, rtol=2e-6)
        np.testing.assert_allclose(losses(card, recall), loss, atol=1e-6)


def test_the_fit_tells_more_than_the_start() -> None:
    text = run("spaced_repetition.py", "--cards", 1000, "--epochs", 8)
    found = re.search(r"loss of held-out +(\S+) +(\S+) +(\S+)", text)
    assert found, text
    start, fit, learner = map(float, found.groups())
    assert learner - 0.001 < fit < learner + 0.004 and fit < start - 0.01
    assert figure(text, r"C: (\d+) kB") < 250


def test_the_formulas_are_those_of_fsrs_6(monkeypatch: pytest.MonkeyPatch) -> None:
    names = names_of(EXAMPLE, monkeypatch)
    as_known(names, 6, [number.start for number in names["NUMBERS"].values()])


def test_without_the_lines_of_the_page_they_are_those_of_fsrs_5(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = EXAMPLE.read_text(encoding="utf-8")
    story = re.search(r"# ```diff\n(.*?)# ```\n", source, re.DOTALL)
    assert story
    lines = [line.removeprefix("# ") for line in story[1].splitlines()]
    added, removed = ([line[1:] for line in lines if line[0] == sign] for sign in "+-")
    assert (len(added), len(removed)) == (4, 1)
    for line in added:
        assert source.count(f"\n{line}\n") == 1
        source = source.replace(f"\n{line}\n", f"\n{removed[0]}\n" if "return" in line else "\n")
    path = tmp_path / "five.py"
    path.write_text(source.partition("# ## Reviews of a learner")[0], encoding="utf-8")
    as_known(names_of(path, monkeypatch), 5, FIVE)


def test_generated_reviews_have_the_chances_and_losses_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    package = pytest.importorskip("fsrs_rs_python", reason="fsrs-rs-python is not installed")
    names = names_of(EXAMPLE, monkeypatch)
    numbers = [float(np.clip(1.07 * each.start, each.lower, each.upper)) for each in names["NUMBERS"].values()]
    cards: list[Card] = []
    for ratings, days in zip(names["ratings"], names["days"], strict=True):
        cards.append(tuple((int(rating), int(day)) for rating, day in zip(ratings, days, strict=True) if rating))
    recalls = states(names, cards, numbers)[0]
    ours = np.concatenate([losses(card, recall) for card, recall in zip(cards, recalls, strict=True)])

    reviews = [[package.FSRSReview(*review) for review in card] for card in cards]
    ends = [(row, i + 1) for row, card in enumerate(cards) for i, (_, days) in enumerate(card) if days]
    items = [package.FSRSItem(reviews[row][:end]) for row, end in ends]
    model = package.FSRS(numbers)
    theirs = np.array([model.evaluate([item]).log_loss for item in items])
    assert len(ours) > 1000 and (np.exp(-theirs) < 0.7).any()
    np.testing.assert_allclose(np.exp(-ours), np.exp(-theirs), atol=1e-6)
    # The package weighs later answers more, and adds up thousands of losses in float32.
    weight = 0.25 + 0.75 * (np.arange(len(ours)) / (len(ours) - 1)) ** 3
    assert model.evaluate(items).log_loss == pytest.approx(np.average(ours, weights=weight), rel=1e-5)


def test_c_fits_and_schedules_as_python_does(monkeypatch: pytest.MonkeyPatch) -> None:
    names = names_of(EXAMPLE, monkeypatch)
    columns = {names["rating"]: names["ratings"][:200], names["days_since"]: names["days"][:200]}
    export = loaded(names["fit"], names["predict"], batch_sizes=100)
    assert export.start() == 0
    given = {leaf.name: array.astype(np.float32) for leaf, array in columns.items()}
    code, found = export.call("epoch", 200, batch=100, shuffle=1, seed=7, **given)
    loss = names["fit"].epoch(columns, batch_size=100, shuffle=True, seed=7)
    assert code == 0 and found["results"][0] == pytest.approx(loss, rel=1e-5)
    for name, w in names["w"].items():
        np.testing.assert_allclose(export.tensor(name), w.value, rtol=1e-4, atol=1e-5)
    for name, program in names["predict"].items():
        code, found = export.call(name, 100, **{leaf: array[:100] for leaf, array in given.items()})
        expected = program({leaf: array[:100] for leaf, array in columns.items()})
        assert code == 0
        np.testing.assert_allclose(found[name].reshape(expected.shape), expected, rtol=1e-3)
