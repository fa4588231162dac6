"""The placement of arrays on a mesh of devices, by the names of their axes."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from textwrap import wrap
from types import MappingProxyType
from typing import Any, TypeAlias

from wyrm.engines.jax import AxisSharding
from wyrm.errors import DTypeError, OptionError, ShapeError
from wyrm.graph.axes import Axis, Dim, Dims, Plus, Times, axis_size, is_name, open_axes, resolve_axis
from wyrm.graph.base import BaseNode, describe, format_dims
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.leaves import Constant
from wyrm.graph.parameters import Buffer, Parameter
from wyrm.graph.rows import RowSparse
from wyrm.support.imports import Late, jax
from wyrm.support.texts import aligned_lines, encodable

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
# For `ShardingTable.suggestion`: the seconds that a small message takes between processes of CPUs, by Gloo, and between
# other devices, and the bytes a second of a large one.
_LATENCY_OF_PROCESSES, _LATENCY, _BANDWIDTH = 600e-6, 20e-6, 1e10


@dataclass(frozen=True)
class ShardingRow:
    """One parameter of a `ShardingTable`.

    `placement` names the axes that are divided and their mesh axes, `mesh_axes` are those mesh axes. The gradient has
    as many bytes as the parameter.
    """

    name: str
    axes: str
    placement: str
    mesh_axes: tuple[str, ...]
    bytes_in_all: int
    bytes_per_device: int
    state_bytes_per_device: int


@dataclass(frozen=True)
class Messages:
    """The collectives of one kind in a step of a program: their number, and the bytes of their results on a device."""

    kind: str
    count: int
    size: int


class ShardingTable:
    """The parameters of a program on a mesh, one `ShardingRow` each; `str` shows them as a table.

    Below the table it shows what a step sends, and for tables by rows and small messages what may be faster. `columns`
    are the axes of the columns of such tables by mesh axis, None where no table is divided by rows;
    `between_processes` tells that the devices are processes of CPUs.
    """

    def __init__(
        self,
        rows: Sequence[ShardingRow],
        mesh_shape: Mapping[str, int],
        messages: Callable[[], list[Messages] | None] = lambda: None,
        columns: Mapping[str, str] | None = None,
        *,
        between_processes: bool = False,
    ) -> None:
        self.rows: list[ShardingRow] = list(rows)
        self.mesh_shape: dict[str, int] = dict(mesh_shape)
        self._messages = messages
        self._columns = columns
        self._between_processes = between_processes

    @cached_property
    def messages(self) -> list[Messages] | None:
        """What a step sends, by kind, read from the code that XLA compiled; None before the first step."""
        return self._messages()

    @property
    def suggestion(self) -> str:
        """A choice that may be faster for tables by rows, or an empty text.

        Devices that divide the columns of a table have a part of every row. They exchange only sums over the columns,
        such as scores, in fewer messages, but each of them handles the whole batch. Processes of CPUs wait too long
        even for these: they take steps of their own between messages.
        """
        if self._columns is None or not self.messages:
            return ""
        latency = _LATENCY_OF_PROCESSES if self._between_processes else _LATENCY
        count, size = (sum(getattr(each, name) for each in self.messages) for name in ("count", "size"))
        if count * latency < size / _BANDWIDTH:
            return ""
        small = (
            f"the messages are small: {count} of them take {count * latency * 1e6:.0f} us at {latency * 1e6:.0f} us "
            f"each, their bytes {size / _BANDWIDTH * 1e6:.0f} us at {as_bytes(_BANDWIDTH)}/s. "
        )
        if self._between_processes:
            return small + (
                "If each process can hold the tables, local_steps=16, with the axis of the batch alone in sharding=, "
                "sends one message in 16 steps"
            )
        axes = ", ".join(f"{name}: {mesh_axis!r}" for name, mesh_axis in self._columns.items())
        of_columns = f"If rows of tables are used in dot products, sharding={{{axes}}}, by columns, sends fewer"
        return small + of_columns if axes else ""

    @property
    def bytes_per_device(self) -> int:
        """The bytes of all parameters on one device."""
        return sum(row.bytes_per_device for row in self.rows)

    @property
    def bytes_in_all(self) -> int:
        """The bytes of all parameters, each counted once."""
        return sum(row.bytes_in_all for row in self.rows)

    @property
    def state_bytes_per_device(self) -> int:
        """The bytes of the optimizer's state on one device."""
        return sum(row.state_bytes_per_device for row in self.rows)

    # What notebooks display.
    _repr_mimebundle_ = Late("wyrm.view.notebook", "of_sharding")

    def cells(self) -> list[tuple[str, ...]]:
        """Return the texts of the table: its head, a line for each parameter, and the total."""
        lines: list[tuple[str, ...]] = [("parameter", "axes", "placement", "bytes a device", "optimizer state")]
        lines += [
            (
                encodable(row.name), row.axes, row.placement,
                as_bytes(row.bytes_per_device), as_bytes(row.state_bytes_per_device),
            )
            for row in self.rows
        ]  # fmt: skip
        mesh = " x ".join(f"{name} {size}" for name, size in self.mesh_shape.items())
        total = as_bytes(self.bytes_per_device), as_bytes(self.state_bytes_per_device)
        lines.append((f"total of {as_bytes(self.bytes_in_all)}", "", f"mesh {mesh}", *total))
        return lines

    def __str__(self) -> str:
        lines = list(aligned_lines(self.cells(), {3, 4}))
        if self.messages is not None:
            sent = [(each.kind, str(each.count), as_bytes(each.size)) for each in self.messages]
            lines += ["", "a step sends, on each device" if sent else "a step sends nothing"]
            lines += aligned_lines([("collective", "number", "bytes"), *sent], {1, 2}) if sent else []
        return "\n".join([*lines, "", *wrap(self.suggestion, 100)] if self.suggestion else lines)

    __repr__ = __str__


def as_bytes(count: float) -> str:
    """Return a number of bytes with the largest unit that it fills, of powers of 1000.

    >>> from wyrm.engines.jax.sharding import as_bytes
    >>> as_bytes(512), as_bytes(1_536_000)
    ('512 B', '1.54 MB')
    """
    unit = 0
    while count >= 1000 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.0f} B" if not unit else f"{count:.3g} {_UNITS[unit]}"


def unique_names(leaves: Iterable[BaseNode], known: Mapping[BaseNode, str] | None = None) -> dict[BaseNode, str]:
    """Return a name for each leaf: the one in `known`, else its own, with a number where several have the same.

    >>> from wyrm.engines.jax.sharding import unique_names
    >>> leaves = [wy.Parameter(1.0, name="weight"), wy.Parameter(2.0, name="weight"), wy.Parameter(3.0)]
    >>> list(unique_names(leaves).values())
    ['weight_0', 'weight_1', 'parameter']
    """
    known = known or {}
    wanted = {leaf: known.get(leaf) or leaf.name or type(leaf).__name__.lower() for leaf in leaves}
    counts = Counter(wanted.values())
    taken = {name for name, count in counts.items() if count == 1}
    names: dict[BaseNode, str] = {}
    numbers: Counter[str] = Counter()
    for leaf, name in wanted.items():
        unique = name
        while counts[name] > 1 and (unique == name or unique in taken):
            unique = f"{name}_{numbers[name]}"
            numbers[name] += 1
        taken.add(unique)
        names[leaf] = unique
    return names


# The mesh axes that an axis is divided over; () for a replicated axis.
MeshAxes: TypeAlias = tuple[str, ...]
_NO_SIZES: Mapping[type[Dim], int] = MappingProxyType({})
_NO_STATES: Mapping[BaseNode, Iterable[Any]] = MappingProxyType({})


class Sharding:
    """A mesh of devices, and for names of axes the mesh axis, or the tuple of mesh axes, that each is divided over.

    Parameters, optimizer state, buffers and inputs are divided along the axes that are mapped and replicated along the
    others. A flattened axis (`Times`) is divided like the first of its parts that is mapped, a concatenated one
    (`Plus`) like its parts if all are mapped to the same mesh axes.

    Data parallelism maps the axis of the batch: `{Batch: "data"}`. FSDP maps an axis of the parameters to the same mesh
    axis: `{Batch: "data", Embed: "data"}`. Tensor parallelism maps axes of the parameters to another mesh axis:
    `{Batch: "data", Heads: "model", Inner: "model"}`.

    Raise `DTypeError` for a key that is no class of axes, `OptionError` for a mesh axis that the mesh does not have.
    """

    def __init__(self, mesh: Any, axes: AxisSharding) -> None:
        axis_type = jax.sharding.AxisType
        # `jax.make_mesh` makes explicit axes, whose operations take placements as arguments; here XLA infers them.
        self.mesh: Any = mesh.update(axis_types=(axis_type.Auto,) * len(mesh.axis_names))
        self.axes: dict[type[Dim], MeshAxes] = {}
        # The names of the parameters' axes, known after `check`.
        self._parameter_axes: frozenset[type[Dim] | None] = frozenset()
        # The names of the axes that a program which does not train ranks: they come before the batch.
        self.ranked: frozenset[type[Dim] | None] = frozenset()
        for name, mesh_axes in axes.items():
            if not is_name(name) or name.derived:
                raise DTypeError(
                    f"sharding maps classes of axes, such as `class Batch(wy.Dim): ...`, to mesh axes; {name!r} is none"
                )
            self.axes[name] = mesh_axes if isinstance(mesh_axes, tuple) else (mesh_axes,)
            for mesh_axis in self.axes[name]:
                if mesh_axis not in mesh.axis_names:
                    raise OptionError(
                        f"sharding maps {name.__name__} to mesh axis {mesh_axis!r}, but {self._described_mesh()}"
                    )

    def check(
        self,
        leaves: Iterable[BaseNode],
        nodes: Iterable[BaseNode] = (),
        sizes: Mapping[type[Dim], int] = _NO_SIZES,
        *,
        may_lack_axes: bool = False,
        padded: Container[BaseNode] = (),
    ) -> None:
        """Raise an error unless parameters, buffers and inputs can be placed.

        `nodes` are the other nodes of the graph. An open axis that `sizes` does not have is not checked. Parameters of
        `padded` may have any number of rows: see `stored_shape`. Raise `OptionError` for a mapped axis that no node
        has, unless the graph `may_lack_axes`, `ShapeError` for an axis that its mesh axes do not divide, or for a mesh
        axis that divides two axes of one array.
        """
        leaves = list(leaves)
        trained = [leaf for leaf in leaves if isinstance(leaf, Parameter | Buffer)]
        self._parameter_axes = frozenset(name for leaf in trained for axis in leaf.dims for name in _names(axis))
        if not may_lack_axes:
            self._check_known({name for node in (*leaves, *nodes) for axis in node.dims for name in _names(axis)})
        for leaf in leaves:
            if not isinstance(leaf, Constant | IndexConstant):
                self.check_leaf(leaf, sizes, may_pad=leaf in padded)

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

    def check_leaf(self, leaf: BaseNode, sizes: Mapping[type[Dim], int], *, may_pad: bool = False) -> None:
        """Raise `ShapeError` unless a leaf can be placed; see `check`."""
        used: dict[str, Axis] = {}
        for position, axis in enumerate(leaf.dims):
            mesh_axes = self.mesh_axes(axis)
            for mesh_axis in mesh_axes:
                if mesh_axis in used:
                    raise ShapeError(
                        f"sharding divides both {used[mesh_axis]!r} and {axis!r} of {describe(leaf)} over mesh axis "
                        f"{mesh_axis!r}; one array can use a mesh axis once, so map one of them to another mesh axis"
                    )
                used[mesh_axis] = axis
            devices = self.devices(mesh_axes)
            size = None if any(name not in sizes for name in open_axes((axis,))) else resolve_axis(axis, sizes)
            if size is not None and size % devices and not (may_pad and position == 0):
                over = " and ".join(map(repr, mesh_axes))
                raise ShapeError(
                    f"sharding divides axis {axis!r} of {describe(leaf)} over mesh axis {over}, but its {devices} "
                    f"devices do not divide {size}; give the axis a size that is a multiple of {devices}, such as "
                    f"{size + -size % devices}, or map it to another mesh axis ({self._described_mesh()})"
                )

    def of_array(self, leaf: BaseNode, shape: Sequence[int]) -> Any:
        """Return the `NamedSharding` of an array that belongs to a leaf.

        This is the leaf's own array, a stack of such arrays along new first axes, or an array of optimizer state. It is
        replicated along an axis whose size is not the leaf's, or that its mesh axes do not divide, as in the last batch
        of an epoch. An array with fewer axes than the leaf is replicated.
        """
        stacked = len(shape) - len(leaf.dims)
        if stacked < 0:
            return self._named([])
        entries: list[MeshAxes] = [()] * stacked
        for axis, size, wanted in zip(leaf.dims, shape[stacked:], self._padded_sizes(leaf), strict=True):
            mesh_axes = self.mesh_axes(axis)
            fits = wanted in (None, size) and size % self.devices(mesh_axes) == 0
            entries.append(mesh_axes if fits else ())
        return self._named(entries)

    def row_axes(self, leaf: BaseNode) -> MeshAxes:
        """Return the mesh axes that the rows of a parameter or a constant are divided over."""
        if not leaf.dims or not isinstance(leaf, Parameter | Constant):
            return ()
        mesh_axes = self.mesh_axes(leaf.dims[0])
        rows, devices = axis_size(leaf.dims[0]), self.devices(mesh_axes)
        fits = rows is not None and (isinstance(leaf, Parameter) or rows % devices == 0)
        return mesh_axes if fits and devices > 1 else ()

    def stored_shape(self, leaf: BaseNode, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape on the devices of an array that belongs to a leaf.

        The rows of a parameter are padded to a number that the devices divide, and so is its state.
        """
        padded = self._padded_sizes(leaf)
        if not padded or len(shape) != len(padded) or shape[0] != axis_size(leaf.dims[0]):
            return tuple(shape)
        return (shape[0] if padded[0] is None else padded[0], *shape[1:])

    def _padded_sizes(self, leaf: BaseNode) -> list[int | None]:
        """Return the sizes of a leaf's axes on the devices, None for an open axis."""
        sizes = [axis_size(axis) for axis in leaf.dims]
        if sizes and sizes[0] is not None and isinstance(leaf, Parameter):
            sizes[0] += -sizes[0] % self.devices(self.mesh_axes(leaf.dims[0]))
        return sizes

    def of(self, leaf: BaseNode) -> Any:
        """Return the `NamedSharding` of a leaf whose sizes are all known."""
        return self.of_array(leaf, self.stored_shape(leaf, leaf.shape))

    def place(self, node: BaseNode, value: Any) -> Any:
        """Return the value of a node with its placement as a constraint.

        If several axes want the same mesh axis, the batch axis gets it, else the first: FSDP divides activations along
        the batch. The batch axis is one that no parameter has. A value that no mesh axis divides is returned as it is.
        """
        if isinstance(value, RowSparse) or len(getattr(value, "shape", ())) != len(node.dims):
            return value
        spec = self.activation_spec(node.dims, value.shape)
        if spec is None:
            return value
        from jax.sharding import NamedSharding

        return jax.lax.with_sharding_constraint(value, NamedSharding(self.mesh, spec))

    def placed_axes(self, dims: Dims, shape: Sequence[int]) -> list[MeshAxes]:
        """Return the mesh axes that each axis of an intermediate value is divided over.

        If several axes want the same mesh axis, a ranked axis gets it, then the batch axis, else the first. A ranked
        axis is divided whatever its size.
        """
        used: set[str] = set()
        placed: list[MeshAxes] = [()] * len(dims)

        def order(position: int) -> tuple[bool, bool]:
            name = self.deciding(dims[position])
            return name not in self.ranked or name is None, name in self._parameter_axes

        for position in sorted(range(len(dims)), key=order):
            mesh_axes = tuple(name for name in self.mesh_axes(dims[position]) if name not in used)
            devices = self.devices(mesh_axes)
            used.update(mesh_axes)
            any_size = self.deciding(dims[position]) in self.ranked
            if devices > 1 and shape[position] and (any_size or shape[position] % devices == 0):
                placed[position] = mesh_axes
        return placed

    def activation_spec(self, dims: Dims, shape: Sequence[int]) -> Any:
        """Return the `PartitionSpec` of an intermediate value, or None where there is nothing to constrain."""
        from jax.sharding import PartitionSpec

        if any(map(self._joins_divided, dims)):
            return None
        # Blocks of a flattened axis are blocks of its outermost part; for another part, XLA decides.
        entries: list[Any] = [
            (mesh_axes if self._is_aligned(axis) else PartitionSpec.UNCONSTRAINED) if mesh_axes else None
            for axis, mesh_axes in zip(dims, self.placed_axes(dims, shape), strict=True)
        ]
        return PartitionSpec(*entries) if any(isinstance(entry, tuple) for entry in entries) else None

    def divided_axis(self, dims: Dims, shape: Sequence[int]) -> tuple[int, MeshAxes] | None:
        """Return the one axis of an intermediate value that is divided, and over which mesh axes.

        Return None where no axis or several are divided, and for a flattened axis that blocks do not divide.
        """
        found = [(i, mesh_axes) for i, mesh_axes in enumerate(self.placed_axes(dims, shape)) if mesh_axes]
        fits = len(found) == 1 and self._is_aligned(dims[found[0][0]])
        fits = fits and shape[found[0][0]] % self.devices(found[0][1]) == 0
        return found[0] if fits and not any(map(self._joins_divided, dims)) else None

    def divided_axes(self, dims: Dims) -> list[tuple[int, MeshAxes]]:
        """Return the positions of the axes that are divided, each with its mesh axes, whatever their sizes are."""
        found = [(position, self.mesh_axes(axis)) for position, axis in enumerate(dims)]
        return [(position, mesh_axes) for position, mesh_axes in found if self.devices(mesh_axes) > 1]

    def _is_aligned(self, axis: Axis) -> bool:
        """Return whether the outermost part of an axis decides how it is divided, so that devices have blocks."""
        return self.deciding(_outermost(axis)) is self.deciding(axis)

    def constrained(self, array: Any, *mesh_axes: MeshAxes) -> Any:
        """Return an array with its first axes divided over mesh axes, or replicated where there are none."""
        return jax.lax.with_sharding_constraint(array, self._named(mesh_axes))

    def _joins_divided(self, axis: Axis) -> bool:
        """Return whether an axis concatenates divided parts with others, so that it has no placement itself."""
        return isinstance(axis, Plus) and self.deciding(axis) is None and any(map(self.deciding, axis.parts))

    def mesh_axes(self, axis: Axis) -> MeshAxes:
        """Return the mesh axes that an axis is divided over."""
        name = self.deciding(axis)
        return () if name is None else self.axes[name]

    def deciding(self, axis: Axis) -> type[Dim] | None:
        """Return the name in an axis that decides how it is divided; None if it is not divided."""
        if isinstance(axis, Times):
            return next((name for name in map(self.deciding, axis.parts) if name is not None), None)
        if isinstance(axis, Plus):
            names = [self.deciding(part) for part in axis.parts]
            return names[0] if len({() if name is None else self.axes[name] for name in names}) == 1 else None
        return type(axis) if isinstance(axis, Dim) and type(axis) in self.axes else None

    def devices(self, mesh_axes: MeshAxes) -> int:
        """Return the number of devices along mesh axes."""
        return math.prod(self.mesh.shape[mesh_axis] for mesh_axis in mesh_axes)

    def _named(self, entries: Sequence[MeshAxes]) -> Any:
        from jax.sharding import NamedSharding, PartitionSpec

        return NamedSharding(self.mesh, PartitionSpec(*(mesh_axes or None for mesh_axes in entries)))

    def table(
        self,
        parameters: Sequence[BaseNode],
        states: Mapping[BaseNode, Iterable[Any]] = _NO_STATES,
        names: Mapping[BaseNode, str] | None = None,
        messages: Callable[[], list[Messages] | None] = lambda: None,
        tables: Collection[BaseNode] = (),
    ) -> ShardingTable:
        """Return the table of parameters with their placement and their bytes on each device.

        `states` has the arrays of a parameter's optimizer state, `names` the names to show in place of the parameters'.
        `messages` returns what a step sends; `tables` are those whose rows devices exchange.
        """
        shown = unique_names(parameters, names)
        rows = [self._row(shown[parameter], parameter, states.get(parameter, ())) for parameter in parameters]
        columns = self._columns(tables) if tables else None
        of_processes = _is_of_processes_of_cpus(self.mesh)
        return ShardingTable(rows, dict(self.mesh.shape), messages, columns, between_processes=of_processes)

    def _columns(self, tables: Iterable[BaseNode]) -> dict[str, str]:
        """Return the axes of the columns of tables that could be divided in place of the rows, by mesh axis."""
        found: dict[str, str] = {}
        for table in tables:
            mesh_axes = self.row_axes(table)
            for axis in table.dims[1:]:
                if isinstance(axis, Dim) and not self.mesh_axes(axis) and int(axis) % self.devices(mesh_axes) == 0:
                    found[type(axis).__name__] = mesh_axes[0]
        return found

    def _row(self, name: str, parameter: BaseNode, states: Iterable[Any]) -> ShardingRow:
        mapped = [(axis, self.mesh_axes(axis)) for axis in parameter.dims]
        over = [f"{_shown(axis)} over {' and '.join(mesh_axes)}" for axis, mesh_axes in mapped if mesh_axes]
        return ShardingRow(
            name=name,
            axes=format_dims(parameter.dims),
            placement=", ".join(over) or "replicated",
            mesh_axes=tuple(mesh_axis for _, mesh_axes in mapped for mesh_axis in mesh_axes),
            bytes_in_all=math.prod(parameter.shape) * parameter.dtype.itemsize,
            bytes_per_device=self._bytes(parameter, parameter),
            state_bytes_per_device=sum(self._bytes(parameter, state) for state in states),
        )

    def _bytes(self, leaf: BaseNode, array: Any) -> int:
        """Return the bytes on each device of an array that belongs to a leaf."""
        stored = self.stored_shape(leaf, array.shape)
        shape: tuple[int, ...] = self.of_array(leaf, stored).shard_shape(stored)
        return math.prod(shape) * int(array.dtype.itemsize)

    def _described_mesh(self) -> str:
        axes = ", ".join(f"{name!r} of {size}" for name, size in self.mesh.shape.items())
        return f"the mesh has the axes {axes}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sharding) and self.mesh == other.mesh and self.axes == other.axes

    def __hash__(self) -> int:
        return hash((self.mesh, frozenset(self.axes.items())))

    def __repr__(self) -> str:
        axes = ", ".join(f"{name.__name__}: {'+'.join(mesh_axes)}" for name, mesh_axes in self.axes.items())
        return f"Sharding({{{axes}}}; {self._described_mesh()})"


def explicit_shardings(known: Mapping[BaseNode, Any], outputs: Iterable[BaseNode]) -> list[Any] | None:
    """Return the `NamedSharding` of each output, given the values of leaves on a mesh with explicit axes, else None.

    An axis is sharded as the same axis of a leaf.
    """
    from jax.sharding import NamedSharding, PartitionSpec

    placed = [(leaf, jax.typeof(array).sharding) for leaf, array in known.items()]
    mesh = next((sharding.mesh for _, sharding in placed if sharding.mesh.explicit_axes), None)
    if mesh is None:
        return None
    of_axis: dict[Axis, Any] = {}
    for leaf, sharding in placed:
        for axis, entry in zip(leaf.dims, sharding.spec, strict=False):
            if entry is not None and isinstance(axis, Dim):
                of_axis.setdefault(axis, entry)
    shardings: list[Any] = []
    for output in outputs:
        entries: list[Any] = []
        for axis in output.dims:
            entry = of_axis.get(axis)
            entries.append(None if entry in entries else entry)
        shardings.append(NamedSharding(mesh, PartitionSpec(*entries)))
    return shardings


@cache
def _is_of_processes_of_cpus(mesh: Any) -> bool:
    """Return whether the devices of a mesh are CPUs of several processes; the mesh of a plan has no devices."""
    if isinstance(mesh, jax.sharding.AbstractMesh):
        return False
    devices = mesh.devices
    return len({each.process_index for each in devices.flat}) > 1 and devices.flat[0].platform == "cpu"


def _outermost(axis: Axis) -> Axis:
    """Return the outermost part of a flattened axis."""
    while isinstance(axis, Times):
        axis = axis.parts[0]
    return axis


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
