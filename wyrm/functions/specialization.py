"""A traced function for one signature of its arguments, run by an engine."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wyrm.engines.numpy.reference import ReferenceRunner
from wyrm.engines.registry import DEFAULT, engine_class
from wyrm.errors import CompileError
from wyrm.functions.pytree import Leaf, unflatten
from wyrm.functions.tracing import (
    Kind,
    Trace,
    number_dtype,
)
from wyrm.graph.axes import axis_size
from wyrm.graph.op import cell_of, set_cell
from wyrm.graph.rows import RowSparse
from wyrm.graph.storage import store, stored
from wyrm.graph.traversal import topological_order
from wyrm.ops.random.philox import advance_step

if TYPE_CHECKING:
    from wyrm.engines.fixed_shapes import FixedShapes


# Engines of functions that compile nothing, or that choose.
UNCOMPILED = ("reference", "auto")


class Specialization:
    """A function specialized to one signature: the shapes and dtypes of its arguments and its static arguments."""

    def __init__(self, trace: Trace, kinds: Sequence[Kind], engine: str, plain: bool) -> None:
        self.trace = trace
        # "auto" becomes the engine that it chooses.
        self.engine = engine
        # The signature if every argument is one array or number, so that `fits` can check it fast.
        self._arrays = kinds if plain else None
        self._dtypes = [dtype for _, dtype in kinds]
        self._integers = [position for position, dtype in enumerate(self._dtypes) if dtype.kind == "i"]
        self._storages = [stored(leaf) for leaf in trace.inputs]
        self._runner: ReferenceRunner | None = None
        # Whether the arrays of a call are allocated.
        self.holds_arrays = False

    @functools.cached_property
    def bytes(self) -> int:
        """The bytes of the arrays that a call computes, if each has memory of its own."""
        own = set(self.trace.inputs)
        return sum(
            node.dtype.itemsize * math.prod(axis_size(axis) or 0 for axis in node.dims)
            for node in topological_order(self.trace.outputs)
            if not (node.is_view or node.gives_rows) and (not node.is_leaf or node in own)
        )

    @functools.cached_property
    def compiled(self) -> FixedShapes:
        """The compiled program."""
        name = DEFAULT if self.engine in UNCOMPILED else self.engine
        return engine_class(name).function(self.trace.outputs, self.trace.inputs)

    def release(self) -> None:
        """Free the arrays of the last call; the next call allocates them again."""
        self.holds_arrays = False
        compiled = self.__dict__.get("compiled")
        if compiled is not None:
            compiled.release()
        if self._runner is not None:
            self._runner = None
            for node in topological_order(self.trace.outputs):
                cell = cell_of(node)
                if cell is not None and not cell.plans():
                    set_cell(node, None)
        for storage in self._storages:
            storage.array = None

    def fits(self, args: Sequence[object]) -> bool:
        """Return whether a fast check shows that these arguments have this signature."""
        kinds = self._arrays
        if kinds is None or len(args) != len(kinds):
            return False
        numbers: list[np.dtype] = []
        for position, (shape, dtype) in enumerate(kinds):
            argument = args[position]
            if type(argument) is np.ndarray:
                if argument.shape != shape or argument.dtype is not dtype:
                    return False
            elif type(argument) is float and not shape:
                numbers.append(dtype)
            else:
                return False
        if not numbers:
            return True
        number = number_dtype(args)
        return all(dtype is number for dtype in numbers)

    def call(self, found: list[np.ndarray]) -> Any:
        """Return the result of the function, with these leaves."""
        structure = self.trace.structure
        return found[0] if structure.kind is None else unflatten(structure, found)

    def __call__(self, leaves: Sequence[Leaf]) -> list[np.ndarray]:
        if not self.trace.outputs:
            return []
        self.holds_arrays = True
        arrays = [np.asarray(leaf, dtype, order="C") for leaf, dtype in zip(leaves, self._dtypes, strict=True)]
        for position in self._integers:
            self.trace.inputs[position].set(np.asarray(leaves[position]))  # `set` checks the range, uint64 too
        if self.engine == "reference":
            return [array[()] if array.ndim == 0 else array for array in self._by_reference(arrays)]
        return self._compiled(arrays)

    def call_unchecked(self, args: Sequence[Any]) -> list[np.ndarray]:
        """Return the leaves of the result without checking the arguments, which must fit."""
        if self.engine in UNCOMPILED or self._integers or not self.trace.outputs:
            return self(args)
        compiled = self.compiled
        return compiled(args, advance_step() if compiled.draws else 0)

    def _compiled(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        compiled = self.compiled
        if self.engine == "auto":
            try:
                compiled.prepare()
            except CompileError as error:
                warnings.warn(f"{error}; falling back to the reference engine", RuntimeWarning, stacklevel=4)
                self.engine = "reference"
                return self(arrays)
            self.engine = DEFAULT
        return compiled(arrays, advance_step() if compiled.draws else 0)

    def _by_reference(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        if self._runner is None:
            self._runner = ReferenceRunner(self.trace.outputs)
        for storage, array in zip(self._storages, arrays, strict=True):
            if array.dtype.kind != "i":
                store(storage, array.copy() if storage.array is None else array)
        if self._runner.random:
            advance_step()
        plan = self._runner.run()
        values = [plan.value(node) for node in self.trace.outputs]
        return [value.dense() if isinstance(value, RowSparse) else np.array(value) for value in values]
