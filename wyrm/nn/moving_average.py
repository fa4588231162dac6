"""The exponentially weighted moving average over sequences."""

from __future__ import annotations

from typing import Any, Generic, overload

import numpy as np
from numpy.typing import DTypeLike

from wyrm.errors import ShapeError
from wyrm.nn.axes import B, Features, M, T, sized_axis
from wyrm.nn.module import Module
from wyrm.node.base import describe
from wyrm.node.leaves import Parameter
from wyrm.node.node import Node, Tensor
from wyrm.ops.slicing import concatenate
from wyrm.types.dims import Dim, axis_size


class EWMA(Module, Generic[Features]):
    """An exponentially weighted moving average over time, for sequences of the axes (batch, time, features).

    The first average is the first row; each later one is `a * previous + (1 - a) * row` with `a = sigmoid(decay)`,
    learned for each feature. `decay` starts with zeros, an `a` of 0.5. It has the axis `features`, a `Dim` with a size,
    which mypy checks, or an integer, which it does not. `dtype` is float32 or float64.

    Raise `ShapeError` for an axis without a size or below 0, `DTypeError` for an axis or a dtype of another kind.

    >>> average = EWMA(1)
    >>> average(wy.Constant([[[8.0], [0.0], [4.0]]])).forward().ravel().tolist()
    [8.0, 4.0, 4.0]
    """

    decay: Parameter[tuple[Features]]

    @overload
    def __init__(self: EWMA, features: int, *, dtype: DTypeLike = np.float32) -> None: ...
    @overload
    def __init__(self: EWMA[M], features: M, *, dtype: DTypeLike = np.float32) -> None: ...
    def __init__(self, features: Dim | int, *, dtype: DTypeLike = np.float32) -> None:
        axis: Any = sized_axis("EWMA", "features", features)
        self.decay = Parameter(np.zeros(int(axis)), (axis,), name="decay", dtype=dtype)

    def __call__(self, x: Tensor[B, T, Features]) -> Tensor[B, T, Features]:
        """Return the average after each step, of the axes of `x`.

        Raise `ShapeError` where axes do not match or time has no size, `DTypeError` for another dtype.
        """
        if len(x.dims) != 3:
            raise ShapeError(f"EWMA takes the axes (batch, time, features), not {describe(x)}")
        time: Any = x.dims[1]
        steps = axis_size(time)
        if steps is None:
            raise ShapeError(f"EWMA needs a time axis with a size, as in Time(20), not {describe(x)}")
        # A row sums the last `reach` steps. Adding the decayed row `reach` steps earlier doubles the reach, so the
        # graph has O(log(time)) ops.
        weight: Node = self.decay.sigmoid()
        rows: Node = concatenate([x[:, :1], (1.0 - weight) * x[:, 1:]], axis=1)
        reach = 1
        while reach < steps:
            rows = concatenate([rows[:, :reach], rows[:, reach:] + weight * rows[:, :-reach]], axis=1)
            weight, reach = weight * weight, 2 * reach
        dims: Any = x.dims
        result: Tensor[B, T, Features] = rows.reshape(dims)
        return result

    def __repr__(self) -> str:
        return f"EWMA({self.decay.dims[0]!r})"
