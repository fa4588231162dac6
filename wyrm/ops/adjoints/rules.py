"""What kernels may call: the derivative of each function, from the table of formulas."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from wyrm.graph.base import ZERO
from wyrm.ops.adjoints.program import duplicate, number, parsed, replaced
from wyrm.ops.elementwise import fast_math
from wyrm.ops.elementwise.derivatives import DERIVATIVES
from wyrm.ops.elementwise.formula import FormulaCall, interpret
from wyrm.ops.kernels.sums import accumulated, natural

# What NumPy, `math` and Python call a function of formulas.
_FORMULA_NAMES = {
    "absolute": "abs", "fabs": "abs", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh",
    "atan": "arctan", "atanh": "arctanh", "atan2": "arctan2", "max": "maximum", "min": "minimum", "round": "rint",
    "lgamma": "gammaln", "true_divide": "divide",
}  # fmt: skip
_MODULES = ("math", "numpy", "builtins", fast_math.__name__)
# Conversions, whose derivative is 1.
_CONVERSIONS = ("float", "float32", "float64")
# Functions whose results are integers or bools, or do not depend smoothly on the arguments.
_PASSIVE = frozenset([
    "bool", "ceil", "floor", "int", "int8", "int16", "int32", "int64", "isfinite", "isinf", "isnan", "len",
    "logical_and", "logical_not", "logical_or", "rint", "sign", "trunc", "uint8", "uint16", "uint32", "uint64",
    "divmod", "round",
])  # fmt: skip
# Of these the results are floats.
_PASSIVE_FLOATS = frozenset(["ceil", "floor", "rint", "sign", "trunc"])
# What generated code calls for each function of formulas that has an operator, or another form, in kernels.
_WRITTEN = {
    "add": "x + y", "subtract": "x - y", "multiply": "x * y", "divide": "x / y", "negative": "-x", "square": "x * x",
    "less": "x < y", "less_equal": "x <= y", "greater": "x > y", "greater_equal": "x >= y", "equal": "x == y",
    "not_equal": "x != y", "where": "y if x else z", "abs": "abs(x)", "maximum": "max(x, y)", "minimum": "min(x, y)",
    "logical_and": "x and y", "logical_or": "x or y", "logical_not": "not x", "power": "x ** y",
    "floor_divide": "np.floor(x / y)",
}  # fmt: skip
# Functions of formulas that kernels have under the same name in NumPy.
_OF_NUMPY = frozenset([
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cbrt", "ceil", "copysign", "cos", "cosh",
    "exp", "exp2", "expm1", "floor", "fmod", "hypot", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2",
    "rint", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
])  # fmt: skip


# Functions that take longer than reading their value from memory.
_COSTLY = frozenset([
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cbrt", "cos", "cosh", "exp", "exp2",
    "expm1", "log", "log10", "log1p", "log2", "sigmoid", "sin", "sinh", "softplus", "tan", "tanh",
])  # fmt: skip


def is_costly(e: ast.expr, space: Mapping[str, Any]) -> bool:
    """Return whether an expression is a call that is kept rather than computed again, where both need a tape."""
    return isinstance(e, ast.Call) and formula_name(function_of(e, space)) in _COSTLY


def function_of(call: ast.expr, space: Mapping[str, Any]) -> Any:
    """Return the function that an expression calls; None if it is unknown, or for another expression."""
    if not isinstance(call, ast.Call):
        return None
    path: list[str] = []
    node = call.func
    while isinstance(node, ast.Attribute):
        path.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    found = space.get(node.id, getattr(builtins, node.id, None))
    for each in reversed(path):
        found = getattr(found, each, None)
    return getattr(found, "kernel_function", found)


def formula_name(function: Any) -> str | None:
    """Return the name in formulas of a function of NumPy, `math` or Python; None for any other."""
    if function is accumulated:
        return "add"
    if isinstance(function, np.ufunc):
        given = function.__name__
    elif getattr(function, "__module__", "") in _MODULES:
        given = getattr(function, "__name__", "")
    else:
        return None
    return _FORMULA_NAMES.get(given, given)


def converts(function: Any) -> bool:
    """Return whether a function converts a number to a float."""
    return getattr(function, "__name__", "") in _CONVERSIONS and isinstance(function, type)


def is_passive(function: Any) -> bool:
    """Return whether the derivative of a function is zero wherever it exists."""
    if function is natural:
        return True
    given = getattr(function, "__name__", "")
    return given in _PASSIVE and (
        isinstance(function, np.ufunc | type) or getattr(function, "__module__", "") in _MODULES
    )


def gives_float(function: Any) -> bool:
    """Return whether a passive function returns a float."""
    return getattr(function, "__name__", "") in _PASSIVE_FLOATS and getattr(function, "__module__", "") != "math"


def slopes_of(function: Any) -> tuple[Callable[..., float], ...] | None:
    """Return the kernels that stand in place of the derivatives of a kernel, None for one that is derived."""
    found: tuple[Callable[..., float], ...] | None = getattr(function, "slopes", None)
    return found


def is_kernel(function: Any) -> bool:
    """Return whether a function is a kernel, with a source of its own."""
    return (
        isinstance(function, FunctionType)
        and formula_name(function) not in DERIVATIVES
        and not (converts(function) or is_passive(function) or function in (accumulated, natural))
    )


def uses_value(function: Any) -> bool:
    """Return whether the derivative of a function uses its value."""
    rules = DERIVATIVES.get(formula_name(function) or "", ())
    return any(isinstance(rule, str) and "f" in _names_of_rule(rule) for rule in rules)


def _names_of_rule(rule: str) -> set[str]:
    return {each.id for each in ast.walk(ast.parse(rule)) if isinstance(each, ast.Name)}


def slope(function: str, position: int, operands: Sequence[ast.expr], value: ast.expr, g: ast.expr) -> ast.expr | None:
    """Return `g` times the derivative of a function of formulas for one operand; None for 0.

    Raise `KeyError` for a function without a rule that kernels can compute.
    """
    rule = DERIVATIVES[function][position]
    if rule is ZERO:
        return None
    if rule is None:
        raise KeyError(function)
    if rule == "g":
        return g
    return interpret(str(rule), list(operands), {"g": g, "f": value}.__getitem__, number, _written)


def _written(_: int, call: FormulaCall, arguments: list[ast.expr]) -> ast.expr:
    """Return the expression of a call of a function of formulas."""
    if call.function == "multiply":
        return times(*arguments)
    if call.function == "negative":
        return negated(arguments[0])
    if call.function in _WRITTEN:
        found: ast.expr = replaced(parsed(_WRITTEN[call.function]), dict(zip("xyz", arguments, strict=False)))
        return found
    if call.function in _OF_NUMPY:
        return ast.Call(parsed(f"np.{call.function}"), [duplicate(each) for each in arguments], [])
    raise KeyError(call.function)


def is_literal(node: ast.expr, value: float) -> bool:
    """Return whether an expression is this number."""
    return isinstance(node, ast.Constant) and not isinstance(node.value, bool) and node.value == value


def negated(x: ast.expr) -> ast.expr:
    """Return minus an expression."""
    if isinstance(x, ast.UnaryOp) and isinstance(x.op, ast.USub):
        return x.operand
    return ast.UnaryOp(ast.USub(), x)


def times(x: ast.expr, y: ast.expr) -> ast.expr:
    """Return the product of two expressions."""
    if is_literal(x, 1.0):
        return duplicate(y)
    return duplicate(x) if is_literal(y, 1.0) else ast.BinOp(duplicate(x), ast.Mult(), duplicate(y))
