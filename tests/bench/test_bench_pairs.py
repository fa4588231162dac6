"""Programs beside the same programs in PyTorch and JAX: they are as short, and learn as well."""

from __future__ import annotations

import ast
import importlib
import io
import math
import tokenize
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.pairs.data import REWARDS
from bench.programs_beside import PEERS

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


def trainer(program: str, library: str) -> Callable[[int], float]:
    """Return `train` of one program; skip the test if its library is not installed."""
    pytest.importorskip(library)
    train: Callable[[int], float] = importlib.import_module(f"bench.pairs.{program}_{library}").train
    return train


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
def test_a_program_learns(program: str, library: str) -> None:
    train = trainer(program, library)
    if program == "bandit":
        reward = train(60)  # the policy starts with equal probabilities
        assert REWARDS.mean() + 0.05 < reward <= REWARDS.max()
        return
    if program == "two_towers":
        recall = train(10)  # of 10 items out of 600, of which 20 are known
        assert 0.3 < recall < 0.6
        return
    first, last = train(1), train(3 if program in ("autoencoder", "convolutions", "dates", "resnet") else 20)
    assert math.isfinite(last) and last < 0.95 * first


def test_two_towers_find_as_much_as_their_peer() -> None:
    ours, theirs = trainer("two_towers", "wyrm")(10), trainer("two_towers", "torch")(10)
    assert ours > theirs - 0.05  # of 400 items that are held out


@pytest.mark.parametrize("program", ["gaussian_process", "pendulum"])
def test_the_same_start_gives_the_same_loss(program: str) -> None:
    ours, theirs = trainer(program, "wyrm"), trainer(program, PEERS[program])
    for steps in (1, 20):
        assert ours(steps) == pytest.approx(theirs(steps), rel=1e-3)
