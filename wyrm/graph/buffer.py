"""`Buffer`: state of a model that changes by a rule of its own and has no gradient."""

from __future__ import annotations

from typing import overload

from numpy.typing import DTypeLike
from typing_extensions import Unpack

from wyrm.errors import DTypeError
from wyrm.graph.arrays import as_array
from wyrm.graph.base import describe
from wyrm.graph.leaves import LeafOptions, S_co, _FloatLeaf, assign
from wyrm.graph.storage import DeclaredDims
from wyrm.graph.typing import D1, D2, D3, D4, AxisOf, NewDims, Number, Size, Sizes, Values
from wyrm.support.foreign_names import answering


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
    @answering
    def __init__(
        self, value: object, dims: DeclaredDims = None, *, name: str | None = None, dtype: DTypeLike | None = None
    ) -> None:
        self._hold(value, dims, name, dtype, "buffer")

    def set(self, value: Values) -> None:
        """Replace the values, of the same shape; `ShapeError`, `DTypeError` and `NotFinite` leave them unchanged."""
        given = as_array(value, lambda: describe(self))
        if given.dtype.kind == "b":
            raise DTypeError(f"{describe(self)} takes {self.dtype}, the data is {given.dtype}")
        assign(self, given, finite=True)
