"""One call of a program that mypy checks: the node that it builds for operands of these axes, as a type."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property, partial
from typing import Any, NamedTuple, cast

from mypy.checker import TypeChecker
from mypy.checkmember import analyze_member_access
from mypy.errorcodes import ErrorCode
from mypy.errors import ErrorInfo
from mypy.nodes import ARG_NAMED, ARG_POS, ARG_STAR, ARG_STAR2, ArgKind, Context, Expression, TempNode, TypeInfo
from mypy.plugin import FunctionContext, MethodContext, Plugin
from mypy.types import (
    CallableType,
    Instance,
    Overloaded,
    TupleType,
    Type,
    UnionType,
    get_proper_type,
)

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Plus, Times
from wyrm.mypy.messages import AXES, OPERATORS, message, message_with_sizes
from wyrm.mypy.reading import (
    FLOAT_NODE,
    AxisClasses,
    Reader,
    Sizes,
    Unknown,
    base_of,
    different,
    divisible,
    is_axis,
    is_node,
    ones,
    shape_of,
)
from wyrm.mypy.shortening import of_function, of_module
from wyrm.mypy.text import Text
from wyrm.mypy.writing import Writer, unknown, with_shape, without_axes
from wyrm.ops.elementwise.elementwise import Elementwise

# Where functions of nodes are defined, and from where users take them.
_DEFINED = (
    "wyrm.functions.", "wyrm.linalg.", "wyrm.losses.", "wyrm.nn.", "wyrm.ops.", "wyrm.random.", "wyrm.special.",
)  # fmt: skip
_PUBLIC = ("wyrm", "wyrm.linalg", "wyrm.losses", "wyrm.nn", "wyrm.random", "wyrm.special")
# Whether these raise an error is up to the sizes of axes, which types do not have.
_BY_SIZES = frozenset({"reshape", "resize"})
# These take axes of size 1 that they refuse otherwise.
_OF_ONES = frozenset({"broadcast_to", "squeeze"})
# Axes are not made longer than this: some functions compute arrays of them.
_LARGEST = 10_000
# These may join axes into one, or make a new one of another.
_JOINING = frozenset({"column_stack", "cumprod", "cumsum", "flatten", "ravel", "reshape", "resize"})


@cache
def run_time_function(fullname: str) -> Callable[..., Any] | None:
    """Return the function of nodes that mypy calls by this name."""
    module, _, name = fullname.rpartition(".")
    if not fullname.startswith(_DEFINED) or name.startswith("_") or name[:1].isupper():
        return None
    for place in (module, *_PUBLIC):
        try:
            found = getattr(importlib.import_module(place), name, None)
        except ImportError:  # the module is a stub alone
            continue
        if callable(found):
            return cast(Callable[..., Any], found)
    return None


class _Argument(NamedTuple):
    expression: Expression
    type: Type
    kind: ArgKind
    name: str | None


class _Call(ABC):
    """A call, and what mypy says of it."""

    name: str

    def __init__(
        self, plugin: Plugin, classes: AxisClasses, text: Text, context: MethodContext | FunctionContext
    ) -> None:
        self._text = text
        self._plugin, self._classes, self._context = plugin, classes, context
        assert isinstance(context.api, TypeChecker)
        self._checker = context.api
        self._arguments = list(_each_once(_arguments(context)))

    @abstractmethod
    def declared(self) -> Type:
        """Return the type of the callee as it is declared."""

    @abstractmethod
    def callee(self, reader: Reader) -> Callable[..., Any]:
        """Return what is called."""

    def type(self) -> Type:
        """Return the type of the result; where the axes do not fit, add an error to mypy's."""
        with self._checker.msg.filter_errors(filter_errors=False) as errors:
            try:
                found = self._built()
            except Unknown:
                found = self._by_declarations()
        if not errors.has_new_errors():
            report_sizes(self._checker, self._text, self._context.context)
        return found

    def _built(self) -> Type:
        """Return the type of the node that the call builds.

        Axes have no sizes at first, as most calls need none. A call that fails is repeated with two choices of sizes:
        it builds a node that has the same axes for both, or the error is one of all sizes.
        """
        reader, value = self._attempt(None)
        if not isinstance(value, Exception):
            return self._with_any_sizes(reader, value)
        if reader.guessed or reader.largest > _LARGEST:
            raise Unknown
        choices = [different, divisible, *([ones] if self.name in _OF_ONES else [])]
        found = [self._attempt(sizes(reader.largest)) for sizes in choices]
        errors = [error for error in (value, *(value for _, value in found)) if isinstance(error, ShapeError)]
        if len(errors) == 1 + len(choices) and self.name not in _BY_SIZES:
            error = errors[1] if "size" in str(value) else value
            operands = [type_ for _, type_ in reader.leaves]
            self._checker.fail(message(self.name, operands, error), self._context.context, code=AXES)
            return self._unknown_node()
        fitting = [each for each in found[:2] if not isinstance(each[1], ShapeError)]
        if not fitting or any(isinstance(value, Exception) for _, value in fitting):
            raise Unknown
        written = [self._written(*each) for each in fitting]
        if written[0] != written[-1]:
            raise Unknown
        return written[0]

    def _with_any_sizes(self, reader: Reader, value: Any) -> Type:
        """Return the type of a node that was built of axes without sizes.

        Axes that are joined into one, as by `reshape(-1)`, have a name only as long as none of them has a size.
        """
        found = self._written(reader, value)
        if isinstance(value, tuple | list):
            return found
        if self.name not in _JOINING and not any(map(_has_times, value.dims)):
            return found
        _, sized = self._attempt(different(reader.largest))
        if isinstance(sized, Exception):
            return found
        pairs = zip(value.dims, sized.dims, strict=True)
        return without_axes(found, [i for i, (open_, other) in enumerate(pairs) if type(open_) is not type(other)])

    def _attempt(self, sizes: Sizes) -> tuple[Reader, Any]:
        """Return what the call returns, or the error that it raises."""
        reader = Reader(self._checker, self._classes, sizes)
        function = self.callee(reader)
        if self.name in OPERATORS and any(is_axis(argument.type) for argument in self._arguments):
            raise Unknown  # the declarations refuse an axis as a number
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        for argument in self._arguments:
            if argument.kind not in (ARG_POS, ARG_NAMED, ARG_STAR):
                raise Unknown
            value = reader.value(argument.expression, argument.type)
            if argument.name is not None:
                keywords[argument.name] = value
            elif argument.kind == ARG_STAR:
                if not isinstance(value, tuple | list):
                    raise Unknown
                positional.extend(value)
            else:
                positional.append(value)
        if not reader.leaves:
            raise Unknown
        try:
            return reader, function(*positional, **keywords)
        except Exception as error:
            return reader, error

    def _written(self, reader: Reader, value: Any) -> Type:
        if reader.has_array and not isinstance(value, Elementwise):
            raise Unknown
        return Writer(self._plugin, self._checker, self._classes, reader.leaves, self._returned).result(value)

    @cached_property
    def _returned(self) -> frozenset[str]:
        """The names of the classes that the declarations return."""
        return frozenset(_classes_of(self.declared()))

    def _unknown_node(self) -> Type:
        """Return the type of a node of unknown axes, so that a function may return it; `Any` for no node."""
        symbols = [self._plugin.lookup_fully_qualified(name) for name in self._returned]
        infos = [symbol.node for symbol in symbols if symbol is not None and isinstance(symbol.node, TypeInfo)]
        node = next(filter(None, (base_of(info, FLOAT_NODE) for info in infos)), None)
        return unknown() if node is None else Instance(node, [unknown(), unknown()])

    def _by_declarations(self) -> Type:
        """Return the type that the declarations give, and mypy's own errors."""
        try:
            with self._checker.msg.filter_errors(save_filtered_errors=True) as errors:
                found = _check_call(self._checker, self.declared(), self._arguments, self._context.context)
            shorten = partial(of_function, function=OPERATORS.get(self.name, self.name))
            _report(self._checker, errors.filtered_errors(), shorten)
            return found
        except RuntimeError:  # mypy cannot expand `*Bs` by a union of known and unknown axes
            return unknown()


class MethodCall(_Call):
    """A call of a method of a node, or an operator."""

    def __init__(
        self, plugin: Plugin, classes: AxisClasses, text: Text, name: str, receiver: Instance, context: MethodContext
    ) -> None:
        super().__init__(plugin, classes, text, context)
        self.name: str = name
        self._receiver = receiver

    def callee(self, reader: Reader) -> Callable[..., Any]:
        try:
            found: Callable[..., Any] = getattr(reader.node(self._receiver), self.name)
        except AttributeError:  # a method of parameters alone
            raise Unknown from None
        return found

    def declared(self) -> Type:
        return _member(self.name, self._receiver, self._context.context, self._checker)


class FunctionCall(_Call):
    """A call of a function that takes nodes."""

    def __init__(
        self,
        plugin: Plugin,
        classes: AxisClasses,
        text: Text,
        function: Callable[..., Any],
        declared: Type,
        context: MethodContext | FunctionContext,
    ) -> None:
        super().__init__(plugin, classes, text, context)
        self.name: str = function.__name__
        self._function = function
        self._declared = declared

    def callee(self, reader: Reader) -> Callable[..., Any]:
        return self._function

    def declared(self) -> Type:
        if not isinstance(self._declared, Instance):
            return self._declared
        return _member("__call__", self._declared, self._context.context, self._checker)

    def of_own_op(self, declared: Type) -> Type:
        """Return the declared type of an op, with the axes of the node that the call builds where it has none."""
        try:
            found = self._built()
        except Unknown:
            return declared
        if not isinstance(declared, Instance) or not isinstance(found, Instance):
            return declared
        return with_shape(declared, shape_of(found))


def report_sizes(checker: TypeChecker, text: Text, context: Context) -> None:
    """Add an error where the text of a call tells that sizes do not fit."""
    failed = text.failure(context) if isinstance(context, Expression) else None
    if failed is not None:
        checker.fail(message_with_sizes(failed.called, failed.operands, failed.error), context, code=AXES)


def type_of_module_call(context: MethodContext, receiver: Instance, text: Text) -> Type:
    """Return the type of a call of a module as it is declared; an error about a node names its axes alone."""
    assert isinstance(context.api, TypeChecker)
    checker = context.api
    callee = _member("__call__", receiver, context.context, checker)
    with checker.msg.filter_errors(save_filtered_errors=True) as errors:
        found = _check_call(checker, callee, list(_each_once(_arguments(context))), context.context, receiver)
    _report(checker, errors.filtered_errors(), partial(of_module, module=receiver.type.name), AXES)
    if not errors.has_new_errors():
        report_sizes(checker, text, context.context)
    return found


def _report(
    checker: TypeChecker,
    errors: Sequence[ErrorInfo],
    shorten: Callable[[str], str | None],
    code: ErrorCode | None = None,
) -> None:
    """Add errors to mypy's, in short where `shorten` can, without the notes that follow.

    Of a lambda whose result does not fit, mypy says two things; the second says all.
    """
    returned = any(error.message.startswith("Incompatible return value") for error in errors)
    short: str | None = None
    for error in errors:
        if error.severity == "error":
            short = shorten(error.message)
            if short is not None and not (returned and error.message.startswith("Argument ")):
                place = Context(error.line, error.column)
                place.end_line, place.end_column = error.end_line, error.end_column
                checker.fail(short, place, code=code or error.code)
        if short is None:
            checker.msg.add_errors([error])


def _has_times(axis: Axis) -> bool:
    """Return whether an axis is joined of others, or has such a part."""
    return isinstance(axis, Times) or (isinstance(axis, Plus) and any(map(_has_times, axis.parts)))


def _check_call(
    checker: TypeChecker,
    callee: Type,
    arguments: Sequence[_Argument],
    context: Context,
    receiver: Instance | None = None,
) -> Type:
    """Return the type that mypy itself gives a call."""
    found, _ = checker.expr_checker.check_call(
        callee,
        [_checked(checker, argument) for argument in arguments],
        [argument.kind for argument in arguments],
        context,
        [argument.name for argument in arguments],
        object_type=receiver,
    )
    return found


def _member(name: str, owner: Instance, context: Context, checker: TypeChecker) -> Type:
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


def _arguments(context: MethodContext | FunctionContext) -> Iterator[_Argument]:
    for parts in zip(context.args, context.arg_types, context.arg_kinds, context.arg_names, strict=True):
        yield from map(_Argument, *parts)


def _each_once(arguments: Iterable[_Argument]) -> Iterator[_Argument]:
    """Yield arguments; `*operands` comes once, though mypy gives it for positional and for named ones."""
    starred: set[int] = set()
    for argument in arguments:
        if argument.kind not in (ARG_STAR, ARG_STAR2) or id(argument.expression) not in starred:
            starred.add(id(argument.expression))
            yield argument


def _classes_of(callee: Type) -> Iterator[str]:
    """Yield the names of the classes that a callee returns, by its declarations."""
    proper = get_proper_type(callee)
    items = proper.items if isinstance(proper, Overloaded) else [proper]
    for item in items:
        if isinstance(item, CallableType):
            yield from _names_in(item.ret_type)


def _names_in(type_: Type) -> Iterator[str]:
    """Yield the names of a class, and of those in a tuple or list."""
    found = get_proper_type(type_)
    parts: Sequence[Type] = ()
    if isinstance(found, TupleType):
        parts = found.items
    elif isinstance(found, Instance):
        yield found.type.fullname
        parts = found.args if found.type.fullname in ("builtins.list", "builtins.tuple") else ()
    for part in parts:
        yield from _names_in(part)


def _checked(checker: TypeChecker, argument: _Argument) -> Expression:
    """Return an argument, or what stands for a node or for one type of a union, which mypy does not check again."""
    proper = get_proper_type(argument.type)
    items = proper.items if isinstance(proper, UnionType) else [proper]
    is_known = argument.expression in checker.expr_checker.type_overrides
    if is_known or any(is_node(get_proper_type(item)) for item in items):
        return TempNode(argument.type, context=argument.expression)
    return argument.expression
