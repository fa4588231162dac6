"""Text generation: a decoder with a cache of keys and values, and the sampling of tokens from its logits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import DTypeError, IndexOutOfRange, NotFinite, OptionError, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.graph.base import BaseNode
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.node import Node
from wyrm.graph.parameters import Parameter
from wyrm.graph.storage import bound_array
from wyrm.nn.gpt2 import GPT2, GPT2Config
from wyrm.ops.attention.cached_attention import CachedAttention
from wyrm.ops.indexing.joining import stack
from wyrm.support.options import number, whole
from wyrm.train.compiling import compile


class CachedDecoder:
    """A GPT-2 that takes one token of each sequence per step and caches the keys and values of earlier tokens.

    `decoder.step(tokens)` takes the next token of each of `batch_size` sequences, (batch_size,), and returns the logits
    of the token after it, (batch_size, vocab_size). They are those of `model.logits` without dropout, for the current
    values of the parameters; `reset()` starts new sequences. `length` is the number of steps since then.

    >>> config = wy.nn.GPT2Config(vocab_size=7, n_positions=5, n_embd=4, n_layer=1, n_head=2)
    >>> CachedDecoder(wy.nn.GPT2(config)).step(np.array([3])).shape
    (1, 7)
    """

    def __init__(self, model: GPT2, batch_size: int = 1) -> None:
        config, batch_size = model.config, whole("batch_size", batch_size, 1)
        self.config: GPT2Config = config
        self.batch_size: int = batch_size
        dtype = model.head_weight.dtype
        features = config.n_embd // config.n_head
        self._tokens = IndexInput(dims=(batch_size,), name="tokens")
        self._position = IndexInput(dims=(), name="position")
        self._length = Input(dims=(), name="length", dtype=np.float64)
        shape = (config.n_layer, batch_size, 2, config.n_head, features, config.n_positions)
        self._cache: Parameter = Parameter(np.zeros(shape), name="cache", dtype=dtype)
        allowed: Node = Constant(np.arange(config.n_positions, dtype=np.float64)) < self._length
        x: Node = model.tokens(self._tokens) + model.positions(self._position)
        new_qkv = []
        for layer, block in enumerate(model.blocks):
            attention = block.attention
            qkv = attention.qkv(block.attention_norm(x)).reshape((batch_size, 3, config.n_head, features))
            new_qkv.append(qkv)
            heads: Node = CachedAttention(qkv, self._cache[layer], allowed)
            x = x + attention.out_proj(heads.reshape((batch_size, config.n_embd)))
            x = x + block.feed_forward(block.feed_forward_norm(x))
        logits: Node = model.norm(x) @ model.head_weight.matrix_transpose()
        self._program = compile([logits, stack(new_qkv)])
        self._parameters = [id(parameter) for parameter in model.parameters()]
        self.length: int = 0

    def step(self, tokens: NDArray[np.int64]) -> np.ndarray:
        """Return the logits after these tokens; raise `ShapeError` after `n_positions` steps."""
        if self.length == self.config.n_positions:
            raise ShapeError(f"the cache holds n_positions, {self.length} tokens; start a new sequence with .reset()")
        position = np.array(self.length)
        feed: dict[BaseNode, object] = {
            self._tokens: tokens,
            self._position: position,
            self._length: float(self.length),
        }
        logits, new_qkv = self._program(feed)
        bound_array(self._cache)[..., self.length] = new_qkv[:, :, 1:]
        self.length += 1
        result: np.ndarray = logits
        return result

    def uses_parameters_of(self, model: GPT2) -> bool:
        """Return whether the model still has the parameters that this decoder was made with."""
        return self._parameters == [id(parameter) for parameter in model.parameters()]

    def reset(self) -> None:
        """Start new sequences."""
        self.length = 0


def generate(
    model: GPT2,
    prompt: Sequence[int],
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
) -> Iterator[int]:
    """Yield at most `max_new_tokens` tokens that continue the prompt; for the options see `sample_tokens`.

    When the sequence reaches `n_positions`, generation goes on from its second half.

    Raise `ShapeError` for a prompt that is empty or longer than `n_positions`, `IndexOutOfRange` for a token outside
    the vocabulary, and what `sample_tokens` raises for its options.

    >>> model = wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=7, n_positions=5, n_embd=4, n_layer=1, n_head=2))
    >>> len(list(generate(model, [1, 2], 8, seed=3)))
    8
    """
    config, count, seed = model.config, whole("max_new_tokens", max_new_tokens, 0), whole("seed", seed, 0)
    top_k = None if top_k is None else whole("top_k", top_k, 1)
    if not 0 < len(prompt) <= config.n_positions:
        raise ShapeError(f"the prompt has {len(prompt)} tokens; expected 1 to {config.n_positions}, n_positions")
    for position, token in enumerate(prompt):
        if not isinstance(token, int | np.integer):
            raise DTypeError(
                f"prompt[{position}] is {token!r}; a prompt is one list of the numbers of tokens, as "
                f"tokenizer.encode(text) gives"
            )
        if not 0 <= token < config.vocab_size:
            raise IndexOutOfRange(f"prompt[{position}] is {token}; a token must be in 0..{config.vocab_size - 1}")
    # Options out of range raise here, not at the first token.
    sample_tokens(np.zeros((1, 1)), np.random.default_rng(0), temperature=temperature, top_k=top_k, top_p=top_p)
    rng, tokens = np.random.default_rng(seed), [int(token) for token in prompt]
    return _generated(model, tokens, count, rng, temperature, top_k, top_p)


# Idle decoders of each model, for the next generator: making one takes as long as generating many tokens.
_idle: WeakKeyDictionary[GPT2, list[CachedDecoder]] = WeakKeyDictionary()


def _generated(
    model: GPT2,
    tokens: list[int],
    max_new_tokens: int,
    rng: np.random.Generator,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
) -> Iterator[int]:
    pending, idle = tokens[:], _idle.setdefault(model, [])
    current = (idle.pop(i) for i, decoder in enumerate(idle) if decoder.uses_parameters_of(model))
    decoder = next(current, None) or CachedDecoder(model)
    decoder.reset()
    try:
        for _ in range(max_new_tokens):
            if decoder.length + len(pending) > model.config.n_positions:
                pending = tokens[-(model.config.n_positions // 2 or 1) :]
                decoder.reset()
            for token in pending[:-1]:
                decoder.step(np.array([token]))
            logits = decoder.step(np.array(pending[-1:]))
            (sampled,) = sample_tokens(logits, rng, temperature=temperature, top_k=top_k, top_p=top_p).tolist()
            tokens.append(sampled)
            pending = [sampled]
            yield sampled
    finally:
        idle.append(decoder)


# Rows longer than `_LONG` are sampled in two levels: a block of `_BLOCK` tokens, then a token in it.
_LONG, _BLOCK = 2048, 128
# Rows of at most so many tokens are sorted whole, all at once, in less time than it takes to find the largest of each.
_SHORT = 128


def sample_tokens(
    logits: np.ndarray,
    rng: np.random.Generator,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> NDArray[np.int64]:
    """Sample a token from each row of logits, (..., vocab_size); the result has the leading axes.

    Probabilities are `softmax(logits / temperature)`. A `temperature` of 0 takes the most likely token and draws
    nothing. `top_k`, at least 1, keeps the most likely tokens. `top_p`, above 0 and at most 1, then keeps the smallest
    set of most likely tokens whose probability reaches `top_p` (nucleus sampling; Holtzman et al., "The Curious Case of
    Neural Text Degeneration", 2020). Of equal logits the lower token counts as more likely. A logit of minus infinity
    is never sampled.

    Raise `ValueError` for an option out of range, `DTypeError` for logits that are not floats or an option that is not
    a number, `ShapeError` for logits without a last axis of at least one token, and `NotFinite` for a NaN, an infinity,
    or a row of minus infinities.

    >>> logits = np.array([[0.0, 3.0, 1.0], [2.0, -np.inf, 1.0]])
    >>> sample_tokens(logits, np.random.default_rng(0), temperature=0.0).tolist()
    [1, 0]
    >>> sample_tokens(logits, np.random.default_rng(0), top_k=1).tolist()
    [1, 0]
    """
    temperature, top_p = number("temperature", temperature, 0.0), _top_p(top_p)
    top_k = None if top_k is None else whole("top_k", top_k, 1)
    array, maxima = _logits(logits)
    rows = array.reshape(-1, array.shape[-1])
    if temperature == 0.0 or not len(rows):
        sampled = rows.argmax(axis=-1)
    else:
        # The maximum becomes 0 before the division, so that no temperature is too low.
        with np.errstate(over="ignore", under="ignore"):
            weights = np.subtract(rows, maxima.reshape(-1, 1), dtype=np.float64)
            if temperature != 1.0:
                weights /= temperature
            np.exp(weights, out=weights)
        if top_k is None and top_p is None:
            sampled = _sample(weights, rng)
        else:
            order = _most_likely(rows, top_k)
            descending = _nucleus(np.take_along_axis(weights, order, axis=-1), top_p)
            sampled = np.take_along_axis(order, _sample(descending, rng)[:, None], axis=-1)[:, 0]
    return np.asarray(sampled, np.int64).reshape(array.shape[:-1])


def _most_likely(rows: NDArray[np.float64], top_k: int | None) -> NDArray[np.intp]:
    """Return the indices of the `top_k` largest logits of each row, or of all: the largest first, of equals the lower.

    Logits decide, not weights: different logits may round to the same weight.
    """
    if top_k is None or top_k >= rows.shape[-1] or rows.shape[-1] <= _SHORT:
        return np.argsort(-rows, axis=-1, kind="stable")[:, :top_k]
    thresholds = np.partition(rows, -top_k, axis=-1)[:, -top_k]
    result = np.empty((len(rows), top_k), np.intp)
    for i, row in enumerate(rows):
        candidates = np.flatnonzero(row >= thresholds[i])
        result[i] = candidates[np.argsort(-row[candidates], kind="stable")][:top_k]
    return result


def _nucleus(descending: NDArray[np.float64], top_p: float | None) -> NDArray[np.float64]:
    """Keep the first weights of each row until they reach `top_p` of its sum, and set the others to zero."""
    if top_p is None or top_p == 1.0:  # a rounded sum may reach 1 early
        return descending
    sums = np.cumsum(descending, axis=-1)
    last = (sums / sums[:, -1:] >= top_p).argmax(axis=-1)
    return np.where(np.arange(descending.shape[-1]) <= last[:, None], descending, 0.0)


def _sample(weights: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw an index of each row, with probabilities proportional to its weights.

    A long row is sampled in two levels: its cumulative sum would take longer than all else.
    """
    draws = rng.random(len(weights))
    if weights.shape[-1] <= _LONG:
        sums = np.cumsum(weights, axis=-1)
        # The first sum above the draw. An index of weight zero repeats the sum before it and is never the first.
        return np.asarray((sums > draws[:, None] * sums[:, -1:]).argmax(axis=-1))
    starts = np.arange(0, weights.shape[-1], _BLOCK)
    return np.array([_sample_in_blocks(row, starts, draw) for row, draw in zip(weights, draws.tolist(), strict=True)])


def _sample_in_blocks(weights: NDArray[np.float64], starts: NDArray[np.intp], draw: float) -> int:
    """Return the index that a draw from [0, 1) selects: first the block of `_BLOCK` weights, then the index in it."""
    sums = np.add.reduceat(weights, starts).cumsum()
    draw *= float(sums[-1])
    block = int(sums.searchsorted(draw, "right"))
    first = block * _BLOCK
    in_block = weights[first : first + _BLOCK].cumsum()
    rest = draw - float(sums[block - 1]) if block else draw
    # By rounding, the rest may equal the sum of the block, or exceed it; the search would then leave the block.
    return first + int(in_block.searchsorted(min(rest, math.nextafter(in_block[-1], 0.0)), "right"))


def _logits(logits: object) -> tuple[np.ndarray, np.ndarray]:
    """Return the logits as an array and the maximum of each row; raise where they cannot be sampled."""
    array = as_array(logits)
    if array.dtype.kind != "f":
        raise DTypeError(f"logits have dtype {array.dtype}; expected floats")
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ShapeError(f"logits have shape {array.shape}; expected (..., vocab_size), at least one token")
    maxima = np.asarray(array.max(axis=-1))  # NaN in a row that holds one
    if not np.isfinite(maxima).all():
        wrong = np.isnan(array) | np.isposinf(array)
        if wrong.any():
            raise NotFinite(f"logits hold {array[wrong][0]} at {_first(wrong)}; expected numbers, or minus infinity")
        empty = np.asarray(np.isneginf(maxima))
        raise NotFinite(f"all logits of row {_first(empty)} are minus infinity, so there is no token to sample")
    return array, maxima


def _first(mask: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return the index of the first true element."""
    return tuple(int(i) for i in np.argwhere(mask)[0])


def _top_p(value: object) -> float | None:
    if value is None:
        return None
    top_p = number("top_p", value)
    if not 0.0 < top_p <= 1.0:
        raise OptionError(f"top_p must be in (0, 1], not {top_p}")
    return top_p
