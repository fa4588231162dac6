"""The word that a misspelt one was probably meant to be, for errors."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: object, words: Iterable[str]) -> str:
    """Return the end of an error for an unknown word: which of `words` was probably meant; empty if none is like it.

    >>> nearest("smae", ["same", "valid"])
    "; did you mean 'same'?"
    """
    import difflib  # only errors need it

    close = difflib.get_close_matches(str(word).lower(), list(words), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""
