"""A program: outputs, their gradients and the optimizer's updates as native code."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wyrm._interrupts import deferred
from wyrm.backends.llvm import cache
from wyrm.compiler.binding import Binding
from wyrm.compiler.diagnosis import index_error
from wyrm.compiler.expansion import expand
from wyrm.compiler.lower import Lowering
from wyrm.compiler.source import Source
from wyrm.compiler.updates import Optimizer
from wyrm.errors import CompileError, NotDifferentiable, RegistrationError, UnusedParameter
from wyrm.grad.reverse import pull_back
from wyrm.kernels.errors import NotCompiled
from wyrm.node.base import BaseNode, describe, label
from wyrm.node.index_leaves import IndexInput
from wyrm.node.leaves import Constant, Input
from wyrm.node.node import Node
from wyrm.node.storage import bound_array, check_shape, not_set, stored
from wyrm.node.traversal import shallow_first
from wyrm.ops.index import JoinRows, RowGradient
from wyrm.ops.philox import STEP
from wyrm.ops.updating import updates_of
from wyrm.schedule.ranges import Ranges
from wyrm.schedule.schedule import Schedule
from wyrm.types.dims import axis_size

Feed = Mapping[Any, Any]
Leaf = BaseNode[Any, Any]
# Of a program of more calls a step than this, BLAS may use all threads where the program uses one.
LARGE = 120
# Bindings for other sizes are kept too, for a last, smaller batch comes back every epoch.
_KEPT_BINDINGS = 16


_NO_COLUMNS: Mapping[Leaf, NDArray[Any]] = MappingProxyType({})
# What each call of `run` has of its own: the first step and how many, the size of a batch, the number that random nodes
# count from, the order of the rows, what it fills in, and the numbers of the optimizer, (steps, numbers).
Own = tuple[int, int, int, int, NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]


class Plan(NamedTuple):
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


class Graph:
    """What a program computes, as loops and source: independent of sizes and data."""

    def __init__(self, outputs: Sequence[BaseNode[Any, Any]], optimizer: Optimizer | None) -> None:
        self.outputs, self.optimizer = list(outputs), optimizer
        gradients: dict[BaseNode[Any, Any], BaseNode[Any, Any]] = {}
        rows: dict[BaseNode[Any, Any], list[tuple[Any, Any]]] = {}
        if optimizer is not None:
            gradients, rows = gradients_of(self.outputs[0], optimizer)
        pairs = [node for touched in rows.values() for pair in touched for node in pair]
        moving = updates_of(self.outputs) if optimizer is not None else {}
        # What is computed: the nodes that users made and their gradients; and those that stand for them, taken apart.
        self.wanted = wanted = [*self.outputs, *gradients.values(), *pairs, *moving.values()]
        standing = expand(wanted)
        self.simpler = [standing[node] for node in wanted]
        # Each gradient as soon as it can be computed: what it is made of is then needed no more.
        self.schedule = schedule = Schedule(shallow_first(self.simpler), wanted)

        def final(node: BaseNode[Any, Any]) -> BaseNode[Any, Any]:
            return schedule.representative[standing[node]]

        self.merged = [
            label(node) for node, first in schedule.representative.items() if node is not first and node.parents
        ]
        sparse = {p: [(final(g), final(i)) for g, i in touched] for p, touched in rows.items()}
        # What of data lies out of range is known by this, and told before anything runs.
        self.ranges = Ranges([*schedule.nodes, *(RowGradient(g, i, p.dims) for p in sparse for g, i in sparse[p])])
        self.lowering = Lowering(schedule, [final(output) for output in self.outputs], sparse, self.ranges)
        self.inputs: list[Leaf] = [
            leaf for leaf in schedule.leaves if isinstance(leaf, Input | IndexInput) and leaf is not STEP
        ]
        # Columns without rows, which leave the inputs as they are.
        self.no_columns: dict[Leaf, NDArray[Any]] = {leaf: np.empty((0, 1), leaf.dtype) for leaf in self.inputs}
        self.draws = any(leaf is STEP for leaf in schedule.leaves)
        loss = final(self.outputs[0]) if optimizer is not None else None
        self.source = Source(
            self.lowering,
            self.inputs,
            loss,
            optimizer,
            {p: final(gradient) for p, gradient in gradients.items()},
            {buffer: final(becomes) for buffer, becomes in moving.items()},
        )
        self.buffers = list(moving)
        self.parameters = [p for p in (optimizer.parameters if optimizer else []) if p in gradients or p in rows]

    @property
    def computed(self) -> set[str]:
        """The nodes that no array holds."""
        return {label(value.node) for value in self.lowering.values.values() if not value.stored}


def gradients_of(
    loss: BaseNode[Any, Any], optimizer: Optimizer
) -> tuple[dict[BaseNode[Any, Any], BaseNode[Any, Any]], dict[BaseNode[Any, Any], list[tuple[Any, Any]]]]:
    """The dense gradients of the optimizer's parameters, and the pairs of gradient and indices of the row-sparse."""
    if not isinstance(loss, Node) or loss.dims != () or loss.dtype.kind != "f":
        raise NotDifferentiable(
            f"a program that trains takes one scalar float loss, not {describe(loss)}: reduce it with .sum() or .mean()"
        )
    found = pull_back([loss], [Constant(1.0, dtype=loss.dtype)], optimizer.parameters)
    dense: dict[BaseNode[Any, Any], BaseNode[Any, Any]] = {}
    sparse: dict[BaseNode[Any, Any], list[tuple[Any, Any]]] = {}
    for parameter, gradient in zip(optimizer.parameters, found, strict=True):
        if gradient is None:
            continue
        pairs = _row_parts(gradient)
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


def _row_parts(gradient: BaseNode[Any, Any]) -> list[tuple[Any, Any]] | None:
    """What rows of a gradient are given, part by part; None for a dense gradient."""
    parts, stack = [], [gradient]
    while stack:
        node = stack.pop()
        if isinstance(node, JoinRows):
            stack += reversed(node.parents)
        elif isinstance(node, RowGradient):
            parts.append((node.parents[0], node.parents[1]))
        else:
            return None
    return parts


class Runner:
    """The functions and arrays that run a graph."""

    def __init__(self, graph: Graph, loop: Literal["auto", "compiled", "python"]) -> None:
        self.graph = graph
        self.large = graph.source.size > LARGE
        self.compiled = loop == "compiled" or (loop == "auto" and not graph.source.evaluated)
        if self.compiled and graph.source.evaluated:
            names = ", ".join(sorted({call.node.op_name() for call in graph.source.evaluated}))
            raise NotDifferentiable(f"{names} has no native form, so the loop cannot be compiled; use loop='auto'")
        self.text = graph.source.text(self.compiled)
        self._module: Any = None
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

    def load(self) -> Any:
        """The function `run`, compiled or loaded when it is first called."""
        if self._module is None:
            with deferred, self._refusals():
                module = cache.module(self.text)
                for name, origin in self.graph.source.origins.items():
                    vars(module)[name].origin = origin
                self._module = module
        return self._module.run

    def call(self, binding: Binding, columns: Mapping[Leaf, NDArray[Any]], own: Own) -> int:
        """Do steps; how many were done before a loss was not finite.

        Where there is an optimizer, `totals` is given the sum of the losses and the number of steps that were done,
        also where a step raises.
        """
        bound: Any = binding.compiled
        if not (bound and self.compiled and bound.take(own, [columns[leaf] for leaf in binding.columns])):
            bound = self.prepare(binding, columns, own)
        return self._run(bound, binding, columns, own)

    def again(self, binding: Binding, own: Own, changing: Sequence[NDArray[Any]]) -> int | None:
        """As `call`, with the columns in the order of the binding; None where something has to be compiled first."""
        bound: Any = binding.compiled
        if not (bound and self.compiled and bound.take(own, changing)):
            return None
        return self._run(bound, binding, _NO_COLUMNS, own)

    def _run(self, bound: Any, binding: Binding, columns: Mapping[Leaf, NDArray[Any]], own: Own) -> int:
        try:
            done: int = self.load()(*own, *self._values(binding, columns)) if bound is None else bound()
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
    def _values(binding: Binding, columns: Mapping[Leaf, NDArray[Any]]) -> list[Any]:
        """What `run` is called with after what each call has of its own."""
        values = list(binding.values)
        for leaf, position in binding.columns.items():
            values[position] = columns[leaf]
        return values

    def prepare(self, binding: Binding, columns: Mapping[Leaf, NDArray[Any]], own: Own | None = None) -> Any:
        """Compile what is called with these arrays, or load it; nothing runs yet, so that Ctrl-C may end it.

        Returns `run` with the arrays of the binding, where it is compiled; `own` is what a call has of its own.
        """
        bound: Any = binding.compiled
        own = own or self._own
        if bound and (not self.compiled or bound.take(own, [columns[leaf] for leaf in binding.columns])):
            return bound if self.compiled else None
        run = self.load()
        from wyrm.backends.llvm.library import Bound

        # By one thread, while others wait.
        with deferred, self._compiling, cache.announced(self.name), self._refusals():
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

        binding = next(iter(self._bindings.values()), None)
        if binding is None:
            shapes = {leaf: tuple(axis_size(axis) or 1 for axis in leaf.dims) for leaf in self.graph.inputs}
            binding = self.binding(shapes)
        run, listing = self.load(), Listing()
        if self.compiled:
            columns = {leaf: np.empty((1, 1), leaf.dtype) for leaf in binding.columns}
            listing.add(run, [*self._own, *self._values(binding, columns)])
            return listing
        for function, arguments in self._called(binding):
            listing.add(function, arguments)
        return listing

    def _called(self, binding: Binding) -> Iterator[tuple[Any, list[Any]]]:
        """The compiled functions that a `run` in Python calls, and what with."""
        from wyrm.backends.llvm.library import Entry

        values = dict(zip(self.graph.source.arguments, binding.values, strict=True))
        for call in self.graph.source.calls:
            function = getattr(self._module, call.function, None)
            if isinstance(function, Entry):  # and not the `evaluate` of an op
                yield function, [values[argument.name] for argument in call.arguments]

    def after_fork(self) -> None:
        """Forget arrays in the midst of a step, and locks, of a thread that is not there in a forked process."""
        self._bindings.clear()
        self._compiling = threading.Lock()

    def plan(self) -> Plan:
        """What is known of buffers: of all runs so far, else of one on what the inputs hold."""
        graph = self.graph
        if not self._bindings and all(stored(leaf).array is not None for leaf in graph.inputs):
            self.binding({leaf: bound_array(leaf).shape for leaf in graph.inputs})
        buffers = {slot.root for invocation in graph.source.invocations for slot in invocation.slots}
        held = [slot for slot in buffers if slot.leaf is None and slot.fixed is None]
        return Plan(graph.source.size, len(held), self.held_bytes, sorted(graph.merged), sorted(graph.computed))

    @property
    def held_bytes(self) -> int:
        """The bytes of all that was bound, for every thread and size of batch."""
        return sum(binding.buffers + binding.own_bytes for binding in self._bindings.values())

    @property
    def name(self) -> str:
        """What the program is called in messages."""
        return "a program for " + ", ".join(label(output) for output in self.graph.outputs[:3])
