"""NumPy's reductions of nodes with its keywords `where`, `initial`, `dtype` and `correction`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.graph.axes import AxisLike
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.leaves import Constant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.typing import DTypeLike
from wyrm.ops.elementwise.comparison import where as select
from wyrm.ops.elementwise.conversion import Cast, weak_floats
from wyrm.ops.reducing.base import refuse_keywords

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
            return joins(name, _converted(name, a, dtype), axis, keepdims, initial, _mask(name, a, where))

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
        mask = _mask(name, a, where)
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
        x, mask = _converted(name, a, dtype), _mask(name, a, where)
        if mask is None:
            return getattr(x, name)(axis=axis, ddof=ddof, keepdims=keepdims)
        x = _floats(x)
        mean = _mean(x, axis, keepdims=True, where=mask)
        distance = select(mask, x - mean, 0.0)
        variance = distance.square().sum(axis=axis, keepdims=keepdims) / (_count(x, mask, axis, keepdims) - float(ddof))
        return variance if name == "var" else variance.sqrt()

    return spread


def _mean(a: Any, axis: AxisLike = None, dtype: Any = None, keepdims: bool = False, where: Any = True) -> Any:
    x, mask = _converted("mean", a, dtype), _mask("mean", a, where)
    if mask is None:
        return x.mean(axis=axis, keepdims=keepdims)
    x = _floats(x)
    return select(mask, x, 0.0).sum(axis=axis, keepdims=keepdims) / _count(x, mask, axis, keepdims)


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


def _count(x: Node, mask: Node, axis: AxisLike, keepdims: bool) -> Any:
    """Return the number of elements where the mask is true, in the dtype of `x`."""
    return Cast(mask.broadcast_to(x.dims), x.dtype).sum(axis=axis, keepdims=keepdims)


def _mask(name: str, x: BaseNode, where: Any) -> Node | None:
    """Return `where` as a mask, and None if it is true everywhere."""
    if where is True:
        return None
    mask = where if isinstance(where, BaseNode) else Constant(as_array(where, f"numpy.{name}: where"))
    if not isinstance(mask, Node) or mask.dtype.kind != "b":
        raise DTypeError(f"numpy.{name}: {describe(x)}: where= takes a mask, such as x > 0, not {describe(mask)}")
    return mask


def _converted(name: str, x: Any, dtype: DTypeLike | None) -> Any:
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
