"""Attention of queries to the keys and values of another sequence, with the axes of PyTorch's function."""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import axis_size, product, unify
from wyrm.graph.base import describe, format_dims, label
from wyrm.graph.leaves import as_constant
from wyrm.graph.node import Node, Tensor
from wyrm.graph.typing import A, Array, Bs, D, K, M, N
from wyrm.graph.weak_types import in_one_type
from wyrm.ops.attention.attention import attend
from wyrm.ops.elementwise.comparison import where
from wyrm.support.foreign_names import explains_keywords

# The axis of fewer heads.
G = TypeVar("G")


@overload
def scaled_dot_product_attention(
    query: Tensor[*Bs, M, D],
    key: Tensor[*Bs, N, D],
    value: Tensor[*Bs, N, K],
    mask: Node | Array | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    dropout_rate: float = 0.0,
    seed: int = 0,
) -> Tensor[*Bs, M, K]: ...
@overload
def scaled_dot_product_attention(
    query: Tensor[*Bs, A, M, D],
    key: Tensor[*Bs, G, N, D],
    value: Tensor[*Bs, G, N, K],
    mask: Node | Array | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    dropout_rate: float = 0.0,
    seed: int = 0,
) -> Tensor[*Bs, A, M, K]: ...
@explains_keywords
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Node | Array | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    dropout_rate: float = 0.0,
    seed: int = 0,
) -> Any:
    """Return `softmax(query @ key.T * scale) @ value` over the last two axes, as PyTorch's function of this name.

    `query` has the axes (..., heads, queries, features), `key` (..., heads, keys, features), `value` (..., heads, keys,
    columns) and the result (..., heads, queries, columns). The keys and values may have fewer heads, by a factor: each
    then serves as many consecutive heads of the queries (Ainslie et al., "GQA", 2023). `scale` is
    `1 / sqrt(features)` by default.

    `mask` broadcasts to (..., heads, queries, keys): a bool mask is true where a query may attend to a key, a float one
    is added to the scores. With `is_causal`, query i attends to keys 0 to i. A query that may attend to no key gets
    zeros. `dropout_rate` is the probability of dropping an attention weight, with random numbers of `seed`. As in
    `wyrm.attention`, no array holds the scores, unless they are of few queries to another sequence; keys and values of
    fewer heads are read where they are.

    Raise `ShapeError` for axes that do not match, or without the sizes that they need, `DTypeError` for operands of
    other dtypes, and `ValueError` for a `dropout_rate` outside [0, 1).

    >>> query, key = wy.Constant(np.ones((1, 2, 3, 4))), wy.Constant(np.ones((1, 2, 5, 4)))
    >>> wy.scaled_dot_product_attention(query, key, key).forward().shape
    (1, 2, 3, 4)
    """
    query, key, value = in_one_type(query, key, value)
    _check_operands(query, key, value)
    allowed = bias = None
    if mask is not None:
        given = _mask(mask if isinstance(mask, Node) else as_constant(mask, _mask_dtype(mask, query)), query, key)
        allowed, bias = (given, None) if given.dtype.kind != "f" else (given > -math.inf, given)
        bias = bias if bias is None else where(allowed, bias, 0.0)
    parts = [_of_four_axes(node).transpose(0, 2, 1, 3) for node in (query, key, value)]
    found: Any = attend(
        "scaled_dot_product_attention", parts, allowed, bias, causal=is_causal, scale=scale, dropout_rate=dropout_rate,
        seed=seed,
    ).transpose(0, 2, 1, 3)  # fmt: skip
    return found if query.ndim == 4 else found.reshape((*query.dims[:-1], value.dims[-1]))


def _of_four_axes(x: Node) -> Any:
    """Return `x` with the axes (batch, heads, rows, columns)."""
    if x.ndim == 4:
        return x
    rank = min(x.ndim, 3)
    axes: Any = (product(x.dims[:-rank]), *(1,) * (3 - rank), *x.dims[-rank:])
    return x.reshape(axes)


def _mask(mask: Node, query: Node, key: Node) -> Node:
    """Return a mask of the axes (batch, heads, queries, keys), the first three of which may have size 1."""
    if mask.ndim > query.ndim:
        raise ShapeError(
            f"scaled_dot_product_attention: a mask has at most the {query.ndim} axes (..., heads, queries, keys), not "
            f"{format_dims(mask.dims)}"
        )
    dims: list[Any] = [*(1,) * (query.ndim - mask.ndim), *mask.dims]
    wide = [*dims[:-1], key.dims[-2]] if axis_size(dims[-1]) == 1 else [*dims]
    if any(axis_size(axis) != 1 for axis in dims[:-3]):  # the axes before the last three become one
        wide[:-3] = query.dims[:-3]
    of_heads: Node = _of_four_axes(mask.reshape(dims).broadcast_to(wide) if wide != dims else mask.reshape(dims))
    return of_heads


def _check_operands(query: Node, key: Node, value: Node) -> None:
    """Raise an error for operands that do not match."""
    rank = query.ndim
    for node in (query, key, value):
        if node.ndim != rank or rank < 2:
            raise ShapeError(
                "scaled_dot_product_attention: query, key and value must have the same number of axes, at least two: "
                f"{describe(query)}, {describe(key)} and {describe(value)}"
            )
        if node.dtype != query.dtype or node.dtype.kind != "f":
            raise DTypeError(f"scaled_dot_product_attention: {label(node)} is {node.dtype}; convert it with .astype")
    heads, shared = (axis_size(node.dims[-3]) if rank > 2 else None for node in (query, key))
    common = -2
    if heads is not None and shared is not None and heads != shared:
        common = -3
        if shared == 0 or heads % shared:
            raise ShapeError(
                f"scaled_dot_product_attention: the {heads} heads of {describe(query)} are no multiple of the {shared} "
                f"heads of {describe(key)}"
            )
    pairs = [*zip(query.dims[:common], key.dims[:common], strict=True), (query.dims[-1], key.dims[-1])]
    pairs += zip(key.dims[:-1], value.dims[:-1], strict=True)
    try:
        for one, other in pairs:
            unify(one, other)
    except ShapeError as error:
        raise ShapeError(
            f"scaled_dot_product_attention: the axes of query {format_dims(query.dims)}, key {format_dims(key.dims)} "
            f"and value {format_dims(value.dims)} do not match: {error}"
        ) from None


def _mask_dtype(mask: Array, query: Node) -> np.dtype:
    dtype: np.dtype = np.dtype(np.bool_) if np.asarray(mask).dtype.kind == "b" else query.dtype
    return dtype


__all__ = ["scaled_dot_product_attention"]
