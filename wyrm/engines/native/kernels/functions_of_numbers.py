"""Scalar functions of kernels, from NumPy, `math` and Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from wyrm.engines.native.ir.program import Expression, Number, Operation, Select
from wyrm.engines.native.ir.types import BOOL, FLOAT64, INT64
from wyrm.engines.native.kernels.arithmetic import as_type, binary, common_type, truth
from wyrm.engines.native.kernels.builder import Builder, larger, smaller
from wyrm.engines.native.kernels.values import KernelValue, NotCompiled, Num, TupleValue, literal

# Functions of one float. Integers are converted to float64.
_OF_ONE = {
    "sqrt": "sqrt", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10",
    "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
    "arcsin": "arcsin", "arccos": "arccos", "arctan": "arctan", "asin": "arcsin", "acos": "arccos", "atan": "arctan",
    "arcsinh": "arcsinh", "arccosh": "arccosh", "arctanh": "arctanh", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "cbrt": "cbrt", "erf": "erf", "erfc": "erfc", "fabs": "abs", "gamma": "gamma",
    "lgamma": "lgamma",
}  # fmt: skip
# Rounding functions return integers unchanged.
_ROUNDING = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "round", "round": "round"}
_OF_TWO = {
    "arctan2": "atan2", "atan2": "atan2", "hypot": "hypot", "copysign": "copysign", "fmod": "remainder",
}  # fmt: skip


def function_of(builder: Builder, function: Any, arguments: list[Num]) -> KernelValue | None:
    """Return the result of a scalar function; None if kernels do not support it."""
    name, count = getattr(function, "__name__", ""), len(arguments)
    from_math = getattr(function, "__module__", "") == "math"
    if from_math and all(each.weak and isinstance(each.expression, Number) for each in arguments):
        return _folded(function, arguments)
    if count == 1:
        return _of_one(builder, name, arguments[0], whole=from_math or function is round)
    if count == 2:
        return _of_two(builder, "math.pow" if function is math.pow else name, arguments[0], arguments[1])
    if name == "where" and count == 3:
        return either(truth(arguments[0]), arguments[1], arguments[2])
    return None


def _folded(function: Callable[..., Any], arguments: list[Num]) -> Num:
    """Return the result of a `math` function of literals, computed at compile time."""
    values = [each.expression.value for each in arguments if isinstance(each.expression, Number)]
    try:
        return literal(function(*values))
    except (ArithmeticError, ValueError, TypeError) as error:
        raise NotCompiled(f"math.{function.__name__} of {', '.join(map(str, values))} is undefined: {error}") from None


def quotient(x: Num, y: Num) -> Num:
    """Return `x / y` for floats of one type within 2 ulp, if y is neither zero nor denormal."""
    infinite = Operation("equal", (y.expression, Number(math.inf, y.type)), BOOL)
    zero = Operation("multiply", (x.expression, Number(0.0, x.type)), x.type)  # signed, and NaN for infinity and NaN
    return Num(Select(infinite, zero, Operation("quotient", (x.expression, y.expression), x.type), x.type))


def either(condition: Expression, x: Num, y: Num) -> Num:
    """Return `x if condition else y` with both operands evaluated."""
    type = common_type(x, y)
    chosen, otherwise = (as_type(each, type) for each in (x, y))
    natural = chosen.natural and otherwise.natural
    return Num(Select(condition, chosen.expression, otherwise.expression, type), x.weak and y.weak, natural)


def _of_one(builder: Builder, name: str, x: Num, *, whole: bool) -> Num | None:
    """Return a function of one scalar. `whole`: rounding functions return an integer, as those of `math` do."""
    if name in _OF_ONE:
        number = as_type(x, FLOAT64 if x.type.kind != "f" or x.weak else x.type)
        return Num(Operation(_OF_ONE[name], (number.expression,), number.type))
    if name in _ROUNDING:
        if x.type.kind != "f":
            return as_type(x, INT64) if x.type == BOOL else x
        rounded = Num(Operation(_ROUNDING[name], (x.expression,), x.type), x.weak)
        return as_type(rounded, INT64) if whole else rounded
    match name:
        case "abs" | "absolute":
            return _absolute(builder, x)
        case "isnan" | "isinf" | "isfinite":
            return _finiteness(builder, name, x)
        case "sign":
            return _sign(builder, x)
        case "logical_not":
            return Num(Operation("not", (truth(x),), BOOL))
        case _:
            return None


def _of_two(builder: Builder, name: str, x: Num, y: Num) -> KernelValue | None:
    """Return a function of two scalars."""
    if name in _OF_TWO:
        type = common_type(x, y)
        type = type if type.kind == "f" else FLOAT64
        first, second = (as_type(each, type).expression for each in (x, y))
        return Num(Operation(_OF_TWO[name], (first, second), type))
    match name:
        case "maximum" | "minimum":
            return _extreme(builder, name, x, y)
        case "math.pow":
            return binary(builder, "power", *(as_type(each, FLOAT64) for each in (x, y)))
        case "pow" | "power":
            return binary(builder, "power", x, y)
        case "logical_and" | "logical_or":
            return Num(Operation(name.removeprefix("logical_"), (truth(x), truth(y)), BOOL))
        case "divmod":
            x, y = (Num(builder.let(each.expression), each.weak, each.natural) for each in (x, y))
            return TupleValue((binary(builder, "floor_divide", x, y), binary(builder, "remainder", x, y)))
        case _:
            return None


def _absolute(builder: Builder, x: Num) -> Num:
    if x.type.kind == "f":
        return Num(Operation("abs", (x.expression,), x.type), weak=x.weak)
    if x.type == BOOL:
        return as_type(x, INT64)
    if x.type.kind == "u" or x.natural:
        return x
    number = builder.let(x.expression)
    below = Operation("less", (number, Number(0, x.type)), BOOL)
    return Num(Select(below, Operation("negative", (number,), x.type), number, x.type), weak=x.weak)


def _finiteness(builder: Builder, name: str, x: Num) -> Num:
    if x.type.kind != "f":
        return Num(Number(name == "isfinite", BOOL))
    number = builder.let(x.expression)
    if name == "isnan":
        return Num(Operation("unordered", (number, number), BOOL))
    size, top = Operation("abs", (number,), x.type), Number(float("inf"), x.type)
    return Num(Operation("less" if name == "isfinite" else "equal", (size, top), BOOL))


def _sign(builder: Builder, x: Num) -> Num:
    number, type = builder.let(x.expression), x.type
    zero, one = Number(0, type), Number(1, type)
    if type.kind in "bu":
        return Num(Select(truth(Num(number)), one, zero, type))
    above, below = (Operation(name, (number, zero), BOOL) for name in ("greater", "less"))
    # That of either zero is 0.0, as NumPy's is, and that of a NaN is the operand itself.
    equal: Expression = zero
    if type.kind == "f":
        equal = Select(Operation("unordered", (number, number), BOOL), number, zero, type)
    return Num(Select(above, one, Select(below, Number(-1, type), equal, type), type))


def _extreme(builder: Builder, name: str, x: Num, y: Num) -> Num:
    """Return the maximum or minimum; NaN if an operand is NaN."""
    type = common_type(x, y)
    first, second = (builder.let(as_type(each, type).expression) for each in (x, y))
    test: Expression = Operation("greater" if name == "maximum" else "less", (first, second), BOOL)
    if type.kind == "f":
        test = Operation("or", (test, Operation("unordered", (first, first), BOOL)), BOOL)
    natural = x.natural and y.natural if name == "minimum" else x.natural or y.natural
    return Num(Select(test, first, second, type), natural=natural and type == INT64)


def of_several(builder: Builder, name: str, arguments: list[Num]) -> Num:
    """Return Python's `max` or `min` of scalars: the first largest or smallest one."""
    result = arguments[0]
    for each in arguments[1:]:
        type = common_type(result, each)
        first, second = (builder.let(as_type(number, type).expression) for number in (result, each))
        weak, naturals = result.weak and each.weak, (result.natural, each.natural)
        natural = any(naturals) if name == "max" else all(naturals)
        if type == INT64:
            chosen = larger(first, second) if name == "max" else smaller(first, second)
        else:
            better = Operation("greater" if name == "max" else "less", (second, first), BOOL)
            chosen = Select(better, second, first, type)
        result = Num(chosen, weak, natural and type == INT64)
    return result
