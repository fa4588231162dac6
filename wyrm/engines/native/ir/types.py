"""The types of a loop program: scalars that match a NumPy dtype, and pointers to them."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from wyrm.support.frozen import frozen


@frozen
class ScalarType:
    """A scalar type: its kind, "b" (bool), "i" (signed), "u" (unsigned) or "f" (float), and its number of bits."""

    kind: Literal["b", "i", "u", "f"]
    bits: int

    @property
    def name(self) -> str:
        """The name of the NumPy dtype, such as "float32"."""
        return {"b": "bool", "i": "int", "u": "uint", "f": "float"}[self.kind] + (
            "" if self.kind == "b" else str(self.bits)
        )

    @property
    def itemsize(self) -> int:
        """The size of an element in bytes."""
        return max(1, self.bits // 8)

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype."""
        return np.dtype(self.name)

    def __str__(self) -> str:
        return self.name


@frozen
class PointerType:
    """A pointer to scalars of one type."""

    element: ScalarType

    def __str__(self) -> str:
        return f"{self.element}*"


Type = ScalarType | PointerType

BOOL = ScalarType("b", 1)
INT8, INT16, INT32, INT64 = (ScalarType("i", bits) for bits in (8, 16, 32, 64))
UINT8, UINT16, UINT32, UINT64 = (ScalarType("u", bits) for bits in (8, 16, 32, 64))
FLOAT32, FLOAT64 = ScalarType("f", 32), ScalarType("f", 64)
_BY_DTYPE = {
    np.dtype(each.name): each
    for each in (BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FLOAT32, FLOAT64)
}  # fmt: skip


def scalar_of(dtype: Any) -> ScalarType | None:
    """Return the scalar type of a NumPy dtype; None for a byte-swapped dtype or one that loop programs do not support.

    >>> scalar_of(np.float32), scalar_of(">f4")
    (ScalarType(kind='f', bits=32), None)
    """
    return _BY_DTYPE.get(np.dtype(dtype))
