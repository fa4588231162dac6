"""`@loss`, which makes a loss of its formula: what a caller gives is checked, the losses are weighted and reduced."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import wraps
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, get_overloads

from wyrm.graph.node import Node
from wyrm.losses.checks import Values, check_reduction, rows_of, same_axes, vectors_and_target
from wyrm.losses.weights import Weights, labelled, weighted
from wyrm.ops.cross_entropy.softmax import Reduction
from wyrm.support.foreign_names import answering

# What a loss takes.
Operands: TypeAlias = Literal["elements", "vectors", "vectors and a target of each", "labels"]
# Raises an error for a value of an option; called with the names of the loss and of the option.
Check: TypeAlias = Callable[[str, str, Any], None]


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
    operands: Operands = "elements", *, target: Values = "any", **checks: Check
) -> Callable[[Callable[..., Node]], Callable[..., Any]]:
    """Return a decorator that makes a loss of a formula; the overloads before the formula declare its signature.

    The formula gets the operands as nodes of the same axes and returns the losses, which are then weighted and reduced.
    Operands that are "vectors" have at least one axis, and a target of each vector has the leading axes. Of a last
    operand that is constant, the values are checked to be of the kind `target`. With "labels", the formula gets scores
    and `Labels`, and returns what `Labels.reduced` returns. `checks` are those of the options, by name.
    """

    def decorated(formula: Callable[..., Node]) -> Callable[..., Any]:
        name, signature = formula.__name__, _signature(formula, operands == "labels")
        known = signature.parameters
        places = [each for each in known if known[each].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]

        @wraps(formula)
        def call(*arguments: Any, sample_weight: Weights = None, reduction: Reduction = "mean", **options: Any) -> Node:
            weight, ignored = None, None
            if operands == "labels":
                weight, ignored = options.pop("weight", None), options.pop("ignore_index", None)
            given = dict(zip(places, arguments, strict=False))
            twice = not options.keys().isdisjoint(given)
            given |= {each: options[each] for each in places[len(arguments) :] if each in options}
            if twice or len(given) < len(places) or len(arguments) > len(places):
                return formula(*arguments, **options)  # which raises Python's error
            options = {each: value for each, value in options.items() if each not in given}
            for each in options:
                if each not in known:
                    raise TypeError(f"{name}() got an unexpected keyword argument {each!r}")
            check_reduction(name, reduction)
            for option, check in checks.items():
                if option in options:
                    check(name, option, options[option])
            if operands == "labels":
                return formula(*labelled(name, given, weight, ignored, sample_weight, reduction), **options)
            take = vectors_and_target if operands == "vectors and a target of each" else same_axes
            nodes = take(name, given, target)
            if operands == "vectors":
                rows_of(name, places[0], nodes[0])
            return weighted(name, formula(*nodes, **options), reduction, sample_weight)

        setattr(call, "__signature__", signature)  # noqa: B010  # functions declare no such attribute
        return answering(call)

    return decorated


def _signature(formula: Callable[..., Node], labels: bool) -> inspect.Signature:
    """Return the signature that callers see: that of the first overload without axes, and with all options."""
    declared = inspect.signature(get_overloads(formula)[0])
    parameters = [
        each.replace(annotation=_without_axes(each.annotation))
        for each in declared.parameters.values()
        if each.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    shared = [("weight", None, "Weights"), ("ignore_index", None, "int | None")] if labels else []
    for name, default, annotation in [*shared, ("sample_weight", None, "Weights"), ("reduction", "mean", "Reduction")]:
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=annotation))
    return declared.replace(parameters=parameters, return_annotation="Node")


def _without_axes(annotation: str) -> str:
    """Return `Node | Array` for `Tensor[*Axes] | Array`."""
    name, bracket, _ = annotation.partition("[")
    return (name + annotation.rpartition("]")[2] if bracket else name).replace("Tensor", "Node")
