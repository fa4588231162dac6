"""Trains with JAX and saves in the background: `python -m tests.jax.saving_worker FOLDER WHAT`.

WHAT is "ends" to end while a checkpoint is written, "fails" to fail to write one, "forgets" to do so without asking,
or "trains" to train and save until a kill. Without arguments, processes that train are forked: see `serve`.
"""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
from typing import Any

import numpy as np

import wyrm as wy

SIZE, ROWS = 2_000_000, 3


def program() -> Any:
    """Return a program whose parameters tell how many steps it did, large enough that a kill meets a write."""
    x, weight = wy.Input(dims=(wy.Dim(),), name="x"), wy.Parameter(np.zeros(SIZE, np.float32), name="weight")
    loss = (weight.mean() * x).mean() * -float(SIZE)
    return wy.compile(loss, wy.optim.SGD([weight], 1.0), engine="jax")


def step(trained: Any) -> None:
    """Add 1 to every weight."""
    trained({trained.inputs[0]: np.ones(ROWS, np.float32)})


def main(folder: str, what: str) -> None:
    trained = program()
    if what == "trains":
        if wy.jax.latest_step(folder) is not None:
            wy.jax.restore(trained, folder)
        while True:
            step(trained)
            wy.jax.save(trained, folder, state={"steps": trained.optimizer.steps}, wait=False)
            sys.stdout.write(f"{trained.optimizer.steps}\n")
            sys.stdout.flush()
    step(trained)
    wy.jax.save(trained, folder)
    step(trained)
    if what in ("fails", "forgets"):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    wy.jax.save(trained, folder, wait=False)
    step(trained)
    if what == "fails":
        try:
            wy.jax.wait()
        except wy.errors.CheckpointError as error:
            sys.stdout.write(str(error))
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        wy.jax.save(trained, folder)


def serve() -> None:
    """Fork a process that trains for each folder on stdin, one after the other: imports take longer than training.

    A process writes its number and then its steps; an empty line follows once it has been killed.
    """
    importlib.import_module("orbax.checkpoint")
    for folder in sys.stdin:
        child = os.fork()
        if child == 0:
            sys.stdout.write(f"{os.getpid()}\n")
            main(folder.rstrip("\n"), "trains")
        os.waitpid(child, 0)
        sys.stdout.write("\n")
        sys.stdout.flush()


if __name__ == "__main__":
    if len(sys.argv) == 1:
        serve()
    else:
        main(sys.argv[1], sys.argv[2])
