"""A graph as data for the graph page: columns of numbers, and a table of strings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from wyrm.errors import NotDifferentiable, OptionError, WyrmError
from wyrm.node.base import BaseNode
from wyrm.node.leaves import Constant
from wyrm.node.node import Node
from wyrm.node.source_location import location_of
from wyrm.node.storage import stored
from wyrm.node.traversal import topological_order
from wyrm.ops.philox import COUNTERS
from wyrm.ops.accumulation import accumulated
from wyrm.node.leaves import as_constant
from wyrm.types.dims import Dim, Dims, axis_size
from wyrm.view.groups import BACKWARD, FORWARD, Groups, plain_attributes

# A browser takes some seconds to draw more.
LIMIT = 100_000
INPUT, PARAMETER, CONSTANT, OPERATION = range(4)
# Larger constants are shown by their axes alone.
_SHOWN_ELEMENTS = 4


class _Strings:
    """A table of strings, each once."""

    def __init__(self) -> None:
        self.table: list[str] = []
        self._position: dict[str, int] = {}

    def __call__(self, text: str | None) -> int:
        """Return the position of a text; -1 for None and the empty text."""
        if not text:
            return -1
        position = self._position.get(text)
        if position is None:
            position = self._position[text] = len(self.table)
            self.table.append(text)
        return position


class GraphData:
    """The columns of a graph, as `data` returns them."""

    def __init__(self, outputs: Sequence[BaseNode], title: str, gradients: bool = True) -> None:
        self.outputs = list(outputs)
        self.forward = topological_order(self.outputs)
        check_size(len(self.forward))
        found = _gradients(self.outputs, self.forward) if gradients else {}
        backward = topological_order(found.values(), known=set(self.forward))
        if len(self.forward) + len(backward) > LIMIT:
            found, backward = {}, []
        self.gradients = found
        self.nodes = [*self.forward, *backward]
        self.position = {node: position for position, node in enumerate(self.nodes)}
        self._backward = backward
        self._strings = _Strings()
        self._shapes: dict[Any, int] = {}
        self._title = title

    def _shape(self, dims: Dims) -> int:
        # By class too: axes of one size and two names are not equal, and `One(1)` is not 1.
        key = tuple((type(axis), axis) for axis in dims)
        return self._shapes.setdefault(key, len(self._shapes))

    def data(self) -> dict[str, Any]:
        """Return the graph as a value that JSON can hold."""
        strings = self._strings
        groups = Groups(self._title)
        groups.add(self.forward, FORWARD)
        groups.add(self._backward, BACKWARD, "gradient")
        shapes = {node: self._shape(node.dims) for node in self.nodes}
        for part in (self.forward, self._backward):
            groups.find_runs(part, lambda node: (shapes[node], node.dtype))
        columns: dict[str, list[Any]] = {
            name: []
            for name in (
                "op", "name", "group", "formula", "shape", "dtype", "kind", "parameters", "bytes", "line", "source",
                "part", "parents", "gradient",
            )
        }  # fmt: skip
        lines: dict[Any, tuple[int, int]] = {}
        operations: dict[Any, int] = {}
        for number, node in enumerate(self.nodes):
            kind = _kind(node)
            elements = _elements(node.dims)
            place = node.origin[:2]
            if place not in lines:
                location = location_of(node.origin)
                lines[place] = strings(str(location)), strings(location.source)
            if type(node) not in operations:
                operations[type(node)] = strings(node.op_name())
            columns["op"].append(operations[type(node)])
            columns["name"].append(strings(_name(node)))
            columns["group"].append(groups.of[node])
            columns["formula"].append(strings(_formula(node)) if kind == OPERATION else -1)
            columns["shape"].append(shapes[node])
            columns["dtype"].append(strings(str(node.dtype)))
            columns["kind"].append(kind)
            columns["parameters"].append(max(elements, 0) if kind == PARAMETER else 0)
            columns["bytes"].append(elements * node.dtype.itemsize if elements >= 0 else -1)
            columns["line"].append(lines[place][0])
            columns["source"].append(lines[place][1])
            columns["part"].append(FORWARD if number < len(self.forward) else BACKWARD)
            columns["parents"].append([self.position[parent] for parent in node.parents])
            gradient = self.gradients.get(node)
            columns["gradient"].append(-1 if gradient is None else self.position[gradient])
        return {
            "version": 1,
            "title": self._title,
            "outputs": [self.position[node] for node in self.outputs],
            "nodes": columns,
            "groups": {
                "name": [strings(name) for name in groups.names],
                "path": [strings(path) for path in groups.paths],
                "class": [strings(kind) for kind in groups.kinds],
                "parent": groups.parents,
                "part": groups.parts,
                "like": groups.like,
                "repeats": groups.repeats,
                "mirror": groups.mirrors,
            },
            "shapes": [[_axis(axis) for _, axis in key] for key in self._shapes],
            "program": None,
            "strings": strings.table,
        }


def check_size(count: int) -> None:
    """Raise `OptionError` for a graph of too many nodes."""
    if count > LIMIT:
        raise OptionError(
            f"the graph has {count:,} nodes, and a page shows at most {LIMIT:,}: show a part of it, such as the output "
            f"of one module, or write wy.view.to_text(node) to a file"
        )


def _gradients(outputs: Sequence[BaseNode], order: Sequence[BaseNode]) -> dict[BaseNode, Node]:
    """Return the gradient of a scalar with respect to each node on a path to it from a parameter, else from an input.

    Return nothing for outputs that have no gradient.
    """
    if len(outputs) != 1 or outputs[0].dtype.kind != "f" or outputs[0].dims != ():
        return {}
    parameters = [node for node in order if node.is_parameter]
    reached = set(parameters or [node for node in order if node.is_leaf and not isinstance(node, Constant)])
    # A residual parent has no gradient of its own, see `BaseNode.residual_parents`.
    residuals = {node.parents[position] for node in order for position in node.residual_parents}
    for node in order:
        if not reached.isdisjoint(node.parents):
            reached.add(node)
    wanted = [node for node in order if node in reached and node.dtype.kind == "f" and node not in residuals]
    try:
        return accumulated(outputs, [as_constant(1.0, outputs[0].dtype)], wanted, leaves=False, order=order)
    except (NotDifferentiable, WyrmError):
        return {}


def _kind(node: BaseNode) -> int:
    if not node.is_leaf:
        return OPERATION
    if node.is_parameter:
        return PARAMETER
    return CONSTANT if node in COUNTERS or "constant" in node.op_name() or node.op_name() == "buffer" else INPUT


def _name(node: BaseNode) -> str | None:
    """Return a node's name; small constants are named by their value."""
    if node.name is None and isinstance(node, Constant):
        array = stored(node).array
        if array is not None and array.size <= _SHOWN_ELEMENTS:
            return repr(array.tolist())
    return node.name


def _formula(node: BaseNode) -> str:
    """Return the operation on the labels of its operands, with its static attributes."""
    operands = [_name(parent) or parent.op_name() for parent in node.parents]
    attributes = [f"{key}={value!r}" for key, value in plain_attributes(node) if value is not None]
    return f"{node.op_name()}({', '.join([*operands, *attributes])})"


def _elements(dims: Dims) -> int:
    """Return the number of elements, -1 if data decides it."""
    sizes = [axis_size(axis) for axis in dims]
    return -1 if None in sizes else math.prod(size for size in sizes if size is not None)


def _axis(axis: Any) -> list[Any]:
    """Return an axis' name and its size, None if data decides it."""
    if not isinstance(axis, Dim):
        return ["", axis]
    return [repr(axis) if type(axis).derived else type(axis).__name__, axis.size]
