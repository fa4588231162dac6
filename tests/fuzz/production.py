"""Productions: the operations that random programs are made of, what each needs, and its Python source."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import numpy as np

# An axis whose size the data of each run determine, and an axis computed from such axes.
ROWS: Final = "rows"
OTHER: Final = "other"
Sizes = tuple[int | str, ...]


class Unfit(Exception):
    """A production cannot be applied to the operands chosen so far."""


@dataclass(frozen=True)
class Value:
    """A value of the program that is being generated: its axes, and an example of its data."""

    dims: Sizes
    array: np.ndarray

    @property
    def rank(self) -> int:
        return len(self.dims)

    def size(self, axis: int) -> int:
        """Return the size of an axis; raise `Unfit` if only the data determine it."""
        if not -self.rank <= axis < self.rank or not isinstance(self.dims[axis], int):
            raise Unfit
        return int(self.dims[axis])


# Operands and options chosen so far, by the name of the parameter.
Chosen = Mapping[str, Any]


@dataclass(frozen=True)
class Operand:
    """What a production needs in place of a parameter: a value of the program, or a new leaf that fits.

    `kind` is "f", "i" or "b". A value fits if its rank is in `ranks`, if its axes are `dims(chosen)`, if it broadcasts
    to `beside` and if its integers are indices of an axis of the size `below(chosen)`.
    """

    kind: str = "f"
    ranks: tuple[int, int] = (0, 4)
    dims: Callable[[Chosen], Sizes] | None = None
    beside: str | None = None
    below: Callable[[Chosen], int] | None = None

    def accepts(self, value: Value, chosen: Chosen) -> bool:
        if value.array.dtype.kind != self.kind or not self.ranks[0] <= value.rank <= self.ranks[1]:
            return False
        if self.dims is not None and (value.dims != self.dims(chosen) or OTHER in value.dims):
            return False
        if self.beside is not None and not _broadcast(value.dims, chosen[self.beside].dims):
            return False
        if self.below is not None:
            size = self.below(chosen)
            return bool(size > 0 and value.array.size and value.array.min() >= 0 and value.array.max() < size)
        return True

    def new_dims(self, random: np.random.Generator, chosen: Chosen, sizes: Callable[[int, int], Sizes]) -> Sizes:
        """Return the axes of a new leaf that fits; `sizes` draws axes, given the least and the highest rank."""
        dims = sizes(*self.ranks) if self.dims is None else self.dims(chosen)
        if self.beside is not None:
            whole = chosen[self.beside].dims
            kept = whole[random.integers(0, len(whole) + 1) :] if random.random() < 0.4 else whole
            dims = tuple(1 if random.random() < 0.15 else size for size in kept)
        if OTHER in dims:
            raise Unfit
        return dims


def _broadcast(one: Sizes, other: Sizes) -> bool:
    pairs = list(zip(one[::-1], other[::-1], strict=False))
    return OTHER not in (*one, *other) and all(a == b or 1 in (a, b) for a, b in pairs)


@dataclass(frozen=True)
class Option:
    """A static argument, drawn when the operands before it are known."""

    draw: Callable[[np.random.Generator, Chosen], Any]


@dataclass(frozen=True)
class P:
    """A production: `build(*operands, **options)` returns a node.

    `needs` has an `Operand` or an `Option` for each parameter of `build`, a lambda whose source becomes a line of the
    printed program. Tags: "numpy" if `build` computes the same from arrays; "step" if the gradient is not the
    derivative of the value; "draws" if it draws random numbers; "slow" if it takes long to compile; "python" if an op
    of it or of its gradient has no native form.
    """

    name: str
    build: Callable[..., Any]
    needs: Mapping[str, Operand | Option]
    tags: frozenset[str]

    def __init__(self, name: str, build: Callable[..., Any], tags: str = "", **needs: Operand | Option) -> None:
        for field, value in [("name", name), ("build", build), ("needs", needs), ("tags", frozenset(tags.split()))]:
            object.__setattr__(self, field, value)

    def source(self, arguments: Mapping[str, str]) -> str:
        """Return the Python source of an application, given the source of each argument."""
        function = _lambdas(self.build.__module__)[self.name]
        return ast.unparse(_Substitution(arguments).visit(ast.parse(ast.unparse(function.body), mode="eval").body))

    def check(self) -> None:
        """Raise `ValueError` unless the needs are those of the parameters."""
        build = self.build
        assert isinstance(build, FunctionType)
        parameters = build.__code__.co_varnames[: build.__code__.co_argcount]
        if parameters != tuple(self.needs) or self.name not in _lambdas(build.__module__):
            raise ValueError(f"production {self.name}: its parameters are {parameters}, its needs {tuple(self.needs)}")


@dataclass(frozen=True)
class Body:
    """A function of one array that keeps its shape, as an option: what a transform differentiates or a loop repeats."""

    name: str
    function: Callable[[Any], Any]

    def __call__(self, x: Any) -> Any:
        return self.function(x)

    def source(self) -> str:
        return ast.unparse(_lambdas(self.function.__module__)[self.name])


@functools.cache
def _lambdas(module: str) -> dict[str, ast.Lambda]:
    """Return the lambdas of the productions and bodies that a module lists, by name."""
    path = sys.modules[module].__file__
    assert path is not None
    found = {}
    for part in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"))):
        match part:
            case ast.Call(
                func=ast.Name(id="P" | "Body"), args=[ast.Constant(value=str(name)), ast.Lambda() as function, *_]
            ):
                found[name] = function
    return found


class _Substitution(ast.NodeTransformer):
    """Replaces names by expressions."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.expressions = {name: ast.parse(source, mode="eval").body for name, source in sources.items()}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.expressions.get(node.id, node)


def literal(value: Any) -> str:
    """Return the Python source of an option."""
    if isinstance(value, Body):
        return f"({value.source()})"
    if isinstance(value, np.ndarray):
        return f"np.array({value.tolist()})" if value.size else f"np.zeros({value.shape}, np.{value.dtype})"
    if isinstance(value, tuple):
        return f"({''.join(literal(item) + ', ' for item in value)})"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    return "..." if value is ... else repr(value)
