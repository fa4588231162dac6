"""Nodes as types: the class of the op, those of its parents, and the axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mypy.maptype import map_instance_to_supertype
from mypy.nodes import TypeInfo
from mypy.plugin import CheckerPluginInterface, Plugin
from mypy.types import AnyType, Instance, NoneType, TupleType, Type, TypeOfAny, TypeVarType, get_proper_type
from mypy.typevars import fill_typevars

import wyrm as wy
from wyrm.graph.axes import Axis, Dim, Joined, MadeRagged, One, Pairs, Plus, Times
from wyrm.graph.base import BaseNode
from wyrm.mypy.reading import NODE, AxisClasses, UnknownType, base_of, shape_of


def unknown() -> AnyType:
    """Return `Any` for what is not known."""
    return AnyType(TypeOfAny.special_form)


class TypeWriter:
    """Turns a node that a call builds into a type.

    `leaves` are the operands with their types. `declared` are the names of the classes of nodes that the declarations
    promise: a node of another class is a `Node` of its axes, so that users may assign two such results to one variable.
    """

    def __init__(
        self,
        plugin: Plugin,
        checker: CheckerPluginInterface,
        classes: AxisClasses,
        leaves: Sequence[tuple[Any, Instance]],
        declared: frozenset[str],
    ) -> None:
        self._plugin, self._checker, self._classes, self._declared = plugin, checker, classes, declared
        self._leaves = {id(leaf): type_ for leaf, type_ in leaves}

    def result(self, node: Any) -> Type:
        """Return the type of what a call returns: a node, None, a tuple or a list of them; else raise `UnknownType`."""
        if node is None:
            return NoneType()
        if type(node) is tuple:
            return self._tuple([self.result(item) for item in node])
        if type(node) is list and node:
            first, *others = [self.result(item) for item in node]
            if any(other != first for other in others):
                raise UnknownType
            return self._checker.named_generic_type("builtins.list", [first])
        if not isinstance(node, BaseNode):
            raise UnknownType
        known = self._leaves.get(id(node))
        if known is not None:
            return known
        if _fullname(type(node)) in self._declared:
            return self._of_op(self._info(type(node)), node, parents=True)
        kind = wy.IndexNode if isinstance(node, wy.IndexNode) else wy.Node
        return self._of_op(self._info(kind), node, parents=False)

    def _of_op(self, info: TypeInfo, node: Any, parents: bool) -> Instance:
        """Return a type of the axes of a node, with the classes of its parents or `Any` for them."""
        classes, shape = _arguments_of_node(info)
        if not isinstance(shape, TypeVarType):
            raise UnknownType
        found: dict[object, Type] = {shape.id: self._tuple([self._axis(axis) for axis in node.dims])}
        if parents and isinstance(classes, TypeVarType):
            found[classes.id] = self._tuple([self._parent(parent) for parent in node.parents])
        elif parents and isinstance(classes, TupleType):
            for variable, parent in zip(map(get_proper_type, classes.items), node.parents, strict=False):
                if isinstance(variable, TypeVarType):
                    found[variable.id] = self._parent(parent)
        return Instance(info, [found.get(variable.id, unknown()) for variable in info.defn.type_vars])

    def _parent(self, node: Any) -> Type:
        """Return the type of a parent, whose own parents are not part of it: types do not grow with the graph."""
        known = self._leaves.get(id(node))
        if known is None:
            info = self._info(type(node))
            if node.is_leaf:  # made of a number
                return Instance(info, [unknown() for _ in info.defn.type_vars])
            # Axes that are joined into one have a name only as long as none of them has a size.
            joined = [i for i, axis in enumerate(node.dims) if isinstance(axis, Times)]
            return without_axes(self._of_op(info, node, parents=False), joined)
        classes, _ = _arguments_of_node(known.type)
        parts = map(get_proper_type, classes.items) if isinstance(classes, TupleType) else [classes]
        erased = {variable.id for variable in parts if isinstance(variable, TypeVarType)}
        if not erased:  # of any number of axes, as what is proved of a node is
            return known
        variables = known.type.defn.type_vars
        return known.copy_modified(
            args=[unknown() if v.id in erased else old for v, old in zip(variables, known.args, strict=True)]
        )

    def _axis(self, axis: Axis) -> Type:
        if isinstance(axis, One):
            return Instance(self._info(One), [])
        if isinstance(axis, Plus | Times) and len(axis.parts) == 2:
            return Instance(self._info(type(axis)), [self._axis(part) for part in axis.parts])
        if isinstance(axis, MadeRagged):
            kind = Joined if isinstance(axis, Joined) else Pairs
            return Instance(self._info(kind), [self._axis(part()) for part in axis.parts])
        found = self._classes.type_of(axis) if isinstance(axis, Dim) else None
        return unknown() if found is None else found

    def _tuple(self, items: list[Type]) -> TupleType:
        return TupleType(items, self._checker.named_generic_type("builtins.tuple", [unknown()]))

    def _info(self, kind: type) -> TypeInfo:
        found = self._plugin.lookup_fully_qualified(_fullname(kind))
        if found is None or not isinstance(found.node, TypeInfo):
            raise UnknownType
        return found.node


def without_axes(node: Type, positions: Sequence[int]) -> Type:
    """Return a type of nodes with `Any` in place of the axes at some positions."""
    if not positions or not isinstance(node, Instance):
        return node
    shape = shape_of(node)
    assert isinstance(shape, TupleType)
    items = [unknown() if i in positions else item for i, item in enumerate(shape.items)]
    other = shape.copy_modified(items=items)
    return node.copy_modified(args=[other if get_proper_type(each) == shape else each for each in node.args])


def with_shape(node: Instance, shape: Type) -> Instance:
    """Return a type of nodes with a shape in place of an unknown one."""
    _, own = _arguments_of_node(node.type)
    variables = [variable.id if isinstance(variable, TypeVarType) else None for variable in node.type.defn.type_vars]
    if not isinstance(own, TypeVarType) or own.id not in variables:
        return node
    position = variables.index(own.id)
    if not isinstance(get_proper_type(node.args[position]), AnyType):
        return node
    return node.copy_modified(args=[*node.args[:position], shape, *node.args[position + 1 :]])


def _fullname(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _arguments_of_node(info: TypeInfo) -> tuple[Type, Type]:
    """Return `Parents` and `Shape` of a class of nodes in terms of its own type parameters."""
    own, base = fill_typevars(info), base_of(info, NODE)
    assert isinstance(own, Instance) and base is not None
    parents, shape = map(get_proper_type, map_instance_to_supertype(own, base).args)
    return parents, shape
