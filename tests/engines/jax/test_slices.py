"""Two slices of four devices: losses as on one device, and gradients pass the slow links in parts, and last."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.engines.jax import slices
from tests.once import computed_once
from tests.subprocesses import on_simulated_devices

NEAR = [[0, 1, 2, 3], [4, 5, 6, 7]]
FAR = [[0, 4], [1, 5], [2, 6], [3, 7]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return computed_once(tmp_path_factory, "slices", lambda: on_simulated_devices("tests.engines.jax.slices"))


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("case", slices.CASES)
def test_losses_are_those_of_one_device(found: Any, case: str, accumulate: int) -> None:
    one, divided = found[f"one {accumulate}"], found[f"{case} {accumulate}"]
    np.testing.assert_allclose(divided["losses"], one["losses"], rtol=1e-5)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_quarter_of_the_gradients_passes_the_slow_links_after_the_fast_ones(found: Any, accumulate: int) -> None:
    one = found[f"data {accumulate}"]
    # With the loss, which is summed beside them: one number for each batch, and up to three of padding for each sum.
    whole = one["parameters"] + accumulate
    sent = [tuple(each) for each in one["collectives"]]
    # XLA for CPUs reduces to all devices of a slice where other backends scatter, and joins reductions alone.
    assert [(kind, over) for kind, _, over in sent[:2]] == [("all-reduce", NEAR), ("all-reduce", FAR)]
    assert {(kind, repr(over)) for kind, _, over in sent[2:]} == {("all-gather", repr(NEAR))}
    near, far, gathered = sent[0][1], sent[1][1], sum(size for _, size, _ in sent[2:])
    assert whole <= near == far * 4 == gathered < whole + 4 * 5


@pytest.mark.parametrize("accumulate", [1, 2])
def test_divided_parameters_are_gathered_within_slices_alone(found: Any, accumulate: int) -> None:
    every = [tuple(each) for each in found[f"fsdp {accumulate}"]["collectives"]]
    assert {repr(over) for kind, _, over in every if kind == "all-gather"} == {repr(NEAR)}
    far = [position for position, (_, size, over) in enumerate(every) if over == FAR and size]
    near = [
        position for position, (kind, size, over) in enumerate(every) if over == NEAR and kind == "all-reduce" and size
    ]
    assert far and near and near[0] < far[0]
    # The shards of the two weights, beside biases and the loss.
    assert sum(every[position][1] for position in far) < (64 * 256 + 256 * 32) // 4 + 100
