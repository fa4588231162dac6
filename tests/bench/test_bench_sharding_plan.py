"""The plan for many devices agrees with what XLA plans for simulated ones, and with the documentation."""

from __future__ import annotations

import pytest
from jax.sharding import AbstractMesh

import wyrm as wy
from bench.sharding_plan import (
    SEVEN_BILLION,
    Machine,
    RowsPlan,
    Table,
    billion_rows,
    gpt2_table,
    plan,
    seven_billion,
    seven_billion_in_slices,
)
from tests.engines.jax import divided_tables, slices
from tests.engines.jax.collectives import Collective
from tests.once import computed_once
from tests.subprocesses import on_simulated_devices
from wyrm.engines.jax.sharding import Sharding
from wyrm.graph.base import BaseNode
from wyrm.nn.gpt2_axes import Embed, Heads, Inner, Vocabulary


def test_the_plan_agrees_with_simulated_devices() -> None:
    found, planned = on_simulated_devices("tests.bench.sharding_memory")
    assert found["parameters"] == planned["parameters"]
    assert found["state"] == planned["state"]
    # Beside the arrays, a step takes the learning rate, its number, and whether training goes on.
    assert 0 <= found["arguments"] - planned["arguments"] < 64
    assert found["gathered"] == pytest.approx(planned["gathered"], rel=0.1)
    assert found["temporary"] == pytest.approx(planned["temporary"], rel=0.25)


def test_the_documentation_has_the_numbers_of_the_plan() -> None:
    text = wy.jax.__doc__
    assert text is not None
    lines = [line.strip() for line in text.splitlines()]
    planned = f"{seven_billion()}\n{seven_billion_in_slices()}\n{billion_rows()}".splitlines()
    assert [line for line in planned if line not in lines] == []


def test_the_plan_of_tables_agrees_with_simulated_devices(tmp_path_factory: pytest.TempPathFactory) -> None:
    found = computed_once(
        tmp_path_factory, "divided_tables", lambda: on_simulated_devices("tests.engines.jax.divided_tables")
    )
    for code, times, batch in (("Adagrad", 1, 512), ("larger tables", 10, 512), ("larger batch", 1, 2048)):
        users, items, width = times * divided_tables.USERS, times * divided_tables.ITEMS, divided_tables.WIDTH
        # The users, the items with their negatives, and the biases of both.
        tables = Table(users, width, 1), Table(items, width, 2), Table(items, 1, 2)
        size = sum(Collective(*each).size for each in found["code"][code]["sent"])
        assert size == pytest.approx(RowsPlan(tables, 8, batch // 8, Machine()).message_bytes, rel=0.01), code


def test_the_plan_of_slices_agrees_with_simulated_devices(tmp_path_factory: pytest.TempPathFactory) -> None:
    found = computed_once(tmp_path_factory, "slices", lambda: on_simulated_devices("tests.engines.jax.slices"))
    far = [[0, 4], [1, 5], [2, 6], [3, 7]]
    sent = sum(4 * size for _, size, over in found["fsdp 2"]["collectives"] if over == far)
    mesh = AbstractMesh((2, 4), ("slice", "data"))
    sharding = Sharding(mesh, {slices.Embed: "data"})
    embed = slices.Embed(256)
    leaves: dict[BaseNode, str] = {wy.Parameter.zeros(dims): "" for dims in ((64, embed), (embed,), (embed, 32), (32,))}
    table = sharding.table(list(leaves), {}, leaves)
    small = wy.nn.GPT2Config(vocab_size=2, n_positions=2, n_embd=2, n_layer=1, n_head=1)
    # Beside the gradients, the losses of two batches and padding.
    assert sent == pytest.approx(plan(table, small, 1, between="slice").between_bytes, rel=0.01)


def test_fast_links_within_machines_raise_the_utilization() -> None:
    flat, divided = seven_billion(), seven_billion_in_slices()
    assert divided.model_flops == flat.model_flops and divided.bytes_per_device < divided.machine.memory
    assert divided.between_bytes < flat.gathered_bytes / 8 and divided.utilization > 1.5 * flat.utilization


def test_rows_of_a_larger_table_send_as_much() -> None:
    small, large = (RowsPlan((Table(rows, 64, 2),), 8, 512, Machine()) for rows in (2_000_000, 20_000_000))
    assert small.message_bytes == large.message_bytes == 798_720
    assert large.table_bytes == 10 * small.table_bytes


def test_a_device_gets_at_most_a_megabyte_and_a_half_in_a_step_of_bpr() -> None:
    # 4,096 pairs of a user and an item, each with a negative, on 8 devices; items have biases.
    small, large = (
        RowsPlan((Table(rows, 64, 1), Table(rows, 64, 2), Table(rows, 1, 2)), 8, 512, Machine()).message_bytes
        for rows in (2_000_000, 20_000_000)
    )
    assert small == large < 1_500_000


def test_tensor_parallelism_gathers_only_what_is_divided_over_the_batch() -> None:
    axes = {Embed: "data", Heads: "model", Inner: "model", Vocabulary: "model"}
    mixed = plan(gpt2_table(SEVEN_BILLION, {"data": 16, "model": 4}, axes), SEVEN_BILLION, sequences=8)
    fsdp = seven_billion()
    assert mixed.gathered_bytes < fsdp.gathered_bytes / 3
    assert mixed.table.bytes_in_all == fsdp.table.bytes_in_all


def test_slower_links_lower_the_utilization() -> None:
    table = gpt2_table(SEVEN_BILLION, {"data": 64}, {Embed: "data"})
    slow, fast = (plan(table, SEVEN_BILLION, 8, machine=Machine(bandwidth=each)) for each in (25e9, 400e9))
    assert slow.utilization == pytest.approx(slow.model_flops / 989e12 / slow.seconds_of_links)
    assert fast.utilization == pytest.approx(0.75)
    assert fast.utilization_without_overlap < fast.utilization
