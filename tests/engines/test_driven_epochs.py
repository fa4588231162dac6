"""How an epoch has an engine do its steps: in chunks, with the rows left over last, and what the bar hears of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines import epochs
from wyrm.engines.epochs import Epoch, EpochPosition, Pace, checked_options
from wyrm.engines.totals import Totals

ROWS, BATCH = 23, 4


class Engine:
    """Notes the steps that it is asked for: the first one, how many and their rows. It does at most `most` of them."""

    def __init__(self, accumulate: int = 1, most: int = 100) -> None:
        options: Any = {"shuffle": False, "seed": 0, "threads": 1, "mode": "hogwild", "progress": False}
        checked = checked_options(batch_size=BATCH, accumulate=accumulate, **options)
        self.heard: list[tuple[int, float]] = []
        position = EpochPosition()
        with position.epoch({}, 1):
            self.epoch = Epoch(1, checked, Totals([wy.Parameter(1.0) * 2.0]), position, False, (), self)
        self.asked: list[tuple[int, int, int]] = []
        self.most, self.fails_at = most, ROWS

    def add(self, rows: int, losses: float) -> None:
        self.heard.append((rows, losses))

    def run_steps(self, first: int, count: int, rows: Any) -> int:
        self.asked.append((first, count, len(rows)))
        assert rows[0] == first * self.epoch.options.accumulate * BATCH
        done = min(count, self.most)
        self.epoch.count(np.array([len(rows) / count]), np.array([float(done)]), np.array([[0.5 * done]]))
        if first >= self.fails_at:
            raise ArithmeticError
        return done

    def drive(self, batches_of_chunk: float) -> list[tuple[int, int, int]]:
        pace = Pace()
        pace.rate = batches_of_chunk / epochs._CHUNK
        self.epoch.drive(np.arange(ROWS), self.run_steps, pace)
        return self.asked


def test_without_a_pace_each_step_is_a_chunk() -> None:
    engine = Engine()
    engine.epoch.drive(np.arange(ROWS), engine.run_steps)
    assert engine.asked == [(step, 1, 4) for step in range(5)] + [(5, 1, 3)] == Engine().drive(0.0)
    assert engine.heard == [(4, 2.0)] * 5 + [(3, 1.5)]
    done = engine.epoch.done
    assert (done.batches, done.rows, engine.epoch.result(done)) == (6, ROWS, ([0.5], 0.5))


def test_a_chunk_has_the_steps_that_its_time_is_enough_for() -> None:
    assert Engine().drive(2.5) == [(0, 2, 8), (2, 2, 8), (4, 1, 4), (5, 1, 3)]
    assert Engine().drive(1e9) == [(0, 5, 20), (5, 1, 3)]
    assert Engine(accumulate=2).drive(4.5) == [(0, 2, 16), (2, 1, 7)]
    assert Engine(accumulate=9).drive(1e9) == [(0, 1, ROWS)]


def test_an_engine_may_do_fewer_steps_or_none() -> None:
    assert Engine(most=3).drive(1e9) == [(0, 5, 20), (3, 2, 8), (5, 1, 3)]
    assert Engine(most=0).drive(1e9) == [(0, 5, 20)]


def test_what_was_done_before_an_error_is_shown() -> None:
    engine = Engine()
    engine.fails_at = 2
    with pytest.raises(ArithmeticError):
        engine.drive(1.0)
    assert engine.heard == [(4, 2.0)] * 3 and engine.epoch.done.rows == 12


def test_a_short_time_tells_only_how_slow_steps_are_at_most() -> None:
    pace = Pace()
    pace.took(1000, 1.0)
    pace.took(1, 1e-4)
    assert pace.rate == 10_000.0
    pace.took(1, 1e-3)
    assert pace.rate == 10_000.0
    pace.took(10, 1.0)
    assert pace.rate == 10.0
