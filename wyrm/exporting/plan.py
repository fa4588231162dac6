"""What an export needs of each program, planned before any text is written: routines, memory, and what to refuse."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.errors import OptionError, ShapeError
from wyrm.exporting.batches import BatchDependent, BatchSizes
from wyrm.exporting.image import Image, Kind, Region
from wyrm.exporting.names import identifier
from wyrm.exporting.numbers import Formulas, PlannedRate, means, planned, step_numbers
from wyrm.exporting.routines import ArrayRegions, Code, Word
from wyrm.exporting.runs import ArrayPlace, Axes, BoundRun, place_run
from wyrm.graph.axes import (
    Dim,
    Entries,
    Ragged,
    axis_of_entries,
    axis_size,
    class_text,
    flat_dims,
    open_axes,
    ragged_axis,
    resolve,
)
from wyrm.graph.base import BaseNode, describe, label, original
from wyrm.graph.index_operands import used
from wyrm.graph.leaves import Input
from wyrm.graph.node import Node
from wyrm.graph.ragged_leaves import made_of, parts_of
from wyrm.graph.storage import stored
from wyrm.graph.traversal import topological_order
from wyrm.support.options import whole

# The numbers of so many steps are computed before these steps are done.
CHUNK = 64
# The size of an axis that is the batch.
ROWS = BatchDependent((1, 1))


@dataclass(frozen=True)
class IndexRange:
    """The range of the indices in an input: at least `low` and below `high`, or `ignored`.

    `used` tells which elements of a row are indices, None for all.
    """

    low: int
    high: int
    ignored: int | None
    used: Region | None

    @property
    def bounds(self) -> tuple[int, int, int, int]:
        """What kernels take: the range, what is ignored, and 1 if something is."""
        return self.low, self.high, self.ignored or 0, int(self.ignored is not None)


@dataclass(frozen=True, eq=False)
class Given:
    """An input that the caller of a function gives: its name there, and whether it has a row for each of a batch.

    One with rows of different lengths has an entry of `shape` for each of theirs: `along` is the position of their
    lengths among those of the function. Native code has no checks of indices in the ranges `limits`.
    """

    leaf: BaseNode
    name: str
    by_rows: bool
    shape: tuple[int, ...]
    along: int | None = None
    limits: tuple[IndexRange, ...] = ()

    @property
    def values(self) -> BaseNode:
        """The leaf that the program reads in place of the input."""
        return self.leaf if self.along is None else parts_of(self.leaf).values

    @property
    def parts(self) -> Sequence[BaseNode]:
        """All leaves that the program reads in place of the input."""
        return (self.leaf,) if self.along is None else parts_of(self.leaf)

    @property
    def elements(self) -> int:
        """The elements of a row, or of the array."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def finite(self) -> bool:
        """Whether its numbers must be finite."""
        return self.leaf.dtype.kind == "f" and bool(getattr(self.leaf, "_finite", False))

    @property
    def masks(self) -> bool:
        """Whether it is of bools."""
        return self.leaf.dtype.kind == "b"


@dataclass(frozen=True, eq=False)
class GivenLengths:
    """The lengths of rows that the caller of a function gives for all inputs with a `Ragged` axis.

    They are `offsets`, one more than there are rows, and the number of `entries`, which is at most `most` in a batch.
    `rows` is None where the number of rows is that of the batch. The program has the offsets in the column of one of
    the `leaves`.
    """

    axis: type[Dim]
    offsets: str
    entries: str
    rows: int | None
    most: int
    leaves: tuple[BaseNode, ...]

    @property
    def names(self) -> tuple[str, str]:
        """The names of both arguments."""
        return self.offsets, self.entries


@dataclass(eq=False)
class Result:
    """A result of formulas: an array of their program, one of the numbers that they are given, or a number."""

    array: ArrayPlace | None
    position: int | None
    value: float


@dataclass(eq=False)
class PlannedFormulas:
    """Formulas with the program that computes them; `fed` are its inputs, None for those that it does not need."""

    formulas: Formulas
    run: BoundRun | None
    fed: tuple[ArrayPlace | None, ...]
    results: tuple[Result, ...]


@dataclass(eq=False)
class Prediction:
    """A program without an optimizer; `along` has for each output the position of its entries' lengths, or None."""

    name: str
    graph: NativeGraph
    outputs: Sequence[BaseNode]
    sizes: BatchSizes
    run: BoundRun
    given: tuple[Given, ...]
    lengths: tuple[GivenLengths, ...]
    along: tuple[int | None, ...]
    counter: Region | None
    # The numbers from 0 on, the order of the rows of different lengths.
    identity: Region

    @property
    def fed(self) -> tuple[ArrayPlace | None, ...]:
        """The arrays that take what is given, None where the program needs none, or reads what is given itself."""
        return tuple(None if each.along is not None else self.run.fed.get(each.leaf) for each in self.given)

    @property
    def words(self) -> tuple[int | None, ...]:
        """The words of the table that take the columns of entries, None for other inputs."""
        return tuple(None if each.along is None else self.run.columns.get(each.values) for each in self.given)

    @property
    def offsets(self) -> tuple[int, ...]:
        """The words of the table that take the columns of offsets."""
        return tuple(self.run.column_of(each.leaves) for each in self.lengths)

    @property
    def by_rows(self) -> bool:
        """Whether callers give a number of rows."""
        return any(each.by_rows for each in self.given)


@dataclass(eq=False)
class Group:
    """A group of parameters: the position of its first one, its schedule, and the factor of a rate that is set.

    Without a schedule, the rate is in the block; without a factor, it stays as it begins.
    """

    first: int
    schedule: PlannedRate | None
    initial: float
    factor: float | None


@dataclass(eq=False)
class Training:
    """A program with an optimizer. `sums` has 1 for each output that is a sum over rows, and 0 for a mean.

    `trained` are the positions of the parameters whose steps are counted; `vary`: the numbers of steps differ.
    """

    graph: NativeGraph
    names: Sequence[str]
    run: BoundRun
    given: tuple[Given, ...]
    lengths: tuple[GivenLengths, ...]
    sums: tuple[bool, ...]
    means: PlannedFormulas
    of_steps: PlannedFormulas
    vary: bool
    groups: tuple[Group, ...]
    steps: Region
    epochs: Region
    optimizer_steps: Region
    counts: Region
    trained: tuple[int, ...]
    snapshot: Region
    totals: Region
    step_rows: Region
    # The numbers from 0 on, the order of a single batch.
    identity: Region
    scratch: Region

    @property
    def numbers(self) -> int:
        """The numbers of a step."""
        return len(self.graph.source.hyperparameters)

    @property
    def words(self) -> tuple[int | None, ...]:
        """The words of the table that take the columns, None for those that the program does not need."""
        return tuple(self.run.columns.get(each.values) for each in self.given)

    @property
    def offsets(self) -> tuple[int, ...]:
        """The words of the table that take the columns of offsets."""
        return tuple(self.run.column_of(each.leaves) for each in self.lengths)


def axes_of(graphs: Sequence[NativeGraph], sizes: Mapping[type[Dim], int]) -> Axes:
    """Return the axis of the batch: the first axis of inputs; raise `ShapeError` for another axis without a size."""
    inputs = list(dict.fromkeys(leaf for graph in graphs for leaf in graph.inputs))
    first = [type(leaf.dims[0]) for leaf in inputs if leaf.dims and _is_open(leaf.dims[0])]
    batches = [axis for axis in dict.fromkeys(first) if axis not in sizes]
    batch = batches[0] if batches else None
    found = {axis: size for axis, size in sizes.items() if axis is not batch}
    for leaf in inputs:
        for axis in open_axes(leaf.dims):
            if axis is not batch and axis not in found:
                ragged = issubclass(axis, Ragged)
                what = "of rows of different lengths" if ragged else "without a size"
                say = "how many entries a batch has at most" if ragged else "its size"
                raise ShapeError(
                    f"{describe(leaf)} has the axis {axis.__name__} {what}, and an export has fixed memory: say {say}, "
                    f"as in sizes={{{class_text(axis)}: {512 if ragged else 16}}}"
                )
    most = {axis: whole(f"sizes[{axis.__name__}]", size, 1) for axis, size in found.items() if issubclass(axis, Ragged)}
    return Axes(batch, found | {type(axis_of_entries(axis)): size for axis, size in most.items()})


def largest_bytes(graph: NativeGraph, axes: Axes, batch: int) -> int:
    """Return the bytes of the largest array of a program, outside of the bodies of loops."""
    sizes = graph.schedule.bind(axes.shapes(graph, batch))
    return max(math.prod(resolve(node.dims, sizes)) * node.dtype.itemsize for node in graph.schedule.nodes)


def _is_open(axis: Any) -> bool:
    return isinstance(axis, Dim) and axis_size(axis) is None


def refuse(graph: NativeGraph) -> None:
    """Raise `OptionError`, with the op and the user's line, for a program that needs Python as it runs."""
    sources = [graph.source, *graph.source.scans, *graph.source.rules]
    for source in sources:
        for call in source.evaluated:
            node = call.node
            raise OptionError(
                f"{describe(node)} has no native form, so the program cannot leave Python{_at_line(node)}"
            )
        for function, kernel in source.op_kernels.of_numba.items():
            raise OptionError(
                f"{kernel} calls {function}, which numba compiles for this process, so the program cannot leave "
                f"Python; write the kernel in the language of kernels (see wy.LoopForm)"
            )
    for leaf in made_of(graph.fed):
        axis = ragged_axis(leaf.dims)
        node = next(node for node in topological_order(graph.outputs) if _is_along(node, axis))
        raise OptionError(
            f"{describe(node)} has the axis {axis!r}, which is made of others as a program runs, and exports take the "
            f"lengths of rows from their caller: give its entries as an input along an axis of its own{_at_line(node)}"
        )
    if graph.flat is not None and not graph.source.changes_sizes:
        node = next(iter(graph.source.whole_nodes()), graph.outputs[0])
        raise OptionError(
            f"{describe(node)} needs arrays of as many entries as the rows of a batch have, so the program cannot "
            f"leave Python{_at_line(node)}"
        )


def _is_along(node: BaseNode, axis: Ragged | None) -> bool:
    return any(ragged_axis(each.dims) == axis for each in (node, *node.parents))


def _at_line(node: BaseNode) -> str:
    source = node.location.source
    return f": {source}" if source else ""


def given_inputs(
    graph: NativeGraph, axes: Axes, places: ArrayRegions, *, training: bool
) -> tuple[tuple[Given, ...], tuple[GivenLengths, ...]]:
    """Return the inputs that callers give, and the lengths of rows of those with a `Ragged` axis.

    In a training without a batch axis, each row is a whole input; inputs without a batch axis keep the data they hold.
    """
    taken, found, lengths = list[str](), list[Given](), dict[type[Dim], GivenLengths]()
    first = [leaf.dims[0] if leaf.dims else None for leaf in graph.inputs]
    axis = first[0] if first else None
    alike = isinstance(axis, Dim) and len(first) > 1 and all(type(each) is type(axis) for each in first)
    if training and axes.batch is None and alike:
        assert isinstance(axis, Dim)
        raise ShapeError(
            f"the inputs have the axis {axis!r} first; if it is that of the batch, declare it without a size, as in "
            f"{type(axis).__name__}(), and give that as batch_sizes=[{axis_size(axis)}]"
        )
    for leaf in graph.inputs:
        by_rows = axes.batch is not None and bool(leaf.dims) and type(leaf.dims[0]) is axes.batch
        singly = training and axes.batch is None
        ragged = ragged_axis(leaf.dims)
        if training and not by_rows and ragged is not None:
            raise ShapeError(
                f"{describe(leaf)} has rows of different lengths, which a training takes in batches: declare the axis "
                f"of its rows without a size, as that of the batch"
            )
        if training and not by_rows and not singly:
            if stored(leaf).array is None:
                raise ShapeError(f"{describe(leaf)} has no batch axis and holds no data: bind some with .set")
            continue
        dims = leaf.dims[2:] if ragged is not None else leaf.dims[1:] if by_rows else leaf.dims
        if any(axis is axes.batch for axis in open_axes(dims)):
            raise ShapeError(f"{describe(leaf)} has the batch in another axis than its first one; transpose it")
        name = identifier(label(leaf), taken)
        taken.append(name)
        along = None
        if ragged is not None:
            if type(ragged) not in lengths:
                lengths[type(ragged)] = _lengths_of(graph, ragged, axes, taken)
                taken += lengths[type(ragged)].names
            along = list(lengths).index(type(ragged))
        found.append(Given(leaf, name, by_rows or singly, resolve(dims, axes.others), along))
    if len({each.rows for each in lengths.values()}) > 1:
        names = " and ".join(axis.__name__ for axis in lengths)
        raise ShapeError(f"the rows along {names} are not the same ones: an export takes lengths of one axis of rows")
    return _with_limits(graph, found, places), tuple(lengths.values())


def _lengths_of(graph: NativeGraph, axis: Ragged, axes: Axes, taken: Sequence[str]) -> GivenLengths:
    """Return the lengths of rows along an axis, with a name that is not taken."""
    assert graph.flat is not None
    parts, leaves = graph.flat.parts(axis), [parts_of(leaf).lengths for leaf in graph.flat.inputs[type(axis)]]
    name = type(axis).__name__.lower()
    offsets, entries = (identifier(f"{name}_{each}", taken) for each in ("offsets", "entries"))
    rows = None if type(parts.row_axis) is axes.batch else resolve((parts.row_axis,), axes.others)[0]
    most = axes.others[type(parts.values.dims[0])]
    return GivenLengths(type(axis), offsets, entries, rows, most, tuple(leaves))


def _with_limits(graph: NativeGraph, given: Sequence[Given], places: ArrayRegions) -> tuple[Given, ...]:
    """Return what is given with the ranges of indices whose sizes are known, for which native code has no checks."""
    found: dict[BaseNode, list[IndexRange]] = {each.values: [] for each in given}
    by_leaf = {each.values: each for each in given}
    for limit in graph.ranges.limits:
        each, size = by_leaf.get(limit.leaf), limit.size
        if each is None or size is None:
            continue
        _, _, ignored, from_end = limit.choice
        marks = None
        if limit.part is not None:
            repeats = each.by_rows or each.along is not None
            shape = (1, *each.shape) if repeats and len(each.shape) < len(limit.leaf.dims) else each.shape
            every = used(limit.part, shape, column=repeats)
            if every is not None:
                marks = np.ascontiguousarray(every[0] if len(shape) > len(each.shape) else every).tobytes()
        region = None if marks is None else places.image.add(len(marks), Kind.CONSTANT, marks)
        found[limit.leaf].append(IndexRange(-size if from_end else 0, size, ignored, region))
    return tuple(replace(each, limits=tuple(found[each.values])) for each in given)


def formulas_in(formulas: Formulas, code: Code, places: ArrayRegions) -> PlannedFormulas:
    """Return formulas with their routine."""
    run = None
    if formulas.graph is not None:
        run = place_run(formulas.graph, code, places, BatchSizes(1), Axes(None, {}), given=formulas.inputs)
    computed = iter(() if run is None else run.outputs)

    def result(each: Node | float) -> Result:
        if isinstance(each, float):
            return Result(None, None, each)
        position = next((i for i, leaf in enumerate(formulas.inputs) if leaf is each), None)
        return Result(next(computed) if position is None else None, position, 0.0)

    return PlannedFormulas(
        formulas, run, tuple(None if run is None else run.fed.get(leaf) for leaf in formulas.inputs),
        tuple(map(result, formulas.results)),
    )  # fmt: skip


def check_output(node: BaseNode, shape: Sequence[Word], sizes: BatchSizes) -> None:
    """Raise `ShapeError` for a result whose size is no number of rows or entries, which a caller could not know."""
    if any(issubclass(axis, Entries) for axis in open_axes(flat_dims(node.dims)[ragged_axis(node.dims) is not None :])):
        raise ShapeError(f"{describe(node)} has an axis of all entries of rows, whose size an export cannot say")
    for position, axis in enumerate(shape):
        is_rows = axis.value == ROWS or (bool(sizes.listed) and axis.value.listed == sizes.listed)
        if axis.value.constant is None and (position or not is_rows):
            raise ShapeError(
                f"{describe(node)} has an axis that depends on the batch, besides a first one of its rows: an export "
                f"cannot say how large it is; transpose it, or reduce over that axis"
            )


def plan_prediction(
    name: str, program: Any, code: Code, places: ArrayRegions, sizes: BatchSizes, axes: Axes
) -> Prediction:
    """Plan a program without an optimizer."""
    graph: NativeGraph = program._engine.graph
    given, lengths = given_inputs(graph, axes, places, training=False)
    run = place_run(graph, code, places, sizes, axes, given=[part for each in given for part in each.parts])
    for node, array in zip(program._outputs, run.outputs, strict=False):
        check_output(node, array.shape, sizes)
    counter = places.image.add(8, Kind.SCRATCH) if graph.draws else None
    axes_of_lengths = [each.axis for each in lengths]
    along = tuple(
        None if (axis := ragged_axis(node.dims)) is None else axes_of_lengths.index(type(axis))
        for node in program._outputs
    )
    rows = max((sizes.most if each.rows is None else each.rows for each in lengths), default=0)
    order = _identity(places.image, rows)
    return Prediction(name, graph, program._outputs, sizes, run, given, lengths, along, counter, order)


def _identity(image: Image, rows: int) -> Region:
    """Return a region with the numbers from 0 on of so many rows."""
    order = np.arange(rows, dtype=np.int64)
    return image.add(order.nbytes, Kind.CONSTANT, order.tobytes())


def plan_training(
    program: Any, code: Code, places: ArrayRegions, sizes: BatchSizes, axes: Axes, counters: Mapping[str, Region]
) -> Training:
    """Plan a program with an optimizer."""
    graph: NativeGraph = program._engine.graph
    optimizer: Any = graph.optimizer
    given, lengths = given_inputs(graph, axes, places, training=True)
    if not given:
        raise OptionError("a training needs inputs that take rows of data")
    run = place_run(graph, code, places, sizes, axes, given=[part for each in given for part in each.parts])
    singly = axes.batch is None
    totals = program._totals.for_columns([each.leaf for each in given], singly)
    parts = {node: Input(name=f"part_{i}", dtype=np.float64) for i, node in enumerate(totals.nodes)}
    results = Formulas.of(list(parts.values()), means(totals, parts))
    numbers = step_numbers(optimizer, graph.parameters, graph.source.hyperparameters)
    image = places.image
    groups = tuple(
        _group(optimizer, optimizer.groups[index], first, code, image) for index, first, *_ in numbers.groups
    )
    names = list[str]()
    loss, *others = program._outputs
    first = "loss" if original(loss).name is None else label(loss)
    for each in ["loss", *program._metrics] if program._metrics else [first, *map(label, others)]:
        names.append(identifier(each, names))
    count = len(graph.outputs)
    trained = set(graph.parameters)
    return Training(
        graph, names, run, given, lengths, tuple(bool(weight) for weight in totals._weights[0]),
        formulas_in(results, code, places), formulas_in(numbers.formulas, code, places),
        any(group.schedule is not None for group in groups)
        or any(numbers.formulas.depends_on(step) for *_, step, _ in numbers.groups),
        groups, counters["steps"], counters["epochs"], counters["optimizer_steps"], counters["counts"],
        tuple(i for i, each in enumerate(optimizer.parameters) if each in trained),
        image.add(0, Kind.SCRATCH),  # the snapshot, as large as the changed tensors
        image.add(8 * (1 + count) + 8 * count, Kind.SCRATCH),
        image.add(8 * CHUNK * max(1, len(graph.source.hyperparameters)), Kind.SCRATCH),
        _identity(image, sizes.most),
        image.add(8 * 512 + 64, Kind.TRANSIENT),
    )  # fmt: skip


def _group(optimizer: Any, group: Any, first: int, code: Code, image: Image) -> Group:
    rate = group._learning_rate
    if callable(rate):
        return Group(first, planned(rate, code, image), 0.0, None)
    own = group is not optimizer and group._rate_factor is None
    return Group(first, None, float(group.learning_rate), None if own else float(group._rate_factor or 1.0))
