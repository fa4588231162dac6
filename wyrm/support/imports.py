"""Names that stand in another module, which is imported on first use; and errors for modules of earlier layouts.

`Late` is a member of a class, such as `Node.sort`; `lazy_imports` gives a package its names, such as `wy.nn.Linear`.
Both list a name before it is imported: `dir`, `help` and `import *` know it. Type checkers read the stubs that
`python -m wyrm.declare` generates: `wyrm/graph/methods.pyi` for methods, `__init__.pyi` of a package for its names.
"""

from __future__ import annotations

import dis
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType, ModuleType
from typing import Any


class Late:
    """A member of a class that stands in another module: the first use imports the module, which replaces this one.

    The module binds the member itself, as modules of ops do, or `function` names what becomes the member.
    """

    __slots__ = ("function", "module", "name")

    def __init__(self, module: str, name: str, function: str | None = None) -> None:
        self.module: str = module
        self.name: str = name
        self.function: str | None = function

    def __get__(self, instance: object, owner: type) -> Any:
        module = importlib.import_module(self.module)
        if self.function is not None:
            base = next(base for base in owner.__mro__ if vars(base).get(self.name) is self)
            setattr(base, self.name, getattr(module, self.function))
        return getattr(owner if instance is None else instance, self.name)


def unread(module: str) -> Any:
    """Import a module of another package without having type checkers read it for whoever imports wyrm.

    Of installed packages mypy skips the bodies of functions, with the imports in them, but not those of generators and
    of methods that assign attributes: there `import jax` would have it read all of JAX.
    """
    return importlib.import_module(module)


# The names of each package by the module that defines them; `wyrm.declare` reads it.
PACKAGES: dict[str, dict[str, tuple[str, str]]] = {}


def lazy_imports(
    package: str, modules: Mapping[str, str | Iterable[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, whose `modules` define these names.

    Names may be separated by spaces. A module of another package is given in full, as in `wyrm.errors`; `old=new` gives
    a name another one; and a module that names itself, as in `"initializers": "initializers"`, is public too.
    `dir` lists the public names, from which Python suggests corrections of misspelled ones.
    """
    origins: dict[str, tuple[str, str]] = {}
    for module, names in modules.items():
        full = module if module.startswith("wyrm.") else f"{package}.{module}"
        for name in names.split() if isinstance(names, str) else names:
            old, _, new = name.partition("=")
            origins[new or old] = full, "" if name == module else old
    public = sorted(origins)
    PACKAGES[package] = origins

    def find(name: str) -> Any:
        if name in origins:
            module, defined = origins[name]
            found = importlib.import_module(module)
            found = getattr(found, defined) if defined else found
        elif name in modules:
            found = importlib.import_module(f"{package}.{name}")
        else:
            raise _unknown(package, name, sys._getframe(1))
        setattr(sys.modules[package], name, found)
        return found

    def known() -> list[str]:
        module = sys.modules[package]
        special = (name for name in vars(module) if name.startswith("__"))
        return sorted({*special, *module.__all__, *origins})

    return find, known, public


def _unknown(package: str, name: str, frame: FrameType) -> ImportError | AttributeError:
    """Return the error for a name that a package lacks, with what to use instead of one of another library."""
    from wyrm.support.foreign_names import packages, refusal

    answers = packages.ANSWERS.get(package, {})
    if name not in answers:
        return AttributeError(f"module {package!r} has no attribute {name!r}")
    error = refusal(package, name, answers[name])
    if frame.f_code.co_code[frame.f_lasti] == dis.opmap["IMPORT_FROM"]:
        # `from package import name` replaces an `AttributeError` by its own text.
        return ImportError(str(error), name=package)
    return error


# The rooms of the earlier layout that are gone, each with the room that has its contents now.
_ROOMS = {
    "_bind": "wyrm.graph",
    "_files": "wyrm.support",
    "_garbage_collection": "wyrm.support",
    "_interrupts": "wyrm.support",
    "_ipython": "wyrm.graph",
    "_lazy_imports": "wyrm.support",
    "backends": "wyrm.engines",
    "compiler": "wyrm.engines.native.stages",
    "foreign_names": "wyrm.support.foreign_names",
    "grad": "wyrm.ops.gradients",
    "ir": "wyrm.engines.native.ir",
    "kernels": "wyrm.engines.native.kernels",
    "node": "wyrm.graph",
    "schedule": "wyrm.graph",
    "types": "wyrm.graph",
}
# The rooms that lost only some of their modules.
_PARTS = {
    "engines": "other modules of wyrm.engines",
    "graph": "other modules of wyrm.graph",
    "ops": "a folder of wyrm.ops, one for each family of ops",
    "train": "wyrm.engines",
}
# Modules that became part of another one of their room.
_JOINED = {
    "testing": "alone",
    "mypy": "shortening",
    "exporting": "rates",
    "support": "late_imports moved",
    "data": "columns files generated joined ranking_calls ranking_kernels tokens",
    "functions": (
        "complex_parts control cumulative grids nan_quantiles op_functions padding products "
        "reduction_types segment statistics"
    ),
    "io": "arrays reading shards",
    "jax": "arguments",
    "linalg": "norms",
    "losses": "checks likelihood temporal weights",
    "metrics": "confusion",
    "nn": (
        "activation_layers batch_normalization embedding_bag flatten gated_recurrent group_normalization "
        "initial_states lstm_state module_calls positional_encoding recurrent_outputs spatial "
        "token_sampling"
    ),
    "optim": "adafactor adam_variants averaging gradients group_rules groups layerwise muon rule saving whole",
    "profile": "clock page texts trace",
    "special": "of_order",
    "view": "expressions flops graph_page loop_bodies pages text",
    "train": "history",
    "watch": "checks connections guard lines pace page probe",
}


# Modules that stand elsewhere now.
_ELSEWHERE = {"nn.module": "wyrm.module"}


class _Moved:
    """The last finder of modules. It finds none, but raises an error for a module of the earlier layout."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        package, _, rest = name.partition(".")
        room, _, module = rest.partition(".")
        place = _PARTS.get(room) if module else None
        if module in _JOINED.get(room, "").split():
            place = f"other modules of wyrm.{room}"
        place = _ELSEWHERE.get(rest, _ROOMS.get(room, place))
        if package == "wyrm" and place is not None:
            raise ModuleNotFoundError(
                f"No module named {name!r}: modules of this room of earlier versions are in {place} now. A pickle that "
                f"names one does not load; arrays that wy.io.save or Module.save wrote do.",
                name=name,
            )


def tell_of_moved_modules() -> None:
    """Make imports of modules of the earlier layout say where they are."""
    sys.meta_path.append(_Moved)
