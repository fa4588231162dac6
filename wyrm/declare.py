"""Writes the stubs of the operators and methods of nodes: `wyrm/node/operators.pyi` and `methods.pyi`.

Run `python -m wyrm.declare` after adding an op; a test compares the files with what this would write. It needs ruff,
which lays the files out. A function that is a method declares itself, by its own overloads. A class that is one is
declared by the templates of its family: `declaration` for a method, `operator_declaration` and `reflected` for the two
sides of an operator, in which {method}, {op} and {more} are left open.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import wyrm.node
import wyrm.ops  # the ops register as they are imported
from wyrm.ops.elementwise import METHODS

_FILE = """# {summary}
#
# Written by `python -m wyrm.declare` from the ops, which bind the methods themselves; edit those, not this file. A
# class is called like the one that inherits it, for mypy's messages name the class that declares a method.

# mypy: disable-error-code="overload-overlap, misc, override"
# pyright: reportIncompatibleMethodOverride=false
# (the overload for an unknown shape overlaps with those for known ones, and stands first on purpose; that only nodes
# inherit these methods, the types of `self` do not know; `==` makes a mask of a node or a number, where that of
# `object` takes anything and gives a bool)
{imports}
{classes}"""
_CLASS = '''

class {owner}:
    """What ops give to `{owner}`, which is the `x` of these descriptions."""

{body}
'''
# Where the templates' names come from; those of a function come from its own module.
_VOCABULARY = ("wyrm.types.typing", "wyrm.types.dims", "wyrm.ops.elementwise", "wyrm.node.leaves", "typing")
_SUMMARIES = {
    "operators.pyi": "The operators of nodes.",
    "methods.pyi": "The methods of nodes.",
}
# The classes of each file.
_OWNERS = {"operators.pyi": ("Node",), "methods.pyi": ("Node", "Parameter", "IndexNode")}


class Declaration(NamedTuple):
    """One method: its `def` statements, several where it is overloaded, and the module whose names they mention."""

    statements: list[ast.FunctionDef]
    module: str

    @property
    def text(self) -> str:
        """The source text."""
        # `ast.unparse` writes `tuple[*Bs,]` for `tuple[*Bs]`.
        return "\n".join(ast.unparse(statement) for statement in self.statements).replace(",]", "]")

    def names(self) -> set[str]:
        """The names that it mentions."""
        nodes = (node for statement in self.statements for node in ast.walk(statement))
        return {node.id for node in nodes if isinstance(node, ast.Name)}


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[module]))


@cache
def _origins(module: str) -> dict[str, str]:
    """The names at the top level of a module, each with the module that defines it."""
    origins: dict[str, str] = {}
    for statement in _tree(module).body:
        match statement:
            case ast.ImportFrom(module=str(origin), names=names):
                origins |= {alias.name: origin for alias in names}
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                origins[name] = module
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                origins[name] = module
    return origins


def _functions(body: Iterable[ast.stmt], name: str) -> list[ast.FunctionDef]:
    return [statement for statement in body if isinstance(statement, ast.FunctionDef) and statement.name == name]


def _without_implementation(statements: list[ast.FunctionDef]) -> list[ast.FunctionDef]:
    """The overloads alone, where there are some: a stub has no implementation of them."""
    return [statement for statement in statements if _is_overload(statement)] or statements


def _is_overload(statement: ast.FunctionDef) -> bool:
    return any(ast.unparse(decorator) == "overload" for decorator in statement.decorator_list)


def _from_class(name: str, cls: Any, owner: str) -> Declaration:
    """What the template of the op's family says."""
    if owner == "IndexNode":
        template = cls.index_declaration
    elif name == f"__r{cls.operator}__":
        template = cls.reflected
    else:
        template = cls.operator_declaration if name == f"__{cls.operator}__" else cls.declaration
    text = template.format(method=name, op=cls.__name__, more=getattr(cls, "more_arguments", ""))
    return _documented(_without_implementation(_functions(ast.parse(text).body, name)), cls.__doc__, cls.__module__)


def _from_function(name: str, function: Any) -> Declaration:
    """What the function's own overloads say, its first parameter being the node."""
    statements = []
    for original in _without_implementation(_functions(_tree(function.__module__).body, function.__name__)):
        (statement,) = _functions(ast.parse(ast.unparse(original)).body, function.__name__)
        statement.name = name
        statement.decorator_list = [ast.Name("overload")] if _is_overload(statement) else []
        (statement.args.posonlyargs or statement.args.args)[0].arg = "self"
        statement.body = [ast.Expr(ast.Constant(...))]
        statements.append(statement)
    return _documented(statements, function.__doc__, function.__module__)


def _documented(statements: list[ast.FunctionDef], docstring: str | None, module: str) -> Declaration:
    """The declaration with the first line of the docstring in its last statement."""
    if docstring:
        statements[-1].body = [ast.Expr(ast.Constant(docstring.partition("\n")[0]))]
    return Declaration(statements, module)


def _declared(file: str, owner: str) -> list[Declaration]:
    """The declarations of a class, by the module of their ops and there in the order of binding."""
    operators = file == "operators.pyi"
    sources = [
        (name, source)
        for (bound_to, name), source in METHODS.items()
        if bound_to == owner
        and source.__module__.startswith("wyrm.")
        and (owner != "Node" or name.startswith("__") == operators)
    ]
    sources.sort(key=lambda pair: pair[1].__module__)
    return [
        _from_class(name, source, owner) if isinstance(source, type) else _from_function(name, source)
        for name, source in sources
    ]


def _imports(declarations: Iterable[Declaration]) -> str:
    """The imports of what the declarations name; nodes' classes under the name that `_renamed` gives them."""
    lines = set()
    for declaration in declarations:
        for name in declaration.names():
            found = (_origins(place).get(name) for place in (declaration.module, *_VOCABULARY))
            origin = next((origin for origin in found if origin is not None), None)
            if origin is not None:  # else a builtin
                lines.add(f"from {origin} import {name}{f' as _{name}' if name in _OWNERS['methods.pyi'] else ''}")
    return "\n".join(sorted(lines))


def _renamed(text: str) -> str:
    """The text with the nodes' classes under other names than those of the classes of the file."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in _OWNERS["methods.pyi"]:
            node.id = f"_{node.id}"
    return ast.unparse(tree).replace(",]", "]")


def _formatted(text: str) -> str:
    """The text as the project's settings of ruff lay it out, imports sorted."""
    place = ["--stdin-filename", str(folder() / "declared.pyi"), "-"]
    for command in (["check", "--quiet", "--fix", "--select", "I"], ["format"]):
        finished = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *place], input=text, capture_output=True, text=True, check=True
        )
        text = finished.stdout
    if any(len(line) > 120 for line in text.splitlines()):
        text = text.replace(
            "\n# mypy:", "\n# ruff: noqa: E501  # the first lines of descriptions stay whole\n# mypy:", 1
        )
    return text


def declarations() -> dict[str, str]:
    """The text of each file of `wyrm/node` that is written, by its name."""
    texts = {}
    for file, summary in _SUMMARIES.items():
        declared = {owner: _declared(file, owner) for owner in _OWNERS[file]}
        bodies = {owner: _renamed("\n".join(one.text for one in found)) for owner, found in declared.items()}
        # A class with an `__eq__` has no hash, unless it says so.
        bodies = {
            owner: body + "\ndef __hash__(self) -> int: ..." * ("def __eq__" in body) for owner, body in bodies.items()
        }
        classes = "".join(
            _CLASS.format(owner=owner, body="\n".join(f"    {line}" for line in body.splitlines()))
            for owner, body in bodies.items()
        )
        imports = _imports(one for found in declared.values() for one in found)
        texts[file] = _formatted(_FILE.format(summary=summary, imports=imports, classes=classes))
    return texts


def folder() -> Path:
    """Where the files are written."""
    return Path(wyrm.node.__file__).parent


if __name__ == "__main__":
    for file, text in declarations().items():
        (folder() / file).write_text(text, encoding="utf-8")
