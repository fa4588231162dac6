"""Decoders in GGUF: what is written is read, in the layout that llama.cpp has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import CheckpointError, OptionError

gguf = pytest.importorskip("gguf", reason="gguf is not installed")

SIZES = {
    "vocab_size": 40, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 32,
}  # fmt: skip
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama with a head": {"tie_word_embeddings": False, "rope_theta": 5e5, "head_dim": 32},
    "qwen2": {"attention_bias": True, "attention_output_bias": False},
    "qwen3": {"qk_norm": True, "num_key_value_heads": 1, "head_dim": 32},
    "gemma": {"zero_centered_norms": True, "embedding_scale": 8.0, "hidden_act": "gelu_pytorch_tanh",
              "tie_word_embeddings": True},
}  # fmt: skip


def decoder(**options: Any) -> wy.nn.Decoder:
    """Return a decoder all of whose numbers, also those of norms and biases, are drawn."""
    with wy.nn.seeded(0):
        model = wy.nn.Decoder(wy.nn.DecoderConfig(**{**SIZES, **options}))
    random = np.random.default_rng(1)
    for parameter in model.parameters():
        parameter.set(parameter.value + random.normal(0.0, 0.1, parameter.shape).astype(np.float32))
    return model.eval()


def logits(model: wy.nn.Decoder) -> Any:
    return model.logits(wy.IndexInput(np.arange(14).reshape(2, 7), dims=(2, 7))).forward()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("storage", "error"), [("float32", 1e-6), ("bfloat16", 0.003), ("q8_0", 0.01), ("q4_0", 0.11)])
def test_what_is_written_is_read(family: str, storage: Any, error: float, tmp_path: Path) -> None:
    model = decoder(**FAMILIES[family])
    model.save_gguf(tmp_path / "model.gguf", storage)
    found = wy.nn.Decoder.from_gguf(tmp_path / "model.gguf")
    assert not found.training
    pairs = zip(found.named_parameters(), model.named_parameters(), strict=True)
    for (name, parameter), (same, wanted) in pairs:
        assert name == same
        difference = np.square(parameter.value - wanted.value).mean() ** 0.5
        assert difference <= error * np.square(wanted.value).mean() ** 0.5
    if storage == "float32":
        np.testing.assert_allclose(logits(found), logits(model), rtol=1e-5, atol=1e-5)


def test_integers_of_4_bits_are_those_of_int4(tmp_path: Path) -> None:
    model = decoder()
    model.save_gguf(tmp_path / "model.gguf", "q4_0")
    found = wy.nn.Decoder.from_gguf(tmp_path / "model.gguf")
    exact = {name: parameter.value for name, parameter in found.named_parameters() if parameter.ndim == 2}
    found.quantize("int4")
    for name, weight in found.named_narrow_weights():
        np.testing.assert_allclose(weight.value, exact[name], rtol=1e-6)


def test_queries_are_interleaved_for_llama_and_not_for_others(tmp_path: Path) -> None:
    for name, interleaved in (("llama", True), ("qwen3", False)):
        model = decoder(**FAMILIES[name])
        model.save_gguf(tmp_path / "model.gguf")
        reader = gguf.GGUFReader(tmp_path / "model.gguf")
        assert reader.fields["general.architecture"].contents() == name
        (tensor,) = (each for each in reader.tensors if each.name == "blk.1.attn_q.weight")
        size, heads = model.config.features_of_head, model.config.num_attention_heads
        qkv = model.blocks[1].attention.qkv.weight.value
        halves = qkv[:, : heads * size].T.reshape(heads, 2, size // 2, -1)
        wanted = halves.swapaxes(1, 2) if interleaved else halves
        np.testing.assert_array_equal(tensor.data, wanted.reshape(heads * size, -1))


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    with pytest.raises(CheckpointError, match=r"cannot read .*missing"):
        wy.nn.Decoder.from_gguf(tmp_path / "missing")
    path.write_bytes(b"no GGUF")
    with pytest.raises(CheckpointError, match="as GGUF"):
        wy.nn.Decoder.from_gguf(path)
    with pytest.raises(OptionError, match=r"storage must be .* not 'q5_0'"):
        decoder().save_gguf(path, "q5_0")  # type: ignore[arg-type]  # the mistake
    with pytest.raises(CheckpointError, match="GGUF has no sliding_window"):
        decoder(sliding_window=8).save_gguf(path)
    with pytest.raises(CheckpointError, match=r"has no q8_0, whose blocks have 32 numbers"):
        decoder(hidden_size=48).save_gguf(path, "q8_0")
    assert path.read_bytes() == b"no GGUF"
    writer = gguf.GGUFWriter(path, "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(CheckpointError, match="a model of 'mamba'; Decoder can be one of llama, qwen2, qwen3, gemma"):
        wy.nn.Decoder.from_gguf(path)
