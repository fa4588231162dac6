"""What types and text tell of layers: the axes between those of a `Sequential`, and parameters that they may lack."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import cast

from mypy.checker import TypeChecker
from mypy.maptype import map_instance_to_supertype
from mypy.nodes import ARG_NAMED, ARG_POS, CallExpr, Expression, MemberExpr, RefExpr, TypeInfo
from mypy.plugin import AttributeContext, FunctionContext
from mypy.subtypes import is_subtype
from mypy.types import Instance, NoneType, ProperType, Type, UnionType, get_proper_type

from wyrm.mypy.checking import arguments_of, without_context
from wyrm.mypy.messages import name_of_axis
from wyrm.mypy.reading import UnknownType, base_of
from wyrm.mypy.text import Text
from wyrm.mypy.writing import unknown

SEQUENTIAL = "wyrm.nn.layer.Sequential"
_LAYER, _POINTWISE = "wyrm.nn.layer.Layer", "wyrm.nn.layer.Pointwise"


def gap(context: FunctionContext) -> str | None:
    """Return a message about two layers of a `Sequential` of which the types say that they do not follow; else None."""
    assert isinstance(context.api, TypeChecker)
    before, known = "", cast(Type, unknown())
    for argument in arguments_of(context):
        layer = _alone(context.api, argument.expression)
        base = base_of(layer.type, _LAYER) if isinstance(layer, Instance) else None
        if base is None or argument.kind != ARG_POS or not isinstance(layer, Instance):
            known = unknown()
        elif base_of(layer.type, _POINTWISE) is None:
            taken, made = map(get_proper_type, map_instance_to_supertype(layer, base).args)
            if not is_subtype(known, taken):
                first, second = name_of_axis(get_proper_type(known)), name_of_axis(taken)
                return f"Sequential of {before} and {layer.type.name}: {first} against {second}"
            before, known = layer.type.name, made
    return None


def _alone(checker: TypeChecker, layer: Expression) -> ProperType:
    """Return the type of a layer by itself: what `Sequential` declares leaves the axes between layers unknown."""
    with checker.msg.filter_errors(), without_context(checker):
        return get_proper_type(checker.expr_checker.accept(layer))


def type_of_parameter(context: AttributeContext, text: Text) -> Type:
    """Return the type of a layer's parameter that it has or lacks by an option of its name, as `bias=False`."""
    declared, place = get_proper_type(context.default_attr_type), context.context
    if context.is_lvalue or not isinstance(declared, UnionType) or not isinstance(place, MemberExpr):
        return context.default_attr_type
    is_given = _is_given(place, text)
    if is_given is None:
        return context.default_attr_type
    return UnionType.make_union([part for part in declared.items if _is_none(part) != is_given])


def _is_given(place: MemberExpr, text: Text) -> bool | None:
    """Return whether the text makes a layer with a parameter, or without it; None where it does not tell."""
    try:
        return getattr(text.value(place.expr), place.name, None) is not None
    except UnknownType:
        made = text.assigned(place.expr)
    if not isinstance(made, CallExpr) or any(kind not in (ARG_POS, ARG_NAMED) for kind in made.arg_kinds):
        return None
    kind = made.callee.node if isinstance(made.callee, RefExpr) else None
    if not isinstance(kind, TypeInfo) or not kind.fullname.startswith("wyrm.nn."):
        return None
    option = inspect.signature(getattr(import_module(kind.module_name), kind.name)).parameters.get(place.name)
    if option is None or option.kind is not option.KEYWORD_ONLY or not isinstance(option.default, bool):
        return None
    if place.name not in made.arg_names:
        return option.default
    given = made.args[made.arg_names.index(place.name)]
    words = {"builtins.True": True, "builtins.False": False}
    return words.get(given.fullname) if isinstance(given, RefExpr) else None


def _is_none(type_: Type) -> bool:
    return isinstance(get_proper_type(type_), NoneType)
