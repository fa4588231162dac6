"""Translates array functions to the loop program: elements become loads and stores, scalars get their types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, reduce
from typing import Any

import numpy as np

from wyrm.engines.native.ir import arrays
from wyrm.engines.native.ir.arrays import ArrayFunction, Expression, Statement
from wyrm.engines.native.ir.independent import independent
from wyrm.engines.native.ir.program import If, Leave, Number, While
from wyrm.engines.native.kernels import calls, indexing
from wyrm.engines.native.kernels.arithmetic import as_type, binary, negative, truth
from wyrm.engines.native.kernels.functions import Routine
from wyrm.engines.native.kernels.functions_of_numbers import either, function_of, of_several, quotient
from wyrm.engines.native.kernels.indexing import WHOLE
from wyrm.engines.native.kernels.statements import FunctionBody
from wyrm.engines.native.kernels.values import ONE, KernelValue, Kind, Num, View, literal, rebuilt, variables_of

_OPERATORS = frozenset(
    ["add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "less", "less_equal", "greater",
     "greater_equal", "equal", "not_equal"]
)  # fmt: skip
_NUMPY_NAMES = {"abs": "absolute"}
# The functions of `scipy.special` that the C math library has.
_SPECIAL = {"erf": math.erf, "erfc": math.erfc, "gamma": math.gamma}


class ArrayRoutine(Routine):
    """An array function that is specialized and compiled."""

    def __init__(self, code: ArrayFunction, **options: Any) -> None:
        super().__init__(code.name, generated=True, **options)
        self.code = code

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters."""
        return list(self.code.parameters)

    @cached_property
    def may_overflow(self) -> frozenset[str]:
        """The variables that may overflow an int64: none."""
        return frozenset()

    @cached_property
    def is_independent(self) -> bool:
        """Whether threads may share the turns of the function's loop."""
        return independent(self.code)

    @cached_property
    def identity(self) -> str:
        """A text that identifies the compiled code: it covers the function's code, options and callees."""
        called = {each: None for one in self.code.body for each in arrays.callees(one) if isinstance(each, Routine)}
        return "\n".join([repr(self.options), self.code.uncommented, *(each.identity for each in called)])

    def write(self, body: FunctionBody) -> bool:
        """Compile the body of the function; return whether its last statement returns."""
        return _RoutineWriter(body).run(self.code.body)


class _RoutineWriter:
    """Translates statements and expressions of an array function, with the builder of a `FunctionBody`."""

    def __init__(self, body: FunctionBody) -> None:
        self.body, self.builder = body, body.builder
        # The value of each variable with the kind that it has.
        self._named: dict[str, tuple[Kind, KernelValue]] = {}

    # --- statements -----------------------------------------------------------------------------------------------

    def run(self, statements: Sequence[Statement]) -> bool:
        """Translate statements; return whether the last one leaves the function or the loop."""
        ends = False
        for statement in statements:
            ends = self._statement(statement)
        return ends

    def _statement(self, statement: Statement) -> bool:
        match statement:
            case arrays.Let(variable, value):
                self.body.assign(variable, self.value(value))
            case arrays.Store():
                self._store(statement)
            case arrays.CountedLoop(index, count, inner):
                self._loop(index, count, inner)
            case arrays.Nest():
                self._nest(statement)
            case arrays.WhileLoop(condition, inner):
                with self.builder.block() as before:
                    test = self.builder.let(truth(self.number(condition)))
                self.builder.add(While(tuple(before), test, self._block(inner)))
            case arrays.When(condition, inner):
                self.builder.add(If(truth(self.number(condition)), self._block(inner)))
            case arrays.Break():
                self.builder.add(Leave())
                return True
            case arrays.ReturnValue(value):
                self.body.returned(self.value(value))
                return True
            case arrays.CallStatement(function, arguments):
                assert isinstance(function, Routine)
                self._invoke(function, arguments)
        return False

    def _block(self, statements: Sequence[Statement]) -> tuple[Any, ...]:
        with self.builder.block() as block:
            self.run(statements)
        return tuple(block)

    def _loop(self, index: str, count: Expression, inner: Sequence[Statement]) -> None:
        with self.builder.loop(self.number(count).expression, index) as position:
            self.body.assign(index, Num(position, natural=True))
            self.run(inner)

    def _nest(self, nest: arrays.Nest) -> None:
        """Translate loops inside of each other: to one where all arrays that they index are in row-major order."""
        used = {array for each in nest.body for array, _ in arrays.uses(each, nest.indices)}
        if self.body.translation.checked or any(self._array(each).layout != "contiguous" for each in used):
            inner = nest.body
            for index, count in reversed(list(zip(nest.indices, nest.counts, strict=True))):
                inner = (arrays.CountedLoop(index, count, inner),)
            self.run(inner)
            return
        for index in nest.indices[:-1]:
            self.body.assign(index, literal(0))
        self._loop(nest.indices[-1], reduce(lambda x, y: arrays.Apply("multiply", (x, y)), nest.counts), nest.body)

    def _store(self, statement: arrays.Store) -> None:
        view = self._selected(statement.array, statement.index)
        value = self.number(statement.value) if not statement.adds else None
        if value is None:
            view = indexing.evaluated(self.builder, view)
            before = indexing.read(view)
            assert isinstance(before, Num)
            value = binary(self.builder, "add", before, self.number(statement.value))
        indexing.write(self.builder, view, value)

    # --- expressions ----------------------------------------------------------------------------------------------

    def value(self, expression: Expression) -> KernelValue:
        """Return the value of an expression."""
        match expression:
            case arrays.Name(name):
                kind, found = self.body.kinds[name], self._named.get(name)
                if found is None or found[0] is not kind:
                    found = self._named[name] = kind, rebuilt(kind, variables_of(name, kind))
                return found[1]
            case arrays.Literal(value, None):
                return literal(value)
            case arrays.Literal(value, type) if type is not None:
                return Num(Number(value, type))
            case arrays.Element(array, index):
                return indexing.read(self._selected(array, index))
            case arrays.ArraySize(array, axis):
                return Num(self._array(array).shape[axis], natural=True)
            case arrays.Flat(array):
                view = self._array(array)
                return View(view.pointer, view.element, (ONE,), (ONE,), "contiguous")
            case arrays.Part(array, axis, count):
                view = self._array(array)
                shape = (*view.shape[:axis], self.number(count).expression, *view.shape[axis + 1 :])
                return View(view.pointer, view.element, shape, view.strides, view.layout)
            case arrays.Convert(operand, type):
                return Num(as_type(self.number(operand), type).expression)
            case arrays.CallResult(function, arguments):
                assert isinstance(function, Routine)
                return self._invoke(function, arguments)
            case arrays.Apply(function, operands):
                return self._apply(function, [self.number(each) for each in operands])
        raise AssertionError(f"{expression} is not an expression")

    def number(self, expression: Expression) -> Num:
        """Return the value of a scalar expression."""
        value = self.value(expression)
        assert isinstance(value, Num), f"{expression} is not a scalar"
        return value

    def _array(self, name: str) -> View:
        found = self.value(arrays.Name(name))
        assert isinstance(found, View)
        return found

    def _selected(self, array: str, index: Sequence[Expression | None]) -> View:
        entries = [WHOLE if each is None else self.number(each) for each in index]
        return indexing.selected(self.builder, self._array(array), entries)

    def _invoke(self, function: Routine, arguments: Sequence[Expression]) -> KernelValue:
        return self.body.invoke(function, function.bound([self.value(each) for each in arguments], {}))

    def _apply(self, function: str, x: list[Num]) -> KernelValue:
        if function in _OPERATORS:
            return binary(self.builder, function, x[0], x[1])
        match function:
            case "negative":
                return negative(x[0])
            case "where":
                return either(truth(x[0]), x[1], x[2])
            case "accumulate":
                return calls.accumulate(self.body, x)
            case "natural":
                return calls.natural(self.body, x)
            case "quotient":
                return quotient(*x)
            case "min":
                return of_several(self.builder, "min", x)
        named = _SPECIAL.get(function) or getattr(np, _NUMPY_NAMES.get(function, function))
        found = function_of(self.builder, named, x)
        assert found is not None, f"{function} is not a scalar function"
        return found
