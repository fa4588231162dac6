"""The values of a loop program that is interpreted without data, and the operations and bytes counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias


class Unknown(Enum):
    """An unknown value: it depends on data, or on the iteration, in a loop of which one iteration counts for all."""

    DATA = 0
    ITERATION = 1


@dataclass(frozen=True)
class Pointer:
    """A pointer into the array of a parameter."""

    array: str


KnownValue: TypeAlias = int | float | bool | Unknown | Pointer


@dataclass
class Tally:
    """The FLOPs by number of bits, the FLOPs of products, and the bytes read and written by array."""

    flops: dict[int, float] = field(default_factory=dict)
    products: float = 0.0
    read: dict[str, float] = field(default_factory=dict)
    written: dict[str, float] = field(default_factory=dict)
    exact: bool = True

    def add(self, other: Tally, times: float) -> None:
        """Add another tally a number of times."""
        for array, count in other.read.items():
            self.read[array] = self.read.get(array, 0.0) + count * times
        for array, count in other.written.items():
            self.written[array] = self.written.get(array, 0.0) + count * times
        for bits, count in other.flops.items():
            self.flops[bits] = self.flops.get(bits, 0.0) + count * times
        self.products += other.products * times
        self.exact = self.exact and other.exact

    @property
    def weight(self) -> float:
        """The sum of all counts: the branch with the larger one is counted."""
        return sum(self.flops.values()) + sum(self.read.values()) + sum(self.written.values())
