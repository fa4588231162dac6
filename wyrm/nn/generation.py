"""Text generation: a decoder with a cache of keys and values, and sampling after a prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import DTypeError, IndexOutOfRange, ShapeError
from wyrm.graph.base import BaseNode
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Constant, Input, Parameter
from wyrm.graph.node import Node
from wyrm.graph.storage import bound_array
from wyrm.nn.gpt2 import GPT2
from wyrm.nn.token_sampling import sample_tokens
from wyrm.ops.attention.cached_attention import CachedAttention
from wyrm.ops.indexing.slicing import stack
from wyrm.support.options import whole
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
        self.config, self.batch_size = config, batch_size
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
        self.length = 0

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


# Decoders that no generator is using, per model: making one takes as long as many tokens.
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
