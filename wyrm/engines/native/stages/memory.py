"""The memory of a program for data of given sizes.

`plan_memory` lets buffers share memory that are not live at the same time; `Binding` has an array for each argument.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.evaluated import evaluation
from wyrm.engines.native.stages.loops import (
    Argument,
    ArrayBuffer,
    CallArgument,
    ColumnArgument,
    CountsArgument,
    FlatArgument,
    KernelCall,
    NumberArgument,
    OptimizerNumber,
    RowSums,
    SizeArgument,
    StateArgument,
    WholeCall,
)
from wyrm.engines.native.stages.write import ScanSource, Source
from wyrm.engines.optimizer import OptimizerInterface
from wyrm.errors import RegistrationError
from wyrm.graph.axes import Dim, resolve, resolve_axis
from wyrm.graph.base import BaseNode
from wyrm.graph.loop_form import LOOPS, python_function
from wyrm.graph.op import NUMPY
from wyrm.graph.storage import Storage, bound_array, stored
from wyrm.ops.control.loop_body import Iteration
from wyrm.ops.random.philox import Counter
from wyrm.support.frozen import frozen
from wyrm.support.memory import aligned, aligned_size, provide_pages

if TYPE_CHECKING:
    from wyrm.engines.native.run.calls import BoundCall


@frozen
class Interval:
    """A buffer's size in bytes, and the first and last call that uses it."""

    size: int
    first: int
    last: int


def lowest_offsets(intervals: Sequence[Interval]) -> tuple[list[int], int]:
    """Return an offset for each buffer, and the total size.

    Buffers are placed by size, the largest first, each at the lowest offset where no buffer that is live at the same
    time lies (Pisarchyk and Lee, 2020, "greedy by size").

    >>> lowest_offsets([Interval(64, 0, 1), Interval(64, 1, 2), Interval(64, 2, 3)])
    ([0, 64, 0], 128)
    """
    offsets = [0] * len(intervals)
    # The start, the end and the life of those that are placed, by start.
    placed: list[tuple[int, int, int, int]] = []
    for i in sorted(range(len(intervals)), key=lambda i: -intervals[i].size):
        size, first, last, place = intervals[i].size, intervals[i].first, intervals[i].last, 0
        for start, end, born, dead in placed:
            if born > last or dead < first:
                continue
            if start - place >= size:
                break
            if end > place:
                place = end
        offsets[i] = place
        insort(placed, (place, place + aligned_size(size), first, last))
    return offsets, max((end for _, end, _, _ in placed), default=0)


@frozen
class MemoryPlan:
    """The offset of each buffer in one block of memory, and its shape; the size of the block in bytes."""

    places: Mapping[ArrayBuffer, tuple[int, tuple[int, ...]]]
    size: int

    def __str__(self) -> str:
        lines = [
            f"{start:>12,}  {buffer.name}: {shape} {buffer.dtype}" for buffer, (start, shape) in self.places.items()
        ]  # fmt: skip
        return "\n".join([*lines, f"{self.size:,} bytes in all"])


def plan_memory(source: Source, sizes: Mapping[type[Dim], int]) -> MemoryPlan:
    """Return the offsets of all arrays that only a step needs, for these sizes of the named axes."""
    uses = lifetimes(source)
    shapes = {buffer: resolve(buffer.dims, sizes) for buffer in uses}
    lengths = {buffer: math.prod(shape) * buffer.dtype.itemsize for buffer, shape in shapes.items()}
    starts, size = lowest_offsets([Interval(lengths[buffer], *use) for buffer, use in uses.items()])
    return MemoryPlan({buffer: (start, shapes[buffer]) for buffer, start in zip(uses, starts, strict=True)}, size)


def lifetimes(source: Source) -> dict[ArrayBuffer, tuple[int, int]]:
    """Return the numbers of the first and last invocation that use each array that only a step needs.

    What follows all invocations counts as one more.
    """
    uses: dict[ArrayBuffer, tuple[int, int]] = {}
    held = {buffer for rows in source.tree.rows for buffer in rows.buffers}
    for position, invocation in enumerate(source.invocations):
        for buffer in sorted(invocation.buffers, key=lambda each: each.name):  # the same plan in every process
            root = buffer.root
            if root.leaf is None and root.fixed is None and root not in held:
                uses[root] = (uses.get(root, (position, 0))[0], position)
    for buffer in [*source.tree.outputs, *source.live_at_end]:
        if buffer.root in uses:
            uses[buffer.root] = (uses[buffer.root][0], len(source.invocations))
    return uses


_NOTHING: Mapping[BaseNode, np.ndarray] = MappingProxyType({})


class Binding:
    """The arrays for every argument of a program's `run`.

    `sizes` are the sizes of the named axes. Inputs in `fed` get an array of this thread's own, leaves in `given` use
    its arrays, and other leaves use the array that they hold. Temporary buffers lie in `memory`, or in new memory, at
    the places that they have for axes of the sizes `largest`, by default these sizes; `plan` has these places if they
    are known.
    """

    def __init__(
        self,
        source: Source,
        sizes: dict[type[Dim], int],
        fed: Mapping[BaseNode, tuple[int, ...]],
        optimizer: OptimizerInterface | None,
        given: Mapping[BaseNode, np.ndarray] = _NOTHING,
        memory: NDArray[np.uint8] | None = None,
        largest: Mapping[type[Dim], int] | None = None,
        plan: MemoryPlan | None = None,
    ) -> None:
        self.source = source
        self.sizes = sizes
        self._largest: Mapping[type[Dim], int] = sizes if largest is None else largest
        self.optimizer = optimizer
        self._fed, self._given = fed, given
        self._arrays: dict[ArrayBuffer, np.ndarray] = {}
        self._calls: dict[KernelCall, tuple[Any, ...]] = {}
        self._wholes: dict[WholeCall, list[Any]] = {}
        # The optimizer's numbers of a step, by the names of their arguments.
        self.numbers: dict[str, np.ndarray] = {}
        self.functions: dict[str, Callable[[], None]] = {}
        # `run` bound to these arrays, once it is compiled; True once all that a Python `run` calls is compiled.
        self.compiled: Any = False
        # The `BoundCall` for data of the same shapes, once there was a call.
        self.repeated: BoundCall | None = None
        self.own_bytes: int = 0
        self.buffers: int = self._place_buffers(memory, plan or plan_memory(source, self._largest))
        self.columns: dict[BaseNode, int] = {}
        values: list[Any] = []
        for position, argument in enumerate(source.arguments.values()):
            if isinstance(argument, ColumnArgument):
                self.columns[argument.leaf] = position
            values.append(self._value(argument))
        self.values: list[Any] = values
        if optimizer is not None and not optimizer.steps:
            by_rows = {rows.parameter for rows in source.tree.rows}
            read = [each for each in source.arguments.values() if isinstance(each, StateArgument)]
            # The first step reads all of these.
            provide_pages(*(self._state(each) for each in read if each.parameter not in by_rows))
        # The arguments of kernels that draw rows of a table.
        self._draws: list[tuple[KernelCall, tuple[Any, ...]]] = [
            (call, arguments)
            for call, arguments in self._calls.items()
            if LOOPS.of(call.node).draws_from(call.node) is not None
        ]
        # The leaves whose arrays are bound, with those arrays.
        self.held: list[tuple[Storage, np.ndarray]] = [
            (stored(buffer.leaf), array)
            for buffer, array in self._arrays.items()
            if buffer.leaf is not None
            and buffer.leaf not in fed
            and buffer.leaf not in given
            and not isinstance(buffer.leaf, Counter)
        ]

    @property
    def bytes(self) -> int:
        """The bytes of the arrays that belong to this binding alone."""
        return self.buffers + self.own_bytes

    def stripes(self, count: int) -> list[NDArray[np.int64]]:
        """Return the arrays of (stripe, number of stripes) that kernels draw rows from; each thread sets its own.

        What they need to draw from one of `count` stripes is there then.
        """
        for call, arguments in self._draws if count > 1 else ():
            LOOPS.of(call.node).prepare_stripes(arguments, count)
        return [arguments[-1] for _, arguments in self._draws]

    def is_current(self) -> bool:
        """Return whether the leaves still hold the arrays that were bound."""
        for storage, array in self.held:  # noqa: SIM110  # a generator took a tenth of each call
            if storage.array is not array:
                return False
        return True

    def forget_rows(self) -> None:
        """Clear the row sums of a step that was not finished."""
        for rows in self.source.tree.rows:
            self.array(rows.sums)[: self.array(rows.count)[0]] = 0
        for count in {id(array): array for array in (self.array(r.count) for r in self.source.tree.rows)}.values():
            count[1] += count[0]
            count[0] = 0

    def _value(self, argument: Argument) -> Any:
        if isinstance(argument, ArrayBuffer):
            return self.array(argument)
        if isinstance(argument, SizeArgument):
            return resolve_axis(argument.axis, self.sizes)
        if isinstance(argument, NumberArgument):
            return argument.value
        if isinstance(argument, CallArgument):
            return self._call_argument(argument)
        if isinstance(argument, ColumnArgument):
            return None  # passed with each call
        if isinstance(argument, OptimizerNumber):
            return self.numbers.setdefault(argument.name, aligned((), argument.dtype))
        if isinstance(argument, CountsArgument):
            counts = aligned(self._value(argument.array).shape[:1], argument.array.buffer.dtype)
            self.own_bytes += counts.nbytes
            return counts
        array = self.array(argument.buffer) if isinstance(argument, FlatArgument) else self._state(argument)
        if argument.axes == 1:
            return array.reshape(-1)
        rows = array.shape[0] if array.ndim else 1
        return array.reshape(rows, array.size // rows if rows else 1)

    def _state(self, argument: StateArgument) -> np.ndarray:
        assert self.optimizer is not None
        return self.optimizer.state_of(argument.parameter)[argument.state]  # type: ignore[arg-type]  # a parameter

    # --- arrays ---------------------------------------------------------------------------------------------------

    def array(self, buffer: ArrayBuffer) -> np.ndarray:
        """Return the array of a buffer; the first use creates it."""
        if buffer not in self._arrays:
            self._arrays[buffer] = self._create(buffer)
        return self._arrays[buffer]

    def _create(self, buffer: ArrayBuffer) -> np.ndarray:
        shape = resolve(buffer.dims, self.sizes)
        if buffer.leaf is not None:
            if isinstance(buffer.leaf, Counter):
                return aligned((), np.dtype(np.int64))
            if buffer.leaf in self._fed:
                self.own_bytes += int(np.prod(shape)) * buffer.dtype.itemsize
                return aligned(shape, buffer.dtype)
            return self._given[buffer.leaf] if buffer.leaf in self._given else bound_array(buffer.leaf)
        if buffer.fixed is not None:
            return self._fixed(buffer.fixed)
        if buffer.base is not None:
            assert buffer.view is not None
            operand = self.array(buffer.base)
            view: np.ndarray = buffer.view.evaluate_for(self.sizes)(
                NUMPY, operand, *buffer.view.parents[1:], shape=shape
            )
            if view.size and not np.may_share_memory(view, operand):
                raise AssertionError(f"{buffer.name} is not a view of {buffer.base.name}")
            return view
        for rows in self.source.tree.rows:
            if buffer in rows.buffers:
                return self._rows(rows, buffer, shape)
        raise AssertionError(f"{buffer.name} has no memory")

    def _rows(self, rows: RowSums, buffer: ArrayBuffer, shape: tuple[int, ...]) -> np.ndarray:
        """Allocate memory for the rows that a step can touch."""
        named = sum(int(np.prod(resolve(indices.dims, self.sizes))) for indices in rows.indices)
        most = min(named, resolve(rows.parameter.dims, self.sizes)[0])
        if buffer is rows.rows:
            shape = (most,)
        elif buffer is rows.sums:
            shape = (most, *shape[1:])
        array = aligned(shape, buffer.dtype)
        if buffer is rows.count:
            array[1] = 1  # `positions` starts with zeros, which mean "not touched"
        self.own_bytes += array.nbytes
        return array

    def _fixed(self, node: BaseNode) -> np.ndarray:
        """Return the value of a node that depends on sizes alone."""
        operands = [
            np.broadcast_to(np.zeros((), parent.dtype), resolve(parent.dims, self.sizes)) for parent in node.parents
        ]
        evaluate, shape = node.evaluate_for(self.sizes), resolve(node.dims, self.sizes)
        return np.array(evaluate(NUMPY, *operands, shape=shape), node.dtype)

    def _place_buffers(self, memory: NDArray[np.uint8] | None, plan: MemoryPlan) -> int:
        """Place all temporary buffers in one block of memory, by default a new one; return its size in bytes."""
        if memory is None:
            memory = aligned((plan.size,), np.dtype(np.uint8))
            provide_pages(memory)
        for buffer, (start, _) in plan.places.items():
            shape = resolve(buffer.dims, self.sizes)
            stop = start + math.prod(shape) * buffer.dtype.itemsize
            self._arrays[buffer] = memory[start:stop].view(buffer.dtype).reshape(shape)
        return plan.size

    # --- calls ----------------------------------------------------------------------------------------------------

    def _call_argument(self, argument: CallArgument) -> Any:
        call = argument.call
        if isinstance(call, WholeCall):
            return self._whole_arguments(call)[argument.position]
        operands, out = [self.array(buffer) for buffer in call.operands], self.array(call.out)
        if argument.position < 0:
            return evaluation(call.node, operands, out, self.sizes)
        if call not in self._calls:
            self._calls[call] = found = _arguments_of_call(
                call, argument.scan, operands, out, self.sizes, self._largest
            )
            known = set(map(id, map(_memory, (*operands, out))))
            new = {id(memory): memory for memory in map(_memory, filter(_is_array, found))}
            self.own_bytes += sum(memory.nbytes for key, memory in new.items() if key not in known)
        return self._calls[call][argument.position]

    def _whole_arguments(self, call: WholeCall) -> list[Any]:
        """Return the arguments of an update of a whole parameter."""
        if call not in self._wholes:
            given = {leaf: self._value(flat).reshape(leaf.shape) for leaf, flat in call.arrays.items()}
            if not self._wholes:  # one block of memory for all rules, which run one after another
                size = max(plan_memory(rule, {}).size for rule in self.source.rules)
                self._memory = aligned((size,), np.dtype(np.uint8))
                self.own_bytes += size
            binding = Binding(call.source, {}, {}, None, given, self._memory)
            self.own_bytes += binding.own_bytes
            self._wholes[call] = binding.values
        return self._wholes[call]


def _arguments_of_call(
    call: KernelCall,
    scan: ScanSource | None,
    operands: list[np.ndarray],
    out: np.ndarray,
    sizes: dict[type[Dim], int],
    largest: Mapping[type[Dim], int],
) -> tuple[Any, ...]:
    """Return the arguments of a call of a kernel, or of the function of a loop inside the graph."""
    if scan is not None:
        return _scan_arguments(scan, operands, out, sizes, largest)
    form = LOOPS.of(call.node)
    found = form.kernel_arguments(call.node, list(map(_read_only, operands)), out)
    code = python_function(form.kernel).__code__
    names = code.co_varnames[: code.co_argcount]
    if len(found) != len(names):
        raise RegistrationError(
            f"op {type(call.node).__name__}: kernel_arguments returns {len(found)} arguments, but the kernel "
            f"{code.co_name} takes {len(names)}: {', '.join(names)} ({code.co_filename}:{code.co_firstlineno})"
        )
    return found


def _read_only(array: np.ndarray) -> np.ndarray:
    """Return a view of an operand, by which `check_stores` knows it."""
    view = array.view()
    view.flags.writeable = False
    return view


def check_stores(arguments: Sequence[Argument | None], positions: Sequence[int]) -> None:
    """Raise `RegistrationError` for the kernel at one of these positions, which stores to an operand: it is read-only.

    `arguments` are those of a call; numbers and arrays that belong to no call of a kernel are left alone.
    """
    for position in positions:
        argument = arguments[position]
        while isinstance(argument, CallArgument):
            inner = argument.call.source if isinstance(argument.call, WholeCall) else argument.scan
            if inner is None:
                raise _stores_to_operand(argument)
            # The function of the inner source takes its arguments last.
            argument = list(inner.arguments.values())[argument.position - inner.count]


def _stores_to_operand(argument: CallArgument) -> RegistrationError:
    assert isinstance(argument.call, KernelCall)
    node = argument.call.node
    form = LOOPS.of(node)
    code = python_function(form.adding_kernel if argument.call.adds else form.kernel).__code__
    names = code.co_varnames[: code.co_argcount]
    return RegistrationError(
        f"op {type(node).__name__}: the kernel {code.co_name} writes to {names[argument.position]}, for which "
        f"kernel_arguments returns an operand: it must return what the kernel's parameters stand for, in their order, "
        f"{', '.join(names)}, and a kernel writes to out and to scratch arrays alone "
        f"({code.co_filename}:{code.co_firstlineno})"
    )


def _scan_arguments(
    source: ScanSource,
    operands: list[np.ndarray],
    out: np.ndarray,
    sizes: dict[type[Dim], int],
    largest: Mapping[type[Dim], int],
) -> tuple[Any, ...]:
    """Return the arguments of the function of a loop inside the graph, whose residuals are packed in `out`."""
    steps, inputs = source.steps, source.steps.body.inputs
    own = inputs[: steps.carried + steps.sequences]
    given = operands[steps.limited :]
    same = dict(zip(inputs[len(own) :], given[len(own) :], strict=True))
    binding = Binding(source, sizes, {each: resolve(each.dims, sizes) for each in own}, None, same, largest=largest)
    outer: list[Any] = [operands[0].reshape(-1)] if steps.limited else []
    outer += [array.reshape(-1) for array in given[: steps.carried]]
    outer += [_rows(array) for array in given[steps.carried : len(own)]]
    return (*outer, steps.length_for(sizes), *_unpacked(steps, out, sizes), *binding.values)


def _rows(array: np.ndarray) -> np.ndarray:
    return array.reshape(array.shape[0], int(np.prod(array.shape[1:])))


def _unpacked(steps: Iteration, residuals: np.ndarray, sizes: Mapping[type[Dim], int]) -> list[np.ndarray]:
    """Split packed residuals into parts: flat, or two-dimensional with a row for each step."""
    found, start = [], 0
    shapes = [resolve(dims, sizes) for dims in steps.axes]
    stacked = len(shapes) - steps.summed - steps.stops
    for position, shape in enumerate(shapes):
        part = residuals[start : start + math.prod(shape)]
        start += part.size
        single = position >= stacked or (position < 2 * steps.carried and position % 2 != steps.reverse)
        found.append(part if single else part.reshape(shape[0], int(np.prod(shape[1:]))))
    return found


def _is_array(argument: object) -> bool:
    return isinstance(argument, np.ndarray)


def _memory(array: np.ndarray) -> np.ndarray:
    """Return the array that owns the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def passed(argument: Argument, values: Mapping[str, Any]) -> Any:
    """Return what a call takes for an argument, given the values of the arguments of `run` by name."""
    if isinstance(argument, FlatArgument) and argument.is_number:
        return values[argument.buffer.name].reshape(1)
    return values[argument.name]
