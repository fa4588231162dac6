"""Integer leaves: the rows, labels and tokens that a graph indexes with."""

from __future__ import annotations

from typing import Any, TypedDict, overload

import numpy as np
from typing_extensions import Unpack

from wyrm.graph.axes import Axis
from wyrm.graph.base import _BASES, BaseNode, _set, describe
from wyrm.graph.index_operands import bound_of, check_limits, source_of
from wyrm.graph.leaves import S_co, pickled_leaf
from wyrm.graph.node import IndexNode
from wyrm.graph.ragged import RaggedStorage, as_ragged, checked_rows, has_ragged, of_values, ragged_dims
from wyrm.graph.storage import DeclaredDims, Leaf, Storage, bound_array, check_shape, declared_dims, index_array, store
from wyrm.graph.typing import D1, D2, D3, D4, AxisOf, DTypeLike, Indices, NewDims, Size, Sizes
from wyrm.support.foreign_names import explains_keywords


class IndexLeafOptions(TypedDict, total=False):
    """The options of every integer leaf besides its value and axes."""

    name: str | None


class _IndexLeaf(IndexNode[S_co], Leaf, abstract=True):  # type: ignore[type-var]  # see `S_co`
    __slots__ = ()

    def __init__(self, array: np.ndarray | None, dims: DeclaredDims, name: str | None) -> None:
        rebindable, what = isinstance(self, IndexInput), name or type(self).__name__
        if has_ragged(dims):
            _set(self, "_storage", RaggedStorage())
            _set(self, "dims", ragged_dims(dims, rebindable, what))
        else:
            _set(self, "_storage", Storage(array))
            _set(self, "dims", declared_dims(array, dims, rebindable, what))
        self._construct((), name)

    def _restore(self, array: np.ndarray | None, dims: DeclaredDims, name: str | None, dtype: DTypeLike) -> None:
        _IndexLeaf.__init__(self, array, dims, name)

    def __reduce__(self) -> tuple[object, ...]:
        return pickled_leaf(self, None)


class IndexInput(_IndexLeaf[S_co], abstract=True):
    """A leaf of integers: labels, rows of a table, tokens.

    `set` raises `IndexOutOfRange` for an index outside the table that it is used with, before anything changes.

    >>> labels = IndexInput(dims=(3,), name="labels")
    >>> labels.set([0, 2, 1])
    >>> labels.value.tolist()
    [0, 2, 1]
    """

    __slots__ = ()

    @overload
    def __init__(
        self: IndexInput[tuple[()]], value: int | None = None, dims: None = None, **options: Unpack[IndexLeafOptions]
    ) -> None: ...
    @overload
    def __init__(self: IndexInput, value: Indices, dims: None = None, **options: Unpack[IndexLeafOptions]) -> None: ...
    @overload
    def __init__(
        self: IndexInput, value: Indices | None = None, dims: Sizes = ..., **options: Unpack[IndexLeafOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: IndexInput[tuple[D1]],
        value: Indices | None = None,
        dims: tuple[AxisOf[D1]] = ...,
        **options: Unpack[IndexLeafOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: IndexInput[tuple[D1, D2]],
        value: Indices | None = None,
        dims: tuple[AxisOf[D1], AxisOf[D2]] = ...,
        **options: Unpack[IndexLeafOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: IndexInput[tuple[D1, D2, D3]],
        value: Indices | None = None,
        dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3]] = ...,
        **options: Unpack[IndexLeafOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: IndexInput[tuple[D1, D2, D3, D4]],
        value: Indices | None = None,
        dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3], AxisOf[D4]] = ...,
        **options: Unpack[IndexLeafOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: IndexInput[NewDims],
        value: Indices | None = None,
        dims: NewDims = ...,
        **options: Unpack[IndexLeafOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: IndexInput,
        value: Indices | None = None,
        dims: tuple[Size, ...] = ...,
        **options: Unpack[IndexLeafOptions],
    ) -> None: ...
    @explains_keywords
    def __init__(self, value: object = None, dims: Any = None, *, name: str | None = None) -> None:
        rows = value is not None and has_ragged(dims)
        array = None if value is None or rows else index_array(value, name or "an index input")
        super().__init__(array, dims, name)
        if rows:
            self._set_rows(value)

    def _set_rows(self, value: object) -> None:
        """Bind rows of different lengths."""
        given = checked_rows(self, as_ragged(value, describe(self), integers=True))
        data = of_values(index_array(given.values, self), given)
        check_limits(self, data.values)
        assert isinstance(self._storage, RaggedStorage)
        self._storage.put(data)

    def set(self, value: Indices) -> None:
        """Bind data; `ShapeError`, `DTypeError` and `IndexOutOfRange` leave the old data unchanged."""
        if isinstance(self._storage, RaggedStorage):
            self._set_rows(value)
            return
        array = index_array(value, self)
        check_shape(self, array.shape)
        check_limits(self, array)
        store(self._storage, array)


class HeldIndices(IndexInput[S_co], abstract=True):
    """Integers that stay for many calls of a program, of any size along axes without one, and change by `set` alone.

    The array that they hold is never written to: `set` holds another one, so that a program computes what follows from
    it, such as the bits of excluded rows, anew.

    >>> class Rows(wy.Dim): ...
    >>> held = HeldIndices([1, 2], dims=(Rows(),))
    >>> before = held.value
    >>> held.set([3, 4, 5])
    >>> before.tolist(), held.value.tolist()
    ([1, 2], [3, 4, 5])
    """

    __slots__ = ()

    def set(self, value: Indices) -> None:
        """Hold other integers; errors are those of `IndexInput.set`."""
        array = np.array(index_array(value, self))
        check_shape(self, array.shape)
        check_limits(self, array)
        self._storage.array = None
        store(self._storage, array)


class IndexConstant(_IndexLeaf[S_co], abstract=True):
    """Integers that never change; a list or array of integers used as an index becomes one.

    >>> IndexConstant([0, 2]).value.tolist()
    [0, 2]
    """

    __slots__ = ()

    @overload
    def __init__(
        self: IndexConstant[tuple[()]], value: int, dims: None = None, **options: Unpack[IndexLeafOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: IndexConstant, value: Indices, dims: None = None, **options: Unpack[IndexLeafOptions]
    ) -> None: ...
    @overload
    def __init__(self: IndexConstant, value: Indices, dims: Sizes, **options: Unpack[IndexLeafOptions]) -> None: ...
    @overload
    def __init__(
        self: IndexConstant[tuple[D1]], value: Indices, dims: tuple[AxisOf[D1]], **options: Unpack[IndexLeafOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: IndexConstant[tuple[D1, D2]],
        value: Indices,
        dims: tuple[AxisOf[D1], AxisOf[D2]],
        **options: Unpack[IndexLeafOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: IndexConstant[tuple[D1, D2, D3]],
        value: Indices,
        dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3]],
        **options: Unpack[IndexLeafOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: IndexConstant[tuple[D1, D2, D3, D4]],
        value: Indices,
        dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3], AxisOf[D4]],
        **options: Unpack[IndexLeafOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: IndexConstant[NewDims], value: Indices, dims: NewDims, **options: Unpack[IndexLeafOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: IndexConstant, value: Indices, dims: tuple[Size, ...], **options: Unpack[IndexLeafOptions]
    ) -> None: ...
    @explains_keywords
    def __init__(self, value: object, dims: Any = None, *, name: str | None = None) -> None:
        super().__init__(index_array(value, name or "an index"), dims, name)


_BASES.add(_IndexLeaf)


def bound_of_chosen(indices: BaseNode) -> Axis | None:
    """Return what integers that are chosen among `indices` are below: the same, or what those of a constant are.

    >>> bound_of_chosen(IndexConstant([[3, 0], [7, 2]]))
    8
    """
    source = source_of(indices)
    if not isinstance(source, IndexConstant):
        return bound_of(indices)
    array = bound_array(source)
    return int(array.max()) + 1 if array.size and array.min() >= 0 else None
