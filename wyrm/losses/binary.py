"""Losses for answers of yes or no."""

from __future__ import annotations

import math
from typing import Literal, overload

from typing_extensions import TypeVarTuple

from wyrm.losses.checks import check_range, check_reduction, reduced, same_axes
from wyrm.node.node import Node, Tensor
from wyrm.ops.comparison import where
from wyrm.ops.exponential import LimitedLog
from wyrm.ops.softmax import Reduction
from wyrm.types.typing import Array

Axes = TypeVarTuple("Axes")


@overload
def bce(
    probability: Tensor[*Axes], target: Tensor[*Axes] | Array, *, reduction: Literal["mean", "sum"] = "mean"
) -> Tensor[()]: ...
@overload
def bce(probability: Tensor[*Axes], target: Tensor[*Axes] | Array, *, reduction: Literal["none"]) -> Tensor[*Axes]: ...
def bce(probability: Node, target: Node | Array, *, reduction: Reduction = "mean") -> Node:
    """Binary cross-entropy of probabilities, `-(t * log(p) + (1 - t) * log(1 - p))`.

    `probability` lies between 0 and 1, as does `target`, a node or an array of the same shape; a mask counts as 0 and
    1. As in PyTorch, logarithms go no lower than -100 and the derivatives of them no higher than 1e12, so that loss and
    gradient are finite where a probability is 0 or 1. A number outside that range counts as the nearest probability,
    with a gradient of 0. Where the probability is a sigmoid, `bce_with_logits` is exact. Reductions are those of `mse`.

    Raises:
        ShapeError: the shapes differ.
        DTypeError: an operand holds no numbers, or the two float types differ.
        ValueError: `reduction` is none of the three, or an array of targets is not between 0 and 1.

    >>> bce(wy.Constant([0.5, 1.0]), np.array([1.0, 1.0]), reduction="none").forward().round(3).tolist()
    [0.6930000185966492, 0.0]
    """
    check_reduction("bce", reduction)
    probability, target = same_axes("bce", "probabilities", probability=probability, target=target)
    inside = probability.clip(0.0, 1.0)
    if_yes: Node = -LimitedLog(inside)
    # log1p keeps the digits of a small probability; of a large one the subtraction is exact.
    if_no = -where(inside < 0.5, (-inside.minimum(0.5)).log1p(), LimitedLog(1.0 - inside))
    return reduced(target * if_yes + (1.0 - target) * if_no, reduction)


@overload
def bce_with_logits(
    logits: Tensor[*Axes], target: Tensor[*Axes] | Array, *, reduction: Literal["mean", "sum"] = "mean"
) -> Tensor[()]: ...
@overload
def bce_with_logits(
    logits: Tensor[*Axes], target: Tensor[*Axes] | Array, *, reduction: Literal["none"]
) -> Tensor[*Axes]: ...
def bce_with_logits(logits: Node, target: Node | Array, *, reduction: Reduction = "mean") -> Node:
    """Binary cross-entropy of `sigmoid(logits)`, `log(1 + e ** x) - t * x`, finite for all finite logits.

    `target`, a node or an array of the same shape, lies between 0 and 1; a mask counts as 0 and 1. Reductions and
    errors are those of `bce`.

    >>> bce_with_logits(wy.Constant([1e4, -1e4]), np.array([1.0, 1.0]), reduction="none").forward().tolist()
    [0.0, 10000.0]
    """
    check_reduction("bce_with_logits", reduction)
    logits, target = same_axes("bce_with_logits", "probabilities", logits=logits, target=target)
    return reduced(logits.softplus() - logits * target, reduction)


@overload
def focal(
    logits: Tensor[*Axes],
    target: Tensor[*Axes] | Array,
    *,
    gamma: float = 2.0,
    alpha: float | None = 0.25,
    reduction: Literal["mean", "sum"] = "mean",
) -> Tensor[()]: ...
@overload
def focal(
    logits: Tensor[*Axes],
    target: Tensor[*Axes] | Array,
    *,
    gamma: float = 2.0,
    alpha: float | None = 0.25,
    reduction: Literal["none"],
) -> Tensor[*Axes]: ...
def focal(
    logits: Node, target: Node | Array, *, gamma: float = 2.0, alpha: float | None = 0.25, reduction: Reduction = "mean"
) -> Node:
    """Binary cross-entropy with easy examples scaled down: `-a * (1 - q) ** gamma * log(q)`.

    `q` is the probability given to the right answer: `sigmoid(logits)` where `target` is 1, the rest where it is 0; for
    a target between, the loss is the mean weighted by it. `a` is `alpha` for the answer 1 and `1 - alpha` for 0, and 1
    for both if `alpha` is None. Lin et al., "Focal loss for dense object detection" (2017), formula 5. `gamma` is at
    least 0, and with 0 the loss is `bce_with_logits`, weighted; `alpha` goes from 0 to 1. Shapes, reductions and
    other errors are those of `bce`.

    >>> focal(wy.Constant([0.0]), np.array([1.0]), gamma=1.0, alpha=None).forward().round(4).item()
    0.3465999960899353
    """
    check_reduction("focal", reduction)
    check_range("focal", "gamma", gamma, 0.0, math.inf)
    if alpha is not None:
        check_range("focal", "alpha", alpha, 0.0, 1.0)
    logits, target = same_axes("focal", "probabilities", logits=logits, target=target)
    # -log(q) for either answer; as 1 - q is the q of the other answer, its power is an exponential that stays below 1.
    if_yes, if_no = (-logits).softplus(), logits.softplus()
    yes, no = (if_no * -gamma).exp() * if_yes, (if_yes * -gamma).exp() * if_no
    if alpha is not None:
        yes, no = yes * alpha, no * (1.0 - alpha)
    return reduced(target * yes + (1.0 - target) * no, reduction)


@overload
def hinge(
    prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, *, reduction: Literal["mean", "sum"] = "mean"
) -> Tensor[()]: ...
@overload
def hinge(prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, *, reduction: Literal["none"]) -> Tensor[*Axes]: ...
def hinge(prediction: Node, target: Node | Array, *, reduction: Reduction = "mean") -> Node:
    """The hinge loss of a support vector machine, `max(0, 1 - target * prediction)`.

    `target`, a node or an array of the shape of the prediction, is -1 or 1. Cortes and Vapnik, "Support-vector
    networks" (1995). Reductions are those of `mse`.

    Raises:
        ShapeError: the shapes differ.
        DTypeError: an operand holds no floats, or the two float types differ.
        ValueError: `reduction` is none of the three, or an array of targets has another number than -1 and 1.

    >>> hinge(wy.Constant([0.5, 2.0, 2.0]), np.array([1, 1, -1]), reduction="none").forward().tolist()
    [0.5, 0.0, 3.0]
    """
    check_reduction("hinge", reduction)
    prediction, target = same_axes("hinge", "signs", prediction=prediction, target=target)
    return reduced((1.0 - target * prediction).relu(), reduction)


@overload
def squared_hinge(
    prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, *, reduction: Literal["mean", "sum"] = "mean"
) -> Tensor[()]: ...
@overload
def squared_hinge(
    prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, *, reduction: Literal["none"]
) -> Tensor[*Axes]: ...
def squared_hinge(prediction: Node, target: Node | Array, *, reduction: Reduction = "mean") -> Node:
    """The square of the hinge loss, `max(0, 1 - target * prediction) ** 2`, which has no kink.

    Shapes, reductions and errors are those of `hinge`.

    >>> squared_hinge(wy.Constant([0.5, 2.0, 2.0]), np.array([1, 1, -1]), reduction="none").forward().tolist()
    [0.25, 0.0, 9.0]
    """
    check_reduction("squared_hinge", reduction)
    prediction, target = same_axes("squared_hinge", "signs", prediction=prediction, target=target)
    return reduced((1.0 - target * prediction).relu().square(), reduction)
