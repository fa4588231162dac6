"""mypy accepts every right program and rejects every wrong one, on the expected line with the expected message."""

from __future__ import annotations

import ast

import pytest

from tests.typing.check_corpus import Report, check, programs, run_mypy
from tests.typing.generate import programs as long_programs
from wyrm import declare


@pytest.fixture(scope="module")
def report() -> Report:
    corpus = programs()
    return check(corpus, run_mypy(corpus))


def test_the_corpus_is_large_enough() -> None:
    right = sum(program.right for program in programs())
    assert right >= 150
    assert len(programs()) - right >= 250


def test_no_right_program_is_rejected_and_every_type_is_as_expected(report: Report) -> None:
    assert report.false_alarms == []


def test_every_wrong_program_is_rejected_where_it_is_wrong(report: Report) -> None:
    assert report.missed == []
    assert len(report.caught) == sum(not program.right for program in programs())


@pytest.mark.parametrize("file", declare.declarations())
def test_the_declarations_are_those_that_the_ops_give(file: str) -> None:
    written = (declare.folder() / file).read_text(encoding="utf-8")
    assert written == declare.declarations()[file], f"{file} is out of date: run python -m wyrm.declare"


def test_the_long_programs_are_as_long_as_they_say() -> None:
    statements = {name: len(ast.parse(source).body) for name, source in long_programs().items()}
    assert statements == {"chain of 300 operators": 306, "100 residual blocks": 106, "200 doublings": 206}
