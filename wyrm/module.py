"""`Module`, the base of models: finds the parameters and modules in its attributes by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Self, TypeVar, cast, get_args

import numpy as np

from wyrm.errors import OptionError
from wyrm.graph.base import BaseNode, format_dims
from wyrm.graph.parameters import Buffer, NarrowType, NarrowWeight, Parameter
from wyrm.graph.source_location import ModuleCall, Place, end_call, running, start_call
from wyrm.graph.storage import mark_replaced
from wyrm.support.foreign_names import ExplainsNames, explains_keywords
from wyrm.support.imports import Late
from wyrm.support.memory import give_back_pages
from wyrm.support.narrow_numbers import INT4_BLOCK
from wyrm.support.options import choice
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
        counts = isinstance(value, Module | Parameter | Buffer | NarrowWeight) or id(value) in replacements
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
    if isinstance(value, Parameter | Buffer | NarrowWeight):
        dtype = value.storage if isinstance(value, NarrowWeight) else value.dtype
        return f"{type(value).__name__.split('[')[0]} {format_dims(value.dims)} {dtype}"
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

    # The axis of the module's matrices that products add up: 1 for tables, as in `x @ table.T`.
    summed_axis: ClassVar[Literal[0, 1]] = 1
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
        return self._named_of_kind(Parameter, "parameters")

    def named_buffers(self) -> list[tuple[str, Buffer]]:
        """Return pairs of path and buffer, in the order of definition.

        >>> [name for name, _ in wy.nn.BatchNorm(3).named_buffers()]
        ['running_mean', 'running_var']
        """
        return self._named_of_kind(Buffer, "buffers")

    def named_narrow_weights(self) -> list[tuple[str, NarrowWeight]]:
        """Return pairs of path and weight in narrow numbers, in the order of definition; see `quantize`."""
        return self._named_of_kind(NarrowWeight, "narrow weights")

    def _named_of_kind(self, kind: type, what: str) -> list[tuple[str, Any]]:
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

    def named_modules(self) -> list[tuple[str, Module]]:
        """Return pairs of path and module: this one, of the path "", and those it holds, in the order of definition.

        >>> [path for path, _ in wy.nn.FeedForward(8, 32).named_modules()]
        ['', 'activation', 'fc1', 'fc2']
        """
        return [(path, value) for path, value in _each(self) if isinstance(value, Module)]

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

        A weight in narrow numbers has these under its path, and the factors of int8 under the path with ".factors".

        >>> model = wy.nn.Linear(2, 3)
        >>> best = model.state_dict()
        >>> model.weight.set(0.0 * best["weight"])
        >>> model.load_state_dict(best)
        >>> bool((model.weight.value == best["weight"]).all())
        True
        """
        narrow = (part for path, weight in self.named_narrow_weights() for part in weight.parts(path))
        return {path: np.array(leaf.value) for path, leaf in (*self.named_parameters(), *self.named_buffers(), *narrow)}

    @explains_keywords
    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Set all parameters and buffers from a `state_dict`.

        Raises:
            CheckpointError: names are missing or unknown, shapes or dtypes differ, or a number is not finite. Nothing
                is set then.
        """
        from wyrm.io.checkpoint import load_state_dict

        load_state_dict(self, state)

    def quantize(self, storage: NarrowType = "int8", *, only: str | Sequence[str] = "*") -> dict[str, float]:
        """Replace matrices of float32 among the parameters by weights in narrow numbers; see `wyrm.NarrowWeight`.

        They take half of the memory with "bfloat16", a quarter with "int8" and a sixth with "int4". No optimizer
        changes them: other parameters of the model, and those of layers around it, can be trained. `only` chooses by
        the paths of `named_parameters`, with `*` for any part: `only="blocks.*"`. Graphs and programs that exist keep
        the parameters that they were made with: they compute as before, and a step that would train one of them raises
        `UnusedParameter`. Parameters that have not two axes, such as biases, stay as they are,
        and so do those with sizes that blocks of int4 do not divide.

        Return the error of each weight by its path: the root mean square of what changed, relative to that of the
        weight. Raise `OptionError` if there is nothing to replace.

        >>> model = wy.nn.Linear(64, 32)
        >>> x = wy.Input(np.ones((1, 64), np.float32))
        >>> exact = model(x).forward()
        >>> errors = model.quantize("int8")
        >>> errors["weight"] < 0.01, bool(abs(model(x).forward() - exact).max() < 0.1)
        (True, True)
        """
        choice("quantize: storage", storage, get_args(NarrowType))
        patterns = [only] if isinstance(only, str) else list(only)
        narrow: dict[int, NarrowWeight] = {}
        errors: dict[str, float] = {}
        exact_of: dict[str, Parameter] = {}
        owners = dict(self.named_modules())
        for path, parameter in self.named_parameters():
            along = owners.get(path.rpartition(".")[0], self).summed_axis
            fits = parameter.ndim == 2 and parameter.dtype == np.float32
            fits = fits and (storage != "int4" or parameter.shape[along] % INT4_BLOCK == 0)
            if fits and any(fnmatchcase(path, pattern) for pattern in patterns):
                exact = parameter.value
                dims: Any = parameter.dims
                weight = NarrowWeight(exact, dims, storage=storage, along=along, name=parameter.name)
                narrow[id(parameter)], exact_of[path] = weight, parameter
                size = float(np.square(exact, dtype=np.float64).mean())
                error = float(np.square(weight.value - exact, dtype=np.float64).mean())
                errors[path] = (error / size) ** 0.5 if size else 0.0
        if not narrow:
            matrices = [f"{path} of {each.dtype}" for path, each in self.named_parameters() if each.ndim == 2]
            matrices += [f"{path} of {each.storage}" for path, each in self.named_narrow_weights()]
            raise OptionError(
                f"{type(self).__name__} has no matrix of float32 at {' or '.join(map(repr, patterns))}; its matrices "
                f"are: {', '.join(matrices) or 'none'}"
            )
        replace_members(self, narrow)
        for path, parameter in exact_of.items():
            mark_replaced(parameter, path, "quantize()")
        del exact, parameter
        exact_of.clear()
        give_back_pages()
        return errors

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
                shared = path != first and any(not isinstance(inner, Module) for _, inner in _each(value))
                lines.append(
                    f"{path}: {_outline_of(value)}" + (f", the same as {first or 'the whole'}" if shared else "")
                )
        return encodable("\n".join(lines).replace("\n", "\n  "))


def replace_members(root: object, made: Mapping[int, object]) -> None:
    """Replace members of modules and containers by others, which `made` has by the identity of what they replace."""
    seen: set[int] = set()
    stack: list[object] = [root]
    while stack:
        holder = stack.pop()
        if id(holder) in seen:
            continue
        seen.add(id(holder))
        attributes: Any = vars(holder) if isinstance(holder, Module) else holder
        pairs = list(attributes.items() if isinstance(attributes, dict) else enumerate(attributes))
        for key, member in pairs:
            new = _replaced(member, made)
            if new is not member:
                attributes[key] = new
            # A tuple cannot be changed, so it is made anew; what it holds is searched as the rest is.
            stack += [each for each in _leaves_of(new) if isinstance(each, Module | dict | list)]


def _replaced(value: Any, made: Mapping[int, object]) -> Any:
    """Return what `made` has for a value, also within tuples; the value itself if there is nothing."""
    if id(value) in made:
        return made[id(value)]
    if not isinstance(value, tuple):
        return value
    members = [_replaced(member, made) for member in value]
    same = all(new is old for new, old in zip(members, value, strict=True))
    return value if same else type(value)(*members) if hasattr(value, "_fields") else tuple(members)


def _leaves_of(value: object) -> Iterator[object]:
    """Yield a value, or what a tuple holds, also within tuples."""
    if isinstance(value, tuple):
        for member in value:
            yield from _leaves_of(member)
    else:
        yield value


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
