"""The engine `jax` of programs: calls, epochs and gradients as functions that JAX compiles for its devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.epoch_position import EpochPosition
from wyrm.engines.epoch_state import check_batches
from wyrm.engines.feeding import check_ranges
from wyrm.engines.jax.agreement import check_same
from wyrm.engines.jax.checks import index_error
from wyrm.engines.jax.graph import JaxGraph
from wyrm.engines.jax.processes import computing
from wyrm.engines.jax.state import DeviceState, Placement, exchange, gathered, on_host
from wyrm.engines.jax.step import Steps
from wyrm.engines.native.run.runner import ProgramPlan
from wyrm.engines.numpy.reference import accumulate
from wyrm.engines.totals import Totals
from wyrm.errors import Diverged, OptionError, Unavailable
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.buffer import Buffer
from wyrm.graph.leaves import Parameter
from wyrm.graph.rows import RowSparse
from wyrm.graph.storage import bound_array, check_shape, not_set, store, stored
from wyrm.ops.random.philox_jax import step_words
from wyrm.support.interrupts import deferred

Leaf = BaseNode


class JaxEngine:
    """Runs the steps of one program with JAX: `steps` counts batches, which seed random nodes, `epochs` epochs."""

    def __init__(self, graph: JaxGraph, placement: Placement, narrow: Any = None) -> None:
        self.graph, self.placement = graph, placement
        # What the outputs for batches are for all rows.
        self.totals = Totals(graph.outputs)
        self.steps = self.epochs = 0
        self.functions = Steps(graph, narrow, placement.sharding)
        self.state = DeviceState(graph, placement, self.functions.stacks)
        self.position = EpochPosition()
        # Whether it is known that all processes began with the same values.
        self._began = not placement.several_processes
        # The last compiled function that ran, with the structure of its arguments and the shapes, dtypes and placements
        # of their arrays, for its code as text.
        self._last: tuple[Any, Any, list[tuple[Any, Any, Any]]] | None = None

    # --- compiled functions ---------------------------------------------------------------------------------------

    @cached_property
    def _forward(self) -> Any:
        import jax

        return jax.jit(self.functions.forward)

    @cached_property
    def _backward(self) -> Any:
        import jax

        return jax.jit(self.functions.backward)

    @cached_property
    def _train(self) -> Any:
        import jax

        return jax.jit(self.functions.train, donate_argnums=0, **self.kept())

    @cached_property
    def loop(self) -> Any:
        """The function that does the steps of several batches."""
        import jax

        return jax.jit(self.functions.loop, donate_argnums=0, **self.kept())

    def kept(self, results: int = 2) -> dict[str, Any]:
        """Return the option that keeps the state on its devices, for a function with this number of results."""
        sharding = self.placement.sharding
        if sharding is None:
            return {}
        import jax

        with self.precision():
            state = self.state.state()
        placed = jax.tree.map(lambda array: getattr(array, "sharding", None), state._replace(alive=None))
        return {"out_shardings": (placed, None)[:results]}

    @property
    def real(self) -> type[np.floating]:
        """The type of numbers that JAX takes: float32 unless the graph computes in float64."""
        return np.float64 if self.graph.wide else np.float32

    def precision(self) -> AbstractContextManager[None]:
        """Return a context in which JAX has the types that the graph computes in."""
        import jax

        if not self.graph.wide:
            return nullcontext()
        context: AbstractContextManager[None] = jax.enable_x64(True)
        return context

    @contextmanager
    def running(self) -> Iterator[None]:
        """Give a context for computations, in which a lost process raises `ProcessLost`."""
        with self.precision(), computing():
            if not self._began:
                # A restored value is on the devices, and the same for all.
                leaves = [leaf for leaf in self.graph.trained if stored(leaf).newer is None]
                check_same({f"the value of {describe(leaf)}": bound_array(leaf) for leaf in leaves})
                self._began = True
            yield

    def run(self, function: Any, *arguments: Any) -> Any:
        """Call a compiled function."""
        import jax

        arrays, structure = jax.tree.flatten(arguments)
        self._last = (
            function,
            structure,
            [(array.shape, array.dtype, getattr(array, "sharding", None)) for array in arrays],
        )
        return function(*arguments)

    def train(self, function: Any, *arguments: Any) -> Any:
        """Call a compiled function of the state and the held leaves; its first result replaces the state."""
        with exchange:
            before = self.state.stacked()
            try:
                results = self.run(function, before, self.state.held(), *arguments)
                # A computation that fails raises its error here: it may have begun without one.
                results[0].alive.block_until_ready()
            except BaseException as error:
                if any(array.is_deleted() for array in before.values):
                    self.state.forget()
                    error.add_note(
                        "the parameters and the optimizer's state are as they were when they were last read, or before "
                        "the first step: load a checkpoint to go on"
                    )
                raise
            self.state.replace_stacked(results[0])
        return results

    # --- calls ----------------------------------------------------------------------------------------------------

    def call(self, given: dict[Leaf, np.ndarray]) -> list[np.ndarray]:
        """Return the outputs for these inputs; with an optimizer, also do one step."""
        with self.running():
            feed = self._feed(given)
            if self.graph.optimizer is None:
                with exchange:
                    values, held = self.state.values(), self.state.held()
                    found, outside = self.run(self._forward, values, held, feed, step_words(self.steps))
                self.check_indices(outside, self.shapes(feed))
                self.steps += 1
            else:
                found = self._step(feed)
            return [self._returned(output, array) for output, array in zip(self.graph.outputs, found, strict=True)]

    def repeat(self, feed: object) -> None:
        """Return None: every call checks its data."""

    def _returned(self, output: BaseNode, array: Any) -> np.ndarray:
        return gathered(array, output).astype(output.dtype)

    def _step(self, feed: Sequence[Any]) -> list[Any]:
        numbers = {name: values[0] for name, values in self.numbers(1).items()}
        with deferred:
            state, (outputs, outside) = self.train(self._train, feed, numbers, step_words(self.steps))
            if not bool(on_host(state.alive)):
                self.check_indices(outside, self.shapes(feed), "; no parameter has moved")
                loss = float(on_host(outputs[0]))
                optimizer = self.graph.optimizer
                assert optimizer is not None
                what = f"the loss is {loss}" if not np.isfinite(loss) else "a gradient is not finite"
                raise Diverged(
                    f"{what} in step {optimizer.steps + 1} at learning rate {optimizer.learning_rate:g}; "
                    f"no parameter has moved"
                )
            self.count(1)
        found: list[Any] = outputs
        return found

    def _feed(self, given: Mapping[Leaf, np.ndarray]) -> list[Any]:
        """Return the data of the inputs on the devices, after all checks."""
        complete = self._complete(given)
        shapes = {leaf: array.shape for leaf, array in complete.items()}
        for leaf, shape in shapes.items():
            check_shape(leaf, shape)
        check_ranges(self.graph.ranges.limits, given, self.graph.schedule.bind(shapes))
        return [self.placement.batch(leaf, array.shape, array.__getitem__) for leaf, array in complete.items()]

    def shapes(self, feed: Sequence[Any], stacked: int = 0) -> dict[Leaf, tuple[int, ...]]:
        """Return the shapes of the inputs' data in a batch, given their arrays with `stacked` first axes of batches."""
        return {leaf: array.shape[stacked:] for leaf, array in zip(self.graph.inputs, feed, strict=True)}

    def check_indices(
        self, outside: Any, shapes: Mapping[Leaf, tuple[int, ...]], state: str = "", where: str = ""
    ) -> None:
        """Raise `IndexOutOfRange` if a step found an index out of range; the texts say where, and what it changed."""
        if self.graph.checks:
            error = index_error(self.graph.checks, on_host(outside), self.graph.schedule.bind(shapes), where, state)
            if error is not None:
                raise error

    def _complete(self, given: Mapping[Leaf, np.ndarray]) -> dict[Leaf, np.ndarray]:
        complete: dict[Leaf, np.ndarray] = {}
        for leaf in self.graph.inputs:
            array = given[leaf] if leaf in given else stored(leaf).array
            if array is None:
                raise not_set(leaf, "give it to the program, or bind some with .set")
            complete[leaf] = array
        return complete

    def numbers(self, count: int) -> dict[str, NDArray[np.float64]]:
        """Return the numbers of the rules for the next steps, each of shape (count,)."""
        optimizer = self.graph.optimizer
        assert optimizer is not None
        found = optimizer.numbers_on_device(count, self.graph.parameters)
        numbers: dict[str, Any] = {name: values.astype(self.real) for name, values in found.items()}
        return numbers

    def count(self, steps: int) -> None:
        """Count finished steps."""
        self.steps += steps
        if self.graph.optimizer is not None:
            self.graph.optimizer.advance(steps, self.graph.parameters)

    # --- gradients ------------------------------------------------------------------------------------------------

    def backward(
        self, given: dict[Leaf, np.ndarray], rows: int, singly: bool, threads: int, weight: float, blas_threads: int
    ) -> float:
        """Add `weight` times the gradients of the loss over all rows to the parameters' gradients; return the loss."""
        refuse_threads(threads if threads > 1 else blas_threads)
        check_batches(given, rows, singly, rows)
        batch = {leaf: array[0] if singly else array for leaf, array in given.items()}
        with self.running():
            feed = self._feed(batch)
            with exchange:
                values, held = self.state.values(), self.state.held()
                outputs, gradients, buffers, outside = self.run(
                    self._backward, values, held, feed, step_words(self.steps)
                )
            self.check_indices(outside, self.shapes(feed), "; no gradient was added to those of the parameters")
            loss = float(on_host(outputs[0]))
            if not np.isfinite(loss):
                raise Diverged(f"the loss is {loss}; no gradient was added to those of the parameters")
            found = [_gradient(gradient, weight) for gradient in gradients]
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
        """How the parameters lie on the devices of a mesh, as a table; None without a mesh."""
        sharding = self.placement.sharding
        if sharding is None:
            return None
        held = [leaf for leaf in self.graph.held if isinstance(leaf, Parameter | Buffer)]
        with self.precision():
            states = {
                p: list(arrays.values()) for p, arrays in zip(self.graph.parameters, self.state.slots(), strict=True)
            }
        return sharding.table([*self.graph.trained, *held], states)

    # --- what a program shows -------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The StableHLO of the function that ran last."""
        return str(self._lowered().as_text())

    def stages(self) -> dict[str, str]:
        """Return the program after each stage as text: as a graph, as StableHLO, and as XLA compiled it."""
        lowered = self._lowered()
        return self.graph.stages() | {"stablehlo": lowered.as_text(), "optimized": lowered.compile().as_text()}

    def listing(self) -> Any:
        """Raise `Unavailable`: this engine has no LLVM modules of its own."""
        raise Unavailable("engine='jax' leaves code generation to XLA: see program.source and program.stages()")

    def plan(self) -> ProgramPlan:
        """Return the bytes of the temporary arrays of the function that ran last, as XLA planned them."""
        if self._last is None:
            return ProgramPlan(1, 0, 0, [], [])
        memory = self._lowered().compile().memory_analysis()
        return ProgramPlan(1, 0, 0 if memory is None else memory.temp_size_in_bytes, [], [])

    def after_fork(self) -> None:
        """Do nothing: JAX's devices do not work in a forked process."""

    @property
    def data_parallel_bytes(self) -> int:
        """The bytes of threads' own arrays: none."""
        return 0

    def _lowered(self) -> Any:
        if self._last is None:
            raise Unavailable("this program has not run, so JAX has not compiled it: call it first")
        import jax

        function, structure, arrays = self._last
        abstract = [jax.ShapeDtypeStruct(shape, dtype, sharding=sharding) for shape, dtype, sharding in arrays]
        with self.precision():
            return function.lower(*jax.tree.unflatten(structure, abstract))


def refuse_threads(threads: int) -> None:
    """Raise `OptionError` for more than one thread: XLA divides the work itself."""
    if threads > 1:
        raise OptionError(
            f"engine='jax' divides each step among all cores and devices itself, so it takes no threads, not {threads}"
        )


def _gradient(gradient: Any, weight: float) -> Any:
    """Return a gradient times a weight on the host."""
    if not isinstance(gradient, RowSparse):
        array = gathered(gradient)
        return array * array.dtype.type(weight)
    rows, values = gathered(gradient.rows), gathered(gradient.values)
    touched = rows < gradient.shape[0]
    return RowSparse(rows[touched].astype(np.int64), values[touched] * values.dtype.type(weight), gradient.shape)
