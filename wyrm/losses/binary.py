"""Binary classification losses."""

from __future__ import annotations

from typing import Unpack, overload

from typing_extensions import TypeVarTuple

from wyrm.graph.node import Node, Tensor
from wyrm.graph.typing import Array
from wyrm.losses.loss import Each, Total, Weights, loss, positive_weights, within
from wyrm.ops.cross_entropy.labels import warn_of_probabilities
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.exponential import LimitedLog

Axes = TypeVarTuple("Axes")


@overload
def bce(probability: Tensor[*Axes], target: Tensor[*Axes] | Array, **options: Unpack[Total]) -> Tensor[()]: ...
@overload
def bce(probability: Tensor[*Axes], target: Tensor[*Axes] | Array, **options: Unpack[Each]) -> Tensor[*Axes]: ...
@loss(target="probabilities")
def bce(probability: Node, target: Node) -> Node:
    """Return the binary cross-entropy of probabilities, `-(t * log(p) + (1 - t) * log(1 - p))`.

    `probability` and `target`, a node or an array of the same shape, lie between 0 and 1; a mask counts as 0 and 1. As
    in PyTorch, logarithms are at least -100 and their derivatives at most 1e12, so that loss and gradient are finite
    for probabilities of 0 and 1. Values outside the range count as the nearest probability, with gradient 0. For
    sigmoids, prefer `bce_with_logits`, which is exact. `sample_weight` and reductions are as in `mse`.

    Raises:
        ShapeError: the shapes differ.
        DTypeError: an operand is not numeric, or the float dtypes differ.
        ValueError: `reduction` is unknown, or an array of targets has values outside 0 to 1.

    >>> bce(wy.Constant([0.5, 1.0]), np.array([1.0, 1.0]), reduction="none").forward().round(3).tolist()
    [0.693, 0.0]
    """
    inside = probability.clip(0.0, 1.0)
    if_yes: Node = -LimitedLog(inside)
    # log1p keeps the digits of a small probability; for a large one the subtraction is exact.
    if_no = -where(inside < 0.5, (-inside.minimum(0.5)).log1p(), LimitedLog(1.0 - inside))
    return target * if_yes + (1.0 - target) * if_no


@overload
def bce_with_logits(
    logits: Tensor[*Axes],
    target: Tensor[*Axes] | Array,
    *,
    pos_weight: float | Weights = None,
    **options: Unpack[Total],
) -> Tensor[()]: ...
@overload
def bce_with_logits(
    logits: Tensor[*Axes], target: Tensor[*Axes] | Array, *, pos_weight: float | Weights = None, **options: Unpack[Each]
) -> Tensor[*Axes]: ...
@loss(target="probabilities")
def bce_with_logits(logits: Node, target: Node, *, pos_weight: float | Weights = None) -> Node:
    """Return the binary cross-entropy of `sigmoid(logits)`, `log(1 + e ** x) - t * x`, finite for all finite logits.

    `target`, a node or an array of the same shape, lies between 0 and 1; a mask counts as 0 and 1. `pos_weight`, one
    number or one for each entry of the last axis, multiplies the loss of target 1, against an imbalance of the classes;
    as in PyTorch, the mean does not divide by it. Other weights, reductions and errors are as in `bce`.

    >>> bce_with_logits(wy.Constant([1e4, -1e4]), np.array([1.0, 1.0]), reduction="none").forward().tolist()
    [0.0, 10000.0]
    """
    warn_of_probabilities("bce_with_logits", logits, "sigmoid", "logits, to which it applies sigmoid itself")
    if pos_weight is None:
        losses: Node = logits.softplus() - logits * target
    else:
        positive = positive_weights("bce_with_logits", pos_weight, logits)
        losses = (1.0 - target) * logits.softplus() + positive * target * (-logits).softplus()
    return losses


@overload
def focal(
    logits: Tensor[*Axes],
    target: Tensor[*Axes] | Array,
    *,
    gamma: float = 2.0,
    alpha: float | None = 0.25,
    **options: Unpack[Total],
) -> Tensor[()]: ...
@overload
def focal(
    logits: Tensor[*Axes],
    target: Tensor[*Axes] | Array,
    *,
    gamma: float = 2.0,
    alpha: float | None = 0.25,
    **options: Unpack[Each],
) -> Tensor[*Axes]: ...
@loss(target="probabilities", gamma=within(0.0), alpha=within(0.0, 1.0, none=True))
def focal(logits: Node, target: Node, *, gamma: float = 2.0, alpha: float | None = 0.25) -> Node:
    """Return the binary focal loss, `-a * (1 - q) ** gamma * log(q)`, in which easy examples weigh less.

    `q` is the probability of the right answer: `sigmoid(logits)` for target 1, `1 - sigmoid(logits)` for target 0; for
    a target in between, the loss is the average of both, weighted by the target. `a` is `alpha` for target 1 and
    `1 - alpha` for target 0, or 1 for both if `alpha` is None. Lin et al., "Focal loss for dense object detection"
    (2017), formula 5. `gamma` is at least 0; with 0 the loss is a weighted `bce_with_logits`. `alpha` lies between 0
    and 1. Shapes, weights, reductions and other errors are as in `bce`.

    >>> focal(wy.Constant([0.0]), np.array([1.0]), gamma=1.0, alpha=None).forward().round(4).item()
    0.3466
    """
    warn_of_probabilities("focal", logits, "sigmoid", "logits, to which it applies sigmoid itself")
    # -log(q) if the target is 1, and if it is 0. The q of one is 1 minus that of the other, so (1 - q) ** gamma is
    # exp(-gamma * -log(q of the other)), which stays below 1.
    if_yes, if_no = (-logits).softplus(), logits.softplus()
    yes, no = (if_no * -gamma).exp() * if_yes, (if_yes * -gamma).exp() * if_no
    if alpha is not None:
        yes, no = yes * alpha, no * (1.0 - alpha)
    return target * yes + (1.0 - target) * no


@overload
def hinge(prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, **options: Unpack[Total]) -> Tensor[()]: ...
@overload
def hinge(prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, **options: Unpack[Each]) -> Tensor[*Axes]: ...
@loss(target="signs")
def hinge(prediction: Node, target: Node) -> Node:
    """Return the hinge loss of a support vector machine, `max(0, 1 - target * prediction)`.

    `target`, a node or an array of the shape of the prediction, is -1 or 1. Cortes and Vapnik, "Support-vector
    networks" (1995). `sample_weight` and reductions are as in `mse`.

    Raises:
        ShapeError: the shapes differ.
        DTypeError: an operand is not float, or the dtypes differ.
        ValueError: `reduction` is unknown, or an array of targets has values other than -1 and 1.

    >>> hinge(wy.Constant([0.5, 2.0, 2.0]), np.array([1, 1, -1]), reduction="none").forward().tolist()
    [0.5, 0.0, 3.0]
    """
    return (1.0 - target * prediction).relu()


@overload
def squared_hinge(prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, **options: Unpack[Total]) -> Tensor[()]: ...
@overload
def squared_hinge(
    prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, **options: Unpack[Each]
) -> Tensor[*Axes]: ...
@loss(target="signs")
def squared_hinge(prediction: Node, target: Node) -> Node:
    """Return the square of the hinge loss, `max(0, 1 - target * prediction) ** 2`, which is differentiable everywhere.

    Shapes, weights, reductions and errors are as in `hinge`.

    >>> squared_hinge(wy.Constant([0.5, 2.0, 2.0]), np.array([1, 1, -1]), reduction="none").forward().tolist()
    [0.25, 0.0, 9.0]
    """
    return (1.0 - target * prediction).relu().square()
