"""`MemoryOfStep`: when the arrays of a step exist, and which lines of code own them at the peak."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wyrm.engines.native.stages.loops import ArrayBuffer, Block, ElementStatement, Item, KernelCall
from wyrm.engines.native.stages.memory import Binding, lifetimes, plan_memory
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.graph.base import BaseNode
from wyrm.graph.parameters import Buffer, Parameter
from wyrm.graph.storage import bound_array
from wyrm.support.texts import aligned_table, bytes_text, fitted, of_all_layers, terminal_columns, wrapped

# Rows of the printed table of owners.
_OWNERS = 12


@dataclass(frozen=True)
class StoredArray:
    """An array of a step: it is at `offset` in the step's memory, from the call `first` to the call `last`."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    offset: int
    first: int
    last: int
    node: str
    module: str
    location: str
    source: str


@dataclass(frozen=True)
class MemoryOfStep:
    """The memory of a step of one thread.

    `arrays` share one block of `block_bytes`. `calls` names the calls of a step, by whose positions arrays begin and
    end. `own_bytes` are those of inputs, of the sums of row-sparse gradients, and of scratch memory. Neither includes
    the parameters and the optimizer's state.
    """

    arrays: tuple[StoredArray, ...]
    calls: tuple[str, ...]
    block_bytes: int
    own_bytes: int
    parameter_bytes: int
    optimizer_bytes: int

    @staticmethod
    def of(graph: NativeGraph, binding: Binding, trained: NativeGraph) -> MemoryOfStep:
        """Return the memory of a graph for the sizes of a binding.

        `trained` is the graph with the optimizer: another one if this graph computes gradients of parts of a batch.
        """
        source, optimizer = binding.source, trained.optimizer
        plan, uses = plan_memory(source, binding.sizes), lifetimes(source)
        makers: dict[ArrayBuffer, BaseNode] = {}
        for item in [*graph.tree.early, graph.tree.root]:
            for buffer, node in _written_arrays(item):
                makers.setdefault(buffer.root, node)
        arrays = []
        for buffer, (offset, shape) in plan.places.items():
            maker, size = makers.get(buffer), binding.array(buffer).nbytes
            owner = ("", "", "", "")
            if maker is not None:
                owner = maker.op_name(), maker.module_path, str(maker.location), maker.location.source
            arrays.append(StoredArray(buffer.name, shape, str(buffer.dtype), size, offset, *uses[buffer], *owner))
        states = [] if optimizer is None else [optimizer.state_of(each).values() for each in trained.parameters]
        leaves = [leaf for leaf in graph.schedule.leaves if isinstance(leaf, Parameter | Buffer)]
        return MemoryOfStep(
            tuple(sorted(arrays, key=lambda each: (each.first, -each.bytes))),
            tuple(invocation.function.__name__ for invocation in source.invocations),
            plan.size,
            binding.own_bytes,
            sum(bound_array(leaf).nbytes for leaf in leaves),
            sum(array.nbytes for state in states for array in state),
        )

    def live(self, position: int) -> tuple[StoredArray, ...]:
        """Return the arrays that exist during the call at a position, largest first."""
        alive = [each for each in self.arrays if each.first <= position <= each.last]
        return tuple(sorted(alive, key=lambda each: -each.bytes))

    @property
    def peak(self) -> int:
        """The position of the first call with the most bytes in arrays."""
        totals = self.totals
        return totals.index(max(totals)) if totals else 0

    @property
    def totals(self) -> list[int]:
        """The bytes in arrays during each call, and after the last one."""
        changes = [0] * (len(self.calls) + 2)
        for each in self.arrays:
            changes[each.first] += each.bytes
            changes[each.last + 1] -= each.bytes
        totals, total = [], 0
        for change in changes[:-1]:
            total += change
            totals.append(total)
        return totals

    @property
    def owners(self) -> list[tuple[str, str, str, int]]:
        """Who owns the peak, as (line, source, module, bytes), largest first; equal layers share an entry."""
        found: dict[tuple[str, str, str], int] = {}
        for each in self.live(self.peak):
            owner = each.location, each.source, of_all_layers(each.module)
            found[owner] = found.get(owner, 0) + each.bytes
        return sorted(((*owner, size) for owner, size in found.items()), key=lambda entry: -entry[-1])

    def __str__(self) -> str:
        """Return the totals, and the owners of the peak as a table."""
        totals, peak = self.totals, self.peak
        name = self.calls[peak] if peak < len(self.calls) else "the end of the step"
        head = (
            f"memory of a step in one thread: {bytes_text(self.block_bytes)} for {len(self.arrays)} arrays that share "
            f"one block, {bytes_text(self.own_bytes)} for inputs, sums of rows and scratch; "
            f"{bytes_text(self.parameter_bytes)} of parameters, {bytes_text(self.optimizer_bytes)} of the optimizer"
        )
        at = f"peak: {bytes_text(max(totals, default=0))} in {len(self.live(peak))} arrays, in {name}, owned by"
        rows = [
            (bytes_text(size), location or "(compiler)", module, source)
            for location, source, module, size in self.owners[:_OWNERS]
        ]
        cells, _ = fitted([("bytes", "line", "module", "code"), *rows], terminal_columns(), shrinking=(3, 2, 1))
        return "\n".join([wrapped(f"{head}\n{at}"), *aligned_table(cells[0], cells[1:], {0})])


def _written_arrays(item: Item) -> Iterator[tuple[ArrayBuffer, BaseNode]]:
    """Yield the arrays that an item writes, each with its node."""
    if isinstance(item, Block):
        for inner in item.items:
            yield from _written_arrays(inner)
    elif isinstance(item, KernelCall):
        yield item.out, item.node
    elif isinstance(item, ElementStatement) and item.node is not None and item.value is not None:
        yield item.value.buffer, item.value.node
