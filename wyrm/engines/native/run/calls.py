"""Fast path for a call whose data has the shapes and dtypes of the last call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wyrm.engines.columns import check_ranges
from wyrm.engines.native.run.direct import NO_INPUTS, Given, SameShapes, is_direct
from wyrm.engines.native.run.fast_calls import OFTEN, FastCall, Taken
from wyrm.engines.native.run.runner import NativeRunner
from wyrm.engines.native.stages.memory import Binding
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.engines.native.stages.write import Head
from wyrm.graph.axes import open_axes, resolve_axis
from wyrm.graph.base import BaseNode
from wyrm.graph.index_operands import first_out_of_range
from wyrm.graph.leaves import Input
from wyrm.graph.storage import Storage, fits_in, is_finite, stored


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
