"""Byte-level tokenizers, trained on a text or GPT-2's, built on the package `tokenizers`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.data.checks import FilePath, open_data_file, whole_number
from wyrm.errors import DataError, DTypeError, IndexOutOfRange
from wyrm.graph.arrays import as_array
from wyrm.support.files import replacing

END_OF_TEXT = "<|endoftext|>"
_BYTES = 256


def _package() -> ModuleType:
    """Import the optional package on first use."""
    try:
        import tokenizers
    except ImportError as error:
        raise DataError(
            f"a tokenizer needs the package 'tokenizers', which cannot be imported ({error}). Install it with "
            f"pip install 'wyrm-autodiff[examples]', or pip install tokenizers."
        ) from error
    module: ModuleType = tokenizers
    return module


class Tokenizer:
    """A byte-level byte-pair encoding from text to token ids and back, lossless for any text.

    Create one with `Tokenizer.train`, `Tokenizer.gpt2` or `Tokenizer.load`; the constructor wraps a
    `tokenizers.Tokenizer`.

    >>> tokenizer = Tokenizer.train("low lower lowest low lower lowest", vocab_size=260)
    >>> tokenizer
    Tokenizer(260 tokens)
    >>> ids = tokenizer.encode("lowest<|endoftext|>")
    >>> tokenizer.decode(ids), int(ids[-1]) == tokenizer.token_to_id("<|endoftext|>")
    ('lowest<|endoftext|>', True)
    """

    __slots__ = ("_inner",)

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @classmethod
    def train(cls, text: str, vocab_size: int, special_tokens: Sequence[str] = (END_OF_TEXT,)) -> Tokenizer:
        """Train a tokenizer: learn the frequent byte pairs of a text.

        The vocabulary holds the special tokens, all 256 bytes, and merged pairs up to `vocab_size`, or fewer if the
        text has no more pairs to merge. A special token is a single token wherever it occurs in a text.

        Raises:
            DTypeError: `text` is not a string, `vocab_size` not a whole number, or a special token not a string.
            DataError: the text is empty, `vocab_size` is too small for the bytes and the special tokens, or the
                package `tokenizers` is missing.

        >>> Tokenizer.train("banana bandana", vocab_size=300).vocab_size < 300
        True
        """
        if not isinstance(text, str):
            raise DTypeError(f"the text to train a tokenizer on must be a string, not {type(text).__name__}")
        if isinstance(special_tokens, str) or not all(isinstance(token, str) for token in special_tokens):
            raise DTypeError(f"special_tokens must be a sequence of strings, not {special_tokens!r}")
        special = list(dict.fromkeys(special_tokens))
        size = whole_number("vocab_size", vocab_size, minimum=_BYTES + len(special))
        if not text:
            raise DataError("the text to train a tokenizer on is empty.")
        package = _package()
        inner = _byte_level(package, package.models.BPE())
        trainer = package.trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=special,
            initial_alphabet=package.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        # Line by line, with line ends: the trainer copies each item several times, so the whole text takes much memory.
        inner.train_from_iterator(text.splitlines(keepends=True), trainer)
        return cls(inner)

    @classmethod
    def gpt2(cls, vocab_file: FilePath, merges_file: FilePath) -> Tokenizer:
        """Load GPT-2's tokenizer of 50,257 tokens from the files `vocab.json` and `merges.txt`.

        Raises:
            DataError: a file is missing, unreadable or of another format, or the package `tokenizers` is missing.

        >>> Tokenizer.gpt2("missing.json", "missing.txt")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        wyrm.errors.DataError: no such file: 'missing.json'. ...
        """
        for path in (vocab_file, merges_file):
            with open_data_file(path):  # the package's error does not name a missing file
                pass
        package = _package()
        try:
            model = package.models.BPE.from_file(os.fspath(vocab_file), os.fspath(merges_file))
        except Exception as error:  # the package raises plain exceptions
            raise DataError(
                f"{os.fspath(vocab_file)!r} and {os.fspath(merges_file)!r} are not a vocabulary and merges in GPT-2's "
                f"format: {error}"
            ) from error
        inner = _byte_level(package, model)
        inner.add_special_tokens([END_OF_TEXT])
        return cls(inner)

    @classmethod
    def load(cls, path: FilePath) -> Tokenizer:
        """Load a tokenizer from a JSON file that `save` or another user of the package `tokenizers` wrote.

        Raises:
            DataError: the file is missing, unreadable or not a tokenizer, or the package is missing.

        >>> Tokenizer.load("missing.json")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        wyrm.errors.DataError: no such file: 'missing.json'. ...
        """
        with open_data_file(path) as file:
            content = file.read()
        package = _package()
        try:
            return cls(package.Tokenizer.from_buffer(content))
        except Exception as error:  # the package raises plain exceptions
            raise DataError(f"{os.fspath(path)!r} holds no tokenizer: {error}") from error

    def save(self, path: FilePath) -> None:
        """Write the tokenizer to one JSON file, atomically.

        Raises:
            DataError: the file cannot be written; an existing file is unchanged.

        >>> import tempfile
        >>> tokenizer = Tokenizer.train("once upon a time", vocab_size=260)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     tokenizer.save(f"{directory}/tokenizer.json")
        ...     Tokenizer.load(f"{directory}/tokenizer.json")
        Tokenizer(260 tokens)
        """
        try:
            with replacing(path) as temporary:
                temporary.write_text(self.to_json(), encoding="utf-8")
        except OSError as error:
            raise DataError(
                f"cannot write {os.fspath(path)!r}: {error.strerror or error}; an existing file is unchanged"
            ) from error

    def to_json(self) -> str:
        """Return what `save` writes: the contents of a file `tokenizer.json`.

        >>> '"merges"' in Tokenizer.train("once upon a time", vocab_size=260).to_json()
        True
        """
        return str(self._inner.to_str())

    @property
    def stop_tokens(self) -> tuple[int, ...]:
        """The tokens that end a text: that of `<|endoftext|>`, or none.

        >>> Tokenizer.train("once upon a time", vocab_size=260).stop_tokens
        (0,)
        """
        found = self._inner.token_to_id(END_OF_TEXT)
        return () if found is None else (int(found),)

    @property
    def vocab_size(self) -> int:
        """Number of tokens, including special ones."""
        return int(self._inner.get_vocab_size())

    def token_to_id(self, token: str) -> int:
        """Return the id of a token, such as a special one.

        Raises:
            DataError: there is no such token.

        >>> Tokenizer.train("once upon a time", vocab_size=260).token_to_id("<|endoftext|>")
        0
        """
        found = self._inner.token_to_id(token)
        if found is None:
            raise DataError(f"no token {token!r} among the {self.vocab_size} of this tokenizer.")
        return int(found)

    def encode(self, text: str) -> NDArray[np.int64]:
        """Return the token ids of a text, an array of shape (tokens,).

        Raises:
            DTypeError: `text` is not a string.

        >>> Tokenizer.train("aaaa", vocab_size=257).encode("").shape
        (0,)
        """
        if not isinstance(text, str):
            raise DTypeError(f"a tokenizer encodes a string, not {type(text).__name__}.")
        return np.array(self._inner.encode(text).ids, np.int64)

    def decode(self, ids: Sequence[int] | NDArray[np.integer]) -> str:
        """Return the text of token ids, including special tokens; invalid UTF-8 becomes U+FFFD.

        Raises:
            DTypeError: the ids are not integers in one axis.
            IndexOutOfRange: an id is not in the vocabulary; with the first such position and the id.

        >>> tokenizer = Tokenizer.train("once upon a time", vocab_size=260)
        >>> tokenizer.decode(tokenizer.encode("anything else: ø"))
        'anything else: ø'
        """
        given = as_array(ids)
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            raise DTypeError(f"a tokenizer decodes integers in one axis, not {given.dtype} of shape {given.shape}.")
        outside = (given < 0) | (given >= self.vocab_size)
        if outside.any():
            position = int(outside.argmax())
            raise IndexOutOfRange(
                f"the token at position {position:,} has the id {int(given[position])}; "
                f"expected 0 to {self.vocab_size - 1}."
            )
        return str(self._inner.decode(given.tolist(), skip_special_tokens=False))

    def __repr__(self) -> str:
        return f"Tokenizer({self.vocab_size} tokens)"


def _byte_level(package: ModuleType, model: Any) -> Any:
    """Return a tokenizer in GPT-2's style: bytes as units, and no space added before the text."""
    inner = package.Tokenizer(model)
    inner.pre_tokenizer = package.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = package.decoders.ByteLevel()
    return inner
