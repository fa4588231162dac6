"""Functions that are compiled for the kinds of their arguments, and those of them that are written in Python."""

from __future__ import annotations

import ast
import dis
import linecache
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal

from wyrm.kernels.errors import NotCompiled
from wyrm.kernels.known import known
from wyrm.kernels.names import growing
from wyrm.kernels.values import Value
from wyrm.ops import fast_math

if TYPE_CHECKING:
    from wyrm.kernels.statements import FunctionBody


class Routine:
    """A function that is compiled, each time for arguments of other kinds, and how that is done.

    `distinct`: no array that it writes to shares memory with another of its arrays. `inlined`: it becomes a part of
    those that call it. `fused`: products may be rounded together with the sums that take them in. `shared`: it is
    compiled once for all programs, "always", or where one with `calls_shared` calls it. With `calls_apart` all that it
    calls is compiled apart from it, but for what has no loop and is inlined: a large function takes longer to compile
    than the sum of its parts. The constants of a `generated` one are arguments of the machine code.
    """

    def __init__(
        self,
        name: str,
        *,
        distinct: bool = False,
        inlined: bool = False,
        fused: bool = False,
        shared: Literal["never", "called", "always"] = "never",
        calls_shared: bool = False,
        calls_apart: bool = False,
        generated: bool = False,
    ) -> None:
        self.__name__ = name
        self.distinct, self.inlined, self.fused = distinct, inlined, fused
        self.shared, self.calls_shared, self.calls_apart = shared, calls_shared, calls_apart
        self.generated = generated

    @property
    def parameters(self) -> list[str]:
        """The names of its parameters."""
        raise NotImplementedError

    @cached_property
    def locals(self) -> frozenset[str]:
        """The names of its variables."""
        raise NotImplementedError

    @cached_property
    def growing(self) -> frozenset[str]:
        """Its variables that may exceed the integers."""
        raise NotImplementedError

    @cached_property
    def identity(self) -> str:
        """What its compiled form depends on: its code, its constants, and those of all that it calls."""
        raise NotImplementedError

    def write(self, body: FunctionBody) -> bool:
        """Compile its statements; whether the last one ends it."""
        raise NotImplementedError

    def default(self, name: str) -> Value | None:
        """What a parameter is where it is not given; None where it has to be given."""
        return None

    def bound(self, arguments: Sequence[Value], keywords: Mapping[str, Value]) -> list[Value]:
        """The values of all parameters in a call."""
        return list(arguments)

    def globals(self) -> dict[str, Any]:
        """What its global names stand for."""
        return {}

    def closure(self) -> tuple[str, ...]:
        """The names of variables of a function around it, which it may not use."""
        return ()

    def where(self, line: int | None = None) -> str:
        """The function and a line of it, for messages."""
        return self.__name__

    @property
    def how(self) -> tuple[Any, ...]:
        """How it is compiled."""
        return (
            self.distinct, self.inlined, self.fused, self.shared, self.calls_shared, self.calls_apart, self.generated
        )  # fmt: skip


class KernelFunction(Routine):
    """A Python function that is compiled; called from Python, it is that function."""

    def __init__(self, function: Callable[..., Any], *, name: str | None = None, **how: Any) -> None:
        own: str = getattr(function, "__name__", repr(function))
        super().__init__(own if name is None else name, **how)
        self.function = function
        self.__doc__ = function.__doc__

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.function(*arguments, **keywords)

    @cached_property
    def tree(self) -> ast.FunctionDef:
        """The function as a syntax tree."""
        function = self.function
        if not isinstance(function, FunctionType):
            raise NotCompiled(f"{self.__name__} is no function that is written in Python with def", self.where())
        code = function.__code__
        if function.__name__ == "<lambda>":
            raise NotCompiled("a kernel is written with def, not as a lambda", self.where())
        lines = "".join(linecache.getlines(code.co_filename))
        found = _definitions(lines).get((code.co_name, code.co_firstlineno))
        if found is None:
            raise NotCompiled(f"the source of {self.__name__} is not in a file; define it in one", self.where())
        return found

    @property
    def parameters(self) -> list[str]:
        """The names of its parameters; those that are given by keyword alone come last."""
        arguments = self.tree.args
        if arguments.vararg or arguments.kwarg:
            raise NotCompiled(f"{self.__name__} takes any number of arguments; name each of them", self.where())
        return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]

    def default(self, name: str) -> Value | None:
        """What a parameter is where it is not given; None where it has to be given."""
        python = self.function
        assert isinstance(python, FunctionType)
        arguments = self.tree.args
        places = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
        defaults = python.__defaults__ or ()
        found: Mapping[str, Any] = dict(zip(places[len(places) - len(defaults) :], defaults, strict=True))
        found = {**found, **(python.__kwdefaults__ or {})}
        return known(found[name]) if name in found else None

    def bound(self, arguments: Sequence[Value], keywords: Mapping[str, Value]) -> list[Value]:
        """The values of all parameters in a call."""
        names, by_flat_index = self.parameters, self.tree.args
        most, only = len(names) - len(by_flat_index.kwonlyargs), [each.arg for each in by_flat_index.posonlyargs]
        if len(arguments) > most:
            raise NotCompiled(f"{self.__name__} takes {most} arguments, not {len(arguments)}")
        given = dict(zip(names, arguments, strict=False))
        for name, value in keywords.items():
            if name in given or name not in names or name in only:
                raise NotCompiled(f"{self.__name__} takes no argument {name}, or twice")
            given[name] = value
        found = [given[name] if name in given else self.default(name) for name in names]
        missing = [name for name, value in zip(names, found, strict=True) if value is None]
        if missing:
            raise NotCompiled(f"{self.__name__} is called without its argument {missing[0]}")
        return [value for value in found if value is not None]

    @cached_property
    def locals(self) -> frozenset[str]:
        """The names of its variables."""
        return frozenset(self.function.__code__.co_varnames)

    @cached_property
    def growing(self) -> frozenset[str]:
        """Its variables that may exceed the integers."""
        return frozenset(growing(self.tree))

    def globals(self) -> dict[str, Any]:
        """What its global names stand for."""
        return self.function.__globals__

    def closure(self) -> tuple[str, ...]:
        """The names of variables of a function around it, which it may not use."""
        return self.function.__code__.co_freevars

    def where(self, line: int | None = None) -> str:
        """The function and a line of it, for messages."""
        code = getattr(self.function, "__code__", None)
        if code is None:
            return self.__name__
        return f"{self.__name__}, {code.co_filename}:{line or code.co_firstlineno}"

    @cached_property
    def identity(self) -> str:
        """What its compiled form depends on: its code, its constants, and those of all that it calls."""
        return repr((fingerprint(self.function), self.how))

    def write(self, body: FunctionBody) -> bool:
        """Compile its statements; whether the last one ends it."""
        return body.run(self.tree.body)


_OPS = fast_math.__name__.removesuffix("fast_math")


@cache
def kernel_of(function: FunctionType, name: str | None = None) -> KernelFunction:
    """A plain function as a kernel, or as what a kernel calls.

    Products may be fused with sums inside the ops of this library. The arithmetic of users is done as it is written,
    which gives the numbers of NumPy.
    """
    if function.__module__ == fast_math.__name__:
        return KernelFunction(function, name=name, inlined=True, fused=True)
    own = function.__module__.startswith(_OPS)
    return KernelFunction(function, name=name, distinct=True, fused=own, shared="called")


def global_names(function: FunctionType) -> Iterator[str]:
    """The global names that a function reads, each once; not those of attributes."""
    found = dict.fromkeys(
        each.argval for each in dis.get_instructions(function) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    )
    return iter(found)


def fingerprint(function: Any) -> str:
    """A text that differs where a function, a constant that it uses, or a function that it calls does."""
    found: dict[Any, str] = {}

    def visit(value: Any) -> str:
        if isinstance(value, Routine):
            return visit(value.function) if isinstance(value, KernelFunction) else value.identity
        if not isinstance(value, FunctionType):
            text = repr(value)
            return text if " at 0x" not in text else str(type(value))  # an address is another one in each process
        if value not in found:
            found[value] = ""  # one that calls itself is refused elsewhere
            code, names = value.__code__, value.__globals__
            used = [f"{name}={visit(names[name])}" for name in global_names(value) if name in names]
            facts = code.co_code.hex(), code.co_consts, code.co_names, code.co_varnames, value.__defaults__
            found[value] = repr((value.__module__, value.__qualname__, facts, used))
        return found[value]

    return visit(function)


@cache
def _definitions(text: str) -> dict[tuple[str, int], ast.FunctionDef]:
    """The functions of a file, by name and first line, which is that of the first decorator."""
    try:
        tree = ast.parse(text)
    except SyntaxError:  # no Python, such as a page with code in it
        return {}
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            found[node.name, first] = node
    return found
