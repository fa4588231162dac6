"""What can be wrong with an op in NumPy: each check returns a finding for each rule that is."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from wyrm.engines.combination import Combination, RowDependence, row_dependence
from wyrm.errors import DTypeError, IndexOutOfRange, NotSet, WyrmError
from wyrm.functions.mapping import batched
from wyrm.graph.axes import Dim, UnnamedDim
from wyrm.graph.base import BaseNode, Undefined, Zero, describe
from wyrm.graph.leaves import Constant
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.op import NUMPY, Op
from wyrm.graph.rows import RowSparse
from wyrm.ops.composed import Composed
from wyrm.ops.elementwise.elementwise import Elementwise
from wyrm.ops.elementwise.formula import formula_value
from wyrm.reach.rules import REACH, Reach
from wyrm.testing.engines import FLOAT_TYPES, Alone, alone, difference, leaf_like, on_operands, reference
from wyrm.testing.reaching import unsound

# The rows of a batch in the checks of `batched`.
_ROWS = 3
# The most choices of axes for which rows are divided.
_CHOICES = 24


class Finding(NamedTuple):
    """A rule of an op that is wrong, such as "Doubled.evaluate", in an engine, such as "native", and what it does."""

    rule: str
    engine: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule} ({self.engine}): {self.text}"


def meaning(node: BaseNode) -> str:
    """Return the name of the rule by which the reference engine computes an op."""
    composed = "compose" if isinstance(node, Composed) else "evaluate"
    return f"{type(node).__name__}.{'formula' if node.formula else composed}"


def gradient_rule(node: BaseNode) -> str:
    """Return the name of the rule that an op's gradient is by."""
    derived = isinstance(node, Elementwise) and type(node).vjp is Elementwise.vjp
    return f"{type(node).__name__}.{'derivatives' if derived else 'vjp'}"


def raised(error: Exception) -> str:
    """Return an error as text of one line."""
    return f"raises {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def in_both_types(node: BaseNode) -> tuple[list[Alone], list[Finding]]:
    """Return the op in each float type that it takes, the first one exact, and what differs between the types."""
    made: list[Alone] = []
    for dtype in FLOAT_TYPES:
        try:
            made += alone([node], dtype)
        except DTypeError:  # an op may take one type only
            continue
    values, found = [], []
    for each in made:
        try:
            values.append(reference([each.node])[0])
        except Exception as error:
            return [], [Finding(meaning(node), "reference", f"{raised(error)}")]
    if len(made) < 2 or not made[0].floats:
        return made[:1], []
    wide, narrow = values
    name = f"{type(node).__name__}.dtype_rule"
    if narrow.dtype.kind != wide.dtype.kind:
        found.append(Finding(name, "reference", f"gives {narrow.dtype} for float32 and {wide.dtype} for float64"))
    elif wide.dtype.kind == "f" and not made[0].draws:
        differs = difference(narrow.astype(wide.dtype), wide, 1e-4)
        if differs is not None:
            text = f"computes {differs[0]} in float32 and {differs[1]} in float64"
            found.append(Finding(meaning(node), "reference", text))
    return made, found


def of_meaning(each: Alone, expected: object) -> list[Finding]:
    """Check the value against the expected one and against a second definition, and that operands stay as they are."""
    node, rule = each.node, meaning(each.node)
    (value,) = reference([node])
    if expected is not None:
        differs = difference(value, np.asarray(expected).astype(value.dtype), 1e-10)
        if differs is not None:
            return [Finding(rule, "reference", f"computes {differs[0]}, and {differs[1]} is expected")]
    if not _has_evaluate(node):
        return []
    operands = [array for array in map(_sample_of, node.parents) if array is not None]
    if len(operands) < len(node.parents):
        return []
    given: list[Any] = [operand.copy() for operand in operands]
    shape, sizes = value.shape, _open_sizes(node)
    found = node.evaluate_for(sizes)(NUMPY, *given, shape=shape)
    name = f"{type(node).__name__}.evaluate"
    for parent, before, after in zip(node.parents, operands, given, strict=True):
        if not np.array_equal(before, after, equal_nan=after.dtype.kind == "f"):
            return [Finding(name, "reference", f"changes its operand {describe(parent)} in place: copy it first")]
    if isinstance(found, RowSparse):
        return []
    if np.shape(found) != shape:
        text = f"returns an array of shape {np.shape(found)}, and shape_rule promises {shape}"
        return [Finding(name, "reference", text)]
    if node.formula:
        differs = difference(np.asarray(found), np.broadcast_to(formula_value(np, node, given), shape))
        if differs is not None:
            return [Finding(name, "reference", f"computes {differs[0]}, and the formula {node.formula!r} {differs[1]}")]
    return []


def _has_evaluate(node: BaseNode) -> bool:
    return type(node).evaluate is not Op.evaluate


def _sample_of(parent: BaseNode) -> np.ndarray | None:
    value: Any = getattr(parent, "value", None)
    return np.array(value) if isinstance(value, np.ndarray | np.generic) else None


def _open_sizes(node: BaseNode) -> dict[type[Dim], int]:
    """Return the sizes of the open axes of the operands."""
    found: dict[type[Dim], int] = {}
    for parent in node.parents:
        array = _sample_of(parent)
        for axis, size in zip(parent.dims, () if array is None else array.shape, strict=False):
            if isinstance(axis, Dim) and axis.size is None and not axis.derived:
                found[type(axis)] = size
    return found


def of_rebuilt(node: BaseNode) -> list[Finding]:
    """Check that the op on the same operands with its static attributes computes the same: all engines rebuild it."""
    rule = f"{type(node).__name__}.__slots__"
    try:
        (value,) = reference([node])
    except Exception as error:
        if isinstance(error, NotSet):
            raise
        return [Finding(meaning(node), "reference", raised(error))]
    try:
        (again,) = reference([node.rebuild(node.parents)])
    except Exception as error:
        return [Finding(rule, "copies", f"a copy {raised(error)}: name each attribute in __slots__")]
    differs = difference(again, value)
    if differs is None:
        return []
    text = f"a copy computes {differs[0]}, the op {differs[1]}: name each attribute in __slots__"
    return [Finding(rule, "copies", text)]


def of_copies(each: Alone) -> list[Finding]:
    """Check that deep copies and pickles compute the same."""
    node, found = each.node, []
    (value,) = reference([node])
    ways: dict[str, Any] = {"copy.deepcopy": lambda: copy.deepcopy(node)}
    axes = [axis for x in (node, *node.parents) for axis in x.dims if not isinstance(axis, UnnamedDim)]
    classes = [type(node), *map(type, axes)]
    if all(map(_has_a_name, classes)):
        ways["pickle"] = lambda: pickle.loads(pickle.dumps(node))
    for way, made in ways.items():
        try:
            other = made()
            (again,) = reference([other])
        except Exception as error:
            found.append(Finding(f"{type(node).__name__}.__slots__", way, raised(error)))
            continue
        differs = difference(again, value)
        if differs is not None:
            text = f"the copy computes {differs[0]}, the op {differs[1]}"
            found.append(Finding(f"{type(node).__name__}.__slots__", way, text))
    return found


def _has_a_name(kind: type) -> bool:
    """Return whether Python finds a class by its name, as pickles do: not one that is defined in a function."""
    try:
        return pickle.loads(pickle.dumps(kind)) is kind
    except Exception:
        return False


def of_decomposition(each: Alone) -> list[Finding]:
    """Check the graph of simpler ops that native code has in place of the op, also if it is not the first choice."""
    form = LOOPS.of(each.node)
    rule = f"{type(form).__name__}.decompose"
    try:
        other = form.decompose(each.node)
        if other is None:
            return []
        value, found = reference([each.node, other])
    except Exception as error:
        return [Finding(rule, "native", raised(error))]
    differs = difference(found, value)
    if differs is None:
        return []
    return [Finding(rule, "native", f"computes {differs[0]}, and {meaning(each.node)} {differs[1]}")]


def of_vmap(each: Alone) -> list[Finding]:
    """Check the op on a batch of rows against the op on each row, with all operands or one of them mapped."""
    leaves, node = each.leaves, each.node
    if not leaves or each.draws:
        return []
    own = type(node).batched is not Op.batched
    rule = f"{type(node).__name__}.batched" if own else meaning(node)
    data = each.data
    many = {leaf: np.stack([_varied(array, i) for i in range(_ROWS)]) for leaf, array in data.items()}
    choices = [tuple(leaves), *([(leaf,) for leaf in leaves] if len(leaves) > 1 else [])]
    for chosen in choices:
        try:
            rows = [each.at({leaf: many[leaf][i] for leaf in chosen}) for i in range(_ROWS)]
        except Exception:  # a varied row is outside of the op's domain
            continue
        try:
            batch = {leaf: leaf_like((_ROWS, *leaf.dims), many[leaf]) for leaf in chosen}
            (value,) = reference(batched([node], batch))
        except Exception as error:
            return [Finding(rule, "vmap", raised(error))]
        differs = difference(value, np.stack(rows))
        if differs is not None:
            which = ", ".join(f"operand {leaves.index(leaf)}" for leaf in chosen)
            text = f"computes {differs[0]} with {which} mapped, the op on each row {differs[1]}"
            return [Finding(rule, "vmap", text)]
    return []


def _varied(array: np.ndarray, row: int) -> np.ndarray:
    return array * array.dtype.type(1.0 + 0.01 * row) if array.dtype.kind == "f" else array


class _Rows(Dim): ...


def of_rows(each: Alone) -> list[Finding]:
    """Check what the op says of rows: that parts of them give the rows, the mean or the sum of the whole."""
    if each.draws:
        return []
    for count, axes in _row_choices(each):
        found = _rows_divided(each, count, axes)
        if found is not None:
            return [found]
    return []


def of_reach(each: Alone) -> list[Finding]:
    """Check what an analysis says the op does not depend on: elements stay the same when others change."""
    found = unsound([each.node], each.data, lambda values: [each.at(values)], {})
    if found is None:
        return []
    rule = REACH.of(each.node)
    name = _shown_by(each.node) if type(rule) is Reach else f"{type(rule).__name__}.reached"
    return [Finding(name, "reach", found.text)]


def _row_choices(each: Alone) -> Iterator[tuple[int, tuple[int | None, ...]]]:
    """Yield numbers of rows, with the axis of the rows of each operand."""
    shapes = [leaf.value.shape for leaf in each.leaves]
    for count in sorted({size for shape in shapes for size in shape if size > 1}):
        options = [[*(i for i, size in enumerate(shape) if size == count), None] for shape in shapes]
        chosen = (axes for axes in itertools.product(*options) if any(axis is not None for axis in axes))
        yield from ((count, axes) for axes in itertools.islice(chosen, _CHOICES))


def _rows_divided(each: Alone, count: int, axes: Sequence[int | None]) -> Finding | None:
    """Divide the rows of the operands along these axes in two parts, and compare with what the op says."""
    leaves: dict[Any, Any] = {}
    for leaf, axis in zip(each.leaves, axes, strict=True):
        dims = tuple(_Rows() if i == axis else size for i, size in enumerate(leaf.value.shape))
        leaves[leaf] = leaf_like(dims, leaf.value)
    node = each.node
    try:
        copy = on_operands(node, node, [leaves.get(parent) for parent in node.parents]).node
        by_leaf = dict(zip(leaves.values(), axes, strict=True))
        if any(node.parents[i] not in leaves for i in node.residual_parents):
            return None
        rows = [by_leaf.get(parent) for parent in copy.parents]
        dependence = row_dependence(copy, [Combination.SAME if axis is None else axis for axis in rows], {_Rows})
    except (WyrmError, ValueError):  # the op, or what it is composed of, does not take rows there
        return None
    if dependence is Combination.MIXED:
        return None
    rule = _shown_by(node)
    try:
        (whole,) = reference([copy])
        parts, weights = [], []
        first = (count + 1) // 2
        for part in (slice(0, first), slice(first, count)):
            for leaf, axis in zip(each.leaves, axes, strict=True):
                if axis is not None:
                    leaves[leaf].set(leaf.value[(slice(None),) * axis + (part,)])
            weight = copy.weight_of_rows()
            parts.append(reference([copy])[0])
            weights.append(float(reference([weight])[0]) if weight is not None else len(range(count)[part]))
    except IndexOutOfRange:  # indices of rows of this table
        return None
    except WyrmError as error:
        return Finding(rule, "rows", f"says {_said(dependence)}, and a part of the rows {raised(error)}")
    differs = difference(_combined(dependence, parts, weights).astype(whole.dtype), whole, 1e-9)
    if differs is None:
        return None
    where = ", ".join(f"axis {axis} of operand {i}" for i, axis in enumerate(axes) if axis is not None)
    text = f"says {_said(dependence)} of the rows along {where}; two parts give {differs[0]}, all rows {differs[1]}"
    return Finding(rule, "rows", text)


def _combined(dependence: RowDependence, parts: Sequence[np.ndarray], weights: Sequence[float]) -> np.ndarray:
    if dependence is Combination.SAME:
        return parts[0]
    if dependence is Combination.SUM:
        return np.asarray(parts[0] + parts[1])
    if isinstance(dependence, Combination):
        first, second = weights
        return np.asarray((parts[0] * first + parts[1] * second) / (first + second))
    return np.concatenate(parts, dependence)


def _said(dependence: RowDependence) -> str:
    return '"rows"' if isinstance(dependence, int) else f'"{dependence.name.lower()}"'


def _shown_by(node: BaseNode) -> str:
    """Return the rule that shows how a node depends on rows."""
    form = LOOPS.of(node)
    if form.reducer is not None:
        return f"{type(form).__name__}.reducer"
    if node.formula or node.same_elements:
        return f"{type(node).__name__}.{'formula' if node.formula else 'same_elements'}"
    rule = REACH.of(node)
    return type(form).__name__ if rule.ways(node) is None else f"{type(rule).__name__}.ways"


def weights_like(values: Sequence[np.ndarray], nodes: Sequence[BaseNode], seed: int) -> list[Any]:
    """Return random numbers away from zero for each element of nodes, as constants."""
    random = np.random.default_rng(seed)
    drawn = (random.uniform(0.5, 1.5, x.shape) * random.choice([-1.0, 1.0], x.shape) for x in values)
    return [Constant(array, node.dims, dtype=node.dtype) for array, node in zip(drawn, nodes, strict=True)]


def smooth(each: Alone) -> list[Any]:
    """Return the float operands for which the op has a gradient; raise what its `vjp` raises."""
    node: Any = each.node
    if node.dtype.kind != "f":
        return []
    (value,) = reference([node])
    (weight,) = weights_like([value], [node], 0)
    parts = node.vjp(weight)
    if not isinstance(parts, tuple) or len(parts) != len(node.parents):
        count = len(parts) if isinstance(parts, tuple) else f"{type(parts).__name__}, not a tuple,"
        raise TypeError(f"returns {count} gradients for {len(node.parents)} operands")
    for part, parent in zip(parts, node.parents, strict=True):
        if isinstance(part, Zero | Undefined) or parent.dtype.kind != "f":
            continue
        if not isinstance(part, BaseNode):
            raise TypeError(f"returns {type(part).__name__} for {describe(parent)}: return a node, ZERO or Undefined")
        if part.dtype != parent.dtype:
            raise TypeError(f"returns {part.dtype} for {describe(parent)}")
    undefined = {p for p, part in zip(node.parents, parts, strict=True) if isinstance(part, Undefined)}
    return [leaf for leaf in each.floats if leaf not in undefined]
