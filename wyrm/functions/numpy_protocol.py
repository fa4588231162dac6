"""NumPy's functions on nodes (`__array_ufunc__`, `__array_function__`): code written for arrays builds graphs."""

from __future__ import annotations

import importlib
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.functions import contraction
from wyrm.functions.creation import full_like, ones_like, zeros_like
from wyrm.graph.arrays import as_array
from wyrm.graph.axes import Axis, AxisLike, all_axes, axis_size, product
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.leaves import Constant, as_constant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.typing import DTypeLike
from wyrm.graph.weak_types import default_type, is_weak
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.comparison import where as select
from wyrm.ops.elementwise.conversion import Cast, weak_floats
from wyrm.ops.indexing.index import as_indices
from wyrm.ops.indexing.joining import concatenate, stack
from wyrm.ops.reducing.base import refuse_keywords
from wyrm.support.foreign_names import answers

# What stands in a sum and in a product for the elements that `where` leaves out.
_NOTHING = {"sum": 0.0, "prod": 1.0}
_JOIN: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, y: x + y,
    "prod": lambda x, y: x * y,
    "max": lambda x, y: x.maximum(y),
    "min": lambda x, y: x.minimum(y),
}


def reduced(name: str) -> Callable[..., Any]:
    """Return the function for nodes of NumPy's "sum", "prod", "max", "min", "mean", "any" or "all"."""
    start = {"sum": _with_initial, "prod": _with_initial, "max": _extreme, "min": _extreme}.get(name)
    if start is not None:
        joins = start

        def with_initial(
            a: Any,
            axis: AxisLike = None,
            dtype: Any = None,
            keepdims: bool = False,
            initial: Any = None,
            where: Any = True,
        ) -> Any:
            return joins(name, _in_dtype_of_numpy(name, a, dtype), axis, keepdims, initial, _where_mask(name, a, where))

        if name in _NOTHING:
            return with_initial

        def extreme(
            a: Any, axis: AxisLike = None, keepdims: bool = False, initial: Any = None, where: Any = True
        ) -> Any:
            return with_initial(a, axis, None, keepdims, initial, where)

        return extreme
    if name == "mean":
        return _mean

    def logical(a: Any, axis: AxisLike = None, keepdims: bool = False, where: Any = True) -> Any:
        mask = _where_mask(name, a, where)
        if mask is not None:
            a = a if a.dtype.kind == "b" else a != 0
            a = a & mask if name == "any" else a | ~mask
        return getattr(a, name)(axis=axis, keepdims=keepdims)

    return logical


def variance_of(name: str) -> Callable[..., Any]:
    """Return the function for nodes of NumPy's "var" or "std"."""

    def spread(
        a: Any, axis: AxisLike = None, dtype: Any = None, ddof: int = 0, keepdims: bool = False, where: Any = True,
        correction: Any = None,
    ) -> Any:  # fmt: skip
        if correction is not None:
            if ddof:
                raise TypeError(f"numpy.{name}: ddof and correction are two names of one number: pass one of them")
            ddof = correction
        x, mask = _in_dtype_of_numpy(name, a, dtype), _where_mask(name, a, where)
        if mask is None:
            return getattr(x, name)(axis=axis, ddof=ddof, keepdims=keepdims)
        x = _floats(x)
        mean = _mean(x, axis, keepdims=True, where=mask)
        distance = select(mask, x - mean, 0.0)
        variance = distance.square().sum(axis=axis, keepdims=keepdims) / (
            _count_where(x, mask, axis, keepdims) - float(ddof)
        )
        return variance if name == "var" else variance.sqrt()

    return spread


def _mean(a: Any, axis: AxisLike = None, dtype: Any = None, keepdims: bool = False, where: Any = True) -> Any:
    x, mask = _in_dtype_of_numpy("mean", a, dtype), _where_mask("mean", a, where)
    if mask is None:
        return x.mean(axis=axis, keepdims=keepdims)
    x = _floats(x)
    return select(mask, x, 0.0).sum(axis=axis, keepdims=keepdims) / _count_where(x, mask, axis, keepdims)


def _with_initial(name: str, x: Any, axis: AxisLike, keepdims: bool, initial: Any, mask: Node | None) -> Any:
    """Return a sum or a product that begins with `initial`, of the elements where the mask is true."""
    if mask is not None:
        nothing = _NOTHING[name]
        x = x & mask if x.dtype.kind == "b" else select(mask, x, int(nothing) if x.dtype.kind == "i" else nothing)
    result = getattr(x, name)(axis=axis, keepdims=keepdims)
    return result if initial is None else _JOIN[name](result, initial)


def _extreme(name: str, x: Any, axis: AxisLike, keepdims: bool, initial: Any, mask: Node | None) -> Any:
    """Return a maximum or a minimum of `initial` and of the elements where the mask is true."""
    if mask is not None:
        if initial is None:
            raise ShapeError(
                f"numpy.{name}: {describe(x)}: where= leaves no elements where the mask is false, so say with initial= "
                f"what the result is then"
            )
        x = select(mask, x, initial)
    result = getattr(x, name)(axis=axis, keepdims=keepdims)
    return result if initial is None else _JOIN[name](result, initial)


def _floats(x: Any) -> Any:
    return x if x.dtype.kind == "f" else weak_floats(x)


def _count_where(x: Node, mask: Node, axis: AxisLike, keepdims: bool) -> Any:
    """Return the number of elements where the mask is true, in the dtype of `x`."""
    return Cast(mask.broadcast_to(x.dims), x.dtype).sum(axis=axis, keepdims=keepdims)


def _where_mask(name: str, x: BaseNode, where: Any) -> Node | None:
    """Return `where` as a mask, and None if it is true everywhere."""
    if where is True:
        return None
    mask = where if isinstance(where, BaseNode) else Constant(as_array(where, f"numpy.{name}: where"))
    if not isinstance(mask, Node) or mask.dtype.kind != "b":
        raise DTypeError(f"numpy.{name}: {describe(x)}: where= takes a mask, such as x > 0, not {describe(mask)}")
    return mask


def _in_dtype_of_numpy(name: str, x: Any, dtype: DTypeLike | None) -> Any:
    """Return the operand in the dtype in which NumPy computes the reduction."""
    if dtype is None:
        return x
    wanted = np.dtype(dtype)
    if wanted == x.dtype or (wanted == np.int64 and _counts(name, x)):
        return x
    if wanted not in (np.float32, np.float64):
        refuse_keywords(f"numpy.{name} of a node", ("dtype",), ("axis", "keepdims", "initial", "where"))
    return x.astype(dtype)


def _counts(name: str, x: BaseNode) -> bool:
    """Return whether the result holds integers without a `dtype`."""
    return name == "sum" and (isinstance(x, IndexNode) or x.dtype.kind == "b")


Operation = Callable[..., Any]

_COMPARISONS: dict[str, Operation] = {
    "equal": operator.eq, "not_equal": operator.ne, "greater": operator.gt, "greater_equal": operator.ge,
    "less": operator.lt, "less_equal": operator.le,
}  # fmt: skip
# Keyed by name, since SciPy's ufuncs cannot be imported here.
UFUNCS: dict[str, Operation] = {
    **_COMPARISONS,
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "true_divide": operator.truediv, "power": operator.pow, "matmul": operator.matmul, "negative": operator.neg,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "positive": operator.pos, "absolute": abs,
    "fabs": abs, "exp": Node.exp, "expm1": Node.expm1, "log": Node.log, "log1p": Node.log1p, "sqrt": Node.sqrt,
    "square": Node.square, "sign": Node.sign, "sin": Node.sin, "cos": Node.cos, "tanh": Node.tanh,
    "maximum": lambda x, y: x.maximum(y), "minimum": lambda x, y: x.minimum(y), "bitwise_and": operator.and_,
    "bitwise_or": operator.or_, "bitwise_xor": operator.xor, "invert": operator.invert, "erf": Node.erf,
    "expit": Node.sigmoid,
}  # fmt: skip
# The ufuncs of integer nodes.
_OF_INTEGERS = {
    *_COMPARISONS, "add", "subtract", "multiply", "negative", "floor_divide", "remainder", "absolute",
    "maximum", "minimum",
}  # fmt: skip
# The methods of nodes that are `accumulate` of a ufunc.
_ACCUMULATED = {"add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin"}
# Ufunc keywords with the default values that nodes accept.
_UFUNC_DEFAULTS = {"out": None, "where": True, "casting": "same_kind", "order": "K", "dtype": None, "subok": True}


def _concatenate(arrays: Any, axis: int | None = 0) -> Node:
    if axis is None:
        return concatenate([part.ravel() for part in arrays])
    return concatenate(arrays, axis=axis)


def _clip(
    a: Node, a_min: float | None = None, a_max: float | None = None, min: float | None = None, max: float | None = None
) -> Node:
    return a.clip(a_min if min is None else min, a_max if max is None else max)


def _count_along(a: Node, axis: AxisLike = None) -> Axis:
    whole = product(tuple(a.dims[i] for i in all_axes(axis, a.ndim)))
    size = axis_size(whole)
    return whole if size is None else size


def _where_nodes(condition: Node, x: Any = None, y: Any = None) -> Any:
    if x is None or y is None:
        raise TypeError(
            "numpy.where of nodes takes (condition, x, y): the positions where a mask is true depend on the data"
        )
    return where(condition, x, y)


# Implementations for nodes. Parameters have NumPy's names; an error rejects the parameters missing here.
FUNCTIONS: dict[Operation, Operation] = {
    np.where: _where_nodes,
    np.concatenate: _concatenate,
    np.stack: lambda arrays, axis=0: stack(arrays, axis=axis),
    np.einsum: contraction.einsum,
    np.sum: reduced("sum"), np.prod: reduced("prod"), np.mean: reduced("mean"), np.any: reduced("any"),
    np.max: reduced("max"), np.min: reduced("min"), np.amax: reduced("max"), np.amin: reduced("min"),
    np.all: reduced("all"), np.var: variance_of("var"), np.std: variance_of("std"),
    np.argmax: lambda a, axis=None, keepdims=False: a.argmax(axis=axis, keepdims=keepdims),
    np.clip: _clip,
    np.zeros_like: lambda a, dtype=None: zeros_like(a, dtype),
    np.ones_like: lambda a, dtype=None: ones_like(a, dtype),
    np.full_like: lambda a, fill_value, dtype=None: full_like(a, fill_value, dtype),
    np.shape: lambda a: a.shape, np.ndim: lambda a: a.ndim, np.size: _count_along,
    np.broadcast_to: lambda array, shape: array.broadcast_to(shape),
    np.reshape: lambda a, shape: a.reshape(shape),
    np.ravel: lambda a: a.ravel(),
    np.transpose: lambda a, axes=None: a.transpose(axes),
    np.swapaxes: lambda a, axis1, axis2: a.swapaxes(axis1, axis2),
    np.expand_dims: lambda a, axis: a.expand_dims(axis),
    np.squeeze: lambda a, axis=None: a.squeeze(axis),
    np.split: lambda ary, indices_or_sections, axis=0: ary.split(indices_or_sections, axis=axis),
    np.take: lambda a, indices, axis=None, mode="raise": a.take(indices, axis=axis, mode=mode),
    np.take_along_axis: lambda arr, indices, axis=-1: arr.take_along_axis(indices, axis),
}  # fmt: skip
# For each package, the one of wyrm that has functions of the same names.
_PACKAGES = {"numpy": "wyrm", "numpy.linalg": "wyrm.linalg", "scipy.special": "wyrm.special"}
# NumPy's parameter names for the operands of these functions.
_OPERANDS = ("a", "b", "x", "array", "ary", "arr")
# Signatures of functions that lack one in some version of NumPy.
_SIGNATURES: dict[Operation, Operation] = {
    np.where: lambda condition, x=None, y=None, /: None,
    np.concatenate: lambda arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind": None,
}


def ufunc(node: Node, function: Any, method: str, *operands: Any, **options: Any) -> Any:
    """Apply a ufunc to operands of which `node` is one; NumPy calls this."""
    name = function.__name__
    if method == "__call__" and not options and name in UFUNCS:
        for operand in operands:
            if not isinstance(operand, Node):
                break
        else:
            return UFUNCS[name](*operands)  # fast path: nodes alone need no conversion or checks
    if method == "accumulate" and name in _ACCUMULATED and options.keys() <= {"axis"} and len(operands) <= 2:
        axis = operands[1] if len(operands) == 2 else options.get("axis", 0)
        return getattr(node, _ACCUMULATED[name])(axis)
    if method != "__call__":
        raise TypeError(f"numpy.{name}.{method} takes arrays, not nodes: use an operator or a method of the node")
    dtype, out = options.get("dtype"), options.get("out")
    if out is not None:
        raise TypeError(
            f"numpy.{name} with out takes arrays, not nodes: nodes are immutable, so instead of `array += node`  "
            f"write array = array + node"
        )
    wrong = {
        key
        for key, value in options.items()
        if key not in _UFUNC_DEFAULTS or not _is_default(value, _UFUNC_DEFAULTS[key])
    }
    if wrong - {"dtype"}:
        refuse_keywords(f"numpy.{name} of a node", wrong, ("its operands",))
    integers = next((x for x in operands if isinstance(x, IndexNode)), None)
    if integers is not None and name in UFUNCS and name not in _OF_INTEGERS:
        raise DTypeError(f"numpy.{name}: {describe(integers)} holds integers; convert them with .astype(np.float32)")
    if name not in UFUNCS:
        found = _same_name("numpy", name) or _same_name("scipy.special", name)
        if found is None:
            raise _unknown_function(name)
        if dtype is not None:
            refuse_keywords(f"numpy.{name} of a node", ("dtype",), ("its operands",))
        return found(*operands)
    given = (
        _operand_nodes(operands)
        if integers is None
        else [x if isinstance(x, BaseNode) else as_indices(x) for x in operands]
    )
    result = UFUNCS[name](*given)
    if dtype is not None and np.dtype(dtype) != result.dtype:
        refuse_keywords(f"numpy.{name} of a node", ("dtype",), ("its operands",))
    return result


def array_function(
    node: Node, function: Any, types: object, arguments: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Apply any other NumPy function to arguments of which `node` is one; NumPy calls this."""
    name = function.__name__
    if function not in FUNCTIONS:
        found = _same_name(function.__module__, name)
        if found is None:
            raise _unknown_function(name, function.__module__)
        return _call_ours(found, function, arguments, options)
    implementation = FUNCTIONS[function]
    full = f"numpy.{name}"
    if function is np.einsum:
        refused = {key for key, value in options.items() if key != "optimize" and value is not None}
        if refused:
            refuse_keywords(f"{full} of nodes", refused, ("subscripts", "operands", "optimize"))
        return implementation(*arguments, optimize=options.get("optimize", True))
    given = _bound_arguments(function, full, arguments, options)
    taken = inspect.signature(implementation).parameters
    if given.keys() - taken.keys():
        refuse_keywords(f"{full} of a node", given.keys() - taken.keys(), taken)
    if "arrays" in given:
        given["arrays"] = _operand_nodes(given["arrays"])
    elif function is not np.where:  # np.where keeps the dtype of array operands itself
        operands = [key for key in _OPERANDS if key in given]
        given |= dict(zip(operands, _operand_nodes([given[key] for key in operands]), strict=True))
    return implementation(**given)


def _same_name(module: str, name: str) -> Operation | None:
    """Return wyrm's function of the same name as one of NumPy or SciPy; None if there is none."""
    origin = _PACKAGES.get(module)
    found: Operation | None = None if origin is None else getattr(importlib.import_module(origin), name, None)
    return found


def _call_ours(
    implementation: Operation, function: Operation, arguments: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Call a function of wyrm with the arguments given to NumPy's function of the same name."""
    name = f"{function.__module__}.{function.__name__}"
    taken = inspect.signature(implementation).parameters
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in taken.values()):
        return implementation(*arguments, **options)
    given = _bound_arguments(function, name, arguments, options)
    # The operands come first, under names that differ from NumPy's in some functions.
    required = [key for key, parameter in taken.items() if parameter.default is parameter.empty]
    first = [key for key in given if key not in taken][: len(required)]
    renamed = dict(zip(first, (key for key in required if key not in given), strict=False))
    given = {renamed.get(key, key): value for key, value in given.items()}
    if given.keys() - taken.keys():
        refuse_keywords(f"{name} of a node", given.keys() - taken.keys(), taken)
    positional = [key for key in taken if key in given and taken[key].kind is inspect.Parameter.POSITIONAL_ONLY]
    return implementation(*[given.pop(key) for key in positional], **given)


def _bound_arguments(
    function: Operation, name: str, arguments: Sequence[Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments under NumPy's names, without those that equal NumPy's default."""
    signature = _numpy_signature(function)
    try:
        bound = signature.bind(*arguments, **options)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None
    found: dict[str, Any] = {}
    for key, value in bound.arguments.items():
        parameter = signature.parameters[key]
        if parameter.kind is parameter.VAR_KEYWORD:
            found |= {name: other for name, other in value.items() if not _is_default(other, _UFUNC_DEFAULTS.get(name))}
        elif not _is_default(value, parameter.default):
            found[key] = value
    return found


@cache
def _numpy_signature(function: Operation) -> inspect.Signature:
    return inspect.signature(_SIGNATURES.get(function, function))


def _is_default(value: object, default: object) -> bool:
    """Whether an argument equals its default; an array or a node never does."""
    return value is default or (
        isinstance(value, str | bool | int) and type(value) is type(default) and value == default
    )


def _operand_nodes(operands: Any) -> list[Any]:
    """Return the operands, with arrays and numbers as constants of the nodes' float dtype."""
    nodes = [x for x in operands if isinstance(x, BaseNode)]
    floats = sorted((x for x in nodes if x.dtype.kind == "f"), key=lambda x: is_weak(x.dtype))
    kind = floats[0].dtype if floats else default_type(*nodes)
    found = []
    for operand in operands:
        if isinstance(operand, np.ndarray | np.generic) and operand.dtype.kind == "b":
            found.append(Constant(operand))
        elif isinstance(operand, np.ndarray | np.generic | float | int) and not isinstance(operand, bool):
            found.append(as_constant(operand, kind))
        else:
            found.append(operand)
    return found


def _unknown_function(name: str, package: str = "numpy") -> TypeError:
    instead = answers("numpy").get(name) or (
        f"compose it of operators and methods of nodes, write an op of your own, or compute {package}.{name} on "
        f"x.forward()"
    )
    return TypeError(f"{package}.{name} takes no nodes: {instead}")
