"""Array functions: the IR that a graph is lowered to before the memory layout of its arrays is known.

An element access has one index per axis. The package `kernels` lowers array functions to the loop program, where
an array is a pointer with sizes and strides. Their text reads like Python. Every class is frozen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from wyrm.engines.native.ir.types import ScalarType

# Maps a name to the name that is printed for it.
Names = Callable[[str], str]


class Callee(Protocol):
    """A function that an array function calls."""

    @property
    def __name__(self) -> str: ...


# --- expressions: free of side effects; all operands are evaluated ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class Name:
    """A variable or a parameter. As an argument of a call it may name an array."""

    name: str

    def text(self, names: Names) -> str:
        """Return the expression as text."""
        return names(self.name)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. Without a type it is weakly typed: it takes the type of the other operand, as in NumPy."""

    value: float | int | bool
    type: ScalarType | None = None

    def text(self, names: Names) -> str:
        """Return the expression as text."""
        return repr(self.value) if self.type is None else f"{self.type}({self.value!r})"


@dataclass(frozen=True, slots=True)
class Element:
    """An element of an array."""

    array: str
    index: tuple[Expression, ...]

    def text(self, names: Names) -> str:
        """Return the expression as text."""
        return f"{names(self.array)}[{_index(self.index, names)}]"


@dataclass(frozen=True, slots=True)
class ArraySize:
    """The size of an array along an axis."""

    array: str
    axis: int

    def text(self, names: Names) -> str:
        """Return the expression as text."""
        return f"{names(self.array)}.shape[{self.axis}]"


_SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "power": "**", "less": "<", "less_equal": "<=",
    "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!=", "logical_and": "and", "logical_or": "or",
}  # fmt: skip
_PREFIXES = {"negative": "-", "logical_not": "not "}


@dataclass(frozen=True, slots=True)
class Apply:
    """A scalar function applied to operands; `function` is its name in a formula, or one of three more.

    `accumulate` adds a term to a sum whose order of additions is free. `natural` asserts that an integer is at least 0.
    `min` returns the smaller of two integers.
    """

    function: str
    operands: tuple[Expression, ...]

    def text(self, names: Names) -> str:
        """Return the expression as text."""
        operands = [each.text(names) for each in self.operands]
        if self.function in _SIGNS:
            return f"({operands[0]} {_SIGNS[self.function]} {operands[1]})"
        if self.function in _PREFIXES:
            return f"({_PREFIXES[self.function]}{operands[0]})"
        if self.function == "where":
            return f"({operands[1]} if {operands[0]} else {operands[2]})"
        return f"{self.function}({', '.join(operands)})"


@dataclass(frozen=True, slots=True)
class Convert:
    """A conversion of a scalar to another type."""

    operand: Expression
    type: ScalarType

    def text(self, names: Names) -> str:
        """Return the expression as text."""
        return f"{self.type}({_bare(self.operand, names)})"


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call."""

    function: Callee
    arguments: tuple[Expression, ...]

    def text(self, names: Names) -> str:
        """Return the expression as text."""
        return f"{self.function.__name__}({', '.join(_bare(each, names) for each in self.arguments)})"


Expression = Name | Literal | Element | ArraySize | Apply | Convert | CallResult


def _bare(expression: Expression, names: Names) -> str:
    """Return the text of an expression without its outermost parentheses."""
    text = expression.text(names)
    enclosed = isinstance(expression, Apply) and text.startswith("(")
    return text[1:-1] if enclosed else text


def _index(index: Sequence[Expression | None], names: Names) -> str:
    return ", ".join(":" if each is None else _bare(each, names) for each in index) or "()"


# --- statements ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Let:
    """An assignment of a value to a variable."""

    variable: str
    value: Expression
    comment: str = ""

    def lines(self, names: Names) -> Iterator[str]:
        """Yield the statement as lines of text."""
        yield f"{names(self.variable)} = {_bare(self.value, names)}{_remark(self.comment)}"


@dataclass(frozen=True, slots=True)
class Store:
    """A write to an element, or an addition to it. None in the index selects all elements along that axis."""

    array: str
    index: tuple[Expression | None, ...]
    value: Expression
    adds: bool = False
    comment: str = ""

    def lines(self, names: Names) -> Iterator[str]:
        """Yield the statement as lines of text."""
        target, sign = f"{names(self.array)}[{_index(self.index, names)}]", "+=" if self.adds else "="
        yield f"{target} {sign} {_bare(self.value, names)}{_remark(self.comment)}"


@dataclass(frozen=True, slots=True)
class CountedLoop:
    """A loop whose index runs from 0 to `count - 1`."""

    index: str
    count: Expression
    body: tuple[Statement, ...]

    def lines(self, names: Names) -> Iterator[str]:
        """Yield the statement as lines of text."""
        yield f"for {names(self.index)} in range({_bare(self.count, names)}):"
        yield from _indented(self.body, names)


@dataclass(frozen=True, slots=True)
class While:
    """A loop that runs while a condition holds."""

    condition: Expression
    body: tuple[Statement, ...]

    def lines(self, names: Names) -> Iterator[str]:
        """Yield the statement as lines of text."""
        yield f"while {_bare(self.condition, names)}:"
        yield from _indented(self.body, names)


@dataclass(frozen=True, slots=True)
class When:
    """A body that runs if a condition holds."""

    condition: Expression
    body: tuple[Statement, ...]

    def lines(self, names: Names) -> Iterator[str]:
        """Yield the statement as lines of text."""
        yield f"if {_bare(self.condition, names)}:"
        yield from _indented(self.body, names)


@dataclass(frozen=True, slots=True)
class Break:
    """A jump to the end of the innermost loop."""

    def lines(self, names: Names) -> Iterator[str]:
        """Yield the statement as lines of text."""
        yield "break"


@dataclass(frozen=True, slots=True)
class Return:
    """A return from the function with a value."""

    value: Expression

    def lines(self, names: Names) -> Iterator[str]:
        """Yield the statement as lines of text."""
        yield f"return {_bare(self.value, names)}"


@dataclass(frozen=True, slots=True)
class CallStatement:
    """A call whose result is ignored: it writes to its array arguments."""

    function: Callee
    arguments: tuple[Expression, ...]
    comment: str = ""

    def lines(self, names: Names) -> Iterator[str]:
        """Yield the statement as lines of text."""
        arguments = ", ".join(_bare(each, names) for each in self.arguments)
        yield f"{self.function.__name__}({arguments}){_remark(self.comment)}"


Statement = Let | Store | CountedLoop | While | When | Break | Return | CallStatement


def _indented(body: Sequence[Statement], names: Names) -> Iterator[str]:
    for statement in body:
        for line in statement.lines(names):
            yield f"    {line}"


def _remark(comment: str) -> str:
    return f"  # {comment}" if comment else ""


def fill(array: str, axes: int, value: float = 0) -> Store:
    """Return the statement that writes a number to all elements of an array with this many axes."""
    return Store(array, (None,) * axes, Literal(value))


# --- functions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArrayFunction:
    """A function of arrays and scalars."""

    name: str
    parameters: tuple[str, ...]
    body: tuple[Statement, ...]

    @cached_property
    def text(self) -> str:
        """The source text."""
        return self.printed(str)

    def printed(self, names: Names) -> str:
        """Return the source text with each name replaced by `names(name)`."""
        head = f"def {names(self.name)}({', '.join(map(names, self.parameters))}):"
        return "\n".join([head, *_indented(self.body, names)]) + "\n"

    @property
    def form(self) -> str:
        """The text with names numbered in order of appearance: equal for functions that differ only in their names."""
        numbers: dict[str, str] = {}
        return self.printed(lambda name: numbers.setdefault(name, f"<{len(numbers)}>"))

    def __str__(self) -> str:
        return self.text


def calls(body: Sequence[Statement]) -> Iterator[Callee]:
    """Yield the function of each call in the statements, duplicates included."""
    for statement in body:
        for each in _expressions(statement):
            yield from _called(each)
        if isinstance(statement, CallStatement):
            yield statement.function
        if isinstance(statement, CountedLoop | While | When):
            yield from calls(statement.body)


def _expressions(statement: Statement) -> Iterator[Expression]:
    match statement:
        case Let(_, value) | Return(value):
            yield value
        case Store(_, index, value):
            yield from (each for each in index if each is not None)
            yield value
        case CountedLoop(_, count):
            yield count
        case While(condition) | When(condition):
            yield condition
        case CallStatement(_, arguments):
            yield from arguments
        case Break():
            pass


def _called(expression: Expression) -> Iterator[Callee]:
    match expression:
        case CallResult(function, arguments):
            yield function
            for each in arguments:
                yield from _called(each)
        case Apply(_, operands):
            for each in operands:
                yield from _called(each)
        case Convert(operand, _):
            yield from _called(operand)
        case Element(_, index):
            for each in index:
                yield from _called(each)
        case _:
            pass
