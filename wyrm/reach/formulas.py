"""What is known of elementwise formulas: where one operand is 0, another does not count; comparisons of positions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from wyrm.graph.base import BaseNode
from wyrm.graph.loop_form import Reducer
from wyrm.reach.extremes import without_weight
from wyrm.reach.rules import HIGH, LOW, REACH, Numbers, Reached
from wyrm.reach.zones import EVERYWHERE, ZERO, Bounds, Variable, Zone, cancelled, is_everywhere, linked

if TYPE_CHECKING:
    from wyrm.reach.facts import Analysis

_VALUES = (0.0, 1.0, -inf)
_Values = dict[float | str, list[Zone]]
# Sums and differences of integers beyond it may be rounded as floats.
_EXACT = 2.0**53
_EXACT32 = 2.0**24
_COMPARISONS = {"x < y": "<", "x <= y": "<=", "x > y": ">", "x >= y": ">=", "x == y": "==", "x != y": "!="}
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def known_of_formula(analysis: Analysis, node: BaseNode, formula: str, operands: Sequence[Reached]) -> Reached:
    """Return what is known of a formula of operands at the same positions; its axes are theirs."""
    met, values = analysis.met, _Values()
    zones = [operand.zones for operand in operands]

    def outside(k: int, value: float | str) -> list[Zone]:
        return operands[k].values.get(value, EVERYWHERE)

    if formula == "same":
        values = dict(operands[0].values)
    elif len(operands) < 3 and formula == node.formula:
        for given in itertools.product(_VALUES, repeat=len(operands)):
            if all(value in each.values for value, each in zip(given, operands, strict=True)):
                result = _value(node, given)
                if result is not None and result in _VALUES:
                    somewhere = [zone for k, value in enumerate(given) for zone in outside(k, value)]
                    values[result] = met(somewhere, values.get(result, EVERYWHERE))
    if formula == "x * y":
        zones = [met(zones[0], outside(1, 0.0)), met(zones[1], outside(0, 0.0))]
        values[0.0] = met(outside(0, 0.0), outside(1, 0.0))
        for large in (LOW, HIGH):
            values[large] = met([*outside(0, 1.0), *outside(1, large)], [*outside(0, large), *outside(1, 1.0)])
    elif formula in ("x + y", "x - y"):
        zones = [met(zones[0], outside(1, -inf)), met(zones[1], outside(0, -inf))]
        values[-inf] = met(outside(0, -inf), outside(1, -inf)) if formula == "x + y" else outside(0, -inf)
        first, second = (analysis.known[parent].span for parent in node.parents)
        for large, other in ((LOW, HIGH), (HIGH, LOW)):
            own, cancels = (large, other) if formula == "x + y" else (other, large)
            values[large] = met(
                EVERYWHERE if second is None or cancels in second else outside(0, large),
                EVERYWHERE if first is None or other in first else outside(1, own),
            )
    elif formula == "exp(x)":
        low = without_weight(analysis, node, operands[0])
        if low is not None:
            zones, values[0.0] = [met(zones[0], low)], met(values.get(0.0, EVERYWHERE), low)
    elif formula == "x / y":
        zones = [zones[0], met(zones[1], outside(0, 0.0))]
        values[0.0] = outside(0, 0.0)
    elif formula == "where(x, y, z)":
        zones = [zones[0], met(zones[1], outside(0, 0.0)), met(zones[2], outside(0, 1.0))]
        for each in (*_VALUES, LOW, HIGH):
            values[each] = [*met(outside(1, each), outside(0, 0.0)), *met(outside(2, each), outside(0, 1.0))]
    elif formula in ("x & y", "x | y"):
        one, two = (0.0, 1.0) if formula == "x & y" else (1.0, 0.0)
        zones = [met(zones[0], outside(1, one)), met(zones[1], outside(0, one))]
        values[one], values[two] = met(outside(0, one), outside(1, one)), [*outside(0, two), *outside(1, two)]
    numbers = _numbers(node, formula, operands)
    if formula in _COMPARISONS and operands[0].numbers and operands[1].numbers:
        values |= _compared(_COMPARISONS[formula], operands[0].numbers, operands[1].numbers)
        for parent, known in zip(node.parents, operands, strict=True):
            if parent.dtype == np.float32 and not _is_exact(known.numbers or {}):
                analysis.assumed.append(f"float32 tells the compared positions apart, below 2**24 ({node.location})")
    return Reached((), analysis.united(itertools.chain(*zones)), _kept(analysis, node, values), numbers)


def _kept(analysis: Analysis, node: BaseNode, values: _Values) -> _Values:
    """Return the values with zones that exclude something; those of a mask know it."""
    found = {}
    for value, zones in values.items():
        tidy = analysis.united([analysis.tidy(zone) for zone in zones])
        if is_everywhere(tidy):
            continue
        for zone in tidy if node.dtype.kind == "b" else ():
            zone.mask = node if zone.mask is None else zone.mask
        found[value] = tidy
    return found


def _value(node: BaseNode, operands: tuple[float, ...]) -> float | None:
    """Return the value of an elementwise op of numbers; None if it has none."""
    parents = node.parents
    if any(p.dtype.kind == "i" or (p.dtype.kind == "b" and v == -inf) for p, v in zip(parents, operands, strict=True)):
        return None
    arrays = [np.asarray(v, p.dtype) for p, v in zip(parents, operands, strict=True)]
    try:
        with np.errstate(all="ignore"):
            value = REACH.of(node).value(node, arrays, ())
            return None if value is None else float(value)
    except (ArithmeticError, TypeError, ValueError):
        return None


@lru_cache
def reduces_to(reducer: Reducer | None, value: float | str, is_product: bool, sized: bool) -> bool:
    """Return whether a reduction of elements that all have a value is that value, also of none unless `sized`."""
    if reducer is None or value == HIGH:
        return False
    if value == LOW:
        return reducer.step == "maximum(total, x)"
    if is_product:
        return value == 0.0 and reducer == Reducer(0.0, "total + x * y")
    scope: dict[str, Any] = {"maximum": max, "minimum": min, "where": lambda c, x, y: x if c else y, "__builtins__": {}}
    try:
        for count in (1, 2, 3, 0):
            total = reducer.start
            for _ in range(count):
                total = eval(reducer.step, scope, {"total": total, "x": value})
            if reducer.finish:
                total = eval(reducer.finish, scope, {"total": total, "count": count})
            if total != value and (count or not sized):
                return False
    except (ArithmeticError, NameError, TypeError):
        return False
    return True


# --- integers ---------------------------------------------------------------------------------------------------------


def summed(x: Numbers, y: Numbers, sign: int) -> Numbers:
    """Return the bounds of `x + sign * y`."""
    found: Numbers = {}
    for ((u, v), (low, high)), ((a, b), (down, up)) in itertools.product(x.items(), y.items()):
        if sign < 0:
            a, b, down, up = b, a, -up, -down
        pair = cancelled((u, a), (v, b))
        if pair is not None:
            old = found.get(pair, (-inf, inf))
            found[pair] = max(old[0], low + down), min(old[1], high + up)
    return {pair: limits for pair, limits in found.items() if all(abs(x) < _EXACT or abs(x) == inf for x in limits)}


def _numbers(node: BaseNode, formula: str, operands: Sequence[Reached]) -> Numbers | None:
    """Return bounds of a formula of integers."""
    if formula == "same":
        return operands[0].numbers
    if formula in ("x + y", "x - y") and node.dtype.kind == "i" and operands[0].numbers and operands[1].numbers:
        return summed(operands[0].numbers, operands[1].numbers, 1 if formula == "x + y" else -1)
    if formula in ("where(x, y, z)", "maximum(x, y)", "minimum(x, y)") and node.dtype.kind == "i":
        x, y = (each.numbers or {} for each in operands[-2:])
        pairs = x.keys() | y.keys()
        return {pair: _either(_limits(x, pair), _limits(y, pair)) for pair in pairs}
    return None


def _limits(numbers: Numbers, pair: tuple[Variable, Variable]) -> tuple[float, float]:
    """Return the bounds of `value - u + v`, where positions `u` are at least 0."""
    low, high = numbers.get((ZERO, ZERO), (-inf, inf))
    return numbers.get(pair, (-inf, high) if pair[1] == ZERO else (low, inf) if pair[0] == ZERO else (-inf, inf))


def _either(x: tuple[float, float], y: tuple[float, float]) -> tuple[float, float]:
    return min(x[0], y[0]), max(x[1], y[1])


def _compared(sign: str, x: Numbers, y: Numbers) -> _Values:
    """Return where the comparison of integers is false and where it is true."""
    less, greater = Zone(_at_most(x, y, -1)), Zone(_at_most(y, x, -1))
    if sign in ("==", "!="):
        same = [Zone({**_at_most(x, y, 0), **_at_most(y, x, 0)})]
        return {0.0: same, 1.0: [less, greater]} if sign == "==" else {0.0: [less, greater], 1.0: same}
    true = {"<": less, ">": greater, "<=": Zone(_at_most(x, y, 0)), ">=": Zone(_at_most(y, x, 0))}
    return {0.0: [true[sign]], 1.0: [true[_OPPOSITE[sign]]]}


def _at_most(x: Numbers, y: Numbers, most: float) -> Bounds:
    """Return the bounds of all positions at which integers may have `x - y <= most`."""
    bounds = Bounds()
    for ((u, v), (low, _)), ((a, b), (_, up)) in itertools.product(x.items(), y.items()):
        for p, q, limit in linked((u, b), (v, a), -inf, up - low + most):
            bounds[p, q] = min(limit, bounds.get((p, q), inf))
    return bounds


def _is_exact(numbers: Numbers) -> bool:
    """Return whether all integers are so small that float32 has them."""
    low, high = numbers.get((ZERO, ZERO), (-inf, inf))
    return low >= -_EXACT32 and high <= _EXACT32
