"""What nodes with rows of different lengths give: a `RaggedArray`, where their declarations say an array."""

from __future__ import annotations

from mypy.checker import TypeChecker
from mypy.nodes import Expression, ListExpr, TupleExpr, TypeInfo
from mypy.plugin import AttributeContext, FunctionContext, MethodContext
from mypy.types import Instance, TupleType, Type, UnionType, get_proper_type

from wyrm.mypy.checking import arguments_of
from wyrm.mypy.reading import RAGGED, base_of, is_node, shape_of

VALUE, ROWS = "wyrm.graph.values.Node.value", "wyrm.graph.ragged.RaggedArray"


def type_of_value(rows: TypeInfo, context: AttributeContext | MethodContext) -> Type:
    """Return the type of a node's value: that of `rows`, if it has some along an axis of different lengths."""
    declared = context.default_attr_type if isinstance(context, AttributeContext) else context.default_return_type
    return Instance(rows, [declared]) if _has_rows(context.type) else declared


def type_of_program(rows: TypeInfo, context: FunctionContext) -> Type:
    """Return the type of a program, whose calls return `rows` for outputs with an axis of different lengths."""
    program, checker = get_proper_type(context.default_return_type), context.api
    assert isinstance(checker, TypeChecker)
    if not isinstance(program, Instance) or not program.args:
        return program
    given = next((each for each in arguments_of(context) if each.name in (None, "outputs")), None)
    if given is None:
        return program
    found, *others = program.args
    several, result = _items(given.expression), get_proper_type(found)
    if several and isinstance(result, Instance) and result.type.fullname == "builtins.list":
        kinds = {_has_rows(checker.lookup_type(each)) for each in several if checker.has_type(each)}
        (item,) = result.args
        both = UnionType.make_union([item, Instance(rows, [item])])
        items = {frozenset({True}): Instance(rows, [item]), frozenset({True, False}): both}
        found = result.copy_modified(args=[items.get(frozenset(kinds), item)])
    elif _has_rows(given.type):
        found = Instance(rows, [found])
    return program.copy_modified(args=[found, *others])


def _items(expression: Expression) -> list[Expression]:
    return expression.items if isinstance(expression, ListExpr | TupleExpr) else []


def _has_rows(type_: Type) -> bool:
    """Return whether values of a type are nodes whose second axis has another length in each row."""
    node = get_proper_type(type_)
    shape = shape_of(node) if isinstance(node, Instance) and is_node(node) else None
    axis = get_proper_type(shape.items[1]) if isinstance(shape, TupleType) and len(shape.items) > 1 else None
    return isinstance(axis, Instance) and base_of(axis.type, RAGGED) is not None
