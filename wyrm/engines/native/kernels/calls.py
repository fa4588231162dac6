"""Calls that are not calls of kernels: products, reorderable sums, scalar functions and Python builtins."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wyrm.engines.native.ir.program import Expression, Number, Operation, TiledProduct
from wyrm.engines.native.ir.types import BOOL, FLOAT32, FLOAT64, INT64
from wyrm.engines.native.kernels import indexing, njit
from wyrm.engines.native.kernels.arithmetic import as_type, bits_of, truth
from wyrm.engines.native.kernels.functions import kernel_of
from wyrm.engines.native.kernels.functions_of_numbers import function_of, of_several
from wyrm.engines.native.kernels.values import (
    KernelValue,
    Method,
    NotCompiled,
    Num,
    Static,
    TupleValue,
    View,
    contiguous_strides,
    dtype_named,
    dtype_or_none,
    literal,
)
from wyrm.graph.loop_form import is_njit
from wyrm.ops.elementwise.fast_math import float64_exp

if TYPE_CHECKING:
    from wyrm.engines.native.kernels.expressions import Expressions

Builtin = Callable[["Expressions", Sequence[KernelValue]], KernelValue]
_BUILTINS: dict[object, Builtin] = {}
# It is part of the loop that calls it: around a call of the C library, what registers hold goes to memory.
_EXP = kernel_of(float64_exp)


def builtin(function: object) -> Callable[[Builtin], Builtin]:
    """Return a decorator that registers the translation of calls of a Python function."""

    def register(translate: Builtin) -> Builtin:
        _BUILTINS[function] = translate
        return translate

    return register


def _builtin_of(function: object) -> Builtin | None:
    """Return the registered translation of calls of a function; None if there is none."""
    try:
        return _BUILTINS.get(function)
    except TypeError:  # not hashable
        return None


def is_kernel(function: Any) -> bool:
    """Return whether a Python function is compiled as a kernel where another one calls it."""
    return _builtin_of(function) is None and not (function.__module__ or "").startswith("numpy")


def call(body: Expressions, function: object, arguments: Sequence[KernelValue], text: str) -> KernelValue:
    """Return the result of calling a function that is not a kernel; `text` is its name in error messages."""
    if isinstance(function, Method):
        return _method(function, arguments, text)
    if is_njit(function):
        return njit.call(body, function, arguments)
    translate = _builtin_of(function)
    if translate is not None:
        return translate(body, arguments)
    if function is np.dtype and len(arguments) == 1:
        return _dtype(arguments[0])
    type = dtype_or_none(function)
    if type is None and not _is_numeric(function):
        if callable(function):
            raise NotCompiled(
                f"cannot call {text}; kernels call kernels, functions of numba.njit, scalar functions of NumPy and "
                f"math, abs, bool, divmod, float, int, len, max, min, pow and round"
            )
        raise NotCompiled(f"cannot call {text}: it is not a function")
    if type is not None and len(arguments) == 1 and isinstance(arguments[0], Static):
        return _of_text(arguments[0].value, function)
    given = numbers(arguments, text)
    if type is not None:
        if len(given) != 1:
            raise NotCompiled(f"{text} takes one scalar")
        return as_type(given[0], type)
    if function in (math.exp, np.exp) and not body.function.exact:
        (x,) = given
        if (x.weak or x.type != FLOAT32) and not isinstance(x.expression, Number):
            return body.invoke(_EXP, [as_type(x, FLOAT64)])
    found = function_of(body.builder, function, given)
    if found is None:
        raise NotCompiled(f"kernels have no {text} of {len(arguments)} scalars; write it as a loop or a function")
    return found


def _method(method: Method, arguments: Sequence[KernelValue], text: str) -> KernelValue:
    if len(arguments) != (method.name != "item"):
        raise NotCompiled(f"{text} takes a dtype")
    if method.name == "item":
        return method.of
    type = dtype_named(arguments[0])
    return bits_of(method.of, type) if method.name == "view" else Num(as_type(method.of, type).expression)


def _dtype(given: KernelValue) -> KernelValue:
    """Return `np.dtype(given)` for a dtype or the name of one."""
    text = given.value if isinstance(given, Static) else None
    if isinstance(text, str):
        try:
            return Static(dtype_named(Static(np.dtype(text))))
        except TypeError:
            raise NotCompiled(f"{text} is not a dtype") from None
    return Static(dtype_named(given))


def _of_text(text: object, function: object) -> Num:
    if function is float and isinstance(text, str):
        try:
            return literal(float(text))
        except ValueError:
            pass
    raise NotCompiled(f"cannot convert {text!r} to a scalar")


def _is_numeric(function: object) -> bool:
    """Return whether a function comes from NumPy, `math` or Python itself."""
    return isinstance(function, np.ufunc) or getattr(function, "__module__", None) in ("math", "numpy", "builtins")


def numbers(arguments: Sequence[KernelValue], text: str = "this") -> list[Num]:
    """Return the arguments as scalars; raise `NotCompiled` if one is not a scalar."""
    found = [indexing.read(each) if isinstance(each, View) and not each.shape else each for each in arguments]
    if any(isinstance(each, View) for each in found):
        raise NotCompiled(f"{text} of an array; it takes scalars: loop over the elements")
    if not all(isinstance(each, Num) for each in found):
        raise NotCompiled(f"{text} takes scalars")
    return [each for each in found if isinstance(each, Num)]


def _exactly(arguments: Sequence[KernelValue], count: int, text: str) -> None:
    if len(arguments) != count:
        raise NotCompiled(f"{text} takes {count} arguments, not {len(arguments)}")


@builtin(len)
def _len(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    _exactly(arguments, 1, "len")
    (given,) = arguments
    if isinstance(given, TupleValue):
        return literal(len(given.items))
    if isinstance(given, View) and given.shape:
        return Num(given.shape[0], natural=True)
    raise NotCompiled("len takes an array with at least one axis, or a tuple")


def _several(arguments: Sequence[KernelValue], text: str) -> list[Num]:
    if len(arguments) == 1 and isinstance(arguments[0], TupleValue):
        arguments = arguments[0].items
    if not arguments or (len(arguments) == 1 and not isinstance(arguments[0], Num)):
        raise NotCompiled(f"{text} takes scalars or a tuple of scalars; loop over the elements of an array")
    return numbers(arguments, text)


@builtin(max)
def _max(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    return of_several(body.builder, "max", _several(arguments, "max"))


@builtin(min)
def _min(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    return of_several(body.builder, "min", _several(arguments, "min"))


def accumulate(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    """Return `total + term` in the type of `total`; LLVM may reorder such additions."""
    _exactly(arguments, 2, "accumulated")
    total, term = numbers(arguments)
    given = as_type(term, total.type)
    return Num(Operation("accumulate", (total.expression, given.expression), total.type))


def natural(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    """Return an integer, marked as at least 0."""
    _exactly(arguments, 1, "natural")
    (index,) = numbers(arguments)
    return Num(as_type(index, INT64).expression, natural=True)


def same_size(body: Expressions, pairs: Sequence[tuple[Expression, Expression]], message: str) -> None:
    """End the program with an error if two sizes of a pair differ."""
    wrong: Expression = Number(False, BOOL)
    for first, second in pairs:
        if first != second:
            wrong = Operation("or", (wrong, Operation("not_equal", (first, second), BOOL)), BOOL)
    if not isinstance(wrong, Number):
        body.builder.fail_where(wrong, message)


def general(view: View) -> View:
    """Return the view with layout "any", so that one specialization of a function serves all layouts."""
    return View(view.pointer, view.element, view.shape, view.strides, "any")


def in_registers(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    """Add a `TiledProduct` of three matrices; then follow beta, and the text "exact" or "rounded"."""
    _exactly(arguments, 5, "in_registers")
    x, y, out, beta, how = arguments
    if not (isinstance(x, View) and isinstance(y, View) and isinstance(out, View) and isinstance(beta, Num)):
        raise NotCompiled("in_registers takes three matrices and a number")
    sizes = (*out.shape, x.shape[1])
    operands = (*sizes, x.pointer, *x.strides, y.pointer, *y.strides, out.pointer, out.strides[0], truth(beta))
    target = body.translation.target
    rounds = how == Static("rounded") and out.element == FLOAT32 and target is not None and target.pairs is not None
    body.builder.add(TiledProduct(operands, out.element, y.element, rounds))
    return literal(0)


def as_shape(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    """Return a row-major view of this shape over the memory that starts at the array's first element."""
    _exactly(arguments, 2, "as_shape")
    view, shape = arguments
    if not isinstance(view, View) or not isinstance(shape, TupleValue):
        raise NotCompiled("as_shape takes an array and a shape")
    sizes = tuple(body.builder.let(as_type(each, INT64).expression) for each in numbers(shape.items))
    return View(view.pointer, view.element, sizes, contiguous_strides(sizes), "contiguous")


def element_strides(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    """Return the strides of an array in elements."""
    _exactly(arguments, 1, "element_strides")
    (view,) = arguments
    if not isinstance(view, View):
        raise NotCompiled("element_strides takes an array")
    return TupleValue(tuple(Num(step) for step in view.strides))
