"""Placement by the names of axes: what is divided, what is refused, and the table."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, PartitionSpec

import wyrm as wy
from wyrm.engines.jax.sharding import Messages, Sharding, ShardingTable
from wyrm.errors import OptionError, ShapeError
from wyrm.graph.axes import axis_size


class Batch(wy.Dim): ...


class Features(wy.Dim): ...


class Hidden(wy.Dim): ...


class Heads(wy.Dim): ...


MESH = AbstractMesh((4, 2), ("data", "model"))


def parameter(*axes: Any, name: str = "weight") -> Any:
    return wy.Parameter(np.zeros([int(axis) for axis in axes], np.float32), axes, name=name)


def spec(sharding: Sharding, leaf: Any) -> Any:
    return sharding.of_array(leaf, [axis_size(axis) or 8 for axis in leaf.dims]).spec


def test_a_parameter_is_divided_along_the_axes_that_are_mapped() -> None:
    sharding = Sharding(MESH, {Batch: "data", Hidden: "model", Heads: ("data", "model")})
    assert spec(sharding, parameter(Features(8), Hidden(6))) == PartitionSpec(None, "model")
    assert spec(sharding, parameter(Heads(8), 3)) == PartitionSpec(("data", "model"), None)
    assert spec(sharding, wy.Input(dims=(Batch(), Features(8)))) == PartitionSpec("data", None)
    assert sharding.of_array(parameter(Features(8), Hidden(6)), (3, 8, 6)).spec == PartitionSpec(None, None, "model")


def test_derived_axes_follow_their_parts() -> None:
    sharding = Sharding(MESH, {Hidden: "model", Heads: "model"})
    assert spec(sharding, parameter(wy.Times((3, Heads(2), 4)), 5)) == PartitionSpec("model", None)
    assert spec(sharding, parameter(wy.Plus((Hidden(2), Heads(4))))) == PartitionSpec("model")
    assert spec(sharding, parameter(wy.Plus((Hidden(2), Features(4))))) == PartitionSpec(None)


def test_state_follows_its_parameter_along_the_axes_that_agree() -> None:
    sharding = Sharding(MESH, {Features: "data", Hidden: "model"})
    weight = parameter(Features(8), Hidden(6))
    assert sharding.of_array(weight, (8, 6)).spec == PartitionSpec("data", "model")
    assert sharding.of_array(weight, (8, 1)).spec == PartitionSpec("data", None)
    assert sharding.of_array(weight, ()).spec == PartitionSpec()


def test_a_batch_that_the_devices_do_not_divide_is_replicated() -> None:
    sharding, x = Sharding(MESH, {Batch: "data"}), wy.Input(dims=(Batch(), 3))
    assert sharding.of_array(x, (12, 3)).spec == PartitionSpec("data", None)
    assert sharding.of_array(x, (7, 3)).spec == PartitionSpec(None, None)


def test_equal_shardings_are_equal() -> None:
    one, other = Sharding(MESH, {Batch: "data"}), Sharding(MESH, {Batch: ("data",)})
    assert one == other and hash(one) == hash(other)
    assert one != Sharding(MESH, {Batch: "model"})


def test_each_mesh_axis_divides_the_first_axis_of_an_activation_that_maps_to_it() -> None:
    sharding = Sharding(MESH, {Batch: "data", Features: "data", Hidden: "model"})
    of = sharding.activation_spec
    assert of((Batch(), Features(8)), (12, 8)) == PartitionSpec(("data",), None)
    assert of((Batch(), Features(8)), (3, 8)) is None  # the last batch of an epoch
    assert of((Batch(), Hidden(2)), (4, 2)) == PartitionSpec(("data",), ("model",))
    assert of((Batch(), 7), (3, 7)) is None
    assert of((Batch(), wy.Times((3, Hidden(2)))), (4, 6)) == PartitionSpec(("data",), PartitionSpec.UNCONSTRAINED)
    assert of((wy.Plus((Batch(), 3)), Hidden(2)), (7, 2)) is None  # parts with placements of their own
    assert of((wy.Times((Batch(), 3)), 8), (12, 8)) == PartitionSpec(("data",), None)


def test_activations_are_divided_along_axes_that_no_parameter_has() -> None:
    sharding = Sharding(MESH, {Features: "data", Batch: "data"})
    sharding.check([parameter(Features(8)), wy.Input(dims=(Batch(), 3))])
    of = sharding.activation_spec
    assert of((Features(8), Batch()), (8, 12)) == PartitionSpec(None, ("data",))
    assert of((Features(8), wy.Times((Batch(), 3))), (8, 12)) == PartitionSpec(None, ("data",))
    assert of((Features(8), 5), (8, 5)) == PartitionSpec(("data",), None)


def test_an_axis_that_the_devices_do_not_divide() -> None:
    with pytest.raises(
        ShapeError, match=r"axis Hidden\(5\) of weight .* over mesh axis 'model'.* 2 devices .* such as 6"
    ):
        Sharding(MESH, {Hidden: "model"}).check([parameter(Features(8), Hidden(5))])
    x = wy.Input(dims=(Batch(), 3), name="x")
    Sharding(MESH, {Batch: "data"}).check([x])
    Sharding(MESH, {Batch: "data"}).check([x], sizes={Batch: 8})
    with pytest.raises(ShapeError, match=r"axis Batch\(\) of x .* over mesh axis 'data'.* 4 devices do not divide 6"):
        Sharding(MESH, {Batch: "data"}).check([x], sizes={Batch: 6})


def test_a_mesh_axis_used_twice_in_one_array() -> None:
    with pytest.raises(ShapeError, match=r"both Features\(8\) and Hidden\(4\) of weight .* over mesh axis 'data'"):
        Sharding(MESH, {Features: "data", Hidden: "data"}).check([parameter(Features(8), Hidden(4))])


def test_unknown_axes_and_mesh_axes() -> None:
    class Hiden(wy.Dim): ...

    weight = parameter(Features(8), wy.Times((Hidden(4), 3)))
    with pytest.raises(OptionError, match="unknown axis: no node of the graph has the axis Hiden; did you mean Hidden"):
        Sharding(MESH, {Hiden: "model"}).check([weight])
    with pytest.raises(OptionError, match="the axis Batch; its axes are Features, Hidden"):
        Sharding(MESH, {Batch: "data"}).check([weight])
    again = type("Hidden", (wy.Dim,), {})
    with pytest.raises(OptionError, match="was Hidden defined again"):
        Sharding(MESH, {again: "data"}).check([weight])
    with pytest.raises(
        OptionError, match="maps Batch to mesh axis 'rows', but the mesh has the axes 'data' of 4, 'mod"
    ):
        Sharding(MESH, {Batch: "rows"})
    with pytest.raises(TypeError, match="classes of axes"):
        Sharding(MESH, {"Batch": "data"})  # type: ignore[dict-item]  # the error that untyped callers see


def test_the_table_shows_placement_and_bytes() -> None:
    sharding = Sharding(MESH, {Features: "data", Hidden: "model"})
    weight, bias = parameter(Features(8), Hidden(6)), parameter(Hidden(6))
    plain = parameter(7, name="scale")
    table = sharding.table([weight, bias, plain], {weight: [np.zeros((8, 6)), np.zeros((8, 1))]})
    assert [row.name for row in table.rows] == ["weight_0", "weight_1", "scale"]
    assert [row.placement for row in table.rows] == [
        "Features over data, Hidden over model",
        "Hidden over model",
        "replicated",
    ]
    assert [row.bytes_per_device for row in table.rows] == [2 * 3 * 4, 3 * 4, 7 * 4]
    assert [row.state_bytes_per_device for row in table.rows] == [(6 + 2) * 8, 0, 0]
    assert (table.bytes_per_device, table.bytes_in_all) == (64, (48 + 6 + 7) * 4)
    text = str(table)
    assert "(Features(8), Hidden(6))" in text and "mesh data 4 x model 2" in text
    assert len({len(line) for line in text.splitlines()}) == 1


def test_a_value_without_a_mapped_axis_is_not_constrained() -> None:
    sharding = Sharding(jax.make_mesh((1,), ("data",)), {Batch: "data"})
    x = wy.Input(dims=(Batch(), 3))
    value = jax.numpy.zeros((2, 3))
    assert sharding.place(x, value) is value  # one device: nothing to divide


def test_the_table_says_what_a_step_sends_and_when_columns_may_be_faster() -> None:
    sharding = Sharding(MESH, {Features: "data"})
    table = parameter(Features(9), Hidden(8), name="table")

    def shown(size: int) -> Any:
        messages = [Messages("all-to-all", 10, size), Messages("all-reduce", 2, 40)]
        return sharding.table([table], messages=lambda: messages, tables=[table])

    few, many = shown(100_000), shown(100_000_000)
    assert "all-to-all      10  100 kB" in str(few) and "all-reduce       2    40 B" in str(few)
    assert "sharding={Hidden: 'data'}" in str(few) and "12 of them take 240 us" in few.suggestion
    assert many.suggestion == "" and "100 MB" in str(many)
    before = sharding.table([table], tables=[table])
    assert before.messages is None and "a step sends" not in str(before)
    nothing = sharding.table([table], messages=list, tables=[table])
    assert str(nothing).endswith("a step sends nothing")
    # Three devices' rows, of nine on four devices.
    assert [row.bytes_per_device for row in before.rows] == [3 * 8 * 4]


def test_processes_of_cpus_are_to_take_local_steps() -> None:
    def suggestion(size: int, columns: dict[str, str] | None) -> str:
        messages = [Messages("all-to-all", 10, size), Messages("collective-permute", 2, 40)]
        return ShardingTable([], {"data": 2}, lambda: messages, columns, between_processes=True).suggestion

    text = suggestion(10_000_000, {"Hidden": "data"})
    assert "12 of them take 7200 us at 600 us each" in text and "local_steps=16" in text and "Hidden" not in text
    assert suggestion(10_000_000, {}) == text
    assert suggestion(100_000_000, {}) == suggestion(10_000_000, None) == ""


def test_tables_may_have_any_number_of_rows() -> None:
    sharding, table = Sharding(MESH, {Features: "data"}), parameter(Features(9), 3)
    sharding.check([table], padded={table})
    with pytest.raises(ShapeError, match="4 devices do not divide 9"):
        sharding.check([table])
    assert sharding.stored_shape(table, (9, 3)) == (12, 3)
    assert sharding.of(table).spec == PartitionSpec("data", None)
