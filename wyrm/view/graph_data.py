"""A graph, and a program compiled of it, as data for the graph page: columns of numbers, and a table of strings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from wyrm.engines.native.stages.loops import ArrayBuffer, Invocation, Item, KernelCall, Loop, PythonCall, nodes_of
from wyrm.engines.native.stages.memory import lifetimes
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.errors import OptionError, ShapeError, WyrmError
from wyrm.graph.axes import Axis, Derived, Dim, Dims, Plus, Times, axis_name, axis_size, known_size, resolve
from wyrm.graph.base import BaseNode, label
from wyrm.graph.leaves import Constant, as_constant
from wyrm.graph.source_location import location_of
from wyrm.graph.storage import stored
from wyrm.graph.traversal import has_more_nodes, topological_order
from wyrm.ops.gradients.accumulation import accumulated
from wyrm.ops.random.philox import Counter
from wyrm.train.program import Program
from wyrm.view.groups import BACKWARD, FORWARD, Groups, Unfolded, op_name, paths_of_parameters, plain_attributes
from wyrm.view.model_summary import has_products, multiply_adds
from wyrm.view.reach import dependences

# Operations that the name of a loop lists.
_LISTED = 4


def program_data(
    graph: NativeGraph, sizes: Mapping[type[Dim], int], position: Mapping[BaseNode, int], backward: int
) -> dict[str, Any]:
    """Return the stages and the buffers of a step, as the graph page reads them.

    `position` has the positions of the shown nodes; from position `backward` on they are of the backward pass. Bytes
    and FLOPs that depend on sizes of the data that `sizes` does not have are -1.
    """
    owners = _owners(graph, position)
    calls = graph.source.calls
    computed: dict[ArrayBuffer, list[int]] = {}
    for node, value in graph.tree.values.items():
        if value in graph.loops.stored:
            computed.setdefault(value.buffer.root, []).extend(owners.get(node, ()))
    # Updates of parameters and buffers follow the invocations.
    end = len(graph.source.invocations)
    return {
        "stages": [_stage(call, sizes, owners, backward) for call in calls],
        "buffers": [
            {
                "name": buffer.name,
                "bytes": _bytes_of_buffer(buffer, sizes),
                "first": first,
                "last": last if last < end else len(calls) - 1,
                "nodes": sorted(set(computed.get(buffer, ()))),
            }
            for buffer, (first, last) in lifetimes(graph.source).items()
        ],
    }


def _owners(graph: NativeGraph, position: Mapping[BaseNode, int]) -> dict[BaseNode, list[int]]:
    """Return the positions of the shown nodes that each node of the schedule computes, wholly or in part."""
    simpler, representative = graph.targets.simpler, graph.schedule.representative
    parts: dict[BaseNode, int] = {}
    found: dict[BaseNode, dict[int, None]] = {}
    for node, number in position.items():
        final = simpler.get(node)
        if final is None or final not in representative:
            continue
        # The nodes that replace a composite node; its operands are known already.
        for part in topological_order([final], known=parts):
            parts[part] = number
        found.setdefault(representative[final], {})[number] = None
    for part, number in parts.items():
        if part in representative:
            found.setdefault(representative[part], {})[number] = None
    return {node: list(numbers) for node, numbers in found.items()}


def _stage(
    call: Invocation, sizes: Mapping[type[Dim], int], owners: Mapping[BaseNode, list[int]], backward: int
) -> dict[str, Any]:
    nodes = [] if call.item is None else list(nodes_of(call.item))
    kind = _kind_of_call(call)
    computed = nodes if call.updated is None else [call.updated]
    shown = sorted({number for node in computed for number in owners.get(node, ())})
    bytes_used = [_bytes_of_buffer(buffer, sizes) for buffer in {buffer.root for buffer in call.buffers}]
    products = [0 if kind == "check" else multiply_adds(node, sizes) for node in nodes]
    known = [count for count in products if count is not None]
    return {
        "name": _name_of_call(call, kind, nodes),
        "kind": kind,
        "nodes": shown,
        "part": int(kind == "update" or (bool(shown) and min(shown) >= backward)),
        "bytes": -1 if -1 in bytes_used else sum(bytes_used),
        "flops": 2 * sum(known) if len(known) == len(products) else -1,
    }


def _kind_of_call(call: Invocation) -> str:
    item = call.item
    if not isinstance(item, KernelCall):
        return "update" if item is None else "loop" if isinstance(item, Loop) else "scalars"
    if call.buffers != {item.out, *item.operands}:
        return "check"
    if isinstance(call.function, PythonCall):
        return "Python"
    return "scan" if call.scan is not None else "product" if has_products(item.node) else "kernel"


def _name_of_call(call: Invocation, kind: str, nodes: Sequence[BaseNode]) -> str:
    if kind == "update":
        return f"update {label(call.updated)}" if call.updated is not None else "norm of the gradients"
    names = list(dict.fromkeys(node.op_name() for node in nodes))
    listed = ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
    if isinstance(call.item, Loop):
        return f"loop over {', '.join(_axes_of_loop(call.item))}: {listed}"
    return {"check": f"check the indices of {listed}", "scalars": f"scalars: {listed}"}.get(kind, listed)


def _axes_of_loop(loop: Loop) -> Iterator[str]:
    """Yield the axes of a loop and of the longest chain of loops inside."""
    item: Item | None = loop
    while isinstance(item, Loop):
        yield _axis_name(item.axis)
        item = next((inner for inner in item.items if isinstance(inner, Loop)), None)


def _axis_name(axis: Axis) -> str:
    return type(axis).__name__ if isinstance(axis, Dim) else str(axis)


def _bytes_of_buffer(buffer: ArrayBuffer, sizes: Mapping[type[Dim], int]) -> int:
    try:
        return math.prod(resolve(buffer.dims, sizes)) * buffer.dtype.itemsize
    except ShapeError:
        return -1


# What a page can show: a node, several, or a program.
Shown: TypeAlias = BaseNode | Sequence[BaseNode] | Program
# The most nodes of a page; a browser takes some seconds to draw them.
LIMIT = 100_000
INPUT, PARAMETER, CONSTANT, OPERATION = range(4)
# Larger constants are shown by their axes alone.
_SHOWN_ELEMENTS = 4


def graph_data(shown: Shown) -> dict[str, Any]:
    """Return the data of a page; see `wyrm.view.page` for the arguments and errors."""
    return described(shown)[1]


def described(shown: Shown) -> tuple[GraphData, dict[str, Any]]:
    """Return a graph and the data of its page."""
    if isinstance(shown, BaseNode):
        return _with_data(GraphData([shown]))
    if isinstance(shown, Sequence) and shown and all(isinstance(node, BaseNode) for node in shown):
        return _with_data(GraphData(shown))
    if isinstance(shown, Program):
        return _of_program(shown)
    what = type(shown).__name__
    if isinstance(shown, list | tuple):
        other = next((type(each).__name__ for each in shown if not isinstance(each, BaseNode)), None)
        what = "an empty sequence" if other is None else f"a {what} that holds {other}"
    raise TypeError(f"a page shows a node, several, or a program, not {what}; for a module, give it model(x)")


def _with_data(graph: GraphData) -> tuple[GraphData, dict[str, Any]]:
    return graph, graph.data()


def _of_program(program: Program) -> tuple[GraphData, dict[str, Any]]:
    graph: Any = program.graph
    if not graph.has_loops:
        return _with_data(GraphData(program.outputs))
    targets = graph.differentiated
    pairs = [node for touched in targets.rows.values() for pair in touched for node in pair]
    gradients = {} if targets.loss is None else _shown_gradients([targets.loss])
    same = _isomorphic([(gradients[x], own) for x, own in targets.gradients.items() if x in gradients])
    found = {node: same[gradient] for node, gradient in gradients.items() if gradient in same}
    shown = GraphData(
        [*targets.outputs, *targets.buffer_updates.values()], found, [*targets.gradients.values(), *pairs]
    )
    data = shown.data()
    overlay = program_data(graph, program.sizes, shown.position, len(shown.forward))
    for stage in overlay["stages"]:
        if stage["kind"] == "update" and stage["nodes"]:
            # Many parameters are called "weight".
            path = data["groups"]["path"][data["nodes"]["group"][stage["nodes"][0]]]
            stage["name"] += f" of {data['strings'][path]}" if path >= 0 else ""
    return shown, {**data, "program": overlay}


def _isomorphic(pairs: Sequence[tuple[BaseNode, BaseNode]]) -> dict[BaseNode, BaseNode]:
    """Return the corresponding nodes of two graphs that were built in the same way, given pairs of their outputs."""
    same: dict[BaseNode, BaseNode] = {}
    stack = list(pairs)
    while stack:
        node, other = stack.pop()
        alike = type(node) is type(other) and node.dims == other.dims and len(node.parents) == len(other.parents)
        if alike and node not in same:
            same[node] = other
            stack += zip(node.parents, other.parents, strict=True)
    return same


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
    """The columns of a graph, as `data` returns them.

    `gradients` maps nodes to their gradients, by default those of the only scalar; `others` are more nodes of the
    backward pass. The backward pass is left out if both passes together are above the limit.
    """

    def __init__(
        self,
        outputs: Sequence[BaseNode],
        gradients: Mapping[BaseNode, BaseNode] | None = None,
        others: Sequence[BaseNode] = (),
    ) -> None:
        self.outputs: list[BaseNode] = list(dict.fromkeys(outputs))
        if has_more_nodes(self.outputs, LIMIT):
            raise _too_large()
        forward = topological_order(self.outputs)
        self._unfolded = Unfolded()
        self.forward: list[BaseNode] = self._unfolded.add(forward)
        if len(self.forward) > LIMIT:
            raise _too_large()
        found = _shown_gradients(self.outputs) if gradients is None else gradients
        backward = self._unfolded.add(topological_order([*found.values(), *others], known=set(forward)))
        if len(self.forward) + len(backward) > LIMIT:
            found, backward = {}, []
        self.gradients = found
        self.nodes: list[BaseNode] = [*self.forward, *backward]
        self.position: dict[BaseNode, int] = {node: position for position, node in enumerate(self.nodes)}
        self._backward = backward
        self._strings = _Strings()
        self._shapes: dict[Any, int] = {}
        self._title = ", ".join(label(node) for node in self.outputs[:3])

    @property
    def computed_once(self) -> list[BaseNode]:
        """The nodes outside the bodies of loops, which have one value."""
        inside = self._unfolded.loops.keys() | self._unfolded.roles.keys()
        return [node for node in self.nodes if node not in inside]

    def _shape(self, dims: Dims) -> int:
        # The classes tell axes of one size and different names apart.
        key = tuple((type(axis), axis) for axis in dims)
        return self._shapes.setdefault(key, len(self._shapes))

    def data(self) -> dict[str, Any]:
        """Return the graph as a value that JSON can hold."""
        strings = self._strings
        groups = Groups(self._title, self._unfolded)
        groups.add(self.forward, FORWARD)
        groups.add(self._backward, BACKWARD, "gradient")
        paths = paths_of_parameters(self.nodes)
        shapes = {node: self._shape(node.dims) for node in self.nodes}
        for part in (self.forward, self._backward):
            groups.find_runs(part, lambda node: (shapes[node], node.dtype))
        columns: dict[str, list[Any]] = {
            name: []
            for name in (
                "op", "name", "group", "formula", "shape", "dtype", "kind", "parameters", "bytes", "line", "source",
                "part", "parents", "gradient", "path", "reach",
            )
        }  # fmt: skip
        lines: dict[Any, tuple[int, int]] = {}
        known, reaches = dependences(self.outputs), dict[tuple[tuple[int, int, int], ...], int]()
        for number, node in enumerate(self.nodes):
            role = self._unfolded.roles.get(node)
            kind = _node_kind(node) if role is None else OPERATION
            elements = _count_of_elements(node.dims)
            place = node.origin[:2]
            if place not in lines:
                location = location_of(node.origin)
                lines[place] = strings(str(location)), strings(location.source)
            columns["op"].append(strings(op_name(node) if role is None else role))
            name, path = _node_name(node), paths.get(node)
            if path is not None and name in (None, path.rpartition(".")[2]):
                # Outside its module's group, the name alone would not tell which parameter it is.
                name = path.removeprefix(f"{groups.paths[groups.of[node]]}.")
            columns["name"].append(strings(name if role is None or name != role else None))
            columns["path"].append(strings(path))
            columns["group"].append(groups.of[node])
            columns["formula"].append(-1 if node.is_leaf else strings(_formula(node)))
            columns["shape"].append(shapes[node])
            columns["dtype"].append(strings(str(node.dtype)))
            columns["kind"].append(kind)
            columns["parameters"].append(max(elements, 0) if kind == PARAMETER else 0)
            columns["bytes"].append(elements * node.dtype.itemsize if elements >= 0 else -1)
            columns["line"].append(lines[place][0])
            columns["source"].append(lines[place][1])
            columns["part"].append(FORWARD if number < len(self.forward) else BACKWARD)
            columns["parents"].append([self.position[parent] for parent in self._unfolded.parents(node)])
            gradient = self.gradients.get(node)
            columns["gradient"].append(-1 if gradient is None else self.position[gradient])
            reach = tuple((self.position[of], strings(axis), strings(where)) for of, axis, where in known.get(node, ()))
            columns["reach"].append(reaches.setdefault(reach, len(reaches)) if reach else -1)
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
            "reaches": list(map(list, reaches)),
            "program": None,
            "strings": strings.table,
        }


def _too_large() -> OptionError:
    return OptionError(
        f"the graph has more than {LIMIT:,} nodes, the most that a page shows: show a part of it, such as the output "
        f"of one module, or write wy.view.to_text(node) to a file"
    )


def _shown_gradients(outputs: Sequence[BaseNode]) -> dict[BaseNode, BaseNode]:
    """Return the gradients of the only scalar output, by node that depends on a parameter, or else on an input.

    The result is empty for outputs without gradients.
    """
    scalars = [node for node in outputs if node.dtype.kind == "f" and node.dims == ()]
    if len(scalars) != 1:
        return {}
    order = topological_order(scalars)
    parameters = [node for node in order if node.is_parameter]
    reached = set(parameters or [node for node in order if node.is_leaf and not isinstance(node, Constant)])
    # A residual parent has no gradient of its own, see `BaseNode.residual_parents`.
    residuals = {node.parents[position] for node in order for position in node.residual_parents}
    for node in order:
        if not reached.isdisjoint(node.parents):
            reached.add(node)
    wanted = [node for node in order if node in reached and node.dtype.kind == "f" and node not in residuals]
    try:
        found = accumulated(scalars, [as_constant(1.0, scalars[0].dtype)], wanted, leaves=False, order=order)
    except WyrmError:
        return {}
    return {**found} if len(found) > 1 else {}  # an output without parameters has the gradient 1 alone


def _node_kind(node: BaseNode) -> int:
    if not node.is_leaf:
        return OPERATION
    if node.is_parameter:
        return PARAMETER
    name = node.op_name()
    return CONSTANT if isinstance(node, Counter) or "constant" in name or name == "buffer" else INPUT


def _node_name(node: BaseNode) -> str | None:
    """Return a node's name; small constants are named by their value."""
    if node.name is None and isinstance(node, Constant):
        array = stored(node).array
        if array is not None and array.size <= _SHOWN_ELEMENTS:
            return repr(array.tolist())
    return node.name


def _formula(node: BaseNode) -> str:
    """Return a call of the node's operation as text, with the names of its operands and its attributes."""
    operands = [_node_name(parent) or op_name(parent) for parent in node.parents]
    attributes = [f"{key}={value!r}" for key, value in plain_attributes(node) if value is not None]
    return f"{op_name(node)}({', '.join([*operands, *attributes])})"


def _count_of_elements(dims: Dims) -> int:
    """Return the number of elements, -1 if data decides it."""
    count = known_size(dims)
    return -1 if count is None else count


def _axis(axis: Axis) -> list[Any]:
    """Return an axis' name and its size, None if data decides it; the name of a derived axis is what it is made of.

    >>> class Batch(wy.Dim): ...
    >>> _axis(Batch() * 10), _axis(Batch(3)), _axis(5)
    (['Batch·10', None], ['Batch', 3], ['', 5])
    """
    return [_axis_text(axis) if isinstance(axis, Derived) else axis_name(axis), axis_size(axis)]


def _axis_text(axis: Axis) -> str:
    """Return an axis of a derived one as text."""
    if not isinstance(axis, Derived):
        return axis_name(axis) or str(axis_size(axis))
    sign = "·" if isinstance(axis, Times) else "+"
    return sign.join(f"({_axis_text(part)})" if isinstance(part, Plus) else _axis_text(part) for part in axis.parts)
