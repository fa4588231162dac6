"""The host holds one shard beside a table and its state on devices: where they are made, saved and restored."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.jax.memory_of_checkpoints import DEVICES, SHARD_BYTES
from tests.once import computed_once
from tests.subprocesses import on_simulated_devices

pytest.importorskip("orbax.checkpoint")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the most memory of a process is read from /proc")

# A table, a sum of squares and an average.
ARRAYS = 3 * DEVICES * SHARD_BYTES
# What else a process allocates meanwhile: code that XLA compiles, threads, blocks of draws.
REST = 80_000_000


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    worker = "tests.jax.memory_of_checkpoints"
    return computed_once(tmp_path_factory, "memory_of_checkpoints", lambda: on_simulated_devices(worker))


@pytest.mark.parametrize("what", ["creation", "restore"])
def test_a_table_comes_to_the_devices_by_shards(found: Any, what: str) -> None:
    before, most = found[what]
    assert ARRAYS < most - before < ARRAYS + SHARD_BYTES + REST
    assert found["equal"]


def test_a_table_is_written_from_its_place(found: Any) -> None:
    before, most = found["save"]
    assert before > ARRAYS
    assert most - before < SHARD_BYTES
