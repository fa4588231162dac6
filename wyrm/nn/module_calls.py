"""Records on new nodes which module's call builds them, with the module's path in the outermost module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, TypeVar, cast

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
            entered.finish()

    return cast(Call, call)


def _path(module: object, around: ModuleCall) -> str:
    """Return the path of a module that is called within another call: where a running module holds it, else a class."""
    outer: ModuleCall | None = around
    while outer is not None:
        path = _path_within(outer, module)
        if path is not None:
            return f"{outer.path}{'.' if outer.path else ''}{path}"
        outer = outer.outer
    return f"{around.path}{'.' if around.path else ''}{type(module).__name__}"


def _path_within(call: ModuleCall, module: object) -> str | None:
    """Return the path of a module in that of a running call; None if it is not there."""
    for name, value in vars(call.module).items():
        if value is module:
            return name
    # Modules in containers, and those inside of other modules, are looked up once for each call.
    if call.paths is None:
        call.paths = {}
        for path, inner in _modules_within(call.module):
            call.paths.setdefault(id(inner), path)
    return call.paths.get(id(module))


def _modules_within(root: object) -> Iterator[tuple[str, object]]:
    """Yield the path and the module of all modules that another one holds, the nearest first."""
    from wyrm.nn.module import Module

    level: list[tuple[str, object]] = [("", root)]
    seen = {id(root)}
    while level:
        inside: list[tuple[str, object]] = []
        for path, value in level:
            form, held = _members(value)
            for name, member in held:
                # Before the name is written: a module may hold a list of a million numbers.
                if isinstance(member, Module | dict | list | tuple) and id(member) not in seen:
                    seen.add(id(member))
                    inside.append((f"{path}{form.format(name)}".removeprefix("."), member))
        yield from ((path, member) for path, member in inside if isinstance(member, Module))
        level = inside


def _members(value: object) -> tuple[str, Iterable[tuple[object, object]]]:
    """Return the members of a module or a container by name, and how to write a name."""
    if isinstance(value, dict):
        return "[{!r}]", value.items()
    if isinstance(value, list | tuple):
        return "[{}]", enumerate(value)
    return ".{}", vars(value).items()
