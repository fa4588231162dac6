"""The storage of leaves, and the checks that data passes before it is stored."""

from __future__ import annotations

import itertools
import math
import operator
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import DTypeError, NotFinite, NotSet, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.graph.axes import Axis, Dim, Dims, axis_size, is_name
from wyrm.graph.base import _BASES, BaseNode, describe
from wyrm.graph.rows import RowSparse
from wyrm.graph.shapes import remedy, wrong_rank
from wyrm.graph.typing import DTypeLike, FloatArray, Size
from wyrm.graph.weak_types import FLOATS, chosen
from wyrm.support.memory import ALIGNMENT, LARGE, aligned, aligned_empty, provide_pages

# How the axes of a leaf are declared.
DeclaredDims: TypeAlias = Axis | type[Dim] | Sequence[Size | Dim | type[Dim]] | None

# The next tick of a clock: leaves and cached values are compared by when they last changed. A builtin, because every
# leaf and every run calls it.
tick: Final[Callable[[], int]] = itertools.count(1).__next__


class Changes:
    """When any leaf last changed: if that is still the same, no cached value is stale.

    `replaced` is whether any parameter was ever replaced; see `Storage.replaced`.
    """

    __slots__ = ("latest", "replaced")

    def __init__(self) -> None:
        self.latest: int = 0
        self.replaced: bool = False


CHANGES = Changes()


class IndexLimit(NamedTuple):
    """A limit on indices from an op, while the op exists: an axis of `size`; see `IndexOperand`.

    `part` is the view whose elements are the indices, None for all data of the leaf.
    """

    user: weakref.ref[BaseNode]
    size: int
    ignore_index: int | None
    from_end: bool
    part: BaseNode | None


class Storage:
    """The storage of a leaf: its array, the tick of its last change, and a parameter's gradient."""

    __slots__ = ("array", "gradient", "limits", "newer", "replaced", "version")

    def __init__(self, array: np.ndarray | None) -> None:
        self.array: np.ndarray | None = array
        # Copies a newer array from a device into `array`; only `DeviceStorage` calls it.
        self.newer: Callable[[], None] | None = None
        self.version: int = tick()
        self.gradient: FloatArray | RowSparse | None = None
        # For integers: the limits of the ops that index with them, by the op's identity and its operand.
        self.limits: dict[tuple[int, int], IndexLimit] | None = None
        # What has replaced a parameter in its model: a step that trains it would change nothing there.
        self.replaced: str | None = None


class WeakStorage(Storage):
    """The storage of a weak constant; `exact` holds the numbers as given, or the only one, if its type rounds them."""

    __slots__ = ("exact",)

    def __init__(self, array: np.ndarray, value: object) -> None:
        super().__init__(array)
        self.exact: Any = None
        if array.dtype == FLOATS[1] or not array.size:
            return
        if isinstance(value, float | int):
            self.exact = value
            return
        given = np.asarray(value)
        if not any(given.strides):  # one number, repeated
            self.exact = given.flat[0]
        elif given.dtype != array.dtype and not np.array_equal(array, given, equal_nan=True):
            self.exact = np.array(given, FLOATS[1])


class DeviceStorage(Storage):
    """The storage of a leaf whose newest array may be on a device: reading `array` copies it from there first."""

    __slots__ = ()

    if not TYPE_CHECKING:  # an attribute for type checkers, as in the base class

        @property
        def array(self) -> np.ndarray | None:
            newer = self.newer  # another thread that reads the array may set it to None
            if newer is not None:
                newer()
            return _array_of(self)

        @array.setter
        def array(self, array: np.ndarray | None) -> None:
            _set_array_of(self, array)


_array_of: Final[Callable[[Storage], np.ndarray | None]] = Storage.__dict__["array"].__get__
_set_array_of: Final[Callable[[Storage, np.ndarray | None], None]] = Storage.__dict__["array"].__set__


class Undrawn:
    """First values of a parameter, drawn when they are read, whole or in part.

    `fill(out, start)` writes the numbers of the positions from `start` on, in the order of C, to a flat array.
    """

    __slots__ = ("dtype", "fill", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, fill: Callable[[np.ndarray, int], None]) -> None:
        self.shape: tuple[int, ...] = shape
        self.dtype: np.dtype = dtype
        self.fill: Callable[[np.ndarray, int], None] = fill

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        drawn = aligned_empty(self.shape, self.dtype)
        self.fill(drawn.reshape(-1), 0)
        return drawn if dtype is None else drawn.astype(dtype, copy=False)

    def rows(self, low: int, high: int) -> np.ndarray:
        """Return the rows from `low` to before `high`, which alone are drawn."""
        drawn = np.empty((high - low, *self.shape[1:]), self.dtype)
        self.fill(drawn.reshape(-1), low * math.prod(self.shape[1:]))
        return drawn


def constant(shape: tuple[int, ...], dtype: np.dtype, value: float) -> np.ndarray | Undrawn:
    """Return an array that is filled with a value; a large one of another value than zero is filled on first use.

    >>> from wyrm.graph.storage import constant
    >>> constant((2,), np.dtype(float), 0.5).tolist(), type(constant((500, 500), np.dtype(float), 0.5)).__name__
    ([0.5, 0.5], 'Undrawn')
    """
    if value == 0.0 or math.prod(shape) * dtype.itemsize < LARGE:
        return aligned(shape, dtype, value)

    def fill(out: np.ndarray, start: int) -> None:
        out[...] = value

    return Undrawn(shape, dtype, fill)


def draw(arrays: Iterable[dict[str, Any]]) -> None:
    """Replace what nobody has read by arrays, in place."""
    for each in arrays:
        each.update({name: np.asarray(array) for name, array in each.items() if type(array) is Undrawn})


class FirstValues:
    """What `Storage.newer` is while nobody has read the first values: a call draws them into the array."""

    __slots__ = ("lock", "storage", "undrawn")

    def __init__(self, storage: Storage, undrawn: Undrawn) -> None:
        self.storage: Storage = storage
        self.undrawn: Undrawn = undrawn
        # The first of several threads draws: a later one would overwrite what has changed since.
        self.lock: threading.Lock = threading.Lock()

    def __call__(self) -> None:
        """Draw them."""
        storage = self.storage
        with self.lock:
            if storage.newer is not self:
                return
            array = _array_of(storage)
            assert array is not None
            provide_pages(array)
            self.undrawn.fill(array.reshape(-1), 0)
            storage.newer = None
            storage.__class__ = Storage


def held_shape(leaf: BaseNode) -> tuple[int, ...] | None:
    """Return the shape of the data that a leaf holds, None without data; nothing is copied from a device."""
    array = _array_of(stored(leaf))
    return None if array is None else array.shape


def touch(storage: Storage) -> None:
    """Mark the array of a leaf as changed; the only way to do so."""
    # The tick is taken first: without a call between the two assignments, no signal handler can raise there. The
    # storage comes first, so that a run in another thread that still reads the old `latest` checks again later.
    now = tick()
    storage.version = now
    CHANGES.latest = now


class Leaf(BaseNode[tuple[()]], abstract=True):
    """A node that starts a graph: it holds an array instead of computing one."""

    __slots__ = ()
    is_leaf = True
    _storage: Storage

    def shape_rule(self) -> Dims:
        dims: Dims = self.dims
        return dims


_BASES.add(Leaf)
# The slot's own setter, like those of `BaseNode`.
hold: Final[Callable[[Leaf, Storage], None]] = BaseNode.__dict__["_storage"].__set__


def stored(leaf: BaseNode) -> Storage:
    """Return the storage of a leaf."""
    assert isinstance(leaf, Leaf)
    return leaf._storage


def mark_replaced(leaf: BaseNode, path: str, by: str) -> None:
    """Note that a model has the parameter of this path no more: `by` has replaced it."""
    CHANGES.replaced = True
    stored(leaf).replaced = f"{path}, which {by} replaced"


def declared_dims(array: np.ndarray | None, dims: DeclaredDims, rebindable: bool, what: str) -> Dims:
    """Return the axes of a leaf as declared; a `Dim` class takes its size from the array.

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
    declared: list[Axis] = []
    for axis, size in zip(axes, shape, strict=True):
        if is_name(axis):
            declared.append(axis() if size is None else axis(size))
        elif isinstance(axis, Dim):
            sized = axis.size is not None or rebindable or axis.derived
            declared.append(axis if sized else type(axis)(size))
        elif not hasattr(type(axis), "__index__"):
            raise TypeError(
                f"{what}: an axis is a number or a Dim, not {axis!r}; for a size that the data decides, declare "
                f"`class Batch(wy.Dim): ...` and give Batch()"
            )
        elif operator.index(axis) < 0:
            raise ShapeError(
                f"{what}: an axis must have at least 0 elements, not {axis}; use Dim() for a size from data"
            )
        else:
            declared.append(operator.index(axis))
    if array is not None and any(axis_size(a) not in (None, n) for a, n in zip(declared, shape, strict=True)):
        raise ShapeError(f"{what} is declared as {_declared(declared)}, but the array has shape {shape}")
    return tuple(declared)


def _declared(axes: Iterable[Size | Dim | type[Dim]]) -> str:
    return f"({', '.join(axis.__name__ if isinstance(axis, type) else repr(axis) for axis in axes)})"


# Integers up to here are exact in float32.
_EXACT = 2**24
_FLOAT32, _FLOAT64 = FLOATS


def float_array(value: Any, dtype: DTypeLike | None, what: str | Callable[[], str] = "a list") -> np.ndarray:
    """Return a new array; Python numbers become float32, NumPy floats keep their type. `what` is its name in errors."""
    # Fast paths for the most frequent constants.
    kind = type(value)
    if kind is float or (kind is int and -_EXACT <= value <= _EXACT):
        if dtype is None or dtype is _FLOAT32 or dtype is _FLOAT64:
            return np.array(value, _FLOAT32 if dtype is None else dtype)
    elif kind is np.ndarray:
        given = value.dtype
        if (given is _FLOAT32 or given is _FLOAT64) and (dtype is None or dtype is given):
            return _copied(value, given)
    array = as_array(value, what)
    if dtype is None:
        dtype = array.dtype if isinstance(value, np.ndarray | np.generic) else np.dtype(np.float32)
    target = np.dtype(dtype)
    if target.kind not in "fb" or (target.kind == "f" and target not in FLOATS):
        raise DTypeError(
            f"a leaf holds float32, float64 or bool, not {target}; give array.astype(np.float32), dtype=np.float32, "
            f"or wy.IndexInput for integers; wy.full_like(index_node, 11) repeats one"
        )
    if array.dtype.kind not in "fiub":
        _refuse_axes(value)
        raise DTypeError(f"cannot convert {array.dtype} values to numbers")
    return _copied(array, chosen(target))


def _refuse_axes(value: object) -> None:
    """Raise `ShapeError` for axes that are given in the place of the value of a leaf."""
    axes = value if isinstance(value, tuple | list) else (value,)
    if any(isinstance(axis, Dim) or (isinstance(axis, type) and issubclass(axis, Dim)) for axis in axes):
        given = ", ".join(axis.__name__ if isinstance(axis, type) else repr(axis) for axis in axes)
        raise ShapeError(
            f"the first argument of a leaf is its value, not its axes: write dims=({given}{',' * (len(axes) == 1)})"
        )


# Arrays of at least this many elements begin at a cache line, so that their rows do not cross two lines.
_LARGE = 256


# The array that the next leaf may keep.
_handed: weakref.ref[np.ndarray] | None = None


def hand_over(array: np.ndarray) -> None:
    """Let the next leaf that is given this array keep it, if nobody else has it, instead of a copy."""
    global _handed
    _handed = weakref.ref(array)


def _copied(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    global _handed
    if array.size >= _LARGE:
        if _handed is not None and _handed() is array:
            _handed = None
            if array.dtype is dtype and array.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0:
                return array
        return aligned(array.shape, dtype, array)
    copy = np.array(array, dtype, order="C")
    return copy if copy.dtype is dtype else copy.view(dtype)  # the result of a weak node has a dtype that is equal


# Up to this many elements, `bytes` finds out faster whether a mask is all true than `all`, which takes a microsecond.
_FEW = 256
# The largest finite numbers.
LARGEST = {dtype: float(np.finfo(dtype).max) for dtype in FLOATS}


def is_finite(array: np.ndarray) -> bool:
    """Return whether there is neither a NaN nor an infinity among floating-point numbers."""
    if not array.shape:
        return math.isfinite(array.item())
    finite = np.isfinite(array)
    return b"\0" not in finite.tobytes() if array.size <= _FEW else bool(finite.all())


def check_finite(node: BaseNode, array: np.ndarray) -> None:
    if array.dtype.kind == "f" and not is_finite(array):
        position = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        remedy = ", or declare the input with finite=False" if hasattr(node, "_finite") else ""
        raise NotFinite(f"{describe(node)} was given {array[position]} at position {position}; clean the data{remedy}")


def check_shape(node: BaseNode, shape: tuple[int, ...]) -> None:
    """Raise `ShapeError` unless data of this shape fits the node's axes; an axis without a size takes any."""
    dims: Dims = node.dims
    if len(dims) != len(shape):
        raise wrong_rank(node, shape)
    for position, (axis, size) in enumerate(zip(dims, shape, strict=True)):
        if axis_size(axis) not in (None, size):
            raise ShapeError(
                f"{describe(node)}: axis {position} is {axis!r}, the data has {size} there, shape {shape}"
                f"{remedy(dims, shape)}"
            )


def bound_array(leaf: BaseNode) -> np.ndarray:
    """Return the array of a leaf; raise `NotSet` if it holds none."""
    array = stored(leaf).array
    if array is None:
        raise not_set(leaf, f"bind some with {leaf.name or 'input'}.set(value)")
    return array


def first_copy(leaf: BaseNode) -> np.ndarray | Undrawn:
    """Return a copy of the array of a leaf, or if nobody has read its first values, what draws them."""
    newer = stored(leaf).newer
    if isinstance(newer, FirstValues):
        return newer.undrawn
    array = bound_array(leaf)
    return aligned(array.shape, array.dtype, array)


def not_set(leaf: BaseNode, remedy: str) -> NotSet:
    """Return the error for a leaf without data."""
    return NotSet(
        f"{describe(leaf)} {f'stands for {leaf.stands_for}' if leaf.stands_for else f'has no data: {remedy}'}"
    )


def store(storage: Storage, array: np.ndarray) -> None:
    """Store an array in a leaf: into the same memory if the shape is the same, because plans refer to that memory."""
    now = tick()
    if storage.array is not None and storage.array.shape == array.shape:
        storage.array[...] = array
    else:
        storage.array = array
    # No call comes between the change and this, so no signal handler raises there.
    storage.version = now
    CHANGES.latest = now
    touch(storage)  # a run in another thread may have begun since


def put_number(storage: Storage, value: object) -> bool:
    """Store a Python number, finite in the leaf's float type, in a scalar leaf; return whether that was possible."""
    array = storage.array
    if array is None or array.shape or type(value) is not float or not fits_in(value, array.dtype):
        return False
    now = tick()
    array[()] = value
    storage.version = now  # as in `store`
    CHANGES.latest = now
    touch(storage)
    return True


def fits_in(value: float, dtype: np.dtype) -> bool:
    """Return whether a number is finite in a float type; False for a NaN and for other dtypes."""
    largest = LARGEST.get(dtype)
    return largest is not None and -largest <= value <= largest


def frozen(value: Any) -> Any:
    """Return a read-only copy of an array, so that writing to it by mistake raises."""
    array: np.ndarray = value.dense() if isinstance(value, RowSparse) else value.copy("K")
    array.setflags(False)  # type: ignore[call-arg]  # `write`, twice as fast positionally
    return array


def index_array(value: object, what: str | BaseNode) -> NDArray[np.int64]:
    given = as_array(value, lambda: what if isinstance(what, str) else describe(what))
    if given.size == 0 and not isinstance(value, np.ndarray):
        given = given.astype(np.int64)  # NumPy makes an empty list an array of floats
    if given.dtype.kind not in "iu":
        _refuse_axes(value)
        taker = what if isinstance(what, str) else describe(what)
        raise DTypeError(f"{taker} takes integers, the data is {given.dtype}; convert with array.astype(np.int64)")
    check_int64(given, what)
    return np.array(given, dtype=np.int64, order="C")


def check_int64(array: np.ndarray, what: str | BaseNode) -> None:
    """Raise `DTypeError` for integers that int64 cannot hold: they would wrap around to negative ones."""
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        taker = what if isinstance(what, str) else describe(what)
        raise DTypeError(f"{taker} takes integers up to 2**63 - 1, the data has {array.max()}")
