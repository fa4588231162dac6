"""Ways: how the axes of an op's operands meet in its result.

From this one table of an op follows whether permuted inputs give a permuted result, whether longer inputs begin with
the same results, and whether rows stay apart.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from wyrm.graph.axes import Axis, Dims, Times, axis_size, ragged_axis
from wyrm.graph.base import BaseNode
from wyrm.graph.index_maps import AxisLength, IndexLiteral, IndexLoad, IndexMap, LoopIndex, SumOfIndices, loop_indices
from wyrm.graph.loop_form import LOOPS, ScatterTarget
from wyrm.graph.quotients import expression_of
from wyrm.reach.zones import ZERO, Size, size_of

T = TypeVar("T")
U = TypeVar("U")
# A size as a number and the open sizes that it is multiplied by.
Factors = tuple[int, tuple[Any, ...]]
# The axes of an operand, each by the place where it meets those of others; None where nothing is said of it.
Places = tuple[int, Sequence[Hashable]]
# The steps of reductions whose result is the same in every order.
_ANY_ORDER = {"total + x", "total * x", "total + x * y", "maximum(total, x)", "minimum(total, x)"}


class How(IntEnum):
    """What the positions along axes that meet have to do with each other; each says less than the one before it."""

    SAME = 0
    """A position depends on itself alone, and all are treated alike."""
    AVERAGED = 1
    """The result is the mean of what is computed of each position alone."""
    REDUCED = 2
    """All positions are reduced, in any order."""
    DRAWN = 3
    """A position depends on itself alone and on random numbers, which are drawn by its place in the whole data."""
    COUNTED = 4
    """Positions count from the first one: further ones behind the last change nothing of what was before."""
    ANY = 5
    """Nothing is said."""


class Way(NamedTuple):
    """Axes that meet: those of operands, as pairs of the operand and the axis, and that of the result.

    `axes` are these, and others whose positions or sizes count.
    """

    how: How
    axes: Dims
    operands: Sequence[tuple[int, int]] = ()
    result: int | None = None


def ways_by(
    node: BaseNode,
    places: Sequence[Places],
    how: Mapping[Hashable, How] = MappingProxyType({}),
    results: Mapping[Hashable, int] | None = None,
    beside: Mapping[Hashable, Dims] = MappingProxyType({}),
) -> list[Way]:
    """Return the ways of an op by the places where axes of its operands and of its result meet.

    Nothing is said of operands that `places` lacks. At places that `how` lacks, positions are the `SAME`. Axis k of the
    result is at place k, unless `results` has the axes by their places; `beside` has further axes.
    """
    results = {k: k for k in range(node.ndim)} if results is None else results
    met: dict[Hashable, list[tuple[int, int]]] = {place: [] for place in results}
    others = set(range(len(node.parents))) - {k for k, _ in places}
    nothing = set[Hashable]()
    for k, own in [*places, *((k, [None] * node.parents[k].ndim) for k in others)]:
        for d, place in enumerate(own):
            if place is None:
                place = "nothing", k, d
                nothing.add(place)
            met.setdefault(place, []).append((k, d))
    found = []
    for place, operands in met.items():
        result = results.get(place)
        dims = tuple(node.parents[k].dims[d] for k, d in operands) + beside.get(place, ())
        dims += () if result is None else (node.dims[result],)
        said = How.ANY if place in nothing else how.get(place, How.SAME)
        if said in (How.DRAWN, How.COUNTED) and any(map(_is_flat, dims)):
            said = How.ANY  # positions of a flattened axis count by the sizes of its parts
        found.append(Way(said, dims, operands, result))
    return found


def _is_flat(axis: Axis) -> bool:
    base, factor, _, _ = expression_of(axis)
    return axis_size(axis) is None and (isinstance(base, Times) or factor != 1)


def aligned(node: BaseNode, rank: int | None = None, how: Mapping[Hashable, How] = MappingProxyType({})) -> list[Way]:
    """Return the ways of an op whose operands broadcast to `rank` axes; if the result has fewer, those in `how` go."""
    rank = node.ndim if rank is None else rank
    kept = [place for place in range(rank) if rank == node.ndim or place not in how]
    places = [(k, range(rank - parent.ndim, rank)) for k, parent in enumerate(node.parents)]
    return ways_by(node, places, how, {place: k for k, place in enumerate(kept)})


def nothing_said(node: BaseNode, first: How = How.ANY) -> list[Way]:
    """Return the ways of an op of which nothing is known, but perhaps of the first axis of the result."""
    return ways_by(node, [], {k: How.ANY if k else first for k in range(node.ndim)})


def entries_of(node: BaseNode) -> IndexMap | None:
    """Return where in the first operand of an op its elements are, by its own axes; None if no index map says it."""
    return LOOPS.of(node).gather_index(node, loop_indices(node.ndim))


def targets_of(node: BaseNode) -> list[ScatterTarget | None]:
    """Return where in the result of an op the elements of each operand are written; empty if none are."""
    form = LOOPS.of(node)
    if form.by_flat_index is not None:
        return []
    targets = [form.scatter_index(node, k, loop_indices(parent.ndim)) for k, parent in enumerate(node.parents)]
    return targets if any(target is not None for target in targets) else []


def ways_of_form(node: BaseNode, parts: Sequence[tuple[int, Size]] | None = None) -> list[Way]:
    """Return the ways of an op by its loop form; for `parts`, see `wyrm.reach.rules.ways_of`."""
    form = LOOPS.of(node)
    if form.reducer is not None:
        said = How.REDUCED if form.reducer.step in _ANY_ORDER else How.COUNTED
        if form.reducer.finish == "total / count" and form.reducer.step.startswith("total + ") and not _is_ragged(node):
            said = How.AVERAGED
        return aligned(node, max(parent.ndim for parent in node.parents), dict.fromkeys(form.reduce_axes(node), said))
    entries = entries_of(node)
    if entries is not None:
        return _ways_of_gather(node, entries)
    if node.same_elements:
        return _ways_of_reshape(node, parts)
    targets = targets_of(node)
    if targets and None not in targets:
        return _ways_of_scatter(node, [target for target in targets if target is not None])
    return nothing_said(node, How.ANY if form.by_flat_index is None else How.COUNTED)


def _is_ragged(node: BaseNode) -> bool:
    """Return whether rows of different lengths are read, whose elements do not count alike."""
    return any(ragged_axis(parent.dims) is not None for parent in node.parents)


def _ways_of_gather(node: BaseNode, entries: IndexMap) -> list[Way]:
    loads = {leaf for entry in entries for leaf in entry.leaves() if isinstance(leaf, IndexLoad)}
    places, how, beside = list[Places](), dict[Hashable, How](), dict[Hashable, Dims]()
    lengths = list[Way]()
    for k, position in [(0, entries), *((load.parent, load.position) for load in loads)]:
        own = list[Hashable]()
        for entry, axis in zip(position, node.parents[k].dims, strict=True):
            if isinstance(entry, LoopIndex):
                own.append(entry.depth)
                if size_of(axis) != size_of(node.dims[entry.depth]):
                    how[entry.depth] = How.COUNTED  # the first elements
                continue
            place = "moved", len(beside)
            own.append(place)
            leaves = list(entry.leaves())
            how[place] = How.COUNTED
            beside[place] = tuple(node.dims[leaf.depth] for leaf in leaves if isinstance(leaf, LoopIndex))
            lengths += [Way(How.ANY, (leaf.axis,)) for leaf in leaves if isinstance(leaf, AxisLength)]
        places.append((k, own))
    places += [(k, ()) for k in range(1, len(node.parents))]  # what is not read
    return ways_by(node, places, how, beside=beside) + lengths


def _ways_of_scatter(node: BaseNode, targets: Sequence[ScatterTarget]) -> list[Way]:
    how, places = dict[Hashable, How](), list[Places]()
    for k, (parent, target) in enumerate(zip(node.parents, targets, strict=True)):
        own: list[Hashable] = [None] * parent.ndim
        for d, (entry, axis) in enumerate(zip(target.position, node.dims, strict=True)):
            leaves = list(entry.leaves())
            for leaf in leaves:
                if isinstance(leaf, LoopIndex):
                    own[leaf.depth] = d
            start, place = _after(entry)
            said = How.ANY if any(isinstance(leaf, AxisLength | IndexLoad) for leaf in leaves) else How.COUNTED
            if place is not None:
                inner = parent.dims[place.depth]
                variable, number = size_of(inner)
                if size_of(axis) == (variable, number + start):
                    said = How.COUNTED if start else How.SAME
                elif axis_size(inner) is None:
                    said = How.ANY  # others write behind its last element
            how[d] = max(said, how.get(d, How.SAME))
        places.append((k, own))
    return ways_by(node, places, how)


def _after(entry: Any) -> tuple[int, LoopIndex | None]:
    """Return the start and the index of a position that is their sum."""
    if isinstance(entry, LoopIndex):
        return 0, entry
    if isinstance(entry, SumOfIndices):
        for start, place in ((entry.left, entry.right), (entry.right, entry.left)):
            if isinstance(start, IndexLiteral) and isinstance(place, LoopIndex):
                return start.value, place
    return 0, None


def _ways_of_reshape(node: BaseNode, parts: Sequence[tuple[int, Size]] | None) -> list[Way]:
    dims, found = node.parents[0].dims, list[Way]()
    source = factors_of(dims) if parts is None else [(d, factors(size)) for d, size in parts]
    for left, right in grouped(source.copy(), factors_of(node.dims)):
        before, after = tuple(dims[d] for d in left), tuple(node.dims[k] for k in right)
        if len(left) == len(right) == 1 and sum(d == left[0] for d, _ in source) == 1:
            found.append(Way(How.SAME, before + after, [(0, left[0])], right[0]))
            continue
        found.append(Way(How.COUNTED, before + after))
        if len(right) > 1:
            found.append(Way(How.ANY, after[1:] if len(left) == 1 else before + after))
    return found


# --- axes of as many elements -----------------------------------------------------------------------------------------


def factors(size: Size, axis: Axis | None = None) -> Factors:
    """Return a size, that of an axis, as a product."""
    if isinstance(axis, Times):
        return _product([factors(size_of(part), part) for part in axis.parts])
    variable, number = size
    return (number, ()) if variable == ZERO else (1, ((variable, number),))


def factors_of(dims: Dims) -> list[tuple[int, Factors]]:
    """Return the axes of more than one element with their sizes."""
    return [(k, factors(size_of(axis), axis)) for k, axis in enumerate(dims) if axis_size(axis) != 1]


def _product(parts: Sequence[Factors]) -> Factors:
    return math.prod(n for n, _ in parts), tuple(sorted(itertools.chain(*(names for _, names in parts)), key=repr))


def grouped(source: list[tuple[T, Factors]], target: list[tuple[U, Factors]]) -> list[tuple[list[T], list[U]]]:
    """Return what has these sizes in groups of as many elements, for a reshape."""
    groups = []
    while source or target:
        left, right = source[:1], target[:1]
        source, target = source[1:], target[1:]
        while source or target:
            have, want = _product([each for _, each in left]), _product([each for _, each in right])
            if have == want:
                break
            fewer = len(have[1]) < len(want[1]) if have[1] != want[1] else have[0] < want[0]
            if source and (fewer or not target):
                left.append(source.pop(0))
            else:
                right.append(target.pop(0))
        groups.append(([item for item, _ in left], [item for item, _ in right]))
    return groups
