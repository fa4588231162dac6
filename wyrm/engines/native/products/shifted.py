"""Sums of shifted rows, the inner part of a convolution: `out[i, k] = b[i] + sum_j w[j, i] * box[places[j] + k]`.

It is a product whose right operand's rows overlap in memory, so that no matrix of all windows exists: a block of the
result stays in registers while its pointer walks through the places. Lanes of rows that a mask excludes are zero.
"""

from __future__ import annotations

from wyrm.engines.native.ir.types import ScalarType
from wyrm.engines.native.products.target import Target
from wyrm.engines.native.products.tiles import Vectors, in_each_case
from wyrm.engines.native.products.writer import DECLARED, SHARED, Writer

# Few rows take more vectors of a row at a time: as many sums as a processor computes at once.
_FEW, _SUMS = 2, 8
_OPERANDS = (
    ("i64", "rows"), ("i64", "columns"), ("i64", "parts"), ("ptr", "weights"), ("i64", "terms"), ("ptr", "steps"),
    ("ptr", "ends"), ("ptr", "box"), ("i64", "stride"), ("ptr", "masks"), ("ptr", "c"), ("i64", "cr"),
)  # fmt: skip
_TILE = (
    "i64 %parts, ptr noalias %weights, ptr noalias %steps, ptr noalias %ends, ptr noalias %box, i64 %stride, "
    "ptr noalias %masks, ptr noalias %c, i64 %cr, i64 %last, i64 %columns"
)


def most_rows(target: Target) -> int:
    """Return how many rows of a result a tile has at most."""
    return target.tile[0] // 2 * 2


def text(target: Target, number: ScalarType) -> str:
    """Return the text of the module for a type of floats, on a target.

    Its function takes the sizes of the result; the number of partial sums; the weights and the number of terms; the
    steps and, for each partial sum, the end of its steps; the box and its stride; the masks; and the result with
    contiguous columns, and the stride of its rows. A step is three integers: the place of its first term in the box,
    the number of its terms, each of which is a stride after the one before, and the place of its mask, in bytes: bit k
    tells whether column k counts. Only a target with `masks` reads masks.

    The rows are divided into tiles of at most `most_rows` rows. A tile has pairs of rows, and all tiles have about as
    many. The weights of a tile follow those of the tile before. First stands what each of its rows begins with, then
    for each term a weight for each row. If the number of rows is odd and above 1, the last row counts as two.

    The function reads whole vectors of the box, so up to a vector less one element behind the last column. Elements
    that masks exclude are not read.
    """
    vectors = Vectors(target, number)
    heights = [1, *range(2, most_rows(target) + 1, 2)]
    widths = {rows: [*range(1, vectors.vectors + 1)] for rows in heights}
    for rows in heights:
        widths[rows].append(max(vectors.vectors, _SUMS // rows) if rows <= _FEW else vectors.vectors)
    names = [f"ptr @{_kernel_name(rows, wide)}" for rows in heights for wide in widths[rows]]
    widest = [f"i64 {widths[rows][-1] * vectors.width}" for rows in (*range(1, _FEW + 1), heights[-1])]
    return "\n".join([
        *vectors.declarations(),
        *DECLARED,
        f"@zeros = internal constant [{most_rows(target)} x {vectors.number}] zeroinitializer",
        f"@tiles = internal constant [{len(names)} x ptr] [{', '.join(names)}]",
        f"@widest = internal constant [{len(widest)} x i64] [{', '.join(widest)}]",
        *(_tile(vectors, rows, wide) for rows in heights for wide in dict.fromkeys(widths[rows])),
        _exported_sums(vectors),
    ])  # fmt: skip


def _kernel_name(rows: int, wide: int) -> str:
    return f"tile_{rows}_{wide}"


def _tile(vectors: Vectors, rows: int, wide: int) -> str:
    """Return a function that computes `rows` rows of `wide` vectors, of which the first `columns` elements count.

    The last row is `last` elements after the first one: it may be the row before it once more.
    """
    to = Writer()
    last = vectors.below(to, to.subtract("%columns", (wide - 1) * vectors.width))

    # The result is fetched while the first sums are computed, and the next columns of the box with each term.
    row_of_c = "%c"
    for _ in range(rows):
        for v in range(wide):
            vectors.prefetch(to, row_of_c, v * vectors.width)
        row_of_c = vectors.address(to, row_of_c, "%cr")

    def part(number: str, weights: str, start: str) -> list[str]:
        end = to.new(f"load i64, ptr {to.address('i64', '%ends', number)}")
        begun = to.compare("ne", number, 0)
        starts = to.select(begun, "ptr", "@zeros", "%weights")
        first = [vectors.repeated(to, vectors.address(to, starts, row)) for row in range(rows)]

        def step(index: str, weights: str, *totals: str) -> list[str]:
            entry = to.address("i64", "%steps", to.multiply(to.add(start, index), 3))
            place, count, mark = (to.new(f"load i64, ptr {to.address('i64', entry, at)}") for at in range(3))
            masks: list[str | None] = [None] * wide
            if vectors.target.masks:
                bits = f"i{vectors.width}"
                words = to.address("i8", "%masks", mark)
                loaded = [to.new(f"load {bits}, ptr {to.address(bits, words, v)}, align 1") for v in range(wide)]
                masks = [to.new(f"bitcast {bits} {each} to <{vectors.width} x i1>") for each in loaded]

            def term(_index: str, weights: str, box: str, *totals: str) -> list[str]:
                right = [vectors.load(to, box, v * vectors.width, mask) for v, mask in enumerate(masks)]
                for v in range(wide):
                    vectors.prefetch(to, box, (wide + v) * vectors.width, reads=True)
                sums: list[str] = []
                for row in range(rows):
                    left = vectors.repeated(to, vectors.address(to, weights, row))
                    sums += [
                        vectors.multiply_add(to, left, each, totals[row * wide + v]) for v, each in enumerate(right)
                    ]
                return [vectors.address(to, weights, rows), vectors.address(to, box, "%stride"), *sums]

            types = [("ptr", weights), ("ptr", vectors.address(to, "%box", place))]
            after, _, *found = to.loop(count, 1, term, [*types, *((vectors.type, each) for each in totals)])
            return [after, *found]

        carried = [("ptr", weights), *((vectors.type, each) for each in first for _ in range(wide))]
        after, *totals = to.loop(to.subtract(end, start), 1, step, carried)

        def write(whole: bool, adds: bool) -> None:
            mask = None if whole else last

            def found(row: int, place: str) -> list[str]:
                own = totals[row * wide : (row + 1) * wide]
                if not adds:
                    return own
                return [
                    vectors.add(to, each, vectors.load(to, place, v * vectors.width, mask if v == wide - 1 else None))
                    for v, each in enumerate(own)
                ]

            def put(values: list[str], place: str) -> None:
                for v, each in enumerate(values):
                    vectors.store(to, each, place, v * vectors.width, mask if v == wide - 1 else None)

            place = "%c"
            for row in range(rows - 2):
                put(found(row, place), place)
                place = vectors.address(to, place, "%cr")
            # Both are read before one is written: they may be the same row.
            places = [place, vectors.address(to, "%c", "%last")][-min(rows, 2) :]
            values = [found(row, each) for row, each in enumerate(places, rows - len(places))]
            for value, each in zip(values, places, strict=True):
                put(value, each)

        in_each_case(vectors, to, wide, begun, write)
        return [after, end]

    to.loop("%parts", 1, part, [("ptr", vectors.address(to, "%weights", rows)), ("i64", "0")])
    return to.function(f"internal void @{_kernel_name(rows, wide)}({_TILE}) noinline nounwind")


def _exported_sums(vectors: Vectors) -> str:
    """Return the exported function, which goes through the columns."""
    to = Writer()
    panel = to.add("%terms", 1)
    tiles = to.divide(to.add("%rows", most_rows(vectors.target) - 1), most_rows(vectors.target))
    pairs = to.divide(to.add("%rows", 1), 2)
    fewest = to.divide(pairs, tiles)
    larger = to.subtract(pairs, to.multiply(fewest, tiles))

    def all_rows(column: str, size: str, position: str) -> None:
        """Call the tile at a position among those of each height, for all rows."""
        box = vectors.address(to, "%box", column)
        masks = to.address("i8", "%masks", to.divide(column, 8))

        def tile(number: str, row: str, weights: str) -> list[str]:
            more = to.new(f"zext i1 {to.compare('slt', number, larger)} to i64")
            half = to.select(to.compare("eq", "%rows", 1), "i64", "0", to.add(fewest, more))
            height = to.higher(to.multiply(half, 2), 1)
            count = to.lower(height, to.subtract("%rows", row))
            place = to.add(to.multiply(half, vectors.vectors + 1), position)
            function = to.new(f"load ptr, ptr {to.address('ptr', '@tiles', place)}")
            c = vectors.address(to, "%c", to.add(to.multiply("%cr", row), column))
            last = to.multiply("%cr", to.subtract(count, 1))
            to.do(
                f"call void {function}(i64 %parts, ptr {weights}, ptr %steps, ptr %ends, ptr {box}, i64 %stride, "
                f"ptr {masks}, ptr {c}, i64 %cr, i64 {last}, i64 {size})"
            )
            return [to.add(row, count), vectors.address(to, weights, to.multiply(height, panel))]

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
