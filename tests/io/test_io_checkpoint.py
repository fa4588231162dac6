from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.pytorch import torch
from wyrm import io
from wyrm.errors import CheckpointError, DTypeError, NotFinite


class Hidden(wy.Dim): ...


class Model(wy.nn.Module):
    def __init__(self, seed: int, hidden: int = 3) -> None:
        self.blocks = [wy.nn.Linear(4, Hidden(hidden), seed=seed), wy.nn.Linear(Hidden(hidden), 2, seed=seed + 1)]
        self.scale = wy.Parameter(np.array(float(seed)), name="scale")

    def __call__(self, x: Any) -> Any:
        return self.blocks[1](self.blocks[0](x).tanh())


def values(model: wy.nn.Module) -> dict[str, Any]:
    return {name: parameter.value for name, parameter in model.named_parameters()}


def same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def test_a_model_comes_back(path: Path) -> None:
    model, other = Model(seed=1), Model(seed=2)
    x = wy.Constant(np.ones((5, 4), np.float32))
    result = other(x)
    before = result.forward()
    io.save(model, path)
    io.load(other, path)
    assert same(values(model), values(other))
    assert (result.forward() != before).any()
    np.testing.assert_array_equal(result.forward(), model(x).forward())


def test_the_names_in_the_file_are_the_paths(path: Path) -> None:
    model = Model(seed=1)
    io.save(model, path, {"epoch": "7"})
    loaded = io.load_arrays(path)
    assert set(loaded.arrays) == {"blocks.0.weight", "blocks.0.bias", "blocks.1.weight", "blocks.1.bias", "scale"}
    assert loaded.metadata == {"epoch": "7"}
    assert loaded.arrays["scale"].dtype == np.float64
    np.testing.assert_array_equal(loaded.arrays["blocks.0.weight"], model.blocks[0].weight.value)


def test_a_mapping_of_parameters_comes_back(path: Path) -> None:
    slope, intercept = wy.Parameter(1.0), wy.Parameter([2.0, 3.0])
    io.save({"slope": slope, "intercept": intercept}, path)
    slope.set(0.0)
    intercept.set([0.0, 0.0])
    io.load({"intercept": intercept, "slope": slope}, path)
    assert float(slope) == 1.0 and intercept.value.tolist() == [2.0, 3.0]


def test_a_shared_parameter_is_written_once_and_stays_shared(path: Path) -> None:
    class Tied(wy.nn.Module):
        def __init__(self, seed: int) -> None:
            self.first = wy.nn.Linear(3, 3, seed=seed)
            self.second = wy.nn.Linear(3, 3, seed=seed)
            self.second.weight = self.first.weight

    model, other = Tied(1), Tied(2)
    io.save(model, path)
    assert set(io.load_arrays(path).arrays) == {"first.weight", "first.bias", "second.bias"}
    io.load(other, path)
    np.testing.assert_array_equal(other.second.weight.value, model.first.weight.value)


def test_writing_leaves_the_parameters_alone(path: Path) -> None:
    model = Model(seed=1)
    before = values(model)
    io.save(model, path)
    assert same(values(model), before)


def test_saving_over_a_file_replaces_it(path: Path) -> None:
    io.save(Model(seed=1), path)
    io.save(Model(seed=2), path)
    other = Model(seed=3)
    io.load(other, path)
    assert same(values(other), values(Model(seed=2)))


def test_all_that_differs_is_listed_and_nothing_is_set(path: Path) -> None:
    model = Model(seed=1)
    arrays = values(model)
    arrays["surplus"], arrays["scale"] = np.zeros(2), np.zeros((), np.float32)
    arrays["blocks.1.weight"] = np.zeros((7, 2), np.float32)
    del arrays["blocks.0.bias"], arrays["blocks.1.bias"]
    io.save_arrays(path, arrays)
    before = values(model)
    with pytest.raises(CheckpointError) as error:
        io.load(model, path)
    assert str(error.value).splitlines() == [
        f"{str(path)!r} does not match the parameters of Model:",
        "  missing in the file: blocks.0.bias, blocks.1.bias",
        "  extra in the file: surplus",
        "  blocks.1.weight: (7, 2) float32 in the file, (3, 2) float32 here",
        "  scale: () float32 in the file, () float64 here",
    ]
    assert same(values(model), before)


def refused(path: Path, change: dict[str, Any], without: tuple[str, ...] = ()) -> str:
    """Return the error with which a model refuses its own arrays after a change; check that nothing was set."""
    model = Model(seed=1)
    arrays = {name: array for name, array in {**values(Model(seed=2)), **change}.items() if name not in without}
    io.save_arrays(path, arrays)
    before = values(model)
    with pytest.raises(CheckpointError) as error:
        io.load(model, path)
    assert same(values(model), before)
    return str(error.value)


def test_a_missing_parameter_is_an_error(path: Path) -> None:
    assert "missing in the file: scale" in refused(path, {}, without=("scale",))


def test_an_extra_parameter_is_an_error(path: Path) -> None:
    assert "extra in the file: more" in refused(path, {"more": np.zeros(1)})


def test_another_shape_is_an_error(path: Path) -> None:
    message = refused(path, {"blocks.1.bias": np.zeros((1, 2), np.float32)})
    assert "blocks.1.bias: (1, 2) float32 in the file, (2,) float32 here" in message


def test_another_dtype_is_an_error(path: Path) -> None:
    message = refused(path, {"blocks.1.bias": np.zeros(2)})
    assert "blocks.1.bias: (2,) float64 in the file, (2,) float32 here" in message


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_an_error(path: Path, wrong: float) -> None:
    message = refused(path, {"blocks.1.bias": np.array([0.0, wrong], np.float32)})
    assert "blocks.1.bias: a NaN or an infinity in the file" in message


def test_a_model_of_another_size_is_an_error(path: Path) -> None:
    io.save(Model(seed=1, hidden=5), path)
    with pytest.raises(CheckpointError, match=r"blocks\.0\.weight: \(4, 5\) float32 in the file, \(4, 3\) float32"):
        io.load(Model(seed=1), path)


def test_a_truncated_file_sets_nothing(path: Path) -> None:
    model = Model(seed=1)
    before = values(model)
    io.save(Model(seed=2), path)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(
        CheckpointError, match=r"model\.safetensors' is not a safetensors file, or is truncated or corrupt"
    ):
        io.load(model, path)
    assert same(values(model), before)


def test_a_missing_file_is_an_error(path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no such file: '.*model\.safetensors'"):
        io.load(Model(seed=1), path)


def test_a_diverged_model_does_not_replace_a_good_file(path: Path) -> None:
    model = Model(seed=1)
    io.save(model, path)
    good = path.read_bytes()
    held = model.scale._storage.array
    assert held is not None
    held[...] = np.nan  # as after divergence
    with pytest.raises(NotFinite, match=r"saving '.*': scale holds a NaN or an infinity"):
        io.save(model, path)
    assert path.read_bytes() == good


def test_a_module_without_parameters_is_an_error(path: Path) -> None:
    with pytest.raises(CheckpointError, match="Dropout has no parameters"):
        io.save(wy.nn.Dropout(0.5), path)
    assert not path.exists()


def test_loading_into_a_module_without_parameters_is_an_error(path: Path) -> None:
    io.save(Model(seed=1), path)
    with pytest.raises(CheckpointError, match="Dropout has no parameters"):
        io.load(wy.nn.Dropout(0.5), path)


def test_a_mapping_of_arrays_is_an_error(path: Path) -> None:
    with pytest.raises(DTypeError, match=r"x is array.*, not a parameter"):
        io.save({"x": np.zeros(3)}, path)  # type: ignore[dict-item]  # the mistake that mypy finds


def test_a_mapping_with_an_input_is_an_error(path: Path) -> None:
    with pytest.raises(DTypeError, match=r"x is .*, not a parameter"):
        io.save({"x": wy.Input(1.0)}, path)  # type: ignore[dict-item]  # the mistake that mypy finds


def test_a_file_of_torch_says_how_to_convert_it(path: Path) -> None:
    torch.save({"weight": torch.zeros(3, 2)}, path)
    with pytest.raises(
        CheckpointError, match=r"not a safetensors file, .*save_file\(torch\.load\(path\), 'model\.safet"
    ):
        io.load(wy.nn.Linear(2, 3), path)
    path.write_bytes(b"nothing of that")
    with pytest.raises(CheckpointError, match=r"not a safetensors file(?!.*torch)"):
        io.load(wy.nn.Linear(2, 3), path)
