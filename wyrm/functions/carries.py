"""The carries of loops and the results of branches: their checks, and integers and masks carried as floats."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.functions.pytree import PyTreeDef, flatten, leaf_paths
from wyrm.functions.tracing import enclosing_trace
from wyrm.graph.axes import Dims, unify
from wyrm.graph.base import BaseNode, describe, format_dims, label
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.leaves import Constant, as_constant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.source_location import building
from wyrm.graph.traversal import replaced
from wyrm.graph.weak_types import chosen, default_type, in_type, is_weak
from wyrm.ops.control.digits import FromDigits, ToDigits
from wyrm.ops.random.draws import LoopSteps, drawn_for, draws_among
from wyrm.ops.random.philox import STEP
from wyrm.ops.subgraph import WeakPlaceholder, placeholder_like


def dtype_of(leaves: Sequence[object]) -> np.dtype:
    """Return the float dtype of the nodes, else of the arrays, else a weak one."""
    nodes = [leaf.dtype for leaf in leaves if isinstance(leaf, BaseNode) and leaf.dtype.kind == "f"]
    arrays = [leaf.dtype for leaf in leaves if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f"]
    found = [*(dtype for dtype in nodes if not is_weak(dtype)), *map(chosen, arrays)]
    return found[0] if found else max(nodes, default=default_type())


def leaf_nodes(leaves: Sequence[object], dtype: np.dtype) -> list[Any]:
    """Return leaves as nodes: integer arrays become indices, masks stay masks, other numbers take the float dtype.

    Weak nodes take it too, unless it is weak.
    """
    found: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, BaseNode):
            found.append(leaf if is_weak(dtype) else in_type(leaf, dtype))
        elif isinstance(leaf, np.ndarray) and leaf.dtype.kind in "iu":
            found.append(IndexConstant(leaf))
        elif isinstance(leaf, np.ndarray) and leaf.dtype.kind == "b":
            found.append(Constant(leaf))
        else:
            found.append(as_constant(leaf, dtype))
    return found


def placeholders_of(
    nodes: Sequence[BaseNode],
    structure: PyTreeDef,
    name: str,
    axes: int = 0,
    weak: bool = False,
    called: Callable[[str], str] = str,
) -> list[Any]:
    """Return placeholders for the nodes, or for their rows, named by their paths; `weak` ones for weak nodes.

    `called` returns the name of the placeholder for a path such as `carry[0]`.
    """
    return [
        (WeakPlaceholder if weak and is_weak(node.dtype) else placeholder_like)(node, node.dims[axes:], called(where))
        for node, where in zip(nodes, leaf_paths(structure, name), strict=True)
    ]


def checked_carry(
    value: object, placeholders: Sequence[BaseNode], structure: PyTreeDef, what: str, dtype: np.dtype
) -> list[Any]:
    """Return the new carry as nodes like the old ones, or raise an error that says how they differ."""
    leaves, found = flatten(value, what)
    if found != structure:
        raise ShapeError(f"{what} changes the structure of the carry: {value!r}")
    nodes = leaf_nodes(leaves, dtype)
    for given, node in zip(placeholders, nodes, strict=True):
        if not _are_same(given.dims, node.dims):
            raise ShapeError(
                f"{what}: {label(given)} has the axes {format_dims(given.dims)} but becomes {describe(node)}; a carry "
                f"keeps its axes from step to step"
            )
        weak = (is_weak(given.dtype) or is_weak(node.dtype)) and given.dtype.kind == node.dtype.kind
        if given.dtype != node.dtype and not weak:
            raise DTypeError(
                f"{what}: {label(given)} is {given.dtype} but becomes {describe(node)}; cast it with .astype"
            )
    return nodes


def _are_same(left: Dims, right: Dims) -> bool:
    """Return whether axes have the same sizes, and the same names where both have one."""
    if len(left) != len(right):
        return False
    try:
        for pair in zip(left, right, strict=True):
            unify(*pair)
    except ShapeError:
        return False
    return True


def carry_and_made(result: object, what: str) -> tuple[object, object]:
    """Return the pair of the new carry and of what a step makes; raise `ShapeError` if it returns anything else."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise ShapeError(f"{what}: a step returns a pair (carry, y), where y may be None, not {result!r}")
    return result


def initial_carry(init: object, beside: Sequence[object], what: str) -> tuple[list[Any], PyTreeDef, np.dtype]:
    """Return the initial carry as nodes, its structure, and the float dtype of the loop."""
    leaves, structure = flatten(init, f"init of {what}")
    if not leaves:
        raise ShapeError(f"{what}: init has no leaves to carry from step to step")
    dtype = dtype_of([*leaves, *beside])
    if structure.has_module:
        raise DTypeError(f"{what}: a module cannot be a carry; carry its parameters' values and close over the module")
    nodes = leaf_nodes(leaves, dtype)
    return nodes, structure, dtype


class TracedStep(NamedTuple):
    """A traced step: its operands, their placeholders, its results, and the nodes it built."""

    operands: list[Any]
    placeholders: list[Any]
    results: list[Any]
    built: list[BaseNode]


def traced_step(
    operands: Sequence[Any],
    stand_in: Callable[[Sequence[Any], bool], list[Any]],
    step: Callable[[Sequence[Any]], list[Any]],
) -> TracedStep:
    """Trace a step on placeholders; `stand_in(nodes, weak)` makes them, with `weak` weak ones for weak nodes.

    If weak operands or results meet floats in the step, they take their type, and the step is traced again.
    """
    nodes, may_be_weak = list(operands), True
    while True:
        placeholders = stand_in(nodes, may_be_weak)
        with enclosing_trace(placeholders), building() as built:
            results = step(placeholders)
        met = [dtype for x in placeholders if isinstance(x, WeakPlaceholder) for dtype in x.met]
        found = dtype_of([*nodes, *results])
        dtype = chosen(max(met) if met and is_weak(found) else found)
        if not may_be_weak or not (met or any(is_weak(x.dtype) and x.dtype != dtype for x in nodes)):
            return TracedStep(nodes, placeholders, [in_type(x, dtype) for x in results], built)
        nodes, may_be_weak = [in_type(x, dtype) for x in nodes], False


def scalar_condition(mask: object, what: str) -> Node:
    """Return the mask; raise `DTypeError` unless it is a scalar mask."""
    if not isinstance(mask, Node) or mask.dtype.kind != "b" or mask.dims != ():
        found = describe(mask) if isinstance(mask, BaseNode) else repr(mask)
        raise DTypeError(f"{what} needs a scalar mask as condition, such as x.sum() > 0.0, not {found}")
    return mask


# --- integers and masks as floats -------------------------------------------------------------------------------------


def as_floats(nodes: Sequence[Any], dtype: np.dtype) -> list[Any]:
    """Return nodes as float nodes, which loops carry: integers as digits, masks as 0 and 1."""
    return [ToDigits(x, dtype) if x.dtype.kind == "i" else x.astype(dtype) if x.dtype.kind == "b" else x for x in nodes]


def from_floats(floats: Sequence[Any], like: Sequence[BaseNode]) -> list[Any]:
    """Return the nodes from which `as_floats` made these floats; `like` has their dtypes."""
    return [
        FromDigits(x, name=x.name) if y.dtype.kind == "i" else (x > 0.5) if y.dtype.kind == "b" else x
        for x, y in zip(floats, like, strict=True)
    ]


class LoopCarry(NamedTuple):
    """The carries of a loop as floats: their first values, and their placeholders in the body."""

    init: list[Any]
    placeholders: list[Any]


def loop_parts(
    carry: Sequence[Any],
    before: Sequence[Any],
    results: Sequence[Any],
    built: Collection[BaseNode],
    masks: Sequence[Any] = (),
) -> tuple[LoopCarry, list[Any]]:
    """Return the carries of a loop as floats, and the results of its body: first the next carries.

    `before` holds the placeholders of the carries, `built` the nodes of the body; `masks` come last, unchanged. If
    the body draws random numbers, one more carry is the step that it draws for.
    """
    dtype = dtype_of([*carry, *results])
    with building() as converted:
        floats = as_floats(results, dtype)
    init, own, outputs = as_floats(carry, dtype), [*built, *converted], [*floats, *masks]
    placeholders = [
        y if y.dtype.kind == "f" else placeholder_like(x, x.dims, y.name) for x, y in zip(init, before, strict=True)
    ]
    values = from_floats(placeholders, before)
    if draws_among(outputs, own):
        init.append(ToDigits(LoopSteps(STEP), dtype))
        placeholders.append(placeholder_like(init[-1], init[-1].dims, "step"))
        step: IndexNode[Any] = FromDigits(placeholders[-1], is_step=True)
        outputs = drawn_for(outputs, own, step)
        outputs.insert(len(carry), ToDigits(step + 1, dtype))
    others = {x: y for x, y in zip(before, values, strict=True) if x is not y}
    return LoopCarry(init, placeholders), replaced(outputs, others) if others else outputs
