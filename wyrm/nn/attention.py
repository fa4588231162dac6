"""Multi-head attention, and encodings of positions that are vectors added to a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, overload

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dim, axis_size, product
from wyrm.graph.base import describe
from wyrm.graph.leaves import as_constant, constant_beside
from wyrm.graph.modes import record_evaluation_mode, record_training_mode
from wyrm.graph.node import IndexNode, Node, Tensor
from wyrm.graph.parameters import Parameter
from wyrm.graph.typing import BoolArray, DTypeLike, Unnamed
from wyrm.module import Module
from wyrm.nn.axes import Axes, B, M, T, Width, sized_axis
from wyrm.nn.dropout import Dropout
from wyrm.nn.embedding import Embedding
from wyrm.nn.initializers import Initializer, Normal
from wyrm.nn.linear import Linear
from wyrm.nn.normalization import RMSNorm
from wyrm.nn.past import Past
from wyrm.nn.rotary import RotaryEmbedding, angles_of, time_size
from wyrm.ops.attention.attention import attend, mask_of_heads
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import whole

# The axis of the keys.
Keys = TypeVar("Keys", default=Any)

_WEIGHT = Normal(0.02)
_ROTARY = RotaryEmbedding()


class MultiHeadAttention(Module, Generic[Width]):
    """Attention with `num_heads` heads of `embed_dim / num_heads` features each, to the sequence itself by default.

    Maps (batch, time, embed_dim) to the same axes. `qkv` projects to the queries, keys and values of all heads,
    `out_proj` projects the concatenated results of the heads. With `causal`, a position attends to itself and earlier
    positions. `alibi` subtracts a penalty from the scores that grows with the distance, `rotary` rotates queries and
    keys (see `wyrm.nn.rotary_embedding`). While `training`, `dropout` is the rate for the attention weights. See
    `wyrm.attention` for the formulas.

    With `num_key_value_heads`, a divisor of `num_heads`, keys and values have fewer heads, each for as many consecutive
    heads of the queries (Ainslie et al., "GQA", 2023). `qkv` then maps to (num_heads + 2 * num_key_value_heads) times
    the features of a head, in this order: queries, keys, values. `num_heads` may be a `Dim` with a size, whose class
    then names the axis of the heads. `head_dim` gives a head another number of features than `embed_dim / num_heads`.

    `rotary` may be a `RotaryEmbedding` with options of its own, such as the layout of its planes. With `qk_norm`, an
    `RMSNorm` over the features of a head, with `norm_epsilon`, comes before the rotation, for queries and keys. With a
    `window`, a position attends to so many, up to its own (Beltagy et al., "Longformer", 2020). `output_bias` says
    whether `out_proj` has a bias, by default as `bias`.

    Raise `ShapeError` where `embed_dim` is not divisible by `num_heads` and there is no `head_dim`, or `num_heads` by
    `num_key_value_heads`, `ValueError` for a rate outside [0, 1) and a `window` without `causal`.

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
        head_dim: int | None = None,
        alibi: bool = False,
        rotary: bool | RotaryEmbedding[Any] = False,
        window: int | None = None,
        qk_norm: bool = False,
        norm_epsilon: float = 1e-5,
        dropout: float = 0.0,
        bias: bool = True,
        output_bias: bool | None = None,
        initializer: Initializer = _WEIGHT,
        output_initializer: Initializer | None = None,
        dropout_seed: int = 0,
        dtype: DTypeLike = np.float32,
    ) -> None:
        size = int(sized_axis("MultiHeadAttention", "embed_dim", embed_dim))
        heads = sized_axis("MultiHeadAttention", "num_heads", num_heads)
        count = int(heads)
        if head_dim is None and size % count:
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
        self.window: int | None = None if window is None else whole("MultiHeadAttention: window", window, 1)
        if window is not None and not causal:
            raise ValueError("MultiHeadAttention: a window ends at the position of the query, so it needs causal=True")
        self.dropout: Dropout = Dropout(dropout, dropout_seed)
        out = output_initializer or initializer
        features = size // count if head_dim is None else whole("MultiHeadAttention: head_dim", head_dim, 1, ShapeError)
        self.head_dim: int = features
        projected: Any = product((3, heads, features)) if shared == count else (count + 2 * shared) * features
        concatenated: Any = product((heads, features))
        self.qkv = Linear(embed_dim, projected, bias=bias, initializer=initializer, dtype=dtype)
        output_bias = bias if output_bias is None else output_bias
        self.out_proj = Linear(concatenated, embed_dim, bias=output_bias, initializer=out, dtype=dtype)
        self.query_norm: RMSNorm | None = RMSNorm(features, norm_epsilon, dtype=dtype) if qk_norm else None
        self.key_norm: RMSNorm | None = RMSNorm(features, norm_epsilon, dtype=dtype) if qk_norm else None

    @overload
    def __call__(
        self,
        x: Tensor[B, T, Width],
        mask: Tensor[B, T, T] | BoolArray | None = None,
        *,
        key_mask: Tensor[B, T] | BoolArray | None = None,
        past: Past | None = None,
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
        past: Past | None = None,
    ) -> Any:
        """Return the attention of `x` to itself or to `key`, of the axes of `x`.

        `key`, of the axes (batch, keys, embed_dim), is the sequence to attend to, and `value` of the same axes, by
        default `key`, the one whose values are summed. `mask` has the axes (batch, queries, keys) and is true where a
        query may attend to a key; `key_mask`, of the axes (batch, keys), is true for keys that are no padding. A query
        that may attend to no key gets the bias of `out_proj`. With a `past`, as a `CachedDecoder` gives, the positions
        of `x` follow earlier ones and attend to these too, without dropout.

        Raise `ShapeError` for other axes, `ValueError` for a `key` in a layer with `causal`, `alibi` or `rotary`, which
        compare positions in one sequence, for a `value` without a `key`, and for a `past` beside a mask or a `key`, or
        in a layer without `causal` or with `alibi`.
        """
        for name, node in (("", x), ("key ", key), ("value ", value)):
            if node is not None and len(node.dims) != 3:
                raise ShapeError(
                    f"MultiHeadAttention takes {name}the axes (batch, time, embed_dim), not {describe(node)}"
                )
        if key is None and value is not None:
            raise ValueError("MultiHeadAttention: a value needs a key, the sequence that it belongs to")
        if past is not None:
            given = [name for name, node in (("mask", mask), ("key_mask", key_mask), ("key", key)) if node is not None]
            self._check_past(given)
        allowed = _joined_mask(mask, key_mask)
        rate = self.dropout.rate if self.training else 0.0
        if not self.training and self.dropout.rate > 0.0:
            record_evaluation_mode(self)
        heads: Any
        if past is not None:
            heads, rate = past.attend(*self._queries_keys_values(x, past.positions), window=self.window), 0.0
        else:
            sees = self._in_window(x, allowed) if key is None else allowed
            heads = attend(
                "MultiHeadAttention",
                self._projected(x) if key is None else self._cross(x, key, key if value is None else value),
                sees if sees is None else mask_of_heads(sees),
                causal=self.causal,
                alibi=self.alibi,
                dropout_rate=rate,
                seed=self.dropout.seed,
            )
        if rate > 0.0:
            record_training_mode(heads, self)
        axes: Any = x.dims
        concatenated: Node = heads.reshape((*axes[:2], self.out_proj.weight.dims[0]))
        return self.out_proj(concatenated)

    def _check_past(self, given: Sequence[str]) -> None:
        """Raise `ValueError` for what a past does not go with."""
        if given:
            raise ValueError(f"MultiHeadAttention: past is for one sequence whose tokens all count, without {given[0]}")
        if not self.causal or self.alibi:
            option = "alibi" if self.causal else "causal=False"
            raise ValueError(f"MultiHeadAttention with {option} has no past: make the layer without it")

    def _projected(self, x: Node) -> Sequence[Any]:
        """Return queries, keys and values, (batch, time, heads, features), or (batch, time, 3, heads, features)."""
        plain = self.num_key_value_heads == self.num_heads and not self.rotary and self.query_norm is None
        return [self._split(x)] if plain else self._queries_keys_values(x)

    def _split(self, x: Node) -> Any:
        """Return the projections of `x` where all have the same heads, (batch, time, 3, heads, features)."""
        axes: Any = x.dims
        qkv: Any = self.qkv(x)
        return qkv.reshape((*axes[:2], 3, self.heads, self.head_dim))

    def _queries_keys_values(self, x: Node, positions: IndexNode | None = None) -> tuple[Any, Any, Any]:
        """Return queries, keys and values, (batch, time, heads, features), normalized and rotated."""
        axes: Any = x.dims
        count, shared, features = self.num_heads, self.num_key_value_heads, self.head_dim
        if shared == count:
            split = self._split(x)
            queries, keys, values = (split[:, :, i] for i in range(3))
        else:
            qkv: Any = self.qkv(x)
            ends = [0, count * features, (count + shared) * features, (count + 2 * shared) * features]
            queries, keys, values = (
                qkv[:, :, first:last].reshape((*axes[:2], heads, features))
                for first, last, heads in zip(ends, ends[1:], (self.heads, shared, shared), strict=False)
            )
        if self.query_norm is not None and self.key_norm is not None:
            queries, keys = self.query_norm(queries), self.key_norm(keys)
        if self.rotary:
            turn: Any = self.rotary if isinstance(self.rotary, RotaryEmbedding) else _ROTARY
            queries, keys = turn(queries, positions), turn(keys, positions)
        return queries, keys, values

    def _in_window(self, x: Node, allowed: Any) -> Any:
        """Return a mask of (batch, queries, keys) that also hides the positions before the window."""
        if self.window is None:
            return allowed
        time = time_size("MultiHeadAttention", x, 1)
        if time <= self.window:
            return allowed
        places = np.arange(time)
        near = as_constant((places[:, None] - places < self.window)[None], np.dtype(np.bool_))
        return near if allowed is None else near & allowed

    def _cross(self, x: Node, key: Node, value: Node) -> Sequence[Node]:
        """Return queries of `x`, keys and values of others, (batch, time, heads, features)."""
        for name in ("causal", "alibi", "rotary"):
            if getattr(self, name):
                raise ValueError(
                    f"MultiHeadAttention: {name} compares positions in one sequence; for a key of another sequence, "
                    f"make the layer with {name}=False"
                )
        features, shared = self.head_dim, self.num_key_value_heads
        size, width = self.num_heads * features, shared * features
        weight: Any = self.qkv.weight
        bias: Any = self.qkv.bias
        parts: list[Node] = []
        for source, start, count in ((x, 0, self.num_heads), (key, size, shared), (value, size + width, shared)):
            columns = slice(start, start + count * features)
            projected: Any = source @ weight[:, columns]
            if bias is not None:
                projected = projected + bias[columns]
            axes: Any = source.dims
            parts.append(projected.reshape((*axes[:2], count, features)))
        if self.query_norm is not None and self.key_norm is not None:
            parts[:2] = self.query_norm(parts[0]), self.key_norm(parts[1])
        return parts


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
        time = time_size("LearnedPositionalEncoding", x, -2)
        if time > self.num_positions:
            raise ShapeError(
                f"LearnedPositionalEncoding: the sequence has {time} positions, more than num_positions, "
                f"{self.num_positions}"
            )
        vectors: Any = self.weight if time == self.num_positions else self.weight[:time]
        result: Tensor[*Axes] = x + vectors
        return result


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
        time, features = time_size("SinusoidalPositionalEncoding", x, -2), axis_size(dims[-1])
        if features is None or features % 2:
            raise ShapeError(f"SinusoidalPositionalEncoding: the last axis of {describe(x)} needs an even size")
        angles = angles_of(time, RotaryEmbedding().frequencies(features))
        encoding = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        result: Tensor[*Axes] = x + constant_beside(encoding, x.dtype, dims[-2:])
        return result
