"""The examples of `examples/cython` on a part of their data: better than a guess, and as good as the loops by hand."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.examples.test_examples import ROOT, figure, needs_data, together

# The least accuracy of each, or the most where it is an error: guesses have 0.5, and 1.12 or 1.7 for the errors.
ACCURACY = {
    "als.py": "AUC of held-out films > 0.85",
    "biased_factors.py": "error of held-out ratings < 1.06",
    "text_classifier.py": "accuracy of held-out sentences > 0.68",
    "ffm.py": "AUC of held-out ratings > 0.65",
    "fm.py": "AUC of held-out ratings > 0.65",
    "ftrl.py": "AUC of held-out likes > 0.65",
    "glove.py": "error of held-out logarithms < 1.2",
    "hybrid.py": "AUC of held-out films > 0.85",
    "hybrid.py --loss bpr": "AUC of held-out films > 0.75",
    "word2vec.py": "AUC of held-out pairs > 0.57",
}


def test_every_example_is_tried() -> None:
    names = {path.name for path in (ROOT / "examples" / "cython").glob("*.py")}
    assert names == {*(name.split()[0] for name in ACCURACY), "beside.py"}


def test_the_page_tells_how_long_the_models_are() -> None:
    page = (ROOT / "docs" / "performance" / "cython.md").read_text(encoding="utf-8")
    told = {name: int(count) for name, count in re.findall(r"\| `(\w+\.py)` \| (\d+) \|", page)}
    lengths = {}
    for name in {name.split()[0] for name in ACCURACY}:
        tree = ast.parse((ROOT / "examples" / "cython" / name).read_text(encoding="utf-8"))
        model = [each for each in tree.body if getattr(each, "name", None) in ("wyrm", "Side")]
        lengths[name] = sum((each.end_lineno or 0) - each.lineno + 1 for each in model)
    assert told == lengths


@needs_data
def test_models_learn_from_a_part_of_the_data_as_their_peers_do() -> None:
    # The vectors of words and of their parts need as many steps as passes over the whole text have.
    arguments = {"word2vec.py": ["--epochs", "1"], "text_classifier.py": ["--epochs", "2"]}
    some = ["--part", "0.2", "--epochs", "4"]
    texts = together([[*f"cython/{name}".split(), *arguments.get(name, some)] for name in ACCURACY])
    for (name, expected), text in zip(ACCURACY.items(), texts, strict=True):
        what, sign, bound = expected.rsplit(" ", 2)
        own = figure(text, rf"wyrm: {what} (\S+) after")
        assert own > float(bound) if sign == ">" else own < float(bound), (name, text)
        peers = text.splitlines()[1:]
        assert peers and all(" after " in line or line.endswith(" is not installed") for line in peers)
        if name in ("ffm.py", "fm.py", "ftrl.py", "glove.py") and "not installed" not in peers[0]:
            assert abs(figure(text, rf"by-hand: {what} (\S+) after") / own - 1.0) < 0.02


@needs_data
def test_the_mean_and_the_spread_of_trainings_with_several_seeds_are_shown() -> None:
    arguments = ["--part", "0.1", "--epochs", "1", "--seeds", "2"]
    (text,) = together([["cython/biased_factors.py", *arguments]])
    assert re.match(r"wyrm: error of held-out ratings 1\.\d{4} \+- 0\.\d{4} after", text), text


def test_an_example_without_its_data_tells_the_variable_to_set(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "cython" / "als.py")]
    finished = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "WYRM_DATA": str(tmp_path), "PYTHONPATH": str(ROOT)}
    )
    assert finished.returncode != 0
    assert f"no ml-100k.csv in the folder {tmp_path}: set the variable WYRM_DATA" in finished.stderr
