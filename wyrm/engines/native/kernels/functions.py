"""Functions that are specialized for the kinds of their arguments, and what the syntax of a kernel tells about it."""

from __future__ import annotations

import ast
import dis
import hashlib
import linecache
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache, cached_property
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from wyrm.engines.native.kernels.values import KernelValue, NotCompiled, known
from wyrm.graph.loop_form import is_njit
from wyrm.ops.elementwise import fast_math
from wyrm.ops.random import rejection, standard_draws

if TYPE_CHECKING:
    from wyrm.engines.native.kernels.statements import FunctionBody

_LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]


class Routine:
    """A function that is specialized for the kinds of its arguments, and the options it is compiled with.

    `distinct`: an array that it writes to never shares memory with another of its arrays. `inlined`: it is inlined into
    its callers. `fused`: a multiplication and an addition may be contracted into a fused multiply-add. `shared`: it is
    compiled once, in a module that programs share: "always", or only for callers with `calls_shared` ("called").
    `alone`: parameters whose arrays share no memory with others, though the function is not `distinct`.
    `calls_apart`: all its callees are compiled in other modules, except inlined ones without loops: the compile time of
    a function grows faster than its size. `generated`: its constants become arguments of the machine code. `small`: its
    loops and those of its module have a few elements, so that vectors would only take time to compile. `divided`: the
    turns of its loop are independent, and many, so that threads share them. `guarded`: its indices are checked, not in
    debug mode alone. `exact`: its functions are those of the C library, which Python calls.
    """

    def __init__(
        self,
        name: str,
        *,
        distinct: bool = False,
        alone: frozenset[str] = frozenset(),
        inlined: bool = False,
        fused: bool = False,
        shared: Literal["never", "called", "always"] = "never",
        calls_shared: bool = False,
        calls_apart: bool = False,
        generated: bool = False,
        small: bool = False,
        divided: bool = False,
        guarded: bool = False,
        exact: bool = False,
    ) -> None:
        self.__name__ = name
        self.distinct = distinct
        self.alone = alone
        self.inlined = inlined
        self.fused = fused
        self.shared = shared
        self.calls_shared = calls_shared
        self.calls_apart = calls_apart
        self.generated = generated
        self.small = small
        self.divided = divided
        self.guarded = guarded
        self.exact = exact

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters."""
        raise NotImplementedError

    @cached_property
    def locals(self) -> frozenset[str]:
        """The names of the local variables, parameters included."""
        raise NotImplementedError

    @cached_property
    def may_overflow(self) -> frozenset[str]:
        """The variables that may overflow an int64 and become negative."""
        raise NotImplementedError

    @cached_property
    def identity(self) -> str:
        """A text that identifies the compiled code: it covers the function's code, constants, options and callees."""
        raise NotImplementedError

    def write(self, body: FunctionBody) -> bool:
        """Compile the body of the function; return whether its last statement returns."""
        raise NotImplementedError

    def default(self, name: str) -> KernelValue | None:
        """Return the default value of a parameter; None for a required one."""
        return None

    def bound(self, arguments: Sequence[KernelValue], keywords: Mapping[str, KernelValue]) -> list[KernelValue]:
        """Return the values of all parameters for a call with these arguments."""
        return list(arguments)

    def globals(self) -> dict[str, Any]:
        """Return the global variables that the function sees."""
        return {}

    def closure(self) -> tuple[str, ...]:
        """Return the variables that it captures from an enclosing function, which kernels do not support."""
        return ()

    def where(self, line: int | None = None) -> str:
        """Return the function's name, file and line for error messages."""
        return self.__name__

    @property
    def options(self) -> tuple[Any, ...]:
        """The options that it is compiled with."""
        return (
            self.distinct, self.inlined, self.fused, self.shared, self.calls_shared, self.calls_apart, self.generated,
            self.small, self.divided, self.guarded, self.exact, *sorted(self.alone),
        )  # fmt: skip


class KernelFunction(Routine):
    """A kernel: a Python function that is compiled. Calling it from Python runs the Python function."""

    def __init__(self, function: Callable[..., Any], *, name: str | None = None, **options: Any) -> None:
        own: str = getattr(function, "__name__", repr(function))
        super().__init__(own if name is None else name, **options)
        self.function = function
        self.__doc__ = function.__doc__

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.function(*arguments, **keywords)

    @cached_property
    def tree(self) -> ast.FunctionDef:
        """The syntax tree of the function; raise `NotCompiled` if it has no source."""
        function = self.function
        if not isinstance(function, FunctionType):
            raise NotCompiled(f"{self.__name__} is not a function written in Python with def", self.where())
        code = function.__code__
        if function.__name__ == "<lambda>":
            raise NotCompiled("a kernel must be defined with def, not as a lambda", self.where())
        found = _definition(linecache.getlines(code.co_filename), code)
        if found is None:
            raise NotCompiled(f"the source of {self.__name__} is not in a file; define it in one", self.where())
        return found

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters, keyword-only ones last."""
        arguments = self.tree.args
        if arguments.vararg or arguments.kwarg:
            raise NotCompiled(f"{self.__name__} takes *args or **kwargs; name each parameter", self.where())
        return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]

    def default(self, name: str) -> KernelValue | None:
        """Return the default value of a parameter; None for a required one."""
        python = self.function
        assert isinstance(python, FunctionType)
        arguments = self.tree.args
        positional = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
        defaults = python.__defaults__ or ()
        found: Mapping[str, Any] = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
        found = {**found, **(python.__kwdefaults__ or {})}
        return known(found[name]) if name in found else None

    def bound(self, arguments: Sequence[KernelValue], keywords: Mapping[str, KernelValue]) -> list[KernelValue]:
        """Return the values of all parameters for a call with these arguments."""
        names, signature = self.parameters, self.tree.args
        most, positional_only = len(names) - len(signature.kwonlyargs), [each.arg for each in signature.posonlyargs]
        if len(arguments) > most:
            raise NotCompiled(f"{self.__name__} takes {most} arguments, not {len(arguments)}")
        given = dict(zip(names, arguments, strict=False))
        for name, value in keywords.items():
            if name in given or name not in names or name in positional_only:
                raise NotCompiled(f"{self.__name__} got the argument {name} twice, or has no such parameter")
            given[name] = value
        found = [given[name] if name in given else self.default(name) for name in names]
        missing = [name for name, value in zip(names, found, strict=True) if value is None]
        if missing:
            raise NotCompiled(f"{self.__name__} is missing its argument {missing[0]}")
        return [value for value in found if value is not None]

    @cached_property
    def locals(self) -> frozenset[str]:
        """The names of the local variables, parameters included."""
        code = self.function.__code__
        return frozenset((*code.co_varnames, *code.co_cellvars))

    @cached_property
    def may_overflow(self) -> frozenset[str]:
        """The variables that may overflow an int64 and become negative."""
        return frozenset(may_overflow(self.tree))

    def globals(self) -> dict[str, Any]:
        """Return the global variables that the function sees."""
        return self.function.__globals__

    def closure(self) -> tuple[str, ...]:
        """Return the variables that it captures from an enclosing function, which kernels do not support."""
        return self.function.__code__.co_freevars

    def where(self, line: int | None = None) -> str:
        """Return the function's name, file and line for error messages."""
        code = getattr(self.function, "__code__", None)
        if code is None:
            return self.__name__
        return f"{self.__name__}, {code.co_filename}:{line or code.co_firstlineno}"

    @cached_property
    def identity(self) -> str:
        """A text that identifies the compiled code: it covers the function's code, constants, options and callees."""
        return repr((fingerprint(self.function), self.options))

    def write(self, body: FunctionBody) -> bool:
        """Compile the body of the function; return whether its last statement returns."""
        return body.run(self.tree.body)


# The package of this library's ops.
_OPS = f"{__name__.split('.')[0]}.ops."
# The package of random draws, which are the same in Python.
_DRAWS = f"{_OPS}random."


@cache
def kernel_of(function: FunctionType, name: str | None = None) -> KernelFunction:
    """Return the kernel of a Python function.

    Only kernels of this library may use fused multiply-adds. Users' arithmetic and that of random draws are compiled as
    written, so they give the same numbers as NumPy.
    """
    drawing = function.__module__.startswith(_DRAWS)
    if function.__module__ in (standard_draws.__name__, rejection.__name__):
        return KernelFunction(function, name=name, inlined=True, exact=drawing)
    if function.__module__ == fast_math.__name__:
        return KernelFunction(function, name=name, inlined=True, fused=True)
    own = function.__module__.startswith(_OPS)
    if getattr(function, "inlined", False):
        return KernelFunction(function, name=name, inlined=True, fused=own, exact=drawing)
    shared = "always" if getattr(function, "compiled_once", False) else "called"
    guarded = bool(getattr(function, "guarded", False))
    return KernelFunction(function, name=name, distinct=True, fused=own, shared=shared, guarded=guarded, exact=drawing)


def global_names(code: CodeType) -> Iterator[str]:
    """Yield the global names that the code of a function reads, each once, without attribute names.

    `dis` would describe each instruction in full, which takes a hundred times as long.
    """
    operations, arguments = code.co_code[::2], code.co_code[1::2]
    found: dict[str, None] = {}
    place = operations.find(_LOAD_GLOBAL)
    while place >= 0:
        number, before = arguments[place], place - 1
        while before >= 0 and operations[before] == dis.EXTENDED_ARG:
            number |= arguments[before] << 8 * (place - before)
            before -= 1
        found[code.co_names[number >> 1]] = None  # the lowest bit is about the stack
        place = operations.find(_LOAD_GLOBAL, place + 1)
    return iter(found)


def fingerprint(function: Any) -> str:
    """Return a text that changes whenever the function, a constant it uses or a function it calls changes."""
    found: dict[object, str] = {}

    def visit(value: Any) -> str:
        if isinstance(value, Routine):
            return visit(value.function) if isinstance(value, KernelFunction) else value.identity
        if is_njit(value):
            return repr((visit(value.py_func), sorted(value.targetoptions.items())))
        if isinstance(value, np.ndarray):
            return repr((value.dtype, value.shape, hashlib.sha256(value.tobytes()).hexdigest()))
        if is_dataclass(value) and not isinstance(value, type):
            return repr((type(value), [visit(getattr(value, each.name)) for each in fields(value)]))
        if not isinstance(value, FunctionType):
            text = repr(value)
            return text if " at 0x" not in text else str(type(value))  # addresses differ between processes
        if value not in found:
            found[value] = ""  # stops recursion, which `Translation` rejects
            codes, names = list(_codes(value.__code__)), value.__globals__
            read = dict.fromkeys(name for code in codes for name in global_names(code) if name in names)
            used = [f"{name}={visit(names[name])}" for name in read]
            used += [f"{name}={visit(each.cell_contents)}" for name, each in _cells(value)]
            facts = [
                (
                    code.co_code.hex(), [each for each in code.co_consts if not isinstance(each, CodeType)],
                    code.co_names, code.co_varnames,
                )
                for code in codes
            ]  # fmt: skip
            found[value] = repr((value.__module__, value.__qualname__, facts, value.__defaults__, used))
        return found[value]

    return visit(function)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function, and that of the generators inside."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _cells(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the variables that a function captures from an enclosing function, with their cells."""
    return zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)


def _definition(lines: Sequence[str], code: CodeType) -> ast.FunctionDef | None:
    """Return the function of this code from the lines of its file; None if they do not have it.

    Most of a file is not parsed. A function ends before a line that is not indented more, unless what stands before is
    no whole statement: then that line is inside of a string or of parentheses.
    """
    first = code.co_firstlineno - 1
    start = next((i for i in range(first, len(lines)) if lines[i].lstrip().startswith("def ")), None)
    if start is None:
        return None
    indent = len(lines[start]) - len(lines[start].lstrip())
    # What is indented is the body of a statement in the line before.
    before = "\n" * (first - 1) + "if True:\n" if indent else "\n" * first
    ends = (i for i in range(start + 1, len(lines)) if not _is_inside(lines[i], indent))
    for end in (*ends, len(lines)):
        with suppress(SyntaxError):
            match ast.parse(before + "".join(lines[first:end])).body:
                case [ast.FunctionDef() as found] | [ast.If(body=[ast.FunctionDef() as found])]:
                    return found if found.name == code.co_name else None
                case _:
                    return None
    return None


def _is_inside(line: str, indent: int) -> bool:
    """Return whether a line is indented more, or says nothing."""
    return line[: indent + 1].isspace() or line.lstrip().startswith("#")


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements inside of a module or a function, without the expressions in them."""
    stack = [tree]
    while stack:
        node = stack.pop()
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, field, ())
            yield from inner
            stack += inner


def names_in(node: ast.AST) -> set[str]:
    """Return the names in an expression or a statement."""
    found, stack = set[str](), [node]
    while stack:
        each = stack.pop()
        if isinstance(each, ast.Name):
            found.add(each.id)
        else:
            stack += ast.iter_child_nodes(each)
    return found


def _assigned(target: ast.expr) -> set[str]:
    """Return the variables that an assignment to the target binds; in `x[i] = y` that is none."""
    return {each.id for each in ast.walk(target) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def leaves(body: Sequence[ast.stmt], kind: type[ast.stmt]) -> bool:
    """Return whether the body of a loop has a `break` (or `continue`) that belongs to this loop."""
    for each in body:
        if isinstance(each, kind):
            return True
        if isinstance(each, ast.If) and (leaves(each.body, kind) or leaves(each.orelse, kind)):
            return True
    return False


def may_overflow(tree: ast.FunctionDef) -> set[str]:
    """Return the variables that may overflow an int64 and become negative: those that loops multiply or double.

    A variable that only grows by bounded additions cannot overflow in practice: it would take too long.
    """
    assigned = list(_assignments(tree))
    needs: dict[str, set[str]] = {}
    for name, value in assigned:
        needs.setdefault(name, set()).update(names_in(value))
    while True:  # the transitive closure
        more = {name: used.union(*(needs.get(each, ()) for each in used)) for name, used in needs.items()}
        if more == needs:
            break
        needs = more
    looped = {name for name, used in needs.items() if name in used}
    return {name for name, value in assigned if name in looped and _grows_fast(value, looped)}


def _assignments(tree: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """Yield each assigned name with the expression assigned to it."""
    for node in _statements(tree):
        match node:
            case ast.Assign(targets, value):
                for target in targets:
                    if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple):
                        pairs = zip(target.elts, value.elts, strict=False)
                        yield from ((name, each) for one, each in pairs for name in _assigned(one))
                    else:
                        yield from ((name, value) for name in _assigned(target))
            case ast.AnnAssign(target, _, value) if value is not None:
                yield from ((name, value) for name in _assigned(target))
            case ast.AugAssign(ast.Name() as target, op, value):
                yield target.id, ast.BinOp(target, op, value)
            case ast.For(target, value):
                yield from ((name, value) for name in _assigned(target))
            case _:
                pass


def _grows_fast(node: ast.AST, looped: set[str]) -> bool:
    """Return whether an expression may grow faster than one of these names plus a bounded term."""
    if not names_in(node) & looped:
        return False
    match node:
        case ast.BinOp(left, ast.Add(), right):
            both = bool(names_in(left) & looped and names_in(right) & looped)
            return both or _grows_fast(left, looped) or _grows_fast(right, looped)
        case ast.BinOp(_, ast.Mult() | ast.Pow() | ast.LShift(), _):
            return True
        case ast.Call(ast.Name("range" | "min" | "max" | "len"), arguments):
            return any(_grows_fast(each, looped) for each in arguments)
        case ast.Subscript(of, _) | ast.Attribute(of, _):  # attributes and elements
            return _grows_fast(of, looped)
        case ast.Call():
            return True
        case _:
            return any(_grows_fast(each, looped) for each in ast.iter_child_nodes(node))
