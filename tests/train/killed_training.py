"""A training whose saves never end, run in processes that a test kills; it prints nothing and leaves its history."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import wyrm as wy

ROWS, BATCH, EPOCHS, WIDTH = 4_800, 16, 4, 192


class Batch(wy.Dim): ...


class Width(wy.Dim): ...


class Watched(wy.train.Callback):
    """Remembers the sums of the parameters after each epoch, which the history does not tell."""

    def __init__(self) -> None:
        self.sums: list[float] = []

    def on_epoch_end(self, run: wy.train.Run, values: Any) -> None:
        self.sums.append(sum(float(np.abs(leaf.value).sum(dtype=np.float64)) for leaf in run.program.trained))

    def state_dict(self) -> dict[str, Any]:
        return {"sums": self.sums}

    def load_state_dict(self, state: Any) -> None:
        self.sums = list(state["sums"])


def train(folder: Path, engine: str, loader: bool) -> dict[str, Any]:
    """Train to the end from the latest checkpoint of a folder; return what must be equal whenever it was killed."""
    wy.nn.seed(3)
    x, y = wy.Input(dims=(Batch(), Width(WIDTH)), name="x"), wy.Input(dims=(Batch(), Width(WIDTH)), name="y")
    hidden = wy.nn.Linear(Width(WIDTH), Width(WIDTH))(x).tanh().dropout(0.1)
    loss = (wy.nn.Linear(Width(WIDTH), Width(WIDTH))(hidden) - y).square().mean()
    optimizer = wy.optim.Adam(loss.parameters(), 0.001)
    program = wy.compile(loss, optimizer, engine=engine)
    rows = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)
    data: Any = {x: rows, y: np.roll(rows, 1, axis=1)}
    options: dict[str, Any] = {"batch_size": BATCH, "shuffle": True, "seed": 5}
    if loader:
        data, options = wy.data.DataLoader(wy.data.Dataset(x=rows, y=np.roll(rows, 1, axis=1)), BATCH, seed=5), {}
    watched = Watched()
    saving = wy.train.Checkpoint(folder, every_seconds=0.0, keep_last=2, resume=True)
    history = wy.train.fit(program, data, epochs=EPOCHS, callbacks=[watched, saving], **options)
    return {"losses": history["loss"], "sums": watched.sums, "steps": optimizer.steps}


if __name__ == "__main__":
    place, name, kind, result = sys.argv[1:]
    Path(result).write_text(json.dumps(train(Path(place), name, kind == "loader")), encoding="utf-8")
