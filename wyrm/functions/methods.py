"""Methods of nodes as functions, `wy.exp(x)` for `x.exp()`: of nodes, and of arrays and numbers as constants.

`methods.pyi`, which `python -m wyrm.declare_functions` generates from the methods, holds their types.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from wyrm.node.base import BaseNode
from wyrm.node.leaves import Constant
from wyrm.node.node import Node
from wyrm.ops.elementwise import operand


def _function(name: str) -> Callable[..., Any]:
    @wraps(getattr(Node, name))
    def function(x: Any, *arguments: Any, **keywords: Any) -> Any:
        if not isinstance(x, BaseNode):
            beside = next((argument for argument in arguments if isinstance(argument, Node)), None)
            x = Constant(x) if beside is None else operand(x, beside)
        return getattr(x, name)(*arguments, **keywords)

    function.__module__, function.__qualname__ = __name__, name
    return function


abs = _function("abs")
argmax = _function("argmax")
broadcast_to = _function("broadcast_to")
clip = _function("clip")
cos = _function("cos")
erf = _function("erf")
exp = _function("exp")
expand_dims = _function("expand_dims")
expm1 = _function("expm1")
flatten = _function("flatten")
log = _function("log")
log1p = _function("log1p")
log_softmax = _function("log_softmax")
logsumexp = _function("logsumexp")
max = _function("max")
maximum = _function("maximum")
mean = _function("mean")
min = _function("min")
minimum = _function("minimum")
prod = _function("prod")
ravel = _function("ravel")
relu = _function("relu")
reshape = _function("reshape")
sigmoid = _function("sigmoid")
sign = _function("sign")
sin = _function("sin")
softmax = _function("softmax")
softplus = _function("softplus")
split = _function("split")
sqrt = _function("sqrt")
square = _function("square")
squeeze = _function("squeeze")
std = _function("std")
stop_gradient = _function("stop_gradient")
sum = _function("sum")
swapaxes = _function("swapaxes")
take = _function("take")
take_along_axis = _function("take_along_axis")
tanh = _function("tanh")
transpose = _function("transpose")
var = _function("var")
