"""Decoders in the files of transformers: equal logits and gradients both ways, and what is refused by name."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import CheckpointError, OptionError
from wyrm.nn import Decoder, DecoderConfig

SIZES: dict[str, Any] = {
    "vocab_size": 61, "hidden_size": 32, "intermediate_size": 44, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 40,
}  # fmt: skip
LLAMA3: dict[str, Any] = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16, "rope_theta": 500.0,
}  # fmt: skip
LINEAR = {"rope_type": "linear", "factor": 3.0, "rope_theta": 10_000.0}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama, one head of keys, biases, tied": (
        "Llama",
        {"num_key_value_heads": 1, "head_dim": 6, "attention_bias": True, "mlp_bias": True,
         "tie_word_embeddings": True, "hidden_act": "gelu"},
    ),
    "llama 3": ("Llama", {"num_key_value_heads": 2, "rope_parameters": LLAMA3}),
    "llama, linear": ("Llama", {"rope_parameters": LINEAR}),
    "mistral": ("Mistral", {"num_key_value_heads": 2, "sliding_window": 5, "head_dim": 10}),
    "mistral, all": ("Mistral", {"num_key_value_heads": 4, "sliding_window": None}),
    "qwen2": ("Qwen2", {"num_key_value_heads": 2}),
    "qwen2, windowed": (
        "Qwen2",
        {"num_key_value_heads": 1, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0},
    ),
    "qwen3": ("Qwen3", {"num_key_value_heads": 2, "head_dim": 12}),
    "qwen3, biases, tied": (
        "Qwen3", {"num_key_value_heads": 4, "head_dim": 8, "attention_bias": True, "tie_word_embeddings": True},
    ),
    "gemma": ("Gemma", {"num_key_value_heads": 1, "head_dim": 12}),
    "gemma, biases": ("Gemma", {"num_key_value_heads": 2, "head_dim": 8, "attention_bias": True}),
}  # fmt: skip
TEXTS = np.random.default_rng(0).integers(0, 61, (3, 21))


def theirs(case: str) -> Any:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    family, options = CASES[case]
    numbers = {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
    config = getattr(transformers, f"{family}Config")(**SIZES, **numbers, **options)
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # far from the small first values, also for norms and biases
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def compare(model: Decoder, other: Any) -> None:
    """Assert that logits are within 1e-5, and gradients within 1e-4 of the largest of a parameter."""
    from wyrm.io.decoder_files import _layout, _parts

    torch = pytest.importorskip("torch")
    read, following = TEXTS[:, :-1], TEXTS[:, 1:]
    logits = other(torch.from_numpy(read)).logits
    tokens = wy.IndexInput(read)
    np.testing.assert_allclose(model.logits(tokens).forward(), logits.detach().numpy(), rtol=1e-5, atol=1e-5)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(following.copy()).flatten())
    loss.backward()
    mine = model.loss(tokens, wy.IndexInput(following))
    assert float(mine.forward()) == pytest.approx(loss.item(), rel=1e-5)
    mine.backward()
    slopes, named, layout = dict(other.named_parameters()), dict(model.named_parameters()), _layout(model.config)
    for part in _parts(model.config):
        for kind in ("weight", "bias") if part.bias else ("weight",):
            wanted = [slopes[layout.full(f"{name}.{kind}")].grad.numpy().T for name, _ in part.theirs]
            want, have = np.concatenate(wanted, axis=-1), np.asarray(named[f"{part.ours}.{kind}"].gradient)
            # The gradient of a bias of keys is zero but for rounding.
            assert np.abs(have - want).max() <= 1e-4 * np.abs(want).max() + 1e-7, (part.ours, kind)
    table = slopes[layout.full("embed_tokens.weight")].grad.numpy()
    sparse = named["tokens.weight"]
    have = np.asarray(sparse.gradient)
    assert np.abs(have - table).max() <= 1e-4 * np.abs(table).max()


@pytest.mark.parametrize("case", CASES)
def test_both_ways_are_the_same(case: str, tmp_path: Path) -> None:
    other = theirs(case)
    other.save_pretrained(tmp_path / "theirs", max_shard_size="40KB" if case == "llama 3" else "1GB")
    model = Decoder.from_pretrained(tmp_path / "theirs")
    assert not model.training
    compare(model, other)
    model.save_pretrained(tmp_path / "ours")
    transformers = pytest.importorskip("transformers")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours", attn_implementation="eager").eval()
    mine = Decoder.from_pretrained(tmp_path / "ours")
    assert mine.config == replace(model.config, head_dim=model.config.features_of_head)
    compare(mine, again)


def test_bfloat16_and_early_files_are_read(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    other = theirs("llama").to(torch.bfloat16)
    other.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    contents = json.loads(path.read_text())
    theta = contents.pop("rope_parameters")["rope_theta"]
    contents |= {"rope_theta": theta, "rope_scaling": None, "torch_dtype": "bfloat16"}
    del contents["head_dim"], contents["tie_word_embeddings"]
    path.write_text(json.dumps(contents))
    wide = type(other).from_pretrained(tmp_path, dtype=torch.float32, attn_implementation="eager").eval()
    compare(Decoder.from_pretrained(tmp_path), wide)


def saved(folder: Path, **options: Any) -> Path:
    """Return a folder with a decoder of ours."""
    wy.nn.seed(0)
    Decoder(DecoderConfig(**(SIZES | options))).save_pretrained(folder)
    return folder


def test_files_come_back_without_transformers(tmp_path: Path) -> None:
    cases: list[tuple[str, dict[str, Any]]] = [
        ("llama", {"num_key_value_heads": 2, "tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True}),
        ("llama", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}, "attention_dropout": 0.1}),
        ("mistral", {"sliding_window": 7, "head_dim": 10}),
        ("qwen2", {"attention_bias": True, "attention_output_bias": False, "sliding_window": 3}),
        ("qwen3", {"qk_norm": True, "head_dim": 12, "attention_bias": True}),
        ("gemma", {"zero_centered_norms": True, "embedding_scale": 32**0.5, "hidden_act": "gelu_pytorch_tanh"}),
    ]
    for i, (family, options) in enumerate(cases):
        folder = saved(tmp_path / str(i), **options)
        assert json.loads((folder / "config.json").read_text())["model_type"] == family
        model, again = Decoder(DecoderConfig(**(SIZES | options))), Decoder.from_pretrained(folder)
        wy.nn.seed(0)
        model = Decoder(DecoderConfig(**(SIZES | options)))
        tokens = wy.IndexInput(TEXTS)
        np.testing.assert_array_equal(model.eval().logits(tokens).forward(), again.logits(tokens).forward())
        assert again.config.features_of_head == model.config.features_of_head
    with pytest.raises(CheckpointError, match="none of llama, mistral, qwen2, qwen3, gemma has the options"):
        saved(tmp_path / "none", qk_norm=True, zero_centered_norms=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "gpt2"}, "describes a model of type 'gpt2', not 'llama' or 'mistral'"),
        ({"quantization_config": {"bits": 4}}, r"has quantization_config = \{'bits': 4\}; Decoder supports None only"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0}}, "rope_type 'yarn'; it must be one of"),
        (
            {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}},
            "has partial_rotary_factor = 0.5",
        ),
        ({"rope_parameters": None, "rope_scaling": 3}, "rope_parameters or rope_scaling that are no object: 3"),
        ({"rope_parameters": {"rope_theta": "a"}}, "rope_theta must be a number above 0, not 'a'"),
        ({"hidden_act": "relu"}, "hidden_act must be one of"),
        ({"hidden_size": None}, "has hidden_size = None; it must be an integer above 0"),
        ({"num_hidden_layers": "2"}, "has num_hidden_layers = '2'"),
        ({"num_hidden_layers": 10**12}, "holds 21 arrays, too few for num_hidden_layers"),
        ({"sliding_window": 5}, "has sliding_window = 5; Decoder of the type 'llama' supports None and None only"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layers of full_attention and sliding_attention"),
        ({"intermediate_size": 45}, r"layers.0.mlp.gate_proj.weight: \(44, 32\) in the file, \(45, 32\) by the"),
        ({"attention_bias": True}, "missing: layers.0.self_attn.q_proj.bias"),
        ({"tie_word_embeddings": True}, "lm_head.weight: differs from embed_tokens.weight, to which it is tied"),
        ({"num_key_value_heads": 3}, "num_attention_heads 4 is not divisible by num_key_value_heads 3"),
    ],
)
def test_what_a_decoder_cannot_be_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    folder = saved(tmp_path)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(CheckpointError, match=message):
        Decoder.from_pretrained(folder)


def test_missing_sizes_and_files_are_named(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    path = folder / "config.json"
    contents = json.loads(path.read_text())
    del contents["vocab_size"]
    path.write_text(json.dumps(contents))
    with pytest.raises(CheckpointError, match="lacks vocab_size"):
        Decoder.from_pretrained(folder)
    with pytest.raises(CheckpointError, match="no such file"):
        Decoder.from_pretrained(tmp_path / "nowhere")


def test_files_of_gguf_without_the_package_say_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    config = wy.nn.DecoderConfig(vocab_size=8, hidden_size=8, intermediate_size=8, num_attention_heads=2)
    refusal = r'needs the package gguf: pip install "wyrm-autodiff\[gguf\]"'
    with pytest.raises(OptionError, match=rf"Decoder\.save_gguf {refusal}"):
        wy.nn.Decoder(replace(config, num_hidden_layers=1)).save_gguf(tmp_path / "model.gguf")
    with pytest.raises(OptionError, match=rf"Decoder\.from_gguf {refusal}"):
        wy.nn.Decoder.from_gguf(tmp_path / "model.gguf")
    assert list(tmp_path.iterdir()) == []
