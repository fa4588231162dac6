"""Tracing, which wyrm's graphs replace."""

from __future__ import annotations

from typing import Any

from wyrm.node.base import BaseNode
from wyrm.node.node import Node

from .extend import primitive


def isbox(value: Any) -> bool:
    return isinstance(value, BaseNode)


def getval(value: Any) -> Any:
    return value.forward() if isinstance(value, Node) else value


__all__ = ["getval", "isbox", "primitive"]
