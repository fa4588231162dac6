"""Products of operands that are packed as pairs of bfloat16: sums of two products, in float32.

An element of a packed operand has two terms of the inner axis, the first in its lower half.
"""

from __future__ import annotations

from collections.abc import Sequence

from wyrm.engines.native.ir.types import FLOAT32, ScalarType
from wyrm.engines.native.products.target import Target
from wyrm.engines.native.products.tiles import Vectors
from wyrm.engines.native.products.writer import Writer

_WORDS = "<32 x bfloat>"
_GATHER = "llvm.masked.gather.v16f32.v16p0"
_ROUND = "llvm.x86.avx512bf16.cvtne2ps2bf16.512"
_MULTIPLY = "llvm.x86.avx512bf16.dpbf16ps.512"
# Words of two vectors in turn.
_IN_TURN = ", ".join(f"i32 {lane + 16 * half}" for lane in range(16) for half in range(2))


class Pairs(Vectors):
    """Vectors whose packed operands are pairs of bfloat16, for a target of 512 bits that multiplies them."""

    def __init__(self, target: Target, right: ScalarType | None = None) -> None:
        super().__init__(target, FLOAT32, right)
        assert self.width == 16, f"no pairs with {target.bits} bits"
        self.terms = 2
        self.granule: int = max(self.granule, self.terms)

    def declarations(self) -> list[str]:
        """Return the declarations of the functions that the methods call."""
        return [
            *super().declarations(),
            f"declare {self.type} @{_GATHER}(<16 x ptr>, i32, <16 x i1>, {self.type})",
            f"declare {_WORDS} @{_ROUND}({self.type}, {self.type})",
            f"declare {self.type} @{_MULTIPLY}({self.type}, {_WORDS}, {_WORDS})",
        ]

    def steps(self, to: Writer, depth: str) -> str:
        """Return the pairs along the inner axis of an operand that is packed."""
        return to.divide(self.whole(to, depth), 2)

    def across(self, to: Writer, rows: Sequence[str]) -> str:
        """Return pairs of bfloat16 across two vectors."""
        words = self._rounded(to, rows)
        return self._as_numbers(to, to.new(f"shufflevector {_WORDS} {words}, {_WORDS} poison, <32 x i32> <{_IN_TURN}>"))

    def across_right(self, to: Writer, rows: Sequence[str]) -> str:
        """Return pairs across two vectors of the right operand; its bfloat16 and int8 are not rounded."""
        if not self.widens or self.blocks:
            return self.across(to, rows)
        words = f"<{self.width} x i32>"
        low, high = (to.new(f"bitcast {self.type} {row} to {words}") for row in rows)
        shifted = to.new(f"lshr {words} {low}, {self._constant(16)}")
        return to.new(f"bitcast {words} {to.new(f'or {words} {shifted}, {high}')} to {self.type}")

    def along(self, to: Writer, parts: Sequence[str]) -> str:
        """Return pairs of bfloat16 along two vectors that follow each other."""
        return self._as_numbers(to, self._rounded(to, parts))

    def multiply_packed(self, to: Writer, left: str, right: str, total: str) -> str:
        """Return the sum of `total` and the products of both numbers of pairs."""
        pairs = (to.new(f"bitcast {self.type} {each} to {_WORDS}") for each in (left, right))
        operands = ", ".join(f"{_WORDS} {each}" for each in pairs)
        return to.new(f"call {self.type} @{_MULTIPLY}({self.type} {total}, {operands})")

    def gathered(self, to: Writer, base: str, index: str, stride: str, mask: str) -> str:
        """Return a vector of elements `stride` apart; lanes outside of the mask are zero and not read."""
        lanes = ", ".join(f"i64 {lane}" for lane in range(self.width))
        offsets = to.new(f"mul <16 x i64> <{lanes}>, {self.splat(to, 'i64', stride)}")
        place = self.address(to, base, to.multiply(index, stride))
        places = to.new(f"getelementptr float, ptr {place}, <16 x i64> {offsets}")
        given = f"<16 x ptr> {places}, i32 4, <16 x i1> {mask}, {self.type} zeroinitializer"
        return to.new(f"call {self.type} @{_GATHER}({given})")

    def _rounded(self, to: Writer, parts: Sequence[str]) -> str:
        """Return the numbers of two vectors as bfloat16, rounded to nearest: those of the first one come first."""
        low, high = parts
        return to.new(f"call {_WORDS} @{_ROUND}({self.type} {high}, {self.type} {low})")

    def _as_numbers(self, to: Writer, words: str) -> str:
        return to.new(f"bitcast {_WORDS} {words} to {self.type}")


def pack_pairs(pairs: Pairs) -> str:
    """Return a function that packs rows of the left operand as rows of pairs, `stride` apart.

    Rows are contiguous and `ar` apart, or columns are and `ac` apart, or neither. Rows that are left out of whole
    vectors may hold anything.
    """
    to, width = Writer(), pairs.width
    turn = width * pairs.terms
    even = to.new(f"and i64 %depth, {-turn}")
    rest = to.subtract("%depth", even)
    some = to.compare("sgt", rest, 0)
    masks = [pairs.below(to, rest), pairs.below(to, to.subtract(rest, width))]
    every = f"<{', '.join(['i1 true'] * width)}>"

    def by_rows(*, strided: bool) -> None:
        def row(number: str) -> None:
            source = pairs.address(to, "%a", to.multiply(number, "%ar"))
            target = pairs.address(to, "%to", to.multiply(number, "%stride"))

            def block(index: str, found: Sequence[str] | None = None) -> None:
                places = [index, to.add(index, width)]
                if strided:
                    given = zip(places, found or [every] * 2, strict=True)
                    parts = [pairs.gathered(to, source, place, "%ac", mask) for place, mask in given]
                else:
                    low, high = found or (None, None)
                    parts = [pairs.load(to, source, places[0], low), pairs.load(to, source, places[1], high)]
                pairs.store(to, pairs.along(to, parts), target, to.divide(index, pairs.terms))

            to.loop(even, turn, block)
            to.branch(some, lambda: block(even, masks))

        to.loop("%rows", 1, row)

    def by_columns() -> None:
        def rows(first: str) -> None:
            source, existing = pairs.address(to, "%a", first), pairs.below(to, to.subtract("%rows", first))
            target = pairs.address(to, "%to", to.multiply(first, "%stride"))

            def block(index: str, *, whole: bool) -> None:
                found = []
                place = pairs.address(to, source, to.multiply(index, "%ac"))
                for term in range(turn):
                    mask = existing
                    if not whole:
                        exists = to.compare("sgt", rest, term)
                        mask = to.select(exists, f"<{width} x i1>", existing, "zeroinitializer")
                    found.append(pairs.load(to, place, 0, mask))
                    # The next tile reads what lies behind these rows. They push each other out of the first cache.
                    pairs.prefetch(to, place, pairs.height, reads=True, level=2)
                    place = pairs.address(to, place, "%ac")
                packed = [pairs.across(to, found[term : term + 2]) for term in range(0, turn, pairs.terms)]
                row = pairs.address(to, target, to.divide(index, pairs.terms))
                for each in pairs.transposed(to, packed):
                    pairs.store(to, each, row)
                    row = pairs.address(to, row, "%stride")

            to.loop(even, turn, lambda index: block(index, whole=True))
            to.branch(some, lambda: block(even, whole=False))

        to.loop("%rows", width, rows)

    to.branch(
        to.compare("eq", "%ac", 1),
        lambda: by_rows(strided=False),
        lambda: to.branch(to.compare("eq", "%ar", 1), by_columns, lambda: by_rows(strided=True)),
    )
    parameters = "ptr noalias %a, i64 %ar, i64 %ac, i64 %rows, i64 %depth, i64 %stride, ptr noalias %to"
    return to.function(f"internal void @pack_pairs({parameters}) noinline nounwind")
