"""Names that are imported on first use, and that `dir` and `import *` already list."""

from __future__ import annotations

import dis
import importlib
import sys
from collections.abc import Callable, Mapping
from types import FrameType, MethodType
from typing import Any


def _is_from_import(frame: FrameType) -> bool:
    """Return whether a frame is at `from package import name`, which replaces an `AttributeError` by its own text."""
    return frame.f_code.co_code[frame.f_lasti] == dis.opmap["IMPORT_FROM"]


class LateMethod:
    """A method of nodes whose module is imported on first use; the module binds the method in its place."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __get__(self, instance: object, owner: type) -> Any:
        importlib.import_module(self.module)
        return getattr(owner if instance is None else instance, self.name)


def declares(cls: type, name: str) -> bool:
    """Return whether a class has a name, without importing what the name stands for, as `hasattr` would."""
    return any(name in vars(base) for base in cls.__mro__)


class LateFunction:
    """A method that a function of another module implements, which is imported with each use."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __get__(self, instance: object, owner: type) -> Any:
        function = getattr(importlib.import_module(self.module), self.name)
        return function if instance is None else MethodType(function, instance)


def lazy_imports(package: str, origins: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package; `origins` gives the submodule that defines each name.

    A name equal to its submodule's name is the submodule itself. `dir` lists the public names, from which Python
    suggests corrections of misspelled ones.
    """

    def find(name: str) -> Any:
        if name not in origins:
            from wyrm.support.foreign_names import packages, refusal

            answers = packages.ANSWERS.get(package, {})
            if name in answers:
                error = refusal(package, name, answers)
                if _is_from_import(sys._getframe(1)):
                    raise ImportError(str(error), name=package)
                raise error
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{origins[name]}")
        found = module if name == origins[name] else getattr(module, name)
        setattr(sys.modules[package], name, found)
        return found

    def known() -> list[str]:
        module = sys.modules[package]
        special = (name for name in vars(module) if name.startswith("__"))
        return sorted({*special, *module.__all__, *(name for name, origin in origins.items() if name != origin)})

    return find, known
