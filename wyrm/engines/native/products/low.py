"""Products of a few rows: row after row of the right operand, which comes fastest from memory in this order."""

from __future__ import annotations

from functools import partial

from wyrm.engines.native.products import few
from wyrm.engines.native.products.tiles import LINE_BYTES, Vectors
from wyrm.engines.native.products.writer import Writer

# The numbers of rows of the left operand. Tiles of more rows are as fast, except where each number of the right operand
# would be widened and copied before they read it: where there is no `few`.
_ROWS, _WIDENED_ROWS = (1, 2), (1, 2, 4, 8)
# Longer sums lose precision, because each is one chain of additions.
LONGEST_SUM = 4096
# Few columns; the least elements of a right operand that comes from memory, and not from the cache; and the number of
# multiplications below which the choice of tiles takes longer than the product.
FEW_COLUMNS, FAR, TINY = 4, 1 << 16, 200
# So many rows of the right operand are read for one load and store of the result; then 4, 2 and 1 of those left.
_TOGETHER = 8


def heights(vectors: Vectors) -> tuple[int, ...]:
    """Return the numbers of rows that there are functions for."""
    return _WIDENED_ROWS if vectors.widens and not few.has_tiles(vectors) else _ROWS


def functions(vectors: Vectors, parameters: str) -> list[str]:
    """Return the functions of the module: `low_1`, `low_2` ..., which take the `parameters`, for so many rows."""
    return [_function(vectors, rows, parameters) for rows in heights(vectors)]


def _function(vectors: Vectors, rows: int, parameters: str) -> str:
    """Return the function for a right operand with contiguous rows, and at least one of them."""
    to = Writer()
    left = [vectors.address(to, "%a", to.multiply("%ar", row)) for row in range(rows)]
    out = [vectors.address(to, "%c", to.multiply("%cr", row)) for row in range(rows)]
    even = to.new(f"and i64 %columns, {-vectors.width}")
    rest, some = vectors.below(to, to.subtract("%columns", even)), to.compare("slt", even, "%columns")
    # The columns of a cache line of the right operand.
    line = max(LINE_BYTES // vectors.right.itemsize, vectors.width)
    lines = to.new(f"and i64 %columns, {-line}")

    def add(first: str, count: int) -> None:
        """Add rows of the right operand, each times an element of the left one."""
        terms = [to.add(first, term) for term in range(count)]
        right = [vectors.right_address(to, "%b", to.multiply("%br", term)) for term in terms]
        places = [to.multiply("%ac", term) for term in terms]
        factors = [[vectors.repeated(to, vectors.address(to, row, place)) for place in places] for row in left]
        adds = to.one_of("%beta", to.compare("ne", first, 0))

        def column(index: str, mask: str | None = None) -> None:
            read = [vectors.load_right(to, each, index, mask) for each in right]
            for each, of_row in zip(out, factors, strict=True):
                # A sum of sums loses less precision than one long sum.
                total = "zeroinitializer"
                for factor, value in zip(of_row, read, strict=True):
                    total = vectors.multiply_add(to, factor, value, total)
                before = to.select(adds, vectors.type, vectors.load(to, each, index, mask), "zeroinitializer")
                vectors.store(to, vectors.add(to, before, total), each, index, mask)

        def of_line(index: str) -> None:
            for each in right:
                vectors.prefetch_right(to, each, to.add(index, ahead))
            for start in range(0, line, vectors.width):
                column(to.add(index, start))

        if vectors.widens:
            ahead = to.multiply("%br", count)
            to.loop(lines, line, of_line)
            to.loop(even, vectors.width, column, first=lines)
        else:
            to.loop(even, vectors.width, column)
        to.branch(some, lambda: column(even, rest))

    first = to.new(f"and i64 %inner, {-_TOGETHER}")
    to.loop(first, _TOGETHER, lambda start: add(start, _TOGETHER))
    for count in (4, 2, 1):
        found = to.new(f"and i64 %inner, {count}")
        to.branch(to.compare("ne", found, 0), partial(add, first, count))
        first = to.add(first, found)
    return to.function(f"internal void @low_{rows}({parameters}) noinline nounwind")
