"""The arrays that a program works on, for one combination of sizes and one thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.compiler.functions import SizeArgument
from wyrm.compiler.loops import ArrayBuffer, KernelCall, RowSums
from wyrm.compiler.memory import plan_memory
from wyrm.compiler.scans import ScanSource
from wyrm.compiler.source import Argument, FlatArgument, KernelArgument, NumberArgument, Source
from wyrm.compiler.updates import OptimizerInterface
from wyrm.node.base import BaseNode
from wyrm.node.index_operands import check_index_operands
from wyrm.node.loop_form import LOOPS
from wyrm.node.storage import bound_array, stored
from wyrm.ops.philox import STEP
from wyrm.ops.steps import Steps
from wyrm.types.dims import Dim, resolve, resolve_axis
from wyrm.types.memory import aligned

_NOTHING: Mapping[BaseNode, np.ndarray] = MappingProxyType({})


class Binding:
    """Arrays for every argument of a program's `run`.

    `sizes` are those of the named axes; the inputs in `fed` get an array of the thread's own, those in `given` have
    that, and other leaves have their own.
    """

    def __init__(
        self,
        source: Source,
        sizes: dict[type[Dim], int],
        fed: Mapping[BaseNode, tuple[int, ...]],
        optimizer: OptimizerInterface | None,
        given: Mapping[BaseNode, np.ndarray] = _NOTHING,
    ) -> None:
        self.source, self.sizes, self.optimizer = source, sizes, optimizer
        self._fed, self._given = fed, given
        self._arrays: dict[ArrayBuffer, np.ndarray] = {}
        self._calls: dict[KernelCall, tuple[Any, ...]] = {}
        self.functions: dict[str, Callable[[], None]] = {}
        # Whether all that is called with these arrays is compiled; the function itself, where it is one.
        self.compiled: Any = False
        self.own_bytes = 0
        self.buffers = self._place_buffers()
        self.columns: dict[BaseNode, int] = {}
        # The stripes that random index nodes draw from, which threads are given.
        self.stripes: list[tuple[KernelCall, NDArray[np.int64]]] = []
        values = []
        for position, argument in enumerate(source.arguments.values()):
            if isinstance(argument, FlatArgument) and argument.column is not None:
                self.columns[argument.column] = position
            values.append(self._value(argument))
        self.values = values
        for call, arguments in self._calls.items():
            if LOOPS.of(call.node).draws_from(call.node) is not None:
                self.stripes.append((call, arguments[-1]))
        self._held = [
            (stored(buffer.leaf), array)
            for buffer, array in self._arrays.items()
            if buffer.leaf is not None
            and buffer.leaf not in fed
            and buffer.leaf not in given
            and buffer.leaf is not STEP
        ]

    def is_current(self) -> bool:
        """Whether leaves still hold the arrays that were bound."""
        for storage, array in self._held:  # noqa: SIM110  # asked in each call, of which a generator took a tenth
            if storage.array is not array:
                return False
        return True

    def forget_rows(self) -> None:
        """Empty the sums of rows that a step left behind which was not finished."""
        for rows in self.source.lowering.rows:
            self.array(rows.sums)[: self.array(rows.count)[0]] = 0
        for count in {id(array): array for array in (self.array(r.count) for r in self.source.lowering.rows)}.values():
            count[1] += count[0]
            count[0] = 0

    def _value(self, argument: Argument) -> Any:
        if isinstance(argument, ArrayBuffer):
            return self.array(argument)
        if isinstance(argument, SizeArgument):
            return resolve_axis(argument.axis, self.sizes)
        if isinstance(argument, NumberArgument):
            return argument.value
        if isinstance(argument, KernelArgument):
            return self._kernel_argument(argument)
        if argument.column is not None:
            return None  # given with each call
        if argument.number is not None:
            return aligned((), argument.dtype)
        if argument.state is not None:
            parameter, state = argument.state
            assert self.optimizer is not None
            array: np.ndarray = self.optimizer.state_of(parameter)[state]  # type: ignore[arg-type]  # a parameter
        else:
            assert argument.buffer is not None
            array = self.array(argument.buffer)
        if argument.axes == 1:
            return array.reshape(-1)
        rows = array.shape[0] if array.ndim else 1
        return array.reshape(rows, array.size // rows if rows else 1)

    # --- arrays ---------------------------------------------------------------------------------------------------

    def array(self, buffer: ArrayBuffer) -> np.ndarray:
        """The array of a slot."""
        if buffer not in self._arrays:
            self._arrays[buffer] = self._make(buffer)
        return self._arrays[buffer]

    def _make(self, buffer: ArrayBuffer) -> np.ndarray:
        shape = resolve(buffer.dims, self.sizes)
        if buffer.leaf is not None:
            if buffer.leaf is STEP:
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
            view: np.ndarray = buffer.view.evaluate(np, operand, *buffer.view.parents[1:], shape=shape)
            if view.size and not np.may_share_memory(view, operand):
                raise AssertionError(f"{buffer.name} is not a view of {buffer.base.name}")
            return view
        for rows in self.source.lowering.rows:
            if buffer in (rows.positions, rows.rows, rows.sums, rows.count):
                return self._rows(rows, buffer, shape)
        raise AssertionError(f"{buffer.name} has no memory")

    def _rows(self, rows: RowSums, buffer: ArrayBuffer, shape: tuple[int, ...]) -> np.ndarray:
        """Memory for the rows that a step can touch."""
        named = sum(int(np.prod(resolve(indices.dims, self.sizes))) for indices in rows.indices)
        most = min(named, resolve(rows.parameter.dims, self.sizes)[0])
        if buffer is rows.rows:
            shape = (most,)
        elif buffer is rows.sums:
            shape = (most, *shape[1:])
        array = aligned(shape, buffer.dtype)
        if buffer is rows.count:
            array[1] = 1  # above what `buffers` holds at first
        self.own_bytes += array.nbytes
        return array

    def _fixed(self, node: BaseNode) -> np.ndarray:
        """What a node that depends on sizes alone gives for these."""
        operands = [
            np.broadcast_to(np.zeros((), parent.dtype), resolve(parent.dims, self.sizes)) for parent in node.parents
        ]
        return np.array(node.evaluate(np, *operands, shape=resolve(node.dims, self.sizes)), node.dtype)

    def _place_buffers(self) -> int:
        """Give every buffer its place in one block of memory; the block's size in bytes."""
        plan = plan_memory(self.source, self.sizes)
        memory = aligned((plan.size,), np.dtype(np.uint8))
        for buffer, (start, shape) in plan.places.items():
            stop = start + int(np.prod(shape, dtype=np.int64)) * buffer.dtype.itemsize
            self._arrays[buffer] = memory[start:stop].view(buffer.dtype).reshape(shape)
        return plan.size

    # --- kernels --------------------------------------------------------------------------------------------------

    def _kernel_argument(self, argument: KernelArgument) -> Any:
        call = argument.call
        operands, out = [self.array(buffer) for buffer in call.operands], self.array(call.out)
        if argument.position < 0:
            return _evaluation(call.node, operands, out, self.sizes)
        if call not in self._calls:
            self._calls[call] = found = _arguments(call, operands, out)
            given = set(map(id, map(_memory, (*operands, out))))
            made = {id(memory): memory for memory in map(_memory, filter(_is_array, found))}
            self.own_bytes += sum(memory.nbytes for key, memory in made.items() if key not in given)
        return self._calls[call][argument.position]


def _arguments(call: KernelCall, operands: list[np.ndarray], out: np.ndarray) -> tuple[Any, ...]:
    """What the function of a call is called with."""
    if isinstance(call.loop, ScanSource):
        return _loop_arguments(call.loop, operands, out)
    return LOOPS.of(call.node).kernel_arguments(call.node, operands, out)


def _loop_arguments(source: ScanSource, operands: list[np.ndarray], out: np.ndarray) -> tuple[Any, ...]:
    """What the function of a loop is called with, for operands and a tape."""
    steps, inputs = source.steps, source.steps.body.inputs
    own = inputs[: steps.carried + steps.sequences]
    given = operands[steps.limited :]
    same = dict(zip(inputs[len(own) :], given[len(own) :], strict=True))
    binding = Binding(source, {}, {each: each.shape for each in own}, None, same)
    outer: list[Any] = [operands[0].reshape(-1)] if steps.limited else []
    outer += [array.reshape(-1) for array in given[: steps.carried]]
    outer += [_rows(array) for array in given[steps.carried : len(own)]]
    return (*outer, steps.length, *_parts(steps, out), *binding.values)


def _rows(array: np.ndarray) -> np.ndarray:
    return array.reshape(array.shape[0], int(np.prod(array.shape[1:])))


def _parts(steps: Steps, residuals: np.ndarray) -> list[np.ndarray]:
    """The parts of a tape, each with one axis, or where there is one for each step with two."""
    found = []
    shapes = [tuple(int(axis) for axis in dims) for dims in steps.axes]
    stacked = len(shapes) - steps.summed - steps.stops
    for position, (start, stop, shape) in enumerate(zip(steps.starts, steps.starts[1:], shapes, strict=False)):
        part = residuals[start:stop]
        single = position >= stacked or (position < 2 * steps.carried and position % 2 != steps.reverse)
        found.append(part if single else part.reshape(shape[0], int(np.prod(shape[1:]))))
    return found


def _is_array(argument: Any) -> bool:
    return isinstance(argument, np.ndarray)


def _memory(array: np.ndarray) -> np.ndarray:
    """The array that holds the memory that an array shows."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _evaluation(
    node: BaseNode, operands: list[np.ndarray], out: np.ndarray, sizes: Mapping[type[Dim], int]
) -> Callable[[], None]:
    """A call that computes a node without a kernel."""

    def evaluate() -> None:
        check_index_operands(node, operands, sizes)
        out[...] = np.asarray(node.evaluate(np, *operands, shape=out.shape))

    return evaluate
