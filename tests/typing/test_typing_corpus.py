"""Type checkers accept every right program and reject every wrong one on the expected line, mypy in these words."""

from __future__ import annotations

import ast
import statistics

import pytest

from tests.once import computed_once
from tests.typing.check_corpus import CHECKERS, HAS_PYRIGHT, Report, check, programs, readme
from tests.typing.generate import programs as long_programs


@pytest.fixture(scope="module", params=CHECKERS)
def checker(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if name == "pyright" and not HAS_PYRIGHT:
        pytest.skip("pyright is not installed; pip install 'pyright[nodejs]' brings it")
    return name


@pytest.fixture(scope="module")
def report(checker: str, tmp_path_factory: pytest.TempPathFactory) -> Report:
    corpus = [*programs(), readme()]
    run = CHECKERS[checker]
    return check(corpus, checker, computed_once(tmp_path_factory, run.__name__, lambda: run(corpus))[checker])


def test_the_corpus_is_large_enough() -> None:
    right = sum(program.right for program in programs())
    assert right >= 150
    assert len(programs()) - right >= 250


def test_no_right_program_is_rejected_and_every_type_is_as_expected(report: Report) -> None:
    assert report.false_alarms == []


def test_every_wrong_program_is_rejected_where_it_is_wrong(checker: str, report: Report) -> None:
    assert report.missed == []
    judged = [p for p in programs() if not p.right and (checker != "pyright" or p.beyond_pyright is None)]
    assert len(report.caught) == len(judged)


def test_messages_are_short(checker: str, report: Report) -> None:
    if checker == "pyright":
        pytest.skip("pyright explains an error on several lines")
    assert statistics.median(report.lengths) <= 120


def test_the_long_programs_are_as_long_as_they_say() -> None:
    statements = {name: len(ast.parse(source).body) for name, source in long_programs().items()}
    assert statements == {
        "chain of 300 operators": 307,
        "100 residual blocks": 107,
        "200 doublings": 207,
        "12 operands in each other": 7,
    }
