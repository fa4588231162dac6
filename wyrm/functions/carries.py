"""The carries of loops and the results of branches: their checks, and integers and masks carried as floats."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.functions.pytree import PyTreeDef, flatten, leaf_paths
from wyrm.functions.tracing import number_dtype
from wyrm.node.base import BaseNode, describe, format_dims, label
from wyrm.node.index_leaves import IndexConstant
from wyrm.node.leaves import Constant, as_constant
from wyrm.ops.digits import FromDigits, Successor, ToDigits
from wyrm.ops.drawing import LoopSteps, drawn_for, draws_among
from wyrm.ops.loop_body import placeholder_like
from wyrm.ops.philox import STEP


def dtype_of(leaves: Sequence[object]) -> np.dtype:
    """Return the float dtype of the nodes, else of the arrays, else of the enclosing trace, else float32."""
    for leaf in leaves:
        if isinstance(leaf, BaseNode) and leaf.dtype.kind == "f":
            return np.dtype(leaf.dtype)
    return number_dtype(leaves)


def as_nodes(leaves: Sequence[object], dtype: np.dtype) -> list[Any]:
    """Return leaves as nodes: integer arrays become indices, masks stay masks, other numbers take the float dtype."""
    found: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, BaseNode):
            found.append(leaf)
        elif isinstance(leaf, np.ndarray) and leaf.dtype.kind in "iu":
            found.append(IndexConstant(leaf))
        elif isinstance(leaf, np.ndarray) and leaf.dtype.kind == "b":
            found.append(Constant(leaf))
        else:
            found.append(as_constant(leaf, dtype))
    return found


def placeholders_of(nodes: Sequence[BaseNode], structure: PyTreeDef, name: str, axes: int = 0) -> list[Any]:
    """Return placeholders for the nodes, or for their rows, named by their paths."""
    return [
        placeholder_like(node, node.dims[axes:], where)
        for node, where in zip(nodes, leaf_paths(structure, name), strict=True)
    ]


def checked_carry(
    value: object, placeholders: Sequence[BaseNode], structure: PyTreeDef, what: str, dtype: np.dtype
) -> list[Any]:
    """Return the new carry as nodes like the old ones, or raise an error that says how they differ."""
    leaves, found = flatten(value, what)
    if found != structure:
        raise ShapeError(f"{what} changes the structure of the carry: {value!r}")
    nodes = as_nodes(leaves, dtype)
    for given, node in zip(placeholders, nodes, strict=True):
        if given.shape != node.shape:
            raise ShapeError(
                f"{what}: {label(given)} has the axes {format_dims(given.dims)} but becomes {describe(node)}; a carry "
                f"keeps its axes from step to step"
            )
        if given.dtype != node.dtype:
            raise DTypeError(
                f"{what}: {label(given)} is {given.dtype} but becomes {describe(node)}; cast it with .astype"
            )
    return nodes


def initial_carry(init: object, beside: Sequence[object], what: str) -> tuple[list[Any], PyTreeDef, np.dtype]:
    """Return the initial carry as nodes, its structure, and the float dtype of the loop."""
    leaves, structure = flatten(init, f"init of {what}")
    if not leaves:
        raise ShapeError(f"{what}: init has no leaves to carry from step to step")
    dtype = dtype_of([*leaves, *beside])
    if structure.has_module:
        raise DTypeError(f"{what}: a module cannot be a carry; carry its parameters' values and close over the module")
    return as_nodes(leaves, dtype), structure, dtype


# --- integers and masks as floats -------------------------------------------------------------------------------------


def as_floats(nodes: Sequence[Any], dtype: np.dtype) -> list[Any]:
    """Return nodes as float nodes, which loops carry: integers as digits, masks as 0 and 1."""
    return [ToDigits(x, dtype) if x.dtype.kind == "i" else x.astype(dtype) if x.dtype.kind == "b" else x for x in nodes]


def from_floats(floats: Sequence[Any], like: Sequence[BaseNode]) -> list[Any]:
    """Return the nodes that `as_floats` made floats of; `like` has their dtypes."""
    return [
        FromDigits.rebuild((x,), {}, x.name) if y.dtype.kind == "i" else (x > 0.5) if y.dtype.kind == "b" else x
        for x, y in zip(floats, like, strict=True)
    ]


# --- random nodes in loops --------------------------------------------------------------------------------------------


class OwnStep(NamedTuple):
    """One more carry of a loop whose body draws: the step that random nodes draw for, as digits."""

    init: list[Any]
    placeholders: list[Any]
    following: list[Any]


def own_step(outputs: Sequence[Any], built: Collection[BaseNode], dtype: np.dtype) -> tuple[OwnStep, list[Any]]:
    """Return the carry of the step, and the outputs of a loop's body with the nodes of `built` drawing for it.

    Without such draws there is no carry.
    """
    if not draws_among(outputs, built):
        return OwnStep([], [], []), list(outputs)
    first = ToDigits(LoopSteps(STEP), dtype)
    placeholder = placeholder_like(first, first.dims, "step")
    step: FromDigits = FromDigits(placeholder)
    following = ToDigits(Successor(step), dtype)
    return OwnStep([first], [placeholder], [following]), drawn_for(outputs, built, step)
