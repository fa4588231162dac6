"""Type checkers accept every right program and reject every wrong one on the expected line, mypy in these words."""

from __future__ import annotations

import ast
import re
import statistics

import pytest

from tests.once import computed_once
from tests.typing.check_corpus import CANNOT, CHECKERS, PLUGIN, Report, beyond, check, other_limits
from tests.typing.checkers import Messages, is_installed
from tests.typing.corpus import documents, limits, programs
from tests.typing.generate import programs as long_programs

# The shares of wrong programs that checkers must reject at least; the others reject all that `cannot.toml` leaves.
LEAST = {"ty": 0.93, "pyrefly": 0.9}


@pytest.fixture(scope="module", params=CHECKERS)
def checker(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if not is_installed(name):
        pytest.skip(f"{name} is not installed; pip install 'wyrm-autodiff[dev]' brings it")
    return name


@pytest.fixture(scope="module")
def messages(checker: str, tmp_path_factory: pytest.TempPathFactory) -> Messages:
    run = CHECKERS[checker]
    by_checker = computed_once(tmp_path_factory, run.__name__, lambda: run([*programs(), *documents(), *limits()]))
    return by_checker[checker]


@pytest.fixture(scope="module")
def report(checker: str, messages: Messages) -> Report:
    return check([*programs(), *documents()], checker, messages)


def test_the_corpus_is_large_enough() -> None:
    right = sum(program.right for program in programs())
    assert right >= 290
    assert len(programs()) - right >= 650


def test_no_right_program_is_rejected_and_every_type_is_as_expected(report: Report) -> None:
    assert report.false_alarms == []


def test_every_wrong_program_is_rejected_where_it_is_wrong(checker: str, report: Report) -> None:
    judged = [p for p in programs() if not p.right and p.name not in beyond(checker)]
    caught = len([p for p in report.caught if p in judged])
    assert caught >= LEAST.get(checker, 1.0) * len(judged), report.missed


def test_checkers_cannot_do_what_is_said_that_they_cannot(checker: str, report: Report) -> None:
    assert report.mended == []
    assert beyond(checker).keys() <= {program.name for program in [*programs(), *documents()]}


def test_a_checker_cannot_do_what_the_limits_show(checker: str, messages: Messages) -> None:
    assert other_limits(checker, messages) == []


def test_limits_name_the_checkers_that_they_excuse() -> None:
    named = {program.name: program.source for program in limits()}
    for checker, cannot in CANNOT.items():
        # What pyright cannot, strict pyright need not do.
        names = "|".join(map(re.escape, [checker, *(["pyright"] if checker == "pyright --strict" else [])]))
        for limit in set(cannot.values()):
            assert re.search(rf"by: .*\b({names})(,|$)", named[limit], re.MULTILINE), (checker, limit)
    assert {limit for cannot in CANNOT.values() for limit in cannot.values()} == named.keys()


def test_messages_are_short(checker: str, report: Report) -> None:
    if not checker.startswith("mypy"):
        pytest.skip("the words of other checkers are their own")
    assert statistics.median(report.lengths) <= (90 if checker == PLUGIN else 120)


def test_the_long_programs_are_as_long_as_they_say() -> None:
    statements = {name: len(ast.parse(source).body) for name, source in long_programs().items()}
    assert statements == {
        "chain of 300 operators": 307,
        "100 residual blocks": 107,
        "200 doublings": 207,
        "12 operands in each other": 7,
    }
