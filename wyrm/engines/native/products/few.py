"""Products of a few rows with narrow numbers, which tiles widen where they lie: nothing is packed.

Blocks of some rows of the right operand are outside, as they come fastest from memory in this order, then panels of a
tile's columns.
"""

from __future__ import annotations

from wyrm.engines.native.products.packing import rows_of
from wyrm.engines.native.products.tiles import Vectors, even_heights, tile
from wyrm.engines.native.products.writer import Writer

# The most rows: each tile of them widens the right operand once more.
MOST_ROWS = 28
# Tiles of fewer rows than that would widen each number too often.
_LEAST_HEIGHT = 6
# The rows of the right operand in a block.
_DEPTH = 32
# Panels are fetched from memory so many bytes of a row before they are read.
_BYTES_AHEAD = 128
# `low_1` and `low_2` compute the columns behind the last whole panel.
_EDGE_ROWS = 2


def has_tiles(vectors: Vectors) -> bool:
    """Return whether there is the function: for narrow numbers that are not in blocks, and tiles of some rows."""
    return vectors.widens and not vectors.blocks and vectors.target.tile[0] >= _LEAST_HEIGHT


def functions(vectors: Vectors, parameters: str) -> list[str]:
    """Return the functions of the module, among them `few`, which takes the `parameters`."""
    if not has_tiles(vectors):
        return []
    heights = [height for height in even_heights(vectors.rows) if height > 1]
    names = ["ptr null"] + [f"ptr @{_name(-(-rows // 2) * 2)}" for rows in range(1, vectors.rows + 1)]
    table = f"@few_tiles = internal constant [{len(names)} x ptr] [{', '.join(names)}]"
    tiles = [tile(vectors, height, vectors.vectors, _name(height), in_place=True) for height in heights]
    return [table, *tiles, _function(vectors, parameters)]


def _name(rows: int) -> str:
    return f"few_tile_{rows}"


def _function(vectors: Vectors, parameters: str) -> str:
    """Return the function for a right operand with contiguous rows, and at least one of them."""
    to = Writer()
    tiles = to.divide(to.add("%rows", vectors.rows - 1), vectors.rows)
    twos = to.divide(to.add("%rows", 1), 2)
    twos_of_tile = to.divide(twos, tiles)
    larger, fewest = to.subtract(twos, to.multiply(twos_of_tile, tiles)), to.multiply(twos_of_tile, 2)
    whole = to.multiply(to.divide("%columns", vectors.columns), vectors.columns)
    ahead = _BYTES_AHEAD // vectors.right.itemsize
    to_next = to.add(to.subtract(to.multiply("%br", _DEPTH), whole), ahead)

    def block(start: str) -> None:
        depth = to.lower(to.subtract("%inner", start), _DEPTH)
        adds = to.one_of("%beta", to.compare("ne", start, 0))
        left = vectors.address(to, "%a", to.multiply("%ac", start))
        right = vectors.right_address(to, "%b", to.multiply("%br", start))

        def panel(column: str) -> None:
            b, next = vectors.right_address(to, right, column), to.add(column, ahead)
            # Behind the last panels of a block come the first ones of the next block.
            distance = to.select(to.compare("slt", next, whole), "i64", str(ahead), to_next)

            def of_rows(index: str, row: str) -> list[str]:
                height = rows_of(to, index, fewest, larger, to.subtract("%rows", row))
                function = to.new(f"load ptr, ptr {to.address('ptr', '@few_tiles', height)}")
                a = vectors.address(to, left, to.multiply("%ar", row))
                c = vectors.address(to, "%c", to.add(to.multiply("%cr", row), column))
                to.do(
                    f"call void {function}(ptr {a}, i64 %ar, i64 %ac, ptr {b}, i64 %br, i64 {depth}, ptr {c}, "
                    f"i64 %cr, i64 {height}, i64 {vectors.columns}, i1 {adds}, i64 {distance})"
                )
                return [to.add(row, height)]

            to.loop(tiles, 1, of_rows, [("i64", "0")])

        to.loop(whole, vectors.columns, panel)

    to.loop("%inner", _DEPTH, block)
    rest = to.subtract("%columns", whole)
    memory = "" if vectors.target.allocates else ", ptr %packed"

    def edge() -> None:
        b = vectors.right_address(to, "%b", whole)

        def of_rows(row: str) -> None:
            count = to.lower(to.subtract("%rows", row), _EDGE_ROWS)
            function = to.select(to.compare("eq", count, 1), "ptr", "@low_1", f"@low_{_EDGE_ROWS}")
            a = vectors.address(to, "%a", to.multiply("%ar", row))
            c = vectors.address(to, "%c", to.add(to.multiply("%cr", row), whole))
            to.do(
                f"call void {function}(i64 {count}, i64 {rest}, i64 %inner, ptr {a}, i64 %ar, i64 %ac, ptr {b}, "
                f"i64 %br, i64 %bc, ptr {c}, i64 %cr, i1 %beta, i1 %shallow{memory})"
            )

        to.loop("%rows", _EDGE_ROWS, of_rows)

    to.branch(to.compare("sgt", rest, 0), edge)
    return to.function(f"internal void @few({parameters}) noinline nounwind")
