"""Batch sizes, and the integers of a program that depend on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import comb, prod

from wyrm.errors import OptionError
from wyrm.support.options import whole

# A polynomial of at most this degree is found from the values for the smallest batches.
DEGREE = 3
# Programs are planned for all batches up to this size, and for some larger ones, besides the largest.
_ALWAYS = 64
_CHECKED = (72, 80, 96, 100, 127, 128, 129, 192, 255, 256, 257, 384, 509, 512, 768, 1000, 1023, 1024, 2048, 4096)
# Some integers are polynomials of the batch size divided by one of these and rounded up.
_DIVISORS = (1, 2, 4, 8, 16, 32, 64)
# The smallest batch has at most so many rows: batch norms need two.
_LEAST = 4
# Values that are no polynomial are looked up in a table, for so many batch sizes.
_MOST_LISTED = 256


class NotPolynomial(Exception):
    """Some integer of a program is no polynomial of the batch size."""


@dataclass(frozen=True)
class BatchSizes:
    """The sizes of batches that an export takes: those that are `listed`, or all from `least` to `most`."""

    most: int
    listed: tuple[int, ...] = ()
    # Whether a program is planned for every size, however many there are.
    all: bool = False
    least: int = 1

    @staticmethod
    def of(given: object) -> BatchSizes:
        """Return the batch sizes that a user gives: the largest one, or a list of those that occur."""
        if isinstance(given, Sequence) and not isinstance(given, str):
            if not given:
                raise OptionError("batch_sizes must be a size or a list of sizes, not empty")
            listed = tuple(sorted({whole(f"batch_sizes[{i}]", each, 1) for i, each in enumerate(given)}))
            return BatchSizes(listed[-1], listed)
        return BatchSizes(whole("batch_sizes", given, 1))

    @property
    def samples(self) -> tuple[int, ...]:
        """The sizes that a program is planned for."""
        if self.listed:
            return self.listed
        if self.complete:
            return tuple(range(self.least, self.most + 1))
        few = [*range(1, _ALWAYS + 1), *_CHECKED, self.most // 2, self.most - 1, self.most]
        return tuple(sorted({size for size in few if self.least <= size <= self.most}))

    @property
    def complete(self) -> bool:
        """Whether a program is planned for every size that it takes."""
        return bool(self.listed) or self.all or self.most <= _ALWAYS

    def every(self) -> BatchSizes:
        """Return the same sizes, all planned; raise `OptionError` if they are too many."""
        if self.most > _MOST_LISTED:
            raise OptionError(
                f"the arrays of this program depend on the batch size in a way that needs a plan for each size, and "
                f"batch_sizes={self.most} are too many: give a list of those that occur, as in batch_sizes=[32, 7], or "
                f"at most {_MOST_LISTED}"
            )
        return replace(self, all=True)

    def without_least(self) -> BatchSizes | None:
        """Return all sizes but the smallest one, which a program may refuse; None if few have been left out."""
        if self.listed or self.least == min(_LEAST, self.most):
            return None
        return replace(self, least=self.least + 1)


@dataclass(frozen=True)
class BatchDependent:
    """An integer that depends on the batch size: one number, a polynomial, or one value for each listed size.

    `coefficients[k]` is the factor of the binomial coefficient of `size - 1` and `k`. With a `divisor`, the size is
    divided by it before, and rounded up. The integer is at most `limit`.
    """

    coefficients: tuple[int, ...]
    listed: tuple[int, ...] = ()
    divisor: int = 1
    limit: int | None = None

    @property
    def constant(self) -> int | None:
        """The number, if it is always the same."""
        return self.coefficients[0] if len(self.coefficients) == 1 else None

    def at(self, size: int) -> int:
        """Return the value for a batch size, unless they are listed.

        >>> [BatchDependent((1, 2, 1)).at(size) for size in (1, 2, 3)]
        [1, 3, 6]
        >>> [BatchDependent((4, 4), divisor=4, limit=10).at(size) for size in (1, 4, 5, 9)]
        [4, 4, 8, 10]
        """
        place = -(-size // self.divisor) - 1
        found = sum(factor * comb(place, degree) for degree, factor in enumerate(self.coefficients))
        return found if self.limit is None else min(found, self.limit)

    def plus(self, offset: int) -> BatchDependent:
        """Return the sum with a number."""
        coefficients = self.coefficients
        first = (coefficients[0] + offset, *coefficients[1:]) if coefficients else ()
        limit = None if self.limit is None else self.limit + offset
        return BatchDependent(first, tuple(each + offset for each in self.listed), self.divisor, limit)


def varying(values: Mapping[int, int], sizes: BatchSizes) -> BatchDependent:
    """Return the integer that has these values for samples of the batch sizes; raise `NotPolynomial` if there is none.

    >>> varying({1: 4, 2: 8, 3: 12, 4: 16, 5: 20}, BatchSizes(5))
    BatchDependent(coefficients=(4, 4), listed=(), divisor=1, limit=None)
    >>> varying({7: 3, 32: 3}, BatchSizes(32, (7, 32))).constant
    3
    """
    if not values:
        return BatchDependent((0,))
    if len(set(values.values())) == 1:
        return BatchDependent((next(iter(values.values())),))
    return _varying(tuple(values.items()), sizes)


@lru_cache(1024)  # many words of a program are the same integers
def _varying(pairs: tuple[tuple[int, int], ...], sizes: BatchSizes) -> BatchDependent:
    values = dict(pairs)
    if sizes.listed:
        return BatchDependent((), tuple(values.get(size, 0) for size in sizes.samples))
    highest = values[max(values)]
    for divisor in _DIVISORS:
        for limit in (None, highest):
            free = {size: value for size, value in values.items() if limit is None or value < limit}
            found = _polynomial({-(-size // divisor): value for size, value in free.items()}, divisor, limit)
            if found is not None and all(found.at(size) == value for size, value in values.items()):
                return found
    if not sizes.complete:
        raise NotPolynomial
    return BatchDependent((), tuple(values.get(size, 0) for size in sizes.samples))


def _polynomial(values: Mapping[int, int], divisor: int, limit: int | None) -> BatchDependent | None:
    """Return the polynomial through the values for the smallest sizes, in units of the divisor."""
    points = sorted(values.items())[: DEGREE + 1]
    if len(points) < 2:
        return None
    row = []
    for at in range(1, len(points) + 1):
        total = Fraction(0)
        for x, y in points:
            total += y * prod((Fraction(at - other, x - other) for other, _ in points if other != x), start=Fraction(1))
        row.append(total)
    if any(each.denominator != 1 for each in row):
        return None
    differences, factors = [int(each) for each in row], list[int]()
    while differences:
        factors.append(differences[0])
        differences = [after - before for before, after in pairwise(differences)]
    while len(factors) > 1 and factors[-1] == 0:
        factors.pop()
    return BatchDependent(tuple(factors), (), divisor, limit)
