"""The derivative of each function that formulas may call, as a formula itself: gradients of any order follow from it.

A rule gives the gradient with respect to one argument. It uses the cotangent `g`, the arguments `x` and `y`, and `f`,
the value of the function, which is computed anyway. A function of two arguments has a rule for each, in their order.
`ZERO` declares that the value does not depend smoothly on the argument, `None` that its derivative is not known.

There is no rule for `where`: its gradient is that of the branch which the condition chooses. The classes of the ops
`power`, `i1` and `i1e` have a `vjp`, because their derivatives depend on more than the numbers: on whether the exponent
is a constant, and on the dtype.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from wyrm.graph.base import ZERO, Zero

Rule: TypeAlias = str | Zero | None

_LOG_2, _LOG_10 = math.log(2.0), math.log(10.0)
_TWO_OVER_ROOT_PI = 2.0 / math.pi**0.5
_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)
# At ties each operand gets half of the cotangent.
_SHARE = "where({0} > {1}, 1.0, where({0} == {1}, 0.5, 0.0))"
_OF_MAXIMUM, _OF_MINIMUM = _SHARE.format("x", "y"), _SHARE.format("y", "x")
_DISCRETE = (
    "ceil", "floor", "isfinite", "isinf", "isnan", "logical_not", "rint", "sign", "signbit", "trunc",
)  # fmt: skip
_DISCRETE_PAIRS = (
    "equal", "floor_divide", "greater", "greater_equal", "less", "less_equal", "logical_and", "logical_or", "not_equal",
)  # fmt: skip

DERIVATIVES: dict[str, tuple[Rule, ...]] = {
    # Arithmetic
    "add": ("g", "g"),
    "subtract": ("g", "-g"),
    "multiply": ("g * y", "g * x"),
    "divide": ("g / y", "-(g / y * f)"),
    "negative": ("-g",),
    "square": ("g * (2.0 * x)",),
    "sqrt": ("g * 0.5 / f",),
    "cbrt": ("g / (f * f * 3.0)",),
    "hypot": (  # 0 at the origin
        "g * where(f == 0.0, 0.0, x / where(f == 0.0, 1.0, f))",
        "g * where(f == 0.0, 0.0, y / where(f == 0.0, 1.0, f))",
    ),
    "remainder": ("g", "-(g * floor_divide(x, y))"),
    "fmod": ("g", "-(g * rint((x - f) / y))"),
    # Pieces
    "abs": ("g * sign(x)",),
    "copysign": ("where(signbit(x) == signbit(y), g, -g)", ZERO),
    "maximum": (f"g * {_OF_MAXIMUM}", f"g * (1.0 - {_OF_MAXIMUM})"),
    "minimum": (f"g * {_OF_MINIMUM}", f"g * (1.0 - {_OF_MINIMUM})"),
    **dict.fromkeys(_DISCRETE, (ZERO,)),
    **dict.fromkeys(_DISCRETE_PAIRS, (ZERO, ZERO)),
    # Exponentials and logarithms
    "exp": ("g * f",),
    "exp2": (f"g * (f * {_LOG_2})",),
    "expm1": ("g * (f + 1.0)",),
    "log": ("g / x",),
    "log2": (f"g / (x * {_LOG_2})",),
    "log10": (f"g / (x * {_LOG_10})",),
    "log1p": ("g / (x + 1.0)",),
    "sigmoid": ("g * (f * (1.0 - f))",),
    "softplus": ("g * sigmoid(x)",),
    # Trigonometric and hyperbolic functions
    "sin": ("g * cos(x)",),
    "cos": ("-(g * sin(x))",),
    "tan": ("g * (1.0 + f * f)",),
    "arcsin": ("g / sqrt((1.0 - x) * (1.0 + x))",),
    "arccos": ("-(g / sqrt((1.0 - x) * (1.0 + x)))",),
    "arctan": ("g / (1.0 + x * x)",),
    "arctan2": ("g * (y / hypot(x, y) / hypot(x, y))", "-(g * (x / hypot(x, y) / hypot(x, y)))"),
    "sinh": ("g * cosh(x)",),
    "cosh": ("g * sinh(x)",),
    "tanh": ("g * (1.0 - f * f)",),
    "arcsinh": ("g / hypot(x, 1.0)",),
    "arccosh": ("g / (sqrt(x - 1.0) * sqrt(x + 1.0))",),
    "arctanh": ("g / ((1.0 - x) * (1.0 + x))",),
    # The normal distribution
    "erf": (f"g * exp(x * x * -1.0) * {_TWO_OVER_ROOT_PI}",),
    "erfc": (f"g * (exp(x * x * -1.0) * {-_TWO_OVER_ROOT_PI})",),
    "erfinv": (f"g * (exp(f * f) * {0.5 * math.pi**0.5})",),
    "ndtri": (f"g * (exp(f * f * 0.5) * {_ROOT_TWO_PI})",),
    # The gamma function
    "gamma": ("g * (f * digamma(x))",),
    "gammaln": ("g * digamma(x)",),
    "digamma": ("g * zeta(2.0, x)",),
    "zeta": (None, "g * (zeta(x + 1.0, y) * -x)"),
    "beta": ("g * (f * (digamma(x) - digamma(x + y)))", "g * (f * (digamma(y) - digamma(x + y)))"),
    "betaln": ("g * (digamma(x) - digamma(x + y))", "g * (digamma(y) - digamma(x + y))"),
    # Bessel functions
    "i0": ("g * i1(x)",),
    "i0e": ("g * (i1e(x) - sign(x) * f)",),
}

# The functions whose ops have a `vjp`.
WRITTEN = frozenset(["gammainc", "gammaincc", "i1", "i1e", "power"])
