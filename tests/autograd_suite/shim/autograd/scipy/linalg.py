"""`scipy.linalg`."""

from __future__ import annotations

from typing import Any

import scipy.linalg as scipy_linalg

import wyrm.linalg
from wyrm.graph.base import BaseNode


def __getattr__(name: str) -> Any:
    function = getattr(scipy_linalg, name)

    def call(*arguments: Any, **keywords: Any) -> Any:
        if any(isinstance(each, BaseNode) for each in arguments):
            return getattr(wyrm.linalg, name)(*arguments, **keywords)
        return function(*arguments, **keywords)

    call.__name__ = name
    return call
