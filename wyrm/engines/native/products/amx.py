"""Tiles of AMX, the matrix registers of x86-64: blocks of 16 rows and 16 columns, to which pairs of bfloat16 add.

A thread configures the registers before a product and releases them behind it.
"""

from __future__ import annotations

from wyrm.engines.native.ir.types import ScalarType
from wyrm.engines.native.products.pairs import Pairs
from wyrm.engines.native.products.target import Target
from wyrm.engines.native.products.tiles import TILE_PARAMETERS, Vectors, all_tiles, in_each_case, name_of
from wyrm.engines.native.products.writer import Writer

# The rows of a register, and the elements in each of them: bytes of a row divided by those of a pair or a number.
_SIDE = 16
# Registers of a block: those of its sums, two rows of two, then those of the left and of the right operand.
_LEFT, _RIGHT = 4, 6
_ROW_BYTES = 64


class Tiles(Pairs):
    """Pairs that the registers of AMX multiply: blocks of 32 rows and columns."""

    def __init__(self, target: Target, right: ScalarType | None = None) -> None:
        super().__init__(target, right)
        assert self.columns == 2 * _SIDE, f"no tiles with {self.vectors} vectors"
        self.rows = self.height = 2 * _SIDE
        self.granule, self.fixed = 2 * _SIDE, True

    def declarations(self) -> list[str]:
        """Return the declarations of the functions that the methods and tiles call, and the configuration."""
        # Palette 1, no row to start from, then the bytes in a row of each register, and the rows.
        shape = [1, 0, *[0] * 14, *[_ROW_BYTES, 0] * 8, *[0] * 16, *[_SIDE] * 8, *[0] * 8]
        return [
            *super().declarations(),
            "declare void @llvm.x86.ldtilecfg(ptr)",
            "declare void @llvm.x86.tilerelease()",
            "declare void @llvm.x86.tilezero(i8 immarg)",
            "declare void @llvm.x86.tileloadd64(i8 immarg, ptr, i64)",
            "declare void @llvm.x86.tilestored64(i8 immarg, ptr, i64)",
            "declare void @llvm.x86.tdpbf16ps(i8 immarg, i8 immarg, i8 immarg)",
            f"@registers = internal constant [{len(shape)} x i8] [{', '.join(f'i8 {each}' for each in shape)}]",
        ]

    def begin(self, to: Writer) -> None:
        """Configure the registers of this thread."""
        to.do("call void @llvm.x86.ldtilecfg(ptr @registers)")

    def end(self, to: Writer) -> None:
        """Release the registers, so that the system need not keep them when it changes threads."""
        to.do("call void @llvm.x86.tilerelease()")

    def tiles(self) -> list[str]:
        """Return the functions of tiles, and the constant with all of them."""
        return all_tiles(self, [_SIDE, 2 * _SIDE], _block)


def _block(tiles: Vectors, height: int, wide: int) -> str:
    """Return a function that computes `height` rows of `wide` vectors; see `wyrm.engines.native.products.tiles.tile`.

    Of these rows and columns, `height` and `columns` of the parameters are stored.
    """
    to, rows = Writer(), height // _SIDE
    sums = [(row, vector, 2 * row + vector) for row in range(rows) for vector in range(wide)]
    to_next = to.multiply("%ar", _SIDE)
    scratch = to.new(f"alloca [{4 * _SIDE * _SIDE} x float], align 64")
    full = to.both(to.compare("eq", "%height", rows * _SIDE), to.compare("eq", "%columns", wide * _SIDE))
    of_result = to.multiply("%cr", tiles.bytes)
    lower = tiles.address(to, "%c", to.multiply("%cr", _SIDE))

    def place(row: int, vector: int) -> str:
        return tiles.address(to, lower if row else "%c", vector * _SIDE)

    def clear() -> None:
        for *_, number in sums:
            to.do(f"call void @llvm.x86.tilezero(i8 {number})")

    def load() -> None:
        for row, vector, number in sums:
            to.do(f"call void @llvm.x86.tileloadd64(i8 {number}, ptr {place(row, vector)}, i64 {of_result})")

    to.branch(to.both(full, "%adds"), load, clear)
    left_bytes, right_bytes = to.multiply("%ar", tiles.bytes), to.multiply("%bs", tiles.bytes)
    next_right = to.multiply("%bs", _SIDE)

    def step(index: str, a: str, b: str) -> list[str]:
        sources = [a, tiles.address(to, a, to_next)][:rows]
        for vector in range(wide):
            part = tiles.address(to, b, vector * _SIDE)
            to.do(f"call void @llvm.x86.tileloadd64(i8 {_RIGHT + vector}, ptr {part}, i64 {right_bytes})")
        for row, source in enumerate(sources):
            to.do(f"call void @llvm.x86.tileloadd64(i8 {_LEFT + row}, ptr {source}, i64 {left_bytes})")
            for vector in range(wide):
                operands = f"i8 {2 * row + vector}, i8 {_LEFT + row}, i8 {_RIGHT + vector}"
                to.do(f"call void @llvm.x86.tdpbf16ps({operands})")
        return [tiles.address(to, a, _SIDE), tiles.address(to, b, next_right)]

    to.loop("%depth", _SIDE, step, [("ptr", "%a"), ("ptr", "%b")])

    def store() -> None:
        for row, vector, number in sums:
            to.do(f"call void @llvm.x86.tilestored64(i8 {number}, ptr {place(row, vector)}, i64 {of_result})")

    def store_part() -> None:
        stride = 2 * _SIDE
        for row, vector, number in sums:
            at = tiles.address(to, scratch, row * _SIDE * stride + vector * _SIDE)
            to.do(f"call void @llvm.x86.tilestored64(i8 {number}, ptr {at}, i64 {stride * tiles.bytes})")
        last = tiles.below(to, to.subtract("%columns", (wide - 1) * tiles.width))

        def write(whole: bool, adds: bool) -> None:
            def row(index: str, c: str) -> list[str]:
                source = tiles.address(to, scratch, to.multiply(index, stride))
                for vector in range(wide):
                    mask = last if vector == wide - 1 else None
                    value = tiles.load(to, source, vector * _SIDE)
                    if adds:
                        value = tiles.add(to, value, tiles.load(to, c, vector * _SIDE, mask))
                    tiles.store(to, value, c, vector * _SIDE, mask)
                return [tiles.address(to, c, "%cr")]

            to.loop("%height", 1, row, [("ptr", "%c")])

        in_each_case(tiles, to, wide, "%adds", write)

    to.branch(full, store, store_part)
    return to.function(f"internal void @{name_of(height, wide)}({TILE_PARAMETERS}) noinline nounwind")
