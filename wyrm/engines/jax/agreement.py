"""What several processes must agree on before they compute together, and which rows of a batch each of them has."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.jax.state import Placement
from wyrm.errors import OptionError
from wyrm.graph.base import BaseNode, describe

# Rows of a column that are compared between processes.
_SAMPLE = 64


@dataclass(frozen=True)
class Part:
    """Part `index` of `count` equal, contiguous parts of each batch."""

    index: int = 0
    count: int = 1

    def rows(self, rows: int) -> slice:
        """Return which of the rows of a batch this part has.

        >>> Part(1, 2).rows(8)
        slice(4, 8, None)
        """
        size = rows // self.count
        return slice(self.index * size, (self.index + 1) * size)


def part_of(placement: Placement, leaf: BaseNode) -> Part:
    """Return which part of the rows of an input, along its first axis, the devices of this process hold."""
    if not placement.several_processes or not leaf.dims:
        return Part()
    rows = int(placement.sharding.mesh.size)
    shape = (rows, *(1 for _ in leaf.dims[1:]))
    spans = placement.sharding.of_array(leaf, shape).addressable_devices_indices_map(shape).values()
    bounds = [span[0].indices(rows)[:2] for span in spans]
    first, last = min(low for low, _ in bounds), max(high for _, high in bounds)
    size = last - first
    held = {row for low, high in bounds for row in range(low, high)}
    if len(held) != size or rows % size or first % size:
        raise OptionError(
            f"the devices of this process hold rows of {describe(leaf)} that are not contiguous, so it cannot read "
            f"them from batches of its own: order the devices of the mesh by process, or train on columns"
        )
    return Part(first // size, rows // size)


def agreed(value: float) -> float:
    """Return the value that process 0 gives; every process calls it."""
    from jax.experimental.multihost_utils import broadcast_one_to_all

    return float(broadcast_one_to_all(np.float32(value)))


def check_same(named: Mapping[str, object]) -> None:
    """Raise `OptionError` naming what differs between processes; every process calls it."""
    own = np.array([fingerprint(value) for value in named.values()], np.uint32)
    summaries = _of_all([zlib.crc32(repr(list(named)).encode()), zlib.crc32(own.tobytes())])
    if (summaries == summaries[0]).all():
        return
    what, other = "what is trained or fed", int(np.argmax((summaries != summaries[0]).any(axis=1)))
    if (summaries[:, 0] == summaries[0, 0]).all():
        every = _of_all(own)
        position = int(np.argmax((every != every[0]).any(axis=0)))
        what, other = list(named)[position], int(np.argmax(every[:, position] != every[0, position]))
    raise OptionError(
        f"{what} of process {other} differs from that of process 0; all processes must run the same script with the "
        f"same seeds, options and data"
    )


def _of_all(numbers: Sequence[int] | NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the numbers that each process gives, one row for each."""
    from jax.experimental.multihost_utils import process_allgather

    return np.asarray(process_allgather(np.asarray(numbers, np.uint32))).reshape(-1, len(numbers))


def fingerprint(value: object) -> int:
    """Return a checksum of an array, of its first, last and some other rows if it has many, or of another value.

    >>> fingerprint(np.zeros(3)) == fingerprint(np.zeros(3)), fingerprint([1, 2]) == fingerprint([2, 1])
    (True, False)
    """
    if not isinstance(value, np.ndarray):
        return zlib.crc32(repr(value).encode())
    chosen = np.unique(np.linspace(0, max(len(value) - 1, 0), _SAMPLE).astype(np.int64)) if value.ndim else ()
    sample: NDArray[Any] = value[chosen] if value.ndim and len(value) else value
    return zlib.crc32(repr((value.shape, value.dtype.str)).encode() + np.ascontiguousarray(sample).tobytes())
