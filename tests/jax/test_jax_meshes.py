"""Meshes of several slices, and the page on pipeline stages on several simulated devices."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, OptionError
from wyrm.jax.meshes import arranged_in_slices


@dataclass(frozen=True)
class Device:
    """A device of a slice, as JAX describes it."""

    id: int
    slice_index: int
    process_index: int = 0
    platform: str = "gpu"
    device_kind: str = "NVIDIA H100"


@dataclass(frozen=True)
class DeviceOfProcess:
    """A device without a slice."""

    id: int
    process_index: int
    platform: str = "cpu"
    device_kind: str = "cpu"


def numbers(devices: np.ndarray) -> Any:
    return np.vectorize(lambda device: device.id, otypes=[int])(devices).tolist()


def test_devices_of_a_slice_stand_together() -> None:
    mixed = [Device(number, slice_index=number % 2) for number in range(8)]
    assert numbers(arranged_in_slices(mixed, [2], [4])) == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert numbers(arranged_in_slices(mixed, [2], [2, 2])) == [[[0, 2], [4, 6]], [[1, 3], [5, 7]]]


def test_processes_stand_for_slices() -> None:
    of_processes = [DeviceOfProcess(number, process_index=number // 2) for number in range(6)]
    assert numbers(arranged_in_slices(of_processes, [3], [2])) == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(OptionError, match=r"6 devices in 3 processes: give sizes whose products are 3 and 2"):
        arranged_in_slices(of_processes, [2], [3])


def test_sizes_that_are_not_those_of_the_slices() -> None:
    mixed = [Device(number, slice_index=number % 2) for number in range(8)]
    with pytest.raises(OptionError, match=r"are 4 slices of 2 devices, and there are 8 devices in 2 slices"):
        arranged_in_slices(mixed, [4], [2])
    with pytest.raises(OptionError, match=r"'data' is both between and within"):
        wy.jax.make_hybrid_mesh({"data": 1}, {"data": 1})
    with pytest.raises(DTypeError, match=r"between must map names of axes to sizes, such as \{'slice': 2\}, not 2"):
        wy.jax.make_hybrid_mesh(2, {"data": 1})  # type: ignore[arg-type]  # the mistake
    with pytest.raises(OptionError, match="the size of 'data' must be an integer of at least 1, not 0"):
        wy.jax.make_hybrid_mesh({"slice": 1}, {"data": 0})


def test_devices_of_one_process_are_divided_in_their_order() -> None:
    mesh = wy.jax.make_hybrid_mesh({"slice": 1}, {"data": jax.device_count()})
    assert mesh.shape == {"slice": 1, "data": jax.device_count()}


def test_the_page_on_pipelines_runs_on_four_devices() -> None:
    code = (
        "import jax; from tests.site.pages import DOCS, run; assert jax.device_count() == 4; "
        "names = {'__name__': 'pipeline'}; run(DOCS / 'how-to' / 'pipeline.md', names); "
        "code = names['step'].lower(names['parameters'], names['data']).compile().as_text(); "
        "assert 'collective-permute(' in code or 'collective-permute-start(' in code; "
        "shard = names['parameters']['hidden.weight'].addressable_shards[0].data; assert shard.shape == (2, 16, 16)"
    )
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
