"""Trains on two simulated slices of four devices, and writes losses and collectives as JSON.

XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m tests.engines.jax.slices
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import numpy as np

import wyrm as wy


class Batch(wy.Dim): ...


class Embed(wy.Dim): ...


CASES: dict[str, Any] = {
    "data": {Batch: ("slice", "data")},
    "fsdp": {Batch: ("slice", "data"), Embed: "data"},
}
_COLLECTIVE = re.compile(r" = (?P<arrays>.*?) (?P<kind>all-reduce|reduce-scatter|all-gather)\((?P<rest>.*)")
# Groups of devices as rows of a list, or as the axes of a mesh whose devices may be transposed.
_LISTED = re.compile(r"replica_groups=\{(\{.*?\})\}")
_OF_MESH = re.compile(r"replica_groups=mesh\[(.*?)\](?:, device_ids=\(\[([\d,]+)\]T\(([\d,]+)\)\))? \{(.*?)\}")


def groups(rest: str) -> list[list[int]]:
    """Return the groups of devices in the attributes of a collective."""
    listed = _LISTED.search(rest)
    if listed is not None:
        return [[int(device) for device in group.split(",")] for group in re.findall(r"\{([\d,]+)\}", listed[1])]
    found = _OF_MESH.search(rest)
    assert found is not None, rest
    axes = {name: int(size) for name, size in re.findall(r"'(\w+)'=(\d+)", found[1])}
    ids = np.arange(8)
    if found[2] is not None:
        shape, order = ([int(number) for number in found[i].split(",")] for i in (2, 3))
        ids = ids.reshape(shape).transpose(order).reshape(-1)
    over = [list(axes).index(name) for name in re.findall(r"'(\w+)'", found[4])]
    mesh = ids.reshape(list(axes.values()))
    moved: list[list[int]] = (
        np.moveaxis(mesh, over, range(-len(over), 0))
        .reshape(-1, int(np.prod([mesh.shape[axis] for axis in over])))
        .tolist()
    )
    return moved


def sizes(arrays: str) -> int:
    """Return the number of elements of the float32 arrays in a type."""
    shapes = re.findall(r"f32\[([\d,]*)\]", arrays)
    return sum(int(np.prod([int(size) for size in shape.split(",") if size])) for shape in shapes)


def trained(mesh: Any, sharding: Any, accumulate: int) -> dict[str, Any]:
    """Return the losses of two epochs, and the collectives as (kind, elements, groups) in the order of the code."""
    wy.nn.seed(0)
    x = wy.Input(dims=(Batch(), 64), name="x")
    model = wy.nn.Linear(64, Embed(256)) >> wy.nn.gelu >> wy.nn.Linear(Embed(256), 32)
    loss = model(x).square().mean()
    options = {} if mesh is None else {"mesh": mesh, "sharding": sharding}
    program: Any = wy.compile(loss, wy.optim.Adam(loss.parameters(), 1e-2), engine="jax", **options)
    data = np.random.default_rng(0).normal(size=(256, 64)).astype(np.float32)
    losses = [float(program.epoch({x: data}, batch_size=64, accumulate=accumulate)) for _ in range(2)]
    code = "" if mesh is None else program.stages()["optimized"]
    found = [match for match in map(_COLLECTIVE.search, code.splitlines()) if match is not None]
    return {
        "losses": losses,
        "parameters": sum(int(np.prod(parameter.shape)) for parameter in program.trained),
        "collectives": [(each["kind"], sizes(each["arrays"]), groups(each["rest"])) for each in found],
    }


def main() -> None:
    mesh = wy.jax.make_hybrid_mesh({"slice": 2}, {"data": 4})
    found = {}
    for accumulate in (1, 2):
        found[f"one {accumulate}"] = trained(None, None, accumulate)
        for name, sharding in CASES.items():
            found[f"{name} {accumulate}"] = trained(mesh, sharding, accumulate)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
