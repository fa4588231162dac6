"""Methods and ops as functions, `wy.exp(x)` for `x.exp()`: of nodes, and of arrays and numbers as constants.

`methods.pyi`, which `python -m wyrm.declare` generates from the methods and ops, holds their types.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from wyrm import _names
from wyrm.graph.base import BaseNode
from wyrm.graph.leaves import Constant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.registration import FUNCTIONS
from wyrm.ops.elementwise.elementwise import operand
from wyrm.ops.indexing.index import as_indices

# The methods whose first operand may be integers if the second one is.
_OF_PAIRS = ("maximum", "minimum")


def _of_method(name: str) -> Callable[..., Any]:
    """Return the function that calls a method."""

    @wraps(getattr(Node, name))
    def function(x: Any, *arguments: Any, **keywords: Any) -> Any:
        if not isinstance(x, BaseNode):
            beside = next((argument for argument in arguments if isinstance(argument, Node)), None)
            if name in _OF_PAIRS and isinstance(next(iter(arguments), None), IndexNode):
                x = as_indices(x)
            else:
                x = Constant(x) if beside is None else operand(x, beside)
        return getattr(x, name)(*arguments, **keywords)

    signature = inspect.signature(function)
    _, *others = signature.parameters.values()
    node = inspect.Parameter("x", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    setattr(function, "__signature__", signature.replace(parameters=[node, *others]))  # noqa: B010  # as in `loss`
    return function


def _function_of_op(op: Any) -> Callable[..., Any]:
    """Return the function that constructs an elementwise op."""

    def of_one(x: Any) -> Any:
        return op(x if isinstance(x, BaseNode) else Constant(x))

    def of_two(x: Any, other: Any) -> Any:
        nodes = [each for each in (x, other) if isinstance(each, Node)] or [Constant(x)]
        beside = next((node for node in nodes if node.dtype.kind == "f"), nodes[0])
        return op(operand(x, beside), operand(other, beside))

    function = of_one if op.arity == 1 else of_two
    function.__doc__ = op.__doc__
    return function


def __getattr__(name: str) -> Callable[..., Any]:
    full = name if name in _names.FUNCTIONS else f"special.{name}"
    if full not in _names.FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    importlib.import_module(_names.FUNCTIONS[full])
    function = _function_of_op(FUNCTIONS[full]) if full in FUNCTIONS else _of_method(name)
    function.__module__, function.__name__, function.__qualname__ = __name__, name, name
    return globals().setdefault(name, function)
