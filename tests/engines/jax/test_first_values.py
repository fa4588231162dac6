"""Devices draw the first values of their own rows; the host has those of one device at a time, with the same bits."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engines.jax.first_values import ROWS
from tests.once import computed_once
from tests.subprocesses import on_simulated_devices


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return computed_once(
        tmp_path_factory, "first_values", lambda: on_simulated_devices("tests.engines.jax.first_values")
    )


def test_a_host_draws_the_rows_of_a_device_at_a_time(found: Any) -> None:
    assert found["wholes"] == 0
    shard = -(-ROWS // 8)
    assert found["drawn"] == [*[shard] * 7, ROWS - 7 * shard] and found["drawn by restore"] == 0


def test_the_numbers_are_those_of_the_whole_table(found: Any) -> None:
    assert found["equal"] and not found["padding"]


def test_a_restored_training_goes_on(found: Any) -> None:
    losses, (restored, going_on) = found["losses"]
    assert restored == going_on < losses[1] < losses[0] and found["trained"]
