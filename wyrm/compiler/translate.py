"""From functions to a loop program: each function once for the kinds of arguments that it is called with."""

from __future__ import annotations

from collections.abc import Sequence

from wyrm.compiler.builder import Builder
from wyrm.compiler.errors import NotCompiled
from wyrm.compiler.functions import KernelFunction
from wyrm.compiler.statements import Body
from wyrm.compiler.values import Kind, types_of
from wyrm.ir.program import For, Function, Invoke, LoopProgram, Statement, While

# So many times the types of variables may change while a function is gone through.
_ROUNDS = 12


class Compiled:
    """A function for certain kinds of arguments: the kind of its result, and its loop program."""

    def __init__(self, function: Function, result: Kind | None, source: KernelFunction) -> None:
        self.function, self.result, self.source = function, result, source


class Translation:
    """All functions of one loop program."""

    def __init__(self, checked: bool) -> None:
        self.checked = checked
        # The texts of the codes that functions fail with.
        self.errors: dict[int, str] = {}
        self.functions: dict[str, Compiled] = {}
        self._found: dict[tuple[int, tuple[Kind, ...]], Compiled | None] = {}
        self._keep: list[KernelFunction] = []

    def specialized(self, function: KernelFunction, kinds: tuple[Kind, ...]) -> Compiled:
        """The function for arguments of these kinds; `NotCompiled` where there is no form for it."""
        key = id(function), kinds
        if key in self._found:
            found = self._found[key]
            if found is None:
                raise NotCompiled(f"{function.__name__} calls itself", function.where())
            return found
        self._found[key] = None
        self._keep.append(function)  # so that its identity stays its own
        try:
            compiled = self._translate(function, kinds)
        except BaseException:
            del self._found[key]
            raise
        self._found[key] = self.functions[compiled.function.name] = compiled
        return compiled

    def _translate(self, function: KernelFunction, kinds: tuple[Kind, ...]) -> Compiled:
        if function.closure():
            raise NotCompiled(
                f"{function.__name__} uses {', '.join(function.closure())} of the function around it", function.where()
            )
        tree = function.tree
        names = [each.arg for each in tree.args.args]
        if tree.args.vararg or tree.args.kwarg or tree.args.kwonlyargs or len(names) != len(kinds):
            raise NotCompiled(f"{function.__name__} takes {len(names)} arguments, not {len(kinds)}", function.where())
        variables: dict[str, Kind] = dict(zip(names, kinds, strict=True))
        result: Kind | None = None
        for _ in range(_ROUNDS):
            builder = Builder(self.errors, self.checked)
            body = Body(self, function, builder, dict(variables), result)
            parameters = body.parameters(list(zip(names, kinds, strict=True)))
            body.run(tree.body)
            if body.kinds == variables and body.result == result:
                break
            variables, result = body.kinds, body.result
        else:
            raise NotCompiled(f"the types of variables in {function.__name__} do not settle", function.where())
        made = Function(
            self._name(function.__name__),
            tuple(parameters),
            tuple(type for _, type in ([] if result is None else types_of(result))),
            tuple(builder.statements),
            distinct=function.distinct,
            inlined=function.inlined,
            fused=function.fused,
            fails=builder.fails or any(self.functions[name].function.fails for name in _called(builder.statements)),
        )
        return Compiled(made, result, function)

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
        ordered: dict[str, Function] = {}

        def visit(each: str) -> None:
            if each not in ordered:
                for other in self._calls(each):
                    visit(other)
                ordered[each] = self.functions[each].function

        visit(name)
        return LoopProgram(tuple(ordered.values()))

    def _calls(self, name: str) -> list[str]:
        return _called(self.functions[name].function.body)

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


def _called(statements: Sequence[Statement]) -> list[str]:
    """The names of the functions that statements call."""
    found: list[str] = []
    for each in statements:
        if isinstance(each, Invoke):
            found.append(each.function)
        for body in ("before", "body", "otherwise"):
            found += _called(getattr(each, body, ()))
    return found
