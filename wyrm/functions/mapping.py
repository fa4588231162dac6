"""A function of one thing made a function of many, along a new axis."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, TypeAlias

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.functions.control import as_nodes, dtype_of
from wyrm.functions.function import Function, evaluated, over_nodes
from wyrm.functions.pytree import PyTreeDef, flatten, leaf_paths, unflatten
from wyrm.functions.tracing import argument_names, name_of, standing
from wyrm.node.base import BaseNode, describe
from wyrm.node.node import IndexNode
from wyrm.node.source_location import located_at
from wyrm.node.traversal import topological_order
from wyrm.ops.loop_body import LoopBody, closure_convert, placeholder_like
from wyrm.ops.scan import Scan
from wyrm.ops.steps import Steps
from wyrm.ops.updating import Updating
from wyrm.types.dims import axis_size, normalize_axis

# An axis for all arrays, or a container of such, as deep as there is something to say.
Axes: TypeAlias = Any


def vmap(function: Callable[..., object], in_axes: Axes = 0, out_axes: Axes = 0) -> Function:
    """The function of many arguments at once: each result is what `function` gives for one place along the new axis.

    `in_axes` says which axis of an argument is the new one, None for an argument that is the same for all; a number is
    for all arguments, a tuple has one for each. `out_axes` is where the results have the new axis, None for one that is
    the same for all and has none. Both may go on inside an argument or a result: as the containers there, tuples, lists
    and dicts, with a number or None for all arrays in one. The function is run once, on one row, and each op then works
    on all rows: by the op itself where it can, else one row after the other, in a loop inside the graph. Random nodes
    draw the same for every row.

    What it gives is a `wyrm.function` on the engine of `function`, or over nodes where it is called with nodes. Raises
    `ShapeError` for axes that are not there, that differ in size, or where none is given, for `in_axes` and `out_axes`
    of another structure, and where `out_axes` is None for a result that differs from row to row.

    >>> rows = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> wy.vmap(lambda x, y: (x * y).sum(), in_axes=(0, None))(rows, np.array([1.0, 10.0])).tolist()
    [21.0, 43.0]
    """
    plain = over_nodes(function, "vmap takes a function")

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
                leaf if axis is None else _row(leaf, axis, where, what, rows)
                for leaf, axis, where in zip(as_nodes(leaves, kind), chosen, leaf_paths(structure, name), strict=True)
            ]
            given.append(unflatten(structure, nodes))
        sizes = {axis_size(whole.dims[0]) for whole in rows.values()}
        if not rows:
            raise ShapeError(f"{what}: no argument has the new axis; in_axes is {in_axes}")
        if len(sizes) > 1:
            found = ", ".join(describe(whole) for whole in rows.values())
            raise ShapeError(f"{what}: the new axis has the sizes {sorted(map(str, sizes))}, in {found}")
        with standing(list(rows)):
            result = plain(*given, **static)
        leaves, structure = flatten(result, f"the result of {what}")
        outputs = as_nodes(leaves, kind)
        wanted = axes_of(out_axes, structure, f"{what}: out_axes")
        varied = _varied(outputs, rows)
        for output, axis, where in zip(outputs, wanted, leaf_paths(structure, "the result"), strict=True):
            if axis is None and output in varied:
                raise ShapeError(
                    f"{what}: {where} differs from row to row, and out_axes has None for it instead of an axis"
                )
        wholes = iter(batched([x for x, axis in zip(outputs, wanted, strict=True) if axis is not None], rows))
        return unflatten(
            structure,
            [x if axis is None else _moved(next(wholes), axis, what) for x, axis in zip(outputs, wanted, strict=True)],
        )

    return evaluated(mapped, function)


def _axes_of_arguments(in_axes: Axes, count: int, what: str) -> list[Axes]:
    if in_axes is None or isinstance(in_axes, int):
        return [in_axes] * count
    if not isinstance(in_axes, tuple | list):
        raise ShapeError(
            f"{what}: in_axes is a number, None, or a tuple with an entry for each argument, not {in_axes!r}; what is "
            f"inside an argument goes into its entry, as in in_axes=({in_axes!r},)"
        )
    if len(in_axes) != count:
        raise ShapeError(f"{what}: in_axes has {len(in_axes)} entries for {count} arguments")
    return list(in_axes)


def axes_of(axes: Axes, structure: PyTreeDef, what: str) -> list[int | None]:
    """The axis of each leaf; `ShapeError` where there are containers in `axes` that are not in the structure."""
    if axes is None or (isinstance(axes, int) and not isinstance(axes, bool)):
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
        raise ShapeError(f"{what} is {axes!r} for {found}; give a number, None, or a container of these like that")
    return [axis for part, inside in zip(parts, structure.inside, strict=True) for axis in axes_of(part, inside, what)]


def _row(leaf: Any, axis: int, name: str, what: str, rows: dict[BaseNode, BaseNode]) -> Any:
    """An input that stands for one row of an argument, which `rows` gets with the new axis first."""
    if not leaf.dims:
        raise ShapeError(f"{what}: {name} is {describe(leaf)} and has no axis to go along; in_axes of it is None then")
    first = normalize_axis(axis, leaf.ndim)
    if first:
        _check_moves(leaf, what)
        whole: Any = leaf
        leaf = whole.transpose(first, *(i for i in range(leaf.ndim) if i != first))
    row = placeholder_like(leaf, leaf.dims[1:], name)
    rows[row] = leaf
    return row


def _check_moves(node: BaseNode, what: str) -> None:
    if isinstance(node, IndexNode):
        raise ShapeError(f"{what}: {describe(node)} holds integers, whose axes stay as they are: the new one is first")


def _varied(outputs: Sequence[BaseNode], rows: Mapping[BaseNode, BaseNode]) -> set[BaseNode]:
    """The nodes that differ from row to row."""
    varied = set(rows)
    for node in topological_order(outputs):
        if not varied.isdisjoint(node.parents):
            varied.add(node)
    return varied


def _moved(whole: Any, axis: int, what: str) -> Any:
    """The result with its first axis moved to where it is wanted."""
    place = normalize_axis(axis, whole.ndim)
    if place == 0:
        return whole
    _check_moves(whole, what)
    order = list(range(1, whole.ndim))
    order.insert(place, 0)
    return whole.transpose(*order)


def batched(outputs: Sequence[Any], rows: Mapping[BaseNode, BaseNode]) -> list[Any]:
    """The outputs for all rows at once, of inputs each of which stands for one row."""
    many: dict[BaseNode, BaseNode] = dict(rows)
    axis = next(iter(rows.values())).dims[0]
    for node in topological_order(outputs):
        if node in many or many.keys().isdisjoint(node.parents):
            continue
        if isinstance(node, Updating):
            raise ShapeError(f"{describe(node)} moves a buffer, which vmap has one of and many values for")
        operands = [many.get(parent, parent) for parent in node.parents]
        mapped = [parent in many for parent in node.parents]
        with located_at(node.origin):
            found = node.batched(operands, mapped)
            many[node] = _one_by_one(node, operands, mapped) if found is None else found
    for output in outputs:
        if output not in many:
            if isinstance(output, IndexNode):
                raise ShapeError(f"{describe(output)} is the same for all rows, and integers are not repeated by vmap")
            many[output] = output.broadcast_to((axis, *output.dims))
    return [many[output] for output in outputs]


def _one_by_one(node: BaseNode, operands: Sequence[BaseNode], mapped: Sequence[bool]) -> Any:
    """What a node is for each row, by a loop inside the graph."""
    rows = [x for x, many in zip(operands, mapped, strict=True) if many]
    givens = [placeholder_like(x, x.dims[1:], x.name or x.op_name()) for x in rows]
    each = iter(givens)
    parents = tuple(next(each) if many else x for x, many in zip(operands, mapped, strict=True))
    one = type(node).rebuild(parents, node.attribute_values(), node.name)
    if one.dtype.kind not in "fb":
        raise DTypeError(f"{describe(node)} gives {one.dtype} and has no form for many rows at once")
    mask = one.dtype.kind == "b"
    outside, stand, outputs = closure_convert([one.astype(np.float32) if mask else one], givens)
    steps = Steps(LoopBody([*givens, *stand], outputs), rows[0].dims[0], 0, len(rows))
    made = Scan(steps, *rows, *outside).made(0)
    return made > 0.5 if mask else made
