"""Formulas: the expression of an elementwise op as a string, parsed to a list of calls.

All engines evaluate the same formula, such as `"0.5 * x * (1.0 + erf(x))"`: NumPy, JAX and compiled loops. The operands
are `x`, `y`, `z` in the order of the parents; other names are static attributes of the op.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from wyrm.errors import RegistrationError
from wyrm.graph.op import NUMPY, ArrayNamespace
from wyrm.support.records import Record
from wyrm.support.texts import exact

if TYPE_CHECKING:
    from wyrm.graph.base import BaseNode

T = TypeVar("T")

_ARRAY_NAMES = {"abs": "absolute"}
# Functions of `scipy.special`.
SPECIAL = frozenset([
    "beta", "betaln", "digamma", "erf", "erfc", "erfinv", "gamma", "gammainc", "gammaincc", "gammaln", "i0", "i0e",
    "i1", "i1e", "ndtri", "zeta",
])  # fmt: skip


def array_function(xp: ArrayNamespace, name: str) -> Callable[..., Any]:
    """Return the function of an array namespace for a function name in formulas."""
    if name in SPECIAL and xp is np:
        from wyrm.ops.elementwise.special_arrays import special_function

        return special_function(name)
    return getattr(xp, _ARRAY_NAMES.get(name, name))  # type: ignore[no-any-return]  # as above


OPERANDS = ("x", "y", "z")
# Functions of Python and of other libraries, with what to write in a formula.
_FOREIGN = {
    "round": "rint(x)", "max": "maximum(x, y)", "min": "minimum(x, y)", "clip": "minimum(maximum(x, low), high)",
    "clamp": "minimum(maximum(x, low), high)", "relu": "maximum(x, 0.0)", "pow": "x ** y", "power": "x ** y",
    "square": "x * x", "absolute": "abs(x)", "fabs": "abs(x)", "asin": "arcsin(x)", "acos": "arccos(x)",
    "atan": "arctan(x)", "atan2": "arctan2(x, y)", "logistic": "sigmoid(x)", "expit": "sigmoid(x)",
}  # fmt: skip
_SEPARATORS = str.maketrans(dict.fromkeys("()+-*/,<>=!&|~", " "))

# The functions that formulas may call, with their numbers of arguments; every engine implements exactly these.
FUNCTIONS = {
    **dict.fromkeys(
        ["abs", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "cbrt", "ceil", "cos", "cosh", "exp",
         "exp2", "expm1", "floor", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "rint", "sign", "sin",
         "sinh", "sqrt", "tan", "tanh", "trunc"],
        1,
    ),
    **dict.fromkeys(
        ["arctan2", "copysign", "floor_divide", "fmod", "hypot", "maximum", "minimum", "remainder"],
        2,
    ),
    **dict.fromkeys(SPECIAL, 1),
    "beta": 2,
    "betaln": 2,
    "gammainc": 2,
    "gammaincc": 2,
    "zeta": 2,
    "where": 3,
}  # fmt: skip
# Functions of one argument that formulas may call too, each by a formula in its place: engines do not know them.
COMPOSED = {
    "sigmoid": "where(x >= 0.0, 1.0, exp(-abs(x))) / (1.0 + exp(-abs(x)))",
    "signbit": "copysign(1.0, x) < 0.0",
    "softplus": "maximum(x, 0.0) + log1p(exp(-abs(x)))",
}
_ARGUMENTS = FUNCTIONS | dict.fromkeys(COMPOSED, 1)
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
MASKS = frozenset([*_COMPARE.values(), "logical_and", "logical_or", "logical_not", "isfinite", "isinf", "isnan"])


# Distinct classes, so that operand 0 and call 0 compare unequal.
class Operand(Record):
    """A reference to the value of the parent at a position."""

    __slots__ = ("position",)
    position: int


class Attribute(Record):
    """A reference to a static attribute of the op."""

    __slots__ = ("name",)
    name: str


class EarlierCall(Record):
    """A reference to the result of the call at a position."""

    __slots__ = ("position",)
    position: int


Argument = Operand | Attribute | EarlierCall | float


class FormulaCall(NamedTuple):
    """A call of a function, by its NumPy name."""

    function: str
    arguments: tuple[Argument, ...]


def operand_count(formula: str) -> int:
    """Return how many operands a formula uses, without parsing it.

    >>> operand_count("maximum(x, z)")
    3
    """
    words = formula.translate(_SEPARATORS).split()
    return max((i for i, name in enumerate(OPERANDS, 1) if name in words), default=0)


@cache
def parse(formula: str, composed: bool = False) -> tuple[FormulaCall, ...]:
    """Return the calls that compute `formula`; the last one is its value, and equal subexpressions share a call.

    Composed functions are replaced by their formulas, unless `composed` asks for calls of them, and of `square` for
    products of equal factors. Raise `RegistrationError` for syntax outside of the formula language.

    >>> [call.function for call in parse("x * tanh(x)")]
    ['tanh', 'multiply']
    """
    if composed and not any(f"{name}(" in formula for name in COMPOSED):
        return tuple(map(_with_square, parse(formula)))
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

    def visit(node: ast.expr, x: Argument) -> Argument:
        match node:
            case ast.Constant(value=int() | float() as number):
                return float(number)
            case ast.Name(id="x"):
                return x
            case ast.Name(id=name):
                return Operand(OPERANDS.index(name)) if name in OPERANDS else Attribute(name)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return -float(number)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
                return emit(_UNARY[type(op)], visit(operand, x))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return emit(_BINARY[type(op)], visit(left, x), visit(right, x))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return emit(_COMPARE[type(op)], visit(left, x), visit(right, x))
            case ast.Call(func=ast.Name(id=name), args=given, keywords=[]) if _ARGUMENTS.get(name) == len(given):
                arguments = [visit(argument, x) for argument in given]
                if name in COMPOSED and not composed:
                    return visit(ast.parse(COMPOSED[name], mode="eval").body, arguments[0])
                return emit(name, *arguments)
        instead = _instead(node) or (
            f"allowed are the operands {', '.join(OPERANDS)}, attributes, numbers, + - * / **, comparisons, & | ~ on "
            f"masks, and {', '.join(sorted(_ARGUMENTS))}"
        )
        raise RegistrationError(f"formula {formula!r} contains {ast.unparse(node)!r}; {instead}")

    if not isinstance(visit(tree, Operand(0)), EarlierCall):
        raise RegistrationError(f"formula {formula!r} computes nothing")
    return tuple(map(_with_square, calls)) if composed else tuple(calls)


def _instead(node: ast.expr) -> str:
    """Return what to write for an expression of Python, NumPy or another library, or an empty string."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name)) if name in _ARGUMENTS:
            return f"write {name} alone, without its module"
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _FOREIGN:
            return f"write {_FOREIGN[name]}"
        case ast.IfExp():
            return "write where(condition, x, y)"
        case ast.BoolOp():
            return "join masks by & and |"
    return ""


def _with_square(call: FormulaCall) -> FormulaCall:
    """Return a call of `square` for a product of equal factors, and any other call."""
    function, arguments = call
    return FormulaCall("square", arguments[:1]) if function == "multiply" and arguments[0] == arguments[1] else call


def interpret(
    formula: str,
    operands: Sequence[T],
    attribute: Callable[[str], T],
    constant: Callable[[float], T],
    apply: Callable[[int, FormulaCall, list[T]], T],
) -> T:
    """Return the value of a formula; `apply(position, call, arguments)` returns the value of each call.

    Every engine evaluates formulas with it, over its own values: arrays, buffers, or expressions of generated code.

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
                case Operand(index):
                    arguments.append(operands[index])
                case EarlierCall(index):
                    arguments.append(results[index])
                case Attribute(name):
                    arguments.append(attribute(name))
                case number:
                    arguments.append(constant(number))
        results.append(apply(position, call, arguments))
    return results[-1]


def formula_value(xp: Any, node: BaseNode, operands: Sequence[Any]) -> Any:
    """Return the value of a node with a formula by the functions of `xp`, of the shape that its operands broadcast to.

    Numbers and attributes get the dtype of the float operands, and those of integer nodes that of the operands.
    """
    dtype = next((x.dtype for x in operands if xp.issubdtype(x.dtype, xp.floating)), np.dtype(np.float32))
    if node.dtype.kind == "i":
        dtype = operands[0].dtype

    def constant(value: float) -> Any:
        return xp.asarray(value, dtype=dtype)

    def apply(_: int, call: FormulaCall, arguments: list[Any]) -> Any:
        return array_function(xp, call.function)(*arguments)

    return interpret(node.formula, operands, lambda name: constant(getattr(node, name)), constant, apply)


@cache
def numpy_call(formula: str) -> tuple[Callable[..., Any], tuple[int, ...]] | None:
    """Return the NumPy function and operand positions of a formula that is one call of operands, else None."""
    function, arguments = parse(formula)[-1]
    positions = tuple(argument.position for argument in arguments if isinstance(argument, Operand))
    if len(parse(formula)) > 1 or len(positions) < len(arguments):
        return None
    return array_function(NUMPY, function), positions


def numpy_function(node: BaseNode) -> Callable[[Sequence[Any]], Any]:
    """Return `formula_value` of a node for NumPy, as a function of the operands that is quick to call.

    A formula of a single call of operands is quicker by `numpy_call`.
    """
    floats = (parent.dtype for parent in node.parents if parent.dtype.kind == "f")
    dtype = np.dtype((node.parents[0].dtype if node.dtype.kind == "i" else next(floats, np.dtype(np.float32))).type)
    values: list[Any] = [None] * len(node.parents)
    calls: list[tuple[Callable[..., Any], list[int]]] = []

    def placed(value: Any) -> int:
        values.append(value)
        return len(values) - 1

    def constant(value: float) -> int:
        return placed(np.asarray(value, dtype))

    def apply(_: int, call: FormulaCall, arguments: list[int]) -> int:
        calls.append((array_function(NUMPY, call.function), arguments))
        return -len(calls)  # after all constants, in the order of the calls

    interpret(node.formula, range(len(node.parents)), lambda name: constant(getattr(node, name)), constant, apply)
    first = len(values)
    placed_calls = [(f, [a if a >= 0 else first - a - 1 for a in arguments]) for f, arguments in calls]
    constants = values[len(node.parents) :]

    def value(operands: Sequence[Any]) -> Any:
        found = [*operands, *constants]
        for function, arguments in placed_calls:
            found.append(function(*[found[argument] for argument in arguments]))
        return found[-1]

    return value
