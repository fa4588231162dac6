"""Derivatives of functions of arrays, numbers and nested containers, by wyrm's graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.graph.base import BaseNode
from wyrm.graph.traversal import topological_order


def is_complex(value: Any) -> bool:
    return isinstance(value, complex) or (hasattr(value, "dtype") and np.issubdtype(value.dtype, np.complexfloating))


def leaves_of(value: Any) -> list[Any]:
    """Return the numbers, arrays and nodes in nested containers, in order."""
    if isinstance(value, dict):
        return [leaf for key in sorted(value, key=str) for leaf in leaves_of(value[key])]
    if isinstance(value, list | tuple):
        return [leaf for each in value for leaf in leaves_of(each)]
    return [value]


def rebuilt(value: Any, leaves: Sequence[Any]) -> Any:
    """Return nested containers like `value` with other leaves."""
    rest = iter(leaves)

    def build(part: Any) -> Any:
        if isinstance(part, dict):
            found = {key: build(part[key]) for key in sorted(part, key=str)}
            return {key: found[key] for key in part}
        if isinstance(part, list | tuple):
            return type(part)([build(each) for each in part])
        return next(rest)

    return build(value)


def as_leaf(leaf: Any) -> Any:
    """Return a number or array as a parameter of float64, and a node as it is."""
    if is_complex(leaf):
        pytest.skip("complex numbers")
    if isinstance(leaf, wy.Node):
        return leaf * 1.0  # a node of its own: the gradient leaves out other paths to the operand
    if isinstance(leaf, str | bool | None | np.bool_):
        return leaf
    array = np.asarray(leaf)
    if array.dtype.kind not in "fiu":
        return leaf
    return wy.Parameter(array if array.dtype in (np.float32, np.float64) else array.astype(np.float64))


def plain(value: Any) -> Any:
    """Return nested containers with the values of nodes in place of nodes."""
    return rebuilt(
        value, [leaf.forward() if isinstance(leaf, wy.Node | wy.IndexNode) else leaf for leaf in leaves_of(value)]
    )


def gradients(outputs: Sequence[Any], weights: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """Return the gradients of the weighted sum of the outputs as nodes; zeros where it does not depend on an input."""
    terms = [(y * w).sum() for y, w in zip(outputs, weights, strict=True) if isinstance(y, wy.Node)]
    if not terms:
        return [wy.zeros_like(x) for x in inputs]
    return [
        grad.erase() for grad in wy.grad(functools.reduce(lambda a, b: a + b, terms), list(inputs), allow_unused=True)
    ]


# The inputs of the functions that run now, outermost first.
_running: list[Any] = []


def _run(function: Callable[..., Any], x: Any, nodes: Sequence[Any]) -> Any:
    """Return the value of the function, whose inputs count as running for the derivatives inside it."""
    count = len(_running)
    _running.extend(node for node in nodes if isinstance(node, wy.Node))
    try:
        return function(rebuilt(x, nodes))
    finally:
        del _running[count:]


def _computed(value: Any) -> Any:
    """Return the numbers of nodes, unless they depend on the input of a function that runs."""
    nodes = [leaf for leaf in leaves_of(value) if isinstance(leaf, wy.Node)]
    return value if set(topological_order(nodes)).intersection(_running) else plain(value)


def make_vjp(function: Callable[..., Any], x: Any) -> tuple[Callable[[Any], Any], Any]:
    """Return the pullback of a function of one nested container, and its value."""
    nodes = [as_leaf(leaf) for leaf in leaves_of(x)]
    inputs = [node for node in nodes if isinstance(node, wy.Node)]
    value = _run(function, x, nodes)

    def pullback(weights: Any) -> Any:
        found = iter(gradients(leaves_of(value), leaves_of(weights), inputs))
        return _computed(rebuilt(x, [next(found) if isinstance(node, wy.Node) else node for node in nodes]))

    return pullback, _computed(value)


def _along(output: wy.Node, pairs: Sequence[tuple[wy.Node, Any]]) -> Any:
    """Return the derivative of an output along a tangent: zeros where it depends on no operand."""
    below = set(topological_order([output]))
    used = [pair for pair in pairs if pair[0] in below]
    if not used:
        return wy.zeros_like(output)
    return wy.jvp(output, [node for node, _ in used], [along for _, along in used]).erase()


def make_jvp(function: Callable[..., Any], x: Any) -> Callable[[Any], tuple[Any, Any]]:
    """Return a function of a tangent that returns the value and its derivative along the tangent."""

    def push(tangent: Any) -> tuple[Any, Any]:
        nodes = [as_leaf(leaf) for leaf in leaves_of(x)]
        pairs = [
            (node, along) for node, along in zip(nodes, leaves_of(tangent), strict=True) if isinstance(node, wy.Node)
        ]
        value = _run(function, x, nodes)
        tangents = [
            _along(leaf, pairs) if isinstance(leaf, wy.Node) else np.zeros(np.shape(leaf)) for leaf in leaves_of(value)
        ]
        return _computed(value), _computed(rebuilt(value, tangents))

    return push


class VSpace:
    """The shapes of the numbers in nested containers."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.shapes = [np.shape(leaf) for leaf in leaves_of(value)]
        self.shape = self.shapes[0] if len(self.shapes) == 1 else ()
        self.size = sum(int(np.prod(shape)) for shape in self.shapes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VSpace) and self.shapes == other.shapes

    __hash__ = None  # type: ignore[assignment]  # compared only

    def randn(self) -> Any:
        return rebuilt(self.value, [np.array(np.random.randn(*shape)) for shape in self.shapes])

    def zeros(self) -> Any:
        return rebuilt(self.value, [np.zeros(shape) for shape in self.shapes])

    def ones(self) -> Any:
        return rebuilt(self.value, [np.ones(shape) for shape in self.shapes])

    def standard_basis(self) -> Any:
        for i, shape in enumerate(self.shapes):
            for index in np.ndindex(*shape):
                leaves = [np.zeros(each) for each in self.shapes]
                leaves[i][index] = 1.0
                yield rebuilt(self.value, leaves)

    def add(self, x: Any, y: Any) -> Any:
        return rebuilt(self.value, [a + b for a, b in zip(leaves_of(x), leaves_of(y), strict=True)])

    def scalar_mul(self, x: Any, factor: float) -> Any:
        return rebuilt(self.value, [a * factor for a in leaves_of(x)])

    def inner_prod(self, x: Any, y: Any) -> Any:
        return sum(np.sum(a * b) for a, b in zip(leaves_of(x), leaves_of(y), strict=True))

    def covector(self, x: Any) -> Any:
        return x


def vspace(value: Any) -> VSpace:
    return VSpace(plain(value))


def primitive(function: Callable[..., Any]) -> Any:
    from .extend import primitive as of_extend

    return of_extend(function)


# autograd's table of derivatives, empty here: each op of wyrm has its own.
primitive_vjps: dict[Any, Any] = {}
