"""Nested containers taken apart into their leaves, and put together again of others."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from wyrm.errors import DTypeError
from wyrm.nn.module import STANDING, Module, members
from wyrm.node.base import BaseNode
from wyrm.node.buffer import Buffer
from wyrm.node.leaves import Constant, Parameter
from wyrm.node.node import Node
from wyrm.node.storage import bound_array
from wyrm.types.arrays import check_unmasked

_LEAVES = (BaseNode, np.ndarray, np.generic, bool, int, float)


class PyTreeDef(NamedTuple):
    """What holds leaves: the kind of container, what it takes to make one, and what is in it; None for a leaf."""

    kind: type[Any] | None
    names: tuple[Hashable, ...] = ()
    inside: tuple[PyTreeDef, ...] = ()

    # By hash first: names may be nodes, which a tuple would compare by element, and which have a hash by identity.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, PyTreeDef) and hash(self) == hash(other) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return tuple.__hash__(self)

    @property
    def leaves(self) -> int:
        """How many leaves there are."""
        return 1 if self.kind is None else sum(part.leaves for part in self.inside)

    @property
    def has_module(self) -> bool:
        """Whether there is a module in it."""
        stack: list[PyTreeDef] = [self]
        while stack:
            part = stack.pop()
            if part.kind is not None and issubclass(part.kind, Module):
                return True
            stack += part.inside
        return False

    @property
    def is_flat(self) -> bool:
        """Whether this holds leaves and nothing else."""
        return all(part.kind is None for part in self.inside)


LEAF = PyTreeDef(None)


def flatten(value: Any, where: str, parameters: bool = False) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a value, left to right, and its structure.

    Containers are tuples, named ones too, lists, dicts, dataclasses, modules, whose leaves are what their parameters
    hold, or with `parameters` these themselves, and None, which holds nothing. `DTypeError` for anything else that is
    no array, number or node, named by `where` it is.
    """
    leaves: list[Any] = []
    return leaves, _flatten(value, where, leaves, parameters)


def _flatten(value: Any, where: str, leaves: list[Any], parameters: bool) -> PyTreeDef:
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
            f"{where} is {value!r}, a {type(value).__name__}, which is no array, number, node, or tuple, list, dict or "
            f"dataclass or module of them; what is static is given by keyword"
        )
    parts = tuple(_flatten(part, place, leaves, parameters) for part, place in zip(inside, leaf_paths, strict=True))
    return PyTreeDef(type(value), names, parts)


def unflatten(structure: PyTreeDef, leaves: Sequence[Any]) -> Any:
    """The value of this structure with these leaves."""
    rest = iter(leaves)
    return _unflatten(structure, lambda: next(rest))


def _unflatten(structure: PyTreeDef, leaf: Callable[[], Any]) -> Any:
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
        return _with_leaves(structure.names[0], inside)
    if structure.names:
        return kind(**dict(zip(map(str, structure.names), inside, strict=True)))
    return kind(*inside) if hasattr(kind, "_fields") else kind(inside)


def _nodes_of(module: Module) -> list[tuple[str, Any]]:
    """The parameters of a module by path, or the nodes that stand for them, each once."""
    found: dict[int, tuple[str, Any]] = {}
    entered: set[int] = set()
    stack: list[tuple[str, Any]] = [("", module)]
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


def _with_leaves(module: Any, leaves: Sequence[Any]) -> Any:
    """A copy of a module with these as its parameters: nodes as they are, arrays as parameters.

    With the nodes that it has it is the module itself.
    """
    memo: dict[int, Any] = {id(buffer): buffer for buffer in module.named_buffers().values()}
    found = _nodes_of(module)
    if found and all(node is leaf for (_, node), leaf in zip(found, leaves, strict=True)):
        return module
    for (_, node), leaf in zip(found, leaves, strict=True):
        memo[id(node)] = leaf if isinstance(leaf, BaseNode) else Parameter(leaf, node.dims, name=node.name)
    copied = copy.deepcopy(module, memo)
    parameters = set(map(id, module.parameters()))
    standing = [memo[id(node)] for _, node in found if id(node) in parameters]
    for each in copied.modules():
        vars(each)[STANDING] = tuple(node for node in standing if not isinstance(node, Parameter))
    return copied


def leaf_paths(structure: PyTreeDef, where: str) -> list[str]:
    """The names of the leaves, such as `weights['hidden'][0]`."""
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
