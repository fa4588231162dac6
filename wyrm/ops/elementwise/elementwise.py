"""Base classes of elementwise ops: broadcasting, the common dtype, and numbers and arrays as operands."""

from __future__ import annotations

import importlib
import inspect
import itertools
from collections.abc import Callable, Iterable, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import DTypeError, RegistrationError, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.graph.axes import Dim, Dims, broadcast
from wyrm.graph.base import BaseNode, Gradient, describe, label
from wyrm.graph.drafts import binary, can_be_drafted, unary
from wyrm.graph.leaves import Constant, as_constant, float_constant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import NUMPY
from wyrm.graph.registration import FUNCTIONS, lacking, method
from wyrm.graph.typing import Shaped
from wyrm.graph.weak_types import FLOATS, default_type
from wyrm.ops.batching import aligned
from wyrm.ops.elementwise.broadcasts import operator_of_floats
from wyrm.ops.elementwise.derivation import VJP, add_op, check_rules, derived_vjp
from wyrm.ops.elementwise.derivatives import Rule
from wyrm.ops.elementwise.formula import OPERANDS, Attribute, Operand, formula_value, operand_count, parse
from wyrm.reach.rules import REACH, Reached, SamePlace
from wyrm.reach.ways import Way
from wyrm.support.foreign_names import explain, explain_count, keywords_of

if TYPE_CHECKING:
    from wyrm.reach.facts import Analysis

# The classes of the operands and the axes of the result, as parameters of a class of ops. They have defaults, so that
# `class Cube(Unary)` is an op of any operand. The type parameters of functions have none, because mypy would use the
# default where inference fails.
Left_co = TypeVar("Left_co", bound="Node", covariant=True, default=Any)
Right_co = TypeVar("Right_co", bound="Node", covariant=True, default=Any)
Parents_co = TypeVar("Parents_co", bound="tuple[BaseNode, ...]", covariant=True, default=Any)
Axes = TypeVar("Axes", default=Any)
# Type variables of functions, for the same purposes.
L = TypeVar("L", bound="Node")
R = TypeVar("R", bound="Node")
S = TypeVar("S")


def bind_class(cls: Any, of_masks: Callable[[Node], Callable[..., Any]] | None = None) -> None:
    """Bind `cls` as the method `cls.method` of every node: `node.method(...)` constructs `cls(node, ...)`.

    `of_masks` returns the function to call instead for a node that is a mask.
    """

    def plain(self: Node) -> Any:
        return unary(cls, self)

    def with_arguments(self: Node, *arguments: Any, **keywords: Any) -> Any:
        try:
            build = of_masks(self) if of_masks is not None and self.dtype.kind == "b" else cls
            return build(self, *arguments, **keywords)
        except TypeError as error:
            # The first is the node itself.
            own = keywords_of(cls.__init__)[1:]
            explain(error, cls.method, keywords, own)
            explain_count(error, cls.method, own, cls.__init__, len(arguments))
            raise

    # Forwarding empty arguments would take a sixth of the time of building a node.
    build: Any = plain
    if cls.attributes or cls.__init__ is not Unary.__init__:
        build = with_arguments
        build.__signature__ = _signature_of(cls)
    method(cls.method, op=cls, function=not cls.only_method)(build)


def _signature_of(cls: Any) -> inspect.Signature:
    """Return what `help` and notebooks show of the method that constructs `cls`: the arguments after the node."""
    arguments = list(inspect.signature(cls.__init__).parameters.values())[2:]
    # Annotations are text that names types of this module; `help` would look them up in the module of the method.
    own = [each.replace(annotation=each.empty) for each in arguments if each.kind is not each.VAR_KEYWORD]
    return inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD), *own])


def common_dtype(parents: Iterable[BaseNode]) -> np.dtype:
    """Return the float dtype of the operands, where masks match any; bool if all are masks.

    Raise `DTypeError` for operands of different float dtypes and for integers.
    """
    first: BaseNode | None = None
    for parent in parents:
        if parent.dtype.kind != "f":
            if isinstance(parent, IndexNode):
                raise DTypeError(f"{label(parent)} holds integers; convert them with .astype(np.float32)")
            continue
        if first is None:
            first = parent
        elif parent.dtype is not first.dtype and parent.dtype != first.dtype:
            raise DTypeError(
                f"{first.dtype} and {parent.dtype} do not mix; convert one, as in {label(parent)}.astype({first.dtype})"
            )
    return np.dtype(np.bool_) if first is None else first.dtype


def unmasked_dtype(parents: Sequence[BaseNode]) -> np.dtype:
    """Return the float dtype of the operands, as `common_dtype`; raise `DTypeError` for a mask too."""
    for parent in parents:
        if parent.dtype.kind == "b":
            raise DTypeError(f"{label(parent)} is a mask; convert it with .astype(np.float32)")
    return common_dtype(parents)


def float_dtype(x: BaseNode) -> np.dtype:
    """Return the dtype of an operand; raise `DTypeError` unless it holds floats."""
    if x.dtype.kind != "f":
        raise DTypeError(f"{label(x)} is {x.dtype}; convert it with .astype(np.float32)")
    return x.dtype


_FLOAT32, _FLOAT64 = FLOATS
_NUMBERS = (float, int, bool, np.number, np.bool_)


# The module that makes a number of the size of an axis; it needs other ops, which need this one.
_SIZE_OF_AXIS = "wyrm.ops.reducing.counting"


def size_beside(axis: Dim, beside: BaseNode) -> Any:
    """Return the size of an axis as a node, for an op with the node `beside`."""
    return importlib.import_module(_SIZE_OF_AXIS).size_of_axis(axis, beside)


def as_operand(value: object, beside: BaseNode) -> Node | None:
    """Return `value` as a node with the dtype of the other operand `beside`; None if it does not hold numbers."""
    if isinstance(value, Node):
        return value
    if type(value) is float and (beside.dtype is _FLOAT32 or beside.dtype is _FLOAT64):
        return float_constant(value, beside.dtype)
    if isinstance(value, IndexNode):
        raise DTypeError(f"{describe(value)} holds integers; convert them with .astype(np.float32)")
    if isinstance(value, list):
        value = as_array(value, lambda: f"the operand beside {describe(beside)}")
    if isinstance(value, Dim):
        size: Node = size_beside(value, beside)
        return size
    if isinstance(value, _NUMBERS) or (isinstance(value, np.ndarray) and value.dtype.kind in "fiub"):
        if beside.dtype.kind == "f":
            return as_constant(value, beside.dtype)
        mask = isinstance(value, bool | np.bool_) or (isinstance(value, np.ndarray) and value.dtype.kind == "b")
        return as_constant(value, np.bool_ if mask else default_type(beside))
    return None


def operand(value: object, beside: BaseNode) -> Node:
    """Return `as_operand(value, beside)`; raise `TypeError` if `value` does not hold numbers."""
    node = as_operand(value, beside)
    if node is None:
        raise TypeError(f"an operand must be a node, a number or a NumPy array of numbers, not {type(value).__name__}")
    return node


class Elementwise(Node[Parents_co, Axes], abstract=True):
    """An op whose operands broadcast as in NumPy and whose `formula` computes each element of the result.

    The gradient follows from the formula by the rules of `wyrm.ops.elementwise.derivatives`. A subclass has
    `derivatives`, or a `vjp`, where they say more: a limit where the derivative of the formula is NaN, or fewer
    operations.

    >>> class Cube(Unary):
    ...     formula = "x * x * x"
    >>> x = wy.Parameter(2.0)
    >>> wy.grad(Cube(x), x).forward().item()
    12.0
    """

    __slots__ = ()
    # The number of operands, if the class fixes it, and the number that the formula uses.
    arity: ClassVar[int | None] = None
    needs: ClassVar[int] = 0
    # For each operand a formula of its gradient, or `ZERO`, in place of that of the formula. It uses the cotangent `g`,
    # the operands and attributes, and the value `f` of the op.
    derivatives: ClassVar[tuple[Rule, ...]] = ()
    # For each choice of wanted operands, the function that returns their gradients.
    _vjps: ClassVar[dict[tuple[bool, ...], VJP]] = {}
    # Whether `unary` and `binary` may make nodes of the class without asking its rules.
    plain: ClassVar[bool] = False
    # The names of the functions that construct the op, separated by spaces; those of `wyrm.special` start with
    # "special.". They are no methods of nodes.
    function: ClassVar[str] = ""

    def __init_subclass__(cls, **keywords: bool) -> None:
        if "formula" in cls.__dict__ and "derivatives" not in cls.__dict__:
            cls.derivatives = ()  # not those of a base class with another formula
        super().__init_subclass__(**keywords)

    @classmethod
    def _bind_members(cls) -> None:
        for name in cls.__dict__.get("function", "").split():
            FUNCTIONS[name] = cls

    @classmethod
    def check_registration(cls) -> None:
        """Raise `RegistrationError` for a formula with unknown names or without a gradient."""
        if cls.formula:
            cls.needs = max(cls.needs, operand_count(cls.formula))
        if cls.vjp is not Elementwise.vjp:
            if cls.vjp_by is Elementwise.vjp_by:
                cls.vjp_by = BaseNode.vjp_by  # type: ignore[method-assign]  # that of a base class with another `vjp`
        elif not cls.formula:
            raise lacking(cls, ["vjp"])
        else:
            cls._vjps = {}
        # A test checks the formulas of wyrm: to parse them takes a fifteenth of the time of `import wyrm`.
        if not cls.__module__.startswith("wyrm."):
            cls.check_formulas()
        add_op(cls)

    @classmethod
    def check_formulas(cls) -> None:
        """Raise `RegistrationError` for an invalid formula, derivatives that do not fit it, or a missing rule."""
        if cls.formula:
            cls._check_names(cls.formula)
        if cls.vjp is Elementwise.vjp:
            given: object = cls.derivatives
            if isinstance(given, str):
                raise RegistrationError(
                    f"op {cls.__name__}: derivatives is one string; write a tuple of a formula for each operand, "
                    f"({given!r},)"
                )
            if cls.derivatives and len(cls.derivatives) != max(cls.arity or 0, cls.needs):
                raise RegistrationError(
                    f"op {cls.__name__} has {len(cls.derivatives)} derivatives for {max(cls.arity or 0, cls.needs)} "
                    f"operands; write one for each operand, a formula or wyrm.ZERO"
                )
            for rule in cls.derivatives:
                if isinstance(rule, str) and rule != "g":
                    cls._check_names(rule, "g", "f")
            check_rules(cls)

    @classmethod
    def _check_names(cls, formula: str, *more: str) -> None:
        """Raise `RegistrationError` for a name that a formula cannot use; `more` are names besides the operands."""
        known = OPERANDS if cls.arity is None else OPERANDS[: cls.arity]
        try:
            calls = parse(formula)
        except RegistrationError as error:
            raise RegistrationError(f"op {cls.__name__}: the {error}") from None
        for argument in itertools.chain.from_iterable(call.arguments for call in calls):
            name = argument.name if isinstance(argument, Attribute) else None
            if isinstance(argument, Operand):
                name = OPERANDS[argument.position]
            if name is not None and name not in known and name not in cls.attributes and name not in more:
                raise RegistrationError(
                    f"op {cls.__name__}: the formula {formula!r} names {name}, which is neither "
                    f"an operand ({', '.join(known)}) nor in its __slots__"
                )

    @classmethod
    def _set_plain(cls, family: type[Elementwise]) -> None:
        """Set `plain`: whether the class has no slots of its own and makes its nodes as the class `family` does."""
        made_by = (cls.__new__, cls.__init__, cls._construct, cls.dtype_rule, cls.shape_rule)
        plain = (object.__new__, family.__init__, BaseNode._construct, Elementwise.dtype_rule, family.shape_rule)
        cls.plain = made_by == plain and can_be_drafted(cls)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return self.vjp_by(gradient, (True,) * len(self.parents))

    def vjp_by(self, gradient: Node, wanted: Sequence[bool]) -> tuple[Gradient, ...]:
        key = tuple(wanted)
        vjp = self._vjps.get(key)
        if vjp is None:
            vjp = self._vjps[key] = derived_vjp(self.formula, self.derivatives, key)
        return vjp(self, gradient)

    def shape_rule(self) -> Dims:
        parents: tuple[BaseNode, ...] = self.parents
        if len(parents) < self.needs:
            raise ShapeError(f"the formula {self.formula!r} takes {self.needs} operands, not {len(parents)}")
        dims: Dims = parents[0].dims
        for parent in parents[1:]:
            dims = broadcast(dims, parent.dims)
        return dims

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        return self.rebuild(aligned(x, many, self.ndim) for x, many in zip(operands, mapped, strict=True))

    def dtype_rule(self) -> np.dtype:
        parents: tuple[BaseNode, ...] = self.parents
        if 0 < len(parents) < 3:  # fast path for most nodes
            first: np.dtype = parents[0].dtype
            if parents[-1].dtype is first and (first is _FLOAT32 or first is _FLOAT64 or first.kind == "f"):
                return first
        dtype = common_dtype(parents)
        if dtype.kind != "f":
            raise DTypeError("a mask has no arithmetic; convert it with mask.astype(np.float32), or use wy.where")
        return dtype


@REACH.register(Elementwise)
class _ElementwiseReach(SamePlace):
    """The formula at each position; an op without one may read any."""

    def ways(self, node: BaseNode) -> list[Way] | None:
        return super().ways(node) if node.formula else None

    def reached(self, node: BaseNode, operands: Sequence[Reached], analysis: Analysis) -> Reached | None:
        return analysis.pointwise(node, operands) if node.formula else None

    def value(self, node: BaseNode, arrays: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray | None:
        if not node.formula:
            return super().value(node, arrays, shape)
        return np.broadcast_to(np.asarray(formula_value(NUMPY, node, arrays), node.dtype), shape)


class Unary(Elementwise[tuple[Left_co], Axes], abstract=True):
    """An elementwise op of one operand."""

    __slots__ = ()
    arity: ClassVar[int | None] = 1
    declaration = "def {method}(self: Shaped[L, S]{more}) -> {op}[L, S]: ..."

    @classmethod
    def _bind_members(cls) -> None:
        super()._bind_members()
        cls._set_plain(Unary)
        if cls.method and "method" in cls.__dict__:
            bind_class(cls)

    def __init__(self, x: Shaped[Left_co, Axes], **attributes: Any) -> None:
        self._construct((x,), **attributes)

    def shape_rule(self) -> Dims:
        parents: tuple[BaseNode, ...] = self.parents
        dims: Dims = parents[0].dims if parents else super().shape_rule()
        return dims


class Binary(Elementwise[tuple[Left_co, Right_co], Axes], abstract=True):
    """An elementwise op of two operands; `operator` is the Python operator that constructs it, such as `add`.

    The declarations type the common broadcasts, from either side: equal shapes, a bias on the last axis, a table on the
    last two, an axis of size 1 at either end, the product of a column and a row, a scalar; and numbers and arrays.
    Other axes of size 1 leave the shape unknown, never wrong.

    mypy checks nested operators in linear time: no parameter of a left-hand operator has its own type variable, for
    each of which mypy would check the right operand again. A left-hand operator therefore takes a number, an array, a
    node of the same type, the case in which mypy does not try the right-hand operator, or one of an unknown shape. The
    right-hand operator, whose argument is the left operand and checked already, has the other overloads.
    """

    __slots__ = ()
    arity: ClassVar[int | None] = 2
    declaration: ClassVar[str] = f"""
@overload
def {{method}}(self: Shaped[L, S], other: Number | Array) -> {{op}}[L, Constant, S]: ...
{operator_of_floats("self", "other")}
"""
    operator_declaration: ClassVar[str] = """
@overload
def {method}(self: Shaped[Any, FittingShape], other: Node) -> {op}: ...
@overload
def {method}(self: Shaped[L, S], other: Shaped[Any, FittingShape[S]]) -> {op}[L, Node]: ...
@overload
def {method}(self: Shaped[L, S], other: Shaped[L, S]) -> {op}[L, L, S]: ...
@overload
def {method}(self: Shaped[L, S], other: Number | Array) -> {op}[L, Constant, S]: ...
"""
    reflected: ClassVar[str] = f"""
@overload
def {{method}}(self: Shaped[R, S], other: Number | Array) -> {{op}}[Constant, R, S]: ...
{operator_of_floats("other", "self")}
"""

    @classmethod
    def _bind_members(cls) -> None:
        super()._bind_members()
        cls._set_plain(Binary)
        if "operator" in cls.__dict__ and cls.operator:
            bind_operator(cls, cls.operator)
        if "method" in cls.__dict__ and cls.method:
            method(cls.method, op=cls, function=not cls.only_method)(
                (lambda self, other, **attributes: cls(self, operand(other, self), **attributes))
                if cls.attributes
                else lambda self, other: binary(cls, self, operand(other, self))
            )

    @overload
    def __init__(self, x: Shaped[Left_co, Axes], y: Shaped[Right_co, Axes]) -> None: ...
    @overload
    def __init__(self, x: Shaped[Left_co, Axes], y: Shaped[Right_co, tuple[()]]) -> None: ...
    @overload
    def __init__(self, x: Shaped[Left_co, tuple[()]], y: Shaped[Right_co, Axes]) -> None: ...
    @overload
    def __init__(self, x: Node, y: Node, **attributes: Any) -> None: ...  # other broadcasts
    def __init__(self, x: Any, y: Any, **attributes: Any) -> None:
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


def bind_operator(
    cls: Callable[..., Any],
    name: str,
    on: type[BaseNode] = Node,
    as_operand: Callable[[object, Any], BaseNode | None] = as_operand,
) -> None:
    """Bind `cls` as the operator `__name__` of the nodes of class `on`, on both sides.

    `as_operand(value, node)` returns the other operand as a node, None if it does not hold numbers.
    """

    op: Any = cls
    build = binary if isinstance(cls, type) and issubclass(cls, Binary) else lambda op, x, y: op(x, y)

    def left(self: BaseNode, other: object) -> object:
        node = other if isinstance(other, on) else as_operand(other, self)
        return NotImplemented if node is None else build(op, self, node)

    def equality(self: BaseNode, other: object) -> object:
        node = None if isinstance(other, list) else as_operand(other, self)
        if node is None:
            check_comparable(self, other)
        return NotImplemented if node is None else build(op, self, node)

    def right(self: BaseNode, other: object) -> object:
        node = as_operand(other, self)
        return NotImplemented if node is None else build(op, node, self)

    method(f"__{name}__", on, op)(equality if name in ("eq", "ne") else left)
    if name not in COMPARISONS:
        method(f"__r{name}__", on, op)(right)


def check_comparable(node: BaseNode, other: object) -> None:
    """Raise `TypeError` if `other` holds numbers but is no valid operand: Python would silently return False."""
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
