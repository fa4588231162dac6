"""The stages of compilation, in order: each is a function of the result of the stage before it.

Later stages depend on the sizes of data and run with a program's first call: `memory` plans memory, `kernels`
turns array functions into loop programs for the arrays' layouts, `llvm.emit` turns those into LLVM modules, and
`llvm.library` loads their machine code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wyrm.engines.native.stages.decompose import decompose
from wyrm.engines.native.stages.deduplicate import Scheduled, deduplicate
from wyrm.engines.native.stages.differentiate import Targets, differentiate
from wyrm.engines.native.stages.listing import loops, nodes, stored_arrays
from wyrm.engines.native.stages.lower import Lowering, lower
from wyrm.engines.native.stages.materialize import materialize
from wyrm.engines.native.stages.scans import write
from wyrm.engines.native.stages.source import Source
from wyrm.engines.native.stages.updates import OptimizerInterface
from wyrm.graph.base import BaseNode, label
from wyrm.ops.random.philox import STEP

Leaf = BaseNode


@dataclass(frozen=True)
class Stage:
    """A stage: its function, and how to show its result as text."""

    name: str
    make: Callable[[Any], Any]
    show: Callable[[Any], str]


STAGES = (
    # Adds the gradients of a loss and the new values of buffers to the outputs.
    Stage("differentiate", differentiate, nodes),
    # Replaces composite ops by simpler ones, which fuse with the nodes around them.
    Stage("decompose", decompose, nodes),
    # Merges equal operations, and orders them.
    Stage("deduplicate", deduplicate, nodes),
    # Puts nodes into loops, which they share where possible.
    Stage("fuse", lower, loops),
    # Decides which values are stored in arrays, and not only in variables of a loop.
    Stage("materialize", materialize, stored_arrays),
    # Writes functions over arrays, and `run`, which calls them.
    Stage("write", write, lambda source: source.text),
)


class Graph:
    """A program after each stage, independent of sizes and data."""

    def __init__(self, outputs: Sequence[BaseNode], optimizer: OptimizerInterface | None) -> None:
        self.outputs, self.optimizer = list(outputs), optimizer
        self._values: dict[str, Any] = {"graph": Targets(self.outputs, optimizer)}
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
        targets = self.targets = scheduled.targets
        self.buffers = list(targets.buffer_updates)
        trained = targets.gradients.keys() | targets.rows.keys()
        self.parameters = [p for p in (optimizer.parameters if optimizer else []) if p in trained]

    @property
    def differentiated(self) -> Targets:
        """The nodes as users wrote them, and their gradients."""
        targets: Targets = self._values["differentiate"]
        return targets

    @property
    def computed(self) -> set[str]:
        """The nodes that no array stores."""
        return {label(value.node) for value in self.lowering.values.values() if not value.stored}

    def stages(self) -> dict[str, str]:
        """Return the program after each stage as text."""
        return {"graph": nodes(self._values["graph"])} | {
            stage.name: stage.show(self._values[stage.name]) for stage in STAGES
        }
