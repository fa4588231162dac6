"""The leaves that a model keeps and saves: parameters, buffers, which change by a rule, and narrow weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args, overload

import numpy as np
from typing_extensions import Unpack

from wyrm.errors import DTypeError, ShapeError
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
    hold,
    store,
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
from wyrm.support.narrow_numbers import as_bfloat16, as_int8, from_bfloat16
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
            array: FloatArray = np.zeros(self.shape, self.dtype)
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


NarrowType = Literal["int8", "bfloat16"]
# The dtypes of the arrays that hold the numbers. NumPy has no bfloat16, so its bits are integers.
_HELD = {"int8": np.dtype(np.int8), "bfloat16": np.dtype(np.uint16)}


class NarrowNumbers(IndexNode[S_co], Leaf, abstract=True):  # type: ignore[type-var]  # covariant, as in all leaves
    """The narrow numbers of a weight: integers of int8, or the bits of bfloat16 as integers of uint16."""

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

    `array` are the numbers in float32, computed each time.
    """

    __slots__ = ("factors", "numbers")

    def __init__(self, numbers: NarrowNumbers, factors: NarrowFactors | None) -> None:
        super().__init__(None)
        self.numbers = numbers
        self.factors = factors
        # Who asks for the shape alone finds it here.
        _set_array_of(self, np.broadcast_to(np.float32(0.0), numbers.shape))

    if not TYPE_CHECKING:  # an attribute for type checkers, as in the base class

        @property
        def array(self) -> np.ndarray:
            numbers = bound_array(self.numbers)
            return from_bfloat16(numbers) if self.factors is None else numbers * bound_array(self.factors)

        @array.setter
        def array(self, array: np.ndarray | None) -> None:
            assert array is None, "a narrow weight never changes"


class NarrowWeight(methods.NarrowWeight, _FloatLeaf[S_co], abstract=True):
    """A weight that takes fewer bytes than its numbers do in float32, and that no optimizer changes.

    `storage` is "int8", integers from -127 to 127 with a factor for each row, or for each column unless there are more
    rows, or "bfloat16", the upper half of float32. In a graph it is a matrix of float32. Compiled products and lookups
    of rows read the narrow numbers and widen them in registers, with sums in float32; other ops read a copy in float32.

    `wy.nn.Module.quantize` replaces the parameters of a model. Raise `ShapeError` unless there are two axes,
    `DTypeError` for numbers of float64, `NotFinite` for a NaN or an infinity.

    >>> weight = wy.NarrowWeight([[0.5, -1.0], [0.25, 0.75]], storage="int8")
    >>> weight.nbytes, weight.dtype, weight.value.round(2).tolist()
    (12, dtype('float32'), [[0.5, -1.0], [0.25, 0.75]])
    """

    __slots__ = ()

    def __init__(
        self, value: Values, dims: DeclaredDims = None, *, storage: NarrowType = "int8", name: str | None = None
    ) -> None:
        choice("NarrowWeight: storage", storage, get_args(NarrowType))
        array = float_array(value, None, name or "a narrow weight")
        if array.dtype != np.float32:
            raise DTypeError(f"a narrow weight stands for float32, not {array.dtype}; give array.astype(np.float32)")
        if array.ndim != 2:
            raise ShapeError(f"a narrow weight has two axes, not the shape {array.shape}")
        axes = declared_dims(array, dims, False, name or "NarrowWeight")
        _FloatLeaf.__init__(self, None, None, name, np.float32)
        check_finite(self, array)
        if storage == "int8":
            numbers, factors = as_int8(array)
            self._place(numbers, factors, axes)
        else:
            self._place(as_bfloat16(array), None, axes)

    def _place(self, numbers: np.ndarray, factors: np.ndarray | None, axes: Any) -> None:
        """Take the axes, and leaves of these arrays for engines that read them."""
        name, leaf = self.name or "weight", object.__new__(NarrowNumbers)
        _set(self, "dims", axes)
        _set(leaf, "dtype", numbers.dtype)
        _set(leaf, "dims", axes)
        hold(leaf, Storage(numbers))
        leaf._begin((), f"numbers of {name}", self.origin)
        with located_at(self.origin):
            scales = None if factors is None else NarrowFactors(factors, name=f"factors of {name}")
        hold(self, NarrowStorage(leaf, scales))

    @property
    def storage(self) -> NarrowType:
        """The type of the numbers."""
        return "bfloat16" if self.factors is None else "int8"

    @property
    def numbers(self) -> NarrowNumbers:
        """The leaf of the narrow numbers."""
        found: NarrowNumbers = self._storage.numbers  # type: ignore[attr-defined]  # a `NarrowStorage`
        return found

    @property
    def factors(self) -> NarrowFactors | None:
        """The leaf of the factors, of the shape (rows, 1) or (1, columns); None for bfloat16."""
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
        return restored, (self.numbers.value, factors, self.dims, self.name, portable(self.origin))


def restored(numbers: np.ndarray, factors: FloatArray | None, dims: Any, name: str | None, origin: Any) -> NarrowWeight:
    """Return a narrow weight of these numbers and factors.

    Raise `DTypeError` or `ShapeError` for arrays that are not those of a narrow weight.
    """
    made: NarrowWeight = object.__new__(NarrowWeight)
    with located_at(origin):
        _FloatLeaf.__init__(made, None, None, name, np.float32)
    if numbers.dtype != _HELD["bfloat16" if factors is None else "int8"]:
        raise DTypeError(
            f"{describe(made)} has numbers of {numbers.dtype}, with{'out' if factors is None else ''} factors"
        )
    if factors is not None and factors.shape not in ((numbers.shape[0], 1), (1, numbers.shape[1])):
        raise ShapeError(f"{describe(made)} has factors of the shape {factors.shape} for {numbers.shape} numbers")
    made._place(np.array(numbers, order="C"), factors, dims)
    return made


for _name, _answer in answers("parameters").items():
    setattr(Parameter, _name, ForeignName(_name, _answer, "Parameter"))
takes_methods(Parameter)
_BASES.add(NarrowNumbers)
takes_methods(NarrowWeight)
