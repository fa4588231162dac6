"""`JaxEngine`: calls, epochs and gradients as functions that JAX compiles for its devices."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.columns import Columns, check_ranges, completed, entries_as_columns
from wyrm.engines.dtypes import check_dtype
from wyrm.engines.engine import TOO_LARGE, Engine, ProgramPlan
from wyrm.engines.epochs import Epoch, EpochOptions, Pace
from wyrm.engines.jax import AxisSharding, JaxOptions
from wyrm.engines.jax.capacities import Capacities
from wyrm.engines.jax.compiled import CompiledFunctions
from wyrm.engines.jax.divided_tables import paddable, ranked_axes
from wyrm.engines.jax.epoch import JaxEpoch
from wyrm.engines.jax.graph import JaxGraph, index_error
from wyrm.engines.jax.local_steps import LocalSteps
from wyrm.engines.jax.namespace import narrowed
from wyrm.engines.jax.processes import Part, agreed, agreeing, by_name, check_same, computing, part_of
from wyrm.engines.jax.state import (
    DeviceState,
    Newest,
    Placement,
    exchange,
    first_rows,
    gathered,
    on_host,
    without_padding,
)
from wyrm.engines.jax.step import StepFunctions
from wyrm.engines.jax.updates import TouchedRows
from wyrm.engines.module_paths import paths_of_leaves
from wyrm.engines.native.run.shuffle import Shuffle
from wyrm.engines.numpy.reference import accumulate
from wyrm.errors import Diverged, DTypeError, OptionError, ShapeError
from wyrm.graph.axes import Entries, Ragged, axis_of_entries, ragged_axis
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.jax_form import JAX, JaxForm
from wyrm.graph.parameters import Buffer, Parameter
from wyrm.graph.ragged import Layout, Padding
from wyrm.graph.ragged_leaves import parts_of
from wyrm.graph.rows import RowSparse
from wyrm.graph.storage import check_shape, store, stored
from wyrm.ops.random.philox_jax import step_words
from wyrm.support.imports import jax, jnp, missing_package
from wyrm.support.interrupts import deferred
from wyrm.support.options import whole

if TYPE_CHECKING:
    from wyrm.ops.ragged import Flattened

# Names of mesh axes that an error suggests.
_AXES = ("data", "model", "expert", "stage")


class JaxEngine(Engine):
    """Runs the steps of one program with JAX; `JaxEpoch` has the loops over the rows of a data set."""

    Options: ClassVar[type] = JaxOptions
    refusals: ClassVar[Mapping[str, str]] = {
        "loop": "loop={!r} is an option of engine='native'; XLA compiles the loops of engine='jax'",
        "llvm": "engine='jax' leaves code generation to XLA: see program.source and program.stages()",
        "assembly": "engine='jax' leaves code generation to XLA: see program.source and program.stages()",
        "profile": (
            "engine='jax' has no profile: compile with engine='native', or run an epoch within "
            "jax.profiler.trace(folder) and open the folder with xprof, where ops bear the names of nodes"
        ),
    }
    in_place: ClassVar[bool] = False

    graph: JaxGraph

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether JAX is installed."""
        return importlib.util.find_spec("jax") is not None

    @classmethod
    def check_options(cls, options: Mapping[str, Any]) -> None:
        """Raise an error for a mesh without sharding, an unknown dtype, local steps, or if JAX is not installed."""
        _check_mesh(options.get("mesh"), options.get("sharding"))
        check_dtype(options)
        if options.get("precision", "highest") not in ("highest", "tf32"):
            raise OptionError(f"precision must be 'highest' or 'tf32', not {options.get('precision')!r}")
        if whole("local_steps", options.get("local_steps", 1), 1) > 1 and options.get("mesh") is None:
            raise OptionError("local_steps are those of each device of a mesh: give mesh and sharding={Batch: 'data'}")
        if not cls.is_installed():
            raise missing_package("engine='jax'", "JAX", "jax", name="jax")

    def __init__(
        self,
        outputs: Sequence[BaseNode],
        optimizer: Any,
        *,
        evaluates: bool = False,
        mesh: Any = None,
        sharding: AxisSharding | None = None,
        compute_dtype: str | None = None,
        local_steps: int = 1,
        precision: str = "highest",
    ) -> None:
        super().__init__(JaxGraph(outputs, optimizer, Padding.LAST if mesh is None else Padding.PARTS))
        if local_steps > 1 and self.graph.flat is not None:
            raise OptionError(
                f"local_steps={local_steps}: a device that steps alone counts rows from its own first one, and the "
                f"entries of rows of different lengths have the numbers of rows in the whole batch: leave local_steps "
                f"away, or use engine='native'"
            )
        self.placement: Placement = _placement(self.graph, mesh, sharding, evaluates)
        narrow = None
        if compute_dtype == "bfloat16":
            narrow = jnp.bfloat16
        self.functions: StepFunctions = StepFunctions(self.graph, narrow, self.placement.sharding)
        self.state: DeviceState = DeviceState(self.graph, self.placement, self.functions.stacks)
        self.local_steps: LocalSteps | None = None
        if local_steps > 1 and self.placement.sharding is not None and optimizer is not None:
            alone = StepFunctions(self.graph, narrow, stacked=False)
            alone.loop_checks = self.functions.loop_checks
            self.local_steps = LocalSteps(alone, self.placement.sharding, local_steps)
        self.compiled: CompiledFunctions = CompiledFunctions(
            self.graph,
            self.functions,
            self.placement,
            self.state,
            self.local_steps,
            precision if narrow is None else None,
        )
        self.shuffle: Shuffle = Shuffle()
        self.pace: Pace = Pace()
        # The numbers of entries of rows of different lengths that arrays have room for.
        self.room: Capacities = Capacities()
        # The numbers of steps whose batches were on the devices at a time, by the number of rows and of batches in a
        # step.
        self.capacities: dict[tuple[int, int], set[int]] = {}
        # Whether all processes are known to begin with the same values.
        self._began = not self.placement.several_processes

    @property
    def real(self) -> type[np.floating]:
        """The type of numbers that JAX takes: float32 unless the graph computes in float64."""
        return np.float64 if self.graph.wide else np.float32

    @contextmanager
    def running(self, data: Mapping[BaseNode, Any] | None = None) -> Iterator[None]:
        """Return a context for computations: JAX has the graph's types, and a lost process raises `ProcessLost`.

        Raise `OptionError` for `data` that is not the same in all processes.
        """
        with self.compiled.precision(), self._together():
            if not self._began:
                # A value that is newer on the devices was computed by all processes together.
                leaves = [leaf for leaf in self.graph.trained if not isinstance(stored(leaf).newer, Newest)]
                check_same({f"the value of {describe(leaf)}": first_rows(leaf) for leaf in leaves})
                self._began = True
            if data is not None and self.placement.several_processes:
                check_same({"the number of steps so far": self.steps} | by_name(data))
            yield

    def _together(self) -> AbstractContextManager[None]:
        """Return a context for what all processes do; a program of this process alone goes on without the others."""
        return computing() if self.placement.several_processes else nullcontext()

    @contextmanager
    def checking(self) -> Iterator[None]:
        """Return a context for checks of data; an error on one of several processes is raised by all of them."""
        if not self.placement.several_processes:
            yield
            return
        with computing(), agreeing():
            yield

    def gather(self) -> None:
        """Copy what is trained to the memory of each process; a process that trains alone copies what it reads."""
        if self.placement.several_processes:
            with self.compiled.precision(), computing():
                self.state.gather()

    # --- calls ----------------------------------------------------------------------------------------------------

    def run(self, given: dict[BaseNode, np.ndarray]) -> list[np.ndarray]:
        """Return the outputs for these inputs; with an optimizer, also do one step."""
        with self.running(given):
            (feed,) = self.feeds([given])
            if self.graph.optimizer is None:
                with exchange:
                    values, held = self.state.values(), self.state.held()
                    found, outside = self.compiled.execute(
                        self.compiled.forward, values, held, feed, step_words(self.steps)
                    )
                self.check_indices(outside, self.shapes(feed))
                self.steps += 1
            else:
                found = self._step(feed)
            arrays = [self._returned(output, array) for output, array in zip(self.graph.outputs, found, strict=True)]
        found = zip(self.graph.outputs, arrays, strict=True)
        return [self._without_room(output, array, given) for output, array in found]

    def _returned(self, output: BaseNode, array: Any) -> np.ndarray:
        return gathered(array, output).astype(output.dtype)

    def _without_room(self, output: BaseNode, array: np.ndarray, given: Mapping[BaseNode, Any]) -> np.ndarray:
        """Return the elements of the entries alone, of an output that has one for each entry."""
        axis, flat = ragged_axis(output.dims), self.graph.flat
        if axis is None or flat is None:
            return array
        data = flat.rows(type(axis), given)
        parts = self.parts(flat.inputs[type(axis)][0], len(data)) if flat.padded else 1
        own: np.ndarray = array[Layout(len(array) // parts, parts).own(data)]
        return own

    def _step(self, feed: Sequence[Any]) -> list[Any]:
        numbers = {name: values[0] for name, values in self.numbers(1).items()}
        with deferred:
            state, (outputs, outside) = self.compiled.advance(self.compiled.step, feed, numbers, step_words(self.steps))
            if not bool(on_host(state.alive)):
                self.check_indices(outside, self.shapes(feed), "; no parameter has moved")
                loss = float(on_host(outputs[0]))
                optimizer = self.graph.optimizer
                assert optimizer is not None
                what = f"the loss is {loss}" if not np.isfinite(loss) else TOO_LARGE
                raise Diverged(
                    f"{what} in step {optimizer.steps + 1} at learning rate {optimizer.learning_rate:g}; "
                    f"no parameter has moved"
                )
            self.raise_reported("; the parameters have moved in this step")
            self.count(1, 1)
        found: list[Any] = outputs
        return found

    def feeds(self, batches: Sequence[Mapping[BaseNode, Any]], stacked: int = 0) -> list[list[Any]]:
        """Return the data of batches on the devices, after all checks; the first ones may be `stacked` in one."""
        laid_out = self._layouts(batches)
        complete = [completed(self.graph, *each) for each in zip(batches, laid_out, strict=True)]
        for given, arrays in zip(batches, complete, strict=True):
            shapes = {leaf: array.shape for leaf, array in arrays.items()}
            for leaf, shape in shapes.items():
                check_shape(leaf, shape)
            check_ranges(self.graph.ranges.limits, given, self.graph.schedule.bind(shapes))
        if stacked:
            self._fill_empty(complete[:stacked], batches)
            first = {leaf: np.stack([arrays[leaf] for arrays in complete[:stacked]]) for leaf in complete[0]}
            complete = [first, *complete[stacked:]]
        return [
            [self.placement.batch(leaf, array.shape, array.__getitem__) for leaf, array in arrays.items()]
            for arrays in complete
        ]

    def _fill_empty(self, complete: Sequence[dict[BaseNode, Any]], batches: Sequence[Mapping[BaseNode, Any]]) -> None:
        """Fill the arrays of batches without an entry with the first entry of another batch, in place of zeros.

        As indices, zeros would count row 0 of a table among the touched rows, which momentum moves without a gradient.
        """
        flat = self.graph.flat
        if flat is None or not flat.padded:
            return
        for name, leaves in flat.inputs.items():
            values = [parts_of(leaf).values for leaf in leaves]
            sizes = [len(flat.rows(name, given).values) for given in batches[: len(complete)]]
            filled = [arrays for arrays, size in zip(complete, sizes, strict=True) if size]
            empty = [arrays for arrays, size in zip(complete, sizes, strict=True) if not size]
            for arrays in empty if filled else ():
                arrays |= {
                    leaf: np.broadcast_to(filled[0][leaf][:1], arrays[leaf].shape) for leaf in values if leaf in arrays
                }

    def _layouts(self, batches: Sequence[Mapping[BaseNode, Any]]) -> list[dict[type[Ragged], Layout]]:
        """Return how the entries of batches stand in arrays: with room for equally many along each axis."""
        flat = self.graph.flat
        if flat is None or not flat.padded:
            return [{} for _ in batches]
        rows = [{name: flat.rows(name, given) for name in flat.inputs} for given in batches]
        parts = [
            {name: self.parts(flat.inputs[name][0], len(data)) for name, data in of_axes.items()} for of_axes in rows
        ]
        capacities = self.room.of([
            max(Layout(0, own[name]).needed(data[name]) for own, data in zip(parts, rows, strict=True))
            for name in flat.inputs
        ])  # fmt: skip
        return [
            {name: Layout(capacity, own[name]) for name, capacity in zip(flat.inputs, capacities, strict=True)}
            for own in parts
        ]

    def parts(self, leaf: BaseNode, rows: int) -> int:
        """Return over how many devices so many rows of an input are divided."""
        sharding = self.placement.sharding
        if self.graph.draws and not {*parts_of(leaf)[1:]} <= {*self.graph.fed}:
            return 1  # what entries draw depends on their places, which follow from these
        devices = 1 if sharding is None else sharding.devices(sharding.mesh_axes(leaf.dims[0]))
        return devices if rows and rows % devices == 0 else 1

    def shapes(self, feed: Sequence[Any], stacked: int = 0) -> dict[BaseNode, tuple[int, ...]]:
        """Return the shapes of a batch by input; the arrays of `feed` have `stacked` axes of batches before them."""
        return {leaf: array.shape[stacked:] for leaf, array in zip(self.graph.fed, feed, strict=True)}

    def check_indices(
        self, outside: Any, shapes: Mapping[BaseNode, tuple[int, ...]], state: str = "", where: str = ""
    ) -> None:
        """Raise `IndexOutOfRange` if a step found an index out of range; the texts say where, and what it changed."""
        self.raise_reported(f"{where}{state}")
        if self.graph.checks:
            error = index_error(self.graph.checks, on_host(outside), self.graph.schedule.bind(shapes), where, state)
            if error is not None:
                raise error

    def raise_reported(self, state: str) -> None:
        """Raise `IndexOutOfRange` if a loop of a step since the last call had an index out of range.

        JAX tells it to one of several processes; all of them raise the error. `state` says what the steps changed.
        """
        if self.functions.loop_checks:
            with self.checking():
                self.functions.loop_checks.raise_reported(state)

    def numbers(self, count: int) -> dict[str, NDArray[np.float64]]:
        """Return the numbers of the rules for the next steps, each of shape (count,)."""
        optimizer = self.graph.optimizer
        assert optimizer is not None
        found = optimizer.numbers_on_device(count, self.graph.parameters)
        with np.errstate(over="ignore"):  # the step is refused then
            numbers: dict[str, Any] = {name: values.astype(self.real) for name, values in found.items()}
        return numbers

    def count(self, steps: int, batches: int) -> None:
        """Count finished steps of the optimizer, and the batches of these steps."""
        self.steps += batches
        if self.graph.optimizer is not None:
            self.graph.optimizer.advance(steps, self.graph.parameters)

    # --- gradients ------------------------------------------------------------------------------------------------

    def check_epoch(self, columns: Columns, options: EpochOptions, *, in_batches: bool) -> None:
        """Raise an error for threads, and for sizes and indices that do not fit the devices or the graph."""
        _refuse_threads(options.threads)
        if self.local_steps is not None and options.accumulate > 1:
            raise OptionError(
                f"accumulate={options.accumulate} with local_steps={self.local_steps.count}: a device averages after "
                f"steps of single batches; give larger batches"
            )
        part = self.part(columns) if in_batches else Part()
        rows, batch = columns.rows, options.batch_size
        if part.count > 1:
            self._check_divided(columns, min(rows, batch) * part.count, part)
        columns.check_batches(batch * part.count, rows * part.count)
        sizes = self.graph.schedule.bind(columns.shapes(self.graph.fed, min(rows, batch) * part.count))
        check_ranges(self.graph.ranges.limits, columns.given, sizes)
        if self.graph.flat is not None:
            self._check_ragged(self.graph.flat, options, part)
        for leaf, array in entries_as_columns(columns.given).items():
            if array.dtype.kind in "iu":
                with self.compiled.precision():
                    narrowed(leaf, array)
        if self.placement.sharding is not None and rows >= batch:
            # Arrays of entries get room for a number that the devices divide.
            given_sizes = {name: size for name, size in sizes.items() if not issubclass(name, Entries)}
            for leaf in self.graph.fed:
                self.placement.sharding.check_leaf(leaf, given_sizes)

    def _check_divided(self, columns: Columns, rows: int, part: Part) -> None:
        """Raise `ShapeError` for a batch of so many rows, of parts from loaders, that the devices do not divide."""
        for leaf in columns.given:
            devices = self.placement.sharding.devices(self.placement.sharding.mesh_axes(leaf.dims[0]))
            if rows % devices:
                raise ShapeError(
                    f"a batch of loaders has {rows // part.count} rows of {describe(leaf)} in each of {part.count} "
                    f"parts, {rows} in all, which {devices} devices do not divide: give batches whose parts are a "
                    f"multiple of {devices // part.count}, and leave out or fill up a smaller last one"
                )

    def _check_ragged(self, flat: Flattened, options: EpochOptions, part: Part) -> None:
        """Raise `OptionError` for batches of rows of different lengths that cannot be stacked or divided."""
        if part.count > 1:
            raise OptionError(
                "a loader of each process gives rows of different lengths, whose number of entries the others do not "
                "know: pass the same columns in all processes, each of which reads the rows of its own devices"
            )
        if flat.whole is not None and options.accumulate > 1:
            raise OptionError(
                f"accumulate={options.accumulate}: {describe(flat.whole)} reads all entries of rows of different "
                f"lengths, so batches have other sizes, and engine='jax' stacks batches of one size: use larger "
                f"batches, or engine='native'"
            )

    def check_sizes(self, columns: Columns, batches: Sequence[int], *, in_batches: bool) -> None:
        """Raise the error of a run for batches of one of these sizes, of which each process may give a part."""
        count = self.part(columns).count if in_batches else 1
        super().check_sizes(columns, [batch * count for batch in batches], in_batches=in_batches)

    def end_batches(self) -> None:
        """Raise `OptionError` if the loaders of other processes have more batches."""
        if self.placement.several_processes:
            with self.checking():
                pass
            with computing():
                check_same({"the number of batches": self.position.done.batches})

    def part(self, columns: Columns) -> Part:
        """Return the part of each batch that a loader of this process gives."""
        parts = {part_of(self.placement, leaf) for leaf in columns.given}
        if len(parts) > 1:
            raise OptionError("the inputs' rows must all be divided over the processes, or none of them")
        return parts.pop() if parts else Part()

    def train(self, columns: Columns, epoch: Epoch) -> None:
        """Do the steps of an epoch on these columns."""
        JaxEpoch(self, columns, epoch).run()

    def backward(self, columns: Columns, threads: int, weight: float, blas_threads: int) -> float:
        """Add `weight` times the gradients of the loss over all rows to the parameters' gradients; return the loss."""
        _refuse_threads(threads if threads > 1 else blas_threads)
        given, _, singly = columns
        batch = {leaf: array[0] if singly else array for leaf, array in given.items()}
        with self.running(batch):
            (feed,) = self.feeds([batch])
            with exchange:
                values, held = self.state.values(), self.state.held()
                outputs, gradients, buffers, outside = self.compiled.execute(
                    self.compiled.backward, values, held, feed, step_words(self.steps)
                )
            self.check_indices(outside, self.shapes(feed), "; no gradient was added to those of the parameters")
            loss = float(on_host(outputs[0]))
            if not np.isfinite(loss):
                raise Diverged(f"the loss is {loss}; no gradient was added to those of the parameters")
            found = [
                _gradient(gradient, parameter, weight)
                for parameter, gradient in zip(self.graph.parameters, gradients, strict=True)
            ]
            updates = [gathered(array, buffer) for buffer, array in zip(self.graph.buffers, buffers, strict=True)]
        with deferred:
            self.steps += 1
            for parameter, gradient in zip(self.graph.parameters, found, strict=True):
                accumulate(parameter, gradient)
            for buffer, array in zip(self.graph.buffers, updates, strict=True):
                store(stored(buffer), np.array(array, buffer.dtype))
        return loss

    @property
    def sharding(self) -> Any:
        """A table of how parameters are divided among the devices of a mesh; None without a mesh."""
        sharding = self.placement.sharding
        if sharding is None:
            return None
        held = [leaf for leaf in self.graph.held if isinstance(leaf, Parameter | Buffer)]
        with self.compiled.precision():
            states = {
                p: list(arrays.values()) for p, arrays in zip(self.graph.parameters, self.state.slots(), strict=True)
            }
        names = paths_of_leaves(self.graph.schedule.nodes)
        tables, messages = self.functions.tables.exchanges, self.compiled.messages
        return sharding.table([*self.graph.trained, *held], states, names, messages=messages, tables=tables)

    # --- what a program shows -------------------------------------------------------------------------------------

    @property
    def source(self) -> str:
        """The StableHLO of the function that ran last."""
        return str(self.compiled.lowered().as_text())

    def stages(self) -> dict[str, str]:
        """Return the program after each stage as text: as a graph, as StableHLO, and as XLA compiled it."""
        lowered = self.compiled.lowered()
        return self.graph.stages() | {"stablehlo": lowered.as_text(), "optimized": lowered.compile().as_text()}

    def plan(self) -> ProgramPlan:
        """Return the bytes of the temporary arrays of the function that ran last, as XLA planned them."""
        if self.compiled.last is None:
            return ProgramPlan(1, 0, 0, [], [])
        memory = self.compiled.lowered().compile().memory_analysis()
        return ProgramPlan(1, 0, 0 if memory is None else memory.temp_size_in_bytes, [], [])

    @property
    def processes(self) -> tuple[int, int]:
        """The index of this process among those that train together, and their number."""
        if not self.placement.several_processes:
            return 0, 1

        return int(jax.process_index()), int(jax.process_count())

    def agreed(self, value: float) -> float:
        """Return the value that process 0 gives, of those that run this program together."""
        if not self.placement.several_processes:
            return value
        with computing():
            return agreed(value)

    @classmethod
    def rule(cls, node: BaseNode) -> object:
        """Return the JAX form of the op."""
        return JAX.of(node)

    @classmethod
    def rule_name(cls, node: BaseNode) -> str | None:
        """Return the method of the JAX form that lowers the op."""
        form = JAX.of(node)
        return None if type(form) is JaxForm else f"{type(form).__name__}.lower"


def _refuse_threads(threads: int) -> None:
    """Raise `OptionError` for more than one thread: XLA divides the work itself."""
    if threads > 1:
        raise OptionError(
            f"engine='jax' divides each step among all cores and devices itself, so it takes no threads, not {threads}"
        )


def _gradient(gradient: Any, parameter: BaseNode, weight: float) -> Any:
    """Return the gradient of a parameter times a weight on the host."""
    if isinstance(gradient, TouchedRows):
        rows, values = np.flatnonzero(gathered(gradient.touched)), gathered(gradient.values)
        return RowSparse(rows, values[rows] * values.dtype.type(weight), values.shape)
    if not isinstance(gradient, RowSparse):
        array = without_padding(gathered(gradient), parameter.shape)
        return array * array.dtype.type(weight)
    rows, values = gathered(gradient.rows), gathered(gradient.values)
    touched = rows < gradient.shape[0]
    return RowSparse(rows[touched].astype(np.int64), values[touched] * values.dtype.type(weight), gradient.shape)


def _check_mesh(mesh: object, sharding: object) -> None:
    """Raise an error unless `mesh` is a mesh and `sharding` a mapping, or both are None."""
    if mesh is not None and not hasattr(mesh, "axis_names"):
        example = "such as jax.make_mesh((8,), ('data',))"
        sizes = mesh if isinstance(mesh, tuple | list) else [mesh]
        if 0 < len(sizes) <= len(_AXES) and all(isinstance(size, int) for size in sizes):
            example = f"which names its axes: jax.make_mesh({tuple(sizes)}, {_AXES[: len(sizes)]})"
        raise DTypeError(f"mesh must be a jax.sharding.Mesh, {example}, not {mesh!r}")
    if (mesh is None) != (sharding is None):
        raise OptionError("mesh and sharding belong together: sharding={Batch: 'data'} names axes of the mesh")
    if sharding is not None and not isinstance(sharding, Mapping):
        raise DTypeError(
            f"sharding must map classes of axes to axes of the mesh, such as sharding={{Batch: 'data'}}, not "
            f"{sharding!r}; FSDP is {{Batch: 'data', Features: 'data'}}, with an axis of the parameters"
        )


def _placement(graph: JaxGraph, mesh: Any, axes: AxisSharding | None, evaluates: bool) -> Placement:
    """Return where the arrays of a program are placed. The graph of an evaluation may lack axes of the sharding."""
    if mesh is None and graph.optimizer is not None:
        _check_alone()
    if mesh is None or axes is None:
        return Placement()
    from wyrm.engines.jax.sharding import Sharding

    sharding = Sharding(mesh, _with_entries(graph, axes))
    leaves = [*graph.trained, *graph.held, *graph.fed]
    nodes = [*graph.schedule.nodes, *graph.inputs]
    sharding.check(leaves, nodes, may_lack_axes=evaluates, padded=paddable(graph))
    if graph.optimizer is None:
        sharding.ranked = frozenset(sharding.deciding(axis) for axis in ranked_axes(graph.schedule.nodes)) - {None}
    return Placement(sharding)


def _with_entries(graph: JaxGraph, axes: AxisSharding) -> AxisSharding:
    """Return a sharding that divides the entries of rows as their rows.

    Raise `OptionError` for a ragged axis, which its rows divide.
    """
    found = dict(axes.items())
    for name in found:
        if isinstance(name, type) and issubclass(name, Ragged):
            raise OptionError(
                f"sharding maps {name.__name__}, an axis of rows of different lengths: map the axis of these rows, "
                f"and each device has the entries of its own"
            )
    flat = graph.flat
    for name, leaves in flat.inputs.items() if flat is not None and flat.padded else ():
        rows = type(leaves[0].dims[0])
        if rows in found:
            found[type(axis_of_entries(name))] = found[rows]
    return found


def _check_alone() -> None:
    """Raise `OptionError` if this process is one of several: without a mesh, each would train its own parameters."""
    if jax.distributed.is_initialized() and jax.process_count() > 1:
        raise OptionError(
            f"this is process {jax.process_index()} of {jax.process_count()}: give mesh, such as "
            f"jax.make_mesh((jax.device_count(),), ('data',)), and sharding={{Batch: 'data'}}, to train together"
        )
