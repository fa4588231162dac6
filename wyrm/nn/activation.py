"""Activations as modules, for composition with `>>`; nodes have them as methods, too."""

from __future__ import annotations

from typing import Any

from wyrm.errors import DTypeError, OptionError
from wyrm.graph.node import Node, Tensor
from wyrm.nn.axes import Axes
from wyrm.nn.layer import Pointwise
from wyrm.support.foreign_names.nearest import nearest


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


relu = Activation("relu")
gelu = Activation("gelu")
silu = Activation("silu")
tanh = Activation("tanh")
sigmoid = Activation("sigmoid")
softplus = Activation("softplus")
celu = Activation("celu")
elu = Activation("elu")
hardsigmoid = Activation("hardsigmoid")
hardswish = Activation("hardswish")
hardtanh = Activation("hardtanh")
leaky_relu = Activation("leaky_relu")
log_sigmoid = Activation("log_sigmoid")
mish = Activation("mish")
relu6 = Activation("relu6")
selu = Activation("selu")
softsign = Activation("softsign")
