"""Leaves: what a graph starts from. Parameters, inputs and constants hold arrays; nothing else in a graph does."""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Any, Generic, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from typing_extensions import TypeVar, TypeVarTuple, Unpack

from wyrm.errors import DTypeError, IndexOutOfRange, NotFinite, NotSet, ShapeError
from wyrm.node.base import _BASES, BaseNode, S, _set, describe, format_dims
from wyrm.node.node import IndexNode, Node
from wyrm.types.dims import Dim, Dims, axis_size
from wyrm.types.rows import RowSparse
from wyrm.types.typing import FloatArray, Shaped, Unknown

if TYPE_CHECKING:
    from wyrm.ops.index import Index

ShapeDims = TypeVar("ShapeDims", bound=tuple[Dim, ...])
DA = TypeVar("DA", bound=Dim)
DB = TypeVar("DB", bound=Dim)
DC = TypeVar("DC", bound=Dim)
OwnL = TypeVar("OwnL", bound="BaseNode[Any, Any]", covariant=True)
Bs = TypeVarTuple("Bs")
Rows = TypeVar("Rows")
Columns = TypeVar("Columns")

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


_clock = itertools.count(1)


def tick() -> int:
    """The next instant: leaves and cached values are compared by when they last changed."""
    return next(_clock)


class Storage:
    """What a leaf holds: the array, the instant of its last change, and a parameter's gradient."""

    __slots__ = ("array", "gradient", "limits", "version")

    def __init__(self, array: NDArray[Any] | None) -> None:
        self.array = array
        self.version = tick()
        self.gradient: FloatArray | RowSparse | None = None
        # For an index: the ops that use it, each with the number of rows that it may choose from.
        self.limits: list[tuple[weakref.ref[BaseNode[Any, Any]], int]] = []


def is_leaf(node: BaseNode[Any, Any]) -> bool:
    """Whether the node starts a graph instead of computing from parents."""
    return isinstance(node, _Leaf | _IndexLeaf)


def _declared(array: NDArray[Any] | None, dims: Any, rebindable: bool) -> Dims:
    """The axes of a leaf: as declared, a class taking its size from the array.

    An axis without a size takes it from the array too, unless the leaf is `rebindable` to data of other sizes.
    """
    if dims is None:
        return () if array is None else array.shape
    axes = (dims,) if isinstance(dims, int | Dim | type) else tuple(dims)
    shape: tuple[int | None, ...] = (None,) * len(axes) if array is None else array.shape
    if len(axes) != len(shape):
        raise ShapeError(f"{len(axes)} axes are declared, {format_dims(axes)}, but the array has shape {shape}")
    declared: list[Any] = []
    for axis, size in zip(axes, shape, strict=True):
        if isinstance(axis, type) and issubclass(axis, Dim):
            declared.append(axis(size))
        elif isinstance(axis, Dim):
            declared.append(type(axis)(size) if axis.size is None and not rebindable else axis)
        else:
            declared.append(axis.__index__())
    if array is not None and any(axis_size(a) not in (None, n) for a, n in zip(declared, shape, strict=True)):
        raise ShapeError(f"declared as {format_dims(tuple(declared))}, but the array has shape {shape}")
    return tuple(declared)


def _float_array(value: ArrayLike, dtype: DTypeLike | None) -> NDArray[Any]:
    """A new array: Python numbers become float32, NumPy floats keep their type."""
    array = np.asarray(value)
    if dtype is None:
        dtype = array.dtype if isinstance(value, np.ndarray | np.generic) else np.dtype(np.float32)
    wanted = np.dtype(dtype)
    if wanted.kind not in "fb" or (wanted.kind == "f" and wanted not in FLOATS):
        raise DTypeError(
            f"a leaf holds float32, float64 or bool, not {wanted}; give array.astype(np.float32), dtype=np.float32, "
            f"or wy.IndexInput for integers"
        )
    if array.dtype.kind not in "fiub":
        raise DTypeError(f"cannot make numbers of {array.dtype} values")
    return np.array(array, dtype=wanted, order="C")


def _check_finite(node: BaseNode[Any, Any], array: NDArray[Any]) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        position = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise NotFinite(
            f"{describe(node)} was given {array[position]} at position {position}; "
            f"clean the data, or declare the input with finite=False"
        )


def check_shape(node: BaseNode[Any, Any], shape: tuple[int, ...]) -> None:
    """`ShapeError` unless data of this shape fits the node's axes, an axis without a size taking any."""
    dims: Any = node.dims
    if len(dims) != len(shape):
        raise ShapeError(f"{describe(node)} has {len(dims)} axes, the data has shape {shape}")
    for position, (axis, size) in enumerate(zip(dims, shape, strict=True)):
        if axis_size(axis) not in (None, size):
            raise ShapeError(f"{describe(node)}: axis {position} is {axis!r}, the data has {size} there, shape {shape}")


class _Leaf(Node[tuple[()], S], Generic[S], abstract=True):
    __slots__ = ("_storage",)
    _storage: Storage

    def __init__(self, array: NDArray[Any] | None, dims: Any, name: str | None, dtype: DTypeLike) -> None:
        _set(self, "_storage", Storage(array))
        _set(self, "dtype", np.dtype(dtype))
        _set(self, "dims", _declared(array, dims, isinstance(self, Input)))
        self._construct((), name)

    def shape_rule(self) -> Dims:
        dims: Any = self.dims
        return tuple(dims)

    def dtype_rule(self) -> np.dtype[Any]:
        return self.dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_leaf, (type(self), self._storage.array, self.dims, self.name, self.dtype, _extra(self))


class Parameter(_Leaf[S], abstract=True):
    """A trainable leaf: its array is what an optimizer changes, `gradient` what `backward()` adds to.

    `value` is copied: Python numbers become float32, NumPy arrays keep float32 or float64. `dims` names the axes; a
    `Dim` class takes its size from the array. Raises `ShapeError` where they disagree, `DTypeError` for other types,
    `NotFinite` for a NaN or an infinity.

    >>> slope = Parameter([1.0, 2.0], name="slope")
    >>> slope.shape, slope.dtype
    ((2,), dtype('float32'))
    """

    __slots__ = ()

    def _own(self) -> Parameter[S]:
        return self

    @overload
    def __init__(
        self, value: ArrayLike, dims: None = None, *, name: str | None = None, dtype: DTypeLike | None = None
    ) -> None: ...
    @overload
    def __init__(
        self: Parameter[tuple[DA]],
        value: ArrayLike,
        dims: tuple[type[DA]],
        *,
        name: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Parameter[tuple[DA, DB]],
        value: ArrayLike,
        dims: tuple[type[DA], type[DB]],
        *,
        name: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Parameter[tuple[DA, DB, DC]],
        value: ArrayLike,
        dims: tuple[type[DA], type[DB], type[DC]],
        *,
        name: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self, value: ArrayLike, dims: S, *, name: str | None = None, dtype: DTypeLike | None = None
    ) -> None: ...
    def __init__(
        self, value: ArrayLike, dims: Any = None, *, name: str | None = None, dtype: DTypeLike | None = None
    ) -> None:
        array = _float_array(value, dtype)
        if array.dtype.kind != "f":
            raise DTypeError(f"a parameter holds float32 or float64, not {array.dtype}")
        super().__init__(array, dims, name, array.dtype)
        _check_finite(self, array)

    @overload
    @classmethod
    def zeros(cls, shape: ShapeDims, *, name: str | None = None, dtype: DTypeLike = ...) -> Parameter[ShapeDims]: ...
    @overload
    @classmethod
    def zeros(cls, shape: tuple[int], *, name: str | None = None, dtype: DTypeLike = ...) -> Parameter[tuple[Any]]: ...
    @overload
    @classmethod
    def zeros(
        cls, shape: tuple[int, int], *, name: str | None = None, dtype: DTypeLike = ...
    ) -> Parameter[tuple[Any, Any]]: ...
    @overload
    @classmethod
    def zeros(cls, shape: tuple[int, ...], *, name: str | None = None, dtype: DTypeLike = ...) -> Parameter[Any]: ...
    @classmethod
    def zeros(cls, shape: Any, *, name: str | None = None, dtype: DTypeLike = np.float32) -> Any:
        """A parameter of zeros.

        >>> Parameter.zeros((2, 3)).shape
        (2, 3)
        """
        return cls(np.zeros(shape, dtype), shape, name=name)

    @property
    def gradient(self) -> FloatArray:
        """The gradient that `backward()` has added up, zeros before; dense, made anew where it is row-sparse."""
        held = self._storage.gradient
        if held is None:
            return np.zeros(self.shape, self.dtype)
        return held.dense() if isinstance(held, RowSparse) else held

    @property
    def row_gradient(self) -> RowSparse | None:
        """The gradient as the rows it touches, None where it is dense or nothing was added yet."""
        held = self._storage.gradient
        return held if isinstance(held, RowSparse) else None

    def set(self, value: ArrayLike) -> None:
        """Replace the values, of the same shape; `ShapeError` or `NotFinite` before anything changes."""
        _assign(self, value, finite=True)

    def clear_gradient(self) -> None:
        """Set the gradient to zero."""
        self._storage.gradient = None

    if TYPE_CHECKING:  # bound by wyrm.ops.index

        @overload
        def index(
            self: Shaped[OwnL, tuple[Rows, Columns]], indices: IndexNode[Unknown]
        ) -> Index[OwnL, IndexNode[Any], Any]: ...
        @overload
        def index(
            self: Shaped[OwnL, tuple[Rows, Columns]], indices: IndexNode[tuple[Unpack[Bs]]]
        ) -> Index[OwnL, IndexNode[Any], tuple[Unpack[Bs], Columns]]: ...
        @overload
        def index(
            self: Shaped[OwnL, tuple[Rows]], indices: IndexNode[tuple[Unpack[Bs]]]
        ) -> Index[OwnL, IndexNode[Any], tuple[Unpack[Bs]]]: ...
        def index(self, indices: Any) -> Any:
            """The rows that `indices` choose; the gradient holds only those rows. `IndexOutOfRange` at `set`."""


def _assign(leaf: Parameter[Any] | Input[Any], value: ArrayLike, finite: bool) -> None:
    given = np.asarray(value)
    if given.dtype.kind not in "fiub" or (leaf.dtype.kind == "b" and given.dtype.kind != "b"):
        raise DTypeError(f"{describe(leaf)} takes {leaf.dtype}, the data is {given.dtype}")
    check_shape(leaf, given.shape)
    with np.errstate(over="ignore"):
        array = given.astype(leaf.dtype, order="C")
    if finite:
        _check_finite(leaf, array)
    _store(leaf._storage, array)


def _store(storage: Storage, array: NDArray[Any]) -> None:
    """Into the same memory where the shape is the same, for plans hold on to it."""
    if storage.array is not None and storage.array.shape == array.shape:
        storage.array[...] = array
    else:
        storage.array = array
    storage.version = tick()


class Input(_Leaf[S], abstract=True):
    """A leaf that data is bound to with `set`, or by a compiled program.

    Without `dims` and value it is a scalar. An axis `Batch()` without a size takes that of the data. Dtype float32
    unless given, bool for masks. `finite=False` lets NaN and infinities in.

    >>> x = Input(name="x")
    >>> x.set(2.0)
    >>> float(x.value)
    2.0
    """

    __slots__ = ("_finite",)
    _finite: bool

    def _own(self) -> Input[S]:
        return self

    @overload
    def __init__(
        self: Input[tuple[()]],
        value: float | None = None,
        dims: None = None,
        *,
        name: str | None = None,
        dtype: DTypeLike | None = None,
        finite: bool = True,
    ) -> None: ...
    @overload
    def __init__(
        self,
        value: ArrayLike | None = None,
        dims: None = None,
        *,
        name: str | None = None,
        dtype: DTypeLike | None = None,
        finite: bool = True,
    ) -> None: ...
    @overload
    def __init__(
        self: Input[tuple[DA]],
        value: ArrayLike | None = None,
        *,
        dims: tuple[type[DA]],
        name: str | None = None,
        dtype: DTypeLike | None = None,
        finite: bool = True,
    ) -> None: ...
    @overload
    def __init__(
        self: Input[tuple[DA, DB]],
        value: ArrayLike | None = None,
        *,
        dims: tuple[type[DA], type[DB]],
        name: str | None = None,
        dtype: DTypeLike | None = None,
        finite: bool = True,
    ) -> None: ...
    @overload
    def __init__(
        self: Input[ShapeDims],
        value: ArrayLike | None = None,
        *,
        dims: ShapeDims,
        name: str | None = None,
        dtype: DTypeLike | None = None,
        finite: bool = True,
    ) -> None: ...
    @overload
    def __init__(
        self,
        value: ArrayLike | None = None,
        dims: tuple[Any, ...] | None = None,
        *,
        name: str | None = None,
        dtype: DTypeLike | None = None,
        finite: bool = True,
    ) -> None: ...
    def __init__(
        self,
        value: ArrayLike | None = None,
        dims: Any = None,
        *,
        name: str | None = None,
        dtype: DTypeLike | None = None,
        finite: bool = True,
    ) -> None:
        _set(self, "_finite", finite)
        array = None if value is None else _float_array(value, dtype)
        kind = np.dtype(dtype if dtype is not None else np.float32) if array is None else array.dtype
        if kind not in (*FLOATS, np.dtype(np.bool_)):
            raise DTypeError(f"an input holds float32, float64 or bool, not {kind}; for integers use wy.IndexInput")
        super().__init__(array, dims, name, kind)
        if array is not None and finite:
            _check_finite(self, array)

    def set(self, value: ArrayLike) -> None:
        """Bind data; `ShapeError`, `DTypeError` or `NotFinite` before anything changes."""
        _assign(self, value, self._finite)


def as_constant(value: ArrayLike, dtype: DTypeLike) -> Constant[Any]:
    """A number or array used as an operand: it takes the dtype of the node beside it."""
    return Constant(value, dtype=dtype)


class Constant(_Leaf[S], abstract=True):
    """A leaf that never changes; a Python number or NumPy array used as an operand becomes one.

    >>> Constant(2.0).value.item()
    2.0
    """

    __slots__ = ()

    def _own(self) -> Constant[S]:
        return self

    def __init__(
        self, value: ArrayLike, dims: S | None = None, *, name: str | None = None, dtype: DTypeLike | None = None
    ) -> None:
        array = _float_array(value, dtype)
        super().__init__(array, dims, name, array.dtype)

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes two constants the same: small ones by content, large ones by identity."""
        array = self._storage.array
        assert array is not None
        return (array.dtype, array.shape, array.tobytes()) if array.size <= 16 else (id(array),)


class _IndexLeaf(IndexNode[S], abstract=True):
    __slots__ = ("_storage",)
    _storage: Storage

    def __init__(self, array: NDArray[Any] | None, dims: Any, name: str | None) -> None:
        _set(self, "_storage", Storage(array))
        _set(self, "dims", _declared(array, dims, isinstance(self, IndexInput)))
        self._construct((), name)

    def shape_rule(self) -> Dims:
        dims: Any = self.dims
        return tuple(dims)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_leaf, (type(self), self._storage.array, self.dims, self.name, self.dtype, None)


def _index_array(value: ArrayLike, what: str) -> NDArray[np.int64]:
    given = np.asarray(value)
    if given.dtype.kind not in "iu":
        raise DTypeError(f"{what} takes integers, the data is {given.dtype}; convert with array.astype(np.int64)")
    return np.array(given, dtype=np.int64, order="C")


class IndexInput(_IndexLeaf[S], abstract=True):
    """A leaf of integers: labels, rows of a table, tokens.

    An index beyond the table that it is used with is an `IndexOutOfRange` at `set`, before anything changes.

    >>> labels = IndexInput(dims=(3,), name="labels")
    >>> labels.set([0, 2, 1])
    >>> labels.value.tolist()
    [0, 2, 1]
    """

    __slots__ = ()

    @overload
    def __init__(
        self: IndexInput[tuple[()]], value: int | None = None, dims: None = None, *, name: str | None = None
    ) -> None: ...
    @overload
    def __init__(self, value: ArrayLike | None = None, dims: None = None, *, name: str | None = None) -> None: ...
    @overload
    def __init__(
        self: IndexInput[tuple[DA]],
        value: ArrayLike | None = None,
        *,
        dims: tuple[type[DA]],
        name: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: IndexInput[ShapeDims], value: ArrayLike | None = None, *, dims: ShapeDims, name: str | None = None
    ) -> None: ...
    @overload
    def __init__(
        self, value: ArrayLike | None = None, dims: tuple[Any, ...] | None = None, *, name: str | None = None
    ) -> None: ...
    def __init__(self, value: ArrayLike | None = None, dims: Any = None, *, name: str | None = None) -> None:
        super().__init__(None if value is None else _index_array(value, name or "an index input"), dims, name)

    def set(self, value: int | NDArray[np.integer[Any]] | list[int] | list[list[int]]) -> None:
        """Bind data; `ShapeError`, `DTypeError` or `IndexOutOfRange` before anything changes."""
        array = _index_array(value, describe(self))
        check_shape(self, array.shape)
        alive = [(reference, size) for reference, size in self._storage.limits if reference() is not None]
        self._storage.limits = alive
        for reference, size in alive:
            user = reference()
            if user is not None:
                check_indices(self, user, array, size)
        _store(self._storage, array)


class IndexConstant(_IndexLeaf[S], abstract=True):
    """Integers that never change; a list or array of integers used as an index becomes one."""

    __slots__ = ()

    def __init__(self, value: ArrayLike, dims: S | None = None, *, name: str | None = None) -> None:
        super().__init__(_index_array(value, name or "an index"), dims, name)


def check_indices(
    node: BaseNode[Any, Any], user: BaseNode[Any, Any], array: NDArray[np.integer[Any]], size: int
) -> None:
    """`IndexOutOfRange`, naming the position, the value and the op that uses it, for a value outside 0..size-1."""
    if array.size and not (0 <= int(array.min()) and int(array.max()) < size):
        position = tuple(int(i) for i in np.argwhere((array < 0) | (array >= size))[0])
        where = f" at position {position}" if position else ""
        chosen = f" of {user.parents[0].name}" if user.parents and user.parents[0].name else ""
        raise IndexOutOfRange(
            f"{describe(node)} holds {int(array[position])}{where}, but {user.op_name()}{chosen} at {user.site} "
            f"takes 0 to {size - 1}"
        )


def limit_indices(indices: IndexNode[Any], user: BaseNode[Any, Any], size: int) -> None:
    """Record that `user` chooses with `indices` from `size` rows, and check what they hold now."""
    if isinstance(indices, _IndexLeaf):
        if indices._storage.array is not None:
            check_indices(indices, user, indices._storage.array, size)
        indices._storage.limits.append((weakref.ref(user), size))


def stored(leaf: BaseNode[Any, Any]) -> Storage:
    """What a leaf holds."""
    assert isinstance(leaf, _Leaf | _IndexLeaf)
    return leaf._storage


def bound_array(leaf: BaseNode[Any, Any]) -> NDArray[Any]:
    """The array of a leaf; `NotSet` where no data is bound."""
    array = stored(leaf).array
    if array is None:
        raise NotSet(f"{describe(leaf)} has no data: bind some with {leaf.name or 'input'}.set(value)")
    return array


def _extra(leaf: _Leaf[Any]) -> bool | None:
    return leaf._finite if isinstance(leaf, Input) else None


def _restore_leaf(
    cls: type[Any], array: NDArray[Any] | None, dims: Dims, name: str | None, dtype: np.dtype[Any], finite: bool | None
) -> BaseNode[Any, Any]:
    if finite is not None:
        return cls(array, dims, name=name, dtype=dtype, finite=finite)
    return cls(array, dims, name=name)


_BASES.update((_Leaf, _IndexLeaf))
