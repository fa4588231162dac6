"""Matrices of low rank beside linear layers: what they compute, what is trained, and what is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import CheckpointError, DTypeError, OptionError, UnusedParameter
from wyrm.nn.lora import AdaptedLinear


def gpt2(seed: int = 0, **options: Any) -> wy.nn.GPT2:
    config = wy.nn.GPT2Config(vocab_size=40, n_positions=16, n_embd=32, n_layer=2, n_head=4, **options)
    with wy.nn.seeded(seed):
        return wy.nn.GPT2(config)


def without_dropout() -> wy.nn.GPT2:
    return gpt2(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)


def trained(model: wy.nn.GPT2, parameters: Any, engine: Any = "native", steps: int = 20) -> list[float]:
    tokens = np.random.default_rng(1).integers(0, 40, (4, 9))
    x, y = wy.IndexInput(dims=(4, 8), name="x"), wy.IndexInput(dims=(4, 8), name="y")
    step = wy.compile(model.loss(x, y), wy.optim.Adam(parameters, 0.01), engine=engine)
    return [float(step({x: tokens[:, :-1], y: tokens[:, 1:]})) for _ in range(steps)]


def test_a_layer_adds_the_product_of_low_rank() -> None:
    random = np.random.default_rng(0)
    model = wy.nn.Linear(6, 9) >> wy.nn.relu
    (base,) = [each for each in model.modules() if isinstance(each, wy.nn.Linear)]
    adapter = wy.nn.LoRA(model, rank=2, alpha=3.0)
    (layer,) = adapter.layers.values()
    assert isinstance(layer, AdaptedLinear)
    assert layer.weight is base.weight
    x = wy.Input(random.normal(size=(5, 6)).astype(np.float32))
    np.testing.assert_array_equal(layer(x).forward(), base(x).forward())
    layer.up.set(random.normal(size=(2, 9)).astype(np.float32))
    wanted = base(x).forward() + 1.5 * (x.value @ layer.down.value @ layer.up.value)
    np.testing.assert_allclose(layer(x).forward(), wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(wy.compile(layer(x))({}), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("engine", ["native", "jax"])
@pytest.mark.parametrize("storage", [None, "int8", "bfloat16"])
def test_only_the_matrices_are_trained(storage: Any, engine: Any) -> None:
    model = without_dropout()
    if storage is not None:
        model.quantize(storage, only="blocks.*")
    held = model.state_dict()
    adapter = wy.nn.LoRA(model, rank=4, targets=["*.qkv", "*.fc1", "*.fc2"])
    assert len(adapter.layers) == 6
    losses = trained(model, adapter.parameters(), engine)
    assert losses[-1] < 0.95 * losses[0]
    after = model.state_dict()
    assert held.keys() < after.keys()
    for name, array in held.items():
        np.testing.assert_array_equal(after[name], array)
    assert all(np.abs(matrix.value).max() > 0.0 for matrix in adapter.parameters())


def test_what_was_compiled_before_a_merge_trains_nothing_in_silence() -> None:
    model = without_dropout()
    adapter = wy.nn.LoRA(model, rank=2, targets="blocks.0.*.qkv")
    x, y = wy.IndexInput(dims=(4, 8), name="x"), wy.IndexInput(dims=(4, 8), name="y")
    step = wy.compile(model.loss(x, y), wy.optim.Adam(adapter.parameters(), 0.01))
    data = {x: np.ones((4, 8), np.int64), y: np.ones((4, 8), np.int64)}
    step(data)
    adapter.merge()
    with pytest.raises(UnusedParameter, match=r"blocks\.0\.attention\.qkv\.\w+, which merge\(\) replaced"):
        step(data)


def test_what_is_saved_is_loaded_and_merged(tmp_path: Path) -> None:
    model, twin, exact = without_dropout(), without_dropout(), without_dropout()
    adapter, other = (wy.nn.LoRA(each, rank=4, alpha=8.0, targets="blocks.*") for each in (model, twin))
    trained(model, adapter.parameters())
    adapter.save(tmp_path / "adapter.safetensors")
    other.load(tmp_path / "adapter.safetensors")
    tokens = wy.IndexInput(np.arange(8).reshape(1, 8), dims=(1, 8))
    wanted = model.eval().logits(tokens).forward()
    np.testing.assert_array_equal(twin.eval().logits(tokens).forward(), wanted)
    other.merge()
    assert other.layers == {}
    assert {type(each) for each in twin.modules()} == {type(each) for each in exact.modules()}
    np.testing.assert_allclose(twin.logits(tokens).forward(), wanted, rtol=1e-4, atol=1e-5)
    assert [name for name, _ in twin.named_parameters()] == [name for name, _ in exact.named_parameters()]
    with pytest.raises(CheckpointError, match=r"blocks\.0\.attention\.qkv\.down"):
        wy.nn.LoRA(without_dropout(), rank=2, targets="blocks.*").load(tmp_path / "adapter.safetensors")


def test_the_files_of_transformers_have_narrow_weights_in_float32_and_no_adapters(tmp_path: Path) -> None:
    config = wy.nn.DecoderConfig(
        vocab_size=40, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        max_position_embeddings=16,
    )  # fmt: skip
    for model in (without_dropout(), wy.nn.Decoder(config)):
        tokens = wy.IndexInput([[1, 2, 3]], dims=(1, 3))
        model.eval().quantize("int8")
        wanted = model.logits(tokens).forward()
        model.save_pretrained(tmp_path)
        np.testing.assert_allclose(type(model).from_pretrained(tmp_path).logits(tokens).forward(), wanted, rtol=1e-5)
        wy.nn.LoRA(model, rank=2, targets="blocks.*")
        with pytest.raises(CheckpointError, match=r"no place for: blocks\.0\..*\.down and .* added by adapter\.merge"):
            model.save_pretrained(tmp_path)


def test_a_model_with_an_adapter_generates_text() -> None:
    model = without_dropout()
    adapter = wy.nn.LoRA(model, rank=4, targets="blocks.*")
    trained(model, adapter.parameters())
    found = list(wy.nn.generate(model.eval(), [1, 2, 3], 6, temperature=0.0))
    tokens = [1, 2, 3]
    for _ in range(6):
        logits = model.logits(wy.IndexInput([tokens], dims=(1, len(tokens)))).forward()
        tokens.append(int(logits[0, -1].argmax()))
    assert found == tokens[3:]


def test_dropout_is_that_of_the_inputs_of_the_matrices() -> None:
    model = wy.nn.Linear(50, 50) >> wy.nn.relu
    adapter = wy.nn.LoRA(model, rank=2, dropout=0.5)
    (layer,) = adapter.layers.values()
    layer.up.set(np.ones((2, 50), np.float32))
    x = wy.Input(np.ones((1, 50), np.float32))
    base = (x @ layer.weight).forward() + (0.0 if layer.bias is None else layer.bias.value)
    differences = [np.abs(layer(x).forward() - base).max() for _ in range(2)]
    assert differences[0] != differences[1]
    model.eval()
    assert (layer(x).forward() == layer(x).forward()).all()


def test_mistakes_are_named() -> None:
    model = gpt2()
    with pytest.raises(OptionError, match=r"no linear layer at 'head'; the paths .* are: blocks\.0\.attention"):
        wy.nn.LoRA(model, targets="head")
    with pytest.raises(OptionError, match=r"rank 64 is above the features of blocks\.0\.attention\.qkv"):
        wy.nn.LoRA(model, rank=64)
    for options in ({"rank": 0}, {"alpha": -1.0}, {"dropout": 1.5}):
        with pytest.raises(OptionError):
            wy.nn.LoRA(model, **options)
    assert {type(each).__name__ for each in model.modules()} >= {"Linear"}
    assert not any(isinstance(each, AdaptedLinear) for each in model.modules())
    model.quantize("int8", only="blocks.*")
    adapter = wy.nn.LoRA(model, targets="blocks.*")
    with pytest.raises(DTypeError, match="merge before quantize"):
        adapter.merge()
    assert len(adapter.layers) == 8


def test_layers_of_one_shape_begin_differently_with_a_seed() -> None:
    def matrices(seed: int) -> list[Any]:
        model = wy.nn.Linear(4, 4) >> wy.nn.Linear(4, 4) >> wy.nn.Linear(4, 4)
        return [layer.down.value for layer in wy.nn.LoRA(model, rank=2, seed=seed).layers.values()]

    first, again, other = matrices(7), matrices(7), matrices(8)
    for i, matrix in enumerate(first):
        np.testing.assert_array_equal(matrix, again[i])
        assert not (matrix == other[i]).any() and not (matrix == first[i - 1]).any()
    with pytest.raises(OptionError, match="LoRA: seed must be an integer of at least 0, not -1"):
        wy.nn.LoRA(wy.nn.Linear(4, 4) >> wy.nn.relu, rank=2, seed=-1)


def test_a_file_for_another_alpha_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "adapter.safetensors"
    wy.nn.LoRA(wy.nn.Linear(6, 9) >> wy.nn.relu, rank=2, alpha=32.0, seed=1).save(file)
    adapter = wy.nn.LoRA(wy.nn.Linear(6, 9) >> wy.nn.relu, rank=2, seed=2)
    before = adapter.parameters()[0].value.copy()
    with pytest.raises(CheckpointError, match=r"alpha=32.*has alpha=16: .*LoRA\(model, rank=2, alpha=32\)"):
        adapter.load(file)
    np.testing.assert_array_equal(adapter.parameters()[0].value, before)
    wy.nn.LoRA(wy.nn.Linear(6, 9) >> wy.nn.relu, rank=2, alpha=32.0).load(file)
