"""Multi-head attention, and encodings of positions: vectors added to a sequence, rotations of queries and keys."""

from __future__ import annotations

from typing import Any, Generic, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dim, axis_size, product
from wyrm.graph.base import describe
from wyrm.graph.leaves import as_constant, constant_beside
from wyrm.graph.modes import record_evaluation_mode, record_training_mode
from wyrm.graph.node import Node, Tensor
from wyrm.graph.parameters import Parameter
from wyrm.graph.typing import S2, A, BoolArray, D, DTypeLike, K, N, Unnamed
from wyrm.module import Module
from wyrm.nn.axes import Axes, B, M, T, Width, sized_axis
from wyrm.nn.dropout import Dropout
from wyrm.nn.embedding import Embedding
from wyrm.nn.initializers import Initializer, Normal
from wyrm.nn.linear import Linear
from wyrm.ops.attention.attention import attention
from wyrm.ops.attention.dot_product_attention import scaled_dot_product_attention
from wyrm.ops.indexing.joining import concatenate
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import whole

# The axis of the keys.
Keys = TypeVar("Keys", default=Any)

_WEIGHT = Normal(0.02)


class MultiHeadAttention(Module, Generic[Width]):
    """Attention with `num_heads` heads of `embed_dim / num_heads` features each, to the sequence itself by default.

    Maps (batch, time, embed_dim) to the same axes. `qkv` projects to the queries, keys and values of all heads,
    `out_proj` projects the concatenated results of the heads. With `causal`, a position attends to itself and earlier
    positions. `alibi` subtracts a penalty from the scores that grows with the distance, `rotary` rotates queries and
    keys (see `wyrm.nn.rotary_embedding`). While `training`, `dropout` is the rate for the attention weights. See
    `wyrm.attention` for the formulas.

    With `num_key_value_heads`, a divisor of `num_heads`, keys and values have fewer heads, each for as many consecutive
    heads of the queries (Ainslie et al., "GQA", 2023). `qkv` then maps to (num_heads + 2 * num_key_value_heads) times
    the features of a head. `num_heads` may be a `Dim` with a size, whose class then names the axis of the heads.

    Raise `ShapeError` where `embed_dim` is not divisible by `num_heads`, or that by `num_key_value_heads`, `ValueError`
    for a rate outside [0, 1).

    >>> layer = MultiHeadAttention(8, num_heads=2, causal=False)
    >>> x, memory = wy.Input(dims=(3, 5, 8)), wy.Input(dims=(3, 7, 8))
    >>> layer(x).shape, layer(x, key=memory).shape
    ((3, 5, 8), (3, 5, 8))
    """

    qkv: Linear[Width]
    out_proj: Linear[Any, Width]

    def __init__(
        self: MultiHeadAttention[M],
        embed_dim: M | Unnamed[M],
        num_heads: Dim | int,
        *,
        num_key_value_heads: int | None = None,
        causal: bool = True,
        alibi: bool = False,
        rotary: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
        initializer: Initializer = _WEIGHT,
        output_initializer: Initializer | None = None,
        dropout_seed: int = 0,
        dtype: DTypeLike = np.float32,
    ) -> None:
        size = int(sized_axis("MultiHeadAttention", "embed_dim", embed_dim))
        heads = sized_axis("MultiHeadAttention", "num_heads", num_heads)
        count = int(heads)
        if count < 1 or size % count:
            raise ShapeError(f"MultiHeadAttention: embed_dim {size} is not divisible by num_heads {count}")
        shared = count
        if num_key_value_heads is not None:
            shared = whole("MultiHeadAttention: num_key_value_heads", num_key_value_heads, 1, ShapeError)
        if count % shared:
            raise ShapeError(f"MultiHeadAttention: num_heads {count} is not divisible by num_key_value_heads {shared}")
        self.num_heads: int = count
        self.num_key_value_heads: int = shared
        self.heads: Axis = heads
        self.causal = causal
        self.alibi = alibi
        self.rotary = rotary
        self.dropout: Dropout = Dropout(dropout, dropout_seed)
        out = output_initializer or initializer
        features = size // count
        projected: Any = product((3, heads, features)) if shared == count else size + 2 * shared * features
        concatenated: Any = product((heads, features))
        self.qkv = Linear(embed_dim, projected, bias=bias, initializer=initializer, dtype=dtype)
        self.out_proj = Linear(concatenated, embed_dim, bias=bias, initializer=out, dtype=dtype)

    @overload
    def __call__(
        self,
        x: Tensor[B, T, Width],
        mask: Tensor[B, T, T] | BoolArray | None = None,
        *,
        key_mask: Tensor[B, T] | BoolArray | None = None,
    ) -> Tensor[B, T, Width]: ...
    @overload
    def __call__(
        self,
        x: Tensor[B, T, Width],
        mask: Tensor[B, T, Keys] | BoolArray | None = None,
        *,
        key: Tensor[B, Keys, Width],
        value: Tensor[B, Keys, Width] | None = None,
        key_mask: Tensor[B, Keys] | BoolArray | None = None,
    ) -> Tensor[B, T, Width]: ...
    @explains_keywords
    def __call__(
        self,
        x: Any,
        mask: Node | BoolArray | None = None,
        *,
        key: Node | None = None,
        value: Node | None = None,
        key_mask: Node | BoolArray | None = None,
    ) -> Any:
        """Return the attention of `x` to itself or to `key`, of the axes of `x`.

        `key`, of the axes (batch, keys, embed_dim), is the sequence to attend to, and `value` of the same axes, by
        default `key`, the one whose values are summed. `mask` has the axes (batch, queries, keys) and is true where a
        query may attend to a key; `key_mask`, of the axes (batch, keys), is true for keys that are no padding. A query
        that may attend to no key gets the bias of `out_proj`.

        Raise `ShapeError` for other axes, `ValueError` for a `key` in a layer with `causal`, `alibi` or `rotary`, which
        compare positions in one sequence, and for a `value` without a `key`.
        """
        for name, node in (("", x), ("key ", key), ("value ", value)):
            if node is not None and len(node.dims) != 3:
                raise ShapeError(
                    f"MultiHeadAttention takes {name}the axes (batch, time, embed_dim), not {describe(node)}"
                )
        if key is None and value is not None:
            raise ValueError("MultiHeadAttention: a value needs a key, the sequence that it belongs to")
        allowed = _joined_mask(mask, key_mask)
        rate = self.dropout.rate if self.training else 0.0
        if not self.training and self.dropout.rate > 0.0:
            record_evaluation_mode(self)
        if key is None:
            qkv = self._projected(x)
            heads: Any = attention(
                qkv, allowed, causal=self.causal, alibi=self.alibi, dropout_rate=rate, seed=self.dropout.seed
            )
        else:
            heads = self._cross(x, key, key if value is None else value, allowed, rate)
        if rate > 0.0:
            record_training_mode(heads, self)
        axes: Any = x.dims
        concatenated: Node = heads.reshape((*axes[:2], self.out_proj.weight.dims[0]))
        return self.out_proj(concatenated)

    def _projected(self, x: Node) -> Any:
        """Return queries, keys and values, (batch, time, 3, heads, features)."""
        axes: Any = x.dims
        batch, time, _ = axes
        size, count, shared = int(self.out_proj.weight.shape[0]), self.num_heads, self.num_key_value_heads
        features = size // count
        qkv: Any = self.qkv(x)
        if shared == count:
            qkv = qkv.reshape((batch, time, 3, self.heads, features))
        else:
            repeated = qkv[:, :, size:].reshape((batch, time, 2, shared, 1, features))
            repeated = repeated.broadcast_to((batch, time, 2, shared, count // shared, features))
            queries = qkv[:, :, :size].reshape((batch, time, 1, count, features))
            qkv = concatenate([queries, repeated.reshape((batch, time, 2, count, features))], axis=2)
        return rotary_embedding(qkv) if self.rotary else qkv

    def _cross(self, x: Node, key: Node, value: Node, mask: Node | None, rate: float) -> Node:
        """Return the results of the heads for queries of `x`, (batch, time, heads, features)."""
        for name in ("causal", "alibi", "rotary"):
            if getattr(self, name):
                raise ValueError(
                    f"MultiHeadAttention: {name} compares positions in one sequence; for a key of another sequence, "
                    f"make the layer with {name}=False"
                )
        size = int(self.out_proj.weight.shape[0])
        features, shared = size // self.num_heads, self.num_key_value_heads
        width = shared * features
        weight: Any = self.qkv.weight
        bias: Any = self.qkv.bias
        parts: list[Node] = []
        for source, start, count in ((x, 0, self.num_heads), (key, size, shared), (value, size + width, shared)):
            columns = slice(start, start + count * features)
            projected: Any = source @ weight[:, columns]
            if bias is not None:
                projected = projected + bias[columns]
            axes: Any = source.dims
            parts.append(projected.reshape((*axes[:2], count, features)).transpose(0, 2, 1, 3))
        queries, keys, values = parts
        every = None if mask is None else mask.expand_dims(1)
        result: Node = scaled_dot_product_attention(
            queries, keys, values, every, dropout_rate=rate, seed=self.dropout.seed
        )
        return result.transpose(0, 2, 1, 3)


def _joined_mask(mask: Node | BoolArray | None, key_mask: Node | BoolArray | None) -> Any:
    """Return both masks as one of the axes (batch, queries, keys), where queries may have size 1."""
    nodes = [x if x is None or isinstance(x, Node) else as_constant(x, np.asarray(x).dtype) for x in (mask, key_mask)]
    one, other = nodes
    if other is None:
        return one
    if len(other.dims) != 2:
        raise ShapeError(f"MultiHeadAttention: key_mask must have the axes (batch, keys), not {describe(other)}")
    every: Node = other.expand_dims(1)
    return every if one is None else one & every


# The longest wavelength, divided by 2 pi (Vaswani et al., 2017).
_MAX_WAVELENGTH = 10_000.0


def _time(caller: str, x: Node, axis: int, maximum: int | None = None) -> int:
    """Return the size of the time axis of `x`."""
    size = axis_size(x.dims[axis])
    if size is None:
        raise ShapeError(f"{caller}: the time axis of {describe(x)} needs a size; give it one, as in Time(128)")
    if maximum is not None and size > maximum:
        raise ShapeError(f"{caller}: the sequence has {size} positions, more than num_positions, {maximum}")
    return size


class LearnedPositionalEncoding(Module):
    """Adds a learned vector to each position of a sequence, (..., time, embed_dim).

    `weight` has the axes (num_positions, embed_dim). Raise `ShapeError` for a sequence longer than `num_positions`.

    >>> LearnedPositionalEncoding(10, 4)(wy.Input(dims=(2, 3, 4))).shape
    (2, 3, 4)
    """

    def __init__(
        self,
        num_positions: int,
        embed_dim: Dim | int,
        *,
        initializer: Initializer = _WEIGHT,
        dtype: DTypeLike = np.float32,
    ) -> None:
        self.num_positions: int = int(sized_axis("LearnedPositionalEncoding", "num_positions", num_positions))
        self.weight: Parameter[tuple[Any, Dim]] = Embedding(
            self.num_positions, embed_dim, initializer=initializer, dtype=dtype
        ).weight

    def __call__(self, x: Tensor[*Axes]) -> Tensor[*Axes]:
        """Return `x` plus the vectors of its positions, of the axes of `x`."""
        time = _time("LearnedPositionalEncoding", x, -2, self.num_positions)
        vectors: Any = self.weight if time == self.num_positions else self.weight[:time]
        result: Tensor[*Axes] = x + vectors
        return result


def _angles(time: int, pairs: int) -> NDArray[np.float64]:
    """Return the angle of each position at each frequency, (time, pairs)."""
    frequencies = _MAX_WAVELENGTH ** (-np.arange(pairs) / max(pairs, 1))
    return np.arange(time)[:, None] * frequencies


class SinusoidalPositionalEncoding(Module):
    """Adds sines and cosines of each position, of wavelengths from 2 pi to 20,000 pi, to (..., time, features).

    The first half of the features takes the sines, the second half the cosines; Vaswani et al., "Attention is all you
    need" (2017), interleave them. The module has no parameters and no longest sequence.

    >>> SinusoidalPositionalEncoding()(wy.Constant(np.zeros((1, 2, 4)))).forward().round(2).tolist()
    [[[0.0, 0.0, 1.0, 1.0], [0.84, 0.01, 0.54, 1.0]]]
    """

    def __call__(self, x: Tensor[*Axes]) -> Tensor[*Axes]:
        """Return `x` plus its encoding; raise `ShapeError` for an axis without a size or an odd number of features."""
        dims: Any = x.dims
        time, features = _time("SinusoidalPositionalEncoding", x, -2), axis_size(dims[-1])
        if features is None or features % 2:
            raise ShapeError(f"SinusoidalPositionalEncoding: the last axis of {describe(x)} needs an even size")
        angles = _angles(time, features // 2)
        encoding = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        result: Tensor[*Axes] = x + constant_beside(encoding, x.dtype, dims[-2:])
        return result


def rotary_embedding(qkv: Tensor[N, S2, A, K, D]) -> Tensor[N, S2, A, K, D]:
    """Return queries, keys and values, (batch, time, 3, heads, features), with queries and keys rotated.

    Features i and i + features / 2 form a plane, which turns by an angle proportional to the position, so that the dot
    product of a query and a key depends on their distance (Su et al., "RoFormer", 2021). Values are unchanged. Raises
    `ShapeError` for a time axis without a size or an odd number of features.

    >>> rotary_embedding(wy.Constant(np.ones((1, 2, 3, 1, 2)))).forward()[0, 1, 0, 0].round(2).tolist()
    [-0.3, 1.38]
    """
    dims: Any = qkv.dims
    time, features = _time("rotary_embedding", qkv, 1), axis_size(dims[4])
    if features is None or features % 2:
        raise ShapeError(f"rotary_embedding: the last axis of {describe(qkv)} needs an even size")
    half = features // 2
    angles = np.zeros((time, 3, 1, half))
    angles[:, :2] = _angles(time, half)[:, None, None]
    cosine, sine = constant_beside(np.cos(angles), qkv.dtype), constant_beside(np.sin(angles), qkv.dtype)
    first, second = qkv.erase()[..., :half], qkv.erase()[..., half:]
    rotated: Node = concatenate([first * cosine - second * sine, first * sine + second * cosine], axis=-1)
    result: Tensor[N, S2, A, K, D] = rotated.reshape(dims)
    return result
