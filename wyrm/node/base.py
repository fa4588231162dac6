"""The node: an immutable description of one operation, and the registry of operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, NamedTuple, NoReturn

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import DTypeError, RegistrationError, ShapeError
from wyrm.node.pickling import copied, flatten, restore
from wyrm.node.rules import check_words
from wyrm.node.source_location import Origin, SourceLocation, built_nodes, location_of, user_origin
from wyrm.node.state import Stateful, keep_way, lend
from wyrm.node.traversal import topological_order
from wyrm.types.dims import Dims, axis_size

if TYPE_CHECKING:
    from wyrm.node.index_operands import IndexOperand
    from wyrm.node.leaves import Parameter

# Class-level variables have defaults (PEP 696): an unannotated node is Node[Any, Any] and never a false alarm.
P_co = TypeVar("P_co", bound="tuple[BaseNode[Any, Any], ...]", covariant=True, default=Any)
S = TypeVar("S", default=Any)

_set = object.__setattr__


class Zero:
    """The declared zero: what `vjp` returns for a parent on which the result does not depend smoothly."""

    def __repr__(self) -> str:
        return "ZERO"


ZERO: Final = Zero()


class Undefined(NamedTuple):
    """What `vjp` returns for a parent by which an op cannot be differentiated; an error if that is asked for."""

    reason: str


class BaseNode(Stateful, Generic[P_co, S]):
    """One operation: parents, static attributes, axes, dtype, optional name, and the line that made it.

    A subclass is an op. It gives `shape_rule`, a meaning (`formula` or `evaluate`) and `vjp`; its public `__slots__`
    are its static attributes. Defining one registers it; `abstract=True` keeps a family's base out of the registry.
    What a backend knows of an op besides is a rule, registered for it: `wy.LOOPS` has those of the native backend.
    """

    __slots__ = ("__weakref__", "dims", "dtype", "name", "origin", "parents")

    attributes: ClassVar[tuple[str, ...]] = ()
    formula: ClassVar[str | None] = None
    method: ClassVar[str | None] = None
    operator: ClassVar[str | None] = None
    # How the type checker sees the method, with {method} and {op} left open; see `wyrm.declare`.
    declaration: ClassVar[str] = ""
    # Whether the op's `evaluate` takes row-sparse operands as they are; others get them as dense arrays.
    takes_rows: ClassVar[bool] = False
    # Whether the op's value is row-sparse.
    gives_rows: ClassVar[bool] = False
    # Whether the elements are those of the only operand, all of them and in row-major order, under other axes.
    same_elements: ClassVar[bool] = False
    # Whether the value may be a view: the elements of the first operand, found elsewhere in its memory.
    is_view: ClassVar[bool] = False
    # Whether the node starts a graph and holds an array, and whether that is for an optimizer to change.
    is_leaf: ClassVar[bool] = False
    is_parameter: ClassVar[bool] = False
    # Whether the node is its only parent under another identity: no engine computes it, and messages name the parent.
    same_value: ClassVar[bool] = False
    # Whether the value depends on nothing but the operands' shapes.
    shape_only: ClassVar[bool] = False
    # The positions of parents that are functions of other parents, whose gradient accounts for them.
    residual_parents: ClassVar[frozenset[int]] = frozenset()

    parents: P_co
    dims: S
    dtype: np.dtype[Any]
    name: str | None
    origin: Origin

    def __init_subclass__(cls, *, abstract: bool = False, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "vjp" in cls.__dict__ and "vjp_by" not in cls.__dict__:
            cls.vjp_by = BaseNode.vjp_by  # type: ignore[method-assign]  # and not that of a base with another `vjp`
        slots = [klass.__dict__.get("__slots__", ()) for klass in reversed(cls.__mro__) if klass not in _BASES]
        names = [name for group in slots for name in ((group,) if isinstance(group, str) else group)]
        cls.attributes = tuple(dict.fromkeys(name for name in names if not name.startswith("_")))
        if not abstract:
            register(cls)

    # --- what an op defines ---------------------------------------------------------------------------------------

    @classmethod
    def check_registration(cls) -> None:
        """Raise `RegistrationError` where the class cannot be an op, before it is registered."""

    def shape_rule(self) -> Dims:
        """The axes of the result, from the parents' and the attributes; raises `ShapeError` with the reason."""
        raise NotImplementedError

    def dtype_rule(self) -> np.dtype[Any]:
        """The dtype of the result; raises `DTypeError` with the reason."""
        raise NotImplementedError

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        """The value, by the functions of the array namespace `xp`; `shape` is the result's shape in this run."""
        raise NotImplementedError

    def check_sizes(self, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> None:
        """Raise where sizes that only the data of a run gives do not fit: the parents' `shapes`, or that of the result.

        Every engine calls it when it binds data of these sizes, before anything is computed.
        """

    def index_operands(self) -> tuple[IndexOperand, ...]:
        """The operands whose integers choose along an axis; see `Choosing`."""
        return ()

    def by_rows(self, rows: Sequence[int | None]) -> Literal["rows", "mean"] | None:
        """How the value depends on rows of data, where its formula or its loop form does not tell.

        `rows` are the axes of the parents that have an element for each row, None for a parent that is the same for
        all. It is "rows" where each row of the result depends on that row of the parents alone, "mean" for the mean of
        what depends on rows one by one, and None where rows depend on each other, or it is not known.
        """
        return None

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        """For each parent a node with the gradient, `ZERO`, or `Undefined(reason)`."""
        raise NotImplementedError

    def vjp_by(self, gradient: Any, wanted: Sequence[bool]) -> tuple[Any, ...]:
        """As `vjp`, but what is given for a parent that is not `wanted` is of no account; for ops where it costs."""
        return self.vjp(gradient)

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Any:
        """This op on many operands at once: those that are `mapped` have a new first axis, and so has the result.

        None, for an op that has no such form for these: it is then computed for one after the other.
        """
        return None

    # --- construction ---------------------------------------------------------------------------------------------

    def _construct(self, parents: tuple[Any, ...], name: str | None = None, **attributes: Any) -> None:
        if (attributes or self.attributes) and attributes.keys() != frozenset(self.attributes):
            raise RegistrationError(
                f"op {type(self).__name__} was constructed with the attributes ({', '.join(attributes)}), its public "
                f"__slots__ are ({', '.join(self.attributes)}); name each static attribute in __slots__ and pass all"
            )
        for key, value in attributes.items():
            _set(self, key, value)
        # As `_begin`, of which the call alone would be a twentieth of building a node.
        _set_parents(self, parents)
        _set_name(self, name)
        _set_origin(self, user_origin())
        lend(self, None)
        keep_way(self, None)
        built = built_nodes()
        if built is not None:
            built.append(self)
        try:
            _set_dtype(self, self.dtype_rule())
            _set_dims(self, self.shape_rule())
        except (ShapeError, DTypeError) as error:
            raise type(error)(explain(self, str(error))) from None
        except AttributeError:
            strangers = [type(parent).__name__ for parent in parents if not isinstance(parent, BaseNode)]
            if not strangers:
                raise
            raise TypeError(
                f"{self.op_name()} takes nodes, not {', '.join(strangers)}: make a number or an array a node with "
                f"wy.Constant(value)"
            ) from None

    def _begin(self, parents: tuple[Any, ...], name: str | None, origin: Origin) -> None:
        """Have what every node has besides its axes, its dtype and its attributes; for leaves, which know these."""
        _set_parents(self, parents)
        _set_name(self, name)
        _set_origin(self, origin)
        lend(self, None)
        keep_way(self, None)
        built = built_nodes()
        if built is not None:
            built.append(self)

    @classmethod
    def rebuild(cls, parents: tuple[Any, ...], attributes: dict[str, Any], name: str | None = None) -> Any:
        """The same operation on other parents."""
        node = cls.__new__(cls)
        node._construct(parents, name, **attributes)
        return node

    def attribute_values(self) -> dict[str, Any]:
        """The static attributes by name."""
        return {name: getattr(self, name) for name in self.attributes}

    @classmethod
    def op_name(cls) -> str:
        """The operation's name in messages and generated code: the method's name where it has one."""
        if cls.method is not None:
            return cls.method
        return "".join("_" + c.lower() if c.isupper() else c for c in cls.__name__).lstrip("_")

    # --- what a node tells ----------------------------------------------------------------------------------------

    def parameters(self) -> list[Parameter[Any]]:
        """The parameters that this node depends on, each once, in the order of first use."""
        found: list[Any] = [node for node in topological_order([self]) if node.is_parameter]
        return found

    @property
    def location(self) -> SourceLocation:
        """The user's file and line that made it."""
        return location_of(self.origin)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes; `ShapeError` while one is left for the data to give (see `dims`)."""
        dims: Any = self.dims
        return tuple(axis if type(axis) is int else axis.__index__() for axis in dims)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        dims: Any = self.dims
        return len(dims)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    # Nodes are keys by identity. `==` makes a mask, and a class with an `__eq__` of its own would have no hash.
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {describe(self)}>"

    def __iter__(self) -> Iterator[Any]:
        dims: Any = self.dims
        if not dims:
            raise TypeError(f"{describe(self)} is a scalar and has no rows to go through")
        size = axis_size(dims[0])
        if size is None:
            raise ShapeError(
                f"{describe(self)}: the number of rows is known only when data is bound, so they cannot be gone "
                f"through while the graph is built; work on all of them at once, or give the axis a size"
            )
        node: Any = self
        return (node[row] for row in range(size))

    if not TYPE_CHECKING:  # what a node refuses, a type checker that does not see it refuses too

        def __setattr__(self, key: str, value: object) -> None:
            raise AttributeError(
                f"{describe(self)} is immutable, so {key} cannot be set: build a new node, "
                f"or change what a leaf holds with .set(value); an op of your own passes its attributes to "
                f"self._construct(parents, {key}={key})"
                if key in self.attributes
                else f"{describe(self)} is immutable, so {key} cannot be set: build a new node, "
                f"or change what a leaf holds with .set(value)"
            )

        def __delattr__(self, key: str) -> None:
            raise AttributeError(f"{describe(self)} is immutable, so {key} cannot be deleted")

        def __setitem__(self, key: object, value: object) -> NoReturn:
            raise TypeError(
                f"{describe(self)} is immutable and takes no item assignment: use wy.where(mask, new, old) to replace "
                f"elements by a mask, or node.scatter_add(rows, values) to add to rows"
            )

        def __contains__(self, value: object) -> NoReturn:
            raise TypeError(
                f"{describe(self)}: what it contains is known only when it is computed; compare its elements with "
                f"node == value, or ask 'value in node.value'"
            )

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
            raise TypeError(f"{describe(self)} is no array: compute it with node.forward(), or read node.value")

        def __array_function__(self, function: Any, types: Any, arguments: Any, keywords: Any) -> NoReturn:
            name = function.__name__
            instead = f"node.{name}(...), " if hasattr(self, name) else f"wyrm.{name}, " if name in _FUNCTIONS else ""
            raise TypeError(
                f"numpy.{name} takes arrays, not nodes: use {instead}another operator or method of the node, or "
                f"numpy.{name} on node.value"
            )

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copied(self, memo)

    def __reduce__(self) -> tuple[Any, ...]:
        return restore, (flatten(self),)


# The slots' own setters: past `__setattr__`, and twice as quick as that of `object`.
_set_parents, _set_name, _set_origin, _set_dtype, _set_dims = (
    BaseNode.__dict__[slot].__set__ for slot in ("parents", "name", "origin", "dtype", "dims")
)

# The functions of NumPy that wyrm has as functions too.
_FUNCTIONS = frozenset(["concatenate", "einsum", "stack", "where"])
_BASES: set[Any] = {BaseNode, Stateful, Generic, object}
REGISTRY: dict[str, type[BaseNode[Any, Any]]] = {}


def register(cls: type[BaseNode[Any, Any]]) -> None:
    """Add an op to the registry; `RegistrationError` names the part that it lacks."""
    missing = [
        part
        for part, present in (
            ("shape_rule", cls.shape_rule is not BaseNode.shape_rule),
            ("dtype_rule", cls.dtype_rule is not BaseNode.dtype_rule),
            ("formula or evaluate", cls.formula is not None or cls.evaluate is not BaseNode.evaluate),
            ("vjp", cls.vjp is not BaseNode.vjp),
        )
        if not present
    ]
    if missing:
        raise RegistrationError(
            f"op {cls.__name__} lacks {' and '.join(missing)}; every op has a shape rule, a meaning and a gradient "
            f"(return wyrm.ZERO or wyrm.Undefined(reason) where there is none)"
        )
    check_words(cls)
    cls.check_registration()
    key = f"{cls.__module__}.{cls.__qualname__}"
    previous = REGISTRY.get(key)  # the same class defined anew, as in a notebook, may take its methods again
    for name in (cls.__dict__.get("method"), f"__{cls.__dict__.get('operator')}__"):
        taken = name is not None and any(name in base.__dict__ for base in cls.__mro__[1:-1])
        if taken and (previous is None or name not in (previous.method, f"__{previous.operator}__")):
            raise RegistrationError(f"op {cls.__name__} is to be the method {name}, which nodes have already")
    REGISTRY[key] = cls


# --- words for messages ---------------------------------------------------------------------------------------------


def format_dims(dims: Dims) -> str:
    """The axes as a tuple is printed: `(Batch(32), 7)`."""
    return f"({', '.join(map(repr, dims))}{',' if len(dims) == 1 else ''})"


def original(node: BaseNode[Any, Any]) -> BaseNode[Any, Any]:
    """The node whose value this is, without the other identities that it goes by."""
    while node.same_value:
        node = node.parents[0]
    return node


def label(node: BaseNode[Any, Any]) -> str:
    """A node's name, else its operation's."""
    node = original(node)
    name: str | None = getattr(node, "name", None)  # a message may be wanted before the node is whole
    return name if name is not None else node.op_name()


def describe(node: BaseNode[Any, Any]) -> str:
    """Name, axes and dtype, and the line that made it, as messages give them."""
    node = original(node)
    dims: Any = getattr(node, "dims", None)
    dtype = getattr(node, "dtype", None)
    location = node.location if hasattr(node, "origin") else None
    known = "" if dims is None else f" {format_dims(dims)}"
    return (
        f"{label(node)}{known}{'' if dtype is None else f' {dtype}'}{'' if location is None else f' (at {location})'}"
    )


def explain(node: BaseNode[Any, Any], reason: str) -> str:
    """A message in full: the op, the reason, every operand, and the user's line."""
    attributes = ", ".join(f"{key}={value!r}" for key, value in node.attribute_values().items() if value is not None)
    lines = [f"{node.op_name()}{f'({attributes})' if attributes else ''}: {reason}"]
    names = ("left", "right") if len(node.parents) == 2 else tuple(f"operand {i}" for i in range(len(node.parents)))
    if len(node.parents) == 1:
        names = ("operand",)
    width = max(map(len, names), default=0)
    lines += [f"  {name:{width}}  {describe(parent)}" for name, parent in zip(names, node.parents, strict=True)]
    lines.append(f"  at {node.location.filename}:{node.location.line}: {node.location.source}")
    return "\n".join(lines)
