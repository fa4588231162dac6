"""Calls of a program for data of the shapes and dtypes of the last call: nothing is copied or looked up twice."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.columns import check_ranges
from wyrm.engines.native.llvm.calling import BoundFunction, address_of
from wyrm.engines.native.run import shuffle
from wyrm.engines.native.run.runner import NativeRunner
from wyrm.engines.native.run.shuffle import are_within, bound
from wyrm.engines.native.stages.loops import Argument, ArrayBuffer, CallArgument, FlatArgument, KernelCall
from wyrm.engines.native.stages.memory import Binding
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.engines.native.stages.write import Head
from wyrm.graph.axes import open_axes, resolve_axis
from wyrm.graph.base import BaseNode
from wyrm.graph.index_operands import first_out_of_range
from wyrm.graph.leaves import Input
from wyrm.graph.storage import LARGEST, Storage, fits_in, is_finite, stored
from wyrm.ops.kernels.native import DEBUG
from wyrm.support.memory import aligned_bytes

# Calls after which a program is worth the milliseconds that preparing takes.
OFTEN = 50


class Taken(NamedTuple):
    """An input: the key of its data in a call, the program's array that the data is copied to, and its checks.

    `limits` are pairs: indices must be at least the first number and below the second one.
    """

    key: Any
    target: np.ndarray
    finite: bool
    limits: Sequence[tuple[int, int]]


# Takes the data by key, and the step number; returns the outputs, None if the data or the state is not as before.
FastCall = Callable[[Any, int], list[Any] | None]


def fast_call(
    binding: Binding, run: BoundFunction, inputs: Sequence[Taken], outputs: Sequence[np.ndarray], by_key: bool
) -> FastCall:
    """Return a function that copies data of the same shapes and dtypes, checks it, runs and copies the outputs.

    `by_key`: the data is a dict; else it is a sequence, and outputs without axes are numbers. Where the function
    returns None, nothing has happened that the full call does not do again, which also raises the errors.
    """
    from wyrm.engines.native.llvm.sequence import Call, CallSequence, SharedState

    checks = [Call(bound(shuffle.is_finite, each.target.reshape(-1)), 1) for each in inputs if each.finite]
    checks += [Call(bound(are_within, each.target.reshape(-1), *limit), 1) for each in inputs for limit in each.limits]
    state = SharedState(1)
    checked = CallSequence([*checks, Call(run)], state) if checks else None
    stop, words, step_word = state.words.data, run.words, run.word_of(Head._fields.index("step"))
    entry, address = run.entry if checked is None else checked.entry
    held: list[tuple[Storage, np.ndarray]] = binding.held
    taken = [(each.key, each.target, each.target.dtype, each.target.shape, _largest(each)) for each in inputs]
    count, kept = len(taken), (run, checked, state)

    def refused() -> None:
        kept[2].begin()
        binding.forget_rows()

    def call(data: Any, step: int) -> list[Any] | None:
        if len(data) != count:
            return None
        for storage, array in held:
            if storage.array is not array:
                return None
        for key, target, dtype, shape, largest in taken:
            value = data.get(key) if by_key else data[key]
            if type(value) is np.ndarray:
                if value.dtype is not dtype or value.shape != shape:
                    return None
            elif type(value) is not float or not -largest <= value <= largest:
                return None
            target[...] = value
        words[step_word] = step
        if entry(address) or stop[0]:
            refused()
            return None
        if by_key:
            return [array.copy("K") for array in outputs]
        return [array.copy("K") if array.shape else array[()] for array in outputs]

    return call


def _largest(taken: Taken) -> float:
    """Return the largest number of Python's that may stand for the data; below 0 if none may."""
    return -1.0 if taken.target.shape else LARGEST.get(taken.target.dtype, -1.0)


# Bytes from which an array is not copied; below, preparing that takes longer.
LARGE = 2**16
# Memory of one output that is kept for later calls: while the caller holds a result, the next one needs other memory.
_KEPT = 2


class _Place(NamedTuple):
    """A word of the argument table with an address in an array: `offset` bytes after its beginning."""

    word: int
    offset: int


class Moved:
    """An array of the program, and the words of the argument table that point into it."""

    def __init__(self, words: memoryview[int], array: np.ndarray, places: Sequence[_Place]) -> None:
        self._words, self._places, self._home = words, places, address_of(array)

    def to(self, address: int) -> None:
        """Let the program use the memory at an address."""
        for word, offset in self._places:
            self._words[word] = address + offset

    def back(self) -> None:
        """Let the program use its own array again."""
        self.to(self._home)


class _Result:
    """The memory that an output is written to: what the caller no longer holds, or else new memory."""

    def __init__(self, moved: Moved, array: np.ndarray) -> None:
        self.moved, self._like = moved, array
        self._blocks: list[NDArray[np.uint8]] = []
        self._last = 0

    def renew(self) -> None:
        """Choose memory that nobody holds, and let the program write to it."""
        blocks = self._blocks
        for position, block in enumerate(blocks):
            if _references(block) == _UNHELD:
                self._last = position
                break
        else:
            if len(blocks) == _KEPT:
                del blocks[0]
            blocks.append(aligned_bytes(self._like.nbytes))
            self._last = len(blocks) - 1
        self.moved.to(address_of(blocks[self._last]))

    def array(self) -> np.ndarray:
        """Return the output in the memory that `renew` chose."""
        like = self._like
        return np.ndarray(like.shape, like.dtype, self._blocks[self._last], 0, like.strides)


# An input of the program, and the array to read.
Given = tuple[Moved, np.ndarray]


class DirectArrays:
    """The inputs and outputs of a program that its calls need not copy.

    Outside of a call, the program has its own arrays.
    """

    def __init__(self, graph: NativeGraph, binding: Binding) -> None:
        self.bound: BoundFunction = binding.compiled
        outputs = graph.tree.outputs
        roots = [buffer.root for buffer in outputs]
        self.results: list[_Result | None] = [
            self._result(binding, buffer) if roots.count(buffer.root) == 1 else None for buffer in outputs
        ]
        self.inputs: dict[BaseNode, Moved] = {}
        for leaf, buffer in graph.source.fed:
            array = binding.array(buffer)
            if leaf.dtype.kind == "f" and array.nbytes >= LARGE and buffer not in roots and not self.bound.may_fail:
                self.inputs[leaf] = self._moved(binding, buffer)
        self._used: list[Moved] = []

    def begin(self, given: Sequence[Given]) -> None:
        """Let the program read these arrays, and write its results to memory that nobody holds."""
        for moved, array in given:
            self._used.append(moved)
            moved.to(address_of(array))
        for result in self.results:
            if result is not None:
                self._used.append(result.moved)
                result.renew()

    def end(self) -> None:
        """Give the program its own arrays again."""
        for moved in self._used:
            moved.back()
        self._used.clear()

    def _result(self, binding: Binding, buffer: ArrayBuffer) -> _Result | None:
        array, root = binding.array(buffer), binding.array(buffer.root)
        if buffer.root.leaf is not None or buffer.root.fixed is not None or array.nbytes < LARGE:
            return None
        if array.nbytes != root.nbytes or address_of(array) != address_of(root) or 0 in array.strides:
            return None
        return _Result(self._moved(binding, buffer.root), array)

    def _moved(self, binding: Binding, root: ArrayBuffer) -> Moved:
        array = binding.array(root)
        first, arguments = address_of(array), list(binding.source.arguments.values())
        before = len(self.bound.arguments) - len(arguments)
        places = [
            _Place(word, address_of(part) - first)
            for position, word, part in self.bound.pointers()
            if position >= before and _is_part(arguments[position - before], part, root, first, array.nbytes)
        ]
        return Moved(self.bound.words, array, places)


def _is_part(argument: Argument, part: np.ndarray, root: ArrayBuffer, first: int, size: int) -> bool:
    """Return whether an array that is passed as an argument is a part of the array of `root`.

    Arrays that a call uses at the same time do not overlap, unlike those of different calls.
    """
    if isinstance(argument, ArrayBuffer):
        return argument.root is root
    if isinstance(argument, FlatArgument):
        return argument.buffer.root is root
    if not isinstance(argument, CallArgument):
        return False
    call = argument.call
    if not isinstance(call, KernelCall):
        return False
    used = {buffer.root for buffer in (*call.operands, call.out)}
    return root in used and 0 <= address_of(part) - first < size


def _references(block: NDArray[np.uint8]) -> int:
    """Return the number of references to the owner of a block's memory; each array in that memory has one."""
    return sys.getrefcount(block.base)


_UNHELD = _references(aligned_bytes(0))


NO_INPUTS: Mapping[BaseNode, Moved] = MappingProxyType({})


class SameShapes:
    """The calls of a program for data of the same shapes."""

    def __init__(self, graph: NativeGraph, binding: Binding) -> None:
        self.binding = binding
        self._graph = graph
        self._columns: Sequence[np.ndarray] = [graph.no_columns[leaf] for leaf in binding.columns]
        self._outputs = [binding.array(buffer) for buffer in graph.tree.outputs]
        # Made for the compiled function, whose table it changes; None if everything is copied.
        self._direct: DirectArrays | None = None
        self._made_for: object = None

    def inputs(self) -> Mapping[BaseNode, Moved]:
        """Return the inputs that `run` takes arrays for; the others are copied to the program's arrays."""
        compiled = self.binding.compiled
        if compiled is not self._made_for:
            self._made_for, self._direct = compiled, None
            if isinstance(compiled, BoundFunction) and not DEBUG:
                found = DirectArrays(self._graph, self.binding)
                self._direct = found if found.inputs or any(found.results) else None
        return NO_INPUTS if self._direct is None else self._direct.inputs

    def run(self, runner: NativeRunner, head: Head, given: Sequence[Given] = ()) -> list[np.ndarray] | None:
        """Return new arrays of the outputs; None if something must be compiled first."""
        direct = self._direct
        if direct is None:
            return self.outputs() if runner.repeat(self.binding, head, self._columns) is not None else None
        direct.begin(given)
        try:
            if runner.repeat(self.binding, head, self._columns) is None:
                return None
            pairs = zip(self._outputs, direct.results, strict=True)
            return [array.copy("K") if result is None else result.array() for array, result in pairs]
        finally:
            direct.end()

    def fast_call(self, runner: NativeRunner, head: Head, inputs: Sequence[Taken], *, by_key: bool) -> FastCall | None:
        """Return what does a whole call; None if a call writes or reads arrays where the caller has them."""
        if not runner.compiled or self._direct is not None or any(each.target.nbytes >= LARGE for each in inputs):
            return None
        run = runner.bound(self.binding, self._graph.no_columns, head)
        return fast_call(self.binding, run, inputs, self._outputs, by_key)

    def outputs(self) -> list[np.ndarray]:
        """Return copies of the outputs in the program's own arrays."""
        return [array.copy("K") for array in self._outputs]


def is_direct(array: np.ndarray) -> bool:
    """Return whether a program can read an array where it is."""
    return array.flags.c_contiguous and array.flags.aligned


class _InputTarget(NamedTuple):
    """An input, and the program's array that its data is copied to."""

    leaf: BaseNode
    storage: Storage
    target: np.ndarray
    dtype: np.dtype
    shape: tuple[int, ...]
    finite: bool
    # For integers: the size of each axis that they index, the index to ignore, and whether others count from the end.
    limits: tuple[tuple[int, int | None, bool], ...]

    @property
    def taken(self) -> Taken:
        """What a fast call needs to know."""
        limits = [(-size if from_end else 0, size) for size, _, from_end in self.limits]
        return Taken(self.leaf, self.target, self.finite and self.dtype.kind == "f", limits)

    def is_within(self, array: np.ndarray) -> bool:
        """Return whether all indices are in range."""
        # Mostly there are no limits; a generator alone would take longer than everything else here.
        return not self.limits or all(
            first_out_of_range(array, size, ignore_index, from_end) is None
            for size, ignore_index, from_end in self.limits
        )


class RepeatedCall:
    """The arrays of a program for data with the shapes and dtypes of the last call.

    With `copies`, the program's own arrays get all data.
    """

    def __init__(self, graph: NativeGraph, binding: Binding, *, copies: bool = False) -> None:
        self.calls: SameShapes = SameShapes(graph, binding)
        self._copies = copies
        self.binding = binding
        self._targets = [
            _InputTarget(
                leaf, stored(leaf), binding.array(buffer), leaf.dtype, binding.array(buffer).shape,
                isinstance(leaf, Input) and leaf._finite,
                tuple(
                    (resolve_axis(axis, binding.sizes), ignore_index, from_end)
                    for limited, _, (_, axis, ignore_index, from_end), _ in graph.ranges.limits
                    # Native code checks the others.
                    if limited is leaf and set(open_axes((axis,))) <= binding.sizes.keys()
                ),
            )
            for leaf, buffer in graph.source.fed
        ]  # fmt: skip
        # `take` counts the keys that it knows, so every input needs a target.
        self._usable = {each.leaf for each in self._targets} == set(graph.inputs)
        self._given: list[Given] = []
        self._calls = 0
        # Does the whole of a call, once there were many.
        self.fast_call: FastCall | None = None

    def take(self, feed: object) -> bool:
        """Take the data of a call if it has these shapes and dtypes; False leaves it to the full check."""
        if type(feed) is not dict or not self._usable or not self.binding.is_current():
            return False
        direct = NO_INPUTS if self._copies else self.calls.inputs()
        self._given.clear()
        given = 0
        for entry in self._targets:
            leaf, storage, target, dtype, shape, finite, _ = entry
            if leaf not in feed:
                array = storage.array
                if array is None or array.shape != shape or not entry.is_within(array):
                    return False
                if leaf in direct and array.dtype is dtype and is_direct(array):
                    self._given.append((direct[leaf], array))
                else:
                    target[...] = array
                continue
            given += 1
            value: object = feed[leaf]
            if type(value) is float:
                if shape or not fits_in(value, dtype):
                    return False
                target[()] = value
            elif isinstance(value, np.floating) and value.dtype is dtype:
                if shape or not fits_in(float(value), dtype):
                    return False
                target[()] = value
            elif type(value) is np.ndarray and value.dtype is dtype and value.shape == shape:
                if (finite and not is_finite(value)) or not entry.is_within(value):
                    return False
                if leaf in direct and is_direct(value):
                    self._given.append((direct[leaf], value))
                else:
                    target[...] = value
            else:
                return False
        return given == len(feed)

    def run(self, runner: NativeRunner, head: Head) -> list[np.ndarray] | None:
        """Run with the data taken and return new arrays of the outputs; None if something must be compiled first."""
        try:
            found = self.calls.run(runner, head, self._given)
        finally:
            self._given.clear()
        self._calls += 1
        if self._calls == OFTEN and found is not None:
            self.fast_call = self.calls.fast_call(runner, head, [each.taken for each in self._targets], by_key=True)
        return found


_NOTHING = np.zeros((1, 0))


class FixedShapeProgram:
    """A program without an optimizer whose input axes all have sizes; a call takes one array for each input."""

    def __init__(
        self,
        outputs: Sequence[BaseNode],
        inputs: Sequence[BaseNode],
    ) -> None:
        self.runner: NativeRunner = NativeRunner(NativeGraph(outputs, None), "auto")
        read = set(self.runner.graph.inputs)
        self._read = [(position, leaf) for position, leaf in enumerate(inputs) if leaf in read]
        self._shapes = {leaf: leaf.shape for _, leaf in self._read}
        # The first arguments of `run`; only the step number of random nodes changes.
        self._head = Head(0, 1, 0, 0, np.zeros(1, np.int64), np.zeros(1), _NOTHING)
        self._calls: SameShapes | None = None
        # The binding's arrays that arguments are copied to.
        self._targets: list[tuple[int, BaseNode, np.ndarray]] = []
        self._limits = self.runner.graph.ranges.limits
        self._made = 0
        # Does the whole of a call, once there were many.
        self.fast_call: FastCall | None = None
        # Whether there are random nodes, which need a step number.
        self.draws: bool = self.runner.graph.draws

    @property
    def source(self) -> str:
        """The generated source."""
        return self.runner.text

    def prepare(self) -> None:
        """Compile or load the program; raise `CompileError` if that fails."""
        self.runner.prepare(self._bound().binding, self.runner.graph.no_columns)

    def release(self) -> None:
        """Free all arrays; the next call allocates them again."""
        self._calls, self._targets, self.fast_call, self._made = None, [], None, 0
        self.runner.release()

    def __call__(self, arrays: Sequence[np.ndarray | float], step: int = 0) -> list[Any]:
        """Return the outputs, scalars as numbers; `arrays` must have the shapes and dtypes of the inputs."""
        calls = self._bound()
        if self._limits:
            check_ranges(self._limits, {leaf: np.asarray(arrays[position]) for position, leaf in self._read}, {})
        direct, given = calls.inputs(), list[Given]()
        for position, leaf, target in self._targets:
            array = arrays[position]
            if leaf in direct and isinstance(array, np.ndarray) and array.dtype == target.dtype and is_direct(array):
                given.append((direct[leaf], array))
            else:
                target[...] = array
        if step != self._head.step:
            self._head = self._head._replace(step=step)
        found = calls.run(self.runner, self._head, given)
        if found is None:
            for position, _, target in self._targets:
                target[...] = arrays[position]
            self.runner.call(calls.binding, self.runner.graph.no_columns, self._head)
            found = calls.outputs()
        self._made += 1
        if self._made % OFTEN == 0 and self.fast_call is None and not self._limits:
            taken = [Taken(position, target, False, ()) for position, _, target in self._targets]
            if sorted(each.key for each in taken) == list(range(len(arrays))):
                self.fast_call = calls.fast_call(self.runner, self._head, taken, by_key=False)
        return [array if array.shape else array[()] for array in found]

    def _bound(self) -> SameShapes:
        """Return the program with its arrays, rebuilt if a leaf has a new array."""
        calls = self._calls
        if calls is None or not calls.binding.is_current():
            graph = self.runner.graph
            self.fast_call = None
            calls = self._calls = SameShapes(graph, self.runner.binding(self._shapes))
            positions = {leaf: position for position, leaf in self._read}
            self._targets = [
                (positions[leaf], leaf, calls.binding.array(buffer)) for leaf, buffer in graph.source.fed
            ]  # fmt: skip
        return calls
