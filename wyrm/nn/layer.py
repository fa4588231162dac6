"""`Layer`, which maps the last axis to another, `Pointwise`, which keeps every axis, and `>>`, which composes them."""

from __future__ import annotations

from typing import Any, Generic, overload

from typing_extensions import TypeVar

from wyrm.nn.axes import Axes, Bs, In, Out
from wyrm.nn.module import Module
from wyrm.node.node import Node, Tensor
from wyrm.types.dims import Dim

Next = TypeVar("Next", bound=Dim)
First = TypeVar("First", bound=Dim)
Last = TypeVar("Last", bound=Dim)


class Layer(Module, Generic[In, Out]):
    """A module that maps the last axis `In` to `Out`, whatever the leading axes.

    `first >> second` is the layer that applies both; mypy checks that the axes between them agree. A subclass gives
    `__call__`.

    >>> network = wy.nn.Linear(4, 8) >> wy.nn.relu >> wy.nn.Linear(8, 2)
    >>> network(wy.Input(dims=(5, 4))).shape
    (5, 2)
    """

    def __call__(self, x: Tensor[*Bs, In]) -> Tensor[*Bs, Out]:
        """The graph of this layer on `x`."""
        raise NotImplementedError(f"{type(self).__name__} is a Layer, and a Layer defines __call__(self, x)")

    @overload
    def __rshift__(self, other: Pointwise) -> Layer[In, Out]: ...
    @overload
    def __rshift__(self: Layer[First, Last], other: Layer[Last, Next]) -> Layer[First, Next]: ...
    def __rshift__(self, other: object) -> Any:
        return Chain(self, other) if isinstance(other, Layer) else NotImplemented


class Pointwise(Layer):
    """A module that keeps every axis, such as an activation or `Dropout`. A subclass gives `__call__`.

    >>> network = wy.nn.tanh >> wy.nn.Dropout(0.5) >> wy.nn.Linear(4, 2)
    >>> network(wy.Input(dims=(5, 4))).shape
    (5, 2)
    """

    def __call__(self, x: Tensor[*Axes]) -> Tensor[*Axes]:
        """The graph of this module on `x`."""
        raise NotImplementedError(f"{type(self).__name__} is Pointwise, and such a module defines __call__(self, x)")

    @overload
    def __rshift__(self, other: Pointwise) -> Pointwise: ...
    @overload
    def __rshift__(self, other: Layer[First, Last]) -> Layer[First, Last]: ...
    def __rshift__(self, other: Any) -> Any:
        return PointwiseChain(self, other) if isinstance(other, Pointwise) else super().__rshift__(other)


def _links(modules: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """The modules with chains taken apart, so that a long chain is one list and not a deep nest."""
    links: list[Layer] = []
    for module in modules:
        links += module.layers if isinstance(module, Chain | PointwiseChain) else (module,)
    return tuple(links)


def _applied(layers: tuple[Layer, ...], x: Node) -> Node:
    for layer in layers:
        x = layer(x)
    return x


class Chain(Layer[In, Out]):
    """What `>>` makes: layers applied one after the other, found as `layers.0`, `layers.1`, ..."""

    def __init__(self, *modules: Layer) -> None:
        self.layers = _links(modules)

    def __call__(self, x: Tensor[*Bs, In]) -> Tensor[*Bs, Out]:
        result: Tensor[*Bs, Out] = _applied(self.layers, x)
        return result


class PointwiseChain(Pointwise):
    """What `>>` makes of modules that all keep every axis."""

    def __init__(self, *modules: Pointwise) -> None:
        self.layers = _links(modules)

    def __call__(self, x: Tensor[*Axes]) -> Tensor[*Axes]:
        result: Tensor[*Axes] = _applied(self.layers, x)
        return result
