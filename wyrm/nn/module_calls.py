"""Records on new nodes which module's call builds them, with the module's path in the outermost module."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar, cast

from wyrm.graph.source_location import ModuleCall, Place, end_call, running, start_call
from wyrm.support.foreign_names import Answering

Call = TypeVar("Call", bound=Callable[..., Any])


def recorded(function: Call) -> Call:
    """Return a module's `__call__` such that the nodes that it builds know the module.

    Under `located_at` nothing is recorded: nodes built again keep the module that they have.
    """

    @wraps(function)
    def call(module: Any, *arguments: Any, **keywords: Any) -> Any:
        outer = running()
        if outer is None:
            entered = ModuleCall("", type(module).__name__, None, None, module)
        elif isinstance(outer, tuple) or outer.module is module:  # the latter in `super().__call__(x)`
            return function(module, *arguments, **keywords)
        else:
            place = _place(outer, module)
            if place is None:
                entered = _called_from_afar(outer, module)
            else:
                entered = ModuleCall(place, type(module).__name__, outer, outer, module)
        token = start_call(entered)
        try:
            return function(module, *arguments, **keywords)
        finally:
            end_call(token)
            entered.finish()

    return cast(Call, call)


def _place(call: ModuleCall, module: object) -> Place | None:
    """Return where a running module holds another one, in an attribute or in a list; else None."""
    members = tuple(vars(call.module).items())  # another thread may set attributes meanwhile
    for name, member in members:
        if member is module:
            return name
    if call.listed is None:
        # Once for each call: a search for each of a thousand layers of a list would be slow. A module that stands
        # twice in a list keeps its first place.
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


def _called_from_afar(outer: ModuleCall, module: object) -> ModuleCall:
    """Return the call of a module that `outer` does not hold: by its place in a caller further out, else by class."""
    kind = type(module).__name__
    holder: ModuleCall | None = outer
    while holder is not None:
        place = _place(holder, module) or _deep_place(holder, module)
        if place is not None:
            return ModuleCall(place, kind, outer, holder, module)
        holder = holder.outer
    return ModuleCall(kind, kind, outer, outer, module)


def _deep_place(call: ModuleCall, module: object) -> str | None:
    """Return the path of a module inside containers and modules that a running module holds, or None."""
    if call.inner is None:
        # Once for each call, as above: an activation that no module holds may be called in each of many layers.
        call.inner = {}
        level: list[tuple[str, object]] = [("", call.module)]
        while level:
            inside: list[tuple[str, object]] = []
            for path, value in level:
                form, held = _members(value)
                for name, member in tuple(held):
                    # Before the name is written: a module may hold a list of a million numbers.
                    if isinstance(member, Answering | dict | list | tuple) and id(member) not in call.inner:
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
