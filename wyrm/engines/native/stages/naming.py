"""Names in generated code, derived from the users' names."""

from __future__ import annotations

import keyword
import re

# The names that `run` and loops inside a graph use for their variables and functions. The forms below also reserve the
# names of loop variables, of op kernels, of functions in `fast_math` and of an optimizer's numbers.
RESERVED = frozenset(
    [
        "first", "count", "batch", "step", "order", "totals", "hyperparameters", "k", "t", "done", "run", "abs", "min",
        "claim", "release", "checked", "load", "added", "copied", "put", "taken", "accumulate", "natural", "check_all",
        "check_counted", "check_from_end", "fill_with_nan", "fill_with_invalid_indices",
    ]
)  # fmt: skip
_RESERVED_FORMS = re.compile(r"[ij]\d+|\w+_kernel(_\d+)?|float32_\w+|(?!update_)\w+_float(32|64)")


def identifier(name: str) -> str:
    """Return a part of a Python identifier made from any text, so that users' names cannot become code.

    It does not end with an underscore, unlike the variables of generated code.
    """
    return re.sub(r"\W", "_", name, flags=re.ASCII)[:24].rstrip("_")


class UniqueNames:
    """The names of one program; a call with a text returns a name that is not taken yet."""

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
