"""Sums of shifted rows: `out[i, k] = sum_j weights[j, i] * box[offsets[j] + k]`, the inner part of a convolution.

It is a product whose right operand's rows overlap in memory, so that no matrix of all windows exists: a block of the
result stays in registers while its pointer walks through the offsets.
"""

from __future__ import annotations

from wyrm.engines.native.ir.types import ScalarType
from wyrm.engines.native.products.target import Target
from wyrm.engines.native.products.vectors import Vectors
from wyrm.engines.native.products.writer import DECLARED, SHARED, Writer

# Few rows take more vectors of a row at a time: as many sums as a processor computes at once.
_FEW, _SUMS = 2, 8
# Partial sums of about the square root of a sum's length lose least precision. They are read and written between, so
# they are not shorter than `_SHORTEST` terms; those of up to `_FEWEST * _SHORTEST` are that short.
_LONGEST, _SHORTEST, _FEWEST = 192, 24, 4
_OPERANDS = (
    ("i64", "rows"), ("i64", "columns"), ("i64", "depth"), ("ptr", "weights"), ("i64", "first"), ("i64", "all"),
    ("ptr", "offsets"), ("ptr", "box"), ("ptr", "c"), ("i64", "cr"), ("i1", "adds"),
)  # fmt: skip
_TILE = (
    "ptr noalias %weights, ptr noalias %offsets, i64 %depth, i64 %part, ptr noalias %box, ptr noalias %c, i64 %cr, "
    "i64 %last, i64 %columns, i1 %adds"
)


def most_rows(target: Target) -> int:
    """Return how many rows of a result a tile has at most."""
    return target.tile[0] // 2 * 2


def text(target: Target, number: ScalarType) -> str:
    """Return the text of the module for a type of floats, on a target.

    Its function takes the sizes of the result and the number of terms of a sum; the weights, of which those of the
    terms from `first` on are used, of `all` terms; the offsets of these in elements; the box; the result with
    contiguous columns, and the stride of its rows; and whether it is added to. The rows are divided into tiles of at
    most `most_rows`, pairs of rows that are as equally many as can be. The weights are those of one tile after those of
    another: all rows' of a term side by side, with those of the last row twice if the number of rows is odd and above
    1. It reads whole vectors of the box: up to one less than a vector's elements behind the last column.
    """
    vectors = Vectors(target, number)
    heights = [1, *range(2, most_rows(target) + 1, 2)]
    widths = {rows: [*range(1, vectors.vectors + 1)] for rows in heights}
    for rows in heights:
        widths[rows].append(max(vectors.vectors, _SUMS // rows) if rows <= _FEW else vectors.vectors)
    names = [f"ptr @{_name(rows, wide)}" for rows in heights for wide in widths[rows]]
    widest = [f"i64 {widths[rows][-1] * vectors.width}" for rows in (*range(1, _FEW + 1), heights[-1])]
    return "\n".join([
        *vectors.declarations(),
        *DECLARED,
        f"@tiles = internal constant [{len(names)} x ptr] [{', '.join(names)}]",
        f"@widest = internal constant [{len(widest)} x i64] [{', '.join(widest)}]",
        *(_tile(vectors, rows, wide) for rows in heights for wide in dict.fromkeys(widths[rows])),
        _entry(vectors),
    ])  # fmt: skip


def _name(rows: int, wide: int) -> str:
    return f"tile_{rows}_{wide}"


def _tile(vectors: Vectors, rows: int, wide: int) -> str:
    """Return a function that computes `rows` rows of `wide` vectors, of which the first `columns` elements count.

    The last row is `last` elements after the first one: it may be the row before it once more.
    """
    to = Writer()
    last = vectors.below(to, to.subtract("%columns", (wide - 1) * vectors.width))

    def block(start: str, weights: str) -> list[str]:
        offsets = to.address("i64", "%offsets", start)

        def step(index: str, weights: str, *totals: str) -> list[str]:
            offset = to.new(f"load i64, ptr {to.address('i64', offsets, index)}")
            place = vectors.address(to, "%box", offset)
            right = [vectors.load(to, place, vector * vectors.width) for vector in range(wide)]
            sums: list[str] = []
            for row in range(rows):
                left = vectors.repeated(to, vectors.address(to, weights, row))
                sums += [
                    vectors.multiply_add(to, left, each, totals[row * wide + vector])
                    for vector, each in enumerate(right)
                ]
            return [vectors.address(to, weights, rows), *sums]

        count = to.lower(to.subtract("%depth", start), "%part")
        carried = [("ptr", weights), *[(vectors.type, "zeroinitializer")] * (rows * wide)]
        after, *totals = to.loop(count, 1, step, carried)
        adds = to.new(f"or i1 %adds, {to.compare('ne', start, 0)}")

        def write(*, whole: bool, adds: str | bool) -> None:
            mask = None if whole else last
            read: list[str | None] = [*[None] * (wide - 1), mask]
            if isinstance(adds, str):  # what an addition reads: nothing where it does not add
                size = to.select(adds, "i64", "%columns", 0)
                read = [vectors.below(to, to.subtract(size, vector * vectors.width)) for vector in range(wide)]

            def found(row: int, place: str) -> list[str]:
                own = totals[row * wide : (row + 1) * wide]
                if not adds:
                    return own
                return [
                    vectors.add(to, each, vectors.load(to, place, vector * vectors.width, read[vector]))
                    for vector, each in enumerate(own)
                ]

            def put(values: list[str], place: str) -> None:
                for vector, each in enumerate(values):
                    vectors.store(to, each, place, vector * vectors.width, mask if vector == wide - 1 else None)

            place = "%c"
            for row in range(rows - 2):
                put(found(row, place), place)
                place = vectors.address(to, place, "%cr")
            # Both are read before one is written: they may be the same row.
            places = [place, vectors.address(to, "%c", "%last")][-min(rows, 2) :]
            values = [found(row, each) for row, each in enumerate(places, rows - len(places))]
            for value, each in zip(values, places, strict=True):
                put(value, each)

        if vectors.target.masks:
            write(whole=False, adds=adds)
        else:
            to.branch(
                to.compare("eq", "%columns", wide * vectors.width),
                lambda: to.branch(adds, lambda: write(whole=True, adds=True), lambda: write(whole=True, adds=False)),
                lambda: to.branch(adds, lambda: write(whole=False, adds=True), lambda: write(whole=False, adds=False)),
            )
        return [after]

    to.loop("%depth", "%part", block, [("ptr", "%weights")])
    return to.function(f"internal void @{_name(rows, wide)}({_TILE}) noinline nounwind")


def _entry(vectors: Vectors) -> str:
    """Return the exported function, which goes through the columns."""
    to = Writer()
    parts = to.higher(
        to.divide(to.add("%depth", _LONGEST - 1), _LONGEST),
        to.higher(to.lower(to.divide("%depth", _SHORTEST), _FEWEST), 1),
    )
    part = to.divide(to.add("%depth", to.subtract(parts, 1)), parts)
    tiles = to.divide(to.add("%rows", most_rows(vectors.target) - 1), most_rows(vectors.target))
    pairs = to.divide(to.add("%rows", 1), 2)
    fewest = to.divide(pairs, tiles)
    larger = to.subtract(pairs, to.multiply(fewest, tiles))

    def all_rows(column: str, size: str, position: str) -> None:
        """Call the tile at a position among those of each height, for all rows."""
        box = vectors.address(to, "%box", column)

        def tile(number: str, row: str, weights: str) -> list[str]:
            more = to.new(f"zext i1 {to.compare('slt', number, larger)} to i64")
            half = to.select(to.compare("eq", "%rows", 1), "i64", "0", to.add(fewest, more))
            height = to.higher(to.multiply(half, 2), 1)
            count = to.lower(height, to.subtract("%rows", row))
            place = to.add(to.multiply(half, vectors.vectors + 1), position)
            function = to.new(f"load ptr, ptr {to.address('ptr', '@tiles', place)}")
            own = vectors.address(to, weights, to.multiply(height, "%first"))
            c = vectors.address(to, "%c", to.add(to.multiply("%cr", row), column))
            last = to.multiply("%cr", to.subtract(count, 1))
            to.do(
                f"call void {function}(ptr {own}, ptr %offsets, i64 %depth, i64 {part}, ptr {box}, ptr {c}, i64 %cr, "
                f"i64 {last}, i64 {size}, i1 %adds)"
            )
            return [to.add(row, count), vectors.address(to, weights, to.multiply(height, "%all"))]

        to.loop(tiles, 1, tile, [("i64", "0"), ("ptr", "%weights")])

    # So few rows are one tile.
    index = to.lower(to.subtract("%rows", 1), _FEW)
    few = to.compare("sle", "%rows", _FEW)
    widest = to.select(few, "i64", str(vectors.vectors), vectors.vectors - 1)
    wide = to.new(f"load i64, ptr {to.address('i64', '@widest', index)}")
    whole = to.multiply(to.new(f"udiv i64 %columns, {wide}"), wide)
    to.loop(whole, wide, lambda column: all_rows(column, wide, widest))

    def edge(index: str) -> None:
        column = to.add(whole, index)
        size = to.lower(to.subtract("%columns", column), vectors.columns)
        all_rows(column, size, to.divide(to.subtract(size, 1), vectors.width))

    to.loop(to.subtract("%columns", whole), vectors.columns, edge)
    parameters = ", ".join(f"{type} %{name}" for type, name in _OPERANDS)
    return to.function(f"void @{SHARED}({parameters}) nounwind")
