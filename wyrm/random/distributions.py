"""Random nodes: draws of common distributions as nodes of the graph."""

from __future__ import annotations

import operator
from typing import Any, cast

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.functions.tracing import number_dtype
from wyrm.graph.axes import Dims
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.leaves import Constant, as_constant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.typing import Bs, DTypeLike, N, Number
from wyrm.graph.weak_types import is_weak
from wyrm.ops.elementwise.elementwise import S
from wyrm.ops.random.draws import (
    RandomInteger,
    RandomPermutation,
    StandardExponential,
    StandardGumbel,
    StandardLaplace,
    StandardNormal,
    StandardUniform,
)
from wyrm.ops.random.gamma_draws import RandomPoisson, StandardLogGamma
from wyrm.random.arguments import checked_axes, checked_parameter, draw, float_draw, float_dtype, index_draw, key_of


def _located(
    op: Any, what: str, dims: Any, loc: Any, scale: Any, dtype: DTypeLike | None, seed: int, stream: int | None
) -> Node:
    """Return `loc + scale * draw`."""
    axes = checked_axes(what, dims)
    loc = checked_parameter(what, "loc", loc, axes)
    scale = checked_parameter(what, "scale", scale, axes, 0.0)
    node: Node = op(key_of(what, seed, stream), axes, float_dtype(what, dtype, loc, scale))
    node = node if isinstance(scale, float) and scale == 1.0 else node * scale
    return node if isinstance(loc, float) and loc == 0.0 else node + loc


def _like(drawn: Any, x: Node[Any, S], *parameters: Number | Node, seed: int, stream: int | None) -> Node[Any, S]:
    """Return draws with the axes and the dtype of `x`."""
    node: Any = x if isinstance(x, BaseNode) else as_constant(x, None)
    dtype = None if is_weak(node.dtype) else node.dtype
    result: Any = drawn(node.dims, *parameters, dtype=dtype, seed=seed, stream=stream)
    return cast("Node[Any, S]", result)


@float_draw
def normal(
    dims: Any,
    /,
    loc: Number | Node = 0.0,
    scale: Number | Node = 1.0,
    *,
    dtype: DTypeLike | None = None,
    seed: int = 0,
    stream: int | None = None,
) -> Node:
    """Return draws of a normal distribution of mean `loc` and standard deviation `scale`, with the axes `dims`.

    Each step draws anew. The draws are a function of `seed`, `stream` and the step (see `wy.random.set_step`), the same
    in every engine; the default is a stream that no other node has. In `scan` and `while_loop` each step of the loop
    draws anew, and under `vmap` each row. The gradient goes to `loc` and `scale`, which are numbers or nodes whose axes
    broadcast to `dims`; it is zero with respect to the draws themselves. An axis without a size gets it from the data.
    The default `dtype` is that of `loc` and `scale`, else a weak one (see `wyrm.Constant`): beside floats of another
    type the draws are those of this stream in that type.

    Raise `ValueError` for a negative number as scale, `ShapeError` for parameters that do not broadcast to `dims`,
    `DTypeError` for another dtype. Compiled and other code give the same bits.

    >>> wy.random.set_step(0)
    >>> wy.random.normal((3,), dtype=np.float64, stream=0).forward().round(3).tolist()
    [-0.259, 0.991, -1.059]
    """
    return _located(StandardNormal, "random.normal", dims, loc, scale, dtype, seed, stream)


def normal_like(
    x: Node[Any, S], loc: Number | Node = 0.0, scale: Number | Node = 1.0, *, seed: int = 0, stream: int | None = None
) -> Node[Any, S]:
    """Return `normal` with the axes and the dtype of `x`.

    >>> wy.random.normal_like(wy.Constant(np.zeros((2, 3)))).shape
    (2, 3)
    """
    return _like(normal, x, loc, scale, seed=seed, stream=stream)


@float_draw
def laplace(
    dims: Any,
    /,
    loc: Number | Node = 0.0,
    scale: Number | Node = 1.0,
    *,
    dtype: DTypeLike | None = None,
    seed: int = 0,
    stream: int | None = None,
) -> Node:
    """Return draws of a Laplace distribution, of density `exp(-abs(x - loc) / scale) / (2 * scale)`; see `normal`.

    >>> wy.random.set_step(0)
    >>> wy.random.laplace((3,), dtype=np.float64, stream=0).forward().round(3).tolist()
    [-0.228, 1.134, -1.239]
    """
    return _located(StandardLaplace, "random.laplace", dims, loc, scale, dtype, seed, stream)


@float_draw
def gumbel(
    dims: Any,
    /,
    loc: Number | Node = 0.0,
    scale: Number | Node = 1.0,
    *,
    dtype: DTypeLike | None = None,
    seed: int = 0,
    stream: int | None = None,
) -> Node:
    """Return draws of a Gumbel distribution, `loc - scale * log(-log(uniform))`; they are finite. See `normal`.

    >>> wy.random.set_step(0)
    >>> wy.random.gumbel((3,), dtype=np.float64, stream=0).forward().round(3).tolist()
    [0.679, -0.603, 1.855]
    """
    return _located(StandardGumbel, "random.gumbel", dims, loc, scale, dtype, seed, stream)


@float_draw
def exponential(
    dims: Any,
    /,
    scale: Number | Node = 1.0,
    *,
    dtype: DTypeLike | None = None,
    seed: int = 0,
    stream: int | None = None,
) -> Node:
    """Return draws of an exponential distribution of mean `scale`, all above 0; see `normal`.

    >>> wy.random.set_step(0)
    >>> wy.random.exponential((3,), dtype=np.float64, stream=0).forward().round(3).tolist()
    [0.507, 1.827, 0.156]
    """
    return _located(StandardExponential, "random.exponential", dims, 0.0, scale, dtype, seed, stream)


@float_draw
def uniform(
    dims: Any,
    /,
    low: Number | Node = 0.0,
    high: Number | Node = 1.0,
    *,
    dtype: DTypeLike | None = None,
    seed: int = 0,
    stream: int | None = None,
) -> Node:
    """Return draws of the uniform distribution over [low, high); see `normal`.

    They are `low + (high - low) * u`, where u is a multiple of 2**-24 in float32 and of 2**-53 in float64. Raise
    `ValueError` for numbers with `high < low`.

    >>> wy.random.set_step(0)
    >>> wy.random.uniform((3,), dtype=np.float64, stream=0).forward().round(3).tolist()
    [0.398, 0.661, 0.145]
    """
    what, axes = "random.uniform", checked_axes("random.uniform", dims)
    low, high = checked_parameter(what, "low", low, axes), checked_parameter(what, "high", high, axes)
    if isinstance(low, float) and isinstance(high, float) and high < low:
        raise ValueError(f"{what}: high must be at least low, {low:g}, not {high:g}")
    return _located(StandardUniform, what, axes, low, high - low, dtype, seed, stream)


def uniform_like(
    x: Node[Any, S], low: Number | Node = 0.0, high: Number | Node = 1.0, *, seed: int = 0, stream: int | None = None
) -> Node[Any, S]:
    """Return `uniform` with the axes and the dtype of `x`.

    >>> wy.random.uniform_like(wy.Constant(np.zeros((2, 3)))).shape
    (2, 3)
    """
    return _like(uniform, x, low, high, seed=seed, stream=stream)


@float_draw
def bernoulli(dims: Any, /, probability: Number | Node = 0.5, *, seed: int = 0, stream: int | None = None) -> Node:
    """Return a mask of the axes `dims`, each element true with this probability; see `normal`.

    `probability` is a number in [0, 1] or a node whose axes broadcast to `dims`; it gets no gradient. An element of the
    node above 1 counts as 1, one below 0 as 0. Raise `ValueError` for a number outside [0, 1].

    >>> wy.random.set_step(0)
    >>> int(wy.random.bernoulli((1000,), 0.25, stream=0).forward().sum())
    247
    """
    what, axes = "random.bernoulli", checked_axes("random.bernoulli", dims)
    probability = checked_parameter(what, "probability", probability, axes, 0.0, 1.0)
    drawn = draw(StandardUniform, what, axes, float_dtype(what, None, probability), seed, stream)
    mask: Node = drawn < probability
    return mask


def categorical(logits: Node[Any, tuple[*Bs, N]], *, seed: int = 0, stream: int | None = None) -> IndexNode[tuple[*Bs]]:
    """Return draws of a categorical distribution: positions of the last axis, with probabilities `softmax(logits)`.

    The result has the other axes of `logits`. A logit of -inf is never drawn, unless all are. For several draws from
    each distribution, broadcast the logits. See `normal` for `seed` and `stream`. This is the Gumbel-max trick.

    Raise `ShapeError` for logits without axes.

    >>> wy.random.set_step(0)
    >>> logits = wy.Constant([[0.0, -np.inf, 0.0], [-np.inf, 0.0, -np.inf]])
    >>> wy.random.categorical(logits, stream=0).forward().tolist()
    [2, 1]
    """
    what, node = "random.categorical", cast(Any, logits)
    if isinstance(node, np.ndarray | list):
        node = Constant(np.asarray(node, number_dtype(())))
    if not isinstance(node, Node) or node.dtype.kind != "f":
        found = describe(node) if isinstance(node, BaseNode) else type(node).__name__
        raise DTypeError(f"{what}: logits must be a float node, not {found}")
    if not node.dims:
        raise ShapeError(f"{what}: {describe(node)} is a scalar; logits need an axis with an element for each category")
    noise = draw(StandardGumbel, what, node.dims, node.dtype, seed, stream)
    drawn: IndexNode[tuple[*Bs]] = (node + noise).argmax(axis=-1)
    return drawn


@index_draw
def randint(dims: Any, /, low: int, high: int, *, seed: int = 0, stream: int | None = None) -> IndexNode:
    """Return draws of integers in [low, high), all equally likely, with the axes `dims`; see `normal`.

    Raise `ValueError` unless `low < high` and `high - low` is at most 2**32.

    >>> wy.random.set_step(0)
    >>> wy.random.randint((5,), 1, 7, stream=0).forward().tolist()
    [3, 4, 1, 5, 2]
    """
    what, axes = "random.randint", checked_axes("random.randint", dims)
    for name, bound in (("low", low), ("high", high)):
        if not hasattr(type(bound), "__index__"):
            raise DTypeError(f"{what}: {name} must be an integer, as in {what}((2, 3), 0, 10), not {bound!r}")
    low, high = operator.index(low), operator.index(high)
    if not 0 < high - low <= 2**32:
        raise ValueError(f"{what}: high - low must be in [1, 2**32], not {high - low}: low is {low}, high {high}")
    if low < -(2**63) or high > 2**63:
        raise ValueError(f"{what}: {low} and {high} must be integers of 64 bits")
    return RandomInteger(key_of(what, seed, stream), axes, low, high - low)


@index_draw
def permutation(dims: Any, /, *, seed: int = 0, stream: int | None = None) -> IndexNode:
    """Return random permutations of the positions of the last axis of `dims`, one for each index of the others.

    With one axis it is a single permutation: `x.take(wy.random.permutation(x.dims[:1]), axis=0)` shuffles rows. See
    `normal` for `seed` and `stream`. Raise `ShapeError` without an axis.

    >>> wy.random.set_step(0)
    >>> wy.random.permutation((5,), stream=0).forward().tolist()
    [2, 4, 3, 0, 1]
    """
    what = "random.permutation"
    return RandomPermutation(key_of(what, seed, stream), checked_axes(what, dims))


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

    All engines draw the same, but for the last digits of a number: they decide in float64, also where JAX has no 64-bit
    types enabled.

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
