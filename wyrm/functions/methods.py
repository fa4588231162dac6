"""Methods and ops as functions, `wy.exp(x)` for `x.exp()`: of nodes, and of arrays and numbers as constants.

`methods.pyi`, which `python -m wyrm.declare` generates from the methods, holds their types.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from wyrm import _names
from wyrm.functions.operands import function_of
from wyrm.graph.base import BaseNode
from wyrm.graph.leaves import Constant
from wyrm.graph.node import IndexNode, Node
from wyrm.ops.elementwise.elementwise import operand
from wyrm.ops.indexing.index import as_indices

# The methods whose first operand may be integers if the second one is.
_OF_PAIRS = ("maximum", "minimum")


def _function(name: str) -> Callable[..., Any]:
    @wraps(getattr(Node, name))
    def function(x: Any, *arguments: Any, **keywords: Any) -> Any:
        if not isinstance(x, BaseNode):
            beside = next((argument for argument in arguments if isinstance(argument, Node)), None)
            if name in _OF_PAIRS and isinstance(next(iter(arguments), None), IndexNode):
                x = as_indices(x)
            else:
                x = Constant(x) if beside is None else operand(x, beside)
        return getattr(x, name)(*arguments, **keywords)

    function.__module__, function.__qualname__ = __name__, name
    signature = inspect.signature(function)
    _, *others = signature.parameters.values()
    node = inspect.Parameter("x", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    setattr(function, "__signature__", signature.replace(parameters=[node, *others]))  # noqa: B010  # as in `loss`
    return function


def __getattr__(name: str) -> Callable[..., Any]:
    if name not in _names.FUNCTIONS[__name__.removeprefix("wyrm.")]:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, function_of(name, __name__) if name in _names.OPS else _function(name))
