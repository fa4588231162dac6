"""Forks processes that train together; `processes` runs it, and imports of a process are those of its server.

Each line of stdin is a list of `Options` as JSON, one for each process. A process writes what it found as JSON to
`output` and what it prints to `errors`; once all have ended, their exit codes are a line of stdout.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

import wyrm as wy
from tests.engines.jax import process_tables, process_together

# After so many seconds a process ends.
TIMEOUT = 180
# What training and checkpoints import when they need it, here once for all processes.
LATER = (
    "jax.scipy.special", "jaxlib.mlir.dialects.mhlo", "orbax.checkpoint", "wyrm.engines.jax.engine",
    "wyrm.engines.native.llvm.library", "wyrm.engines.native.run.shuffle", "wyrm.jax.checkpoints", "wyrm.nn.dropout",
    "wyrm.optim.moments",
)  # fmt: skip


@dataclass
class Options:
    """What a process does; all processes of a training have the same options but `process` and `output`."""

    output: str
    errors: str
    processes: int = 1
    process: int = 0
    coordinator: str = ""
    # What they do: train a "network" with the options below or the "tables" of `process_tables`, or one of
    # `process_together.FOUND`.
    model: str = "network"
    # What is divided over the mesh, which has all devices: "data", "fsdp" for parameters too, "none" without a mesh.
    sharding: str = "data"
    epochs: int = 2
    rows: int = 70
    batch_size: int = 8
    # Whether each process has its own part of every batch, as from a loader.
    own_rows: bool = False
    # Where checkpoints are, and after how many steps there is one.
    folder: str = ""
    every: int = 5
    # What goes wrong on the last process after `fail_after` steps: "kill", "raise", "exit", "values",
    # "data", or "save", a kill while the others save a checkpoint at the end. "first" raises on the first process.
    failure: str = ""
    fail_after: int = 12
    seed: int = 0
    # The simulated devices of a process.
    devices: int = 1


class Batch(wy.Dim): ...


class Features(wy.Dim): ...


class Hidden(wy.Dim): ...


class Training:
    """A small network with dropout, Adam and its data; it is the bar of its own epochs."""

    def __init__(self, options: Options) -> None:
        self.options = options
        last = options.process == options.processes - 1
        features, hidden = Features(8), Hidden(16)
        self.x = wy.Input(dims=(Batch(), features), name="x")
        self.y = wy.Input(dims=(Batch(),), name="y")
        random = np.random.default_rng(options.seed + (options.failure == "values" and last))
        first = wy.Parameter(random.normal(size=(8, 16)).astype(np.float32) / 3, dims=(features, hidden), name="first")
        second = wy.Parameter(random.normal(size=(16,)).astype(np.float32) / 4, dims=(hidden,), name="second")
        inside = wy.nn.Dropout(0.25, seed=1)((self.x @ first).tanh())
        loss = (inside @ second - self.y).square().mean()
        axes: dict[type[wy.Dim], str] = {Batch: "data"} | ({Hidden: "data"} if options.sharding == "fsdp" else {})
        mesh = jax.make_mesh((len(jax.devices()),), ("data",))
        devices: dict[str, Any] = {} if options.sharding == "none" else {"mesh": mesh, "sharding": axes}
        self.program = wy.compile(loss, wy.optim.Adam([first, second], 0.01), engine="jax", **devices)
        random = np.random.default_rng(options.seed + (options.failure == "data" and last))
        inputs = random.normal(size=(options.rows, 8)).astype(np.float32)
        self.columns = {"x": inputs, "y": inputs.sum(axis=1)}
        self.steps, self.failing = 0, options.failure if last else ""
        if options.failure == "first":
            self.failing = "" if options.process else "raise"

    def update(self, rows: int) -> None:
        """Save a checkpoint if one is due, or fail."""
        options = self.options
        steps = self.program.state_dict()["steps"]
        if options.folder and steps // options.every > self.steps // options.every:
            wy.jax.save(self.program, options.folder)
        self.steps = steps
        if self.failing and steps >= options.fail_after:
            if self.failing == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.failing == "raise":
                raise ValueError("this process fails")
            if self.failing == "exit":
                sys.exit("this process ends")

    def train(self) -> list[float]:
        """Train; return the mean losses of the epochs."""
        options, means = self.options, []
        if options.folder and wy.jax.latest_step(options.folder) is not None:
            wy.jax.restore(self.program, options.folder)
            self.steps = self.program.state_dict()["steps"]
        while (epoch := self.program.state_dict()["epochs"]) < options.epochs:
            if options.own_rows:
                means.append(self.program.epoch(self.batches(epoch), progress=self))
            else:
                means.append(
                    self.program.epoch(
                        self.columns, batch_size=options.batch_size, shuffle=True, seed=options.seed, progress=self
                    )
                )
        return means

    def batches(self, epoch: int) -> Iterator[dict[str, np.ndarray]]:
        """Yield this process's part of each batch."""
        part = wy.jax.part_of_process(self.program, self.x)
        order = np.random.default_rng([self.options.seed, epoch]).permutation(self.options.rows)
        size = self.options.batch_size
        for start in range(0, len(order) - size + 1, size):
            rows = order[start : start + size][part.rows(size)]
            yield {name: column[rows] for name, column in self.columns.items()}


def train(options: Options) -> None:
    """Train as one of several processes."""
    jax.config.update("jax_num_cpu_devices", options.devices)
    if options.processes > 1:
        wy.jax.initialize(options.coordinator, options.processes, options.process)
    output = Path(options.output)
    if options.model != "network":
        found = process_tables.found if options.model == "tables" else process_together.FOUND[options.model]
        output.write_text(json.dumps(found(options.folder)), encoding="utf-8")
        return
    training = Training(options)
    means = training.train()
    if options.failure == "save":
        if training.failing:
            os.kill(os.getpid(), signal.SIGKILL)
        wy.jax.save(training.program, options.folder)
    wy.jax.gather(training.program)
    values = [parameter.value.tolist() for parameter in training.program.trained]
    output.write_text(json.dumps({"means": means, "values": values}), encoding="utf-8")


def main() -> None:
    """Fork processes until there are no more lines; a process leaves the loop and ends as Python does."""
    for module in LATER:
        importlib.import_module(module)
    gc.freeze()
    for line in sys.stdin:
        children = []
        for given in json.loads(line):
            child = os.fork()
            if child == 0:
                signal.alarm(TIMEOUT)
                file = os.open(given["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(file, sys.stdout.fileno())  # Gloo tells there whom it reaches
                os.dup2(file, sys.stderr.fileno())
                return train(Options(**given))
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        sys.stdout.write(json.dumps(codes) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
