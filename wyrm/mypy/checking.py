"""Calls as mypy itself checks them, and its errors in short."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from mypy.checker import TypeChecker
from mypy.checkmember import analyze_member_access
from mypy.errorcodes import ErrorCode
from mypy.errors import ErrorInfo
from mypy.nodes import ARG_STAR, ARG_STAR2, ArgKind, Context, Expression, LambdaExpr, TempNode
from mypy.plugin import FunctionContext, MethodContext
from mypy.types import Instance, Type, UnionType, get_proper_type

from wyrm.mypy.reading import is_node


class CheckedArgument(NamedTuple):
    """An argument of a call."""

    expression: Expression
    type: Type
    kind: ArgKind
    name: str | None


def type_of_call(
    checker: TypeChecker,
    callee: Type,
    arguments: Sequence[CheckedArgument],
    context: Context,
    receiver: Instance | None = None,
) -> Type:
    """Return the type that mypy itself gives a call."""
    found, _ = checker.expr_checker.check_call(
        callee,
        [_checked_argument(checker, argument) for argument in arguments],
        [argument.kind for argument in arguments],
        context,
        [argument.name for argument in arguments],
        object_type=receiver,
    )
    return found


@contextmanager
def without_context(checker: TypeChecker) -> Iterator[None]:
    """Have mypy infer types from the arguments alone: for `f(layer(x))` it would say of `x` what is wrong with `f`."""
    checker.expr_checker.type_context.append(None)
    try:
        yield
    finally:
        checker.expr_checker.type_context.pop()


def member(name: str, owner: Instance, context: Context, checker: TypeChecker) -> Type:
    """Return the type of a method of an object."""
    return analyze_member_access(
        name=name,
        typ=owner,
        is_lvalue=False,
        is_super=False,
        is_operator=name.startswith("__"),
        original_type=owner,
        context=context,
        chk=checker,
    )


def arguments_of(context: MethodContext | FunctionContext) -> list[CheckedArgument]:
    """Return the arguments of a call; `*operands` comes once, though mypy gives it for positional and named ones."""
    starred: set[int] = set()
    found: list[CheckedArgument] = []
    for parts in zip(context.args, context.arg_types, context.arg_kinds, context.arg_names, strict=True):
        for argument in map(CheckedArgument, *parts):
            if argument.kind not in (ARG_STAR, ARG_STAR2) or id(argument.expression) not in starred:
                starred.add(id(argument.expression))
                found.append(argument)
    return found


def _checked_argument(checker: TypeChecker, argument: CheckedArgument) -> Expression:
    """Return an argument, or what stands for a node or for one type of a union, which mypy does not check again."""
    proper = get_proper_type(argument.type)
    items = proper.items if isinstance(proper, UnionType) else [proper]
    is_known = argument.expression in checker.expr_checker.type_overrides
    if is_known or any(is_node(get_proper_type(item)) for item in items):
        return TempNode(argument.type, context=argument.expression)
    return argument.expression


def fail(checker: TypeChecker, text: str, context: Context, code: ErrorCode) -> None:
    """Add an error, also where mypy only tries whether an expression fits: it would try again, exponentially often.

    In a lambda the operands may be a trial too, of which errors may not stay.
    """
    watchers = checker.msg.errors._watchers
    hidden = [] if any(isinstance(scope, LambdaExpr) for scope in checker.scope.stack) else list(watchers)
    if hidden:
        watchers.clear()
    try:
        checker.fail(text, context, code=code)
    finally:
        watchers.extend(hidden)


def report(
    checker: TypeChecker,
    errors: Sequence[ErrorInfo],
    *forms: tuple[Callable[[str], str | None], ErrorCode | None],
) -> None:
    """Add errors to mypy's, without the notes that follow, in the first short form there is for each.

    A form is a function that shortens a message or returns None, and the code of such errors; None keeps mypy's.
    Of a lambda whose result does not fit, mypy says two things; the second says all. Of a keyword that no overload
    takes, it says that too, and that no overload fits.
    """
    returned = any(error.message.startswith("Incompatible return value") for error in errors)
    unexpected = any(error.message.startswith("Unexpected keyword argument") for error in errors)
    is_short = False
    for error in errors:
        if error.severity == "error":
            short = ((text, code) for shorten, code in forms if (text := shorten(error.message)) is not None)
            found = next(short, None)
            is_short = found is not None
            is_said = (returned and error.message.startswith("Argument ")) or (
                unexpected and error.message.startswith("No overload variant")
            )
            if found is not None and not is_said:
                place = Context(error.line, error.column)
                place.end_line, place.end_column = error.end_line, error.end_column
                checker.fail(found[0], place, code=found[1] or error.code)
        if not is_short:
            checker.msg.add_errors([error])
