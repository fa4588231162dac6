"""Texts of numbers and tables, the nearest of several words, and keys that tell equal values apart."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Collection, Hashable, Iterable, Sequence

import numpy as np

# Columns of tables that are made to fit are not narrower.
_LEAST = 12


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


def bytes_text(size: float) -> str:
    """Return a number of bytes with a unit.

    >>> bytes_text(1536), bytes_text(12), bytes_text(3 * 2**20)
    ('1.5 KiB', '12 B', '3 MiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:.3g} {unit}" if size < 1000 else f"{size:.0f} {unit}"


def seconds_text(seconds: float) -> str:
    """Return a time with a unit.

    >>> seconds_text(0.0123), seconds_text(4.5e-8)
    ('12.3 ms', '45 ns')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
        if seconds >= size or unit == "ns":
            break
    return f"{seconds / size:.3g} {unit}" if seconds < 100 * size else f"{seconds / size:.0f} {unit}"


def of_all_layers(module: str) -> str:
    """Return the path of a module without the numbers of layers.

    >>> of_all_layers("blocks[3].attention")
    'blocks[*].attention'
    """
    return re.sub(r"\[\d+\]", "[*]", module)


def aligned_lines(rows: Sequence[Sequence[str]], right: Collection[int]) -> list[str]:
    """Return the lines of a table with columns of equal width; those of `right` are aligned to the right.

    >>> aligned_lines([("layer", "size"), ("a", "10")], {1})
    ['layer  size', 'a        10']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        encodable("  ".join(cell.rjust(w) if i in right else cell.ljust(w) for i, (cell, w) in pairs).rstrip())
        for pairs in (enumerate(zip(row, widths, strict=True)) for row in rows)
    ]


def aligned_table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int]) -> list[str]:
    """Return the lines of a table with a rule under its head; `right` as in `aligned_lines`."""
    lines = aligned_lines([head, *rows], right)
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]


def terminal_columns() -> int:
    """Return the number of columns of the terminal that this process prints to; 0 for a file, a pipe or a notebook."""
    import shutil  # late: it imports the modules of all archives

    return shutil.get_terminal_size((0, 0)).columns if sys.stdout is not None and sys.stdout.isatty() else 0


def wrapped(text: str) -> str:
    """Return a text in lines that fit the terminal; in a file each line is as long as it is."""
    width = terminal_columns()
    return "\n".join(textwrap.fill(line, width) if width else line for line in text.splitlines())


def cut(text: str, width: int) -> str:
    """Return a text, shortened to a width.

    >>> cut("matmul(x, weight)", 10)
    'matmul(x,…'
    """
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def fitted(
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    shrinking: Sequence[int],
    optional: Sequence[int] = (),
) -> tuple[list[list[str]], list[int]]:
    """Return the rows of a table that fits into so many columns of text, and which of its columns are left.

    The columns `shrinking` are shortened in their order, none below 12 letters. Where that is not enough, the columns
    `optional` are left out, in their order. Width 0 is no limit.

    >>> fitted([("a", "x" * 30, "y" * 20), ("b", "", "")], 40, shrinking=(1, 2))[0][0]
    ['a', 'xxxxxxxxxxxxxx…', 'yyyyyyyyyyyyyyyyyyyy']
    """
    kept = list(range(len(rows[0]))) if rows else []
    waiting = list(optional)
    while True:
        widths = {i: max(len(row[i]) for row in rows) for i in kept}
        excess = sum(widths.values()) + 2 * (len(kept) - 1) - width if width else 0
        for i in shrinking:
            if i in widths and excess > 0:
                narrower = min(widths[i], max(widths[i] - excess, _LEAST))
                excess -= widths[i] - narrower
                widths[i] = narrower
        if excess <= 0 or not waiting:
            return [[cut(row[i], widths[i]) for i in kept] for row in rows], kept
        kept = [i for i in kept if i != waiting[0]]
        del waiting[0]
