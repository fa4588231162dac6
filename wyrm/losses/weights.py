"""Weights of samples and classes, and the reductions of weighted losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from wyrm.graph.base import format_dims
from wyrm.graph.leaves import Constant, as_constant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.storage import stored
from wyrm.graph.typing import Array
from wyrm.losses.checks import as_node, check_axes, labels_of, reduced
from wyrm.ops.cross_entropy.label import CountedLabels
from wyrm.ops.cross_entropy.softmax import Reduction
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.indexing.index import Index

Weights: TypeAlias = Node | Array | None


def _weights(loss: str, name: str, weights: Node | Array | float, beside: Node) -> Node:
    """Return weights as a node; raise `ValueError` if an array of weights has negative ones."""
    node = as_node(loss, name, weights, beside)
    if isinstance(node, Constant):
        array = np.asarray(stored(node).array)
        if not (array >= 0.0).all():
            raise ValueError(f"{loss}: {name} must be at least 0, but holds {array[~(array >= 0.0)][0]}")
    return node


def sample_weights(loss: str, weights: Node | Array, scores: Node, dims: Any) -> Node:
    """Return the weights of the losses, which have the axes `dims`; weights of the leading axes are repeated."""
    node = _weights(loss, "sample_weight", weights, scores)
    rule = f"{loss}: sample_weight must have the axes of the losses, {format_dims(dims)}, or their leading axes"
    check_axes(rule, node, dims[: node.ndim], {"scores": scores, "sample_weight": node})
    missing = len(dims) - node.ndim
    axes: Any = (*node.dims, *[1] * missing)
    return node.reshape(axes).broadcast_to(dims) if missing else node


def positive_weights(loss: str, weights: Node | Array | float, scores: Node) -> Node:
    """Return the weights of positive targets: one number, or one for each entry of the last axis of the scores."""
    node = _weights(loss, "pos_weight", weights, scores)
    if node.dims:
        rule = f"{loss}: pos_weight must be one number, or one for each entry of the last axis"
        check_axes(rule, node, scores.dims[-1:], {"scores": scores, "pos_weight": node})
    return node


def class_weights(loss: str, weights: Node | Array, scores: Node) -> Node:
    """Return the weights of the classes, one for each entry of the last axis of the scores."""
    node = _weights(loss, "weight", weights, scores)
    rule = f"{loss}: weight must have one number for each class, the last axis of the scores"
    check_axes(rule, node, scores.dims[-1:], {"scores": scores, "weight": node})
    return node


def _mean(total: Node, weights: Node) -> Node:
    """Return the sum of weighted losses divided by the sum of the weights, or 0 if all weights are 0."""
    count = weights.sum()
    return total.sum() / where(count.equal(0.0), 1.0, count)


def weighted(loss: str, losses: Node, reduction: Reduction, weights: Weights) -> Node:
    """Return the losses times their weights, their sum, or that sum divided by the sum of the weights."""
    if weights is None:
        return reduced(losses, reduction)
    factors = sample_weights(loss, weights, losses, losses.dims)
    total = losses * factors
    return _mean(total, factors) if reduction == "mean" else reduced(total, reduction)


class Labels(NamedTuple):
    """The labels of a loss, and the weights of its rows, which have the axes of the labels; None weighs 1.

    `indices` has class 0 in place of ignored labels, for which the mask `counted` is false. `of_classes` are weights of
    classes, `of_samples` those of rows, and `of_rows` the latter times the weight of each row's class.
    """

    indices: IndexNode
    counted: Node | None
    of_classes: Node | None
    of_samples: Node | None
    of_rows: Node | None
    reduction: Reduction

    @property
    def are_even(self) -> bool:
        """Whether every row counts the same."""
        return self.counted is None and self.of_rows is None

    def weighted(self, losses: Node, factors: Node | None) -> Node:
        """Return the losses of the rows times `factors`, and 0 for ignored labels."""
        if factors is not None:
            losses = losses * factors
        return losses if self.counted is None else where(self.counted, losses, 0.0)

    def reduced(self, total: Node) -> Node:
        """Return weighted losses, their sum, or their sum divided by the sum of the weights of rows."""
        if self.are_even or self.reduction != "mean":
            return reduced(total, self.reduction)
        weights = as_constant(1.0, total.dtype) if self.of_rows is None else self.of_rows
        return _mean(total, weights if self.counted is None else where(self.counted, weights, 0.0))


def labelled(
    loss: str, operands: Mapping[str, Any], weight: Weights, ignored: int | None, samples: Weights, reduction: Reduction
) -> tuple[Node, Labels]:
    """Return the scores and the labels of a loss; `operands` are both, the scores by their name in the loss."""
    (name, given), (_, labels) = operands.items()
    scores = as_node(loss, name, given)
    indices = labels_of(loss, name, scores, labels)
    of_classes = None if weight is None else class_weights(loss, weight, scores)
    of_samples = None if samples is None else sample_weights(loss, samples, scores, indices.dims)
    counted: Node | None = None
    if ignored is not None:
        counted = indices != ignored
        indices = CountedLabels(indices, scores.dims[-1], ignored)
    of_rows = of_samples
    if of_classes is not None:
        chosen: Node = Index(of_classes, indices)
        of_rows = chosen if of_samples is None else chosen * of_samples
    return scores, Labels(indices, counted, of_classes, of_samples, of_rows, reduction)
