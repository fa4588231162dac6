"""Tracing: running a Python function once on placeholder nodes to record its graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.functions.pytree import Leaf, PyTreeDef, flatten, leaf_paths, unflatten
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.index_leaves import IndexConstant, IndexInput
from wyrm.graph.leaves import Constant, Input, as_constant
from wyrm.graph.traversal import replaced, topological_order
from wyrm.graph.weak_types import TRACED, chosen, default_type, in_one_type, in_type, is_weak
from wyrm.ops.control.loop_body import IndexPlaceholder, Placeholder
from wyrm.ops.indexing.index import Indexable

# Which arguments a derivative is by: a position, a name, or several of them.
Wrt = int | str | Sequence[int | str]
# The signature of one argument leaf: its shape and dtype.
Kind = tuple[tuple[int, ...], np.dtype]


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
        self, function: Callable[..., object], structure: PyTreeDef, kinds: Sequence[Kind], static: Mapping[str, object]
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
        leaves, self.structure = flatten(result, f"the result of {name}")
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
        self.open = any(around.has(node) for around in traced for node in foreign)
        for node in foreign:
            if isinstance(node, Argument | IndexArgument) and not any(around.has(node) for around in traced):
                raise ShapeError(
                    f"{describe(node)} is an argument of another call, which {self.name} stored; it no longer has a "
                    f"value. Pass it as an argument"
                )

    def of(self, leaves: Sequence[Leaf]) -> Any:
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


def kinds_of(leaves: Sequence[Leaf], names: Callable[[], Sequence[str]]) -> list[Kind]:
    """Return shape and dtype of each argument leaf; Python numbers take the float dtype of the arrays beside them."""
    number = number_dtype(leaves)
    found: list[Kind] = []
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


def argument_nodes(leaves: Sequence[Leaf], names: Callable[[], Sequence[str]]) -> list[BaseNode]:
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
    """Return the result of a function and what it returns beside; raise `ShapeError` unless it is such a pair."""
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
