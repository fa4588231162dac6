"""Regression losses."""

from __future__ import annotations

from typing import Literal, overload

from typing_extensions import TypeVarTuple

from wyrm.foreign_names import answering
from wyrm.losses.checks import check_reduction, reduced, same_axes
from wyrm.node.node import Node, Tensor
from wyrm.ops.softmax import Reduction
from wyrm.types.typing import Array

Axes = TypeVarTuple("Axes")


@overload
def mse(
    prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, *, reduction: Literal["mean", "sum"] = "mean"
) -> Tensor[()]: ...
@overload
def mse(prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, *, reduction: Literal["none"]) -> Tensor[*Axes]: ...
@answering
def mse(prediction: Node, target: Node | Array, *, reduction: Reduction = "mean") -> Node:
    """Return the squared error, `(prediction - target) ** 2`.

    `prediction` and `target`, a node or an array, have the same shape. `reduction="mean"` returns the mean over all
    elements, `"sum"` the sum, both scalars; `"none"` returns the errors, of the shape of the prediction.

    Raises:
        ShapeError: the shapes differ; nothing is broadcast, not even an axis of size 1.
        DTypeError: an operand is not float, or the dtypes differ.
        ValueError: `reduction` is unknown.

    >>> mse(wy.Constant([1.0, 2.0]), np.array([1.0, 4.0])).forward().item()
    2.0
    """
    check_reduction("mse", reduction)
    prediction, target = same_axes("mse", prediction=prediction, target=target)
    return reduced((prediction - target).square(), reduction)


@overload
def l1(
    prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, *, reduction: Literal["mean", "sum"] = "mean"
) -> Tensor[()]: ...
@overload
def l1(prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, *, reduction: Literal["none"]) -> Tensor[*Axes]: ...
@answering
def l1(prediction: Node, target: Node | Array, *, reduction: Reduction = "mean") -> Node:
    """Return the absolute error, `|prediction - target|`, with gradient 0 at 0.

    Shapes, reductions and errors are as in `mse`.

    >>> l1(wy.Constant([1.0, 2.0]), np.array([1.0, 4.0]), reduction="none").forward().tolist()
    [0.0, 2.0]
    """
    check_reduction("l1", reduction)
    prediction, target = same_axes("l1", prediction=prediction, target=target)
    return reduced((prediction - target).abs(), reduction)


@overload
def huber(
    prediction: Tensor[*Axes],
    target: Tensor[*Axes] | Array,
    *,
    delta: float = 1.0,
    reduction: Literal["mean", "sum"] = "mean",
) -> Tensor[()]: ...
@overload
def huber(
    prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, *, delta: float = 1.0, reduction: Literal["none"]
) -> Tensor[*Axes]: ...
@answering
def huber(prediction: Node, target: Node | Array, *, delta: float = 1.0, reduction: Reduction = "mean") -> Node:
    """Return the Huber loss: half the squared error up to `delta`, beyond it `delta * (|error| - delta / 2)`.

    Huber, "Robust estimation of a location parameter" (1964). `delta` is above 0. Shapes, reductions and other errors
    are as in `mse`.

    >>> huber(wy.Constant([0.5, 3.0]), np.zeros(2), reduction="none").forward().tolist()
    [0.125, 2.5]
    """
    check_reduction("huber", reduction)
    if not delta > 0.0:
        raise ValueError(f"huber: delta must be above 0, not {delta}")
    prediction, target = same_axes("huber", prediction=prediction, target=target)
    error = prediction - target
    # One formula for both parts: if the error is clipped to +-delta, the parabola and its tangent are the same product.
    bounded = error.clip(-delta, delta)
    return reduced(bounded * (error - 0.5 * bounded), reduction)
