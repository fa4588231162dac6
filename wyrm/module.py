"""`Module`, the base of models: finds the parameters and modules in its attributes by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, cast

import numpy as np

from wyrm.graph.base import BaseNode, format_dims
from wyrm.graph.parameters import Buffer, Parameter
from wyrm.graph.source_location import ModuleCall, Place, end_call, running, start_call
from wyrm.support.foreign_names import ExplainsNames, explains_keywords
from wyrm.support.imports import Late
from wyrm.support.texts import encodable

if TYPE_CHECKING:
    from wyrm.nn.layer import Sequential

# The attribute of a module inside a traced function: the nodes that replace its parameters.
REPLACEMENTS = "_replacements"

Call = TypeVar("Call", bound=Callable[..., Any])


def members(value: object, path: str) -> Sequence[tuple[str, object]]:
    """Return the direct members of a module or container, each with its path."""
    prefix = f"{path}." if path else ""
    if isinstance(value, Module):
        return [(f"{prefix}{name}", member) for name, member in vars(value).items() if name != REPLACEMENTS]
    if isinstance(value, dict):
        return [(f"{prefix}{key}", member) for key, member in value.items()]
    if isinstance(value, list | tuple):
        return [(f"{prefix}{position}", member) for position, member in enumerate(value)]
    if isinstance(value, set | frozenset) and any(isinstance(member, Parameter | Module) for member in value):
        raise TypeError(f"{path} is a set, so its members have no order and no names; use a list, a tuple or a dict")
    return ()


def _walk(root: object) -> Iterator[tuple[str, Any, str]]:
    """Yield (path, value, first path) of every module, parameter and buffer under `root`, in the order of definition.

    A shared value comes once for each of its paths, its members only under the first. The stack is explicit, so
    modules may be nested to any depth, also in cycles.
    """
    first: dict[int, str] = {}
    replacements = _replacement_ids(root)
    stack: list[tuple[str, object]] = [("", root)]
    while stack:
        path, value = stack.pop()
        counts = isinstance(value, Module | Parameter | Buffer) or id(value) in replacements
        if counts:
            yield path, value, first.get(id(value), path)
        inside = () if id(value) in first else members(value, path)
        if inside or counts:
            first.setdefault(id(value), path)
        stack.extend(reversed(inside))


def _replacement_ids(root: object) -> frozenset[int]:
    """Return the identities of the nodes that replace parameters of a module."""
    return frozenset(map(id, getattr(root, REPLACEMENTS, ())))


def _each(root: object) -> Iterator[tuple[str, Any]]:
    """Yield the modules, parameters and buffers under `root`, each once, with its first path."""
    return ((path, value) for path, value, first in _walk(root) if path == first)


def _outline_of(value: object) -> str:
    """Return the line of a value in the outline of a module."""
    if isinstance(value, Parameter | Buffer):
        return f"{type(value).__name__.split('[')[0]} {format_dims(value.dims)} {value.dtype}"
    return repr(value) if _has_own_repr(value) else type(value).__name__


def _has_own_repr(value: object) -> bool:
    return isinstance(value, Module) and type(value).__repr__ != Module.__repr__


def _without_call(module: Module, *_arguments: object, **_keywords: object) -> NoReturn:
    raise TypeError(f"{type(module).__name__} defines forward, but model(x) calls __call__: rename the method")


class Module(ExplainsNames):
    """The base class of models and layers, whose attributes hold parameters, buffers and other modules.

    A subclass sets attributes in `__init__` and builds its part of the graph in `__call__`; `super().__init__()` is not
    needed. Parameters and modules in attributes, and in lists, tuples and dicts of them, are found in the order of
    definition and named by their path:

    >>> class Block(wy.nn.Module):
    ...     def __init__(self) -> None:
    ...         self.scale = wy.Parameter([1.0, 1.0], name="scale")
    >>> class Model(wy.nn.Module):
    ...     def __init__(self) -> None:
    ...         self.blocks = [Block(), Block()]
    ...         self.bias = wy.Parameter([0.0, 0.0], name="bias")
    >>> [name for name, _ in Model().named_parameters()]
    ['blocks.0.scale', 'blocks.1.scale', 'bias']

    `Dropout` and `BatchNorm` read `training` when a graph is built; it does not change existing graphs, so a graph for
    training and one for evaluation can exist together. A `RuntimeWarning` tells of a graph in the mode of another
    purpose: one built in training that is run for its value, by `forward()` or a program without an optimizer, while
    the module is in evaluation; a program that predicts with a model in training; and one whose optimizer trains all
    parameters of a model in evaluation. Where that is meant, set the mode of the model and then that of such layers.
    """

    training: bool = True
    """Whether the module is in training mode, for graphs built from now on; `train` and `eval` set it."""
    _foreign = "modules"

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "forward" in vars(cls) and not any("__call__" in vars(base) for base in cls.__mro__):
            setattr(cls, "__call__", _without_call)  # noqa: B010  # an assignment would declare it to type checkers
        elif isinstance(vars(cls).get("__call__"), FunctionType):
            setattr(cls, "__call__", recorded(vars(cls)["__call__"]))  # noqa: B010

    def __setattr__(self, name: str, value: object) -> None:
        computed = isinstance(value, BaseNode | np.ndarray | float) and not getattr(value, "is_leaf", False)
        if computed and isinstance(vars(self).get(name), Parameter):
            raise TypeError(
                f"{type(self).__name__}.{name} is a parameter, which this would replace by a value that no optimizer "
                f"changes: use .{name}.set(array), or delete the attribute first"
            )
        super().__setattr__(name, value)

    def named_parameters(self) -> list[tuple[str, Parameter]]:
        """Return pairs of path and parameter, such as `("blocks.0.hidden.weight", ...)`, in the order of definition.

        A shared parameter appears once, under its first path. In a traced function, nodes replace the parameters of
        modules among the arguments. Raise `ValueError` where two have the same path, as the keys `1` and `"1"` of one
        dict give.
        """
        return self._named(Parameter, "parameters")

    def named_buffers(self) -> list[tuple[str, Buffer]]:
        """Return pairs of path and buffer, in the order of definition.

        >>> [name for name, _ in wy.nn.BatchNorm(3).named_buffers()]
        ['running_mean', 'running_var']
        """
        return self._named(Buffer, "buffers")

    def _named(self, kind: type, what: str) -> list[tuple[str, Any]]:
        found: dict[str, Any] = {}
        replacements = _replacement_ids(self) if kind is Parameter else ()
        for path, value in _each(self):
            if isinstance(value, kind) or id(value) in replacements:
                if path in found:
                    raise ValueError(
                        f"{type(self).__name__} has two {what} of the path {path!r}; "
                        f"use keys of dicts that have no dots and differ as strings"
                    )
                found[path] = value
        return list(found.items())

    def parameters(self) -> list[Parameter]:
        """Return the parameters, each once, in the order of definition."""
        replacements = _replacement_ids(self)
        return [value for _, value in _each(self) if isinstance(value, Parameter) or id(value) in replacements]

    def modules(self) -> list[Module]:
        """Return this module and those it holds, each once, in the order of definition."""
        return [value for _, value in _each(self) if isinstance(value, Module)]

    def train(self, mode: bool = True) -> Self:
        """Set `training` of this module and all it holds to `mode`, for graphs built from now on."""
        # Not `self.modules()`, because a subclass may have an attribute of that name. A list, because the walk
        # reads the attributes that the loop sets.
        for module in [value for _, value in _each(self) if isinstance(value, Module)]:
            module.training = mode
        return self

    def eval(self) -> Self:
        """Clear `training` of this module and all it holds, for graphs built from now on.

        Build the graph again for values without dropout; a graph built in training keeps it.

        >>> wy.nn.Dropout(0.5).eval().training
        False
        """
        return self.train(False)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return copies of the values of parameters and buffers, by path.

        >>> model = wy.nn.Linear(2, 3)
        >>> best = model.state_dict()
        >>> model.weight.set(0.0 * best["weight"])
        >>> model.load_state_dict(best)
        >>> bool((model.weight.value == best["weight"]).all())
        True
        """
        return {path: np.array(leaf.value) for path, leaf in (*self.named_parameters(), *self.named_buffers())}

    @explains_keywords
    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Set all parameters and buffers from a `state_dict`.

        Raises:
            CheckpointError: names are missing or unknown, shapes or dtypes differ, or a number is not finite. Nothing
                is set then.
        """
        from wyrm.io.checkpoint import load_state_dict

        load_state_dict(self, state)

    def save(self, path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
        """Write parameters and buffers to a safetensors file, atomically; see `wyrm.io.save`."""
        from wyrm.io.checkpoint import save

        save(self, path, metadata)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Set parameters and buffers from a file that `save` wrote: all, or none on a `CheckpointError`."""
        from wyrm.io.checkpoint import load

        load(self, path)

    if TYPE_CHECKING:

        def __rshift__(self, other: Module) -> Sequential:
            """Return the model `other(self(x))`; see `wyrm.nn.Layer` for layers, whose axes are checked."""
            ...

        def __rrshift__(self, other: Module) -> Sequential: ...
    else:
        __rshift__ = Late("wyrm.nn.layer", "composed")

    # What notebooks display.
    _repr_mimebundle_ = Late("wyrm.view.notebook", "of_module")

    def __repr__(self) -> str:
        """Return an outline of modules, parameters and buffers; a module with its own `__repr__` is shown by that."""
        lines = [type(self).__name__]
        skipped = None  # the path of the last module with its own `__repr__`
        for path, value, first in _walk(self):
            if path and not (skipped is not None and path.startswith(skipped)):
                skipped = f"{path}." if _has_own_repr(value) else None
                shared = path != first and any(isinstance(inner, Parameter | Buffer) for _, inner in _each(value))
                lines.append(
                    f"{path}: {_outline_of(value)}" + (f", the same as {first or 'the whole'}" if shared else "")
                )
        return encodable("\n".join(lines).replace("\n", "\n  "))


def recorded(function: Call) -> Call:
    """Return a module's `__call__` that records the module in each node that it builds.

    Under `located_at` it records nothing: rebuilt nodes keep their module.
    """

    @wraps(function)
    def call(module: Any, *arguments: Any, **keywords: Any) -> Any:
        outer = running()
        if outer is None:
            entered = ModuleCall("", type(module).__name__, None, None, module)
        elif isinstance(outer, tuple) or outer.module is module:  # the same module again: `super().__call__(x)`
            return function(module, *arguments, **keywords)
        else:
            place = _path(outer, module)
            if place is None:
                entered = _call_of_unheld(outer, module)
            else:
                entered = ModuleCall(place, type(module).__name__, outer, outer, module)
        token = start_call(entered)
        try:
            return function(module, *arguments, **keywords)
        finally:
            end_call(token)
            entered.finish()

    return cast(Call, call)


def _path(call: ModuleCall, module: object) -> Place | None:
    """Return the attribute, or the place in a list, at which a running module holds another one; else None."""
    members = tuple(vars(call.module).items())  # another thread may set attributes meanwhile
    for name, member in members:
        if member is module:
            return name
    if call.listed is None:
        # Searched once a call: to search for each of a thousand layers would be slow. A module that is in a list
        # twice keeps its first place.
        call.listed = [
            (name, dict(zip(map(id, reversed(member)), range(len(member) - 1, -1, -1), strict=False)))
            for name, member in members
            if isinstance(member, list | tuple) and member and not isinstance(member[0], int | float | str)
        ]
    key = id(module)
    for name, positions in call.listed:
        if key in positions:
            return name, positions[key]
    return None


def _call_of_unheld(outer: ModuleCall, module: object) -> ModuleCall:
    """Return the call of a module that `outer` does not hold, named by its path in an outer caller, or its class."""
    kind = type(module).__name__
    holder: ModuleCall | None = outer
    while holder is not None:
        place = _path(holder, module) or _deep_path(holder, module)
        if place is not None:
            return ModuleCall(place, kind, outer, holder, module)
        holder = holder.outer
    return ModuleCall(kind, kind, outer, outer, module)


def _deep_path(call: ModuleCall, module: object) -> str | None:
    """Return the path of a module inside containers and modules that a running module holds, or None."""
    if call.inner is None:
        # Searched once a call, as above: an activation that no module holds may be called in each of many layers.
        call.inner = {}
        level: list[tuple[str, object]] = [("", call.module)]
        while level:
            inside: list[tuple[str, object]] = []
            for path, value in level:
                form, held = _members(value)
                for name, member in tuple(held):
                    # Checked before the name is formatted: a module may hold a list of a million numbers.
                    if isinstance(member, ExplainsNames | dict | list | tuple) and id(member) not in call.inner:
                        call.inner[id(member)] = inner = f"{path}{form.format(name)}".removeprefix(".")
                        inside.append((inner, member))
            level = inside
    return call.inner.get(id(module))


def _members(value: object) -> tuple[str, Iterable[tuple[object, object]]]:
    """Return the members of a module or a container by name, and how to write a name."""
    if isinstance(value, dict):
        return "[{!r}]", value.items()
    if isinstance(value, list | tuple):
        return "[{}]", enumerate(value)
    return ".{}", vars(value).items()
