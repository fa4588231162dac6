"""Lowered functions in `jax.shard_map` with its defaults, and on meshes as `jax.make_mesh` makes them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.jax import explicit_meshes
from tests.once import computed_once
from tests.subprocesses import on_simulated_devices


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return computed_once(tmp_path_factory, "meshes", lambda: on_simulated_devices("tests.jax.explicit_meshes"))


@pytest.mark.parametrize("model", explicit_meshes.MODELS)
@pytest.mark.parametrize("kind", ["explicit", "mapped", "mapped explicit"])
def test_losses_and_gradients_are_those_of_one_device(found: Any, model: str, kind: str) -> None:
    differences = found[f"{model} {kind}"]
    assert differences["loss"] < 1e-6
    assert differences["gradients"] < 1e-5


def test_results_are_sharded_as_the_axes_of_arguments(found: Any) -> None:
    assert found["sharding"].endswith("('data', None)")
