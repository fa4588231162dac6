"""The linear layer."""

from __future__ import annotations

from typing import Any, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import DTypeLike

from wyrm.nn.axes import Bs, In, M, N, Out, sized_axis
from wyrm.nn.initializers import Initializer, XavierUniform, Zeros
from wyrm.nn.layer import Layer
from wyrm.nn.seeding import generator
from wyrm.node.leaves import Parameter
from wyrm.node.node import Tensor
from wyrm.types.dims import Dim

_WEIGHT, _BIAS = XavierUniform(), Zeros()


class _Options(TypedDict, total=False):
    bias: bool
    initializer: Initializer
    bias_initializer: Initializer
    seed: int | None
    dtype: DTypeLike


class Linear(Layer[In, Out]):
    """`x @ weight + bias`: the last axis of `x`, of size `inputs`, becomes one of size `outputs`; leading axes stay.

    `weight` has the axes (inputs, outputs), `bias` the axis (outputs,); it is None where `bias=False`. An axis is a
    `Dim` with a size, which mypy then checks, or a number, which it does not. The weight is drawn by `initializer`
    from `seed`, or without one from the next seed of the script (see `wyrm.nn.seed`), the bias by `bias_initializer`.
    `dtype` is float32 or float64.

    Raises `ShapeError` for an axis without a size or below 0, `DTypeError` for what is no axis or no such dtype.

    >>> layer = Linear(3, 2)
    >>> layer(wy.Input(dims=(5, 4, 3))).shape
    (5, 4, 2)
    """

    weight: Parameter[tuple[In, Out]]
    bias: Parameter[tuple[Out]] | None

    @overload
    def __init__(self: Linear, inputs: int, outputs: int, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: Linear[Any, N], inputs: int, outputs: N, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: Linear[M, Any], inputs: M, outputs: int, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: Linear[M, N], inputs: M, outputs: N, **options: Unpack[_Options]) -> None: ...
    def __init__(
        self,
        inputs: Dim | int,
        outputs: Dim | int,
        *,
        bias: bool = True,
        initializer: Initializer = _WEIGHT,
        bias_initializer: Initializer = _BIAS,
        seed: int | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        axes: Any = sized_axis("Linear", "input", inputs), sized_axis("Linear", "output", outputs)
        sizes = int(axes[0]), int(axes[1])
        random = generator(seed)
        self.weight = Parameter(initializer(sizes, random, dtype), axes, name="weight", dtype=dtype)
        self.bias = None
        if bias:
            self.bias = Parameter(bias_initializer(sizes[1:], random, dtype), axes[1:], name="bias", dtype=dtype)

    def __call__(self, x: Tensor[*Bs, In]) -> Tensor[*Bs, Out]:
        """`x @ weight + bias`, of the leading axes of `x` and the output axis.

        `ShapeError` where the last axis of `x` is not the input axis, `DTypeError` where its dtype is another.
        """
        product: Tensor[*Bs, Out] = x @ self.weight
        return product if self.bias is None else product + self.bias

    def __repr__(self) -> str:
        inputs, outputs = self.weight.dims
        return f"Linear({inputs!r}, {outputs!r}{', bias=False' if self.bias is None else ''})"
