"""`NativeRunner`: runs a graph's outputs, gradients and optimizer updates as native code."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from wyrm.engines.engine import ProgramPlan
from wyrm.engines.native import LoopOption
from wyrm.engines.native.ir.arrays import Callee
from wyrm.engines.native.kernels.arrays import ArrayRoutine
from wyrm.engines.native.kernels.functions import Routine
from wyrm.engines.native.kernels.values import NotCompiled
from wyrm.engines.native.llvm import cache
from wyrm.engines.native.llvm.lapack import limited, sharing_large_products
from wyrm.engines.native.stages.loops import Argument, PythonCall
from wyrm.engines.native.stages.memory import Binding, check_stores, passed, plan_memory
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.engines.native.stages.write import Head, Source
from wyrm.errors import CompileError, NotDifferentiable, RegistrationError, ShapeError
from wyrm.graph.axes import Dim, open_axes, resolve
from wyrm.graph.base import BaseNode, label
from wyrm.graph.ragged_leaves import entries_axis, lengths_of
from wyrm.graph.storage import bound_array, check_shape, not_set, stored
from wyrm.support.interrupts import deferred
from wyrm.support.memory import KEPT_BYTES, with_collector_paused

if TYPE_CHECKING:
    from wyrm.engines.native.llvm.calling import BoundFunction
    from wyrm.engines.native.llvm.library import CompiledFunction, Listing
    from wyrm.engines.native.products.target import Target

Feed = Mapping[Any, Any]
# In an epoch of a program with more calls per step than this, threads share all products that pay; else large ones.
LARGE = 120
# Bindings of all threads together; those of one thread take at most `KEPT_BYTES`. Other sizes are cached too, because a
# smaller last batch comes back every epoch, and images and sequences have many.
_KEPT_BINDINGS = 64
# Bindings of one thread that are kept however many threads there are: a batch and a smaller last one.
_FEWEST_BINDINGS = 2
_Shapes = tuple[tuple[BaseNode, tuple[int, ...]], ...]
_ALL: Mapping[type[Dim], int] = MappingProxyType({})


class NativeRunner:
    """The compiled functions and the arrays that run a graph."""

    def __init__(
        self,
        graph: NativeGraph,
        loop: LoopOption,
        *,
        training: bool = False,
        source: Source | None = None,
        compute_dtype: str | None = None,
    ) -> None:
        self.graph = graph
        # The dtype that operands of products are rounded to.
        self.compute_dtype = compute_dtype
        # The functions of `graph`, unless others are given.
        self.source: Source = source or graph.source
        # Gradients without an optimizer are a part of training too.
        self._training = training or graph.optimizer is not None
        self.large: bool = self.source.size > LARGE
        self.loop: LoopOption = loop
        self.compiled: bool = loop == "compiled" or (loop == "auto" and not self.source.evaluated)
        if self.compiled and self.source.evaluated:
            names = ", ".join(sorted({call.node.op_name() for call in self.source.evaluated}))
            raise NotDifferentiable(f"{names} has no native form, so the loop cannot be compiled; use loop='auto'")
        self._routine: ArrayRoutine = self.source.run
        # `run` as a function to call, made for the first call.
        self._loaded: Any = None
        # The compiled functions that a Python `run` calls.
        self._entries: dict[Routine, CompiledFunction] = {}
        # The bindings of each thread, which no other thread changes.
        self._bindings: dict[int, dict[_Shapes, Binding]] = {}
        self._compiling = threading.Lock()
        # Whether no kernel stores to an operand, which takes a fifth of a binding to find out.
        self._stores_checked = False
        # Placeholders, to compile before the first call.
        totals, numbers = np.zeros(1 + len(graph.outputs)), np.zeros((0, len(self.source.hyperparameters)))
        self._head = Head(0, 0, 0, 0, np.zeros(0, np.int64), totals, numbers)

    def sharing(self, threads: int) -> AbstractContextManager[None]:
        """Return the context of an epoch in this many threads: in a single one, other threads share large products."""
        source = self.source
        libraries, alone = source.calls_libraries, threads == 1
        if (alone and self.large) or not (libraries or source.op_kernels.takes_threads):
            return nullcontext()
        return sharing_large_products(libraries=libraries) if alone else limited(1, libraries=libraries)

    def binding(self, shapes: dict[BaseNode, tuple[int, ...]], thread: int = 0) -> Binding:
        """Return one thread's arrays for inputs of these shapes."""
        bindings, key = self._bindings.setdefault(thread, {}), tuple(shapes.items())
        binding = bindings.get(key)
        if binding is None or not binding.is_current():
            missing = [leaf for leaf in self.graph.schedule.leaves if leaf not in shapes and stored(leaf).array is None]
            if missing:
                raise not_set(missing[0], "give it to the program, or bind some with .set")
            for leaf, shape in shapes.items():
                check_shape(leaf, shape)
            sizes = self.graph.schedule.bind(shapes)
            binding = with_collector_paused(Binding, self.source, sizes, shapes, self.graph.optimizer)
            bindings.pop(key, None)
            most = max(_FEWEST_BINDINGS, _KEPT_BINDINGS // len(self._bindings))
            held = sum(each.bytes for each in bindings.values())
            while len(bindings) >= _FEWEST_BINDINGS and (len(bindings) >= most or held + binding.bytes > KEPT_BYTES):
                held -= bindings.pop(next(iter(bindings))).bytes
            bindings[key] = binding
        return binding

    @property
    def text(self) -> str:
        """The generated source."""
        return self.source.text

    def load(self) -> Any:
        """Return the function `run`."""
        if self._loaded is None:
            with deferred, self._refusals():
                self._loaded = with_collector_paused(self._load)
        return self._loaded

    def _load(self) -> Any:
        from wyrm.engines.native.llvm.library import CompiledFunction

        if self.compiled:
            return CompiledFunction(self._routine, self._announcement, self._target)
        from wyrm.engines.native.run.in_python import Interpreter

        return partial(Interpreter(self._called_by_python).run, self._routine.code)

    def _called_by_python(self, function: Callee, arguments: list[Any], variables: dict[str, Any]) -> Any:
        if isinstance(function, PythonCall):
            return variables[function.name]()
        return self._entry(function)(*arguments)

    @property
    def _target(self) -> Target | None:
        """This processor, if products are of another kind than usual."""
        if self.compute_dtype != "bfloat16":
            return None
        from wyrm.engines.native.products.target import rounding_host

        return rounding_host()

    def _entry(self, function: Callee) -> CompiledFunction:
        """Return the compiled form of a function that a Python `run` calls."""
        from wyrm.engines.native.llvm.library import CompiledFunction

        assert isinstance(function, Routine)
        if function not in self._entries:
            self._entries[function] = CompiledFunction(function, target=self._target)
        return self._entries[function]

    def call(self, binding: Binding, columns: Mapping[BaseNode, np.ndarray], head: Head) -> int:
        """Do steps; return how many were done before a loss was not finite.

        With an optimizer, `totals` receives the sum of the losses and the number of steps done, even if a step raises.
        """
        bound: Any = binding.compiled
        if not (bound and self.compiled and bound.take(head, [columns[leaf] for leaf in binding.columns])):
            bound = self.prepare(binding, columns, head)
        try:
            done: int = self.load()([*head, *self._values(binding, columns)]) if bound is None else bound()
        except IndexError as error:
            raise self.refused(binding, error, self._entries_of_step(columns, head)) from None
        except BaseException:
            binding.forget_rows()
            raise
        if done < head.steps:
            binding.forget_rows()
        return done

    def refused(self, binding: Binding, error: IndexError, entries: Mapping[type[Dim], int] = _ALL) -> Exception:
        """Return the error that says why native code has ended with this one; the step is not finished.

        `entries` are the numbers of entries of that step where it has fewer than its arrays.
        """
        from wyrm.engines.native.run.in_python import index_error

        binding.forget_rows()
        return index_error(self.name, self.graph.targets, binding, error, entries)

    def _entries_of_step(self, columns: Mapping[BaseNode, np.ndarray], head: Head) -> dict[type[Dim], int]:
        """Return the numbers of entries of the step that a call has not finished, by the columns that have them."""
        found: dict[type[Dim], int] = {}
        done = head.first + (int(head.totals[1]) if head.steps > 1 else 0)
        rows = head.order[done * head.batch : (done + 1) * head.batch]
        for leaf, _ in self.source.fed if self.graph.flat is not None else ():
            axis, lengths = entries_axis(leaf), lengths_of(leaf)
            # Inputs with the same axis have the lengths of one of them, which alone are a column.
            if axis is not None and lengths is not None and len(columns.get(lengths, ())):
                offsets = columns[lengths][:, 0]
                found[type(axis)] = int((offsets[rows + 1] - offsets[rows]).sum())
        return found

    @staticmethod
    def _values(binding: Binding, columns: Mapping[BaseNode, np.ndarray]) -> list[Any]:
        """Return the arguments of `run` that follow `head`."""
        values = list(binding.values)
        for leaf, position in binding.columns.items():
            values[position] = columns[leaf]
        return values

    def prepare(self, binding: Binding, columns: Mapping[BaseNode, np.ndarray], head: Head | None = None) -> Any:
        """Compile or load the functions for these arrays; nothing runs yet, so Ctrl-C may interrupt it.

        Return `run` bound to the arrays and to `head` if it is compiled, else None.
        """
        bound: Any = binding.compiled
        if bound and (not self.compiled or bound.take(head, [columns[leaf] for leaf in binding.columns])):
            return bound if self.compiled else None
        # One thread compiles while the others wait.
        with deferred, self._compiling, self._refusals():
            if self.compiled:
                binding.compiled = self.bound(binding, columns, head or self._head)
                return binding.compiled
            with self._announcement():
                for function, given, arguments in self._called(binding):
                    check_stores(given, function.compile_for(arguments))
        binding.compiled = True
        return None

    def bound(self, binding: Binding, columns: Mapping[BaseNode, np.ndarray], head: Head) -> BoundFunction:
        """Return the compiled `run` bound to these arrays and to `head`."""
        from wyrm.engines.native.llvm.calling import BoundFunction

        if binding.compiled:
            known: BoundFunction = binding.compiled.copy()
            if known.take(head, [columns[leaf] for leaf in binding.columns]):
                return known
        changing = [len(head) + position for position in binding.columns.values()]
        run = BoundFunction(self.load(), head, self._values(binding, columns), changing)
        if not self._stores_checked:
            check_stores([*[None] * len(head), *self.source.arguments.values()], run.read_only_stores())
            self._stores_checked = True
        return run

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Turn errors of the compiler and of LLVM within the block into errors of this library."""
        try:
            yield
        except NotCompiled as error:
            raise RegistrationError(f"{self.name} has a kernel that cannot be compiled: {error}") from None
        except (ImportError, OSError) as error:
            needs = "llvmlite, which compiles for this processor,"
            if isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "scipy":
                needs = "SciPy, whose BLAS and LAPACK the code calls,"
            raise CompileError(
                f"{self.name} cannot be compiled: {needs} cannot be loaded: {error}; the reference engine needs no "
                f"compiler: wy.run(node), or wy.function(..., engine='auto')"
            ) from error
        except RuntimeError as error:
            if type(error) is not RuntimeError:  # llvmlite raises exactly this class
                raise
            raise CompileError(f"{self.name} cannot be compiled: LLVM rejects it: {error}") from error

    def listing(self) -> Listing:
        """Return the loop programs and LLVM modules for row-major data."""
        from wyrm.engines.native.llvm.library import Listing

        binding, run, listing = self._some_binding(), self.load(), Listing(self._target)
        if self.compiled:
            columns = {leaf: np.empty((1, 1), leaf.dtype) for leaf in binding.columns}
            listing.add(run.function, [*self._head, *self._values(binding, columns)])
            return listing
        for function, _, arguments in self._called(binding):
            listing.add(function.function, arguments)
        return listing

    def stages(self) -> dict[str, str]:
        """Return the program after each stage as text; open axes have the sizes of an earlier run, else small ones."""
        machine = self.listing()
        return self.graph.stages() | {
            "plan memory": str(plan_memory(self.source, self._some_binding().sizes)),
            "loop program": "\n\n".join(machine.loop_programs),
            "emit": machine.llvm,
        }

    def _some_binding(self) -> Binding:
        found = next(self._held(), None)
        if found is not None:
            return found
        for size in (1, 8, 64, 512):  # windows need more than 1
            try:
                return self.binding(
                    {leaf: resolve(leaf.dims, dict.fromkeys(open_axes(leaf.dims), size)) for leaf in self.graph.fed}
                )
            except ShapeError as error:
                refused = error
        raise refused

    @property
    def sizes(self) -> Mapping[type[Dim], int]:
        """The sizes of the named axes in a run so far; empty before the first one."""
        found = next(self._held(), None)
        return {} if found is None else found.sizes

    def _called(self, binding: Binding) -> Iterator[tuple[CompiledFunction, Sequence[Argument], list[Any]]]:
        """Yield the compiled functions that a Python `run` calls, with their arguments and the values of these."""
        values = dict(zip(self.source.arguments, binding.values, strict=True))
        for call in self.source.calls:
            if not isinstance(call.function, PythonCall):
                given = [passed(argument, values) for argument in call.arguments]
                yield self._entry(call.function), call.arguments, given

    def after_fork(self) -> None:
        """Forget half-written arrays and locks of threads that do not exist in a forked process."""
        self.release()
        self._compiling = threading.Lock()

    def release(self) -> None:
        """Free the arrays of all bindings."""
        self._bindings.clear()

    def _held(self) -> Iterator[Binding]:
        """Yield the bindings of all threads."""
        for bindings in list(self._bindings.values()):  # another thread may add to them meanwhile
            yield from list(bindings.values())

    def plan(self) -> ProgramPlan:
        """Return statistics of all runs so far, or else of a run on the data that the inputs hold."""
        graph = self.graph
        if not any(self._held()) and all(stored(leaf).array is not None for leaf in graph.fed):
            self.binding({leaf: bound_array(leaf).shape for leaf in graph.fed})
        buffers = {buffer.root for invocation in self.source.invocations for buffer in invocation.buffers}
        held = [buffer for buffer in buffers if buffer.leaf is None and buffer.fixed is None]
        return ProgramPlan(
            self.source.size, len(held), self.allocated_bytes, sorted(graph.merged), sorted(graph.computed)
        )

    @property
    def allocated_bytes(self) -> int:
        """The bytes of all bindings, for every thread and batch size."""
        return sum(binding.bytes for binding in self._held())

    def _announcement(self) -> AbstractContextManager[None]:
        """Open a block that tells, if it takes long, what is compiled, with the user's line of the first output."""
        what = "the training" if self._training else "a program"
        return cache.message_if_slow(f"{what} of {self.graph.outputs[0].location}")

    @property
    def name(self) -> str:
        """The program's name in messages."""
        return "a program for " + ", ".join(label(output) for output in self.graph.outputs[:3])
