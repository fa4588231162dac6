"""The benchmark harness: rounds in turn, cases in processes, missing and stuck peers. Measurements are not asserted."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bench.__main__ import complete
from bench.harness import Case, Measurement, run, timed
from bench.report.results import Machine, Measured, Result
from bench.report.table import table
from bench.runner import BEFORE, Limits, folder_of, measure
from tests.bench import stuck

ROOT = Path(__file__).parents[2]


def contender(log: list[str], name: str, seconds: list[float]) -> Callable[[], Callable[[], Measurement]]:
    def prepare() -> Callable[[], Measurement]:
        left = iter(seconds)

        def once() -> Measurement:
            log.append(name)
            return Measurement(next(left), peak_bytes=1024)

        return once

    return prepare


def absent() -> Callable[[], Measurement]:
    raise ImportError(name="nowhere")


def failing() -> Callable[[], Measurement]:
    def measure() -> Measurement:
        raise ValueError("no memory left")

    return measure


def test_contenders_take_turns_and_one_that_fails_takes_no_more() -> None:
    log: list[str] = []
    events: list[dict[str, object]] = []
    contenders = {
        "wyrm": contender(log, "wyrm", [1.0, 9.0, 2.0]),
        "peer": contender(log, "peer", [4.0, 4.0, 100.0]),
        "missing": absent,
        "failing": failing,
    }
    run(Case("bench", "case", contenders, rounds=3), events.append)
    assert log == ["wyrm", "peer"] * 3
    assert [each["value"] for each in events if each["event"] == "round" and each["contender"] == "peer"] == [4, 4, 100]
    assert {each["contender"]: each["why"] for each in events if each["event"] == "absent"} == {
        "missing": "nowhere is not installed",
        "failing": "ValueError: no memory left",
    }


def test_no_round_begins_after_the_time_is_over_but_each_contender_has_some() -> None:
    log: list[str] = []
    run(Case("bench", "case", {"wyrm": contender(log, "wyrm", [1.0] * 9)}, rounds=9), lambda _: None, seconds=0.0)
    assert log == ["wyrm"] * 3


def test_floors_are_of_contenders() -> None:
    with pytest.raises(ValueError, match="bench: case: no contender peer"):
        Case("bench", "case", {"wyrm": absent}, floors={"peer": 1.0})


def test_a_case_runs_in_a_process_and_a_stuck_peer_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.runner.PACKAGE", "tests.bench")
    result = measure(stuck.cases()[0], Limits(1.0, 3, 5.0))
    found = result.contenders
    assert (found["wyrm"].rounds, found["wyrm"].median) == (3, 0.5)
    assert (found["quick peer"].rounds, result.ratio("quick peer")) == (3, 2.0)
    assert found["stuck peer"].missing == "no answer in 5 s"
    assert found["missing peer"].missing == "nowhere is not installed"
    assert found["ended peer"].missing == "ended the process (code 3)"
    shown = table([result])
    assert "2.00x" in shown and "no answer in 5 s" in shown


def test_an_earlier_version_takes_turns_with_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.runner.PACKAGE", "tests.bench")
    monkeypatch.setenv("WYRM_DATA", "")
    with folder_of(ROOT) as folder:
        result = measure(stuck.cases()[1], Limits(1.0, 3, 60.0), before=folder)
    assert result.floors[BEFORE] == 0.97 and result.ratio(BEFORE) == 0.9
    assert (result.contenders["wyrm"].rounds, result.contenders[BEFORE].rounds) == (6, 4)


def test_a_case_is_complete_unless_it_was_disturbed_or_lacks_rounds_or_a_contender() -> None:
    case = stuck.cases()[1]
    result = Result("stuck", "alone", "s", "", {}, None, [], 0, 0.0, 0.0, 1.0, {"wyrm": Measured.of([1.0], [])})
    quick = Machine({}, [{"quick": True}], {result.key: result})
    assert complete(case, quick, quick=True) and not complete(case, quick, quick=False)
    assert not complete(case, Machine({}), quick=True)
    disturbed = replace(result, others=0.5)
    assert not complete(case, Machine({}, [{"quick": False}], {result.key: disturbed}), quick=False)
    assert not complete(stuck.cases()[0], Machine({}, [{"quick": False}], {"stuck: a case": result}), quick=False)


def test_without_names_the_benchmarks_are_listed() -> None:
    listed = subprocess.run([sys.executable, "-m", "bench"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [line.split()[0] for line in listed.stdout.splitlines()]
    assert {"engine", "importing", "chain", "typing_speed", "products", "growth", "roofline"} <= set(names)


def test_an_unknown_name_is_refused() -> None:
    finished = subprocess.run([sys.executable, "-m", "bench", "nothing"], cwd=ROOT, capture_output=True, text=True)
    assert finished.returncode == 2
    assert "no benchmark nothing; available: engine" in finished.stderr


def test_every_case_has_wyrm_first_and_a_name_of_its_own() -> None:
    from bench.__main__ import MODULES
    from bench.runner import cases_of

    every = [case for name in MODULES for case in cases_of(name)]
    assert len({case.key for case in every}) == len(every)
    assert all(next(iter(case.contenders)) == "wyrm" and case.rounds >= 2 for case in every)


def test_benchmarks_leave_the_settings_of_their_peers_alone() -> None:
    names = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "XLA_FLAGS"]
    code = f"""
import os
from bench.__main__ import MODULES
from bench.runner import cases_of
for each in MODULES:
    cases_of(each)
print([name for name in {names} if name in os.environ])
"""
    own = {name: value for name, value in os.environ.items() if name not in (*names, "PYTEST_VERSION")}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=own, check=True)
    assert found.stdout.strip() == "[]"


def test_a_slow_second_call_does_not_decide_how_often_work_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, now = 0, 0.0
    monkeypatch.setattr("time.perf_counter", lambda: now)

    def work() -> None:
        nonlocal calls, now
        calls += 1
        now += 0.03 if calls == 2 else 1e-4  # the second call prepares later ones

    once = timed(work, least=0.02)
    before = calls
    once()
    assert calls - before > 100
