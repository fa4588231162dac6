"""Models, and small checkpoints of them, for the tests of training checkpoints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import wyrm as wy
from tests.io.training_programs import filled
from wyrm.io import Checkpoints

ROOT = Path(__file__).resolve().parents[2]
STATE: dict[str, Any] = {
    "epoch": 3,
    "random_step": 2**70,
    "config": {"rate": 0.1, "names": ["a", "ü\n"], "tied": True, "none": None},
    "small": 5e-324,
}


class Hidden(wy.Dim): ...


class Model(wy.nn.Module):
    def __init__(self, hidden: int = 4, seed: int = 1) -> None:
        self.layers = [wy.nn.Linear(3, Hidden(hidden), seed=seed), wy.nn.Linear(Hidden(hidden), 2, seed=seed + 1)]
        self.scale = wy.Parameter(np.array([-0.0, 5e-324, 1.0 / 3.0]), name="scale")


def stepped(model: wy.nn.Module, steps: int = 3, seed: int = 0, **options: Any) -> wy.optim.Adam:
    """An optimizer of the model after some steps."""
    random, optimizer = np.random.default_rng(seed), wy.optim.Adam(model.parameters(), **options)
    for _ in range(steps):
        optimizer.zero_gradient()
        for parameter in model.parameters():
            (parameter * random.normal(size=parameter.shape)).sum().backward()
        optimizer.step()
    return optimizer


def bits(model: wy.nn.Module, optimizer: wy.optim.Optimizer) -> dict[str, bytes]:
    arrays = {name: parameter.value for name, parameter in model.named_parameters()}
    return {name: array.tobytes() for name, array in (arrays | optimizer.state_dict()).items()}


def names(directory: Path) -> list[str]:
    return sorted(file.name for file in directory.iterdir())


def steps(directory: Path) -> list[int]:
    """The steps that stand, each with its description; and nothing else."""
    found = sorted(int(file.stem.removeprefix("step-")) for file in directory.glob("step-*.safetensors"))
    assert names(directory) == [f"step-{step:08d}.{end}" for step in found for end in ("json", "safetensors")]
    return found


def save(directory: Path, step: int, score: float | None = None, **options: Any) -> Path:
    return Checkpoints(directory, **options).save(step, *filled(step, 5), {"step": step}, score)


def run(*arguments: str | Path, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [*before, sys.executable, "-m", "tests.io.training_programs", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)


def check_filled_step(directory: Path) -> int:
    path = Checkpoints(directory).latest()
    assert path is not None
    step: int = Checkpoints(directory).load(path, *filled(0, 5))["step"]
    return step
