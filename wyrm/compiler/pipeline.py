"""The stages of compilation, in order: each is a function that makes one value of the one before it.

What comes after depends on the sizes of data, and is done when a program first runs: `binding` plans memory, the
functions over arrays become loop programs (`wyrm.kernels`) for arrays of these layouts, `wyrm.backends.llvm.emit` makes
LLVM modules of those, and `library` loads their machine code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wyrm.compiler.decompose import decompose
from wyrm.compiler.deduplicate import Scheduled, deduplicate
from wyrm.compiler.differentiate import Wanted, differentiate
from wyrm.compiler.listing import kept_arrays, loops, nodes
from wyrm.compiler.lower import Lowering, lower
from wyrm.compiler.materialize import materialize
from wyrm.compiler.scans import write
from wyrm.compiler.source import Source
from wyrm.compiler.updates import OptimizerInterface
from wyrm.node.base import BaseNode, label
from wyrm.ops.philox import STEP

Leaf = BaseNode


@dataclass(frozen=True)
class Stage:
    """A stage: what it makes of the value before it, and that as text."""

    name: str
    make: Callable[[Any], Any]
    show: Callable[[Any], str]


STAGES = (
    # The gradients of a loss, and what buffers become, beside the outputs.
    Stage("differentiate", differentiate, nodes),
    # Ops that are made of simpler ones, taken apart to be fused with what is around them.
    Stage("decompose", decompose, nodes),
    # Equal operations once, in the order of computation.
    Stage("deduplicate", deduplicate, nodes),
    # Nodes put into loops: those that can share one do.
    Stage("fuse", lower, loops),
    # Which values are kept in arrays, and not in variables of a loop alone.
    Stage("materialize", materialize, kept_arrays),
    # Functions over arrays, and `run`, which calls them.
    Stage("write", write, lambda source: source.text),
)


class Graph:
    """What a program computes, after each stage: independent of sizes and data."""

    def __init__(self, outputs: Sequence[BaseNode], optimizer: OptimizerInterface | None) -> None:
        self.outputs, self.optimizer = list(outputs), optimizer
        self._values: dict[str, Any] = {"graph": Wanted(self.outputs, optimizer)}
        value: Any = self._values["graph"]
        for stage in STAGES:
            value = self._values[stage.name] = stage.make(value)
        scheduled: Scheduled = self._values["deduplicate"]
        self.schedule, self.ranges, self.merged = scheduled.schedule, scheduled.ranges, scheduled.merged
        self.lowering: Lowering = self._values["materialize"]
        self.source: Source = self._values["write"]
        self.inputs = self.source.inputs
        # Columns without rows, which leave the inputs as they are.
        self.no_columns: dict[Leaf, np.ndarray] = {leaf: np.empty((0, 1), leaf.dtype) for leaf in self.inputs}
        self.draws = any(leaf is STEP for leaf in self.schedule.leaves)
        wanted = scheduled.wanted
        self.buffers = list(wanted.moving)
        trained = wanted.gradients.keys() | wanted.rows.keys()
        self.parameters = [p for p in (optimizer.parameters if optimizer else []) if p in trained]

    @property
    def computed(self) -> set[str]:
        """The nodes that no array holds."""
        return {label(value.node) for value in self.lowering.values.values() if not value.stored}

    def stages(self) -> dict[str, str]:
        """The program after each stage as text."""
        return {"graph": nodes(self._values["graph"])} | {
            stage.name: stage.show(self._values[stage.name]) for stage in STAGES
        }
