"""`BoundCall`: calls for data of the last call's shapes and dtypes, where nothing is looked up or copied twice."""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.columns import check_ranges
from wyrm.engines.native.llvm.calling import BoundFunction, address_of, holding_the_gil
from wyrm.engines.native.run import shuffle
from wyrm.engines.native.run.runner import NativeRunner
from wyrm.engines.native.stages.loops import Argument, ArrayBuffer, CallArgument, FlatArgument, KernelCall
from wyrm.engines.native.stages.memory import Binding
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.engines.native.stages.write import Head
from wyrm.graph.axes import open_axes, resolve, resolve_axis
from wyrm.graph.base import BaseNode
from wyrm.graph.index_operands import first_out_of_range
from wyrm.graph.leaves import Input
from wyrm.graph.storage import LARGEST, is_finite, stored
from wyrm.ops.kernels.native import DEBUG
from wyrm.support.memory import aligned_bytes

# Calls after which a program is worth the milliseconds that it takes to load native checks.
OFTEN = 50
# Seconds of native code from which other threads run Python meanwhile. To hand over the GIL and to wait for it again
# takes longer than less than that, so that threads with short calls were slower together than one of them alone.
SHORT = 20e-6
# Bytes from which an array is not copied; below, preparing that takes longer.
LARGE = 2**16
# NumPy lets other threads run Python while it copies more elements than these.
_COPIED = 500
# Memory of one output that is kept for later calls: while the caller holds a result, the next one needs other memory.
_KEPT = 2
_STEP = Head._fields.index("step")


class _Pointer:
    """Words of argument tables with addresses in an array: the table, the word, and the bytes before the address."""

    def __init__(self, words: list[tuple[memoryview[int], int, int]]) -> None:
        self.words = words

    def to(self, array: np.ndarray) -> None:
        """Let the functions use the memory of another array."""
        address = address_of(array)
        for table, word, offset in self.words:
            table[word] = address + offset


class _Result:
    """The memory that an output is written to: what the caller no longer holds, or else new memory."""

    def __init__(self, pointer: _Pointer, array: np.ndarray) -> None:
        self._pointer, self._like = pointer, array
        self._blocks: list[NDArray[np.uint8]] = []
        self._last = 0

    def renew(self) -> None:
        """Choose memory that nobody holds, and let the program write to it."""
        blocks = self._blocks
        for position, block in enumerate(blocks):
            if _COUNTS and _references(block) == _UNHELD:
                self._last = position
                break
        else:
            if len(blocks) == _KEPT:
                del blocks[0]
            blocks.append(aligned_bytes(self._like.nbytes))
            self._last = len(blocks) - 1
        self._pointer.to(blocks[self._last])

    def array(self) -> np.ndarray:
        """Return the output in the memory that `renew` chose."""
        like = self._like
        return np.ndarray(like.shape, like.dtype, self._blocks[self._last], 0, like.strides)


def _references(block: NDArray[np.uint8]) -> int:
    """Return the number of references to the owner of a block's memory; each array in that memory has one."""
    return sys.getrefcount(block.base)


_UNHELD = _references(aligned_bytes(0))
# Without the GIL, the number of references is not known while other threads change it.
_COUNTS: bool = getattr(sys, "_is_gil_enabled", lambda: True)()


class _BoundInput:
    """An input: the key of its data in a call, the array that the data is copied to, and what the data must be."""

    def __init__(self, key: Any, leaf: BaseNode, target: np.ndarray, graph: NativeGraph, binding: Binding) -> None:
        self.key, self.leaf, self.target = key, leaf, target
        self._finite = leaf.dtype.kind == "f" and isinstance(leaf, Input) and leaf._finite
        # For integers: the size of an axis that they index, the index to ignore, and whether others count from the end.
        self._limits = [
            (resolve_axis(axis, binding.sizes), ignored, from_end)
            for limited, _, (_, axis, ignored, from_end), _ in graph.ranges.limits
            # Native code checks the others.
            if limited is leaf and set(open_axes((axis,))) <= binding.sizes.keys()
        ]
        # Whether Python checks the data.
        self._checked = bool(self._finite or self._limits)
        # For data that is not copied if its place in memory allows that; or the bytes of the array that it is copied to
        # without NumPy.
        self.pointer: _Pointer | memoryview[int] | None = None

    @property
    def entry(self) -> tuple[Any, ...]:
        """What a call reads, as a plain tuple, which is fast.

        That is the key, the array that data is copied to, its dtype and shape, the largest Python number that the data
        may be, below 0 if it may be none, what checks an array, and the pointer.
        """
        target, passes = self.target, is_finite if self._finite else self._are_within
        largest = -1.0 if target.shape else LARGEST.get(target.dtype, -1.0)
        return self.key, target, target.dtype, target.shape, largest, passes if self._checked else None, self.pointer

    def _are_within(self, array: np.ndarray) -> bool:
        return all(first_out_of_range(array, *limit) is None for limit in self._limits)

    def native_checks(self) -> list[BoundFunction]:
        """Return functions that check the data instead of Python: they return 1 if it passes."""
        flat = self.target.reshape(-1)
        checks = [shuffle.bound(shuffle.is_finite, flat)] if self._finite else []
        for size, ignored, from_end in self._limits:
            others = (0, 0) if ignored is None else (ignored, 1)
            checks.append(shuffle.bound(shuffle.are_within, flat, -size if from_end else 0, size, *others))
        if isinstance(self.pointer, _Pointer):
            self.pointer.words += [(check.words, 0, 0) for check in checks]
        self._checked = False
        return checks


class BoundCall:
    """A program bound to arrays for data of given shapes: it takes the data of a call, checks it, runs and returns.

    The data is a dict by input; or, with `by_key=False`, a sequence in the order of `inputs`, and outputs without axes
    are numbers. With `run_step`, that runs the program, on the data in the arrays of the binding.

    The first call copies the table of arguments of the full call before. Pointers to large arrays change in it with
    each call, so that these are not copied. After many calls, native code checks the data before it runs.
    """

    def __init__(
        self,
        runner: NativeRunner,
        binding: Binding,
        inputs: Sequence[BaseNode],
        *,
        by_key: bool = True,
        run_step: Callable[[Binding], None] | None = None,
    ) -> None:
        # The binding has this, so a reference back would keep its memory until garbage is collected.
        self._binding = weakref.ref(binding)
        self._runner, self._by_key, self._run_step = runner, by_key, run_step
        graph, fed = runner.graph, dict(runner.graph.source.fed)
        self._inputs: list[_BoundInput] = []
        for position, leaf in enumerate(inputs):
            # The program has no array for data of which only the shape counts, but that is checked too.
            array = binding.array(fed[leaf]) if leaf in fed else np.empty(resolve(leaf.dims, binding.sizes), leaf.dtype)
            self._inputs.append(_BoundInput(leaf if by_key else position, leaf, array, graph, binding))
        self._leaves, self._count, self._held, self._draws = inputs, len(inputs), binding.held, graph.draws
        self._entries = [each.entry for each in self._inputs]
        self._arrays = [binding.array(buffer) for buffer in graph.tree.outputs]
        self._copies: list[Callable[[], Any]] = [
            partial(each.copy, "K") if by_key or each.shape else partial(each.__getitem__, ()) for each in self._arrays
        ]
        # What gives the outputs after a call, and the memory of those that are not copied.
        self._outputs, self._results = self._copies, list[_Result]()
        # The arrays of the caller that the program reads, by key.
        self._read: dict[Any, np.ndarray] = {}
        # The calls after which native code checks the data; 0 if it does.
        self._left = OFTEN
        # Its first number is not 0 if native code has found data that does not pass.
        self._stop: Any = [0]
        # The seconds of the shortest of the calls that were measured.
        self._shortest = math.inf

    @property
    def binding(self) -> Binding:
        """The arrays of the program, which whoever calls holds."""
        binding = self._binding()
        assert binding is not None
        return binding

    def call(self, data: Any, step: int) -> list[Any] | None:
        """Return new arrays of the outputs; None if a full call must tell what is wrong, or what is not as before.

        Nothing has happened then that the full call does not do again.
        """
        by_key = self._by_key
        if len(data) != self._count:
            if by_key:  # inputs may hold data
                data = {leaf: stored(leaf).array for leaf in self._leaves} | data
            if len(data) != self._count:
                return None
        for storage, array in self._held:
            if storage.array is not array:
                return None
        for key, target, dtype, shape, largest, passes, pointer in self._entries:
            value = data.get(key) if by_key else data[key]
            if type(value) is np.ndarray:
                if (value.dtype is not dtype and value.dtype != dtype) or value.shape != shape:
                    return None
                if passes is not None and not passes(value):
                    return None
            elif type(value) is float:
                if not -largest <= value <= largest:
                    return None
            elif not isinstance(value, np.floating) or value.dtype != dtype or not abs(float(value)) <= largest:
                return None
            if pointer is None:
                target[...] = value
            elif type(pointer) is memoryview:
                try:
                    pointer[:] = memoryview(value).cast("B")  # pyright: ignore[reportArgumentType]
                except (TypeError, ValueError):  # a number, or strides
                    target[...] = value
            elif isinstance(value, np.ndarray) and value.flags.c_contiguous and value.flags.aligned:
                self._read[key] = value
                pointer.to(value)
            else:
                target[...] = value
                pointer.to(target)
        if self._left:
            if self._run_step is not None:
                self._run_step(self.binding)
                return self.outputs()
            if not self._prepare():
                return None
        if self._draws:
            self._words[self._step_word] = step
        for result in self._results:
            result.renew()
        failed = self._entry(self._address) or self._stop[0]
        if self._read:
            self._read.clear()
        if failed:
            self._stop[0] = 0
            self.binding.forget_rows()
            return None
        found: list[Any] = []
        for output in self._outputs:
            found.append(output())  # noqa: PERF401  # a comprehension takes twice as long in Python 3.11
        return found

    def outputs(self) -> list[Any]:
        """Return copies of the outputs in the arrays of the binding, as a full call leaves them there."""
        return [copy() for copy in self._copies]

    # --- preparing ------------------------------------------------------------------------------------------------

    def _prepare(self) -> bool:
        """Make what the next calls need; return False if the program is not compiled."""
        if not self._runner.compiled:
            return False
        if self._left == OFTEN:
            self._bind()
        self._left -= 1
        if not self._left:
            self._entry, self._address = self._run.entry
            self._check_natively()
            if self._shortest < SHORT:
                self._keep_the_gil()
        return True

    def _keep_the_gil(self) -> None:
        """Let no other thread run Python within a call."""
        self._entry = holding_the_gil(self._entry)
        for each in self._inputs:
            if each.pointer is None and _is_copied_without_the_gil(each.target):
                each.pointer = each.target.data.cast("B")
        self._entries = [each.entry for each in self._inputs]
        pairs = zip(self._outputs, self._copies, self._arrays, strict=True)
        self._outputs = [
            _copy_holding_the_gil(array) if output is copy and _is_copied_without_the_gil(array) else output
            for output, copy, array in pairs
        ]

    def _measured(self, address: int) -> int:
        entry, _ = self._run.entry
        began = perf_counter()
        status = entry(address)
        self._shortest = min(self._shortest, perf_counter() - began)
        return status

    def _bind(self) -> None:
        """Make the table of arguments, and find the arrays that are not copied."""
        graph, binding = self._runner.graph, self.binding
        self._run: BoundFunction = binding.compiled.copy()
        self._words, self._step_word = self._run.words, self._run.word_of(_STEP)
        self._entry, self._address = self._measured, self._run.entry[1]
        if DEBUG:
            return
        outputs, fed = graph.tree.outputs, dict(graph.source.fed)
        roots = [buffer.root for buffer in outputs]
        for each in self._inputs:
            # Integers are copied: if another thread changed an index after the check, it could be out of range.
            if each.target.nbytes >= LARGE and each.leaf.dtype.kind == "f" and fed.get(each.leaf) not in roots:
                each.pointer = self._pointer(fed[each.leaf]) if each.leaf in fed else _Pointer([])
        results = [self._result(buffer) if roots.count(buffer.root) == 1 else None for buffer in outputs]
        pairs = zip(self._copies, results, strict=True)
        self._outputs = [copy if result is None else result.array for copy, result in pairs]
        self._results = [each for each in results if each is not None]
        self._entries = [each.entry for each in self._inputs]

    def _result(self, buffer: ArrayBuffer) -> _Result | None:
        array, root = self.binding.array(buffer), self.binding.array(buffer.root)
        if buffer.root.leaf is not None or buffer.root.fixed is not None or array.nbytes < LARGE:
            return None
        if array.nbytes != root.nbytes or address_of(array) != address_of(root) or 0 in array.strides:
            return None
        return _Result(self._pointer(buffer.root), array)

    def _pointer(self, root: ArrayBuffer) -> _Pointer:
        run, binding = self._run, self.binding
        array, arguments = binding.array(root), list(binding.source.arguments.values())
        first = address_of(array)
        before = len(run.arguments) - len(arguments)
        found = [
            (run.words, word, address_of(part) - first)
            for position, word, part in run.pointers()
            if position >= before and _is_part(arguments[position - before], part, root, first, array.nbytes)
        ]
        return _Pointer(found)

    def _check_natively(self) -> None:
        """Let native code check the data before it runs."""
        from wyrm.engines.native.llvm.sequence import Call, CallSequence, SharedState

        checks = [Call(check, 1) for each in self._inputs for check in each.native_checks()]
        if checks:
            state = SharedState(1)
            self._sequence = CallSequence([*checks, Call(self._run)], state)
            self._stop, (self._entry, self._address) = state.words.data, self._sequence.entry
            self._entries = [each.entry for each in self._inputs]  # last, so that no interrupt leaves data unchecked


def _is_copied_without_the_gil(array: np.ndarray) -> bool:
    return array.size > _COPIED and array.flags.c_contiguous


def _copy_holding_the_gil(array: np.ndarray) -> Callable[[], np.ndarray]:
    """Return a function that copies a contiguous array as a single element, for which NumPy keeps the GIL."""
    whole = array.reshape(-1).view(f"V{array.nbytes}").reshape(())
    like = np.dtype((array.dtype, array.shape))
    return lambda: whole.copy().view(like)


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


class FixedShapeProgram:
    """A program without an optimizer whose input axes all have sizes; a call takes one array for each input."""

    def __init__(self, outputs: Sequence[BaseNode], inputs: Sequence[BaseNode]) -> None:
        self.runner: NativeRunner = NativeRunner(NativeGraph(outputs, None), "auto")
        read = set(self.runner.graph.fed)
        self._inputs = inputs
        self._read = [(position, leaf) for position, leaf in enumerate(inputs) if leaf in read]
        # The first arguments of `run`.
        self._head = Head(0, 1, 0, 0, np.zeros(1, np.int64), np.zeros(1), np.zeros((1, 0)))
        # The arrays of the last call, and what does a whole call on them.
        self._last: Binding | None = None
        self.fast_call: Callable[[Any, int], list[Any] | None] | None = None
        # Whether there are random nodes, which need a step number.
        self.draws: bool = self.runner.graph.draws

    @property
    def source(self) -> str:
        """The generated source."""
        return self.runner.text

    def prepare(self) -> None:
        """Compile or load the program; raise `CompileError` if that fails."""
        self.runner.prepare(self._binding(), self.runner.graph.no_columns)

    def release(self) -> None:
        """Free all arrays; the next call allocates them again."""
        self._last = self.fast_call = None
        self.runner.release()

    def __call__(self, arrays: Sequence[np.ndarray], step: int = 0) -> list[Any]:
        """Return the outputs, scalars as numbers; `arrays` must have the shapes and dtypes of the inputs."""
        found = None if self.fast_call is None else self.fast_call(arrays, step)
        if found is not None:
            return found
        graph, given = self.runner.graph, {leaf: arrays[position] for position, leaf in self._read}
        check_ranges(graph.ranges.limits, given, {})
        binding = self._binding()
        for leaf, buffer in graph.source.fed:
            binding.array(buffer)[...] = given[leaf]
        self.runner.call(binding, graph.no_columns, self._head._replace(step=step))
        if binding.repeated is None:
            binding.repeated = BoundCall(self.runner, binding, self._inputs, by_key=False)
        self._last, self.fast_call = binding, binding.repeated.call
        return binding.repeated.outputs()

    def _binding(self) -> Binding:
        """Return the arrays, new ones if a leaf has a new array."""
        return self.runner.binding({leaf: leaf.shape for _, leaf in self._read})
