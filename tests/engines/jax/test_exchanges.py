"""Devices that exchange rows and sums find what one device does, with the same bits on all, in few messages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from tests.once import computed_once
from tests.subprocesses import on_simulated_devices
from wyrm.engines.jax.compiled import CompiledFunctions
from wyrm.engines.jax.divided_tables import RowExchange
from wyrm.errors import OptionError


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return computed_once(tmp_path_factory, "exchanges", lambda: on_simulated_devices("tests.engines.jax.exchanging"))


@pytest.mark.parametrize("devices", [2, 4, 8])
@pytest.mark.parametrize("kind", ["rows", "dense", "columns"])
def test_losses_and_parameters_are_those_of_one_device(found: Any, kind: str, devices: int) -> None:
    one, several = found[f"{kind} 1"], found[f"{kind} {devices}"]
    np.testing.assert_allclose(several["losses"], one["losses"], rtol=1e-6)
    for ours, theirs in zip(several["parameters"], one["parameters"], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_each_kind_of_gradient_is_exchanged_in_few_messages(found: Any, devices: int) -> None:
    # XLA joins the sums of the gradients with the loss. Scores of divided columns are one message, and whether
    # gradients are finite another.
    assert found[f"rows {devices}"]["collectives"] == ["all-reduce"]
    assert found[f"dense {devices}"]["collectives"] == ["all-reduce"]
    assert found[f"columns {devices}"]["collectives"] == ["all-reduce"] * 2


def test_the_sum_of_a_gradient_waits_for_no_gradient_of_another_layer(found: Any) -> None:
    # The loss waits for three products; gradients of the last layer, of the one before and of the first for one more
    # and the products of the backward pass.
    assert found["ready"] == [3, 4, 5, 6]


def test_sums_over_devices_have_a_name_in_the_code_of_xla(found: Any) -> None:
    assert any(name.startswith("%all-reduce") for name in found["dense 8"]["summing"])


@pytest.mark.parametrize(("platform", "divided", "ordered"), [("gpu", 0, True), ("gpu", 1, False), ("cpu", 0, False)])
def test_gpus_add_up_the_rows_of_their_copies_of_a_table_in_one_order(
    platform: str, divided: int, ordered: bool
) -> None:
    devices = np.array([SimpleNamespace(platform=platform)])
    placement: Any = SimpleNamespace(sharding=SimpleNamespace(mesh=SimpleNamespace(devices=devices)))
    tables = SimpleNamespace(of_batch={"table": ("data",)}, exchanges={"table": 0} if divided else {})
    functions: Any = SimpleNamespace(tables=tables)
    absent: Any = None
    options = CompiledFunctions(absent, functions, placement, absent).compiler_options()
    assert bool(options) == ordered
    assert jax.jit(lambda x: x + 1.0, compiler_options=options)(1.0) == 2.0  # XLA knows the option


def test_a_table_whose_row_numbers_devices_cannot_exchange_is_refused() -> None:
    class Rows(wy.Dim): ...

    sharding: Any = SimpleNamespace(
        row_axes=lambda table: ("data",), devices=lambda axes: 4, of=lambda table: SimpleNamespace(spec=("data", None))
    )
    most = RowExchange(sharding, wy.Input(dims=(Rows(2**31 - 4), 2), name="table"), ())
    assert most._bounds().tolist() == [owner * (2**29 - 1) for owner in range(5)]
    with pytest.raises(OptionError, match=r"table .* has 2,147,483,648 rows, and devices exchange row numbers below"):
        RowExchange(sharding, wy.Input(dims=(Rows(2**31), 2), name="table"), ())
