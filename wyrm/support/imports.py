"""Names that stand in another module, which is imported on first use.

`Late` is a member of a class, such as `Node.sort`; `lazy_imports` gives a package its names, such as `wy.nn.Linear`;
both list a name before it is imported: `dir`, `help` and `import *` know it. A `LazyModule` stands for a module of
another package. Type checkers read the stubs that `python -m wyrm.declare` generates: `wyrm/graph/methods.pyi` for
methods, `__init__.pyi` of a package for its names.
"""

from __future__ import annotations

import dis
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import FrameType
from typing import Any

from wyrm.errors import MissingPackage


class Late:
    """A member of a class that stands in another module: the first use imports the module, which replaces this one.

    `function` names what becomes the member; without it the module binds the member itself, as modules of ops do.
    """

    __slots__ = ("function", "module", "name")

    def __init__(self, module: str, function: str = "", name: str = "") -> None:
        self.module: str = module
        self.function: str = function
        self.name: str = name

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> Any:
        module = importlib.import_module(self.module)
        if self.function:
            for base in owner.__mro__:
                if vars(base).get(self.name) is self:
                    setattr(base, self.name, getattr(module, self.function))
        return getattr(owner if instance is None else instance, self.name)


def unread(module: str) -> Any:
    """Import a module of another package without having type checkers read it for whoever imports wyrm.

    Of installed packages mypy skips the bodies of functions, with the imports in them, but not those of generators and
    of methods that assign attributes: there `import jax` would have it read all of JAX.
    """
    return importlib.import_module(module)


class LazyModule:
    """A module that is imported when one of its names is read; `ImportError` is raised there if it is missing."""

    __slots__ = ("_module",)

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        # Looked up each time: tests hide modules, and replace names in them.
        return getattr(sys.modules.get(self._module) or importlib.import_module(self._module), name)


# Importing JAX takes a second.
jax: Any = LazyModule("jax")
jnp: Any = LazyModule("jax.numpy")
lax: Any = LazyModule("jax.lax")


# The names of each package by the module that defines them; `wyrm.declare` reads it.
PACKAGES: dict[str, dict[str, tuple[str, str]]] = {}


def lazy_imports(
    package: str, modules: Mapping[str, str | Iterable[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, whose `modules` define these names.

    Names may be separated by spaces. A module of another package is given in full, as in `wyrm.errors`; `old=new` gives
    a name another one; and `""` stands for the package itself, whose names are modules. A module without names is found
    too, and not listed. `dir` lists the public names, from which Python suggests corrections of misspelled ones.
    """
    origins: dict[str, tuple[str, str]] = {}
    for module, names in modules.items():
        full = module if module.startswith("wyrm.") else f"{package}.{module}"
        for name in names.split() if isinstance(names, str) else names:
            old, _, new = name.partition("=")
            origins[new or old] = (full, old) if module else (f"{package}.{name}", "")
    public = sorted(origins)
    origins |= {module: (f"{package}.{module}", "") for module, names in modules.items() if not names}
    PACKAGES[package] = origins

    def find(name: str) -> Any:
        if name in origins:
            module, defined = origins[name]
            found = importlib.import_module(module)
            found = getattr(found, defined) if defined else found
        elif name in modules:
            found = importlib.import_module(f"{package}.{name}")
        else:
            frame = sys._getframe(1)
            if frame.f_globals.get("__name__") == package and frame.f_back is not None:  # its own `__getattr__`
                frame = frame.f_back
            raise _unknown_name(package, name, frame)
        setattr(sys.modules[package], name, found)
        return found

    def known() -> list[str]:
        module = sys.modules[package]
        special = (name for name in vars(module) if name.startswith("__"))
        return sorted({*special, *module.__all__, *public})

    return find, known, public


def _unknown_name(package: str, name: str, frame: FrameType) -> ImportError | AttributeError:
    """Return the error for a name that a package lacks, with what to use instead of one of another library."""
    from wyrm.support.foreign_names import answers, refusal

    instead = answers(package).get(name)
    if instead is None:
        return AttributeError(f"module {package!r} has no attribute {name!r}")
    error = refusal(package, name, instead)
    if frame.f_code.co_code[frame.f_lasti] == dis.opmap["IMPORT_FROM"]:
        # `from package import name` replaces an `AttributeError` by its own text.
        return ImportError(str(error), name=package)
    return error


# --- packages that extras install -----------------------------------------------------------------------------------


def missing_package(user: str, needed: str, extra: str, *, name: str | None = None) -> MissingPackage:
    """Return the error of `user`, who needs a package that an extra of wyrm installs; `name` is what was imported."""
    return MissingPackage(f'{user} needs {needed}: pip install "wyrm-autodiff[{extra}]"', name=name)


# --- SciPy, which is the extra `scipy` --------------------------------------------------------------------------------


@cache
def scipy_is_installed() -> bool:
    """Return whether SciPy is installed; others compute what they can without it."""
    return importlib.util.find_spec("scipy") is not None


def special_functions(user: str) -> Any:
    """Return the module `scipy.special`; raise `MissingPackage` that names the user if it is not installed."""
    if not scipy_is_installed():
        raise missing_package(user, "SciPy", "scipy", name="scipy")
    return importlib.import_module("scipy.special")
