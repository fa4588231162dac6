"""The stages of compilation, in order: each is a function of the result of the stage before it.

Later stages depend on the sizes of data and run with a program's first call: `memory` plans memory, `kernels`
turns array functions into loop programs for the arrays' layouts, `llvm.emit` turns those into LLVM modules, and
`llvm.library` loads their machine code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wyrm.engines.native.stages.decompose import decompose
from wyrm.engines.native.stages.deduplicate import Scheduled, deduplicate
from wyrm.engines.native.stages.differentiate import Targets, differentiate
from wyrm.engines.native.stages.fuse import Lowering, fuse
from wyrm.engines.native.stages.loops import Block, Item, KernelCall, Loop, ScalarBlock, Statement
from wyrm.engines.native.stages.materialize import materialize
from wyrm.engines.native.stages.write import Source, write
from wyrm.engines.optimizer import OptimizerInterface
from wyrm.graph.base import BaseNode, format_dims, label
from wyrm.graph.text import text_of
from wyrm.graph.traversal import topological_order
from wyrm.ops.random.philox import STEP

# --- results of stages as text ----------------------------------------------------------------------------------------


def nodes(value: Targets | Scheduled) -> str:
    """Return a line for each node, with the user's line of code that made it."""
    if isinstance(value, Scheduled):
        return text_of(value.schedule.nodes, value.schedule.parents)
    return text_of(topological_order(value.nodes), _parents)


def _parents(node: BaseNode) -> tuple[BaseNode, ...]:
    parents: tuple[BaseNode, ...] = node.parents
    return parents


def loops(lowering: Lowering) -> str:
    """Return the tree of loops: a line for each loop, kernel call and node computed in a loop."""
    items = [*lowering.early, *lowering.root.items]
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
        yield f"{item.out.name} {'+=' if item.adds else '='} {_named(item.node)}"
    elif isinstance(item, Statement) and item.node is not None:
        verb = {"reduce": "reduce ", "write": "write ", "copy": "copy ", "rows": "add to rows "}.get(item.kind, "")
        yield f"{verb}{_named(item.node)}"


def _named(node: BaseNode) -> str:
    return f"{node.op_name()} {format_dims(node.dims)}  # {node.location} {node.location.source}".rstrip()


def stored_arrays(lowering: Lowering) -> str:
    """Return the arrays that store values, and the nodes that no array stores."""
    lines = [
        f"{value.buffer.name}: {format_dims(value.buffer.dims)} {value.buffer.dtype}"
        for value in lowering.values.values()
        if value.stored
    ]
    never = sorted({label(value.node) for value in lowering.values.values() if not value.stored})
    return "\n".join([*lines, f"in variables only: {', '.join(never) or 'none'}"])


# --- the stages -------------------------------------------------------------------------------------------------------


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
    Stage("fuse", fuse, loops),
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
        self.no_columns: dict[BaseNode, np.ndarray] = {leaf: np.empty((0, 1), leaf.dtype) for leaf in self.inputs}
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
