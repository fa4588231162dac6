"""`Module`, which holds parameters and other modules as plain attributes and finds them by name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from wyrm.node.base import format_dims
from wyrm.node.buffer import Buffer
from wyrm.node.leaves import Parameter

# The attribute of a module whose parameters nodes stand for, as in a traced function: those nodes.
STANDING = "_standing"


def members(value: Any, path: str) -> Sequence[tuple[str, Any]]:
    """What a module or container holds directly, each with its path."""
    prefix = f"{path}." if path else ""
    if isinstance(value, Module):
        return [(f"{prefix}{name}", member) for name, member in vars(value).items() if name != STANDING]
    if isinstance(value, dict):
        return [(f"{prefix}{key}", member) for key, member in value.items()]
    if isinstance(value, list | tuple):
        return [(f"{prefix}{position}", member) for position, member in enumerate(value)]
    if isinstance(value, set | frozenset) and any(isinstance(member, Parameter | Module) for member in value):
        raise TypeError(f"{path} is a set, which has no order to name its members by; use a list, a tuple or a dict")
    return ()


def _walk(root: Any) -> Iterator[tuple[str, Any, str]]:
    """The modules, parameters and buffers under `root` in the order of definition, each with its path and its first.

    One that is met again, under another path, is not entered again. The walk keeps its own stack, so that neither depth
    nor a cycle is a limit.
    """
    first: dict[int, str] = {}
    standing = _standing(root)
    stack: list[tuple[str, Any]] = [("", root)]
    while stack:
        path, value = stack.pop()
        counts = isinstance(value, Module | Parameter | Buffer) or id(value) in standing
        if counts:
            yield path, value, first.get(id(value), path)
        inside = () if id(value) in first else members(value, path)
        if inside or counts:
            first.setdefault(id(value), path)
        stack.extend(reversed(inside))


def _standing(root: Any) -> frozenset[int]:
    """The identities of the nodes that stand for parameters of a module."""
    return frozenset(map(id, getattr(root, STANDING, ())))


def _each(root: Any) -> Iterator[tuple[str, Any]]:
    """The modules, parameters and buffers under `root`, each once, by their first paths."""
    return ((path, value) for path, value, first in _walk(root) if path == first)


def _shown(value: Any) -> str:
    """One parameter, buffer or module of an outline; a module with a `__repr__` of its own is shown by that."""
    if isinstance(value, Parameter | Buffer):
        return f"{type(value).__name__.split('[')[0]} {format_dims(value.dims)} {value.dtype}"
    return repr(value) if _shows_itself(value) else type(value).__name__


def _shows_itself(value: Any) -> bool:
    return isinstance(value, Module) and type(value).__repr__ != Module.__repr__


class Module:
    """Part of a model: a class whose attributes hold parameters, buffers and other modules.

    A subclass sets them in `__init__`, plainly, and builds its part of the graph in `__call__`; this class adds nothing
    to either. Attributes that are parameters, modules, or lists, tuples and dicts of them are found in the order in
    which they were set, and named by their path:

    >>> class Block(wy.nn.Module):
    ...     def __init__(self) -> None:
    ...         self.scale = wy.Parameter([1.0, 1.0], name="scale")
    >>> class Model(wy.nn.Module):
    ...     def __init__(self) -> None:
    ...         self.blocks = [Block(), Block()]
    ...         self.bias = wy.Parameter([0.0, 0.0], name="bias")
    >>> list(Model().named_parameters())
    ['blocks.0.scale', 'blocks.1.scale', 'bias']

    `training` is read where a graph is built, by `Dropout` and `BatchNorm`: a graph that exists already stays as it is,
    so that training can go on beside a graph for evaluation. Where such a graph is run for its value, by `forward()` or
    by a program without an optimizer, while the module is in evaluation, a `RuntimeWarning` says so.
    """

    training: bool = True

    def named_parameters(self) -> dict[str, Parameter[Any]]:
        """The parameters by path, such as `blocks.0.hidden.weight`, in the order of definition.

        In a traced function they are the nodes that stand for the parameters of a module among the arguments. One that
        is shared stands once, under its first path. `ValueError` where two have the same path, as the entries `1` and
        `"1"` of one dict have.
        """
        return self._named(Parameter, "parameters")

    def named_buffers(self) -> dict[str, Buffer[Any]]:
        """The buffers by path, in the order of definition, as `named_parameters` has the parameters.

        >>> list(wy.nn.BatchNorm(3).named_buffers())
        ['mean', 'variance']
        """
        return self._named(Buffer, "buffers")

    def _named(self, kind: type[Any], what: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        standing = _standing(self) if kind is Parameter else ()
        for path, value in _each(self):
            if isinstance(value, kind) or id(value) in standing:
                if path in found:
                    raise ValueError(
                        f"{type(self).__name__} has two {what} of the path {path!r}; "
                        f"give the entries of its dicts keys that differ as text and have no dots"
                    )
                found[path] = value
        return found

    def parameters(self) -> list[Parameter[Any]]:
        """The parameters, each once, in the order of definition."""
        standing = _standing(self)
        return [value for _, value in _each(self) if isinstance(value, Parameter) or id(value) in standing]

    def modules(self) -> list[Module]:
        """This module and those it holds, each once, in the order of definition."""
        return [value for _, value in _each(self) if isinstance(value, Module)]

    def train(self) -> Self:
        """Set `training` of this module and all it holds, for the graphs that are built from now on."""
        return self._set_training(True)

    def evaluate(self) -> Self:
        """Clear `training` of this module and all it holds, for the graphs that are built from now on.

        Build the graph again for values without dropout; one that was built in training keeps it.

        >>> wy.nn.Dropout(0.5).evaluate().training
        False
        """
        return self._set_training(False)

    def _set_training(self, training: bool) -> Self:
        # Not through `self.modules`, a name that a subclass may want for an attribute; found first, set after.
        for module in [value for _, value in _each(self) if isinstance(value, Module)]:
            module.training = training
        return self

    def save(self, path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
        """Write parameters and buffers to a safetensors file, replacing one that is there in a single step."""
        from wyrm.io.checkpoint import save

        save(self, path, metadata)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Set parameters and buffers from a file that `save` wrote: all, or on a `CheckpointError` none."""
        from wyrm.io.checkpoint import load

        load(self, path)

    def __repr__(self) -> str:
        """The modules, parameters and buffers as an outline; a module with a `__repr__` of its own is shown by that."""
        lines = [type(self).__name__]
        skipped = None  # the path of a module that shows as much of its inside as it wants
        for path, value, first in _walk(self):
            if path and not (skipped is not None and path.startswith(skipped)):
                skipped = f"{path}." if _shows_itself(value) else None
                shared = path != first and any(isinstance(inner, Parameter | Buffer) for _, inner in _each(value))
                lines.append(f"{path}: {_shown(value)}" + (f", the same as {first or 'the whole'}" if shared else ""))
        return "\n".join(lines).replace("\n", "\n  ")
