"""`scipy.special`, whose ufuncs take nodes by NumPy's protocol."""

from __future__ import annotations

from typing import Any

import scipy.special as scipy_special

import wyrm.special
from wyrm.graph.base import BaseNode


def __getattr__(name: str) -> Any:
    function = getattr(scipy_special, name)

    def call(*arguments: Any, **keywords: Any) -> Any:
        if any(isinstance(each, BaseNode) for each in (*arguments, *keywords.values())):
            return getattr(wyrm.special, name)(*arguments, **keywords)
        return function(*arguments, **keywords)

    call.__name__ = name
    return call
