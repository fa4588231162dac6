"""Index expressions: what they consist of, and how they print."""

from __future__ import annotations

import pytest

import wyrm as wy
from wyrm.engines.native.ir.arrays import Name, text_of
from wyrm.engines.native.stages.expressions import expression_of
from wyrm.graph.index_maps import (
    AxisLength,
    DifferenceOfIndices,
    IndexExpression,
    IndexLiteral,
    IndexLoad,
    LoopIndex,
    ProductOfIndices,
    SumOfIndices,
    flat,
)


class Rows(wy.Dim): ...


K, J = LoopIndex(0), LoopIndex(1)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (K, "i0"),
        (IndexLiteral(-3), "-3"),
        (2 + K, "2 + i0"),
        (K + 2, "i0 + 2"),
        (K + J, "i0 + i1"),
        (4 + -1 * K, "4 + -1 * i0"),
        (1 + (2 + K), "1 + 2 + i0"),
        (2 * (2 * K), "2 * (2 * i0)"),
        (2 * (1 + K), "2 * (1 + i0)"),
        ((K + J) * 3 + 1, "(i0 + i1) * 3 + 1"),
        (K - 1, "i0 - 1"),
        (K - (J + 1), "i0 - (i1 + 1)"),
        (3 + (K - 1), "3 + i0 - 1"),
        (2 * (AxisLength(5) - 1), "2 * (size(5) - 1)"),
        (2 * IndexLoad(1, (K, 1 + J)), "2 * parent1[i0, 1 + i1]"),
    ],
)
def test_an_entry_reads_like_code(entry: IndexExpression, text: str) -> None:
    assert str(entry) == text


def test_a_number_in_front_that_changes_nothing_is_left_out() -> None:
    assert 0 + K is K and 1 * K is K
    assert 0 + 1 * (2 + K) == 2 + K


def test_nothing_else_is_worked_out() -> None:
    for entry, text in [
        (1 + IndexLiteral(2), "1 + 2"),
        (0 * K, "0 * i0"),
        (IndexLiteral(0) + K, "0 + i0"),
        (K + 0, "i0 + 0"),
    ]:
        assert str(entry) == text


def test_entries_are_equal_by_what_they_are_made_of() -> None:
    axis = Rows()
    same: list[IndexExpression] = [LoopIndex(1), AxisLength(axis), IndexLoad(0, (K,)), SumOfIndices(K, J), 2 * K]
    assert same == [J, AxisLength(axis), IndexLoad(0, (LoopIndex(0),)), K + J, IndexLiteral(2) * K]
    different: list[IndexExpression] = [
        K,
        J,
        IndexLiteral(1),
        AxisLength(1),
        SumOfIndices(K, J),
        SumOfIndices(J, K),
        DifferenceOfIndices(K, J),
        ProductOfIndices(K, J),
        IndexLoad(0, (K,)),
    ]
    assert len({*different, *different}) == len(different)


def test_entries_do_not_change() -> None:
    with pytest.raises(AttributeError):
        K.depth = 2  # type: ignore[misc]  # the test
    with pytest.raises(AttributeError):
        SumOfIndices(K, J).left = J  # type: ignore[misc]  # as above


def test_the_loops_that_an_entry_depends_on() -> None:
    assert IndexLiteral(3).loops() == AxisLength(Rows()).loops() == 0
    assert K.loops() == (2 * K + 1).loops() == 1
    assert (K + (3 - 2) * J).loops() == (J - K).loops() == 2


def test_leaves_come_as_they_are_written() -> None:
    at = IndexLoad(1, (J,))
    assert list((2 * at + (AxisLength(4) - K)).leaves()) == [IndexLiteral(2), at, AxisLength(4), K]
    assert list(K.leaves()) == [K]


def test_leaves_are_replaced() -> None:
    def deeper(leaf: IndexExpression) -> IndexExpression:
        return LoopIndex(leaf.depth + 1) if isinstance(leaf, LoopIndex) else leaf

    assert (2 * K + (AxisLength(4) - J)).replaced(deeper) == 2 * LoopIndex(1) + (AxisLength(4) - LoopIndex(2))
    assert K.replaced(lambda leaf: 1 + leaf) == 1 + K


def test_entries_are_expressions_of_their_leaves() -> None:
    axis = Rows()
    entry = 3 * (AxisLength(axis) - 1) + K
    assert text_of(expression_of(entry, {AxisLength(axis): Name("n_rows")})) == "((3 * (n_rows - 1)) + i0)"


def test_the_place_in_row_major_order() -> None:
    assert flat((), ()) == IndexLiteral(0)
    assert flat((K,), (7,)) is K
    assert str(flat((K, 1 + J, IndexLiteral(0)), (7, 5, 1))) == "(i0 * 5 + 1 + i1) * 1 + 0"
    assert str(flat((1 + K, J), (7, AxisLength(5)))) == "(1 + i0) * size(5) + i1"
