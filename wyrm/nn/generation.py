"""Text generation: the tokens that continue a prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import DTypeError, IndexOutOfRange, ShapeError
from wyrm.nn.cached_decoder import CachedDecoder, LanguageModel, Limits
from wyrm.nn.sampling import sample_tokens
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import integer, whole


@explains_keywords
def generate(
    model: LanguageModel | CachedDecoder,
    prompt: Sequence[int],
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float | None = None,
    stop: int | Sequence[int] = (),
    seed: int = 0,
) -> Iterator[int]:
    """Yield at most `max_new_tokens` tokens that continue the prompt; for the options see `sample_tokens`.

    A model is what `CachedDecoder` takes. Generation ends before the first of the tokens `stop`, which is not yielded.
    `repetition_penalty` is for the tokens of the prompt and those that follow it.

    The prompt is read in passes of many tokens at once. A `CachedDecoder` of one sequence in the place of the model
    reads only what differs from the tokens that it has, such as the new part of a conversation. When the sequence
    reaches the longest one of the model, or the `max_length` of the decoder, generation goes on from its second half,
    which is read so again.

    Raise `DTypeError` for what is no such model and for a prompt or `stop` that has no integers, `ShapeError` for a
    prompt that is empty or longer than the longest sequence and for a decoder of several sequences, `IndexOutOfRange`
    for a token outside the vocabulary, and what `sample_tokens` raises for its options.

    >>> model = wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=7, n_positions=5, n_embd=4, n_layer=1, n_head=2))
    >>> len(list(generate(model, [1, 2], 8, seed=3)))
    8
    """
    if isinstance(model, CachedDecoder) and model.batch_size != 1:
        raise ShapeError(f"generate takes a CachedDecoder of one sequence, not of {model.batch_size}")
    limits = model.limits if isinstance(model, CachedDecoder) else Limits.of("generate", model)
    tokens = _tokens("prompt", prompt, limits)
    if not tokens or (limits.longest is not None and len(tokens) > limits.longest):
        most = "at least 1" if limits.longest is None else f"1 to {limits.longest}, {limits.name}"
        raise ShapeError(f"the prompt has {len(tokens)} tokens; expected {most}")
    ends = frozenset(_tokens("stop", [integer("stop", stop)] if np.ndim(stop) == 0 else stop, limits))
    count, seed = whole("max_new_tokens", max_new_tokens, 0), whole("seed", seed, 0)
    options: dict[str, Any] = {
        "temperature": temperature, "top_k": None if top_k is None else whole("top_k", top_k, 1), "top_p": top_p,
        "min_p": min_p, "repetition_penalty": repetition_penalty,
    }  # fmt: skip
    # Options out of range raise here, not at the first token.
    sample_tokens(np.zeros((1, 1)), np.random.default_rng(0), previous=np.zeros((1, 0), np.int64), **options)
    return _generated(model, tokens, count, np.random.default_rng(seed), ends, options)


def _tokens(name: str, given: object, limits: Limits) -> list[int]:
    """Return the tokens of a prompt, or raise an error that says what is wrong with it."""
    what = f"a {name} is one list of the numbers of tokens, as tokenizer.encode(text) gives"
    if not isinstance(given, Sequence | np.ndarray) or (isinstance(given, np.ndarray) and given.ndim == 0):
        raise DTypeError(f"the {name} is {given!r}; {what}")
    for position, token in enumerate(given):
        if isinstance(token, bool) or not isinstance(token, int | np.integer):
            raise DTypeError(f"{name}[{position}] is {token!r}; {what}")
        if not 0 <= token < limits.vocab_size:
            raise IndexOutOfRange(f"{name}[{position}] is {token}; a token must be in 0..{limits.vocab_size - 1}")
    return [int(token) for token in given]


# Idle decoders of each model, for the next generator: making one takes as long as generating many tokens.
_idle: WeakKeyDictionary[LanguageModel, list[CachedDecoder]] = WeakKeyDictionary()


def _generated(
    model: LanguageModel | CachedDecoder,
    prompt: list[int],
    max_new_tokens: int,
    rng: np.random.Generator,
    stop: frozenset[int],
    options: dict[str, Any],
) -> Iterator[int]:
    decoder, idle = (model, []) if isinstance(model, CachedDecoder) else _decoder_of(model)
    longest = decoder.limits.longest
    text: NDArray[np.int64] = np.array([prompt + [0] * max_new_tokens], np.int64)
    first, last = 0, len(prompt)
    try:
        for _ in range(max_new_tokens):
            if longest is not None and last - first > longest:
                first = last - (longest // 2 or 1)
            logits = decoder.logits_after(text[:, first:last])
            (sampled,) = sample_tokens(logits, rng, previous=text[:, :last], **options).tolist()
            if sampled in stop:
                return
            text[0, last] = sampled
            last += 1
            yield sampled
    finally:
        idle.append(decoder)


def _decoder_of(model: LanguageModel) -> tuple[CachedDecoder, list[CachedDecoder]]:
    """Return a decoder of a model without tokens, and the list that it belongs to when it is idle."""
    try:
        idle = _idle.setdefault(model, [])
    except TypeError:  # a model without a hash, or without weak references
        return CachedDecoder(model), []
    current = (idle.pop(i) for i, decoder in enumerate(idle) if decoder.uses_parameters_of(model))
    decoder = next(current, None) or CachedDecoder(model)
    # The bits of a text do not depend on what was generated before.
    decoder.reset()
    return decoder, idle
