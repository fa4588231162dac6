"""Tracing: a Python function runs once on placeholder nodes, and an engine runs the recorded graph from then on."""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wyrm.engines.numpy.reference import ReferenceRunner
from wyrm.engines.registry import DEFAULT, engine_class
from wyrm.errors import CompileError, DTypeError, ShapeError
from wyrm.functions.pytree import PyTreeDef, TreeLeaf, flatten, leaf_paths, unflatten
from wyrm.graph.axes import axis_size
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.index_leaves import IndexConstant, IndexInput
from wyrm.graph.leaves import Constant, Input, as_constant
from wyrm.graph.op import cell_of, set_cell
from wyrm.graph.rows import RowSparse
from wyrm.graph.source_location import user_level
from wyrm.graph.storage import store, stored
from wyrm.graph.traversal import replaced, topological_order
from wyrm.graph.weak_types import TRACED, chosen, default_type, in_one_type, in_type, is_weak
from wyrm.ops.indexing.index import Indexable
from wyrm.ops.random.philox import advance_step
from wyrm.ops.subgraph import IndexPlaceholder, Placeholder

if TYPE_CHECKING:
    from wyrm.engines.engine import FixedShapeFunction

# Which arguments a derivative is by: a position, a name, or several of them.
Wrt = int | str | Sequence[int | str]
# The signature of one argument leaf: its shape and dtype.
ArrayType = tuple[tuple[int, ...], np.dtype]


class Argument(Indexable, Input, abstract=True):
    """A placeholder for an array argument of one trace."""

    __slots__ = ()
    is_argument = True


class IndexArgument(IndexInput, abstract=True):
    """A placeholder for an integer argument of one trace."""

    __slots__ = ()
    is_argument = True


class _EnclosingTrace(NamedTuple):
    """A trace in progress: its placeholders, None if unknown (then any input may be one)."""

    leaves: frozenset[BaseNode] | None

    def has(self, leaf: BaseNode) -> bool:
        return self.leaves is None or leaf in self.leaves


_enclosing: ContextVar[tuple[_EnclosingTrace, ...]] = ContextVar("_enclosing", default=())


@contextmanager
def enclosing_trace(leaves: Sequence[BaseNode], alone: bool = True) -> Iterator[None]:
    """Mark these inputs as the placeholders of a trace in progress, which functions inside may close over.

    With `alone=False` other inputs may be placeholders of it as well.
    """
    number = next((leaf.dtype for leaf in leaves if leaf.dtype.kind == "f" and not is_weak(leaf.dtype)), None)
    token = _enclosing.set((*_enclosing.get(), _EnclosingTrace(frozenset(leaves) if alone else None)))
    number_token = TRACED.set(number or TRACED.get())
    try:
        yield
    finally:
        TRACED.reset(number_token)
        _enclosing.reset(token)


class Trace:
    """The graph of a function: its inputs, its outputs and the structure of its result.

    `inputs` are in the order of the argument leaves, `outputs` in the order of the result leaves. A trace is `open` if
    the function closes over placeholders of an enclosing trace; it is then part of that graph.
    """

    def __init__(
        self,
        function: Callable[..., object],
        structure: PyTreeDef,
        kinds: Sequence[ArrayType],
        static: Mapping[str, object],
    ) -> None:
        name = name_of(function)
        named = [path for part, where in zip(structure.inside, argument_names(function, len(structure.inside)),
                                              strict=True) for path in leaf_paths(part, where)]  # fmt: skip
        self.name = name
        self.inputs: list[Argument | IndexArgument] = [
            _argument(shape, dtype, where) for (shape, dtype), where in zip(kinds, named, strict=True)
        ]
        with enclosing_trace(self.inputs):
            result = function(*unflatten(structure, self.inputs), **static)
        leaves, returned = flatten(result, f"the result of {name}")
        self.structure: PyTreeDef = returned
        kind = next((leaf.dtype for leaf in self.inputs if leaf.dtype.kind == "f"), None) or number_dtype(())
        self.outputs: list[Any] = [
            in_type(leaf, kind) if isinstance(leaf, BaseNode) else as_constant(leaf, kind) for leaf in leaves
        ]
        own, traced = set(self.inputs), _enclosing.get()
        foreign = [
            node for node in topological_order(self.outputs)
            if node.is_leaf and node not in own
            and isinstance(node, Argument | IndexArgument | Placeholder | IndexPlaceholder)
        ]  # fmt: skip
        self.open: bool = any(around.has(node) for around in traced for node in foreign)
        for node in foreign:
            if isinstance(node, Argument | IndexArgument) and not any(around.has(node) for around in traced):
                raise ShapeError(
                    f"{describe(node)} is an argument of another call, which {self.name} stored; it no longer has a "
                    f"value. Pass it as an argument"
                )

    def of(self, leaves: Sequence[TreeLeaf]) -> Any:
        """Return the result as nodes, with these numbers and arrays as constant arguments."""
        given = [_as_constant(leaf, own.dtype) for leaf, own in zip(leaves, self.inputs, strict=True)]
        return unflatten(self.structure, replaced(self.outputs, dict(zip(self.inputs, given, strict=True))))

    @property
    def unused(self) -> list[str]:
        """Names of the arguments that the result does not depend on."""
        reached = set(topological_order(self.outputs))
        return [leaf.name or "" for leaf in self.inputs if leaf not in reached]


def _argument(shape: tuple[int, ...], dtype: np.dtype, name: str) -> Argument | IndexArgument:
    if dtype.kind in "iu":
        return IndexArgument(dims=list(shape), name=name)
    return Argument(dims=list(shape), name=name, dtype=dtype, finite=False)


def number_dtype(leaves: Sequence[object]) -> np.dtype:
    """Return the float dtype that Python numbers among these leaves take."""
    for leaf in leaves:
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f":
            return chosen(leaf.dtype)
    return chosen(default_type())


def kinds_of(leaves: Sequence[TreeLeaf], names: Callable[[], Sequence[str]]) -> list[ArrayType]:
    """Return shape and dtype of each argument leaf; Python numbers take the float dtype of the arrays beside them."""
    number = number_dtype(leaves)
    found: list[ArrayType] = []
    for i, leaf in enumerate(leaves):
        if not isinstance(leaf, np.ndarray | np.generic):
            found.append(((), np.dtype(bool) if isinstance(leaf, bool) else number))
        elif leaf.dtype.kind in "iu":
            found.append((leaf.shape, np.dtype(np.int64)))
        elif leaf.dtype.kind == "b" or leaf.dtype in (np.float32, np.float64):
            found.append((leaf.shape, np.dtype(leaf.dtype)))
        else:
            raise DTypeError(f"{names()[i]} has dtype {leaf.dtype}; arguments are float32, float64, integers or bool")
    return found


def argument_nodes(leaves: Sequence[TreeLeaf], names: Callable[[], Sequence[str]]) -> list[BaseNode]:
    """Return argument leaves as nodes: numbers and float arrays take the float dtype of the nodes among them."""
    given = iter(in_one_type(*(leaf for leaf in leaves if isinstance(leaf, BaseNode))))
    leaves = [next(given) if isinstance(leaf, BaseNode) else leaf for leaf in leaves]
    beside = next((leaf.dtype for leaf in leaves if isinstance(leaf, BaseNode) and leaf.dtype.kind == "f"), None)
    return [
        leaf if isinstance(leaf, BaseNode) else _as_constant(leaf, (beside or dtype) if dtype.kind == "f" else dtype)
        for leaf, (_, dtype) in zip(leaves, kinds_of(leaves, names), strict=True)
    ]


def _as_constant(leaf: Any, dtype: np.dtype) -> IndexConstant | Constant:
    return IndexConstant(leaf) if dtype.kind == "i" else Constant(leaf, dtype=dtype)


def name_of(function: Callable[..., object]) -> str:
    """Return the function's name for messages."""
    return getattr(function, "__qualname__", None) or type(function).__name__


def argument_names(function: Callable[..., object], count: int) -> list[str]:
    """Return the names of the first `count` positional arguments."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{i}]" for i in range(count - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return [*names, *(f"argument {i}" for i in range(len(names), count))][:count]


def split_aux(result: object, has_aux: bool, function: Callable[..., object]) -> tuple[Any, Any]:
    """Return the two parts of a function's result (value, aux); raise `ShapeError` unless it is a pair."""
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise ShapeError(f"with has_aux=True {name_of(function)} must return a pair (value, aux), not {result!r}")
    return result


def positions_of(function: Callable[..., object], wrt: Wrt, count: int) -> list[int]:
    """Return the positions of the arguments that `wrt` selects among `count`, or raise `ValueError`."""
    names = argument_names(function, count)
    found = []
    for which in (wrt,) if isinstance(wrt, int | str) else tuple(wrt):
        if isinstance(which, str):
            if which not in names:
                raise ValueError(f"{name_of(function)} has no argument {which!r}; its arguments are {', '.join(names)}")
            found.append(names.index(which))
        elif not -count <= which < count:
            raise ValueError(f"{name_of(function)} was called with {count} arguments, so wrt={which} is out of range")
        else:
            found.append(which % count)
    return found


# The engine that compiles nothing, and the choice of one that may compile.
UNCOMPILED = ("reference", "auto")


class SpecializedFunction:
    """A function specialized to one signature: the shapes and dtypes of its arguments and its static arguments."""

    def __init__(self, trace: Trace, kinds: Sequence[ArrayType], engine: str, plain: bool) -> None:
        self.trace = trace
        # "auto" becomes the engine that it chooses.
        self.engine: str = engine
        # The signature if every argument is one array or number, so that `fits` can check it fast.
        self._arrays = kinds if plain else None
        self._dtypes = [dtype for _, dtype in kinds]
        self._integers = [position for position, dtype in enumerate(self._dtypes) if dtype.kind == "i"]
        self._storages = [stored(leaf) for leaf in trace.inputs]
        # A number takes the dtype of the arrays beside it. Where all arguments have one dtype, the fast check does not
        # look at this. `_scalar` is that dtype if all arguments are scalars.
        first = self._dtypes[0] if plain and kinds else None
        same = first is not None and chosen(first) is first and all(dtype is first for dtype in self._dtypes)
        self._scalar = first if not any(shape for shape, _ in kinds) else None
        self._may_be_fast = same and not self._integers
        # The compiled program, if it may do the whole of a call.
        self._program: FixedShapeFunction | None = None
        form = trace.structure
        self._is_tuple = form.kind is tuple and all(part.kind is None for part in form.inside)
        self._runner: ReferenceRunner | None = None
        # Whether the arrays of a call are allocated.
        self.holds_arrays: bool = False

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
    def compiled(self) -> FixedShapeFunction:
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

    def __call__(self, leaves: Sequence[TreeLeaf]) -> list[np.ndarray]:
        if not self.trace.outputs:
            return []
        self.holds_arrays = True
        arrays = [np.asarray(leaf, dtype, order="C") for leaf, dtype in zip(leaves, self._dtypes, strict=True)]
        for position in self._integers:
            self.trace.inputs[position].set(np.asarray(leaves[position]))  # `set` checks the range, uint64 too
        if self.engine == "reference":
            return [array[()] if array.ndim == 0 else array for array in self._by_reference(arrays)]
        return self._compiled(arrays)

    def fast_call(self, args: Sequence[Any]) -> Any:
        """Return the result of the function if the engine can do the whole call at once, else None."""
        program = self._program
        if program is None or program.fast_call is None:
            return None
        if self._scalar is not None and number_dtype(()) is not self._scalar:
            return None
        found = program.fast_call(args, 0)
        if found is None or self._is_tuple:
            return found if found is None else tuple(found)
        return self.call(found)

    def _compiled(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        compiled = self.compiled
        if self.engine == "auto":
            try:
                compiled.prepare()
            except CompileError as error:
                warnings.warn(f"{error}; falling back to the reference engine", RuntimeWarning, stacklevel=user_level())
                self.engine = "reference"
                return self(arrays)
            self.engine = DEFAULT
        if self._may_be_fast and not compiled.draws:
            self._program = compiled
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
