"""Elementwise ops of one or two operands as functions of nodes, arrays and numbers."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from wyrm import _names
from wyrm.graph.base import BaseNode
from wyrm.graph.binding import FUNCTIONS
from wyrm.graph.leaves import Constant
from wyrm.graph.node import Node
from wyrm.ops.elementwise.elementwise import operand


def function_of(name: str, module: str) -> Callable[..., Any]:
    """Return the function of a module that constructs an elementwise op; `_names.OPS` lists the names."""
    importlib.import_module(_names.OPS[name])
    op: Any = FUNCTIONS[name]

    def of_one(x: Any) -> Any:
        return op(x if isinstance(x, BaseNode) else Constant(x))

    def of_two(x: Any, other: Any) -> Any:
        nodes = [each for each in (x, other) if isinstance(each, Node)] or [Constant(x)]
        beside = next((node for node in nodes if node.dtype.kind == "f"), nodes[0])
        return op(operand(x, beside), operand(other, beside))

    function = of_one if op.arity == 1 else of_two
    function.__name__ = function.__qualname__ = name.removeprefix("special.")
    function.__module__, function.__doc__ = module, op.__doc__
    return function
