"""Programs that the tests of training checkpoints run in subprocesses, to be killed, stopped and resumed."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import wyrm as wy
from wyrm.data import TokenBlocks
from wyrm.errors import CheckpointError
from wyrm.io import Checkpoints

# --- saving, to be interrupted ----------------------------------------------------------------------------------------


def filled(step: int, elements: int = 40_000) -> tuple[dict[str, wy.Parameter[Any]], wy.optim.Adam]:
    """Return parameters and an optimizer filled with the number of a step."""
    parameters = {name: wy.Parameter(np.full(elements, step, np.float32), name=name) for name in ("first", "second")}
    optimizer = wy.optim.Adam(parameters.values())
    state = {name: np.full_like(array, step) for name, array in optimizer.state_dict().items()}
    optimizer.load_state_dict(state)
    return parameters, optimizer


def check_filled(directory: Path) -> int:
    """Return the step of the latest checkpoint, 0 if there is none; check that it is filled with that number."""
    checkpoints = Checkpoints(directory)
    path = checkpoints.latest()
    if path is None:
        return 0
    parameters, optimizer = filled(0)
    step: int = checkpoints.load(path, parameters, optimizer)["step"]
    assert path.name == f"step-{step:08d}.safetensors"
    for array in [*(p.value for p in parameters.values()), *optimizer.state_dict().values()]:
        assert (array == step).all(), (path, step, array)
    description = path.with_suffix(".json")
    assert not description.exists() or f'"step": {step},' in description.read_text()
    return step


def save_and_be_killed(directory: Path, times: int) -> None:
    """Save endlessly in a subprocess that is killed at random moments; what is on disk is always intact."""
    moments = random.Random(0)
    for _ in range(times):
        done, announce = os.pipe()
        before = check_filled(directory)
        process = os.fork()
        if process == 0:
            os.close(done)
            # Every step is saved twice, so that the second replaces the first.
            for step in range(2 * before + 2, 10**9):
                Checkpoints(directory, keep_last=2).save(step // 2, *filled(step // 2), {"step": step // 2}, -step)
                os.write(announce, f"{step // 2} ".encode())
        os.close(announce)
        wanted, words = moments.randint(0, 3), b""
        while words.count(b" ") < wanted:  # however slow they are
            words += os.read(done, 100)
        time.sleep(moments.uniform(0.0, 0.02))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        with os.fdopen(done, "rb") as announced:
            saved = [int(step) for step in (words + announced.read()).split()]
        found = check_filled(directory)
        # Announced checkpoints exist; one more may have been in progress.
        assert max(saved, default=before) <= found <= max(saved, default=before) + 1, (before, saved, found)
    sys.stdout.write(f"{check_filled(directory)}\n")


def save_until_full(directory: Path) -> None:
    """Save larger and larger checkpoints until one fails; print the message and what is left."""
    checkpoints, step = Checkpoints(directory, keep_last=100), 0
    try:
        while step < 100:
            checkpoints.save(step + 1, *filled(step + 1), {"step": step + 1})
            step += 1
    except CheckpointError as error:
        sys.stdout.write(f"{error}\n")
    assert check_filled(directory) == step
    names = {f"step-{number + 1:08d}.{suffix}" for number in range(step) for suffix in ("json", "safetensors")}
    assert {file.name for file in directory.iterdir()} == names
    sys.stdout.write(f"{step}\n")


# --- training, to be stopped and resumed ------------------------------------------------------------------------------


class Context(wy.Dim): ...


class Width(wy.Dim): ...


class Tokens(wy.Dim): ...


class Model(wy.nn.Module):
    def __init__(self) -> None:
        wy.nn.seed(3)
        self.table = wy.nn.Embedding(Tokens(11), Width(8))
        self.dropout = wy.nn.Dropout(0.3, seed=5)
        self.output = wy.nn.Linear(Width(8), Tokens(11))

    def __call__(self, tokens: Any) -> Any:
        return self.output(self.dropout(self.table(tokens).tanh()))


def rate(step: int) -> float:
    return 0.01 / (1.0 + 0.1 * step)


def train(directory: Path, how: str, until: int) -> None:
    """Train from the latest checkpoint to a number of epochs, or a number of steps within an epoch, and save."""
    batch = wy.Dim()
    tokens, targets = (wy.IndexInput(dims=(batch, Context(6)), name=name) for name in ("tokens", "targets"))
    model = Model()
    loss = model(tokens).cross_entropy(targets)
    optimizer = wy.optim.Adam(model.parameters(), rate)
    program = wy.compile(loss, optimizer)
    blocks = TokenBlocks(np.random.default_rng(1).integers(0, 11, 400), block_size=6, vocab_size=11, seed=2)
    checkpoints = Checkpoints(directory)
    epoch = start = 0
    if latest := checkpoints.latest():
        state = checkpoints.load(latest, model, optimizer)
        program.load_state_dict(state["program"])
        epoch, start = state["epoch"], state["start"]
    while (epoch if how == "epochs" else optimizer.steps) < until:
        if how == "epochs":
            program.epoch({tokens: blocks.inputs, targets: blocks.targets}, batch_size=4, shuffle=True, seed=7)
        else:
            for inputs, wanted in blocks.batches(4, epoch, start=start):
                program({tokens: inputs, targets: wanted})
                start += 1
                if optimizer.steps == until:
                    break
            else:
                start = 0
        if start == 0:
            epoch += 1
    state = {"epoch": epoch, "start": start, "program": program.state_dict()}
    checkpoints.save(optimizer.steps, model, optimizer, state)


if __name__ == "__main__":
    what, directory, *rest = sys.argv[1:]
    if what == "train":
        train(Path(directory), rest[0], int(rest[1]))
    elif what == "kill":
        save_and_be_killed(Path(directory), int(rest[0]))
    else:
        save_until_full(Path(directory))
