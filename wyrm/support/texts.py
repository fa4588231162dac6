"""Texts that files and terminals can take."""

from __future__ import annotations


def encodable(text: str) -> str:
    r"""Return the text as UTF-8 can hold it: lone surrogates, as in names of files in other encodings, become escapes.

    >>> print(encodable("caf\udce9"))
    caf\udce9
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
