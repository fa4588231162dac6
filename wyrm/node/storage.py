"""What leaves hold, and the checks that data passes before it is held."""

from __future__ import annotations

import itertools
import math
import operator
import weakref
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from wyrm.errors import DTypeError, IndexOutOfRange, NotFinite, NotSet, ShapeError
from wyrm.node.base import _BASES, BaseNode, describe
from wyrm.types.arrays import as_array
from wyrm.types.dims import Dim, Dims, axis_size, is_name
from wyrm.types.memory import aligned
from wyrm.types.rows import RowSparse
from wyrm.types.typing import FloatArray

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


# The next instant: leaves and cached values are compared by when they last changed. No function of Python's: each leaf
# and each run asks for one.
tick: Final[Callable[[], int]] = itertools.count(1).__next__


class Changes:
    """When any leaf changed last: where that has not moved on, nothing that was computed since is stale."""

    __slots__ = ("latest",)

    def __init__(self) -> None:
        self.latest = 0


CHANGES = Changes()


class IndexLimit(NamedTuple):
    """An op that chooses from `size`, as long as it lives; the number `ignore_index` chooses nothing."""

    user: weakref.ref[BaseNode[Any, Any]]
    size: int
    ignore_index: int | None


class Storage:
    """What a leaf holds: the array, the instant of its last change, and a parameter's gradient."""

    __slots__ = ("array", "gradient", "limits", "version")

    def __init__(self, array: NDArray[Any] | None) -> None:
        self.array = array
        self.version = tick()
        self.gradient: FloatArray | RowSparse | None = None
        # For integers: the limits of the ops that choose by them, by the op's identity and its operand.
        self.limits: dict[tuple[int, int], IndexLimit] | None = None


def touch(storage: Storage) -> None:
    """Say that the array of a leaf has changed; the only way to say so."""
    # Both at one instant that is there before: no call comes between, so no handler of a signal raises there. The
    # storage first: a run in another thread that reads `latest` before this looks at it again.
    now = tick()
    storage.version = now
    CHANGES.latest = now


class Leaf(BaseNode[tuple[()], Any], abstract=True):
    """A node that starts a graph: it holds an array instead of computing one."""

    __slots__ = ("_storage",)
    is_leaf = True
    _storage: Storage
    # What a leaf that never holds data stands for, to be said where it is asked for some.
    stands_for: ClassVar[str] = ""

    def shape_rule(self) -> Dims:
        dims: Dims = self.dims
        return dims


_BASES.add(Leaf)
# The slot's own function, as those of `BaseNode`.
hold: Final[Callable[[Leaf, Storage], None]] = Leaf.__dict__["_storage"].__set__


def stored(leaf: BaseNode[Any, Any]) -> Storage:
    """What a leaf holds."""
    assert isinstance(leaf, Leaf)
    return leaf._storage


def declared_dims(array: NDArray[Any] | None, dims: Any, rebindable: bool, what: str) -> Dims:
    """The axes of a leaf: as declared, a class taking its size from the array.

    An axis without a size takes it from the array too, unless the leaf is `rebindable` to data of other sizes.
    """
    if dims is None:
        return () if array is None else array.shape
    axes: tuple[Any, ...] = (dims,) if isinstance(dims, int | Dim | type) else tuple(dims)
    shape: tuple[int | None, ...] = (None,) * len(axes) if array is None else array.shape
    if len(axes) != len(shape):
        raise ShapeError(
            f"{what} is declared with {len(axes)} axes, {_declared(axes)}, but the array has shape {shape}"
        )
    declared: list[Any] = []
    for axis, size in zip(axes, shape, strict=True):
        if is_name(axis):
            declared.append(axis() if size is None else axis(size))
        elif isinstance(axis, Dim):
            sized = axis.size is not None or rebindable or axis.derived
            declared.append(axis if sized else type(axis)(size))
        elif operator.index(axis) < 0:
            raise ShapeError(f"{what}: an axis has at least 0 elements, not {axis}; leave one open with a Dim()")
        else:
            declared.append(operator.index(axis))
    if array is not None and any(axis_size(a) not in (None, n) for a, n in zip(declared, shape, strict=True)):
        raise ShapeError(f"{what} is declared as {_declared(declared)}, but the array has shape {shape}")
    return tuple(declared)


def _declared(axes: Iterable[Any]) -> str:
    return f"({', '.join(axis.__name__ if isinstance(axis, type) else repr(axis) for axis in axes)})"


# Whole numbers up to here are float32 numbers.
_EXACT = 2**24
_FLOAT32, _FLOAT64 = FLOATS


def float_array(value: Any, dtype: DTypeLike | None) -> NDArray[Any]:
    """A new array: Python numbers become float32, NumPy floats keep their type."""
    # First what most constants are, and quicker so.
    kind = type(value)
    if kind is float or (kind is int and -_EXACT <= value <= _EXACT):
        if dtype is None or dtype is _FLOAT32 or dtype is _FLOAT64:
            return np.array(value, _FLOAT32 if dtype is None else dtype)
    elif kind is np.ndarray:
        given = value.dtype
        if (given is _FLOAT32 or given is _FLOAT64) and (dtype is None or dtype is given):
            return _copied(value, given)
    array = as_array(value)
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
    return _copied(array, wanted)


# Arrays of so many elements begin at a line of the cache, where rows of theirs do not lie across two.
_LARGE = 256


def _copied(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    return aligned(array.shape, dtype, array) if array.size >= _LARGE else np.array(array, dtype, order="C")


# Up to so many elements `bytes` say quicker whether all of a mask is true than `all` does, which takes a microsecond.
_FEW = 256
# The largest finite numbers.
LARGEST = {dtype: float(np.finfo(dtype).max) for dtype in FLOATS}


def is_finite(array: NDArray[Any]) -> bool:
    """Whether there is neither a NaN nor an infinity among floating-point numbers."""
    if not array.shape:
        return math.isfinite(array.item())
    finite = np.isfinite(array)
    return b"\0" not in finite.tobytes() if array.size <= _FEW else bool(finite.all())


def check_finite(node: BaseNode[Any, Any], array: NDArray[Any]) -> None:
    if array.dtype.kind == "f" and not is_finite(array):
        position = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        remedy = ", or declare the input with finite=False" if hasattr(node, "_finite") else ""
        raise NotFinite(f"{describe(node)} was given {array[position]} at position {position}; clean the data{remedy}")


def check_shape(node: BaseNode[Any, Any], shape: tuple[int, ...]) -> None:
    """`ShapeError` unless data of this shape fits the node's axes, an axis without a size taking any."""
    dims: Any = node.dims
    if len(dims) != len(shape):
        raise ShapeError(f"{describe(node)} has {len(dims)} axes, the data has shape {shape}")
    for position, (axis, size) in enumerate(zip(dims, shape, strict=True)):
        if axis_size(axis) not in (None, size):
            raise ShapeError(f"{describe(node)}: axis {position} is {axis!r}, the data has {size} there, shape {shape}")


def first_beyond(array: NDArray[np.integer[Any]], size: int, ignore_index: int | None = None) -> tuple[int, ...] | None:
    """The position of the first integer outside 0..size-1 that is not `ignore_index`; None where there is none."""
    # One look at each number: as an unsigned one, what is below 0 is large.
    if not array.size or int(array.view(f"u{array.itemsize}").max()) < size:
        return None
    beyond = (array < 0) | (array >= size)
    if ignore_index is not None:
        beyond &= array != ignore_index
    places = np.argwhere(beyond)
    return tuple(map(int, places[0])) if len(places) else None


def check_indices(
    node: BaseNode[Any, Any],
    user: BaseNode[Any, Any],
    array: NDArray[np.integer[Any]],
    size: int,
    ignore_index: int | None = None,
) -> None:
    """`IndexOutOfRange`, naming the position, the value and the op that uses it, for a value outside 0..size-1."""
    position = first_beyond(array, size, ignore_index)
    if position is not None:
        where = f" at position {position}" if position else ""
        raise IndexOutOfRange(f"{describe(node)} holds {int(array[position])}{where}, but {taken_by(user, size)}")


def taken_by(user: BaseNode[Any, Any], size: int) -> str:
    """What an op takes, for a message about an index that is out of range."""
    chosen = f" of {user.parents[0].name}" if user.parents and user.parents[0].is_leaf and user.parents[0].name else ""
    takes = f"takes 0 to {size - 1}" if size else "chooses from an axis of size 0"
    return f"{user.op_name()}{chosen} at {user.location} {takes}"


def check_limits(leaf: BaseNode[Any, Any], array: NDArray[np.integer[Any]]) -> None:
    """`IndexOutOfRange` where data for a leaf is out of range of an op that chooses by it."""
    limits = stored(leaf).limits
    if not limits or not array.size:
        return
    low, high = int(array.min()), int(array.max())
    for limit in list(limits.values()):
        user = limit.user()
        if user is not None and (low < 0 or high >= limit.size):
            check_indices(leaf, user, array, limit.size, limit.ignore_index)


def bound_array(leaf: BaseNode[Any, Any]) -> NDArray[Any]:
    """The array of a leaf; `NotSet` where no data is bound."""
    array = stored(leaf).array
    if array is None:
        raise not_set(leaf, f"bind some with {leaf.name or 'input'}.set(value)")
    return array


def not_set(leaf: BaseNode[Any, Any], remedy: str) -> NotSet:
    """What to raise for a leaf without data."""
    stands_for: str = getattr(leaf, "stands_for", "")
    return NotSet(f"{describe(leaf)} " + (f"stands for {stands_for}" if stands_for else f"has no data: {remedy}"))


def store(storage: Storage, array: NDArray[Any]) -> None:
    """Into the same memory where the shape is the same, for plans hold on to it."""
    now = tick()
    if storage.array is not None and storage.array.shape == array.shape:
        storage.array[...] = array
    else:
        storage.array = array
    # No call comes between the change and this, so no handler of a signal raises there.
    storage.version = now
    CHANGES.latest = now
    touch(storage)  # a run in another thread may have begun since


def put_number(storage: Storage, value: object) -> bool:
    """Whether a number could be put into a scalar leaf at once: a Python number, finite in the leaf's float type."""
    array = storage.array
    if array is None or array.shape or type(value) is not float or not fits_in(value, array.dtype):
        return False
    now = tick()
    array[()] = value
    storage.version = now  # as in `store`
    CHANGES.latest = now
    touch(storage)
    return True


def fits_in(value: float, dtype: np.dtype[Any]) -> bool:
    """Whether a number is finite as one of a float type; False for a NaN and for a type that is none."""
    largest = LARGEST.get(dtype)
    return largest is not None and -largest <= value <= largest


def index_array(value: Any, what: str | BaseNode[Any, Any]) -> NDArray[np.int64]:
    given = as_array(value)
    if given.size == 0 and not isinstance(value, np.ndarray):
        given = given.astype(np.int64)  # NumPy takes an empty list for floats
    too_large = given.dtype == np.uint64 and given.size and given.max() > np.iinfo(np.int64).max
    if given.dtype.kind not in "iu" or too_large:
        taker = what if isinstance(what, str) else describe(what)
        if too_large:
            raise DTypeError(f"{taker} takes integers up to 2**63 - 1, the data has {given.max()}")
        raise DTypeError(f"{taker} takes integers, the data is {given.dtype}; convert with array.astype(np.int64)")
    return np.array(given, dtype=np.int64, order="C")
