"""Exponentially weighted moving averages: a function, and a layer that learns the weights."""

from __future__ import annotations

from typing import Any, Generic

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import normalize_axis
from wyrm.graph.base import describe
from wyrm.graph.leaves import as_constant
from wyrm.graph.node import Node, Tensor
from wyrm.graph.parameters import Parameter
from wyrm.graph.typing import DTypeLike, Unnamed
from wyrm.module import Module
from wyrm.nn.axes import B, Features, M, T, sized_axis
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import S
from wyrm.ops.reducing.cumulative import Recurrence, Shift
from wyrm.ops.shaping.shape import zeros_like


def ewma(x: Node[Any, S], alpha: Tensor[()] | float, axis: int = 0, adjust: bool = True) -> Node[Any, S]:
    """Return the exponentially weighted moving averages of `x` along `axis`, as `ewm(alpha=alpha).mean()` of pandas.

    Average t is the mean of the elements up to t, in which the element i steps back weighs `(1 - alpha) ** i`. Without
    `adjust` the first average is the first element, and each later one `(1 - alpha) * previous + alpha * element`.
    `alpha`, a number or a scalar node, is above 0 and at most 1. A NaN stays in all later averages.

    Raise `ValueError` for a number `alpha` out of range, `ShapeError` for an axis that does not exist.

    >>> ewma(wy.Constant([8.0, 0.0, 4.0]), 0.5, adjust=False).forward().tolist()
    [8.0, 4.0, 4.0]
    """
    node: Any = x
    position = normalize_axis(axis, node.ndim)
    if isinstance(alpha, Node):
        keep: Node = 1.0 - alpha
    elif 0.0 < alpha <= 1.0:
        keep = as_constant(1.0 - alpha, node.dtype)
    else:
        raise ValueError(f"ewma: alpha must be above 0 and at most 1, not {alpha}")
    if not adjust:
        plain: Node[Any, S] = _average(node, keep, position)
        return plain
    dims: Any = tuple(axis if i == position else 1 for i, axis in enumerate(node.dims))
    ones = as_constant(1.0, node.dtype).broadcast_to(dims)
    total: Node = Recurrence(keep.broadcast_to(node.dims), node, axis=position)
    weight: Node = Recurrence(keep.broadcast_to(dims), ones, axis=position)
    return total / weight


def _average(x: Any, keep: Node, axis: int) -> Any:
    """Return the averages along `axis`: the first element, then `keep * previous + (1 - keep) * element`."""
    is_first: Node = Shift(zeros_like(x), axis=axis, reverse=False, fill=1.0)
    return Recurrence(keep.broadcast_to(x.dims), where(is_first > 0.0, x, (1.0 - keep) * x), axis=axis)


class EWMA(Module, Generic[Features]):
    """An exponentially weighted moving average over time, for sequences of the axes (batch, time, features).

    The first average is the first row; each later one is `a * previous + (1 - a) * row` with `a = sigmoid(decay)`,
    learned for each feature. `decay` starts with zeros, an `a` of 0.5. It has the axis `features`, a `Dim` with a size,
    which mypy checks, or an integer, which it does not. `dtype` is float32 or float64.

    Raise `ShapeError` for an axis without a size or below 1, `DTypeError` for an axis or a dtype of another kind.

    >>> average = EWMA(1)
    >>> average(wy.Constant([[[8.0], [0.0], [4.0]]])).forward().ravel().tolist()
    [8.0, 4.0, 4.0]
    """

    decay: Parameter[tuple[Features]]

    def __init__(self: EWMA[M], features: M | Unnamed[M], *, dtype: DTypeLike = np.float32) -> None:
        axis: Any = sized_axis("EWMA", "features", features)
        self.decay = Parameter(np.zeros(int(axis)), (axis,), name="decay", dtype=dtype)

    def __call__(self, x: Tensor[B, T, Features]) -> Tensor[B, T, Features]:
        """Return the average after each step, of the axes of `x`.

        Raise `ShapeError` where axes do not match, `DTypeError` for another dtype.
        """
        if len(x.dims) != 3:
            raise ShapeError(f"EWMA takes the axes (batch, time, features), not {describe(x)}")
        result: Tensor[B, T, Features] = _average(x, self.decay.sigmoid(), 1)
        return result

    def __repr__(self) -> str:
        return f"EWMA({self.decay.dims[0]!r})"
