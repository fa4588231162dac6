"""Floating-point leaves: what all of them share, inputs and constants."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, TypedDict, overload

import numpy as np
from typing_extensions import TypeVar, Unpack

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.graph.axes import Dims
from wyrm.graph.base import _BASES, BaseNode, _set, describe
from wyrm.graph.drafts import drafted
from wyrm.graph.node import Node
from wyrm.graph.ragged import RaggedArray, RaggedStorage, as_ragged, checked_rows, has_ragged, of_values, ragged_dims
from wyrm.graph.source_location import Origin, located_at, portable, user_origin
from wyrm.graph.storage import (
    DeclaredDims,
    DeviceStorage,
    FirstValues,
    Leaf,
    Storage,
    Undrawn,
    WeakStorage,
    check_finite,
    check_shape,
    declared_dims,
    float_array,
    hold,
    put_number,
    store,
)
from wyrm.graph.typing import D1, D2, D3, D4, AnyValue, AxisOf, DType, DTypeLike, NewDims, Number, Size, Sizes, Values
from wyrm.graph.weak_types import FLOATS, WEAK32, WEAK64, chosen, default_type, is_weak, weak
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.memory import aligned

# Covariant, so that `[weight, bias]` is a list of parameters. The shape of a node in general is not: two operands of
# different shapes have none in common.
S_co = TypeVar("S_co", covariant=True, default=Any)

# `float_constant` shares the storages of numbers up to here.
_LARGEST_SHARED = 1e30


class LeafOptions(TypedDict, total=False):
    """The options of every float leaf besides its value and axes."""

    name: str | None
    dtype: DType


class InputOptions(LeafOptions, total=False):
    """The options of an input besides its value and axes."""

    finite: bool


class _FloatLeaf(Node[tuple[()], S_co], Leaf, abstract=True):  # type: ignore[type-var]  # see `S_co`
    __slots__ = ()
    # Whether an axis without a size keeps none, so that the leaf takes arrays of any size along it.
    takes_any_size: ClassVar[bool] = False

    def __init__(self, array: np.ndarray | None, dims: DeclaredDims, name: str | None, dtype: DTypeLike) -> None:
        _set(self, "_storage", Storage(array))
        _set(self, "dtype", np.dtype(dtype))
        if dims is None:
            _set(self, "dims", () if array is None else array.shape)
        elif has_ragged(dims):
            _set(self, "_storage", RaggedStorage())
            _set(self, "dims", ragged_dims(dims, isinstance(self, Input), name or type(self).__name__))
        else:
            _set(self, "dims", declared_dims(array, dims, self.takes_any_size, name or type(self).__name__))
        self._begin((), name, user_origin())

    def _hold(self, value: object, dims: DeclaredDims, name: str | None, dtype: DTypeLike | None, what: str) -> None:
        """Initialize the leaf with finite numbers."""
        if type(value) is Undrawn:
            array = aligned(value.shape, value.dtype)  # its pages come when it is read
            _FloatLeaf.__init__(self, array, dims, name, array.dtype)
            self._storage.__class__ = DeviceStorage
            self._storage.newer = FirstValues(self._storage, value)
            return
        with np.errstate(over="ignore"):
            array = float_array(value, dtype, name or f"a {what}")
        if array.dtype.kind != "f":
            raise DTypeError(f"a {what} holds float32 or float64, not {array.dtype}")
        _FloatLeaf.__init__(self, array, dims, name, array.dtype)
        check_finite(self, array)

    def dtype_rule(self) -> np.dtype:
        return self.dtype

    def _restore(self, array: np.ndarray | None, dims: DeclaredDims, name: str | None, dtype: DTypeLike) -> None:
        _FloatLeaf.__init__(self, array, dims, name, dtype)

    def __reduce__(self) -> tuple[object, ...]:
        return pickled_leaf(self, _extra(self))


def assign(leaf: _FloatLeaf, value: object, finite: bool) -> None:
    """Store `value` in a leaf after checking its dtype, its shape and, with `finite`, its numbers."""
    if put_number(leaf._storage, value):
        return
    if isinstance(leaf._storage, RaggedStorage):
        _assign_rows(leaf, leaf._storage, value, finite)
        return
    given = as_array(value, lambda: describe(leaf))
    if given.dtype.kind not in "fiub" or (leaf.dtype.kind == "b" and given.dtype.kind != "b"):
        raise DTypeError(f"{describe(leaf)} takes {leaf.dtype}, the data is {given.dtype}")
    check_shape(leaf, given.shape)
    if given.dtype is leaf.dtype:
        array = given if _is_copied_into(given, leaf._storage) else given.astype(leaf.dtype, order="C")
    else:
        with np.errstate(over="ignore"):
            array = given.astype(leaf.dtype, order="C")
    if finite:
        check_finite(leaf, array)
    store(leaf._storage, array)


def _assign_rows(leaf: _FloatLeaf, storage: RaggedStorage, value: object, finite: bool) -> None:
    """Store rows of different lengths, as `assign` does."""
    given = checked_rows(leaf, as_ragged(value, describe(leaf)))
    with np.errstate(over="ignore"):
        data = of_values(float_array(given.values, leaf.dtype, lambda: describe(leaf)), given)
    if finite:
        check_finite(leaf, data.values)
    storage.put(data)


def _is_copied_into(array: np.ndarray, storage: Storage) -> bool:
    """Return whether the leaf copies the elements of an array into its own memory instead of keeping the array."""
    return storage.array is not None and storage.array.shape == array.shape


class Input(_FloatLeaf[S_co], abstract=True):
    """A leaf for data, which `set` or a compiled program binds.

    Without `dims` and value it is a scalar. An axis without a size, as in `Batch()`, takes the size of the data. The
    dtype is float32 unless given, bool for masks. `finite=False` allows NaN and infinities.

    >>> x = Input(name="x")
    >>> x.set(2.0)
    >>> float(x.value)
    2.0
    """

    __slots__ = ("_finite",)
    takes_any_size = True
    _finite: bool

    @overload
    def __init__(self: Input, value: AnyValue, dims: None = None, **options: Unpack[InputOptions]) -> None: ...
    @overload
    def __init__(self: Input, value: Any = None, *, dims: AnyValue, **options: Unpack[InputOptions]) -> None: ...
    @overload
    def __init__(
        self: Input[tuple[()]], value: Number | None = None, dims: None = None, **options: Unpack[InputOptions]
    ) -> None: ...
    @overload
    def __init__(self: Input, value: Values, dims: None = None, **options: Unpack[InputOptions]) -> None: ...
    @overload
    def __init__(
        self: Input, value: Values | None = None, dims: Sizes = ..., **options: Unpack[InputOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Input[tuple[D1]],
        value: Values | None = None,
        dims: tuple[AxisOf[D1]] = ...,
        **options: Unpack[InputOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Input[tuple[D1, D2]],
        value: Values | None = None,
        dims: tuple[AxisOf[D1], AxisOf[D2]] = ...,
        **options: Unpack[InputOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Input[tuple[D1, D2, D3]],
        value: Values | None = None,
        dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3]] = ...,
        **options: Unpack[InputOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Input[tuple[D1, D2, D3, D4]],
        value: Values | None = None,
        dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3], AxisOf[D4]] = ...,
        **options: Unpack[InputOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Input[NewDims], value: Values | None = None, dims: NewDims = ..., **options: Unpack[InputOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Input, value: Values | None = None, dims: tuple[Size, ...] = ..., **options: Unpack[InputOptions]
    ) -> None: ...
    @explains_keywords
    def __init__(
        self,
        value: object = None,
        dims: Any = None,
        *,
        name: str | None = None,
        dtype: DTypeLike | None = None,
        finite: bool = True,
    ) -> None:
        _set(self, "_finite", finite)
        if dims is None and type(value) is tuple and value and all(type(each) is int for each in value):
            raise ShapeError(
                f"the first argument of wy.Input is its value, and the tuple {value} looks like a shape: write "
                f"dims={value} for an input of these axes, or a list for these numbers, {list(value)}"
            )
        rows = has_ragged(dims)
        with np.errstate(over="ignore"):
            array = None if value is None or rows else float_array(value, dtype, name or "an input")
        kind = chosen(np.dtype(dtype if dtype is not None else np.float32)) if array is None else array.dtype
        if kind not in (*FLOATS, np.dtype(np.bool_)):
            raise DTypeError(f"an input holds float32, float64 or bool, not {kind}; for integers use wy.IndexInput")
        super().__init__(array, dims, name, kind)
        if array is not None and finite:
            check_finite(self, array)
        if rows and value is not None:
            assign(self, value, finite)

    def set(self, value: Values) -> None:
        """Bind data; `ShapeError`, `DTypeError` and `NotFinite` leave the old data unchanged."""
        assign(self, value, self._finite)


def as_constant(value: object, dtype: DTypeLike | None) -> Constant:
    """Return a constant for a number or array used as an operand, in the other operand's dtype.

    Without a dtype, numbers are weak, and an array keeps its float type. Beside a weak operand both are weak.
    """
    if type(value) is float and (dtype is FLOATS[0] or dtype is FLOATS[1]):
        return float_constant(value, FLOATS[0] if dtype is FLOATS[0] else FLOATS[1])
    if dtype is None and not isinstance(value, np.ndarray | np.generic):
        dtype = default_type()
    if dtype is WEAK32 or dtype is WEAK64:
        kind = WEAK64 if isinstance(value, np.ndarray) and value.dtype == FLOATS[1] else np.dtype(dtype)
        array = float_array(value, chosen(kind))
        storage: Storage = WeakStorage(array, value)
    else:
        array = float_array(value, dtype)
        storage, kind = Storage(array), array.dtype
    # This skips what `Constant` does for axes and a name: making this number was half of the time of `graph * 2.0`.
    node: Constant = drafted(Constant, (), kind, array.shape)
    hold(node, storage)
    return node


@lru_cache(256)
def _storage_of(value: float, dtype: np.dtype) -> Storage:
    return Storage(float_array(value, dtype))


def float_constant(value: float, dtype: np.dtype) -> Constant:
    """Return `as_constant(value, dtype)` of a number, in float32 or float64, in less time.

    Equal numbers share their storage, which nothing changes. A zero has a sign, and a number that may be out of range
    a warning. The caller's caller belongs to wyrm.
    """
    frequent = value and -_LARGEST_SHARED < value < _LARGEST_SHARED
    storage = _storage_of(value, dtype) if frequent else Storage(float_array(value, dtype))
    node: Constant = drafted(Constant, (), dtype, (), 5)
    hold(node, storage)
    return node


def constant_of(array: np.ndarray, dtype: DTypeLike | None, dims: DeclaredDims = None) -> Constant:
    """Return a constant of numbers that the library computed, in `dtype`; without a dtype they are weak."""
    return constant_beside(array, default_type() if dtype is None else np.dtype(dtype), dims)


def constant_beside(array: np.ndarray, dtype: np.dtype, dims: DeclaredDims = None) -> Constant:
    """Return a constant of numbers that the library computed, in the float type of a node, which may be weak."""
    if is_weak(dtype):
        return _weak_constant(array, dtype, dims)
    axes: Any = dims
    return Constant(array, axes, dtype=dtype)


def _weak_constant(value: object, dtype: np.dtype, dims: DeclaredDims = None, name: str | None = None) -> Constant:
    made: Constant = object.__new__(Constant)
    made._hold_weak(value, dims, name, dtype)
    return made


class Constant(_FloatLeaf[S_co], abstract=True):
    """A leaf that never changes; a Python number or NumPy array used as an operand becomes one.

    A NumPy array or `dtype` chooses its float type, and Python numbers do not: the constant is then *weak*, as is every
    node computed from Python numbers, masks, integers and random draws without `dtype` alone. Beside floats of a type
    that was chosen, a weak node takes that type, from the Python numbers on: 0.1 is as exact as there. Alone it has the
    type of the floats from which its masks or integers are computed, else that of the arguments of the `wy.function`
    that is traced, else float32. Two float types that were chosen do not mix; convert one with `.astype`.

    >>> x = Input(np.array([0.1, 0.2]))
    >>> (x - Constant([0.1, 0.2])).forward().tolist(), (x > 0.15).mean().dtype
    ([0.0, 0.0], dtype('float64'))
    >>> Constant(2.0).value.item()
    2.0
    """

    __slots__ = ()

    @overload
    def __init__(self: Constant, value: AnyValue, dims: None = None, **options: Unpack[LeafOptions]) -> None: ...
    @overload
    def __init__(self: Constant, value: Values, dims: AnyValue, **options: Unpack[LeafOptions]) -> None: ...
    @overload
    def __init__(
        self: Constant[tuple[()]], value: Number, dims: None = None, **options: Unpack[LeafOptions]
    ) -> None: ...
    @overload
    def __init__(self: Constant, value: Values, dims: None = None, **options: Unpack[LeafOptions]) -> None: ...
    @overload
    def __init__(self: Constant, value: Values, dims: Sizes, **options: Unpack[LeafOptions]) -> None: ...
    @overload
    def __init__(
        self: Constant[tuple[D1]], value: Values, dims: tuple[AxisOf[D1]], **options: Unpack[LeafOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Constant[tuple[D1, D2]],
        value: Values,
        dims: tuple[AxisOf[D1], AxisOf[D2]],
        **options: Unpack[LeafOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Constant[tuple[D1, D2, D3]],
        value: Values,
        dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3]],
        **options: Unpack[LeafOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Constant[tuple[D1, D2, D3, D4]],
        value: Values,
        dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3], AxisOf[D4]],
        **options: Unpack[LeafOptions],
    ) -> None: ...
    @overload
    def __init__(self: Constant[NewDims], value: Values, dims: NewDims, **options: Unpack[LeafOptions]) -> None: ...
    @overload
    def __init__(self: Constant, value: Values, dims: tuple[Size, ...], **options: Unpack[LeafOptions]) -> None: ...
    @explains_keywords
    def __init__(
        self, value: object, dims: Any = None, *, name: str | None = None, dtype: DTypeLike | None = None
    ) -> None:
        if dtype is None and not isinstance(value, np.ndarray | np.generic):
            self._hold_weak(value, dims, name, default_type())
        else:
            array = float_array(value, dtype, name or "a constant")
            super().__init__(array, dims, name, array.dtype)

    def _hold_weak(self, value: object, dims: DeclaredDims, name: str | None, dtype: np.dtype) -> None:
        """Initialize the leaf with numbers of a weak type."""
        array = float_array(value, dtype, name or "a constant")
        super().__init__(array, dims, name, weak(array.dtype))
        hold(self, WeakStorage(array, value))

    def _given(self) -> np.ndarray:
        """Return the numbers of a weak constant as they were given, before its type has rounded them."""
        storage = self._storage
        assert isinstance(storage, WeakStorage) and storage.array is not None
        return storage.array if storage.exact is None else np.broadcast_to(storage.exact, storage.array.shape)

    def in_float_type(self, dtype: np.dtype, parents: tuple[BaseNode, ...]) -> Constant:
        dims: Any = self.dims
        if is_weak(dtype):
            return _weak_constant(self._given(), dtype, dims, self.name)
        return Constant(self._given(), dims, name=self.name, dtype=dtype)

    def __reduce__(self) -> tuple[object, ...]:
        if not is_weak(self.dtype):
            return super().__reduce__()
        return restore_weak, (self._given(), self.dims, self.name, self.dtype.name, portable(self.origin))

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for constants of the same value: small ones compare by content, large ones by identity."""
        array = self._storage.array
        assert array is not None
        return (array.dtype, array.shape, array.tobytes()) if array.size <= 16 else (id(array),)


def _extra(leaf: _FloatLeaf) -> bool | None:
    return leaf._finite if isinstance(leaf, Input) else None


def pickled_leaf(leaf: Any, finite: bool | None) -> tuple[object, ...]:
    """Return what `__reduce__` of a leaf returns."""
    storage, origin = leaf._storage, portable(leaf.origin)
    array = storage.held if isinstance(storage, RaggedStorage) else storage.array
    return restore_leaf, (type(leaf), array, leaf.dims, leaf.name, leaf.dtype, origin, finite)


def restore_leaf(
    cls: type[BaseNode],
    array: np.ndarray | RaggedArray | None,
    dims: Dims,
    name: str | None,
    dtype: np.dtype,
    origin: Origin,
    finite: bool | None,
) -> BaseNode:
    """Return a pickled leaf without the checks of new data, so that diverged parameters are restored too."""
    leaf: Any = object.__new__(cls)
    if finite is not None:
        _set(leaf, "_finite", finite)
    held = None if array is None or isinstance(array, RaggedArray) else np.array(array, order="C")
    with located_at(origin):
        leaf._restore(held, dims, name, dtype)
    if isinstance(array, RaggedArray):
        leaf._storage.put(array)
    restored: BaseNode = leaf
    return restored


def restore_weak(value: object, dims: Dims, name: str | None, dtype: str, origin: Origin) -> Constant:
    """Return a pickled weak constant."""
    with located_at(origin):
        return _weak_constant(value, weak(np.dtype(dtype)), dims, name)


_BASES.add(_FloatLeaf)
