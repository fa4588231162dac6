"""Methods and ops as functions, `wy.exp(x)` for `x.exp()`: of nodes, and of arrays and numbers as constants.

`methods.pyi`, which `python -m wyrm.declare_functions` generates from the methods, holds their types.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import wraps
from typing import Any

from wyrm import _names
from wyrm.node.base import BaseNode
from wyrm.node.leaves import Constant
from wyrm.node.node import Node
from wyrm.ops.elementwise import FUNCTIONS, operand


def _function(name: str) -> Callable[..., Any]:
    @wraps(getattr(Node, name))
    def function(x: Any, *arguments: Any, **keywords: Any) -> Any:
        if not isinstance(x, BaseNode):
            beside = next((argument for argument in arguments if isinstance(argument, Node)), None)
            x = Constant(x) if beside is None else operand(x, beside)
        return getattr(x, name)(*arguments, **keywords)

    function.__module__, function.__qualname__ = __name__, name
    return function


def function_of(name: str, module: str = __name__) -> Callable[..., Any]:
    """Return the function that constructs an elementwise op of one or two operands; `_names.OPS` lists the names."""
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


def __getattr__(name: str) -> Callable[..., Any]:
    if name not in _names.FUNCTIONS[__name__.removeprefix("wyrm.")]:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, function_of(name) if name in _names.OPS else _function(name))
