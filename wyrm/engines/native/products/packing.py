"""Copies of operands in the order in which tiles read them: panels of a tile's columns or rows, row after row.

The columns of the last panel that do not exist are zero or repeat another column: tiles compute with them, and do not
store the result. A panel of `pack_columns` may write up to a vector's width of rows behind its last one.
"""

from __future__ import annotations

from collections.abc import Callable

from wyrm.engines.native.products.target import Target
from wyrm.engines.native.products.tiles import LINE_BYTES, Vectors
from wyrm.engines.native.products.writer import Writer

# The tiles of the left operand that are packed together: the rows of a tile are a part of a cache line, and each column
# lies in another page.
TILES_TOGETHER = 4
# The panels of the right operand that are packed together, and how many rows before they are read their parts of a row
# are fetched: each row lies in another page, where a processor fetches nothing by itself.
_PANELS_TOGETHER, _ROWS_AHEAD = 2, 16


def pack_rows(vectors: Vectors) -> str:
    """Return a function that packs a matrix whose rows are contiguous and `br` apart.

    What lies `ahead` elements behind each of its rows of narrow numbers is fetched. The rows of one in blocks begin
    `within` the first block.
    """
    if vectors.blocks:
        return _pack_rows_of_blocks(vectors)
    to = Writer()
    steps = vectors.steps(to, "%depth")
    together = 1 if vectors.widens or vectors.terms > 1 else _PANELS_TOGETHER

    def panels(first: str, target: str) -> list[str]:
        """Pack whole panels whose parts of a row are read together: each row is in another page."""
        size, ahead = to.multiply("%depth", vectors.columns), to.multiply("%br", _ROWS_AHEAD)
        places = [target]
        for _ in range(together):
            places.append(vectors.address(to, places[-1], size))

        def row(_index: str, source: str, *starts: str) -> list[str]:
            later = vectors.address(to, source, ahead)
            for element in range(0, together * vectors.columns, LINE_BYTES // vectors.bytes):
                vectors.prefetch(to, later, element, reads=True)
            for number, place in enumerate(starts):
                for vector in range(vectors.vectors):
                    index = vector * vectors.width
                    vectors.store(to, vectors.load(to, source, number * vectors.columns + index), place, index)
            return [
                vectors.address(to, source, "%br"),
                *(vectors.address(to, each, vectors.columns) for each in starts),
            ]

        carried = [("ptr", vectors.address(to, "%b", first)), *(("ptr", each) for each in places[:-1])]
        to.loop("%depth", 1, row, carried)
        return [places[-1]]

    def panel(first: str, target: str) -> list[str]:
        rest = to.subtract("%columns", first)

        def rows(*, whole: bool) -> None:
            masks = [
                None if whole else vectors.below(to, to.subtract(rest, vector * vectors.width))
                for vector in range(vectors.vectors)
            ]

            def row(_index: str, source: str, place: str, terms: int = vectors.terms) -> list[str]:
                sources = [source]
                for _ in range(terms):
                    if vectors.widens:
                        vectors.prefetch_right(to, sources[-1], "%ahead")
                    sources.append(vectors.right_address(to, sources[-1], "%br"))
                for vector, mask in enumerate(masks):
                    found = [vectors.load_right(to, each, vector * vectors.width, mask) for each in sources[:terms]]
                    found += ["zeroinitializer"] * (vectors.terms - terms)
                    vectors.store(to, vectors.across_right(to, found), place, vector * vectors.width)
                return [sources[-1], vectors.address(to, place, vectors.columns)]

            start = [("ptr", vectors.right_address(to, "%b", first)), ("ptr", target)]
            if vectors.terms == 1:
                to.loop("%depth", 1, row, start)
                return
            source, place = to.loop(to.divide("%depth", vectors.terms), 1, row, start)
            odd = to.new("and i64 %depth, 1")

            def last(index: str, place: str) -> list[str]:
                return row(index, source, place, 1)[1:]

            (place,) = to.loop(odd, 1, last, [("ptr", place)])
            end = to.multiply(to.subtract(steps, to.divide(to.add("%depth", 1), 2)), vectors.columns)
            to.loop(end, vectors.width, lambda index: vectors.store(to, "zeroinitializer", place, index))

        to.branch(to.compare("sge", rest, vectors.columns), lambda: rows(whole=True), lambda: rows(whole=False))
        return [vectors.address(to, target, to.multiply(steps, vectors.columns))]

    packed, done = "%to", "0"
    if together > 1:
        group = together * vectors.columns
        done = to.subtract("%columns", to.new(f"urem i64 %columns, {group}"))
        (packed,) = to.loop(done, group, panels, [("ptr", "%to")])
    to.loop("%columns", vectors.columns, panel, [("ptr", packed)], done)
    ahead = ", i64 %ahead" if vectors.widens else ""
    return to.function(f"internal void @pack_rows({_packing_parameters('%br')}{ahead}) noinline nounwind")


def _pack_rows_of_blocks(vectors: Vectors) -> str:
    """Return the function for blocks along rows, which hold whole vectors: those behind the last one repeat it."""
    to = Writer()
    last = to.add("%within", to.subtract("%columns", vectors.width))

    def panel(first: str, target: str) -> list[str]:
        starts = [to.add("%within", to.add(first, vector * vectors.width)) for vector in range(vectors.vectors)]
        places = [to.lower(start, last) for start in starts]

        def row(_index: str, source: str, place: str) -> list[str]:
            for vector, each in enumerate(places):
                vectors.store(to, vectors.load_right(to, source, each), place, vector * vectors.width)
            return [vectors.right_address(to, source, "%br"), vectors.address(to, place, vectors.columns)]

        to.loop("%depth", 1, row, [("ptr", "%b"), ("ptr", target)])
        return [vectors.address(to, target, to.multiply("%depth", vectors.columns))]

    to.loop("%columns", vectors.columns, panel, [("ptr", "%to")])
    return to.function(f"internal void @pack_rows({_packing_parameters('%br')}, i64 %within) noinline nounwind")


def pack_columns(vectors: Vectors) -> str:
    """Return a function that packs a matrix whose columns are contiguous and `bc` apart."""
    to, width = Writer(), vectors.width
    steps = vectors.steps(to, "%depth")

    def panel(first: str, target: str) -> list[str]:
        found = to.lower(to.subtract("%columns", first), vectors.columns)

        def vector(column: str) -> None:
            last = to.subtract(to.subtract(found, column), 1)
            starts = [
                vectors.right_address(to, "%b", to.multiply("%bc", to.add(to.add(first, column), to.lower(last, lane))))
                for lane in range(width)
            ]

            def block(row: str, *, whole: bool) -> None:
                rows = [to.add(row, part * width) if part else row for part in range(vectors.terms)]
                masks = [None if whole else vectors.below(to, to.subtract("%depth", each)) for each in rows]
                places = list(zip(rows, masks, strict=True))
                found = [vectors.along(to, [vectors.load_right(to, each, *at) for at in places]) for each in starts]
                first = row if vectors.terms == 1 else to.divide(row, vectors.terms)
                place = vectors.address(to, target, to.add(to.multiply(first, vectors.columns), column))
                for lane, value in enumerate(vectors.transposed(to, found)):
                    vectors.store(to, value, place, lane * vectors.columns)

            if vectors.target.masks:
                to.loop("%depth", width * vectors.terms, lambda row: block(row, whole=False))
            else:
                even = to.new(f"and i64 %depth, {-width}")
                to.loop(even, width, lambda row: block(row, whole=True))
                to.branch(to.compare("slt", even, "%depth"), lambda: block(even, whole=False))

        to.loop(found, width, vector)
        return [vectors.address(to, target, to.multiply(steps, vectors.columns))]

    to.loop("%columns", vectors.columns, panel, [("ptr", "%to")])
    return to.function(f"internal void @pack_columns({_packing_parameters('%bc')}) noinline nounwind")


def pack_left(vectors: Vectors) -> str:
    """Return a function that packs a group of tiles of a matrix whose columns are contiguous and `ac` apart.

    The first tile of the group is the `index`-th of the matrix, which has `remaining` rows from there on. See `rows_of`
    for `fewest` and `larger`.
    """
    to, starts = Writer(), range(0, vectors.height, vectors.width)
    size = to.multiply("%depth", vectors.height)
    source, target, remaining = "%a", "%to", "%remaining"
    parts: list[tuple[str, str, str]] = []
    for member in range(TILES_TOGETHER):
        rows = rows_of(to, to.add("%index", member), "%fewest", "%larger", remaining)
        for start in starts:
            mask = vectors.below(to, to.subtract(rows, start))
            parts.append((vectors.address(to, source, start), mask, vectors.address(to, target, start)))
        source, target = vectors.address(to, source, rows), vectors.address(to, target, size)
        remaining = to.subtract(remaining, rows)

    def column(_index: str, at: str, place: str) -> list[str]:
        for source, mask, target in parts:
            vectors.store(to, vectors.load(to, source, at, mask), target, place)
        return [to.add(at, "%ac"), to.add(place, vectors.height)]

    to.loop("%depth", 1, column, [("i64", "0"), ("i64", "0")])
    parameters = (
        "ptr noalias %a, i64 %ac, i64 %depth, i64 %index, i64 %remaining, i64 %fewest, i64 %larger, ptr noalias %to"
    )
    return to.function(f"internal void @pack_left({parameters}) noinline nounwind")


def rows_of(to: Writer, index: str, fewest: str, larger: str, remaining: str) -> str:
    """Return the number of rows of the `index`-th tile: `fewest`, or two more in the first `larger` tiles.

    `fewest` is even, so the last tile alone may have an odd number, where only so many rows are `remaining`.
    """
    more = to.select(to.compare("slt", index, larger), "i64", "2", 0)
    return to.lower(remaining, to.add(fewest, more))


def copy_left(vectors: Vectors) -> str:
    """Return a function that copies a tile's rows, which are contiguous and `ar` apart, to rows `stride` apart.

    It may write up to a vector's width behind each row.
    """
    to = Writer()
    even = to.new(f"and i64 %depth, {-vectors.width}")
    rest, some = vectors.below(to, to.subtract("%depth", even)), to.compare("slt", even, "%depth")

    def row(_index: str, source: str, place: str) -> list[str]:
        def column(index: str, mask: str | None = None) -> None:
            vectors.store(to, vectors.load(to, source, index, mask), place, index)

        to.loop(even, vectors.width, column)
        to.branch(some, lambda: column(even, rest))
        return [vectors.address(to, source, "%ar"), vectors.address(to, place, "%stride")]

    to.loop("%rows", 1, row, [("ptr", "%a"), ("ptr", "%to")])
    parameters = "ptr noalias %a, i64 %ar, i64 %rows, i64 %depth, i64 %stride, ptr noalias %to"
    return to.function(f"internal void @copy_left({parameters}) noinline nounwind")


def spaced(vectors: Vectors, to: Writer, length: str) -> str:
    """Return a distance for rows of this length: an odd number of cache lines, so that they spread over all sets."""
    line = LINE_BYTES // vectors.bytes
    lines = to.new(f"or i64 {to.divide(to.add(length, line - 1), line)}, 1")
    return to.multiply(lines, line)


def taken(to: Writer, target: Target, needed: str = "true") -> tuple[str, Callable[[], None]]:
    """Take a buffer if it is needed; return its address, the start of a cache line, and what writes its return.

    Where products do not allocate, their caller passes the buffer.
    """
    if not target.allocates:
        return "%packed", lambda: None
    memory = to.either(needed, lambda: [to.new("call ptr @take()")], ["null"], "ptr")[0]
    word = to.add(to.new(f"ptrtoint ptr {memory} to i64"), 63)
    buffer = to.new(f"inttoptr i64 {to.new(f'and i64 {word}, -64')} to ptr")
    return buffer, lambda: to.branch(needed, lambda: to.do(f"call void @give(ptr {memory})"))


def _packing_parameters(stride: str) -> str:
    return f"ptr noalias %b, i64 {stride}, i64 %depth, i64 %columns, ptr noalias %to"
