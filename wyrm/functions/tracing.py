"""A Python function run once on nodes that stand for its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.functions.pytree import PyTreeDef, flatten, leaf_paths, unflatten
from wyrm.node.base import BaseNode, describe
from wyrm.node.index_leaves import IndexConstant, IndexInput
from wyrm.node.leaves import Constant, Input, as_constant
from wyrm.node.traversal import replaced, topological_order
from wyrm.ops.index import Indexable
from wyrm.ops.loop_body import IndexPlaceholder, Placeholder

Leaf = BaseNode[Any, Any]
# What a leaf of the arguments is for a trace: its shape and dtype.
Kind = tuple[tuple[int, ...], np.dtype[Any]]
_NUMBER = np.dtype(np.float32)


class Argument(Indexable, Input[Any], abstract=True):
    """An input that stands for an array among the arguments of one trace."""

    __slots__ = ()


class IndexArgument(IndexInput[Any], abstract=True):
    """An index input that stands for integers among the arguments of one trace."""

    __slots__ = ()


class _Around(NamedTuple):
    """What is being traced around a call: the inputs that stand for its values, or all inputs, and its float type."""

    leaves: frozenset[Any] | None
    number: np.dtype[Any] | None

    def has(self, leaf: Leaf) -> bool:
        return self.leaves is None or leaf in self.leaves


_around: ContextVar[tuple[_Around, ...]] = ContextVar("_around", default=())


@contextmanager
def standing(leaves: Sequence[Leaf], alone: bool = True) -> Iterator[None]:
    """Within it these inputs stand for values of what is being traced, and functions may close over them.

    Where it is not known which inputs do, they do not stand `alone`.
    """
    number = next((leaf.dtype for leaf in leaves if leaf.dtype.kind == "f"), None)
    token = _around.set((*_around.get(), _Around(frozenset(leaves) if alone else None, number)))
    try:
        yield
    finally:
        _around.reset(token)


def _number_around() -> np.dtype[Any]:
    """The float type of Python numbers: that of what is being traced, else float32."""
    return next((around.number for around in reversed(_around.get()) if around.number is not None), _NUMBER)


class Trace:
    """What a function computes, as a graph: its inputs, its outputs, and what holds them.

    `inputs` are in the order of the leaves of the arguments, `outputs` in that of the result. Where the function closes
    over inputs of one that is being traced around it, the trace is `open`: it is a part of that one's graph.
    """

    def __init__(
        self, function: Callable[..., Any], structure: PyTreeDef, kinds: Sequence[Kind], static: Mapping[str, Any]
    ) -> None:
        name = name_of(function)
        named = [place for part, where in zip(structure.inside, argument_names(function, len(structure.inside)),
                                              strict=True) for place in leaf_paths(part, where)]  # fmt: skip
        self.name = name
        self.inputs: list[Any] = [
            _argument(shape, dtype, where) for (shape, dtype), where in zip(kinds, named, strict=True)
        ]
        with standing(self.inputs):
            result = function(*unflatten(structure, self.inputs), **static)
        leaves, self.structure = flatten(result, f"the result of {name}")
        kind = next((leaf.dtype for leaf in self.inputs if leaf.dtype.kind == "f"), None) or _number_around()
        self.outputs: list[Any] = [leaf if isinstance(leaf, BaseNode) else as_constant(leaf, kind) for leaf in leaves]
        own, traced = set(self.inputs), _around.get()
        foreign = [
            node for node in topological_order(self.outputs)
            if node.is_leaf and node not in own
            and isinstance(node, Argument | IndexArgument | Placeholder | IndexPlaceholder)
        ]  # fmt: skip
        self.open = any(around.has(node) for around in traced for node in foreign)
        for node in foreign:
            if isinstance(node, Argument | IndexArgument) and not any(around.has(node) for around in traced):
                raise ShapeError(
                    f"{describe(node)} is an argument of another call, which {self.name} has kept and cannot read any "
                    f"more; hand it over as an argument"
                )

    def of(self, leaves: Sequence[Any]) -> Any:
        """The result as nodes, for these numbers and arrays as arguments."""
        given = [_as_constant(leaf, own.dtype) for leaf, own in zip(leaves, self.inputs, strict=True)]
        return unflatten(self.structure, replaced(self.outputs, dict(zip(self.inputs, given, strict=True))))

    @property
    def unused(self) -> list[str]:
        """The names of the arguments that the result does not depend on."""
        reached = set(topological_order(self.outputs))
        return [leaf.name or "" for leaf in self.inputs if leaf not in reached]


def _argument(shape: Any, dtype: np.dtype[Any], name: str) -> Any:
    if dtype.kind in "iu":
        return IndexArgument(dims=shape, name=name)
    return Argument(dims=shape, name=name, dtype=dtype, finite=False)


def number_beside(leaves: Sequence[Any]) -> np.dtype[Any]:
    """The float type of the Python numbers among the leaves of arguments."""
    for leaf in leaves:
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f":
            found: np.dtype[Any] = leaf.dtype
            return found
    return _number_around()


def kinds_of(leaves: Sequence[Any], names: Callable[[], Sequence[str]]) -> list[Kind]:
    """What the leaves of the arguments are; a Python number has the float type of the arrays beside it."""
    number = number_beside(leaves)
    found: list[Kind] = []
    for i, leaf in enumerate(leaves):
        if not isinstance(leaf, np.ndarray | np.generic):
            found.append(((), np.dtype(bool) if isinstance(leaf, bool) else number))
        elif leaf.dtype.kind in "iu":
            found.append((leaf.shape, np.dtype(np.int64)))
        elif leaf.dtype.kind == "b" or leaf.dtype in (np.float32, np.float64):
            found.append((leaf.shape, np.dtype(leaf.dtype)))
        else:
            raise DTypeError(f"{names()[i]} holds {leaf.dtype}; an argument holds float32, float64, integers or bool")
    return found


def as_nodes(leaves: Sequence[Any], names: Callable[[], Sequence[str]]) -> list[Any]:
    """The leaves of arguments some of which are nodes: numbers and arrays of floats take the float type of these."""
    beside = next((leaf.dtype for leaf in leaves if isinstance(leaf, BaseNode) and leaf.dtype.kind == "f"), None)
    return [
        leaf if isinstance(leaf, BaseNode) else _as_constant(leaf, (beside or dtype) if dtype.kind == "f" else dtype)
        for leaf, (_, dtype) in zip(leaves, kinds_of(leaves, names), strict=True)
    ]


def _as_constant(leaf: Any, dtype: np.dtype[Any]) -> Any:
    return IndexConstant(leaf) if dtype.kind == "i" else Constant(leaf, dtype=dtype)


def name_of(function: Callable[..., Any]) -> str:
    """What a function is called in messages."""
    return getattr(function, "__qualname__", None) or type(function).__name__


def argument_names(function: Callable[..., Any], count: int) -> list[str]:
    """The names of the first `count` positional arguments."""
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
