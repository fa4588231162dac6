"""Graphs with rows of different lengths, as graphs of flat arrays that every engine runs.

A node with the axes (rows, ragged, ...) becomes one with the axes (entries, ...): its array has the entries of all rows
one after the other. A value of a row is repeated for the row's entries by a lookup of each entry's row, and a reduction
along the ragged axis is one by segments. All of these are ops that other graphs have too, with their gradients.

`@flat_form(Op, ...)` registers how an op becomes flat. An op without such a form is refused when it is constructed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Derived, Dims, Ragged, axis_size, flat_dims, open_axes, ragged_axis
from wyrm.graph.base import BaseNode, describe, reasons_alone
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Constant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.ragged import Layout, Padding, RaggedArray, check_lengths, held_rows, of_values, places
from wyrm.graph.ragged_leaves import Parts, parts_of
from wyrm.graph.source_location import located_at
from wyrm.graph.traversal import topological_order
from wyrm.ops.composed import Composed
from wyrm.ops.control.digits import FromDigits
from wyrm.ops.control.pass_through import PassThrough
from wyrm.ops.cross_entropy.labels import CountedLabels
from wyrm.ops.cross_entropy.softmax import (
    CrossEntropy,
    CrossEntropyCount,
    CrossEntropyGradient,
    LogSoftmax,
    Softmax,
)
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes, Elementwise
from wyrm.ops.elementwise.integers import IndexArithmetic
from wyrm.ops.gradients.reverse import with_sizes
from wyrm.ops.indexing.advanced_indexing import FromEnd
from wyrm.ops.indexing.gather import Gather, IndexGather, Place, common_axes
from wyrm.ops.indexing.index import Index, JoinRows, RowGradient, ScatterAdd
from wyrm.ops.indexing.joining import Concatenate, Stack
from wyrm.ops.indexing.keys import ALL
from wyrm.ops.indexing.segment import SegmentMax, segment_total
from wyrm.ops.indexing.slicing import IndexSlice, PlaceSlice, Slice
from wyrm.ops.indexing.taking import IndexTakeAlongAxis, PlaceAlongAxis, TakeAlongAxis
from wyrm.ops.normalization.normalization import (
    LayerNorm,
    NormalizationGradient,
    NormalizationWeightGradient,
    RMSNorm,
)
from wyrm.ops.normalization.statistics import LogSumExp, Variance
from wyrm.ops.products.einsum import Einsum
from wyrm.ops.products.linear_gelu import LinearGelu, LinearGeluGradient
from wyrm.ops.products.product import MatMul, VectorDot
from wyrm.ops.random.draws import RandomPermutation
from wyrm.ops.random.dropout import AddDropout, Dropout, DropoutMask
from wyrm.ops.random.philox import Draws
from wyrm.ops.random.sampling import RandomIndex
from wyrm.ops.reducing.base import Count, OneAxis, Reduction
from wyrm.ops.reducing.counting import CountTrue
from wyrm.ops.reducing.cumulative import CumSum, Recurrence, Shift
from wyrm.ops.reducing.index_reduction import IndexSum
from wyrm.ops.reducing.reduction import Max, Mean, Min, Sum
from wyrm.ops.shaping.arange import positions
from wyrm.ops.shaping.shape import BroadcastTo, IndexReshape, Reshape, Unchanged, WithSizes, with_axes
from wyrm.ops.shaping.transpose import IndexTranspose, Transpose
from wyrm.ops.subgraph import placeholder_like


class PartsOf(NamedTuple):
    """The parts of the input that gives each ragged axis its lengths.

    With `padding`, arrays may have more entries than their rows: those repeat another one, with the same row, and no
    reduction counts them.
    """

    of: Callable[[Ragged], Parts]
    padding: Padding

    @property
    def padded(self) -> bool:
        """Whether arrays may have more entries than their rows."""
        return self.padding is not Padding.NONE

    def __call__(self, axis: Ragged) -> Parts:
        return self.of(axis)

    def counted(self, own: Parts, x: Any, otherwise: float) -> Any:
        """Return the values of entries, with another one for those that no reduction counts."""
        if not self.padded:
            return x
        if self.padding is Padding.PARTS:
            places = _places(own)
            within = (places >= 0) & (places < _repeated(own, own.lengths))
        else:
            within = positions(own.rows.dims[0]) < own.lengths.sum(axis=0)
        return where(with_axes(within, (*within.dims, *(1 for _ in x.dims[1:]))), x, otherwise)


# Returns a flat node, given a node, its flat operands, and the parts of axes.
Rule = Callable[[Any, list[Any], PartsOf], Any]
_rules: dict[type[Any], Rule] = {}


def flat_form(*classes: type[Any]) -> Callable[[Rule], Rule]:
    """Register a function that returns the flat form of a node of these classes, and of those derived from them."""

    def registered(rule: Rule) -> Rule:
        _rules.update(dict.fromkeys(classes, rule))
        return rule

    return registered


def _rule(node: BaseNode) -> Rule | None:
    return next((_rules[cls] for cls in type(node).__mro__ if cls in _rules), None)


def _along(node: BaseNode) -> Ragged | None:
    """Return the ragged axis of a node or of one of its operands."""
    return next((axis for each in (node, *node.parents) if (axis := ragged_axis(each.dims)) is not None), None)


_NOTHING: Mapping[Any, Any] = MappingProxyType({})


# --- graphs -----------------------------------------------------------------------------------------------------------


class Flattened(NamedTuple):
    """A graph of flat arrays: the node in place of each node, and the inputs with a ragged axis by that axis.

    `whole` is a node that reads all entries of arrays, so that these have no other entries than their rows.
    """

    node: dict[BaseNode, Any]
    inputs: dict[type[Ragged], list[BaseNode]]
    padding: Padding
    whole: BaseNode | None

    @property
    def padded(self) -> bool:
        """Whether arrays may have more entries than their rows."""
        return self.padding is not Padding.NONE

    def parts(self, axis: Ragged) -> Parts:
        """Return the parts of the first input with an axis, whose lengths are those of all."""
        return parts_of(self.inputs[type(axis)][0])

    def users(self, fed: Sequence[BaseNode]) -> list[BaseNode]:
        """Return the inputs that users give data for, given the leaves that a step reads."""
        replaced = {part: leaf for leaves in self.inputs.values() for leaf in leaves for part in parts_of(leaf)}
        return list(dict.fromkeys(replaced.get(leaf, leaf) for leaf in fed))

    def check_held(self) -> None:
        """Raise `ShapeError` if the data of two inputs with the same ragged axis has other lengths."""
        self.arrays({})

    def arrays(
        self, given: Mapping[BaseNode, Any], layouts: Mapping[type[Ragged], Layout] = _NOTHING
    ) -> dict[BaseNode, np.ndarray]:
        """Return the arrays of all parts of the inputs, of given rows or else of those that an input holds.

        With a layout for an axis, its arrays have other entries too; without any entry, these are zeros.

        Raise `ShapeError` for inputs with the same ragged axis whose rows have different lengths.
        """
        found: dict[BaseNode, np.ndarray] = {}
        for name, leaves in self.inputs.items():
            data: dict[BaseNode, Any] = {leaf: _data_of(leaf, given) for leaf in leaves}
            known = [leaf for leaf in leaves if data[leaf] is not None]
            for leaf in known[1:]:
                check_lengths(leaf, data[leaf], known[0], data[known[0]])
            if not known:
                continue
            (rows, starts, lengths), layout, taken = places(data[known[0]]), layouts.get(name), None
            if layout is not None:
                starts, taken = layout.starts(data[known[0]]), layout.taken(data[known[0]])
            for leaf in known:
                found[parts_of(leaf).values] = _taken(data[leaf].values, taken)
            found |= zip(parts_of(leaves[0])[1:], (_taken(rows, taken), starts, lengths), strict=True)
        return found

    def as_rows(
        self, outputs: Sequence[BaseNode], values: Sequence[Any], given: Mapping[BaseNode, Any] = {}
    ) -> list[Any]:
        """Return the values of outputs, those along a ragged axis as a `RaggedArray`."""
        found = []
        for output, value in zip(outputs, values, strict=True):
            axis = ragged_axis(output.dims)
            if axis is None:
                found.append(value)
                continue
            rows = self.rows(type(axis), given)
            found.append(of_values(value[: len(rows.values)], rows))
        return found

    def rows(self, name: type[Ragged], given: Mapping[BaseNode, Any]) -> RaggedArray:
        """Return the rows of the first input with an axis that has some, given or held."""
        found = (_data_of(leaf, given) for leaf in self.inputs[name])
        return next(rows for rows in found if rows is not None)


def _data_of(leaf: BaseNode, given: Mapping[BaseNode, Any]) -> RaggedArray | None:
    return given[leaf] if leaf in given else held_rows(leaf)


def _taken(entries: np.ndarray, taken: Any) -> np.ndarray:
    """Return these entries, or all; zeros where there are none."""
    if taken is None:
        return entries
    return entries[taken] if len(entries) else np.zeros((len(taken), *entries.shape[1:]), entries.dtype)


def flattened(outputs: Sequence[BaseNode], padding: Padding = Padding.NONE) -> Flattened | None:
    """Return the outputs as a graph of flat arrays; None for a graph without a ragged axis.

    With `padding`, arrays may have more entries than their rows, unless a node reads all entries.

    Raise `ShapeError` for a ragged axis without an input, and for inputs in which it has different rows.
    """
    order = topological_order(outputs)
    inputs: dict[type[Ragged], list[BaseNode]] = {}
    for leaf in order:
        axis = ragged_axis(leaf.dims) if leaf.is_leaf else None
        if axis is not None:
            inputs.setdefault(type(axis), []).append(leaf)
    if not inputs and not any(ragged_axis(node.dims) for node in order):
        return None
    for leaves in inputs.values():
        first = leaves[0]
        for leaf in leaves[1:]:
            if type(leaf.dims[0]) is not type(first.dims[0]):
                raise ShapeError(
                    f"axis {leaf.dims[1]!r} has the rows {first.dims[0]!r} in {describe(first)} and {leaf.dims[0]!r} "
                    f"in {describe(leaf)}: inputs with the same ragged axis have the same rows"
                )

    for node in order:
        axis = ragged_axis(node.dims)
        if axis is not None and type(axis) not in inputs:
            raise ShapeError(
                f"axis {axis!r} of {describe(node)} has no lengths: the rows of data give them, and this graph reads "
                f"no wy.Input or wy.IndexInput that has the axis"
            )

    def parts(axis: Ragged) -> Parts:
        return parts_of(inputs[type(axis)][0])

    made: dict[BaseNode, Any] = {}
    whole = next(filter(_reads_all_entries, order), None)
    padding = Padding.NONE if whole is not None else padding
    _extend(made, order, PartsOf(parts, padding))
    # Rows and entries that no array of the flat graph has, such as a number of rows, get their sizes from the parts.
    of_lengths = [part for leaves in inputs.values() for part in parts_of(leaves[0])[1:]]
    sized = [output for output in outputs if isinstance(output, Node)]
    made |= zip(sized, with_sizes([made[output] for output in sized], of_lengths), strict=True)
    return Flattened(made, inputs, padding, whole)


# Ops that add up all entries of their operands, or count labels, mostly those of gradients.
_OF_ALL_ENTRIES = CrossEntropyCount, LinearGeluGradient, NormalizationWeightGradient, RowGradient, ScatterAdd


def _reads_all_entries(node: BaseNode) -> bool:
    """Return whether padded entries would count in a node, or in what may be made of its axes."""
    if isinstance(node, _OF_ALL_ENTRIES):
        return _along(node) is not None
    return any(isinstance(axis, Derived) and flat_dims((axis,)) != (axis,) for axis in node.dims)


def _extend(made: dict[BaseNode, Any], order: Sequence[BaseNode], parts: PartsOf) -> None:
    """Add the flat forms of nodes, which come in topological order, to those that are known."""
    for node in order:
        if node in made:
            continue
        with located_at(node.origin):
            made[node] = _flat(node, [made[parent] for parent in node.parents], parts)


def _flat(node: BaseNode, operands: list[Any], parts: PartsOf) -> Any:
    if node.is_leaf:
        return node if ragged_axis(node.dims) is None else parts_of(node).values
    if _along(node) is not None:
        rule = _rule(node)
        if rule is None:
            raise ShapeError(f"{describe(node)} has no form for rows of different lengths")
        return rule(node, operands, parts)
    changes = _flat_attributes(node)
    same = not changes and all(new is old for new, old in zip(operands, node.parents, strict=True))
    return node if same else node.rebuild(operands, **changes)


def _flat_attributes(node: BaseNode) -> dict[str, Any]:
    """Return the attributes of a node that name a ragged axis, for the flat node."""
    found = {}
    for name, value in node.attribute_values().items():
        if isinstance(value, tuple) and any(isinstance(each, Axis) for each in value):
            flat = flat_dims(value)
            if flat != value:
                found[name] = flat
    return found


def check(node: BaseNode) -> None:
    """Raise `ShapeError` with the reason unless a node that is being constructed has a flat form.

    The flat form is made, of placeholders: what is refused is refused by the form itself.
    """
    rule, axis = _rule(node), _along(node)
    if axis is None:
        for each in (node, *node.parents):
            flat_dims(each.dims)
        return
    if rule is _composed_along and _is_along(node):
        return  # ops that are defined along the axis
    if rule is _composition:
        if type(node).shape_rule is not Composed.shape_rule:  # else its nodes were checked
            _check_composition(node, axis)
        return
    if rule is None:
        raise ShapeError(f"{node.op_name()} is not defined along {axis!r}, whose rows have different lengths")
    flat = [flat_dims(parent.dims) for parent in node.parents]
    operands = [
        parent if dims == parent.dims else placeholder_like(parent, dims, parent.name or "operand")
        for parent, dims in zip(node.parents, flat, strict=True)
    ]
    rows = next(each.dims[0] for each in (node, *node.parents) if ragged_axis(each.dims) is not None)
    found = rule(node, operands, PartsOf(lambda axis: _placeholders(axis, rows), Padding.NONE))
    wanted = flat_dims(node.dims)
    if len(found.dims) != len(wanted):
        raise AssertionError(f"the flat form of {node.op_name()} has the axes {found.dims}, not {wanted}")


def _check_composition(node: Any, axis: Ragged) -> None:
    """Raise `ShapeError` for an op made of others, such as an LSTM, if one of these is not defined along the axis."""
    try:
        with reasons_alone(node):
            node.compose(*node.parents)
    except ShapeError as error:
        raise ShapeError(
            f"is made for rows of one length, and those along {axis!r} have different ones ({error}): wy.row_scan is a "
            f"loop along each row, and pooling by attention (scores.softmax(axis=1).expand_dims(-1) * x).sum(axis=1)"
        ) from None


def _placeholders(axis: Ragged, rows: Axis) -> Parts:
    by_row: Any = (rows, axis)
    return parts_of(IndexInput(dims=by_row))


def _repeated(own: Parts, x: Any) -> Any:
    """Return the value of its row for each entry."""
    return IndexGather(x, (own.rows,), (0,), 0) if isinstance(x, IndexNode) else Index(x, own.rows)


def _places(own: Parts) -> Any:
    """Return the position of each entry among the entries of its row."""
    return positions(own.rows.dims[0]) - _repeated(own, own.starts)


# --- operands ---------------------------------------------------------------------------------------------------------


def _aligned(given: BaseNode, flat: Any, dims: Dims, parts: PartsOf) -> Any:
    """Return a flat operand that broadcasts to the flat form of `dims`; `given` is the operand as it was."""
    axis, own = ragged_axis(dims), given.dims
    extra = len(dims) - len(own)
    if axis is None or ragged_axis(own) is not None or extra >= 2:
        return flat
    rest = own[2 - extra :]
    if extra == 1 or axis_size(own[0]) == 1:
        return with_axes(flat, rest)
    return _repeated(parts(axis), with_axes(flat, (own[0], *rest)))


def _of_entries(node: BaseNode, operands: Sequence[Any], **changes: Any) -> Any:
    """Return an op that treats each entry by itself, of flat operands; the others have no axis of rows."""
    axis = _along(node)
    rows = next(each.dims[0] for each in (node, *node.parents) if ragged_axis(each.dims) is not None)
    for parent in node.parents:
        if ragged_axis(parent.dims) is None and any(name is type(rows) for name in open_axes(parent.dims)):
            raise ShapeError(
                f"takes operands along {axis!r}, or without the axis {rows!r}; repeat a row's value along it with "
                f"wy.broadcast_to, or multiply and add up the axis"
            )
    return node.rebuild(operands, **(_flat_attributes(node) | changes))


@flat_form(Elementwise, IndexArithmetic, PassThrough, Dropout, AddDropout)
def _elementwise(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    return node.rebuild(
        _aligned(given, flat, node.dims, parts) for given, flat in zip(node.parents, operands, strict=True)
    )


@flat_form(
    CountedLabels, CrossEntropy, CrossEntropyCount, CrossEntropyGradient, Index, JoinRows, LayerNorm, LinearGelu,
    LinearGeluGradient, NormalizationGradient, NormalizationWeightGradient, RMSNorm, RowGradient, ScatterAdd,
)  # fmt: skip
def _by_entry(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    if isinstance(node, Index | ScatterAdd) and ragged_axis(node.parents[0].dims) is not None:
        raise ShapeError(
            f"looks up rows of a table, and the table has rows of different lengths along {_along(node)!r}"
        )
    if isinstance(node, CrossEntropy) and isinstance(node.parents[0].dims[-1], Ragged):
        raise ShapeError(
            f"takes classes of one number; among the entries along {_along(node)!r}, with the position of the right "
            f"one, it is -wy.entry_at(logits.log_softmax(axis=1), labels)"
        )
    if parts.padded and isinstance(node, CrossEntropy) and node.reduction != "none":
        return _composition(node, operands, parts)
    return _of_entries(node, operands)


@flat_form(MatMul)
def _matmul(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    x, y = node.parents
    if any(isinstance(axis, Ragged) for each in (x, y) for axis in each.dims[-2:] if each is y or each.ndim > 3):
        raise ShapeError(_no_product(node))
    if (x.ndim == 2 and ragged_axis(x.dims) is not None) or (ragged_axis(y.dims) is None and y.ndim > 2):
        raise ShapeError(_no_product(node))
    return _of_entries(node, operands)


def _no_product(node: BaseNode) -> str:
    return (
        f"sums or pairs along {_along(node)!r}, where rows have different lengths: a product takes entries and a "
        f"matrix, x @ w; a weighted sum of a row's entries is (weights.expand_dims(-1) * x).sum(axis=1)"
    )


@flat_form(VectorDot)
def _vector_dot(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    if any(isinstance(parent.dims[-1], Ragged) for parent in node.parents):
        raise ShapeError(_no_product(node))
    dims = (*node.dims, node.parents[0].dims[-1])
    return node.rebuild(_aligned(given, flat, dims, parts) for given, flat in zip(node.parents, operands, strict=True))


@flat_form(Einsum)
def _einsum(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    *terms, result = node.terms()
    axis, of_entries = _along(node), [ragged_axis(parent.dims) is not None for parent in node.parents]
    assert axis is not None
    # The letter of the rows becomes that of the entries, and the letter of the ragged axis is left out.
    rows, along = terms[of_entries.index(True)][:2]
    if any(each and term[:2] != rows + along for each, term in zip(of_entries, terms, strict=True)):
        raise ShapeError(_no_product(node))
    if along in result and result[:2] != rows + along:
        raise ShapeError(f"moves {axis!r}, which stands behind the axis of its rows")
    own, by_entry = parts(axis), along in result or all(of_entries)
    for place, (term, x) in enumerate(zip(terms, operands, strict=True)):
        if of_entries[place]:
            operands[place] = x if by_entry else _total(x, own, parts)
            terms[place] = term.replace(along, "")
        elif by_entry and rows in term:
            terms[place] = rows + term.replace(rows, "")
            operands[place] = _repeated(own, Transpose(x, tuple(term.index(letter) for letter in terms[place])))
    if by_entry and rows not in result:
        operands = [parts.counted(own, x, 0.0) for x in operands]
    added = by_entry and along not in result and rows in result  # one row after the other
    made = rows + result.replace(rows, "") if added else result.replace(along, "")
    found = node.rebuild(operands, subscripts=f"{','.join(terms)}->{made}")
    if not added:
        return found
    return Transpose(_total(found, own, parts), tuple(made.index(letter) for letter in result))


# --- axes -------------------------------------------------------------------------------------------------------------


@flat_form(Reshape, IndexReshape, PlaceSlice, DropoutMask, Draws)
def _with_flat_axes(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    if isinstance(node, PlaceSlice):
        return node.rebuild(operands, key=_flat_key(node), to=flat_dims(node.to))
    if isinstance(node, Reshape | IndexReshape):
        return node.rebuild(operands, to=flat_dims(node.dims))
    return node.rebuild(operands, **_flat_attributes(node))


@flat_form(RandomIndex)
def _random_index(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    (*others, excluded), given, axis = operands, node.parents[-1], ragged_axis(node.dims)
    if node.rejects and not node.compressed and isinstance(given.dims[-1], Ragged):
        raise ShapeError(
            f"excludes lists of different lengths, along {given.dims[-1]!r}: fill them up with -1 to one length, or "
            f"give those of all users in exclude, and the users of the draws in rows"
        )
    if axis is not None and node.rejects and ragged_axis(given.dims) is None and len(given.dims) > 1 - node.compressed:
        excluded = _repeated(parts(axis), excluded)
    return node.rebuild([*others, excluded], to=flat_dims(node.to))


@flat_form(RandomPermutation)
def _permutation(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    if isinstance(node.dims[-1], Ragged):
        raise ShapeError(f"is not defined along {node.dims[-1]!r}, whose rows have different lengths")
    return node.rebuild(operands, to=flat_dims(node.to))


@flat_form(FromEnd, WithSizes)
def _unchanged(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    return node.rebuild(operands)


@flat_form(BroadcastTo)
def _broadcast_to(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    (x,) = node.parents
    return node.rebuild((_aligned(x, operands[0], node.dims, parts),), to=flat_dims(node.dims))


@flat_form(Transpose, IndexTranspose)
def _transpose(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    axes = tuple(axis % node.ndim for axis in node.axes)
    if axes[:2] != (0, 1):
        raise ShapeError(f"moves {_along(node)!r}, which stands behind the axis of its rows")
    return node.rebuild(operands, axes=(0, *(axis - 1 for axis in axes[2:])))


@flat_form(Slice, IndexSlice)
def _slice(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    return node.rebuild(operands, key=_flat_key(node))


def _flat_key(node: Any) -> Any:
    if node.key[:2] != (ALL, ALL):
        raise ShapeError(
            f"selects along {_along(node)!r} or its rows, where rows have different lengths: wy.first_entry(x) and "
            f"wy.last_entry(x) are entries of each row, and wy.where selects by a mask"
        )
    return node.key[1:]


@flat_form(Gather, IndexGather, Place)
def _gather(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    (_, *indices), (x, *flat) = node.parents, operands
    source = node.to if isinstance(node, Place) else node.parents[0].dims
    by_entry = [ragged_axis(each.dims) is not None for each in indices]
    axis: Any = _along(node)
    if ragged_axis(source) is None and node.after == 0:
        dims = common_axes(indices)
        found = [_aligned(given, each, dims, parts) for given, each in zip(indices, flat, strict=True)]
        if not isinstance(node, Place):
            return node.rebuild((x, *found))
        own = parts(axis)
        return WithSizes(node.rebuild((parts.counted(own, x, 0.0), *found)), (own.lengths,))
    if ragged_axis(source) is not None and min(*node.axes, node.after) > 1 and not any(by_entry):
        changes = {"to": flat_dims(node.to)} if isinstance(node, Place) else {}
        return node.rebuild((x, *flat), axes=tuple(each - 1 for each in node.axes), after=node.after - 1, **changes)
    raise ShapeError(f"looks up elements along {axis!r} or its rows, where rows have different lengths")


@flat_form(OneAxis, Concatenate, Stack, TakeAlongAxis, IndexTakeAlongAxis, PlaceAlongAxis)
def _one_axis(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    count = len(node.parents[0].dims) + isinstance(node, Stack)
    axis = node.axis % count
    if axis < 2:
        raise ShapeError(f"is not defined along {_along(node)!r}, whose rows have different lengths, nor across rows")
    if any(ragged_axis(parent.dims) is None for parent in node.parents):
        raise ShapeError(f"takes operands that all have the axis {_along(node)!r}")
    return node.rebuild(operands, axis=axis - 1, **_flat_attributes(node))


def _is_along(node: Any) -> bool:
    """Return whether a reduction or an op along an axis is one along the ragged axis or along its rows."""
    (x, *_) = node.parents
    axes = node.axis if isinstance(node.axis, tuple) else (node.axis,)
    return ragged_axis(x.dims) is not None and min((axis % x.ndim for axis in axes), default=2) < 2


# --- compositions -----------------------------------------------------------------------------------------------------


@flat_form(Composed)
def _composition(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    value = node.compose(*node.parents)
    made = dict(zip(node.parents, operands, strict=True))
    _extend(made, topological_order([value], made), parts)
    return made[value]


@flat_form(LogSoftmax, LogSumExp, Softmax, Variance)
def _composed_along(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    """Return the flat form of a composed op that has axes: of the op itself if these are those of each entry."""
    if _is_along(node):
        return _composition(node, operands, parts)
    if isinstance(node, Reduction):
        return node.rebuild(operands, axis=tuple(axis - 1 for axis in node.axis))
    return _one_axis(node, operands, parts)


# --- reductions -------------------------------------------------------------------------------------------------------


@flat_form(Reduction, CountTrue)
def _reduction(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    ((given,), (x,)) = node.parents, operands
    axis, rest = ragged_axis(given.dims), tuple([each - 1 for each in node.axis if each > 1])
    if axis is None:
        raise ShapeError(f"is not defined along {_along(node)!r}")
    if 1 not in node.axis:
        if 0 in node.axis:
            raise ShapeError(
                f"reduces the axis of rows, along which the entries of {axis!r} do not stand side by side: reduce "
                f"axis 1, or both axes"
            )
        return node.rebuild((x,), axis=rest)
    if 0 in node.axis and not parts.padded:
        return _with_ones(node, node.rebuild((x,), axis=(0, *rest), keepdims=False))
    own = parts(axis)
    if isinstance(node, Count) and 0 in node.axis:
        entries = own.lengths.sum(axis=0).astype(node.dtype)
        return entries * Count(x, rest) if rest else entries
    inner = node.rebuild((x,), axis=rest, keepdims=False) if rest else x
    reduced = next((_segments[cls] for cls in type(node).__mro__ if cls in _segments), None)
    if reduced is None:
        raise ShapeError(f"is not defined along {axis!r}, whose rows have different lengths")
    by_row = reduced(inner, own, parts)
    if 0 not in node.axis:
        return _with_ones(node, by_row)
    # Of all entries: rows first, so that only their entries count.
    if isinstance(node, Mean):
        total = Sum(_total(inner, own, parts), 0)
        return _with_ones(node, total / own.lengths.sum(axis=0).astype(total.dtype))
    every: Any = IndexSum(by_row, 0) if isinstance(node, CountTrue) else type(node)(by_row, 0)
    return _with_ones(node, every)


def _with_ones(node: Any, reduced: Any) -> Any:
    """Return a reduced value with the axes of size 1 that `keepdims` keeps."""
    return with_axes(reduced, flat_dims(node.dims)) if node.keepdims else reduced


def _total(x: Any, own: Parts, parts: PartsOf) -> Any:
    # The lengths give the axis of rows its size.
    return WithSizes(segment_total(parts.counted(own, x, 0.0), own.rows, own.rows.within), (own.lengths,))


def _mean(x: Any, own: Parts, parts: PartsOf) -> Any:
    number = own.lengths.astype(x.dtype).maximum(1.0)
    return _total(x, own, parts) / with_axes(number, (own.rows.within, *(1 for _ in x.dims[1:])))


def _largest(x: Any, own: Parts, parts: PartsOf) -> Any:
    return WithSizes(SegmentMax(parts.counted(own, x, -np.inf), own.rows, own.rows.within), (own.lengths,))


def _smallest(x: Any, own: Parts, parts: PartsOf) -> Any:
    return -_largest(-x, own, parts)


def _count_true(x: Any, own: Parts, parts: PartsOf) -> Any:
    # Sums of float64 are exact up to 2**53. `x` holds numbers if it was reduced before.
    total = _total(x.astype(np.float64), own, parts).expand_dims(-1)
    return FromDigits(total * Constant([1.0, 0.0, 0.0], dtype=np.float64))


_segments: Mapping[type[Any], Callable[[Any, Parts, PartsOf], Any]] = {
    Sum: _total, Mean: _mean, Max: _largest, Min: _smallest, CountTrue: _count_true,
}  # fmt: skip


# --- along the axis ---------------------------------------------------------------------------------------------------


def _continues(x: Any, own: Parts, reverse: bool) -> Any:
    """Return for each entry 1 if another entry of its row comes before it, after it with `reverse`, and else 0."""
    first = _repeated(own, own.starts)
    if reverse:
        first = first + _repeated(own, own.lengths) - 1
    continues = (positions(own.rows.dims[0]) != first).astype(x.dtype)
    return with_axes(continues, (own.rows.dims[0], *(1 for _ in x.dims[1:]))).broadcast_to(x.dims)


@flat_form(CumSum, Recurrence, Shift)
def _cumulative(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    if node.axis % node.ndim != 1:
        return _one_axis(node, operands, parts)
    axis = ragged_axis(node.dims)
    assert axis is not None
    own, reverse = parts(axis), node.reverse
    *factor, x = operands
    continues = _continues(x, own, reverse)
    if isinstance(node, Shift):
        shifted = Shift(x, axis=0, reverse=reverse, fill=node.fill)
        return shifted * continues + (1.0 - continues) * node.fill if node.fill else shifted * continues
    before = continues * factor[0] if factor else continues
    return Recurrence(before, x, axis=0, reverse=reverse)


# --- ops of rows of different lengths ---------------------------------------------------------------------------------


class _OfLengths(IndexNode[Axes], abstract=True):
    """An op whose value follows from the lengths of its operand's rows alone."""

    __slots__ = ()
    shape_only: ClassVar[bool] = True

    def __init__(self, x: BaseNode) -> None:
        self._construct((x,))

    def shape_rule(self) -> Dims:
        dims: Dims = self.parents[0].dims
        return dims[:2]


class RowLengthsOf(_OfLengths[Axes], abstract=True):
    """The number of entries of each row."""

    __slots__ = ()

    def shape_rule(self) -> Dims:
        return super().shape_rule()[:1]


class EntryPositions(_OfLengths[Axes], abstract=True):
    """The position of each entry in its row; counted from the row's last entry with `from_end`."""

    __slots__ = ("from_end",)
    from_end: bool

    def __init__(self, x: BaseNode, from_end: bool = False) -> None:
        self._construct((x,), from_end=from_end)


class EntryRowNumbers(_OfLengths[Axes], abstract=True):
    """The number of its row for each entry."""

    __slots__ = ()


@flat_form(_OfLengths)
def _of_lengths(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    axis = ragged_axis(node.parents[0].dims)
    assert axis is not None
    own = parts(axis)
    if isinstance(node, RowLengthsOf):
        return own.lengths
    if isinstance(node, EntryRowNumbers):
        return own.rows
    places = _places(own)
    # Entries that only fill an array up have position 0, so that a loop along rows starts again at each of them.
    return parts.counted(own, _repeated(own, own.lengths) - 1 - places if node.from_end else places, 0)


# --- entries one after the other --------------------------------------------------------------------------------------


class _Entries(Unchanged[Any, Axes], abstract=True):
    """What `EntriesOf` and `IndexEntriesOf` share."""

    __slots__ = ()

    def __init__(self, x: BaseNode) -> None:
        self._construct((x,))

    def shape_rule(self) -> Dims:
        return flat_dims(self.parents[0].dims)


class _Rows(Unchanged[Any, Axes], abstract=True):
    """What `RowsOf` and `IndexRowsOf` share."""

    __slots__ = ("to",)
    to: Dims

    def __init__(self, x: BaseNode, to: Dims) -> None:
        self._construct((x,), to=to)

    def shape_rule(self) -> Dims:
        return self.to


class EntriesOf(_Entries[Axes], Node[Any, Axes], abstract=True):
    """The entries of all rows, one row after the other, of the shape (entries, ...)."""

    __slots__ = ()

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (RowsOf(gradient, self.parents[0].dims),)


class RowsOf(_Rows[Axes], Node[Any, Axes], abstract=True):
    """Entries that stand one row after the other, as the rows `to`, of the shape (rows, entries of each, ...)."""

    __slots__ = ()

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (EntriesOf(gradient),)


class IndexEntriesOf(_Entries[Axes], IndexNode[Axes], abstract=True):
    """The integers of all rows, one row after the other, of the shape (entries, ...)."""

    __slots__ = ()


class IndexRowsOf(_Rows[Axes], IndexNode[Axes], abstract=True):
    """Integers that stand one row after the other, as the rows `to`, of the shape (rows, entries of each, ...)."""

    __slots__ = ()


@flat_form(EntriesOf)
def _counted_entries(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    # Entries that only fill an array up become 0: a loop adds up the gradients of all entries.
    axis, (x,) = ragged_axis(node.parents[0].dims), operands
    assert axis is not None
    return parts.counted(parts(axis), x, 0.0) if x.dtype.kind == "f" else x


@flat_form(RowsOf, IndexEntriesOf, IndexRowsOf)
def _already_flat(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    return operands[0]


def entries_of(x: Any) -> Any:
    """Return the entries of all rows of a node of floats or of integers, one row after the other."""
    return IndexEntriesOf(x) if isinstance(x, IndexNode) else EntriesOf(x)


def rows_of(entries: Any, to: Dims) -> Any:
    """Return entries that stand one row after the other, a node of floats or of integers, as the rows `to`."""
    return IndexRowsOf(entries, to) if isinstance(entries, IndexNode) else RowsOf(entries, to)
