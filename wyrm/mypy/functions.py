"""Functions among the arguments of a call: mypy gives the types of what they return, and they return such nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mypy.checker import TypeChecker
from mypy.errors import ErrorInfo
from mypy.nodes import ARG_NAMED, ARG_POS, CallExpr, Expression, LambdaExpr, RefExpr, TempNode
from mypy.plugin import Plugin
from mypy.types import CallableType, Instance, NoneType, Overloaded, ProperType, TupleType, Type, get_proper_type

import wyrm as wy
from wyrm.mypy.messages import AXES
from wyrm.mypy.reading import AxisClasses, Reader, UnknownType, is_axis, is_node
from wyrm.mypy.text import Text
from wyrm.mypy.writing import TypeWriter, unknown

# Functions that turn a function of nodes into another one.
_TRANSFORMS = frozenset(
    {"wyrm.functions.mapping.vmap", "wyrm.functions.transforms.hessian", "wyrm.functions.transforms.jacobian"}
)


def transform_of(expression: Expression, text: Text) -> CallExpr | None:
    """Return the call that makes a function of another one, as `vmap(f)`; None for another expression."""
    found = text.assigned(expression)
    if isinstance(found, CallExpr) and isinstance(found.callee, RefExpr) and found.callee.fullname in _TRANSFORMS:
        return found
    return None


class FunctionArguments:
    """The functions among the arguments of one call, as functions of nodes."""

    def __init__(self, plugin: Plugin, checker: TypeChecker, classes: AxisClasses, text: Text) -> None:
        self._plugin, self._checker, self._classes, self._text = plugin, checker, classes, text
        self._results: dict[tuple[Expression, str], Type | None] = {}
        # The types that functions returned, in the order of the calls.
        self.returned: list[Type] = []
        # What is wrong in the bodies of lambdas for the operands that they get.
        self.errors: list[ErrorInfo] = []

    def value(self, expression: Expression, type_: Type, reader: Reader) -> Callable[..., Any] | None:
        """Return the function that an argument is; None for another argument."""
        transform = transform_of(expression, self._text)
        if transform is not None:
            return self.transformed(transform, reader)
        if not isinstance(expression, LambdaExpr) and not _is_function(get_proper_type(type_)):
            return None

        def called(*operands: Any) -> Any:
            writer = TypeWriter(self._plugin, self._checker, self._classes, (), frozenset())
            result = self._result(expression, list(map(writer.result, operands)))
            self.returned.append(result)
            return _made(result, list(_nodes_in(operands)), reader)

        return called

    def transformed(self, transform: CallExpr, reader: Reader) -> Callable[..., Any]:
        """Return the function that `vmap(f)` makes."""
        if any(kind not in (ARG_POS, ARG_NAMED) for kind in transform.arg_kinds):
            raise UnknownType
        assert isinstance(transform.callee, RefExpr)
        pairs = zip(transform.arg_names, transform.args, strict=True)
        values = [(name, reader.value(argument, self._checker.lookup_type(argument))) for name, argument in pairs]
        positional = [value for name, value in values if name is None]
        named = {name: value for name, value in values if name is not None}
        made: Callable[..., Any] = getattr(wy, transform.callee.fullname.rpartition(".")[2])(*positional, **named)
        return made

    def _result(self, expression: Expression, operands: Sequence[Type]) -> Type:
        """Return the type of what a function returns for operands of these types."""
        key = expression, str(operands)
        if key not in self._results:
            with self._checker.msg.filter_errors(save_filtered_errors=True) as errors:
                found = self._returned_for(expression, operands)
            said = errors.filtered_errors()
            fits = all(each.severity != "error" for each in said)
            self._results[key] = found if fits else None
            if fits:
                self._checker.msg.add_errors(said)
            elif isinstance(expression, LambdaExpr):
                self.errors.extend(each for each in said if each.code is AXES)
        known = self._results[key]
        if known is None:
            raise UnknownType
        return known

    def _returned_for(self, function: Expression, operands: Sequence[Type]) -> Type:
        kinds, names = [ARG_POS for _ in operands], [None for _ in operands]
        if isinstance(function, LambdaExpr):
            fallback = self._checker.named_type("builtins.function")
            context = CallableType(operands, kinds, names, unknown(), fallback)
            found = get_proper_type(self._checker.expr_checker.accept(function, context))
            return found.ret_type if isinstance(found, CallableType) else unknown()
        call = CallExpr(function, [TempNode(each, context=function) for each in operands], kinds, list(names))
        call.set_line(function)
        return self._checker.expr_checker.accept(call)


def _is_function(type_: ProperType) -> bool:
    if isinstance(type_, Instance):
        return type_.type.get("__call__") is not None and not is_node(type_) and not is_axis(type_)
    return isinstance(type_, Overloaded) or (isinstance(type_, CallableType) and not type_.is_type_obj())


def _nodes_in(values: Any) -> Any:
    """Yield the nodes in nested tuples."""
    for value in values:
        if isinstance(value, tuple):
            yield from _nodes_in(value)
        elif value is not None:
            yield value


def _made(type_: Type, operands: Sequence[Any], reader: Reader) -> Any:
    """Return a node of a type, or a tuple of nodes, that depends on all operands of floats."""
    proper = get_proper_type(type_)
    if isinstance(proper, NoneType):
        return None
    if isinstance(proper, TupleType):
        return tuple(_made(item, operands, reader) for item in proper.items)
    if not isinstance(proper, Instance) or not is_node(proper):
        raise UnknownType
    value = reader.result(proper)
    for operand in operands:
        if operand.dtype.kind == "f":
            total = operand.sum()
            value = value + total if value.dtype.kind == "f" else wy.where(total > 0.0, value, value)
    return value
