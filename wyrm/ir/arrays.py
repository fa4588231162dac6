"""Functions over whole arrays: what a graph is lowered to, before it is known how its arrays lie in memory.

An element has one index for each axis. `wyrm.kernels` turns such a function into one of the loop program, where an
array is a pointer with sizes and steps. Printed, it reads like Python; every class is frozen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from wyrm.ir.types import ScalarType

# What a name is printed as.
Names = Callable[[str], str]


class Callee(Protocol):
    """A function that another one calls."""

    @property
    def __name__(self) -> str: ...


# --- expressions: without effects, and all operands are evaluated ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Name:
    """A variable or an argument; an array too, where it is what a function is called with."""

    name: str

    def text(self, names: Names) -> str:
        """The expression as text."""
        return names(self.name)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Literal:
    """A number. Without a type it takes the type of what it meets, as in NumPy."""

    value: float | int | bool
    type: ScalarType | None = None

    def text(self, names: Names) -> str:
        """The expression as text."""
        return repr(self.value) if self.type is None else f"{self.type}({self.value!r})"


@dataclass(frozen=True, slots=True)
class Element:
    """An element of an array."""

    array: str
    index: tuple[Expression, ...]

    def text(self, names: Names) -> str:
        """The expression as text."""
        return f"{names(self.array)}[{_index(self.index, names)}]"


@dataclass(frozen=True, slots=True)
class ArraySize:
    """How many elements an array has along an axis."""

    array: str
    axis: int

    def text(self, names: Names) -> str:
        """The expression as text."""
        return f"{names(self.array)}.shape[{self.axis}]"


_SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "power": "**", "less": "<", "less_equal": "<=",
    "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!=", "logical_and": "and", "logical_or": "or",
}  # fmt: skip
_PREFIXES = {"negative": "-", "logical_not": "not "}


@dataclass(frozen=True, slots=True)
class Apply:
    """A function of numbers, by its name in a formula.

    Beside those, `accumulate` adds a term to a sum whose terms may be added in any order, `natural` says that an
    integer is at least 0, and `min` is the smaller of two integers.
    """

    function: str
    operands: tuple[Expression, ...]

    def text(self, names: Names) -> str:
        """The expression as text."""
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
    """A number as one of another type."""

    operand: Expression
    type: ScalarType

    def text(self, names: Names) -> str:
        """The expression as text."""
        return f"{self.type}({_bare(self.operand, names)})"


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a function returns."""

    function: Callee
    arguments: tuple[Expression, ...]

    def text(self, names: Names) -> str:
        """The expression as text."""
        return f"{self.function.__name__}({', '.join(_bare(each, names) for each in self.arguments)})"


Expression = Name | Literal | Element | ArraySize | Apply | Convert | CallResult


def _bare(expression: Expression, names: Names) -> str:
    """The text without the parentheses around all of it."""
    text = expression.text(names)
    enclosed = isinstance(expression, Apply) and text.startswith("(")
    return text[1:-1] if enclosed else text


def _index(index: Sequence[Expression | None], names: Names) -> str:
    return ", ".join(":" if each is None else _bare(each, names) for each in index) or "()"


# --- statements ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Let:
    """A variable has a value from now on."""

    variable: str
    value: Expression
    comment: str = ""

    def lines(self, names: Names) -> Iterator[str]:
        """The statement as lines of text."""
        yield f"{names(self.variable)} = {_bare(self.value, names)}{_remark(self.comment)}"


@dataclass(frozen=True, slots=True)
class Store:
    """Write an element, or add to it; None in the index stands for all elements along an axis."""

    array: str
    index: tuple[Expression | None, ...]
    value: Expression
    adds: bool = False
    comment: str = ""

    def lines(self, names: Names) -> Iterator[str]:
        """The statement as lines of text."""
        target, sign = f"{names(self.array)}[{_index(self.index, names)}]", "+=" if self.adds else "="
        yield f"{target} {sign} {_bare(self.value, names)}{_remark(self.comment)}"


@dataclass(frozen=True, slots=True)
class CountedLoop:
    """The body for every index below a count."""

    index: str
    count: Expression
    body: tuple[Statement, ...]

    def lines(self, names: Names) -> Iterator[str]:
        """The statement as lines of text."""
        yield f"for {names(self.index)} in range({_bare(self.count, names)}):"
        yield from _indented(self.body, names)


@dataclass(frozen=True, slots=True)
class While:
    """The body as long as a condition holds."""

    condition: Expression
    body: tuple[Statement, ...]

    def lines(self, names: Names) -> Iterator[str]:
        """The statement as lines of text."""
        yield f"while {_bare(self.condition, names)}:"
        yield from _indented(self.body, names)


@dataclass(frozen=True, slots=True)
class When:
    """The body where a condition holds."""

    condition: Expression
    body: tuple[Statement, ...]

    def lines(self, names: Names) -> Iterator[str]:
        """The statement as lines of text."""
        yield f"if {_bare(self.condition, names)}:"
        yield from _indented(self.body, names)


@dataclass(frozen=True, slots=True)
class Break:
    """Go on after the innermost loop."""

    def lines(self, names: Names) -> Iterator[str]:
        """The statement as lines of text."""
        yield "break"


@dataclass(frozen=True, slots=True)
class Return:
    """End the function with a result."""

    value: Expression

    def lines(self, names: Names) -> Iterator[str]:
        """The statement as lines of text."""
        yield f"return {_bare(self.value, names)}"


@dataclass(frozen=True, slots=True)
class CallStatement:
    """Call a function for what it writes."""

    function: Callee
    arguments: tuple[Expression, ...]
    comment: str = ""

    def lines(self, names: Names) -> Iterator[str]:
        """The statement as lines of text."""
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
    """Write a number to all elements of an array."""
    return Store(array, (None,) * axes, Literal(value))


# --- functions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArrayFunction:
    """A function of arrays and numbers."""

    name: str
    parameters: tuple[str, ...]
    body: tuple[Statement, ...]

    @cached_property
    def text(self) -> str:
        """The function as text."""
        return self.printed(str)

    def printed(self, names: Names) -> str:
        """The function as text, with other names."""
        head = f"def {names(self.name)}({', '.join(map(names, self.parameters))}):"
        return "\n".join([head, *_indented(self.body, names)]) + "\n"

    @property
    def form(self) -> str:
        """The text with its names numbered as they appear: the same for functions that differ in names alone."""
        numbers: dict[str, str] = {}
        return self.printed(lambda name: numbers.setdefault(name, f"<{len(numbers)}>"))

    def __str__(self) -> str:
        return self.text


def calls(body: Sequence[Statement]) -> Iterator[Callee]:
    """The functions that statements call, each as often as it stands there."""
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
