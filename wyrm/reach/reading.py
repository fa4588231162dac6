"""What index maps say: gathers, scatters, and axes that are flattened or divided."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from wyrm.graph.axes import Axis, Dims, axis_size
from wyrm.graph.base import BaseNode
from wyrm.graph.index_maps import (
    AxisLength,
    DifferenceOfIndices,
    IndexExpression,
    IndexLiteral,
    IndexLoad,
    IndexMap,
    LoopIndex,
    ProductOfIndices,
    SumOfIndices,
)
from wyrm.graph.loop_form import ScatterTarget
from wyrm.reach.formulas import summed
from wyrm.reach.moves import Move
from wyrm.reach.rules import LOW, Entry, Numbers, Reached, own_names
from wyrm.reach.ways import factors, factors_of, grouped
from wyrm.reach.zones import (
    ANY_SIZE,
    EVERYWHERE,
    ZERO,
    Bound,
    Multiple,
    Size,
    linked,
    multiple,
    renamed,
    size_of,
)

if TYPE_CHECKING:
    from wyrm.reach.facts import Analysis

Loads = Mapping[IndexLoad, Numbers]
_UNKNOWN: Numbers = {}


def _numbers_of(
    analysis: Analysis, entry: IndexExpression, axes: Mapping[int, Entry] | Sequence[Entry], loads: Loads
) -> Numbers:
    """Return bounds of an index expression in terms of the positions along `axes`, by the depth of the loop."""
    if isinstance(entry, IndexLiteral):
        return {(ZERO, ZERO): (entry.value, entry.value)}
    if isinstance(entry, AxisLength):
        variable, number = size_of(entry.axis)
        return {(variable, ZERO): (number, number)}
    if isinstance(entry, LoopIndex):
        atoms = axes[entry.depth]
        if len(atoms) != 1:
            return {(ZERO, ZERO): (0, inf if atoms else 0)}
        variable, number = analysis.sizes[abs(atoms[0])]
        if atoms[0] > 0:
            return {(atoms[0], ZERO): (0, 0)}
        return {(variable, -atoms[0]): (number - 1, number - 1)}
    if isinstance(entry, IndexLoad):
        return loads.get(entry, _UNKNOWN)
    if not isinstance(entry, SumOfIndices | DifferenceOfIndices | ProductOfIndices):
        return _UNKNOWN
    x, y = (_numbers_of(analysis, side, axes, loads) for side in (entry.left, entry.right))
    if not isinstance(entry, ProductOfIndices):
        return summed(x, y, 1 if isinstance(entry, SumOfIndices) else -1)
    for side, other in ((x, y), (y, x)):
        low, high = side.get((ZERO, ZERO), (-inf, inf))
        if low == high:
            return _times(other, int(low))
    return _UNKNOWN


def _times(numbers: Numbers, factor: int) -> Numbers:
    """Return bounds of a number of times integers."""
    if factor == -1:
        return summed({(ZERO, ZERO): (0, 0)}, numbers, -1)
    if factor < 1:
        return _UNKNOWN
    found: Numbers = {pair: (low, inf) for pair, (low, _) in numbers.items() if low >= 0 and pair[1] == ZERO}
    for (u, v), limits in numbers.items():
        if v == ZERO and type(u) is int and limits[0] == limits[1] == 0:
            found[multiple(u, factor), ZERO] = 0, 0
    return found


# --- gathers ----------------------------------------------------------------------------------------------------------


def gathered(analysis: Analysis, node: BaseNode, operands: Sequence[Reached], entries: IndexMap) -> Reached:
    """Return what is known of an op whose elements are those of its first operand at `entries`."""
    x = operands[0]
    axes, taken = _axes_of_gather(analysis, node, x, entries)
    loads, zones = {}, []
    for load in {leaf for entry in entries for leaf in entry.leaves() if isinstance(leaf, IndexLoad)}:
        integers, names = operands[load.parent], {}
        for atoms, place in zip(integers.axes, load.position, strict=True):
            if isinstance(place, LoopIndex) and len(axes[place.depth]) == len(atoms):
                pairs = zip(atoms, axes[place.depth], strict=True)
                names.update({abs(a): abs(b) for a, b in pairs if (a > 0) == (b > 0)})
        moved = analysis.moved(node, integers, names)
        loads[load] = moved.numbers or _UNKNOWN
        zones += moved.zones
    found = []
    for where, chosen in _alternatives(loads, operands, axes):
        move = Move(analysis, x, own_names(x.axes[k] for k in taken), where)
        for k, entry in enumerate(entries):
            if k not in taken and len(x.axes[k]) == 1:
                move.link(move.place(x.axes[k][0]), _numbers_of(analysis, entry, axes, chosen))
        found.append(move.made(node, axes))
    made = found[0]
    made.zones = [zone for each in found for zone in each.zones] + zones
    made.values = {value: analysis.united([z for each in found for z in each.values[value]]) for value in made.values}
    made.numbers = made.numbers if node.dtype.kind == "i" and len(found) == 1 else None
    return made


def _axes_of_gather(
    analysis: Analysis, node: BaseNode, x: Reached, entries: IndexMap
) -> tuple[tuple[Entry, ...], set[int]]:
    """Return the axes of a gather, and those of the operand that stay as they are or only turn round."""
    axes, taken = dict[int, Entry](), set[int]()
    for k, (entry, axis) in enumerate(zip(entries, node.parents[0].dims, strict=True)):
        size = size_of(axis)
        loops = [leaf.depth for leaf in entry.leaves() if isinstance(leaf, LoopIndex)]
        if len(loops) != 1 or loops[0] in axes or size_of(node.dims[loops[0]]) != size:
            continue
        if isinstance(entry, LoopIndex):
            axes[loops[0]] = x.axes[k]
        elif len(x.axes[k]) == 1 and _turns(analysis, entry, loops[0], size):
            axes[loops[0]] = (-x.axes[k][0],)
        else:
            continue
        taken.add(k)
    return tuple(axes.get(k, fresh) for k, fresh in enumerate(analysis.axes(node.dims))), taken


def _turns(analysis: Analysis, entry: IndexExpression, depth: int, size: Size) -> bool:
    """Return whether an index counts from the end, by the loop at `depth`, along an axis of a size."""
    place, (variable, number) = analysis.fresh(size), size
    return _numbers_of(analysis, entry, {depth: (place,)}, {}) == {(variable, place): (number - 1, number - 1)}


def _alternatives(
    loads: Loads, operands: Sequence[Reached], axes: Sequence[Entry]
) -> Sequence[tuple[list[Bound], Loads]]:
    """Return the parts of a single constant index with their bounds, else the bounds of all indices."""
    for load in loads if len(loads) == 1 else ():
        index, place = operands[load.parent], load.position[0] if len(load.position) == 1 else None
        if index.cases and isinstance(place, LoopIndex) and len(axes[place.depth]) == 1 and axes[place.depth][0] > 0:
            to = {index.axes[0][0]: axes[place.depth][0]}
            return [
                (
                    [(renamed(u, to), renamed(v, to), limit) for u, v, limit in where],
                    {load: {(renamed(u, to), renamed(v, to)): limits for (u, v), limits in numbers.items()}},
                )
                for where, numbers in index.cases
            ]
    return [([], loads)]


# --- scatters ---------------------------------------------------------------------------------------------------------


def scattered(
    analysis: Analysis,
    node: BaseNode,
    operands: Sequence[Reached],
    targets: Sequence[ScatterTarget | None],
    starts_from_zero: bool,
) -> Reached:
    """Return what is known of an op that writes the elements of some operands to places of its result."""
    written = [(x, target) for x, target in zip(operands, targets, strict=True) if target is not None]
    lists = [
        [_kept_axis(parent.dims, x, target.position[k], axis) for k, axis in enumerate(node.dims)]
        for parent, x, target in zip(node.parents, operands, targets, strict=True)
        if target is not None
    ]
    same = {k for k in range(node.ndim) if all(each[k] is not None for each in lists)}
    lists = [[entry if k in same else () for k, entry in enumerate(each)] for each in lists]
    joined, names = analysis.joined([x for x, _ in written], lists, node.ndim)
    axes = tuple(
        entry if k in same or axis_size(axis) == 1 else (analysis.fresh(size_of(axis)),)
        for k, (entry, axis) in enumerate(zip(joined, node.dims, strict=True))
    )
    values = (0.0,) if starts_from_zero else (0.0, 1.0, -inf, LOW)
    made, states = Reached(axes), []
    for (x, target), own in zip(written, names, strict=True):
        move = Move(analysis, x.replaced(values={**x.values, "any": EVERYWHERE}), own)
        places = [tuple(map(move.place, atoms)) if len(atoms) == 1 else atoms for atoms in x.axes]
        for k in set(range(node.ndim)) - same:
            if axes[k]:
                move.link(axes[k][0], _numbers_of(analysis, target.position[k], places, {}))
        states.append(move.made(node))
    made.zones = [zone for state in states for zone in state.zones]
    for x, where in zip(operands, targets, strict=True):
        if where is None:  # integers that say where
            made.zones += analysis.image(node, x.zones, {})
    if not any(target.adds for _, target in written):
        made.values = {
            v: analysis.united([z for each in states for z in each.values.get(v, each.values["any"])]) for v in values
        }
    return made


def _kept_axis(dims: Dims, x: Reached, entry: IndexExpression, axis: Axis) -> Any:
    """Return the positions along the axis of an operand that becomes a whole axis of the result; None for others."""
    is_whole = isinstance(entry, LoopIndex) and size_of(dims[entry.depth]) == size_of(axis)
    return x.axes[entry.depth] if isinstance(entry, LoopIndex) and is_whole else None


# --- other axes of the same elements ----------------------------------------------------------------------------------


def reshaped(analysis: Analysis, node: BaseNode, x: Reached) -> Reached:
    """Return what is known of an op with the same elements under other axes.

    A flattened axis keeps the atoms of its parts; those of a divided one are known to be parts by `Atoms.wholes`.
    """
    axes: list[Entry] = [()] * node.ndim
    names, extra, temporary = dict[int, int](), list[Bound](), list[int]()
    source = [(atom, factors(analysis.sizes[abs(atom)])) for entry in x.axes for atom in entry]
    for left, right in grouped(source, factors_of(node.dims)):
        if len(right) == 1:
            (k,) = right
            axes[k] = _flattened(analysis, tuple(left), size_of(node.dims[k]), x, extra, temporary, names)
            names |= own_names([axes[k]])
            continue
        for k in right:
            axes[k] = (analysis.fresh(size_of(node.dims[k])),)
        if len(left) == 1 and left[0] > 0 and right:
            parts = tuple(axes[k][0] for k in right)
            whole = names[left[0]] = analysis.whole_of((parts, analysis.factors(parts)), analysis.sizes[left[0]])
            names |= own_names([parts])
            variable, step = analysis.sizes[parts[-1]]
            if len(parts) == 2 and variable == ZERO:
                extra += linked([whole], [multiple(parts[0], step)], 0, step - 1)
    return analysis.moved(node, x, names, extra, temporary, axes)


def _flattened(
    analysis: Analysis,
    atoms: Entry,
    size: Size,
    x: Reached,
    extra: list[Bound],
    temporary: list[int],
    names: dict[int, int],
) -> Entry:
    """Return the atoms of a flattened axis: those of its parts, or of a whole that was divided into them."""
    variables = {variable for zone in x.zones for pair in zone.bounds for variable in pair}
    blocks = {  # a block of which only the first part is known: the position is somewhere in it
        (a, b)
        for a, b in itertools.pairwise(atoms)
        if a > 0 and b > 0 and analysis.sizes[b][0] == ZERO and Multiple((a, analysis.sizes[b][1])) in variables
    }
    wholes = {
        parts: whole for (parts, factors), whole in analysis.wholes_of(x).items() if factors == analysis.factors(parts)
    }
    for parts in {*wholes, *blocks}:
        for i in range(len(atoms) - len(parts) + 1):
            if atoms[i : i + len(parts)] != parts:
                continue
            known, sizes, length = wholes.get(parts), [analysis.sizes[part] for part in parts], size
            if len(parts) < len(atoms):  # the flattened axis has other parts too
                if all(variable == ZERO for variable, _ in sizes):
                    length = ZERO, math.prod(number for _, number in sizes)
                elif known is not None and analysis.sizes[known] != ANY_SIZE:
                    length = analysis.sizes[known]
                else:
                    continue
            whole = analysis.fresh(length)
            if known is not None:
                names[known] = whole
            if known is None or parts in blocks:
                step = analysis.sizes[parts[1]][1]
                extra += linked([whole], [Multiple((parts[0], step))], 0, step - 1)
                temporary += parts
                names.update(own_names([parts]))
            atoms = (*atoms[:i], whole, *atoms[i + len(parts) :])
            break
    return atoms
