"""What the `evaluate` of an op returns, checked against its rules and stored: the same in every engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from wyrm.errors import DTypeError, ShapeError, WyrmError
from wyrm.graph.axes import Dim
from wyrm.graph.base import BaseNode, explain
from wyrm.graph.index_operands import check_index_operands
from wyrm.graph.op import NUMPY


def evaluation(
    node: BaseNode, operands: Sequence[np.ndarray], out: np.ndarray, sizes: Mapping[type[Dim], int]
) -> Callable[[], None]:
    """Return a function that computes a node by its `evaluate`, without a kernel, after a check of its indices."""
    compute = partial(node.evaluate_for(sizes), NUMPY, *map(read_only, operands), shape=out.shape)

    def evaluate() -> None:
        check_index_operands(node, operands, sizes)
        evaluate_into(node, compute, out)

    return evaluate


def evaluate_into(node: BaseNode, evaluate: Callable[[], Any], out: np.ndarray) -> None:
    """Store what `evaluate` returns in `out`; raise `ShapeError` or `DTypeError` for what does not fit it.

    NumPy would stretch a result of another shape, and take `None` as NaN: wrong numbers, in silence.
    """
    try:
        result = evaluate()
    except Exception as error:
        if not isinstance(error, WyrmError):
            error.add_note(explain(node, f"failed with {type(error).__name__}"))
        raise
    if getattr(result, "shape", ()) != out.shape:
        check_shape(node, result, out.shape)
    if getattr(result, "dtype", None) is out.dtype:
        out[...] = result  # twice as fast as np.copyto
        return
    array = np.asarray(result)
    if not np.can_cast(array.dtype, out.dtype, "same_kind"):
        raise DTypeError(explain(node, f"evaluate returned {array.dtype}, but dtype_rule gives {out.dtype}"))
    np.copyto(out, array)


def check_shape(node: BaseNode, result: Any, shape: tuple[int, ...], made_by: str = "evaluate") -> None:
    """Raise `DTypeError` for a value of an op that is no array, and `ShapeError` for one of another shape."""
    if result is None:
        raise DTypeError(explain(node, f"{made_by} returned None: return an array"))
    given = np.shape(result)
    if given != shape:
        raise ShapeError(explain(node, f"{made_by} returned shape {given}, but shape_rule gives {shape} for this run"))


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a view of an operand that an `evaluate` cannot write."""
    view = array.view()
    view.flags.writeable = False
    return view
