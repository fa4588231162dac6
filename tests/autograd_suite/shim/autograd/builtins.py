"""Containers, which need no class of their own."""

from __future__ import annotations

import builtins
from typing import Any

from wyrm.graph.base import BaseNode

list, tuple, dict = builtins.list, builtins.tuple, builtins.dict


def isinstance(value: Any, kind: Any) -> bool:
    import numpy as np

    if builtins.isinstance(value, BaseNode):
        return builtins.issubclass(np.ndarray, kind)
    return builtins.isinstance(value, kind)
