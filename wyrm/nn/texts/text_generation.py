"""Text generation in characters: texts that continue prompts, piece by piece, up to stop strings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, overload

import numpy as np
from typing_extensions import Unpack

from wyrm.errors import DTypeError, OptionError
from wyrm.nn.cached_decoder import CachedDecoder, LanguageModel
from wyrm.nn.texts.generation import GenerationOptions, Tokens, generate

# How many tokens of the prompt are decoded before the new ones: the text of a token may depend on earlier ones.
_CONTEXT = 8
# What decoders write for bytes that are no character, or not yet.
_REPLACEMENT = "\ufffd"


class TextTokenizer(Protocol):
    """What turns texts into tokens and back, such as `wy.io.tokenizer(folder)` or `wy.data.Tokenizer`."""

    def encode(self, text: str) -> Any:
        """Return the tokens of a text."""
        ...

    def decode(self, tokens: Any) -> str:
        """Return the text of a list of tokens."""
        ...


@overload
def generate_text(
    model: LanguageModel | CachedDecoder, tokenizer: TextTokenizer, prompt: str, max_new_tokens: int, *,
    stop_strings: str | Sequence[str] = (), **options: Unpack[GenerationOptions],
) -> Iterator[str]: ...  # fmt: skip
@overload
def generate_text(
    model: LanguageModel | CachedDecoder, tokenizer: TextTokenizer, prompt: Tokens, max_new_tokens: int, *,
    stop_strings: str | Sequence[str] = (), **options: Unpack[GenerationOptions],
) -> Iterator[str]: ...  # fmt: skip
@overload
def generate_text(
    model: LanguageModel | CachedDecoder, tokenizer: TextTokenizer, prompt: list[str] | Sequence[Tokens],
    max_new_tokens: int, *, stop_strings: str | Sequence[str] = (), **options: Unpack[GenerationOptions],
) -> list[Iterator[str]]: ...  # fmt: skip
def generate_text(
    model: LanguageModel | CachedDecoder,
    tokenizer: TextTokenizer,
    prompt: str | Tokens | list[str] | Sequence[Tokens],
    max_new_tokens: int,
    *,
    stop_strings: str | Sequence[str] = (),
    **options: Unpack[GenerationOptions],
) -> Iterator[str] | list[Iterator[str]]:
    """Yield the text that continues a prompt, in pieces as its tokens come: `"".join` of them is the whole.

    A prompt is a text, or tokens such as those of `tokenizer.chat(messages)`; for a list of prompts, return a list with
    an iterator for each, as `generate` does. Other options are those of `generate`. A piece has whole characters: it
    waits for the tokens of a character that is divided among several. The text ends before the first of the
    `stop_strings`, wherever the borders of tokens are; a piece that may be the beginning of one waits, too.

    Raise what `generate` raises, `DTypeError` for stop strings that are no texts, `OptionError` for an empty one.

    >>> tokenizer = wy.data.Tokenizer.train("one two three", vocab_size=260)
    >>> model = wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=260, n_positions=9, n_embd=4, n_layer=1, n_head=2))
    >>> isinstance("".join(generate_text(model, tokenizer, "one", 8)), str)
    True
    """
    given = [stop_strings] if isinstance(stop_strings, str) else list(stop_strings)
    for each in given:
        if not isinstance(each, str):
            raise DTypeError(f"stop_strings are texts, not {each!r}")
        if not each:
            raise OptionError("a stop string has at least one character; without stop strings, give none")
    several = not isinstance(prompt, str) and len(prompt) > 0 and (isinstance(prompt[0], str) or np.ndim(prompt[0]) > 0)
    prompts: Any = prompt if several else [prompt]
    read = [tokenizer.encode(each) if isinstance(each, str) else each for each in prompts]
    generated: Any = generate(model, read if several else read[0], max_new_tokens, **options)
    if not several:
        return _pieces(generated, read[0], tokenizer.decode, given)
    return [_pieces(each, start, tokenizer.decode, given) for each, start in zip(generated, read, strict=True)]


def _pieces(
    tokens: Iterator[int], prompt: Sequence[int], decode: Callable[[Any], str], stop: Sequence[str]
) -> Iterator[str]:
    """Yield the text of tokens up to a stop string; what may be the beginning of one waits."""
    waiting = ""
    for piece in _characters(tokens, prompt, decode):
        waiting += piece
        ends = [place for place in map(waiting.find, stop) if place >= 0]
        if ends:
            if min(ends):
                yield waiting[: min(ends)]
            close: Any = getattr(tokens, "close", None)
            if close is not None:  # the text gives its place to the next one
                close()
            return
        kept = _beginning(waiting, stop)
        if kept < len(waiting):
            yield waiting[: len(waiting) - kept]
            waiting = waiting[len(waiting) - kept :]
    if waiting:
        yield waiting


def _beginning(text: str, stop: Sequence[str]) -> int:
    """Return the length of the longest end of a text that a stop string begins with.

    >>> _beginning("one two", ["two three", "o!"])
    3
    """
    longest = max(map(len, stop), default=1) - 1
    for length in range(min(longest, len(text)), 0, -1):
        end = text[-length:]
        if any(each.startswith(end) for each in stop):
            return length
    return 0


def _characters(tokens: Iterator[int], prompt: Sequence[int], decode: Callable[[Any], str]) -> Iterator[str]:
    """Yield the text of tokens in whole characters.

    Tokens are decoded together with some before them, since spaces between words may depend on both.
    """
    held = [int(token) for token in prompt[-_CONTEXT:]]
    # The first `yielded` characters of the text of `held` are yielded. The tokens before `whole` end with a character.
    text, whole = decode(held), len(held)
    yielded = _whole(text)
    for token in tokens:
        held.append(token)
        text = decode(held)
        stable = _whole(text)
        if stable > yielded:
            yield text[yielded:stable]
            yielded = stable
            if stable == len(text):
                del held[:whole]
                whole, text = len(held), decode(held)
                yielded = len(text)
    if len(text) > yielded:
        yield text[yielded:]


def _whole(text: str) -> int:
    """Return the number of characters before bytes at the end that may begin one.

    Some decoders read no character of a run of bytes before all of them are valid.

    >>> _whole("ab\ufffd\ufffd")
    2
    """
    return len(text.rstrip(_REPLACEMENT))
