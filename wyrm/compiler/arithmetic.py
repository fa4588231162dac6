"""Arithmetic of numbers: the types that NumPy gives, and loop programs that give its values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from wyrm.compiler.builder import Builder, larger, smaller
from wyrm.compiler.errors import NotCompiled
from wyrm.compiler.values import Num, promoted
from wyrm.ir.program import Bits, Cast, Expression, Number, Operation, Select
from wyrm.ir.types import BOOL, FLOAT32, FLOAT64, INT64, Scalar

_FOLDED: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "power": operator.pow, "less": operator.lt,
    "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge, "equal": operator.eq,
    "not_equal": operator.ne, "and": operator.and_, "or": operator.or_, "xor": operator.xor, "left": operator.lshift,
    "right": operator.rshift,
}  # fmt: skip
COMPARISONS = frozenset(["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"])
_BITWISE = frozenset(["and", "or", "xor", "left", "right"])
# Of two numbers that are at least 0, these are too.
_NATURAL = frozenset(["add", "multiply", "floor_divide", "remainder", "and", "or", "right", "power"])


def literal(value: bool | int | float) -> Num:
    """A number that is written in code."""
    if isinstance(value, bool):
        return Num(Number(value, BOOL), weak=True)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise NotCompiled(f"{value} is no 64-bit integer")
        return Num(Number(value, INT64), weak=True, natural=value >= 0)
    return Num(Number(value, FLOAT64), weak=True)


def as_type(number: Num, type: Scalar) -> Num:
    """The number as one of this type."""
    if number.type == type:
        return Num(number.expression, natural=number.natural)
    expression = number.expression
    if isinstance(expression, Number) and type != BOOL and not (type.kind in "iu" and number.type.kind == "f"):
        value = float(expression.value) if type.kind == "f" else int(expression.value)
        return Num(Number(value, type), natural=number.natural)
    natural = number.natural and type.kind in "iu"
    return Num(Cast(expression, type), natural=natural)


def truth(number: Num) -> Expression:
    """Whether a number is not zero."""
    if isinstance(number.expression, Number):
        return Number(bool(number.expression.value), BOOL)
    return as_type(number, BOOL).expression


def common_type(x: Num, y: Num) -> Scalar:
    """The type that two numbers meet in."""
    if x.weak == y.weak:
        return promoted(x.type, y.type)
    weak, strong = (x, y) if x.weak else (y, x)
    if weak.type.kind == "f" and strong.type.kind != "f":
        return FLOAT64
    if weak.type.kind == "i" and strong.type.kind == "b":
        return INT64
    return strong.type


def binary(builder: Builder, name: str, x: Num, y: Num) -> Num:
    """The result of an operator, by its name."""
    weak = x.weak and y.weak
    first, second = x.expression, y.expression
    if weak and isinstance(first, Number) and isinstance(second, Number):
        try:
            return literal(_FOLDED[name](first.value, second.value))
        except (ArithmeticError, ValueError, TypeError):
            raise NotCompiled(f"{first.value} and {second.value} have no {name}") from None
    if name in ("left", "right"):  # the type of the number that is moved
        type = INT64 if x.type == BOOL else x.type if not x.weak else common_type(x, y)
    else:
        type = common_type(x, y)
    if name == "divide" and type.kind != "f":
        type = FLOAT64
    if type == BOOL and name not in ("and", "or", "xor", *COMPARISONS):
        type = INT64
    if name in _BITWISE and type.kind == "f":
        raise NotCompiled(f"floats have no operator {name}")
    natural = name in _NATURAL and x.natural and y.natural and type.kind in "iu"
    if name == "power":
        return _power(builder, x, y, type, weak)
    left, right = as_type(x, type).expression, as_type(y, type).expression
    if name in COMPARISONS:
        return Num(Operation(name, (left, right), BOOL))
    if name in ("floor_divide", "remainder"):
        return Num(_floored(builder, name, left, right, type, x.natural and y.natural), natural=natural)
    return Num(Operation(name, (left, right), type), natural=natural)


def _power(builder: Builder, x: Num, y: Num, type: Scalar, weak: bool) -> Num:
    exponent = y.expression.value if isinstance(y.expression, Number) else None
    if exponent is not None and exponent in (1, 2, 3, 4) and (type.kind != "f" or exponent == 2):
        base = builder.let(as_type(x, type).expression)
        result: Expression = base
        for _ in range(int(exponent) - 1):
            result = Operation("multiply", (result, base), type)
        return Num(result, natural=x.natural or exponent % 2 == 0)
    if type.kind != "f":
        raise NotCompiled("an integer to a power that is not written as 1, 2, 3 or 4")
    return Num(Operation("power", (as_type(x, type).expression, as_type(y, type).expression), type))


def _floored(builder: Builder, name: str, x: Expression, y: Expression, type: Scalar, natural: bool) -> Expression:
    """Python's `//` and `%`, whose quotient is rounded down; of integers by zero, 0."""
    zero = Number(0, type)
    x, y = builder.let(x), builder.let(y)
    if type.kind == "f":
        quotient = Operation("floor", (Operation("divide", (x, y), type),), type)
        if name == "floor_divide":
            return quotient
        rest = builder.let(Operation("remainder", (x, y), type))
        wrong = Operation(
            "not_equal", (Operation("less", (rest, zero), BOOL), Operation("less", (y, zero), BOOL)), BOOL
        )
        moved = Operation("and", (wrong, Operation("not_equal", (rest, zero), BOOL)), BOOL)
        return Select(moved, Operation("add", (rest, y), type), rest, type)
    constant = isinstance(y, Number) and y.value not in (0, -1)
    by = y
    if not constant:
        # Division by 0, and of the smallest integer by -1, would end the process.
        odd = Operation("equal", (y, zero), BOOL)
        if type.kind == "i":
            odd = Operation("or", (odd, Operation("equal", (y, Number(-1, type)), BOOL)), BOOL)
        by = builder.let(Select(odd, Number(1, type), y, type))
    word = "divide" if name == "floor_divide" else "remainder"
    result: Expression = Operation(word, (x, by), type)
    if type.kind == "i" and not natural:
        rest = builder.let(Operation("remainder", (x, by), type))
        apart = Operation(
            "and",
            (
                Operation("not_equal", (rest, zero), BOOL),
                Operation(
                    "not_equal", (Operation("less", (rest, zero), BOOL), Operation("less", (by, zero), BOOL)), BOOL
                ),
            ),
            BOOL,
        )
        if name == "floor_divide":
            result = Operation("subtract", (Operation("divide", (x, by), type), Cast(apart, type)), type)
        else:
            result = Select(apart, Operation("add", (rest, by), type), rest, type)
    if constant:
        return result
    if type.kind == "i" and name == "floor_divide":
        minus = Operation("negative", (x,), type)
        result = Select(Operation("equal", (y, Number(-1, type)), BOOL), minus, result, type)
    return Select(Operation("equal", (y, zero), BOOL), zero, result, type)


def negative(x: Num) -> Num:
    """`-x`."""
    if x.weak and isinstance(x.expression, Number):
        return literal(-x.expression.value)
    number = as_type(x, INT64) if x.type == BOOL else x
    return Num(Operation("negative", (number.expression,), number.type))


def bits_of(number: Num, type: Scalar) -> Num:
    """The bits of a number as a number of another type of the same length."""
    if number.type.bits != type.bits:
        raise NotCompiled(f"a view of {number.type} as {type}, which is not as long")
    return Num(number.expression if number.type.kind == type.kind else Bits(number.expression, type))


# --- functions -------------------------------------------------------------------------------------------------------

# Of one float; integers become float64.
FLOAT_FUNCTIONS = {
    "sqrt": "sqrt", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10",
    "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
    "arcsin": "arcsin", "arccos": "arccos", "arctan": "arctan", "asin": "arcsin", "acos": "arccos", "atan": "arctan",
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "erf": "erf", "fabs": "abs", "lgamma": "lgamma",
}  # fmt: skip


def function_of(builder: Builder, name: str, arguments: list[Num]) -> Num | None:
    """What NumPy's function of this name, or that of `math`, gives; None where there is none."""
    if name in FLOAT_FUNCTIONS and len(arguments) == 1:
        x = arguments[0]
        number = as_type(x, FLOAT64 if x.type.kind != "f" or x.weak else x.type)
        return Num(Operation(FLOAT_FUNCTIONS[name], (number.expression,), number.type))
    if name in ("abs", "absolute") and len(arguments) == 1:
        return _absolute(builder, arguments[0])
    if name in ("isnan", "isinf", "isfinite") and len(arguments) == 1:
        return _finiteness(builder, name, arguments[0])
    if name == "sign" and len(arguments) == 1:
        return _sign(builder, arguments[0])
    if name in ("maximum", "minimum") and len(arguments) == 2:
        return _extreme(builder, name, arguments[0], arguments[1])
    if name in ("pow", "power") and len(arguments) == 2:
        return binary(builder, "power", *arguments)
    if name in ("logical_and", "logical_or") and len(arguments) == 2:
        return Num(Operation(name.removeprefix("logical_"), (truth(arguments[0]), truth(arguments[1])), BOOL))
    if name == "logical_not" and len(arguments) == 1:
        return Num(Operation("not", (truth(arguments[0]),), BOOL))
    if name == "where" and len(arguments) == 3:
        type = common_type(arguments[1], arguments[2])
        chosen, otherwise = (as_type(each, type) for each in arguments[1:])
        return Num(Select(truth(arguments[0]), chosen.expression, otherwise.expression, type))
    if name in ("arctan2", "atan2", "hypot", "copysign") and len(arguments) == 2:
        type = common_type(*arguments)
        type = type if type.kind == "f" else FLOAT64
        x, y = (as_type(each, type) for each in arguments)
        return Num(Operation({"arctan2": "atan2"}.get(name, name), (x.expression, y.expression), type))
    return None


def _absolute(builder: Builder, x: Num) -> Num:
    if x.type.kind == "f":
        return Num(Operation("abs", (x.expression,), x.type), weak=x.weak)
    if x.type.kind != "i" or x.natural:
        return x
    number = builder.let(x.expression)
    below = Operation("less", (number, Number(0, x.type)), BOOL)
    return Num(Select(below, Operation("negative", (number,), x.type), number, x.type), natural=True)


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
    if type.kind in "bu":
        return x
    zero = Number(0, type)
    above, below = (Operation(name, (number, zero), BOOL) for name in ("greater", "less"))
    # A zero, or a NaN, is its own sign.
    return Num(Select(above, Number(1, type), Select(below, Number(-1, type), number, type), type))


def _extreme(builder: Builder, name: str, x: Num, y: Num) -> Num:
    """The larger or the smaller; a NaN where one of them is."""
    type = common_type(x, y)
    first, second = (builder.let(as_type(each, type).expression) for each in (x, y))
    test: Expression = Operation("greater" if name == "maximum" else "less", (first, second), BOOL)
    if type.kind == "f":
        test = Operation("or", (test, Operation("unordered", (first, first), BOOL)), BOOL)
    natural = x.natural and y.natural if name == "minimum" else x.natural or y.natural
    return Num(Select(test, first, second, type), natural=natural and type.kind in "iu")


def of_several(builder: Builder, name: str, arguments: list[Num]) -> Num:
    """Python's `max` and `min`: the first of those that are not below, or above, the others."""
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
        result = Num(chosen, weak and isinstance(chosen, Number), natural and type.kind in "iu")
    return result


__all__ = [
    "COMPARISONS", "FLOAT32", "as_type", "binary", "bits_of", "common_type", "function_of", "literal", "negative",
    "of_several", "truth",
]  # fmt: skip
