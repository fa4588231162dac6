"""Integer leaves: the rows, labels and tokens that a graph chooses by."""

from __future__ import annotations

from typing import Any, Generic, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import TypeVar

from wyrm.node.base import _BASES, S, _set
from wyrm.node.leaves import restore_leaf
from wyrm.node.node import IndexNode
from wyrm.node.storage import Leaf, Storage, check_indices, check_shape, declared_dims, index_array, store
from wyrm.types.dims import Dim

ShapeDims = TypeVar("ShapeDims", bound=tuple[Dim, ...])
DA = TypeVar("DA", bound=Dim)
DB = TypeVar("DB", bound=Dim)


class _IndexLeaf(IndexNode[S], Leaf, Generic[S], abstract=True):
    __slots__ = ()

    def __init__(self, array: NDArray[Any] | None, dims: Any, name: str | None) -> None:
        _set(self, "_storage", Storage(array))
        _set(self, "dims", declared_dims(array, dims, isinstance(self, IndexInput), name or self.op_name()))
        self._construct((), name)

    def _restore(self, array: NDArray[Any] | None, dims: Any, name: str | None, dtype: Any) -> None:
        _IndexLeaf.__init__(self, array, dims, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return restore_leaf, (type(self), self._storage.array, self.dims, self.name, self.dtype, self.site, None)


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
        super().__init__(None if value is None else index_array(value, name or "an index input"), dims, name)

    def set(self, value: int | NDArray[np.integer[Any]] | list[int] | list[list[int]]) -> None:
        """Bind data; `ShapeError`, `DTypeError` or `IndexOutOfRange` before anything changes."""
        array = index_array(value, self)
        check_shape(self, array.shape)
        for user, size in list((self._storage.limits or {}).items()):
            check_indices(self, user, array, size)
        store(self._storage, array)


class IndexConstant(_IndexLeaf[S], abstract=True):
    """Integers that never change; a list or array of integers used as an index becomes one."""

    __slots__ = ()

    def __init__(self, value: ArrayLike, dims: S | None = None, *, name: str | None = None) -> None:
        super().__init__(index_array(value, name or "an index"), dims, name)


_BASES.add(_IndexLeaf)
