"""Calls that read large inputs where the caller has them, and write large outputs to arrays that the caller gets.

Both are copied otherwise, which takes longer than many programs compute.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.native.llvm.calling import BoundFunction, address_of
from wyrm.engines.native.run.fast_calls import FastCall, Taken, fast_call
from wyrm.engines.native.run.runner import NativeRunner
from wyrm.engines.native.stages.loops import Argument, ArrayBuffer, CallArgument, FlatArgument, KernelCall
from wyrm.engines.native.stages.memory import Binding
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.engines.native.stages.write import Head
from wyrm.graph.base import BaseNode
from wyrm.ops.kernels.native import DEBUG
from wyrm.support.memory import aligned_bytes

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
