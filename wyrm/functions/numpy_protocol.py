"""NumPy's functions on nodes: unchanged code for arrays builds graphs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from math import log
from typing import Any

import numpy as np

from wyrm.node.base import BaseNode
from wyrm.node.leaves import Constant, as_constant
from wyrm.node.node import Node
from wyrm.ops.comparison import where
from wyrm.ops.product import einsum
from wyrm.ops.slicing import concatenate, stack

Operation = Callable[..., Any]


def _logaddexp(x: Any, y: Any) -> Any:
    return x.maximum(y) + (-abs(x - y)).exp().log1p()


# By name, for the ufuncs of SciPy are not known here.
UFUNCS: dict[str, Operation] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "true_divide": operator.truediv, "power": operator.pow, "matmul": operator.matmul, "negative": operator.neg,
    "positive": lambda x: x, "absolute": abs, "fabs": abs, "reciprocal": lambda x: 1.0 / x,
    "exp": Node.exp, "exp2": lambda x: (x * log(2.0)).exp(), "expm1": Node.expm1,
    "log": Node.log, "log2": lambda x: x.log() / log(2.0), "log10": lambda x: x.log() / log(10.0), "log1p": Node.log1p,
    "logaddexp": _logaddexp, "sqrt": Node.sqrt, "square": Node.square, "sign": Node.sign,
    "sin": Node.sin, "cos": Node.cos, "tan": lambda x: x.sin() / x.cos(), "tanh": Node.tanh,
    "sinh": lambda x: (x.expm1() - (-x).expm1()) / 2.0, "cosh": lambda x: (x.exp() + (-x).exp()) / 2.0,
    "maximum": Node.maximum, "minimum": Node.minimum, "greater": operator.gt, "greater_equal": operator.ge,
    "less": operator.lt, "less_equal": operator.le, "equal": Node.equal, "not_equal": Node.not_equal,
    "logical_and": operator.and_, "logical_or": operator.or_, "logical_not": operator.invert,
    "bitwise_and": operator.and_, "bitwise_or": operator.or_, "invert": operator.invert,
    "erf": Node.erf, "expit": Node.sigmoid,
}  # fmt: skip


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    if ord not in (None, 2) or (ord == 2 and axis is None and len(x.dims) != 1):
        raise TypeError("numpy.linalg.norm of a node is the root of the sum of squares, without another ord")
    return x.square().sum(axis=axis, keepdims=keepdims).sqrt()


def _dot(x: Any, y: Any) -> Any:
    return x * y if not x.dims or not y.dims else x @ y


FUNCTIONS: dict[Operation, Operation] = {
    np.where: where,
    np.concatenate: lambda parts, axis=0: concatenate(parts, axis=axis),
    np.stack: lambda parts, axis=0: stack(parts, axis=axis),
    np.einsum: lambda subscripts, *operands: einsum(subscripts, *operands),
    np.dot: _dot,
    np.outer: lambda x, y: x.reshape((-1, 1)) * y.reshape((1, -1)),
    np.std: lambda x, axis=None, ddof=0, keepdims=False: x.var(axis=axis, ddof=ddof, keepdims=keepdims).sqrt(),
    np.linalg.norm: _norm,
    np.zeros_like: lambda x: x.stop_gradient() * 0.0,
    np.ones_like: lambda x: x.stop_gradient() * 0.0 + 1.0,
    np.shape: lambda x: x.shape,
    np.ndim: lambda x: len(x.dims),
    np.size: lambda x: int(np.prod(x.shape)),
    np.amax: lambda x, *more, **options: x.max(*more, **options),
    np.amin: lambda x, *more, **options: x.min(*more, **options),
}  # fmt: skip
# Those that nodes have as methods of the same arguments.
_METHODS = (
    "argmax", "broadcast_to", "clip", "expand_dims", "max", "mean", "min", "ravel", "reshape", "split", "squeeze",
    "sum", "swapaxes", "take", "take_along_axis", "transpose", "var",
)  # fmt: skip


def ufunc(node: Any, function: Any, method: str, *operands: Any, **options: Any) -> Any:
    """What NumPy calls for a ufunc of which `node` is an operand."""
    name = function.__name__
    if method != "__call__" or any(value is not None for value in options.values()):
        used = f".{method}" if method != "__call__" else f" with {', '.join(options)}"
        raise TypeError(
            f"numpy.{name}{used} takes arrays, not nodes: a node is a new value, so instead of `array += node` write "
            f"array = array + node"
        )
    if name not in UFUNCS:
        raise _unknown(name)
    return UFUNCS[name](*_nodes(operands))


def array_function(node: Any, function: Any, types: Any, arguments: Any, options: Mapping[str, Any]) -> Any:
    """What NumPy calls for any other function of which `node` is an argument."""
    name = function.__name__
    if function in FUNCTIONS:
        first, *rest = arguments
        many = isinstance(first, list | tuple)
        given = [_nodes(first), *rest] if many else arguments if isinstance(first, str) else _nodes(arguments)
        return FUNCTIONS[function](*given, **options)
    if name in _METHODS and getattr(np, name) is function:
        first, *rest = arguments
        return getattr(_nodes([first])[0], name)(*rest, **options)
    raise _unknown(name)


def _nodes(operands: Any) -> list[Any]:
    """The operands, arrays among them as constants of the float type of the nodes."""
    kind = next((x.dtype for x in operands if isinstance(x, BaseNode) and x.dtype.kind == "f"), np.dtype(np.float32))
    found = []
    for operand in operands:
        if isinstance(operand, np.ndarray | np.generic) and operand.dtype.kind == "b":
            found.append(Constant(operand))
        elif isinstance(operand, np.ndarray | np.generic | float | int) and not isinstance(operand, bool):
            found.append(as_constant(operand, kind))
        else:
            found.append(operand)
    return found


def _unknown(name: str) -> TypeError:
    known = [*UFUNCS, *_METHODS, *(function.__name__ for function in FUNCTIONS)]
    near = get_close_matches(name, [*known, *(each for each in dir(Node) if not each.startswith("_"))], n=1, cutoff=0.5)
    there = f"the nearest that there is: {_spelled(near[0], known)}. " if near else ""
    return TypeError(
        f"numpy.{name} has no form for nodes; {there}Compose it of operators and methods of nodes, write an op of your "
        f"own, or compute numpy.{name} on node.value"
    )


def _spelled(name: str, known: list[str]) -> str:
    return f"numpy.{name}" if name in known and hasattr(np, name) else f"node.{name}(...)"
