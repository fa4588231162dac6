"""From functions to a loop program: each function once for the kinds of arguments that it is called with."""

from __future__ import annotations

from wyrm.ir.program import For, LoopFunction, LoopProgram, While, called
from wyrm.kernels.builder import Builder
from wyrm.kernels.errors import NotCompiled
from wyrm.kernels.expressions import Knowledge
from wyrm.kernels.functions import Routine
from wyrm.kernels.memory import written_by
from wyrm.kernels.statements import FunctionBody
from wyrm.kernels.values import Kind, Static, types_of, variables_of

# So many times the types of variables may change while a function is gone through.
_ROUNDS = 50


class Compiled:
    """A function for certain kinds of arguments: its loop program, the kind of its result, and what it writes to."""

    def __init__(self, function: LoopFunction, result: Kind | None, source: Routine, written: frozenset[int]) -> None:
        self.function, self.result, self.source, self.written = function, result, source, written


class Translation:
    """All functions of one loop program."""

    def __init__(self, checked: bool) -> None:
        self.checked = checked
        # The texts of the codes that functions fail with.
        self.errors: dict[int, str] = {}
        self.functions: dict[str, Compiled] = {}
        self._found: dict[tuple[int, tuple[Kind, ...], bool], Compiled | None] = {}
        self._keep: list[Routine] = []

    def specialized(self, function: Routine, kinds: tuple[Kind, ...], *, apart: bool = True) -> Compiled:
        """The function for arguments of these kinds; `NotCompiled` where there is no form for it.

        Not `apart`: its arrays may show the same memory, though it takes none that do.
        """
        key = id(function), kinds, apart
        if key in self._found:
            found = self._found[key]
            if found is None:
                raise NotCompiled(f"{function.__name__} calls itself; write a loop", function.where())
            return found
        self._found[key] = None
        self._keep.append(function)  # so that its identity stays its own
        try:
            compiled = self._translate(function, kinds, apart)
        except NotCompiled:
            raise
        except RecursionError:
            raise NotCompiled("an expression that is nested too deeply; use variables", function.where()) from None
        except Exception as error:  # what is odd enough to break the compiler is no kernel
            text = f"{type(error).__name__}: {error}"
            raise NotCompiled(f"{function.__name__} cannot be compiled: {text}", function.where()) from error
        finally:
            if self._found[key] is None:
                del self._found[key]
        self._found[key] = self.functions[compiled.function.name] = compiled
        return compiled

    def _translate(self, function: Routine, kinds: tuple[Kind, ...], apart: bool) -> Compiled:
        names = function.parameters
        if function.closure():
            raise NotCompiled(
                f"{function.__name__} uses {', '.join(function.closure())} of the function around it; pass it as an "
                f"argument, or make it a constant of the module",
                function.where(),
            )
        rest = [(name, function.default(name)) for name in names[len(kinds) :]]
        if len(names) < len(kinds) or any(value is None for _, value in rest):
            raise NotCompiled(f"{function.__name__} takes {len(names)} arguments, not {len(kinds)}", function.where())
        known = Knowledge({})
        for _ in range(_ROUNDS):
            before, builder = known.copy(), Builder(self.errors, self.checked)
            body = FunctionBody(self, function, builder, known, apart=apart)
            parameters = body.parameters(list(zip(names, kinds, strict=False)))
            for name, value in rest:
                body.assign(name, value or Static(None))
            ended = function.write(body)
            if known == before or not (body.revised or body.unsettled):
                break
        else:
            raise NotCompiled(f"the types of variables in {function.__name__} do not settle", function.where())
        if body.unsettled is not None:
            raise body.unsettled
        if known.result is not None and not (ended and body.returns == {True}):
            raise NotCompiled(
                f"{function.__name__} returns a value in one place, and ends without one in another", function.where()
            )
        made = LoopFunction(
            self._name(function.__name__),
            tuple(parameters),
            tuple(type for _, type in ([] if known.result is None else types_of(known.result))),
            tuple(builder.statements),
            cleared=tuple(each for name in body.cleared for each in variables_of(name, known.kinds[name])),
            distinct=function.distinct and apart,
            inlined=function.inlined,
            fused=function.fused,
            fails=builder.fails or any(self.functions[name].function.fails for name in called(builder.statements)),
        )
        written = written_by(made, {name: each.written for name, each in self.functions.items()})
        return Compiled(made, known.result, function, written)

    def _name(self, wanted: str) -> str:
        name, count = wanted, 1
        while name in self.functions:
            count += 1
            name = f"{wanted}.{count}"
        return name

    def needed(self, root: str) -> list[str]:
        """The functions that belong to one, after what they call, and it last; without those that programs share."""
        ordered: dict[str, None] = {}

        def visit(name: str) -> None:
            if name not in ordered:
                for other in self._inside(name):
                    visit(other)
                ordered[name] = None

        visit(root)
        return list(ordered)

    def shared_by(self, root: str) -> list[str]:
        """The functions that programs share which these call."""
        found: dict[str, None] = {}
        for name in self.needed(root):
            found |= dict.fromkeys(each for each in self._calls(name) if self._is_shared(name, each))
        return list(found)

    def program(self, name: str) -> LoopProgram:
        """All functions that one needs, and it, after what they call."""
        ordered: dict[str, LoopFunction] = {}

        def visit(each: str) -> None:
            if each not in ordered:
                for other in self._calls(each):
                    visit(other)
                ordered[each] = self.functions[each].function

        visit(name)
        return LoopProgram(tuple(ordered.values()))

    def _calls(self, name: str) -> list[str]:
        return called(self.functions[name].function.body)

    def _inside(self, name: str) -> list[str]:
        return [each for each in self._calls(name) if not self._is_shared(name, each)]

    def _is_straight(self, name: str) -> bool:
        """Whether a function has no loop."""
        return not any(isinstance(each, For | While) for each in self.functions[name].function.body)

    def _is_shared(self, caller: str, called: str) -> bool:
        by, source = self.functions[caller].source, self.functions[called].source
        if by.calls_apart and not (source.inlined and self._is_straight(called)):
            return True
        return source.shared == "always" or (source.shared == "called" and by.calls_shared)
