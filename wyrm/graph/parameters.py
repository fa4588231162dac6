"""The leaves that a model keeps and saves: parameters, and buffers, which change by a rule and have no gradient."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from typing_extensions import Unpack

from wyrm.errors import DTypeError
from wyrm.graph import methods
from wyrm.graph.arrays import as_array
from wyrm.graph.base import describe
from wyrm.graph.leaves import LeafOptions, S_co, _FloatLeaf, assign
from wyrm.graph.registration import takes_methods
from wyrm.graph.rows import RowSparse
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


for _name, _answer in answers("parameters").items():
    setattr(Parameter, _name, ForeignName(_name, _answer, "Parameter"))
takes_methods(Parameter)
