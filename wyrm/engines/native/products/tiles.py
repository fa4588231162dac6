"""The innermost part of a product: a block of the result that stays in registers while the inner axis is summed.

After Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wyrm.engines.native.ir.types import FLOAT32, INT8, UINT8, UINT16, ScalarType
from wyrm.engines.native.products.target import Target
from wyrm.engines.native.products.writer import Writer
from wyrm.support.narrow_numbers import INT4_BLOCK, INT4_BYTES

LINE_BYTES = 64


class Vectors:
    """Vectors of a target's register size.

    The right operand of a product may have narrower numbers than the other arrays, `right`, which are widened when they
    are loaded: integers of int8, numbers of bfloat16 as the uint16 with the same bits, or the bytes of `blocks` of
    integers of int4 along columns, or along rows, as `wyrm.support.narrow_numbers` has them. The stride across blocks
    is in bytes, that along them is 1, and parts of a column begin with a block.
    """

    def __init__(self, target: Target, number: ScalarType, right: ScalarType | None = None) -> None:
        self.target = target
        self.right: ScalarType = number if right is None else right
        # Whether the right operand is read only by what widens its numbers.
        self.widens: bool = self.right != number
        self.blocks: bool = self.right == UINT8
        assert not self.widens or (number == FLOAT32 and right in (INT8, UINT16, UINT8)), f"{number} and {right}"
        self._stored = f"i{self.right.bits}"
        self.number = "float" if number == FLOAT32 else "double"
        self.bytes: int = number.itemsize
        # The elements of a vector.
        self.width: int = target.bits // number.bits
        self.rows, self.vectors = target.tile
        # The terms of the inner axis in an element of a packed operand, and those that a packed operand has a multiple
        # of: zeros fill it up.
        self.terms, self.granule = 1, INT4_BLOCK if self.blocks else 1
        # Whether a tile takes as long for fewer rows, so that all but the last one have as many as they can.
        self.fixed = False
        # The columns of a block of the result.
        self.columns: int = self.width * self.vectors
        # The rows of a packed tile of the left operand: whole vectors.
        self.height: int = -(-self.rows // self.width) * self.width
        self.type: str = f"<{self.width} x {self.number}>"
        self._mask = f"<{self.width} x i1>"
        self._suffix = f"v{self.width}f{number.bits}"

    def declarations(self) -> list[str]:
        """Return the declarations of the functions that the methods call."""
        narrow = f"<{self.width} x {self._stored}>"
        masked = f"declare {narrow} @llvm.masked.load.v{self.width}{self._stored}.p0(ptr, i32, {self._mask}, {narrow})"
        return [
            *([masked] if self.widens else []),
            "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)",
            f"declare {self.type} @llvm.fmuladd.{self._suffix}({self.type}, {self.type}, {self.type})",
            f"declare {self.type} @llvm.masked.load.{self._suffix}.p0(ptr, i32, {self._mask}, {self.type})",
            f"declare void @llvm.masked.store.{self._suffix}.p0({self.type}, ptr, i32, {self._mask})",
        ]

    def address(self, to: Writer, base: str, index: str | int) -> str:
        """Return the address of an element."""
        return to.address(self.number, base, index)

    def below(self, to: Writer, count: str) -> str:
        """Return a mask of the lanes below `count`."""
        lanes = ", ".join(f"i64 {lane}" for lane in range(self.width))
        return to.new(f"icmp slt <{self.width} x i64> <{lanes}>, {self.splat(to, 'i64', count)}")

    def load(self, to: Writer, base: str, index: str | int = 0, mask: str | None = None) -> str:
        """Load a vector; lanes outside of the mask are zero and not read."""
        place = self.address(to, base, index)
        if mask is None:
            return to.new(f"load {self.type}, ptr {place}, align {self.bytes}")
        return to.new(
            f"call {self.type} @llvm.masked.load.{self._suffix}.p0"
            f"(ptr {place}, i32 {self.bytes}, {self._mask} {mask}, {self.type} zeroinitializer)"
        )

    def right_address(self, to: Writer, base: str, index: str | int) -> str:
        """Return the address of an element of the right operand."""
        return to.address(self._stored, base, index) if self.widens else self.address(to, base, index)

    def right_part(
        self, to: Writer, base: str, row: str, column: str, strides: tuple[str, str] = ("%br", "%bc")
    ) -> str:
        """Return the address of a part of the right operand with these strides; of blocks, that of the first block."""
        br, bc = strides
        if not self.blocks:
            return self.right_address(to, base, to.add(to.multiply(row, br), to.multiply(column, bc)))
        along_rows = to.compare("eq", bc, 1)
        across = to.multiply(to.select(along_rows, "i64", row, column), to.select(along_rows, "i64", br, bc))
        block = to.divide(to.select(along_rows, "i64", column, row), INT4_BLOCK)
        return self.right_address(to, base, to.add(across, to.multiply(block, INT4_BYTES)))

    def whole(self, to: Writer, length: str) -> str:
        """Return a length of the inner axis, or the next multiple of the granule."""
        if self.granule == 1:
            return length
        return to.new(f"and i64 {to.add(length, self.granule - 1)}, {-self.granule}")

    def steps(self, to: Writer, depth: str) -> str:
        """Return the elements along the inner axis of an operand that is packed."""
        return depth

    def across(self, to: Writer, rows: Sequence[str]) -> str:
        """Return elements of a packed operand, given a vector of each of the terms: one for each lane."""
        return rows[0]

    def across_right(self, to: Writer, rows: Sequence[str]) -> str:
        """Return elements of the packed right operand, as `across` does."""
        return self.across(to, rows)

    def along(self, to: Writer, parts: Sequence[str]) -> str:
        """Return elements of a packed operand, given as many contiguous terms as they have: one vector for each."""
        return parts[0]

    def tiles(self) -> list[str]:
        """Return the functions of tiles, and the constant with all of them; see `all_tiles`."""
        return all_tiles(self, even_heights(self.rows))

    def begin(self, to: Writer) -> None:
        """Write what comes before a thread's tiles."""

    def end(self, to: Writer) -> None:
        """Write what comes behind a thread's tiles."""

    def multiply_packed(self, to: Writer, left: str, right: str, total: str) -> str:
        """Return the sum of `total` and the products of elements of packed operands."""
        return self.multiply_add(to, left, right, total)

    def load_right(self, to: Writer, base: str, index: str | int = 0, mask: str | None = None) -> str:
        """Load a vector of the right operand, as `load` does; of blocks a vector that does not cross half of one."""
        if not self.widens:
            return self.load(to, base, index, mask)
        if self.blocks:
            return self._load_in_block(to, base, str(index))
        place, size = self.right_address(to, base, index), self.right.itemsize
        narrow, words = f"<{self.width} x {self._stored}>", f"<{self.width} x i32>"
        if mask is None:
            found = to.new(f"load {narrow}, ptr {place}, align {size}")
        else:
            found = to.new(
                f"call {narrow} @llvm.masked.load.v{self.width}{self._stored}.p0"
                f"(ptr {place}, i32 {size}, {self._mask} {mask}, {narrow} zeroinitializer)"
            )
        if self.right == INT8:
            return to.new(f"sitofp {words} {to.new(f'sext {narrow} {found} to {words}')} to {self.type}")
        # The bits of a number of bfloat16 are the upper half of those in float32.
        wide = to.new(f"shl {words} {to.new(f'zext {narrow} {found} to {words}')}, {self._constant(16)}")
        return to.new(f"bitcast {words} {wide} to {self.type}")

    def load_block(self, to: Writer, base: str, index: str) -> tuple[str, list[str]]:
        """Load the block of int4 at an index of a column; return its factor in all lanes, and its integers plus 8."""
        block = to.address("i8", base, to.multiply(to.divide(index, INT4_BLOCK), INT4_BYTES))
        starts = range(4, INT4_BYTES, self.width)
        halves = [self._zero_extended(to, to.address("i8", block, start)) for start in starts]
        words = f"<{self.width} x i32>"
        low = [to.new(f"and {words} {each}, {self._constant(15)}") for each in halves]
        high = [to.new(f"lshr {words} {each}, {self._constant(4)}") for each in halves]
        return self.repeated(to, block), [to.new(f"sitofp {words} {each} to {self.type}") for each in (*low, *high)]

    def from_centers(self, to: Writer, parts: Sequence[str]) -> str:
        """Return what products of these parts with `load_block`'s integers plus 8 have too much, negated."""
        total = parts[0]
        for each in parts[1:]:
            total = self.add(to, total, each)
        eights = ", ".join([f"{self.number} -8.0"] * self.width)
        return to.new(f"fmul {self.type} {total}, <{eights}>")

    def _load_in_block(self, to: Writer, base: str, index: str) -> str:
        """Load a vector of numbers of int4, which do not cross half a block."""
        block = to.address("i8", base, to.multiply(to.divide(index, INT4_BLOCK), INT4_BYTES))
        within = to.add(to.new(f"and i64 {index}, {INT4_BLOCK // 2 - 1}"), 4)
        upper = to.compare("ne", to.new(f"and i64 {index}, {INT4_BLOCK // 2}"), 0)
        shift, words = self.splat(to, "i32", to.select(upper, "i32", "4", 0)), f"<{self.width} x i32>"
        shifted = to.new(f"lshr {words} {self._zero_extended(to, to.address('i8', block, within))}, {shift}")
        number = self._centered(to, to.new(f"and {words} {shifted}, {self._constant(15)}"))
        return to.new(f"fmul {self.type} {number}, {self.repeated(to, block)}")

    def _zero_extended(self, to: Writer, place: str) -> str:
        """Load bytes as a vector of words."""
        found = to.new(f"load <{self.width} x i8>, ptr {place}, align 1")
        return to.new(f"zext <{self.width} x i8> {found} to <{self.width} x i32>")

    def _centered(self, to: Writer, integers: str) -> str:
        """Return integers from 0 to 15 as numbers from -8 to 7."""
        words = f"<{self.width} x i32>"
        return to.new(f"sitofp {words} {to.new(f'sub {words} {integers}, {self._constant(8)}')} to {self.type}")

    def _constant(self, number: int) -> str:
        return f"<{', '.join([f'i32 {number}'] * self.width)}>"

    def prefetch(self, to: Writer, base: str, index: str | int, *, reads: bool = False, level: int = 1) -> None:
        """Ask for the memory of a vector that is soon written, or read if `reads`. Any address is allowed.

        `level` is that of the cache.
        """
        place, how = self.address(to, base, index), int(not reads)
        to.do(f"call void @llvm.prefetch.p0(ptr {place}, i32 {how}, i32 {4 - level}, i32 1)")

    def prefetch_right(self, to: Writer, base: str, index: str | int) -> None:
        """Ask for the memory of a vector of the right operand that is soon read. Any address is allowed."""
        to.do(f"call void @llvm.prefetch.p0(ptr {self.right_address(to, base, index)}, i32 0, i32 3, i32 1)")

    def store(self, to: Writer, value: str, base: str, index: str | int = 0, mask: str | None = None) -> None:
        """Store a vector; lanes outside of the mask are not written."""
        place = self.address(to, base, index)
        if mask is None:
            to.do(f"store {self.type} {value}, ptr {place}, align {self.bytes}")
        else:
            to.do(
                f"call void @llvm.masked.store.{self._suffix}.p0"
                f"({self.type} {value}, ptr {place}, i32 {self.bytes}, {self._mask} {mask})"
            )

    def repeated(self, to: Writer, place: str) -> str:
        """Load an element and repeat it in all lanes."""
        return self.splat(to, self.number, to.new(f"load {self.number}, ptr {place}, align {self.bytes}"))

    def splat(self, to: Writer, type: str, value: str) -> str:
        """Return a vector with a value in all lanes."""
        vector = f"<{self.width} x {type}>"
        first = to.new(f"insertelement {vector} poison, {type} {value}, i64 0")
        return to.new(f"shufflevector {vector} {first}, {vector} poison, <{self.width} x i32> zeroinitializer")

    def multiply_add(self, to: Writer, first: str, second: str, total: str) -> str:
        """Return `first * second + total`, rounded once where the processor can."""
        operands = ", ".join(f"{self.type} {each}" for each in (first, second, total))
        return to.new(f"call {self.type} @llvm.fmuladd.{self._suffix}({operands})")

    def add(self, to: Writer, first: str, second: str) -> str:
        """Return the sum of two vectors."""
        return to.new(f"fadd {self.type} {first}, {second}")

    def transposed(self, to: Writer, rows: Sequence[str]) -> list[str]:
        """Transpose a square block: exchange blocks of 1, 2, 4, ... lanes between pairs of rows."""
        found, distance = list(rows), 1
        while distance < self.width:
            for row in (row for row in range(self.width) if not row & distance):
                found[row], found[row + distance] = self._exchanged(to, found[row], found[row + distance], distance)
            distance *= 2
        return found

    def summed(self, to: Writer, rows: Sequence[str]) -> str:
        """Return a vector whose lane `i` is the sum of the lanes of row `i`, for as many rows as lanes."""
        found, distance = list(rows), 1
        while distance < self.width:
            pairs = zip(found[::2], found[1::2], strict=True)
            found = [self.add(to, *self._exchanged(to, first, second, distance)) for first, second in pairs]
            distance *= 2
        return found[0]

    def _exchanged(self, to: Writer, first: str, second: str, distance: int) -> tuple[str, str]:
        """Exchange the odd blocks of `distance` lanes of the first vector and the even ones of the second."""
        lanes, width = range(self.width), self.width
        low = [lane if not lane & distance else width + lane - distance for lane in lanes]
        high = [lane + distance if not lane & distance else width + lane for lane in lanes]
        return self._shuffled(to, first, second, low), self._shuffled(to, first, second, high)

    def _shuffled(self, to: Writer, first: str, second: str, lanes: Sequence[int]) -> str:
        chosen = ", ".join(f"i32 {lane}" for lane in lanes)
        return to.new(f"shufflevector {self.type} {first}, {self.type} {second}, <{self.width} x i32> <{chosen}>")


# Three rows share the register of an address: the others are one and two strides away.
_ROWS_AN_ADDRESS = 3
# LLVM would keep an address for each row: those of more rows than this would not fit the registers.
_MOST_ADDRESSES = 8
# So many terms are summed in registers. Sums of these sums lose less precision than one long sum.
_BLOCK = 128
# Rows of the right operand are fetched so many steps before they are read. A processor does so by itself only where
# they are aligned, and no power of two apart.
_AHEAD = 20
# Steps with shorter registers, or fewer rows, have no time for more loads.
_FETCHING_BITS, _FETCHING_ROWS = 256, 5
# While so many terms are summed, the rows of the result are fetched.
_FETCHING_PAYS = 64


# The parameters of the function of a tile; see `tile`.
TILE_PARAMETERS = (
    "ptr noalias %a, i64 %ar, i64 %ac, ptr noalias %b, i64 %bs, i64 %depth, ptr noalias %c, i64 %cr, "
    "i64 %height, i64 %columns, i1 %adds"
)


def tile(vectors: Vectors, rows: int, wide: int, name: str | None = None, *, in_place: bool = False) -> str:
    """Return a function that computes `rows` rows of `wide` vectors, of which the first `columns` elements count.

    `height` is `rows` or one less: then the last row repeats the one before it, and is not written. `a` has strides
    `ar` and `ac`; the rows of `b` are `bs` apart. They are whole vectors, except where masks cost nothing. `adds`: the
    result is added to `c`. `in_place`: `b` is a part of the right operand, whose numbers are widened; what lies `ahead`
    elements behind each of its rows is fetched.
    """
    to = Writer()
    bases = [vectors.address(to, "%a", to.multiply("%ar", row)) for row in range(0, rows, _ROWS_AN_ADDRESS)]
    two_rows = to.multiply("%ar", 2)
    offsets = ["0", "%ar", two_rows] * len(bases)
    # Two heights share a function, which halves the time of compiling.
    is_whole = to.compare("eq", "%height", rows) if rows > 2 else None
    if is_whole is not None:
        bases[-1], offsets[rows - 1] = _last_row(vectors, to, bases, offsets, rows, is_whole)

    existing = vectors.below(to, to.subtract("%columns", (wide - 1) * vectors.width))
    masks = [None] * (wide - 1) + [existing if vectors.target.masks else None]

    fetches = vectors.target.bits >= _FETCHING_BITS and rows >= _FETCHING_ROWS and not in_place
    load, address = (vectors.load_right, vectors.right_address) if in_place else (vectors.load, vectors.address)
    ahead = to.multiply("%bs", to.lower("%depth", _AHEAD)) if fetches else ""

    def step(_index: str, b: str, *rest: str) -> list[str]:
        starts, totals = rest[: len(bases)], rest[len(bases) :]
        if rows > _MOST_ADDRESSES:
            starts = tuple(to.opaque(each) for each in starts)
        right = [load(to, b, vector * vectors.width, mask) for vector, mask in enumerate(masks)]
        if in_place:
            vectors.prefetch_right(to, b, "%ahead")
        if fetches:
            later = vectors.address(to, b, ahead)
            for element in _of_each_line(vectors, wide):
                vectors.prefetch(to, later, element, reads=True)
        sums: list[str] = []
        for row in range(rows):
            start = starts[row // _ROWS_AN_ADDRESS]
            left = vectors.repeated(to, vectors.address(to, start, offsets[row]))
            sums += [
                vectors.multiply_packed(to, left, each, totals[row * wide + vector])
                for vector, each in enumerate(right)
            ]
        return [address(to, b, "%bs"), *(vectors.address(to, each, "%ac") for each in starts), *sums]

    def fetch_result() -> None:
        place = "%c"
        for _ in range(rows):
            for vector in range(wide):
                vectors.prefetch(to, place, vector * vectors.width)
            place = vectors.address(to, place, "%cr")

    to.branch(to.compare("sge", "%depth", _FETCHING_PAYS), fetch_result)
    count, pointers = rows * wide, ["%b", *bases]
    memory = to.new(f"alloca [{count} x {vectors.type}], align {vectors.target.bits // 8}")
    places = [to.address(vectors.type, memory, position) for position in range(count)]
    long = to.compare("sgt", "%depth", _BLOCK)

    def clear() -> None:
        for place in places:
            vectors.store(to, "zeroinitializer", place)

    def added(totals: Sequence[str]) -> list[str]:
        """Return the totals of all blocks so far."""
        return [vectors.add(to, vectors.load(to, each), total) for each, total in zip(places, totals, strict=True)]

    found: list[str] = []

    def block(start: str, *given: str) -> tuple[str, list[str]]:
        carried = [*(("ptr", each) for each in given), *[(vectors.type, "zeroinitializer")] * count]
        found[:] = to.loop(to.lower(to.subtract("%depth", start), _BLOCK), 1, step, carried)
        next = to.add(start, _BLOCK)
        return to.compare("sge", next, "%depth"), [next, *found[: len(pointers)]]

    def keep() -> None:
        for place, each in zip(places, added(found[len(pointers) :]), strict=True):
            vectors.store(to, each, place)

    to.branch(long, clear)
    to.repeat(block, keep, [("i64", "0"), *(("ptr", each) for each in pointers)])
    alone = found[len(pointers) :]
    totals = to.either(long, lambda: added(alone), alone, vectors.type)

    def write(whole: bool, adds: bool) -> None:
        last = None if whole else existing

        def write_row(row: int, c: str) -> None:
            for vector in range(wide):
                value, mask = totals[row * wide + vector], last if vector == wide - 1 else None
                if adds:
                    value = vectors.add(to, value, vectors.load(to, c, vector * vectors.width, mask))
                vectors.store(to, value, c, vector * vectors.width, mask)

        c = "%c"
        for row in range(rows - 1):
            write_row(row, c)
            c = vectors.address(to, c, "%cr")
        if is_whole is None:
            write_row(rows - 1, c)
        else:
            to.branch(is_whole, lambda: write_row(rows - 1, c))

    in_each_case(vectors, to, wide, "%adds", write)
    parameters = f"{TILE_PARAMETERS}, i64 %ahead" if in_place else TILE_PARAMETERS
    return to.function(f"internal void @{name or name_of(rows, wide)}({parameters}) noinline nounwind")


def _last_row(
    vectors: Vectors, to: Writer, bases: Sequence[str], offsets: Sequence[str], rows: int, is_whole: str
) -> tuple[str, str]:
    """Return the last of the addresses, and the offset from it of the last row: the row before unless `is_whole`."""
    if (rows - 1) % _ROWS_AN_ADDRESS:
        return bases[-1], to.select(is_whole, "i64", offsets[rows - 1], offsets[rows - 2])
    before = vectors.address(to, bases[-2], offsets[rows - 2])
    return to.select(is_whole, "ptr", bases[-1], before), "0"


def _of_each_line(vectors: Vectors, wide: int) -> list[int]:
    """Return an element of each cache line that a row of so many vectors may touch, wherever it begins."""
    count = wide * vectors.width
    return [*range(0, count, LINE_BYTES // vectors.bytes), count - 1]


def in_each_case(vectors: Vectors, to: Writer, wide: int, adds: str, write: Callable[[bool, bool], None]) -> None:
    """Write branches for the cases of a block, each with what `write(whole, adds)` writes for it.

    `adds`: the block is added to the result. `whole`: the last of the `wide` vectors is whole. It is not where there
    are fewer `columns`. A target where masks cost nothing has a mask in any case, so no vector is `whole` there.
    """

    def either(whole: bool) -> None:
        to.branch(adds, lambda: write(whole, True), lambda: write(whole, False))

    if vectors.target.masks:
        either(False)
    else:
        full = to.compare("eq", "%columns", wide * vectors.width)
        to.branch(full, lambda: either(True), lambda: either(False))


def name_of(rows: int, wide: int) -> str:
    """Return the name of the function of a tile."""
    return f"tile_{rows}_{wide}"


def all_tiles(vectors: Vectors, heights: Sequence[int], of: Callable[[Vectors, int, int], str] = tile) -> list[str]:
    """Return the functions `of` tiles of these heights, from low to high, and of each number of vectors.

    A constant, `tiles`, has the lowest function for each number of rows, by the number of vectors less one.
    """
    widths = range(1, vectors.vectors + 1)
    names = ["ptr null"] * vectors.vectors
    for rows in range(1, vectors.rows + 1):
        height = next(each for each in heights if each >= rows)
        names += [f"ptr @{name_of(height, wide)}" for wide in widths]
    table = f"@tiles = internal constant [{len(names)} x ptr] [{', '.join(names)}]"
    return [table, *(of(vectors, height, wide) for height in heights for wide in widths)]


def even_heights(most: int) -> list[int]:
    """Return the rows of a tile of vectors: one row, or an even number, as the most rows are."""
    return [1, *range(2, most + 1, 2)]
