"""Sums over rows of several devices: each device keeps its part of a sum until it is needed as a whole.

The gradient of a weight is a sum over the batch. If the devices share the rows, it needs a reduction over the devices.
Gradients of several batches are added up before, in parts. Each is reduced alone, where it is ready: XLA joins small
reductions, and on GPUs and TPUs it computes the gradients of earlier layers meanwhile.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from wyrm.graph.axes import Dim
from wyrm.graph.base import BaseNode
from wyrm.support.imports import jax, jnp

if TYPE_CHECKING:
    from wyrm.engines.jax.sharding import MeshAxes, Sharding

# The ops whose value for sums is the sum of their values for parts.
_SUMS = {"x + y": operator.add, "x - y": operator.sub}


class PartialSum:
    """A sum that is not added up yet: `parts` has a term for each device along its first axis, over `mesh_axes`."""

    __slots__ = ("_total", "mesh_axes", "parts")

    def __init__(self, parts: Any, mesh_axes: MeshAxes) -> None:
        self.parts: Any = parts
        self.mesh_axes: MeshAxes = mesh_axes
        self._total: Any = None

    def of_parts(self, parts: Any) -> PartialSum:
        """Return a sum of other parts over the same devices."""
        return PartialSum(parts, self.mesh_axes)

    def __getitem__(self, index: int) -> PartialSum:
        """Return element `index` of stacked partial sums."""
        return self.of_parts(self.parts[index])

    @property
    def dtype(self) -> Any:
        """The dtype of the sum."""
        return self.parts.dtype

    def astype(self, dtype: Any) -> PartialSum:
        """Return the sum in another dtype."""
        return self.of_parts(self.parts.astype(dtype))

    def reshape(self, shape: Sequence[int]) -> PartialSum:
        """Return the sum with another shape."""
        return self.of_parts(self.parts.reshape(self.parts.shape[0], *shape))

    def __jax_array__(self) -> Any:
        return self.total()

    def total(self) -> Any:
        """Return the sum of the parts, on all devices; the first call computes it."""
        if self._total is None:
            self._total = self.parts.sum(axis=0)
        return self._total


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
    """Computes nodes as partial sums on the devices of a `Sharding`, and adds the parts up.

    With `of_sharded`, also the gradients of parameters that are sharded over the devices that share the rows: each
    device then has a part as large as the whole gradient until they are added up.
    """

    def __init__(self, sharding: Sharding, of_sharded: bool = False) -> None:
        self._sharding, self._of_sharded = sharding, of_sharded
        partial_sums_as_pytree()

    def of(
        self, node: BaseNode, operands: Sequence[Any], shape: Sequence[int], compute: Callable[[list[Any]], Any]
    ) -> PartialSum | None:
        """Return the value of a node as a partial sum, or None.

        It is None if the op neither adds up nor averages rows, if the operands are not divided over the same devices,
        or if the value itself is sharded otherwise. `shape` is the value's; `compute` returns the value for given
        operands.
        """
        first = operands[0] if operands else None
        if isinstance(first, PartialSum):
            if node.is_view or node.formula == "-x":
                return self._mapped(compute, [first.parts], first.mesh_axes)
            return _added(node, operands)
        if not (node.adds_rows or node.averages_rows) or not all(
            isinstance(operand, jax.Array) for operand in operands
        ):
            return None
        divided = self._rows_of(node, operands)
        if divided is None:
            return None
        axes, mesh_axes = divided
        if not self._may_have_parts(node, shape, mesh_axes):
            return None
        parts = [self._divided(*each, mesh_axes) for each in zip(operands, axes, strict=True)]
        found = self._mapped(compute, parts, mesh_axes)
        # Devices have equally many rows.
        return found.of_parts(found.parts / len(found.parts)) if node.averages_rows else found

    def _rows_of(self, node: BaseNode, operands: Sequence[Any]) -> tuple[list[int], MeshAxes] | None:
        """Return the axis of each operand that a node sums over and that is divided, and over which mesh axes.

        It is one axis by its name: under FSDP, another axis, of a weight, has the same mesh axis.
        """
        found: list[int] = []
        over: set[tuple[type[Dim] | None, MeshAxes]] = set()
        for parent, operand in zip(node.parents, operands, strict=True):
            placement = self._sharding.divided_axis(parent.dims, operand.shape)
            if placement is None:
                return None
            found.append(placement[0])
            over.add((self._sharding.deciding(parent.dims[placement[0]]), placement[1]))
        (name, mesh_axes), *others = over
        kept = name in map(self._sharding.deciding, node.dims)
        return None if others or kept else (found, mesh_axes)

    def _may_have_parts(self, node: BaseNode, shape: Sequence[int], mesh_axes: MeshAxes) -> bool:
        """Return whether a value is not sharded, or with `of_sharded` over these mesh axes."""
        own = [axes for axes in self._sharding.placed_axes(node.dims, shape) if axes]
        return not own or (self._of_sharded and own in ([mesh_axes], [mesh_axes[-1:]]))

    def row_shards(self, node: BaseNode, array: Any) -> int:
        """Return over how many devices the first axis of a value is divided; 1 if others are divided too."""
        placement = self._sharding.divided_axis(node.dims, array.shape)
        return 1 if placement is None or placement[0] else self._sharding.devices(placement[1])

    def apart(self, node: BaseNode, array: Any, terms: Any) -> PartialSum:
        """Return a sum over the rows of a value, given a term for each of `row_shards` along the first axis."""
        placement = self._sharding.divided_axis(node.dims, array.shape)
        assert placement is not None
        return PartialSum(self._sharding.constrained(terms, placement[1]), placement[1])

    def totals(self, values: Sequence[Any], parameters: Sequence[BaseNode | None]) -> list[Any]:
        """Return the values with totals in place of partial sums, each reduced alone, so that XLA may do so early.

        `parameters` are those that the values are gradients of; totals are placed as these are.
        """
        pairs = zip(values, parameters, strict=True)
        return [self._total(value, of) if isinstance(value, PartialSum) else value for value, of in pairs]

    def _total(self, value: PartialSum, parameter: BaseNode | None) -> Any:
        axis, kept = (-1, ()) if parameter is None else self._axis_over(parameter, value)
        parts = value.parts if axis < 0 else jnp.moveaxis(value.parts, axis + 1, 1)
        # One row for each device of the result, if it is sharded.
        flat = parts.reshape(len(parts), self._sharding.devices(kept), -1)
        total = self._added_up(flat, value.mesh_axes, kept).reshape(parts.shape[1:])
        return total if axis < 0 else jnp.moveaxis(total, 0, axis)

    def _added_up(self, flat: Any, mesh_axes: MeshAxes, kept: MeshAxes) -> Any:
        """Return the sum of the devices' parts, whose rows stay divided over the mesh axes `kept`.

        Over several mesh axes, the devices of the last one, which are near each other, add up first, and each of them
        keeps a part: only that part passes the slow links of the other axes.
        """
        far, near = mesh_axes[:-1], mesh_axes[-1:]
        if not far or kept not in ((), near):
            divided = self._sharding.constrained(flat, mesh_axes)
            total = divided.sum(axis=0)
            return self._sharding.constrained(total, kept)
        _, rows, columns = flat.shape
        slices, devices = self._sharding.devices(far), self._sharding.devices(near)
        parts = flat.reshape(slices, devices, rows * columns)
        # The devices' parts are equally long; rows are divided already.
        parts = jnp.pad(parts, ((0, 0), (0, 0), (0, -rows * columns % devices)))
        of_slices = self._sharding.constrained(parts, far, near).sum(axis=1)
        total = self._sharding.constrained(of_slices, far, near).sum(axis=0)
        total = self._sharding.constrained(self._sharding.constrained(total, near), kept)
        return total[: rows * columns].reshape(rows, columns)

    def _axis_over(self, parameter: BaseNode, value: PartialSum) -> tuple[int, MeshAxes]:
        """Return the axis that divides a parameter over the devices of a partial sum, and their mesh axes; else -1.

        The mesh axes may be the last one alone: the devices of each slice.
        """
        for axis, mesh_axes in enumerate(self._sharding.placed_axes(parameter.dims, value.parts.shape[1:])):
            if mesh_axes in (value.mesh_axes, value.mesh_axes[-1:]):
                return axis, mesh_axes
        return -1, ()

    def placed(self, total: Any, parameter: BaseNode) -> Any:
        """Return the total of gradients of several batches on the devices of the parameter, or of the parts."""
        if isinstance(total, PartialSum):
            return total.of_parts(self._sharding.constrained(total.parts, total.mesh_axes))
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
        parts = jax.vmap(lambda *own: whole(compute(list(own))))(*operands)
        return PartialSum(self._sharding.constrained(parts, mesh_axes), mesh_axes)


def _added(node: BaseNode, operands: Sequence[Any]) -> PartialSum | None:
    """Return the sum or difference of two partial sums over the same devices; None for other ops or operands."""
    x, y = operands[0], operands[-1]
    if node.formula not in _SUMS or not isinstance(y, PartialSum) or x.mesh_axes != y.mesh_axes:
        return None
    return x.of_parts(_SUMS[node.formula](x.parts, y.parts)) if x.parts.shape == y.parts.shape else None
