"""`BaseNode`, an immutable description of one operation, and the registry of operations."""

from __future__ import annotations

import importlib
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, NoReturn, Self, TypeAlias

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import DTypeError, IndexOutOfRange, MissingShape, RegistrationError, ShapeError, WyrmError
from wyrm.graph.axes import Derived, Dims, Ragged, UnnamedDim, axis_size
from wyrm.graph.op import Op, Stateful, set_cell, set_runner
from wyrm.graph.registration import register
from wyrm.graph.source_location import Origin, SourceLocation, built_nodes, location_of, place_of, user_origin
from wyrm.graph.traversal import copied, flatten, restore, topological_order
from wyrm.graph.weak_types import FLOATS, WEAK32, WEAK64, chosen, is_weak, joined
from wyrm.support.foreign_names import ForeignName, SizeWithHint, answers
from wyrm.support.imports import Late
from wyrm.support.texts import encodable

if TYPE_CHECKING:
    from wyrm.graph.parameters import Parameter

# Class-level variables have defaults (PEP 696): a bare `Node` is `Node[Any, Any]`, and never a false alarm.
P_co = TypeVar("P_co", bound="tuple[BaseNode[Any, Any], ...]", covariant=True, default=Any)
S = TypeVar("S", default=Any)

_set = object.__setattr__
_FLOAT32 = FLOATS[0]
# Where a word starts in the name of a class; several capital letters are one word.
_WORD_STARTS = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class Zero:
    """The zero gradient: `vjp` returns it for a parent on which the result does not depend smoothly."""

    def __repr__(self) -> str:
        return "ZERO"


ZERO: Final = Zero()
"""The zero gradient: `vjp` returns it for a parent on which the result does not depend smoothly."""


class Undefined(NamedTuple):
    """The gradient that `vjp` returns for a parent without a derivative; using it raises an error with this reason."""

    reason: str


class BaseNode(Op, Stateful, Generic[P_co, S]):
    """One operation: parents, static attributes, axes, dtype, an optional name, and the user's line that made it.

    A subclass is an op. It defines `shape_rule`, a meaning (`formula` or `evaluate`) and `vjp`; its public `__slots__`
    are its static attributes. Defining the class registers the op; `abstract=True` is for the base class of a family.
    A backend describes an op further by a rule registered for it; `wy.LOOPS` holds those of the native backend.

    An op of your own gives `super().__init__(x, y, factor=factor)` its operands and all its static attributes. That
    raises `ShapeError` or `DTypeError` where the op's rules refuse the operands, `RegistrationError` where the
    attributes are not those of `__slots__`, and `TypeError` for an operand that is not a node.
    """

    # `_storage` is that of a leaf. It is a slot of all nodes, so that `drafted` makes leaves too; no node grows by it.
    __slots__ = ("__weakref__", "_storage", "dims", "dtype", "name", "origin", "parents")

    attributes: ClassVar[tuple[str, ...]] = ()
    """The names of the static attributes."""
    # Their slots' own setters, as those below.
    _setters: ClassVar[dict[str, Callable[[Any, Any], None]]] = {}
    is_leaf: ClassVar[bool] = False
    """Whether the node starts a graph and holds an array."""
    is_parameter: ClassVar[bool] = False
    """Whether the node is a leaf whose array an optimizer may change."""
    stands_for: ClassVar[str] = ""
    """The description of a leaf that never holds data, for messages; else empty."""
    is_argument: ClassVar[bool] = False
    """Whether this leaf is an argument of a traced function."""
    same_value: ClassVar[bool] = False
    """Whether the node only gives its parent another identity: engines skip it, and messages name the parent."""
    named_as_parent: ClassVar[bool] = False
    """Whether messages name the parent, for another node that users do not write."""
    written: ClassVar[str] = ""
    """What users write for an op that has another name, or that they do not write; else empty."""

    parents: P_co
    """The operands."""
    dims: S
    """The axes: a number or a `Dim` each, whose class is the axis's name. See `shape` for the sizes."""
    dtype: np.dtype
    """The type of the elements, such as float32: as NumPy has it, except where it is weak (see `wyrm.Constant`)."""
    name: str | None
    """The name that messages, graphs and saved arrays use, or None."""
    origin: Origin
    """Where the user's code made the node; see `location`."""

    def __init_subclass__(cls, *, abstract: bool = False, **keywords: bool) -> None:
        super().__init_subclass__(**keywords)
        slots = [klass.__dict__.get("__slots__", ()) for klass in reversed(cls.__mro__) if klass not in _BASES]
        names = [name for group in slots for name in ((group,) if isinstance(group, str) else group)]
        cls.attributes = tuple(dict.fromkeys(name for name in names if not name.startswith("_")))
        cls._setters = {name: _setter(cls, name) for name in cls.attributes}
        if not abstract:
            register(cls)
        super(cls, cls)._bind_members()  # that of the family, which is no member of its own

    # --- construction ---------------------------------------------------------------------------------------------

    def __init__(self, *parents: BaseNode, name: str | None = None, **attributes: Any) -> None:
        # Without a docstring: language servers would show it in place of that of each class of nodes.
        self._construct(parents, name, **attributes)

    def _construct(self, parents: tuple[Any, ...], name: str | None = None, **attributes: Any) -> None:
        setters = self._setters
        if attributes or setters:
            try:  # comparing the names would take longer than setting them
                for key, value in attributes.items():
                    setters[key](self, value)
            except KeyError:
                raise _misnamed(self, parents, attributes) from None
            if len(attributes) < len(setters):
                raise _misnamed(self, parents, attributes)
        # This inlines `_begin`: its call alone would be a twentieth of building a node.
        _set_parents(self, parents)
        _set_name(self, name)
        _set_origin(self, user_origin())
        set_cell(self, None)
        set_runner(self, None)
        built = built_nodes()
        if built is not None:
            built.append(self)
        try:
            try:
                dtype = self.dtype_rule()
            except DTypeError:
                if not self._join_parents():
                    raise
                dtype = self.dtype_rule()
            if dtype is not _FLOAT32:  # first what most nodes are
                if not isinstance(dtype, np.dtype):
                    raise self._wrong_rule("dtype_rule", dtype, "a np.dtype, as in np.dtype(np.float32)")
                if dtype is WEAK32 or dtype is WEAK64:
                    dtype = self._settled(dtype)
            _set_dtype(self, dtype)
            dims = self.shape_rule()
            if dims.__class__ is not tuple and not isinstance(dims, tuple):
                raise self._wrong_rule(
                    "shape_rule", dims, "the axes of the result as a tuple, as in self.parents[0].dims"
                )
            _set_dims(self, dims)
            if Ragged.declared and parents:
                _check_ragged(self)
        except (ShapeError, DTypeError, IndexOutOfRange) as error:
            raise type(error)(explain(self, str(error))) from None
        except AttributeError:
            strangers = [type(parent).__name__ for parent in parents if not isinstance(parent, BaseNode)]
            if not strangers:
                raise
            raise TypeError(
                f"{self.op_name()} takes nodes, not {', '.join(strangers)}: make a number or an array a node with "
                f"wy.Constant(value)"
            ) from None

    def _wrong_rule(self, rule: str, found: object, right: str) -> RegistrationError:
        """Return the error for a rule of an op that returns something else than it must."""
        returned = "nothing: a return is missing" if found is None else repr(found)
        return RegistrationError(
            f"op {type(self).__name__}: {rule} must return {right}; it returned {returned} "
            f"({place_of(getattr(self, rule))})"
        )

    def _begin(self, parents: tuple[BaseNode, ...], name: str | None, origin: Origin) -> None:
        """Initialize everything except axes, dtype and attributes, which leaves, its callers, set themselves."""
        _set_parents(self, parents)
        _set_name(self, name)
        _set_origin(self, origin)
        set_cell(self, None)
        set_runner(self, None)
        built = built_nodes()
        if built is not None:
            built.append(self)

    def _settled(self, dtype: np.dtype) -> np.dtype:
        """Return the dtype of an op whose rule gives a weak one: chosen if that of a parent is."""
        for parent in self.parents:
            if parent.dtype is not dtype and parent.dtype.kind == "f":
                if self._join_parents():
                    dtype = self.dtype_rule()
                return dtype if all(is_weak(x.dtype) for x in self.parents if x.dtype.kind == "f") else chosen(dtype)
        return dtype

    def _join_parents(self) -> bool:
        """Replace weak parents by those in the float type of the others; return whether there were any."""
        operands = joined(self.parents)
        if operands is not None:
            _set_parents(self, operands)
        return operands is not None

    @classmethod
    def construct(cls, parents: tuple[BaseNode, ...], attributes: dict[str, Any], name: str | None = None) -> Self:
        """Return an operation of this class, whatever the arguments of its `__init__`."""
        node = cls.__new__(cls)
        node._construct(parents, name, **attributes)
        return node

    def rebuild(self, parents: Iterable[BaseNode], **changes: Any) -> Self:
        """Return the same operation on other parents, with changes of some static attributes."""
        return self.construct(tuple(parents), self.attribute_values() | changes, self.name)

    def in_float_type(self, dtype: np.dtype, parents: tuple[BaseNode, ...]) -> BaseNode:
        """Return this op, which is weak, in another float type, on its parents in that type; see `weak_types`."""
        return self.rebuild(parents, **{key: dtype for key, value in self.attribute_values().items() if is_weak(value)})

    def attribute_values(self) -> dict[str, Any]:
        """Return the static attributes by name."""
        return {name: getattr(self, name) for name in self.attributes}

    @classmethod
    def op_name(cls) -> str:
        """Return the operation's name in messages and generated code: the method's name if it has one."""
        if cls.method:
            return cls.method
        return _WORD_STARTS.sub("_", cls.__name__.lstrip("_")).lower()

    # --- properties -----------------------------------------------------------------------------------------------

    def parameters(self) -> list[Parameter]:
        """Return the parameters that this node depends on, each once, in the order of first use."""
        found: list[Any] = [node for node in topological_order([self]) if node.is_parameter]
        return found

    @property
    def location(self) -> SourceLocation:
        """The user's file and line that made the node."""
        return location_of(self.origin)

    @property
    def module_path(self) -> str:
        """The path of the module whose call made the node, such as `blocks[3].attention.qkv`; else empty.

        The path leads from the outermost module that was called; it is empty for a node of that module itself. The
        nodes of a gradient have the path of the node that they differentiate.
        """
        call = self.origin[2]
        return "" if call is None else call.path

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes; an axis whose size the data of each run decides stands for itself.

        Functions that take sizes take such an axis too, as in `wy.eye(x.shape[0])`, and `*` and `+` of it are axes; as
        a number, as in `range(x.shape[0])`, it raises `ShapeError`.
        """
        dims: Any = self.dims
        return tuple([axis if type(axis) is int or axis.size is None else axis.size for axis in dims])

    @property
    def ndim(self) -> int:
        """The number of axes."""
        dims: Any = self.dims
        return len(dims)

    @property
    def size(self) -> int:
        """The number of elements; raise `MissingShape` if the data of a run decides it."""
        dims: Any = self.dims
        try:
            return SizeWithHint(np.prod([operator.index(axis) for axis in dims], dtype=np.int64))
        except ShapeError as error:
            raise MissingShape(f"{describe(self)} has no size yet: {error}") from None

    # What notebooks display.
    _repr_mimebundle_ = Late("wyrm.view.notebook", "of_node")

    # Nodes hash by identity. `==` returns a mask, and a class that defines `__eq__` has no hash otherwise.
    if TYPE_CHECKING:

        def __hash__(self) -> int: ...

    else:
        __hash__ = object.__hash__

    def __repr__(self) -> str:
        description = describe(self)
        if self.name is None:  # the class says what the operation's name would
            description = description.removeprefix(f"{self.op_name()} ")
        return f"<{type(self).__name__} {description}>"

    def __iter__(self) -> Iterator[Any]:
        dims: Any = self.dims
        if not dims:
            raise TypeError(f"{describe(self)} is a scalar and has no rows to iterate over")
        size = axis_size(dims[0])
        if size is None:
            raise ShapeError(
                f"{describe(self)}: the number of rows is known only when data is bound, so the graph cannot iterate "
                f"over them; work on all rows at once, or give the axis a size"
            )
        node: Any = self
        return (node[row] for row in range(size))

    if not TYPE_CHECKING:  # hidden from type checkers, so that they reject it too

        def __setattr__(self, key: str, value: object) -> None:
            begun = hasattr(self, "parents")
            if not begun and key not in self.attributes:
                raise AttributeError(
                    f"{type(self).__name__} has no attribute {key}: name the static attributes of an op in its "
                    f"__slots__, and pass them to super().__init__(*parents, {key}={key})"
                )
            raise AttributeError(
                f"{describe(self)} is immutable, so {key} cannot be set: build a new node, "
                f"or change the data of a leaf with .set(value); an op of your own passes its attributes to "
                f"super().__init__(*parents, {key}={key})"
                if key in self.attributes
                else f"{describe(self)} is immutable, so {key} cannot be set: build a new node, "
                f"or change the data of a leaf with .set(value)"
            )

        def __delattr__(self, key: str) -> None:
            raise AttributeError(f"{describe(self)} is immutable, so {key} cannot be deleted")

        def __setitem__(self, key: object, value: object) -> NoReturn:
            raise TypeError(
                f"{describe(self)} is immutable and takes no item assignment: node.at[key].set(values) returns a copy "
                f"with new elements, and wy.where(mask, new, old) replaces elements by a mask"
            )

        def __contains__(self, value: object) -> NoReturn:
            raise TypeError(
                f"{describe(self)}: its elements are known only when it is computed; compare its elements with "
                f"node == value, or ask 'value in node.value'"
            )

        def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
            raise TypeError(
                f"{describe(self)} is not an array: compute it with node.forward(), or read node.value; to compute "
                f"with the node itself, use its methods and functions of wy, as in wy.exp(x), or wy.stack([x, y])"
            )

    def __dir__(self) -> list[str]:
        """Return the names that users need; Python suggests them for misspelled ones."""
        classes: list[Any] = [cls for cls in type(self).__mro__ if cls in _BASES or getattr(cls, "is_leaf", False)]
        names = {name for cls in classes for name in _own(cls) if not name.startswith("_")}
        return sorted((names - _own(BaseNode) - _own(Op)).union(_TOLD, self.attributes))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> BaseNode:
        return copied(self, memo)

    def __reduce__(self) -> tuple[Any, ...]:
        return restore, (flatten(self),)


def _own(cls: type) -> set[str]:
    """Return the names that a class defines, without those of other libraries."""
    return {name for name, member in vars(cls).items() if not isinstance(member, ForeignName)}


def _setter(cls: type[BaseNode], name: str) -> Callable[[Any, Any], None]:
    """Return what sets a static attribute: the slot's setter, unless a class variable of a subclass hides the slot."""
    return getattr(getattr(cls, name), "__set__", lambda node, value: _set(node, name, value))


# The module that says which ops are defined along an axis of different lengths; it needs these ops.
_RAGGED = "wyrm.ops.ragged"


def _check_ragged(node: BaseNode) -> None:
    """Raise `ShapeError` for an op that is not defined along a `Ragged` axis that it or an operand has."""
    if any(isinstance(axis, Ragged | Derived) for each in (node, *node.parents) for axis in each.dims):
        importlib.import_module(_RAGGED).check(node)


def _misnamed(node: BaseNode, parents: tuple[Any, ...], given: dict[str, Any]) -> RegistrationError:
    """Return the error for a node that is constructed with other attributes than those of its `__slots__`."""
    op, names = type(node).__name__, node.attributes
    values = [parent for parent in parents if not isinstance(parent, BaseNode)]
    if values and not given:
        by_name = ", ".join(f"{name}=..." for name in names)
        return RegistrationError(
            f"op {op} takes its attributes by name, {op}(..., {by_name}), and nodes as operands; {values[0]!r} is no "
            f"node"
        )
    return RegistrationError(
        f"op {op} was constructed with the attributes ({', '.join(given)}), its public __slots__ are "
        f"({', '.join(names)}); name each static attribute in __slots__ and pass all"
    )


# The slots' own setters bypass `__setattr__` and are twice as fast as `object.__setattr__`.
_set_parents, _set_name, _set_origin, _set_dtype, _set_dims = (
    BaseNode.__dict__[slot].__set__ for slot in ("parents", "name", "origin", "dtype", "dims")
)

# Attributes of `BaseNode` that users need; the others are for authors of ops.
_TOLD = frozenset(
    ["dims", "dtype", "name", "ndim", "parameters", "parents", "shape", "location", "module_path", "size"]
)
for _name, _answer in answers("nodes").items():
    setattr(BaseNode, _name, ForeignName(_name, _answer, "Node"))
_BASES: set[object] = {BaseNode, Stateful, Generic, object}


# The result of `vjp` for one parent.
Gradient: TypeAlias = BaseNode | Zero | Undefined


# --- descriptions for messages --------------------------------------------------------------------------------------


def format_dims(dims: Dims) -> str:
    """Return axes as a tuple is printed: `(Batch(32), 7)`."""
    return f"({', '.join(map(repr, dims))}{',' if len(dims) == 1 else ''})"


def original(node: BaseNode) -> BaseNode:
    """Return the node that computes this value, behind all nodes that messages do not name."""
    while node.same_value or node.named_as_parent:
        node = node.parents[0]
    return node


def label(node: BaseNode) -> str:
    """Return a node's name as texts show it, else its operation's."""
    node = original(node)
    name: str | None = getattr(node, "name", None)  # the node may still be under construction
    return node.op_name() if name is None else encodable(name)


def outline(node: BaseNode) -> str:
    """Return a node's name, axes and dtype, as far as it is built."""
    node = original(node)
    dims: Dims | None = getattr(node, "dims", None)
    dtype = getattr(node, "dtype", None)
    known = "" if dims is None else f" {format_dims(dims)}"
    return f"{label(node)}{known}{'' if dtype is None else f' {dtype}'}"


def describe(node: BaseNode) -> str:
    """Return a node's name, axes, dtype and the line that made it, as messages give them."""
    located = original(node)
    return f"{outline(located)} (at {located.location})" if hasattr(located, "origin") else outline(located)


# The node that explains the errors of the nodes that are computed or built, because it is made of them.
_whole: ContextVar[BaseNode | None] = ContextVar("_whole", default=None)


@contextmanager
def reasons_alone(node: BaseNode) -> Iterator[None]:
    """Let `explain` return reasons without lines, and without operands unless a user has written the op of `node`.

    That node is made of those that are built or computed, and it explains their errors: its operands and its line are
    what its users know. The author of an op knows what it is made of, too.
    """
    token = _whole.set(node)
    try:
        yield
    finally:
        _whole.reset(token)


@contextmanager
def explained_by(node: BaseNode) -> Iterator[None]:
    """Explain errors of nodes that a node is made of as errors of that node, with its operands and its line."""
    try:
        with reasons_alone(node):
            yield
    except WyrmError as error:
        raise type(error)(explain(node, str(error))) from None


def explain(node: BaseNode, reason: str) -> str:
    """Return a full message: the op, the reason, every operand, and the user's line."""
    whole = _whole.get()
    if whole is not None:
        part = f"\n  in {node.op_name()} of {' and '.join(map(outline, node.parents))}"
        return reason if type(whole).__module__.startswith("wyrm.") else f"{reason}{part}"
    attributes = ", ".join(f"{key}={value!r}" for key, value in node.attribute_values().items() if value is not None)
    lines = [f"{node.op_name()}{f'({attributes})' if attributes else ''}: {reason}"]
    names = ("left", "right") if len(node.parents) == 2 else tuple(f"operand {i}" for i in range(len(node.parents)))
    if len(node.parents) == 1:
        names = ("operand",)
    width = max(map(len, names), default=0)
    lines += [f"  {name:{width}}  {describe(parent)}" for name, parent in zip(names, node.parents, strict=True)]
    lines += _inputs_of_unnamed(node)
    lines.append(f"  at {encodable(node.location.filename)}:{node.location.line}: {node.location.source}")
    return "\n".join(lines)


def _inputs_of_unnamed(node: BaseNode) -> list[str]:
    """Return a line that says which leaves have the axes `Dim()` that a message tells apart, if it does."""
    apart = {axis for parent in node.parents for axis in parent.dims if isinstance(axis, UnnamedDim) and axis.number}
    if len(apart) < 2:
        return []
    found: dict[UnnamedDim, str] = {}
    for leaf in topological_order(node.parents):
        for axis in leaf.dims if leaf.is_leaf else ():
            if axis in apart:
                found.setdefault(axis, label(leaf))
    return [f"  {', '.join(f'{axis!r} is an axis of {name}' for axis, name in found.items())}"] if found else []
