"""The benchmark harness: interleaving, medians, ratios, missing peers. Measurements are not asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.harness import Case, Measurement, run, table, write_json

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


def test_contenders_take_turns_and_medians_are_compared(tmp_path: Path) -> None:
    log: list[str] = []
    contenders = {
        "wyrm": contender(log, "wyrm", [1.0, 9.0, 2.0]),
        "peer": contender(log, "peer", [4.0, 4.0, 100.0]),
        "missing": absent,
    }
    rows, left_out = run(Case("bench", "case", contenders, goal="2x", rounds=3))
    assert log == ["wyrm", "peer"] * 3
    assert [(row.contender, row.seconds, row.ratio_to_wyrm) for row in rows] == [("wyrm", 2.0, 1.0), ("peer", 4.0, 2.0)]
    assert left_out == ["missing (nowhere is not installed)"]
    assert table(rows).splitlines()[2].split()[:3] == ["2.00x", "4", "s"]
    write_json(rows, tmp_path / "rows.json")
    records = json.loads((tmp_path / "rows.json").read_text(encoding="utf-8"))
    assert list(records[1]) == ["bench", "case", "contender", "seconds", "ratio_to_wyrm", "peak_bytes"]


def test_without_names_the_benchmarks_are_listed() -> None:
    listed = subprocess.run([sys.executable, "-m", "bench"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [line.split()[0] for line in listed.stdout.splitlines()]
    assert {"engine", "importing", "chain", "typing_speed"} <= set(names)


def test_an_unknown_name_is_refused() -> None:
    finished = subprocess.run([sys.executable, "-m", "bench", "nothing"], cwd=ROOT, capture_output=True, text=True)
    assert finished.returncode == 2
    assert "no benchmark nothing; available: engine" in finished.stderr


@pytest.mark.parametrize("name", ["engine", "chain", "importing"])
def test_every_case_has_wyrm_first(name: str) -> None:
    module = __import__(f"bench.{name}", fromlist=["cases"])
    for case in module.cases():
        assert next(iter(case.contenders)) == "wyrm"
        assert case.goal and case.rounds >= 5
