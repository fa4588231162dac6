"""Training on eight simulated devices: losses as on one device, memory as the table says, errors before placement."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.engines.jax import sharded_training
from tests.engines.jax.collectives import Collective
from tests.once import computed_once
from tests.subprocesses import on_simulated_devices

CASES = [(model, case) for model, cases in sharded_training.CASES.items() for case in cases]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return computed_once(
        tmp_path_factory, "sharded", lambda: on_simulated_devices("tests.engines.jax.sharded_training")
    )


@pytest.mark.parametrize(("model", "case"), CASES)
def test_losses_are_those_of_one_device(found: Any, model: str, case: str) -> None:
    one, sharded = found[model]["one"], found[model][case]
    np.testing.assert_allclose(sharded["losses"], one["losses"], rtol=1e-5)
    np.testing.assert_allclose(sharded["parameters"], one["parameters"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("model", "case"), CASES)
def test_devices_hold_as_many_bytes_as_the_table_says(found: Any, model: str, case: str) -> None:
    sharded = found[model][case]
    assert sharded["held"] == sharded["bytes_per_device"]
    assert sharded["held_state"] == sharded["state_bytes_per_device"]


def test_the_table_names_axes_and_placement(found: Any) -> None:
    table = found["dense"]["mixed"]["table"]
    assert re.search(r"0\.weight +\(Features\(6\), Hidden\(16\)\) +Hidden over model +192 B +56 B", table)
    assert re.search(r"2\.weight +\(Hidden\(16\), 3\) +Hidden over model", table)
    assert "mesh data 4 x model 2" in table


def test_a_batch_size_that_the_devices_do_not_divide(found: Any) -> None:
    assert "divides axis Batch() of x (Batch(), Features(6)) float32" in found["error"]
    assert "over mesh axis 'data', but its 8 devices do not divide 6" in found["error"]


def test_one_reduction_adds_up_the_gradients_of_data_parallel_training(found: Any) -> None:
    assert found["gpt2"]["data"]["reductions"] == 1


def test_evaluation_of_nodes_that_lack_an_axis(found: Any) -> None:
    loss, largest = found["evaluation"]
    assert loss == pytest.approx(np.square(8.0 - np.arange(6.0)).mean(), rel=1e-6)
    assert largest == 2.5


ACCUMULATED = [(model, case) for model, cases in sharded_training.ACCUMULATED.items() for case in cases]


@pytest.mark.parametrize(("model", "case"), ACCUMULATED)
def test_accumulated_gradients_are_those_of_one_device(found: Any, model: str, case: str) -> None:
    one, sharded = (found[f"accumulated {model}"][each] for each in ("one", case))
    np.testing.assert_allclose(sharded["losses"], one["losses"], rtol=1e-5)
    np.testing.assert_allclose(sharded["parameters"], one["parameters"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("case", ["data", "fsdp"])
def test_a_step_with_accumulated_gradients_has_one_reduction(found: Any, case: str) -> None:
    accumulated = found["accumulated gpt2"][case]
    reductions = [Collective(*each) for each in accumulated["reductions"]]
    assert [each for each in reductions if each.loops] == []
    # Others tell whether all gradients are finite, a byte for each.
    (of_gradients,) = [each for each in reductions if each.size > 64]
    losses = 4 * sharded_training.ACCUMULATE
    assert of_gradients.size == accumulated["bytes"] + losses


@pytest.mark.parametrize("case", ["fsdp", "shards"])
def test_a_step_with_accumulated_gradients_keeps_every_array_in_its_place(found: Any, case: str) -> None:
    placed = found["accumulated gpt2"][case]["placed"]
    assert placed["before"] == placed["after"] == placed["table"]
    # The step writes the new parameters and state over the old ones, and whether training goes on.
    state = sum(map(sum, placed["table"].values()))
    assert state <= found["accumulated gpt2"][case]["rewritten"] <= state + 1
    # Of tokens and following tokens, one sequence of each batch.
    assert placed["data"] == [sharded_training.ACCUMULATE * 16 * 4] * 2
    # The loss and whether the step moved of each batch, the number of the step, and the like.
    assert placed["others"] <= sharded_training.ACCUMULATE * 2 * 4


def test_accumulation_costs_whole_parameters_and_gradients_or_the_shards_of_gradients(found: Any) -> None:
    one, accumulated = found["temporary of one batch"], found["accumulated gpt2"]
    assert accumulated["fsdp"]["temporary"] <= one + 2 * accumulated["fsdp"]["bytes"]
    assert accumulated["shards"]["temporary"] <= one + sum(accumulated["shards"]["placed"]["table"]["values"])


def test_devices_keep_the_shards_of_large_gradients(found: Any) -> None:
    parts, shards = (found["accumulated dense"][case]["carried"] for case in ("fsdp", "shards"))
    # By parts, a device has a part of the whole gradient.
    assert parts.count("f32[1,6,16]") == 1
    assert parts.count("f32[6,2]") == 0
    assert shards.count("f32[1,6,16]") == 0
    assert shards.count("f32[6,2]") == 1
    one, sharded = (found["accumulated dense"][case] for case in ("one", "shards"))
    np.testing.assert_allclose(sharded["losses"], one["losses"], rtol=1e-5)


def test_gradients_of_parameters_on_several_mesh_axes_lie_as_these_do(found: Any) -> None:
    mixed = found["accumulated dense"]["mixed"]["carried"]
    assert mixed.count("f32[6,8]") == 2  # the parameter and the total
    assert mixed.count("f32[6,16]") == 0


@pytest.mark.parametrize(("case", "table"), [("rows", "f32[120,8]"), ("columns", "f32[240,1]")])
def test_accumulated_row_sparse_gradients_are_never_as_large_as_tables(found: Any, case: str, table: str) -> None:
    # The loop over batches reads the table, and carries no other array of its size.
    assert found["accumulated sparse"][case]["carried"].count(table) == 1


def test_tables_that_all_devices_have_are_exchanged_once_in_a_step_of_several_batches(found: Any) -> None:
    messages = [Collective(*each) for each in found["accumulated sparse"]["data"]["messages"]]
    # The rows of the larger table and their numbers, gathered; and of the smaller one the sums for all rows, how many
    # pairs each has, and the losses.
    rows = sharded_training.ACCUMULATE * 8 * 4
    sums = (30 * (8 + 1) + sharded_training.ACCUMULATE) * 4
    gathers = [Collective("all-gather", rows, 0), Collective("all-gather", rows * 8, 0)]
    assert sorted(messages) == [*gathers, Collective("all-reduce", sums, 0)]
