"""Values of graphs in each engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import wyrm as wy

# The engines that compute values.
ENGINES = ["reference", "native", "jax"]


def computed(outputs: Sequence[Any], data: Mapping[Any, np.ndarray], engine: str) -> list[np.ndarray]:
    """Return the values of outputs for the data of inputs."""
    if engine != "reference":
        program: Any = wy.compile(list(outputs), engine=engine)
        values: list[np.ndarray] = program(dict(data))
        return values
    for leaf, array in data.items():
        leaf.set(array)
    return [output.forward() for output in outputs]
