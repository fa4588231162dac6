"""The engine `jax`: graphs and training steps as functions that JAX compiles for CPUs, GPUs and TPUs."""

from __future__ import annotations

from collections.abc import ItemsView
from typing import Any, Literal, Protocol, TypedDict

import numpy as np

from wyrm.engines.dtypes import DTypeOptions
from wyrm.graph.axes import Dim


class Mesh(Protocol):
    """A `jax.sharding.Mesh`, for type checkers: they need not read JAX for it."""

    axis_names: tuple[Any, ...]
    devices: np.ndarray


class AxisSharding(Protocol):
    """For classes of axes, the axis of the mesh that they are sharded over, or several: `{Batch: "data"}`."""

    # Not `Mapping`, which is invariant in its keys.
    def items(self) -> ItemsView[type[Dim], str | tuple[str, ...]]: ...


class DeviceOptions(TypedDict, total=False):
    """The options that only the JAX engine takes.

    - `mesh`, `sharding`: a `jax.sharding.Mesh`, and for the classes of axes the axis of the mesh that they are sharded
      over. Axes without an entry are not sharded.
    - `local_steps`: in epochs, each device takes so many steps with its part of the batches and a copy of the
      parameters; then the copies are averaged. Messages are fewer, and numbers differ from those of whole batches.
    - `precision`: "highest", the default, multiplies float32 with all its digits; "tf32" lets a device round the
      operands of products to 10 binary digits, as tensor cores of NVIDIA do, several times faster. TPUs multiply
      bfloat16, so a product takes six of theirs for "highest" and three for "tf32", which has more digits there.
    """

    mesh: Mesh | None
    sharding: AxisSharding | None
    local_steps: int
    precision: Literal["highest", "tf32"]


class JaxOptions(DeviceOptions, DTypeOptions, total=False):
    """The options of the JAX engine."""
