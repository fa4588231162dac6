"""Records on new nodes which module's call builds them, with the module's path in the outermost module."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar, cast

from wyrm.foreign_names import Answering
from wyrm.node.module_call import ModuleCall
from wyrm.node.source_location import end_call, running, start_call

Call = TypeVar("Call", bound=Callable[..., Any])


def recorded(function: Call) -> Call:
    """Return a module's `__call__` such that the nodes that it builds know the module.

    Under `located_at` nothing is recorded: nodes built again keep the module that they have.
    """

    @wraps(function)
    def call(module: Any, *arguments: Any, **keywords: Any) -> Any:
        around = running()
        if around is None:
            entered = ModuleCall("", type(module).__name__, None, module)
        elif not isinstance(around, ModuleCall) or around.module is module:  # the latter in `super().__call__(x)`
            return function(module, *arguments, **keywords)
        else:
            entered = ModuleCall(_path(module, around), type(module).__name__, around, module)
        token = start_call(entered)
        try:
            return function(module, *arguments, **keywords)
        finally:
            end_call(token)
            entered.module = entered.listed = None

    return cast(Call, call)


def _path(module: object, around: ModuleCall) -> str:
    """Return the path of a module that is called within another call: where a running module holds it, else a class."""
    name = _name_within(around, module)
    call: ModuleCall | None = around
    while name is None and call is not None:
        name = _deep_name_within(call, module)
        if name is None:
            call = call.outer
    prefix = (around if call is None else call).path
    name = name or type(module).__name__
    return f"{prefix}.{name}" if prefix else name


def _name_within(call: ModuleCall, module: object) -> str | None:
    """Return the name under which a running module itself, or a list or dict in its attributes, holds another one."""
    members = vars(call.module)
    for name, member in members.items():
        if member is module:
            return name
    if call.listed is None:
        # Once for each call: a search for each of a thousand layers of a list would be slow.
        call.listed = {}
        for name, member in members.items():
            if isinstance(member, list | tuple) and member and not isinstance(member[0], int | float | str):
                call.listed.update([(id(inner), (name, position)) for position, inner in enumerate(member)])
    listed = call.listed.get(id(module))
    return None if listed is None else "{}[{}]".format(*listed)


def _deep_name_within(call: ModuleCall, module: object) -> str | None:
    """Return the path of a module that a running module holds in other containers, or in the modules that it holds."""
    level: list[tuple[str, object]] = [("", call.module)]
    seen = {id(call.module)}
    while level:
        inside: list[tuple[str, object]] = []
        for path, value in level:
            form, held = _members(value)
            for name, member in held:
                # Before the name is written: a module may hold a list of a million numbers.
                if isinstance(member, Answering | dict | list | tuple) and id(member) not in seen:
                    seen.add(id(member))
                    inside.append((f"{path}{form.format(name)}".removeprefix("."), member))
                    if member is module:
                        return inside[-1][0]
        level = inside
    return None


def _members(value: object) -> tuple[str, Iterable[tuple[object, object]]]:
    """Return the members of a module or a container by name, and how to write a name."""
    if isinstance(value, dict):
        return "[{!r}]", value.items()
    if isinstance(value, list | tuple):
        return "[{}]", enumerate(value)
    return ".{}", vars(value).items()
