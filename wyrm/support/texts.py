"""Texts that files and terminals can take."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence


def encodable(text: str) -> str:
    r"""Return the text as UTF-8 can hold it: lone surrogates, as in names of files in other encodings, become escapes.

    >>> print(encodable("caf\udce9"))
    caf\udce9
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


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


def aligned_table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int]) -> list[str]:
    """Return the lines of a table; `right` are the columns that are aligned to the right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        cells = (
            cell.rjust(w) if i in right else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        return encodable("  ".join(cells).rstrip())

    lines = [line(head), *map(line, rows)]
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]
