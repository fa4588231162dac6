"""`Module.save` and `Module.load`, which call `wyrm.io.save` and `wyrm.io.load`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import CheckpointError


def test_a_module_saves_and_loads_itself(tmp_path: Path) -> None:
    model, other = wy.nn.Linear(4, 3, seed=1), wy.nn.Linear(4, 3, seed=2)
    model.save(tmp_path / "model.safetensors", {"epoch": "1"})
    other.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(other.weight.value, model.weight.value)
    assert wy.io.load_arrays(tmp_path / "model.safetensors").metadata == {"epoch": "1"}


def test_the_methods_raise_what_the_functions_raise(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such file"):
        wy.nn.Linear(4, 3).load(tmp_path / "missing.safetensors")
