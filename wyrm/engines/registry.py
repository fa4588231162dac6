"""The engines that programs run on, by name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from wyrm.errors import OptionError
from wyrm.support.memory import with_collector_paused
from wyrm.support.options import choice

if TYPE_CHECKING:
    from wyrm.engines.engine import Engine

# The names that wyrm has itself; packages register others.
EngineName = Literal["native", "jax"]
DEFAULT: EngineName = "native"
# A class, or where it is: "module:name", which is imported on first use.
_known: dict[str, type[Engine] | str] = {
    "native": "wyrm.engines.native.run.engine:NativeEngine",
    "jax": "wyrm.engines.jax.engine:JaxEngine",
}
# What starts before an engine is imported: "module:name" of a function.
_starts = {"native": "wyrm.engines.native.llvm.second_process:start_for_first_program"}
_OWN = frozenset(_known)
# The folders of modules whose packages have been read.
_read: list[str] = []


def register(name: str, engine: type[Engine] | str) -> None:
    """Give an engine a name for `wyrm.compile(..., engine=name)`.

    `engine` is a subclass of `Engine`, or "module:name" of one, which is then imported on first use. An installed
    package registers one by an entry point of the group "wyrm.engines".

    Raise `OptionError` for a name that is none or wyrm's own, `TypeError` for anything but an engine; the first use of
    a "module:name" that has no engine raises `OptionError`.
    """
    from wyrm.engines.engine import Engine

    if not isinstance(name, str) or not name.isidentifier():
        raise OptionError(f"the name of an engine must be a Python identifier, not {name!r}")
    if name in _OWN:
        raise OptionError(f"engine {name!r} is wyrm's own: choose another name")
    if not isinstance(engine, str) and not (isinstance(engine, type) and issubclass(engine, Engine)):
        raise TypeError(f"an engine is a subclass of wy.engines.Engine, or 'module:name' of one, not {engine!r}")
    _known[name] = engine


def names() -> list[str]:
    """Return the names of all engines: wyrm's own, registered ones, and those of installed packages.

    >>> names()[:2]
    ['native', 'jax']
    """
    if _read != sys.path:
        _read_packages()
    return list(_known)


def _read_packages() -> None:
    """Give the engines of installed packages their names; this reads a file of each package."""
    from importlib.metadata import entry_points

    for entry in entry_points(group="wyrm.engines"):
        _known.setdefault(entry.name, entry.value)
    _read[:] = sys.path


def engine_class(name: object, *others: str) -> type[Engine]:
    """Return the class of an engine; raise `OptionError`, which lists all engines and `others`, for an unknown name."""
    if not isinstance(name, str) or name not in _known:
        _read_packages()  # one may have been installed a moment ago
        choice("engine", name, [*others, *names()])
    assert isinstance(name, str)
    found = _known[name]
    if isinstance(found, str):
        found = _known[name] = _imported(name, found)
    return found


def _imported(name: str, entry: str) -> type[Engine]:
    """Return the class at "module:name"; raise `OptionError`, which names engine and entry, if there is none."""
    from wyrm.engines.engine import Engine

    try:
        if name in _starts:
            _at(_starts[name])()
        found = with_collector_paused(_at, entry)
    except (ImportError, AttributeError, ValueError) as error:
        raise OptionError(f"engine {name!r} is registered as {entry!r}, which cannot be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Engine)):
        raise OptionError(f"engine {name!r} is registered as {entry!r}, which is no subclass of wy.engines.Engine")
    return found


def _at(entry: str) -> Any:
    """Return what is at "module:name"."""
    module, _, attribute = entry.partition(":")
    return getattr(importlib.import_module(module), attribute)


def checked_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given for an engine; raise an error for those that it does not take."""
    engine = engine_class(name)
    for option, value in options.items():
        if option not in engine.Options.__annotations__:
            raise _refusal(engine, option, value)
    engine.check_options(options)
    return dict(options)


def _refusal(engine: type[Engine], option: str, value: object) -> Exception:
    """Return the error for an option that an engine does not take, but maybe another one."""
    if option in engine.refusals:
        return OptionError(engine.refusals[option].format(value))
    for other in _known:
        if option in engine_class(other).Options.__annotations__:
            return OptionError(f"{option} is an option of engine={other!r}; give that too")
    return TypeError(f"wyrm.compile() got an unexpected keyword argument {option!r}")
