"""Types of arguments as values: a node's type becomes a leaf with the same axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from mypy.checker import TypeChecker
from mypy.maptype import map_instance_to_supertype
from mypy.nodes import (
    EllipsisExpr,
    Expression,
    FloatExpr,
    ListExpr,
    NameExpr,
    SliceExpr,
    StarExpr,
    TupleExpr,
    TypeInfo,
    UnaryExpr,
)
from mypy.types import (
    CallableType,
    Instance,
    LiteralType,
    NoneType,
    ProperType,
    TupleType,
    Type,
    TypeType,
    TypeVarType,
    UnpackType,
    get_proper_type,
)

import wyrm as wy
from wyrm.graph.axes import Axis, Dim, Joined, MadeRagged, One, Pairs, Plus, Ragged, Times, made_axis, ragged_axis

NODE, FLOAT_NODE, INDEX_NODE = "wyrm.graph.base.BaseNode", "wyrm.graph.node.Node", "wyrm.graph.node.IndexNode"
DIM, _ONE, RAGGED = "wyrm.graph.axes.Dim", "wyrm.graph.axes.One", "wyrm.graph.axes.Ragged"
MODULE = "wyrm.module.Module"
_DERIVED: Mapping[str, type[Plus | Times]] = {f"wyrm.graph.axes.{kind.__name__}": kind for kind in (Plus, Times)}
_MADE: Mapping[str, type[MadeRagged]] = {f"wyrm.graph.axes.{kind.__name__}": kind for kind in (Joined, Pairs)}


class UnknownType(Exception):
    """The types of a call do not tell what it builds."""


def base_of(info: TypeInfo, fullname: str) -> TypeInfo | None:
    """Return the base class of a name, if a class has it."""
    return next((base for base in info.mro if base.fullname == fullname), None)


def is_node(type_: ProperType) -> bool:
    """Return whether values of a type are nodes."""
    return isinstance(type_, Instance) and base_of(type_.type, NODE) is not None


def is_axis(type_: Type) -> bool:
    """Return whether values of a type are axes."""
    proper = get_proper_type(type_)
    return isinstance(proper, Instance) and base_of(proper.type, DIM) is not None


def shape_of(node: Instance) -> ProperType:
    """Return `Shape` of a type of nodes, which is a `Node[Parents, Shape]`."""
    base = base_of(node.type, NODE)
    assert base is not None
    return get_proper_type(map_instance_to_supertype(node, base).args[1])


class AxisClasses:
    """Classes of axes for those of the programs that mypy checks, which are not imported; and the types of both."""

    def __init__(self) -> None:
        self._classes: dict[object, type[Dim]] = {}
        self._types: dict[type[Dim], Type] = {}

    def of(self, key: object, name: str, type_: Type, base: type[Dim] = Dim) -> type[Dim]:
        """Return the class for a key, which is derived from `base`."""
        found = self._classes.get(key)
        if found is None:
            found = self._classes[key] = self.new(name, type_, base)
        return found

    def new(self, name: str, type_: Type, base: type[Dim] = Dim) -> type[Dim]:
        """Return a class that equals no other one."""
        found = type(name, (base,), {"__slots__": ()})
        self._types[found] = type_
        return found

    def type_of(self, axis: Dim) -> Type | None:
        """Return the type of an axis of one of these classes."""
        return self._types.get(type(axis))


# The size of an axis by the position of its class among those of a call; None leaves it to the data of each run.
Sizes = Callable[[int], int] | None


def different(above: int, smallest: int = 11) -> Sizes:
    """Give each axis another size, a prime above a number, so that no one is a multiple of another.

    Sizes are small: a function that loops over an axis builds as many nodes, and some functions compute arrays.
    """
    primes = (n for n in itertools.count(max(above + 1, smallest)) if all(n % d for d in range(2, math.isqrt(n) + 1)))
    found: list[int] = []

    def size(position: int) -> int:
        found.extend(itertools.islice(primes, max(position + 1 - len(found), 0)))
        return found[position]

    return size


def divisible(by: int) -> Sizes:
    """Give all axes one size that is a multiple of a number, with many divisors."""
    return lambda _: 60 * max(by, 1)


def ones(_: int) -> Sizes:
    """Give all axes the size 1."""
    return lambda _: 1


class AxisReader:
    """Turns types of nodes into axes."""

    def __init__(self, classes: AxisClasses, sizes: Sizes = None) -> None:
        self._classes, self._size = classes, sizes
        self._sizes: dict[type[Dim], int] = {}
        # Whether an axis has no name, or a value is a guess: then an error may be false.
        self.guessed: bool = False

    def dims(self, node: Instance) -> tuple[Axis, ...]:
        """Return the axes of the type of a node."""
        shape = shape_of(node)
        if not isinstance(shape, TupleType) or any(isinstance(item, UnpackType) for item in shape.items):
            raise UnknownType
        dims = tuple(self._axis(get_proper_type(item)) for item in shape.items)
        if any(isinstance(axis, Ragged) for axis in (*dims[:1], *dims[2:])):
            raise UnknownType  # no node has these axes
        return dims

    def _axis(self, type_: ProperType) -> Axis:
        if isinstance(type_, TypeVarType):
            return self._sized(self._classes.of(type_.id, type_.name, type_))
        if not isinstance(type_, Instance) or type_.type.fullname == DIM or base_of(type_.type, DIM) is None:
            self.guessed = True
            return self._sized(self._classes.new("Any", type_))
        if type_.type.fullname == _ONE:
            return One()
        derived = _DERIVED.get(type_.type.fullname)
        if derived is not None:
            return derived(tuple(self._axis(get_proper_type(part)) for part in type_.args))
        made = _MADE.get(type_.type.fullname)
        if made is not None:
            parts = [self._axis(get_proper_type(part)) for part in type_.args]
            if not all(isinstance(part, Ragged) for part in parts):
                raise UnknownType
            return made_axis(made, *(part for part in parts if isinstance(part, Ragged)))
        return self._sized(self._class(type_.type))

    def _class(self, info: TypeInfo) -> type[Dim]:
        base = Dim if base_of(info, RAGGED) is None else Ragged
        return One if info.fullname == _ONE else self._classes.of(info.fullname, info.name, Instance(info, []), base)

    def _sized(self, kind: type[Dim]) -> Dim:
        if issubclass(kind, Ragged):
            return kind()
        return kind() if self._size is None else kind(self._sizes.setdefault(kind, self._size(len(self._sizes))))


def _with_axes(leaf: Any, dims: Any) -> Any:
    """Return an input with these axes, or along one that is made of others a node of inputs along those."""
    axis = ragged_axis(dims)
    if not isinstance(axis, MadeRagged):
        return leaf(dims=dims)
    parts: Any = [_with_axes(leaf, (dims[0], part(), *dims[2:])) for part in axis.parts]
    return wy.concatenate(parts, axis=1) if isinstance(axis, Joined) else wy.row_pairs(parts[0])[0]


class Reader(AxisReader):
    """Turns the arguments of one call into values."""

    def __init__(
        self,
        checker: TypeChecker,
        classes: AxisClasses,
        sizes: Sizes,
        functions: Callable[[Expression, Type, Reader], Callable[..., Any] | None] | None = None,
    ) -> None:
        super().__init__(classes, sizes)
        self._checker, self._functions = checker, functions
        # The leaves, and the types that they stand for, in the order of the arguments.
        self.leaves: list[tuple[Any, Instance]] = []
        # The largest number among the arguments: an axis must be longer than what indexes it or cuts from it.
        self.largest: int = 0
        # Whether an array of unknown axes is among the arguments, which broadcasts only in an elementwise op.
        self.has_array: bool = False

    def node(self, type_: Instance) -> Any:
        """Return a leaf with the axes of a type of nodes: of indices, floats, or a mask."""
        dims: Any = self.dims(type_)
        found: Any
        if base_of(type_.type, INDEX_NODE) is not None:
            found = _with_axes(wy.IndexInput, dims)
        elif type_.type.get("_is_mask") is not None:
            found = _with_axes(wy.Input, dims) > 0.0
        else:
            found = _with_axes(wy.Input, dims)
        self.leaves.append((found, type_))
        return found

    def result(self, type_: Instance) -> Any:
        """Return a leaf that is no operand of the call, for the type of what a function of users returns."""
        count = len(self.leaves)
        found = self.node(type_)
        del self.leaves[count:]
        return found

    def value(self, expression: Expression, type_: Type) -> Any:
        """Return the value of an argument as far as the text or its type tell; else raise `UnknownType`."""
        function = None if self._functions is None else self._functions(expression, type_, self)
        if function is not None:
            return function
        if isinstance(expression, TupleExpr | ListExpr):
            kind = tuple if isinstance(expression, TupleExpr) else list
            return kind(itertools.chain.from_iterable(map(self._values_of_item, expression.items)))
        if isinstance(expression, SliceExpr):
            ends = (expression.begin_index, expression.end_index, expression.stride)
            return slice(*(None if end is None else self._inner(end) for end in ends))
        if isinstance(expression, EllipsisExpr):
            return ...
        if isinstance(expression, FloatExpr):
            return expression.value
        if isinstance(expression, UnaryExpr) and expression.op == "-":
            return -self._inner(expression.expr)
        if isinstance(expression, NameExpr) and expression.fullname in ("builtins.True", "builtins.False"):
            return expression.name == "True"
        return self._of_type(get_proper_type(type_))

    def _values_of_item(self, expression: Expression) -> Sequence[Any]:
        """Return the values that an item of a tuple or a list is: one, or those of `*values`."""
        if not isinstance(expression, StarExpr):
            return [self._inner(expression)]
        found = self._inner(expression.expr)
        if not isinstance(found, tuple | list):
            raise UnknownType
        return found

    def _inner(self, expression: Expression) -> Any:
        return self.value(expression, self._checker.lookup_type(expression))

    def _of_type(self, type_: ProperType) -> Any:
        if isinstance(type_, NoneType):
            return None
        if isinstance(type_, LiteralType):
            return self._constant(type_.value)
        if isinstance(type_, TupleType):
            return tuple(self._of_type(get_proper_type(item)) for item in type_.items)
        if isinstance(type_, CallableType) and type_.is_type_obj():
            return self._of_class(type_.type_object())
        if isinstance(type_, TypeType) and isinstance(type_.item, Instance):
            return self._of_class(type_.item.type)
        if not isinstance(type_, Instance):
            raise UnknownType
        if type_.last_known_value is not None:
            return self._constant(type_.last_known_value.value)
        if is_node(type_):
            return self.node(type_)
        if is_axis(type_):
            return self._axis(type_)
        return self._type_of_number(type_.type.fullname)

    def _constant(self, value: object) -> object:
        if isinstance(value, int):
            self.largest = max(self.largest, abs(value))
        return value

    def _type_of_number(self, fullname: str) -> Any:
        """Return a number for a type of numbers or arrays; which one, and which axes, is not known."""
        if fullname == "builtins.float" or fullname.startswith("numpy.float"):
            self.guessed = True
            return 0.5
        if fullname in ("builtins.int", "numpy.ndarray"):
            self.guessed = self.has_array = True
            return np.float32(0.5)
        raise UnknownType

    def _of_class(self, info: TypeInfo) -> Any:
        if base_of(info, DIM) is not None:
            return self._class(info)
        if info.module_name.startswith("numpy") and isinstance(getattr(np, info.name, None), type):
            return getattr(np, info.name)
        raise UnknownType
