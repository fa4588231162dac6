"""The product of two matrices of any size and strides: `out = beta * out + x @ y`.

The right operand is packed a block at a time; the left one is read where it lies, or packed a tile at a time. The order
of a sum depends on the sizes and the strides, and not on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import lcm

from wyrm.engines.native.ir.types import FLOAT32, ScalarType
from wyrm.engines.native.products import few, low, narrow
from wyrm.engines.native.products.amx import Tiles
from wyrm.engines.native.products.packing import (
    TILES_TOGETHER,
    copy_left,
    pack_columns,
    pack_left,
    pack_rows,
    rows_of,
    spaced,
    taken,
)
from wyrm.engines.native.products.pairs import Pairs, pack_pairs
from wyrm.engines.native.products.target import Target
from wyrm.engines.native.products.tiles import Vectors
from wyrm.engines.native.products.writer import DECLARED, SHARED, Writer
from wyrm.support.narrow_numbers import INT4_BLOCK

# Blocks of the inner axis, whose sums are added: a block of about the square root of its length loses least precision.
# A block is read from the cache several times, so it is not shorter.
_DEPTHS = (256, 512)
# Tiles of AMX are so fast that they wait for the result, which each block but the first reads again.
_DEPTH_OF_PAIRS = 384
# Right operands that at most this many blocks of rows use are read where they lie.
_UNPACKED_USES = 5
# A product of at most `_FEW_ROWS` rows waits for memory, which comes fastest in blocks of `_SHALLOW` rows of the right
# operand. An operand larger than `_FAR` packed blocks is in memory, and not in the cache. A sum of more terms than
# `_LONGEST_SHALLOW` would have so many of these blocks that the sum of the blocks loses precision.
_FEW_ROWS, _FAR, _SHALLOW, _LONGEST_SHALLOW = 28, 2, 16, 4096
# Narrow numbers of few rows are packed as pairs in blocks of so many rows and columns, which stay in the first cache
# until they are multiplied.
_SHALLOW_PAIRS, _PAIRED_COLUMNS = 64, 256
# Parts of rows of narrow numbers are fetched so many bytes before they are packed.
_BYTES_AHEAD = 128
# Up to so many rows, products of narrow numbers are as fast without pairs, which must be packed.
_FEWER_THAN_PAIRS = 8
# The most columns of a block: the result is written a block at a time.
_WIDEST = 4096
# Columns of the left operand at most this many bytes apart share pages. Those further apart are copied if there are at
# least `_COPIES_PAY` panels of columns of the right operand, each of which reads them.
_NEAR = 1024
_COPIES_PAY = 4
# Rows whose distance is a multiple of this many bytes share a set of the first cache, where a tile's rows push each
# other out: the system's pages make a way of that cache 4096 bytes on every processor of x86-64.
_SHARES_SETS = 4096
# Threads share products of at least this many multiplications: less is done before another thread has begun.
SHARED_PRODUCTS = 1_500_000
# Those of few rows wait for memory: threads share what reads so many numbers of the right operand.
_SHARED_READS = 300_000
# Packed blocks that are kept for the next product, one for each thread that runs at the same time.
_KEPT_BUFFERS = 16
_OPERANDS = (
    ("i64", "rows"), ("i64", "columns"), ("i64", "inner"), ("ptr", "a"), ("i64", "ar"), ("i64", "ac"), ("ptr", "b"),
    ("i64", "br"), ("i64", "bc"), ("ptr", "c"), ("i64", "cr"), ("i1", "beta"),
)  # fmt: skip


# Of the functions inside the module: whether blocks of the inner axis are shallow.
_SHARED_OPERANDS = (*_OPERANDS, ("i1", "shallow"))


def _product_parameters(target: Target, operands: Sequence[tuple[str, str]] = _SHARED_OPERANDS) -> str:
    """Return the parameters of the functions that compute a product."""
    memory = [] if target.allocates else [("ptr", "packed")]
    return ", ".join(f"{type} %{name}" for type, name in (*operands, *memory))


def _buffer_bytes(vectors: Vectors) -> tuple[int, int, int]:
    """Return the elements of a packed block of the right operand, those with room behind it, and a buffer's bytes."""
    # At least a panel of the longest block of the inner axis.
    block = max(vectors.target.block_bytes // vectors.bytes, _DEPTHS[-1] * vectors.columns)
    behind_block = block + vectors.width * vectors.columns
    left = TILES_TOGETHER * _DEPTHS[-1] * vectors.height
    return block, behind_block, max(behind_block + left, narrow.buffer_elements(vectors)) * vectors.bytes


def packed_bytes(target: Target, number: ScalarType) -> int:
    """Return the bytes of the memory that a caller passes, where products do not allocate."""
    vectors = Vectors(target, number)
    return narrow.buffer_bytes(vectors) + _buffer_bytes(vectors)[2]


def _vectors(target: Target, number: ScalarType, right: ScalarType | None, *, rounds: bool) -> Vectors:
    """Return the vectors of products with these operands; pairs of rounded ones if the target multiplies them."""
    if not rounds or target.pairs is None or number != FLOAT32:
        return Vectors(target, number, right)
    return (Tiles if target.pairs == "tiles" else Pairs)(target, right)


def text(
    target: Target, number: ScalarType, pool: str | None, right: ScalarType | None = None, *, rounds: bool = False
) -> str:
    """Return the text of the module for a type of floats, on a target; `right` is that of a narrower right operand.

    With `rounds`, operands that are packed are rounded to bfloat16 on a target with pairs.

    `pool` is the symbol of the threads' module. A target whose products do not allocate has none: its function takes
    the address of a cache line behind the operands, from where on `packed_bytes` are its memory.

    Its function takes the sizes of the three axes; the left operand and the strides of its two axes, in elements; the
    right operand and its strides, one of which is 1; the result, whose columns are contiguous, and the stride of its
    rows; and whether the product is added to the result. Strides of the operands may be 0.
    """
    vectors = _vectors(target, number, right, rounds=rounds)
    block, behind_block, size = _buffer_bytes(vectors)
    allocating = [
        "declare ptr @wyrm_allocate(i64)",
        "declare void @wyrm_free(ptr)",
        f"declare i32 @{pool}(i64, ptr, i64, i64, i64)",
        f"@buffers = internal global [{_KEPT_BUFFERS} x i64] zeroinitializer",
        _take(size),
        _give(),
        _part_of_thread(vectors),
    ]
    return "\n".join([
        *vectors.declarations(),
        *DECLARED,
        *vectors.tiles(),
        pack_rows(vectors),
        pack_columns(vectors),
        *([pack_pairs(vectors)] if isinstance(vectors, Pairs) else [pack_left(vectors), copy_left(vectors)]),
        *(allocating if target.allocates else []),
        _one_thread(vectors, block, behind_block),
        *narrow.functions(vectors, _product_parameters(target)),
        *([] if vectors.blocks else low.functions(vectors, _product_parameters(target))),
        *few.functions(Vectors(target, number, right), _product_parameters(target)),
        _exported_product(vectors, block, pool),
    ])  # fmt: skip


def _take(size: int) -> str:
    """Return a function that returns memory for a packed block: a kept one, or new memory."""
    to = Writer()

    def look(index: str) -> None:
        place = to.address("i64", "@buffers", index)
        found = to.new(f"atomicrmw xchg ptr {place}, i64 0 acquire")
        kept = to.new(f"inttoptr i64 {found} to ptr")
        to.branch(to.compare("ne", found, 0), lambda: to.leave(f"ret ptr {kept}"))

    to.loop(_KEPT_BUFFERS, 1, look)
    # A cache line more, so that the block can be aligned.
    new = to.new(f"call ptr @wyrm_allocate(i64 {size + 64})")
    return to.function("internal ptr @take() noinline nounwind", f"ret ptr {new}")


def _give() -> str:
    """Return a function that keeps the memory of a packed block, or frees it if there are enough."""
    to = Writer()
    word = to.new("ptrtoint ptr %memory to i64")

    def look(index: str) -> None:
        place = to.address("i64", "@buffers", index)
        pair = to.new(f"cmpxchg ptr {place}, i64 0, i64 {word} release monotonic")
        kept = to.new(f"extractvalue {{ i64, i1 }} {pair}, 1")
        to.branch(kept, lambda: to.leave("ret void"))

    to.loop(_KEPT_BUFFERS, 1, look)
    to.do("call void @wyrm_free(ptr %memory)")
    return to.function("internal void @give(ptr %memory) noinline nounwind")


def _one_thread(vectors: Vectors, elements: int, behind_block: int) -> str:
    """Return the function that computes a product in the thread that calls it.

    `shallow`: the blocks of the inner axis are short, for few rows and a right operand with contiguous rows.
    """
    to, width = Writer(), vectors.columns
    by_rows = to.compare("eq", "%bc", 1)
    few = to.compare("sle", "%rows", _UNPACKED_USES * vectors.rows)
    # Tiles read numbers of their own type, so others are packed.
    pairs = isinstance(vectors, Pairs)
    in_place = "false" if vectors.widens or pairs else to.both(by_rows, few)
    # Blocks of the inner axis, and tiles of the rows, are as equal as they can be. An empty inner axis is one block.
    longest = str(_DEPTH_OF_PAIRS if vectors.fixed else _DEPTHS[0])
    for shorter, longer in pairwise(_DEPTHS):
        longest = to.select(to.compare("sgt", "%inner", shorter**2), "i64", str(longer), longest)
    narrow_pairs = pairs and vectors.widens
    longest = to.select("%shallow", "i64", str(_SHALLOW_PAIRS if narrow_pairs else _SHALLOW), longest)
    parts = to.higher(to.divide(to.add("%inner", to.subtract(longest, 1)), longest), 1)
    part = vectors.whole(to, to.divide(to.add("%inner", to.subtract(parts, 1)), parts))
    tiles = to.higher(to.divide(to.add("%rows", vectors.rows - 1), vectors.rows), 1)
    twos = to.divide(to.add("%rows", 1), 2)
    twos_of_tile = to.divide(twos, tiles)
    larger = to.subtract(twos, to.multiply(twos_of_tile, tiles))
    fewest = to.multiply(twos_of_tile, 2)
    if vectors.fixed:
        fewest, larger = str(vectors.rows), "0"
    # Rows of a transposed left operand that are far apart are copied: a tile would read each from another page.
    far = to.compare("sgt", to.multiply("%ac", vectors.bytes), _NEAR)
    contiguous = to.both(to.compare("eq", "%ar", 1), far)
    pays = to.compare("sge", "%columns", _COPIES_PAY * width)
    copied = to.both(contiguous, pays)
    distance = to.new(f"and i64 {to.multiply('%ar', vectors.bytes)}, {_SHARES_SETS - 1}")
    crowded = to.both(to.compare("eq", "%ac", 1), to.both(to.compare("eq", distance, 0), pays))
    if pairs:
        copied, crowded = "false", "true"
    # Where masks cost nothing, the last columns are read where they lie, too.
    reads_all = in_place if vectors.target.masks else "false"
    copies = to.new(f"select i1 {reads_all}, i1 {to.one_of(copied, crowded)}, i1 true")
    buffer, give = taken(to, vectors.target, copies)

    left = vectors.address(to, buffer, behind_block)
    steps_of_part = to.higher(vectors.steps(to, part), 1)
    panels_of_block = to.higher(to.divide(str(elements), to.multiply(steps_of_part, width)), 1)
    block = to.lower(to.multiply(panels_of_block, width), _WIDEST)
    if narrow_pairs:
        block = to.select("%shallow", "i64", str(_PAIRED_COLUMNS), block)

    def columns(first: str) -> None:
        count = to.lower(to.subtract("%columns", first), block)
        rest = to.new(f"urem i64 {count}, {width}")
        whole = to.subtract(count, rest)
        some = to.compare("sgt", rest, 0)
        # The position of the last panel's tile in the table: its vectors less one.
        wide = to.divide(to.subtract(to.higher(rest, 1), 1), vectors.width)

        def inner(number: str) -> None:
            start = to.multiply(number, part)
            depth = to.higher(to.lower(to.subtract("%inner", start), part), 0)
            steps = vectors.steps(to, depth)
            b = vectors.right_part(to, "%b", start, first)

            def pack(how: str, stride: str, source: str, size: str) -> None:
                given = f"ptr {source}, i64 {stride}, i64 {depth}, i64 {size}, ptr {buffer}"
                if vectors.widens and how == "rows":
                    within = to.new(f"and i64 {first}, {INT4_BLOCK - 1}") if vectors.blocks else ahead
                    given += f", i64 {within}"
                to.do(f"call void @pack_{how}({given})")

            def pack_edge() -> None:
                if not vectors.target.masks:
                    to.branch(some, lambda: pack("rows", "%br", vectors.address(to, b, whole), rest))

            # The next block of the inner axis, or panels in the same rows.
            ahead = to.select("%shallow", "i64", to.multiply("%br", depth), _BYTES_AHEAD // vectors.right.itemsize)
            to.branch(
                in_place,
                pack_edge,
                lambda: to.branch(
                    by_rows,
                    lambda: pack("rows", "%br", b, count),
                    lambda: pack("columns", "%bc", b, count),
                ),
            )
            stride = to.select(in_place, "i64", "%br", width)
            panels = to.select(in_place, "ptr", b, buffer)
            next_panel = to.select(in_place, "i64", str(width), to.multiply(steps, width))
            if vectors.target.masks:
                last = vectors.address(to, panels, to.select(in_place, "i64", whole, to.multiply(steps, whole)))
                last_stride = stride
            else:
                last = to.select(in_place, "ptr", buffer, vectors.address(to, buffer, to.multiply(depth, whole)))
                last_stride = str(width)
            adds = to.one_of("%beta", to.compare("ne", number, 0))
            stride_of_copy = spaced(vectors, to, steps)
            next_row = to.select(crowded, "i64", stride_of_copy, "%ar")

            def rows(index: str, row: str) -> list[str]:
                remaining = to.subtract("%rows", row)
                height = rows_of(to, index, fewest, larger, remaining)
                source = vectors.address(to, "%a", to.add(to.multiply(row, "%ar"), to.multiply(start, "%ac")))

                member = to.new(f"and i64 {index}, {TILES_TOGETHER - 1}")
                first_of_group = to.both(copied, to.compare("eq", member, 0))

                def copy() -> None:
                    to.do(
                        f"call void @pack_left(ptr {source}, i64 %ac, i64 {depth}, i64 {index}, i64 {remaining}, "
                        f"i64 {fewest}, i64 {larger}, ptr {left})"
                    )

                def copy_rows() -> None:
                    sizes = f"i64 {height}, i64 {depth}, i64 {stride_of_copy}"
                    if pairs:
                        to.do(f"call void @pack_pairs(ptr {source}, i64 %ar, i64 %ac, {sizes}, ptr {left})")
                    else:
                        to.do(f"call void @copy_left(ptr {source}, i64 %ar, {sizes}, ptr {left})")

                if not pairs:
                    to.branch(first_of_group, copy)
                to.branch(crowded, copy_rows)
                packed = vectors.address(to, left, to.multiply(to.multiply(member, depth), vectors.height))
                a = to.select(copied, "ptr", packed, to.select(crowded, "ptr", left, source))
                next_inner = "1" if pairs else to.select(copied, "i64", str(vectors.height), "%ac")
                c = vectors.address(to, "%c", to.add(to.multiply(row, "%cr"), first))
                choices = to.multiply(height, vectors.vectors)

                def call(function: str, b: str, stride: str, column: str, size: str) -> None:
                    place = vectors.address(to, c, column)
                    to.do(
                        f"call void {function}(ptr {a}, i64 {next_row}, i64 {next_inner}, ptr {b}, i64 {stride}, "
                        f"i64 {steps}, ptr {place}, i64 %cr, i64 {height}, i64 {size}, i1 {adds})"
                    )

                full = to.new(f"load ptr, ptr {to.address('ptr', '@tiles', to.add(choices, vectors.vectors - 1))}")

                def panel(column: str, b: str) -> list[str]:
                    call(full, b, stride, column, str(width))
                    return [vectors.address(to, b, next_panel)]

                def edge() -> None:
                    function = to.new(f"load ptr, ptr {to.address('ptr', '@tiles', to.add(choices, wide))}")
                    call(function, last, last_stride, whole, rest)

                to.loop(whole, width, panel, [("ptr", panels)])
                to.branch(some, edge)
                return [to.add(row, height)]

            to.loop(tiles, 1, rows, [("i64", "0")])

        to.loop(parts, 1, inner)

    vectors.begin(to)
    to.loop("%columns", block, columns)
    vectors.end(to)
    give()
    return to.function(f"internal void @one_thread({_product_parameters(vectors.target)}) noinline nounwind")


# The function that computes the product, and the operands.
_GIVEN = (*_SHARED_OPERANDS, ("ptr", "function"))
_RECORD = "{ " + ", ".join(type for type, _ in _GIVEN) + " }"


def _places(to: Writer, record: str) -> Iterator[tuple[str, str, str]]:
    """Yield the type, the name and the address of each operand in a record of all."""
    for position, (type, name) in enumerate(_GIVEN):
        yield type, name, to.new(f"getelementptr {_RECORD}, ptr {record}, i32 0, i32 {position}")


def _part_of_thread(vectors: Vectors) -> str:
    """Return the function that computes a thread's part of a product: a range of the rows, or of the columns."""
    to = Writer()
    given = {}
    for type, name, place in _places(to, "%record"):
        given[name] = to.new(f"load {type}, ptr {place}")
    tall, first = to.compare("sge", given["rows"], given["columns"]), "%first"
    count = to.subtract("%end", first)

    row, column = to.select(tall, "i64", first, "0"), to.select(tall, "i64", "0", first)
    changed = given | {
        "rows": to.select(tall, "i64", count, given["rows"]),
        "columns": to.select(tall, "i64", given["columns"], count),
        "a": vectors.address(to, given["a"], to.multiply(row, given["ar"])),
        "b": vectors.right_part(to, given["b"], "0", column, (given["br"], given["bc"])),
        "c": vectors.address(to, given["c"], to.add(to.multiply(row, given["cr"]), column)),
    }
    arguments = ", ".join(f"{type} {changed[name]}" for type, name in _SHARED_OPERANDS)
    to.do(f"call void {given['function']}({arguments})")
    return to.function("internal i32 @part(ptr %record, i64 %first, i64 %end) noinline nounwind", "ret i32 0")


def _exported_product(vectors: Vectors, elements: int, pool: str | None) -> str:
    """Return the exported function, which shares large products among threads if there are any.

    What decides the order of a sum is chosen here, from the sizes of the whole product.
    """
    to, parameters = Writer(), _product_parameters(vectors.target, _OPERANDS)
    record = None if pool is None else to.new(f"alloca {_RECORD}")
    some = to.both(to.compare("sgt", "%rows", 0), to.compare("sgt", "%columns", 0))
    work = to.multiply(to.multiply("%rows", "%columns"), "%inner")

    # Few columns are a part of a vector; few rows do not repay copies of the right operand.
    slim = to.compare("sle", "%columns", narrow.most_columns(vectors))
    thin = to.compare("sle", "%rows", narrow.FEW_ROWS)
    thin_dots = to.both(thin, to.compare("eq", "%br", 1))
    shortest = to.select(slim, "i64", str(vectors.width), narrow.LONG * vectors.width)
    long = to.compare("sge", "%inner", shortest)
    tiny = to.compare("slt", work, low.TINY)
    # These two read the right operand transposed, or as the left one: in its own type alone.
    slim_dots = to.both(slim, to.compare("eq", "%br", 1)) if vectors.widens else slim
    across = "false" if vectors.widens else to.both(to.both(slim, to.compare("eq", "%ar", 1)), to.fails(tiny))
    by_dots = to.both(to.both(to.compare("eq", "%ac", 1), long), to.one_of(slim_dots, thin_dots))
    function = to.select(across, "ptr", "@across", "@one_thread")
    short = to.compare("sle", "%inner", low.LONGEST_SUM)
    in_order = to.both(to.both(short, to.compare("sgt", "%inner", 0)), to.compare("eq", "%bc", 1))
    if few.has_tiles(vectors):
        most = _FEWER_THAN_PAIRS if isinstance(vectors, Pairs) else few.MOST_ROWS
        lower = to.both(in_order, to.compare("sle", "%rows", most))
        function = to.select(lower, "ptr", "@few", function)
    function = to.select(by_dots, "ptr", "@dot_products", function)
    read = to.compare("sge", to.multiply("%columns", "%inner"), _SHARED_READS)
    large = to.one_of(to.compare("sge", work, SHARED_PRODUCTS), to.both(thin, read))
    pay = () if vectors.blocks else _low_pays(to, tiny, long, large)
    # Of numbers that are widened, more rows pay as soon as one does.
    for rows, pays in zip(low.heights(vectors), (*pay, *pay[:1] * 2), strict=False):
        chosen = to.both(to.both(in_order, pays), to.compare("eq", "%rows", rows))
        function = to.select(chosen, "ptr", f"@low_{rows}", function)

    # The transposed product, `across`, reads columns of the left operand as others read rows of the right operand.
    flat = to.compare("sle", to.select(across, "i64", "%columns", "%rows"), _FEW_ROWS)
    wide = to.select(across, "i64", "%rows", "%columns")
    in_rows = to.one_of(across, to.compare("eq", "%bc", 1))
    far = to.compare("sge", to.multiply("%inner", wide), _FAR * elements)
    waits = flat if vectors.widens and isinstance(vectors, Pairs) else to.both(flat, far)
    shallow = to.both(to.both(in_rows, waits), to.compare("sle", "%inner", _LONGEST_SHALLOW))
    given = {name: f"%{name}" for _, name in _OPERANDS} | {"function": function, "shallow": shallow}

    memory = "" if vectors.target.allocates else ", ptr %packed"
    arguments = ", ".join(f"{type} {given[name]}" for type, name in _SHARED_OPERANDS)
    alone = f"call void {function}({arguments}{memory})"
    if record is None:
        to.branch(some, lambda: to.do(alone))
        return to.function(f"void @{SHARED}({parameters}) nounwind")

    def shared() -> None:
        for type, name, place in _places(to, record):
            to.do(f"store {type} {given[name]}, ptr {place}")
        tall = to.compare("sge", "%rows", "%columns")
        count = to.select(tall, "i64", "%rows", "%columns")
        # A thread's columns begin with a block of those that have some.
        across = lcm(vectors.columns, INT4_BLOCK) if vectors.blocks else vectors.columns
        unit = to.select(tall, "i64", str(vectors.rows), across)
        part = "ptrtoint (ptr @part to i64)"
        to.new(f"call i32 @{pool}(i64 {part}, ptr {record}, i64 {work}, i64 {count}, i64 {unit})")

    to.branch(some, lambda: to.branch(large, shared, lambda: to.do(alone)))
    return to.function(f"void @{SHARED}({parameters}) nounwind")


def _low_pays(to: Writer, tiny: str, long: str, large: str) -> tuple[str, str]:
    """Return when `low_1` and `low_2` are faster than tiles, for a right operand with contiguous rows.

    A tile of two rows is as fast, unless it waits for memory. `long`: dot products are faster for few columns.
    """
    wide = to.compare("sgt", "%columns", low.FEW_COLUMNS)
    far = to.compare("sge", to.multiply("%inner", "%columns"), low.FAR)
    one = to.one_of(wide, to.fails(long))
    two = to.one_of(tiny, to.both(wide, far))
    return to.one_of(large, one), to.one_of(large, two)
