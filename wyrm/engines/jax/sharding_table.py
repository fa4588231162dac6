"""The table of parameters: their placement on a mesh, their memory on each device, and the collectives of a step."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from textwrap import wrap
from types import MappingProxyType
from typing import NamedTuple

from wyrm.graph.base import BaseNode
from wyrm.support.imports import Late
from wyrm.support.texts import aligned_lines, encodable

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
# The seconds that a small message takes, and the bytes a second of a large one, for `ShardingTable.suggestion`.
_LATENCY, _BANDWIDTH = 20e-6, 1e10


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

    Below the table it shows what a step sends, and for tables by rows and small messages what may be faster.
    """

    def __init__(
        self,
        rows: Sequence[ShardingRow],
        mesh_shape: Mapping[str, int],
        messages: Callable[[], list[Messages] | None] = lambda: None,
        columns: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.rows: list[ShardingRow] = list(rows)
        self.mesh_shape: dict[str, int] = dict(mesh_shape)
        self._messages = messages
        self._columns: dict[str, str] = dict(columns)

    @cached_property
    def messages(self) -> list[Messages] | None:
        """What a step sends, by kind, read from the code that XLA compiled; None before the first step."""
        return self._messages()

    @property
    def suggestion(self) -> str:
        """A choice that may be faster for tables by rows, or an empty text.

        Devices that divide the columns of a table have a part of every row. They exchange only sums over the columns,
        such as scores, in fewer messages, but each of them handles the whole batch.
        """
        if not self._columns or not self.messages:
            return ""
        count, size = (sum(getattr(each, name) for each in self.messages) for name in ("count", "size"))
        if count * _LATENCY < size / _BANDWIDTH:
            return ""
        axes = ", ".join(f"{name}: {mesh_axis!r}" for name, mesh_axis in self._columns.items())
        return (
            f"the messages are small: {count} of them take {count * _LATENCY * 1e6:.0f} us at {_LATENCY * 1e6:.0f} us "
            f"each, their bytes {size / _BANDWIDTH * 1e6:.0f} us at {as_bytes(_BANDWIDTH)}/s. If rows of tables are "
            f"used in dot products, sharding={{{axes}}}, by columns, sends fewer"
        )

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


_KINDS = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
_DEFINITION = re.compile(rf"^\s*(?:ROOT )?%?[\w.-]+ = (.*?) ({_KINDS})(?:-start)?\(")
WIDTHS = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8}


class Collective(NamedTuple):
    """A collective: its kind, the bytes of its result on each device, and the number of loops that it is in.

    `times` is how often the loops of a known length run it.
    """

    kind: str
    size: int
    loops: int
    times: int = 1


def collectives(text: str) -> list[Collective]:
    """Return the collectives of compiled code, given as XLA's text.

    >>> from wyrm.engines.jax.sharding_table import collectives
    >>> lines = ["ENTRY %main (x: f32[2]) -> f32[2] {", "  %y = f32[2]{0} all-reduce(%x), channel_id=1", "}"]
    >>> collectives("\\n".join(lines))
    [Collective(kind='all-reduce', size=8, loops=0, times=1)]
    """
    bodies = computations(text)
    loops = _loops(text, bodies)
    return [
        Collective(match[2], sum(map(_bytes, re.findall(r"\w+\[[\d,]*\]", match[1]))), *loops[name])
        for name, lines in bodies.items()
        for line in lines
        if (match := _DEFINITION.match(line)) is not None
    ]


def computations(text: str) -> dict[str, list[str]]:
    """Return the lines of each computation by its name."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        begins = re.match(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$", line)
        if begins is not None:
            lines = found.setdefault(begins[1], [])
        lines.append(line)
    return found


def loop_depths(text: str, bodies: dict[str, list[str]]) -> dict[str, int]:
    """Return the number of loops around each computation."""
    return {name: depth for name, (depth, _) in _loops(text, bodies).items()}


def _loops(text: str, bodies: dict[str, list[str]]) -> dict[str, tuple[int, int]]:
    """Return the number of loops around each computation, and the product of their known lengths."""
    entry = re.search(r"^ENTRY %?([\w.-]+) ", text, re.MULTILINE)
    assert entry is not None
    found = dict[str, tuple[int, int]]()
    found.update(dict.fromkeys(bodies, (0, 1)))
    waiting = [(entry[1], 0, 1)]
    while waiting:
        name, depth, times = waiting.pop()
        found[name] = max(found[name], (depth, times))
        for line in bodies[name]:
            length = re.search(r'known_trip_count":\{"n":"(\d+)"', line)
            in_loop = times * (1 if length is None else int(length[1]))
            waiting += [(body, depth + 1, in_loop) for body in re.findall(r"body=%?([\w.-]+)", line)]
            waiting += [(body, depth, times) for body in re.findall(r"(?:calls|to_apply)=%?([\w.-]+)", line)]
            for branches in re.findall(r"branch_computations=\{(.*?)\}", line):
                waiting += [(body, depth, times) for body in re.findall(r"[\w.-]+", branches)]
    return found


def _bytes(array: str) -> int:
    dtype, _, shape = array.partition("[")
    size = WIDTHS[dtype]
    for axis in re.findall(r"\d+", shape):
        size *= int(axis)
    return size
