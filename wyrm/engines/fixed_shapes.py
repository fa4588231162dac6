"""Outputs as functions of arrays of fixed shapes, for `wyrm.function`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wyrm.graph.base import BaseNode

if TYPE_CHECKING:
    from wyrm.engines.engine import Engine


class FixedShapes(Protocol):
    """Outputs as a function of inputs whose axes all have sizes; a call takes one array for each input."""

    @property
    def draws(self) -> bool:
        """Whether there are random nodes, which need a step number."""
        ...

    @property
    def source(self) -> str:
        """The generated source."""
        ...

    def prepare(self) -> None:
        """Compile or load the code; raise `CompileError` if that fails."""
        return

    def release(self) -> None:
        """Free all arrays; the next call allocates them again."""
        return

    def __call__(self, arrays: Sequence[Any], step: int = 0) -> list[Any]:
        """Return the outputs, scalars as numbers; `arrays` must have the shapes and dtypes of the inputs."""
        ...


class CalledShapes(FixedShapes):
    """Such a function by calls of an engine."""

    def __init__(self, engine: Engine, inputs: Sequence[BaseNode]) -> None:
        self._engine = engine
        read = set(engine.graph.inputs)
        self._read = [(position, leaf) for position, leaf in enumerate(inputs) if leaf in read]

    @property
    def draws(self) -> bool:
        """Whether there are random nodes, which need a step number."""
        return self._engine.graph.draws

    @property
    def source(self) -> str:
        """The generated source."""
        return self._engine.source

    def __call__(self, arrays: Sequence[Any], step: int = 0) -> list[Any]:
        """Return the outputs, scalars as numbers."""
        self._engine.steps = step
        given = {leaf: np.asarray(arrays[position], leaf.dtype) for position, leaf in self._read}
        return [array if array.shape else array[()] for array in self._engine.run(given)]
