"""Trigonometric and hyperbolic functions and their inverses, and the length of a vector, all elementwise."""

from __future__ import annotations

from typing import Any

from wyrm.ops.elementwise.elementwise import Axes, Binary, Left_co, Right_co, Unary


class Tan(Unary[Left_co, Axes]):
    """Elementwise tangent of `x` in radians.

    >>> wy.tan(wy.Constant(0.0)).forward().item()
    0.0
    """

    __slots__ = ()
    _own: Tan[Any, Axes]
    formula = "tan(x)"
    function = "tan"


class Arcsin(Unary[Left_co, Axes]):
    """Elementwise inverse sine, from -pi / 2 to pi / 2; NaN outside of -1..1.

    >>> f'{wy.arcsin(wy.Constant(1.0)).forward().item():.4f}'
    '1.5708'
    """

    __slots__ = ()
    _own: Arcsin[Any, Axes]
    formula = "arcsin(x)"
    function = "arcsin asin"


class Arccos(Unary[Left_co, Axes]):
    """Elementwise inverse cosine, from 0 to pi; NaN outside of -1..1.

    >>> wy.arccos(wy.Constant(1.0)).forward().item()
    0.0
    """

    __slots__ = ()
    _own: Arccos[Any, Axes]
    formula = "arccos(x)"
    function = "arccos acos"


class Arctan(Unary[Left_co, Axes]):
    """Elementwise inverse tangent, from -pi / 2 to pi / 2.

    >>> f'{wy.arctan(wy.Constant(np.inf)).forward().item():.4f}'
    '1.5708'
    """

    __slots__ = ()
    _own: Arctan[Any, Axes]
    formula = "arctan(x)"
    function = "arctan atan"


class Arctan2(Binary[Left_co, Right_co, Axes]):
    """Elementwise angle of the point with the coordinates `y` and `x`, from -pi to pi; the operands broadcast.

    The gradient at the origin is NaN.

    >>> wy.arctan2(wy.Constant([0.0, 1.0]), wy.Constant([-1.0, 0.0])).forward().round(4).tolist()
    [3.1415998935699463, 1.5707999467849731]
    """

    __slots__ = ()
    _own: Arctan2[Any, Any, Axes]
    formula = "arctan2(x, y)"
    function = "arctan2 atan2"


class Arcsinh(Unary[Left_co, Axes]):
    """Elementwise inverse hyperbolic sine.

    >>> wy.arcsinh(wy.Constant(0.0)).forward().item()
    0.0
    """

    __slots__ = ()
    _own: Arcsinh[Any, Axes]
    formula = "arcsinh(x)"
    function = "arcsinh asinh"


class Arccosh(Unary[Left_co, Axes]):
    """Elementwise inverse hyperbolic cosine; NaN below 1.

    >>> wy.arccosh(wy.Constant(1.0)).forward().item()
    0.0
    """

    __slots__ = ()
    _own: Arccosh[Any, Axes]
    formula = "arccosh(x)"
    function = "arccosh acosh"


class Arctanh(Unary[Left_co, Axes]):
    """Elementwise inverse hyperbolic tangent; infinite at -1 and 1, NaN outside.

    >>> wy.arctanh(wy.Constant([0.0, 1.0])).forward().tolist()
    [0.0, inf]
    """

    __slots__ = ()
    _own: Arctanh[Any, Axes]
    formula = "arctanh(x)"
    function = "arctanh atanh"


class Sinh(Unary[Left_co, Axes]):
    """Elementwise hyperbolic sine."""

    __slots__ = ()
    _own: Sinh[Any, Axes]
    formula = "sinh(x)"
    function = "sinh"


class Cosh(Unary[Left_co, Axes]):
    """Elementwise hyperbolic cosine."""

    __slots__ = ()
    _own: Cosh[Any, Axes]
    formula = "cosh(x)"
    function = "cosh"


class Sin(Unary[Left_co, Axes]):
    """Elementwise sine of `x` in radians.

    >>> wy.Constant(0.0).sin().forward().item()
    0.0
    """

    __slots__ = ()
    _own: Sin[Any, Axes]
    formula = "sin(x)"
    method = "sin"


class Cos(Unary[Left_co, Axes]):
    """Elementwise cosine of `x` in radians.

    >>> wy.Constant(0.0).cos().forward().item()
    1.0
    """

    __slots__ = ()
    _own: Cos[Any, Axes]
    formula = "cos(x)"
    method = "cos"


class Tanh(Unary[Left_co, Axes]):
    """Elementwise hyperbolic tangent.

    >>> wy.Constant([0.0, 100.0]).tanh().forward().tolist()
    [0.0, 1.0]
    """

    __slots__ = ()
    _own: Tanh[Any, Axes]
    formula = "tanh(x)"
    method = "tanh"


class Hypot(Binary[Left_co, Right_co, Axes]):
    """Elementwise `sqrt(x ** 2 + y ** 2)` without overflow; the operands broadcast. The gradient at the origin is 0.

    >>> wy.hypot(wy.Constant([3.0]), 4.0).forward().tolist()
    [5.0]
    """

    __slots__ = ()
    _own: Hypot[Any, Any, Axes]
    formula = "hypot(x, y)"
    function = "hypot"
