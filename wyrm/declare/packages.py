"""The names that a package gets from its modules, in the table of `lazy_imports` in its `__init__.py`.

A module that the table does not have yet adds its `__all__`. In packages of `MARKS`, a function or class that has the
decorator there, such as a loss, an optimizer or a draw, is a public name wherever it stands.
"""

from __future__ import annotations

import ast
import importlib
import re
import textwrap
from pathlib import Path

from wyrm.declare.methods import formatted
from wyrm.errors import RegistrationError
from wyrm.support.imports import PACKAGES

# The decorator that makes a name of a package public.
MARKS = {
    "wyrm.losses": ("loss",), "wyrm.optim": ("with_options",), "wyrm.random": ("float_draw", "index_draw"),
}  # fmt: skip
_LINE = 120


def path_of(package: str) -> Path:
    """Return the path of the `__init__.py` of a package."""
    return Path(str(importlib.import_module(package).__file__))


def new_names(package: str) -> dict[str, list[str]]:
    """Return the names that the modules of a package define and its table lacks, by module."""
    known, folder = PACKAGES[package], path_of(package).parent
    modules = {module for module, _ in known.values()}
    found = {}
    for path in sorted(folder.glob("functions/*.py" if package == "wyrm" else "*.py")):
        module = ".".join([package, *path.relative_to(folder).with_suffix("").parts])
        statements = ast.parse(path.read_text(encoding="utf-8")).body if path.stem != "__init__" else []
        names = [] if module in modules else _names_in_all(statements)
        names += _marked(statements, MARKS.get(package, ()))
        if path.parent == folder and path.stem in names and path.stem not in known:
            raise RegistrationError(
                f"{package} cannot have the name {path.stem} from {path.name}: there it is the module; give the file "
                f"another name, such as that of its subject"
            )
        if names := [name for name in dict.fromkeys(names) if name not in known]:
            found[module] = names
    return found


def _names_in_all(statements: list[ast.stmt]) -> list[str]:
    """Return the `__all__` of a module."""
    for each in statements:
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "__all__":
            return sorted(ast.literal_eval(each.value))
    return []


def _marked(statements: list[ast.stmt], marks: tuple[str, ...]) -> list[str]:
    """Return the public functions and classes that have a decorator of these names, called or not."""
    return [
        each.name
        for each in statements
        if isinstance(each, ast.FunctionDef | ast.ClassDef) and not each.name.startswith("_")
        if any(ast.unparse(decorator).partition("(")[0] in marks for decorator in each.decorator_list)
    ]


def table(package: str) -> str:
    """Return the text of the `__init__.py` of a package with the new names of its modules in its table."""
    path = path_of(package)
    text, added = _without_gone(path.read_text(encoding="utf-8"), path.parent), new_names(package)
    for module, names in added.items():
        text = _with_names(text, module.removeprefix(f"{package}."), names)
    return formatted(text, path) if added else text


def _table_of(text: str) -> ast.Dict:
    """Return the table of names in the text of a package."""
    calls = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Call)]
    (listed,) = [call.args[1] for call in calls if ast.unparse(call.func) == "lazy_imports"]
    assert isinstance(listed, ast.Dict)
    return listed


def _without_gone(text: str, folder: Path) -> str:
    """Return the text of a package without the names of its table from modules whose files are gone."""
    listed = _table_of(text)
    for key, value in reversed(list(zip(listed.keys, listed.values, strict=True))):
        module = "" if key is None else str(ast.literal_eval(key))
        path = folder.joinpath(*module.split("."))
        if not module.startswith("wyrm.") and not path.is_dir() and not path.with_suffix(".py").exists():
            assert key is not None
            lines = _replaced(text.splitlines(), value, "").splitlines()  # the value first: it stands behind the key
            text = re.sub(rf"\n? *\"{module}\": ,?", "", "\n".join(lines) + "\n", count=1)
    return text


def _with_names(text: str, module: str, names: list[str]) -> str:
    """Return the text of a package with more names of a module in its table."""
    listed = _table_of(text)
    lines, keys = text.splitlines(), [ast.literal_eval(key) for key in listed.keys if key is not None]
    if module in keys:
        value = listed.values[keys.index(module)]
        return _replaced(lines, value, _literal(module, " ".join([ast.literal_eval(value), *names])))
    later = [key for key in keys if key > module and not key.startswith("wyrm.")]
    following = listed.keys[keys.index(later[0]) if later else -1]
    assert following is not None
    source = ast.get_source_segment(text, following)
    return _replaced(lines, following, f'"{module}": {_literal(module, " ".join(names))}, {source}')


def _literal(module: str, names: str) -> str:
    """Return the names of a module as a string, or as several in parentheses where a line is too short for one."""
    if len(f'        "{module}": "{names}",') <= _LINE:
        return repr(names)
    *lines, last = textwrap.wrap(names, _LINE - 16)
    return f"({' '.join(repr(f'{line} ') for line in lines)} {last!r})"


def _replaced(lines: list[str], node: ast.expr, source: str) -> str:
    """Return the text of lines with a node's source replaced."""
    assert node.end_lineno is not None and node.end_col_offset is not None
    before = [*lines[: node.lineno - 1], lines[node.lineno - 1][: node.col_offset]]
    after = [lines[node.end_lineno - 1][node.end_col_offset :], *lines[node.end_lineno :]]
    return "\n".join(before) + source + "\n".join(after) + "\n"
