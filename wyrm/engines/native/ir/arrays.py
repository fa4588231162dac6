"""Array functions: the form of a graph as code, before the memory layout of its arrays is known.

An element access has one index per axis. The package `kernels` translates array functions to the loop
program, where an array is a pointer with sizes and strides. Their text reads like Python. Every class is frozen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, get_args

from wyrm.engines.native.ir.types import ScalarType
from wyrm.support.frozen import frozen


class Callee(Protocol):
    """A function that an array function calls."""

    @property
    def __name__(self) -> str: ...


# --- expressions: free of side effects; all operands are evaluated ---------------------------------------------------


@frozen
class Name:
    """A variable or a parameter. As an argument of a call it may name an array."""

    name: str

    def __str__(self) -> str:
        return self.name


@frozen
class Literal:
    """A constant. Without a type it is weakly typed: it takes the type of the other operand, as in NumPy."""

    value: float | int | bool
    type: ScalarType | None = None


@frozen
class Element:
    """An element of an array."""

    array: str
    index: tuple[Expression, ...]


@frozen
class ArraySize:
    """The size of an array along an axis."""

    array: str
    axis: int


@frozen
class Flat:
    """An array without axes as one with a single element."""

    array: str


@frozen
class Part:
    """The first `count` elements of an array along an axis; no axis before that has more than one element."""

    array: str
    axis: int
    count: Expression


@frozen
class Apply:
    """A scalar function applied to operands; `function` is its name in a formula, or one of four more.

    `accumulate` adds a term to a sum whose order of additions is free. `natural` asserts that an integer is at least 0.
    `min` returns the smaller of two integers. `quotient` divides by a number that is neither zero nor denormal; its
    error is at most 2 ulp.
    """

    function: str
    operands: tuple[Expression, ...]


@frozen
class Convert:
    """A conversion of a scalar to another type."""

    operand: Expression
    type: ScalarType


@frozen
class CallResult:
    """The result of a call."""

    function: Callee
    arguments: tuple[Expression, ...]


Expression = Name | Literal | Element | ArraySize | Flat | Part | Apply | Convert | CallResult


# --- statements ------------------------------------------------------------------------------------------------------


@frozen
class Let:
    """An assignment of a value to a variable."""

    variable: str
    value: Expression
    comment: str = ""


@frozen
class Store:
    """A write to an element, or an addition to it. None in the index selects all elements along that axis."""

    array: str
    index: tuple[Expression | None, ...]
    value: Expression
    adds: bool = False
    comment: str = ""


@frozen
class CountedLoop:
    """A loop whose index runs from 0 to `count - 1`."""

    index: str
    count: Expression
    body: tuple[Statement, ...]


@frozen
class Nest:
    """Loops inside of each other, the first outermost, whose indices occur only together, as neighbouring indices.

    Where the arrays that they index are in row-major order, they may run as one loop.
    """

    indices: tuple[str, ...]
    counts: tuple[Expression, ...]
    body: tuple[Statement, ...]


@frozen
class WhileLoop:
    """A loop that runs while a condition holds."""

    condition: Expression
    body: tuple[Statement, ...]


@frozen
class When:
    """A body that runs if a condition holds."""

    condition: Expression
    body: tuple[Statement, ...]


@frozen
class Break:
    """A jump to the end of the innermost loop."""


@frozen
class ReturnValue:
    """A return from the function with a value."""

    value: Expression


@frozen
class CallStatement:
    """A call whose result is ignored: it writes to its array arguments."""

    function: Callee
    arguments: tuple[Expression, ...]
    comment: str = ""


Statement = Let | Store | CountedLoop | Nest | WhileLoop | When | Break | ReturnValue | CallStatement
Code = Expression | Statement


def fill(array: str, axes: int, value: float = 0) -> Store:
    """Return the statement that writes a number to all elements of an array with this many axes."""
    return Store(array, (None,) * axes, Literal(value))


# Returns the name that is printed for a name, or what is printed for a comment.
Renaming = Callable[[str], str]


def _remark(comment: str) -> str:
    return f"  # {comment}" if comment else ""


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

    @property
    def uncommented(self) -> str:
        """The text without comments, which name nodes and sizes."""
        return self.printed(str, remark=lambda comment: "")

    def printed(self, names: Renaming, remark: Renaming = _remark) -> str:
        """Return the source text with each name replaced by `names(name)`, and each comment by `remark(comment)`."""
        head = f"def {names(self.name)}({', '.join(map(names, self.parameters))}):"
        return "\n".join([head, *_lines(self.body, names, remark, "    ")]) + "\n"

    @property
    def form(self) -> str:
        """The text with names numbered in order of appearance: equal for functions that differ only in their names."""
        numbers: dict[str, str] = {}
        return self.printed(lambda name: numbers.setdefault(name, f"<{len(numbers)}>"))

    def __str__(self) -> str:
        return self.text


def callees(item: Code) -> Iterator[Callee]:
    """Yield the function of each call in an expression or a statement, duplicates included."""
    if isinstance(item, CallResult | CallStatement):
        yield item.function
    for each in children(item):
        yield from callees(each)


def children(item: Code) -> Iterator[Code]:
    """Yield the expressions and statements directly inside of an expression or a statement."""
    for name in item.__dataclass_fields__:
        found = getattr(item, name)
        for each in found if isinstance(found, tuple) else (found,):
            if type(each) in _CODE:
                yield each


def uses(item: Code, names: Collection[str]) -> Iterator[tuple[str, tuple[Expression | None, ...]]]:
    """Yield each array that these variables index, with the index; no array and no index for any other use of them."""
    if isinstance(item, Name) and item.name in names:
        yield "", ()
    elif isinstance(item, Element | Store):
        if any(reads(each, names) for each in item.index if each is not None):
            yield item.array, item.index
        if isinstance(item, Store):
            yield from uses(item.value, names)
    else:
        for each in children(item):
            yield from uses(each, names)


def reads(item: Code, names: Collection[str]) -> bool:
    """Return whether an expression or a statement reads one of these variables."""
    return (isinstance(item, Name) and item.name in names) or any(reads(each, names) for each in children(item))


_CODE = frozenset(get_args(Expression) + get_args(Statement))

# --- text ------------------------------------------------------------------------------------------------------------

_SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "power": "**", "less": "<", "less_equal": "<=",
    "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!=", "logical_and": "and", "logical_or": "or",
}  # fmt: skip
_PREFIXES = {"negative": "-", "logical_not": "not "}


def text_of(expression: Expression, names: Renaming = str) -> str:
    """Return an expression as text, with each name replaced by `names(name)`."""
    match expression:
        case Name(name):
            return names(name)
        case Literal(value, type):
            return repr(value) if type is None else f"{type}({value!r})"
        case Element(array, index):
            return f"{names(array)}[{_list(index, names) or '()'}]"
        case ArraySize(array, axis):
            return f"{names(array)}.shape[{axis}]"
        case Flat(array):
            return f"{names(array)}.reshape(1)"
        case Part(array, axis, count):
            return f"{names(array)}[{':, ' * axis}:{_bare(count, names)}]"
        case Apply(function, operands):
            x = [text_of(each, names) for each in operands]
            if function in _SIGNS:
                return f"({x[0]} {_SIGNS[function]} {x[1]})"
            if function in _PREFIXES:
                return f"({_PREFIXES[function]}{x[0]})"
            return f"({x[1]} if {x[0]} else {x[2]})" if function == "where" else f"{function}({', '.join(x)})"
        case Convert(operand, type):
            return f"{type}({_bare(operand, names)})"
        case CallResult(function, arguments):
            return f"{function.__name__}({_list(arguments, names)})"


def _bare(expression: Expression, names: Renaming) -> str:
    """Return the text of an expression without its outermost parentheses."""
    text = text_of(expression, names)
    return text[1:-1] if isinstance(expression, Apply) and text.startswith("(") else text


def _list(expressions: Sequence[Expression | None], names: Renaming) -> str:
    return ", ".join(":" if each is None else _bare(each, names) for each in expressions)


def _lines(body: Sequence[Statement], names: Renaming, remark: Renaming, indent: str) -> Iterator[str]:
    """Yield the lines of statements."""
    for statement in body:
        match statement:
            case Let(variable, value, comment):
                yield f"{indent}{names(variable)} = {_bare(value, names)}{remark(comment)}"
            case Store(array, index, value, adds, comment):
                target = f"{names(array)}[{_list(index, names) or '()'}]"
                yield f"{indent}{target} {'+=' if adds else '='} {_bare(value, names)}{remark(comment)}"
            case CountedLoop(index, count, inner):
                yield f"{indent}for {names(index)} in range({_bare(count, names)}):"
                yield from _lines(inner, names, remark, f"{indent}    ")
            case Nest(indices, counts, inner):
                yield f"{indent}for {', '.join(map(names, indices))} in ndindex({_list(counts, names)}):"
                yield from _lines(inner, names, remark, f"{indent}    ")
            case WhileLoop(condition, inner) | When(condition, inner):
                yield f"{indent}{'while' if isinstance(statement, WhileLoop) else 'if'} {_bare(condition, names)}:"
                yield from _lines(inner, names, remark, f"{indent}    ")
            case Break():
                yield f"{indent}break"
            case ReturnValue(value):
                yield f"{indent}return {_bare(value, names)}"
            case CallStatement(function, arguments, comment):
                yield f"{indent}{function.__name__}({_list(arguments, names)}){remark(comment)}"
