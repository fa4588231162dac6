"""The linear layer."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size, known_size
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.node import Tensor
from wyrm.graph.parameters import Parameter
from wyrm.graph.typing import DTypeLike, Unnamed
from wyrm.nn.axes import Bs, In, M, N, Out, refuse_named_elsewhere, sized_axes
from wyrm.nn.initializers import Initializer, XavierUniform, Zeros, first_values
from wyrm.nn.layer import Layer
from wyrm.nn.seeding import generator

_WEIGHT, _BIAS = XavierUniform(), Zeros()


def _check_input(in_features: Axis, x: BaseNode) -> None:
    """Raise `ShapeError` if the features are on another axis than the last, or on several, which `flatten` joins."""
    dims: Dims = x.dims
    of_image = "; use x.mean(axis=(-2, -1)) or x.flatten(1)" if len(dims) == 4 else ""
    refuse_named_elsewhere("Linear", "in_features", in_features, x, advice=of_image)
    if len(dims) > 2 and axis_size(dims[-1]) != axis_size(in_features) == known_size(dims[1:]):
        raise ShapeError(
            f"Linear: in_features, {in_features!r}, are all elements of a row of {describe(x)}: use x.flatten(1)"
        )


class Linear(Layer[In, Out]):
    """`x @ weight + bias`, which maps the last axis of `x` from `in_features` to `out_features`.

    `weight` has the axes (in_features, out_features), `bias` the axis (out_features,); it is None with `bias=False`. An
    axis is a `Dim` with a size, which mypy checks, or an integer, which it does not. `initializer` draws the weight and
    `bias_initializer` the bias, from `seed`, or without one from the script's next seed (see `wyrm.nn.seed`). `dtype`
    is float32 or float64.

    Unlike in PyTorch, the weight starts by Glorot's rule (`XavierUniform`) and the bias with zeros. PyTorch draws both
    uniformly within `1 / sqrt(in_features)` of 0, as the second example does.

    Raise `ShapeError` for an axis without a size or below 1, `DTypeError` for an axis or a dtype of another kind.

    >>> layer = Linear(3, 2)
    >>> layer(wy.Input(dims=(5, 4, 3))).shape
    (5, 4, 2)
    >>> start = wy.nn.initializers.Uniform(-(3**-0.5), 3**-0.5)
    >>> layer = Linear(3, 2, initializer=start, bias_initializer=start)
    """

    summed_axis: ClassVar[Literal[0, 1]] = 0  # that of `x @ weight`
    weight: Parameter[tuple[In, Out]]
    bias: Parameter[tuple[Out]] | None

    def __init__(
        self: Linear[M, N],
        in_features: M | Unnamed[M],
        out_features: N | Unnamed[N],
        *,
        bias: bool = True,
        initializer: Initializer = _WEIGHT,
        bias_initializer: Initializer = _BIAS,
        seed: int | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        axes = sized_axes("Linear", in_features=in_features, out_features=out_features)
        sizes = int(axes[0]), int(axes[1])
        random = generator(seed)
        drawn = first_values("Linear", "initializer", initializer, sizes, random, dtype)
        self.weight = Parameter(drawn, axes, name="weight", dtype=dtype)
        self.bias = None
        if bias:
            drawn = first_values("Linear", "bias_initializer", bias_initializer, sizes[1:], random, dtype)
            self.bias = Parameter(drawn, axes[1:], name="bias", dtype=dtype)

    def __call__(self, x: Tensor[*Bs, In]) -> Tensor[*Bs, Out]:
        """Return `x @ weight + bias`: the leading axes of `x`, then `out_features`.

        Raise `ShapeError` where the last axis of `x` is not `in_features`, `DTypeError` for another dtype.
        """
        if isinstance(x, BaseNode):  # an array has no names
            _check_input(self.weight.dims[0], x)
        result: Tensor[*Bs, Out] = x @ self.weight
        return result if self.bias is None else result + self.bias

    def __repr__(self) -> str:
        in_features, out_features = self.weight.dims
        return f"Linear({in_features!r}, {out_features!r}{', bias=False' if self.bias is None else ''})"
