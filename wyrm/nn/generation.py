"""Text token by token: a model that remembers what it has read, and what it puts after a prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import IndexOutOfRange, ShapeError
from wyrm.nn.gpt2 import GPT2
from wyrm.nn.token_sampling import choose
from wyrm.node.index_leaves import IndexInput
from wyrm.node.leaves import Constant, Input, Parameter
from wyrm.node.storage import bound_array
from wyrm.ops.cached_attention import CachedAttention
from wyrm.ops.slicing import stack
from wyrm.train.program import compile


class Reader:
    """A GPT-2 that reads one token at a time and keeps the keys and values of those before, for `batch` texts at once.

    `reader.read(tokens)` takes the next token of each text, (batch,), and gives the logits of the one after it,
    (batch, vocabulary). It computes what `model.logits` does, without dropout, on the parameters as they are then.

    >>> model = wy.nn.GPT2(wy.nn.GPT2Config(vocabulary=7, context=5, layers=1, heads=2, width=4))
    >>> Reader(model).read(np.array([3])).shape
    (1, 7)
    """

    def __init__(self, model: GPT2, batch: int = 1) -> None:
        config = model.config
        self.config, self.batch = config, batch
        dtype = model.head_weight.dtype
        features = config.width // config.heads
        self._tokens = IndexInput(dims=(batch,), name="tokens")
        self._place = IndexInput(dims=(), name="place")
        self._seen = Input(dims=(), name="seen", dtype=np.float64)
        shape = (config.layers, batch, 2, config.heads, features, config.context)
        self._cache: Any = Parameter(np.zeros(shape), name="cache", dtype=dtype)
        allowed: Any = Constant(np.arange(config.context, dtype=np.float64)) < self._seen
        x: Any = model.tokens(self._tokens) + model.positions(self._place)
        added = []
        for layer, block in enumerate(model.blocks):
            attention = block.attention
            packed = attention.packed(block.attention_norm(x)).reshape((batch, 3, config.heads, features))
            added.append(packed)
            found: Any = CachedAttention(packed, self._cache[layer], allowed)
            x = x + attention.mixed(found.reshape((batch, config.width)))
            x = x + block.feed_forward(block.feed_forward_norm(x))
        logits: Any = model.norm(x) @ model.head_weight.matrix_transpose()
        self._program = compile([logits, stack(added)])
        self._parameters = [id(parameter) for parameter in model.parameters()]
        self.length = 0

    def read(self, tokens: NDArray[np.int64]) -> NDArray[Any]:
        """The logits after these tokens; `ShapeError` where the context is full."""
        if self.length == self.config.context:
            raise ShapeError(f"the context of {self.length} tokens is full; begin a new text with .forget()")
        place = np.array(self.length)
        logits, added = self._program({self._tokens: tokens, self._place: place, self._seen: float(self.length)})
        bound_array(self._cache)[..., self.length] = added[:, :, 1:]
        self.length += 1
        result: NDArray[Any] = logits
        return result

    def reads(self, model: GPT2) -> bool:
        """Whether these are still the parameters of a model."""
        return self._parameters == [id(parameter) for parameter in model.parameters()]

    def forget(self) -> None:
        """Begin new texts."""
        self.length = 0


def generate(
    model: GPT2,
    prompt: Sequence[int],
    count: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
) -> Iterator[int]:
    """The tokens that the model puts after a prompt, one by one, at most `count`; for the options see `choose`.

    When the context is full, the later half of it is read again and becomes the beginning.

    Raises `ShapeError` for an empty prompt, or one that the context cannot hold, and `IndexOutOfRange` for a token that
    is not of the vocabulary.

    >>> model = wy.nn.GPT2(wy.nn.GPT2Config(vocabulary=7, context=5, layers=1, heads=2, width=4))
    >>> len(list(generate(model, [1, 2], 8, seed=3)))
    8
    """
    config = model.config
    if not 0 < len(prompt) <= config.context:
        raise ShapeError(f"a prompt has 1 to {config.context} tokens, the context of the model, not {len(prompt)}")
    for place, token in enumerate(prompt):
        if not 0 <= token < config.vocabulary:
            raise IndexOutOfRange(
                f"token {token} at place {place} of the prompt; the vocabulary has {config.vocabulary}"
            )
    choose(np.zeros((1, 1)), np.random.default_rng(0), temperature=temperature, top_k=top_k, top_p=top_p)
    return _generated(model, list(prompt), count, np.random.default_rng(seed), temperature, top_k, top_p)


# The readers of a model that no text is using, for making one takes as long as many tokens.
_idle: WeakKeyDictionary[GPT2, list[Reader]] = WeakKeyDictionary()


def _generated(
    model: GPT2,
    tokens: list[int],
    count: int,
    random: np.random.Generator,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
) -> Iterator[int]:
    unread, idle = tokens[:], _idle.setdefault(model, [])
    reader = next((idle.pop(i) for i, each in enumerate(idle) if each.reads(model)), None) or Reader(model)
    reader.forget()
    try:
        for _ in range(count):
            if reader.length + len(unread) > model.config.context:
                unread = tokens[-(model.config.context // 2 or 1) :]
                reader.forget()
            for token in unread[:-1]:
                reader.read(np.array([token]))
            logits = reader.read(np.array(unread[-1:]))
            (chosen,) = choose(logits, random, temperature=temperature, top_k=top_k, top_p=top_p).tolist()
            tokens.append(chosen)
            unread = [chosen]
            yield chosen
    finally:
        idle.append(reader)
