"""Functions of the language of kernels: a function of Python, and how it is compiled."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

from wyrm.compiler.errors import NotCompiled


class KernelFunction:
    """A Python function that is compiled for the kinds of its arguments; called from Python, it is that function.

    `distinct`: no two of its arrays show the same memory. `inlined`: it becomes a part of those that call it. `fused`:
    products may be rounded together with the sums that take them in. `shared`: it is compiled once for all programs,
    "always", or where one with `calls_shared` calls it. With `calls_apart` all that it calls is compiled apart from it,
    but for what has no loop and is inlined: a large function takes longer to compile than the sum of its parts.
    The constants of a `generated` one are arguments of the machine code.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        distinct: bool = False,
        inlined: bool = False,
        fused: bool = False,
        shared: Literal["never", "called", "always"] = "never",
        calls_shared: bool = False,
        calls_apart: bool = False,
        generated: bool = False,
    ) -> None:
        self.function = function
        self.distinct, self.inlined, self.fused = distinct, inlined, fused
        self.shared, self.calls_shared, self.calls_apart = shared, calls_shared, calls_apart
        self.generated = generated
        # The file and line of the definition that this one is a copy of.
        self.origin: tuple[str, int] | None = None
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    @property
    def tree(self) -> ast.FunctionDef:
        """The function as a syntax tree."""
        code = self.function.__code__
        found = _definitions(code.co_filename).get((self.function.__name__, code.co_firstlineno))
        if found is None:
            raise NotCompiled(f"the source of {self.function.__name__} is not in a file", self.where())
        return found

    def globals(self) -> dict[str, Any]:
        """What its global names stand for."""
        return self.function.__globals__

    def closure(self) -> tuple[str, ...]:
        """The names of variables of a function around it, which it may not use."""
        return self.function.__code__.co_freevars

    def where(self, line: int | None = None) -> str:
        """The function and a line of it, for messages."""
        code = self.function.__code__
        if self.origin is None:
            return f"{self.function.__name__}, {code.co_filename}:{line or code.co_firstlineno}"
        file, first = self.origin
        after = 0 if line is None else line - self.tree.lineno
        return f"{self.function.__name__}, {file}:{first + after}"


@cache
def _definitions(file: str) -> dict[tuple[str, int], ast.FunctionDef]:
    """The functions of a file, by name and first line, which is that of the first decorator."""
    found = {}
    for node in ast.walk(ast.parse("".join(linecache.getlines(file)))):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            found[node.name, first] = node
    return found
