"""What is wrong with the arguments of a call, told by the declarations of what is called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mypy.nodes import ARG_POS, AssignmentStmt, ClassDef, Expression, ListExpr, NameExpr, StrExpr, TupleExpr, TypeInfo
from mypy.types import (
    AnyType,
    CallableType,
    Instance,
    Overloaded,
    ProperType,
    TupleType,
    Type,
    TypeVarTupleType,
    TypeVarType,
    UnionType,
    UnpackType,
    get_proper_type,
)

from wyrm.mypy.checking import CheckedArgument
from wyrm.mypy.messages import axes_of, name_of_axis
from wyrm.mypy.reading import FLOAT_NODE, INDEX_NODE, base_of, is_node, shape_of
from wyrm.support.texts import nearest


def misplaced(name: str, callee: Type, arguments: Sequence[CheckedArgument]) -> str | None:
    """Return a message about arguments by position that an overloaded callee takes by name; None for none."""
    given = sum(argument.kind == ARG_POS for argument in arguments)
    by_position, by_name = list[str](), list[str]()
    for item in _overloads(callee):
        for declared, kind in zip(item.arg_names, item.arg_kinds, strict=True):
            if kind.is_star():
                return None
            found = by_position if kind.is_positional() else by_name
            if declared is not None and declared not in found:
                found.append(declared)
    if not by_name or given <= len(by_position):
        return None
    named = ", ".join(f"{each}=" for each in by_name)
    return f"{name} takes {' and '.join(by_position)} by position, not {given} arguments; {named} by name"


def of_other_kind(name: str, callee: Type, arguments: Sequence[CheckedArgument]) -> str | None:
    """Return a message about nodes of floats where the callee takes integers, or the reverse; None for none."""
    fitting = [kinds for item in _overloads(callee) if (kinds := _declared_types(item, arguments)) is not None]
    for i, argument in enumerate(arguments):
        given = get_proper_type(argument.type)
        if not is_node(given) or not fitting:
            continue
        kind, other = (INDEX_NODE, FLOAT_NODE) if _has_base(given, INDEX_NODE) else (FLOAT_NODE, INDEX_NODE)
        nodes = [[item for item in _tuple_items(declared[i]) if is_node(item)] for declared in fitting]
        if all(any(_has_base(item, other) for item in items) for items in nodes) and not any(
            _has_base(item, kind) for items in nodes for item in items
        ):
            words = ("integers", "floats") if kind == INDEX_NODE else ("floats", "integers")
            position = f"argument {i + 1}" if argument.name is None else f"{argument.name}="
            return f"{name}: {position} holds {words[0]}, expected {words[1]}"
    return None


def differing(name: str, callee: Type, arguments: Sequence[CheckedArgument]) -> str | None:
    """Return a message about two axes of the arguments that the declarations give one name; None for none."""
    for item in _overloads(callee):
        seen: dict[str, str] = {}
        for declared, argument in zip(_declared_types(item, arguments) or (), arguments, strict=False):
            for variable, axis in _axes_of_variables(declared, argument.type):
                if seen.setdefault(variable, axis) != axis:
                    return f"{name} of {_shapes(arguments)}: {seen[variable]} against {axis}"
    return None


def differing_counts(name: str, callee: Type, arguments: Sequence[CheckedArgument]) -> str | None:
    """Return a message about arguments that are to have the same axes and have another number of them; else None."""
    for item in _overloads(callee):
        seen: dict[str, int] = {}
        for declared, argument in zip(_declared_types(item, arguments) or (), arguments, strict=False):
            given = get_proper_type(argument.type)
            shape = shape_of(given) if isinstance(given, Instance) and is_node(given) else None
            of = next(filter(None, map(_all_axes, _tuple_items(declared))), None)
            if of is None or not isinstance(shape, TupleType) or any(isinstance(x, UnpackType) for x in shape.items):
                continue
            if seen.setdefault(of, len(shape.items)) != len(shape.items):
                return f"{name} of {_shapes(arguments)}: {_number_of_axes(seen[of])} against {len(shape.items)}"
    return None


def unaligned(name: str, operands: Sequence[Type]) -> str | None:
    """Return a message about the first two axes of two nodes that do not broadcast; None for none."""
    nodes = [node for each in operands if is_node(node := get_proper_type(each)) and isinstance(node, Instance)]
    shapes = [list(map(get_proper_type, shape.items)) for shape in map(shape_of, nodes) if isinstance(shape, TupleType)]
    if len(shapes) != 2 or any(isinstance(axis, UnpackType) for axis in (*shapes[0], *shapes[1])):
        return None
    common = min(map(len, shapes))
    for left, right in zip(*(shape[len(shape) - common :] for shape in shapes), strict=True):
        if left != right and not (_stretches(left) or _stretches(right)):
            axes = " and ".join(map(axes_of, nodes))
            return f"{name} of {axes}: {name_of_axis(left)} against {name_of_axis(right)}"
    return None


def _stretches(axis: ProperType) -> bool:
    """Return whether an axis may have the size 1, for which it fits any other."""
    return isinstance(axis, AnyType) or (isinstance(axis, Instance) and axis.type.name == "One")


def without_slot(op: TypeInfo, arguments: Sequence[CheckedArgument]) -> str | None:
    """Return a message about a keyword that is none of the `__slots__` of an op of users; None for none."""
    slots = _slots(op)
    names = [argument.name for argument in arguments if argument.name not in (None, "x", "y")]
    unknown = next((name for name in names if slots is not None and name not in slots), None)
    if slots is None or unknown is None:
        return None
    instead = nearest(unknown, slots) or (f": it has {', '.join(slots)}" if slots else ": its __slots__ are empty")
    return f"{op.name} has no attribute {unknown!r}{instead}"


def keep_slots(definition: ClassDef) -> None:
    """Note the `__slots__` of an op of users, if they are literals, where mypy's cache keeps them.

    A class with an `__init__` says by that what it takes.
    """
    if "__init__" in definition.info.names:
        return
    found: list[str] = []
    for statement in definition.defs.body:
        if isinstance(statement, AssignmentStmt) and "__slots__" in map(_target_name, statement.lvalues):
            value = statement.rvalue
            items = value.items if isinstance(value, TupleExpr | ListExpr) else [value]
            if not all(isinstance(item, StrExpr) for item in items):
                return
            found += [item.value for item in items if isinstance(item, StrExpr)]
    definition.info.metadata["wyrm"] = {"slots": found}


def _shapes(arguments: Sequence[CheckedArgument]) -> str:
    """Return the axes of the nodes among arguments."""
    nodes = [node for each in arguments if is_node(node := get_proper_type(each.type))]
    return " and ".join(axes_of(node) for node in nodes if isinstance(node, Instance))


def _number_of_axes(axes: int) -> str:
    return f"{axes} {'axis' if axes == 1 else 'axes'}"


def _all_axes(declared: ProperType) -> str | None:
    """Return the name of the type variable that stands for all axes of a declared node; None for another type."""
    shape = shape_of(declared) if isinstance(declared, Instance) and is_node(declared) else None
    if not isinstance(shape, TupleType) or len(shape.items) != 1 or not isinstance(shape.items[0], UnpackType):
        return None
    variable = get_proper_type(shape.items[0].type)
    return variable.name if isinstance(variable, TypeVarTupleType) else None


def _slots(op: TypeInfo) -> list[str] | None:
    """Return the names in `__slots__` of a class and its bases outside of wyrm; None where one is not known."""
    found: list[str] = []
    for info in op.mro:
        if info.fullname.startswith("wyrm."):
            return found
        if "wyrm" not in info.metadata:
            return None
        found += info.metadata["wyrm"]["slots"]
    return found


def _target_name(target: Expression) -> str | None:
    return target.name if isinstance(target, NameExpr) else None


def _overloads(callee: Type) -> list[CallableType]:
    proper = get_proper_type(callee)
    if isinstance(proper, Overloaded):
        return proper.items
    return [proper] if isinstance(proper, CallableType) else []


def _declared_types(item: CallableType, arguments: Sequence[CheckedArgument]) -> list[Type] | None:
    """Return the declared types of arguments; None if the callee takes no such arguments."""
    found: list[Type] = []
    for position, argument in enumerate(arguments):
        formal = (
            item.argument_by_position(position)
            if argument.kind == ARG_POS
            else None
            if argument.name is None
            else item.argument_by_name(argument.name)
        )
        if formal is None:
            return None
        found.append(formal.typ)
    return found


def _tuple_items(type_: Type) -> Sequence[ProperType]:
    proper = get_proper_type(type_)
    return [get_proper_type(item) for item in proper.items] if isinstance(proper, UnionType) else [proper]


def _has_base(type_: Type, base: str) -> bool:
    proper = get_proper_type(type_)
    return isinstance(proper, Instance) and base_of(proper.type, base) is not None


def _axes_of_variables(declared: Type, given: Type) -> Iterator[tuple[str, str]]:
    """Yield the type variables for axes of a declared node, each with the axis of the node that is given."""
    proper = get_proper_type(given)
    for item in map(get_proper_type, _tuple_items(declared)):
        if not (isinstance(item, Instance) and isinstance(proper, Instance) and is_node(item) and is_node(proper)):
            continue
        shapes = shape_of(item), shape_of(proper)
        axes = [shape.items for shape in shapes if isinstance(shape, TupleType)]
        if len(axes) != 2 or len(axes[0]) != len(axes[1]) or any(isinstance(each, UnpackType) for each in axes[0]):
            continue
        for variable, axis in zip(*(map(get_proper_type, items) for items in axes), strict=True):
            if isinstance(variable, TypeVarType) and isinstance(axis, Instance | TypeVarType):
                yield variable.name, name_of_axis(axis)
