"""The generator of declarations: `python -m wyrm.declare` writes the types of methods and functions, and name tables.

Run it after adding an op, a method, a function or a public name of a package; a test says if a file is out of date. It
needs ruff, which formats the files. Everything follows from the code: from the ops that are registered, the overloads
of functions, and the `lazy_imports` of packages, to which new modules add their `__all__`, and modules of losses and
optimizers what has the decorator of these.
"""

from __future__ import annotations

from pathlib import Path


def declarations() -> dict[Path, str]:
    """Return the text of each generated file, by path."""
    from wyrm.declare import functions, methods, tables

    methods.check_formulas()
    return {methods.path(): methods.methods(), **functions.declarations(), **tables.declarations()}


def write() -> None:
    """Write the generated files that have changed."""
    for path, text in declarations().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
