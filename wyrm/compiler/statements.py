"""The statements of a function, one after the other, as those of a loop program."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from wyrm.compiler import indexing
from wyrm.compiler.arithmetic import as_type, binary, literal
from wyrm.compiler.builder import Builder
from wyrm.compiler.errors import NotCompiled
from wyrm.compiler.expressions import OPERATORS, Expressions
from wyrm.compiler.functions import KernelFunction
from wyrm.compiler.values import (
    ZERO,
    Group,
    Kind,
    Num,
    NumKind,
    Static,
    Value,
    View,
    ViewKind,
    joined,
    kind_of,
    parts_of,
    plus,
    rebuilt,
    times,
    types_of,
)
from wyrm.ir.program import Assign, Expression, If, Leave, Number, Operation, Return, Variable, While
from wyrm.ir.types import INT64

if TYPE_CHECKING:
    from wyrm.compiler.translate import Translation


class Body(Expressions):
    """One function in the midst of being compiled. `kinds` are those of its variables, as far as they are known."""

    def __init__(
        self,
        translation: Translation,
        function: KernelFunction,
        builder: Builder,
        kinds: dict[str, Kind],
        result: Kind | None,
    ) -> None:
        super().__init__(translation, function, builder, kinds)
        self.result = result

    def parameters(self, given: Sequence[tuple[str, Kind]]) -> list[Variable]:
        """The variables of the parameters, in order; one whose kind has become wider has a variable of its own."""
        found = []
        for name, kind in given:
            variables = [Variable(name + end, type) for end, type in types_of(kind)]
            if self.kinds[name] != kind:
                variables = [Variable(f"given {each.name}", each.type) for each in variables]
                self.assign(name, rebuilt(kind, variables))
            found += variables
        return found

    def run(self, body: Sequence[ast.stmt]) -> None:
        """Compile statements."""
        for statement in body:
            try:
                self._statement(statement)
            except NotCompiled as error:
                if error.where:
                    raise
                raise NotCompiled(error.message, self.function.where(statement.lineno)) from None

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets, value):
                given = self.value(value)
                if len(targets) > 1 or any(isinstance(target, ast.Tuple) for target in targets):
                    given = self._copied(given)
                for target in targets:
                    self._assign_to(target, given)
            case ast.AnnAssign(target, _, value) if value is not None:
                self._assign_to(target, self.value(value))
            case ast.AugAssign(target, op, value):
                self._augmented(target, op, value)
            case ast.Expr(ast.Constant()) | ast.Pass() | ast.Assert():
                pass
            case ast.Expr(value):
                self.value(value)
            case ast.If(test, body, otherwise):
                self._if(test, body, otherwise)
            case ast.For():
                self._for(statement)
            case ast.While(test, body, []):
                with self.builder.block() as before:
                    condition = self.builder.let(self.condition(test))
                with self.builder.block() as inner:
                    self.run(body)
                self.builder.add(While(tuple(before), condition, tuple(inner)))
            case ast.Break():
                self.builder.add(Leave())
            case ast.Continue():
                self.builder.add(Leave(next=True))
            case ast.Return(value):
                self._return(None if value is None else self.value(value))
            case ast.Raise():
                self._raise(statement)
            case _:
                raise NotCompiled(f"a statement that kernels do not have: {ast.unparse(statement).splitlines()[0]}")

    # --- assignments ----------------------------------------------------------------------------------------------

    def assign(self, name: str, value: Value) -> None:
        """A variable has a value from now on; its kind is one that holds all that it ever has."""
        kind = kind_of(value)
        if name in self.kinds:
            kind = joined(self.kinds[name], kind)
        self.kinds[name] = kind
        parts = parts_of(_as_kind(value, kind), kind)
        if len(parts) > 1:
            parts = [self.builder.let(part) for part in parts]
        for (end, type), part in zip(types_of(kind), parts, strict=True):
            variable = Variable(name + end, type)
            if part != variable:
                self.builder.add(Assign(variable, part))

    def _copied(self, value: Value) -> Value:
        """A value that stays what it is, whatever is assigned."""
        kind = kind_of(value)
        weak = isinstance(value, Num) and value.weak
        if weak or isinstance(value, Static):
            return value
        if isinstance(value, Group):
            return Group(tuple(map(self._copied, value.items)))
        copies: list[Expression] = []
        for part in parts_of(value, kind):
            if isinstance(part, Number):
                copies.append(part)
            else:
                copy = Variable(self.builder.fresh("t"), part.type)
                self.builder.add(Assign(copy, part))
                copies.append(copy)
        return rebuilt(kind, copies)

    def _assign_to(self, target: ast.expr, value: Value) -> None:
        match target:
            case ast.Name(name):
                self.assign(name, value)
            case ast.Tuple(targets):
                items = self.items(value)
                if len(items) != len(targets):
                    raise NotCompiled(f"{len(targets)} names for {len(items)} values")
                for each, item in zip(targets, items, strict=True):
                    self._assign_to(each, item)
            case ast.Subscript(array, index):
                view = self.value(array)
                if not isinstance(view, View):
                    raise NotCompiled(f"{ast.unparse(target)} is no part of an array")
                indexing.write(self.builder, self.part(view, index), value)
            case _:
                raise NotCompiled(f"{ast.unparse(target)} cannot be assigned")

    def _augmented(self, target: ast.expr, op: ast.operator, value: ast.expr) -> None:
        name = OPERATORS[type(op)]
        if isinstance(target, ast.Subscript):
            array = self.value(target.value)
            if not isinstance(array, View):
                raise NotCompiled(f"{ast.unparse(target)} is no part of an array")
            view = indexing.held(self.builder, self.part(array, target.slice))
            before = indexing.read(view)
            if not isinstance(before, Num):
                raise NotCompiled(f"{ast.unparse(target)} is more than one element")
            after = binary(self.builder, name, before, self.number(value))
            indexing.write(self.builder, view, after)
            return
        after = binary(self.builder, name, self.number(target), self.number(value))
        self._assign_to(target, after)

    # --- control flow ---------------------------------------------------------------------------------------------

    def _if(self, test: ast.expr, body: Sequence[ast.stmt], otherwise: Sequence[ast.stmt]) -> None:
        condition = self.condition(test)
        if isinstance(condition, Number):  # known while compiling: the other one need not even make sense
            self.run(body if condition.value else otherwise)
            return
        with self.builder.block() as first:
            self.run(body)
        with self.builder.block() as second:
            self.run(otherwise)
        self.builder.add(If(condition, tuple(first), tuple(second)))

    def _for(self, statement: ast.For) -> None:
        if statement.orelse:
            raise NotCompiled("a loop with an else")
        over = statement.iter
        match over:
            case ast.Call(ast.Name("range"), arguments, []):
                self._range(statement, [self.number(each) for each in arguments])
                return
            case ast.Attribute(array, "flat"):
                view = self.value(array)
                if isinstance(view, View):
                    held = indexing.held(self.builder, view)
                    self._over(statement, held.shape, lambda at: indexing.read(indexing.part(self.builder, held, at)))
                    return
            case ast.Call(function, [shape], []) if _is_ndindex(self.value(function)):
                numbers = [each for each in self.items(self.value(shape)) if isinstance(each, Num)]
                self._over(statement, [self.builder.let(each.expression) for each in numbers], Group)
                return
            case _:
                pass
        raise NotCompiled(f"a loop over {ast.unparse(over)}; loop over range(...)")

    def _over(self, statement: ast.For, shape: Sequence[Expression], given: Callable[[tuple[Num, ...]], Value]) -> None:
        """Loops over all indices of a shape, and what is given for each."""
        if any(isinstance(node, ast.Break | ast.Continue) for each in statement.body for node in ast.walk(each)):
            raise NotCompiled("a loop over several axes that is left or cut short")

        def body(indices: list[Num]) -> None:
            self._assign_to(statement.target, given(tuple(indices)))
            self.run(statement.body)

        indexing.over(self.builder, shape, body)

    def _range(self, statement: ast.For, arguments: list[Num]) -> None:
        start, step = literal(0), literal(1)
        if len(arguments) == 1:
            (stop,) = arguments
        elif len(arguments) == 2:
            start, stop = arguments
        else:
            start, stop, step = arguments
        if any(each.type.kind == "f" for each in (start, stop, step)):
            raise NotCompiled("a range of floats")
        first, last, by = (self.builder.let(as_type(each, INT64).expression, "n") for each in (start, stop, step))
        # What the bounds are called stays as it is while the loop runs.
        first, last, by = (self._fixed(each) for each in (first, last, by))
        if not isinstance(by, Number) and not step.natural:
            raise NotCompiled("a range whose step may be below 0")
        backwards = isinstance(by, Number) and by.value < 0
        if by == ZERO:
            raise NotCompiled("a range by steps of 0")
        distance = (
            Operation("subtract", (first, last), INT64) if backwards else
            last if first == ZERO else Operation("subtract", (last, first), INT64)
        )  # fmt: skip
        size = Number(abs(by.value), INT64) if isinstance(by, Number) else by
        count: Expression = distance
        if size != Number(1, INT64):
            rounded = Operation("add", (distance, plus(size, Number(-1, INT64))), INT64)
            count = binary(self.builder, "floor_divide", Num(rounded), Num(size)).expression
        natural = start.natural and not backwards
        with self.builder.loop(count) as index:
            place = plus(first, times(index, by))
            self._assign_to(statement.target, Num(place, natural=natural))
            self.run(statement.body)

    def _fixed(self, value: Expression) -> Expression:
        if isinstance(value, Number):
            return value
        copy = Variable(self.builder.fresh("n"), INT64)
        self.builder.add(Assign(copy, value))
        return copy

    def _return(self, value: Value | None) -> None:
        if value is None or (isinstance(value, Static) and value.value is None):
            self.builder.add(Return())
            return
        kind = kind_of(value)
        self.result = kind if self.result is None else joined(self.result, kind)
        self.builder.add(Return(tuple(parts_of(_as_kind(value, self.result), self.result))))

    def _raise(self, statement: ast.Raise) -> None:
        match statement.exc:
            case ast.Call(ast.Name("IndexError"), [message], []):
                text = self.value(message)
                if isinstance(text, Static) and isinstance(text.value, str):
                    self.builder.fail(text.value)
                    return
            case _:
                pass
        raise NotCompiled("kernels raise IndexError(text) alone")


def _is_ndindex(value: Value) -> bool:
    return isinstance(value, Static) and value.value is np.ndindex


def _as_kind(value: Value, kind: Kind) -> Value:
    """The value with its numbers as those of a kind."""
    match value, kind:
        case Num(), NumKind(type, _):
            return as_type(value, type)
        case Group(items), _ if hasattr(kind, "items"):
            return Group(tuple(_as_kind(item, each) for item, each in zip(items, kind.items, strict=True)))
        case View(), ViewKind():
            return value
        case _:
            return value
