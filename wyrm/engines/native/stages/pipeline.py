"""The stages of compilation, in order: each is a function of the result of the stage before it.

Later stages depend on the sizes of data and run with a program's first call: `memory` plans memory, `kernels`
turns array functions into loop programs for the arrays' layouts, `llvm.emit` turns those into LLVM modules, and
`llvm.library` loads their machine code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from wyrm.engines.graph import DECOMPOSE, DEDUPLICATE, DIFFERENTIATE, ProgramGraph, Stage
from wyrm.engines.native.stages.listing import loops, stored_arrays
from wyrm.engines.native.stages.lower import Lowering, lower
from wyrm.engines.native.stages.materialize import materialize
from wyrm.engines.native.stages.scans import write
from wyrm.engines.native.stages.source import Source
from wyrm.engines.optimizers import OptimizerInterface
from wyrm.graph.base import BaseNode, label

STAGES = (
    DIFFERENTIATE,
    DECOMPOSE,
    DEDUPLICATE,
    # Puts nodes into loops, which they share where possible.
    Stage("fuse", lower, loops),
    # Decides which values are stored in arrays, and not only in variables of a loop.
    Stage("materialize", materialize, stored_arrays),
    # Writes functions over arrays, and `run`, which calls them.
    Stage("write", write, lambda source: source.text),
)


class Graph(ProgramGraph):
    """A program after each stage, independent of sizes and data."""

    STAGES: ClassVar[Sequence[Stage]] = STAGES

    def __init__(self, outputs: Sequence[BaseNode], optimizer: OptimizerInterface | None) -> None:
        super().__init__(outputs, optimizer)
        self.lowering: Lowering = self._values["materialize"]
        self.source: Source = self._values["write"]
        # In the order of the columns that `run` reads.
        self.inputs = self.source.inputs
        # Columns without rows, which leave the inputs as they are.
        self.no_columns: dict[BaseNode, np.ndarray] = {leaf: np.empty((0, 1), leaf.dtype) for leaf in self.inputs}

    @property
    def computed(self) -> set[str]:
        """The nodes that no array stores."""
        return {label(value.node) for value in self.lowering.values.values() if not value.stored}
