"""What losses share: checks of operands, weights, reductions, and `@loss`, which makes a loss of its formula."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Literal, NamedTuple, NotRequired, TypeAlias, TypedDict, get_args, get_overloads

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Dims
from wyrm.graph.base import describe
from wyrm.graph.leaves import Constant, as_constant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.storage import stored
from wyrm.graph.typing import Array, IntegerArray
from wyrm.ops.cross_entropy.labels import (
    CountedLabels,
    as_node,
    check_axes,
    checked_weights,
    sample_weights,
    weighted_mean,
)
from wyrm.ops.cross_entropy.softmax import LossReduction
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.indexing.index import Index, as_indices
from wyrm.support.foreign_names import explain, keywords_of
from wyrm.support.options import choice

# What a loss takes.
Operands: TypeAlias = Literal["elements", "vectors", "vectors and a target of each", "labels"]
# Makes nodes of the operands: `take(loss, names, operands, values)`; see `same_axes`.
Take: TypeAlias = Callable[..., list[Node]]
# What the last operand holds.
Values: TypeAlias = Literal["any", "signs", "probabilities"]
# Raises an error for a wrong value: `check(loss, option, value)`, with the names of both.
Check: TypeAlias = Callable[[str, str, Any], None]
Weights: TypeAlias = Node | Array | None
_REDUCTIONS = get_args(LossReduction)

# --- operands --------------------------------------------------------------------------------------------------------


def check_values(loss: str, name: str, given: Node | Array, node: Node, values: Values) -> None:
    """Raise an error if a constant cannot have these values, or a mask is given for signs; inputs are not checked."""
    if values == "signs" and isinstance(given, Node | np.ndarray) and given.dtype.kind == "b":
        raise DTypeError(f"{loss}: {name} must be -1 or 1, not a mask; pass wy.where(mask, 1.0, -1.0)")
    if values == "any" or not isinstance(node, Constant):
        return
    array = np.asarray(stored(node).array)
    wrong = array[np.abs(array) != 1.0] if values == "signs" else array[~((array >= 0.0) & (array <= 1.0))]
    if wrong.size:
        allowed = "-1 or 1" if values == "signs" else "in [0, 1]"
        raise ValueError(f"{loss}: {name} must be {allowed}, but holds {wrong[0]}")


def same_axes(loss: str, names: Sequence[str], operands: Sequence[Any], values: Values = "any") -> list[Node]:
    """Return the operands as nodes of the same axes; the first is a node. Constant values of the last are checked."""
    first = as_node(loss, names[0], operands[0])
    nodes = [first]
    for name, operand in zip(names[1:], operands[1:], strict=True):
        nodes.append(as_node(loss, name, operand, first))
    for node in nodes:
        if node.dims != first.dims:
            rule = f"{loss}: {', '.join(names[:-1])} and {names[-1]} must have the same shape; nothing is broadcast"
            check_axes(rule, node, first.dims, dict(zip(names, nodes, strict=True)))
    check_values(loss, names[-1], operands[-1], nodes[-1], values)
    return nodes


def vectors_and_target(loss: str, names: Sequence[str], operands: Sequence[Any], values: Values) -> list[Node]:
    """Return vectors, as nodes of the same axes, and after them their target, which has the leading axes."""
    vectors = same_axes(loss, names[:-1], operands[:-1])
    rows = rows_of(loss, names[0], vectors[0])
    target = as_node(loss, names[-1], operands[-1], vectors[0])
    check_values(loss, names[-1], operands[-1], target, values)
    rule = f"{loss}: the {names[-1]} must have the leading axes of the vectors"
    nodes = [*vectors, target]
    check_axes(rule, target, rows, dict(zip(names, nodes, strict=True)))
    return nodes


def rows_of(loss: str, name: str, node: Node) -> Dims:
    """Return the leading axes of a node, all but the last, over which the loss is computed."""
    if not node.dims:
        raise ShapeError(f"{loss}: {name} needs at least one axis, and {describe(node)} is a scalar")
    rows: Dims = node.dims[:-1]
    return rows


def labels_of(loss: str, name: str, node: Node, labels: IndexNode | IntegerArray) -> IndexNode:
    """Return the labels as an index node with the leading axes of `node`."""
    rows = rows_of(loss, name, node)
    indices = as_indices(labels)
    rule = f"{loss}: the labels must have the leading axes of {name}"
    check_axes(rule, indices, rows, {name: node, "labels": indices})
    return indices


# --- weights and reductions ------------------------------------------------------------------------------------------


def check_reduction(loss: str, reduction: str) -> None:
    """Raise `ValueError` unless the reduction is one of the three."""
    choice(f"{loss}: reduction", reduction, _REDUCTIONS)


def reduced(losses: Node, reduction: LossReduction) -> Node:
    """Return the losses, their mean or their sum."""
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()


def positive_weights(loss: str, weights: Node | Array | float, scores: Node) -> Node:
    """Return the weights of positive targets: one number, or one for each entry of the last axis of the scores."""
    node = checked_weights(loss, "pos_weight", weights, scores)
    if node.dims:
        rule = f"{loss}: pos_weight must be one number, or one for each entry of the last axis"
        check_axes(rule, node, scores.dims[-1:], {"scores": scores, "pos_weight": node})
    return node


def class_weights(loss: str, weights: Node | Array, scores: Node) -> Node:
    """Return the weights of the classes, one for each entry of the last axis of the scores."""
    node = checked_weights(loss, "weight", weights, scores)
    rule = f"{loss}: weight must have one number for each class, the last axis of the scores"
    check_axes(rule, node, scores.dims[-1:], {"scores": scores, "weight": node})
    return node


def weighted(loss: str, losses: Node, reduction: LossReduction, weights: Weights) -> Node:
    """Return the losses times their weights, their sum, or that sum divided by the sum of the weights."""
    if weights is None:
        return reduced(losses, reduction)
    factors = sample_weights(loss, weights, losses, losses.dims)
    total = losses * factors
    return weighted_mean(total, factors) if reduction == "mean" else reduced(total, reduction)


# --- labels ----------------------------------------------------------------------------------------------------------


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
    reduction: LossReduction

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
        return weighted_mean(total, weights if self.counted is None else where(self.counted, weights, 0.0))


def scores_and_labels(
    loss: str,
    name: str,
    scores: Node,
    labels: IndexNode | IntegerArray,
    weight: Weights,
    ignored: int | None,
    samples: Weights,
    reduction: LossReduction,
) -> tuple[Node, Labels]:
    """Return the scores, which the loss calls `name`, and the labels with their weights."""
    scores = as_node(loss, name, scores)
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


# --- the decorator ---------------------------------------------------------------------------------------------------


class Total(TypedDict, total=False):
    """The options of every loss, for a call that returns one number."""

    sample_weight: Weights
    reduction: Literal["mean", "sum"]


class Each(TypedDict):
    """The options of every loss, for a call that returns the loss of each element or row."""

    sample_weight: NotRequired[Weights]
    reduction: Literal["none"]


class LabelOptions(TypedDict, total=False):
    """The further options of losses of labels."""

    weight: Weights
    ignore_index: int | None


class TotalOfLabels(LabelOptions, Total):
    """The options of a loss of labels, for a call that returns one number."""


class EachOfLabels(LabelOptions, Each):
    """The options of a loss of labels, for a call that returns the loss of each row."""


def within(low: float, high: float = math.inf, *, none: bool = False) -> Check:
    """Return a check that raises `ValueError` unless `low <= value <= high`; with `none`, None is allowed too."""

    def check(name: str, option: str, value: Any) -> None:
        if not (none and value is None) and not low <= value <= high:
            bounds = f"at least {low:g}" if high == math.inf else f"in [{low:g}, {high:g}]"
            raise ValueError(f"{name}: {option} must be {bounds}, not {value}")

    return check


def above_zero(name: str, option: str, value: Any) -> None:
    """Raise `ValueError` unless a value is above 0."""
    if not value > 0.0:
        raise ValueError(f"{name}: {option} must be above 0, not {value}")


def finite_above_zero(name: str, option: str, value: Any) -> None:
    """Raise `ValueError` unless a value is above 0 and finite."""
    if not 0.0 < value < math.inf:
        raise ValueError(f"{name}: {option} must be finite and above 0, not {value}")


def loss(
    operands: Operands | Take = "elements", *, target: Values = "any", **checks: Check
) -> Callable[[Callable[..., Node]], Callable[..., Any]]:
    """Return a decorator that makes a loss of a formula; the overloads before the formula declare its signature.

    The formula gets the operands as nodes of the same axes and returns the losses, which are then weighted and reduced.
    Operands that are "vectors" have at least one axis, and a target of each vector has the leading axes. A constant
    last operand may hold only values of the kind `target`. With "labels", the formula gets scores and `Labels`, and
    returns what `Labels.reduced` returns. `operands` may be a function that makes the nodes. `checks` are those of the
    options, by name.
    """

    def decorated(formula: Callable[..., Node]) -> Callable[..., Any]:
        of_labels, of_vectors = operands == "labels", operands == "vectors"
        name, parameters = formula.__name__, inspect.signature(formula).parameters.values()
        places = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
        known = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
        take: Take = vectors_and_target if operands == "vectors and a target of each" else same_axes
        if callable(operands):
            take = operands

        @wraps(formula)
        def call(
            *arguments: Any, sample_weight: Weights = None, reduction: LossReduction = "mean", **options: Any
        ) -> Node:
            weight, ignored = None, None
            if of_labels:
                weight, ignored = options.pop("weight", None), options.pop("ignore_index", None)
            if len(arguments) != len(places) or not options.keys() <= known:
                given = {each: options.pop(each) for each in places[len(arguments) :] if each in options}
                if len(arguments) + len(given) != len(places) or not options.keys() <= known:
                    try:
                        return formula(*arguments, **given, **options)  # which raises Python's error
                    except TypeError as error:
                        explain(error, name, options, keywords_of(call))
                        raise
                arguments = (*arguments, *given.values())
            check_reduction(name, reduction)
            for option, check in checks.items():
                if option in options:
                    check(name, option, options[option])
            if of_labels:
                scores, labels = arguments
                checked = scores_and_labels(name, places[0], scores, labels, weight, ignored, sample_weight, reduction)
                return formula(*checked, **options)
            nodes = take(name, places, arguments, target)
            if of_vectors:
                rows_of(name, places[0], nodes[0])
            return weighted(name, formula(*nodes, **options), reduction, sample_weight)

        # mypy knows no such attribute of functions.
        setattr(call, "__signature__", _shown_signature(formula, of_labels))  # noqa: B010
        return call

    return decorated


def _shown_signature(formula: Callable[..., Node], labels: bool) -> inspect.Signature:
    """Return the signature that callers see: that of the first overload without axes, and with all options."""
    declared = inspect.signature(get_overloads(formula)[0])
    parameters = [
        each.replace(annotation=_without_axes(each.annotation))
        for each in declared.parameters.values()
        if each.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    shared: list[tuple[str, Any, Any]] = (
        [("weight", None, Weights), ("ignore_index", None, "int | None")] if labels else []
    )
    for name, default, annotation in [*shared, ("sample_weight", None, Weights), ("reduction", "mean", LossReduction)]:
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=annotation))
    return declared.replace(parameters=parameters, return_annotation="Node")


def _without_axes(annotation: str) -> str:
    """Return an annotation for readers: `Node | Array` for `Tensor[*Axes] | Array`."""
    name, bracket, _ = annotation.partition("[")
    return (name + annotation.rpartition("]")[2] if bracket else name).replace("Tensor", "Node")
