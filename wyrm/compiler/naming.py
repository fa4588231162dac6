"""Names in generated code, made of what users name things."""

from __future__ import annotations

import keyword
import re

# What `run` and loops inside a graph call their own, and the functions that they call. By their form the names of loop
# variables, of the kernels of ops, of the functions in `fast_math` and of the numbers of an optimizer's rule are kept
# free.
RESERVED = frozenset(
    [
        "first", "count", "batch", "step", "order", "totals", "hyper", "k", "t", "done", "run", "abs", "min", "claim",
        "release", "checked", "load", "added", "copied", "put", "taken", "accumulate", "natural", "check_all",
        "check_counted", "spoil_numbers", "spoil_indices",
    ]
)  # fmt: skip
_RESERVED_FORMS = re.compile(r"[ij]\d+|\w+_kernel(_\d+)?|float32_\w+|(?!update_)\w+_float(32|64)")


def identifier(name: str) -> str:
    """A part of a Python identifier made of any text, so that what users name is never code.

    It does not end with an underscore, as the variables of generated code do.
    """
    return re.sub(r"\W", "_", name, flags=re.ASCII)[:24].rstrip("_")


class UniqueNames:
    """The names of one program: called with a text, it gives a name that nothing else in the program has."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def __call__(self, text: str) -> str:
        base = identifier(text) or "value"
        if base[0].isdigit() or keyword.iskeyword(base) or base in RESERVED or _RESERVED_FORMS.fullmatch(base):
            base = f"the_{base}"
        name, count = base, 1
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name
