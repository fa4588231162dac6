"""Trains on rows of different lengths that simulated devices divide, and writes what it finds as JSON.

XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m tests.engines.jax.ragged_rows
"""

from __future__ import annotations

import json
import sys
from typing import Any

import jax
import numpy as np

import wyrm as wy
from tests.engines.test_made_axes_epochs import Batch as MadeBatch
from tests.engines.test_made_axes_epochs import Problem as Made
from tests.engines.test_ragged_epochs import COUNT, LENGTHS, Batch, Problem, Vocabulary, Words
from tests.random.test_random_parts_of_batches import BATCH, ENTRIES, OF_ENTRIES
from tests.random.test_random_parts_of_batches import Batch as Rows
from tests.random.test_random_parts_of_batches import Problem as Drawn
from wyrm.engines.jax.compiled import collectives

DEVICES = 4
# What is divided; in the last one the devices exchange rows of the table.
DIVISIONS: dict[str, dict[str, Any]] = {"rows": {}, "accumulated": {"accumulate": 3}, "rows and table": {}}
CASES = [
    ("weighted sum", "rows"), ("weighted sum", "accumulated"), ("weighted sum", "rows and table"),
    ("attention", "accumulated"), ("in order", "rows"), ("a loop", "rows"), ("sorted", "rows"),
    ("by places", "accumulated"),
]  # fmt: skip
MADE = [("pairs of joined", "rows"), ("attention", "accumulated")]
DRAWS = ["dropout of vectors", "gamma", "negatives", "without the row's own"]


def mesh() -> Any:
    return jax.make_mesh((DEVICES,), ("data",), devices=jax.devices()[:DEVICES])


def trained(kind: str, division: str) -> list[Any]:
    """Return the parameters after an epoch."""
    problem = Problem(kind)
    axes: Any = {Batch: "data"} | ({Vocabulary: "data"} if "table" in division else {})
    program = wy.compile(problem.loss, problem.optimizer, engine="jax", mesh=mesh(), sharding=axes)
    program.epoch(problem.data, batch_size=8, **DIVISIONS[division])
    return [value.tolist() for value in problem.values]


def trained_along_made_axes(kind: str, division: str) -> list[Any]:
    """Return the parameters after an epoch along axes that are made of others."""
    problem = Made(kind)
    program = wy.compile(problem.loss, problem.optimizer, engine="jax", mesh=mesh(), sharding={MadeBatch: "data"})
    program.epoch(problem.data, batch_size=8, **DIVISIONS[division])
    return [value.tolist() for value in problem.values]


def sent() -> list[Any]:
    """Return what the devices send in a step of bags of words."""
    problem = Problem()
    program: Any = wy.compile(problem.loss, problem.optimizer, engine="jax", mesh=mesh(), sharding={Batch: "data"})
    program.epoch({leaf: column[:32] for leaf, column in problem.data.items()}, batch_size=32)
    return collectives(program.stages()["optimized"])


def entries() -> dict[str, Any]:
    """Return what calls return for each entry, of rows that the devices divide and of others; some have none."""
    problem = Problem()
    outputs: Any = [problem.weights * 2.0, problem.weights.softmax(axis=1), problem.weights.sum(axis=1)]
    program: Any = wy.compile(outputs, engine="jax", mesh=mesh(), sharding={Batch: "data"})
    rows = wy.RaggedArray.of_rows(problem.data[problem.weights])
    empty = np.flatnonzero(LENGTHS == 0)
    some = {"divided": np.arange(16), "not divided": np.arange(7), "a device without entries": [*empty[:4], 1, 2, 3, 4]}
    return {
        name: [getattr(each, "values", each).tolist() for each in program({problem.weights: rows[np.array(chosen)]})]
        for name, chosen in some.items()
    }


def drawn(kind: str) -> float:
    """Return a parameter that tells the numbers which the entries of divided rows drew."""
    problem = Drawn(OF_ENTRIES[kind], ragged=True)
    program = wy.compile(
        problem.loss, wy.optim.SGD([problem.scale], 1e-6), engine="jax", mesh=mesh(), sharding={Rows: "data"}
    )
    for _ in range(2):
        program.epoch({problem.x: ENTRIES}, batch_size=BATCH)
    return float(problem.scale)


def refused() -> dict[str, str]:
    """Return the errors of what cannot be divided."""
    problem, found = Problem(), dict[str, str]()
    wrong: dict[str, dict[str, Any]] = {
        "local steps": {"sharding": {Batch: "data"}, "local_steps": 2},
        "the ragged axis": {"sharding": {Words: "data"}},
    }
    for name, options in wrong.items():
        try:
            wy.compile(problem.loss, problem.optimizer, engine="jax", mesh=mesh(), **options)
        except wy.errors.OptionError as error:
            found[name] = str(error)
    return found


if __name__ == "__main__":
    assert COUNT % DEVICES  # the last batch is not divided
    sys.stdout.write(json.dumps({
        "trained": {f"{kind}, {way}": trained(kind, way) for kind, way in CASES},
        "made": {f"{kind}, {way}": trained_along_made_axes(kind, way) for kind, way in MADE},
        "sent": sent(), "entries": entries(), "drawn": {kind: drawn(kind) for kind in DRAWS}, "refused": refused(),
    }))  # fmt: skip
