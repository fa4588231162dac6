"""Dropout layers: of elements, and of channels."""

from __future__ import annotations

from typing import Any

from wyrm.errors import ShapeError
from wyrm.graph.base import describe
from wyrm.graph.leaves import as_constant
from wyrm.graph.modes import record_evaluation_mode, record_training_mode
from wyrm.graph.node import Node, Tensor
from wyrm.nn.axes import Axes
from wyrm.nn.layer import Pointwise
from wyrm.support.options import integer, number


class _Dropout(Pointwise):
    """Base class of the layers: their options."""

    def __init__(self, rate: float, seed: int = 0) -> None:
        name = type(self).__name__
        self.rate: float = number(f"{name}: rate", rate, 0.0, 1.0)
        self.seed: int = integer(f"{name}: seed", seed)

    def _drops(self) -> bool:
        """Return whether the layer drops anything now: its graph differs between training and evaluation."""
        if not self.training and self.rate > 0.0:
            record_evaluation_mode(self)
        return self.training and self.rate > 0.0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.rate}{f', seed={self.seed}' if self.seed else ''})"


class Dropout(_Dropout):
    """Inverted dropout: while `training`, sets elements to zero with probability `rate`, divides others by `1 - rate`.

    `rate` is in [0, 1). A graph built after `eval()`, or with a rate of 0, has no dropout. The mask depends on
    `seed`, the step (see `wyrm.random.set_step`) and the position in the graph: two calls of one module draw different
    masks. Srivastava et al., "Dropout" (2014).

    Raise `ValueError` for a rate out of range, `DTypeError` for a rate that is no number or a seed that is no integer.

    >>> wy.random.set_step(0)
    >>> dropout, ones = Dropout(0.5), wy.Constant(np.ones(100))
    >>> sorted(set(dropout(ones).forward().tolist()))
    [0.0, 2.0]
    >>> dropout.eval()(ones) is ones
    True
    """

    def __call__(self, x: Tensor[*Axes]) -> Tensor[*Axes]:
        """Return `x` with dropout while `training`, else `x` itself."""
        if self._drops():
            return record_training_mode(x.dropout(self.rate, self.seed), self)
        return x

    def add(self, residual: Tensor[*Axes], x: Tensor[*Axes]) -> Tensor[*Axes]:
        """Return `residual + dropout(x)` as one node; both have the same axes."""
        if self._drops():
            return record_training_mode(residual.add_dropout(x, self.rate, self.seed), self)
        total: Tensor[*Axes] = residual + x
        return total


class _ChannelDropout(_Dropout):
    """Base class of the layers that drop whole channels; `rank` is their number of spatial axes."""

    rank: int

    def __call__(self, x: Tensor[*Axes]) -> Tensor[*Axes]:
        """Return `x`, (batch, channels, *sizes), with dropout of channels while `training`, else `x` itself.

        Raise `ShapeError` for another number of axes.
        """
        node: Node = x
        if len(node.dims) != self.rank + 2:
            raise ShapeError(
                f"{type(self).__name__} takes the axes (batch, channels, *sizes), {self.rank + 2} of them, not "
                f"{describe(node)}"
            )
        if not self._drops():
            return x
        channels: Any = node.dims[:2]
        factors = as_constant(1.0, node.dtype).broadcast_to(channels).dropout(self.rate, self.seed)
        spread: Any = (*channels, *[1] * self.rank)
        dropped: Tensor[*Axes] = node * factors.reshape(spread)
        return record_training_mode(dropped, self)


class Dropout1d(_ChannelDropout):
    """Dropout of whole channels of (batch, channels, width); see `Dropout2d`.

    >>> Dropout1d(0.5)(wy.Input(dims=(2, 3, 4))).shape
    (2, 3, 4)
    """

    rank = 1


class Dropout2d(_ChannelDropout):
    """Spatial dropout: sets whole channels of (batch, channels, height, width) to zero with probability `rate`.

    Other channels are divided by `1 - rate`. See `Dropout` for `rate`, `seed` and errors. Tompson et al., "Efficient
    object localization using convolutional networks" (2015).

    >>> wy.random.set_step(0)
    >>> dropped = Dropout2d(0.5)(wy.Constant(np.ones((4, 8, 2, 2)))).forward()
    >>> sorted(set(dropped.sum(axis=(2, 3)).ravel().tolist()))
    [0.0, 8.0]
    """

    rank = 2


class Dropout3d(_ChannelDropout):
    """Dropout of whole channels of (batch, channels, depth, height, width); see `Dropout2d`.

    >>> Dropout3d(0.5)(wy.Input(dims=(2, 3, 4, 5, 6))).shape
    (2, 3, 4, 5, 6)
    """

    rank = 3
