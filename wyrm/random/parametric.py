"""Random nodes whose distribution has a parameter of shape: gamma, beta, Dirichlet and Poisson."""

from __future__ import annotations

from typing import Any

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Dims
from wyrm.graph.leaves import as_constant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.typing import DTypeLike, Number
from wyrm.ops.random.gamma_draws import RandomPoisson, StandardLogGamma
from wyrm.random.arguments import checked_axes, checked_parameter, float_draw, float_dtype, index_draw, key_of


def _over(axes: Dims, parameter: Any, dtype: np.dtype) -> Node:
    """Return a parameter as a node with all axes of the draws."""
    node: Any = as_constant(parameter, dtype) if isinstance(parameter, float) else parameter
    wide: Node = node if node.dims == axes else node.broadcast_to(axes)
    return wide


def _positive(what: str, name: str, value: Any, axes: Dims) -> Any:
    parameter = checked_parameter(what, name, value, axes, 0.0)
    if isinstance(parameter, float) and not parameter:
        raise ValueError(f"{what}: {name} must be above 0, not 0")
    return parameter


@float_draw
def gamma(
    dims: Any,
    /,
    concentration: Number | Node,
    scale: Number | Node = 1.0,
    *,
    dtype: DTypeLike | None = None,
    seed: int = 0,
    stream: int | None = None,
) -> Node:
    """Return draws of gamma distributions, of density `x ** (c - 1) * exp(-x / scale)`, up to a constant; see `normal`.

    The `concentration` c (NumPy's `shape`), above 0, and the scale are numbers or nodes whose axes broadcast to `dims`.
    Both have gradients: that of the concentration is the implicit reparameterization gradient of Figurnov, Mohamed and
    Mnih (2018), the derivative of the draw of equal probability; it has no further derivative. A sum of squares of n
    normal draws is `gamma(dims, n / 2, 2.0)`. A concentration in a node that is not above 0 gives NaN. Raise
    `ValueError` for such a number.

    Compiled and other code draw the same. JAX decides in float64 only with `jax_enable_x64`: without it, a few draws in
    a million are other ones, more of them where a parameter is large.

    >>> wy.random.set_step(0)
    >>> wy.random.gamma((3,), 2.0, dtype=np.float64, stream=0).forward().round(3).tolist()
    [1.354, 3.301, 0.639]
    """
    what, axes = "random.gamma", checked_axes("random.gamma", dims)
    concentration = _positive(what, "concentration", concentration, axes)
    scale = checked_parameter(what, "scale", scale, axes, 0.0)
    kind = float_dtype(what, dtype, concentration, scale)
    drawn: Node = StandardLogGamma(key_of(what, seed, stream), _over(axes, concentration, kind), axes).exp()
    return drawn if isinstance(scale, float) and scale == 1.0 else drawn * scale


@float_draw
def beta(
    dims: Any,
    /,
    a: Number | Node,
    b: Number | Node,
    *,
    dtype: DTypeLike | None = None,
    seed: int = 0,
    stream: int | None = None,
) -> Node:
    """Return draws of beta distributions, of density `x ** (a - 1) * (1 - x) ** (b - 1)`, up to a constant.

    They are quotients of two gamma draws, computed from their logarithms, so that small `a` and `b` have no 0 / 0.
    Gradients, other arguments and errors are those of `gamma`.

    >>> wy.random.set_step(0)
    >>> wy.random.beta((3,), 2.0, 3.0, dtype=np.float64, stream=0).forward().round(3).tolist()
    [0.172, 0.502, 0.223]
    """
    what, axes = "random.beta", checked_axes("random.beta", dims)
    a, b = _positive(what, "a", a, axes), _positive(what, "b", b, axes)
    kind, key = float_dtype(what, dtype, a, b), key_of(what, seed, stream)
    first: Node = StandardLogGamma(key, _over(axes, a, kind), axes)
    second: Node = StandardLogGamma(key, _over(axes, b, kind), axes, part=1)
    return (first - second).sigmoid()


@float_draw
def dirichlet(
    dims: Any,
    /,
    concentration: Number | Node,
    *,
    dtype: DTypeLike | None = None,
    seed: int = 0,
    stream: int | None = None,
) -> Node:
    """Return draws of Dirichlet distributions: vectors along the last axis, of numbers from 0 that add up to 1.

    `concentration` has a number above 0 for each element, in axes that broadcast to `dims`; NumPy's `alpha`. The draws
    are gamma draws, divided by their sum, computed from their logarithms. Gradients, other arguments and errors are
    those of `gamma`. Raise `ShapeError` without an axis.

    >>> wy.random.set_step(0)
    >>> drawn = wy.random.dirichlet((2, 3), wy.Constant([1.0, 2.0, 3.0]), stream=0)
    >>> drawn.sum(-1).forward().round(6).tolist()
    [1.0, 1.0]
    """
    what, axes = "random.dirichlet", checked_axes("random.dirichlet", dims)
    if not axes:
        raise ShapeError(f"{what}: dims needs an axis, along which the numbers add up to 1")
    concentration = _positive(what, "concentration", concentration, axes)
    kind = float_dtype(what, dtype, concentration)
    drawn: Node = StandardLogGamma(key_of(what, seed, stream), _over(axes, concentration, kind), axes)
    return drawn.softmax(-1)


@index_draw
def poisson(dims: Any, /, rate: Number | Node = 1.0, *, seed: int = 0, stream: int | None = None) -> IndexNode:
    """Return draws of Poisson distributions, integers from 0 whose mean is `rate`; see `normal`.

    `rate` (NumPy's `lam`) is a number of at least 0, or a node whose axes broadcast to `dims`; it gets no gradient. In
    a node, an element that is not above 0 gives 0. Use `.astype(np.float32)` for floats. Equality of engines is as for
    `gamma`. Raise `ValueError` for a number below 0.

    >>> wy.random.set_step(0)
    >>> wy.random.poisson((6,), 4.0, stream=0).forward().tolist()
    [3, 5, 2, 5, 3, 8]
    """
    what, axes = "random.poisson", checked_axes("random.poisson", dims)
    rate = checked_parameter(what, "rate", rate, axes, 0.0)
    kind = float_dtype(what, np.float64 if isinstance(rate, float) else None, rate)
    return RandomPoisson(key_of(what, seed, stream), _over(axes, rate, kind), axes)


__all__ = ["beta", "dirichlet", "gamma", "poisson"]
