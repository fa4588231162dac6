"""A step with the clocks of a profile vs a plain one: what measuring costs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.harness import Case, Measurement, timed

Make = Callable[[], tuple[Any, dict[Any, NDArray[Any]], int]]
# Steps of the regression in one timed run.
_ROWS, _BATCH = 200_000, 64


def _regression() -> tuple[Any, dict[Any, NDArray[Any]], int]:
    import wyrm as wy

    class Batch(wy.Dim): ...

    x, y = wy.Input(dims=(Batch(),), name="x"), wy.Input(dims=(Batch(),), name="y")
    slope, intercept = wy.Parameter(1.0, name="slope"), wy.Parameter(0.0, name="intercept")
    loss = (y - (slope * x + intercept)).square().mean()
    data = np.random.default_rng(0).normal(size=_ROWS).astype(np.float32)
    return wy.compile(loss, wy.optim.Adam([slope, intercept], 1e-3)), {x: data, y: 3.0 * data + 5.0}, _BATCH


def _classifier() -> tuple[Any, dict[Any, NDArray[Any]], int]:
    import wyrm as wy

    class Batch(wy.Dim): ...

    batch, draw = Batch(), np.random.default_rng(0)
    images, labels = wy.Input(dims=(batch, 784), name="images"), wy.IndexInput(dims=(batch,), name="labels")
    hidden, output = wy.nn.Linear(784, 128), wy.nn.Linear(128, 10)
    loss = output(hidden(images).relu()).cross_entropy(labels)
    columns: dict[Any, NDArray[Any]] = {
        images: draw.normal(size=(3200, 784)).astype(np.float32),
        labels: draw.integers(0, 10, 3200),
    }
    return wy.compile(loss, wy.optim.Adam(loss.parameters(), 1e-3)), columns, _BATCH


def _plain(make: Make) -> Callable[[], Measurement]:
    program, columns, batch = make()
    return timed(lambda: program.epoch(columns, batch_size=batch))


def _with_clocks(make: Make) -> Callable[[], Measurement]:
    """Return a round of the same steps with clocks, without the counting of work that follows them."""
    from wyrm.engines.epochs import EpochOptions, train_epochs
    from wyrm.engines.totals import Totals
    from wyrm.profile.measure import Recorder, RecordingEngine, RecordingRunner

    program, columns, batch = make()
    graph: Any = program.graph
    runner = RecordingRunner(graph, "auto", Recorder(on=True))
    engine = RecordingEngine(graph, runner)
    totals = Totals(graph.outputs)
    options = EpochOptions(batch, shuffle=False, seed=0, threads=1, mode="hogwild", progress=False, accumulate=1)

    def epoch() -> object:
        runner.recorder.restart()
        return train_epochs(engine, columns, options, totals, in_batches=False)[0].outputs

    return timed(epoch)


def cases() -> list[Case]:
    """Return the cases: steps of less than a microsecond, and of less than a millisecond."""
    programs: dict[str, Make] = {
        "regression, 3125 steps of 64 rows": _regression,
        "classifier of images, 50 steps of 64": _classifier,
    }
    return [
        Case("profiling", name, {"wyrm": partial(_plain, make), "wyrm, with clocks": partial(_with_clocks, make)})
        for name, make in programs.items()
    ]
