"""The stages of compilation, in order: each is a function of the result of the stage before it.

Later stages depend on the sizes of data and run with a program's first call: `memory` plans memory, `kernels`
turns array functions into loop programs for the arrays' layouts, `llvm.emit` turns those into LLVM modules, and
`llvm.library` loads their machine code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from wyrm.engines.graph import DECOMPOSE, DEDUPLICATE, DIFFERENTIATE, CompilerStage, ProgramGraph
from wyrm.engines.native.stages.fuse import LoopTree, fuse
from wyrm.engines.native.stages.loops import (
    Block,
    ColumnArgument,
    ElementStatement,
    Item,
    KernelCall,
    Loop,
    ScalarBlock,
)
from wyrm.engines.native.stages.materialize import Materialized, materialize
from wyrm.engines.native.stages.write import Source, write
from wyrm.engines.optimizer import OptimizerInterface
from wyrm.graph.base import BaseNode, format_dims, label

# --- results of stages as text ----------------------------------------------------------------------------------------


def loops(tree: LoopTree) -> str:
    """Return the tree of loops: a line for each loop, kernel call and node computed in a loop."""
    items = [*tree.early, *tree.root.items]
    return "\n".join(line for item in items for line in _lines(item))


def _lines(item: Item) -> Iterator[str]:
    if isinstance(item, Loop | ScalarBlock):
        if not item.items:
            return
        yield f"for {item.axis!r}:" if isinstance(item, Loop) else "once:"
    if isinstance(item, Block):
        for each in item.items:
            yield from (f"    {line}" for line in _lines(each))
    elif isinstance(item, KernelCall):
        yield f"{item.out.name} {'+=' if item.adds else '='} {_line_of(item.node)}"
    elif isinstance(item, ElementStatement):
        verb = {"reduce": "reduce ", "write": "write ", "copy": "copy ", "rows": "add to rows "}.get(item.kind, "")
        yield f"{verb}{_line_of(item.node)}"


def _line_of(node: BaseNode) -> str:
    return f"{node.op_name()} {format_dims(node.dims)}  # {node.location} {node.location.source}".rstrip()


def stored_arrays(loops: Materialized) -> str:
    """Return the arrays that store values, and the nodes that no array stores."""
    buffers = [value.buffer for value in loops.tree.values.values() if value in loops.stored]
    lines = [f"{buffer.name}: {format_dims(buffer.dims)} {buffer.dtype}" for buffer in buffers]
    return "\n".join([*lines, f"in variables only: {', '.join(sorted(_in_variables(loops))) or 'none'}"])


def _in_variables(loops: Materialized) -> set[str]:
    """Return the nodes that no array stores."""
    return {label(value.node) for value in loops.tree.values.values() if value not in loops.stored}


# --- the stages -------------------------------------------------------------------------------------------------------


STAGES = (
    DIFFERENTIATE,
    DECOMPOSE,
    DEDUPLICATE,
    # Puts nodes into loops, which they share where possible.
    CompilerStage("fuse", fuse, loops),
    # Decides which values are stored in arrays, and not only in variables of a loop.
    CompilerStage("materialize", materialize, stored_arrays),
    # Writes functions over arrays, and `run`, which calls them.
    CompilerStage("write", write, lambda source: source.text),
)


class NativeGraph(ProgramGraph):
    """A program after each stage, independent of sizes and data."""

    STAGES: ClassVar[Sequence[CompilerStage]] = STAGES
    has_loops: ClassVar[bool] = True

    def __init__(self, outputs: Sequence[BaseNode], optimizer: OptimizerInterface | None) -> None:
        super().__init__(outputs, optimizer)
        self.loops: Materialized = self._values["materialize"]
        self.tree: LoopTree = self.loops.tree
        self.source: Source = self._values["write"]
        # In the order of the columns that `run` reads.
        self.fed: list[BaseNode] = self.source.inputs
        self.inputs: list[BaseNode] = self.fed if self.flat is None else self.flat.users(self.fed)
        # Columns without rows, which leave the inputs as they are.
        columns = [each.leaf for each in self.source.arguments.values() if isinstance(each, ColumnArgument)]
        self.no_columns: dict[BaseNode, np.ndarray] = {leaf: np.empty((0, 1), leaf.dtype) for leaf in columns}

    @property
    def computed(self) -> set[str]:
        """The nodes that no array stores."""
        return _in_variables(self.loops)
