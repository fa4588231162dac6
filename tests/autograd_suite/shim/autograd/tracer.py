"""Tracing, which wyrm's graphs replace."""

from __future__ import annotations

from typing import Any

from wyrm.graph.base import BaseNode

from .extend import primitive


def isbox(value: Any) -> bool:
    return isinstance(value, BaseNode)


__all__ = ["isbox", "primitive"]
