"""Moves: how positions of an operand become those of a result, as index maps, windows and shifts say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from wyrm.graph.base import BaseNode
from wyrm.reach.formulas import summed
from wyrm.reach.rules import Entry, Numbers, Reached
from wyrm.reach.zones import ZERO, Bound, Variable, linked

if TYPE_CHECKING:
    from wyrm.reach.facts import Analysis


class Move:
    """How positions of an operand become those of a result.

    `names` are positions of the result that equal some of the operand. Of the others only their links are known.
    """

    def __init__(
        self, analysis: Analysis, operand: Reached, names: Mapping[int, int], bounds: Sequence[Bound] = ()
    ) -> None:
        self.analysis, self.operand = analysis, operand
        self._names, self._bounds = dict(names), list(bounds)
        self._links: dict[int, Numbers] = {}  # of the positions that the result lacks
        self._shifts: dict[int, tuple[int, float, float]] = {}  # those of the result, with the differences

    def place(self, atom: int) -> int:
        """Return the name of a position of the operand, a new one if the result lacks it."""
        if abs(atom) not in self._names:
            place = self._names[abs(atom)] = self.analysis.fresh(self.analysis.sizes[abs(atom)])
            self._links[place] = {}
        return self._names[abs(atom)] if atom > 0 else -self._names[abs(atom)]

    def link(self, position: int, numbers: Numbers) -> None:
        """Say that a position, from the end if it has a minus, is an integer with these bounds.

        The position is one of the operand and the bounds are by those of the result, or the other way round.
        """
        plus: Variable = position
        minus, start = ZERO, 0
        if position < 0:
            (plus, last), minus = self.analysis.sizes[-position], -position
            start = last - 1
        elif position in self._links:
            self._links[position] = numbers
        for (u, v), (low, high) in numbers.items():
            self._bounds += linked([plus, v], [minus, u], low - start, high - start)
            if position > 0 and v == ZERO and type(u) is int:
                if position in self._links:
                    self._shifts[position] = u, low, high
                else:
                    self._shifts[u] = position, -high, -low

    def made(self, node: BaseNode, axes: Sequence[Entry] = ()) -> Reached:
        """Return what is known of the operand at the positions of the result of `node`."""
        bounds, wholes = self._of_wholes() if self._shifts else ([], [])
        gone = [*self._links, *wholes]
        found = self.analysis.moved(node, self.operand, self._names, self._bounds + bounds, gone, axes)
        numbers = found.numbers or {}
        for pair in [pair for pair in numbers if not self._links.keys().isdisjoint(pair)]:
            limits, place = numbers.pop(pair), pair[0]
            if pair[1] == ZERO and type(place) is int:  # the integers at a position are those at another one
                numbers |= summed(self._links[place], {(ZERO, ZERO): limits}, 1)
        found.numbers = numbers or None
        return found

    def _of_wholes(self) -> tuple[list[Bound], list[int]]:
        """Return bounds of divided axes of which parts move, and the atoms that these replace."""
        bounds, gone, analysis = list[Bound](), list[int](), self.analysis
        for (parts, factors), whole in analysis.wholes_of(self.operand).items():
            old = tuple(self._names.get(atom, atom) for atom in parts if atom in self._names or atom in analysis.kept)
            moving = [k for k, atom in enumerate(old) if atom in self._shifts]
            if len(old) < len(parts) or not moving:
                continue
            before = analysis.moved_whole(whole, factors, parts, old)
            gone.append(before)
            if all(factors[k] is not None for k in moving):
                low, high = (sum(self._shifts[old[k]][i] * (factors[k] or 0) for k in moving) for i in (1, 2))
                new = tuple(self._shifts[atom][0] if atom in self._shifts else atom for atom in old)
                bounds += linked([before], [analysis.moved_whole(whole, factors, parts, new)], low, high)
        return bounds, gone
