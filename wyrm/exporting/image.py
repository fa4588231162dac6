"""The block of memory of an export: every array of its programs has a place there, or is constant data of the code."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from wyrm.exporting.batches import BatchDependent
from wyrm.support.memory import ALIGNMENT, aligned_size


class Kind(Enum):
    """What a region of memory is for.

    A tensor is saved and restored, and so is a changed one, which a training changes; a constant is data of the code;
    expanded memory is written once from such data; a copy begins with data and may change; scratch begins with zeros
    and is kept between calls; transient memory is that of one call, which the next one reuses.
    """

    TENSOR = "tensor"
    CHANGED = "changed"
    CONSTANT = "constant"
    EXPANDED = "expanded"
    COPY = "copy"
    SCRATCH = "scratch"
    TRANSIENT = "transient"


@dataclass(frozen=True)
class SizeNumber:
    """A float that depends on the batch size: an integer, or one divided by an integer."""

    value: BatchDependent
    dtype: np.dtype
    reciprocal: bool


@dataclass(eq=False)
class Region:
    """Memory of its own: its size in bytes, its kind, and the bytes that it begins with, if these are not zeros.

    `offset` counts from the start of the block, or for a constant from the start of the data, once all are placed.
    `number` is what a call writes there, once it knows the batch size.
    """

    size: int
    kind: Kind
    content: bytes = b""
    offset: int = -1
    number: SizeNumber | None = None


# An array of the data: where it is, its element type and its shape.
DataArray = tuple[Region, np.dtype, tuple[int, ...]]


def owner_of(array: np.ndarray) -> np.ndarray:
    """Return the array that owns the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def address_of(array: np.ndarray) -> int:
    """Return the address of the first element, whatever the strides."""
    address: int = array.__array_interface__["data"][0]
    return address


class Extents:
    """The memory that arrays use of each array that owns it, as addresses."""

    def __init__(self, arrays: Iterable[np.ndarray] = ()) -> None:
        # By the owner's identity: the lowest and the highest address.
        self.bounds: dict[int, tuple[int, int]] = {}
        self.owners: dict[int, np.ndarray] = {}
        for array in arrays:
            self.add(array)

    def add(self, array: np.ndarray) -> None:
        """Note the memory of an array."""
        if array.size == 0:
            return
        owner = owner_of(array)
        if array.flags.c_contiguous:
            low = address_of(array)
            high = low + array.nbytes
        else:
            low, high = np.lib.array_utils.byte_bounds(array)
        before = self.bounds.get(id(owner), (low, high))
        self.bounds[id(owner)] = min(before[0], low), max(before[1], high)
        self.owners[id(owner)] = owner

    def size(self, owner: int) -> int:
        """Return the bytes that are used of an owner."""
        low, high = self.bounds[owner]
        return high - low

    def content(self, owner: int) -> bytes:
        """Return the bytes of the part of an owner that is used."""
        low, high = self.bounds[owner]
        return ctypes.string_at(low, high - low)


@dataclass
class Image:
    """The regions of a block, and their places once all are known."""

    regions: list[Region] = field(default_factory=list)
    # The bytes of the block, and the constant data.
    size: int = 0
    data: bytes = b""
    # Where the tensors that a training changes begin, and their bytes.
    changed: tuple[int, int] = (0, 0)
    # For each region that is copied from the data: the position of its content there.
    copies: dict[Region, int] = field(default_factory=dict)

    def add(self, size: int, kind: Kind, content: bytes = b"") -> Region:
        """Add a region; blocks begin with zeros, so that bytes that are all zero are not stored."""
        region = Region(size, kind, content.rstrip(b"\0") and content)
        self.regions.append(region)
        return region

    def place(self, head: int) -> None:
        """Give each region its place: tensors first, behind a head of so many bytes, and transient memory last."""
        data, place = bytearray(), aligned_size(head)
        for kind in (Kind.TENSOR, Kind.CHANGED, Kind.EXPANDED, Kind.COPY, Kind.SCRATCH):
            first = place
            for region in self.of(kind):
                region.offset, place = place, aligned_size(place + region.size)
            if kind is Kind.CHANGED:
                self.changed = first, place - first
        shared = 0
        for region in self.of(Kind.TRANSIENT):
            region.offset, shared = place, max(shared, region.size)
        self.size = aligned_size(place + shared)
        known: dict[bytes, int] = {}
        for region in [*self.of(Kind.CONSTANT), *(each for each in self.of(Kind.COPY) if each.content)]:
            content = region.content.ljust(region.size, b"\0")
            if content not in known:
                data += bytes(-len(data) % ALIGNMENT)
                known[content] = len(data)
                data += content
            if region.kind is Kind.CONSTANT:
                region.offset = known[content]
            else:
                self.copies[region] = known[content]
        # Vectors are read past the end of a row, but never past a cache line.
        self.data = bytes(data) + bytes(ALIGNMENT)

    def append(self, values: np.ndarray) -> DataArray:
        """Add data once all regions have their places, at a multiple of 8 bytes."""
        content = values.tobytes()
        region = Region(len(content), Kind.CONSTANT, content, len(self.data))
        self.data += content + bytes(-len(content) % 8)
        return region, values.dtype, values.shape

    def of(self, kind: Kind) -> Sequence[Region]:
        """Return the regions of a kind."""
        return [region for region in self.regions if region.kind is kind]

    def room(self, kind: Kind) -> int:
        """Return the bytes that regions of a kind take one behind the other."""
        return sum(aligned_size(region.size) for region in self.of(kind))
