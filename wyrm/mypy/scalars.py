"""Numbers that other declarations leave `Any`: an operator of a node and `Any` is `Any` for mypy, without a call.

`float ** float` may be complex, for a negative base, and so may be what functions of NumPy make of one number. For the
plugin it is a float, as in `x / width**0.5` and `x / np.sqrt(width)`.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from mypy.plugin import MethodContext
from mypy.types import AnyType, Instance, LiteralType, Type, get_proper_type

# The methods of numbers that power is, and the method that calls a function of NumPy of one operand.
POWERS = frozenset({"builtins.float.__pow__", "builtins.float.__rpow__"})
UFUNC = "numpy._typing._ufunc._UFunc_Nin1_Nout1.__call__"
_NUMBERS: dict[str, int | float] = {"builtins.int": 1, "builtins.float": 0.5, "numpy.float64": 0.5}


def type_of_power(context: MethodContext) -> Type:
    """Return float for a power of real numbers whose declared type is `Any`."""
    declared = context.default_return_type
    is_real = isinstance(get_proper_type(declared), AnyType) and _number(context) is not None
    return context.api.named_generic_type("builtins.float", []) if is_real else declared


def type_of_ufunc(context: MethodContext) -> Type:
    """Return float64 for a function of NumPy that makes one of a number, where its declared type is `Any`."""
    declared, number = context.default_return_type, _number(context)
    function = get_proper_type(context.type)
    name = get_proper_type(function.args[0]) if isinstance(function, Instance) and function.args else None
    if not isinstance(get_proper_type(declared), AnyType) or number is None or not isinstance(name, LiteralType):
        return declared
    is_float = _makes_float(str(name.value), number)
    return context.api.named_generic_type("numpy.float64", []) if is_float else declared


def _number(context: MethodContext) -> int | float | None:
    """Return a number of the type of the only argument; None for another type."""
    if [len(types) for types in context.arg_types if types] != [1]:
        return None
    type_ = get_proper_type(next(types[0] for types in context.arg_types if types))
    if isinstance(type_, LiteralType):
        type_ = type_.fallback
    return _NUMBERS.get(type_.type.fullname) if isinstance(type_, Instance) else None


@cache
def _makes_float(name: str, number: int | float) -> bool:
    function = getattr(np, name, None)
    return isinstance(function, np.ufunc) and type(function(number)) is np.float64
