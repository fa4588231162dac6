"""Translates functions to a loop program, once per combination of argument kinds, and finishes the whole program.

`written_by` finds the parameters that a function writes to. `Parameterized` turns float constants of generated code
into parameters, so that a changed constant reuses the code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wyrm.engines.native.ir.program import (
    CODE,
    Assign,
    Atomic,
    Expression,
    For,
    Invoke,
    LibraryCall,
    LoopFunction,
    LoopProgram,
    Number,
    Operation,
    ShiftedSums,
    Statement,
    StoreAt,
    Table,
    TiledProduct,
    Variable,
    While,
    called,
    children,
    every,
)
from wyrm.engines.native.ir.types import PointerType
from wyrm.engines.native.kernels.builder import Builder
from wyrm.engines.native.kernels.functions import Routine
from wyrm.engines.native.kernels.indexing import root_of
from wyrm.engines.native.kernels.njit import OutsideFunction
from wyrm.engines.native.kernels.statements import FunctionBody
from wyrm.engines.native.kernels.values import InferenceState, Kind, NotCompiled, Static, types_of, variables_of

if TYPE_CHECKING:
    from wyrm.engines.native.products.target import Target

# The maximum number of type inference passes over a function.
_ROUNDS = 50


class Specialization:
    """A specialized function: its code, and the kind of its result.

    `written` has the positions of the parameters whose memory it may write to, and `stores` those among them of which
    it is certain. `lines` has the lines of statements in the file of the source, by their ids.
    """

    def __init__(
        self,
        function: LoopFunction,
        result: Kind | None,
        source: Routine,
        written: frozenset[int],
        stores: frozenset[int],
        lines: Mapping[int, int | None],
    ) -> None:
        self.function: LoopFunction = function
        self.lines: Mapping[int, int | None] = lines
        self.result = result
        self.source = source
        self.written = written
        self.stores = stores
        # The function in each call of its body, duplicates included.
        self.calls: list[str] = called(function.body)


class Translation:
    """The functions of one loop program, specialized on demand."""

    def __init__(
        self, checked: bool, translated: Callable[[str], object] | None = None, target: Target | None = None
    ) -> None:
        self.checked = checked
        # The machine that kernels are specialized for; None is this one.
        self.target = target
        # Called with the name of a function of a shared module as soon as one that calls it is being translated.
        self._translated = translated
        # The messages of the error codes.
        self.errors: dict[int, str] = {}
        self.functions: dict[str, Specialization] = {}
        # None while a function is being translated.
        self._found: dict[tuple[int, tuple[Kind, ...], bool], Specialization | None] = {}
        self._keep: list[Routine] = []
        # The functions outside of the program that numba compiles.
        self.outside: dict[str, OutsideFunction] = {}

    def specialized(self, function: Routine, kinds: tuple[Kind, ...], *, no_alias: bool = True) -> Specialization:
        """Return the function specialized for arguments of these kinds; raise `NotCompiled` if it cannot be compiled.

        With `no_alias=False` its arrays may alias even if it is declared `distinct`.
        """
        key = id(function), kinds, no_alias
        found = self._found.get(key, function)
        if found is None:
            raise NotCompiled(f"{function.__name__} calls itself; write a loop", function.where())
        if isinstance(found, Specialization):
            return found
        self._found[key] = None
        self._keep.append(function)  # the key has its id, which must not be reused
        try:
            compiled = self._translate(function, kinds, no_alias)
        except NotCompiled:
            raise
        except RecursionError:
            raise NotCompiled("an expression is nested too deeply; use variables", function.where()) from None
        except Exception as error:  # unexpected code that breaks the compiler
            text = f"{type(error).__name__}: {error}"
            raise NotCompiled(f"{function.__name__} cannot be compiled: {text}", function.where()) from error
        finally:
            if self._found[key] is None:
                del self._found[key]
        self._found[key] = self.functions[compiled.function.name] = compiled
        return compiled

    def _translate(self, function: Routine, kinds: tuple[Kind, ...], no_alias: bool) -> Specialization:
        names = function.parameters
        if function.closure():
            raise NotCompiled(
                f"{function.__name__} captures {', '.join(function.closure())} of an enclosing function; pass it as an "
                f"argument, or make it a constant of the module",
                function.where(),
            )
        rest = [(name, function.default(name)) for name in names[len(kinds) :]]
        if len(names) < len(kinds) or any(value is None for _, value in rest):
            raise NotCompiled(f"{function.__name__} takes {len(names)} arguments, not {len(kinds)}", function.where())
        known = InferenceState({})
        for _ in range(_ROUNDS):
            before, builder = known.copy(), Builder(self.errors, self.checked or function.guarded)
            body = FunctionBody(self, function, builder, known, no_alias=no_alias)
            parameters = body.parameters(list(zip(names, kinds, strict=False)))
            for name, value in rest:
                body.assign(name, value or Static(None))
            returns = function.write(body)
            if known == before or not (body.revised or body.unsettled):
                break
        else:
            raise NotCompiled(f"type inference of {function.__name__} does not converge", function.where())
        if body.unsettled is not None:
            raise body.unsettled
        if known.result is not None and not (returns and body.returns == {True}):
            raise NotCompiled(f"{function.__name__} returns a value on one path and none on another", function.where())
        loop_function = LoopFunction(
            self._name(function.__name__),
            tuple(parameters),
            tuple(type for _, type in ([] if known.result is None else types_of(known.result))),
            tuple(builder.statements),
            cleared=tuple(each for name in body.cleared for each in variables_of(name, known.kinds[name])),
            distinct=function.distinct and no_alias,
            alone=function.alone,
            inlined=function.inlined,
            fused=function.fused,
            fails=builder.fails or any(self.functions[name].function.fails for name in called(builder.statements)),
            divided=function.divided and no_alias,
        )
        written = written_by(loop_function, self.functions)
        return Specialization(loop_function, known.result, function, *written, builder.lines)

    def _name(self, base: str) -> str:
        name, count = base, 1
        while name in self.functions:
            count += 1
            name = f"{base}.{count}"
        return name

    def calls(self, caller: Routine, called: str) -> None:
        """Tell that a function being translated calls another one."""
        if self._translated is not None and self._is_shared(caller, called):
            self._translated(called)

    def needed(self, root: str) -> list[str]:
        """Return the functions of the root's module, callees first and the root last; omit those in shared modules."""
        return _callees_first(root, self._inside)

    def shared_by(self, root: str) -> list[str]:
        """Return the functions in shared modules that the root's module calls."""
        found: dict[str, None] = {}
        for name in self.needed(root):
            by = self.functions[name].source
            found |= dict.fromkeys(each for each in self._calls(name) if self._is_shared(by, each))
        return list(found)

    def program(self, name: str) -> LoopProgram:
        """Return the loop program of a function: the function and everything it calls, callees first."""
        return LoopProgram(tuple(self.functions[each].function for each in self.all_of(name)))

    def all_of(self, name: str) -> list[str]:
        """Return a function and everything it calls, callees first."""
        return _callees_first(name, self._calls)

    def _calls(self, name: str) -> list[str]:
        return self.functions[name].calls

    def _inside(self, name: str) -> list[str]:
        by = self.functions[name].source
        return [each for each in self._calls(name) if not self._is_shared(by, each)]

    def _is_straight(self, name: str) -> bool:
        """Return whether a function has no loop."""
        return not any(isinstance(each, For | While) for each in self.functions[name].function.body)

    def _is_shared(self, by: Routine, called: str) -> bool:
        source = self.functions[called].source
        if by.calls_apart and not (source.inlined and self._is_straight(called)):
            return True
        return source.shared == "always" or (source.shared == "called" and by.calls_shared)


def _callees_first(root: str, calls: Callable[[str], list[str]]) -> list[str]:
    """Return a function and everything it calls, callees first."""
    ordered: dict[str, None] = {}

    def visit(name: str) -> None:
        if name not in ordered:
            for callee in calls(name):
                visit(callee)
            ordered[name] = None

    visit(root)
    return list(ordered)


# The position of the result among the operands of a product.
_RESULTS: dict[type, int] = {TiledProduct: 9, ShiftedSums: 10}


def written_by(function: LoopFunction, others: Mapping[str, Specialization]) -> tuple[frozenset[int], frozenset[int]]:
    """Return the positions of the parameters that a function may write to, and of those that it certainly stores to.

    `others` has its callees. What functions outside of the program do to their arguments is not certain, nor is a store
    through a variable that is a view of one parameter or of another.
    """
    statements = list(every(function.body))
    origins: dict[str, set[str]] = {each.name: {each.name} for each in function.parameters}

    def of(pointer: object) -> set[str]:
        return origins.get(root_of(pointer) or "", set())  # type: ignore[arg-type]  # a pointer is an expression

    changed = True
    while changed:
        changed = False
        for each in statements:
            moved: list[tuple[Variable, set[str]]] = []
            if isinstance(each, Assign) and isinstance(each.variable.type, PointerType):
                moved = [(each.variable, of(each.value))]
            elif isinstance(each, Invoke):
                given = set().union(*map(of, each.arguments))
                moved = [(result, given) for result in each.results]
            for variable, found in moved:
                known = origins.setdefault(variable.name, set())
                if isinstance(variable.type, PointerType) and not found <= known:
                    known |= found
                    changed = True
    written: set[str] = set()
    stores: set[str] = set()

    def store(pointer: object, certain: bool = True) -> None:
        found = of(pointer)
        written.update(found)
        stores.update(found if certain and len(found) == 1 else ())

    for each in statements:
        if isinstance(each, StoreAt):
            store(each.pointer)
        elif isinstance(each, TiledProduct | ShiftedSums):
            store(each.operands[_RESULTS[type(each)]])
        elif isinstance(each, LibraryCall):
            written.update(*map(of, each.arguments))
        elif isinstance(each, Table):  # whoever is given the table may write to the arrays in it
            written.update(*map(of, each.values))
        elif isinstance(each, Atomic):
            written |= of(each.word)
        elif isinstance(each, Invoke):
            callee = others[each.function]
            for position in callee.written:
                store(each.arguments[position], position in callee.stores)
    names = [each.name for each in function.parameters]
    both = (frozenset(i for i, name in enumerate(names) if name in found) for found in (written, stores))
    return next(both), next(both)


class Parameterized:
    """Functions whose float constants are parameters, and the constants of each, by the names of the functions.

    A caller also takes its callees' constants and passes them on, so the constants of the last function are those of
    the whole program. 0, 1, -1, infinities, NaN and exponents stay inline: LLVM simplifies code with them.
    """

    def __init__(self) -> None:
        self.functions: dict[str, LoopFunction] = {}
        self.constants: dict[str, tuple[Number, ...]] = {}

    def add(self, function: LoopFunction, generated: bool) -> None:
        """Turn the float constants of a function, if it is generated, into parameters; its callees come before it."""
        name, needed = function.name, self.constants
        if name in needed:
            return
        found: dict[str, Number] = {}
        if generated:
            for statement in function.body:
                _visit(statement, found, needed)
        needed[name] = tuple(found.values())
        if found or any(needed.get(each) for each in called(function.body)):
            variables = {
                key: Variable(f"constant {index}", each.type) for index, (key, each) in enumerate(found.items())
            }
            body = tuple(_changed(statement, variables, needed) for statement in function.body)
            function = replace(function, parameters=(*function.parameters, *variables.values()), body=body)
        self.functions[name] = function


def _stays_inline(number: Number) -> bool:
    value = float(number.value)
    return number.type.kind != "f" or value in (0.0, 1.0, -1.0) or not math.isfinite(value)


def _key(number: Number) -> str:
    return f"{number.type} {number.value!r}"


def _visit(item: Expression | Statement, found: dict[str, Number], needed: dict[str, tuple[Number, ...]]) -> None:
    if isinstance(item, Number):
        if not _stays_inline(item):
            found.setdefault(_key(item), item)
        return
    if isinstance(item, Invoke):
        for number in needed[item.function]:
            found.setdefault(_key(number), number)
    inner = list(children(item))
    if isinstance(item, Operation) and item.name == "power":
        inner = inner[:1]
    for each in inner:
        if type(each) is not Variable:  # most arguments of calls
            _visit(each, found, needed)


def _changed(item: Any, variables: dict[str, Variable], needed: dict[str, tuple[Number, ...]]) -> Any:
    """Return an expression or statement with constants replaced by variables, and with calls that pass them on."""

    def recurse(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(recurse, value))
        return _changed(value, variables, needed) if type(value) in CODE and type(value) is not Variable else value

    if isinstance(item, Number):
        return variables.get(_key(item), item)
    if isinstance(item, Operation) and item.name == "power":
        base, exponent = item.operands
        return replace(item, operands=(recurse(base), exponent))
    fields: dict[str, Any] = {}
    for name in item.__dataclass_fields__:
        value = getattr(item, name)
        new = recurse(value)
        if new is not value and new != value:
            fields[name] = new
    if isinstance(item, Invoke) and needed[item.function]:
        passed = tuple(variables[_key(number)] for number in needed[item.function])
        fields["arguments"] = (*fields.get("arguments", item.arguments), *passed)
    return replace(item, **fields) if fields else item
