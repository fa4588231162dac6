"""`Layer`, which maps the last axis, `Pointwise`, which keeps the shape, `>>`, which composes them, and `Flatten`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, overload

from typing_extensions import TypeVar

from wyrm.errors import ShapeError
from wyrm.graph.axes import Dim, product
from wyrm.graph.base import describe
from wyrm.graph.node import IndexNode, Node, Tensor
from wyrm.module import Module
from wyrm.nn.axes import Axes, Bs, In, Out

Next = TypeVar("Next", bound=Dim)
First = TypeVar("First", bound=Dim)
Last = TypeVar("Last", bound=Dim)


class Unstated(Dim):
    """The axis of a model that its type does not tell: no layer has it, so only Any matches it."""


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

    @overload  # type: ignore[override]  # of other modules, `Module.__rrshift__` makes a `Sequential`
    def __rshift__(self, other: Pointwise) -> Layer[In, Out]: ...
    @overload
    def __rshift__(self, other: Layer[Out, Next]) -> Layer[In, Next]: ...
    def __rshift__(self, other: object) -> Any:
        return composed(self, other)

    if TYPE_CHECKING:  # so that two layers whose axes differ are an error

        def __rrshift__(self, other: Unstated) -> Layer: ...  # type: ignore[override]


class Pointwise(Layer):
    """A module that preserves the shape, such as an activation or `Dropout`; subclasses define `__call__`.

    >>> network = wy.nn.tanh >> wy.nn.Dropout(0.5) >> wy.nn.Linear(4, 2)
    >>> network(wy.Input(dims=(5, 4))).shape
    (5, 2)
    """

    def __call__(self, x: Tensor[*Axes]) -> Tensor[*Axes]:
        """Return the graph of this module for `x`."""
        raise NotImplementedError(f"{type(self).__name__} is Pointwise and must define __call__(self, x)")

    @overload  # type: ignore[override]  # as for `Layer`
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

    Parameters have paths such as `layers.0.weight`. Type checkers know the last axis of the first and of the last layer
    where all are layers; of other modules, such as convolutions, the result has unknown axes. They check the axes
    between layers for `>>`, not for this constructor. Raise `TypeError` for an argument that is not a callable module.

    >>> model = wy.nn.Sequential(wy.nn.Linear(4, 8), wy.nn.relu, wy.nn.Linear(8, 2))
    >>> model(wy.Input(dims=(5, 4))).shape, model.layers[0].weight.shape
    ((5, 2), (4, 8))
    """

    @overload
    def __init__(
        self: Sequential[First, Last], *modules: *tuple[Layer[First, Any], *tuple[Layer, ...], Layer[Any, Last]]
    ) -> None: ...
    @overload
    def __init__(self: Sequential[Any, Any], *modules: Module) -> None: ...
    def __init__(self, *modules: Any) -> None:  # type: ignore[misc]  # mypy wants the first overload's tuple here too
        self.layers: tuple[Any, ...] = _flattened(modules)

    @overload  # type: ignore[override]  # as for `Layer`
    def __rshift__(self: Sequential[Unstated, Unstated], other: Module) -> Sequential[Any, Any]: ...
    @overload
    def __rshift__(self, other: Pointwise) -> Sequential[In, Out]: ...
    @overload
    def __rshift__(self, other: Layer[Out, Next]) -> Sequential[In, Next]: ...
    def __rshift__(self, other: Any) -> Any:
        return super().__rshift__(other)

    def __getitem__(self, position: int) -> Any:
        """Return the module at a position of `layers`."""
        return self.layers[position]

    @overload
    def __call__(self: Sequential[Unstated, Unstated], x: Node | IndexNode) -> Node: ...
    @overload
    def __call__(self, x: Tensor[*Bs, In]) -> Tensor[*Bs, Out]: ...
    def __call__(self, x: Any) -> Any:
        """Return the result of the last module, each applied to that of the one before it."""
        return _applied(self.layers, x)


def composed(first: Module, second: object) -> Any:
    """Return `first >> second` of any two modules; `NotImplemented` if `second` is no module."""
    return Sequential(first, second) if isinstance(second, Module) else NotImplemented


class PointwiseSequential(Pointwise):
    """A `Sequential` of pointwise modules, which preserves the shape as well; `>>` creates it."""

    def __init__(self, *modules: Pointwise) -> None:
        self.layers: tuple[Any, ...] = _flattened(modules)

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
