"""Gradients compared with finite differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.engines.numpy.reference import ReferenceRunner
from wyrm.errors import DTypeError, WyrmError
from wyrm.graph.base import describe
from wyrm.graph.leaves import Constant, Input, as_constant
from wyrm.graph.node import Node
from wyrm.graph.parameters import Parameter
from wyrm.ops.gradients.reverse import pull_back, with_sizes
from wyrm.testing.engines import compare_engines


class GradientError(WyrmError, AssertionError):
    """A gradient that disagrees with finite differences."""


def check_grads(
    output: Node,
    wrt: Sequence[Parameter | Input] | None = None,
    *,
    order: int = 2,
    step: float = 1e-5,
    rtol: float = 1e-6,
    atol: float = 1e-8,
    seed: int = 0,
    engines: Sequence[str] | None = None,
) -> None:
    """Compare gradients with central differences along random directions, for derivatives up to `order`.

    Random weights project `output`, of any shape, to a number. Each leaf of `wrt` (all parameters by default; float64
    leaves that hold data) moves along a random direction, and the derivative of the number along it is compared with
    the gradient. Order 2 checks the gradients themselves in the same way. Raise `GradientError` naming the leaf that
    disagrees, and `DTypeError` for a leaf that is not float64: float32 has too few digits for differences.

    The reference engine computes these numbers. What other `engines` compute is compared with it for each op of your
    own in the graph and its gradients: an op that wyrm does not define, or one with a loop form or a JAX form that wyrm
    does not define. `EngineError` says which op, engine and rule differ. By default these engines are "native", and
    "jax" where JAX is installed. `engines=()` compares none. `check_op` says more of one op.

    >>> x = wy.Parameter(np.array([0.5, 2.0]), name="x")
    >>> check_grads((x * x).tanh())
    """
    if not isinstance(output, Node):
        raise TypeError(f"check_grads takes a node, not {type(output).__name__}: build the graph first, as in f(x)")
    leaves = list(output.parameters() if wrt is None else wrt)
    for leaf in leaves:
        if leaf.dtype != np.float64:
            raise DTypeError(f"{describe(leaf)}: gradients are checked in float64; make the leaf from a float64 array")
    random = np.random.default_rng(seed)
    nodes: list[Node] = [output]
    every: list[Node] = [output]
    for current in range(1, order + 1):
        plan = ReferenceRunner(nodes).run()
        weights = [Constant(_away_from_zero(random, plan.value(n).shape), n.dims, dtype=n.dtype) for n in nodes]
        gradients = [
            _zeros_like(leaf) if gradient is None else gradient
            for leaf, gradient in zip(leaves, pull_back(nodes, weights, leaves), strict=True)
        ]
        gradients = with_sizes(gradients, nodes)
        _compare(nodes, weights, leaves, gradients, random, f"order {current}", step, rtol, atol)
        nodes = gradients
        every += gradients
    compare_engines(every, engines)


def _away_from_zero(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    values: np.ndarray = random.uniform(0.5, 1.5, shape) * random.choice([-1.0, 1.0], shape)
    return values


def _zeros_like(leaf: Node) -> Node:
    return as_constant(np.zeros(leaf.value.shape), leaf.dtype)


def _compare(
    nodes: list[Node],
    weights: list[Any],
    leaves: list[Parameter | Input],
    gradients: list[Node],
    random: np.random.Generator,
    what: str,
    step: float,
    rtol: float,
    atol: float,
) -> None:
    runner = ReferenceRunner(nodes)

    def number() -> float:
        plan = runner.run()
        return float(
            sum(
                np.sum(np.asarray(plan.value(node)) * np.asarray(weight.value))
                for node, weight in zip(nodes, weights, strict=True)
            )
        )

    at = ReferenceRunner(gradients).run()
    values = [np.array(at.value(gradient)) for gradient in gradients]
    for leaf, value in zip(leaves, values, strict=True):
        start = leaf.value
        direction = _away_from_zero(random, start.shape)
        expected = float(np.sum(value * direction))

        def along(distance: float, leaf: Any = leaf, start: Any = start, direction: Any = direction) -> float:
            leaf.set(start + distance * direction)
            return number()

        # Richardson extrapolation of two central differences: the error falls with the fourth power of the step.
        try:
            near = (along(step) - along(-step)) / (2 * step)
            far = (along(2 * step) - along(-2 * step)) / (4 * step)
        finally:
            leaf.set(start)
        measured = (4 * near - far) / 3
        scale = max(abs(expected), abs(measured), float(np.sum(np.abs(value * direction))))
        if not abs(measured - expected) <= atol + rtol * scale:
            raise GradientError(
                f"{describe(nodes[0])}: gradient of {what} with respect to {describe(leaf)}: along a random direction "
                f"it is {expected:.12g}, finite differences give {measured:.12g}"
            )
