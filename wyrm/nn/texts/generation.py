"""Text generation: the tokens that continue a prompt, or several prompts side by side."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, overload
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypedDict, Unpack

from wyrm.errors import DTypeError, IndexOutOfRange, ShapeError
from wyrm.nn.cached_decoder import CachedDecoder, LanguageModel, Limits
from wyrm.nn.texts.sampling import SamplingOptions, draws_at, tokens_of
from wyrm.ops.random.philox import WORD
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import integer, whole

# The tokens of a text.
Tokens = Sequence[int] | NDArray[np.int64]
# The most texts that are generated side by side where no decoder says how many.
_SIDE_BY_SIDE = 8


class GenerationOptions(TypedDict, total=False):
    """The options of `generate`: those of `sample_tokens`, and what ends a text."""

    temperature: float
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None
    stop: int | Sequence[int]
    seed: int


@overload
def generate(
    model: LanguageModel | CachedDecoder, prompt: Tokens, max_new_tokens: int,
    **options: Unpack[GenerationOptions],
) -> Iterator[int]: ...  # fmt: skip
@overload
def generate(
    model: LanguageModel | CachedDecoder, prompt: Sequence[Tokens], max_new_tokens: int,
    **options: Unpack[GenerationOptions],
) -> list[Iterator[int]]: ...  # fmt: skip
@explains_keywords
def generate(
    model: LanguageModel | CachedDecoder,
    prompt: Tokens | Sequence[Tokens],
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float | None = None,
    stop: int | Sequence[int] = (),
    seed: int = 0,
) -> Iterator[int] | list[Iterator[int]]:
    """Yield at most `max_new_tokens` tokens that continue the prompt; for the options see `sample_tokens`.

    A model is what `CachedDecoder` takes. Generation ends before the first of the tokens `stop`, which is not yielded.
    `repetition_penalty` is for the tokens of the prompt and those that follow it.

    For a list of prompts, which may have different lengths, return a list with an iterator for each. Up to 8 texts take
    their steps together, which reads the weights once for all of them; where one ends, or its iterator is closed, the
    next prompt takes its place. Each step computes a token of every running text; tokens of the others wait until their
    iterators are asked. The text of prompt i is that of `generate(model, prompts[i], seed=seed + i)`, whichever texts
    are beside it.

    A token is a function of the logits, the options, the seed and its position in the text. A prompt is read in passes
    of many tokens at once. A `CachedDecoder` in the place of the model reads only what differs from the tokens that it
    has, such as the new part of a conversation; its `batch_size` is the number of texts side by side. When the sequence
    reaches the longest one of the model, or the `max_length` of the decoder, generation goes on from its second half,
    which is read so again.

    Raise `DTypeError` for what is no such model and for a prompt or `stop` that has no integers, `ShapeError` for a
    prompt that is empty or longer than the longest sequence, `IndexOutOfRange` for a token outside the vocabulary, and
    what `sample_tokens` raises for its options.

    >>> model = wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=7, n_positions=5, n_embd=4, n_layer=1, n_head=2))
    >>> len(list(generate(model, [1, 2], 8, seed=3)))
    8
    >>> [len(list(text)) for text in generate(model, [[1, 2], [3], [4, 5, 6]], 8)]
    [8, 8, 8]
    """
    limits = model.limits if isinstance(model, CachedDecoder) else Limits.of("generate", model)
    several = isinstance(prompt, Sequence | np.ndarray) and len(prompt) > 0 and np.ndim(prompt[0]) > 0
    prompts: Any = prompt if several else [prompt]
    read = [_tokens(f"prompt[{i}]" if several else "prompt", each, limits) for i, each in enumerate(prompts)]
    for tokens in read:
        if not tokens or (limits.longest is not None and len(tokens) > limits.longest):
            most = "at least 1" if limits.longest is None else f"1 to {limits.longest}, {limits.name}"
            raise ShapeError(f"the prompt has {len(tokens)} tokens; expected {most}")
    ends = frozenset(_tokens("stop", [integer("stop", stop)] if np.ndim(stop) == 0 else stop, limits))
    count, seed = whole("max_new_tokens", max_new_tokens, 0), whole("seed", seed, 0)
    sampling = SamplingOptions(temperature, top_k, top_p, min_p, repetition_penalty)
    requests = [_Request(tokens, count, seed + i) for i, tokens in enumerate(read)]
    texts = _Texts(model, requests, sampling, ends)
    iterators = [texts.of(request) for request in requests]
    return iterators if several else iterators[0]


def _tokens(name: str, given: object, limits: Limits) -> list[int]:
    """Return the tokens of a prompt, or raise an error that says what is wrong with it."""
    what = f"a {name.partition('[')[0]} is one list of the numbers of tokens, as tokenizer.encode(text) gives"
    if not isinstance(given, Sequence | np.ndarray) or (isinstance(given, np.ndarray) and given.ndim == 0):
        raise DTypeError(f"the {name} is {given!r}; {what}")
    for position, token in enumerate(given):
        if isinstance(token, bool) or not isinstance(token, int | np.integer):
            raise DTypeError(f"{name}[{position}] is {token!r}; {what}")
        if not 0 <= token < limits.vocab_size:
            raise IndexOutOfRange(f"{name}[{position}] is {token}; a token must be in 0..{limits.vocab_size - 1}")
    return [int(token) for token in given]


class _Request:
    """A prompt and the tokens that follow it, of which some wait to be yielded."""

    def __init__(self, prompt: list[int], max_new_tokens: int, seed: int) -> None:
        self.text: NDArray[np.int64] = np.array(prompt + [0] * max_new_tokens, np.int64)
        # The model sees the tokens from `first` on, of `count`.
        self.first, self.count = 0, len(prompt)
        self.seed = seed
        self.waiting: deque[int] = deque()
        self.ended = max_new_tokens == 0

    def window(self, longest: int | None) -> NDArray[np.int64]:
        """Return the tokens that the model sees, from the second half of a sequence that is full."""
        if longest is not None and self.count - self.first > longest:
            self.first = self.count - (longest // 2 or 1)
        return self.text[self.first : self.count]

    def take(self, token: int, stop: frozenset[int]) -> None:
        """Take the next token, which may end the text."""
        if token in stop:
            self.ended = True
            return
        self.text[self.count] = token
        self.count += 1
        self.waiting.append(token)
        self.ended = self.count == len(self.text)


class _Texts:
    """Texts that take their steps together, as many as the decoder has sequences; the others wait."""

    def __init__(
        self,
        model: LanguageModel | CachedDecoder,
        requests: Sequence[_Request],
        options: SamplingOptions,
        stop: frozenset[int],
    ) -> None:
        self._model = model
        self._options = options
        self._stop = stop
        self._waiting = deque(requests)
        self._size = len(requests)
        self._decoder: CachedDecoder | None = None
        self._idle: list[CachedDecoder] = []
        self._active: dict[int, _Request] = {}

    def of(self, request: _Request) -> Iterator[int]:
        """Yield the tokens of a request."""
        try:
            while True:
                while request.waiting:
                    yield request.waiting.popleft()
                if request.ended:
                    return
                self._step()
        finally:
            request.ended = True
            self._release()

    def _step(self) -> None:
        """Take a token of each text that has a place, after those that ended give theirs to texts that wait."""
        if self._decoder is None:
            self._decoder, self._idle = _decoder_for(self._model, self._size)
        decoder = self._decoder
        self._active = {row: each for row, each in self._active.items() if not each.ended}
        for row in range(decoder.batch_size):
            while row not in self._active and self._waiting:
                request = self._waiting.popleft()
                if not request.ended:
                    self._active[row] = request
        rows, requests = list(self._active), list(self._active.values())
        windows: Any = [each.window(decoder.limits.longest) for each in requests]
        logits = decoder.logits_after(windows, rows)
        seeds = np.array([each.seed & WORD for each in requests], np.uint64)
        positions = np.array([each.count - 1 for each in requests], np.int64)
        tokens = tokens_of(logits, self._options, lambda _: draws_at(seeds, positions), self._previous(requests))
        for request, token in zip(requests, tokens.tolist(), strict=True):
            request.take(token, self._stop)

    def _previous(self, requests: Sequence[_Request]) -> NDArray[np.int64] | None:
        """Return the earlier tokens of each text, of which shorter texts repeat the last one."""
        if self._options.repetition_penalty is None:
            return None
        longest = max(each.count for each in requests)
        return np.stack([np.pad(each.text[: each.count], (0, longest - each.count), "edge") for each in requests])

    def _release(self) -> None:
        """Give the decoder back when no text needs it."""
        running = [*self._active.values(), *self._waiting]
        if self._decoder is not None and all(each.ended for each in running):
            self._idle.append(self._decoder)
            self._decoder = None
            self._idle = []


# Idle decoders of each model, for the next texts: making one takes as long as generating many tokens.
_idle: WeakKeyDictionary[LanguageModel, list[CachedDecoder]] = WeakKeyDictionary()


def _decoder_for(model: LanguageModel | CachedDecoder, requests: int) -> tuple[CachedDecoder, list[CachedDecoder]]:
    """Return a decoder for so many texts, and the list that it belongs to when it is idle."""
    if isinstance(model, CachedDecoder):
        return model, []
    # A few sizes serve all numbers of texts: a sequence that does nothing takes little time, and another size code.
    size = min(1 << (requests - 1).bit_length(), _SIDE_BY_SIDE)
    try:
        idle = _idle.setdefault(model, [])
    except TypeError:  # a model without a hash, or without weak references
        return CachedDecoder(model, size), []
    for i, decoder in enumerate(idle):
        if decoder.batch_size == size and decoder.uses_parameters_of(model):
            # The bits of a text do not depend on what was generated before.
            idle.pop(i).reset()
            return decoder, idle
    return CachedDecoder(model, size), idle
