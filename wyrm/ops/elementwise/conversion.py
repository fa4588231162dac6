"""Floats of integer nodes: `astype` and the quotient."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import DTypeLike

from wyrm.graph.node import IndexNode, Node
from wyrm.graph.typing import IntegerArray, Number
from wyrm.graph.weak_types import chosen
from wyrm.ops.elementwise.comparison import Cast, weak_floats
from wyrm.ops.elementwise.elementwise import S, method
from wyrm.ops.elementwise.integers import integers_beside


@overload
def quotient(x: IndexNode[S], other: Number) -> Node[Any, S]: ...
@overload
def quotient(x: IndexNode, other: IndexNode | IntegerArray) -> Node: ...
@method("__truediv__", IndexNode)
def quotient(x: IndexNode, other: object) -> Any:
    """Return the elementwise quotient of integers, of a weak float type.

    >>> ((wy.Constant([1.0, 0.0]) > 0.5).sum() / 2).forward().item()
    0.5
    """
    divisor: Any = other if isinstance(other, float) else integers_beside(x, other)
    if divisor is None:
        return NotImplemented
    return weak_floats(x) / (divisor if isinstance(divisor, float) else weak_floats(divisor))


@method("astype", IndexNode)
def astype_of_integers(x: IndexNode[S], dtype: DTypeLike) -> Cast[Any, S]:
    """Return integers converted to float32 or float64. Raise `DTypeError` for other dtypes.

    >>> wy.IndexConstant([1, 2]).astype("float32").forward().tolist()
    [1.0, 2.0]
    """
    integers: Any = x
    return Cast(integers, chosen(np.dtype(dtype)))
