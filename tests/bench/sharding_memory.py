"""Compiles a step of GPT-2 under FSDP for simulated devices and writes what XLA plans for one of them, as JSON.

XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m tests.bench.sharding_memory
"""

from __future__ import annotations

import json
import sys
from typing import Any

import jax
import numpy as np

import wyrm as wy
from bench.sharding_plan import gpt2_table, plan
from tests.engines.jax.sharded_training import Batch, Time, on_first
from wyrm.engines.jax.compiled import collectives
from wyrm.nn.gpt2_axes import Embed

CONFIG = wy.nn.GPT2Config(
    vocab_size=128, n_positions=64, n_embd=64, n_layer=1, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
)
SEQUENCES = 8


def main() -> None:
    model = wy.nn.GPT2(CONFIG, checkpoint=True)
    tokens, following = wy.IndexInput(dims=(Batch(), Time(64))), wy.IndexInput(dims=(Batch(), Time(64)))
    mesh, axes = jax.make_mesh((8,), ("data",)), {Batch: "data", Embed: "data"}
    optimizer = wy.optim.Adam(model.parameters(), 1e-3)
    program: Any = wy.compile(model.loss(tokens, following), optimizer, engine="jax", mesh=mesh, sharding=axes)
    program({leaf: np.zeros((8 * SEQUENCES, 64), np.int64) for leaf in (tokens, following)})
    compiled = program._engine.compiled.lowered().compile()
    memory = compiled.memory_analysis()
    # Those of equal layers stand in a loop.
    gathered = [each.times * each.size for each in collectives(compiled.as_text()) if each.kind == "all-gather"]
    expected = plan(gpt2_table(CONFIG, {"data": 8}, {Embed: "data"}), CONFIG, SEQUENCES)
    state = program._engine.state
    found = {
        "arguments": memory.argument_size_in_bytes,
        "temporary": memory.temp_size_in_bytes,
        "gathered": sum(gathered),
        "parameters": on_first(state.values()),
        "state": on_first(state.slots()),
    }
    planned = {
        "arguments": expected.table.bytes_per_device + expected.table.state_bytes_per_device + 2 * 4 * SEQUENCES * 64,
        "temporary": expected.activations,
        "gathered": expected.gathered_bytes * 8 / 7,
        "parameters": expected.table.bytes_per_device,
        "state": expected.table.state_bytes_per_device,
    }
    sys.stdout.write(json.dumps([found, planned]))


if __name__ == "__main__":
    main()
