"""Meshes of devices that stand in several slices, between which links are slower."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wyrm.errors import DTypeError, OptionError
from wyrm.jax.lowering import require_jax
from wyrm.support.imports import jax
from wyrm.support.options import whole


def make_hybrid_mesh(
    between: Mapping[str, int], within: Mapping[str, int], *, devices: Sequence[Any] | None = None
) -> Any:
    """Return a `jax.sharding.Mesh` of devices in several slices: axes `between` them first, then axes `within` each.

    A slice is what fast links connect: the chips of a TPU pod slice, or the devices of one process where devices have
    no slice. Devices of a single process without slices, such as simulated ones, are divided in their order, to try
    a sharding.

    With `sharding={Batch: ("slice", "data")}`, gradients are added up over "data" within each slice first, each device
    keeps a part, and only that part is added up between slices. `Embed: "data"` beside it divides the parameters within
    each slice, so that they are gathered over fast links alone.

    Raise `OptionError` if the sizes are not those of the slices and their devices, or for an axis in both.

    >>> import jax
    >>> mesh = wy.jax.make_hybrid_mesh({"slice": 1}, {"data": jax.device_count()})
    >>> mesh.axis_names
    ('slice', 'data')
    """
    require_jax("wy.jax.make_hybrid_mesh")
    from jax.sharding import Mesh

    outer, inner = _mesh_sizes("between", between), _mesh_sizes("within", within)
    both = set(between) & set(within)
    if both:
        raise OptionError(f"make_hybrid_mesh: {', '.join(map(repr, sorted(both)))} is both between and within slices")
    arranged = arranged_in_slices(jax.devices() if devices is None else list(devices), outer, inner)
    return Mesh(arranged, (*between, *within))


def arranged_in_slices(devices: Sequence[Any], between: Sequence[int], within: Sequence[int]) -> np.ndarray:
    """Return devices as an array of shape `(*between, *within)`, whose last axes are the devices of one slice."""
    from jax.experimental.mesh_utils import create_hybrid_device_mesh

    slices = {getattr(device, "slice_index", None) for device in devices}
    processes = {device.process_index for device in devices}
    by_process = len(slices) == 1 and len(processes) > 1
    count, kind = (len(processes), "processes") if by_process else (len(slices), "slices")
    if count == 1 and math.prod(between) * math.prod(within) == len(devices):
        arranged = np.empty(len(devices), object)
        arranged[:] = devices
        return arranged.reshape(*between, *within)
    if math.prod(between) != count or math.prod(between) * math.prod(within) != len(devices):
        raise OptionError(
            f"make_hybrid_mesh: between={tuple(between)} and within={tuple(within)} are {math.prod(between)} slices of "
            f"{math.prod(within)} devices, and there are {len(devices)} devices in {count} {kind}: give sizes whose "
            f"products are {count} and {len(devices) // count}"
        )
    found: np.ndarray = create_hybrid_device_mesh(
        (*[1] * len(between), *within), (*between, *[1] * len(within)), devices, process_is_granule=by_process
    )
    return found


def _mesh_sizes(name: str, axes: object) -> list[int]:
    if not isinstance(axes, Mapping):
        raise DTypeError(
            f"make_hybrid_mesh: {name} must map names of axes to sizes, such as {{'slice': 2}}, not {axes!r}"
        )
    return [whole(f"the size of {axis!r}", size, 1) for axis, size in axes.items()]
