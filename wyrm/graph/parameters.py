"""The leaves that a model keeps and saves: parameters, buffers, which change by a rule, and narrow weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args, overload
from weakref import ref

import numpy as np
from typing_extensions import Unpack

from wyrm.errors import DTypeError, OptionError, ShapeError
from wyrm.graph import methods
from wyrm.graph.arrays import as_array
from wyrm.graph.base import _BASES, _set, describe
from wyrm.graph.leaves import LeafOptions, S_co, _FloatLeaf, assign
from wyrm.graph.node import IndexNode
from wyrm.graph.registration import takes_methods
from wyrm.graph.rows import RowSparse
from wyrm.graph.source_location import located_at, portable
from wyrm.graph.storage import (
    DeclaredDims,
    Leaf,
    Storage,
    _set_array_of,
    bound_array,
    check_finite,
    check_shape,
    declared_dims,
    float_array,
    held_shape,
    hold,
    store,
    stored,
)
from wyrm.graph.typing import (
    D1,
    D2,
    D3,
    D4,
    AnyValue,
    AxisOf,
    AxisSize,
    DTypeLike,
    FloatArray,
    NewDims,
    Number,
    Size,
    Sizes,
    Values,
)
from wyrm.support.foreign_names import ForeignName, answers, explains_keywords
from wyrm.support.memory import aligned
from wyrm.support.narrow_numbers import INT4_BLOCK, as_bfloat16, as_int4, as_int8, from_bfloat16, from_int4
from wyrm.support.options import choice


class Parameter(methods.Parameter, _FloatLeaf[S_co], abstract=True):
    """A trainable leaf: an optimizer changes its array, and `backward()` adds to its `gradient`.

    `value` is copied: Python numbers become float32, NumPy arrays keep float32 or float64. `dims` names the axes; a
    `Dim` class takes its size from the array. Raise `ShapeError` if `value` and `dims` disagree, `DTypeError` for other
    types, `NotFinite` for a NaN or an infinity.

    >>> slope = Parameter([1.0, 2.0], name="slope")
    >>> slope.shape, slope.dtype
    ((2,), dtype('float32'))
    """

    __slots__ = ()
    is_parameter = True

    @overload
    def __init__(self: Parameter, value: AnyValue, dims: None = None, **options: Unpack[LeafOptions]) -> None: ...
    @overload
    def __init__(self: Parameter, value: Values, dims: AnyValue, **options: Unpack[LeafOptions]) -> None: ...
    @overload
    def __init__(
        self: Parameter[tuple[()]], value: Number, dims: None = None, **options: Unpack[LeafOptions]
    ) -> None: ...
    @overload
    def __init__(self: Parameter, value: Values, dims: None = None, **options: Unpack[LeafOptions]) -> None: ...
    @overload
    def __init__(self: Parameter, value: Values, dims: Sizes, **options: Unpack[LeafOptions]) -> None: ...
    @overload
    def __init__(
        self: Parameter[tuple[D1]], value: Values, dims: tuple[AxisOf[D1]], **options: Unpack[LeafOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Parameter[tuple[D1, D2]],
        value: Values,
        dims: tuple[AxisOf[D1], AxisOf[D2]],
        **options: Unpack[LeafOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Parameter[tuple[D1, D2, D3]],
        value: Values,
        dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3]],
        **options: Unpack[LeafOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Parameter[tuple[D1, D2, D3, D4]],
        value: Values,
        dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3], AxisOf[D4]],
        **options: Unpack[LeafOptions],
    ) -> None: ...
    @overload
    def __init__(self: Parameter[NewDims], value: Values, dims: NewDims, **options: Unpack[LeafOptions]) -> None: ...
    @overload
    def __init__(self: Parameter, value: Values, dims: tuple[Size, ...], **options: Unpack[LeafOptions]) -> None: ...
    @explains_keywords
    def __init__(
        self, value: object, dims: Any = None, *, name: str | None = None, dtype: DTypeLike | None = None
    ) -> None:
        self._hold(value, dims, name, dtype, "parameter")

    @overload
    @classmethod
    def zeros(cls, shape: Sizes, **options: Unpack[LeafOptions]) -> Parameter: ...
    @overload
    @classmethod
    def zeros(cls, shape: tuple[AxisSize[D1]], **options: Unpack[LeafOptions]) -> Parameter[tuple[D1]]: ...
    @overload
    @classmethod
    def zeros(
        cls, shape: tuple[AxisSize[D1], AxisSize[D2]], **options: Unpack[LeafOptions]
    ) -> Parameter[tuple[D1, D2]]: ...
    @overload
    @classmethod
    def zeros(
        cls, shape: tuple[AxisSize[D1], AxisSize[D2], AxisSize[D3]], **options: Unpack[LeafOptions]
    ) -> Parameter[tuple[D1, D2, D3]]: ...
    @overload
    @classmethod
    def zeros(
        cls, shape: tuple[AxisSize[D1], AxisSize[D2], AxisSize[D3], AxisSize[D4]], **options: Unpack[LeafOptions]
    ) -> Parameter[tuple[D1, D2, D3, D4]]: ...
    @overload
    @classmethod
    def zeros(cls, shape: NewDims, **options: Unpack[LeafOptions]) -> Parameter[NewDims]: ...
    @overload
    @classmethod
    def zeros(cls, shape: tuple[Size, ...], **options: Unpack[LeafOptions]) -> Parameter: ...
    @classmethod
    def zeros(cls, shape: Any, *, name: str | None = None, dtype: DTypeLike | None = None) -> Parameter:
        """Return a parameter of zeros.

        >>> Parameter.zeros((2, 3)).shape
        (2, 3)
        """
        return cls(np.zeros(shape, np.float32 if dtype is None else dtype), shape, name=name)

    @property
    def gradient(self) -> FloatArray:
        """The gradient that `backward()` has accumulated, at first zeros: a dense, read-only copy."""
        held = self._storage.gradient
        if held is None:
            array: FloatArray = np.zeros(held_shape(self) or (), self.dtype)
        else:
            array = held.dense() if isinstance(held, RowSparse) else held.copy()
        array.flags.writeable = False
        return array

    @property
    def row_gradient(self) -> RowSparse | None:
        """The gradient as the rows it touches; None if it is dense or nothing was accumulated yet."""
        held = self._storage.gradient
        return held if isinstance(held, RowSparse) else None

    def set(self, value: Values) -> None:
        """Replace the values, of the same shape; `ShapeError` and `NotFinite` leave them unchanged."""
        assign(self, value, finite=True)

    def clear_gradient(self) -> None:
        """Set the gradient to zero."""
        self._storage.gradient = None


class ResizableParameter(Parameter[S_co], abstract=True):
    """A parameter whose axes without a size are as long as the array that it holds, which `set` may change.

    One program then trains models of other sizes, and tables that have grown. An optimizer begins anew with the state
    of a parameter that has another size.

    >>> class Rows(wy.Dim): ...
    >>> table = ResizableParameter([[1.0, 2.0]], dims=(Rows(), 2))
    >>> table.set([[1.0, 2.0], [3.0, 4.0]])
    >>> table.dims, table.value.shape
    ((Rows(), 2), (2, 2))
    """

    __slots__ = ()
    takes_any_size = True

    def set(self, value: Values) -> None:
        """Replace the values, of any size along the axes without one; the gradient of another size becomes zero."""
        before = held_shape(self)
        super().set(value)
        if held_shape(self) != before:
            # Native code reads and writes an aligned array faster.
            self._storage.array = aligned(bound_array(self).shape, self.dtype, bound_array(self))
            self.clear_gradient()


class Buffer(_FloatLeaf[S_co], abstract=True):
    """A leaf that a model keeps and saves but no optimizer changes: statistics, a count of steps, averaged weights.

    `wy.updating` says how it changes. `value` is copied: Python numbers become float32, NumPy arrays keep float32 or
    float64. `dims` names the axes. Raise `ShapeError` if `value` and `dims` disagree, `DTypeError` for other types,
    `NotFinite` for a NaN or an infinity.

    >>> Buffer([0.0, 1.0], name="mean").value.tolist()
    [0.0, 1.0]
    """

    __slots__ = ()

    @overload
    def __init__(self: Buffer[tuple[()]], value: Number, dims: None = None, **options: Unpack[LeafOptions]) -> None: ...
    @overload
    def __init__(self: Buffer, value: Values, dims: None = None, **options: Unpack[LeafOptions]) -> None: ...
    @overload
    def __init__(self: Buffer, value: Values, dims: Sizes, **options: Unpack[LeafOptions]) -> None: ...
    @overload
    def __init__(
        self: Buffer[tuple[D1]], value: Values, dims: tuple[AxisOf[D1]], **options: Unpack[LeafOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Buffer[tuple[D1, D2]], value: Values, dims: tuple[AxisOf[D1], AxisOf[D2]], **options: Unpack[LeafOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Buffer[tuple[D1, D2, D3]],
        value: Values,
        dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3]],
        **options: Unpack[LeafOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Buffer[tuple[D1, D2, D3, D4]],
        value: Values,
        dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3], AxisOf[D4]],
        **options: Unpack[LeafOptions],
    ) -> None: ...
    @overload
    def __init__(self: Buffer[NewDims], value: Values, dims: NewDims, **options: Unpack[LeafOptions]) -> None: ...
    @overload
    def __init__(self: Buffer, value: Values, dims: tuple[Size, ...], **options: Unpack[LeafOptions]) -> None: ...
    @explains_keywords
    def __init__(
        self, value: object, dims: Any = None, *, name: str | None = None, dtype: DTypeLike | None = None
    ) -> None:
        self._hold(value, dims, name, dtype, "buffer")

    def set(self, value: Values) -> None:
        """Replace the values, of the same shape; `ShapeError`, `DTypeError` and `NotFinite` leave them unchanged."""
        given = as_array(value, lambda: describe(self))
        if given.dtype.kind == "b":
            raise DTypeError(f"{describe(self)} takes {self.dtype}, the data is {given.dtype}")
        assign(self, given, finite=True)


NarrowType = Literal["int8", "bfloat16", "int4"]
# The types by the dtypes of the arrays that hold the numbers. NumPy has no bfloat16 and no int4.
_STORAGES: dict[np.dtype, NarrowType] = {
    np.dtype(np.int8): "int8", np.dtype(np.uint16): "bfloat16", np.dtype(np.uint8): "int4",
}  # fmt: skip


class NarrowNumbers(IndexNode[S_co], Leaf, abstract=True):  # type: ignore[type-var]  # covariant, as in all leaves
    """The narrow numbers of a weight: integers of int8, bits of bfloat16 in uint16, or bytes of blocks of int4."""

    __slots__ = ()

    def dtype_rule(self) -> np.dtype:
        return self.dtype

    def set(self, value: np.ndarray) -> None:
        """Replace the numbers by others of the same shape and dtype."""
        check_shape(self, value.shape)
        store(self._storage, np.array(value, self.dtype, order="C"))


# The leaves that a model keeps and saves.
Kept = Parameter | Buffer | NarrowNumbers


class NarrowFactors(Buffer[S_co], abstract=True):
    """The factors of the rows, (rows, 1), or of the columns, (1, columns), of a weight in integers of int8."""

    __slots__ = ()


class NarrowStorage(Storage):
    """The storage of a weight in narrow numbers, which are those of `numbers`, times those of `factors` if there are.

    Blocks of int4 run along the axis `along`. `array` are the numbers in float32: those that somebody
    holds still, or else new ones.
    """

    __slots__ = ("_versions", "_wide", "along", "factors", "numbers")

    def __init__(
        self, numbers: NarrowNumbers, factors: NarrowFactors | None, along: int, shape: tuple[int, ...]
    ) -> None:
        super().__init__(None)
        self.numbers = numbers
        self.factors = factors
        self.along: int = along
        # The last numbers in float32, as long as somebody holds them, and the versions of what they were computed from.
        self._wide: ref[np.ndarray] | None = None
        self._versions: list[int] = []
        # Who asks for the shape alone finds it here.
        _set_array_of(self, np.broadcast_to(np.float32(0.0), shape))

    if not TYPE_CHECKING:  # an attribute for type checkers, as in the base class

        @property
        def array(self) -> np.ndarray:
            parts = [each for each in (self.numbers, self.factors) if each is not None]
            versions, wide = [stored(each).version for each in parts], None if self._wide is None else self._wide()
            if wide is None or versions != self._versions:
                wide = self._widened()
                wide.flags.writeable = False
                self._wide, self._versions = ref(wide), versions
            return wide

        def _widened(self) -> np.ndarray:
            numbers = bound_array(self.numbers)
            if self.factors is not None:
                return numbers * bound_array(self.factors)
            if numbers.dtype == np.uint16:
                return from_bfloat16(numbers)
            wide = from_int4(numbers)
            return wide if self.along == 1 else np.ascontiguousarray(wide.T)

        @array.setter
        def array(self, array: np.ndarray | None) -> None:
            assert array is None, "a narrow weight never changes"


class NarrowWeight(methods.NarrowWeight, _FloatLeaf[S_co], abstract=True):
    """A weight that takes fewer bytes than its numbers do in float32, and that no optimizer changes.

    In a graph it is a matrix of float32. Compiled products and lookups of rows read the narrow numbers and widen them
    in registers, with sums in float32; other ops read a copy in float32. `storage` is one of these:

    - "int8": integers from -127 to 127 with a factor for each row, or for each column unless there are more rows.
    - "bfloat16": the upper half of float32.
    - "int4": integers from -8 to 7 with a factor for each block of 32 along the axis `along`, whose size is a multiple
      of 32. Products add up this axis: 1 for a table, as in `x @ table.T` and `table.index(rows)`, 0 for `x @ weight`.

    `wy.nn.Module.quantize` replaces the parameters of a model. Raise `ShapeError` unless there are two axes, and for a
    size that blocks do not divide, `DTypeError` for numbers of float64, `NotFinite` for a NaN or an infinity.

    >>> weight = wy.NarrowWeight([[0.5, -1.0], [0.25, 0.75]], storage="int8")
    >>> weight.nbytes, weight.dtype, weight.value.round(2).tolist()
    (12, dtype('float32'), [[0.5, -1.0], [0.25, 0.75]])
    """

    __slots__ = ()

    def __init__(
        self,
        value: Values,
        dims: DeclaredDims = None,
        *,
        storage: NarrowType = "int8",
        along: Literal[0, 1] = 1,
        name: str | None = None,
    ) -> None:
        choice("NarrowWeight: storage", storage, get_args(NarrowType))
        if along not in (0, 1):
            raise OptionError(f"NarrowWeight: along must be 0 or 1, not {along!r}")
        array = float_array(value, None, name or "a narrow weight")
        if array.dtype != np.float32:
            raise DTypeError(f"a narrow weight stands for float32, not {array.dtype}; give array.astype(np.float32)")
        if array.ndim != 2:
            raise ShapeError(f"a narrow weight has two axes, not the shape {array.shape}")
        axes = declared_dims(array, dims, False, name or "NarrowWeight")
        _FloatLeaf.__init__(self, None, None, name, np.float32)
        check_finite(self, array)
        if storage == "int8":
            self._place(*as_int8(array), axes, along)
        elif storage == "bfloat16":
            self._place(as_bfloat16(array), None, axes, along)
        else:
            if array.shape[along] % INT4_BLOCK:
                raise ShapeError(
                    f"{describe(self)}: axis {along} of the shape {array.shape} is divided into blocks of {INT4_BLOCK} "
                    f"numbers of int4, and is no multiple of that"
                )
            self._place(as_int4(array if along == 1 else np.ascontiguousarray(array.T)), None, axes, along)

    def _place(self, numbers: np.ndarray, factors: np.ndarray | None, axes: Any, along: int) -> None:
        """Take the axes, and leaves of these arrays for engines that read them."""
        name, leaf = self.name or "weight", object.__new__(NarrowNumbers)
        _set(self, "dims", axes)
        _set(leaf, "dtype", numbers.dtype)
        _set(leaf, "dims", numbers.shape if numbers.dtype == np.uint8 else axes)
        hold(leaf, Storage(numbers))
        leaf._begin((), f"numbers of {name}", self.origin)
        with located_at(self.origin):
            scales = None if factors is None else NarrowFactors(factors, name=f"factors of {name}")
        hold(self, NarrowStorage(leaf, scales, along, tuple(map(int, axes))))

    @property
    def storage(self) -> NarrowType:
        """The type of the numbers."""
        return _STORAGES[self.numbers.dtype]

    @property
    def along(self) -> int:
        """The axis along which blocks of int4 run."""
        return self._storage.along  # type: ignore[attr-defined,no-any-return]  # a `NarrowStorage`

    @property
    def numbers(self) -> NarrowNumbers:
        """The leaf of the narrow numbers."""
        found: NarrowNumbers = self._storage.numbers  # type: ignore[attr-defined]  # a `NarrowStorage`
        return found

    @property
    def factors(self) -> NarrowFactors | None:
        """The leaf of the factors, of the shape (rows, 1) or (1, columns), of int8; else None."""
        found: NarrowFactors | None = self._storage.factors  # type: ignore[attr-defined]  # a `NarrowStorage`
        return found

    def parts(self, path: str) -> list[tuple[str, NarrowNumbers | NarrowFactors]]:
        """Return the leaves of the numbers and the factors, each with its name in a model with the weight at `path`."""
        named: list[tuple[str, NarrowNumbers | NarrowFactors]] = [(path, self.numbers)]
        return named if self.factors is None else [*named, (f"{path}.factors", self.factors)]

    @property
    def nbytes(self) -> int:
        """The bytes of the numbers and the factors."""
        return sum(leaf.value.nbytes for leaf in (self.numbers, self.factors) if leaf is not None)

    def __reduce__(self) -> tuple[object, ...]:
        factors = None if self.factors is None else self.factors.value
        return restored, (self.numbers.value, factors, self.dims, self.along, self.name, portable(self.origin))


def restored(
    numbers: np.ndarray, factors: FloatArray | None, dims: Any, along: int, name: str | None, origin: Any
) -> NarrowWeight:
    """Return the narrow weight of these numbers and factors, which are those of another one."""
    made: NarrowWeight = object.__new__(NarrowWeight)
    with located_at(origin):
        _FloatLeaf.__init__(made, None, None, name, np.float32)
    made._place(np.array(numbers, order="C"), factors, dims, along)
    return made


for _name, _answer in answers("parameters").items():
    setattr(Parameter, _name, ForeignName(_name, _answer, "Parameter"))
takes_methods(Parameter)
_BASES.add(NarrowNumbers)
takes_methods(NarrowWeight)
for _name, _answer in answers("narrow").items():
    setattr(NarrowWeight, _name, ForeignName(_name, _answer, "NarrowWeight"))
