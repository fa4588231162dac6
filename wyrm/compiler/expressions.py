"""The expressions of a function: what each stands for, and the statements that it takes to compute it."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from wyrm.compiler import indexing
from wyrm.compiler.arithmetic import (
    COMPARISONS,
    as_type,
    binary,
    bits_of,
    common_type,
    function_of,
    literal,
    negative,
    truth,
)
from wyrm.compiler.builder import Builder
from wyrm.compiler.calls import call_builtin, known_builtin
from wyrm.compiler.errors import NotCompiled
from wyrm.compiler.functions import KernelFunction
from wyrm.compiler.indexing import Range
from wyrm.compiler.values import Address, Group, Kind, Num, Static, Value, View, kind_of, parts_of, rebuilt, types_of
from wyrm.ir.program import (
    Assign,
    Bits,
    Cast,
    Expression,
    If,
    Invoke,
    Load,
    Number,
    Operation,
    Select,
    Statement,
    Variable,
)
from wyrm.ir.types import BOOL, INT64, Scalar, scalar_of

if TYPE_CHECKING:
    from wyrm.compiler.translate import Translation

OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder", ast.Pow: "power", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
    ast.LShift: "left", ast.RShift: "right",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal", ast.Eq: "equal",
    ast.NotEq: "not_equal",
}  # fmt: skip


class Expressions:
    """What expressions mean in one function."""

    def __init__(
        self, translation: Translation, function: KernelFunction, builder: Builder, kinds: dict[str, Kind]
    ) -> None:
        self.translation, self.function, self.builder, self.kinds = translation, function, builder, kinds

    # --- what is wanted of an expression --------------------------------------------------------------------------

    def number(self, node: ast.expr) -> Num:
        """An expression that is a number."""
        value = self.value(node)
        if isinstance(value, View) and not value.shape:
            value = indexing.read(value)
        if not isinstance(value, Num):
            raise NotCompiled(f"{ast.unparse(node)} is no number")
        return value

    def condition(self, node: ast.expr) -> Expression:
        """Whether an expression is true."""
        return truth(self.number(node))

    def items(self, value: Value) -> tuple[Value, ...]:
        """The values in a tuple."""
        if isinstance(value, Group):
            return value.items
        raise NotCompiled("a single value where several are asked for")

    # --- expressions ----------------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        """What an expression stands for."""
        match node:
            case ast.Constant(value):
                return _known(value)
            case ast.Name(name):
                return self._name(name)
            case ast.Tuple(elements):
                return Group(tuple(self.value(each) for each in elements))
            case ast.BinOp(left, op, right):
                x = self._kept_for(self.number(left), right)
                return binary(self.builder, OPERATORS[type(op)], x, self.number(right))
            case ast.UnaryOp(op, operand):
                return self._unary(op, self.number(operand))
            case ast.Compare(left, ops, comparators):
                return self._compare(left, ops, comparators)
            case ast.BoolOp(op, values):
                return self._lazily(isinstance(op, ast.And), values)
            case ast.IfExp(test, body, otherwise):
                return self._either(self.condition(test), body, otherwise)
            case ast.Attribute(of, name):
                return self._attribute(self.value(of), name, node)
            case ast.Subscript(of, index):
                return self._subscript(self.value(of), index)
            case ast.Call():
                return self._call(node)
            case _:
                raise NotCompiled(f"an expression that kernels do not have: {ast.unparse(node)}")

    def _kept_for(self, value: Num, later: ast.expr) -> Num:
        """A number that is not read again after a call has perhaps changed what it reads."""
        if any(isinstance(each, ast.Call) for each in ast.walk(later)):
            return self.builder.held(value)
        return value

    def _name(self, name: str) -> Value:
        if name in self.kinds:
            kind = self.kinds[name]
            return rebuilt(kind, [Variable(name + end, type) for end, type in types_of(kind)])
        names = self.function.globals()
        if name in names:
            return _known(names[name])
        builtins = names.get("__builtins__", {})
        found = builtins.get(name) if isinstance(builtins, dict) else getattr(builtins, name, None)
        if found is None:
            raise NotCompiled(f"{name} is not known here")
        return Static(found)

    def _unary(self, op: ast.unaryop, x: Num) -> Num:
        if isinstance(op, ast.USub):
            return negative(x)
        if isinstance(op, ast.Not):
            condition = truth(x)
            if isinstance(condition, Number):
                return literal(not condition.value)
            return Num(Operation("not", (condition,), BOOL))
        if isinstance(op, ast.UAdd):
            return x
        if x.type.kind in "iu":
            ones = Number(-1 if x.type.kind == "i" else 2**x.type.bits - 1, x.type)
            return Num(Operation("xor", (x.expression, ones), x.type))
        if x.type == BOOL:
            return Num(Operation("not", (x.expression,), BOOL))
        raise NotCompiled("~ of a float")

    def _compare(self, left: ast.expr, ops: Sequence[ast.cmpop], comparators: Sequence[ast.expr]) -> Value:
        if len(ops) == 1 and isinstance(ops[0], ast.Is | ast.IsNot | ast.Eq | ast.NotEq):
            x, y = self.value(left), self.value(comparators[0])
            if isinstance(x, Static) and isinstance(y, Static):
                same = x.value is y.value or (isinstance(ops[0], ast.Eq | ast.NotEq) and x.value == y.value)
                return literal(same == isinstance(ops[0], ast.Is | ast.Eq))
            if isinstance(ops[0], ast.Is | ast.IsNot):
                return literal(isinstance(ops[0], ast.IsNot))
        result: Num | None = None
        x = self.number(left)
        for position, (op, node) in enumerate(zip(ops, comparators, strict=True)):
            if type(op) not in _COMPARE:
                raise NotCompiled(f"a comparison that kernels do not have: {type(op).__name__}")
            x = self._kept_for(x, node)
            y = self.number(node)
            if position < len(ops) - 1:
                y = Num(self.builder.let(y.expression), y.weak, y.natural)
            one = binary(self.builder, _COMPARE[type(op)], x, y)
            result = one if result is None else Num(Operation("and", (result.expression, one.expression), BOOL))
            x = y
        assert result is not None
        return result

    def _lazily(self, every: bool, values: Sequence[ast.expr]) -> Num:
        """`and` or `or` of conditions: what comes later is not evaluated where an earlier one decides."""
        first, *rest = values
        condition = self.condition(first)
        if not rest:
            return Num(condition)
        if isinstance(condition, Number):
            return self._lazily(every, rest) if bool(condition.value) == every else literal(not every)
        with self.builder.block() as body:
            later = self._lazily(every, rest).expression
        if not body and _is_cheap(later):
            return Num(Operation("and" if every else "or", (condition, later), BOOL))
        result = Variable(self.builder.fresh("t"), BOOL)
        decided = (Assign(result, Number(not every, BOOL)),)
        evaluated = (*body, Assign(result, later))
        self.builder.add(If(condition, evaluated, decided) if every else If(condition, decided, evaluated))
        return Num(result)

    def _either(self, condition: Expression, chosen: ast.expr, otherwise: ast.expr) -> Value:
        if isinstance(condition, Number):
            return self.value(chosen if condition.value else otherwise)
        condition = self.builder.let(condition)
        blocks: list[list[Statement]] = []
        values: list[Num] = []
        for node in (chosen, otherwise):
            with self.builder.block() as block:
                values.append(self.number(node))
            blocks.append(block)
        type, natural = common_type(*values), all(value.natural for value in values)
        first, second = (as_type(value, type).expression for value in values)
        if not any(blocks) and _is_cheap(first) and _is_cheap(second):
            return Num(Select(condition, first, second, type), natural=natural)
        result = Variable(self.builder.fresh("t"), type)
        bodies = [(*block, Assign(result, each)) for block, each in zip(blocks, (first, second), strict=True)]
        self.builder.add(If(condition, bodies[0], bodies[1]))
        return Num(result, natural=natural)

    # --- parts and attributes -------------------------------------------------------------------------------------

    def part(self, view: View, index: ast.expr) -> View:
        """The part of an array that an index chooses."""
        entries: list[Num | Range] = []
        nodes = index.elts if isinstance(index, ast.Tuple) else [index]
        for node in nodes:
            if isinstance(node, ast.Slice):
                if node.step is not None:
                    raise NotCompiled("a slice with a step")
                ends = [None if each is None else self.number(each) for each in (node.lower, node.upper)]
                entries.append(Range(*ends))
                continue
            value = self.value(node)
            if isinstance(value, Static) and value.value is Ellipsis:
                entries += [indexing.WHOLE] * (len(view.shape) - len(nodes) + 1)
            elif isinstance(value, Group):
                entries += [each for each in value.items if isinstance(each, Num)]
            else:
                if isinstance(value, View) and not value.shape:
                    value = indexing.read(value)
                if not isinstance(value, Num):
                    raise NotCompiled(f"an index that is no integer: {ast.unparse(node)}")
                entries.append(value)
        return indexing.part(self.builder, view, entries)

    def _subscript(self, value: Value, index: ast.expr) -> Value:
        if isinstance(value, View):
            return indexing.read(self.part(value, index))
        if isinstance(value, Group):
            return self._item(value, index)
        raise NotCompiled(f"a part of what is no array: [{ast.unparse(index)}]")

    def _item(self, group: Group, index: ast.expr) -> Value:
        if isinstance(index, ast.Slice):
            ends = []
            for each in (index.lower, index.upper):
                number = None if each is None else self.number(each).expression
                if number is not None and not isinstance(number, Number):
                    raise NotCompiled("a part of a tuple that is not known while compiling")
                ends.append(None if number is None else int(number.value))
            return Group(group.items[ends[0] : ends[1]])
        place = self.number(index)
        if isinstance(place.expression, Number):
            return group.items[int(place.expression.value)]
        numbers = [each for each in group.items if isinstance(each, Num)]
        if len(numbers) != len(group.items) or not numbers:
            raise NotCompiled("an item of a tuple that is not known while compiling")
        at = self.builder.let(as_type(place, INT64).expression)
        *before, last = numbers
        result = last
        for position, item in reversed(list(enumerate(before))):
            test = Operation("equal", (at, Number(position, INT64)), BOOL)
            chosen = as_type(item, last.type).expression
            result = Num(Select(test, chosen, result.expression, last.type), natural=all(n.natural for n in numbers))
        return result

    def _attribute(self, value: Value, name: str, node: ast.expr) -> Value:
        match value:
            case Static(ModuleType() as module):
                return _known(getattr(module, name))
            case View():
                return _view_attribute(value, name)
            case Num() if name == "dtype":
                return Static(value.type)
            case Num() if name == "view":
                return Static(("view", value))
            case Static(Scalar() as type) if name == "type":
                return Static(type)
            case Static(Scalar() as type) if name == "itemsize":
                return literal(type.itemsize)
            case _:
                raise NotCompiled(f"an attribute that kernels do not have: {ast.unparse(node)}")

    # --- calls ----------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Value:
        function = self.value(node.func)
        if node.keywords:
            raise NotCompiled(f"a call with keywords: {ast.unparse(node)}")
        if isinstance(function, Static) and function.value is IndexError:
            raise NotCompiled("an error that is made but not raised")
        arguments = [self.value(each) for each in node.args]
        arguments = [
            indexing.read(each) if isinstance(each, View) and not each.shape and _scalar_call(function) else each
            for each in arguments
        ]
        if not isinstance(function, Static):
            raise NotCompiled(f"{ast.unparse(node.func)} is no function")
        called = function.value
        if isinstance(called, KernelFunction):
            return self.invoke(called, arguments)
        if isinstance(called, tuple) and len(called) == 2 and called[0] == "view":
            return bits_of(called[1], _scalar(arguments[0]))
        if known_builtin(called):
            return call_builtin(self, called, arguments)
        type = _scalar_or_none(called)
        if type is not None and len(arguments) == 1 and isinstance(arguments[0], Num):
            return as_type(arguments[0], type)
        name = getattr(called, "__name__", "")
        numbers = [each for each in arguments if isinstance(each, Num)]
        if len(numbers) == len(arguments) and _is_numeric(called):
            found = function_of(self.builder, name, numbers)
            if found is not None:
                return as_type(found, INT64) if called in (math.floor, math.ceil) else found
        raise NotCompiled(f"a call that kernels do not have: {ast.unparse(node.func)}")

    def invoke(self, function: KernelFunction, arguments: Sequence[Value]) -> Value:
        """Call another function of the program."""
        if not isinstance(function, KernelFunction):
            raise NotCompiled(f"{function} is no kernel")
        given = [_strong(each) for each in arguments]
        kinds = tuple(map(kind_of, given))
        compiled = self.translation.specialized(function, kinds)
        parts = [part for value, kind in zip(given, kinds, strict=True) for part in parts_of(value, kind)]
        result = compiled.result
        made = [] if result is None else types_of(result)
        variables = [Variable(self.builder.fresh("r") + end, type) for end, type in made]
        self.builder.add(Invoke(tuple(variables), compiled.function.name, tuple(parts)))
        return Static(None) if result is None else rebuilt(result, variables)


def _strong(value: Value) -> Value:
    """A literal as a number of its own type."""
    match value:
        case Num(expression, _, natural):
            return Num(expression, natural=natural)
        case Group(items):
            return Group(tuple(map(_strong, items)))
        case _:
            return value


def _known(value: Any) -> Value:
    """What is known while compiling."""
    if isinstance(value, bool | int | float):
        return literal(value)
    if isinstance(value, np.generic):
        type = scalar_of(value.dtype)
        if type is None:
            raise NotCompiled(f"a number of dtype {value.dtype}")
        number = value.item()
        return Num(Number(number, type), natural=type.kind in "iu" and number >= 0)
    if isinstance(value, tuple):
        return Group(tuple(map(_known, value)))
    if isinstance(value, np.dtype):
        return Static(_scalar(Static(value)))
    return Static(value)


def _view_attribute(view: View, name: str) -> Value:
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
        case "ctypes":
            return Address(view.pointer, view.element)
        case "strides":
            size = Number(view.element.itemsize, INT64)
            return Group(tuple(Num(Operation("stride", (step, size), INT64)) for step in view.strides))
        case _:
            raise NotCompiled(f"an attribute of arrays that kernels do not have: {name}")


def _scalar_or_none(value: Any) -> Scalar | None:
    if isinstance(value, Scalar):
        return value
    if value is bool or value is int or value is float:
        return scalar_of(np.dtype(value))
    if isinstance(value, type) and issubclass(value, np.generic):
        return scalar_of(value)
    return None


def _scalar(value: Value) -> Scalar:
    found = None
    if isinstance(value, Static):
        found = scalar_of(value.value) if isinstance(value.value, np.dtype) else _scalar_or_none(value.value)
    if found is None:
        raise NotCompiled("a dtype that kernels do not have")
    return found


def _scalar_call(function: Value) -> bool:
    """Whether a call is of numbers, so that an array without axes stands for its element."""
    return isinstance(function, Static) and (_is_numeric(function.value) or _scalar_or_none(function.value) is not None)


def _is_numeric(function: Any) -> bool:
    """Whether a function is one of NumPy, `math` or Python, and not of a user."""
    return isinstance(function, np.ufunc) or getattr(function, "__module__", None) in ("math", "numpy", "builtins")


def _is_cheap(expression: Expression) -> bool:
    """Whether to evaluate an expression costs little, ends nothing and reads no memory."""
    match expression:
        case Variable() | Number():
            return True
        case Load():
            return False
        case Operation(name, operands, type):
            integer = type.kind != "f" and name in ("divide", "remainder")
            return (
                not integer
                and (type.kind != "f" or name in _CHEAP or name in COMPARISONS)
                and all(map(_is_cheap, operands))
            )
        case Cast(operand, _) | Bits(operand, _):
            return _is_cheap(operand)
        case Select(condition, chosen, otherwise, _):
            return all(map(_is_cheap, (condition, chosen, otherwise)))
        case _:
            return False


_CHEAP = frozenset(["add", "subtract", "multiply", "divide", "negative", "abs", "accumulate", "sqrt", "floor"])
