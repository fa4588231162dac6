"""One call of a program that mypy checks: the node that it builds for operands of these axes, as a type."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property, partial
from typing import Any, cast

from mypy.checker import TypeChecker
from mypy.errorcodes import CALL_OVERLOAD
from mypy.nodes import ARG_NAMED, ARG_POS, ARG_STAR, CallExpr, Context, Expression, RefExpr, TypeInfo
from mypy.plugin import FunctionContext, MethodContext, Plugin
from mypy.types import (
    CallableType,
    Instance,
    Overloaded,
    TupleType,
    Type,
    get_proper_type,
)

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Plus, Times
from wyrm.mypy.checking import arguments_of, fail, member, report, type_of_call, without_context
from wyrm.mypy.declared import differing, differing_counts, misplaced, of_other_kind, unaligned
from wyrm.mypy.functions import FunctionArguments
from wyrm.mypy.messages import (
    AXES,
    OPERATORS,
    REFLECTED,
    message,
    message_of_functions,
    message_with_sizes,
    of_function,
    of_module,
)
from wyrm.mypy.reading import (
    FLOAT_NODE,
    AxisClasses,
    Reader,
    Sizes,
    UnknownType,
    base_of,
    different,
    divisible,
    is_axis,
    ones,
    shape_of,
)
from wyrm.mypy.text import Text
from wyrm.mypy.writing import TypeWriter, unknown, with_shape, without_axes
from wyrm.ops.elementwise.elementwise import Elementwise

# Where functions of nodes are defined.
_DEFINED = (
    "wyrm.functions.", "wyrm.linalg.", "wyrm.losses.", "wyrm.nn.", "wyrm.ops.", "wyrm.random.", "wyrm.special.",
)  # fmt: skip
# Whether these raise an error depends on the sizes of axes, which types do not have.
_BY_SIZES = frozenset({"reshape", "resize"})
# These take axes of size 1 that they refuse otherwise.
_OF_ONES = frozenset({"broadcast_to", "squeeze"})
# Axes are not made longer than this: some functions compute arrays of them.
_LARGEST = 10_000
# These take functions, and return the result of one of them, or those of many steps.
_OF_BRANCHES = frozenset({"cond", "switch"})
_OF_FUNCTIONS = _OF_BRANCHES | {"scan", "while_loop"}
# The layer that takes arrays too; its declaration says it of nodes alone, so that errors name the axis that it takes.
_LINEAR = "wyrm.nn.linear.Linear"
# These may join axes into one, or make a new one of another.
_JOINING = frozenset({"column_stack", "cumprod", "cumsum", "flatten", "ravel", "reshape", "resize"})


@cache
def run_time_function(fullname: str) -> Callable[..., Any] | None:
    """Return the function of nodes that mypy calls by this name."""
    module, _, name = fullname.rpartition(".")
    if not fullname.startswith(_DEFINED) or name.startswith("_") or name[:1].isupper():
        return None
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError:  # a method, whose class is no module
        return None
    return cast(Callable[..., Any], found) if callable(found) else None


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
        self._functions = FunctionArguments(plugin, context.api, classes, text)
        self._arguments = arguments_of(context)
        self._has_failed = False

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
            except UnknownType:
                found = self._by_declarations()
        if not errors.has_new_errors() and not self._has_failed:
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
            raise UnknownType
        choices = self._choices()
        found = [self._attempt(sizes(reader.largest)) for sizes in choices]
        errors = [error for error in (value, *(value for _, value in found)) if isinstance(error, ShapeError)]
        if len(errors) == 1 + len(choices) and self.name not in _BY_SIZES:
            error = errors[1] if "size" in str(value) and not self._takes_functions() else value
            operands = [type_ for _, type_ in reader.leaves]
            returned = self._functions.returned if self.name in _OF_BRANCHES else []
            text = message_of_functions(self.name, returned) or message(self.name, operands, error)
            self._fail(text)
            return self._unknown_node()
        fitting = [each for each in found[:2] if not isinstance(each[1], ShapeError)]
        if not fitting or any(isinstance(value, Exception) for _, value in fitting):
            raise UnknownType
        written = [self._written(*each) for each in fitting]
        if written[0] != written[-1]:
            raise UnknownType
        return written[0]

    def _fail(self, text: str) -> None:
        self._has_failed = True
        fail(self._checker, text, self._context.context, AXES)

    def _takes_functions(self) -> bool:
        return self.name in _OF_FUNCTIONS

    def _choices(self) -> list[Callable[[int], Sizes]]:
        """Return which sizes are tried for axes, each above a number."""
        if self._takes_functions():  # sizes of different axes would be equal only by chance
            return [different]
        return [different, divisible, *([ones] if self.name in _OF_ONES else [])]

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
        functions = self._functions.value if self._takes_functions() else None
        self._functions.returned.clear()
        reader = Reader(self._checker, self._classes, sizes, functions)
        function = self.callee(reader)
        if self.name in OPERATORS and any(is_axis(argument.type) for argument in self._arguments):
            raise UnknownType  # the declarations refuse an axis as a number
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        for argument in self._arguments:
            if argument.kind not in (ARG_POS, ARG_NAMED, ARG_STAR):
                raise UnknownType
            value = reader.value(argument.expression, argument.type)
            if argument.name is not None:
                keywords[argument.name] = value
            elif argument.kind == ARG_STAR:
                if not isinstance(value, tuple | list):
                    raise UnknownType
                positional.extend(value)
            else:
                positional.append(value)
        if not reader.leaves:
            raise UnknownType
        try:
            return reader, function(*positional, **keywords)
        except Exception as error:
            return reader, error

    def _written(self, reader: Reader, value: Any) -> Type:
        if reader.has_array and not isinstance(value, Elementwise):
            raise UnknownType
        return TypeWriter(self._plugin, self._checker, self._classes, reader.leaves, self._returned).result(value)

    @cached_property
    def _returned(self) -> frozenset[str]:
        """The names of the classes that the declarations return."""
        return frozenset(_classes_of(self._unbound()))

    def _unbound(self) -> Type:
        """Return the declared type, in which type variables of the receiver may stand."""
        return self.declared()

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
                found = type_of_call(self._checker, self.declared(), self._arguments, self._context.context)
            if self._functions.errors:  # what is wrong in a lambda for its operands is all there is to say
                self._checker.msg.add_errors(self._functions.errors)
                return found
            name = OPERATORS.get(self.name, self.name)
            wrong = of_other_kind(name, self.declared(), self._arguments) if errors.has_new_errors() else None
            if wrong is not None:
                self._checker.fail(wrong, self._context.context, code=CALL_OVERLOAD)
                return found
            shorten = partial(of_function, function=name)
            report(self._checker, errors.filtered_errors(), (self._of_axes, AXES), (shorten, None))
            return found
        except RuntimeError:  # mypy cannot expand `*Bs` by a union of known and unknown axes
            return unknown()

    def _of_axes(self, text: str) -> str | None:
        """Return mypy's message that operands do not fit each other by their axes; None for another message."""
        if not text.startswith("Cannot infer value"):
            return None
        return differing(self.name, self.declared(), self._arguments) or differing_counts(
            self.name, self.declared(), self._arguments
        )


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
            raise UnknownType from None
        return found

    def declared(self) -> Type:
        return member(self.name, self._receiver, self._context.context, self._checker)

    def _of_axes(self, text: str) -> str | None:
        if not text.startswith(("No overload variant", "Unsupported operand types")) or self.name not in OPERATORS:
            return None
        operands = [self._receiver, *(argument.type for argument in self._arguments)]
        symbol = OPERATORS[self.name]
        return None if symbol == "@" else unaligned(symbol, operands[::-1] if self.name in REFLECTED else operands)

    def _unbound(self) -> Type:
        symbol = self._receiver.type.get(self.name)
        # To bind seventeen overloads to a receiver takes mypy two milliseconds.
        return self.declared() if symbol is None or symbol.type is None else symbol.type


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
        return member("__call__", self._declared, self._context.context, self._checker)

    def of_own_op(self, declared: Type) -> Type:
        """Return the declared type of an op, with the axes of the node that the call builds where it has none."""
        try:
            found = self._built()
        except UnknownType:
            return declared
        if not isinstance(declared, Instance) or not isinstance(found, Instance):
            return declared
        return with_shape(declared, shape_of(found))


class TransformedCall(_Call):
    """A call of a function that `vmap(f)` or `jacobian(f)` makes."""

    def __init__(
        self, plugin: Plugin, classes: AxisClasses, text: Text, transform: CallExpr, context: MethodContext
    ) -> None:
        super().__init__(plugin, classes, text, context)
        assert isinstance(transform.callee, RefExpr)
        self.name: str = transform.callee.fullname.rpartition(".")[2]
        self._transform = transform

    def callee(self, reader: Reader) -> Callable[..., Any]:
        return self._functions.transformed(self._transform, reader)

    def declared(self) -> Type:
        return self._context.default_return_type

    def _takes_functions(self) -> bool:
        return True

    def _choices(self) -> list[Callable[[int], Sizes]]:
        return [lambda _: different(0, smallest=2)]  # a Jacobian has as many elements as two arrays by each other

    def _by_declarations(self) -> Type:
        self._checker.msg.add_errors(self._functions.errors)  # the declarations do not give a lambda its operands
        return self.declared()


def report_sizes(checker: TypeChecker, text: Text, context: Context) -> None:
    """Add an error where the text of a call tells that sizes do not fit."""
    failed = text.failure(context) if isinstance(context, Expression) else None
    if failed is not None:
        fail(checker, message_with_sizes(failed.called, failed.operands, failed.error), context, AXES)


def type_of_module_call(context: MethodContext, receiver: Instance, text: Text) -> Type:
    """Return the type of a call of a module as it is declared; an error about a node names its axes alone."""
    assert isinstance(context.api, TypeChecker)
    checker = context.api
    callee, arguments = member("__call__", receiver, context.context, checker), arguments_of(context)
    name = receiver.type.name
    if receiver.type.fullname == _LINEAR and [_is_array(each.type) for each in arguments] == [True]:
        proper = get_proper_type(callee)
        returned = get_proper_type(proper.ret_type) if isinstance(proper, CallableType) else None
        if isinstance(returned, Instance):
            return returned.copy_modified(args=[unknown() for _ in returned.args])
    with checker.msg.filter_errors(save_filtered_errors=True) as errors, without_context(checker):
        found = type_of_call(checker, callee, arguments, context.context, receiver)
    if errors.has_new_errors():
        wrong = misplaced(name, callee, arguments) or of_other_kind(name, callee, arguments)
        if wrong is not None:
            checker.fail(wrong, context.context, code=CALL_OVERLOAD)
            return found

    def of_two_axes(text: str) -> str | None:
        return differing(name, callee, arguments) if text.startswith("Cannot infer value") else None

    forms = (partial(of_module, module=name), AXES), (of_two_axes, AXES), (partial(of_function, function=name), None)
    report(checker, errors.filtered_errors(), *forms)
    if not errors.has_new_errors():
        report_sizes(checker, text, context.context)
    return found


def _is_array(type_: Type) -> bool:
    proper = get_proper_type(type_)
    return isinstance(proper, Instance) and proper.type.fullname == "numpy.ndarray"


def _has_times(axis: Axis) -> bool:
    """Return whether an axis is joined of others, or has such a part."""
    return isinstance(axis, Times) or (isinstance(axis, Plus) and any(map(_has_times, axis.parts)))


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
