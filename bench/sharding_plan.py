"""What GPT-2 of 7 billion parameters, and tables of 1 billion rows, need on 64 GPUs: `python -m bench.sharding_plan`.

The placement and the bytes of GPT-2 under FSDP come from the table that `print(program.sharding)` shows, made for a
mesh without devices; the bytes of tables by rows from the room of the messages that devices exchange.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh

import wyrm as wy
from wyrm.engines.jax.divided_tables import room
from wyrm.engines.jax.sharding import Sharding, ShardingTable, as_bytes
from wyrm.graph.base import BaseNode
from wyrm.nn.gpt2_axes import Embed, Heads, Inner, Positions, Vocabulary
from wyrm.support.texts import aligned_lines

# The values of a token that a device holds at the peak of a step of GPT-2, with checkpoints of its blocks, in units of
# `n_embd`: outside of the blocks, and for each block. They are what XLA plans for simulated devices, where they are
# the slopes of the temporary memory with the batch at 2 and 4 blocks; on other devices XLA may plan less.
OUTSIDE, A_BLOCK = 26.6, 9.0


@dataclass(frozen=True)
class Machine:
    """A device: operations a second in matrix products, bytes, bytes a second from and to the others, and of memory.

    `near_bandwidth` is that within a slice, where devices stand in several. The defaults are those of an H100 (bfloat16
    without sparsity, 80 GB at 3.35 TB/s, NVLink) with a network of 400 Gbit/s for each GPU, on which a small collective
    takes 20 us.
    """

    flops: float = 989e12
    memory: float = 80e9
    bandwidth: float = 50e9
    near_bandwidth: float = 450e9
    latency: float = 20e-6
    memory_bandwidth: float = 3.35e12


@dataclass(frozen=True)
class Plan:
    """Bytes, collectives and seconds of a training step on each device.

    A parameter that is divided over the mesh axis of the batch is gathered for the forward pass and again for the
    backward pass, and its gradient is reduced and scattered. XLA may gather some once more to compute them again. The
    gradients of the others are reduced to all. With several `slices` this is so within each, over their own links, and
    `between_bytes` of the parts that devices keep are reduced between slices.
    """

    table: ShardingTable
    machine: Machine
    activations: float
    all_gathers: int
    gathered_bytes: float
    reduced_bytes: float
    largest_gathered: float
    model_flops: float
    flops: float
    slices: int = 1
    between_bytes: float = 0.0

    @property
    def gradients(self) -> int:
        """The bytes of the gradients, placed like the parameters."""
        return self.table.bytes_per_device

    @property
    def bytes_per_device(self) -> float:
        """All bytes at the peak of a step, with the two largest gathered parameters."""
        state = self.table.bytes_per_device + self.table.state_bytes_per_device
        return state + self.gradients + self.activations + 2 * self.largest_gathered

    @property
    def seconds_of_links(self) -> float:
        """The time of all collectives at the full bandwidth."""
        within = self.machine.bandwidth if self.slices == 1 else self.machine.near_bandwidth
        return (self.gathered_bytes + self.reduced_bytes) / within + self.between_bytes / self.machine.bandwidth

    @property
    def seconds_of_products(self) -> float:
        """The time of all matrix products at the peak, those that checkpoints repeat included."""
        return self.flops / self.machine.flops

    @property
    def seconds(self) -> tuple[float, float]:
        """The time of a step: of products and then collectives, and of the longer of both where they overlap."""
        parts = self.seconds_of_products, self.seconds_of_links
        return sum(parts), max(parts)

    @property
    def utilization(self) -> float:
        """The fraction of the peak that the model's own operations reach, if collectives overlap with products."""
        return self.model_flops / self.machine.flops / self.seconds[1]

    @property
    def utilization_without_overlap(self) -> float:
        """The same if products wait for all collectives."""
        return self.model_flops / self.machine.flops / self.seconds[0]

    def __str__(self) -> str:
        table = self.table
        lines = {
            "parameters": as_bytes(table.bytes_per_device),
            "gradients": as_bytes(self.gradients),
            "optimizer state": as_bytes(table.state_bytes_per_device),
            "activations": as_bytes(self.activations),
            "gathered parameters, two at a time": as_bytes(2 * self.largest_gathered),
            "all bytes of a device": f"{as_bytes(self.bytes_per_device)} of {as_bytes(self.machine.memory)}",
            "all-gathers a step": f"{self.all_gathers}, {as_bytes(self.gathered_bytes)}",
            "reduce-scatters a step": f"{self.all_gathers // 2}, {as_bytes(self.reduced_bytes)}",
            **({"reduced between slices": as_bytes(self.between_bytes)} if self.slices > 1 else {}),
            "time of collectives": f"{self.seconds_of_links:.2f} s",
            "time of matrix products": f"{self.seconds_of_products:.2f} s",
            "time of a step": f"{self.seconds[0]:.2f} s, {self.seconds[1]:.2f} s with overlap",
            "utilization with overlap": f"{self.utilization:.0%}",
            "utilization without overlap": f"{self.utilization_without_overlap:.0%}",
        }
        return "\n".join(aligned_lines(list(lines.items()), ()))


def plan(
    table: ShardingTable,
    config: wy.nn.GPT2Config,
    sequences: int,
    *,
    axis: str = "data",
    between: str | None = None,
    machine: Machine | None = None,
    value_bytes: int = 4,
) -> Plan:
    """Return the plan of GPT-2 with checkpoints, whose parameters and batch are divided over the mesh axis `axis`.

    `between` is the mesh axis of slices, over which the batch is divided too. Each device has `sequences` sequences of
    `n_positions` tokens, and activations of `value_bytes` bytes each. What
    tensor parallelism moves and saves between the devices of other mesh axes is not counted.
    """
    others = table.mesh_shape[axis] - 1
    gathered = [row for row in table.rows if axis in row.mesh_axes]
    whole = [row for row in table.rows if axis not in row.mesh_axes]
    moved = others * sum(row.bytes_per_device for row in gathered)
    reduced_to_all = 2 * others / (others + 1) * sum(row.bytes_per_device for row in whole)
    slices = 1 if between is None else table.mesh_shape[between]
    kept = sum(row.bytes_per_device for row in gathered) + sum(row.bytes_per_device for row in whole) / (others + 1)
    tokens, parameters = sequences * config.n_positions, table.bytes_in_all // 4
    # Each position attends to half of the others; Kaplan et al., "Scaling laws for neural language models" (2020).
    attention = 6 * config.n_layer * config.n_embd * config.n_positions
    return Plan(
        table=table,
        machine=Machine() if machine is None else machine,
        activations=value_bytes * tokens * config.n_embd * (OUTSIDE + A_BLOCK * config.n_layer),
        all_gathers=2 * len(gathered),
        gathered_bytes=2 * moved,
        reduced_bytes=moved + reduced_to_all,
        largest_gathered=max((row.bytes_per_device * (others + 1) for row in gathered), default=0),
        model_flops=tokens * (6 * parameters + attention),
        flops=tokens * (6 * parameters + attention) * 8 / 6,
        slices=slices,
        between_bytes=2 * (slices - 1) / slices * kept,
    )


def gpt2_table(
    config: wy.nn.GPT2Config, mesh: Mapping[str, int], axes: Mapping[type[wy.Dim], str | tuple[str, ...]]
) -> ShardingTable:
    """Return the sharding table of GPT-2 and Adam for a mesh that need not exist, without making the arrays."""
    width, features = config.n_embd, config.n_embd // config.n_head
    sizes: dict[type[wy.Dim], int] = {
        Vocabulary: config.vocab_size, Positions: config.n_positions, Embed: width, Inner: config.inner_dim,
        Heads: config.n_head,
    }  # fmt: skip
    # The axes are those of a model that is small in everything else.
    outline = wy.nn.GPT2(wy.nn.GPT2Config(n_embd=2, n_head=2, n_layer=1, vocab_size=2, n_positions=2))

    def enlarged(axis: Any) -> Any:
        if isinstance(axis, wy.Times):
            return wy.Times([enlarged(part) if part != 1 else features for part in axis.parts])
        return type(axis)(sizes[type(axis)]) if isinstance(axis, wy.Dim) else axis

    leaves: dict[BaseNode, str] = {}
    for path, parameter in outline.named_parameters():
        layers = range(config.n_layer) if path.startswith("blocks.0.") else [0]
        for layer in layers:
            name = re.sub(r"^blocks\.0\.", f"blocks.{layer}.", path)
            leaves[wy.Input(dims=tuple(map(enlarged, parameter.dims)), name=name)] = name
    states: dict[BaseNode, Any] = {leaf: [jax.ShapeDtypeStruct(leaf.shape, np.float32)] * 2 for leaf in leaves}
    sharding = Sharding(AbstractMesh(tuple(mesh.values()), tuple(mesh)), axes)
    sharding.check(leaves)
    return sharding.table(list(leaves), states, leaves)


SEVEN_BILLION = wy.nn.GPT2Config(vocab_size=50304, n_positions=2048, n_embd=4096, n_layer=32, n_head=32)


def seven_billion() -> Plan:
    """Return the plan of 7 billion parameters on 64 GPUs, with 8 sequences each and activations in bfloat16."""
    table = gpt2_table(SEVEN_BILLION, {"data": 64}, {Embed: "data"})
    return plan(table, SEVEN_BILLION, sequences=8, value_bytes=2)


def seven_billion_in_slices() -> Plan:
    """Return the plan of the same model and batch in 8 machines of 8 GPUs, with FSDP within each."""
    table = gpt2_table(SEVEN_BILLION, {"slice": 8, "data": 8}, {Embed: "data"})
    return plan(table, SEVEN_BILLION, sequences=8, value_bytes=2, between="slice")


@dataclass(frozen=True)
class Table:
    """A table of float32 rows, and how many rows of it each example of a batch looks up."""

    rows: int
    width: int
    lookups: int


@dataclass(frozen=True)
class RowsPlan:
    """Bytes, collectives and seconds of a training step on each device, for tables by rows and Adagrad.

    `batch` is the number of examples of a device.
    """

    tables: tuple[Table, ...]
    devices: int
    batch: int
    machine: Machine

    @property
    def table_bytes(self) -> int:
        """The bytes of the rows that a device owns; their state has as many."""
        return sum(4 * table.width * -(-table.rows // self.devices) for table in self.tables)

    @property
    def messages(self) -> int:
        """The all-to-all collectives of a step: two for each lookup, numbers and rows, and two for each gradient."""
        return sum(2 * table.lookups + 2 for table in self.tables)

    @property
    def message_bytes(self) -> int:
        """The bytes that a device gets in these, its own part included."""
        total = 0
        for table in self.tables:
            owned = -(-table.rows // self.devices)
            sent = table.lookups * room(self.batch, self.devices, owned)
            sent += room(table.lookups * self.batch, self.devices, owned)
            total += self.devices * sent * 4 * (table.width + 1)
        return total

    @property
    def seconds_of_links(self) -> float:
        """The time of their bytes at the full bandwidth, and the latency of each."""
        return self.message_bytes / self.machine.bandwidth + self.messages * self.machine.latency

    @property
    def seconds_of_memory(self) -> float:
        """The time to read and write rows and state: of a lookup, and of a gradient with the row and its state."""
        touched = sum(table.lookups * self.batch * 4 * table.width for table in self.tables)
        return 8 * touched / self.machine.memory_bandwidth

    @property
    def seconds(self) -> tuple[float, float]:
        """The time of a step: of links and then memory, and of the longer of both where they overlap."""
        parts = self.seconds_of_links, self.seconds_of_memory
        return sum(parts), max(parts)

    @property
    def seconds_by_columns(self) -> float:
        """The time of what is sent if devices divide the columns: two sums for each example of the whole batch."""
        everywhere = 4 * 2 * self.batch * self.devices
        return 2 * everywhere / self.machine.bandwidth + 2 * self.machine.latency

    def __str__(self) -> str:
        examples = self.batch * self.devices / self.seconds[1]
        lines = {
            "tables": as_bytes(self.table_bytes),
            "state of the tables": as_bytes(self.table_bytes),
            "both of a device": f"{as_bytes(2 * self.table_bytes)} of {as_bytes(self.machine.memory)}",
            "all-to-alls a step": f"{self.messages}, {as_bytes(self.message_bytes)}",
            "time of their bytes": f"{1e6 * self.message_bytes / self.machine.bandwidth:.0f} us",
            "time of their latency": f"{1e6 * self.messages * self.machine.latency:.0f} us",
            "time of memory": f"{1e6 * self.seconds_of_memory:.0f} us",
            "time of a step": f"{1e6 * self.seconds[0]:.0f} us, {1e6 * self.seconds[1]:.0f} us with overlap",
            "time of sums by columns": f"{1e6 * self.seconds_by_columns:.0f} us",
            "examples a second": f"{examples / 1e6:.0f} million",
        }
        return "\n".join(aligned_lines(list(lines.items()), ()))


def billion_rows() -> RowsPlan:
    """Return the plan of 10 million users and 990 million items of 64 numbers on 64 GPUs, 4,096 examples on each.

    An example is a user, an item and a negative.
    """
    return RowsPlan((Table(10_000_000, 64, 1), Table(990_000_000, 64, 2)), 64, 4096, Machine())


def main() -> None:
    """Print the plans."""
    found = seven_billion()
    size = f"{found.table.bytes_in_all / 4e9:.2f} billion parameters"
    print(f"GPT-2 of {size} on 64 GPUs, {8 * 2048} tokens each\n{found}\n")
    print(f"The same in 8 machines of 8 GPUs, with FSDP within each\n{seven_billion_in_slices()}\n")
    print(f"A recommender of 1 billion rows of 64 numbers on 64 GPUs, 4,096 examples each\n{billion_rows()}")


if __name__ == "__main__":
    main()
