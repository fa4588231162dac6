"""Names of a package that are imported when they are first used, and are there for `dir` and `import *` before."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def later(package: str, origins: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package, for names by the module below it that each is from.

    A name that is from a module of its own name is that module. `dir` has the public names, of which Python guesses at
    misspelled ones.
    """

    def find(name: str) -> Any:
        if name not in origins:
            from wyrm.foreign_names import packages, refusal

            answers = packages.ANSWERS.get(package, {})
            if name in answers:
                raise refusal(package, name, answers)
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
