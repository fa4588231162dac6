"""Copies of operands in the order in which tiles read them: panels of a tile's columns or rows, row after row.

The columns of the last panel that do not exist are zero or repeat another column: tiles compute with them, and do not
store the result. A panel of `pack_columns` may write up to a vector's width of rows behind its last one.
"""

from __future__ import annotations

from wyrm.engines.native.products.vectors import Vectors
from wyrm.engines.native.products.writer import Writer


def pack_rows(vectors: Vectors) -> str:
    """Return a function that packs a matrix whose rows are contiguous and `br` apart."""
    to = Writer()

    def panel(first: str, target: str) -> list[str]:
        rest = to.subtract("%columns", first)

        def rows(*, whole: bool) -> None:
            masks = [
                None if whole else vectors.below(to, to.subtract(rest, vector * vectors.width))
                for vector in range(vectors.vectors)
            ]

            def row(_index: str, source: str, place: str) -> list[str]:
                for vector, mask in enumerate(masks):
                    found = vectors.load(to, source, vector * vectors.width, mask)
                    vectors.store(to, found, place, vector * vectors.width)
                return [vectors.address(to, source, "%br"), vectors.address(to, place, vectors.columns)]

            to.loop("%depth", 1, row, [("ptr", vectors.address(to, "%b", first)), ("ptr", target)])

        to.branch(to.compare("sge", rest, vectors.columns), lambda: rows(whole=True), lambda: rows(whole=False))
        return [vectors.address(to, target, to.multiply("%depth", vectors.columns))]

    to.loop("%columns", vectors.columns, panel, [("ptr", "%to")])
    return to.function(f"internal void @pack_rows({_parameters('%br')}) noinline nounwind")


def pack_columns(vectors: Vectors) -> str:
    """Return a function that packs a matrix whose columns are contiguous and `bc` apart."""
    to, width = Writer(), vectors.width

    def panel(first: str, target: str) -> list[str]:
        for vector in range(vectors.vectors):
            column = to.add(first, vector * width)
            rest = to.subtract("%columns", column)

            def columns(column: str = column, rest: str = rest, vector: int = vector) -> None:
                last = to.subtract(rest, 1)
                starts = [
                    vectors.address(to, "%b", to.multiply("%bc", to.add(column, to.lower(last, lane))))
                    for lane in range(width)
                ]

                def block(row: str, *, whole: bool) -> None:
                    mask = None if whole else vectors.below(to, to.subtract("%depth", row))
                    found = vectors.transposed(to, [vectors.load(to, each, row, mask) for each in starts])
                    place = vectors.address(to, target, to.add(to.multiply(row, vectors.columns), vector * width))
                    for lane, value in enumerate(found):
                        vectors.store(to, value, place, lane * vectors.columns)

                even = to.new(f"and i64 %depth, {-width}")
                to.loop(even, width, lambda row: block(row, whole=True))
                to.branch(to.compare("slt", even, "%depth"), lambda: block(even, whole=False))

            to.branch(to.compare("sgt", rest, 0), columns)
        return [vectors.address(to, target, to.multiply("%depth", vectors.columns))]

    to.loop("%columns", vectors.columns, panel, [("ptr", "%to")])
    return to.function(f"internal void @pack_columns({_parameters('%bc')}) noinline nounwind")


def pack_left(vectors: Vectors) -> str:
    """Return a function that packs `rows` rows of a matrix whose columns are contiguous and `ac` apart."""
    to, starts = Writer(), range(0, vectors.height, vectors.width)
    masks = [vectors.below(to, to.subtract("%rows", start)) for start in starts]

    def column(_index: str, source: str, place: str) -> list[str]:
        for start, mask in zip(starts, masks, strict=True):
            vectors.store(to, vectors.load(to, source, start, mask), place, start)
        return [vectors.address(to, source, "%ac"), vectors.address(to, place, vectors.height)]

    to.loop("%depth", 1, column, [("ptr", "%a"), ("ptr", "%to")])
    parameters = "ptr noalias %a, i64 %ac, i64 %depth, i64 %rows, ptr noalias %to"
    return to.function(f"internal void @pack_left({parameters}) noinline nounwind")


def _parameters(stride: str) -> str:
    return f"ptr noalias %b, i64 {stride}, i64 %depth, i64 %columns, ptr noalias %to"
