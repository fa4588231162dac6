"""A table of the layers of a model: their axes, parameters and FLOPs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

from wyrm.engines.graph import expand
from wyrm.errors import OptionError, ShapeError
from wyrm.graph.axes import Dim, class_text, distinct_names, open_axes, resolve
from wyrm.graph.base import BaseNode, format_dims, label
from wyrm.graph.parameters import Parameter
from wyrm.graph.traversal import topological_order
from wyrm.module import Module, members
from wyrm.ops.attention.attention import Attention, AttentionGradient
from wyrm.ops.attention.cached_attention import CachedAttention
from wyrm.ops.control.scan import Scan
from wyrm.ops.convolution.convolution import Convolution, ConvolutionInputGradient, ConvolutionWeightGradient
from wyrm.ops.cross_entropy.linear_cross_entropy import LinearCrossEntropy, LinearCrossEntropyResiduals
from wyrm.ops.products.product import MatMul, VectorDot
from wyrm.ops.recurrence.gru import GRUGradient
from wyrm.ops.recurrence.lstm import LSTMGradient
from wyrm.ops.recurrence.recurrence import Residuals
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.imports import Late
from wyrm.support.options import whole
from wyrm.support.texts import aligned_lines, encodable, fitted, terminal_columns, wrapped


class LayerSummary(NamedTuple):
    """A layer: its path, its class, its parameters with their axes, their number of elements, and its FLOPs.

    `flops` is None without a graph. Products of two values that depend on data have a row of their own.
    """

    name: str
    kind: str
    axes: str
    parameters: int
    flops: int | None


@dataclass(frozen=True)
class Summary:
    """The layers of a model or a graph; `print` shows them as a table.

    `sizes` are those of the open axes; `uncounted` names ops whose products the FLOPs leave out.
    """

    rows: tuple[LayerSummary, ...]
    sizes: Mapping[str, int]
    uncounted: tuple[str, ...] = ()

    @property
    def parameters(self) -> int:
        """The number of elements of all parameters."""
        return sum(row.parameters for row in self.rows)

    @property
    def flops(self) -> int | None:
        """The FLOPs of all layers, None without a graph."""
        counts = [row.flops for row in self.rows if row.flops is not None]
        return sum(counts) if counts else None

    # What notebooks display.
    _repr_mimebundle_ = Late("wyrm.view.notebook", "of_summary")

    def cells(self) -> list[tuple[str, ...]]:
        """Return the texts of the table: its head, a line for each layer, and the total."""
        total = LayerSummary("total", "", "", self.parameters, self.flops)
        head = ("layer", "class", "axes", "parameters", "FLOPs")
        return [head, *(_cells(row) for row in (*self.rows, total))]

    def __str__(self) -> str:
        """Return the table, which fits the terminal, and how the FLOPs are counted."""
        table = aligned_lines(fitted(self.cells(), terminal_columns(), shrinking=(2, 0))[0], {3, 4})
        rule = "-" * max(map(len, table))
        return "\n".join([table[0], rule, *table[1:-1], rule, table[-1], *map(wrapped, self.notes())])

    def notes(self) -> list[str]:
        """Return how the FLOPs are counted, and what is not."""
        if self.flops is None:
            return []
        sizes = ", ".join(f"{name} = {size}" for name, size in self.sizes.items())
        notes = [
            "FLOPs: 2 for each multiply-add of the products and convolutions of one run"
            + (f", with {sizes}" if sizes else "")
        ]
        return [*notes, *([f"not counted: {', '.join(self.uncounted)}"] if self.uncounted else [])]


def _cells(row: LayerSummary) -> tuple[str, ...]:
    flops = "" if row.flops is None else f"{row.flops:,}"
    return encodable(row.name), row.kind, encodable(row.axes), f"{row.parameters:,}", flops


@overload
def summary(model: Module, *inputs: BaseNode, sizes: Mapping[type[Dim], int] | None = None) -> Summary: ...
@overload
def summary(model: BaseNode | Sequence[BaseNode], *, sizes: Mapping[type[Dim], int] | None = None) -> Summary: ...
@explains_keywords
def summary(
    model: Module | BaseNode | Sequence[BaseNode], *inputs: BaseNode, sizes: Mapping[type[Dim], int] | None = None
) -> Summary:
    """Return a table of the layers of a model, or of a graph: axes, parameters and FLOPs.

    With `inputs`, the graph of a model is `model(*inputs)`; without, there are no FLOPs. For a node or several, each
    parameter is a row. A FLOP is an addition or a multiplication, so a product of matrices (m, k) and (k, n) has
    `2 m k n`, and a convolution `2 (elements of the result) (elements of one output channel's weight)`. Only products
    and convolutions are counted, of one forward pass if the graph is one. Open axes have size 1, as for one row of a
    batch, unless `sizes` gives another: `{Batch: 32}`. A shared parameter counts for the first layer that holds it.

    Raise `OptionError` for a size of an axis that is not open in the graph, `TypeError` for other models.

    >>> class Batch(wy.Dim): ...
    >>> model = wy.nn.Linear(784, 128) >> wy.nn.relu >> wy.nn.Linear(128, 10)
    >>> x = wy.Input(dims=(Batch(), 784))
    >>> print(wy.summary(model, x))
    layer     class   axes                            parameters    FLOPs
    ---------------------------------------------------------------------
    layers.0  Linear  weight (784, 128), bias (128,)     100,480  200,704
    layers.2  Linear  weight (128, 10), bias (10,)         1,290    2,560
    ---------------------------------------------------------------------
    total                                                101,770  203,264
    FLOPs: 2 for each multiply-add of the products and convolutions of one run, with Batch = 1
    """
    outputs: list[BaseNode] = []
    if isinstance(model, Module):
        layers = _layers(model)
        if inputs:
            if not all(isinstance(node, BaseNode) for node in inputs):
                raise TypeError("the inputs are nodes, as in wy.summary(model, wy.Input(dims=(Batch(), 784)))")
            built: Any = model
            outputs = _output_nodes(built(*inputs))
    else:
        outputs = _output_nodes(model)
        if inputs:
            raise TypeError("inputs belong to a model; a node has its graph already")
        layers = {}
    used = [node for node in topological_order(outputs) if isinstance(node, Parameter)]
    own = {id(parameter) for _, held in layers.values() for _, parameter in held}
    for position, parameter in enumerate(node for node in used if id(node) not in own):
        name = label(parameter)
        layers[name if name not in layers else f"{name} ({position})"] = "", [("", parameter)]
    bound = _sizes_or_one(outputs, sizes or {})
    flops = Flops(outputs, bound)
    counts = {id(parameter): count for parameter, count in flops.by_parameter.items() if parameter is not None}
    rows = [
        LayerSummary(
            name or "(model)",
            kind,
            ", ".join(f"{inner} {format_dims(parameter.dims)}".strip() for inner, parameter in held),
            sum(math.prod(parameter.shape) for _, parameter in held),
            sum(counts.get(id(parameter), 0) for _, parameter in held) if outputs else None,
        )
        for name, (kind, held) in layers.items()
    ]
    if flops.by_parameter.get(None):
        rows.append(LayerSummary("(between layers)", "", "", 0, flops.by_parameter[None]))
    names = dict(zip(distinct_names([axis.__name__ for axis in bound]), bound.values(), strict=True))
    return Summary(tuple(rows), names, tuple(sorted(flops.uncounted)))


def _layers(model: Module) -> dict[str, tuple[str, list[tuple[str, Parameter]]]]:
    """Return by path the class of each module that has own parameters, and these parameters by name."""
    layers: dict[str, tuple[str, list[tuple[str, Parameter]]]] = {}
    seen: set[int] = set()
    stack: list[tuple[str, str, str, object]] = [("", "", type(model).__name__, model)]
    while stack:
        path, layer, kind, value = stack.pop()
        if isinstance(value, Parameter):
            if id(value) not in seen:
                inner = path[len(layer) :].removeprefix(".")
                layers.setdefault(layer, (kind, []))[1].append((inner, value))
        elif id(value) not in seen:
            if isinstance(value, Module):
                layer, kind = path, type(value).__name__
            stack.extend((inner, layer, kind, member) for inner, member in reversed(members(value, path)))
        seen.add(id(value))
    return layers


def _output_nodes(outputs: object) -> list[BaseNode]:
    """Return the nodes of what a model returns: a node, or lists, tuples and dicts of nodes."""
    if isinstance(outputs, BaseNode):
        return [outputs]
    if isinstance(outputs, Mapping):
        return _output_nodes(list(outputs.values()))
    if not isinstance(outputs, list | tuple):
        raise TypeError(f"a summary is of a model or of nodes, not of {type(outputs).__name__}")
    return [node for member in outputs for node in _output_nodes(member)]


def _sizes_or_one(outputs: Sequence[BaseNode], given: Mapping[type[Dim], int]) -> dict[type[Dim], int]:
    """Return the sizes of the open axes of a graph, 1 unless given."""
    found = {axis: 1 for node in topological_order(outputs) for axis in open_axes(node.dims)}
    for axis, size in given.items():
        if axis not in found:
            named = ", ".join(map(class_text, found)) or "none"
            raise OptionError(f"{axis.__name__} is not an open axis of this graph, whose open axes are: {named}")
        found[axis] = whole(f"the size of {axis.__name__}", size, 1)
    return found


Sizes = Mapping[type[Dim], int]
# The shape of a node or of a parent.
Shape = tuple[int, ...]
# The multiply-adds of an op from the shapes of its parents and its own.
_MULTIPLY_ADDS: dict[type[BaseNode], Callable[[Sequence[Shape], Shape], int]] = {
    MatMul: lambda parents, own: math.prod(own) * parents[0][-1],
    VectorDot: lambda parents, own: math.prod(own) * parents[0][-1],
    Convolution: lambda parents, own: math.prod(own) * math.prod(parents[1][1:]),
    # A transposed convolution: each element of its operand is multiplied by the weights of its channel.
    ConvolutionInputGradient: lambda parents, own: math.prod(parents[0]) * math.prod(parents[1][1:]),
    ConvolutionWeightGradient: lambda parents, own: math.prod(parents[1]) * math.prod(own[1:]),
    # Of queries and keys, and of weights and values; masked positions count too.
    # Queries, keys and values are one operand of five axes, or apart.
    Attention: lambda parents, own: (
        math.prod(own[:3]) * parents[0 if len(parents[0]) == 5 else 1][1] * (parents[0][-1] + own[3])
    ),
    CachedAttention: lambda parents, own: 2 * math.prod(own) * (parents[3][2] + own[1]),
    LinearCrossEntropy: lambda parents, own: math.prod(parents[0]) * parents[1][0],
    # The product of the state with the weights, in each step.
    Residuals: lambda parents, own: math.prod(parents[0][:2]) * math.prod(parents[1]),
}
# Gradients of fused ops: they have products, but no entry above.
_UNCOUNTED = (AttentionGradient, LinearCrossEntropyResiduals, LSTMGradient, GRUGradient)
_PRODUCTS = tuple(_MULTIPLY_ADDS)


def has_products(node: BaseNode) -> bool:
    """Return whether a node computes products of matrices, or the gradient of such a node."""
    return isinstance(node, (*_PRODUCTS, *_UNCOUNTED))


def multiply_adds(node: BaseNode, sizes: Sizes) -> int | None:
    """Return the multiply-adds of a node, 0 without products; None without a formula, or if data decides a size."""
    if isinstance(node, (*_UNCOUNTED, Scan)):
        return None
    rule = next((rule for kind, rule in _MULTIPLY_ADDS.items() if isinstance(node, kind)), None)
    if rule is None:
        return 0
    try:
        shapes = [resolve(each.dims, sizes) for each in (*node.parents, node)]
    except ShapeError:
        return None
    # No window fits in axes of size 1.
    return None if any(size < 0 for shape in shapes for size in shape) else rule(shapes[:-1], shapes[-1])


class Data:
    """The owner of a value that depends on data."""


DATA = Data()
# What a value depends on: on data, else on a parameter alone, else on neither.
Owner = Data | Parameter | None


class Flops:
    """The FLOPs of a graph, two for each multiply-add; `uncounted` names the ops whose products have no formula."""

    def __init__(self, outputs: Sequence[BaseNode], sizes: Sizes) -> None:
        self.by_parameter: dict[Parameter | None, int] = {}
        self.uncounted: set[str] = set()
        self._sizes = sizes
        self._add(outputs, 1, {})

    def _add(self, outputs: Sequence[BaseNode], times: int, owners: dict[BaseNode, Owner]) -> None:
        """Add the FLOPs of `times` runs of a graph; `owners` has the owners of the placeholders of a loop's body."""
        replacements = expand(outputs)
        for node in topological_order([replacements[output] for output in outputs]):
            if node.is_leaf:
                owners.setdefault(node, _owner_of_leaf(node))
                continue
            parents = [owners[parent] for parent in node.parents]
            known = [parent for parent in parents if parent is not None]
            # Not `in`, which compares parameters by a node.
            owners[node] = DATA if any(isinstance(each, Data) for each in known) else known[0] if known else None
            if isinstance(node, Scan):
                self._add_loop(node, times, parents)
            elif isinstance(node, _UNCOUNTED):
                self.uncounted.add(node.op_name())
            else:
                self._add_op(node, times, parents)

    def _add_op(self, node: BaseNode, times: int, parents: Sequence[Owner]) -> None:
        products = multiply_adds(node, self._sizes)
        if products is not None and isinstance(node, _PRODUCTS):
            owner = next((parent for parent in parents if isinstance(parent, Parameter)), None)
            self.by_parameter[owner] = self.by_parameter.get(owner, 0) + 2 * times * products

    def _add_loop(self, node: Scan, times: int, parents: Sequence[Owner]) -> None:
        steps = node.steps
        if steps.stops or steps.limited or not steps.keeps:
            self.uncounted.add(f"{node.op_name()} of an unknown number of steps")
            return
        body: Any = steps.body
        self._add(steps.outputs, times * steps.length_for(self._sizes), dict(zip(body.inputs, parents, strict=True)))


def _owner_of_leaf(leaf: BaseNode) -> Owner:
    if isinstance(leaf, Parameter):
        return leaf
    return None if leaf.op_name() in ("constant", "index_constant", "buffer") else DATA
