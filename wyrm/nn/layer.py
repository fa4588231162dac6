"""`Layer`, which maps the last axis, `Pointwise`, which preserves the shape, and `>>`, which composes them."""

from __future__ import annotations

from typing import Any, Generic, overload

from typing_extensions import TypeVar, TypeVarTuple

from wyrm.nn.module import Module
from wyrm.node.node import Node

In = TypeVar("In", default=Any)
Out = TypeVar("Out", default=Any)
Next = TypeVar("Next")
S = TypeVar("S")
Bs = TypeVarTuple("Bs")


class Layer(Module, Generic[In, Out]):
    """A module that maps the last axis from `In` to `Out` and preserves the leading axes; subclasses define `__call__`.

    `first >> second` is the layer `second(first(x))`; mypy checks that the axis between them agrees.

    >>> network = wy.nn.Linear(4, 8) >> wy.nn.relu >> wy.nn.Linear(8, 2)
    >>> network(wy.Input(dims=(5, 4))).shape
    (5, 2)
    """

    def __call__(self, x: Node[Any, tuple[*Bs, In]]) -> Node[Any, tuple[*Bs, Out]]:
        """Return the graph of this layer for `x`."""
        raise NotImplementedError(f"{type(self).__name__} is a Layer and must define __call__(self, x)")

    @overload
    def __rshift__(self, other: Pointwise) -> Layer[In, Out]: ...
    @overload
    def __rshift__(self, other: Layer[Out, Next]) -> Layer[In, Next]: ...
    def __rshift__(self, other: Any) -> Any:
        return Chain(self, other) if isinstance(other, Layer | Pointwise) else NotImplemented


class Pointwise(Module):
    """A module that preserves the shape, such as an activation or `Dropout`; subclasses define `__call__`.

    >>> network = wy.nn.tanh >> wy.nn.Dropout(0.5) >> wy.nn.Linear(4, 2)
    >>> network(wy.Input(dims=(5, 4))).shape
    (5, 2)
    """

    def __call__(self, x: Node[Any, S]) -> Node[Any, S]:
        """Return the graph of this module for `x`."""
        raise NotImplementedError(f"{type(self).__name__} is Pointwise and must define __call__(self, x)")

    @overload
    def __rshift__(self, other: Pointwise) -> Pointwise: ...
    @overload
    def __rshift__(self, other: Layer[In, Out]) -> Layer[In, Out]: ...
    def __rshift__(self, other: Any) -> Any:
        if isinstance(other, Layer):
            return Chain(self, other)
        return PointwiseChain(self, other) if isinstance(other, Pointwise) else NotImplemented


def _links(modules: tuple[Layer[Any, Any] | Pointwise, ...]) -> tuple[Layer[Any, Any] | Pointwise, ...]:
    """The modules with chains taken apart, so that a long chain is one list and not a deep nest."""
    links: list[Layer[Any, Any] | Pointwise] = []
    for module in modules:
        links += module.layers if isinstance(module, Chain | PointwiseChain) else (module,)
    return tuple(links)


def _applied(layers: tuple[Layer[Any, Any] | Pointwise, ...], x: Any) -> Any:
    for layer in layers:
        x = layer(x)
    return x


class Chain(Layer[In, Out]):
    """What `>>` makes: layers applied one after the other, found as `layers.0`, `layers.1`, ..."""

    def __init__(self, *modules: Layer[Any, Any] | Pointwise) -> None:
        self.layers = _links(modules)

    def __call__(self, x: Node[Any, tuple[*Bs, In]]) -> Node[Any, tuple[*Bs, Out]]:
        result: Node[Any, tuple[*Bs, Out]] = _applied(self.layers, x)
        return result


class PointwiseChain(Pointwise):
    """What `>>` makes of modules that all keep every axis."""

    def __init__(self, *modules: Pointwise) -> None:
        self.layers = _links(modules)

    def __call__(self, x: Node[Any, S]) -> Node[Any, S]:
        result: Node[Any, S] = _applied(self.layers, x)
        return result
