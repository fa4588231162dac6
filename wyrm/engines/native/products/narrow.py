"""Products whose results are too narrow, or too low, to fill blocks of registers.

Where the rows of the left operand are contiguous, vectors go along the inner axis, and each sum is added up across its
vector at the end. Where its columns are, the transposed product has vectors along the rows of the result.
"""

from __future__ import annotations

from collections.abc import Sequence

from wyrm.engines.native.products.packing import taken
from wyrm.engines.native.products.tiles import Vectors
from wyrm.engines.native.products.writer import Writer
from wyrm.support.narrow_numbers import INT4_BLOCK

# The columns of a block of dot products.
_COLUMNS = 4
# The terms that a lane adds up, as in a tile.
_TERMS = 128
# The rows of the left operand that are multiplied by all columns before the next ones are read.
_ROWS_TOGETHER = 32
# Dot products also compute results of at most `FEW_ROWS` rows, if the columns of the right operand are contiguous and
# have at least `LONG` vectors each.
FEW_ROWS, LONG = 8, 4
# The columns of the transposed product that are computed before they are written.
_ACROSS = 512
# The bytes ahead of those in use that are fetched from memory: by itself a processor fetches fewer of several rows.
_AHEAD = 8192


def most_columns(vectors: Vectors) -> int:
    """Return the number of columns up to which a result is narrow: three quarters of a vector."""
    return vectors.width * 3 // 4


def buffer_elements(vectors: Vectors) -> int:
    """Return how many elements of a thread's buffer the functions use."""
    return (most_columns(vectors) + 1) * max(_ACROSS, _TERMS * vectors.width)


def buffer_bytes(vectors: Vectors) -> int:
    """Return the bytes of such a buffer, in whole cache lines."""
    return -(-buffer_elements(vectors) * vectors.bytes // 64) * 64


def functions(vectors: Vectors, parameters: str) -> list[str]:
    """Return the functions of the module, among them `dot_products` and `across`, which take the `parameters`."""
    return [
        _block_of_dots(vectors, "block_of_dots", 4 if vectors.target.tile[0] * vectors.target.tile[1] > 16 else 2),
        *([_block_of_dots(vectors, "row_of_dots", 1)] if vectors.widens else []),
        _transpose(vectors),
        _dot_products(vectors, parameters),
        _write_transposed(vectors),
        _across(vectors, parameters),
    ]


def _block_of_dots(vectors: Vectors, name: str, high: int) -> str:
    """Return a function that multiplies rows of `a` by rows of `b`: `c[i, j] = a[i] @ b[j]`, blocks of columns outside.

    A block has `high` rows. `adds`: the result is added to `c`.
    """
    to, width = Writer(), vectors.width
    count = -(-high * _COLUMNS // width) * width
    sums = to.new(f"alloca [{count} x {vectors.number}], align 64")
    even = to.new(f"and i64 %depth, {-width}")
    rest, some = vectors.below(to, to.subtract("%depth", even)), to.compare("slt", even, "%depth")

    def offsets(stride: str, first: str, last: str, count: int) -> list[str]:
        """Return the offsets of rows; those behind the last one repeat it, and their results are not written."""
        rows = (to.add(first, to.lower(last, row)) for row in range(count))
        return [to.multiply(stride, row) for row in rows]

    def columns(column: str) -> None:
        last_column = to.subtract(to.subtract("%columns", column), 1)
        of_columns = offsets("%bs", column, last_column, _COLUMNS)
        right = [vectors.right_address(to, "%b", each) for each in of_columns]

        def rows(row: str) -> None:
            last_row = to.subtract(to.subtract("%rows", row), 1)
            left = [vectors.address(to, "%a", each) for each in offsets("%ar", row, last_row, high)]

            def block(index: str, *totals: str) -> list[str]:
                """Add the products of a block of each column, whose sum its factor multiplies."""
                places = [to.add(index, start) for start in range(0, INT4_BLOCK, width)]
                xs = [[vectors.load(to, each, place) for place in places] for each in left]
                starts = [vectors.from_centers(to, parts) for parts in xs]
                found = list(totals)
                for column, each in enumerate(right):
                    vectors.prefetch_right(to, each, to.add(to.divide(index, 2), _AHEAD))
                    factor, ys = vectors.load_block(to, each, index)
                    for row, (parts, total) in enumerate(zip(xs, starts, strict=True)):
                        for x, y in zip(parts, ys, strict=True):
                            total = vectors.multiply_add(to, x, y, total)
                        place = row * _COLUMNS + column
                        found[place] = vectors.multiply_add(to, factor, total, found[place])
                return found

            def step(index: str, totals: Sequence[str], mask: str | None = None) -> list[str]:
                ys = [vectors.load_right(to, each, index, mask) for each in right]
                xs = [vectors.load(to, each, index, mask) for each in left]
                pairs = [(x, y) for x in xs for y in ys]
                return [vectors.multiply_add(to, x, y, total) for (x, y), total in zip(pairs, totals, strict=True)]

            def whole(index: str, *totals: str) -> list[str]:
                for each in right:
                    vectors.prefetch_right(to, each, to.add(index, _AHEAD // vectors.right.itemsize))
                return step(index, totals)

            zeros = [(vectors.type, "zeroinitializer")] * (high * _COLUMNS)
            if vectors.blocks:
                totals = to.loop("%depth", INT4_BLOCK, block, zeros)
            else:
                totals = to.loop(even, width, whole, zeros)
                totals = to.either(some, lambda: step(even, totals, rest), totals, vectors.type)
            totals += ["zeroinitializer"] * (count - len(totals))
            for first in range(0, len(totals), width):
                vectors.store(to, vectors.summed(to, totals[first : first + width]), sums, first)

            def write(lane: str) -> None:
                place = vectors.address(to, vectors.address(to, "%c", to.multiply("%cr", to.add(row, lane))), column)
                _write_sums(vectors, to, vectors.address(to, sums, to.multiply(lane, _COLUMNS)), place, last_column)

            to.loop(to.lower(to.add(last_row, 1), high), 1, write)

        to.loop("%rows", high, rows)

    to.loop("%columns", _COLUMNS, columns)
    parameters = (
        "ptr noalias %a, i64 %ar, i64 %rows, ptr noalias %b, i64 %bs, i64 %columns, i64 %depth, "
        "ptr noalias %c, i64 %cr, i1 %adds"
    )
    return to.function(f"internal void @{name}({parameters}) noinline nounwind")


def _write_sums(vectors: Vectors, to: Writer, sums: str, place: str, last: str) -> None:
    """Write the sums of a row of a block up to the column `last`: one vector, or one number after the other."""

    def write(type: str, source: str, target: str, *, adds: bool) -> None:
        value = to.new(f"load {type}, ptr {source}, align {vectors.bytes}")
        if adds:
            before = to.new(f"load {type}, ptr {target}, align {vectors.bytes}")
            value = to.new(f"fadd {type} {before}, {value}")
        to.do(f"store {type} {value}, ptr {target}, align {vectors.bytes}")

    def some(type: str, source: str, target: str) -> None:
        to.branch(
            "%adds",
            lambda: write(type, source, target, adds=True),
            lambda: write(type, source, target, adds=False),
        )

    def single(index: str) -> None:
        some(vectors.number, vectors.address(to, sums, index), vectors.address(to, place, index))

    def each() -> None:
        to.loop(to.add(last, 1), 1, single)

    whole = to.compare("sge", last, _COLUMNS - 1)
    to.branch(whole, lambda: some(f"<{_COLUMNS} x {vectors.number}>", sums, place), each)


def _transpose(vectors: Vectors) -> str:
    """Return a function that transposes a matrix of few contiguous columns: `to[j * room + i] = b[i * br + j]`.

    It writes zeros behind the last row, up to a whole vector.
    """
    to = Writer()

    def block(row: str) -> None:
        found = []
        rest = to.subtract("%depth", row)
        for lane in range(vectors.width):
            exists = to.compare("sgt", rest, lane)
            mask = vectors.below(to, to.select(exists, "i64", "%columns", 0))
            found.append(vectors.load(to, "%b", to.multiply("%br", to.add(row, lane)), mask))
        for column, each in enumerate(vectors.transposed(to, found)[: most_columns(vectors)]):

            def write(column: int = column, each: str = each) -> None:
                vectors.store(to, each, "%to", to.add(to.multiply("%room", column), row))

            to.branch(to.compare("sgt", "%columns", column), write)

    to.loop("%depth", vectors.width, block)
    parameters = "ptr noalias %b, i64 %br, i64 %depth, i64 %columns, ptr noalias %to, i64 %room"
    return to.function(f"internal void @transpose({parameters}) noinline nounwind")


def _dot_products(vectors: Vectors, parameters: str) -> str:
    """Return the function for a left operand with contiguous rows, each times each column of the right one."""
    to, longest = Writer(), _TERMS * vectors.width
    in_place = to.compare("eq", "%br", 1)
    buffer, give = taken(to, vectors.target, to.fails(in_place))

    def part(start: str) -> None:
        depth = to.lower(to.subtract("%inner", start), longest)
        b = vectors.right_part(to, "%b", start, "0")
        packed = f"ptr {b}, i64 %br, i64 {depth}, i64 %columns, ptr {buffer}, i64 {longest}"
        to.branch(in_place, lambda: None, lambda: to.do(f"call void @transpose({packed})"))
        right = to.select(in_place, "ptr", b, buffer)
        stride = to.select(in_place, "i64", "%bc", longest)
        adds = to.one_of("%beta", to.compare("ne", start, 0))

        def rows(row: str) -> None:
            count = to.lower(to.subtract("%rows", row), _ROWS_TOGETHER)
            a = vectors.address(to, "%a", to.add(to.multiply(row, "%ar"), start))
            c = vectors.address(to, "%c", to.multiply(row, "%cr"))
            block = "@block_of_dots"
            if vectors.widens:  # a block would wait for the sums of rows that do not exist, not for memory
                block = to.select(to.compare("eq", count, 1), "ptr", "@row_of_dots", block)
            to.do(
                f"call void {block}(ptr {a}, i64 %ar, i64 {count}, ptr {right}, i64 {stride}, i64 %columns, "
                f"i64 {depth}, ptr {c}, i64 %cr, i1 {adds})"
            )

        to.loop("%rows", _ROWS_TOGETHER, rows)

    to.loop("%inner", longest, part)
    give()
    return to.function(f"internal void @dot_products({parameters}) noinline nounwind")


def _write_transposed(vectors: Vectors) -> str:
    """Return a function that writes few rows as columns: `c[j * cr + i] = block[i * ACROSS + j]`.

    `adds`: the elements are added to `c`. Rows of the block that are not written may hold anything.
    """
    to = Writer()
    mask = vectors.below(to, "%count")
    scratch = to.new(f"alloca [{vectors.width} x {vectors.type}], align {vectors.target.bits // 8}")

    def block(column: str) -> None:
        highest = most_columns(vectors) - 1
        rows = [vectors.load(to, "%block", to.add(column, _ACROSS * min(row, highest))) for row in range(vectors.width)]
        for lane, value in enumerate(vectors.transposed(to, rows)):
            vectors.store(to, value, scratch, lane * vectors.width)

        def write(lane: str) -> None:
            value = vectors.load(to, scratch, to.multiply(lane, vectors.width))
            place = vectors.address(to, "%c", to.multiply("%cr", to.add(column, lane)))

            def sum() -> list[str]:
                return [vectors.add(to, value, vectors.load(to, place, 0, mask))]

            vectors.store(to, to.either("%adds", sum, [value], vectors.type)[0], place, 0, mask)

        to.loop(to.lower(to.subtract("%columns", column), vectors.width), 1, write)

    to.loop("%columns", vectors.width, block)
    parameters = "ptr noalias %block, i64 %count, i64 %columns, ptr noalias %c, i64 %cr, i1 %adds"
    return to.function(f"internal void @write_transposed({parameters}) noinline nounwind")


def _across(vectors: Vectors, parameters: str) -> str:
    """Return the function for a left operand with contiguous columns: it computes and writes the transposed product."""
    to = Writer()
    block, give = taken(to, vectors.target)
    # What the product packs lies behind the block.
    behind = to.address("i8", block, buffer_bytes(vectors))
    packed = "" if vectors.target.allocates else f", ptr {behind}"

    def part(row: str) -> None:
        count = to.lower(to.subtract("%rows", row), _ACROSS)
        right = vectors.address(to, "%a", row)
        to.do(
            f"call void @one_thread(i64 %columns, i64 {count}, i64 %inner, ptr %b, i64 %bc, i64 %br, "
            f"ptr {right}, i64 %ac, i64 1, ptr {block}, i64 {_ACROSS}, i1 false, i1 %shallow{packed})"
        )
        c = vectors.address(to, "%c", to.multiply(row, "%cr"))
        to.do(f"call void @write_transposed(ptr {block}, i64 %columns, i64 {count}, ptr {c}, i64 %cr, i1 %beta)")

    to.loop("%rows", _ACROSS, part)
    give()
    return to.function(f"internal void @across({parameters}) noinline nounwind")
