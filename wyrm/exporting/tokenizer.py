"""The tokenizer of a page that continues texts: the table that its functions of JavaScript read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from wyrm.errors import DTypeError, OptionError

# The pattern of GPT-2, which divides a text before its parts are encoded.
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# What stands for a space in the tokens of sentencepiece.
_SPACE = "\u2581"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
# Letters that are another case of two others.
_CASES = {"s": "\u017f", "k": "\u212a"}


class ExportedTokenizer(Protocol):
    """A tokenizer that `export` takes: `wy.data.Tokenizer` and `wy.io.tokenizer(folder)` are such."""

    def to_json(self) -> str:
        """Return the contents of tokenizer.json."""
        ...

    @property
    def stop_tokens(self) -> Sequence[int]:
        """The tokens that end a text."""
        ...

    def encode(self, text: str) -> Any:
        """Return the tokens of a text, with those that the tokenizer puts around it."""
        ...


def table_of(tokenizer: ExportedTokenizer, vocab_size: int) -> dict[str, Any]:
    """Return the table of a tokenizer, whose tokens are below `vocab_size`.

    Pieces have a character for each byte. Raise `DTypeError` for what is no tokenizer, and `OptionError` for one that
    divides or encodes texts in a way that the page does not know, or has more tokens than the model.
    """
    try:
        contents = json.loads(tokenizer.to_json())
    except AttributeError:
        raise DTypeError(
            f"tokenizer takes a wy.data.Tokenizer or the result of wy.io.tokenizer(folder), not {tokenizer!r}"
        ) from None
    model, added = contents["model"], contents["added_tokens"]
    if model.get("type") != "BPE":
        raise _unknown(f"the model {model.get('type')}")
    vocabulary: dict[str, int] = model["vocab"]
    size = max([*vocabulary.values(), *(each["id"] for each in added)], default=-1) + 1
    if size > vocab_size:
        raise OptionError(f"the tokenizer has {size} tokens, and the model {vocab_size}: it is of another model")
    for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(name):
            raise _unknown(f"{name} of the model")
    table = _texts(contents, vocabulary)
    pieces = [""] * size
    for token, number in vocabulary.items():
        pieces[number] = table["piece"](token)
    for each in added:
        if any(each.get(flag) for flag in ("lstrip", "rstrip", "single_word")):
            raise _unknown(f"the token {each['content']!r}, which takes what stands beside it")
        pieces[each["id"]] = _characters_of_bytes(each["content"])
    del table["piece"]
    merges = [each.split(" ") if isinstance(each, str) else each for each in model["merges"]]
    begins, ends = _around(tokenizer)
    return {
        "pieces": pieces,
        "merges": [vocabulary[token] for left, right in merges for token in (left, right, left + right)],
        "added": {each["content"]: each["id"] for each in added},
        "special": [each["id"] for each in added if each["special"]],
        "whole": bool(model.get("ignore_merges")),
        "unknown": vocabulary.get(model.get("unk_token"), -1),
        "fused": bool(model.get("fuse_unk")),
        **table,
        "begins": begins or list(tokenizer.stop_tokens[:1]),
        "ends": ends,
        "stop": list(tokenizer.stop_tokens),
    }


def _unknown(what: str) -> OptionError:
    return OptionError(
        f"a page has the byte-pair encodings of GPT-2, Llama, SmolLM and Qwen: the tokenizer has {what}, which it does "
        f"not know; export without tokenizer"
    )


def _characters_of_bytes(text: str) -> str:
    """Return a character for each byte of a text.

    >>> _characters_of_bytes("é") == chr(0xC3) + chr(0xA9)
    True
    """
    return text.encode().decode("latin-1")


def _around(tokenizer: ExportedTokenizer) -> tuple[list[int], list[int]]:
    """Return the tokens that stand before and after those of a text."""
    empty, one, two = (list(map(int, tokenizer.encode(text))) for text in ("", "a", "b"))
    count = next((i for i, pair in enumerate(zip(one, two, strict=False)) if pair[0] != pair[1]), 0)
    # Some begin a text with a space, in a token of its own, which is no special one.
    count = min(count, len(empty))
    return empty[:count], empty[count:]


def _texts(contents: Mapping[str, Any], vocabulary: Mapping[str, int]) -> dict[str, Any]:
    """Return how texts are divided and encoded, and the function that gives the bytes of a token."""
    normalizers = _parts_of(contents["normalizer"], "normalizers")
    steps = _parts_of(contents["pre_tokenizer"], "pretokenizers")
    found: dict[str, Any] = {"composed": False, "prepend": "", "splits": [], "spaces": False}
    is_bytes = any(each["type"] == "ByteLevel" for each in steps)
    for each in normalizers:
        match each:
            case {"type": "NFC"}:
                found["composed"] = True
            case {"type": "Prepend", "prepend": "\u2581"} if not is_bytes:
                found["prepend"] = "always"
            case {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"} if not is_bytes:
                found["spaces"] = True
            case _:
                raise _unknown(f"the normalizer {each}")
    for each in steps:
        match each:
            case {"type": "ByteLevel", "add_prefix_space": False, "use_regex": divides}:
                found["splits"] += [_GPT2] if divides else []
            case {"type": "Digits", "individual_digits": alone}:
                found["splits"].append(r"\p{N}" if alone else r"\p{N}+")
            case {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}:
                found["splits"].append(pattern)
            case {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": divides}:
                found["spaces"] = True
                found["prepend"] = {"always": "missing", "first": "first", "never": ""}[scheme]
                found["splits"] += [" [^ ]*"] if divides else []
            case _:
                raise _unknown(f"the division {each}")
    found["splits"] = [_as_javascript(each) for each in found["splits"]]
    if is_bytes:
        byte_of = _bytes_of_characters()
        numbers = [vocabulary.get(character, -1) for character in sorted(byte_of, key=lambda each: byte_of[each])]
        return found | {
            "bytes": numbers, "fallback": False,
            "piece": lambda token: "".join(chr(byte_of[each]) for each in token if each in byte_of),
        }  # fmt: skip
    if not found["spaces"]:
        raise _unknown("neither bytes nor the spaces of sentencepiece")
    # Where no token goes on behind a space in it, a text is divided before spaces, which is quick and changes nothing.
    if not found["splits"] and not any(re.search(f"[^{_SPACE}]{_SPACE}", token) for token in vocabulary):
        found["splits"] = [" +[^ ]*"]
    names = [f"<0x{byte:02X}>" for byte in range(256)]
    fallback = bool(contents["model"].get("byte_fallback")) and all(name in vocabulary for name in names)

    def piece(token: str) -> str:
        byte = _BYTE.fullmatch(token) if fallback else None
        return chr(int(byte[1], 16)) if byte else _characters_of_bytes(token.replace(_SPACE, " "))

    return found | {
        "bytes": [vocabulary[name] for name in names] if fallback else [], "fallback": True, "piece": piece
    }  # fmt: skip


def _parts_of(part: Any, several: str) -> list[dict[str, Any]]:
    """Return the parts of a sequence of the tokenizer."""
    if part is None:
        return []
    return list(part[several]) if part["type"] == "Sequence" else [part]


def _bytes_of_characters() -> dict[str, int]:
    """Return the byte of each character that stands for one in GPT-2's tokens."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in own]
    return {chr(byte): byte for byte in own} | {chr(256 + place): byte for place, byte in enumerate(others)}


def _as_javascript(pattern: str) -> str:
    r"""Return a regular expression of tokenizers as JavaScript has it: without case by groups, and the same spaces.

    >>> print(_as_javascript(r"(?i:'s|'t)|\s+(?!\S)"))
    (?:'[sS\u017f]|'[tT])|\p{White_Space}+(?!\P{White_Space})
    """

    def cases(group: re.Match[str]) -> str:
        letters = re.sub("[a-z]", lambda each: f"[{each[0]}{each[0].upper()}{_escaped(each[0])}]", group[1])
        return f"(?:{letters})"

    pattern = re.sub(r"\(\?i:((?:'[a-z]+\|?)+)\)", cases, pattern)
    if "(?i" in pattern:
        raise _unknown(f"the pattern {pattern!r}")
    return pattern.replace(r"\s", r"\p{White_Space}").replace(r"\S", r"\P{White_Space}")


def _escaped(letter: str) -> str:
    return f"\\u{ord(_CASES[letter]):04x}" if letter in _CASES else ""
