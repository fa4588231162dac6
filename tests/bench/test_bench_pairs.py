"""Programs beside the same programs in PyTorch and JAX: they are as short, and learn as well."""

from __future__ import annotations

import ast
import importlib
import io
import math
import tokenize
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.pairs.data import REWARDS, dates
from bench.programs_beside import PEERS
from tests.once import computed_once

FOLDER = Path(__file__).parents[2] / "bench" / "pairs"
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(source: str) -> int:
    """Return the number of lines with code: without comments, docstrings and imports from `__future__`."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(ast.Constant(str())) | ast.ImportFrom("__future__"):
                lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str, int], float]:
    """Train a program of a library so many times and return its loss; several tests share the result.

    A test is skipped if the library is not installed.
    """

    def result(program: str, library: str, times: int) -> float:
        pytest.importorskip(library)
        module: Any = importlib.import_module(f"bench.pairs.{program}_{library}")
        name = f"{program}-{library}-{times}"
        with pytest.MonkeyPatch.context() as patch:
            if program == "dates":
                patch.setattr(module, "dates", lambda: dates(512))
            return computed_once(tmp_path_factory, name, lambda: float(module.train(times)))

    return result


def test_comments_and_docstrings_are_not_code() -> None:
    source = '"""Text.\n\nMore."""\nfrom __future__ import annotations\n\n# Why.\nx = [  # a\n    1,\n]\n\n\ny = "a"\n'
    assert code_lines(source) == 4


def test_every_program_has_a_peer() -> None:
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "data"}
    assert files == {f"{program}_{library}" for program, peer in PEERS.items() for library in ("wyrm", peer)}


@pytest.mark.parametrize("program", PEERS)
def test_a_program_has_at_most_a_tenth_more_lines_than_its_peer(program: str) -> None:
    ours, theirs = (
        code_lines((FOLDER / f"{program}_{library}.py").read_text(encoding="utf-8"))
        for library in ("wyrm", PEERS[program])
    )
    assert ours <= 1.1 * theirs, (ours, theirs)


@pytest.mark.parametrize(("program", "library"), [(name, each) for name in PEERS for each in ("wyrm", PEERS[name])])
def test_a_program_learns(train: Callable[[str, str, int], float], program: str, library: str) -> None:
    if program == "bandit":
        reward = train(program, library, 60)  # the policy starts with equal probabilities
        assert REWARDS.mean() + 0.05 < reward <= REWARDS.max()
        return
    if program == "two_towers":
        recall = train(program, library, 10)  # of 10 items out of 600, of which 20 are known
        assert 0.3 < recall < 0.6
        return
    epochs = {"autoencoder": 2, "convolutions": 2, "dates": 3, "resnet": 2}.get(program, 20)
    first, last = train(program, library, 1), train(program, library, epochs)
    assert math.isfinite(last) and last < 0.95 * first


def test_two_towers_find_as_much_as_their_peer(train: Callable[[str, str, int], float]) -> None:
    ours, theirs = (train("two_towers", library, 10) for library in ("wyrm", "torch"))
    assert ours > theirs - 0.05  # of 400 items that are held out


@pytest.mark.parametrize("program", ["gaussian_process", "pendulum"])
def test_the_same_start_gives_the_same_loss(train: Callable[[str, str, int], float], program: str) -> None:
    for steps in (1, 20):
        ours, theirs = (train(program, library, steps) for library in ("wyrm", PEERS[program]))
        assert ours == pytest.approx(theirs, rel=1e-3)
