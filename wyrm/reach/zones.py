"""Zones: where an element may depend on the tracked position of an input.

A zone is a conjunction of bounds `u - v <= c` between variables. A variable is the tracked position of the input,
a position along an axis (an atom, which is an integer), a multiple of one, an open size, or zero. A list of zones holds
where one of them does; the empty list holds nowhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Any, TypeAlias

from wyrm.graph.axes import Axis, Derived, Dims, axis_size
from wyrm.graph.base import BaseNode
from wyrm.graph.quotients import expression_of

Variable: TypeAlias = int | str | tuple[Any, ...]
Bound: TypeAlias = tuple[Variable, Variable, float]
Bounds: TypeAlias = dict[tuple[Variable, Variable], float]
# A size as (variable, number) is their sum.
Size: TypeAlias = tuple[Variable, int]
# Positions with a factor each, None for one that is not known: their sum is a position along an axis that was divided.
Parts: TypeAlias = tuple[tuple[int, ...], tuple[int | None, ...]]

ZERO: Variable = "0"
SOURCE: Variable = "source"
# Above this number, the zones of a node become one that contains them.
MOST_ZONES = 10
# No position is as large.
_LARGE = 10**9
# The size of an axis of which nothing is known.
ANY_SIZE: Size = (ZERO, _LARGE)


class Multiple(tuple[int, int]):
    """The variable (atom, factor), a position times a number above 1: for strides and divided axes."""

    __slots__ = ()


class Zone:
    """A conjunction of bounds; `node` is the op that made it from `origin`, and `mask` the mask that restricts it."""

    __slots__ = ("bounds", "depth", "mask", "node", "origin")

    def __init__(
        self,
        bounds: Bounds,
        node: BaseNode | None = None,
        origin: Zone | None = None,
        mask: BaseNode | None = None,
    ) -> None:
        self.bounds: Bounds = bounds
        self.node: BaseNode | None = node
        self.origin: Zone | None = origin
        self.depth: int = 0 if origin is None else origin.depth + 1
        self.mask: BaseNode | None = origin.mask if mask is None and origin is not None else mask

    def within(self, other: Zone) -> bool:
        """Return whether this zone has each bound of `other`, or a tighter one."""
        own = self.bounds
        return all(own.get(key, inf) <= limit for key, limit in other.bounds.items())


def equated(pairs: Iterable[tuple[Variable, Variable]]) -> Bounds:
    """Return the bounds of variables that are equal in pairs."""
    return {pair: 0 for u, v in pairs for pair in ((u, v), (v, u))}


EVERYWHERE: list[Zone] = [Zone({})]


def is_everywhere(zones: Sequence[Zone]) -> bool:
    """Return whether one of the zones has no bounds; it is the first one then."""
    return zones is EVERYWHERE or bool(zones and not zones[0].bounds)


def atom_of(variable: Variable) -> int | None:
    """Return the atom of a position or of a multiple of one; None for other variables."""
    return variable if type(variable) is int else variable[0] if type(variable) is Multiple else None


def renamed(variable: Variable, names: Mapping[int, int]) -> Variable:
    """Return a variable with another atom."""
    if type(variable) is int:
        return names.get(variable, variable)
    if type(variable) is Multiple:
        return Multiple((names.get(variable[0], variable[0]), variable[1]))
    return variable


def multiple(variable: Variable, factor: int) -> Variable:
    """Return the variable that is a number of times a position."""
    return Multiple((variable, factor)) if type(variable) is int and factor != 1 else variable


def cancelled(positive: Iterable[Variable], negative: Iterable[Variable]) -> tuple[Variable, Variable] | None:
    """Return (u, v) where `u - v` is one sum minus another; None if more than two variables do not cancel."""
    plus, minus = [x for x in positive if x != ZERO], [x for x in negative if x != ZERO]
    for variable in list(plus):
        if variable in minus:
            plus.remove(variable)
            minus.remove(variable)
    return None if len(plus) > 1 or len(minus) > 1 else ((plus or [ZERO])[0], (minus or [ZERO])[0])


def linked(positive: Iterable[Variable], negative: Iterable[Variable], low: float, high: float) -> list[Bound]:
    """Return the bounds of `low <= sum(positive) - sum(negative) <= high`; none if more than two variables remain."""
    pair = cancelled(positive, negative)
    if pair is None or pair[0] == pair[1]:
        return []
    u, v = pair
    return [(x, y, limit) for x, y, limit in ((u, v, high), (v, u, -low)) if limit < inf]


def size_of(axis: Axis) -> Size:
    """Return the size of an axis."""
    if type(axis) is int:
        return ZERO, axis
    size = axis_size(axis)
    if size is not None:
        return ZERO, size
    base, factor, plus, over = expression_of(axis)
    if factor == over == 1:
        return ("size", base if isinstance(base, Derived) else type(base)), plus
    return ("size", axis), 0


class Atoms:
    """The positions along axes, with their sizes, and the arithmetic of zones over them."""

    def __init__(self) -> None:
        self.sizes: dict[int, Size] = {}
        self.extent: Size | None = None  # the number of positions of the input that are tracked
        self.kept: frozenset[int] = frozenset()  # the positions of the steps of loops around, which no op projects
        self.wholes: dict[Parts, int] = {}  # the positions along axes that were divided, by their parts
        self._parts: dict[int, Parts] = {}  # the same the other way round
        self._implied: dict[Variable, list[Bound]] = {}

    def fresh(self, size: Size) -> int:
        """Return a new atom."""
        atom = len(self.sizes) + 1
        self.sizes[atom] = size
        return atom

    def whole_of(self, parts: Parts, size: Size) -> int:
        """Return the atom of an axis that was divided into some parts: other parts are those of another position."""
        if parts not in self.wholes:
            self.wholes[parts] = self.fresh(size)
            self._parts[self.wholes[parts]] = parts
        return self.wholes[parts]

    def factors(self, atoms: Sequence[int]) -> tuple[int | None, ...]:
        """Return the factors of the parts into which a reshape divides an axis."""
        found: list[int | None] = [1]
        for atom in reversed(atoms[1:]):
            variable, number = self.sizes[atom]
            found.append(None if variable != ZERO or found[-1] is None else found[-1] * number)
        return tuple(reversed(found))

    def moved_whole(self, whole: int, factors: tuple[int | None, ...], old: Sequence[int], new: tuple[int, ...]) -> int:
        """Return the atom of an axis that was divided, at other parts."""
        size = self.sizes[whole]
        if any(self.sizes[a] != self.sizes[b] for a, b in zip(old, new, strict=True)):
            most = [(self.sizes[a][1] - 1) * (factor or 0) for a, factor in zip(new, factors, strict=True)]
            is_known = None not in factors and all(self.sizes[a][0] == ZERO for a in new)
            size = (ZERO, sum(most) + 1) if is_known else ANY_SIZE
        return self.whole_of((new, factors), size)

    def axes(self, dims: Dims) -> tuple[tuple[int, ...], ...]:
        """Return new atoms for axes: none for one of size 1, else one."""
        return tuple(() if axis_size(axis) == 1 else (self.fresh(size_of(axis)),) for axis in dims)

    def implied(self, variable: Variable) -> list[Bound]:
        """Return the bounds that every value of a variable has: a position is at least 0 and at most the size - 1."""
        found = self._implied.get(variable)
        if found is None:
            least: list[Bound] = [] if variable == ZERO else [(ZERO, variable, 0)]
            found = least
            size = self.extent if variable == SOURCE else self.sizes[variable] if type(variable) is int else None
            if size is not None:
                found.append((variable, size[0], size[1] - 1))
            self._implied[variable] = found
        return found

    def closed(self, bounds: Bounds, pairs: Iterable[tuple[Variable, Variable]] = ()) -> Bounds | None:
        """Return the tightest bounds between all variables, with the implied ones; None if no values satisfy them.

        The variables are those of the bounds and of `pairs`.
        """
        if pairs:
            bounds = {**dict.fromkeys(pairs, _LARGE), **bounds}
        edges, seen, todo = dict(bounds), set[Variable](), {x for key in bounds for x in key}
        while todo:
            variable = todo.pop()
            seen.add(variable)
            for u, v, limit in self.implied(variable):
                if limit < edges.get((u, v), inf):
                    edges[u, v] = limit
                todo |= {u, v} - seen
        for middle in seen:
            into = [(u, edges[u, middle]) for u in seen if (u, middle) in edges]
            out = [(v, edges[middle, v]) for v in seen if (middle, v) in edges]
            for u, first in into:
                for v, second in out:
                    if first + second < edges.get((u, v), inf):
                        edges[u, v] = first + second
        return None if any(edges.get((x, x), 0) < 0 for x in seen) else edges

    def limited(self, bounds: Bounds, u: Variable, v: Variable, limit: float) -> bool:
        """Return whether `u - v <= limit` follows from bounds."""
        if bounds.get((u, v), inf) <= limit:
            return True
        edges = self.closed(bounds, [(u, v)])
        return edges is None or edges.get((u, v), inf) <= limit

    def window(self, zones: Iterable[Zone], place: Variable) -> tuple[float, float]:
        """Return how far before and after a position `place` zones go, infinity for the first and the last one."""
        pairs = (place, SOURCE), (SOURCE, place)
        always = self.closed({}, pairs) or dict.fromkeys(pairs, _LARGE)
        edges = [self.closed(zone.bounds, pairs) or always for zone in zones]
        limits = [max(each[pair] for each in edges) for pair in pairs]
        back, ahead = (
            inf if limit >= min(always[pair], _LARGE // 10) else limit
            for limit, pair in zip(limits, pairs, strict=True)
        )
        return back, ahead

    def inside(self, zone: Zone, other: Zone) -> bool:
        """Return whether a zone lies within another one: its bounds imply those of the other."""
        return all(self.limited(zone.bounds, *key, limit) for key, limit in other.bounds.items())

    def projected(self, bounds: Bounds, variable: Variable) -> Bounds | None:
        """Return the bounds that remain without a variable, by Fourier-Motzkin; None if they contradict each other."""
        if not any(variable in key for key in bounds):
            return bounds
        rest = {key: limit for key, limit in bounds.items() if variable not in key}
        of = [(u, v, limit) for (u, v), limit in bounds.items() if variable in (u, v)] + self.implied(variable)
        above = [(u, limit) for u, v, limit in of if v == variable]
        below = [(v, limit) for u, v, limit in of if u == variable]
        for (u, first), (v, second) in itertools.product(above, below):
            limit = first + second
            if u == v:
                if limit < 0:
                    return None
            # Bounds between sizes alone say nothing about positions.
            elif (type(u) is int or type(v) is int or SOURCE in (u, v)) and (
                limit < rest.get((u, v), inf) and (u, v, limit) not in (*self.implied(u), *self.implied(v))
            ):
                rest[u, v] = limit
        return rest

    def tidy(self, zone: Zone) -> Zone:
        """Return a zone without the bounds that follow from the sizes of axes alone."""
        kept = {key: limit for key, limit in zone.bounds.items() if not self.limited({}, *key, limit)}
        return zone if len(kept) == len(zone.bounds) else Zone(kept, zone.node, zone.origin, zone.mask)

    def hull(self, zones: Sequence[Zone]) -> Zone:
        """Return one zone that contains several."""
        first = zones[0]
        pairs = {pair for zone in zones for u, v in zone.bounds for pair in ((u, v), (v, u))}
        closed = [c for c in (self.closed(zone.bounds, pairs) for zone in zones) if c is not None]
        if not closed:
            return first
        keys = {key for zone in zones for key in zone.bounds} | {key for c in closed for key in c if SOURCE in key}
        limits = {key: max(c.get(key, inf) for c in closed) for key in keys if key[0] != key[1]}
        bounds = {key: limit for key, limit in limits.items() if limit < _LARGE // 10}
        return self.tidy(Zone(bounds, first.node, first.origin, first.mask))

    def united(self, zones: Iterable[Zone]) -> list[Zone]:
        """Return zones without those that lie within others; one zone that contains all of them if they are many."""
        zones = list(zones)
        if len(zones) < 2:
            return zones
        kept: list[Zone] = []
        for zone in sorted(zones, key=lambda each: (len(each.bounds), each.depth)):
            if not any(zone.within(other) for other in kept):
                kept.append(zone)
        return [self.hull(kept)] if len(kept) > MOST_ZONES else kept

    def met(self, zones: Sequence[Zone], others: Sequence[Zone]) -> list[Zone]:
        """Return the zones in which a zone of each of two lists holds."""
        if is_everywhere(others):
            return list(zones)
        found = []
        for zone, other in itertools.product(zones, others):
            bounds = dict(zone.bounds)
            for key, limit in other.bounds.items():
                if limit < bounds.get(key, inf):
                    bounds[key] = limit
            if self.closed(bounds) is not None:
                mask = zone.mask if other.mask is None else other.mask
                found.append(Zone(bounds, zone.node, zone.origin, mask))
        return self.united(found)

    def image(
        self,
        node: BaseNode | None,
        zones: Iterable[Zone],
        names: Mapping[int, int],
        extra: Sequence[Bound] = (),
        temporary: Iterable[int] = (),
    ) -> list[Zone]:
        """Return zones with other names of atoms and more bounds, made by `node`.

        The atoms that `names` lacks are projected before the bounds are added, and temporary ones afterwards.
        """
        found, gone, visible = [], set(temporary), names.keys() | self.kept
        moves = any(name != atom for atom, name in names.items())
        for zone in zones:
            bounds = self._without(zone.bounds, lambda atom: atom not in visible)
            if bounds is None:
                continue
            if moves:
                bounds = {(renamed(u, names), renamed(v, names)): limit for (u, v), limit in bounds.items()}
            if extra:
                bounds = dict(bounds)
                factors = {x[1] for key in bounds for x in key if type(x) is Multiple}
                for u, v, limit in extra:
                    bounds[u, v] = min(limit, bounds.get((u, v), inf))
                    if factors and all(x == ZERO or type(x) is int for x in (u, v)):
                        for factor in factors:
                            key = multiple(u, factor), multiple(v, factor)
                            bounds[key] = min(limit * factor, bounds.get(key, inf))
                if not gone and self.closed(bounds) is None:  # the projection finds contradictions too
                    continue
            made = self._without(bounds, gone.__contains__) if gone else bounds
            if made is not None:
                found.append(Zone(made, node, zone))
        return found

    def _without(self, bounds: Bounds, is_gone: Callable[[int], bool]) -> Bounds | None:
        """Return bounds without the variables whose atoms are gone."""
        if not bounds:
            return bounds
        rest: Bounds | None = self._between_wholes(bounds, is_gone) if self.wholes else bounds
        for variable in {x for key in bounds for x in key}:
            atom = atom_of(variable)
            if atom is not None and is_gone(atom) and rest is not None:
                rest = self.projected(rest, variable)
        return rest

    def _between_wholes(self, bounds: Bounds, is_gone: Callable[[int], bool]) -> Bounds:
        """Return bounds with those between positions whose last parts have a bound, of which one part is gone."""
        found = dict(bounds)
        for whole in dict.fromkeys(x for key in bounds for x in key if type(x) is int and x in self._parts):
            parts, factors = self._parts[whole]
            last = parts[-1]
            for (u, v), limit in bounds.items():
                other = v if u == last else u if v == last else None
                if type(other) is not int or not is_gone(last) or is_gone(other):
                    continue
                beside = self.moved_whole(whole, factors, parts, (*parts[:-1], other))
                key = (whole, beside) if u == last else (beside, whole)
                found[key] = min(limit, found.get(key, inf))
        return found
