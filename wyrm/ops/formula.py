"""Formulas: the text that gives an elementwise op its meaning in every engine, parsed to a list of calls.

`"0.5 * x * (1.0 + erf(x))"` means the same to NumPy, to a compiled loop and to JAX. The operands are `x`, `y`, `z` in
the order of the parents; other names are the op's static attributes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

from wyrm.errors import RegistrationError
from wyrm.types.exact import exact
from wyrm.types.namespace import ArrayNamespace
from wyrm.types.records import Record

T = TypeVar("T")

_ARRAY_NAMES = {"abs": "absolute"}


def array_function(xp: ArrayNamespace, name: str) -> Callable[..., Any]:
    """The function of an array namespace that a formula calls by this name."""
    if name == "erf" and not hasattr(xp, "erf"):
        from scipy.special import erf

        return erf
    return getattr(xp, _ARRAY_NAMES.get(name, name))  # type: ignore[no-any-return]  # the ufunc of that name


OPERANDS = ("x", "y", "z")

# Every function that a formula may call, with its number of arguments. An engine knows these and no others.
FUNCTIONS = {
    "abs": 1,
    "cos": 1,
    "cosh": 1,
    "erf": 1,
    "exp": 1,
    "exp2": 1,
    "expm1": 1,
    "log": 1,
    "log10": 1,
    "log1p": 1,
    "log2": 1,
    "maximum": 2,
    "minimum": 2,
    "sign": 1,
    "sin": 1,
    "sinh": 1,
    "sqrt": 1,
    "tanh": 1,
    "where": 3,
}
_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
    ast.BitAnd: "logical_and",
    ast.BitOr: "logical_or",
}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
}
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "negative", ast.Invert: "logical_not"}
MASKS = frozenset([*_COMPARE.values(), "logical_and", "logical_or", "logical_not"])


# Classes that differ even where their contents do not: the first operand is not the first result.
class Operand(Record):
    """The value of the parent at this position."""

    __slots__ = ("position",)
    position: int


class Attribute(Record):
    """A static attribute of the op, by name."""

    __slots__ = ("name",)
    name: str


class EarlierCall(Record):
    """The result of the call at this position."""

    __slots__ = ("position",)
    position: int


Argument = Operand | Attribute | EarlierCall | float


class FormulaCall(NamedTuple):
    """One function applied to arguments; the names are NumPy's."""

    function: str
    arguments: tuple[Argument, ...]


@cache
def parse(formula: str) -> tuple[FormulaCall, ...]:
    """The calls that compute `formula`, the last one giving its value; equal subexpressions are computed once.

    Raises `RegistrationError` naming what the formula language does not have.

    >>> [call.function for call in parse("x * tanh(x)")]
    ['tanh', 'multiply']
    """
    try:
        tree = ast.parse(formula, mode="eval").body
    except SyntaxError as error:
        raise RegistrationError(f"formula {formula!r} is not an expression: {error.msg}") from None
    calls: list[FormulaCall] = []
    known: dict[Hashable, EarlierCall] = {}

    def emit(function: str, *arguments: Argument) -> EarlierCall:
        key = exact((function, *arguments))
        if key not in known:
            known[key] = EarlierCall(len(calls))
            calls.append(FormulaCall(function, arguments))
        return known[key]

    def visit(node: ast.expr) -> Argument:
        match node:
            case ast.Constant(value=int() | float() as number):
                return float(number)
            case ast.Name(id=name):
                return Operand(OPERANDS.index(name)) if name in OPERANDS else Attribute(name)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return -float(number)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
                return emit(_UNARY[type(op)], visit(operand))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return emit(_BINARY[type(op)], visit(left), visit(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return emit(_COMPARE[type(op)], visit(left), visit(right))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if FUNCTIONS.get(name) == len(arguments):
                return emit(name, *map(visit, arguments))
        raise RegistrationError(
            f"formula {formula!r} has {ast.unparse(node)!r}; a formula has the operands {', '.join(OPERANDS)}, "
            f"attributes, numbers, + - * / **, comparisons, & | ~ on masks, and {', '.join(sorted(FUNCTIONS))}"
        )

    if not isinstance(visit(tree), EarlierCall):
        raise RegistrationError(f"formula {formula!r} computes nothing")
    return tuple(calls)


def interpret(
    formula: str,
    operands: Sequence[T],
    attribute: Callable[[str], T],
    constant: Callable[[float], T],
    apply: Callable[[int, FormulaCall, list[T]], T],
) -> T:
    """The value of a formula, by what `apply` gives for each call: its position, the call, and its arguments.

    Every engine computes formulas by this, each with values of its own: arrays, buffers, or expressions of code.

    >>> def apply(position, call, arguments):
    ...     return f"{call.function}({', '.join(arguments)})"
    >>> interpret("x * x + a", ["x"], str, str, apply)
    'add(multiply(x, x), a)'
    """
    results: list[T] = []
    for position, call in enumerate(parse(formula)):
        arguments: list[T] = []
        for argument in call.arguments:
            match argument:
                case Operand(place):
                    arguments.append(operands[place])
                case EarlierCall(place):
                    arguments.append(results[place])
                case Attribute(name):
                    arguments.append(attribute(name))
                case number:
                    arguments.append(constant(number))
        results.append(apply(position, call, arguments))
    return results[-1]
