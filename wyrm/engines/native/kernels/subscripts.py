"""Translation of subscripts `x[...]` and attributes `x.name`."""

from __future__ import annotations

import ast
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from wyrm.engines.native.ir.program import Number, Operation, Select
from wyrm.engines.native.ir.types import BOOL, INT64, ScalarType
from wyrm.engines.native.kernels import indexing
from wyrm.engines.native.kernels.arithmetic import as_type, common_type, literal
from wyrm.engines.native.kernels.errors import NotCompiled
from wyrm.engines.native.kernels.indexing import WHOLE, Range
from wyrm.engines.native.kernels.known import attribute_of_module
from wyrm.engines.native.kernels.values import ZERO, Group, Method, Num, Static, Value, View, plus

if TYPE_CHECKING:
    from wyrm.engines.native.kernels.expressions import Expressions


def part(body: Expressions, view: View, index: ast.expr) -> View:
    """Return the view of an array that an index expression selects."""
    mark = body.builder.mark()
    nodes = index.elts if isinstance(index, ast.Tuple) else [index]
    found: list[Value | Range | object] = []
    for value in body.in_order(lambda node: _entry(body, node), nodes):
        found += value.items if isinstance(value, Group) else [value]
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
    return indexing.part(body.builder, settled, entries)


def _entry(body: Expressions, node: ast.expr) -> Value:
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


def subscript(body: Expressions, value: Value, index: ast.expr) -> Value:
    """Return `value[index]`."""
    if isinstance(value, View):
        return indexing.read(part(body, value, index))
    if isinstance(value, Group):
        return _item(body, value, index)
    if isinstance(value, Static) and isinstance(value.value, np.ndarray):
        raise NotCompiled("kernels cannot use global arrays; pass the array as an argument")
    raise NotCompiled(f"[{ast.unparse(index)}]: only arrays and tuples can be indexed")


def _item(body: Expressions, group: Group, index: ast.expr) -> Value:
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
        return Group(group.items[slice(*ends)])
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


def attribute(value: Value, name: str, node: ast.expr) -> Value:
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
            return Group(())
        case Static(ScalarType() as type) if name == "type":
            return Static(type)
        case Static(ScalarType() as type) if name == "itemsize":
            return literal(type.itemsize)
        case Static(ScalarType() as type) if name in ("kind", "name"):
            return Static(getattr(type, name))
        case _:
            raise NotCompiled(f"{ast.unparse(node)}: kernels do not support the attribute {name} here")


def _attribute_of_array(view: View, name: str) -> Value:
    match name:
        case "shape":
            return Group(tuple(Num(size, natural=True) for size in view.shape))
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
            return Group(tuple(Num(Operation("stride", (step, size), INT64)) for step in view.strides))
        case _:
            raise NotCompiled(
                f"arrays in kernels have no {name}; they have shape, size, ndim, dtype, itemsize, strides, T and flat"
            )
