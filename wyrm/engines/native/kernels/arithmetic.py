"""Scalar arithmetic with the types and values of NumPy."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from wyrm.engines.native.ir.program import (
    Bits,
    Conversion,
    Expression,
    Load,
    Number,
    Offset,
    Operation,
    Select,
    children,
)
from wyrm.engines.native.ir.types import BOOL, FLOAT64, INT64, UINT64, ScalarType
from wyrm.engines.native.kernels.builder import Builder
from wyrm.engines.native.kernels.values import (
    GroupKind,
    KernelValue,
    Kind,
    NotCompiled,
    Num,
    NumKind,
    TupleValue,
    literal,
    promoted,
)

_FOLDED: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "power": operator.pow, "less": operator.lt,
    "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge, "equal": operator.eq,
    "not_equal": operator.ne, "and": operator.and_, "or": operator.or_, "xor": operator.xor, "left": operator.lshift,
    "right": operator.rshift,
}  # fmt: skip
_SIGNS = {
    "floor_divide": "//", "remainder": "%", "power": "**", "divide": "/", "left": "<<", "right": ">>", "and": "&",
    "or": "|", "xor": "^",
}  # fmt: skip
COMPARISONS = frozenset(["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"])
_BITWISE = frozenset(["and", "or", "xor", "left", "right"])
# Operators whose result is at least 0 if both operands are.
_NATURAL = frozenset(["add", "multiply", "floor_divide", "remainder", "and", "or", "right"])
# The largest integer exponent that is expanded to multiplications.
_LARGEST_POWER = 64


def fits(value: float | int | bool, type: ScalarType) -> bool:
    """Return whether an integer fits an integer type."""
    bits: int = type.bits
    if type.kind == "i":
        return -(1 << bits - 1) <= value < 1 << bits - 1
    return 0 <= value < 1 << bits


def as_type(number: Num, type: ScalarType) -> Num:
    """Convert a scalar to a type. Raise `NotCompiled` for an integer literal that does not fit; others wrap around."""
    if number.type == type:
        return Num(number.expression, natural=number.natural)
    expression = number.expression
    natural = number.natural and type == INT64
    if isinstance(expression, Number) and type != BOOL and not (type.kind in "iu" and number.type.kind == "f"):
        if type.kind == "f":
            return Num(Number(float(expression.value), type))
        value = int(expression.value)
        if number.weak and not fits(value, type):
            raise NotCompiled(f"{value} does not fit {type}")
        value %= 2**type.bits
        return Num(Number(value if fits(value, type) else value - 2**type.bits, type), natural=natural)
    return Num(Conversion(expression, type), natural=natural)


def of_kind(value: KernelValue, kind: Kind) -> KernelValue:
    """Convert the scalars of a value to the types of a kind."""
    match value, kind:
        case Num(), NumKind(type, _):
            return as_type(value, type)
        case TupleValue(items), GroupKind(kinds):
            return TupleValue(tuple(of_kind(item, each) for item, each in zip(items, kinds, strict=True)))
        case _:
            return value


def truth(number: Num) -> Expression:
    """Return the condition that a scalar is not zero."""
    if isinstance(number.expression, Number):
        return Number(bool(number.expression.value), BOOL)
    return as_type(number, BOOL).expression


def common_type(x: Num, y: Num) -> ScalarType:
    """Return the type that two operands are converted to."""
    if x.weak == y.weak or BOOL in (x.type if x.weak else y.type,):
        return promoted(x.type, y.type)
    weak, strong = (x, y) if x.weak else (y, x)
    if weak.type.kind == "f" and strong.type.kind != "f":
        return FLOAT64
    if strong.type.kind == "b":
        return weak.type
    return strong.type


def binary(builder: Builder, name: str, x: Num, y: Num) -> Num:
    """Return the result of a binary operator; raise `NotCompiled` if it does not support the operand types."""
    if x.weak and y.weak and isinstance(x.expression, Number) and isinstance(y.expression, Number):
        return _folded(name, x.expression.value, y.expression.value)
    if name in COMPARISONS:
        return _comparison(builder, name, x, y)
    if name in ("left", "right"):  # the result has the type of the left operand
        return _shifted(builder, name, x, y)
    type = common_type(x, y)
    if name == "divide" and type.kind != "f":
        type = FLOAT64
    if type == BOOL and name not in _BITWISE:
        type = INT64
    if name in _BITWISE and type.kind == "f":
        raise NotCompiled(f"operator {_SIGNS[name]} is for integers, not for {x.type} and {y.type}")
    if name == "power":
        return _power(builder, x, y, type)
    left, right = as_type(x, type).expression, as_type(y, type).expression
    natural = name in _NATURAL and x.natural and y.natural and type == INT64
    if name in ("floor_divide", "remainder"):
        if type.kind == "f":
            return Num(_floored_float(builder, name, left, right, type))
        return Num(_floored(builder, name, left, right, type, natural), natural=natural)
    if name == "subtract" and isinstance(right, Operation) and right.name == "remainder" and right.operands[0] == left:
        natural = x.natural and y.natural  # x - x % y is at least 0
    return Num(Operation(name, (left, right), type), x.weak and y.weak, natural)


def _folded(name: str, x: float | int | bool, y: float | int | bool) -> Num:
    """Return the result of an operator on two literals, computed at compile time."""
    sign = _SIGNS.get(name, name)
    large = name in ("left", "power") and isinstance(x, int) and isinstance(y, int) and y > _LARGEST_POWER
    if large and x not in (0, 1, -1):
        raise NotCompiled(f"{x} {sign} {y} does not fit an integer of 64 bits; write it as a float")
    try:
        return literal(_FOLDED[name](x, y))
    except (ArithmeticError, ValueError, TypeError) as error:
        raise NotCompiled(f"{x} {sign} {y} is undefined: {error}") from None


def _comparison(builder: Builder, name: str, x: Num, y: Num) -> Num:
    for number, other in ((x, y), (y, x)):
        constant = number.expression
        integers = number.type.kind in "iu" and other.type.kind in "iu"
        if number.weak and integers and isinstance(constant, Number) and not fits(constant.value, other.type):
            some = 0 if other.type.kind == "u" or constant.value < 0 else -1  # compares like every value of the type
            return literal(_FOLDED[name](*((constant.value, some) if number is x else (some, constant.value))))
    type = common_type(x, y)
    if type.kind == "f" and {x.type.kind, y.type.kind} == {"i", "u"}:
        return _mixed_comparison(builder, name, x, y)
    return Num(Operation(name, (as_type(x, type).expression, as_type(y, type).expression), BOOL))


def _mixed_comparison(builder: Builder, name: str, x: Num, y: Num) -> Num:
    """Compare a signed with an unsigned integer exactly: a negative one is smaller than every unsigned one."""
    first, second = (Num(builder.let(each.expression)) for each in (x, y))
    signed = first if first.type.kind == "i" else second
    below = Operation("less", (signed.expression, Number(0, signed.type)), BOOL)
    same = Operation(name, (as_type(first, UINT64).expression, as_type(second, UINT64).expression), BOOL)
    holds = {"less", "less_equal", "not_equal"} if signed is first else {"greater", "greater_equal", "not_equal"}
    if name in holds:
        return Num(Operation("or", (below, same), BOOL))
    return Num(Operation("and", (Operation("not", (below,), BOOL), same), BOOL))


def _shifted(builder: Builder, name: str, x: Num, y: Num) -> Num:
    """Return `x << y` or `x >> y`; a shift by the bit width or more gives 0, or -1 for `>>` of a negative number."""
    type = INT64 if x.type == BOOL else common_type(x, y) if x.weak else x.type
    if "f" in (type.kind, y.type.kind):
        raise NotCompiled(f"operator {_SIGNS[name]} is for integers, not for {x.type} and {y.type}")
    given = as_type(x, type).expression
    natural = x.natural and name == "right" and type == INT64
    if isinstance(y.expression, Number):
        count = int(y.expression.value)
        if count < 0:
            raise NotCompiled(
                f"{_SIGNS[name]} by {count} bits: use {'>>' if name == 'left' else '<<'} with a positive count"
            )
        if count >= type.bits and (name == "left" or type.kind == "u"):
            return Num(Number(0, type), natural=type == INT64)
        return Num(Operation(name, (given, Number(min(count, type.bits - 1), type)), type), natural=natural)
    given = builder.let(given)
    sign = Operation("right", (given, Number(type.bits - 1, type)), type)
    rest: Expression = sign if type.kind == "i" and name == "right" else Number(0, type)
    bits = builder.let((as_type(y, INT64) if y.type == BOOL else y).expression)
    own = bits.type
    assert isinstance(own, ScalarType)
    inside: Expression = Operation("less", (bits, Number(type.bits, own)), BOOL)
    if own.kind == "i" and not y.natural:
        inside = Operation("and", (inside, Operation("greater_equal", (bits, Number(0, own)), BOOL)), BOOL)
    moved = Operation(name, (given, as_type(Num(bits), type).expression), type)
    return Num(Select(inside, moved, rest, type), natural=natural)


def _power(builder: Builder, x: Num, y: Num, type: ScalarType) -> Num:
    exponent = y.expression.value if isinstance(y.expression, Number) else None
    if exponent == 2 or (type.kind != "f" and isinstance(exponent, int) and 0 <= exponent <= _LARGEST_POWER):
        square = builder.let(as_type(x, type).expression)
        result: Expression | None = None
        left = int(exponent)
        while left:  # square and multiply
            if left % 2:
                result = square if result is None else builder.let(Operation("multiply", (result, square), type))
            left //= 2
            if left:
                square = builder.let(Operation("multiply", (square, square), type))
        return Num(Number(1, type) if result is None else result)
    if type.kind != "f":
        raise NotCompiled(
            f"the exponent of an integer must be a literal from 0 to {_LARGEST_POWER}; make one of them a float, or "
            f"write 1 << n for 2 ** n"
        )
    return Num(Operation("power", (as_type(x, type).expression, as_type(y, type).expression), type))


def _floored(builder: Builder, name: str, x: Expression, y: Expression, type: ScalarType, natural: bool) -> Expression:
    """Return `//` or `%` of integers, with the quotient rounded down; 0 for a divisor of 0."""
    zero = Number(0, type)
    x, y = builder.let(x), builder.let(y)
    constant = isinstance(y, Number) and y.value not in (0, -1)
    divisor = y
    if not constant:
        # Division by 0, or of the smallest integer by -1, may crash the process.
        odd = Operation("equal", (y, zero), BOOL)
        if type.kind == "i" and not natural:
            odd = Operation("or", (odd, Operation("equal", (y, Number(-1, type)), BOOL)), BOOL)
        divisor = builder.let(Select(odd, Number(1, type), y, type))
    word = "divide" if name == "floor_divide" else "remainder"
    result: Expression = Operation(word, (x, divisor), type)
    if type.kind == "i" and not natural:
        remainder = builder.let(Operation("remainder", (x, divisor), type))
        signs_differ = _signs_differ(remainder, divisor, zero)
        if name == "floor_divide":
            quotient = Operation("divide", (x, divisor), type)
            result = Operation("subtract", (quotient, Conversion(signs_differ, type)), type)
        else:
            result = Select(signs_differ, Operation("add", (remainder, divisor), type), remainder, type)
    if constant:
        return result
    if type.kind == "i" and name == "floor_divide" and not natural:
        minus = Operation("negative", (x,), type)
        result = Select(Operation("equal", (y, Number(-1, type)), BOOL), minus, result, type)
    return Select(Operation("equal", (y, zero), BOOL), zero, result, type)


def _signs_differ(rest: Expression, by: Expression, zero: Number) -> Operation:
    """Return whether a remainder is not zero and its sign differs from the divisor's."""
    signs = Operation("less", (rest, zero), BOOL), Operation("less", (by, zero), BOOL)
    return Operation(
        "and", (Operation("not_equal", (rest, zero), BOOL), Operation("not_equal", signs, BOOL)), BOOL
    )  # fmt: skip


def _floored_float(builder: Builder, name: str, x: Expression, y: Expression, type: ScalarType) -> Expression:
    """Return `//` or `%` of floats from the exact remainder, as NumPy and Python compute them."""
    zero, one = Number(0.0, type), Number(1.0, type)
    x, y = builder.let(x), builder.let(y)
    remainder = builder.let(Operation("remainder", (x, y), type))
    signs_differ = builder.let(_signs_differ(remainder, y, zero))
    if name == "remainder":
        moved = Select(signs_differ, Operation("add", (remainder, y), type), remainder, type)
        signed = Operation("copysign", (zero, y), type)
        return Select(Operation("equal", (remainder, zero), BOOL), signed, moved, type)
    exact = builder.let(Operation("divide", (x, y), type))
    whole = Operation("divide", (Operation("subtract", (x, remainder), type), y), type)
    whole_number = builder.let(Select(signs_differ, Operation("subtract", (whole, one), type), whole, type))
    floor = builder.let(Operation("floor", (whole_number,), type))
    far = Operation("greater", (Operation("subtract", (whole_number, floor), type), Number(0.5, type)), BOOL)
    rounded = Select(far, Operation("add", (floor, one), type), floor, type)
    signed = Operation("copysign", (zero, exact), type)
    result = Select(Operation("equal", (whole_number, zero), BOOL), signed, rounded, type)
    return Select(Operation("equal", (y, zero), BOOL), exact, result, type)


def negative(x: Num) -> Num:
    """Return `-x`."""
    if x.weak and isinstance(x.expression, Number):
        return literal(-x.expression.value)
    number = as_type(x, INT64) if x.type == BOOL else x
    return Num(Operation("negative", (number.expression,), number.type), x.weak)


def inverted(x: Num) -> Num:
    """Return `~x`."""
    if x.type == BOOL and not x.weak:
        return Num(Operation("not", (x.expression,), BOOL))
    if x.weak and isinstance(x.expression, Number) and x.type.kind != "f":
        return literal(~int(x.expression.value))
    if x.type.kind not in "iu":
        raise NotCompiled(f"operator ~ is for integers and bools, not for {x.type}")
    ones = Number(-1 if x.type.kind == "i" else 2**x.type.bits - 1, x.type)
    return Num(Operation("xor", (x.expression, ones), x.type))


def bits_of(number: Num, type: ScalarType) -> Num:
    """Reinterpret the bits of a scalar as another type; raise `NotCompiled` if the sizes differ."""
    if number.type.bits != type.bits:
        raise NotCompiled(f"cannot view a {number.type} as a {type}: their sizes differ")
    return Num(number.expression if number.type.kind == type.kind else Bits(number.expression, type))


# --- speculative evaluation ------------------------------------------------------------------------------------------

_CHEAP = frozenset(["add", "subtract", "multiply", "divide", "negative", "abs", "accumulate", "sqrt", "floor"])


def is_cheap(expression: Expression) -> bool:
    """Return whether an expression is cheap and reads no memory, so that it may be evaluated speculatively."""
    if isinstance(expression, Operation):
        name = expression.name
        if name in ("divide", "remainder") if expression.type.kind != "f" else name not in _CHEAP:
            return False
    return not isinstance(expression, Load | Offset) and all(map(is_cheap, children(expression)))
