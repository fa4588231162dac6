"""Translation of statements: assignments and control flow."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wyrm.engines.native.ir.program import Assign, Expression, If, Leave, Number, Return, Variable, While
from wyrm.engines.native.ir.types import PointerType
from wyrm.engines.native.kernels import indexing, subscripts
from wyrm.engines.native.kernels.arithmetic import binary, of_kind
from wyrm.engines.native.kernels.builder import Builder, Mark
from wyrm.engines.native.kernels.expressions import Expressions, operator_name
from wyrm.engines.native.kernels.functions import Routine, leaves
from wyrm.engines.native.kernels.values import (
    InferenceState,
    KernelValue,
    Kind,
    NotCompiled,
    Num,
    NumKind,
    Static,
    TupleValue,
    UnknownKind,
    View,
    fields_of,
    joined,
    kind_of,
    rebuilt,
    types_of,
    variables_of,
)

if TYPE_CHECKING:
    from wyrm.engines.native.kernels.translate import Translation

# Errors for unsupported statements, with what to write instead.
_INSTEAD: dict[type[ast.stmt], str] = {
    ast.With: "with statements are not supported",
    ast.Try: "try statements are not supported; kernels can raise errors but not catch them",
    ast.TryStar: "try statements are not supported; kernels can raise errors but not catch them",
    ast.FunctionDef: "nested functions are not supported; define it at the top of the module",
    ast.AsyncFunctionDef: "nested functions are not supported; define it at the top of the module",
    ast.ClassDef: "nested classes are not supported; kernels have scalars, arrays and tuples",
    ast.Import: "imports in functions are not supported; import at the top of the module",
    ast.ImportFrom: "imports in functions are not supported; import at the top of the module",
    ast.Global: "global variables cannot be assigned; return the value, or write it to an array",
    ast.Nonlocal: "nonlocal variables are not supported; pass the variable as an argument",
    ast.Delete: "del is not supported",
    ast.Match: "match statements are not supported; write if and elif",
}


class FunctionBody(Expressions):
    """One function while it is translated: its statements and expressions."""

    revised: bool

    def __init__(
        self, translation: Translation, function: Routine, builder: Builder, state: InferenceState, *, no_alias: bool
    ) -> None:
        super().__init__(translation, function, builder, state, no_alias=no_alias)
        # The first read of a variable of unknown kind.
        self.unsettled: UnknownKind | None = None
        # Whether a `return` has a value, for each of them.
        self.returns: set[bool] = set()

    def parameters(self, given: Sequence[tuple[str, Kind]]) -> list[Variable]:
        """Return the variables of the parameters, in order; copy a parameter whose kind is widened later."""
        found = []
        for name, kind in given:
            variables = variables_of(name, kind)
            self.given.add(name)
            if self.kinds.setdefault(name, kind) != kind:
                variables = variables_of(f"given {name}", kind)
            for each in variables:
                if isinstance(each.type, PointerType):
                    self.state.origins.setdefault(each.name, frozenset([each.name]))
            if self.kinds[name] != kind:
                self.assign(name, rebuilt(kind, variables))
            found += variables
        return found

    def run(self, body: Sequence[ast.stmt]) -> bool:
        """Translate statements up to the first that makes the rest unreachable; return whether there is one."""
        for statement in body:
            self.builder.line = statement.lineno
            try:
                if self._statement(statement):
                    return True
            except UnknownKind as error:
                self.unsettled = self.unsettled or UnknownKind(error.message, self.function.where(statement.lineno))
            except NotCompiled as error:
                if error.where:
                    raise
                raise NotCompiled(error.message, self.function.where(statement.lineno)) from None
        return False

    def _statement(self, statement: ast.stmt) -> bool:
        match statement:
            case ast.Assign(targets, value):
                several = len(targets) > 1 or any(isinstance(target, ast.Tuple | ast.List) for target in targets)
                given = self.copied(self.value(value)) if several else self.value(value)
                mark = self.builder.mark()
                for target in targets:
                    self.assign_to(target, given, mark)
            case ast.AnnAssign(target, _, value):
                if value is not None:
                    self.assign_to(target, self.value(value), self.builder.mark())
            case ast.AugAssign(target, op, value):
                self._augmented(target, op, value)
            case ast.Expr(ast.Constant()) | ast.Pass() | ast.Assert():
                pass
            case ast.Expr(value):
                self.value(value)
            case ast.If(test, body, otherwise):
                return self._if(test, body, otherwise)
            case ast.For():
                subscripts.for_each(self, statement)
            case ast.While():
                return self._while(statement)
            case ast.Break() | ast.Continue():
                self.builder.add(Leave(next=isinstance(statement, ast.Continue)))
                return True
            case ast.Return(value):
                self.returned(Static(None) if value is None else self.value(value))
                return True
            case ast.Raise():
                self._raise(statement)
                return True
            case _:
                text = f"{ast.unparse(statement).splitlines()[0]}: kernels do not support this statement"
                raise NotCompiled(_INSTEAD.get(type(statement), text))
        return False

    # --- assignments ----------------------------------------------------------------------------------------------

    def assign(self, name: str, value: KernelValue) -> None:
        """Assign a value to a variable, whose kind is widened to hold all values it is ever assigned."""
        if self.bound.pop(name, None) is not None:
            raise NotCompiled(f"{name} stands for an item of a tuple; assign another variable")
        kind = kind_of(value)
        if isinstance(kind, NumKind) and name in self.function.may_overflow:
            kind = NumKind(kind.type)  # it may overflow and become negative
        if name in self.kinds:
            kind = joined(self.kinds[name], kind)
            self.revised |= kind != self.kinds[name]
        self.kinds[name] = kind
        self.note_origins(name, value)
        self.given.add(name)
        pairs = zip(variables_of(name, kind), fields_of(of_kind(value, kind), kind), strict=True)
        assignments = [(variable, field) for variable, field in pairs if field != variable]
        if len(assignments) > 1:  # compute all fields before changing the first variable
            assignments = [(variable, self._computed(field, name)) for variable, field in assignments]
        for variable, field in assignments:
            self.builder.add(Assign(variable, field))

    def _computed(self, field: Expression, name: str) -> Expression:
        """Compute a field before the name's variables are assigned; copy it if it is one of these variables."""
        if isinstance(field, Variable) and field.name.split(".")[0] == name:
            return self.builder.copy(field)
        return self.builder.let(field)

    def copied(self, value: KernelValue) -> KernelValue:
        """Copy a value, so that later assignments to variables do not change it."""
        if isinstance(value, Num):
            return Num(self.builder.copy(value.expression), value.weak, value.natural)
        if isinstance(value, View):
            copy = indexing.evaluated(self.builder, value, copy=True)
            self.note_origins(indexing.root_of(copy.pointer) or "", value)
            return copy
        return TupleValue(tuple(map(self.copied, value.items))) if isinstance(value, TupleValue) else value

    def assign_to(self, target: ast.expr, value: KernelValue, mark: Mark) -> None:
        """Assign a value, computed at the mark, to a name, a view of an array, or a tuple of these."""
        match target:
            case ast.Name(name):
                self.assign(name, value)
            case ast.Tuple(targets) | ast.List(targets):
                if not isinstance(value, TupleValue):
                    raise NotCompiled(f"cannot unpack a value that is not a tuple into {len(targets)} names")
                if len(value.items) != len(targets) or any(isinstance(each, ast.Starred) for each in targets):
                    raise NotCompiled(
                        f"cannot unpack a tuple of {len(value.items)} items into {ast.unparse(target)}; name each item"
                    )
                for each, item in zip(targets, value.items, strict=True):
                    self.assign_to(each, item, mark)
            case ast.Subscript():
                view = self._target(target)
                value = self.builder.settled(mark, value)
                indexing.write(self.builder, view, value, no_alias=self._shares_nothing(view, value))
            case _:
                raise NotCompiled(f"{ast.unparse(target)} cannot be assigned in kernels")

    def _target(self, target: ast.Subscript) -> View:
        array = self.value(target.value)
        if not isinstance(array, View):
            raise NotCompiled(
                f"cannot assign {ast.unparse(target)}: only elements and slices of arrays can be assigned"
            )
        return subscripts.selected(self, array, target.slice)

    def _shares_nothing(self, view: View, value: KernelValue) -> bool:
        """Return whether a copied array and its destination share no memory, so that any order of copying is right.

        Raise `NotCompiled` if they may share memory and neither copying forwards nor backwards is known to be right.
        """
        if not isinstance(value, View) or not value.shape or not view.shape:
            return True
        to, source = self.origins_of(view), self.origins_of(value)
        if self.function.distinct and self.no_alias and "" not in to | source and not to & source:
            return True
        shared = (to & source) - {""}
        alike = view.strides == value.strides and len(view.shape) == len(value.shape)
        if shared and not (alike and (len(view.shape) == 1 or view.layout == value.layout == "contiguous")):
            raise NotCompiled("a view is copied to another view of the same array, and both may overlap; write a loop")
        return False

    def _augmented(self, target: ast.expr, op: ast.operator, value: ast.expr) -> None:
        name = operator_name(op)
        if isinstance(target, ast.Subscript):
            view = indexing.evaluated(self.builder, self._target(target))
            before = indexing.read(view)
            if not isinstance(before, Num):
                raise NotCompiled(f"{ast.unparse(target)} has more than one element; loop over them")
            _, after = self._in_place(name, before, target, value)
            indexing.put(self.builder, view, after)
            return
        if not isinstance(target, ast.Name):
            raise NotCompiled(f"{ast.unparse(target)} cannot be assigned in kernels")
        found = self.value(target)
        if isinstance(found, View) and not found.shape:  # changed in place, as in NumPy
            before, after = self._in_place(name, indexing.read(found), target, value)
            indexing.put(self.builder, found, after)
            return
        if isinstance(found, TupleValue):
            raise NotCompiled(f"{ast.unparse(target)} is a tuple; assign a new tuple")
        before, after = self._in_place(name, found, target, value)
        self.assign(target.id, after)

    def _in_place(self, name: str, before: KernelValue, target: ast.expr, value: ast.expr) -> tuple[Num, Num]:
        """Return the old value and the result of the operator."""
        first, mark = self.as_number(before, target), self.builder.mark()
        second = self.number(value)
        settled = self.builder.settled(mark, first)
        assert isinstance(settled, Num)
        return first, binary(self.builder, name, settled, second)

    # --- control flow ---------------------------------------------------------------------------------------------

    def _if(self, test: ast.expr, body: Sequence[ast.stmt], otherwise: Sequence[ast.stmt]) -> bool:
        condition = self.condition(test)
        if isinstance(condition, Number):  # a compile-time constant: the other branch is not compiled
            return self.run(body if condition.value else otherwise)
        blocks, given, ends = [], [], []
        before = set(self.given)
        for statements in (body, otherwise):
            self.given: set[str] = set(before)
            with self.builder.block() as block:
                ended = self.run(statements)
            blocks.append(tuple(block))
            ends.append(ended)
            if not ended:
                given.append(self.given)
        self.given = set.intersection(*given) if given else before
        self.builder.add(If(condition, blocks[0], blocks[1]))
        return all(ends)

    def _while(self, statement: ast.While) -> bool:
        subscripts.refuse_else(statement)

        with self.builder.block() as before:
            condition = self.builder.let(self.condition(statement.test))
        given = set(self.given)
        with self.builder.block() as inner:
            self.run(statement.body)
        self.given = given
        self.builder.add(While(tuple(before), condition, tuple(inner)))
        endless = isinstance(condition, Number) and bool(condition.value)
        return endless and not leaves(statement.body, ast.Break)

    def returned(self, value: KernelValue) -> None:
        """Add a return with a value, or with None."""
        nothing = isinstance(value, Static) and value.value is None
        self.returns.add(not nothing)
        if nothing:
            self.builder.add(Return())
            return
        known = self.state
        result = kind_of(value) if known.result is None else joined(known.result, kind_of(value))
        self.revised |= known.result is not None and types_of(result) != types_of(known.result)
        known.result = result
        self.builder.add(Return(tuple(fields_of(of_kind(value, known.result), known.result))))

    def _raise(self, statement: ast.Raise) -> None:
        match statement.exc:
            case ast.Call(function, [ast.Constant() | ast.Name() as message], []):
                error, text = self.value(function), self.value(message)
                if error == Static(IndexError) and isinstance(text, Static) and isinstance(text.value, str):
                    self.builder.fail(text.value)
                    return
            case _:
                pass
        raise NotCompiled("kernels can raise only IndexError(text), with a string literal or a constant")
