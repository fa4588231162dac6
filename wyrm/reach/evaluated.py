"""Warnings of evaluations whose numbers may be too good: predictions that depend on their targets, rows on other rows.

They are for what is so by all that the graph shows, and silent in doubt: about ops that say nothing of themselves, and
about models that read their target on purpose, such as autoencoders. See "Proofs" in the documentation.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

from wyrm.errors import DependenceWarning
from wyrm.graph.axes import Dim, axis_size
from wyrm.graph.base import BaseNode, describe, label
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.index_maps import IndexLoad
from wyrm.graph.leaves import Input
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.node import IndexNode
from wyrm.graph.parameters import Parameter
from wyrm.graph.source_location import user_level
from wyrm.graph.traversal import topological_order
from wyrm.reach.facts import Analysis
from wyrm.reach.refusals import explained, lost_at, origins
from wyrm.reach.rules import REACH, Along, Reached, SamePlace
from wyrm.reach.ways import entries_of
from wyrm.reach.zones import SOURCE, Bounds, Zone

# Formulas in which data beside a prediction may be a weight or a mask.
_WEIGHS = {"x * y", "x / y", "where(x, y, z)"}
_TRAINED = 1
# Attributes that choose random numbers, whatever positions these are for.
_OF_DRAWS = frozenset(["seed", "stream"])
_MEANT = (
    "if that is meant, say so around the call: with warnings.catch_warnings(): "
    'warnings.simplefilter("ignore", wy.errors.DependenceWarning)'
)


class _Compared(NamedTuple):
    """A prediction and its target, which follows from the data `source` alone."""

    prediction: BaseNode
    target: BaseNode
    source: BaseNode


class _Sources:
    """What each node of a graph depends on, as the bits of a number: the first for parameters, one for each input.

    `read` has the bits of what a model reads: of what parameters are applied to.
    """

    def __init__(self, outputs: Iterable[BaseNode]) -> None:
        self.order: list[BaseNode] = topological_order(outputs)
        self.inputs: dict[BaseNode, int] = {}
        self.of: dict[BaseNode, int] = {}
        self.read: dict[BaseNode, int] = {}
        for node in self.order:
            bits = read = 0
            if isinstance(node, Parameter):
                bits = _TRAINED
            elif isinstance(node, Input | IndexInput):
                bits = self.inputs[node] = 2 << len(self.inputs)
            elif not node.is_leaf and not node.shape_only:
                for parent in node.parents:
                    bits |= self.of[parent]
                    read |= self.read[parent]
                if any(self.of[parent] == _TRAINED and (_is_long(parent) or not node.dims) for parent in node.parents):
                    read = bits
            self.of[node], self.read[node] = bits, read

    def target(self, node: BaseNode) -> BaseNode | None:
        """Return the input whose elements a node has, perhaps at other places; None for other nodes."""
        while not node.is_leaf:
            if len(node.parents) != 1 or not (node.same_value or node.same_elements or _only_moves(node)):
                return None
            (node,) = node.parents
        return node if isinstance(node, Input | IndexInput) and node.dtype.kind != "b" else None


def _only_moves(node: BaseNode) -> bool:
    """Return whether an op returns some elements of its operand, perhaps in another type or without ignored labels."""
    rule = REACH.of(node)
    if node.formula or (isinstance(rule, SamePlace) and (isinstance(node, IndexNode) or node.dtype.kind == "f")):
        return not node.formula
    entries = entries_of(node)
    return entries is not None and not any(isinstance(leaf, IndexLoad) for each in entries for leaf in each.leaves())


def warn_of_targets(loss: BaseNode) -> None:
    """Issue a `DependenceWarning` if a prediction in a loss depends on the target that it is compared with."""
    for compared in _compared(loss):
        if _warned_of_target(compared, _Sources([compared.prediction])):
            return


def _compared(loss: BaseNode) -> Iterator[_Compared]:
    """Yield the predictions that depend on the input that they are compared with in a loss, after all of a model.

    After a prediction no parameters are read, and no data but weights.
    """
    sources = _Sources([loss])
    of, read, before = sources.of, sources.read, set[BaseNode]()
    users = _users(sources.order)
    for node in reversed(sources.order):
        if not node.is_leaf and (node in before or _reads_model(node, of)):
            before.update(node.parents)
    for node in sources.order:
        if node.is_leaf or node in before or len(node.parents) < 2 or not of[node] & _TRAINED:
            continue
        for target in node.parents:
            if of[target] & _TRAINED or not of[target] or target.dtype.kind == "b":
                continue
            source = sources.target(target)
            if source is None:
                continue
            for prediction in node.parents:
                if read[prediction] & of[target] and _compares(node, prediction, target, users):
                    yield _Compared(prediction, target, source)
                    break


def _users(order: Sequence[BaseNode]) -> dict[BaseNode, list[BaseNode]]:
    """Return the nodes that read each node."""
    users: dict[BaseNode, list[BaseNode]] = {}
    for node in order:
        for parent in node.parents:
            users.setdefault(parent, []).append(node)
    return users


def _compares(node: BaseNode, prediction: BaseNode, target: BaseNode, users: dict[BaseNode, list[BaseNode]]) -> bool:
    """Return whether an op compares: a label selects, or it is a difference, or the product of `f(x) - x * y`."""
    if isinstance(target, IndexNode):
        return LOOPS.of(node).steps(node) is None  # a loop may look up anything by its integers
    if node.formula == "x - y":
        return True
    differences = [
        user.parents[0] for user in users.get(node, ()) if user.formula == "x - y" and user.parents[1] is node
    ]
    return node.formula == "x * y" and any(x is prediction for each in differences for x in each.parents[:1])


def _is_long(node: BaseNode) -> bool:
    return any(axis_size(axis) != 1 for axis in node.dims)


def _is_wide(source: BaseNode) -> bool:
    """Return whether an input has several elements for each row."""
    return sum(axis_size(axis) != 1 for axis in source.dims) > 1


def _reads_model(node: BaseNode, of: dict[BaseNode, int]) -> bool:
    """Return whether an op reads parameters that are no single number, or data that is no weight, beside a model."""
    if not node.dims:
        return False
    trained = [parent for parent in node.parents if of[parent] & _TRAINED]
    if any(of[parent] == _TRAINED and _is_long(parent) for parent in trained):
        return True
    data = any(of[parent] and not of[parent] & _TRAINED and parent.dtype.kind != "b" for parent in node.parents)
    return bool(trained) and data and node.formula not in _WEIGHS


class _Repeated(Analysis):
    """What is known of nodes, found once for ops of equal attributes of which the same is known of the operands.

    The layers of a model are often alike: after a few of them nothing new is found. Paths are those of the first ones.
    """

    def __init__(self, outputs: Sequence[BaseNode], sources: Mapping[BaseNode, int | None]) -> None:
        self._ops: dict[Hashable, Reached] = {}
        self._equal: dict[Hashable, Reached] = {}
        super().__init__(outputs, sources)

    def _of_leaf(self, node: BaseNode) -> Reached:
        if node in self.sources or not node.is_parameter:
            return super()._of_leaf(node)
        return self._once((node.dims, node.dtype), node, super()._of_leaf)

    def _of_op(self, node: BaseNode) -> Reached:
        attributes = [getattr(node, name) for name in node.attributes if name not in _OF_DRAWS]
        given = (id(self.known[parent]) for parent in node.parents)
        return self._once((type(node), node.dims, *attributes, *given), node, super()._of_op)

    def _once(self, key: Hashable, node: BaseNode, find: Callable[[BaseNode], Reached]) -> Reached:
        try:
            found = self._ops.get(key)
        except TypeError:  # an attribute that is no key
            return find(node)
        if found is None:
            found = find(node)
            found.zones = self.united(found.zones)
            if not (found.values or found.numbers or found.parts or found.after):
                equal = found.axes, frozenset(frozenset(zone.bounds.items()) for zone in found.zones), found.span
                found = self._equal.setdefault(equal, found)
            self._ops[key] = found
        return found


def _warned_of_target(compared: _Compared, sources: _Sources) -> bool:
    """Issue the warning if the prediction depends on the elements of the target that it is compared with."""
    prediction, target, source = compared
    if not sources.read[prediction] & sources.inputs.get(source, 0):
        return False
    long = [k for k, axis in enumerate(source.dims) if axis_size(axis) != 1]
    wide = _is_wide(source)
    if not wide and len(sources.inputs) == 1:
        return False
    chosen = []
    for axis in reversed(long) if long else [None]:  # batches are first, and exclude the least
        repeated = _Repeated([prediction, target], {source: axis})
        if _overlap(repeated, prediction, target) is None:
            return False
        if not wide or _is_one_sided(repeated, prediction, target):
            chosen.append(axis)
    if not chosen:
        return False
    analysis = Analysis([prediction, target], {source: chosen[0]})  # with the path of this prediction
    zone = min(_overlap(analysis, prediction, target) or analysis.known[prediction].zones, key=lambda zone: zone.depth)
    text = f"the prediction {describe(prediction)} depends on its target"
    advice = (
        "shift the target, as in logits[:, :-1].cross_entropy(tokens[:, 1:]), or leave it out of what the model reads"
        if wide
        else f"leave {label(source)} out of what the model reads"
    )
    _warn(f"{explained(text, prediction, analysis, zone)}\n  help: {advice}")
    return True


def _overlap(analysis: Analysis, prediction: BaseNode, target: BaseNode) -> list[Zone] | None:
    """Return where elements of a prediction depend on those of the source that they are compared with.

    None where they do not, and in doubt.
    """
    own, other = analysis.known[prediction], analysis.known[target]
    entries = own.axes[: len(other.axes)] if len(own.axes) > len(other.axes) else own.axes
    if len(entries) != len(other.axes):
        return None
    names: dict[int, int] = {}
    for entry, place in zip(entries, other.axes, strict=True):
        if len(entry) != len(place):
            return None
        for atom, of_target in zip(entry, place, strict=True):
            if (atom > 0) != (of_target > 0):
                return None
            names[abs(of_target)] = abs(atom)
    at_target = analysis.image(prediction, other.zones, names)
    sure = [zone for zone in own.zones if _is_sure(analysis, zone)]
    return analysis.met(sure, at_target) or None


def _is_sure(analysis: Analysis, zone: Zone) -> bool:
    """Return whether a zone passes only through ops that say what they depend on."""
    return not any(each.node in analysis.unknown for each in origins(zone))


def _is_one_sided(analysis: Analysis, prediction: BaseNode, target: BaseNode) -> bool:
    """Return whether elements depend on the positions up to their target, or from it on, as when a shift was forgotten.

    A model that reads its target on purpose, as to restore it, depends on all positions, or on those around it.
    """
    own, other = analysis.known[prediction], analysis.known[target]
    pairs = (
        (a, b) for entry, place in zip(own.axes, other.axes, strict=False) for a, b in zip(entry, place, strict=True)
    )
    for atom, of_target in pairs:
        back, ahead = analysis.window(own.zones, atom)
        least, most = analysis.window(other.zones, of_target)
        if atom < 0 or -least != most:
            continue  # the target is not at one place along this axis
        if (back == inf) != (ahead == inf):
            return True
        if back < inf and back != ahead and most in (ahead, -back):
            return True
    return False


# --- rows -------------------------------------------------------------------------------------------------------------


def warn_of_rows(outputs: Sequence[BaseNode], columns: Collection[BaseNode]) -> None:
    """Issue a `DependenceWarning` if rows of data depend on each other inside the model of an output.

    That is so if parameters are applied to them afterwards: a loss may compare rows, as contrastive losses do.
    """
    sources = _Sources(outputs)
    inside = set[BaseNode]()
    for node in reversed(sources.order):
        trained = [parent for parent in node.parents if sources.of[parent] == _TRAINED and parent.dims]
        if node in inside or (trained and node.dims):
            inside.update(node.parents)
    _warn_of_mixed(sources.order, columns, inside)


def warn_of_measured(arguments: Sequence[BaseNode], columns: Collection[BaseNode]) -> None:
    """Issue a `DependenceWarning` for the arguments of a metric: predictions that depend on a target or other rows."""
    sources = _Sources(arguments)
    predictions = [node for node in arguments if sources.of[node] & _TRAINED]
    for prediction in predictions:
        for target in arguments:
            source = sources.target(target)
            if source is not None and _warned_of_target(_Compared(prediction, target, source), _Sources([prediction])):
                return
    _warn_of_mixed(predictions, columns, set(predictions))


def _warn_of_mixed(nodes: Sequence[BaseNode], columns: Collection[BaseNode], chosen: set[BaseNode]) -> None:
    """Issue the warning for the first of the chosen nodes whose rows depend on each other."""
    firsts = {type(axis) for leaf in columns for axis in leaf.dims[:1] if isinstance(axis, Dim) and axis.size is None}
    if len(firsts) != 1 or not chosen:
        return
    (kind,) = firsts
    analysis = Analysis(nodes, {leaf: 0 for leaf in columns if leaf.dims})

    def fits(bounds: Bounds, atom: int | None) -> bool:
        return atom is not None and all(analysis.limited(bounds, u, v, 0) for u, v in ((SOURCE, atom), (atom, SOURCE)))

    for node in nodes:
        places = [k for k, axis in enumerate(node.dims) if type(axis) is kind]
        if node.is_leaf or node not in chosen or len(places) != 1:
            continue
        known = analysis.known[node]
        entry = known.axes[places[0]]
        if len(entry) != 1 or entry[0] < 0:
            continue
        wrong = [
            zone
            for zone in known.zones
            if not fits(zone.bounds, entry[0]) and _is_sure(analysis, zone) and _mixes(lost_at(zone, fits)[0])
        ]
        if wrong:
            zone = min(wrong, key=lambda each: each.depth)
            text = f"the rows of {describe(node)} depend on each other, so an evaluation depends on its batches: on"
            advice = "for statistics of a batch, wy.nn.BatchNorm1d keeps those of the training for an evaluation"
            _warn(f"{explained(text, node, analysis, zone, entry[0], fits)}\n  help: {advice}")
            return


def _mixes(node: BaseNode | None) -> bool:
    """Return whether an op makes statistics of rows. Lookups and products with other rows are on purpose."""
    if node is None or node.is_leaf:
        return False
    reducer = LOOPS.of(node).reducer
    summed = reducer is not None and "x * y" not in reducer.step
    return summed or node.composition() is not None or isinstance(REACH.of(node), Along)


def _warn(text: str) -> None:
    warnings.warn(f"{text}\n  help: {_MEANT}", DependenceWarning, stacklevel=user_level())
