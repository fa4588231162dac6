"""Weights as constant data of the code: as they are, or in fewer bytes, which the start of a block expands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import OptionError
from wyrm.exporting.image import Kind, Region
from wyrm.exporting.routines import ArrayRegions

EmbedKind = bool | Literal["float32", "float16", "int8"]
EMBEDS = ("float32", "float16", "int8")
# Smaller arrays stay as they are: biases, norms and scalars.
_SMALL = 64


@dataclass(frozen=True)
class Packed:
    """An array in fewer bytes: `data` of rows, `scales` of rows for int8, and the region that it is expanded to."""

    region: Region
    data: Region
    scales: Region | None
    rows: int
    columns: int


@dataclass
class EmbeddedWeights:
    """The weights of an export that are a part of its code."""

    kind: Literal["float32", "float16", "int8"]
    packed: list[Packed] = field(default_factory=list)
    # The sums of squares of all weights and of their errors.
    _squares: float = 0.0
    _errors: float = 0.0

    def add(self, name: str, array: np.ndarray, places: ArrayRegions, *, exact: bool = False) -> None:
        """Add the weights of a parameter; raise `OptionError` for one that is too large for a float16.

        Those that are narrow already are kept `exact`.
        """
        if exact or self.kind == "float32" or array.dtype != np.float32 or array.size < _SMALL:
            places.share(array, Kind.CONSTANT, array.tobytes())
            return
        rows = array.reshape(len(array) if array.ndim > 1 else 1, -1)
        region, scales = places.share(array, Kind.EXPANDED), None
        if self.kind == "float16":
            if not np.abs(rows).max() <= np.finfo(np.float16).max:
                raise OptionError(f"{name} has a number beyond the range of float16: use embed='float32' or 'int8'")
            half = rows.astype(np.float16)
            content: np.ndarray = half.view(np.uint16)
            restored = half.astype(np.float32)
        else:
            content, factors = by_rows(rows)
            restored = content * factors[:, None]
            scales = places.image.add(factors.nbytes, Kind.CONSTANT, factors.tobytes())
            scales.content = factors.tobytes()
        data = places.image.add(content.nbytes, Kind.CONSTANT, content.tobytes())
        data.content = content.tobytes()
        self._squares += float(np.square(rows, dtype=np.float64).sum())
        self._errors += float(np.square(restored - rows, dtype=np.float64).sum())
        self.packed.append(Packed(region, data, scales, *rows.shape))

    @property
    def loss_of_accuracy(self) -> float:
        """The root mean square of the errors of all weights, relative to that of the weights."""
        return (self._errors / self._squares) ** 0.5 if self._squares else 0.0


def by_rows(array: np.ndarray) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return the rows as integers from -127 to 127, and the factor of each row.

    >>> integers, factors = by_rows(np.array([[0.5, -1.0], [0.0, 0.0]], np.float32))
    >>> integers.tolist(), (integers * factors[:, None]).round(2).tolist()
    ([[64, -127], [0, 0]], [[0.5, -1.0], [0.0, 0.0]])
    """
    factors = (np.abs(array).max(axis=1) / 127.0).astype(np.float32)
    safe = np.where(factors == 0.0, np.float32(1.0), factors)
    return np.rint(array / safe[:, None]).astype(np.int8), factors
