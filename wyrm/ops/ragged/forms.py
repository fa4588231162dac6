"""How ops become those of flat arrays: the registry of their forms, and what the forms have in common.

`@flat_form(Op, ...)` registers how an op becomes flat. An op without such a form is refused when it is constructed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims, Ragged, axis_size, flat_dims, ragged_axis
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.node import IndexNode
from wyrm.graph.ragged import Padding
from wyrm.graph.ragged_leaves import Parts, parts_of
from wyrm.graph.source_location import located_at
from wyrm.graph.traversal import topological_order
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.indexing.gather import IndexGather
from wyrm.ops.indexing.index import Index
from wyrm.ops.shaping.arange import positions
from wyrm.ops.shaping.shape import with_axes


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

    def counted(self, own: Parts, x: Any, otherwise: Any) -> Any:
        """Return the values of entries, with another one, or those of a node, for entries that no reduction counts."""
        if not self.padded:
            return x
        if self.padding is Padding.PARTS:
            place = places_of(own)
            within = (place >= 0) & (place < repeated(own, own.lengths))
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


def rule_of(node: BaseNode) -> Rule | None:
    """Return the function that gives a node's flat form, None for an op without one."""
    return next((_rules[cls] for cls in type(node).__mro__ if cls in _rules), None)


def axis_of(node: BaseNode) -> Ragged | None:
    """Return the ragged axis of a node or of one of its operands."""
    return next((axis for each in (node, *node.parents) if (axis := ragged_axis(each.dims)) is not None), None)


def extend(made: dict[BaseNode, Any], order: Sequence[BaseNode], parts: PartsOf) -> None:
    """Add the flat forms of nodes, which come in topological order, to those that are known."""
    for node in order:
        if node in made:
            continue
        with located_at(node.origin):
            made[node] = _flat_node(node, [made[parent] for parent in node.parents], parts)


def _flat_node(node: BaseNode, operands: list[Any], parts: PartsOf) -> Any:
    if node.is_leaf:
        return node if ragged_axis(node.dims) is None else parts_of(node).values
    if axis_of(node) is not None:
        rule = rule_of(node)
        if rule is None:
            raise ShapeError(f"{describe(node)} has no form for rows of different lengths")
        return rule(node, operands, parts)
    changes = flat_attributes(node)
    same = not changes and all(new is old for new, old in zip(operands, node.parents, strict=True))
    return node if same else node.rebuild(operands, **changes)


def of_value(value: Any, node: BaseNode, operands: Sequence[Any], parts: PartsOf) -> Any:
    """Return the flat form of a value that is computed from the parents of a node."""
    made: dict[BaseNode, Any] = dict(zip(node.parents, operands, strict=True))
    extend(made, topological_order([value], made), parts)
    return made[value]


def flat_attributes(node: BaseNode) -> dict[str, Any]:
    """Return the attributes of a node that name a ragged axis, for the flat node."""
    found = {}
    for name, value in node.attribute_values().items():
        if isinstance(value, tuple) and any(isinstance(each, Axis) for each in value):
            flat = flat_dims(value)
            if flat != value:
                found[name] = flat
    return found


def repeated(own: Parts, x: Any) -> Any:
    """Return the value of its row for each entry."""
    return IndexGather(x, (own.rows,), (0,), 0) if isinstance(x, IndexNode) else Index(x, own.rows)


def places_of(own: Parts) -> Any:
    """Return the position of each entry among the entries of its row."""
    return positions(own.rows.dims[0]) - repeated(own, own.starts)


def aligned(given: BaseNode, flat: Any, dims: Dims, parts: PartsOf) -> Any:
    """Return a flat operand that broadcasts to the flat form of `dims`; `given` is the operand as it was."""
    axis, own = ragged_axis(dims), given.dims
    extra = len(dims) - len(own)
    if axis is None or ragged_axis(own) is not None or extra >= 2:
        return flat
    rest = own[2 - extra :]
    if extra == 1 or axis_size(own[0]) == 1:
        return with_axes(flat, rest)
    found = repeated(parts(axis), with_axes(flat, (own[0], *rest)))
    # Without any entry, those that fill up would read a row without entries: its maximum is infinite, its sum 0. By 1
    # no op is undefined.
    return parts.counted(parts(axis), found, 1.0) if found.dtype.kind == "f" else found
