"""The picture of results has a line for each case, with the peers that were measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.picture import Line, draw, lines_of

RECORDS = [
    {"bench": "chain", "case": "build + forward, a node of 200", "contender": "wyrm", "ratio_to_wyrm": 1.0},
    {"bench": "chain", "case": "build + forward, a node of 200", "contender": "torch eager", "ratio_to_wyrm": 0.5},
    {"bench": "gpt2", "case": "step, 124M, dropout 0.0", "contender": "torch eager", "ratio_to_wyrm": 2.0},
    {"bench": "engine", "case": "building, a node", "contender": "wyrm", "ratio_to_wyrm": 1.0},
]


def test_a_line_has_the_peers_of_its_case() -> None:
    assert lines_of(RECORDS) == [
        Line("GPT-2 124M, a step", {"torch eager": 2.0}),
        Line("new graph, built and run once", {"torch eager": 0.5}),
    ]


def test_the_same_results_give_the_same_file(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the picture is drawn by matplotlib")
    first, second = tmp_path / "first.svg", tmp_path / "second.svg"
    for path in (first, second):
        draw(lines_of(RECORDS), path)
    assert first.read_bytes() == second.read_bytes()
    assert "<svg" in first.read_text(encoding="utf-8")
