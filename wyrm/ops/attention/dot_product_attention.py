"""Attention of queries to the keys and values of another sequence, composed of products and a softmax."""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import axis_size, product, unify
from wyrm.graph.base import describe, format_dims, label
from wyrm.graph.leaves import Constant, as_constant
from wyrm.graph.node import Node, Tensor
from wyrm.graph.typing import A, Array, Bs, D, K, M, N
from wyrm.graph.weak_types import in_one_type
from wyrm.ops.attention.attention import MASKED_SCORE
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.random.dropout_mask import check_rate
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
    zeros. `dropout_rate` is the probability of dropping an attention weight, with random numbers of `seed`. For
    self-attention, `wyrm.attention` is fused and needs no memory for the scores.

    Raise `ShapeError` for axes that do not match, or without the sizes that they need, `DTypeError` for operands of
    other dtypes, and `ValueError` for a `dropout_rate` outside [0, 1).

    >>> query, key = wy.Constant(np.ones((1, 2, 3, 4))), wy.Constant(np.ones((1, 2, 5, 4)))
    >>> wy.scaled_dot_product_attention(query, key, key).forward().shape
    (1, 2, 3, 4)
    """
    check_rate("scaled_dot_product_attention", query, dropout_rate, "dropout_rate")
    query, key, value = in_one_type(query, key, value)
    groups = _groups(query, key, value)
    features, keys = axis_size(query.dims[-1]), key.dims[-2]
    if scale is None:
        if not features:
            raise ShapeError(
                f"scaled_dot_product_attention: the last axis of {describe(query)} needs a size of at least 1, or give "
                f"the scale"
            )
        scale = 1.0 / math.sqrt(features)
    # The heads that share keys and values become rows of one product.
    *outer, queries, _ = query.dims
    rows = query if groups == 1 else query.reshape((*key.dims[:-2], product((groups, queries)), query.dims[-1]))
    scores = ((rows * scale) @ key.matrix_transpose()).reshape((*outer, queries, keys))
    allowed = _causal_mask(queries, keys) if is_causal else None
    if mask is not None:
        given = mask if isinstance(mask, Node) else as_constant(mask, _mask_dtype(mask, scores))
        if given.dtype.kind == "f":
            bias, given = given, given > -math.inf
            scores = scores + where(given, bias, 0.0)
        allowed = given if allowed is None else allowed & given
    weights = (scores if allowed is None else where(allowed, scores, MASKED_SCORE)).softmax()
    if allowed is not None:
        weights = where(allowed, weights, 0.0)
    if dropout_rate > 0.0:
        weights = weights.dropout(dropout_rate, seed)
    if groups > 1:
        weights = weights.reshape((*key.dims[:-2], product((groups, queries)), keys))
    return (weights @ value).reshape((*outer, queries, value.dims[-1]))


def _groups(query: Node, key: Node, value: Node) -> int:
    """Return how many heads of the queries share a head of the keys; raise an error for operands that do not match."""
    rank = query.ndim
    for node in (query, key, value):
        if node.ndim != rank or rank < 2:
            raise ShapeError(
                "scaled_dot_product_attention: query, key and value must have the same number of axes, at least two: "
                f"{describe(query)}, {describe(key)} and {describe(value)}"
            )
        if node.dtype != query.dtype or node.dtype.kind != "f":
            raise DTypeError(f"scaled_dot_product_attention: {label(node)} is {node.dtype}; convert it with .astype")
    groups = 1
    heads, shared = (axis_size(node.dims[-3]) if rank > 2 else None for node in (query, key))
    if heads is not None and shared is not None and heads != shared:
        if shared == 0 or heads % shared:
            raise ShapeError(
                f"scaled_dot_product_attention: the {heads} heads of {describe(query)} are no multiple of the {shared} "
                f"heads of {describe(key)}"
            )
        groups = heads // shared
    common = slice(None, -2 if groups == 1 else -3)
    pairs = [*zip(query.dims[common], key.dims[common], strict=True), (query.dims[-1], key.dims[-1])]
    pairs += zip(key.dims[:-1], value.dims[:-1], strict=True)
    try:
        for one, other in pairs:
            unify(one, other)
    except ShapeError as error:
        raise ShapeError(
            f"scaled_dot_product_attention: the axes of query {format_dims(query.dims)}, key {format_dims(key.dims)} "
            f"and value {format_dims(value.dims)} do not match: {error}"
        ) from None
    return groups


def _mask_dtype(mask: Array, scores: Node) -> np.dtype:
    dtype: np.dtype = np.dtype(np.bool_) if np.asarray(mask).dtype.kind == "b" else scores.dtype
    return dtype


def _causal_mask(queries: Any, keys: Any) -> Node:
    """Return the mask of keys up to the position of each query."""
    rows, columns = axis_size(queries), axis_size(keys)
    if rows is None or columns is None:
        raise ShapeError(
            f"scaled_dot_product_attention: is_causal needs axes with sizes, not {format_dims((queries, keys))}; "
            f"wy.attention needs none"
        )
    axes: Any = queries, keys
    return Constant(np.tri(rows, columns, dtype=np.bool_), axes)


__all__ = ["scaled_dot_product_attention"]
