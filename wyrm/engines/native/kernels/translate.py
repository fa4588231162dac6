"""Translation of functions to a loop program: each function is specialized once per combination of argument kinds."""

from __future__ import annotations

from wyrm.engines.native.ir.program import For, LoopFunction, LoopProgram, While, called
from wyrm.engines.native.kernels.builder import Builder
from wyrm.engines.native.kernels.errors import NotCompiled
from wyrm.engines.native.kernels.expressions import InferenceState
from wyrm.engines.native.kernels.functions import Routine
from wyrm.engines.native.kernels.memory import written_by
from wyrm.engines.native.kernels.statements import FunctionBody
from wyrm.engines.native.kernels.values import Kind, Static, types_of, variables_of

# The maximum number of type inference passes over a function.
_ROUNDS = 50


class Compiled:
    """A specialized function: its code, the kind of its result, and the positions of the parameters it writes to."""

    def __init__(self, function: LoopFunction, result: Kind | None, source: Routine, written: frozenset[int]) -> None:
        self.function, self.result, self.source, self.written = function, result, source, written


class Translation:
    """The functions of one loop program, specialized on demand."""

    def __init__(self, checked: bool) -> None:
        self.checked = checked
        # The messages of the error codes.
        self.errors: dict[int, str] = {}
        self.functions: dict[str, Compiled] = {}
        self._found: dict[tuple[int, tuple[Kind, ...], bool], Compiled | None] = {}
        self._keep: list[Routine] = []

    def specialized(self, function: Routine, kinds: tuple[Kind, ...], *, no_alias: bool = True) -> Compiled:
        """Return the function specialized for arguments of these kinds; raise `NotCompiled` if it cannot be compiled.

        With `no_alias=False` its arrays may alias even if it is declared `distinct`.
        """
        key = id(function), kinds, no_alias
        if key in self._found:
            found = self._found[key]
            if found is None:
                raise NotCompiled(f"{function.__name__} calls itself; write a loop", function.where())
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

    def _translate(self, function: Routine, kinds: tuple[Kind, ...], no_alias: bool) -> Compiled:
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
            before, builder = known.copy(), Builder(self.errors, self.checked)
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
            inlined=function.inlined,
            fused=function.fused,
            fails=builder.fails or any(self.functions[name].function.fails for name in called(builder.statements)),
        )
        written = written_by(loop_function, {name: each.written for name, each in self.functions.items()})
        return Compiled(loop_function, known.result, function, written)

    def _name(self, base: str) -> str:
        name, count = base, 1
        while name in self.functions:
            count += 1
            name = f"{base}.{count}"
        return name

    def needed(self, root: str) -> list[str]:
        """Return the functions of the root's module, callees first and the root last; omit those in shared modules."""
        ordered: dict[str, None] = {}

        def visit(name: str) -> None:
            if name not in ordered:
                for callee in self._inside(name):
                    visit(callee)
                ordered[name] = None

        visit(root)
        return list(ordered)

    def shared_by(self, root: str) -> list[str]:
        """Return the functions in shared modules that the root's module calls."""
        found: dict[str, None] = {}
        for name in self.needed(root):
            found |= dict.fromkeys(each for each in self._calls(name) if self._is_shared(name, each))
        return list(found)

    def program(self, name: str) -> LoopProgram:
        """Return the loop program of a function: the function and everything it calls, callees first."""
        ordered: dict[str, LoopFunction] = {}

        def visit(each: str) -> None:
            if each not in ordered:
                for callee in self._calls(each):
                    visit(callee)
                ordered[each] = self.functions[each].function

        visit(name)
        return LoopProgram(tuple(ordered.values()))

    def _calls(self, name: str) -> list[str]:
        return called(self.functions[name].function.body)

    def _inside(self, name: str) -> list[str]:
        return [each for each in self._calls(name) if not self._is_shared(name, each)]

    def _is_straight(self, name: str) -> bool:
        """Return whether a function has no loop."""
        return not any(isinstance(each, For | While) for each in self.functions[name].function.body)

    def _is_shared(self, caller: str, called: str) -> bool:
        by, source = self.functions[caller].source, self.functions[called].source
        if by.calls_apart and not (source.inlined and self._is_straight(called)):
            return True
        return source.shared == "always" or (source.shared == "called" and by.calls_shared)
