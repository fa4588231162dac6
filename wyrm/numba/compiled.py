"""`NumbaFunction`: a compiled function with arrays of its own, which code that numba compiles calls by address."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wyrm.engines.columns import check_ranges
from wyrm.engines.native.llvm.calling import BoundFunction
from wyrm.engines.native.run.runner import NativeRunner
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.engines.native.stages.write import Head
from wyrm.errors import CompileError, DTypeError, OptionError, ShapeError
from wyrm.graph.axes import resolve_axis
from wyrm.graph.base import BaseNode
from wyrm.graph.index_operands import used

# The order of rows of a call, and the optimizer's numbers, of which there are none.
_ALONE, _NOTHING = np.zeros(1, np.int64), np.zeros((1, 0))


class NumbaFunction:
    """A compiled function for code that numba compiles, made by `callable`.

    A call takes one array for each input, of the dtype and the shape of its example, and returns new arrays: one for
    one output, else a tuple. Outputs without axes are numbers. `ValueError` is raised for an array of another shape,
    and `IndexError` for an index that is out of range. Python may call it too.

    One object works on arrays of its own, so two threads must not call it at the same time: see `copies`.
    """

    def __init__(
        self, name: str, outputs: Sequence[BaseNode], inputs: Sequence[BaseNode], shapes: Sequence[Any]
    ) -> None:
        self._parts = name, outputs, inputs, shapes
        self.__name__ = name
        self._runner = runner = NativeRunner(NativeGraph(outputs, None), "auto")
        if runner.graph.source.evaluated:
            node = runner.graph.source.evaluated[0].node
            raise CompileError(
                f"{name} cannot be called from numba: op {type(node).__name__} ({node.location}) has no native form"
            )
        sizes = dict(zip(inputs, shapes, strict=True))
        self._binding = binding = runner.binding({leaf: sizes[leaf] for leaf in runner.graph.inputs})
        self._head = Head(0, 1, 0, 0, _ALONE, np.zeros(1 + len(outputs)), _NOTHING)
        self._bound = bound = runner.prepare(binding, runner.graph.no_columns, self._head)
        assert isinstance(bound, BoundFunction)
        places = dict(runner.graph.source.fed)
        given = [(leaf, binding.array(places[leaf]) if leaf in places else np.zeros(shape, leaf.dtype))
                 for leaf, shape in sizes.items()]  # fmt: skip
        step = bound.word_of(Head._fields.index("step")) if runner.graph.draws else -1
        # What native code takes: the address, the table of arguments and the place of the step in it, the arrays that
        # inputs are copied to with the bounds of their integers, and the arrays that outputs are copied from.
        self.native = (
            ctypes.cast(bound.entry[0], ctypes.c_void_p).value or 0,  # type: ignore[arg-type]  # a ctypes function
            np.asarray(bound.words),
            step,
            tuple(array for _, array in given),
            tuple(self._integer_bounds(leaf, array) for leaf, array in given),
            tuple(map(binding.array, runner.graph.tree.outputs)),
        )

    def __call__(self, *arrays: ArrayLike) -> Any:
        """Return the outputs for these arrays."""
        runner, inputs = self._runner, self._parts[2]
        if len(arrays) != len(inputs):
            raise ShapeError(f"{self.__name__} takes {len(inputs)} arrays, not {len(arrays)}")
        targets = self.native[3]
        given = {
            leaf: self._fitting_array(*each)
            for leaf, each in zip(inputs, zip(arrays, targets, strict=True), strict=True)
        }
        check_ranges(runner.graph.ranges.limits, given, self._binding.sizes)
        for target, array in zip(targets, given.values(), strict=True):
            target[...] = array
        runner.call(self._binding, runner.graph.no_columns, self._head)
        self._count_call()
        found = tuple(output.copy() if output.ndim else output[()] for output in self.native[5])
        return found[0] if len(found) == 1 else found

    def copies(self, count: int) -> tuple[NumbaFunction, ...]:
        """Return so many functions that share the machine code and no arrays: one for each thread of a `prange`."""
        if count < 1:
            raise OptionError(f"copies takes a number of at least 1, not {count}")
        return tuple(NumbaFunction(*self._parts) for _ in range(count))

    def _integer_bounds(self, leaf: BaseNode, array: np.ndarray) -> NDArray[np.int64]:
        """Return the lowest and the highest integer of each element of an input; empty without bounds."""
        limits = [limit for limit in self._runner.graph.ranges.limits if limit.leaf is leaf]
        if not limits:
            return np.zeros((0, 2), np.int64)
        found = np.empty((array.size, 2), np.int64)
        found[:] = np.iinfo(np.int64).min, np.iinfo(np.int64).max
        for limit in limits:
            _, axis, ignored, from_end = limit.choice
            size = resolve_axis(axis, self._binding.sizes)
            mask = None if limit.part is None else used(limit.part, array.shape)
            where = np.s_[:] if mask is None else mask.reshape(-1)
            low, high = -size if from_end else 0, size - 1
            if ignored is not None:
                low, high = min(low, ignored), max(high, ignored)
            found[where, 0] = np.maximum(found[where, 0], low)
            found[where, 1] = np.minimum(found[where, 1], high)
        return found

    def _fitting_array(self, given: ArrayLike, own: np.ndarray) -> np.ndarray:
        array = np.asarray(given)
        if array.dtype != own.dtype:
            raise DTypeError(f"{self.__name__} takes an array of {own.dtype}, not of {array.dtype}")
        if array.shape != own.shape:
            raise ShapeError(f"{self.__name__} takes an array of shape {own.shape}, as its example, not {array.shape}")
        return array

    def _count_call(self) -> None:
        """Count a call, if there are random nodes: the next one draws anew."""
        _, table, step, *_ = self.native
        if step >= 0:
            table[step] += 1
            self._head = self._head._replace(step=int(table[step]))

    def __repr__(self) -> str:
        return f"<wyrm.numba.callable {self.__name__}>"
