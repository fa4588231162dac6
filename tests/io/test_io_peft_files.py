"""Adapters in the files of peft: what is written is read, and peft computes the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import CheckpointError
from wyrm.io.files import load_arrays, save_arrays

TOKENS = np.arange(14).reshape(2, 7)
GPT2 = wy.nn.GPT2Config(vocab_size=40, n_positions=16, n_embd=32, n_layer=2, n_head=4)
LLAMA = wy.nn.DecoderConfig(
    vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=16,
)  # fmt: skip


def model_of(kind: str) -> Any:
    with wy.nn.seeded(0):
        return (wy.nn.GPT2(GPT2) if kind == "gpt2" else wy.nn.Decoder(LLAMA)).eval()


def adapted(kind: str, **options: Any) -> tuple[Any, wy.nn.LoRA]:
    """Return a model with an adapter whose matrices are drawn."""
    model = model_of(kind)
    adapter = wy.nn.LoRA(model, rank=4, alpha=6.0, **{"targets": "blocks.*", **options})
    random = np.random.default_rng(1)
    for matrix in adapter.parameters():
        matrix.set(random.normal(0.0, 0.2, matrix.shape).astype(np.float32))
    return model, adapter


def logits(model: Any) -> Any:
    return model.logits(wy.IndexInput(TOKENS, dims=TOKENS.shape)).forward()


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_what_is_written_is_read(kind: str, tmp_path: Path) -> None:
    model, adapter = adapted(kind, targets=["*.qkv", "*.out_proj"])
    adapter.save_pretrained(tmp_path)
    twin = model_of(kind)
    found = wy.nn.LoRA.from_pretrained(twin, tmp_path)
    assert (found.rank, found.alpha, list(found.layers)) == (adapter.rank, adapter.alpha, list(adapter.layers))
    np.testing.assert_array_equal(logits(twin), logits(model))
    assert np.abs(logits(twin) - logits(model_of(kind))).max() > 0.01


def test_parts_of_a_layer_have_matrices_of_their_own(tmp_path: Path) -> None:
    """As peft trains them: queries and values, each with a first matrix of its own, and no keys."""
    _, adapter = adapted("llama", targets="*.qkv")
    adapter.save_pretrained(tmp_path)
    arrays, _ = load_arrays(tmp_path / "adapter_model.safetensors")
    random = np.random.default_rng(2)
    kept = {
        name: random.normal(0.0, 0.2, array.shape).astype(np.float32)
        for name, array in arrays.items()
        if "k_proj" not in name
    }
    save_arrays(tmp_path / "adapter_model.safetensors", kept, {"format": "pt"})
    twin = model_of("llama")
    found = wy.nn.LoRA.from_pretrained(twin, tmp_path)
    layer = found.layers["blocks.1.attention.qkv"]
    assert layer.down.shape == (32, 8)
    low = layer.down.value @ layer.up.value
    name = "base_model.model.model.layers.1.self_attn"
    queries = (kept[f"{name}.q_proj.lora_B.weight"] @ kept[f"{name}.q_proj.lora_A.weight"]).T
    values = (kept[f"{name}.v_proj.lora_B.weight"] @ kept[f"{name}.v_proj.lora_A.weight"]).T
    np.testing.assert_allclose(low, np.concatenate([queries, np.zeros((32, 16)), values], axis=1), rtol=1e-5, atol=1e-6)
    assert layer.scale == 1.5


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_peft_computes_the_same(kind: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    peft = pytest.importorskip("peft", reason="peft is not installed")
    model, adapter = adapted(kind)
    adapter.save_pretrained(tmp_path / "adapter")
    model_of(kind).save_pretrained(tmp_path / "model")
    base = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    theirs = peft.PeftModel.from_pretrained(base, tmp_path / "adapter").eval()
    with torch.no_grad():
        found = theirs(torch.from_numpy(TOKENS)).logits.numpy()
    np.testing.assert_allclose(found, logits(model), rtol=1e-4, atol=1e-4)
    theirs.save_pretrained(tmp_path / "again")
    twin = model_of(kind)
    wy.nn.LoRA.from_pretrained(twin, tmp_path / "again")
    np.testing.assert_allclose(logits(twin), logits(model), rtol=1e-5, atol=1e-5)


def test_mistakes_are_named(tmp_path: Path) -> None:
    _, adapter = adapted("gpt2")
    adapter.save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="no such file"):
        wy.nn.LoRA.from_pretrained(model_of("gpt2"), tmp_path / "nothing")
    other = model_of("llama")
    with pytest.raises(CheckpointError, match=r"adapter of transformer\.h\.0\..*no linear module of a Decoder"):
        wy.nn.LoRA.from_pretrained(other, tmp_path)
    assert not any(isinstance(each, wy.nn.AdaptedLinear) for each in other.modules())
    config = json.loads((tmp_path / "adapter_config.json").read_text(encoding="utf-8"))
    for changed, message in (
        ({"use_dora": True}, "has use_dora = True, which wy.nn.LoRA does not have"),
        ({"r": 0}, "has r = 0 and lora_alpha = 6.0; expected numbers above 0"),
        ({"r": 3}, r"lora_A and lora_B have the shapes"),
        ({"peft_type": "IA3"}, "has peft_type = 'IA3'"),
    ):
        (tmp_path / "adapter_config.json").write_text(json.dumps(config | changed), encoding="utf-8")
        with pytest.raises(CheckpointError, match=message):
            wy.nn.LoRA.from_pretrained(model_of("gpt2"), tmp_path)
    plain = wy.nn.Linear(8, 8) >> wy.nn.relu
    with pytest.raises(CheckpointError, match="Sequential is no model of transformers"):
        wy.nn.LoRA(plain, rank=2).save_pretrained(tmp_path)
