"""The floating-point operations of products and convolutions in a graph, by the parameter that they multiply."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wyrm.engines.graph import expand
from wyrm.errors import ShapeError
from wyrm.graph.axes import Dim, resolve
from wyrm.graph.base import BaseNode
from wyrm.graph.leaves import Parameter
from wyrm.graph.traversal import topological_order
from wyrm.ops.attention.attention import Attention, AttentionGradient
from wyrm.ops.attention.cached_attention import CachedAttention
from wyrm.ops.control.scan import Scan
from wyrm.ops.control.steps import ENDLESS
from wyrm.ops.convolution.convolution import Convolution, ConvolutionInputGradient, ConvolutionWeightGradient
from wyrm.ops.cross_entropy.linear_cross_entropy import LinearCrossEntropy, LinearCrossEntropyResiduals
from wyrm.ops.products.product import MatMul, VectorDot
from wyrm.ops.recurrence.gru import GRUGradient
from wyrm.ops.recurrence.lstm import LSTMGradient
from wyrm.ops.recurrence.recurrence import Residuals

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
    Attention: lambda parents, own: 2 * math.prod(own) * own[1],
    CachedAttention: lambda parents, own: 2 * math.prod(own) * (parents[1][4] + 1),
    LinearCrossEntropy: lambda parents, own: math.prod(parents[0]) * parents[1][0],
    # The product of the state with the weights, in each step.
    Residuals: lambda parents, own: math.prod(parents[0][:2]) * math.prod(parents[1]),
}
# Fused ops with products that have no entry above: the gradients of those.
_UNCOUNTED = (AttentionGradient, LinearCrossEntropyResiduals, LSTMGradient, GRUGradient)
_PRODUCTS = tuple(_MULTIPLY_ADDS)


def has_products(node: BaseNode) -> bool:
    """Return whether a node computes products of matrices, or the gradient of such a node."""
    return isinstance(node, (*_PRODUCTS, *_UNCOUNTED))


def multiply_adds(node: BaseNode, sizes: Sizes) -> int | None:
    """Return the multiply-adds of a node, 0 without products; None if there is no formula, or data decides a size."""
    if isinstance(node, (*_UNCOUNTED, Scan)):
        return None
    rule = next((rule for kind, rule in _MULTIPLY_ADDS.items() if isinstance(node, kind)), None)
    if rule is None:
        return 0
    try:
        return rule([resolve(parent.dims, sizes) for parent in node.parents], resolve(node.dims, sizes))
    except ShapeError:
        return None


class Data:
    """The owner of a value that depends on data."""


DATA = Data()
# What a value belongs to: data, else a parameter, else nothing.
Owner = Data | Parameter | None


class Flops:
    """The FLOPs of a graph, two for each multiply-add; `uncounted` names the ops whose products have no formula."""

    def __init__(self, outputs: Sequence[BaseNode], sizes: Sizes) -> None:
        self.by_parameter: dict[Parameter | None, int] = {}
        self.uncounted: set[str] = set()
        self._sizes = sizes
        self._add(outputs, 1, {})

    def _add(self, outputs: Sequence[BaseNode], times: int, owners: dict[BaseNode, Owner]) -> None:
        """Add the FLOPs of `times` runs of a graph; `owners` holds those of the placeholders of a loop's body."""
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
        if steps.stops or steps.limited or steps.length >= ENDLESS:
            self.uncounted.add(f"{node.op_name()} of an unknown number of steps")
            return
        body: Any = steps.body
        self._add(steps.outputs, times * steps.length, dict(zip(body.inputs, parents, strict=True)))


def _owner_of_leaf(leaf: BaseNode) -> Owner:
    if isinstance(leaf, Parameter):
        return leaf
    return None if leaf.op_name() in ("constant", "index_constant", "buffer") else DATA
