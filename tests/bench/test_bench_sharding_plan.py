"""The plan for many devices agrees with what XLA plans for simulated ones, and with the documentation."""

from __future__ import annotations

import pytest

import wyrm as wy
from bench.sharding_plan import SEVEN_BILLION, Machine, gpt2_table, plan, seven_billion
from tests.subprocesses import on_simulated_devices
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
    assert [line for line in str(seven_billion()).splitlines() if line not in lines] == []


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
