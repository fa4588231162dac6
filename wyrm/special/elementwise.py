"""The elementwise functions, one for each op that has it as `function = "special...."`.

`elementwise.pyi`, which `python -m wyrm.declare` generates from the ops, holds their types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wyrm import _names
from wyrm.functions.operands import function_of


def __getattr__(name: str) -> Callable[..., Any]:
    if f"special.{name}" not in _names.OPS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, function_of(f"special.{name}", __name__))
