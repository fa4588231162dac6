"""Pytrees: nested containers, flattened into leaves and rebuilt with other leaves."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, Union

import numpy as np

from wyrm.errors import DTypeError
from wyrm.graph.arrays import check_unmasked
from wyrm.graph.base import BaseNode
from wyrm.graph.leaves import Constant
from wyrm.graph.node import Node
from wyrm.graph.parameters import Buffer, Parameter
from wyrm.graph.storage import bound_array
from wyrm.graph.typing import Nested, Values
from wyrm.module import REPLACEMENTS, Module, members


class Untyped:
    """The result of an untyped function: only `Any` is compatible with this class."""


class DataclassInstance(Protocol):
    """A dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


# Recursive aliases, evaluated with `Union` so that tools can read annotations.
# Arrays and numbers, alone or in containers.
ArrayTree: TypeAlias = Union[  # noqa: UP007
    Values, Module, DataclassInstance, Nested["ArrayTree"], Mapping[str, "ArrayTree"], Mapping[int, "ArrayTree"], None
]
# The same with nodes in containers; and that or a single node.
Branch: TypeAlias = Union[ArrayTree, Nested["Tree"], Mapping[str, "Tree"], Mapping[int, "Tree"]]  # noqa: UP007
Tree: TypeAlias = Union[BaseNode, Branch]  # noqa: UP007

# The leaves.
TreeLeaf: TypeAlias = BaseNode | np.ndarray | np.generic | float
_LEAVES = (BaseNode, np.ndarray, np.generic, bool, int, float)


class PyTreeDef(NamedTuple):
    """The structure of a pytree: the container's type, None for a leaf; the names of its parts; their structures."""

    kind: type[Any] | None
    names: tuple[Hashable, ...] = ()
    inside: tuple[PyTreeDef, ...] = ()

    # Hashes first: names may be modules or nodes, whose `==` builds a graph; their hash is by identity.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, PyTreeDef) and hash(self) == hash(other) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return tuple.__hash__(self)

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return 1 if self.kind is None else sum(part.leaves for part in self.inside)

    @property
    def has_module(self) -> bool:
        """Whether any part is a module."""
        stack: list[PyTreeDef] = [self]
        while stack:
            part = stack.pop()
            if part.kind is not None and issubclass(part.kind, Module):
                return True
            stack += part.inside
        return False

    @property
    def is_flat(self) -> bool:
        """Whether every part is a leaf."""
        return all(part.kind is None for part in self.inside)


LEAF = PyTreeDef(None)


def flatten(value: object, where: str, parameters: bool = False) -> tuple[list[TreeLeaf], PyTreeDef]:
    """Return the leaves of a pytree, left to right, and its structure.

    Containers are tuples, named tuples, lists, dicts, dataclasses, modules, and None, which has no leaves. The leaves
    of a module are the arrays of its parameters, or with `parameters=True` the parameters. Raise `DTypeError` for any
    other value that is not an array, number or node; `where` names it in the message.
    """
    leaves: list[TreeLeaf] = []
    return leaves, _flatten(value, where, leaves, parameters)


def _flatten(value: object, where: str, leaves: list[TreeLeaf], parameters: bool) -> PyTreeDef:
    if isinstance(value, _LEAVES):
        check_unmasked(value)
        leaves.append(value)
        return LEAF
    if value is None:
        return PyTreeDef(type(None))
    names: tuple[Hashable, ...] = ()
    if isinstance(value, dict):
        names, inside = tuple(value), list(value.values())
        leaf_paths = [f"{where}[{name!r}]" for name in names]
    elif isinstance(value, tuple | list):
        inside = list(value)
        leaf_paths = [f"{where}[{i}]" for i in range(len(inside))]
    elif isinstance(value, Module):
        found = _nodes_of(value)
        names = (value, *(module.training for module in value.modules()), *(path for path, _ in found))
        inside = [bound_array(x) if isinstance(x, Parameter) and not parameters else x for _, x in found]
        leaf_paths = [f"{where}.{path}" for path, _ in found]
    elif is_dataclass(value) and not isinstance(value, type):
        names = tuple(field.name for field in fields(value))
        inside = [getattr(value, str(name)) for name in names]
        leaf_paths = [f"{where}.{name}" for name in names]
    else:
        raise DTypeError(
            f"{where} is {value!r}, a {type(value).__name__}: not an array, number, node or module, nor a tuple, list, "
            f"dict or dataclass of them; pass static arguments by keyword"
        )
    parts = tuple(_flatten(part, path, leaves, parameters) for part, path in zip(inside, leaf_paths, strict=True))
    return PyTreeDef(type(value), names, parts)


def unflatten(structure: PyTreeDef, leaves: Sequence[object]) -> Any:
    """Return the pytree of this structure with these leaves."""
    rest = iter(leaves)
    return _unflatten(structure, lambda: next(rest))


def _unflatten(structure: PyTreeDef, leaf: Callable[[], object]) -> Any:
    kind = structure.kind
    if kind is None:
        return leaf()
    if kind is type(None):
        return None
    inside = [leaf() if part.kind is None else _unflatten(part, leaf) for part in structure.inside]
    if kind is tuple:
        return tuple(inside)
    if issubclass(kind, dict):
        return kind(zip(structure.names, inside, strict=True))
    if issubclass(kind, Module):
        module = structure.names[0]
        assert isinstance(module, Module)
        return _with_leaves(module, inside)
    if structure.names:
        return kind(**dict(zip(map(str, structure.names), inside, strict=True)))
    return kind(*inside) if hasattr(kind, "_fields") else kind(inside)


def _nodes_of(module: Module) -> list[tuple[str, Node]]:
    """Return the parameters of a module, or the nodes that replace them, each once, with their paths."""
    found: dict[int, tuple[str, Node]] = {}
    entered: set[int] = set()
    stack: list[tuple[str, object]] = [("", module)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, Node) and not isinstance(value, Constant | Buffer):
            found.setdefault(id(value), (path, value))
        elif id(value) not in entered:
            inside = members(value, path)
            if inside:
                entered.add(id(value))
            stack.extend(reversed(inside))
    return list(found.values())


def _with_leaves(module: Module, leaves: Sequence[Any]) -> Module:
    """Return a copy of a module with these leaves for its parameters; an array becomes a parameter.

    If the leaves are the nodes it has already, return the module itself.
    """
    memo: dict[int, object] = {id(buffer): buffer for _, buffer in module.named_buffers()}
    found = _nodes_of(module)
    if found and all(node is leaf for (_, node), leaf in zip(found, leaves, strict=True)):
        return module
    for (_, node), leaf in zip(found, leaves, strict=True):
        memo[id(node)] = leaf if isinstance(leaf, BaseNode) else Parameter(leaf, node.dims, name=node.name)
    copied = copy.deepcopy(module, memo)
    parameters = set(map(id, module.parameters()))
    replaced = [memo[id(node)] for _, node in found if id(node) in parameters]
    for part in copied.modules():
        vars(part)[REPLACEMENTS] = tuple(node for node in replaced if not isinstance(node, Parameter))
    return copied


def leaf_paths(structure: PyTreeDef, where: str) -> list[str]:
    """Return a path for each leaf, such as `weights['hidden'][0]`."""
    if structure.kind is None:
        return [where]
    found = []
    for i, part in enumerate(structure.inside):
        if issubclass(structure.kind, Module):
            found.append(f"{where}.{structure.names[i - len(structure.inside)]}")
        elif structure.names and not issubclass(structure.kind, dict):
            found += leaf_paths(part, f"{where}.{structure.names[i]}")
        else:
            found += leaf_paths(part, f"{where}[{structure.names[i] if structure.names else i!r}]")
    return found
