"""Writes `wyrm/node/methods.py`: how the type checker sees the operators and methods that ops give to nodes.

Run `python -m wyrm.declare` after adding an op; a test compares the file with what this would write.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import FunctionType

import wyrm.ops  # the ops register as they are imported
from wyrm.node.base import REGISTRY
from wyrm.ops.elementwise import METHODS

_HEADER = '''"""The operators and methods of nodes, as the type checker sees them.

Written by `python -m wyrm.declare` from the ops, which bind the methods themselves; edit those, not this file.
"""

# ruff: noqa: E501
# mypy: disable-error-code="overload-overlap"
# (the overload for an unknown shape overlaps with those for known ones, and stands first on purpose)
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal, SupportsIndex, overload

    from numpy.typing import DTypeLike
    from typing_extensions import TypeVar, TypeVarTuple

    from wyrm.node.leaves import Constant
    from wyrm.node.node import IndexNode, Node
{imports}
    from wyrm.types.dims import Dim, One, Plus
    from wyrm.types.typing import Array, AtLeast1D, AtLeast2D, IntegerArray, Number, Shaped, Unknown

    A = TypeVar("A")
    B = TypeVar("B")
    K = TypeVar("K")
    M = TypeVar("M")
    N = TypeVar("N")
    S2 = TypeVar("S2")
    Bs = TypeVarTuple("Bs")
    NewDims = TypeVar("NewDims", bound=tuple[Dim, ...])
    OwnL = TypeVar("OwnL", bound=Node[Any, Any], covariant=True)
    OwnR = TypeVar("OwnR", bound=Node[Any, Any])
'''
_NAMES = {"L": "OwnL", "R": "OwnR", "S": "S2"}
_ALIASES = {"AxisLike": "reduction", "Index_": "slicing", "Reduction": "softmax"}


@cache
def _definitions(path: str) -> list[ast.FunctionDef]:
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def _from_function(name: str, function: FunctionType, on: str) -> str:
    """The overloads and the signature of a function, its first argument made `self`, with its docstring."""
    found = [d for d in _definitions(inspect.getsourcefile(function) or "") if d.name == function.__name__]
    blocks = []
    for definition in found:
        last = definition is found[-1]
        copy = ast.parse(ast.unparse(definition)).body[0]
        assert isinstance(copy, ast.FunctionDef)
        overloaded = any(isinstance(d, ast.Name) and d.id == "overload" for d in copy.decorator_list)
        copy.decorator_list = [d for d in copy.decorator_list if isinstance(d, ast.Name) and d.id == "overload"]
        copy.name = name
        first = (copy.args.posonlyargs or copy.args.args)[0]
        renamed = first.arg
        first.arg = "self"
        if on == "IndexNode" or (last and not overloaded and len(found) > 1):
            first.annotation = None
        docstring = ast.get_docstring(definition)
        copy.body = [ast.Expr(ast.Constant(...))]
        if docstring and last:
            copy.body = [ast.Expr(ast.Constant(docstring.partition("\n")[0].replace(renamed + "`", "self`")))]
        blocks.append(ast.unparse(copy))
    text = "\n".join(blocks)
    return re.sub(r"(?<![\w.'\"`])([LRS])(?![\w'\"`])", lambda match: _NAMES[match[1]], text)


def methods(on: str) -> str:
    """The declarations of all methods of the class `on`."""
    blocks = []
    declared = set()
    for cls in REGISTRY.values():
        if not cls.__module__.startswith("wyrm.") or on != "Node":
            continue
        more = getattr(cls, "more_arguments", "")
        if cls.operator is not None:
            template, reflected = cls.declaration, getattr(cls, "reflected", "")
            names = [(f"__{cls.operator}__", template)]
            if ("Node", f"__r{cls.operator}__") in METHODS:
                names.append((f"__r{cls.operator}__", reflected))
        elif cls.method is not None and cls.declaration:
            names = [(cls.method, cls.declaration)]
        else:
            continue
        for name, template in names:
            declared.add(name)
            text = template.strip().format(method=name, op=cls.__name__, more=more)
            blocks.append(
                text.removesuffix("...") + repr(f"""{(cls.__doc__ or "").partition(chr(10))[0]}""")
                if not name.startswith("__")
                else text
            )
    for (owner, name), function in METHODS.items():
        if owner == on and name not in declared and isinstance(function, FunctionType):
            if function.__name__ == "<lambda>":
                blocks.append(f"def {name}(self: Shaped[OwnL, S2]) -> Absolute[OwnL, S2]: ...")
            else:
                blocks.append(_from_function(name, function, on))
    return "\n".join(blocks)


def declarations() -> str:
    """The text of `wyrm/node/methods.py`."""
    bodies = {on: methods(on) for on in ("Node", "IndexNode")}
    used = set(re.findall(r"\w+", "\n".join(bodies.values())))
    modules: dict[str, list[str]] = {}
    for name, module in [(cls.__name__, cls.__module__) for cls in REGISTRY.values()] + [
        (alias, f"wyrm.ops.{module}") for alias, module in _ALIASES.items()
    ]:
        if name in used and module.startswith("wyrm."):
            modules.setdefault(module, []).append(name)
    imports = "\n".join(f"    from {module} import {', '.join(names)}" for module, names in sorted(modules.items()))
    text = _HEADER.replace("{imports}", imports)
    for on, name in (("Node", "Methods"), ("IndexNode", "IndexMethods")):
        body = "\n".join("        " + line for line in bodies[on].splitlines())
        text += f'\n\nclass {name}:\n    """What ops give to `{on}`."""\n\n    __slots__ = ()\n\n    if TYPE_CHECKING:\n{body}\n'
    formatted = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "-", "--stdin-filename", "methods.py", "--line-length", "200"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    return formatted.stdout


def target() -> Path:
    """The file that is written."""
    return Path(wyrm.ops.__file__).parents[1] / "node" / "methods.py"


if __name__ == "__main__":
    target().write_text(declarations(), encoding="utf-8")
