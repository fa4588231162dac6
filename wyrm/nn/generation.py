"""Text generation: a decoder with a cache of keys and values, and the sampling of tokens from its logits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import DTypeError, IndexOutOfRange, NotFinite, OptionError, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.graph.axes import Axis, Dim, One
from wyrm.graph.base import BaseNode
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.node import Node
from wyrm.graph.parameters import Parameter
from wyrm.graph.storage import bound_array
from wyrm.nn.gpt2 import GPT2, GPT2Config
from wyrm.ops.attention.cached_attention import CachedAttention, CachedStep
from wyrm.ops.indexing.joining import stack
from wyrm.support.options import number, whole
from wyrm.train.compiling import compile

if TYPE_CHECKING:
    from wyrm.train.program import Program


class New(Dim):
    """The new positions of each sequence in a pass of a decoder."""


# The most tokens of each sequence that a pass takes: what a layer computes of them stays in the processor's cache.
PASS = 128
# Fewer tokens are read one by one unless there is a program for more already, which takes as long to make.
_FEW = 12


class DecoderPass:
    """A program that takes new tokens of each sequence, with the keys and values of earlier ones.

    With `logits` it returns these and the new queries, keys and values, (layer, batch, time, 3, heads, features); else
    those of each layer in an array of its own, so that no copy takes the memory of all layers.
    """

    def __init__(
        self, model: GPT2, cache: Parameter, time: Axis, attend: type[CachedAttention], *, logits: bool
    ) -> None:
        config = model.config
        batch, _, heads, features, _ = cache.dims[1:]
        self.tokens: IndexInput = IndexInput(dims=(batch, time), name="tokens")
        self.positions: IndexInput = IndexInput(dims=(time,), name="positions")
        self.length: Input = Input(dims=(), name="length", dtype=np.float64)
        filled: Node = Constant(np.arange(config.n_positions, dtype=np.float64)) < self.length
        x: Any = model.tokens(self.tokens) + model.positions(self.positions)
        new_qkv = []
        for layer, block in enumerate(model.blocks):
            attention = block.attention
            qkv = attention.qkv(block.attention_norm(x)).reshape((batch, time, 3, heads, features))
            new_qkv.append(qkv)
            found: Node = attend(qkv, cache[layer], filled)
            x = x + attention.out_proj(found.reshape((batch, time, config.n_embd)))
            x = x + block.feed_forward(block.feed_forward_norm(x))
        outputs = [model.norm(x) @ model.head_weight.matrix_transpose(), stack(new_qkv)] if logits else new_qkv
        self.program: Program[Any, Any] = compile(outputs)
        self.logits: bool = logits

    def run(self, tokens: NDArray[np.int64], length: int) -> list[np.ndarray]:
        """Return the outputs for tokens, (batch, time), behind `length` earlier ones."""
        feed: dict[BaseNode, object] = {
            self.tokens: tokens,
            self.positions: np.arange(length, length + tokens.shape[1]),
            self.length: float(length),
        }
        outputs: list[np.ndarray] = self.program(feed)
        return outputs


class CachedDecoder:
    """A GPT-2 that takes the tokens of sequences one after the other and caches the keys and values of earlier tokens.

    `decoder.step(tokens)` takes the next token of each of `batch_size` sequences, (batch_size,), and returns the logits
    of the token after it, (batch_size, vocab_size). They are those of `model.logits` without dropout, for the current
    values of the parameters. `decoder.read(tokens)` takes several tokens of each, (batch_size, time), at once, such as
    a prompt without its last token, and returns nothing. `reset()` starts new sequences. `length` is the number of
    tokens of each sequence since then.

    Raise `DTypeError` for a model that is no `wy.nn.GPT2`.

    >>> config = wy.nn.GPT2Config(vocab_size=7, n_positions=5, n_embd=4, n_layer=1, n_head=2)
    >>> decoder = CachedDecoder(wy.nn.GPT2(config))
    >>> decoder.read(np.array([[3, 1, 4]]))
    >>> decoder.step(np.array([1])).shape, decoder.length
    ((1, 7), 4)
    """

    def __init__(self, model: GPT2, batch_size: int = 1) -> None:
        config, batch_size = as_gpt2("CachedDecoder", model).config, whole("batch_size", batch_size, 1)
        self.config: GPT2Config = config
        self.batch_size: int = batch_size
        shape = (config.n_layer, batch_size, 2, config.n_head, config.n_embd // config.n_head, config.n_positions)
        self._cache: Parameter = Parameter(np.zeros(shape), name="cache", dtype=model.head_weight.dtype)
        self._step = DecoderPass(model, self._cache, One(), CachedStep, logits=True)
        # The program that reads prompts is made for the first one, of a copy: decoders do not keep the model alive.
        self._read: DecoderPass | None = None
        self._model: GPT2 = copy(model)
        self._parameters = [id(parameter) for parameter in model.parameters()]
        self.length: int = 0

    def step(self, tokens: NDArray[np.int64]) -> np.ndarray:
        """Return the logits after these tokens; raise `ShapeError` after `n_positions` steps."""
        given = self._given("step", tokens, 1)
        logits, new = self._step.run(given[:, None], self.length)
        self._keep(new, self.length)
        self.length += 1
        result: np.ndarray = logits[:, 0]
        return result

    def read(self, tokens: NDArray[np.int64]) -> None:
        """Take tokens of each sequence, (batch_size, time), in passes of many at once.

        Raise `ShapeError` for more tokens than are left of `n_positions`, `IndexOutOfRange` for one outside the
        vocabulary; the sequences are then as before.
        """
        given = self._given("read", tokens, 2)
        time, first = given.shape[1], self.length
        if self._read is None and time < _FEW:
            passes, size = self._step, 1
        else:
            if self._read is None:
                self._read = self._reader(New())
            passes, size = self._read, PASS
        for start in range(0, time, size):
            found = passes.run(given[:, start : start + size], first + start)
            self._keep(found[1] if passes.logits else found, first + start)
        self.length = first + time

    def _reader(self, time: Axis) -> DecoderPass:
        """Return a program that takes so many tokens of each sequence at once, without logits."""
        return DecoderPass(self._model, self._cache, time, CachedAttention, logits=False)

    def _given(self, caller: str, tokens: object, axes: int) -> NDArray[np.int64]:
        """Return tokens as an array, or raise an error that says what they must be."""
        given, shape = as_array(tokens), ("batch_size", "time")[:axes]
        if given.dtype.kind not in "iu":
            raise DTypeError(f"CachedDecoder.{caller} takes the numbers of tokens, not {given.dtype}")
        if given.ndim != axes or len(given) != self.batch_size:
            raise ShapeError(
                f"CachedDecoder.{caller} takes tokens of the shape ({', '.join(shape)}), with batch_size "
                f"{self.batch_size}, not {given.shape}"
            )
        left = self.config.n_positions - self.length
        time = given.shape[1] if axes == 2 else 1
        if time > left:
            raise ShapeError(
                f"the cache holds {self.length} tokens of n_positions, {self.config.n_positions}, and has no room for "
                f"{time} more; start new sequences with .reset()"
            )
        outside = given[(given < 0) | (given >= self.config.vocab_size)]
        if outside.size:
            raise IndexOutOfRange(f"a token is {outside[0]}; it must be in 0..{self.config.vocab_size - 1}")
        return given

    def _keep(self, new: np.ndarray | Sequence[np.ndarray], first: int) -> None:
        """Write the keys and values of new positions of each layer, from `first` on, to the cache."""
        for cache, qkv in zip(bound_array(self._cache), new, strict=True):
            cache[..., first : first + qkv.shape[1]] = qkv[:, :, 1:].transpose(0, 2, 3, 4, 1)

    def uses_parameters_of(self, model: GPT2) -> bool:
        """Return whether the model still has the parameters that this decoder was made with."""
        return self._parameters == [id(parameter) for parameter in model.parameters()]

    def reset(self) -> None:
        """Start new sequences."""
        self.length = 0


def as_gpt2(caller: str, model: object) -> GPT2:
    """Return the model, or raise an error that says which one is needed."""
    if isinstance(model, GPT2):
        return model
    made = f"the class {model.__name__}; make one of it first" if isinstance(model, type) else type(model).__name__
    raise DTypeError(f"{caller} takes a wy.nn.GPT2, whose keys and values it caches, not {made}")


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

    The prompt is read in passes of many tokens at once. When the sequence reaches `n_positions`, generation goes on
    from its second half, which is read so again.

    Raise `DTypeError` for a model that is no `wy.nn.GPT2` and for a prompt that is no list of integers, `ShapeError`
    for one that is empty or longer than `n_positions`, `IndexOutOfRange` for a token outside the vocabulary, and what
    `sample_tokens` raises for its options.

    >>> model = wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=7, n_positions=5, n_embd=4, n_layer=1, n_head=2))
    >>> len(list(generate(model, [1, 2], 8, seed=3)))
    8
    """
    config = as_gpt2("generate", model).config
    tokens = _prompt(prompt, config)
    count, seed = whole("max_new_tokens", max_new_tokens, 0), whole("seed", seed, 0)
    top_k = None if top_k is None else whole("top_k", top_k, 1)
    # Options out of range raise here, not at the first token.
    sample_tokens(np.zeros((1, 1)), np.random.default_rng(0), temperature=temperature, top_k=top_k, top_p=top_p)
    return _generated(model, tokens, count, np.random.default_rng(seed), temperature, top_k, top_p)


def _prompt(prompt: object, config: GPT2Config) -> list[int]:
    """Return the tokens of a prompt, or raise an error that says what is wrong with it."""
    what = "a prompt is one list of the numbers of tokens, as tokenizer.encode(text) gives"
    if not isinstance(prompt, Sequence | np.ndarray) or (isinstance(prompt, np.ndarray) and prompt.ndim == 0):
        raise DTypeError(f"the prompt is {prompt!r}; {what}")
    given = list(prompt)
    if not 0 < len(given) <= config.n_positions:
        raise ShapeError(f"the prompt has {len(given)} tokens; expected 1 to {config.n_positions}, n_positions")
    for position, token in enumerate(given):
        if isinstance(token, bool) or not isinstance(token, int | np.integer):
            raise DTypeError(f"prompt[{position}] is {token!r}; {what}")
        if not 0 <= token < config.vocab_size:
            raise IndexOutOfRange(f"prompt[{position}] is {token}; a token must be in 0..{config.vocab_size - 1}")
    return [int(token) for token in given]


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
            decoder.read(np.array([pending[:-1]], np.int64))
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
