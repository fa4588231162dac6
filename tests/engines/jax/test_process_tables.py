"""Tables that two processes train: the numbers of one process in each way to divide them, and what they save."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.engines.jax import process_tables
from tests.engines.jax.process_tables import WAYS, Way
from tests.engines.jax.processes import Server

pytest.importorskip("jax")
pytest.importorskip("orbax.checkpoint")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What two processes find, who agree."""
    folder = tmp_path_factory.mktemp("tables")
    with Server() as server:
        yield server.found(folder, 2, model="tables", folder=str(folder / "checkpoints"))


@pytest.fixture(scope="module")
def one() -> dict[int, dict[str, Any]]:
    """What one process finds, by the number of batches of a step."""
    return {accumulate: process_tables.trained(Way(accumulate=accumulate))[1] for accumulate in (1, 2)}


@pytest.mark.parametrize("name", WAYS)
def test_two_processes_train_tables_as_one_does(two: dict[str, Any], one: dict[int, dict[str, Any]], name: str) -> None:
    way = WAYS[name]
    expected = one[way.accumulate] if way.local_steps == 1 else process_tables.of_local_steps(2)
    assert two[name]["loss"] == pytest.approx(expected["loss"], abs=1e-6)
    for found, table in zip(two[name]["values"], expected["values"], strict=True):
        np.testing.assert_allclose(found, table, rtol=0, atol=1e-6)


def test_a_checkpoint_that_later_steps_overtake_is_that_of_its_step(two: dict[str, Any]) -> None:
    assert two["restored"] == two["rows"]["values"] != two["later"]


def test_processes_of_cpus_are_to_take_local_steps(two: dict[str, Any]) -> None:
    assert "local_steps=16" in two["suggestion"]
