"""Tables whose rows eight simulated devices own: numbers as on one device, and what the compiled code sends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.engines.jax import divided_tables
from tests.engines.jax.collectives import Collective
from tests.once import computed_once
from tests.subprocesses import on_simulated_devices
from wyrm.engines.jax.divided_tables import room

# XLA writes rows in place by a scatter, also as a fusion, or one by one, as its options say.
IN_PLACE = {"scatter", "fusion", "call", "dynamic-update-slice"}
SHARDINGS = [name for name in divided_tables.SHARDINGS if name != "rows"]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return computed_once(
        tmp_path_factory, "divided_tables", lambda: on_simulated_devices("tests.engines.jax.divided_tables")
    )


def assert_equal(many: dict[str, Any]) -> None:
    assert max(many["losses"]) <= 1e-6 and max(many["values"]) <= 1e-6
    assert many["shapes"] == [[8001, 8], [8081, 8], [8081]]


@pytest.mark.parametrize("run", divided_tables.RUNS)
def test_training_is_that_of_one_device(found: Any, run: str) -> None:
    assert_equal(found["rows"][run])


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_meshes_with_several_axes(found: Any, sharding: str) -> None:
    assert_equal(found["shardings"][sharding])


def test_padding_is_never_drawn_and_never_moves(found: Any) -> None:
    assert all(run["padding"] == 0.0 for run in [*found["rows"].values(), *found["shardings"].values()])


def sent(found: Any, code: str) -> list[Collective]:
    """Return the collectives of a step."""
    return [Collective(*each) for each in found["code"][code]["sent"]]


def bytes_of(found: Any, code: str) -> int:
    return sum(each.size for each in sent(found, code))


def test_a_step_sends_rows_of_the_batch_alone(found: Any) -> None:
    step, large_tables, large_batch = (bytes_of(found, code) for code in ("Adagrad", "larger tables", "larger batch"))
    assert {each.kind for each in sent(found, "Adagrad") if each.size > 64} == {"all-to-all"}
    temporary = [found["code"][code]["temporary"] for code in ("Adagrad", "larger tables")]
    assert large_tables == step and temporary[0] == temporary[1]
    # A device's part of four times as many rows; the room above the mean number of rows grows as its root.
    assert 2 * step < large_batch < 4 * step
    # Rows and gradients: one row of users and two of items, which have a bias. Room is for more.
    assert large_batch < 3 * (2048 / 8) * 2 * (8 + 2 * 9) * 4


def test_accumulated_gradients_are_exchanged_once_a_step(found: Any) -> None:
    large = [each for each in sent(found, "accumulated") if each.size > 64]
    assert {each.kind for each in large} == {"all-to-all"}
    # Of three tables, a number and a row each; lookups are those of each of three batches.
    assert [each.times for each in large].count(1) == 2 * 3 and {each.times for each in large} == {1, 3}
    assert set(found["code"]["accumulated"]["whole"]) <= IN_PLACE


def test_gradients_of_tables_on_every_device_are_gathered_by_rows(found: Any) -> None:
    # The rows of users, of items and of negatives, with a bias for the last two, and the number of each row; then the
    # loss.
    messages = sent(found, "batch alone")
    gathered = sum(each.size for each in messages if each.kind == "all-gather")
    assert gathered == 512 * (8 + 1 + 2 * (8 + 1 + 1)) * 4
    assert [each.size for each in messages if each.kind != "all-gather"] == [4]


def test_devices_with_columns_add_up_the_scores_in_one_message(found: Any) -> None:
    messages = sent(found, "columns")
    # Those of an item and a negative for each row of the batch; beside them, whether all gradients are finite.
    assert [(each.kind, each.size) for each in messages if each.size > 8] == [("all-reduce", 512 * 2 * 4)]
    assert len(messages) == 2


@pytest.mark.parametrize("code", ["SGD", "Adagrad", "Adam", "larger tables", "larger batch"])
def test_no_op_makes_an_array_as_large_as_a_table(found: Any, code: str) -> None:
    # With Adagrad, with SGD and a momentum, and with Adam and `max_norm`.
    step = found["code"][code]
    assert set(step["whole"]) <= IN_PLACE and step["temporary"] < 200_000


def test_training_goes_on_on_another_mesh(found: Any) -> None:
    for way in found["resumed"]:
        assert_equal(way)


def test_padding_is_never_ranked(found: Any) -> None:
    scores, expected = map(np.array, found["served"])
    assert scores.shape == (16, divided_tables.FEW[1])
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)


def test_each_device_ranks_its_own_rows(found: Any) -> None:
    for ranked in found["ranked"]:
        assert ranked["values"] and ranked["indices"] and ranked["columns"]
        # Thirty numbers of each device for each user, where the scores are as many as there are items.
        assert ranked["largest message"] <= 64 * 8 * 30 * 4


def test_recall_without_seen_items(found: Any) -> None:
    for ranked in found["ranked"]:
        recall, expected = ranked["recall"]
        assert recall == expected > 0


def test_indices_with_two_axes_and_tables_that_are_used_whole(found: Any) -> None:
    one, *others = found["words"]
    for losses in others:
        np.testing.assert_allclose(losses, one, rtol=1e-6)


def test_gradients_on_the_host(found: Any) -> None:
    assert len(found["gradients"]) == 3 and max(found["gradients"]) <= 1e-6


def test_errors_of_a_step_change_nothing(found: Any) -> None:
    one, many = found["stopped"]
    assert many == one and many[1]
    assert many[0][0].startswith("Diverged: the loss is ") and many[0][1].startswith("IndexOutOfRange")


def test_the_room_of_messages() -> None:
    assert room(512, owners=8, rows=250_000) == 104  # a mean of 64
    assert room(512, owners=8, rows=10) == 10
    assert room(1, owners=8, rows=10) == 1
