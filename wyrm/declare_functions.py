"""Writes how the type checker sees the methods of nodes as functions: `wyrm/functions/methods.pyi`.

Run `python -m wyrm.declare_functions` after `python -m wyrm.declare`, whose declarations of the methods it turns into
those of the functions; a test compares the file with what this would write.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from pathlib import Path

from wyrm import declare
from wyrm.functions import methods

_FILE = '''"""The methods of nodes as functions, as the type checker sees them.

Written by `python -m wyrm.declare_functions` from the methods; edit those, not this file.
"""

# mypy: disable-error-code="overload-overlap, misc"
# (the overload for an unknown shape overlaps with those for known ones, and stands first on purpose)
{imports}
{functions}
'''
# What functions of arrays and numbers give, where it is not one node.
_OTHER_RESULTS = {"argmax": "_IndexNode[Any]", "split": "list[_Node[Any, Any]]"}


def names() -> list[str]:
    """The functions that there are."""
    return sorted(name for name, value in vars(methods).items() if hasattr(value, "__wrapped__"))


def _overload(method: ast.FunctionDef) -> tuple[ast.FunctionDef, ast.arg]:
    """The declaration as an overload of a function whose first parameter is called `x`, and that parameter."""
    function = copy.deepcopy(method)
    first = (function.args.posonlyargs or function.args.args)[0]
    first.arg = "x"
    function.body = [ast.Expr(ast.Constant(...))]
    function.decorator_list = [ast.Name("overload")]
    return function, first


def _functions(name: str, declared: list[ast.FunctionDef]) -> Iterator[ast.FunctionDef]:
    """The overloads of a function: those of the method, then one for arrays and numbers, which become constants."""
    for method in declared if len(declared) == 1 else declared[:-1]:
        yield _overload(method)[0]
    of_arrays, x = _overload(declared[-1])
    x.annotation = ast.parse("Number | Array", mode="eval").body
    of_arrays.returns = ast.parse(_OTHER_RESULTS.get(name, "_Node[Any, Any]"), mode="eval").body
    yield of_arrays


def declarations() -> str:
    """The text of the file."""
    (text,) = (text for file, text in declare.declarations().items() if file.startswith("methods."))
    statements = ast.parse(text)
    declared: dict[str, list[ast.FunctionDef]] = {name: [] for name in names()}
    (nodes,) = (each for each in statements.body if isinstance(each, ast.ClassDef) and each.name == "Node")
    for each in ast.walk(nodes):
        if isinstance(each, ast.FunctionDef) and each.name in declared:
            declared[each.name].append(each)
    functions = [function for name, found in declared.items() for function in _functions(name, found)]
    used = {each.id for function in functions for each in ast.walk(function) if isinstance(each, ast.Name)}
    imports = [
        f"from {each.module} import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
        for each in ast.walk(statements)
        if isinstance(each, ast.ImportFrom) and each.module != "__future__"
        for alias in each.names
        if (alias.asname or alias.name) in used
    ]
    text = "\n".join(ast.unparse(function) for function in functions).replace(",]", "]")
    return declare.formatted(_FILE.format(imports="\n".join(imports), functions=text), path())


def path() -> Path:
    """Where the file is written."""
    return Path(methods.__file__).with_suffix(".pyi")


if __name__ == "__main__":
    path().write_text(declarations(), encoding="utf-8")
