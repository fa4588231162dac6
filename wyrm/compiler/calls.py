"""What kernels call that is neither a function of numbers nor a kernel: products, sums and Python's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from wyrm.compiler import indexing
from wyrm.compiler.arithmetic import as_type, literal, of_several, truth
from wyrm.compiler.errors import NotCompiled
from wyrm.compiler.values import ONE, Group, Num, Value, View, contiguous_strides
from wyrm.ir.program import Expression, If, Number, Operation, Product
from wyrm.ir.types import BOOL, INT64

if TYPE_CHECKING:
    from wyrm.compiler.expressions import Expressions

Builtin = Callable[["Expressions", Sequence[Value]], Value]
_BUILTINS: dict[Any, Builtin] = {}


def builtin(function: Any) -> Callable[[Builtin], Builtin]:
    """A decorator that gives a Python function a form in kernels."""

    def register(form: Builtin) -> Builtin:
        _BUILTINS[function] = form
        return form

    return register


def known_builtin(function: Any) -> bool:
    """Whether a function has a form in kernels."""
    try:
        return function in _BUILTINS
    except TypeError:
        return False


def call_builtin(body: Expressions, function: Any, arguments: Sequence[Value]) -> Value:
    """What the call of such a function gives."""
    return _BUILTINS[function](body, arguments)


def numbers(arguments: Sequence[Value]) -> list[Num]:
    """Arguments that have to be numbers."""
    found = [indexing.read(each) if isinstance(each, View) and not each.shape else each for each in arguments]
    if not all(isinstance(each, Num) for each in found):
        raise NotCompiled("numbers are asked for, not arrays")
    return [each for each in found if isinstance(each, Num)]


@builtin(len)
def _len(body: Expressions, arguments: Sequence[Value]) -> Value:
    (given,) = arguments
    if isinstance(given, Group):
        return literal(len(given.items))
    if isinstance(given, View) and given.shape:
        return Num(given.shape[0], natural=True)
    raise NotCompiled("the length of what has none")


@builtin(max)
def _max(body: Expressions, arguments: Sequence[Value]) -> Value:
    return of_several(body.builder, "max", numbers(arguments))


@builtin(min)
def _min(body: Expressions, arguments: Sequence[Value]) -> Value:
    return of_several(body.builder, "min", numbers(arguments))


def accumulate(body: Expressions, arguments: Sequence[Value]) -> Value:
    """`total + term` of the type of the total, of the terms of a sum in any order."""
    total, term = numbers(arguments)
    given = as_type(term, total.type)
    return Num(Operation("accumulate", (total.expression, given.expression), total.type))


def natural(body: Expressions, arguments: Sequence[Value]) -> Value:
    """An integer that is known to be at least 0."""
    (index,) = numbers(arguments)
    return Num(as_type(index, INT64).expression, natural=True)


def same_size(body: Expressions, pairs: Sequence[tuple[Expression, Expression]], message: str) -> None:
    """End where sizes differ."""
    wrong: Expression = Number(False, BOOL)
    for first, second in pairs:
        if first != second:
            wrong = Operation("or", (wrong, Operation("not_equal", (first, second), BOOL)), BOOL)
    if not isinstance(wrong, Number):
        with body.builder.block() as failing:
            body.builder.fail(message)
        body.builder.add(If(wrong, tuple(failing)))


def general(view: View) -> View:
    """A view of which nothing is known but its number of axes, so that fewer forms of a function are needed."""
    return View(view.pointer, view.element, view.shape, view.strides, "any")


def gemm(body: Expressions, arguments: Sequence[Value]) -> Value:
    """The BLAS: see `Product`; the operands at 0, 1 and 9 say yes or no."""
    operands: list[Expression] = []
    for place, each in enumerate(arguments):
        if isinstance(each, View):
            operands.append(each.pointer)
        elif isinstance(each, Num):
            operands.append(truth(each) if place in (0, 1, 9) else as_type(each, INT64).expression)
        else:
            raise NotCompiled("a product of what are no arrays")
    out = arguments[10]
    assert isinstance(out, View)
    body.builder.add(Product(tuple(operands), out.element))
    return literal(0)


def seen_as(body: Expressions, arguments: Sequence[Value]) -> Value:
    """The numbers of an array as one of this shape, in row-major order from its first on."""
    view, shape = arguments
    if not isinstance(view, View) or not isinstance(shape, Group):
        raise NotCompiled("an array and a shape are asked for")
    sizes = tuple(body.builder.let(as_type(each, INT64).expression) for each in numbers(shape.items))
    return View(view.pointer, view.element, sizes, contiguous_strides(sizes), "contiguous")


def steps_of(body: Expressions, arguments: Sequence[Value]) -> Value:
    """How many numbers lie between an element and the next one along each axis."""
    (view,) = arguments
    if not isinstance(view, View):
        raise NotCompiled("an array is asked for")
    return Group(tuple(Num(step) for step in view.strides))


__all__ = [
    "ONE", "accumulate", "builtin", "call_builtin", "gemm", "general", "known_builtin", "natural", "same_size",
    "seen_as", "steps_of",
]  # fmt: skip
