"""Activations as modules, for composition with `>>`, also with parameters or a gate; nodes have many as methods."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from wyrm.errors import DTypeError, OptionError
from wyrm.graph.axes import Dim
from wyrm.graph.node import Node, Tensor
from wyrm.graph.parameters import Parameter
from wyrm.graph.typing import DTypeLike
from wyrm.nn.axes import Axes, Bs, axis_number, feature_axis, sized_axis, with_axes_after
from wyrm.nn.layer import Layer, Pointwise
from wyrm.ops.elementwise.activation import halves
from wyrm.ops.elementwise.comparison import where
from wyrm.support.options import number
from wyrm.support.texts import nearest


class Activation(Pointwise):
    """A module that calls the method `method` of its input, with the keyword arguments `options`.

    Raise `ValueError` for a name that is not a method of nodes.

    >>> Activation("leaky_relu", negative_slope=0.5)(wy.Constant([-1.0, 1.0])).forward().tolist()
    [-0.5, 1.0]
    """

    def __init__(self, method: str, **options: Any) -> None:
        if not isinstance(method, str):
            raise DTypeError(f"Activation: the method must be a name, such as 'relu', not {method!r}")
        if not callable(getattr(Node, method, None)):
            near = nearest(method, (name for name in dir(Node) if not name.startswith("_")))
            raise OptionError(f"Activation: nodes have no method {method!r}; give one such as 'relu' or 'tanh'{near}")
        self.method = method
        self.options = options

    def __call__(self, x: Tensor[*Axes]) -> Tensor[*Axes]:
        result: Tensor[*Axes] = getattr(x, self.method)(**self.options)
        return result

    def __repr__(self) -> str:
        return f"{self.method}({', '.join(f'{name}={value!r}' for name, value in self.options.items())})"


def checked_activation(layer: str, activation: Pointwise) -> Pointwise:
    """Return the activation of a layer; raise `DTypeError` for a word or another value that is not callable."""
    given: object = activation
    if not callable(given):
        name = given if isinstance(given, str) else "relu"
        raise DTypeError(
            f"{layer}: activation must be a module, as in activation=wy.nn.Activation({name!r}), not {given!r}"
        )
    return activation


relu: Final = Activation("relu")
gelu: Final = Activation("gelu")
silu: Final = Activation("silu")
tanh: Final = Activation("tanh")
sigmoid: Final = Activation("sigmoid")
softplus: Final = Activation("softplus")
celu: Final = Activation("celu")
elu: Final = Activation("elu")
hardsigmoid: Final = Activation("hardsigmoid")
hardswish: Final = Activation("hardswish")
hardtanh: Final = Activation("hardtanh")
leaky_relu: Final = Activation("leaky_relu")
log_sigmoid: Final = Activation("log_sigmoid")
mish: Final = Activation("mish")
relu6: Final = Activation("relu6")
selu: Final = Activation("selu")
softsign: Final = Activation("softsign")


class PReLU(Pointwise):
    """`x` where positive, else `weight * x`, with a learned slope: one for all elements, or one for each of an axis.

    `features`, a `Dim` with a size or an integer, is 1 or the size of `axis`: 1 for images, (batch, channels, height,
    width), as in PyTorch, and -1 for the last axis. Without `axis` it is the last; an operand of more than two axes
    must then name it by a `Dim`. `weight` starts at `initial`. He et al., "Delving deep into rectifiers" (2015).

    Raise `ShapeError` for an axis without a size or, in a call, of another size, or where nothing says which axis has
    the features.

    >>> PReLU(initial=0.5)(wy.Constant([-1.0, 1.0])).forward().tolist()
    [-0.5, 1.0]
    """

    def __init__(
        self, features: Dim | int = 1, *, axis: int | None = None, initial: float = 0.25, dtype: DTypeLike = np.float32
    ) -> None:
        size: Any = sized_axis("PReLU", "features", features)
        self.axis: int | None = None if axis is None else axis_number("PReLU", axis)
        self.weight: Parameter[tuple[Any]] = Parameter(
            np.full(int(size), number("PReLU: initial", initial)), (size,), name="weight", dtype=dtype
        )

    def __call__(self, x: Tensor[*Axes]) -> Tensor[*Axes]:
        """Return the activation of `x`, of its axes."""
        if self.weight.shape == (1,):
            scalar: Any = ()
            weight: Any = self.weight.reshape(scalar)
        else:
            node: Node = x
            position = feature_axis("PReLU", self.weight.dims[0], self.axis, node)
            weight = with_axes_after(self.weight, node.ndim - 1 - position)
        result: Tensor[*Axes] = where(x > 0.0, x, x * weight)
        return result


class GLU(Layer):
    """A gated linear unit: `first * activation(second)` for the halves of `x` along `axis`, which must be of even size.

    With the sigmoid, the default, it is PyTorch's `GLU` (Dauphin et al., 2017). `swiglu`, `geglu` and `reglu` are
    instances with `silu`, `gelu` and `relu` (Shazeer, "GLU variants improve transformer", 2020). Raise `ShapeError`
    for an axis of odd size or without a size.

    >>> GLU(wy.nn.relu)(wy.Constant([[3.0, 2.0]])).forward().tolist()
    [[6.0]]
    """

    def __init__(self, activation: Pointwise = sigmoid, axis: int = -1) -> None:
        self.activation: Pointwise = checked_activation("GLU", activation)
        self.axis: int = axis_number("GLU", axis)

    def __call__(self, x: Tensor[*Bs, Any]) -> Tensor[*Bs, Any]:
        """Return the gated half of `x`, of its axes except for `axis`."""
        first, second = halves(x, self.axis, "GLU")
        result: Tensor[*Bs, Any] = first * self.activation(second)
        return result


glu: Final = GLU()
swiglu: Final = GLU(silu)
geglu: Final = GLU(gelu)
reglu: Final = GLU(relu)
