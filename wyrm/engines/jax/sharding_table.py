"""The table of parameters: their placement on a mesh, and their memory on each device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from textwrap import wrap

from wyrm.graph.base import BaseNode
from wyrm.support.imports import Late
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
    _repr_mimebundle_ = Late("wyrm.view.notebook", "_repr_mimebundle_", "of_sharding")

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

    >>> from wyrm.engines.jax.sharding_table import as_bytes
    >>> as_bytes(512), as_bytes(1_536_000)
    ('512 B', '1.54 MB')
    """
    unit = 0
    while count >= 1000 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.0f} B" if not unit else f"{count:.3g} {_UNITS[unit]}"


def unique_names(leaves: Iterable[BaseNode], known: Mapping[BaseNode, str] | None = None) -> dict[BaseNode, str]:
    """Return a name for each leaf: the one in `known`, else its own, with a number where several have the same.

    >>> from wyrm.engines.jax.sharding_table import unique_names
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
