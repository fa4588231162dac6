"""`ProgramGraph`: what a program computes, after the stages of compilation that do not depend on the machine.

Each stage is a function of the result of the stage before it: gradients are added, composite ops are replaced by
simpler ones, and equal operations are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from wyrm.engines.optimizer import OptimizerInterface
from wyrm.errors import NotDifferentiable, UnusedParameter
from wyrm.graph.axes import axis_size
from wyrm.graph.base import BaseNode, describe, label
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.node import Node
from wyrm.graph.parameters import Buffer, Parameter
from wyrm.graph.ragged import Padding, flat_graph
from wyrm.graph.schedule import Ranges, Schedule, parts_of_residuals
from wyrm.graph.source_location import located_at
from wyrm.graph.text import text_of
from wyrm.graph.traversal import shallow_first, topological_order
from wyrm.ops.control.updating import updates_of
from wyrm.ops.cross_entropy.softmax import cross_entropy_over
from wyrm.ops.gradients.reverse import pull_back
from wyrm.ops.indexing.index import row_gradient, row_parts
from wyrm.ops.random.philox import STEP, Counter
from wyrm.support.frozen import frozen

if TYPE_CHECKING:
    from wyrm.ops.ragged import Flattened

# --- stages -----------------------------------------------------------------------------------------------------------


@frozen
class Targets:
    """The nodes that a program computes.

    With an optimizer, the first output is the loss, and the others are metrics. `gradients` holds the dense gradients
    of parameters, `rows` the (gradient, indices) pairs of row-sparse ones, `buffer_updates` the new values of buffers.
    `original` lists the nodes as users wrote them; `simpler` maps each to the node that replaces it.
    """

    outputs: Sequence[BaseNode]
    optimizer: OptimizerInterface | None = None
    gradients: Mapping[BaseNode, BaseNode] = field(default_factory=dict)
    rows: Mapping[BaseNode, Sequence[tuple[BaseNode, BaseNode]]] = field(default_factory=dict)
    buffer_updates: Mapping[Buffer, BaseNode] = field(default_factory=dict)
    original: Sequence[BaseNode] = ()
    simpler: Mapping[BaseNode, BaseNode] = field(default_factory=dict)

    @property
    def nodes(self) -> list[BaseNode]:
        """All these nodes."""
        pairs = [node for touched in self.rows.values() for pair in touched for node in pair]
        return [*self.outputs, *self.gradients.values(), *pairs, *self.buffer_updates.values()]

    @property
    def loss(self) -> BaseNode | None:
        """The loss, if there is an optimizer."""
        return None if self.optimizer is None else self.outputs[0]

    def replaced(self, becomes: Callable[[BaseNode], BaseNode]) -> Targets:
        """Return a copy with `becomes(node)` for each node; parameters and buffers stay."""
        return Targets(
            [becomes(node) for node in self.outputs],
            self.optimizer,
            {parameter: becomes(node) for parameter, node in self.gradients.items()},
            {
                parameter: [(becomes(gradient), becomes(indices)) for gradient, indices in pairs]
                for parameter, pairs in self.rows.items()
            },
            {buffer: becomes(node) for buffer, node in self.buffer_updates.items()},
            self.original,
            self.simpler,
        )


def differentiate(targets: Targets) -> Targets:
    """Add the gradients of the optimizer's parameters and the new values of buffers."""
    if targets.optimizer is None:
        return targets
    gradients, rows = gradients_of(targets.outputs[0], targets.optimizer)
    return Targets(targets.outputs, targets.optimizer, gradients, rows, updates_of(targets.outputs))


def gradients_of(
    loss: BaseNode, optimizer: OptimizerInterface
) -> tuple[dict[BaseNode, BaseNode], dict[BaseNode, list[tuple[Any, Any]]]]:
    """Return the dense gradients of the loss, and the (gradient, indices) pairs of the row-sparse ones.

    A rule that is not elementwise takes a dense gradient.
    """
    if not isinstance(loss, Node) or loss.dims != () or loss.dtype.kind != "f":
        raise NotDifferentiable(
            f"a program that trains takes one scalar float loss, not {describe(loss)}: reduce it with .sum() or .mean()"
        )
    gradients = pull_back([loss], [Constant(1.0, dtype=loss.dtype)], optimizer.parameters)
    dense: dict[BaseNode, BaseNode] = {}
    sparse: dict[BaseNode, list[tuple[Any, Any]]] = {}
    for parameter, gradient in zip(optimizer.parameters, gradients, strict=True):
        if gradient is None:
            continue
        pairs = row_parts(gradient) if optimizer.rule(parameter).elementwise else None
        if pairs is None:
            dense[parameter] = gradient
        else:
            sparse[parameter] = pairs
    if not dense and not sparse:
        raise UnusedParameter(
            f"{describe(loss)} depends on none of the optimizer's parameters "
            f"({', '.join(map(label, optimizer.parameters))}); give the optimizer loss.parameters()"
        )
    return dense, sparse


@frozen
class Scheduled:
    """The nodes in the order of computation, and the program's targets among them.

    `ranges` holds the known ranges of indices; `merged` names the nodes that an equal one replaces.
    """

    targets: Targets
    schedule: Schedule
    ranges: Ranges
    merged: list[str]


def deduplicate(targets: Targets) -> Scheduled:
    """Return the schedule of a program; errors name the nodes as users wrote them."""
    # Compute each gradient as early as possible, which frees its operands.
    schedule = Schedule(shallow_first(targets.nodes), targets.original)
    final = targets.replaced(schedule.representative.__getitem__)
    merged = [label(node) for node, first in schedule.representative.items() if node is not first and node.parents]
    # These nodes make `Ranges` check the rows that the data indexes, before anything runs.
    touched = [row_gradient(g, i, parameter.dims) for parameter, pairs in final.rows.items() for g, i in pairs]
    # Errors name the ops that users wrote, so these come before the simpler ones that replace them.
    written = topological_order(targets.original) if targets.original else []
    return Scheduled(final, schedule, Ranges([*written, *schedule.nodes, *touched]), merged)


def decompose(targets: Targets) -> Targets:
    """Return the targets with composite ops replaced by simpler ones."""
    rows = {
        table: [(LOOPS.of(node).gradient_of_rows(node, indices, table), indices) for node, indices in pairs]
        for table, pairs in targets.rows.items()
    }
    simpler = replace(targets, rows=rows)
    replacements = expand(simpler.nodes)
    return replace(simpler.replaced(replacements.__getitem__), original=targets.nodes, simpler=replacements)


def share_residuals(targets: Targets) -> Targets:
    """Return the targets with nodes replaced by residuals of other nodes that contain the same value."""
    return targets.replaced(expand(targets.nodes, lambda node: None).__getitem__)


def simplified(outputs: Sequence[BaseNode]) -> dict[BaseNode, BaseNode]:
    """Return `expand(outputs)`; nodes of a graph with a `Ragged` axis replace themselves, because it becomes flat."""
    if flat_graph(outputs) is None:
        return expand(outputs)
    return {node: node for node in topological_order(outputs)}


def _simpler(node: BaseNode) -> BaseNode | None:
    return LOOPS.of(node).decompose(node)


def expand(
    outputs: Sequence[BaseNode], simpler: Callable[[BaseNode], BaseNode | None] = _simpler
) -> dict[BaseNode, BaseNode]:
    """Return the replacement of every node that the outputs depend on; `simpler` returns that of a composite op."""
    replacements: dict[BaseNode, BaseNode] = {}
    for node, part in parts_of_residuals(topological_order(outputs)).items():
        _expand([part], replacements, simpler)
        replacements[node] = replacements[part]
    _expand(outputs, replacements, simpler)
    return replacements


def _expand(
    outputs: Sequence[BaseNode],
    replacements: dict[BaseNode, BaseNode],
    simpler: Callable[[BaseNode], BaseNode | None],
) -> None:
    for node in topological_order(outputs, replacements):
        same = all(replacements[parent] is parent for parent in node.parents)
        with located_at(node.origin):
            copy = node if node.is_leaf or same else node.rebuild(replacements[parent] for parent in node.parents)
            parts = simpler(copy)
            if parts is not None:
                _expand([parts], replacements, simpler)
                copy = replacements[parts]
        replacements[node] = replacements[copy] = copy


# --- the graph --------------------------------------------------------------------------------------------------------


@frozen
class CompilerStage:
    """A stage of compilation; `show` returns its result as text, and is None for a stage that is not shown."""

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
DIFFERENTIATE = CompilerStage("differentiate", differentiate, nodes)
# Replaces composite ops by simpler ones, which fuse with the nodes around them.
DECOMPOSE = CompilerStage("decompose", decompose, nodes)
# Merges equal operations, and orders them.
DEDUPLICATE = CompilerStage("deduplicate", deduplicate, nodes)


class ProgramGraph:
    """The nodes of a program: its outputs and, with an optimizer, gradients and new values of buffers (`targets`).

    `schedule` has all nodes in the order of computation. `inputs` take data in each call; a step reads it from `fed`,
    which has leaves of flat arrays in place of inputs with a `Ragged` axis. `parameters` have a gradient,
    `buffers` an update.
    """

    # Each stage is a function of the result of the one before it; a subclass may have others after "deduplicate".
    STAGES: ClassVar[Sequence[CompilerStage]] = (DIFFERENTIATE, DECOMPOSE, DEDUPLICATE)
    # Where a step may read more entries of rows of different lengths than there are, so that few shapes are compiled.
    padding: Padding = Padding.NONE
    # Whether the graph has the loops, calls and arrays of a step, as `NativeGraph` has them, which `wyrm.view` shows.
    has_loops: ClassVar[bool] = False

    def __init__(self, outputs: Sequence[BaseNode], optimizer: OptimizerInterface | None) -> None:
        self.outputs: list[BaseNode] = list(outputs)
        self.optimizer = optimizer
        value: Any = Targets(self.outputs, optimizer)
        self._values: dict[str, Any] = {"graph": value}
        # The graph of flat arrays, for one with rows of different lengths.
        self.flat: Flattened | None = flat_graph(self.outputs, self.padding)
        if self.flat is not None:
            value = self._values["flatten"] = Targets([self.flat.node[output] for output in self.outputs], optimizer)
        for stage in self.STAGES:
            value = self._values[stage.name] = stage.make(value)
        scheduled: Scheduled = self._values["deduplicate"]
        self.targets: Targets = scheduled.targets
        self.schedule: Schedule = scheduled.schedule
        self.ranges: Ranges = scheduled.ranges
        self.merged: list[str] = scheduled.merged
        leaves = [leaf for leaf in self.schedule.leaves if not isinstance(leaf, Counter)]
        # The leaves that a step reads data from, which are the inputs but for those with a ragged axis.
        self.fed: list[BaseNode] = [leaf for leaf in leaves if isinstance(leaf, Input | IndexInput)]
        self.inputs: list[BaseNode] = self.fed if self.flat is None else self.flat.users(self.fed)
        trained = self.targets.gradients.keys() | self.targets.rows.keys()
        self.parameters: list[Parameter] = [p for p in (optimizer.parameters if optimizer else []) if p in trained]
        self.buffers: list[Buffer] = list(self.targets.buffer_updates)
        # Whether there are random nodes.
        self.draws: bool = any(leaf is STEP for leaf in self.schedule.leaves)

    @property
    def trained(self) -> list[Parameter | Buffer]:
        """The parameters and buffers that a step changes."""
        return [*self.parameters, *self.buffers]

    @cached_property
    def contrast(self) -> BaseNode | None:
        """A cross-entropy whose classes are the rows of a batch, as in `info_nce`, if there is one."""
        rows = {leaf.dims[0] for leaf in self.inputs if leaf.dims and axis_size(leaf.dims[0]) is None}
        return cross_entropy_over(rows, topological_order(self.outputs))

    @property
    def differentiated(self) -> Targets:
        """The nodes as users wrote them, and their gradients."""
        targets: Targets = self._values["differentiate"]
        return targets

    def stages(self) -> dict[str, str]:
        """Return the program after each stage as text."""
        shown = {stage.name: stage.show for stage in self.STAGES if stage.show is not None}
        before = [name for name in ("graph", "flatten") if name in self._values]
        return {name: nodes(self._values[name]) for name in before} | {
            name: show(self._values[name]) for name, show in shown.items()
        }
