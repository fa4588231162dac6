"""Translation of `for` loops over ranges, arrays, and the indices of a shape."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from wyrm.engines.native.ir.program import Expression, Number, Operation, Select
from wyrm.engines.native.ir.types import BOOL, INT64
from wyrm.engines.native.kernels import indexing
from wyrm.engines.native.kernels.arithmetic import as_type, binary, literal
from wyrm.engines.native.kernels.errors import NotCompiled
from wyrm.engines.native.kernels.names import leaves
from wyrm.engines.native.kernels.values import ONE, ZERO, Group, Num, Static, Value, View, plus, times

if TYPE_CHECKING:
    from wyrm.engines.native.kernels.statements import FunctionBody

# The iteration space of a loop: its sizes, and the function from indices to the value of the loop target.
Turns = tuple[Sequence[Expression], Callable[[Sequence[Num]], Value]]


def for_each(body: FunctionBody, statement: ast.For) -> None:
    """Translate a `for` loop."""
    refuse_else(statement)
    shape, given = _turns(body, statement.iter)
    if len(shape) != 1 and leaves(statement.body, ast.Break):
        raise NotCompiled("break is not supported in a loop over several axes; write a loop for each axis")
    before = set(body.given)

    def turn(indices: list[Num]) -> None:
        body.assign_to(statement.target, given(indices), body.builder.mark())
        body.run(statement.body)

    if not shape and (leaves(statement.body, ast.Continue)):
        raise NotCompiled("continue is not supported in a loop over an array without axes")
    indexing.over(body.builder, shape, turn)
    body.given = before


def refuse_else(loop: ast.For | ast.While) -> None:
    """Raise `NotCompiled` if a loop has an else clause."""
    if loop.orelse:
        raise NotCompiled("a loop with an else is not supported; set a variable before break, test it after the loop")


def _turns(body: FunctionBody, over: ast.expr) -> Turns:
    match over:
        case ast.Call(function, arguments, []):
            return _turns_of_call(body, body.value(function), arguments, over)
        case ast.Attribute(array, "flat"):
            view = body.value(array)
            if not isinstance(view, View):
                raise NotCompiled(f"{ast.unparse(array)} is not an array")
            return _elements(body, view, len(view.shape))
        case _:
            value = body.value(over)
            if isinstance(value, View) and value.shape:
                return _elements(body, value, 1)
            raise _unsupported(over)


def _turns_of_call(body: FunctionBody, function: Value, arguments: Sequence[ast.expr], over: ast.Call) -> Turns:
    called = function.value if isinstance(function, Static) else None
    if any(isinstance(each, ast.Starred) for each in arguments):
        raise NotCompiled(f"{ast.unparse(over)}: write the arguments without a star")
    if called is range and 1 <= len(arguments) <= 3:
        numbers = body.numbers(arguments)
        return _range(body, numbers)
    if called is enumerate and len(arguments) == 1:
        shape, given = _turns(body, arguments[0])
        if len(shape) == 1:
            return shape, lambda at: Group((at[0], given(at)))
    if called is zip and arguments:
        pairs = [_turns(body, each) for each in arguments]
        if all(len(shape) == 1 for shape, _ in pairs):
            count = pairs[0][0][0]
            for (size,), _ in pairs[1:]:
                count = body.builder.let(Select(Operation("less", (size, count), BOOL), size, count, INT64))
            return [count], lambda at: Group(tuple(given(at) for _, given in pairs))
    if called is np.ndindex and arguments:
        values = body.in_order(body.value, arguments)
        if len(values) == 1 and isinstance(values[0], Group):
            values = list(values[0].items)
        sizes = [as_type(each, INT64) for each in values if isinstance(each, Num) and each.type.kind in "iu"]
        if len(sizes) == len(values):
            return [body.builder.copy(each.expression, "n") for each in sizes], lambda at: Group(tuple(at))
    raise _unsupported(over)


def _unsupported(over: ast.expr) -> NotCompiled:
    return NotCompiled(
        f"cannot loop over {ast.unparse(over)}; kernels loop over range(...), an array, its `flat`, enumerate(x), "
        f"zip(x, y) and np.ndindex(shape)"
    )


def _elements(body: FunctionBody, view: View, axes: int) -> Turns:
    """Return the loop over the elements or subarrays along the first axes."""
    held = indexing.evaluated(body.builder, view, copy=True)
    body.note_origins(indexing.root_of(held.pointer) or "", view)
    return held.shape[:axes], lambda at: indexing.at(held, at)


def _range(body: FunctionBody, arguments: Sequence[Num]) -> Turns:
    start, step = literal(0), literal(1)
    if len(arguments) == 1:
        (stop,) = arguments
    elif len(arguments) == 2:
        start, stop = arguments
    else:
        start, stop, step = arguments
    if any(each.type.kind == "f" for each in (start, stop, step)):
        raise NotCompiled("range takes integers, not floats; convert with int(x)")
    # Copies: the body may assign the variables that the bounds come from.
    first, last, by = (body.builder.copy(as_type(each, INT64).expression, "n") for each in (start, stop, step))
    if by == ZERO:
        raise NotCompiled("the step of a range must not be 0")
    count, backwards = _count(body, first, last, by, step)
    inside = backwards and isinstance(last, Number) and last.value >= -1
    natural = inside or (start.natural and not backwards and (step.natural or isinstance(by, Number)))

    def value_at(at: Sequence[Num]) -> Num:
        return Num(plus(first, times(at[0].expression, by)), natural=natural)

    return [count], value_at


def _count(
    body: FunctionBody, first: Expression, last: Expression, by: Expression, step: Num
) -> tuple[Expression, bool]:
    """Return the number of iterations of a range, and whether its step is a negative constant."""
    up = last if first == ZERO else Operation("subtract", (last, first), INT64)
    if by == ONE:
        return up, False
    down = Operation("subtract", (first, last), INT64)
    if isinstance(by, Number):
        backwards = by.value < 0
        return _rounded_up(body, down if backwards else up, Number(abs(by.value), INT64)), backwards
    if step.natural:
        return _rounded_up(body, up, by), False
    below = Operation("less", (by, ZERO), BOOL)
    distance = Select(below, down, up, INT64)
    size = Select(below, Operation("negative", (by,), INT64), by, INT64)
    return _rounded_up(body, distance, body.builder.let(size)), False


def _rounded_up(body: FunctionBody, distance: Expression, size: Expression) -> Expression:
    """Return `ceil(distance / size)`; 0 for a size of 0 or a negative distance."""
    distance = body.builder.let(distance)
    if size == ONE:
        return distance
    one_less = Num(Operation("subtract", (distance, ONE), INT64), natural=True)
    whole = binary(body.builder, "floor_divide", one_less, Num(size, natural=True)).expression
    some = Operation("greater", (distance, ZERO), BOOL)
    if not isinstance(size, Number):
        some = Operation("and", (some, Operation("not_equal", (size, ZERO), BOOL)), BOOL)
    return Select(some, Operation("add", (whole, ONE), INT64), ZERO, INT64)
