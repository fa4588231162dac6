"""`Layer`, which maps the last axis, `Pointwise`, which keeps the shape, `>>`, which composes them, and `Flatten`."""

from __future__ import annotations

from typing import Any, Generic, overload

from typing_extensions import TypeVar

from wyrm.errors import ShapeError
from wyrm.graph.axes import Dim, product
from wyrm.graph.base import describe
from wyrm.graph.node import Node, Tensor
from wyrm.module import Module
from wyrm.nn.axes import Axes, Bs, In, Out

Next = TypeVar("Next", bound=Dim)
First = TypeVar("First", bound=Dim)
Last = TypeVar("Last", bound=Dim)


class Layer(Module, Generic[In, Out]):
    """A module that maps the last axis from `In` to `Out` and preserves the leading axes; subclasses define `__call__`.

    `first >> second` is the layer `second(first(x))`; mypy checks that the axis between them agrees.

    >>> network = wy.nn.Linear(4, 8) >> wy.nn.relu >> wy.nn.Linear(8, 2)
    >>> network(wy.Input(dims=(5, 4))).shape
    (5, 2)
    """

    def __call__(self, x: Tensor[*Bs, In]) -> Tensor[*Bs, Out]:
        """Return the graph of this layer for `x`."""
        raise NotImplementedError(f"{type(self).__name__} is a Layer and must define __call__(self, x)")

    @overload
    def __rshift__(self, other: Pointwise) -> Layer[In, Out]: ...
    @overload
    def __rshift__(self: Layer[First, Last], other: Layer[Last, Next]) -> Layer[First, Next]: ...
    def __rshift__(self, other: object) -> Layer:
        return Sequential(self, other) if isinstance(other, Layer) else NotImplemented


class Pointwise(Layer):
    """A module that preserves the shape, such as an activation or `Dropout`; subclasses define `__call__`.

    >>> network = wy.nn.tanh >> wy.nn.Dropout(0.5) >> wy.nn.Linear(4, 2)
    >>> network(wy.Input(dims=(5, 4))).shape
    (5, 2)
    """

    def __call__(self, x: Tensor[*Axes]) -> Tensor[*Axes]:
        """Return the graph of this module for `x`."""
        raise NotImplementedError(f"{type(self).__name__} is Pointwise and must define __call__(self, x)")

    @overload
    def __rshift__(self, other: Pointwise) -> Pointwise: ...
    @overload
    def __rshift__(self, other: Layer[First, Last]) -> Layer[First, Last]: ...
    def __rshift__(self, other: Any) -> Any:
        return PointwiseSequential(self, other) if isinstance(other, Pointwise) else super().__rshift__(other)


def _flattened(modules: tuple[Module, ...]) -> tuple[Any, ...]:
    """Return the modules, each `Sequential` replaced by its layers, so that a chain of `>>` is one flat list."""
    layers: list[Any] = []
    for module in modules:
        if not (isinstance(module, Module) and callable(module)):
            raise TypeError(
                f"Sequential takes modules one by one, not {type(module).__name__}: write Sequential(*layers) for a "
                f"list, wy.nn.Activation('relu') for a method of nodes, and a class for your own function"
            )
        layers += module.layers if isinstance(module, Sequential | PointwiseSequential) else (module,)
    return tuple(layers)


def _applied(layers: tuple[Any, ...], x: Node) -> Node:
    for layer in layers:
        x = layer(x)
    return x


class Sequential(Layer[In, Out]):
    """Modules applied in order; the attribute `layers` holds them, and `first >> second` creates one.

    Parameters have paths such as `layers.0.weight`. mypy checks the axes between layers for `>>`, not for this
    constructor. Raise `TypeError` for an argument that is not a callable module.

    >>> model = wy.nn.Sequential(wy.nn.Linear(4, 8), wy.nn.relu, wy.nn.Linear(8, 2))
    >>> model(wy.Input(dims=(5, 4))).shape, model.layers[0].weight.shape
    ((5, 2), (4, 8))
    """

    def __init__(self, *modules: Module) -> None:
        self.layers = _flattened(modules)

    def __getitem__(self, position: int) -> Any:
        """Return the module at a position of `layers`."""
        return self.layers[position]

    def __call__(self, x: Tensor[*Bs, In]) -> Tensor[*Bs, Out]:
        result: Tensor[*Bs, Out] = _applied(self.layers, x)
        return result


class PointwiseSequential(Pointwise):
    """A `Sequential` of pointwise modules, which preserves the shape as well; `>>` creates it."""

    def __init__(self, *modules: Pointwise) -> None:
        self.layers = _flattened(modules)

    def __call__(self, x: Tensor[*Axes]) -> Tensor[*Axes]:
        result: Tensor[*Axes] = _applied(self.layers, x)
        return result


B = TypeVar("B")


class Flatten(Module):
    """A module that joins all axes after the first one, in row-major order: (batch, channels, height, width) to two.

    Raise `ShapeError` for an operand without axes.

    >>> Flatten()(wy.Input(dims=(5, 3, 4, 6))).shape
    (5, 72)
    """

    def __call__(self, x: Tensor[B, *Bs]) -> Tensor[B, Any]:
        """Return `x` with two axes."""
        node: Node = x
        if not node.dims:
            raise ShapeError(f"Flatten takes an axis of the batch and others, not {describe(node)}")
        result: Tensor[B, Any] = node.reshape((node.dims[0], product(node.dims[1:])))
        return result

    def __repr__(self) -> str:
        return "Flatten()"
