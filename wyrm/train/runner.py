"""A program: outputs, their gradients and the optimizer's updates as native code."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wyrm._interrupts import deferred
from wyrm.backends.llvm import cache
from wyrm.compiler.arguments import Binding
from wyrm.compiler.diagnosis import index_error
from wyrm.compiler.interpret import Interpreter
from wyrm.compiler.memory import plan_memory
from wyrm.compiler.pipeline import Graph
from wyrm.compiler.source import Evaluation
from wyrm.errors import CompileError, NotDifferentiable, RegistrationError
from wyrm.ir.arrays import Callee
from wyrm.kernels.errors import NotCompiled
from wyrm.kernels.functions import Routine
from wyrm.node.base import BaseNode, label
from wyrm.node.storage import bound_array, check_shape, not_set, stored
from wyrm.types.dims import axis_size

Feed = Mapping[Any, Any]
Leaf = BaseNode
# Of a program of more calls a step than this, BLAS may use all threads where the program uses one.
LARGE = 120
# Bindings for other sizes are kept too, for a last, smaller batch comes back every epoch.
_KEPT_BINDINGS = 16


_NO_COLUMNS: Mapping[Leaf, np.ndarray] = MappingProxyType({})
# What each call of `run` has of its own: the first step and how many, the size of a batch, the number that random nodes
# count from, the order of the rows, what it fills in, and the numbers of the optimizer, (steps, numbers).
Own = tuple[int, int, int, int, NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]


class ProgramPlan(NamedTuple):
    """What a program works with: see `Program.plan`."""

    calls: int
    buffers: int
    peak_bytes: int
    merged: list[str]
    dropped: list[str]

    def __str__(self) -> str:
        lines = [
            f"{self.calls} calls a step, {self.buffers} buffers in "
            + (f"{self.peak_bytes:,} bytes" if self.peak_bytes else "as many bytes as the data of a run asks for"),
            f"merged with an equal node: {', '.join(self.merged) or 'none'}",
            f"never stored: {', '.join(self.dropped) or 'none'}",
        ]
        return "\n".join(lines)


class NativeRunner:
    """The functions and arrays that run a graph."""

    def __init__(self, graph: Graph, loop: Literal["auto", "compiled", "python"]) -> None:
        self.graph = graph
        self.large = graph.source.size > LARGE
        self.compiled = loop == "compiled" or (loop == "auto" and not graph.source.evaluated)
        if self.compiled and graph.source.evaluated:
            names = ", ".join(sorted({call.node.op_name() for call in graph.source.evaluated}))
            raise NotDifferentiable(f"{names} has no native form, so the loop cannot be compiled; use loop='auto'")
        # `run`, when it is first called, and the functions that it calls where Python runs it.
        self._loaded: Any = None
        self._entries: dict[Callee, Any] = {}
        self._bindings: dict[Any, Binding] = {}
        self._compiling = threading.Lock()
        # What stands for what a call has of its own, before there is one.
        self._own: Own = (0, 0, 0, 0, np.zeros(0, np.int64), np.zeros(2), np.zeros((0, len(graph.source.hyper))))

    def binding(self, shapes: dict[Leaf, tuple[int, ...]], thread: int = 0) -> Binding:
        """The arrays for inputs of these shapes, of one thread."""
        key = thread, tuple(shapes.items())
        binding = self._bindings.get(key)
        if binding is None or not binding.is_current():
            missing = [leaf for leaf in self.graph.schedule.leaves if leaf not in shapes and stored(leaf).array is None]
            if missing:
                raise not_set(missing[0], "give it to the program, or bind some with .set")
            for leaf, shape in shapes.items():
                check_shape(leaf, shape)
            sizes = self.graph.schedule.bind(shapes)
            binding = Binding(self.graph.source, sizes, shapes, self.graph.optimizer)
            if len(self._bindings) >= _KEPT_BINDINGS:
                self._bindings.pop(next(iter(self._bindings)))
            self._bindings[key] = binding
        return binding

    @property
    def text(self) -> str:
        """The functions as text."""
        return self.graph.source.text

    def load(self) -> Any:
        """The function `run`."""
        if self._loaded is None:
            with deferred, self._refusals():
                from wyrm.backends.llvm.library import CompiledFunction

                run = self.graph.source.run
                self._loaded = (
                    CompiledFunction(run)
                    if self.compiled
                    else partial(Interpreter(self._called_by_python).run, run.code)
                )
        return self._loaded

    def _called_by_python(self, function: Callee, arguments: list[Any], variables: dict[str, Any]) -> Any:
        if isinstance(function, Evaluation):
            return variables[function.name]()
        return self._entry(function)(*arguments)

    def _entry(self, function: Callee) -> Any:
        """A function that a `run` in Python calls."""
        from wyrm.backends.llvm.library import CompiledFunction

        assert isinstance(function, Routine)
        if function not in self._entries:
            self._entries[function] = CompiledFunction(function)
        return self._entries[function]

    def call(self, binding: Binding, columns: Mapping[Leaf, np.ndarray], own: Own) -> int:
        """Do steps; how many were done before a loss was not finite.

        Where there is an optimizer, `totals` is given the sum of the losses and the number of steps that were done,
        also where a step raises.
        """
        bound: Any = binding.compiled
        if not (bound and self.compiled and bound.take(own, [columns[leaf] for leaf in binding.columns])):
            bound = self.prepare(binding, columns, own)
        return self._run(bound, binding, columns, own)

    def again(self, binding: Binding, own: Own, changing: Sequence[np.ndarray]) -> int | None:
        """As `call`, with the columns in the order of the binding; None where something has to be compiled first."""
        bound: Any = binding.compiled
        if not (bound and self.compiled and bound.take(own, changing)):
            return None
        return self._run(bound, binding, _NO_COLUMNS, own)

    def _run(self, bound: Any, binding: Binding, columns: Mapping[Leaf, np.ndarray], own: Own) -> int:
        try:
            done: int = self.load()([*own, *self._values(binding, columns)]) if bound is None else bound()
        except IndexError as error:
            binding.forget_rows()
            raise index_error(self.name, self.graph.schedule, binding, error) from None
        except BaseException:
            binding.forget_rows()
            raise
        if done < own[1]:
            binding.forget_rows()
        return done

    @staticmethod
    def _values(binding: Binding, columns: Mapping[Leaf, np.ndarray]) -> list[Any]:
        """What `run` is called with after what each call has of its own."""
        values = list(binding.values)
        for leaf, position in binding.columns.items():
            values[position] = columns[leaf]
        return values

    def prepare(self, binding: Binding, columns: Mapping[Leaf, np.ndarray], own: Own | None = None) -> Any:
        """Compile what is called with these arrays, or load it; nothing runs yet, so that Ctrl-C may end it.

        Returns `run` with the arrays of the binding, where it is compiled; `own` is what a call has of its own.
        """
        bound: Any = binding.compiled
        if bound and (not self.compiled or bound.take(own, [columns[leaf] for leaf in binding.columns])):
            return bound if self.compiled else None
        run = self.load()
        from wyrm.backends.llvm.library import Bound

        own = own or self._own
        # By one thread, while others wait.
        with deferred, self._compiling, cache.announced(self._purpose), self._refusals():
            if self.compiled:
                changing = [len(own) + place for place in binding.columns.values()]
                binding.compiled = Bound(run, own, self._values(binding, columns), changing)
                return binding.compiled
            for function, arguments in self._called(binding):
                function.compile_for(arguments)
        binding.compiled = True
        return None

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Within it, what the compiler or LLVM refuses is told as an error of this library."""
        try:
            yield
        except NotCompiled as error:
            raise RegistrationError(f"{self.name} has a kernel that cannot be compiled: {error}") from None
        except (ImportError, OSError) as error:
            raise CompileError(
                f"{self.name} cannot be compiled: llvmlite, which compiles for this processor, cannot be loaded: "
                f"{error}; the reference engine needs no compiler: wy.run(node), or wy.function(..., engine='auto')"
            ) from error
        except RuntimeError as error:
            if type(error) is not RuntimeError:  # what llvmlite raises is nothing narrower
                raise
            raise CompileError(f"{self.name} cannot be compiled: LLVM refuses: {error}") from error

    def listing(self) -> Any:
        """The loop programs and modules that are compiled, for data that lies in memory in rows."""
        from wyrm.backends.llvm.library import Listing

        binding, run, listing = self._some_binding(), self.load(), Listing()
        if self.compiled:
            columns = {leaf: np.empty((1, 1), leaf.dtype) for leaf in binding.columns}
            listing.add(run.function, [*self._own, *self._values(binding, columns)])
            return listing
        for function, arguments in self._called(binding):
            listing.add(function.function, arguments)
        return listing

    def stages(self) -> dict[str, str]:
        """The program after each stage as text; where buffers lie, for sizes that it ran with, else of size 1."""
        machine = self.listing()
        return self.graph.stages() | {
            "plan memory": str(plan_memory(self.graph.source, self._some_binding().sizes)),
            "loop program": "\n\n".join(machine.loop_programs),
            "emit": machine.llvm,
        }

    def _some_binding(self) -> Binding:
        found = next(iter(self._bindings.values()), None)
        if found is not None:
            return found
        return self.binding({leaf: tuple(axis_size(axis) or 1 for axis in leaf.dims) for leaf in self.graph.inputs})

    def _called(self, binding: Binding) -> Iterator[tuple[Any, list[Any]]]:
        """The compiled functions that a `run` in Python calls, and what with."""
        values = dict(zip(self.graph.source.arguments, binding.values, strict=True))
        for call in self.graph.source.calls:
            if not isinstance(call.function, Evaluation):
                yield self._entry(call.function), [values[argument.name] for argument in call.arguments]

    def after_fork(self) -> None:
        """Forget arrays in the midst of a step, and locks, of a thread that is not there in a forked process."""
        self._bindings.clear()
        self._compiling = threading.Lock()

    def plan(self) -> ProgramPlan:
        """What is known of buffers: of all runs so far, else of one on what the inputs hold."""
        graph = self.graph
        if not self._bindings and all(stored(leaf).array is not None for leaf in graph.inputs):
            self.binding({leaf: bound_array(leaf).shape for leaf in graph.inputs})
        buffers = {buffer.root for invocation in graph.source.invocations for buffer in invocation.buffers}
        held = [buffer for buffer in buffers if buffer.leaf is None and buffer.fixed is None]
        return ProgramPlan(graph.source.size, len(held), self.held_bytes, sorted(graph.merged), sorted(graph.computed))

    @property
    def held_bytes(self) -> int:
        """The bytes of all that was bound, for every thread and size of batch."""
        return sum(binding.buffers + binding.own_bytes for binding in self._bindings.values())

    @property
    def _purpose(self) -> str:
        """What is compiled for, by the line of the user's code that made the first output."""
        what = "a program" if self.graph.optimizer is None else "the training"
        return f"{what} of {self.graph.outputs[0].location}"

    @property
    def name(self) -> str:
        """What the program is called in messages."""
        return "a program for " + ", ".join(label(output) for output in self.graph.outputs[:3])
