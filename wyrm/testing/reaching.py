"""What an analysis of reach says of a graph, compared with what happens when elements of its leaves change."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wyrm.graph.axes import Dim, resolve_axis
from wyrm.graph.base import BaseNode
from wyrm.reach.facts import Analysis
from wyrm.reach.rules import HIGH, LOW, Entry
from wyrm.reach.zones import SOURCE, ZERO, Multiple, Variable, Zone, atom_of

Sizes = Mapping[type[Dim], int]
# The most positions of an axis that are changed, one after the other.
_POSITIONS = 4
_BOUND: dict[float | str, Callable[[np.ndarray], np.ndarray]] = {
    LOW: lambda value: value <= -9e3,
    HIGH: lambda value: value >= 9e3,
}


class Places:
    """The positions of all elements of a node, by the atoms of its axes, in a run with these sizes."""

    def __init__(self, analysis: Analysis, axes: Sequence[Entry], shape: Sequence[int], sizes: Sizes) -> None:
        self.analysis: Analysis = analysis
        self.shape: tuple[int, ...] = tuple(shape)
        self.sizes: Sizes = sizes
        self.at: dict[int, np.ndarray] = {}
        for k, (entry, size) in enumerate(zip(axes, shape, strict=True)):
            if entry:
                extents = [size] if len(entry) == 1 else [self.size(*analysis.sizes[abs(a)]) for a in entry]
                assert math.prod(extents) == size, f"the parts {extents} of an axis of size {size}"
                index = np.unravel_index(np.arange(size), extents)
                for atom, extent, each in zip(entry, extents, index, strict=True):
                    places = each if atom > 0 else extent - 1 - each
                    self.at[abs(atom)] = places.reshape([-1 if i == k else 1 for i in range(len(shape))])

    def size(self, variable: Variable, number: int = 0) -> int:
        """Return a size in this run."""
        if variable == ZERO:
            return number
        assert isinstance(variable, tuple)
        axis: Any = variable[1]
        found = self.sizes[axis] if isinstance(axis, type) else resolve_axis(axis, self.sizes)
        return int(found) + number

    def within(self, zones: Sequence[Zone], source: int = 0) -> np.ndarray:
        """Return a mask of the elements in one of the zones, for this position of the source."""
        mask = np.zeros(self.shape, bool)
        for zone in zones:
            bounds: Any = zone.bounds
            for variable in {x for key in bounds for x in key}:
                atom = atom_of(variable)
                if atom is not None and atom not in self.at and bounds is not None:
                    bounds = self.analysis.projected(bounds, variable)
            if bounds is not None:
                inside = np.ones(self.shape, bool)
                for (u, v), limit in bounds.items():
                    inside &= self._value(u, source) - self._value(v, source) <= limit
                mask |= inside
        return mask

    def _value(self, variable: Variable, source: int) -> Any:
        if variable == SOURCE:
            return source
        if type(variable) is Multiple:
            return self.at[variable[0]] * variable[1]
        return self.at[variable] if type(variable) is int else self.size(variable)


class Wrong(NamedTuple):
    """A node of which an analysis says something that is not so."""

    node: BaseNode
    text: str


def unsound(
    nodes: Sequence[BaseNode],
    leaves: Mapping[BaseNode, np.ndarray],
    compute: Callable[[Mapping[BaseNode, np.ndarray]], Sequence[np.ndarray]],
    sizes: Sizes,
    seed: int = 0,
) -> Wrong | None:
    """Return the first node that changes though an analysis says that it does not depend on what was changed.

    `leaves` are changed, all elements of each and those at some positions of each axis. `compute` returns the values of
    the nodes for other arrays of the leaves.
    """
    random = np.random.default_rng(seed)
    before = compute(leaves)
    for leaf, array in leaves.items():
        for axis in (None, *range(array.ndim)) if array.size else ():
            analysis = Analysis(nodes, {leaf: axis})
            places = [
                Places(analysis, analysis.known[node].axes, value.shape, sizes)
                for node, value in zip(nodes, before, strict=True)
            ]
            for node, place, value in zip(nodes, places, before, strict=True):
                text = _wrong_values(place, analysis.known[node], value)
                if text is not None:
                    return Wrong(node, text)
            known = [analysis.known[node].zones for node in nodes]
            count = 1 if axis is None else array.shape[axis]
            chosen = range(count) if count <= _POSITIONS else sorted(random.choice(count, _POSITIONS, replace=False))
            for position in map(int, chosen):
                allowed = [place.within(zones, position) for place, zones in zip(places, known, strict=True)]
                if all(each.all() for each in allowed):
                    continue
                try:
                    after = compute({**leaves, leaf: _changed(array, axis, position, random)})
                except Exception:  # an op may refuse other operands, as a matrix without an inverse
                    continue
                if any(map(_became_nan, before, after)):
                    continue
                for node, old, new, mask in zip(nodes, before, after, allowed, strict=True):
                    differs = ~_equal(old, new) & ~mask
                    if differs.any():
                        at = tuple(map(int, np.argwhere(differs)[0]))
                        what = leaf.name or f"an operand of shape {array.shape}"
                        of = f"all of {what}" if axis is None else f"axis {axis} of {what} at {position}"
                        return Wrong(node, f"element {at} depends on {of}, which is said not to reach it")
    return None


def _became_nan(before: np.ndarray, after: np.ndarray) -> bool:
    """Return whether a change made numbers infinite or NaN: proofs are about finite ones."""
    if before.dtype.kind != "f":
        return False
    return bool((np.isfinite(before) & ~np.isfinite(after)).any())


def _wrong_values(places: Places, known: Any, value: np.ndarray) -> str | None:
    """Return a claim about values that is wrong."""
    for each, zones in known.values.items():
        holds = _BOUND.get(each, lambda x, each=each: x == each)(value) | (value != value)
        if not (holds | places.within(zones, 0)).all() and not any(SOURCE in key for z in zones for key in z.bounds):
            return f"elements are not {each}"
    for (u, v), (low, high) in (known.numbers or {}).items():
        if all(atom_of(x) is None or x in places.at for x in (u, v)):
            rest = value - places._value(u, 0) + places._value(v, 0)
            if not ((rest >= low) & (rest <= high)).all():
                return f"integers are not within {low} and {high} of {u} - {v}"
    return None


def _changed(array: np.ndarray, axis: int | None, position: int, random: np.random.Generator) -> np.ndarray:
    """Return an array with other elements at a position of an axis, or everywhere."""
    other = np.array(array)
    where: Any = ... if axis is None else (slice(None),) * axis + (position,)
    part = other[where]
    if array.dtype.kind == "f":
        other[where] = part * random.uniform(1.5, 2.5, part.shape) + random.uniform(-0.7, 0.7, part.shape)
    elif array.dtype.kind == "b":
        other[where] = ~part
    else:
        low, high = int(array.min()), int(array.max())
        other[where] = random.integers(low, high + 1, part.shape)
    return other


def _equal(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return where values are the same, but for the rounding of sums in another order."""
    if before.dtype.kind != "f":
        return np.asarray(before == after)
    finite = before[np.isfinite(before)]
    scale = float(np.abs(finite).max(initial=0.0))
    with np.errstate(all="ignore"):
        return np.asarray(np.isclose(before, after, rtol=1e-9, atol=1e-11 * min(scale, 1e12), equal_nan=True))
