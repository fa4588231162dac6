"""Writes how the type checker sees the operators and methods that ops give to nodes: `wyrm/node/operators.py` and
`wyrm/node/methods.py`.

Run `python -m wyrm.declare` after adding an op; a test compares the files with what this would write. It needs ruff,
which lays the files out. A function that is a method declares itself, by its own overloads; a class that is one is
declared by the template of its family (`declaration`, and `reflected` for an operator's right-hand form), in which
{method}, {op} and {more} are left open.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import wyrm.node
import wyrm.ops  # the ops register as they are imported
from wyrm.ops.elementwise import METHODS

_HEADER = '''"""{summary}

Written by `python -m wyrm.declare` from the ops, which bind the methods themselves; edit those, not this file.
"""

# ruff: noqa: E501
# mypy: disable-error-code="overload-overlap, misc"
# (first lines of docstrings stay on one line; the overload for an unknown shape overlaps with those for known ones, and
# stands first on purpose; that only nodes inherit these methods, the types of `self` cannot know)
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
{imports}
'''
_CLASS = '''

class {name}:
    """What ops give to `{owner}`: {what}, `x` being the node itself."""

    __slots__ = ()

    if TYPE_CHECKING:
{body}
'''
# Where the templates' names come from; a function's come from its own module.
_VOCABULARY = ("wyrm.types.typing", "wyrm.types.dims", "wyrm.node.leaves", "wyrm.ops.elementwise", "typing")


class Mixin(NamedTuple):
    """One class of declarations, for the methods of one class of nodes."""

    file: str
    name: str
    owner: str
    what: str
    operators: bool


_MIXINS = (
    Mixin("operators.py", "Operators", "Node", "the operators", operators=True),
    Mixin("methods.py", "Methods", "Node", "the methods", operators=False),
    Mixin("methods.py", "ParameterMethods", "Parameter", "the methods", operators=False),
    Mixin("methods.py", "IndexMethods", "IndexNode", "the methods", operators=False),
)
_SUMMARIES = {
    "operators.py": "The operators of nodes, as the type checker sees them.",
    "methods.py": "The methods of nodes, as the type checker sees them.",
}


class Declaration(NamedTuple):
    """One method: its `def` statements, the last one being the implementation, and the module that they speak of."""

    statements: list[ast.FunctionDef]
    module: str

    @property
    def text(self) -> str:
        """The source text."""
        # `ast.unparse` writes `tuple[*Bs,]` for `tuple[*Bs]`.
        return "\n".join(ast.unparse(statement) for statement in self.statements).replace(",]", "]")


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


def _from_class(name: str, cls: Any) -> Declaration:
    """What the template of the op's family says."""
    template = cls.reflected if name == f"__r{cls.operator}__" else cls.declaration
    more = getattr(cls, "more_arguments", "")
    text = template.format(method=name, op=cls.__name__, more=more)
    return _documented(_functions(ast.parse(text).body, name), cls.__doc__, cls.__module__)


def _from_function(name: str, function: Any) -> Declaration:
    """What the function's own overloads say, its first parameter being the node."""
    statements = []
    for original in _functions(_tree(function.__module__).body, function.__name__):
        statement = _functions(ast.parse(ast.unparse(original)).body, function.__name__)[0]
        statement.name = name
        statement.decorator_list = [
            decorator for decorator in statement.decorator_list if ast.unparse(decorator) == "overload"
        ]
        node = (statement.args.posonlyargs or statement.args.args)[0]
        node.arg = "self"
        if node.annotation is not None and ast.unparse(node.annotation) == "Any":
            node.annotation = None  # the implementation of overloads
        statement.body = [ast.Expr(ast.Constant(...))]
        statements.append(statement)
    return _documented(statements, function.__doc__, function.__module__)


def _documented(statements: list[ast.FunctionDef], docstring: str | None, module: str) -> Declaration:
    """The declaration with the first line of the docstring in its last statement."""
    if docstring:
        statements[-1].body = [ast.Expr(ast.Constant(docstring.partition("\n")[0]))]
    return Declaration(statements, module)


def _declared(mixin: Mixin) -> list[Declaration]:
    """The declarations of a class, by the module of their ops and there in the order of binding."""
    sources = [
        (name, source)
        for (owner, name), source in METHODS.items()
        if owner == mixin.owner
        and source.__module__.startswith("wyrm.")
        and (owner != "Node" or name.startswith("__") == mixin.operators)
    ]
    sources.sort(key=lambda pair: pair[1].__module__)
    return [
        _from_class(name, source) if isinstance(source, type) else _from_function(name, source)
        for name, source in sources
    ]


def _imports(declarations: Iterable[Declaration]) -> str:
    """The imports of what the declarations name."""
    wanted: dict[str, set[str]] = {}
    for statements, module in declarations:
        for node in (node for statement in statements for node in ast.walk(statement)):
            if isinstance(node, ast.Name):
                found = (_origins(place).get(node.id) for place in (module, *_VOCABULARY))
                origin = next((origin for origin in found if origin is not None), None)
                if origin is not None:  # else a builtin
                    wanted.setdefault(origin, set()).add(node.id)
    return "\n".join(f"    from {module} import {', '.join(sorted(names))}" for module, names in sorted(wanted.items()))


def _indented(text: str) -> str:
    return "\n".join(f"        {line}" for line in text.splitlines())


def declarations() -> dict[str, str]:
    """The text of each file of `wyrm/node` that is written, by its name."""
    texts = {}
    for file, summary in _SUMMARIES.items():
        declared = {mixin: _declared(mixin) for mixin in _MIXINS if mixin.file == file}
        texts[file] = _HEADER.format(summary=summary, imports=_imports(itertools.chain(*declared.values()))) + "".join(
            _CLASS.format(
                name=mixin.name,
                owner=mixin.owner,
                what=mixin.what,
                body=_indented("\n".join(declaration.text for declaration in found)),
            )
            for mixin, found in declared.items()
        )
    return {file: _formatted(text) for file, text in texts.items()}


def _formatted(text: str) -> str:
    """The text as the project's settings of ruff lay it out, imports sorted."""
    place = ["--stdin-filename", str(folder() / "declared.py"), "-"]
    for command in (["check", "--quiet", "--fix", "--select", "I"], ["format"]):
        finished = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *place], input=text, capture_output=True, text=True, check=True
        )
        text = finished.stdout
    return text


def folder() -> Path:
    """Where the files are written."""
    return Path(wyrm.node.__file__).parent


if __name__ == "__main__":
    for file, text in declarations().items():
        (folder() / file).write_text(text, encoding="utf-8")
