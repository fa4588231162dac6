"""What is known of each node of a graph: on which positions of the sources its elements may depend, and some values.

It follows from a rule of the op (`REACH`), its formula, its composition, or its loop form (a reduction, index maps). An
op without any of these is taken to depend on everything.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any

import numpy as np

from wyrm.graph.axes import axis_size
from wyrm.graph.base import BaseNode
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.leaves import Constant
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.source_location import located_at
from wyrm.graph.storage import stored
from wyrm.graph.traversal import topological_order
from wyrm.reach.constants import known_constant
from wyrm.reach.extremes import FRACTION, NUMBER, highest, lowered, span_of
from wyrm.reach.formulas import known_of_formula, reduces_to
from wyrm.reach.moves import Move
from wyrm.reach.reading import gathered, reshaped, scattered
from wyrm.reach.relations import Relation, is_plain, related
from wyrm.reach.rules import KEPT, LOW, REACH, Entry, Reached, own_names
from wyrm.reach.ways import How, Way, entries_of, targets_of
from wyrm.reach.zones import (
    ANY_SIZE,
    SOURCE,
    ZERO,
    Atoms,
    Bound,
    Parts,
    Size,
    Zone,
    atom_of,
    equated,
    multiple,
    renamed,
    size_of,
)

# The most elements of a constant that is computed from others, such as a mask.
_FOLDED = 2**22
Names = dict[int, int]
# For a step of a reduction, the value of elements that change nothing.
NEUTRAL = {"total + x": 0.0, "total + x * y": 0.0, "maximum(total, x)": -inf, "total * x": 1.0}


class Analysis(Atoms):
    """What is known of `outputs` and all nodes before them.

    `sources` are the leaves whose influence is followed: from the positions along an axis of each, or from all of its
    elements alike where the axis is None.
    """

    # Whether ops are looked at of whose operands nothing is known.
    follows_all = False

    def __init__(self, outputs: Sequence[BaseNode], sources: Mapping[BaseNode, int | None]) -> None:
        super().__init__()
        self.sources: Mapping[BaseNode, int | None] = sources
        self.assumed: list[str] = []  # what a proof supposes
        self.doubts: list[str] = []  # what it would suppose, if more were known
        self.unknown: dict[BaseNode, None] = {}  # the nodes of ops that are taken to depend on everything
        self.known: dict[BaseNode, Reached] = {}
        self.relations: dict[object, Relation] = {}
        self._constants: dict[BaseNode, np.ndarray] = {}
        sizes = {size_of(leaf.dims[axis]) for leaf, axis in sources.items() if axis is not None}
        if sizes:
            self.extent: Size | None = sizes.pop() if len(sizes) == 1 else ANY_SIZE
        self._outer: BaseNode | None = None  # the op whose composition is looked at
        self.run(outputs)

    def user_op(self, node: BaseNode) -> BaseNode:
        """Return the op that users wrote for a node, which may be one of its composition."""
        return node if self._outer is None else self._outer

    def run(self, outputs: Iterable[BaseNode]) -> None:
        """Find what is known of nodes and of those before them."""
        for node in topological_order(outputs, self.known):
            found = self._of_leaf(node) if node.is_leaf or node in self.sources else self._of_op(node)
            found.zones = self.united(found.zones)
            if found.span is None and not (node.is_leaf or node in self.sources):
                found.span = span_of(node, [self.known[parent] for parent in node.parents])
            self.known[node] = found

    def _of_leaf(self, node: BaseNode) -> Reached:
        axes = self.axes(node.dims)
        found = Reached(axes)
        found.span = None if node.is_argument or not node.is_leaf else FRACTION if node.dtype.kind == "b" else NUMBER
        if node in self.sources:
            axis = self.sources[node]
            found.zones = [Zone(equated((SOURCE, atom) for atom in (() if axis is None else axes[axis])), node)]
        elif isinstance(node, Constant | IndexConstant):
            array = self._constants[node] = np.asarray(stored(node).array)
            return known_constant(self, node, array, axes)
        return found

    def _of_op(self, node: BaseNode) -> Reached:
        if node.same_value:
            return self.known[node.parents[0]]
        operands = [self.known[parent] for parent in node.parents]
        if node.shape_only or not (self.follows_all or any(operand.is_known for operand in operands)):
            return self.nothing(node)
        rule = REACH.of(node)
        if _is_small(node) and all(parent in self._constants for parent in node.parents):
            with np.errstate(all="ignore"):
                array = rule.value(node, [self._constants[parent] for parent in node.parents], node.shape)
            if array is not None:
                self._constants[node] = array
                return known_constant(self, node, array, self.axes(node.dims))
        found = rule.reached(node, operands, self)
        if found is None:
            found = self.pointwise(node, operands) if node.formula else self._of_form(node, operands)
        return self.everything(node, operands) if found is None else found

    def _of_form(self, node: BaseNode, operands: Sequence[Reached]) -> Reached | None:
        """Return what the loop form of an op says; None if it says nothing."""
        form = LOOPS.of(node)
        simpler = self.composed(node, operands)
        if simpler is not None:
            return simpler
        if form.reducer is not None:
            return self.reduced(node, operands, form.reduce_axes(node))
        entries = entries_of(node)
        if entries is not None:
            return gathered(self, node, operands, entries)
        if node.same_elements:
            return reshaped(self, node, operands[0])
        targets = targets_of(node)
        return scattered(self, node, operands, targets, form.starts_from_zero) if targets else None

    # --- what rules build on --------------------------------------------------------------------------------------

    def nothing(self, node: BaseNode) -> Reached:
        """Return that a node depends on no source."""
        return Reached(self.axes(node.dims))

    def everything(self, node: BaseNode, operands: Sequence[Reached]) -> Reached:
        """Return that a node depends on all elements of its operands."""
        self.unknown[node] = None
        return Reached(self.axes(node.dims), [z for each in operands for z in self.image(node, each.zones, {})])

    def composed(self, node: BaseNode, operands: Sequence[Reached]) -> Reached | None:
        """Return what the composition of an op says, from what is known of its operands; None if it has none."""
        composition = node.composition()
        if composition is not None:
            if not self.follows_all and all(is_plain(self, operand) for operand in operands):
                return related(self, node, composition, operands)
            return self.of_graph(node, composition.inputs, composition.outputs[0], composition.order, operands)
        with located_at(node.origin):
            simpler = LOOPS.of(node).decompose(node)
        return None if simpler is None else self.of_graph(node, node.parents, simpler, (), operands)

    def of_graph(
        self,
        node: BaseNode,
        inputs: Sequence[BaseNode],
        output: BaseNode,
        inner: Sequence[BaseNode],
        operands: Sequence[Reached],
    ) -> Reached:
        """Return what the graph from `inputs` to `output` says of a node; several nodes may share the `inner` ones."""
        around, count = {each: self.known[each] for each in inputs if each in self.known}, len(self.known)
        self.known.update(zip(inputs, operands, strict=True))
        outer, self._outer = self._outer, self.user_op(node)
        try:
            self.run([output])
            found = self.known[output]
            made = set(itertools.islice(reversed(self.known), len(self.known) - count))
        finally:
            self._outer = outer
            for each in (*inner, *inputs):
                self.known.pop(each, None)
                self._constants.pop(each, None) if each not in around else None
            self.known.update(around)
        # The nodes of a shared graph have another user's lines.
        zones = []
        for zone in found.zones:
            origin: Zone | None = zone
            while origin is not None and (origin.node in made or origin.node not in self.known):
                if origin.node in self.unknown:
                    break
                origin = origin.origin
            zones.append(Zone(zone.bounds, node, origin, zone.mask))
        return found.replaced(zones=zones)

    def moved(
        self,
        node: BaseNode,
        operand: Reached,
        names: Mapping[int, int],
        extra: Sequence[Bound] = (),
        temporary: Iterable[int] = (),
        axes: Sequence[Entry] = (),
    ) -> Reached:
        """Return what is known of an operand with other names of its atoms; see `image`."""
        names, gone = self.with_wholes(operand, names), set(temporary)
        numbers: Any = operand.numbers and {
            (renamed(u, names), renamed(v, names)): limits
            for (u, v), limits in operand.numbers.items()
            if all((atom := atom_of(x)) is None or atom in names for x in (u, v))
        }
        return Reached(
            tuple(axes),
            self.image(node, operand.zones, names, extra, gone),
            {value: self.image(node, zones, names, extra, gone) for value, zones in operand.values.items()},
            numbers,
        )

    def wholes_of(self, operand: Reached) -> dict[Parts, int]:
        """Return the divided axes, by their parts, of which something is known of an operand."""
        if not self.wholes:
            return {}
        zones = itertools.chain(operand.zones, *operand.values.values())
        used = {variable for zone in zones for key in zone.bounds for variable in key}
        return {parts: whole for parts, whole in self.wholes.items() if whole in used}

    def with_wholes(self, operand: Reached, names: Mapping[int, int]) -> Names:
        """Return names of atoms with those of divided axes whose parts all have one."""
        found = dict(names)
        for (parts, factors), whole in self.wholes_of(operand).items():
            if whole not in names and all(atom in names or atom in self.kept for atom in parts):
                found[whole] = self.moved_whole(whole, factors, parts, tuple(names.get(atom, atom) for atom in parts))
        return found

    def joined(self, operands: Sequence[Reached], lists: Sequence[Sequence[Entry]], rank: int) -> Joined:
        """Return the axes that operands broadcast to, and by operand the names that its atoms have there.

        `lists` are the axes of the operands, aligned at their ends.
        """
        if len(operands) == 1 and len(lists[0]) == rank:  # and no atom twice, of which no axes are made
            return tuple(lists[0]), [own_names(lists[0])]
        padded = [[()] * (rank - len(axes)) + list(axes) for axes in lists]
        used, axes, names = set[int](), list[Entry](), [Names() for _ in operands]
        for k in range(rank):
            given = [(operand, each[k]) for operand, each in zip(operands, padded, strict=True) if each[k]]
            first = given[0][1] if given else ()
            entry = next((each for operand, each in given if operand.zones), first)
            if not used.isdisjoint(map(abs, entry)):  # another axis has these atoms
                entry = tuple(self.fresh(self.sizes[abs(a)]) * (1 if a > 0 else -1) for a in entry)
            used.update(map(abs, entry))
            axes.append(entry)
            for each, own in zip(padded, names, strict=True):
                if len(each[k]) == len(entry) and all(
                    (a > 0) == (b > 0) and (len(entry) == 1 or self.sizes[abs(a)] == self.sizes[abs(b)])
                    for a, b in zip(each[k], entry, strict=True)
                ):
                    own.update(_names(each[k], entry))
        return tuple(axes), names

    def pointwise(
        self,
        node: BaseNode,
        operands: Sequence[Reached],
        formula: str | None = None,
        lists: Sequence[Sequence[Entry]] | None = None,
        rank: int | None = None,
    ) -> Reached:
        """Return what is known of a formula of broadcast operands; `lists` are other axes of these."""
        lists = [operand.axes for operand in operands] if lists is None else lists
        axes, names = self.joined(operands, lists, node.ndim if rank is None else rank)
        placed = [self.moved(node, operand, own) for operand, own in zip(operands, names, strict=True)]
        found = known_of_formula(self, node, node.formula if formula is None else formula, placed)
        found.axes = axes
        if formula == "same":
            found.span = operands[0].span
        return found

    def by_ways(self, node: BaseNode, operands: Sequence[Reached], ways: Sequence[Way]) -> Reached:
        """Return what is known if elements depend on all others but along axes whose positions stay the same."""
        lists: list[list[Entry]] = [[()] * node.ndim for _ in operands]
        same, met = set[int](), Counter(pair for way in ways for pair in set(way.operands))
        for way in ways:
            if way.how in (How.SAME, How.DRAWN) and way.result is not None:
                same.add(way.result)
                for k, d in way.operands:
                    lists[k][way.result] = operands[k].axes[d] if met[k, d] == 1 else ()
        found = self.pointwise(node, operands, "any", lists)
        axes = (found.axes[k] if k in same else self.axes((axis,))[0] for k, axis in enumerate(node.dims))
        return Reached(tuple(axes), found.zones)

    def without(
        self, node: BaseNode, operand: Reached, gone: Iterable[int], keepdims: bool, neutral: float | None = None
    ) -> Reached:
        """Return what is known of a reduction of an operand over some axes, which go or get size 1.

        Elements of the value `neutral` do not count.
        """
        out = set(gone)
        axes = [() if k in out else entry for k, entry in enumerate(operand.axes) if keepdims or k not in out]
        made = self.moved(node, operand, own_names(axes), axes=axes)
        made.numbers = None
        return made

    def reduced(self, node: BaseNode, operands: Sequence[Reached], gone: Sequence[int]) -> Reached:
        """Return what is known of a reduction of its broadcast operands."""
        rank = max(parent.ndim for parent in node.parents)
        reducer = LOOPS.of(node).reducer
        x = None if reducer is None or reducer.step != "maximum(total, x)" else self._highest(node, operands[0], gone)
        operands = operands if x is None else [x]
        is_product = reducer is not None and "x * y" in reducer.step
        whole = self.pointwise(
            node, operands, "x * y" if is_product else "same" if len(operands) == 1 else "", rank=rank
        )
        sized = all(size_of(node.parents[0].dims[k])[1] > 0 for k in gone) if len(operands) == 1 else False
        whole.values = {v: zones for v, zones in whole.values.items() if reduces_to(reducer, v, is_product, sized)}
        neutral = None if reducer is None or reducer.finish else NEUTRAL.get(reducer.step)
        found = self.without(node, whole, gone, node.ndim == rank, neutral)
        found.span = None if x is None else span_of(node, operands) - {LOW}
        return found

    def _highest(self, node: BaseNode, x: Reached, gone: Sequence[int]) -> Reached | None:
        """Return the operand of a maximum without elements that a mask made very low; None if there are none."""
        low = lowered(x)
        if low is None:
            return None
        return highest(self, node, x, Analysis.without(self, node, x.replaced(zones=low), gone, True).zones, low)

    def along(
        self, node: BaseNode, operands: Sequence[Reached], axis: int, low: float = -inf, high: float = inf
    ) -> Reached:
        """Return what is known if element i along an axis depends on those from `i + low` to `i + high`."""
        rank = len(operands[0].axes)
        others = [z for each in operands if len(each.axes) != rank for z in self.image(node, each.zones, {})]
        operands = [each for each in operands if len(each.axes) == rank]
        axes, names = self.joined(operands, [each.axes for each in operands], rank)
        entry = axes[axis]
        if not entry:
            zones = [z for each, own in zip(operands, names, strict=True) for z in self.image(node, each.zones, own)]
            return Reached(axes, zones + others)
        old, new, reverse = set(map(abs, entry)), self.fresh(size_of(node.dims[axis])), entry[0] < 0
        if reverse:
            low, high = -high, -low
        result = Reached((*axes[:axis], (-new if reverse else new,), *axes[axis + 1 :]), others)
        for operand, own in zip(operands, names, strict=True):
            kept = {atom: name for atom, name in own.items() if name not in old}
            move = Move(self, Reached(operand.axes, operand.zones), kept)
            for atom in own if len(entry) == 1 else ():  # nothing is known of windows along a flattened axis
                if atom not in kept:
                    move.link(move.place(atom), {(new, ZERO): (low, high)})
            result.zones += move.made(node).zones
        return result

    def windowed(self, node: BaseNode, operands: Sequence[Reached], windows: Sequence[Any]) -> Reached:
        """Return what is known of an op whose elements depend on a window of the first operand; see `Windowed`."""
        x, *others = operands
        kept = (entry for entry, window in zip(x.axes, windows, strict=True) if window == KEPT)
        axes, move = list[Entry](), Move(self, Reached(x.axes, x.zones), own_names(kept))
        for entry, window, axis in zip(x.axes, windows, node.dims, strict=True):
            axes += [entry] if window == KEPT else self.axes((axis,))
            if window not in (None, KEPT) and len(entry) == 1 and entry[0] > 0 and axes[-1]:
                step = multiple(axes[-1][0], window.stride)
                move.link(move.place(entry[0]), {(step, ZERO): (-window.before, window.extent - 1 - window.before)})
        zones = move.made(node).zones
        return Reached(tuple(axes), zones + [z for each in others for z in self.image(node, each.zones, {})])


Joined = tuple[tuple[Entry, ...], list[Names]]


def _names(entry: Entry, other: Entry) -> Names:
    """Return other names for the atoms of an axis."""
    return {abs(a): abs(b) for a, b in zip(entry, other, strict=False)}


def _is_small(node: BaseNode) -> bool:
    """Return whether a node is computed if its operands are constants, as masks that are made of several."""
    sizes = [axis_size(axis) for axis in node.dims]
    known = [size for size in sizes if size is not None]
    return node.dtype.kind in "fb" and len(known) == len(sizes) and math.prod(known) <= _FOLDED
