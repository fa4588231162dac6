"""Scores that a mask lowers by a large number: which elements may be as low, and where they have no weight.

Numbers of data and parameters are taken to be far less than `LARGE_SCORE`, which a proof lists where it needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from wyrm.graph.base import BaseNode
from wyrm.graph.loop_form import LOOPS
from wyrm.reach.rules import HIGH, LOW, Reached, Span
from wyrm.reach.ways import entries_of, targets_of
from wyrm.reach.zones import Zone

if TYPE_CHECKING:
    from wyrm.reach.facts import Analysis

# Scores at most the negative of this number get no weight beside others.
LARGE_SCORE = 1e4
_OTHER = "other"
ANY_NUMBER: Span = frozenset([LOW, HIGH, _OTHER])
NUMBER: Span = frozenset([_OTHER])
FRACTION: Span = frozenset()
"""The numbers from 0 to 1."""
_TURNED = {LOW: HIGH, HIGH: LOW, _OTHER: _OTHER}


def turned(numbers: Span) -> Span:
    """Return the range of the negatives of numbers."""
    return frozenset(map(_TURNED.__getitem__, numbers)) | NUMBER


def span_of_array(array: np.ndarray) -> Span:
    """Return the range of the elements of an array."""
    if not array.size or array.dtype.kind == "b":
        return FRACTION
    low, high = array.min(), array.max()
    found = {LOW: low <= -LARGE_SCORE, HIGH: high >= LARGE_SCORE, _OTHER: not (low >= 0 and high <= 1)}
    return ANY_NUMBER if low != low else frozenset(each for each, holds in found.items() if holds)


def span_of(node: BaseNode, operands: Sequence[Reached]) -> Span:
    """Return the range of the elements of an op of operands."""
    each = [ANY_NUMBER if operand.span is None else operand.span for operand in operands]
    if node.dtype.kind == "b":
        return FRACTION
    if frozenset().union(*each) == NUMBER:
        return NUMBER
    found = _span_of_formula(node.formula, each, operands) if node.formula else each if _moves(node) else None
    if found is not None:
        return frozenset().union(*found)
    return NUMBER if all(numbers <= NUMBER for numbers in each) else ANY_NUMBER


def _span_of_formula(formula: str, each: Sequence[Span], operands: Sequence[Reached]) -> Iterable[Span] | None:
    """Return spans that contain that of a formula together; None if nothing is known of it."""
    x, y = each[0], each[-1]
    if formula == "where(x, y, z)":
        return each[1:]
    if formula in ("maximum(x, y)", "minimum(x, y)"):
        lost = LOW if formula == "maximum(x, y)" else HIGH
        return [x | y if lost in x & y else (x | y) - {lost}]
    if formula == "x + y":
        return [x, y, NUMBER]
    if formula == "-x":
        return [turned(x)]
    if formula == "x - y":
        is_one = operands[0].values.get(1.0) == []
        return [FRACTION if is_one and y == FRACTION else x | turned(y)]
    if formula == "x * y" and FRACTION in each:
        return each
    if formula == "exp(x)":
        return [NUMBER | (x - {LOW})]
    return None


def _moves(node: BaseNode) -> bool:
    """Return whether the elements of a node are some of its operands, or zero."""
    form = LOOPS.of(node)
    if form.reducer is not None:
        return form.reducer.step in ("maximum(total, x)", "minimum(total, x)")
    if node.same_elements or entries_of(node) is not None:
        return True
    targets = targets_of(node)
    return bool(targets) and not any(target is not None and target.adds for target in targets)


def lowered(x: Reached) -> list[Zone] | None:
    """Return the zones outside of which elements are very low; None if -inf says as much."""
    low, infinite = x.values.get(LOW), x.values.get(-inf)
    if low is None or (infinite is not None and all(any(z.within(each) for each in low) for z in infinite)):
        return None
    return low


def highest(analysis: Analysis, node: BaseNode, x: Reached, rows: Sequence[Zone], low: list[Zone]) -> Reached | None:
    """Return an operand of a maximum without elements that are very low; None if it may have no others.

    `rows` are the zones of the rows that have another element.
    """
    if not any(not analysis.tidy(zone).bounds for zone in rows):
        op = analysis.user_op(node)
        analysis.doubts.append(
            f"some rows of {op.op_name()} at {op.location} may have no score but masked ones: mask with -inf"
        )
        return None
    infinite = x.values.get(-inf)
    masked = low if infinite is None else analysis.met(low, infinite)
    return x.replaced(zones=analysis.met(x.zones, low), values={**x.values, -inf: masked})


def without_weight(analysis: Analysis, node: BaseNode, x: Reached) -> list[Zone] | None:
    """Return the zones outside of which `exp(x)` is 0 as a score is very low; None if none is."""
    low = lowered(x)
    if low is not None:
        analysis.assumed.append(
            f"scores that a mask lowers to -1e4 or less are the lowest of their rows by far, so their weight is 0 "
            f"({analysis.user_op(node).location})"
        )
    return low
