"""The base classes of ops that work along one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from wyrm.errors import DTypeError
from wyrm.graph.axes import Dims, normalize_axis, unify
from wyrm.graph.base import BaseNode, P_co, label
from wyrm.graph.loop_form import ByKernel, KernelArgument
from wyrm.graph.node import Node
from wyrm.ops.batching import spread
from wyrm.ops.elementwise.elementwise import Axes, common_dtype


class OneAxis(BaseNode[P_co, Axes], abstract=True):
    """An op along `axis`, a position from 0 on, of operands that all have that axis; the result has their axes."""

    __slots__ = ("axis",)
    axis: int

    def shape_rule(self) -> Dims:
        dims: Dims = self.parents[0].dims
        object.__setattr__(self, "axis", normalize_axis(self.axis, len(dims)))
        for parent in self.parents[1:]:
            dims = tuple(map(unify, dims, parent.dims))
        return dims

    def by_rows(self, rows: Sequence[int | None]) -> Literal["rows", "mean"] | None:
        return "rows" if self.axis not in rows else None

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Any:
        attributes: dict[str, Any] = self.attribute_values() | {"axis": self.axis + 1}
        return self.rebuild(tuple(spread(operands, mapped)), attributes)


class AlongAxis(OneAxis[tuple[Node, ...], Axes], Node[tuple[Node, ...], Axes], abstract=True):
    """An op of floats along `axis`."""

    __slots__ = ()

    def dtype_rule(self) -> np.dtype:
        dtype = common_dtype(self.parents)
        if dtype.kind != "f":
            raise DTypeError(f"{label(self.parents[0])} is {dtype}; convert it with .astype(np.float32)")
        return dtype


def split_at(axis: int, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return row-major arrays of one shape as views of three axes: those before `axis`, `axis`, and those after it."""
    shape = arrays[0].shape
    parts = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    return tuple(array.reshape(parts) for array in arrays)


class ReducedAxisLoops(ByKernel):
    """A kernel that reduces one axis: its operand has three axes and it reduces the middle one."""

    def kernel_arguments(
        self, node: Any, operands: Sequence[np.ndarray], out: np.ndarray
    ) -> tuple[KernelArgument, ...]:
        (x,) = split_at(node.axis, operands[0])
        return x, out.reshape(x.shape[0], x.shape[2])
