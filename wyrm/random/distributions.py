"""Random nodes: draws of common distributions as nodes of the graph."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, cast, overload

import numpy as np
from numpy.typing import DTypeLike

from wyrm.errors import DTypeError, ShapeError
from wyrm.functions.tracing import number_dtype
from wyrm.graph.axes import Dims, axis_size, broadcast
from wyrm.graph.base import BaseNode, describe, format_dims
from wyrm.graph.leaves import Constant, as_constant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.storage import declared_dims
from wyrm.graph.typing import D1, D2, D3, D4, AxisOf, Bs, N, NewDims, Number, Size, Sizes
from wyrm.graph.weak_types import FLOATS, chosen, default_type, is_weak
from wyrm.ops.elementwise.elementwise import S
from wyrm.ops.random.draws import (
    RandomInteger,
    RandomPermutation,
    StandardExponential,
    StandardGumbel,
    StandardLaplace,
    StandardNormal,
    StandardUniform,
    key_for,
)
from wyrm.ops.random.philox import stream_or_next
from wyrm.support.foreign_names import answering
from wyrm.support.options import integer

P = ParamSpec("P")


class FloatDraw(Protocol, Generic[P]):
    """A function that returns a node of the given axes; an axis without a size gets it from the data."""

    @overload
    def __call__(self, dims: Sizes, /, *args: P.args, **options: P.kwargs) -> Node: ...
    @overload
    def __call__(self, dims: tuple[()], /, *args: P.args, **options: P.kwargs) -> Node[Any, tuple[()]]: ...
    @overload
    def __call__(self, dims: Size, /, *args: P.args, **options: P.kwargs) -> Node[Any, tuple[Any]]: ...
    @overload
    def __call__(self, dims: tuple[AxisOf[D1]], /, *args: P.args, **options: P.kwargs) -> Node[Any, tuple[D1]]: ...
    @overload
    def __call__(
        self, dims: tuple[AxisOf[D1], AxisOf[D2]], /, *args: P.args, **options: P.kwargs
    ) -> Node[Any, tuple[D1, D2]]: ...
    @overload
    def __call__(
        self, dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3]], /, *args: P.args, **options: P.kwargs
    ) -> Node[Any, tuple[D1, D2, D3]]: ...
    @overload
    def __call__(
        self, dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3], AxisOf[D4]], /, *args: P.args, **options: P.kwargs
    ) -> Node[Any, tuple[D1, D2, D3, D4]]: ...
    @overload
    def __call__(self, dims: NewDims, /, *args: P.args, **options: P.kwargs) -> Node[Any, NewDims]: ...


class IndexDraw(Protocol, Generic[P]):
    """A function that returns an index node of the given axes; an axis without a size gets it from the data."""

    @overload
    def __call__(self, dims: Sizes, /, *args: P.args, **options: P.kwargs) -> IndexNode: ...
    @overload
    def __call__(self, dims: tuple[()], /, *args: P.args, **options: P.kwargs) -> IndexNode[tuple[()]]: ...
    @overload
    def __call__(self, dims: Size, /, *args: P.args, **options: P.kwargs) -> IndexNode[tuple[Any]]: ...
    @overload
    def __call__(self, dims: tuple[AxisOf[D1]], /, *args: P.args, **options: P.kwargs) -> IndexNode[tuple[D1]]: ...
    @overload
    def __call__(
        self, dims: tuple[AxisOf[D1], AxisOf[D2]], /, *args: P.args, **options: P.kwargs
    ) -> IndexNode[tuple[D1, D2]]: ...
    @overload
    def __call__(
        self, dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3]], /, *args: P.args, **options: P.kwargs
    ) -> IndexNode[tuple[D1, D2, D3]]: ...
    @overload
    def __call__(
        self, dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3], AxisOf[D4]], /, *args: P.args, **options: P.kwargs
    ) -> IndexNode[tuple[D1, D2, D3, D4]]: ...
    @overload
    def __call__(self, dims: NewDims, /, *args: P.args, **options: P.kwargs) -> IndexNode[NewDims]: ...


def _float_draw(function: Callable[Concatenate[Any, P], Node]) -> FloatDraw[P]:
    """Declare that the axes of the result are the first argument."""
    return cast(FloatDraw[P], answering(function))


def _index_draw(function: Callable[Concatenate[Any, P], IndexNode]) -> IndexDraw[P]:
    """Declare that the axes of the result are the first argument."""
    return cast(IndexDraw[P], answering(function))


# --- arguments --------------------------------------------------------------------------------------------------------


def _float_dtype(what: str, dtype: DTypeLike | None, *parameters: object) -> np.dtype:
    """Return the dtype of a draw: as given, else that of the parameters, else a weak one."""
    found = None if dtype is None else chosen(np.dtype(dtype))
    nodes = [parameter for parameter in parameters if isinstance(parameter, BaseNode)]
    for parameter in sorted(nodes, key=lambda node: is_weak(node.dtype)):
        if found is not None and found != parameter.dtype and not is_weak(parameter.dtype):
            raise DTypeError(f"{what}: dtype is {found}, but {describe(parameter)} is a parameter of it")
        found = found or parameter.dtype
    found = found or default_type()
    if found not in FLOATS:
        raise DTypeError(f"{what}: dtype must be float32 or float64, not {found}")
    return found


def _parameter(
    what: str, name: str, value: object, dims: Dims, least: float = -math.inf, most: float = math.inf
) -> Any:
    """Return a parameter: a node whose axes broadcast to `dims`, or a finite number in [least, most]."""
    if isinstance(value, BaseNode):
        node: Any = value
        result = broadcast(dims, node.dims)
        if len(result) != len(dims) or any(
            axis_size(a) not in (None, axis_size(b)) for a, b in zip(dims, result, strict=True)
        ):
            raise ShapeError(
                f"{what}: {name} is {describe(node)}, which has axes that the draws, {format_dims(dims)}, have not"
            )
        return node
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise DTypeError(f"{what}: {name} must be a number or a node, not {type(value).__name__}")
    if not (math.isfinite(value) and least <= value <= most):
        bounds = "finite" if least == -math.inf else f"finite and at least {least:g}" if most == math.inf else None
        raise ValueError(f"{what}: {name} must be {bounds or f'in [{least:g}, {most:g}]'}, not {value}")
    return float(value)


def _drawn(op: Any, what: str, dims: Any, dtype: np.dtype, seed: int, stream: int | None) -> Any:
    return op(_key(what, seed, stream), _axes(what, dims), dtype)


def _axes(what: str, dims: Any) -> Dims:
    if dims is None:
        raise ShapeError(f"{what}: dims must be the axes of the draws, such as (Batch(), 8), not None")
    if isinstance(dims, BaseNode | np.ndarray):
        found = describe(dims) if isinstance(dims, BaseNode) else "an array"
        raise TypeError(f"{what}: the axes of the draws come first, as in {what}(x.dims), not {found}")
    if isinstance(dims, float):
        raise TypeError(f"{what}: the axes of the draws come first, as in {what}((2, 3)), not {dims}")
    return declared_dims(None, dims, True, what)


def _key(what: str, seed: int, stream: int | None) -> Any:
    return key_for(integer(f"{what}: seed", seed), stream_or_next(stream))


def _located(
    op: Any, what: str, dims: Any, loc: Any, scale: Any, dtype: DTypeLike | None, seed: int, stream: int | None
) -> Node:
    """Return `loc + scale * draw`."""
    axes = _axes(what, dims)
    loc = _parameter(what, "loc", loc, axes)
    scale = _parameter(what, "scale", scale, axes, 0.0)
    node: Node = op(_key(what, seed, stream), axes, _float_dtype(what, dtype, loc, scale))
    node = node if isinstance(scale, float) and scale == 1.0 else node * scale
    return node if isinstance(loc, float) and loc == 0.0 else node + loc


# --- distributions ----------------------------------------------------------------------------------------------------


@_float_draw
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
    node: Any = x if isinstance(x, BaseNode) else as_constant(x, None)
    dtype = None if is_weak(node.dtype) else node.dtype
    result: Any = normal(node.dims, loc, scale, dtype=dtype, seed=seed, stream=stream)
    return cast("Node[Any, S]", result)


@_float_draw
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


@_float_draw
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


@_float_draw
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


@_float_draw
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
    what, axes = "random.uniform", _axes("random.uniform", dims)
    low, high = _parameter(what, "low", low, axes), _parameter(what, "high", high, axes)
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
    node: Any = x if isinstance(x, BaseNode) else as_constant(x, None)
    dtype = None if is_weak(node.dtype) else node.dtype
    result: Any = uniform(node.dims, low, high, dtype=dtype, seed=seed, stream=stream)
    return cast("Node[Any, S]", result)


@_float_draw
def bernoulli(dims: Any, /, probability: Number | Node = 0.5, *, seed: int = 0, stream: int | None = None) -> Node:
    """Return a mask of the axes `dims`, each element true with this probability; see `normal`.

    `probability` is a number in [0, 1] or a node whose axes broadcast to `dims`; it gets no gradient. An element of the
    node above 1 counts as 1, one below 0 as 0. Raise `ValueError` for a number outside [0, 1].

    >>> wy.random.set_step(0)
    >>> int(wy.random.bernoulli((1000,), 0.25, stream=0).forward().sum())
    247
    """
    what, axes = "random.bernoulli", _axes("random.bernoulli", dims)
    probability = _parameter(what, "probability", probability, axes, 0.0, 1.0)
    drawn = _drawn(StandardUniform, what, axes, _float_dtype(what, None, probability), seed, stream)
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
    noise = _drawn(StandardGumbel, what, node.dims, node.dtype, seed, stream)
    drawn: IndexNode[tuple[*Bs]] = (node + noise).argmax(axis=-1)
    return drawn


@_index_draw
def randint(dims: Any, /, low: int, high: int, *, seed: int = 0, stream: int | None = None) -> IndexNode:
    """Return draws of integers in [low, high), all equally likely, with the axes `dims`; see `normal`.

    Raise `ValueError` unless `low < high` and `high - low` is at most 2**32.

    >>> wy.random.set_step(0)
    >>> wy.random.randint((5,), 1, 7, stream=0).forward().tolist()
    [3, 4, 1, 5, 2]
    """
    what, axes = "random.randint", _axes("random.randint", dims)
    for name, bound in (("low", low), ("high", high)):
        if not hasattr(type(bound), "__index__"):
            raise DTypeError(f"{what}: {name} must be an integer, as in {what}((2, 3), 0, 10), not {bound!r}")
    low, high = operator.index(low), operator.index(high)
    if not 0 < high - low <= 2**32:
        raise ValueError(f"{what}: high - low must be in [1, 2**32], not {high - low}: low is {low}, high {high}")
    if low < -(2**63) or high > 2**63:
        raise ValueError(f"{what}: {low} and {high} must be integers of 64 bits")
    return RandomInteger(_key(what, seed, stream), axes, low, high - low)


@_index_draw
def permutation(dims: Any, /, *, seed: int = 0, stream: int | None = None) -> IndexNode:
    """Return random permutations of the positions of the last axis of `dims`, one for each index of the others.

    With one axis it is a single permutation: `x.take(wy.random.permutation(x.dims[:1]), axis=0)` shuffles rows. See
    `normal` for `seed` and `stream`. Raise `ShapeError` without an axis.

    >>> wy.random.set_step(0)
    >>> wy.random.permutation((5,), stream=0).forward().tolist()
    [2, 4, 3, 0, 1]
    """
    what = "random.permutation"
    return RandomPermutation(_key(what, seed, stream), _axes(what, dims))


__all__ = [
    "bernoulli",
    "categorical",
    "exponential",
    "gumbel",
    "laplace",
    "normal",
    "normal_like",
    "permutation",
    "randint",
    "uniform",
    "uniform_like",
]
