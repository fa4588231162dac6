"""The routine of a program, `run`, with its arguments in the block of memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wyrm.engines.native.kernels.values import ViewKind, types_of
from wyrm.engines.native.stages.memory import Binding, plan_memory
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.engines.native.stages.write import Head
from wyrm.exporting.batches import BatchSizes
from wyrm.exporting.image import Kind, owner_of
from wyrm.exporting.routines import Arguments, ArrayRegions, Base, Bound, Code, Word, arrays_of
from wyrm.graph.axes import Dim, resolve
from wyrm.graph.base import BaseNode
from wyrm.graph.storage import bound_array, stored
from wyrm.ops.kernels.native import noting_scratch
from wyrm.support.memory import aligned

# The arguments of `run` that a call gives, by their positions.
HEAD = len(Head._fields)
FIRST, COUNT, BATCH, STEP_NUMBER, ORDER, TOTALS, NUMBERS = range(HEAD)


@dataclass
class Axes:
    """The axis of the batch, and the sizes of the other axes without one, those of entries of rows too."""

    batch: type[Dim] | None
    others: dict[type[Dim], int]

    def shapes(self, graph: NativeGraph, batch: int) -> dict[BaseNode, tuple[int, ...]]:
        """Return the shapes of all leaves that a step reads, for a batch of a size with the most entries."""
        known = self.others | ({} if self.batch is None else {self.batch: batch})
        return {leaf: resolve(leaf.dims, known) for leaf in graph.fed}


@dataclass(frozen=True)
class ArrayPlace:
    """An array of a program: its kind, where the program's table has its words from, and these words."""

    kind: ViewKind
    at: int
    words: tuple[Word, ...]

    @property
    def shape(self) -> tuple[Word, ...]:
        """The words of the sizes of the axes."""
        return self.words[1 : 1 + self.kind.axes]

    @property
    def constant(self) -> bool:
        """Whether it is in the data."""
        return self.words[0].base is Base.DATA


@dataclass(frozen=True)
class TouchedRows:
    """The sums of rows that a step touches, as a matrix, and their count."""

    sums: ArrayPlace
    count: ArrayPlace


@dataclass(eq=False)
class BoundRun:
    """A program's routine, bound: how to call it, and where its inputs, outputs and row sums are.

    `columns` has the first word of each column's argument.
    """

    graph: NativeGraph
    bound: Bound
    columns: dict[BaseNode, int]
    fed: dict[BaseNode, ArrayPlace]
    outputs: tuple[ArrayPlace, ...]
    touched: tuple[TouchedRows, ...]

    def column_of(self, leaves: Sequence[BaseNode]) -> int:
        """Return the first word of the column of the only one of these leaves that has one."""
        (found,) = (self.columns[leaf] for leaf in leaves if leaf in self.columns)
        return found

    @property
    def head(self) -> tuple[int, ...]:
        """The first words of the arguments that a call gives, by their positions."""
        return self.bound.entry.starts[:HEAD]

    @property
    def counts(self) -> tuple[ArrayPlace, ...]:
        """The counts of the rows that a step touches, each once."""
        return tuple({each.count.words: each.count for each in self.touched}.values())


def place_run(
    graph: NativeGraph, code: Code, places: ArrayRegions, sizes: BatchSizes, axes: Axes, *, given: Collection[BaseNode]
) -> BoundRun:
    """Compile the routine of a program for all batch sizes.

    Callers give the data of the inputs `given`; others keep what they hold.
    """
    bindings, memory, scratch = dict[int, Binding](), dict[int, np.ndarray](), list[np.ndarray]()
    largest = graph.schedule.bind(axes.shapes(graph, sizes.most))
    plan = plan_memory(graph.source, largest)
    for size in sizes.samples:
        shapes = axes.shapes(graph, size)
        memory[size] = aligned((max(1, plan.size),), np.dtype(np.uint8))
        with noting_scratch() as made:
            bindings[size] = Binding(
                graph.source,
                graph.schedule.bind(shapes),
                shapes,
                graph.optimizer,
                memory=memory[size],
                largest=largest,
                plan=plan,
            )
        scratch += made
    places.scratch |= dict.fromkeys(map(id, scratch))
    for binding in bindings.values():  # scratch has its number among that of its call of a kernel
        for call in binding._calls.values():
            owners = dict.fromkeys(id(owner_of(each)) for each in arrays_of(call))
            places.scratch |= {each: i for i, each in enumerate(each for each in owners if each in places.scratch)}
    places.keep += scratch
    arguments = {size: _arguments_of_run(graph, each, size, set(given)) for size, each in bindings.items()}
    known = Arguments(arguments, memory)
    function_kinds = known.kinds[: HEAD + len(graph.source.arguments)]
    entry = code.entry(graph.source.run, function_kinds)
    words = places.words(known, entry, sizes)
    starts = entry.starts
    ours = words[starts[-1] :]
    bound = Bound(
        entry, words, places.image.add(8 * (entry.size + len(ours)), Kind.SCRATCH), places.image.add(8, Kind.SCRATCH)
    )
    places.bound.append(bound)
    found, at = list[ArrayPlace](), 0
    for kind in known.kinds[len(function_kinds) :]:
        assert isinstance(kind, ViewKind)
        count = len(types_of(kind))
        found.append(ArrayPlace(kind, entry.size + at, tuple(ours[at : at + count])))
        at += count
    inputs, outputs = len(graph.source.fed), len(graph.tree.outputs)
    rows = found[inputs + outputs :]
    return BoundRun(
        graph, bound,
        {leaf: starts[HEAD + at] for leaf, at in bindings[sizes.most].columns.items()},
        {leaf: each for (leaf, _), each in zip(graph.source.fed, found, strict=False)},
        tuple(found[inputs : inputs + outputs]),
        tuple(TouchedRows(*pair) for pair in zip(rows[::2], rows[1::2], strict=True)),
    )  # fmt: skip


def _arguments_of_run(graph: NativeGraph, binding: Binding, batch: int, given: Collection[BaseNode]) -> list[Any]:
    """Return the arguments of `run`, and the arrays that the code around it reads and writes."""
    for leaf, buffer in graph.source.fed:
        binding.array(buffer)[...] = 0 if leaf in given or stored(leaf).array is None else bound_array(leaf)
    values = list(binding.values)
    for leaf, position in binding.columns.items():
        values[position] = np.empty((0, 1), leaf.dtype)
    totals, numbers = np.zeros(0), np.zeros((0, max(1, len(graph.source.hyperparameters))))
    head = Head(0, 1, batch, 0, np.zeros(0, np.int64), totals, numbers)
    return [*head, *values, *_extras(graph, binding)]


def _extras(graph: NativeGraph, binding: Binding) -> Sequence[np.ndarray]:
    rows = []
    for each in graph.tree.rows:
        sums = binding.array(each.sums)
        rows += [sums.reshape(len(sums), sums.size // max(1, len(sums))), binding.array(each.count)]
    fed = [binding.array(buffer) for _, buffer in graph.source.fed]
    return [*fed, *(binding.array(buffer) for buffer in graph.tree.outputs), *rows]
