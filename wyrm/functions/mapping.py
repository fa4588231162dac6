"""`vmap`: map a function over a new batch axis."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, TypeAlias

import numpy as np

from wyrm.errors import ShapeError
from wyrm.functions.carries import as_floats, dtype_of, from_floats, leaf_nodes
from wyrm.functions.function import Function, evaluated, function_of_nodes
from wyrm.functions.pytree import PyTreeDef, flatten, leaf_paths, unflatten
from wyrm.functions.tracing import argument_names, enclosing_trace, name_of
from wyrm.graph.axes import axis_size, normalize_axis, ragged_axis
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.node import IndexNode
from wyrm.graph.shapes import same_sizes
from wyrm.graph.source_location import building, located_at
from wyrm.graph.traversal import topological_order
from wyrm.graph.weak_types import in_type, is_weak
from wyrm.ops.control.loop_body import Iteration, LoopBody, closure_convert
from wyrm.ops.control.scan import Scan
from wyrm.ops.control.updating import Updating
from wyrm.ops.random.draws import LoopSteps, draws_now
from wyrm.ops.random.dropout import RandomKey
from wyrm.ops.random.philox import STEP, Draws
from wyrm.ops.subgraph import WeakPlaceholder, placeholder_like
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import is_integer

# One axis for all leaves, or a pytree prefix of axes.
Axes: TypeAlias = Any


@explains_keywords
def vmap(function: Callable[..., object], in_axes: Axes = 0, out_axes: Axes = 0) -> Function:
    """Return a function that maps `function` over a batch axis: result i is `function` of row i of the arguments.

    `in_axes` gives the batch axis of each argument, None for an argument shared by all rows: one number for all
    arguments or a tuple with one entry per argument. `out_axes` gives the position of the batch axis in each result,
    None for a result that does not depend on batched arguments and stays unbatched. An entry may be a container of axes
    that matches the argument or result; a number or None applies to all leaves below it. The function runs once, on one
    row. Each op then handles all rows at once if it has a batched form, else in a loop inside the graph. Random nodes
    that `function` builds draw for each row anew.

    The result is a `wyrm.function` on the engine of `function`; called with nodes, it returns nodes. A call raises
    `ShapeError` if no argument is batched, an axis does not exist, batch sizes differ, `in_axes` or `out_axes` does not
    match the structure, or `out_axes` is None for a result that differs between rows.

    >>> rows = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> wy.vmap(lambda x, y: (x * y).sum(), in_axes=(0, None))(rows, np.array([1.0, 10.0])).tolist()
    [21.0, 43.0]
    """
    plain = function_of_nodes(function, "vmap takes a function")

    @functools.wraps(plain)
    def mapped(*args: Any, **static: object) -> Any:
        what = f"vmap of {name_of(plain)}"
        names = argument_names(plain, len(args))
        along = _axes_of_arguments(in_axes, len(args), what)
        rows: dict[BaseNode, BaseNode] = {}
        parts = [flatten(argument, f"{name} of {what}") for argument, name in zip(args, names, strict=True)]
        kind = dtype_of([leaf for leaves, _ in parts for leaf in leaves])
        given = []
        for (leaves, structure), axes, name in zip(parts, along, names, strict=True):
            chosen = axes_of(axes, structure, f"{what}: in_axes of {name}")
            nodes = [
                leaf if axis is None else _row_placeholder(leaf, axis, where, what, rows)
                for leaf, axis, where in zip(leaf_nodes(leaves, kind), chosen, leaf_paths(structure, name), strict=True)
            ]
            given.append(unflatten(structure, nodes))
        if not rows:
            raise ShapeError(f"{what}: no argument is batched; in_axes is {in_axes}")
        firsts = [whole.dims[0] for whole in rows.values()]
        if not all(same_sizes((axis,), (firsts[0],)) for axis in firsts):
            sizes = sorted({repr(axis) if (size := axis_size(axis)) is None else str(size) for axis in firsts})
            found = ", ".join(describe(whole) for whole in rows.values())
            raise ShapeError(f"{what}: batch sizes differ: {' and '.join(sizes)}, in {found}")
        with enclosing_trace(list(rows)), building() as built:
            result = plain(*given, **static)
        met = [dtype for row in rows if isinstance(row, WeakPlaceholder) for dtype in row.met]
        if met:  # rows of weak arguments take the type of the floats that they meet
            typed = [[in_type(x, max(met)) if isinstance(x, BaseNode) else x for x in leaves] for leaves, _ in parts]
            return mapped(*(unflatten(part[1], x) for part, x in zip(parts, typed, strict=True)), **static)
        leaves, structure = flatten(result, f"the result of {what}")
        outputs = leaf_nodes(leaves, kind)
        wanted = axes_of(out_axes, structure, f"{what}: out_axes")
        drawing = {node for node in built if isinstance(node, Draws) or draws_now(node)}
        varied = _varied(outputs, rows, drawing)
        for output, axis, where in zip(outputs, wanted, leaf_paths(structure, "the result"), strict=True):
            if axis is None and output in varied:
                raise ShapeError(f"{what}: {where} differs between rows, so out_axes needs an axis for it, not None")
        along_axis = [x for x, axis in zip(outputs, wanted, strict=True) if axis is not None]
        wholes = iter(batched(along_axis, rows, drawing))
        return unflatten(
            structure,
            [
                x if axis is None else _with_batch_axis_at(next(wholes), axis, what)
                for x, axis in zip(outputs, wanted, strict=True)
            ],
        )

    return evaluated(mapped, function)


def _axes_of_arguments(in_axes: Axes, count: int, what: str) -> list[Axes]:
    if in_axes is None or is_integer(in_axes):
        return [in_axes] * count
    if not isinstance(in_axes, tuple | list):
        raise ShapeError(
            f"{what}: in_axes must be an integer, None, or a tuple with one entry per argument, not {in_axes!r}; axes "
            f"inside one argument go into its entry, as in in_axes=({in_axes!r},)"
        )
    if len(in_axes) != count:
        raise ShapeError(f"{what}: in_axes has {len(in_axes)} entries for {count} arguments")
    return list(in_axes)


def axes_of(axes: Axes, structure: PyTreeDef, what: str) -> list[int | None]:
    """Return the axis of each leaf; `ShapeError` if `axes` is not a prefix of the structure."""
    if axes is None or (is_integer(axes) and not isinstance(axes, bool)):
        return [axes] * structure.leaves
    kind = structure.kind or object
    parts: list[Axes] | None = None
    if isinstance(axes, dict) and issubclass(kind, dict) and axes.keys() == set(structure.names):
        parts = [axes[name] for name in structure.names]
    elif isinstance(axes, tuple | list) and issubclass(kind, tuple | list) and len(axes) == len(structure.inside):
        parts = list(axes)
    elif is_dataclass(axes) and isinstance(axes, kind):
        parts = [getattr(axes, str(name)) for name in structure.names]
    if parts is None:
        found = "one array" if structure.kind is None else f"a {structure.kind.__name__} of {len(structure.inside)}"
        raise ShapeError(f"{what} is {axes!r} for {found}; give a number, None, or a matching container of these")
    return [axis for part, inside in zip(parts, structure.inside, strict=True) for axis in axes_of(part, inside, what)]


def _row_placeholder(leaf: Any, axis: int, name: str, what: str, rows: dict[BaseNode, BaseNode]) -> Any:
    """Return a placeholder for one row of an argument; store the argument, batch axis first, in `rows`."""
    if not leaf.dims:
        raise ShapeError(f"{what}: {name} is {describe(leaf)} and has no axis to map over; set in_axes to None for it")
    first = _axis_of(leaf, axis, f"{what}: in_axes of {name}")
    if first:
        _check_moves(leaf, what)
        whole: Any = leaf
        leaf = whole.transpose(first, *(i for i in range(leaf.ndim) if i != first))
    if ragged_axis(leaf.dims) is not None:
        raise ShapeError(
            f"{what}: {describe(leaf)} has rows of different lengths; functions work on all of them at once, as "
            f"x.sum(axis=1) does, and wy.row_scan is a loop along each row"
        )
    row = (WeakPlaceholder if is_weak(leaf.dtype) else placeholder_like)(leaf, leaf.dims[1:], name)
    rows[row] = leaf
    return row


def _axis_of(node: BaseNode, axis: int, what: str) -> int:
    try:
        return normalize_axis(axis, node.ndim)
    except ShapeError as error:
        raise ShapeError(f"{what}: {error}") from None


def _check_moves(node: BaseNode, what: str) -> None:
    if isinstance(node, IndexNode):
        raise ShapeError(
            f"{what}: {describe(node)} holds integers and cannot be transposed: its batch axis must be axis 0"
        )


def _varied(
    outputs: Sequence[BaseNode], rows: Mapping[BaseNode, BaseNode], drawing: Collection[BaseNode]
) -> set[BaseNode]:
    """Return the nodes that differ between rows, among them those of `drawing`."""
    varied = set(rows)
    for node in topological_order(outputs):
        if node in drawing or not varied.isdisjoint(node.parents):
            varied.add(node)
    return varied


def _with_batch_axis_at(whole: Any, axis: int, what: str) -> Any:
    """Return the result with its batch axis moved from 0 to `axis`."""
    position = _axis_of(whole, axis, f"{what}: out_axes")
    if position == 0:
        return whole
    _check_moves(whole, what)
    order = list(range(1, whole.ndim))
    order.insert(position, 0)
    return whole.transpose(*order)


def batched(outputs: Sequence[Any], rows: Mapping[BaseNode, BaseNode], drawing: Collection[BaseNode] = ()) -> list[Any]:
    """Return the outputs with a leading batch axis; `rows` maps each one-row placeholder to its batched node.

    The nodes of `drawing` draw random numbers for each row anew, others the same numbers for all rows.
    """
    batches: dict[BaseNode, BaseNode] = dict(rows)
    axis = next(iter(rows.values())).dims[0]
    for node in topological_order(outputs):
        draws = node in drawing and not isinstance(node, RandomKey)  # rows share a key and differ by their positions
        if node in batches or (batches.keys().isdisjoint(node.parents) and not draws):
            continue
        if isinstance(node, Updating):
            raise ShapeError(f"{describe(node)} updates a buffer, and vmap has one buffer for many rows")
        # pyright says of `get` that it may be None.
        operands = [batches[x] if x in batches else x for x in node.parents]  # noqa: SIM401
        mapped = [parent in batches for parent in node.parents]
        with located_at(node.origin):
            if draws and isinstance(node, Draws):
                batches[node] = node.drawn_by_rows(operands, mapped, axis)
                continue
            if draws:
                mapped = [many or x is STEP for x, many in zip(operands, mapped, strict=True)]
                operands = [LoopSteps(STEP, (axis,)) if x is STEP else x for x in operands]
            batch = node.batched(operands, mapped)
            batches[node] = _one_by_one(node, operands, mapped) if batch is None else batch
    for output in outputs:
        if output not in batches:
            if isinstance(output, IndexNode):
                raise ShapeError(
                    f"{describe(output)} is the same for all rows, and vmap cannot broadcast integers; "
                    f"set out_axes to None"
                )
            batches[output] = output.broadcast_to((axis, *output.dims))
    return [batches[output] for output in outputs]


def _one_by_one(node: BaseNode, operands: Sequence[BaseNode], mapped: Sequence[bool]) -> Any:
    """Return a node that computes `node` for each row, in a loop inside the graph."""
    rows = [x for x, many in zip(operands, mapped, strict=True) if many]
    placeholders = [placeholder_like(x, x.dims[1:], x.name or x.op_name()) for x in rows]
    remaining = iter(placeholders)
    one: Any = node.rebuild(next(remaining) if many else x for x, many in zip(operands, mapped, strict=True))
    outside, captured, outputs = closure_convert(as_floats([one], np.dtype(np.float32)), placeholders)
    steps = Iteration(LoopBody([*placeholders, *captured], outputs), rows[0].dims[0], 0, len(rows), written_as="vmap")
    (made,) = from_floats([Scan(steps, *rows, *outside).output(0)], [one])
    return made
