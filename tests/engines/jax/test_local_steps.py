"""Local steps on two simulated devices: the numbers of copies that are averaged, what they send, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.engines.jax.collectives import Collective
from tests.engines.jax.local_steps import DEVICES, ROWS, STEPS, X, Y
from tests.once import computed_once
from tests.subprocesses import on_simulated_devices


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return computed_once(tmp_path_factory, "local_steps", lambda: on_simulated_devices("tests.engines.jax.local_steps"))


def test_copies_take_steps_apart_and_are_averaged(found: Any) -> None:
    weights, velocities, losses = np.zeros((DEVICES, 3)), np.zeros((DEVICES, 3)), []
    for step in range(7):
        for device in range(DEVICES):
            rows = slice((step * DEVICES + device) * ROWS, (step * DEVICES + device + 1) * ROWS)
            error = X[rows] @ weights[device] - Y[rows]
            losses.append((error**2).mean())
            velocities[device] = 0.5 * velocities[device] + 2.0 * X[rows].T @ error / ROWS
            weights[device] -= 0.1 * velocities[device]
        if step % STEPS == STEPS - 1 or step == 6:  # also after the last step
            weights[:], velocities[:] = weights.mean(0), velocities.mean(0)
    assert found["dense"]["loss"] == pytest.approx(np.mean(losses), rel=1e-6)
    np.testing.assert_allclose(found["dense"]["value"], weights[0], rtol=1e-5)


def test_devices_send_one_message_between_steps(found: Any) -> None:
    sent = [Collective(*each) for each in found["dense"]["sent"]]
    between = [each for each in sent if each.loops]
    # The parameter and the velocity; and whether all devices moved.
    assert sorted((each.kind, each.size) for each in between) == [("all-reduce", 4), ("all-reduce", 4 * (3 + 3))]
    assert {each.kind for each in sent} == {"all-reduce"}


def test_a_row_of_a_table_is_averaged_over_the_devices_that_moved_it(found: Any) -> None:
    # Two steps of a mean over four rows: row 0 twice and row 2 twice on one device, row 1 thrice and row 2 once.
    assert found["sparse"] == [[0.0], [-0.5], [1.0 - 2 * (0.5 + 0.25) / 2], [1.0]]


def test_a_step_that_fails_on_one_device_changes_nothing_since_the_last_average(found: Any) -> None:
    for error, value in found["stopped"].values():
        # Three steps of both devices.
        assert value == [0.0, -3.0, 0.0, 0.0, 0.0], error
    diverged, outside = (found["stopped"][which][0] for which in ("infinite", "outside"))
    assert diverged.startswith("Diverged") and "after batch 3" in diverged
    assert outside.startswith("IndexOutOfRange") and "holds 5 at position (6,)" in outside


def test_devices_draw_different_numbers(found: Any) -> None:
    first, second = found["drawn"]
    assert first != pytest.approx(second, abs=1e-3) and 0.0 not in (first, second)


def test_options_that_do_not_fit(found: Any) -> None:
    divided, none, no_mesh, zero, accumulated = found["refused"]
    assert "sharding divides weight" in divided and "map the axis of the batch alone" in divided
    assert "one divided axis, that of the batch" in none
    assert "give mesh and sharding" in no_mesh
    assert "local_steps must be" in zero
    assert "accumulate=2 with local_steps=3" in accumulated
