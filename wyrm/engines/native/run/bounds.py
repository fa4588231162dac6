"""Bounds of a step: between which numbers an optimizer's rule leaves parameters and state, by interval arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from wyrm.engines.optimizer import UpdateRule
from wyrm.graph.base import BaseNode
from wyrm.graph.schedule import Schedule
from wyrm.graph.storage import bound_array
from wyrm.ops.elementwise.formula import MASKS, Attribute, EarlierCall, FormulaCall, Operand, parse
from wyrm.support.records import Record

Interval: TypeAlias = tuple[float, float]
"""The least and the greatest number that a value may have."""
_UNBOUNDED = (-math.inf, math.inf)
# Elements whose bounds are found at once, so that they are read from memory once.
_BLOCK = 2**16
# More than the rounding of a sum, which is at least its largest term, and of its root.
_ROUNDED = 1.0 + 1e-6
# By how much values may move before their bounds are computed again, and after how many steps they are at the latest.
_SLACK = 2.0**72
_MOST_STEPS = 2**20
# Old values times a smaller factor have bounds of their own.
_NEARLY_ONE = 0.999
# Attempts to find bounds that contain those after a step: each makes them four times as wide.
_ROUNDS = 16


def norm_bounds(array: np.ndarray, negative: bool = True) -> Interval:
    """Return bounds of the elements from their Euclidean norm, which threads compute in one pass over the memory.

    Rounded sums of squares are at least as large as each square. A square that is too small counts as the smallest.

    >>> norm_bounds(np.array([3.0, -4.0]))[1] > 4.0
    True
    """
    flat = array.reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        most = math.sqrt(float(np.dot(flat, flat))) * _ROUNDED + math.sqrt(float(np.finfo(array.dtype).tiny))
    return -most if negative else 0.0, most


def bounds_of(array: np.ndarray) -> Interval:
    """Return the least and the greatest element and 0; both are NaN if one is.

    >>> bounds_of(np.array([2.0, 3.0]))
    (0.0, 3.0)
    """
    flat, least, greatest = array.reshape(-1), 0.0, 0.0
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        least = float(np.minimum(least, block.min()))
        greatest = float(np.maximum(greatest, block.max()))
    return least, greatest


def _exactly(number: float) -> Interval:
    return float(number), float(number)


def hull(x: Interval, y: Interval) -> Interval:
    """Return the least interval with both."""
    return min(x[0], y[0]), max(x[1], y[1])


class RuleBounds:
    """The bounds that follow from a rule: of the new parameter and its new state, from those of the old ones.

    A value is without bounds where a computation may leave the range of the dtype, or has no rule here.
    """

    def __init__(self, rule: UpdateRule) -> None:
        dtype = rule.parameter.dtype
        self._rounded: Callable[[float], Any] = dtype.type
        self._most = float(np.finfo(dtype).max) / 4.0
        self._least = float(np.finfo(dtype).tiny)
        schedule = Schedule(rule.outputs)
        changed = [rule.parameter, *rule.state.values()]
        inputs: set[BaseNode] = {rule.gradient, *changed, *rule.hyperparameters.values()}
        places: dict[BaseNode, int] = {}
        self._known: list[Interval] = []
        self._calls: list[tuple[int, _Function, tuple[int, ...]]] = []
        for node in schedule.nodes:
            if not node.is_leaf:
                parents = [places[parent] for parent in schedule.parents(node)]
                places[node] = self._add(node, parents)
                continue
            places[node] = self._new(_UNBOUNDED if node in inputs else _exactly(bound_array(node).item()))
        self._changed = [places.get(leaf) for leaf in changed]
        self._gradient = places.get(rule.gradient)
        self._numbers = {name: places[leaf] for name, leaf in rule.hyperparameters.items() if leaf in places}
        self._outputs = [places[node] for node in schedule.outputs]
        called = {place for place, _, _ in self._calls}
        self._leaves = [place for place in range(len(self._known)) if place not in called]
        self._moves = [
            _move(schedule, places, leaf, node) for leaf, node in zip(changed, schedule.outputs, strict=True)
        ]

    def after_step(
        self, before: Sequence[Interval], gradient: Interval, numbers: Mapping[str, Interval]
    ) -> list[Interval] | None:
        """Return the bounds of the new parameter and state, in the order of the rule; None if there are none.

        `before` has those of the old ones, and `numbers` those of the hyperparameters.
        """
        values = self._values(before, gradient, numbers)
        return None if values is None else self._new_bounds(values)

    def steps(self, before: Sequence[Interval], gradient: Interval, numbers: Mapping[str, Interval]) -> int:
        """Return for how many steps, perhaps 0, all values have bounds while gradients and numbers keep theirs.

        What moves by a bounded amount leaves wider bounds after many steps. Other bounds must contain the new ones.
        """
        values = self._values(before, gradient, numbers)
        if values is None:
            return 0
        moves = [None if each is None else each.place_in(values) for each in self._moves]
        within = [
            (least, most if move is None else most + _SLACK) for (least, most), move in zip(before, moves, strict=True)
        ]
        for _ in range(_ROUNDS):
            values = self._values(within, gradient, numbers)
            if values is None:
                break
            wider = list(map(_wider, within, self._new_bounds(values), before, moves))
            if wider == within:
                again = [None if each is None else each.place_in(values) for each in self._moves]
                if again != moves:  # what is at most 1 in the old bounds alone
                    break
                sizes = [_abs(values[move])[1] for move in moves if move is not None]
                # Rounding adds less than the moves.
                return int(min(_MOST_STEPS, _SLACK / (2.0 * max([1e-30, *sizes]))))
            within = wider
        return 0

    def _new_bounds(self, values: Sequence[Interval]) -> list[Interval]:
        """Return the bounds of outputs; denormal state becomes 0."""
        return [(min(least, 0.0), max(most, 0.0)) for least, most in (values[place] for place in self._outputs)]

    def _values(
        self, before: Sequence[Interval], gradient: Interval, numbers: Mapping[str, Interval]
    ) -> list[Interval] | None:
        """Return the bounds of all values; None if one may leave the range of the dtype."""
        values = self._known.copy()
        for place, interval in zip(self._changed, before, strict=True):
            if place is not None:
                values[place] = interval
        if self._gradient is not None:
            values[self._gradient] = gradient
        for name, place in self._numbers.items():
            values[place] = numbers[name]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for place in self._leaves:
                if not self._put_bounds(values, place, values[place]):
                    return None
            for place, function, arguments in self._calls:
                if not self._put_bounds(values, place, function(*[values[each] for each in arguments])):
                    return None
        return values

    def _put_bounds(self, values: list[Interval], place: int, interval: Interval) -> bool:
        """Store bounds as the dtype has them; return whether they are in its range.

        Rounding keeps the order of numbers, so rounded bounds are those of rounded values. Denormal ones may be 0.
        """
        least, low, high = self._least, float(self._rounded(interval[0])), float(self._rounded(interval[1]))
        values[place] = 0.0 if 0.0 < low < least else low, 0.0 if -least < high < 0.0 else high
        return -self._most <= low and high <= self._most

    def _new(self, interval: Interval) -> int:
        self._known.append(interval)
        return len(self._known) - 1

    def _add(self, node: BaseNode, parents: Sequence[int]) -> int:
        """Add the calls of a node's formula; return the place of its value."""
        places: list[int] = []
        for call in parse(node.formula):
            arguments = tuple(self._place(each, node, parents, places) for each in call.arguments)
            place = self._new(_UNBOUNDED)
            self._calls.append((place, self._function_of_intervals(call, arguments), arguments))
            places.append(place)
        return places[-1]

    def _place(self, argument: object, node: BaseNode, parents: Sequence[int], places: Sequence[int]) -> int:
        match argument:
            case Operand(position):
                return parents[position]
            case EarlierCall(position):
                return places[position]
            case Attribute(name):
                return self._new(_exactly(getattr(node, name)))
            case float():
                return self._new(_exactly(argument))
        raise AssertionError(f"{argument} is no argument of a formula")

    def _function_of_intervals(self, call: FormulaCall, arguments: tuple[int, ...]) -> _Function:
        if call.function == "multiply" and arguments[0] == arguments[1]:
            return _square
        if call.function == "power" and self._known[arguments[1]] == (2.0, 2.0):
            return _square
        return _FUNCTIONS.get(call.function, _mask_interval if call.function in MASKS else _anything)


def _wider(within: Interval, new: Interval, before: Interval, move: int | None) -> Interval:
    """Return the bounds to try after those that new ones may exceed."""
    if new[0] >= within[0] and (move is not None or new[1] <= within[1]):
        return within
    return hull(within, (4.0 * new[0], 4.0 * new[1])) if move is None else (before[0] - _SLACK, within[1])


class _Move(Record):
    """The place of what an output adds to the old value, or subtracts from it.

    The old value may be multiplied first: `factor` is the place of the factor, if there is one.
    """

    __slots__ = ("factor", "place")
    factor: int | None
    place: int

    def place_in(self, values: Sequence[Interval]) -> int | None:
        """Return the place, None if the factor is far below 1 or may be above it."""
        if self.factor is None:
            return self.place
        least, most = values[self.factor]
        return self.place if least >= 0.0 and _NEARLY_ONE < most <= 1.0 else None


def _move(schedule: Schedule, places: Mapping[BaseNode, int], old: BaseNode, new: BaseNode) -> _Move | None:
    """Return by what `new` differs from `old`, None if it has another form."""
    if new.formula not in ("x - y", "x + y"):
        return None
    kept, move = schedule.parents(new)
    if kept is old:
        return _Move(None, places[move])
    factors = schedule.parents(kept) if kept.formula == "x * y" else ()
    others = [each for each in factors if each is not old]
    return _Move(places[others[0]], places[move]) if len(others) == 1 and len(factors) == 2 else None


# --- functions of intervals, whose ends are 0 or normal numbers -------------------------------------------------------

_Function: TypeAlias = Callable[..., Interval]


def _add(x: Interval, y: Interval) -> Interval:
    return x[0] + y[0], x[1] + y[1]


def _subtract(x: Interval, y: Interval) -> Interval:
    return x[0] - y[1], x[1] - y[0]


def _multiply(x: Interval, y: Interval) -> Interval:
    products = x[0] * y[0], x[0] * y[1], x[1] * y[0], x[1] * y[1]
    return min(products), max(products)


def _square(x: Interval, *exponent: Interval) -> Interval:
    squares = x[0] * x[0], x[1] * x[1]
    return 0.0 if x[0] <= 0.0 <= x[1] else min(squares), max(squares)


def _divide(x: Interval, y: Interval) -> Interval:
    return _UNBOUNDED if y[0] <= 0.0 <= y[1] else _multiply(x, (1.0 / y[1], 1.0 / y[0]))


def _sqrt(x: Interval) -> Interval:
    return (math.sqrt(x[0]), math.sqrt(x[1])) if x[0] >= 0.0 else _UNBOUNDED


def _abs(x: Interval) -> Interval:
    least = 0.0 if x[0] <= 0.0 <= x[1] else min(abs(x[0]), abs(x[1]))
    return least, max(abs(x[0]), abs(x[1]))


def _mask_interval(*x: Interval) -> Interval:
    return 0.0, 1.0


def _anything(*x: Interval) -> Interval:
    return _UNBOUNDED


_FUNCTIONS: dict[str, _Function] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "sqrt": _sqrt,
    "abs": _abs,
    "negative": lambda x: (-x[1], -x[0]),
    "maximum": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "minimum": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "where": lambda mask, x, y: hull(x, y),
    "sign": lambda x: (-1.0, 1.0),
    "tanh": lambda x: (-1.0, 1.0),
}
