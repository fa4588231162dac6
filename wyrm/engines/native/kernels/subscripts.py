"""Translation of subscripts `x[...]`, attributes `x.name`, and `for` loops over arrays and ranges."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from wyrm.engines.native.ir.program import Expression, Number, Operation, Select
from wyrm.engines.native.ir.types import BOOL, INT64, ScalarType
from wyrm.engines.native.kernels import indexing
from wyrm.engines.native.kernels.arithmetic import as_type, binary, common_type
from wyrm.engines.native.kernels.functions import Routine, leaves, names_in
from wyrm.engines.native.kernels.indexing import WHOLE, Range
from wyrm.engines.native.kernels.values import (
    ONE,
    ZERO,
    KernelValue,
    Method,
    NotCompiled,
    Num,
    Static,
    TupleValue,
    View,
    attribute_of_module,
    known,
    literal,
    plus,
    times,
)
from wyrm.ops.kernels.sums import shared_turns

if TYPE_CHECKING:
    from wyrm.engines.native.kernels.expressions import Expressions
    from wyrm.engines.native.kernels.statements import FunctionBody


def selected(body: Expressions, view: View, index: ast.expr) -> View:
    """Return the view of an array that an index expression selects."""
    mark = body.builder.mark()
    nodes = index.elts if isinstance(index, ast.Tuple) else [index]
    found: list[KernelValue | Range | object] = []
    for value in body.in_order(lambda node: _entry(body, node), nodes):
        found += value.items if isinstance(value, TupleValue) else [value]
    entries: list[Num | Range] = []
    for each in found:
        if isinstance(each, View) and not each.shape:
            each = indexing.read(each)
        if isinstance(each, Num):
            entries.append(each)
        elif isinstance(each, Static) and isinstance(each.value, Range):
            entries.append(each.value)
        elif isinstance(each, Static) and each.value is Ellipsis:
            if sum(isinstance(one, Static) and one.value is Ellipsis for one in found) > 1:
                raise NotCompiled("an index can have only one ellipsis")
            entries += [WHOLE] * (len(view.shape) - len(found) + 1)
        else:
            raise NotCompiled(f"[{ast.unparse(index)}]: an index must be an integer, a slice or an ellipsis")
    settled = body.builder.settled(mark, view)
    assert isinstance(settled, View)
    return indexing.selected(body.builder, settled, entries)


def _entry(body: Expressions, node: ast.expr) -> KernelValue:
    if not isinstance(node, ast.Slice):
        return body.value(node)
    start, stop, step = (None if each is None else body.number(each) for each in (node.lower, node.upper, node.step))
    by = 1
    if step is not None:
        if not isinstance(step.expression, Number) or step.type.kind == "f" or step.expression.value <= 0:
            raise NotCompiled(
                f"[{ast.unparse(node)}]: the step of a slice must be a literal above 0; loop over range(...) instead"
            )
        by = int(step.expression.value)
    return Static(Range(start, stop, by))


def subscript(body: Expressions, value: KernelValue, index: ast.expr) -> KernelValue:
    """Return `value[index]`."""
    if isinstance(value, View):
        return indexing.read(selected(body, value, index))
    if isinstance(value, TupleValue):
        return _item(body, value, index)
    if isinstance(value, Static) and isinstance(value.value, np.ndarray):
        raise NotCompiled("kernels cannot use global arrays; pass the array as an argument")
    raise NotCompiled(f"[{ast.unparse(index)}]: only arrays and tuples can be indexed")


def _item(body: Expressions, group: TupleValue, index: ast.expr) -> KernelValue:
    size = len(group.items)
    if isinstance(index, ast.Slice):
        ends: list[int | None] = []
        for each in (index.lower, index.upper, index.step):
            number = None if each is None else body.number(each).expression
            if number is not None and not (isinstance(number, Number) and isinstance(number.value, int)):
                raise NotCompiled("the bounds of a slice of a tuple must be compile-time constants")
            ends.append(None if number is None else int(number.value))
        if ends[2] == 0:
            raise NotCompiled("the step of a slice must not be 0")
        return TupleValue(group.items[slice(*ends)])
    index_value = body.number(index)
    if index_value.type.kind not in "iu":
        raise NotCompiled(f"an index of a tuple must be an integer, not a {index_value.type}")
    if isinstance(index_value.expression, Number):
        at = int(index_value.expression.value)
        if not -size <= at < size:
            raise NotCompiled(f"index {at} is out of range for a tuple of {size} items")
        return group.items[at]
    numbers = [each for each in group.items if isinstance(each, Num)]
    if len(numbers) < size or not numbers:
        raise NotCompiled("a tuple can be indexed by a variable only if all its items are scalars")
    return _chosen(body, numbers, index_value)


def _chosen(body: Expressions, numbers: list[Num], index: Num) -> Num:
    """Return the item of a tuple of scalars at an index known only at run time."""
    size = Number(len(numbers), INT64)
    at = body.builder.let(as_type(index, INT64).expression)
    if not index.natural:
        at = body.builder.let(Select(Operation("less", (at, ZERO), BOOL), plus(at, size), at, INT64))
    body.builder.check(at, size)
    result = numbers[-1]
    for each in numbers:
        type = common_type(result, each)
        result = as_type(result, type)
    for position, each in reversed(list(enumerate(numbers[:-1]))):
        test = Operation("equal", (at, Number(position, INT64)), BOOL)
        chosen = as_type(each, result.type).expression
        result = Num(Select(test, chosen, result.expression, result.type), natural=result.natural and each.natural)
    return result


# Compile-time constants that stand for something else, which has other attributes.
_OWN = (ScalarType, Method, Range)


def attribute(value: KernelValue, name: str, node: ast.expr) -> KernelValue:
    """Return `value.name`."""
    match value:
        case Static(ModuleType() as module):
            return attribute_of_module(module, name)
        case View():
            return _attribute_of_array(value, name)
        case Num() if name == "dtype":
            return Static(value.type)
        case Num() if name in ("view", "astype", "item"):
            return Static(Method(name, value))
        case Num() if name in ("size", "ndim", "itemsize"):
            return literal({"size": 1, "ndim": 0, "itemsize": value.type.itemsize}[name])
        case Num() if name == "shape":
            return TupleValue(())
        case Static(ScalarType() as type) if name == "type":
            return Static(type)
        case Static(ScalarType() as type) if name == "itemsize":
            return literal(type.itemsize)
        case Static(ScalarType() as type) if name in ("kind", "name"):
            return Static(getattr(type, name))
        case Static(record) if is_dataclass(record) and hasattr(record, name) and not isinstance(record, _OWN):
            return known(getattr(record, name))
        case _:
            raise NotCompiled(f"{ast.unparse(node)}: kernels do not support the attribute {name} here")


def _attribute_of_array(view: View, name: str) -> KernelValue:
    match name:
        case "shape":
            return TupleValue(tuple(Num(size, natural=True) for size in view.shape))
        case "size":
            return indexing.size_of(view)
        case "ndim":
            return literal(len(view.shape))
        case "dtype":
            return Static(view.element)
        case "itemsize":
            return literal(view.element.itemsize)
        case "T":
            return indexing.transposed(view)
        case "strides":
            size = Number(view.element.itemsize, INT64)
            return TupleValue(tuple(Num(Operation("stride", (step, size), INT64)) for step in view.strides))
        case _:
            raise NotCompiled(
                f"arrays in kernels have no {name}; they have shape, size, ndim, dtype, itemsize, strides, T and flat"
            )


# The iteration space of a loop: its sizes, and the function from indices to the value of the loop target.
Iterations = tuple[Sequence[Expression], Callable[[Sequence[Num]], KernelValue]]


def for_each(body: FunctionBody, statement: ast.For) -> None:
    """Translate a `for` loop."""
    refuse_else(statement)
    items = items_of(body, statement.iter)
    if items is not None:
        _for_each_item(body, statement, items)
        return
    work = _shared_work(body, statement.iter)
    shape, given = _iterations(body, statement.iter)
    if len(shape) != 1 and leaves(statement.body, ast.Break):
        raise NotCompiled("break is not supported in a loop over several axes; write a loop for each axis")
    before = set(body.given)

    def iteration(indices: list[Num]) -> None:
        body.assign_to(statement.target, given(indices), body.builder.mark())
        body.run(statement.body)

    if not shape and (leaves(statement.body, ast.Continue)):
        raise NotCompiled("continue is not supported in a loop over an array without axes")
    indexing.over(body.builder, shape, iteration)
    if work is not None and body.no_alias:
        body.builder.share_last_loop(work)
    body.given = before


def _for_each_item(body: FunctionBody, statement: ast.For, items: Sequence[KernelValue]) -> None:
    """Translate a loop over a tuple: its statements once for each item, which may have kinds of their own."""
    if leaves(statement.body, ast.Break) or leaves(statement.body, ast.Continue):
        raise NotCompiled("break and continue are not supported in a loop over a tuple")
    for item in list(map(body.copied, items)):
        with body.standing_for(statement.target, item):
            body.run(statement.body)
    body.bound |= dict.fromkeys(names_in(statement.target))


def items_of(body: Expressions, over: ast.expr) -> Sequence[KernelValue] | None:
    """Return the items of a tuple, of `enumerate` of one or of `zip` of several; None for anything else."""
    match over:
        case ast.Attribute(_, "flat"):
            return None
        case ast.Name() | ast.Attribute() | ast.Tuple():
            value = body.value(over)
            return value.items if isinstance(value, TupleValue) else None
        case ast.Call(ast.Name() as name, inners, options) if body.value(name) in (Static(enumerate), Static(zip)):
            tuples = [items for each in inners if (items := items_of(body, each)) is not None]
            if len(tuples) < len(inners):
                return None
            if body.value(name) == Static(enumerate):
                tuples.insert(0, list(map(literal, range(len(tuples[0])))))
            strict = any(ast.unparse(each) == "strict=True" for each in options)
            if strict and len({len(each) for each in tuples}) > 1:
                raise NotCompiled(f"{ast.unparse(over)}: the tuples have different lengths")
            return [TupleValue(each) for each in zip(*tuples, strict=False)]
        case _:
            return None


def refuse_else(loop: ast.For | ast.While) -> None:
    """Raise `NotCompiled` if a loop has an else clause."""
    if loop.orelse:
        raise NotCompiled("a loop with an else is not supported; set a variable before break, test it after the loop")


def _shared_work(body: FunctionBody, over: ast.expr) -> Expression | None:
    """Return the work of a turn of a loop over `shared_turns`; None for other loops."""
    match over:
        case ast.Call(ast.Name() as function, [_, work], []):
            called = body.value(function)
            if isinstance(called, Static) and called.value is shared_turns:
                return body.builder.copy(as_type(body.number(work), INT64).expression, "work")
    return None


def _iterations(body: FunctionBody, over: ast.expr) -> Iterations:
    match over:
        case ast.Call(function, arguments, []):
            return _iterations_of_call(body, body.value(function), arguments, over)
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


def _iterations_of_call(
    body: FunctionBody, function: KernelValue, arguments: Sequence[ast.expr], over: ast.Call
) -> Iterations:
    called = function.value if isinstance(function, Static) else None
    if any(isinstance(each, ast.Starred) for each in arguments):
        raise NotCompiled(f"{ast.unparse(over)}: write the arguments without a star")
    if called is shared_turns and len(arguments) == 2:
        return _range(body, body.numbers(arguments[:1]))
    if called is range and 1 <= len(arguments) <= 3:
        numbers = body.numbers(arguments)
        return _range(body, numbers)
    if called is enumerate and len(arguments) == 1:
        shape, given = _iterations(body, arguments[0])
        if len(shape) == 1:
            return shape, lambda at: TupleValue((at[0], given(at)))
    if called is zip and arguments:
        pairs = [_iterations(body, each) for each in arguments]
        if all(len(shape) == 1 for shape, _ in pairs):
            count = pairs[0][0][0]
            for (size,), _ in pairs[1:]:
                count = body.builder.let(Select(Operation("less", (size, count), BOOL), size, count, INT64))
            return [count], lambda at: TupleValue(tuple(given(at) for _, given in pairs))
    if called is np.ndindex and arguments:
        values = body.in_order(body.value, arguments)
        if len(values) == 1 and isinstance(values[0], TupleValue):
            values = list(values[0].items)
        sizes = [as_type(each, INT64) for each in values if isinstance(each, Num) and each.type.kind in "iu"]
        if len(sizes) == len(values):
            return [body.builder.copy(each.expression, "n") for each in sizes], lambda at: TupleValue(tuple(at))
    if isinstance(called, Routine):
        value = body.value(over)
        if isinstance(value, View) and value.shape:
            return _elements(body, value, 1)
    raise _unsupported(over)


def _unsupported(over: ast.expr) -> NotCompiled:
    return NotCompiled(
        f"cannot loop over {ast.unparse(over)}; kernels loop over range(...), an array, its `flat`, enumerate(x), "
        f"zip(x, y) and np.ndindex(shape)"
    )


def _elements(body: FunctionBody, view: View, axes: int) -> Iterations:
    """Return the loop over the elements or subarrays along the first axes."""
    held = indexing.evaluated(body.builder, view, copy=True)
    body.note_origins(indexing.root_of(held.pointer) or "", view)
    return held.shape[:axes], lambda at: indexing.at(held, at)


def _range(body: FunctionBody, arguments: Sequence[Num]) -> Iterations:
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
