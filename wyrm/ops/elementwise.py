"""Base classes of elementwise ops: broadcasting, the common dtype, and numbers and arrays as operands."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from numbers import Number
from typing import Any, ClassVar

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import DTypeError, RegistrationError, ShapeError
from wyrm.foreign_names import explain_keywords
from wyrm.node.base import BaseNode, describe, label
from wyrm.node.leaves import Constant, as_constant
from wyrm.node.node import IndexNode, Node
from wyrm.node.storage import FLOATS
from wyrm.ops.batching import aligned
from wyrm.ops.formula import OPERANDS, Attribute, Operand, parse
from wyrm.types.dims import Dims, broadcast
from wyrm.types.typing import Shaped

L = TypeVar("L", bound="Node", covariant=True, default=Any)
R = TypeVar("R", bound="Node", covariant=True, default=Any)
P_co = TypeVar("P_co", bound="tuple[BaseNode, ...]", covariant=True, default=Any)
S = TypeVar("S", default=Any)

F = TypeVar("F", bound=Callable[..., object])


def method(name: str, on: type[BaseNode] = Node, op: type[BaseNode] | None = None) -> Callable[[F], F]:
    """Return a decorator that binds a function as the method `name` of the nodes of class `on`.

    `wyrm.declare` generates the method's declaration from the function's signature or, for a function that only
    constructs `op`, from the template of the op's family.
    """

    def bind(function: F) -> F:
        METHODS[on.__name__, name] = function if op is None else op
        if op is not None:
            function.__name__, function.__qualname__, function.__doc__ = name, name, op.__doc__
        setattr(on, name, function)
        return function

    return bind


# The functions bound as methods, or the ops that they construct, by class and method name; `wyrm.declare` reads it.
METHODS: dict[tuple[str, str], Callable[..., object]] = {}


def bind_class(cls: Any) -> None:
    """Bind `cls` as the method `cls.method` of every node: `node.method(...)` constructs `cls(node, ...)`."""

    build: Callable[..., BaseNode]
    if cls.__init__ is Unary.__init__:  # no arguments: to forward them takes a sixth of the time to build a node

        def build(self: Node) -> Any:
            return cls(self)

    else:

        def build(self: Node, *arguments: Any, **keywords: Any) -> Any:
            try:
                return cls(self, *arguments, **keywords)
            except TypeError as error:
                explain_keywords(error, cls.method, keywords)
                raise

    method(cls.method, op=cls)(build)


def common_dtype(parents: Iterable[BaseNode]) -> np.dtype:
    """Return the float dtype of the operands, where masks match any; bool if all are masks.

    Raises `DTypeError` for operands of different float dtypes and for integers.
    """
    first: BaseNode | None = None
    for parent in parents:
        if parent.dtype.kind != "f":
            if isinstance(parent, IndexNode):
                raise DTypeError(f"{label(parent)} holds integers, which select elements and have no arithmetic")
            continue
        if first is None:
            first = parent
        elif parent.dtype is not first.dtype and parent.dtype != first.dtype:
            raise DTypeError(
                f"{first.dtype} and {parent.dtype} do not mix; convert one, as in {label(parent)}.astype({first.dtype})"
            )
    return np.dtype(np.bool_) if first is None else first.dtype


_FLOAT32, _FLOAT64 = FLOATS
_NUMBERS = (float, int, bool, np.number, np.bool_)


def as_operand(value: object, beside: BaseNode) -> Node | None:
    """Return `value` as a node with the dtype of the other operand `beside`; None if it does not hold numbers."""
    if isinstance(value, Node):
        return value
    if isinstance(value, IndexNode):
        raise DTypeError(f"{describe(value)} holds integers, which select elements and have no arithmetic")
    if isinstance(value, _NUMBERS) or (isinstance(value, np.ndarray) and value.dtype.kind in "fiub"):
        if beside.dtype.kind == "f":
            return as_constant(value, beside.dtype)
        mask = isinstance(value, bool | np.bool_) or (isinstance(value, np.ndarray) and value.dtype.kind == "b")
        return as_constant(value, np.bool_ if mask else np.float32)
    return None


def operand(value: object, beside: BaseNode) -> Node:
    """Return `as_operand(value, beside)`; raise `TypeError` if `value` does not hold numbers."""
    node = as_operand(value, beside)
    if node is None:
        raise TypeError(f"an operand must be a node, a number or a NumPy array of numbers, not {type(value).__name__}")
    return node


class Elementwise(Node[P_co, S], abstract=True):
    """An op whose operands broadcast as in NumPy and whose `formula` computes each element of the result.

    A subclass defines the formula and `vjp`:

    >>> class Cube(Unary[L, S]):
    ...     formula = "x * x * x"
    ...     def vjp(self, gradient):
    ...         return (gradient * 3.0 * self.parents[0].square(),)
    """

    __slots__ = ()
    # The number of operands, if the class fixes it, and the number that the formula uses.
    arity: ClassVar[int | None] = None
    needs: ClassVar[int] = 0

    @classmethod
    def check_registration(cls) -> None:
        """Raise `RegistrationError` if the formula uses a name that is neither an operand nor an attribute."""
        known = OPERANDS if cls.arity is None else OPERANDS[: cls.arity]
        calls = () if cls.formula is None else parse(cls.formula)
        for argument in itertools.chain.from_iterable(call.arguments for call in calls):
            name = argument.name if isinstance(argument, Attribute) else None
            if isinstance(argument, Operand):
                name = OPERANDS[argument.position]
                cls.needs = max(cls.needs, argument.position + 1)
            if name is not None and name not in known and name not in cls.attributes:
                raise RegistrationError(
                    f"op {cls.__name__}: the formula {cls.formula!r} names {name}, which is neither "
                    f"an operand ({', '.join(known)}) nor in its __slots__"
                )

    def shape_rule(self) -> Dims:
        parents: tuple[BaseNode, ...] = self.parents
        if len(parents) < self.needs:
            raise ShapeError(f"the formula {self.formula!r} takes {self.needs} operands, not {len(parents)}")
        dims: Dims = parents[0].dims
        for parent in parents[1:]:
            dims = broadcast(dims, parent.dims)
        return dims

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        parents = tuple(aligned(x, many, self.ndim) for x, many in zip(operands, mapped, strict=True))
        return self.rebuild(parents, self.attribute_values())

    def dtype_rule(self) -> np.dtype:
        parents: tuple[BaseNode, ...] = self.parents
        if 0 < len(parents) < 3:  # fast path for most nodes
            first: np.dtype = parents[0].dtype
            if (first is _FLOAT32 or first is _FLOAT64) and parents[-1].dtype is first:
                return first
        dtype = common_dtype(parents)
        if dtype.kind != "f":
            raise DTypeError("a mask has no arithmetic; convert it with mask.astype(np.float32), or use wy.where")
        return dtype


class Unary(Elementwise[tuple[L], S], abstract=True):
    """An elementwise op of one operand."""

    __slots__ = ()
    arity = 1
    declaration = "def {method}(self: Shaped[L, S]) -> {op}[L, S]: ..."

    def __init_subclass__(cls, **keywords: bool) -> None:
        super().__init_subclass__(**keywords)
        if cls.method is not None and "method" in cls.__dict__:
            bind_class(cls)

    def __init__(self, x: Shaped[L, S], **attributes: Any) -> None:
        self._construct((x,), **attributes)

    def shape_rule(self) -> Dims:
        parents: tuple[BaseNode, ...] = self.parents
        dims: Dims = parents[0].dims if parents else super().shape_rule()
        return dims


class Binary(Elementwise[tuple[L, R], S], abstract=True):
    """An elementwise op of two operands; `operator` is the Python operator that constructs it, such as `add`.

    The declaration types the common broadcasts, from either side: equal shapes, a bias on the last axis, a table on
    the last two, a last axis of size 1, a scalar; and numbers and arrays. An axis of size 1 elsewhere leaves the shape
    unknown, never wrong. mypy's time is linear in the number of overloads, hence the unions.
    """

    __slots__ = ()
    arity = 2
    declaration = """
@overload
def {method}(self: Shaped[L, S], other: Number | Array) -> {op}[L, Constant[Any], S]: ...
@overload
def {method}(self: Shaped[L, S], other: Shaped[R, FittingShape]) -> {op}[L, R, Any]: ...
@overload
def {method}(self: Shaped[L, S], other: Shaped[R, S] | Shaped[R, tuple[()]]) -> {op}[L, R, S]: ...
@overload
def {method}(self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, One]]) -> {op}[L, R, tuple[*Bs, N]]: ...
@overload
def {method}(self: Shaped[L, tuple[*Bs, M, N]], other: Shaped[R, tuple[M, N]]) -> {op}[L, R, tuple[*Bs, M, N]]: ...
@overload
def {method}(self: Shaped[L, tuple[()]], other: Shaped[R, S]) -> {op}[L, R, S]: ...
@overload
def {method}(self: Shaped[L, tuple[N]], other: Shaped[R, tuple[*Bs, N]]) -> {op}[L, R, tuple[*Bs, N]]: ...
@overload
def {method}(self: Shaped[L, tuple[*Bs, One]], other: Shaped[R, tuple[*Bs, N]]) -> {op}[L, R, tuple[*Bs, N]]: ...
@overload
def {method}(self: Shaped[L, tuple[M, N]], other: Shaped[R, tuple[*Bs, M, N]]) -> {op}[L, R, tuple[*Bs, M, N]]: ...
@overload
def {method}(self: Shaped[L, S], other: Shaped[R, tuple[One, M, *Bs]] | Shaped[R, tuple[A, One, M, *Bs]]) -> {op}[L, R, Any]: ...
@overload
def {method}(self: Shaped[L, tuple[One, M, *Bs]] | Shaped[L, tuple[A, One, M, *Bs]], other: Shaped[R, S]) -> {op}[L, R, Any]: ...
def {method}(self, other: Any) -> Any: ...
"""  # noqa: E501  # one declaration per line
    reflected = "def {method}(self: Shaped[L, S], other: Number | Array) -> {op}[Constant[Any], L, S]: ..."

    def __init_subclass__(cls, **keywords: bool) -> None:
        super().__init_subclass__(**keywords)
        if "operator" in cls.__dict__ and cls.operator is not None:
            bind_operator(cls, cls.operator)
        if "method" in cls.__dict__ and cls.method is not None:
            method(cls.method, op=cls)(lambda self, other: cls(self, operand(other, self)))

    def __init__(self, x: Node, y: Node, **attributes: Any) -> None:
        self._construct((x, y), **attributes)

    def shape_rule(self) -> Dims:
        parents: tuple[BaseNode, ...] = self.parents
        if len(parents) != 2:
            return super().shape_rule()
        left: Dims = parents[0].dims
        right: Dims = parents[1].dims
        return left if left is right else broadcast(left, right)


# Operators that have no reflected method: Python evaluates `0 < x` as `x > 0`.
COMPARISONS = frozenset(["lt", "le", "gt", "ge", "eq", "ne"])


def bind_operator(cls: type[Binary], name: str) -> None:
    """Bind `cls` as the operator `__name__` of nodes; the other operand may be a number or an array, on either side."""

    def left(self: Node, other: object) -> object:
        node = as_operand(other, self)
        if node is None and name in ("eq", "ne"):
            check_comparable(self, other)
        return NotImplemented if node is None else cls(self, node)

    def right(self: Node, other: object) -> object:
        node = as_operand(other, self)
        return NotImplemented if node is None else cls(node, self)

    method(f"__{name}__", op=cls)(left)
    if name not in COMPARISONS:
        method(f"__r{name}__", op=cls)(right)


def check_comparable(node: BaseNode, other: object) -> None:
    """Raise `TypeError` if `other` holds numbers but is no operand: Python would silently call it unequal."""
    if isinstance(other, list | tuple | Number) or hasattr(other, "__array__"):
        kind = f"an array of {other.dtype}" if isinstance(other, np.ndarray) else f"a {type(other).__name__}"
        remedy = ": convert it with np.array(...)" if isinstance(other, list | tuple) else ""
        raise TypeError(
            f"{describe(node)}: compare it with a node, a number or a NumPy array of numbers, not with {kind}{remedy}"
        )


def constant_like(value: float, node: BaseNode) -> Constant:
    """Return a scalar constant with the dtype of `node`."""
    return as_constant(value, node.dtype)


__all__ = [
    "Binary",
    "Elementwise",
    "Operand",
    "Unary",
    "as_operand",
    "bind_operator",
    "check_comparable",
    "common_dtype",
    "constant_like",
    "method",
    "operand",
]
