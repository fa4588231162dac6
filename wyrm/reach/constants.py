"""What is known of constants: where they are 0, 1 or -inf, and integers by their positions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np

from wyrm.graph.base import BaseNode
from wyrm.reach.extremes import LARGE_SCORE, span_of_array
from wyrm.reach.rules import HIGH, LOW, Entry, Numbers, Reached
from wyrm.reach.zones import EVERYWHERE, ZERO, Atoms, Bound, Variable, Zone, is_everywhere


def known_constant(atoms: Atoms, node: BaseNode, array: np.ndarray, axes: Sequence[Entry]) -> Reached:
    """Return what is known of a node with these elements."""
    found = Reached(tuple(axes))
    found.span = span_of_array(array)
    if not array.size:
        return found
    if array.dtype.kind == "i":
        found.numbers, found.cases = _numbers(array, axes), _cases(array, axes)
        return found
    where: dict[float | str, Any] = {0.0: array == 0, 1.0: array == 1}
    if array.dtype.kind == "f":
        where |= {-inf: array == -inf, LOW: array <= -LARGE_SCORE, HIGH: array >= LARGE_SCORE}
    for value, mask in where.items():
        if mask.any():
            zones = _covering(atoms, ~mask, axes)
            if not is_everywhere(zones):
                for zone in zones:
                    zone.mask = node
                found.values[value] = zones
    return found


def _numbers(array: np.ndarray, axes: Sequence[Entry]) -> Numbers:
    """Return bounds of integers, and of their differences from the positions along each axis."""
    found: Numbers = {(ZERO, ZERO): (int(array.min()), int(array.max()))}
    for k, entry in enumerate(axes):
        if entry:
            beside = array - np.arange(array.shape[k]).reshape([-1 if i == k else 1 for i in range(array.ndim)])
            found[entry[0], ZERO] = int(beside.min()), int(beside.max())
    return found


def _cases(array: np.ndarray, axes: Sequence[Entry]) -> list[tuple[list[Bound], Numbers]]:
    """Return bounds of integers along one axis in three parts: those below, at and above their positions."""
    if array.ndim != 1 or not axes[0]:
        return []
    beside, atom, found = array - np.arange(len(array)), axes[0][0], []
    for sign in (-1, 0, 1):
        (at,) = np.nonzero(np.sign(beside) == sign)
        if len(at):
            where: list[Bound] = [(atom, ZERO, int(at.max())), (ZERO, atom, -int(at.min()))]
            numbers: Numbers = {
                (atom, ZERO): (int(beside[at].min()), int(beside[at].max())),
                (ZERO, ZERO): (int(array[at].min()), int(array[at].max())),
            }
            found.append((where, numbers))
    return found


def _covering(atoms: Atoms, mask: np.ndarray, axes: Sequence[Entry]) -> list[Zone]:
    """Return zones that contain the true elements of a mask.

    One if it contains no others, else three: below, on and above the diagonal of the last two axes.
    """
    if mask.all() or not mask.any():
        return EVERYWHERE if mask.all() else []
    index, long = np.nonzero(mask), [k for k, entry in enumerate(axes) if entry]
    whole = _limits(index, long)
    inside = np.ones(mask.shape, bool)
    for (k, m), limit in whole.items():
        places: Any = [
            0
            if each is None
            else np.expand_dims(np.arange(mask.shape[each]), [d for d in range(mask.ndim) if d != each])
            for each in (k, m)
        ]
        inside &= places[0] - places[1] <= limit
    if inside.sum() == len(index[0]):
        limits = [whole]
    else:
        side = np.sign(index[long[-2]] - index[long[-1]]) if len(long) > 1 else np.zeros(len(index[0]))
        limits = [_limits([each[side == part] for each in index], long) for part in np.unique(side)]
    names: dict[int | None, Variable] = {None: ZERO, **{k: axes[k][0] for k in long}}
    return [atoms.tidy(Zone({(names[k], names[m]): limit for (k, m), limit in each.items()})) for each in limits]


def _limits(index: Sequence[np.ndarray], long: Sequence[int]) -> dict[tuple[int | None, int | None], int]:
    """Return the greatest differences of the positions of elements along pairs of axes, None for the number 0."""
    of: dict[int | None, Any] = {None: 0, **{k: index[k] for k in long}}
    return {(k, m): int((of[k] - of[m]).max()) for k, m in itertools.permutations(of, 2)}
