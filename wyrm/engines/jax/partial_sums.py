"""Sums over rows of several devices: each device keeps its part of every sum, and one reduction adds them all.

The gradient of a weight is a sum over the batch. If the devices share the rows, each gradient needs a reduction over
the devices, and many small ones wait for the network many times. Here the parts of all gradients are joined to one
array, which is reduced once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from wyrm.graph.base import BaseNode

if TYPE_CHECKING:
    from wyrm.engines.jax.sharding import MeshAxes, Sharding


class PartialSum:
    """A sum that is not added up yet: `parts` has a term for each device along its first axis, over `mesh_axes`."""

    __slots__ = ("mesh_axes", "parts")

    def __init__(self, parts: Any, mesh_axes: MeshAxes) -> None:
        self.parts: Any = parts
        self.mesh_axes: MeshAxes = mesh_axes

    def __getitem__(self, index: int) -> PartialSum:
        """Return element `index` of stacked partial sums."""
        return PartialSum(self.parts[index], self.mesh_axes)

    def total(self) -> Any:
        """Return the sum of the parts."""
        return self.parts.sum(axis=0)


def whole(value: Any) -> Any:
    """Return a value, or the total of a partial sum."""
    return value.total() if isinstance(value, PartialSum) else value


@cache
def partial_sums_as_pytree() -> None:
    """Tell JAX that a `PartialSum` is an array, which functions may return."""
    from jax.tree_util import register_pytree_node

    register_pytree_node(
        PartialSum,
        lambda partial: ((partial.parts,), partial.mesh_axes),
        lambda mesh_axes, parts: PartialSum(parts[0], mesh_axes),
    )


class PartialSums:
    """Computes nodes as partial sums on the devices of a `Sharding`, and adds the parts up."""

    def __init__(self, sharding: Sharding) -> None:
        self._sharding = sharding
        partial_sums_as_pytree()

    def of(
        self, node: BaseNode, operands: Sequence[Any], shape: Sequence[int], compute: Callable[[list[Any]], Any]
    ) -> PartialSum | None:
        """Return the value of a node as a partial sum, or None.

        It is None if the op does not add up rows, if the operands are not divided over the same devices, or if the
        value itself is sharded. `shape` is the value's; `compute` returns the value for given operands.
        """
        import jax

        views_parts = node.is_view and isinstance(operands[0], PartialSum)
        if not (views_parts or node.adds_rows) or self._sharding.activation_spec(node.dims, shape) is not None:
            return None
        if views_parts:
            return self._mapped(compute, [operands[0].parts], operands[0].mesh_axes)
        if not all(isinstance(operand, jax.Array) for operand in operands):
            return None
        placements = [
            self._sharding.divided_axis(parent.dims, operand.shape)
            for parent, operand in zip(node.parents, operands, strict=True)
        ]
        divided = [placement for placement in placements if placement is not None]
        if len(divided) < len(operands) or len({mesh_axes for _, mesh_axes in divided}) != 1:
            return None
        parts = [self._divided(operand, *placement) for operand, placement in zip(operands, divided, strict=True)]
        return self._mapped(compute, parts, divided[0][1])

    def totals(self, values: Sequence[Any]) -> list[Any]:
        """Return the values with totals in place of partial sums; one reduction adds all of a dtype."""
        import jax.numpy as jnp

        groups: dict[tuple[Any, MeshAxes], list[int]] = {}
        for i, value in enumerate(values):
            if isinstance(value, PartialSum):
                groups.setdefault((value.parts.dtype, value.mesh_axes), []).append(i)
        totals = list(values)
        for (_, mesh_axes), members in groups.items():
            arrays = [values[i].parts for i in members]
            flat = jnp.concatenate([array.reshape(array.shape[0], -1) for array in arrays], axis=1)
            total = self._sharding.constrained(self._sharding.constrained(flat, mesh_axes).sum(axis=0), ())
            ends = list(accumulate(math.prod(array.shape[1:]) for array in arrays))
            for i, array, end in zip(members, arrays, ends, strict=True):
                totals[i] = total[end - math.prod(array.shape[1:]) : end].reshape(array.shape[1:])
        return totals

    def placed(self, total: Any, parameter: BaseNode) -> Any:
        """Return the total of gradients of several batches on the devices of the parameter, or of the parts."""
        import jax

        if isinstance(total, PartialSum):
            return PartialSum(self._sharding.constrained(total.parts, total.mesh_axes), total.mesh_axes)
        if not isinstance(total, jax.Array):  # of row-sparse gradients
            return total
        return jax.lax.with_sharding_constraint(total, self._sharding.of_array(parameter, total.shape))

    def _divided(self, array: Any, axis: int, mesh_axes: MeshAxes) -> Any:
        """Return the array with axis `axis` divided among devices, which become a new first axis."""
        devices = self._sharding.devices(mesh_axes)
        parts = array.reshape(*array.shape[:axis], devices, array.shape[axis] // devices, *array.shape[axis + 1 :])
        order = [axis, *(i for i in range(parts.ndim) if i != axis)]
        return self._sharding.constrained(parts.transpose(order), mesh_axes)

    def _mapped(self, compute: Callable[[list[Any]], Any], operands: Sequence[Any], mesh_axes: MeshAxes) -> PartialSum:
        import jax

        parts = jax.vmap(lambda *own: whole(compute(list(own))))(*operands)
        return PartialSum(self._sharding.constrained(parts, mesh_axes), mesh_axes)


__all__ = ["PartialSum", "PartialSums", "whole"]
