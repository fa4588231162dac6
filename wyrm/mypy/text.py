"""What the text of a file tells that types do not: the sizes of axes, and the settings of layers.

A size is known where a number, an axis, a leaf or a layer of wyrm is made of numbers, and where a variable or an
attribute that is assigned once holds one. Calls of such layers and nodes are run, so that an error is one of the run
time too: `Linear(145, 3)` of what `Flatten` makes of 4 maps of 6 by 6. Arguments of functions have no known value, nor
has what a class body assigns without `Final`, nor a list that something may change.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np
from mypy.nodes import (
    ARG_NAMED,
    ARG_POS,
    ARG_STAR,
    AssignmentExpr,
    AssignmentStmt,
    CallExpr,
    ClassDef,
    ComparisonExpr,
    EllipsisExpr,
    Expression,
    FloatExpr,
    FuncItem,
    IndexExpr,
    IntExpr,
    ListExpr,
    MemberExpr,
    MypyFile,
    NameExpr,
    Node,
    OpExpr,
    RefExpr,
    SliceExpr,
    StarExpr,
    StrExpr,
    SymbolNode,
    TupleExpr,
    TypeInfo,
    UnaryExpr,
    Var,
)
from mypy.types import Instance, Type, get_proper_type

import wyrm as wy
from wyrm.errors import ShapeError
from wyrm.graph.axes import One
from wyrm.graph.base import BaseNode
from wyrm.mypy.reading import DIM, AxisClasses, AxisReader, UnknownType, base_of, is_node
from wyrm.mypy.writing import unknown
from wyrm.nn import Module, Sequential

# Leaves and layers that are made where their arguments are known; the largest product of numbers among these.
_LEAVES = ("wyrm.graph.leaves.", "wyrm.graph.index_leaves.", "wyrm.graph.parameters.")
_LAYERS = "wyrm.nn."
_LARGEST = 1_500_000
# The sizes of a layer's parameters that are tried as those of its operand, and errors that are about sizes alone.
_CHOICES = 12
# The numbers of axes that leaves have where a layer's operand is not known; errors show the first.
_COUNTS = (2, 1, 3, 4, 5)
_SIZES = re.compile(r"(?<![\w(])\d+ against \d+(?:;|$)|\.squeeze\(")
_CONSTANTS = {"builtins.True": True, "builtins.False": False, "builtins.None": None}
_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul, ">>": operator.rshift, "&": operator.and_,
    "|": operator.or_, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
# Operators that do not broadcast all axes.
_PRODUCTS = frozenset({"@", ">>"})
# The attributes of statements and expressions that hold their parts; classes of mypy cannot be visited otherwise.
_PARTS: Mapping[str, tuple[str, ...]] = {
    "Block": ("body",), "ClassDef": ("decorators", "base_type_exprs", "defs"), "Decorator": ("decorators", "func"),
    "OverloadedFuncDef": ("items", "impl"), "FuncDef": ("arguments", "body"), "LambdaExpr": ("arguments", "body"),
    "Argument": ("initializer",),
    "AssignmentStmt": ("lvalues", "rvalue"), "OperatorAssignmentStmt": ("lvalue", "rvalue"),
    "ExpressionStmt": ("expr",), "ReturnStmt": ("expr",), "AssertStmt": ("expr", "msg"), "DelStmt": ("expr",),
    "RaiseStmt": ("expr", "from_expr"), "IfStmt": ("expr", "body", "else_body"),
    "WhileStmt": ("expr", "body", "else_body"), "ForStmt": ("index", "expr", "body", "else_body"),
    "WithStmt": ("expr", "target", "body"),
    "TryStmt": ("body", "types", "vars", "handlers", "else_body", "finally_body"),
    "MatchStmt": ("subject", "patterns", "guards", "bodies"),
    "AsPattern": ("pattern",), "OrPattern": ("patterns",), "ValuePattern": ("expr",), "SequencePattern": ("patterns",),
    "MappingPattern": ("keys", "values"), "ClassPattern": ("class_ref", "positionals", "keyword_values"),
    "MemberExpr": ("expr",), "CallExpr": ("callee", "args"), "IndexExpr": ("base", "index"),
    "SliceExpr": ("begin_index", "end_index", "stride"), "OpExpr": ("left", "right"), "ComparisonExpr": ("operands",),
    "UnaryExpr": ("expr",), "StarExpr": ("expr",), "AwaitExpr": ("expr",), "YieldExpr": ("expr",),
    "YieldFromExpr": ("expr",), "CastExpr": ("expr",), "AssertTypeExpr": ("expr",), "RevealExpr": ("expr",),
    "SuperExpr": ("call",), "AssignmentExpr": ("target", "value"), "ListExpr": ("items",), "TupleExpr": ("items",),
    "SetExpr": ("items",), "DictExpr": ("items",), "ConditionalExpr": ("cond", "if_expr", "else_expr"),
    "GeneratorExpr": ("sequences", "indices", "condlists", "left_expr"), "ListComprehension": ("generator",),
    "SetComprehension": ("generator",),
    "DictionaryComprehension": ("sequences", "indices", "condlists", "key", "value"),
}  # fmt: skip
# Those of them that are assigned something of which the text does not tell the value, and those that are only read.
_TARGETS: Mapping[str, tuple[str, ...]] = {
    "OperatorAssignmentStmt": ("lvalue",), "DelStmt": ("expr",), "ForStmt": ("index",), "WithStmt": ("target",),
    "TryStmt": ("vars",), "GeneratorExpr": ("indices",), "DictionaryComprehension": ("indices",),
    "AsPattern": ("name",), "StarredPattern": ("capture",), "MappingPattern": ("rest",),
}  # fmt: skip
_READS: Mapping[str, tuple[str, ...]] = {
    "ForStmt": ("expr",), "GeneratorExpr": ("sequences",), "DictionaryComprehension": ("sequences",),
    "IndexExpr": ("base",), "StarExpr": ("expr",), "ComparisonExpr": ("operands",), "RevealExpr": ("expr",),
}  # fmt: skip
# What changes no list that it gets: wyrm, some builtins, and methods of nodes.
_READERS = (
    "wyrm.",
    *(f"builtins.{each}" for each in ("enumerate", "len", "list", "range", "reversed", "tuple", "zip")),
)
_READING = frozenset({"broadcast_to", "permute", "reshape", "transpose"})
# Attributes of nodes and axes.
_ATTRIBUTES = frozenset({"T", "dims", "mT", "ndim", "shape", "size"})


class Failed(Exception):
    """What the text of a file tells that a call raises: the error, what raises it, and its operands."""

    def __init__(self, called: Any, operands: Sequence[BaseNode], error: ShapeError) -> None:
        super().__init__(str(error))
        self.called = called
        self.operands = operands
        self.error = error


class _Assignments:
    """What the variables and attributes of a file are assigned; None for one that is assigned otherwise or twice.

    What a class body assigns is a default, which instances and subclasses may replace, unless it is `Final`.
    """

    def __init__(self, file: MypyFile) -> None:
        self.values: dict[object, Expression | None] = {}
        # Variables that are used otherwise than by reading: a list that one of these holds may be changed.
        self.shared: set[object] = set()
        # Names that are only read where they stand.
        self._reads: set[object] = set()
        seen: set[Node] = set()
        pending: list[tuple[Any, TypeInfo | None]] = [(file.defs, None)]
        while pending:
            part, owner = pending.pop()
            if isinstance(part, list | tuple):
                pending.extend((each, owner) for each in part)
            elif isinstance(part, Node) and part not in seen:
                seen.add(part)
                self._visit(part, owner)
                inside = part.info if isinstance(part, ClassDef) else None if isinstance(part, FuncItem) else owner
                pending.extend((getattr(part, name), inside) for name in _PARTS.get(type(part).__name__, ()))

    def _visit(self, part: Node, owner: TypeInfo | None) -> None:
        """Note what a statement or an expression assigns and reads; `owner` is the class whose body it stands in."""
        if isinstance(part, AssignmentStmt):
            for target in part.lvalues:
                self._assigned_by(target, part.rvalue, owner)
        elif isinstance(part, AssignmentExpr):
            self._assigned(part.target, part.value)
        elif isinstance(part, FuncItem):
            for argument in part.arguments:
                self.values[argument.variable] = None
        elif isinstance(part, NameExpr):
            if part not in self._reads:
                self.shared.add(part.node)
        elif isinstance(part, OpExpr):
            if part.op not in ("and", "or"):  # which return an operand itself
                self._reads.update((part.left, part.right))
        elif isinstance(part, CallExpr):
            self._reads.update(_read_by(part))
        for name in _READS.get(type(part).__name__, ()):
            self._reads.update(_listed(getattr(part, name)))
        for name in _TARGETS.get(type(part).__name__, ()):
            for target in _listed(getattr(part, name)):
                self._assigned(target, None)

    def _assigned_by(self, target: Expression, value: Expression, owner: TypeInfo | None) -> None:
        if isinstance(target, TupleExpr) and isinstance(value, TupleExpr) and len(target.items) == len(value.items):
            for part, each in zip(target.items, value.items, strict=True):
                self._assigned_by(part, each, owner)
        else:
            self._assigned(target, value if owner is None or _is_constant(target, owner) else None)

    def _assigned(self, target: Node | None, value: Expression | None) -> None:
        if isinstance(target, TupleExpr | ListExpr):
            for part in target.items:
                self._assigned(part, None)
        elif isinstance(target, StarExpr):
            self._assigned(target.expr, None)
        elif isinstance(target, NameExpr) and target.node is not None:
            self._reads.add(target)
            self._set(target.node, value)
        elif isinstance(target, MemberExpr):
            # An attribute that is set from outside of its class is known by its name alone.
            self._set(target.name if target.def_var is None else target.def_var, value)
            self._changed(target.expr)
        elif isinstance(target, IndexExpr):
            self._changed(target.base)

    def _changed(self, owner: Expression) -> None:
        """Note that what a variable or an attribute holds is changed, unless it is `self`."""
        if isinstance(owner, IndexExpr):
            self._changed(owner.base)
        elif isinstance(owner, MemberExpr):
            self.values[owner.name] = None
        elif isinstance(owner, NameExpr) and not _is_self(owner):
            self.values[owner.node] = None

    def _set(self, key: object, value: Expression | None) -> None:
        self.values[key] = None if key in self.values else value


def _listed(found: Any) -> list[Any]:
    return list(found) if isinstance(found, list | tuple) else [found]


def _read_by(call: CallExpr) -> Iterator[Expression]:
    """Yield the arguments of a call that the callee does not change or keep."""
    callee = call.callee
    reads_all = (isinstance(callee, RefExpr) and callee.fullname.startswith(_READERS)) or (
        isinstance(callee, MemberExpr) and callee.name in _READING
    )
    for argument, kind in zip(call.args, call.arg_kinds, strict=True):
        if reads_all or kind == ARG_STAR:
            yield argument


def _is_self(expression: NameExpr) -> bool:
    return isinstance(expression.node, Var) and expression.node.is_self


def _is_of_self(expression: MemberExpr) -> bool:
    return isinstance(expression.expr, NameExpr) and _is_self(expression.expr)


def _is_constant(target: Expression, owner: TypeInfo) -> bool:
    """Return whether what a class body assigns a name is its value in all instances: fields have other ones."""
    constructor = owner.get("__init__")
    has_fields = owner.is_named_tuple or owner.is_enum or (constructor is not None and constructor.plugin_generated)
    variable = target.node if isinstance(target, NameExpr) else None
    return isinstance(variable, Var) and variable.is_final and not has_fields


class Text:
    """The values of the expressions of one file, as far as its text tells them."""

    def __init__(
        self,
        file: MypyFile,
        type_of: Callable[[Expression], Type],
        classes: AxisClasses,
        function: Callable[[str], Any],
        methods: frozenset[str],
    ) -> None:
        assignments = _Assignments(file)
        self._assignments: dict[object, Expression | None] = assignments.values
        self._shared: set[object] = assignments.shared
        self._type_of = type_of
        self._classes, self._function, self._methods = classes, function, methods
        self._values: dict[Expression, Any] = {}
        # Nodes made of operands of which not all sizes are known, by their identities.
        self._guessed: dict[int, BaseNode] = {}

    def failure(self, expression: Expression) -> Failed | None:
        """Return what an expression raises at run time, by the text; None for no error and for no known value."""
        with suppress(UnknownType):
            self.value(expression)
        found = self._values.get(expression)
        return found if isinstance(found, Failed) else None

    def value(self, expression: Expression) -> Any:
        """Return the value of an expression; raise `UnknownType` for one that is not known."""
        if expression not in self._values:
            self._values[expression] = UnknownType()  # also while it is computed: it may be part of itself
            try:
                self._values[expression] = self._computed(expression)
            except UnknownType:
                pass
            except Failed as failed:
                self._values[expression] = failed
        found = self._values[expression]
        if isinstance(found, UnknownType | Failed):
            raise UnknownType
        return found

    def _computed(self, expression: Expression) -> Any:
        if isinstance(expression, IntExpr | FloatExpr | StrExpr):
            return expression.value
        if isinstance(expression, EllipsisExpr):
            return ...
        if isinstance(expression, TupleExpr | ListExpr):
            kind = tuple if isinstance(expression, TupleExpr) else list
            return kind(self.value(item) for item in expression.items)
        if isinstance(expression, SliceExpr):
            ends = (expression.begin_index, expression.end_index, expression.stride)
            return slice(*(None if end is None else self.value(end) for end in ends))
        if isinstance(expression, CallExpr):
            return self._value_of_call(expression)
        if isinstance(expression, UnaryExpr) and expression.op == "-":
            return self._run(operator.neg, self.value(expression.expr))
        if isinstance(expression, OpExpr) and expression.op in _OPERATORS:
            return self._operated(expression.op, expression.left, expression.right)
        if isinstance(expression, ComparisonExpr) and len(expression.operators) == 1:
            return self._operated(expression.operators[0], *expression.operands)
        if isinstance(expression, IndexExpr):
            return self._run(operator.getitem, self.value(expression.base), self.value(expression.index))
        if isinstance(expression, RefExpr):
            return self._referred(expression)
        raise UnknownType

    def _operated(self, symbol: str, left: Expression, right: Expression) -> Any:
        """Return the result of an operator; a node of which the text tells nothing has the axes of its type."""
        function = _OPERATORS.get(symbol)
        known = [self._owner(each) for each in (left, right)]
        nodes = [each for each in known if isinstance(each, BaseNode)]
        if symbol not in _PRODUCTS and len(nodes) == 1 and 1 in nodes[0].shape:
            pairs = zip((left, right), known, strict=True)
            known = [self._of_type(each) if found is None else found for each, found in pairs]
        if function is None or any(each is None for each in known):
            raise UnknownType
        return self._run(function, *known)

    def _of_type(self, expression: Expression) -> BaseNode:
        """Return a leaf with the axes of the type of a node."""
        leaf: wy.Node = wy.Input(dims=self._axes(expression))
        self._guessed[id(leaf)] = leaf
        return leaf

    def _axes(self, expression: Expression) -> Any:
        """Return the axes of the type of a node, those without a name each another one."""
        type_ = get_proper_type(self._type_of(expression))
        if not is_node(type_):
            raise UnknownType
        assert isinstance(type_, Instance)
        return AxisReader(self._classes).dims(type_)

    def _referred(self, expression: RefExpr) -> Any:
        if expression.fullname in _CONSTANTS:
            return _CONSTANTS[expression.fullname]
        if isinstance(expression.node, TypeInfo):
            return self._class(expression.node)
        function = self._function(expression.fullname) if expression.fullname else None
        if function is not None:
            return function
        if expression.node is None and isinstance(expression, MemberExpr):
            return self._attribute(expression)
        return self._assigned(expression.node)

    def assigned(self, expression: Expression) -> Expression:
        """Return what a variable or attribute holds that is assigned once; any other expression as it is."""
        key = expression.node if isinstance(expression, NameExpr) else None
        if isinstance(expression, MemberExpr) and _is_of_self(expression):
            key = self._of_self(expression)
        found = self._assignments.get(key)
        return expression if found is None else found

    def _of_self(self, expression: MemberExpr) -> SymbolNode | None:
        """Return the attribute of `self` that an expression names; None for one that other code assigns too."""
        assert isinstance(expression.expr, NameExpr) and isinstance(expression.expr.node, Var)
        type_: Type | None = expression.expr.node.type
        proper = get_proper_type(type_)
        if not isinstance(proper, Instance) or expression.name in self._assignments:
            return None
        symbol = proper.type.get(expression.name)
        return None if symbol is None else symbol.node

    def _assigned(self, variable: object) -> Any:
        value = self._assignments.get(variable)
        if value is None:
            raise UnknownType
        found = self.value(value)
        if variable in self._shared and _has_list(found):
            raise UnknownType  # it may be changed
        return found

    def _attribute(self, expression: MemberExpr) -> Any:
        if _is_of_self(expression):
            found = self._assigned(self._of_self(expression))
            if not _has_list(found):  # other files may change that of an attribute
                return found
            raise UnknownType
        value = self.value(expression.expr)
        if not isinstance(value, BaseNode | wy.Dim) or expression.name not in _ATTRIBUTES:
            raise UnknownType
        return self._run(getattr, value, expression.name)

    def _class(self, info: TypeInfo) -> Any:
        """Return the class of an axis, a leaf, a layer or a dtype."""
        if base_of(info, DIM) is not None:
            if info.fullname.startswith("wyrm.") or "__init__" in info.names:
                return {"One": One}.get(info.name) or _unknown_value()
            return self._classes.of(info.fullname, info.name, Instance(info, []))
        if info.fullname.startswith((*_LEAVES, _LAYERS)) and not info.name.startswith("_"):
            return getattr(import_module(info.module_name), info.name)
        if info.module_name.startswith("numpy") and isinstance(getattr(np, info.name, None), type):
            return getattr(np, info.name)
        raise UnknownType

    def _value_of_call(self, call: CallExpr) -> Any:
        if any(kind not in (ARG_POS, ARG_NAMED) for kind in call.arg_kinds):
            raise UnknownType
        function = self._callee(call.callee)
        is_leaf = isinstance(function, type) and issubclass(function, BaseNode)
        named = {name: value for name, value in zip(call.arg_names, call.args, strict=True) if name is not None}
        keywords = {name: self.value(value) for name, value in named.items()}
        positional = [value for name, value in zip(call.arg_names, call.args, strict=True) if name is None]
        if is_leaf and positional and "dims" in keywords:
            # The data is not known, but its axes are; their sizes too only where they are written.
            if any(not isinstance(axis, int) and axis.size is None for axis in keywords["dims"]):
                raise UnknownType
            return self._run(wy.IndexInput if issubclass(function, wy.IndexNode) else wy.Input, dims=keywords["dims"])
        if isinstance(function, Module) and len(call.args) == len(positional) == 1:
            return self._module_called(function, positional[0])
        values = list(map(self.value, positional))
        if isinstance(function, type) and math.prod(_sizes_in([*values, *keywords.values()])) > _LARGEST:
            raise UnknownType
        found = self._run(function, *values, **keywords)
        if isinstance(found, Sequential):
            self._follow(found.layers)
        return found

    def _follow(self, layers: Sequence[Any]) -> None:
        """Raise `Failed` for a layer that does not fit what the ones before it make, whatever their operand is."""
        for first, layer in enumerate(layers):
            if isinstance(layer, Module) and layer.parameters():
                followed = [self._followed(layers[first:], leaf) for leaf in self._operands(layer)]
                if followed and all(followed):
                    raise next(filter(None, followed))

    def _operands(self, module: Any) -> Iterator[BaseNode]:
        """Yield leaves of one axis or more that a module takes, one axis of each known from its parameters."""
        sizes = list(dict.fromkeys(axis for parameter in module.parameters() for axis in parameter.dims))[:_CHOICES]
        for count in _COUNTS:
            axes: tuple[Any, ...] = tuple(self._classes.new("Any", unknown())() for _ in range(count))
            yield from _fitting(module, [(*axes[:i], size, *axes[i + 1 :]) for i in range(count) for size in sizes])

    def _followed(self, layers: Sequence[Any], leaf: BaseNode) -> Failed | None:
        """Return the error of sizes that modules raise one after another for a leaf, up to one with parameters."""
        self._guessed[id(leaf)] = leaf
        found = leaf
        try:
            for i, layer in enumerate(layers):
                found = self._run(layer, found)
                if i and layer.parameters():
                    break
        except UnknownType:
            pass
        except Failed as failed:
            return failed
        return None

    def _module_called(self, module: Any, expression: Expression) -> Any:
        try:
            return self._run(module, self.value(expression))
        except UnknownType:
            known = self._values.get(expression)
            if isinstance(known, Failed) or (isinstance(known, BaseNode) and id(known) not in self._guessed):
                raise
        return self._run(module, self._guess(module, expression))

    def _guess(self, module: Any, expression: Expression) -> BaseNode:
        """Return a leaf of the axes of an operand's type that fits a module, or with one of a parameter among them."""
        axes = self._axes(expression)
        sizes = list(dict.fromkeys(axis for parameter in module.parameters() for axis in parameter.dims))
        pairs = itertools.product(range(len(axes)), sizes[:_CHOICES])
        choices = [(*axes[:i], size, *axes[i + 1 :]) for i, size in pairs]
        fitting = list(_fitting(module, [axes])) or list(_fitting(module, choices))
        if len(fitting) != 1:
            raise UnknownType
        self._guessed[id(fitting[0])] = fitting[0]
        return fitting[0]

    def _callee(self, callee: Expression) -> Any:
        if isinstance(callee, RefExpr) and callee.fullname:
            if isinstance(callee.node, TypeInfo):
                return self._class(callee.node)
            function = self._function(callee.fullname)
            if function is not None:
                return function
        if isinstance(callee, MemberExpr) and not callee.name.startswith("_"):
            owner = None if callee.node is not None and isinstance(callee.node, Var) else self._owner(callee.expr)
            if isinstance(owner, BaseNode) and callee.name in self._methods:
                return getattr(owner, callee.name)
            if isinstance(owner, type) and issubclass(owner, wy.Parameter):
                return getattr(owner, callee.name)
        module = self.value(callee)
        if not isinstance(module, Module):
            raise UnknownType
        return module

    def _owner(self, expression: Expression) -> Any:
        try:
            return self.value(expression)
        except UnknownType:
            return None

    def _run(self, function: Any, *operands: Any, **options: Any) -> Any:
        """Return what a function returns; raise `Failed` for an error of the program."""
        called: Any = function
        is_guess = any(id(operand) in self._guessed for operand in (*operands, getattr(function, "__self__", None)))
        try:
            if isinstance(function, Sequential) and len(operands) == 1:
                for called in function.layers:
                    operands = (called(*operands),)
                found = operands[0]
            else:
                found = function(*operands, **options)
            if is_guess:
                if not isinstance(found, BaseNode):
                    raise UnknownType
                self._guessed[id(found)] = found
            return found
        except ShapeError as error:
            if is_guess and not _SIZES.search(str(error).partition("\n")[0]):
                raise UnknownType from None
            nodes = [operand for operand in operands if isinstance(operand, BaseNode)]
            raise Failed(called, nodes, error) from None
        except Exception:
            raise UnknownType from None


def _fitting(module: Any, choices: Sequence[Any]) -> Iterator[wy.Node]:
    """Yield leaves of those axes that a module takes."""
    for dims in choices:
        with suppress(Exception):
            leaf: wy.Node = wy.Input(dims=dims)
            module(leaf)
            yield leaf


def _has_list(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, tuple) and any(map(_has_list, value)))


def _sizes_in(values: list[Any]) -> Iterator[int]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _sizes_in(list(value))
        elif isinstance(value, int | wy.Dim):
            yield max(abs(int(value)), 1) if isinstance(value, int) or value.size is not None else 1


def _unknown_value() -> Any:
    raise UnknownType
