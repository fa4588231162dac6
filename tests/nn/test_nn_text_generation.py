"""Texts in characters: pieces are whole characters, and stop strings end a text wherever tokens divide it."""

from __future__ import annotations

import doctest
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, OptionError
from wyrm.nn import generate, generate_text
from wyrm.nn.texts import text_generation

TEXT = "One two, größe 東京東京 🙂🙂 three."


class Bytes:
    """Bytes as tokens; `whole_runs` reads a run that is not valid as no character at all, as byte fallbacks do."""

    def __init__(self, whole_runs: bool = False) -> None:
        self.whole_runs = whole_runs

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, tokens: Sequence[int]) -> str:
        if not self.whole_runs:
            return bytes(tokens).decode(errors="replace")
        found, run = "", b""
        for token in [*tokens, 0]:
            if token > 127:
                run += bytes([token])
                continue
            try:
                found += run.decode()
            except UnicodeDecodeError:
                found += "\ufffd" * len(run)
            found, run = found + chr(token), b""
        return found[:-1]


class Words:
    """Words as tokens, whose text has spaces between them and not before them."""

    words = TEXT.split()

    def encode(self, text: str) -> list[int]:
        return [self.words.index(word) for word in text.split()]

    def decode(self, tokens: Sequence[int]) -> str:
        return " ".join(self.words[token] for token in tokens)


def pieces(tokens: Sequence[int], prompt: Sequence[int], tokenizer: Any, stop: Sequence[str] = ()) -> list[str]:
    return list(text_generation._pieces(iter(tokens), prompt, tokenizer.decode, stop))


@pytest.mark.parametrize("tokenizer", [Bytes(), Bytes(True), Words()], ids=["bytes", "fallback", "words"])
@pytest.mark.parametrize("first", [0, 1, 3])
def test_pieces_are_whole_characters(tokenizer: Any, first: int) -> None:
    tokens = tokenizer.encode(TEXT)
    found = pieces(tokens[first:], tokens[:first], tokenizer)
    assert "".join(found) == tokenizer.decode(tokens)[len(tokenizer.decode(tokens[:first])) :]
    assert "\ufffd" not in "".join(found) and len(found) > 2


def test_tokens_that_divide_every_character_wait_for_its_end() -> None:
    text = "東京東京東京東京"
    halves = [bytes(each) for each in np.array_split(np.frombuffer(text.encode(), np.uint8), 12)]

    class Halves:
        def decode(self, tokens: Sequence[int]) -> str:
            return b"".join(halves[token] for token in tokens).decode(errors="replace")

    found = pieces(range(12), [], Halves())
    assert "".join(found) == text and "\ufffd" not in "".join(found) and len(found) >= 4
    # A prompt may end within a character, and a text with bytes that are none.
    assert "".join(pieces(range(1, 12), [0], Halves())) == text
    assert (
        "".join(pieces([0x61, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x62, 0xE6], [], Bytes())) == "a" + "\ufffd" * 5 + "b\ufffd"
    )


@pytest.mark.parametrize("stop", ["京東", "🙂 three", "e", "One", ". "])
def test_stop_strings_end_a_text_across_tokens(stop: str) -> None:
    wanted = TEXT[: TEXT.find(stop)] if stop in TEXT else TEXT
    for tokenizer in (Bytes(), Bytes(True)):
        found = pieces(tokenizer.encode(TEXT), [], tokenizer, [stop, "never"])
        assert "".join(found) == wanted
        # What cannot begin a stop string is not kept back.
        assert not found or len(found[0]) == 1
    # The first of several that end a text counts, also where it begins within another one.
    assert "".join(pieces(Bytes().encode("abcabcd"), [], Bytes(), ["abcd", "bca"])) == "a"


def model() -> wy.nn.GPT2:
    wy.nn.seed(1)
    made = wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=256, n_positions=16, n_embd=8, n_layer=1, n_head=2))
    made.tokens.weight.set(made.tokens.weight.value * 20.0)
    return made


def test_a_model_continues_texts() -> None:
    made, tokenizer = model(), Bytes()
    prompts = ["One two", "größe", "x"]
    wanted = [list(generate(made, tokenizer.encode(prompt), 20, seed=i)) for i, prompt in enumerate(prompts)]
    texts = generate_text(made, tokenizer, prompts, 20)
    assert ["".join(text) for text in texts] == [tokenizer.decode(tokens) for tokens in wanted]
    assert "".join(generate_text(made, tokenizer, tokenizer.encode("x"), 20, seed=2)) == tokenizer.decode(wanted[2])
    whole = tokenizer.decode(wanted[0])
    ends = whole[5:7]
    text = "".join(generate_text(made, tokenizer, prompts[0], 20, stop_strings=ends))
    assert text == whole[: whole.find(ends)]


def test_a_stop_string_gives_the_place_to_the_next_text() -> None:
    closed = []

    def tokens() -> Iterator[int]:
        try:
            yield from b"abcdef"
        finally:
            closed.append(True)

    given: Any = tokens()
    assert "".join(text_generation._pieces(given, [], Bytes().decode, ["cd"])) == "ab"
    assert closed == [True]


def test_errors_and_examples() -> None:
    with pytest.raises(DTypeError, match="stop_strings are texts, not 3"):
        generate_text(model(), Bytes(), "x", 3, stop_strings=cast(Any, [3]))
    with pytest.raises(OptionError, match="a stop string has at least one character"):
        generate_text(model(), Bytes(), "x", 3, stop_strings="")
    assert doctest.testmod(text_generation, extraglobs={"wy": wy, "np": np}).failed == 0
