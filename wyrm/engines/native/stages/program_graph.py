"""`ProgramGraph`: what a program computes, after the stages of compilation that do not depend on the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from wyrm.engines.native.stages.decompose import decompose
from wyrm.engines.native.stages.deduplicate import Scheduled, deduplicate
from wyrm.engines.native.stages.differentiate import Targets, differentiate
from wyrm.engines.native.stages.updates import OptimizerInterface
from wyrm.graph.base import BaseNode
from wyrm.graph.buffer import Buffer
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Input, Parameter
from wyrm.graph.text import text_of
from wyrm.graph.traversal import topological_order
from wyrm.ops.random.philox import COUNTERS, STEP


@dataclass(frozen=True)
class Stage:
    """A stage: its function, and how to show its result as text, None for one that is not shown."""

    name: str
    make: Callable[[Any], Any]
    show: Callable[[Any], str] | None


def nodes(value: Targets | Scheduled) -> str:
    """Return a line for each node, with the user's line of code that made it."""
    if isinstance(value, Scheduled):
        return text_of(value.schedule.nodes, value.schedule.parents)
    return text_of(topological_order(value.nodes), _parents)


def _parents(node: BaseNode) -> tuple[BaseNode, ...]:
    parents: tuple[BaseNode, ...] = node.parents
    return parents


# Adds the gradients of a loss and the new values of buffers to the outputs.
DIFFERENTIATE = Stage("differentiate", differentiate, nodes)
# Replaces composite ops by simpler ones, which fuse with the nodes around them.
DECOMPOSE = Stage("decompose", decompose, nodes)
# Merges equal operations, and orders them.
DEDUPLICATE = Stage("deduplicate", deduplicate, nodes)


class ProgramGraph:
    """What a program computes: the outputs and, with an optimizer, the gradients of the loss and new values of buffers.

    `targets` are these nodes, and `schedule` has all nodes in the order of computation. `inputs` take data in each
    call. `parameters` are those with a gradient, `buffers` those with an update.
    """

    # Each stage is a function of the result of the one before it; a subclass may have others after "deduplicate".
    STAGES: ClassVar[Sequence[Stage]] = (DIFFERENTIATE, DECOMPOSE, DEDUPLICATE)

    def __init__(self, outputs: Sequence[BaseNode], optimizer: OptimizerInterface | None) -> None:
        self.outputs, self.optimizer = list(outputs), optimizer
        value: Any = Targets(self.outputs, optimizer)
        self._values: dict[str, Any] = {"graph": value}
        for stage in self.STAGES:
            value = self._values[stage.name] = stage.make(value)
        scheduled: Scheduled = self._values["deduplicate"]
        self.targets, self.schedule, self.ranges = scheduled.targets, scheduled.schedule, scheduled.ranges
        self.merged = scheduled.merged
        leaves = [leaf for leaf in self.schedule.leaves if leaf not in COUNTERS]
        self.inputs = [leaf for leaf in leaves if isinstance(leaf, Input | IndexInput)]
        trained = self.targets.gradients.keys() | self.targets.rows.keys()
        self.parameters: list[Parameter] = [p for p in (optimizer.parameters if optimizer else []) if p in trained]
        self.buffers: list[Buffer] = list(self.targets.buffer_updates)
        # Whether there are random nodes.
        self.draws = any(leaf is STEP for leaf in self.schedule.leaves)

    @property
    def trained(self) -> list[Parameter | Buffer]:
        """The parameters and buffers that a step changes."""
        return [*self.parameters, *self.buffers]

    @property
    def differentiated(self) -> Targets:
        """The nodes as users wrote them, and their gradients."""
        targets: Targets = self._values["differentiate"]
        return targets

    def stages(self) -> dict[str, str]:
        """Return the program after each stage as text."""
        shown = {stage.name: stage.show for stage in self.STAGES if stage.show is not None}
        return {"graph": nodes(self._values["graph"])} | {
            name: show(self._values[name]) for name, show in shown.items()
        }
