"""Vectors of one type in LLVM: loads, stores, masks and the transposition of a square block."""

from __future__ import annotations

from collections.abc import Sequence

from wyrm.engines.native.ir.types import FLOAT32, ScalarType
from wyrm.engines.native.products.target import Target
from wyrm.engines.native.products.writer import Writer

LINE_BYTES = 64


class Vectors:
    """Vectors of a target's register size."""

    def __init__(self, target: Target, number: ScalarType) -> None:
        self.target = target
        self.number = "float" if number == FLOAT32 else "double"
        self.bytes = number.itemsize
        # The elements of a vector.
        self.width = target.bits // number.bits
        self.rows, self.vectors = target.tile
        # The columns of a block of the result.
        self.columns = self.width * self.vectors
        # The rows of a packed tile of the left operand: whole vectors.
        self.height = -(-self.rows // self.width) * self.width
        self.type = f"<{self.width} x {self.number}>"
        self._mask = f"<{self.width} x i1>"
        self._suffix = f"v{self.width}f{number.bits}"

    def declarations(self) -> list[str]:
        """Return the declarations of the functions that the methods call."""
        return [
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
        return to.new(f"icmp slt <{self.width} x i64> <{lanes}>, {self._repeated(to, 'i64', count)}")

    def load(self, to: Writer, base: str, index: str | int = 0, mask: str | None = None) -> str:
        """Load a vector; lanes outside of the mask are zero and not read."""
        place = self.address(to, base, index)
        if mask is None:
            return to.new(f"load {self.type}, ptr {place}, align {self.bytes}")
        return to.new(
            f"call {self.type} @llvm.masked.load.{self._suffix}.p0"
            f"(ptr {place}, i32 {self.bytes}, {self._mask} {mask}, {self.type} zeroinitializer)"
        )

    def prefetch(self, to: Writer, base: str, index: str | int, *, reads: bool = False) -> None:
        """Ask for the memory of a vector that is soon written, or read if `reads`. Any address is allowed."""
        place, how = self.address(to, base, index), int(not reads)
        to.do(f"call void @llvm.prefetch.p0(ptr {place}, i32 {how}, i32 3, i32 1)")

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
        return self._repeated(to, self.number, to.new(f"load {self.number}, ptr {place}, align {self.bytes}"))

    def _repeated(self, to: Writer, type: str, value: str) -> str:
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
