"""Texts that terminals and files can take, the nearest of several words, and keys that tell equal values apart."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np


def encodable(text: str) -> str:
    r"""Return the text as UTF-8 can hold it: lone surrogates, as in names of files in other encodings, become escapes.

    >>> print(encodable("caf\udce9"))
    caf\udce9
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def exact(value: object) -> Hashable:
    """Return a key that is equal for values of the same type and bits, in tuples too; any NaN equals itself.

    >>> exact(0.0) == exact(-0.0), exact(1) == exact(True), exact((1, 2.0)) == exact((1, 2.0))
    (False, False, True)
    """
    kind = type(value)
    if kind is int or kind is str or value is None:
        return value
    if isinstance(value, tuple):
        return kind, tuple(map(exact, value))
    if isinstance(value, float):  # `np.float64` too
        return kind, float.hex(value)
    if isinstance(value, bool | np.generic):
        return kind, value.tobytes() if isinstance(value, np.generic) else int(value)
    return value  # if unhashable, the dict that looks it up raises


def nearest(word: object, words: Iterable[str]) -> str:
    """Return the end of an error for an unknown word: which of `words` was probably meant; empty if none is like it.

    >>> nearest("smae", ["same", "valid"])
    "; did you mean 'same'?"
    """
    import difflib  # only errors need it

    close = difflib.get_close_matches(str(word).lower(), list(words), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""
