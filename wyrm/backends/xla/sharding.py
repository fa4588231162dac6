"""The placement of arrays on a mesh of devices, by the names of their axes."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from wyrm.backends.xla.sharding_table import ShardingRow, ShardingTable
from wyrm.backends.xla.unique_names import unique_names
from wyrm.errors import OptionError, ShapeError
from wyrm.node.base import BaseNode, describe, format_dims
from wyrm.node.index_leaves import IndexConstant
from wyrm.node.leaves import Constant
from wyrm.types.dims import Axis, Dim, Dims, Plus, Times, is_name, open_axes, resolve, resolve_axis
from wyrm.types.rows import RowSparse

# The mesh axes that an axis is divided over: none where it is replicated.
MeshAxes: TypeAlias = tuple[str, ...]


class Sharding:
    """A mesh of devices, and for names of axes the mesh axis, or the tuple of mesh axes, that each is divided over.

    Parameters, optimizer state, buffers and inputs are divided along the axes that are mapped and replicated along the
    others. A flattened axis (`Times`) is divided like the first of its parts that is mapped, a concatenated one
    (`Plus`) like its parts if all are mapped to the same mesh axes.

    Data parallelism maps the axis of the batch: `{Batch: "data"}`. FSDP maps an axis of the parameters to the same mesh
    axis: `{Batch: "data", Embed: "data"}`. Tensor parallelism maps axes of the parameters to another mesh axis:
    `{Batch: "data", Heads: "model", Inner: "model"}`.

    Raise `TypeError` for a key that is no class of axes, `OptionError` for a mesh axis that the mesh does not have.
    """

    def __init__(self, mesh: Any, axes: Mapping[type[Dim], str | tuple[str, ...]]) -> None:
        from jax.sharding import AxisType

        # `jax.make_mesh` makes explicit axes, whose operations take placements as arguments; here XLA infers them.
        self.mesh = mesh.update(axis_types=(AxisType.Auto,) * len(mesh.axis_names))
        self.axes: dict[type[Dim], MeshAxes] = {}
        for name, mesh_axes in axes.items():
            if not is_name(name) or name.derived:
                raise TypeError(
                    f"sharding maps classes of axes, such as `class Batch(wy.Dim): ...`, to mesh axes; {name!r} is none"
                )
            self.axes[name] = (mesh_axes,) if isinstance(mesh_axes, str) else tuple(mesh_axes)
            for mesh_axis in self.axes[name]:
                if mesh_axis not in mesh.shape:
                    raise OptionError(
                        f"sharding maps {name.__name__} to mesh axis {mesh_axis!r}, but {self._described_mesh()}"
                    )

    def check(self, nodes: Iterable[BaseNode], sizes: Mapping[type[Dim], int]) -> None:
        """Raise an error unless the parameters, buffers and inputs among the nodes can be placed.

        `nodes` are the leaves of a graph, and other nodes that have axes of their own. An open axis that `sizes` does
        not have is not checked. Raise `OptionError` for a mapped axis that no node has, `ShapeError` for an axis that
        its mesh axes do not divide, or for a mesh axis that divides two axes of one array.
        """
        nodes = list(nodes)
        self._check_known({name for node in nodes for axis in node.dims for name in _names(axis)})
        for leaf in nodes:
            if leaf.is_leaf and not isinstance(leaf, Constant | IndexConstant):
                self._check_leaf(leaf, sizes)

    def _check_known(self, known: set[type[Dim]]) -> None:
        for name in self.axes:
            if name in known:
                continue
            names = {other.__name__ for other in known}
            close = difflib.get_close_matches(name.__name__, names, cutoff=0.6)
            if name.__name__ in names:
                remedy = f"it has another class of that name; was {name.__name__} defined again?"
            elif close:
                remedy = f"did you mean {' or '.join(close)}?"
            else:
                remedy = f"its axes are {', '.join(sorted(names)) or 'numbers, which have no names'}"
            raise OptionError(
                f"sharding maps an unknown axis: no node of the graph has the axis {name.__name__}; {remedy}"
            )

    def _check_leaf(self, leaf: BaseNode, sizes: Mapping[type[Dim], int]) -> None:
        used: dict[str, Axis] = {}
        for axis in leaf.dims:
            mesh_axes = self._mesh_axes(axis)
            for mesh_axis in mesh_axes:
                if mesh_axis in used:
                    raise ShapeError(
                        f"sharding divides both {used[mesh_axis]!r} and {axis!r} of {describe(leaf)} over mesh axis "
                        f"{mesh_axis!r}; one array can use a mesh axis once, so map one of them to another mesh axis"
                    )
                used[mesh_axis] = axis
            devices = self._devices(mesh_axes)
            size = None if any(name not in sizes for name in open_axes((axis,))) else resolve_axis(axis, sizes)
            if size is not None and size % devices:
                over = " and ".join(map(repr, mesh_axes))
                raise ShapeError(
                    f"sharding divides axis {axis!r} of {describe(leaf)} over mesh axis {over}, but its {devices} "
                    f"devices do not divide {size}; give the axis a size that is a multiple of {devices}, such as "
                    f"{size + -size % devices}, or map it to another mesh axis ({self._described_mesh()})"
                )

    def of(self, leaf: BaseNode) -> Any:
        """Return the `NamedSharding` of a parameter, a buffer or an input."""
        return self._named([self._mesh_axes(axis) for axis in leaf.dims])

    def stacked(self, leaf: BaseNode) -> Any:
        """Return the `NamedSharding` of several leaves of the axes of `leaf`, stacked along a new first axis."""
        return self._named([(), *(self._mesh_axes(axis) for axis in leaf.dims)])

    def of_state(self, parameter: BaseNode, shape: Sequence[int], sizes: Mapping[type[Dim], int]) -> Any:
        """Return the `NamedSharding` of an array of optimizer state.

        An axis of the size of the parameter's is divided like it; an array with another number of axes is replicated.
        """
        own = resolve(parameter.dims, sizes)
        if len(shape) != len(own):
            return self.replicated
        pairs = zip(parameter.dims, own, shape, strict=True)
        return self._named([self._mesh_axes(axis) if size == given else () for axis, size, given in pairs])

    @property
    def replicated(self) -> Any:
        """The `NamedSharding` of an array of which each device has a copy."""
        return self._named([])

    def place(self, node: BaseNode, value: Any) -> Any:
        """Return the value of a node with its placement as a constraint.

        Each mesh axis divides the first axis that is mapped to it, so FSDP divides activations along the batch. A value
        that no mesh axis divides is returned as it is.
        """
        if isinstance(value, RowSparse) or len(value.shape) != len(node.dims):
            return value
        spec = self._activation_spec(node.dims, value.shape)
        if spec is None:
            return value
        import jax
        from jax.sharding import NamedSharding

        return jax.lax.with_sharding_constraint(value, NamedSharding(self.mesh, spec))

    def _activation_spec(self, dims: Dims, shape: Sequence[int]) -> Any:
        """Return the `PartitionSpec` of an intermediate value, or None where there is nothing to constrain."""
        from jax.sharding import PartitionSpec

        used: set[str] = set()
        entries: list[Any] = []
        for axis, size in zip(dims, shape, strict=True):
            mesh_axes = tuple(name for name in self._mesh_axes(axis) if name not in used)
            devices = self._devices(mesh_axes)
            if not mesh_axes or devices == 1 or not size or size % devices:
                entries.append(None)
            elif isinstance(axis, Times) and self._outermost(axis) != self._mesh_axes(axis):
                # Blocks of the flattened axis are not blocks of the part that is mapped: XLA decides.
                entries.append(PartitionSpec.UNCONSTRAINED)
            else:
                used.update(mesh_axes)
                entries.append(mesh_axes)
        return PartitionSpec(*entries) if used else None

    def _outermost(self, axis: Axis) -> MeshAxes:
        """Return the mesh axes of the outermost part of an axis."""
        while isinstance(axis, Times):
            axis = axis.parts[0]
        return self._mesh_axes(axis)

    def _mesh_axes(self, axis: Axis) -> MeshAxes:
        """Return the mesh axes that an axis is divided over."""
        if isinstance(axis, Times):
            return next(filter(None, map(self._mesh_axes, axis.parts)), ())
        if isinstance(axis, Plus):
            first, *rest = map(self._mesh_axes, axis.parts)
            return first if all(mesh_axes == first for mesh_axes in rest) else ()
        return self.axes.get(type(axis), ()) if isinstance(axis, Dim) else ()

    def _devices(self, mesh_axes: MeshAxes) -> int:
        return math.prod(self.mesh.shape[mesh_axis] for mesh_axis in mesh_axes)

    def _named(self, entries: Sequence[MeshAxes]) -> Any:
        from jax.sharding import NamedSharding, PartitionSpec

        return NamedSharding(self.mesh, PartitionSpec(*(mesh_axes or None for mesh_axes in entries)))

    def table(
        self,
        parameters: Sequence[BaseNode],
        sizes: Mapping[type[Dim], int],
        states: Mapping[BaseNode, Iterable[Any]] | None = None,
        names: Mapping[BaseNode, str] | None = None,
    ) -> ShardingTable:
        """Return the table of parameters with their placement and their bytes on each device.

        `states` has the arrays of a parameter's optimizer state, `names` the names to show in place of the parameters'.
        """
        shown = unique_names(parameters, names)
        return ShardingTable(
            [
                self._row(shown[parameter], parameter, sizes, () if states is None else states.get(parameter, ()))
                for parameter in parameters
            ],
            dict(self.mesh.shape),
        )

    def _row(
        self, name: str, parameter: BaseNode, sizes: Mapping[type[Dim], int], states: Iterable[Any]
    ) -> ShardingRow:
        shape, sharding = resolve(parameter.dims, sizes), self.of(parameter)
        mapped = [(axis, self._mesh_axes(axis)) for axis in parameter.dims]
        over = [f"{_shown(axis)} over {' and '.join(mesh_axes)}" for axis, mesh_axes in mapped if mesh_axes]
        return ShardingRow(
            name=name,
            axes=format_dims(parameter.dims),
            placement=", ".join(over) or "replicated",
            mesh_axes=tuple(mesh_axis for _, mesh_axes in mapped for mesh_axis in mesh_axes),
            bytes_in_all=math.prod(shape) * parameter.dtype.itemsize,
            bytes_per_device=math.prod(sharding.shard_shape(shape)) * parameter.dtype.itemsize,
            state_bytes_per_device=sum(
                math.prod(self.of_state(parameter, state.shape, sizes).shard_shape(state.shape)) * state.dtype.itemsize
                for state in states
            ),
        )

    def _described_mesh(self) -> str:
        axes = ", ".join(f"{name!r} of {size}" for name, size in self.mesh.shape.items())
        return f"the mesh has the axes {axes}"

    def __repr__(self) -> str:
        axes = ", ".join(f"{name.__name__}: {'+'.join(mesh_axes)}" for name, mesh_axes in self.axes.items())
        return f"Sharding({{{axes}}}; {self._described_mesh()})"


def _shown(axis: Axis) -> str:
    """Return an axis as the table shows what is divided: a name without its size."""
    if isinstance(axis, Times | Plus):
        return f"{type(axis).__name__}[{', '.join(map(_shown, axis.parts))}]"
    return type(axis).__name__ if isinstance(axis, Dim) else str(axis)


def _names(axis: Axis) -> Iterator[type[Dim]]:
    """Yield the names in an axis."""
    if isinstance(axis, Times | Plus):
        for part in axis.parts:
            yield from _names(part)
    elif isinstance(axis, Dim):
        yield type(axis)
